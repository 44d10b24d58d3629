//! Which UDP sockets does a process's network namespace have, and with whom do they talk?
//!
//! `/proc/PID/net/udp` and `udp6` (udp4_format_sock in net/ipv4/udp.c) show them to whoever may look at the
//! process. Asked only where a program is found with sockets that are none of TCP's: the kernel walks its
//! whole table for it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::error::{Malformed, ObserveError};
use crate::proc_file::read_once;
use crate::process::Pid;

/// One UDP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpSocket {
    /// The peer it is connected to; port 0 where it is connected to none.
    pub remote: SocketAddr,
    /// Bytes that wait to be read, their packets' overhead included.
    pub receive_queue: u64,
    /// The number in `/proc/PID/fd` (`socket:[INODE]`).
    pub inode: u32,
}

/// More sockets than these are not looked through: a name server's or a game server's, none that waits for
/// one answer.
const MOST: usize = 65_536;

/// All of the process's namespace, IPv4 and IPv6.
pub fn read(pid: Pid) -> Result<Vec<UdpSocket>, ObserveError> {
    let mut found = read_once(&format!("/proc/{pid}/net/udp"), parse)?;
    // A machine without IPv6 has no such file.
    found.extend(read_once(&format!("/proc/{pid}/net/udp6"), parse).unwrap_or_default());
    Ok(found)
}

/// Lines of `sl local rem st tx:rx tr:when retrnsmt uid timeout inode ...` below a head. A line that is none
/// is passed over.
pub fn parse(text: &str) -> Result<Vec<UdpSocket>, Malformed> {
    if !text.trim_start().starts_with("sl ") {
        return Err(Malformed("no head of a table of sockets".to_owned()));
    }
    Ok(text.lines().skip(1).take(MOST).filter_map(parse_line).collect())
}

fn parse_line(line: &str) -> Option<UdpSocket> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let remote = parse_address(words.next()?)?;
    let (_, queue) = words.nth(1)?.split_once(':')?;
    let receive_queue = u64::from_str_radix(queue, 16).ok()?;
    let inode = words.nth(4)?.parse().ok()?;
    Some(UdpSocket { remote, receive_queue, inode })
}

/// `0100007F:0035`: the address's words as this machine's numbers, the port as a number.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word =
        |at: usize| Some(u32::from_str_radix(address.get(8 * at..8 * at + 8)?, 16).ok()?.to_ne_bytes());
    let address = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut whole = [0; 16];
            for at in 0..4 {
                whole[4 * at..4 * at + 4].copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(whole).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURED: &str = include_str!("../tests/data/6.18/udp");
    const CAPTURED6: &str = include_str!("../tests/data/6.18/udp6");

    #[cfg(target_endian = "little")]
    #[test]
    fn captured_sockets_are_told_with_their_peers() {
        let found = parse(CAPTURED).unwrap();
        let resolver: SocketAddr = "127.0.0.1:53".parse().unwrap();
        let waiting = found.iter().find(|socket| socket.remote == resolver).unwrap();
        assert!(waiting.inode > 0 && waiting.receive_queue == 0, "{waiting:?}");
        assert!(
            found.iter().any(|socket| socket.remote.port() == 0 && socket.receive_queue > 0),
            "{found:?}"
        );
        let found = parse(CAPTURED6).unwrap();
        assert!(found.iter().any(|socket| socket.remote == "[::1]:53".parse().unwrap()), "{found:?}");
    }

    #[test]
    fn every_cut_is_read_as_far_as_it_goes() {
        for length in 0..CAPTURED.len() {
            let _ = parse(&CAPTURED[..length]);
        }
        assert!(parse("").is_err());
        assert_eq!(parse("  sl  local\n 1: zz\n 2: 00:1 0:1 x\n"), Ok(Vec::new()));
    }

    #[test]
    fn a_socket_of_this_process_is_found() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect("127.0.0.1:9").unwrap();
        let own = Pid(std::process::id());
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket) as u32;
        let inode = crate::process::descriptors(own).unwrap().sockets[&fd];
        let found = read(own).unwrap();
        let one = found.iter().find(|socket| socket.inode == inode).unwrap();
        assert_eq!(one.remote, "127.0.0.1:9".parse().unwrap());
    }
}
