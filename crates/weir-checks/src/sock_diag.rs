//! What the kernel says of a socket, and what it prints of processes: no bytes may make weir fail.

use weir_observe::flow::FlowProbe;
use weir_observe::{cgroup, net_counters, nic, process, sock_diag, udp, unix_sockets, waiting};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let socket = sock_diag::parse(bytes);
    if let Some(socket) = &socket {
        let mut flow = FlowProbe::from_its_start();
        flow.look(socket);
        let seen = flow.interval();
        assert!((0.0..=1.0).contains(&seen.waiting));
        let quick = sock_diag::parse_quick(bytes);
        assert_eq!(quick.map(|quick| quick.id), Some(socket.id));
    }
    let _ = unix_sockets::parse(bytes);
    let _ = (nic::parse_route(bytes), nic::parse_interface(bytes), nic::parse_queue(bytes, 1));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = (process::parse(text), process::parse_descriptor(text), cgroup::parse(text));
        let _ = (udp::parse(text), net_counters::parse(text, "Tcp:", "AttemptFails"));
        let _ = (nic::softnet::parse(text), process::parse_written(text));
        let _ =
            (cgroup::parse_membership(text, "memory"), waiting::parse_call(text), waiting::parse_state(text));
    }
    socket.is_some()
}
