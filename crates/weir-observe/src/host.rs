//! What does this host let weir do? A probe for each ability, in a table.
//!
//! A probe reads or tries the very thing that weir's other files use, changes nothing and leaves nothing
//! behind. It may wait for ever (a dead file server), and a sandbox may kill the process that tries a
//! forbidden system call: whoever runs probes bounds them in time, and runs those marked
//! [`apart`](Probe::apart) in a process of their own. What a missing ability costs is not said here.

mod descriptors;
mod folder;
mod groups;
mod io_uring;
mod machine;
mod processes;
mod settings;
mod sockets;
mod ssh;
mod tcp;
mod writeback;

use weir_model::ability::{Ability, Finding};

/// How one ability is found out.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Which.
    pub ability: Ability,
    /// It wants a process of its own: it changes the process that it runs in, or may be killed for trying.
    pub apart: bool,
    /// Finds out.
    pub find: fn() -> Finding,
}

/// The probes of this crate; `weir-lab` has those of namespaces and TUN devices.
pub const PROBES: [Probe; 19] = [
    within(Ability::TcpInfo, tcp::tcp_info),
    within(Ability::SocketDiag, tcp::socket_diag),
    within(Ability::OwnProcesses, processes::own),
    within(Ability::ForeignProcesses, processes::foreign),
    within(Ability::Ssh, ssh::client),
    within(Ability::Descriptors, descriptors::limit),
    within(Ability::Folder, folder::current),
    within(Ability::Writeback, writeback::limits),
    within(Ability::ControlGroups, groups::find),
    within(Ability::Sys, machine::sys),
    within(Ability::Clock, machine::clock),
    within(Ability::CpuFrequency, machine::frequency),
    within(Ability::SocketBuffers, settings::socket_buffers),
    within(Ability::CongestionControls, settings::congestion_controls),
    within(Ability::EchoSockets, sockets::echo),
    within(Ability::PacketSockets, sockets::packet),
    within(Ability::Pressure, machine::pressure),
    Probe { ability: Ability::IoUring, apart: true, find: io_uring::find },
    within(Ability::HugePages, machine::huge_pages),
];

/// A probe that may run on a thread of the asking process.
const fn within(ability: Ability, find: fn() -> Finding) -> Probe {
    Probe { ability, apart: false, find }
}

/// A short kernel file without its final newline; the reason, as words, where it cannot be read.
fn read(path: &str) -> Result<String, String> {
    crate::proc_file::read_once(path, |text| Ok(text.trim().to_owned())).map_err(|error| error.to_string())
}

/// `a, b and c`.
fn listed<T: AsRef<str>>(words: &[T]) -> String {
    match words {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ability_has_one_probe_and_words_list_well() {
        let mut known: Vec<Ability> = PROBES.iter().map(|probe| probe.ability).collect();
        known.extend([Ability::Namespaces, Ability::Tun]);
        known.sort();
        assert_eq!(known, Ability::ALL);
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
        assert_eq!((listed(&["a"]), listed::<&str>(&[])), ("a".into(), String::new()));
    }

    #[test]
    fn every_probe_says_what_it_read_and_where() {
        for probe in PROBES.iter().filter(|probe| !probe.apart) {
            let found = (probe.find)();
            assert!(!found.reading.is_empty() && !found.origin.is_empty(), "{}: {found:?}", probe.ability);
            assert!(!found.reading.contains('\n'), "{}: {found:?}", probe.ability);
        }
    }
}
