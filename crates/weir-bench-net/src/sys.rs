//! The system calls that no safe wrapper offers: many datagrams in one call, segmentation offload, a socket's
//! pacing, and the processor time of this program in its two parts.

use std::io;
use std::mem;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Messages of one call, at most. The kernel's own bound is 1024 (UIO_MAXIOV); beyond a few dozen the call
/// itself no longer costs anything beside its messages.
pub(crate) const BATCH: usize = 64;

/// A datagram, or a bundle of them that offload hands over as one, is no larger.
const LARGEST: usize = 65_536;

/// From include/uapi/linux/udp.h; the same on all architectures.
const SOL_UDP: libc::c_int = 17;
const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;

/// From include/uapi/linux/in6.h: the same on all architectures.
const IPV6_FLOWLABEL_MGR: libc::c_int = 32;
const IPV6_FLOWINFO_SEND: libc::c_int = 33;
/// Get a label, make it where there is none, share it with whoever asks.
const IPV6_FL_A_GET: u8 = 0;
const IPV6_FL_F_CREATE: u16 = 1;
const IPV6_FL_S_ANY: u8 = 255;

/// `struct in6_flowlabel_req`.
#[repr(C)]
struct FlowLabel {
    destination: [u8; 16],
    /// Big-endian.
    label: u32,
    action: u8,
    share: u8,
    flags: u16,
    expires: u16,
    linger: u16,
    pad: u32,
}

fn set<T>(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: T) -> io::Result<()> {
    // SAFETY: `fd` is open while it is borrowed; `value` lives on the stack for the call and has the length
    // that is told.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// From now on each message is cut into datagrams of `size` bytes by the kernel (Linux 4.18).
pub(crate) fn set_segment(fd: BorrowedFd<'_>, size: u16) -> io::Result<()> {
    set(fd, SOL_UDP, UDP_SEGMENT, libc::c_int::from(size))
}

/// From now on datagrams of one size and sender may come as one message (Linux 5.0).
pub(crate) fn set_bundles(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, SOL_UDP, UDP_GRO, 1 as libc::c_int)
}

/// The kernel sends no faster than so many bytes per second.
pub(crate) fn set_pacing(fd: BorrowedFd<'_>, rate: u64) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate)
}

/// A receiver sleeps until so many bytes are there, or its timeout is over.
pub(crate) fn set_low_mark(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX))
}

/// IP's type of service, or IPv6's traffic class.
pub(crate) fn set_service(fd: BorrowedFd<'_>, v6: bool, service: u8) -> io::Result<()> {
    let (level, name) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) };
    set(fd, level, name, libc::c_int::from(service))
}

/// Leases a flow label to `destination` and has it sent. Returns what the address to connect to must carry
/// (sin6_flowinfo).
pub(crate) fn set_flow_label(fd: BorrowedFd<'_>, destination: Ipv6Addr, label: u32) -> io::Result<u32> {
    let request = FlowLabel {
        destination: destination.octets(),
        label: label.to_be(),
        action: IPV6_FL_A_GET,
        share: IPV6_FL_S_ANY,
        flags: IPV6_FL_F_CREATE,
        expires: 0,
        linger: 0,
        pad: 0,
    };
    set(fd, libc::IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, request)?;
    set(fd, libc::IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1 as libc::c_int)?;
    Ok(label.to_be())
}

