//! The words of each ability: what it is for, what its lack costs which command, and what helps.

use weir_model::ability::Ability;

/// One ability's.
pub(super) struct Words {
    /// What it is for.
    pub(super) about: &'static str,
    /// What is lost where a part of it is missing.
    pub(super) limited: &'static [&'static str],
    /// What is lost where all of it is.
    pub(super) missing: &'static [&'static str],
    /// What helps, where the probe knows nothing nearer.
    pub(super) way_out: &'static str,
}

/// What only makes weir know less says what is then not known.
pub(super) fn of(ability: Ability) -> Words {
    match ability {
        Ability::TcpInfo => TCP_INFO,
        Ability::SocketDiag => SOCKET_DIAG,
        Ability::OwnProcesses => OWN_PROCESSES,
        Ability::ForeignProcesses => FOREIGN_PROCESSES,
        Ability::Ssh => SSH,
        Ability::Descriptors => DESCRIPTORS,
        Ability::Folder => FOLDER,
        Ability::Writeback => WRITEBACK,
        Ability::ControlGroups => CONTROL_GROUPS,
        Ability::Sys => SYS,
        Ability::Clock => CLOCK,
        Ability::CpuFrequency => CPU_FREQUENCY,
        Ability::SocketBuffers => SOCKET_BUFFERS,
        Ability::CongestionControls => CONGESTION_CONTROLS,
        Ability::Namespaces => NAMESPACES,
        Ability::Tun => TUN,
        Ability::EchoSockets => ECHO_SOCKETS,
        Ability::PacketSockets => PACKET_SOCKETS,
        // No command reads or uses these: listed because people ask, and for reports of what a host is like.
        Ability::Pressure => unused(
            "how long tasks of this machine waited for processors, disks and memory; weir looks at its own threads instead",
        ),
        Ability::IoUring => {
            unused("weir uses blocking calls and epoll instead (docs/decisions/0007-level-edge-uring.md)")
        }
        Ability::HugePages => unused("weir's buffers do not ask for them"),
    }
}

fn unused(about: &'static str) -> Words {
    Words { about, limited: &[], missing: &[], way_out: "" }
}

const TCP_INFO: Words = Words {
    about: "the sockets of weir get, cp and bench report on their connections: the evidence of most verdicts",
    limited: &["weir get, cp, why and bench net see less: more verdicts say sender-or-path"],
    missing: &["weir get, cp and why have no TCP"],
    way_out: "a newer kernel, or a sandbox that passes TCP_INFO on",
};

const SOCKET_DIAG: Words = Words {
    about: "weir why finds and watches the connections of other programs",
    limited: &["weir why misses connections that end between two samples (20 ms)"],
    missing: &["weir why finds no connections"],
    way_out: "a kernel with CONFIG_INET_DIAG (as root: modprobe tcp_diag), or a sandbox that allows netlink",
};

const OWN_PROCESSES: Words = Words {
    about: "where the time of weir's own threads goes, and of those that weir why starts: processor, disk, sleep",
    limited: &[
        "weir get, cp and why see less: verdicts on cpu-core, disk and dirty-throttle are weaker or missing",
    ],
    missing: &[
        "weir get, cp and why cannot see any thread, nor weir cp and weir lab their own program's file",
    ],
    way_out: "a kernel or a sandbox that shows these files",
};

const FOREIGN_PROCESSES: Words = Words {
    about: "weir why says which thread and file of another user's program hold it up",
    limited: &["weir why --pid refuses other users' programs; --port and --peer judge them by their sockets"],
    missing: &["weir why --pid does not find other users' programs (--port and --peer do)"],
    way_out: "run weir why as that user, or as root: sudo weir why ...",
};

const SSH: Words = Words {
    about: "weir cp starts its remote end with ssh",
    limited: &[],
    missing: &["weir cp reaches no other host"],
    way_out: "install it (Debian: apt install openssh-client), or put its folder into PATH",
};

const DESCRIPTORS: Words = Words {
    about: "a descriptor for each connection and open file",
    limited: &["weir bench http and bench host hold fewer connections; weir cp keeps fewer folders open"],
    missing: &["weir get and cp fail with many connections or files (too many open files)"],
    way_out: "allow more: LimitNOFILE= of a service, nofile in /etc/security/limits.conf, --ulimit nofile= of a container",
};

const FOLDER: Words = Words {
    about: "what is downloaded into the current folder is written whole or not at all, holes stay holes, disks can be measured",
    limited: &[
        "weir get and cp into it: small files take a rename more, or holes take room; where it cannot be written, nothing arrives",
        "weir plan SRC HOST:DST with such a target: its disk is not measured",
    ],
    missing: &[],
    way_out: "another folder: weir get -o DIR/ URL",
};

