//! What became of datagrams that a socket sent: the queue behind IP_RECVERR (ip(7),
//! include/uapi/linux/errqueue.h).
#![allow(unsafe_code, reason = "recvmsg with these control messages has no safe wrapper")]

use std::io;
use std::mem::{size_of, size_of_val};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

/// Bytes of the datagram that are handed back, at most: enough for what a probe begins with.
const QUOTED: usize = 64;

/// Room for control messages, in words: a `cmsghdr`, a `sock_extended_err` and a `sockaddr_in6` take 8 of
/// them.
const CONTROL: usize = 32;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// This end's kernel.
    Here,
    /// A router or the host, by ICMP.
    Network {
        /// Of the ICMP message.
        kind: u8,
        /// Of the ICMP message.
        code: u8,
    },
}

/// One notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    /// The number that a system call would have failed with.
    pub(super) errno: i32,
    pub(super) origin: Origin,
    /// The MTU, where the datagram was too large and somebody said for what.
    pub(super) mtu: Option<u32>,
    /// Who says so.
    pub(super) by: Option<IpAddr>,
    /// The beginning of the datagram's payload, as far as it was quoted.
    pub(super) quoted: Vec<u8>,
}

/// The next notice; `None` when there is none.
pub(super) fn take(fd: impl AsFd) -> io::Result<Option<Notice>> {
    let (mut bytes, mut control) = ([0_u8; QUOTED], [0_u64; CONTROL]);
    let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: a C struct of integers and pointers, for which zeros are valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut piece, 1);
    (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the descriptor is open while it is borrowed; the header points at one piece and at control
    // room, both of the lengths given, and both outlive the call.
    let length = unsafe { libc::recvmsg(fd.as_fd().as_raw_fd(), &raw mut header, flags) };
    let Ok(length) = usize::try_from(length) else {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    };
    let told: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).collect();
    // Its type is the C library's own.
    let filled: usize = header.msg_controllen as _;
    let told = &told[..filled.min(told.len())];
    Ok(parse(told).map(|notice| Notice { quoted: bytes[..length.min(QUOTED)].to_vec(), ..notice }))
}

/// The first control message of the right kind, without what was quoted.
fn parse(mut control: &[u8]) -> Option<Notice> {
    const HEAD: usize = size_of::<libc::cmsghdr>();
    loop {
        let length = usize::from_ne_bytes(control.first_chunk().copied()?);
        let data = control.get(HEAD..length)?;
        match (int(control, 8)?, int(control, 12)?) {
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => return extended(data),
            _ => control = control.get(length.next_multiple_of(size_of::<usize>())..)?,
        }
    }
}

/// `struct sock_extended_err`, and the address behind it.
fn extended(data: &[u8]) -> Option<Notice> {
    const LENGTH: usize = 16;
    const ICMP: u8 = 2;
    const ICMP6: u8 = 3;
    let (errno, [origin, kind, code]) = (int(data, 0)?, data.get(4..7)?.try_into().ok()?);
    let mtu = (errno == libc::EMSGSIZE).then(|| int(data, 8)).flatten();
    let origin = match origin {
        ICMP | ICMP6 => Origin::Network { kind, code },
        _ => Origin::Here,
    };
    let mtu = mtu.and_then(|mtu| u32::try_from(mtu).ok()).filter(|mtu| *mtu > 0);
    Some(Notice { errno, origin, mtu, by: data.get(LENGTH..).and_then(address), quoted: Vec::new() })
}

/// Of a `sockaddr_in` or `sockaddr_in6`.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    match i32::from(u16::from_ne_bytes(*bytes.first_chunk()?)) {
        libc::AF_INET => Some(Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (16 + data.len()).to_ne_bytes().to_vec();
        bytes.extend([level, kind].map(i32::to_ne_bytes).concat());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn a_routers_word_behind_another_message() {
        let mut data = libc::EMSGSIZE.to_ne_bytes().to_vec();
        data.extend([2, 3, 4, 0]);
        data.extend([1400_u32, 0].map(u32::to_ne_bytes).concat());
        data.extend([&2_u16.to_ne_bytes()[..], &[0, 0, 10, 0, 0, 1], &[0; 8]].concat());
        let mut control = message(libc::SOL_SOCKET, 29, &[0; 12]);
        control.extend(message(libc::SOL_IP, libc::IP_RECVERR, &data));
        let expected = Notice {
            errno: libc::EMSGSIZE,
            origin: Origin::Network { kind: 3, code: 4 },
            mtu: Some(1400),
            by: Some([10, 0, 0, 1].into()),
            quoted: Vec::new(),
        };
        assert_eq!(parse(&control), Some(expected));
        assert_eq!(parse(&control[..40]), None);
        assert_eq!(parse(&[]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0..2_i32) {
            let _ = parse(&bytes);
            let _ = parse(&message(libc::SOL_IP, libc::IP_RECVERR * kind, &bytes));
        }
    }
}
