//! May this user have sockets for whole frames, and for ICMP echo?

use std::io;

use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto, socket_with};
use weir_model::ability::Finding;

use super::read;
use weir_units::plain;

pub(super) fn packet() -> Finding {
    let origin = "socket(AF_PACKET, SOCK_RAW)";
    match open(AddressFamily::PACKET, SocketType::RAW, None) {
        Ok(()) => Finding::ok("allowed", origin),
        Err(why) => Finding::missing(why, origin),
    }
}

pub(super) fn echo() -> Finding {
    // In the order in which `weir bench host` tries them.
    let kind = |kind| open(AddressFamily::INET, kind, Some(ipproto::ICMP));
    match (kind(SocketType::DGRAM), kind(SocketType::RAW)) {
        (Ok(()), _) => {
            Finding::ok("a ping socket, for this user's group", "socket(SOCK_DGRAM, IPPROTO_ICMP)")
        }
        (Err(_), Ok(())) => Finding::ok("a raw socket", "socket(SOCK_RAW, IPPROTO_ICMP)"),
        (Err(ping), Err(raw)) => {
            let groups = read("/proc/sys/net/ipv4/ping_group_range").unwrap_or_default();
            let groups: Vec<&str> = groups.split_ascii_whitespace().collect();
            let reading = format!("ping socket: {ping}; raw socket: {raw}");
            Finding::missing(reading, format!("net.ipv4.ping_group_range is '{}'", groups.join(" ")))
        }
    }
}

fn open(family: AddressFamily, kind: SocketType, protocol: Option<Protocol>) -> Result<(), String> {
    let opened = socket_with(family, kind, SocketFlags::CLOEXEC, protocol);
    opened.map(drop).map_err(|cause| plain(&io::Error::from(cause)))
}
