//! What a host lets weir do: one finding for each ability, and which commands cannot work without it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Something that a host allows or not, in the order in which reports list them: first what moving and
/// explaining need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ability {
    /// TCP sockets that tell of their connection.
    TcpInfo,
    /// The sockets of other programs (INET_DIAG), and word of their end.
    SocketDiag,
    /// What the kernel tells of this user's own processes and threads.
    OwnProcesses,
    /// The same of other users'.
    ForeignProcesses,
    /// An ssh client.
    Ssh,
    /// How many files and sockets may be open.
    Descriptors,
    /// What the file system of the current folder can do.
    Folder,
    /// The page cache's limits, the machine's and the device's own.
    Writeback,
    /// Control groups: quotas that hold weir, and groups that the lab makes.
    ControlGroups,
    /// `/sys`.
    Sys,
    /// How dear a look at the clock is.
    Clock,
    /// The processors' frequency.
    CpuFrequency,
    /// Where TCP's buffers end.
    SocketBuffers,
    /// Which congestion controls may be chosen.
    CongestionControls,
    /// User and network namespaces.
    Namespaces,
    /// TUN devices.
    Tun,
    /// Sockets for ICMP echo.
    EchoSockets,
    /// Sockets for whole frames.
    PacketSockets,
    /// Pressure stall information.
    Pressure,
    /// io_uring.
    IoUring,
    /// Huge pages.
    HugePages,
}

impl Ability {
    /// Every one, in order.
    pub const ALL: [Ability; 21] = [
        Ability::TcpInfo,
        Ability::SocketDiag,
        Ability::OwnProcesses,
        Ability::ForeignProcesses,
        Ability::Ssh,
        Ability::Descriptors,
        Ability::Folder,
        Ability::Writeback,
        Ability::ControlGroups,
        Ability::Sys,
        Ability::Clock,
        Ability::CpuFrequency,
        Ability::SocketBuffers,
        Ability::CongestionControls,
        Ability::Namespaces,
        Ability::Tun,
        Ability::EchoSockets,
        Ability::PacketSockets,
        Ability::Pressure,
        Ability::IoUring,
        Ability::HugePages,
    ];

    /// The name in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Ability::TcpInfo => "tcp-info",
            Ability::SocketDiag => "socket-diag",
            Ability::OwnProcesses => "own-processes",
            Ability::ForeignProcesses => "foreign-processes",
            Ability::Ssh => "ssh",
            Ability::Descriptors => "descriptors",
            Ability::Folder => "folder",
            Ability::Writeback => "writeback",
            Ability::ControlGroups => "control-groups",
            Ability::Sys => "sys",
            Ability::Clock => "clock",
            Ability::CpuFrequency => "cpu-frequency",
            Ability::SocketBuffers => "socket-buffers",
            Ability::CongestionControls => "congestion-controls",
            Ability::Namespaces => "namespaces",
            Ability::Tun => "tun",
            Ability::EchoSockets => "echo-sockets",
            Ability::PacketSockets => "packet-sockets",
            Ability::Pressure => "pressure",
            Ability::IoUring => "io-uring",
            Ability::HugePages => "huge-pages",
        }
    }

    /// Which of `get`, `cp` and `why` cannot do their work where it is missing. What they lose where they
    /// still work (a part of a verdict) does not count.
    pub fn needed_by(self) -> &'static [&'static str] {
        match self {
            Ability::TcpInfo | Ability::OwnProcesses => &["get", "cp", "why"],
            Ability::Descriptors => &["get", "cp"],
            Ability::SocketDiag => &["why"],
            Ability::Ssh => &["cp"],
            _ => &[],
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Ability {
    type Err = String;

    fn from_str(text: &str) -> Result<Ability, String> {
        let found = Ability::ALL.into_iter().find(|ability| ability.name() == text);
        found.ok_or_else(|| format!("no ability is called '{text}'"))
    }
}

/// How far an ability goes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AbilityState {
    /// As far as weir can use it.
    Ok,
    /// A part of it.
    Limited,
    /// Not at all.
    Missing,
}

impl AbilityState {
    /// The name in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            AbilityState::Ok => "ok",
            AbilityState::Limited => "limited",
            AbilityState::Missing => "missing",
        }
    }
}

/// What was found out about one ability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How far it goes.
    pub state: AbilityState,
    /// What was read or happened, in words.
    pub reading: String,
    /// Where from: a file, a system call.
    pub origin: String,
    /// What would bring more, where the probe knows the very reason.
    pub way_out: Option<String>,
}

impl Finding {
    /// All of it is there.
    pub fn ok(reading: impl Into<String>, origin: impl Into<String>) -> Finding {
        Finding { state: AbilityState::Ok, reading: reading.into(), origin: origin.into(), way_out: None }
    }

    /// A part of it is there.
    pub fn limited(reading: impl Into<String>, origin: impl Into<String>) -> Finding {
        Finding { state: AbilityState::Limited, ..Finding::ok(reading, origin) }
    }

    /// It is not there.
    pub fn missing(reading: impl Into<String>, origin: impl Into<String>) -> Finding {
        Finding { state: AbilityState::Missing, ..Finding::ok(reading, origin) }
    }

    /// With what would bring more.
    pub fn with_way_out(self, way_out: impl Into<String>) -> Finding {
        Finding { way_out: Some(way_out.into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json_and_lead_back() {
        for (place, ability) in Ability::ALL.into_iter().enumerate() {
            assert_eq!(serde_json::to_value(ability).unwrap(), ability.name());
            assert_eq!(ability.name().parse(), Ok(ability));
            assert_eq!(ability as usize, place, "{ability} is listed at its place");
        }
        assert!("tea".parse::<Ability>().is_err());
    }
}
