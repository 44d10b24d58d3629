//! Under which addresses this host may be reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// As ssh's server saw its connection (`SSH_CONNECTION`, sshd(8)): the client's address and its own.
pub(crate) fn of_ssh(connection: Option<&str>) -> Option<(IpAddr, IpAddr)> {
    let mut words = connection?.split(' ');
    let client = parse(words.next()?)?;
    let server = parse(words.nth(1)?)?;
    Some((client, server))
}

/// Without the zone that a link-local address may have.
fn parse(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.split('%').next()?.parse().ok()?;
    Some(address.to_canonical())
}

/// Where this host is reached when nothing else is known: itself.
pub const HERE: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Stands for the address from which ssh came, which only its server knows.
pub(crate) const WHERE_SSH_CAME_FROM: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The address from which this host reaches `far`.
pub fn towards(far: IpAddr) -> Option<IpAddr> {
    let any: SocketAddr = if far.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    // Connecting a UDP socket sends nothing; it only asks for the route.
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect((far, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The addresses from which this host reaches the rest of the world.
pub fn own() -> Vec<IpAddr> {
    // Of the blocks for documentation (RFC 5737, RFC 3849): routed as any far address is, and nobody's.
    const FAR: [IpAddr; 2] =
        [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];
    FAR.into_iter().filter_map(towards).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_the_ssh_connection_are_read() {
        let pair = of_ssh(Some("192.0.2.1 50000 ::ffff:192.0.2.7 22")).unwrap();
        assert_eq!(pair, ("192.0.2.1".parse().unwrap(), "192.0.2.7".parse().unwrap()));
        assert_eq!(
            of_ssh(Some("fe80::1%eth0 1 fe80::2%eth0 22")).unwrap().1,
            "fe80::2".parse::<IpAddr>().unwrap()
        );
        for bad in ["", "x", "192.0.2.1", "192.0.2.1 5 x 22"] {
            assert_eq!(of_ssh(Some(bad)), None);
        }
    }
}