const WRITEBACK: Words = Words {
    about: "weir sees when writers are paced to the disk, by the machine's limit or the device's",
    limited: &[
        "weir get, cp and why do not see a device's own limit: such pacing is found by the writer's sleep alone",
    ],
    missing: &[
        "weir get, cp and why find dirty-throttle by the writer's sleep alone, and cannot say at which limit",
    ],
    way_out: "a sandbox with /proc/vmstat and /sys; a device's own limit is told since Linux 6.2",
};

const CONTROL_GROUPS: Words = Words {
    about: "weir sees a quota that holds it; the lab makes slow disks and slow cores by groups of its own",
    limited: &[
        "weir lab run skips scenarios with a slow disk or a processor quota; weir demo disk is skipped",
    ],
    missing: &[
        "weir get, cp and why do not see a processor quota that holds them",
        "weir lab run skips scenarios with a slow disk or a processor quota; weir demo disk is skipped",
    ],
    way_out: "run the lab as root on the host itself: sudo weir lab run ...",
};

const SYS: Words = Words {
    about: "the speed of a network card, a device's writeback limit, control groups, clock source and frequency are told there",
    limited: &[],
    missing: &[
        "weir get, cp, why and bench do not know a link's rate; whatever else reads /sys says so in its own row",
    ],
    way_out: "mount it (as root: mount -t sysfs sysfs /sys), or give it to the container",
};

const CLOCK: Words = Words {
    about: "each look, each paced packet and each latency takes readings of the clock",
    limited: &[
        "weir bench http, net and pps, and weir lab spend processor time on the clock: high rates are lower",
    ],
    missing: &[],
    way_out: "another source, as root: echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
};

const CPU_FREQUENCY: Words = Words {
    about: "figures of weir bench hold for the frequency at which they were taken",
    limited: &["weir bench codec, cipher and pps: short runs may be slower than long ones"],
    missing: &[
        "weir bench: cannot see whether the frequency changed meanwhile (a virtual machine's is its host's)",
    ],
    way_out: "repeat measurements and compare; on the hardware itself, load its cpufreq driver",
};

const SOCKET_BUFFERS: Words = Words {
    about: "a connection carries at most a buffer's worth in a round trip",
    limited: &[
        "weir get, cp and bench net over long paths: each connection is held by its buffer, and more of them are needed",
    ],
    missing: &["weir get, cp and plan cannot say whether these limits hold a connection"],
    way_out: "as root: sysctl -w net.ipv4.tcp_rmem='4096 131072 33554432' net.ipv4.tcp_wmem='4096 16384 33554432'",
};

const CONGESTION_CONTROLS: Words = Words {
    about: "weir lab --cc and weir bench net -C choose how a sender reacts to loss and delay",
    limited: &[
        "weir lab shell --cc, lab scenarios and weir bench net -C cannot have all of reno, cubic and bbr",
    ],
    missing: &["weir lab shell --cc and weir bench net -C cannot choose"],
    way_out: "as root: modprobe -a tcp_bbr tcp_cubic; sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic bbr'",
};

const NAMESPACES: Words = Words {
    about: "weir lab emulates a path between two network namespaces",
    limited: &["weir lab works, but slow disks, slow cores by quota and --ssh are for root"],
    missing: &[
        "weir lab cannot emulate a path (lab list and lab show work); weir demo skips the scenes on such paths",
    ],
    way_out: "run it as root: sudo weir lab ...",
};

const TUN: Words = Words {
    about: "weir lab's emulated link ends in a TUN device on each side",
    limited: &[],
    missing: &[
        "weir lab cannot emulate a path (lab list and lab show work); weir demo skips the scenes on such paths",
    ],
    way_out: "load its driver as root: modprobe tun; give a container the device: --device /dev/net/tun",
};

const ECHO_SOCKETS: Words = Words {
    about: "weir bench host sends ICMP echoes, as ping does",
    limited: &[],
    missing: &["weir bench host measures no rtt-echo, no loss, and the path MTU by UDP alone"],
    way_out: "as root: sysctl -w net.ipv4.ping_group_range='0 2147483647', or run it as root",
};

const PACKET_SOCKETS: Words = Words {
    about: "weir bench pps --via packet sends whole Ethernet frames",
    limited: &[],
    missing: &["weir bench pps --via packet cannot send"],
    way_out: "--via udp, or run it as root (sudo weir bench pps ...)",
};