/// Sends `data` on a connected socket, `size` bytes a message, as many as one call takes. Returns the
/// messages sent.
pub(crate) fn send_many(fd: BorrowedFd<'_>, data: &[u8], size: usize) -> io::Result<usize> {
    // SAFETY: all-zero bytes are a valid `iovec` and a valid `mmsghdr` (null pointers and zero lengths).
    let (mut parts, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let mut count: libc::c_uint = 0;
    for ((chunk, part), message) in data.chunks(size.max(1)).zip(&mut parts).zip(&mut messages) {
        // The kernel only reads from what sendmmsg's vectors name.
        *part = libc::iovec { iov_base: chunk.as_ptr().cast_mut().cast(), iov_len: chunk.len() };
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // The system call itself: musl's sendmmsg is a loop of sendmsg, to clear padding that is clear here.
    // SAFETY: `messages` holds `count` headers, each with one vector of `parts` that lies within `data`; all
    // of them outlive the call.
    let sent =
        unsafe { libc::syscall(libc::SYS_sendmmsg, fd.as_raw_fd(), messages.as_mut_ptr(), count, 0_u32) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Room for what comes in one call.
pub(crate) struct Inbox {
    room: Vec<u8>,
    /// Length of each message, and of each datagram in it.
    lengths: Vec<(usize, usize)>,
}

/// Of recvmmsg: half of what is sent at once, each with room for a whole bundle: 2 MiB, of which only what is
/// used is ever backed by memory.
const INBOX: usize = 32;

/// A control message with one number takes 24 bytes; aligned as `cmsghdr` asks.
#[repr(align(8))]
#[derive(Clone, Copy)]
struct Side([u8; 64]);

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox { room: vec![0; INBOX * LARGEST], lengths: Vec::with_capacity(INBOX) }
    }

    /// Waits for one message as long as the socket's timeout says, then takes what else is there.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.lengths.clear();
        let mut sides = [Side([0; 64]); INBOX];
        // SAFETY: all-zero bytes are a valid `iovec` and a valid `mmsghdr` (null pointers and zero lengths).
        let (mut parts, mut messages): ([libc::iovec; INBOX], [libc::mmsghdr; INBOX]) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        for (((chunk, part), message), side) in
            self.room.chunks_mut(LARGEST).zip(&mut parts).zip(&mut messages).zip(&mut sides)
        {
            *part = libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: chunk.len() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = side.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = side.0.len() as _;
        }
        // SAFETY: `messages` holds INBOX headers, each with one vector over its own part of `room` and one
        // side buffer of its own; all of them outlive the call. A null timeout is allowed.
        let count = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                messages.as_mut_ptr(),
                INBOX as libc::c_uint,
                libc::MSG_WAITFORONE as _,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for message in &messages[..count.min(INBOX)] {
            let length = (message.msg_len as usize).min(LARGEST);
            // SAFETY: the kernel filled this header and its side buffer, which is alive.
            let segment = unsafe { bundle_size(&message.msg_hdr) };
            self.lengths.push((length, segment.unwrap_or(length)));
        }
        Ok(())
    }

    /// Messages of the last call.
    pub(crate) fn messages(&self) -> usize {
        self.lengths.len()
    }

    /// There may be more where these came from.
    pub(crate) fn is_full(&self) -> bool {
        self.lengths.len() == INBOX
    }

    /// The datagrams of the last call, in the order in which they came.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.room.chunks(LARGEST).zip(&self.lengths).flat_map(|(room, (length, segment))| {
            // An empty datagram is one too, though it has no chunk.
            let whole = &room[..*length];
            let empty = (*length == 0).then_some(whole);
            whole.chunks((*segment).max(1)).chain(empty)
        })
    }
}

/// The size of the datagrams that a message bundles, if it bundles any.
///
/// # Safety
///
/// `header` must have come from a receiving call that succeeded, and its side buffer must be alive.
unsafe fn bundle_size(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the macros walk the side buffer within `msg_controllen`, as the kernel left it.
    unsafe {
        let mut part = libc::CMSG_FIRSTHDR(header);
        while let Some(cmsg) = part.as_ref() {
            if (cmsg.cmsg_level, cmsg.cmsg_type) == (SOL_UDP, UDP_GRO) {
                let number = libc::CMSG_DATA(part).cast::<libc::c_int>().read_unaligned();
                return usize::try_from(number).ok().filter(|size| *size > 0);
            }
            part = libc::CMSG_NXTHDR(header, part);
        }
    }
    None
}

/// Processor time of this whole program: its own, and the kernel's on its behalf.
pub(crate) fn process_times() -> (Duration, Duration) {
    // SAFETY: all-zero bytes are a valid `rusage`, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let span = |time: libc::timeval| {
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_usec.unsigned_abs() as u32 * 1000)
    };
    (span(usage.ru_utime), span(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn pair() -> (UdpSocket, UdpSocket) {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        other.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (one, other)
    }

    fn taken(socket: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
        let (mut inbox, mut got) = (Inbox::new(), Vec::new());
        while got.len() < count {
            inbox.receive(socket.as_fd()).unwrap();
            got.extend(inbox.datagrams().map(<[u8]>::to_vec));
        }
        got
    }

    #[test]
    fn many_datagrams_go_in_one_call_and_come_as_they_were() {
        let (one, other) = pair();
        let data: Vec<u8> = (0..10_u8).flat_map(|number| [number; 64]).collect();
        assert_eq!(send_many(one.as_fd(), &data, 64).unwrap(), 10);
        let got = taken(&other, 10);
        assert!(got.iter().zip(0..).all(|(datagram, number)| *datagram == [number; 64]), "{got:?}");
    }

    #[test]
    fn a_bundle_is_cut_where_it_was_joined() {
        let (one, other) = pair();
        if set_segment(one.as_fd(), 100).is_err() || set_bundles(other.as_fd()).is_err() {
            return; // a kernel without offload
        }
        let data: Vec<u8> = (0..20_u8).flat_map(|number| [number; 100]).chain([99; 30]).collect();
        assert_eq!(send_many(one.as_fd(), &data, data.len()).unwrap(), 1);
        let got = taken(&other, 21);
        assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [vec![100; 20], vec![30]].concat());
        assert_eq!(got[19], [19; 100]);
    }

    #[test]
    fn an_empty_datagram_is_one() {
        let (one, other) = pair();
        one.send(&[]).unwrap();
        assert_eq!(taken(&other, 1), [Vec::<u8>::new()]);
    }

    #[test]
    fn nothing_comes_of_nothing() {
        let (_one, other) = pair();
        other.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let refused = Inbox::new().receive(other.as_fd()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let (user, system) = process_times();
        assert!(user + system > Duration::ZERO);
    }
}
