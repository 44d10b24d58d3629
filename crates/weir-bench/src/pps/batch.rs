//! Many packets a system call: sendmmsg and recvmmsg, and UDP's segmentation and joining (UDP_SEGMENT,
//! UDP_GRO; udp(7)).
//!
//! A batch owns its buffers and the headers that point into them, both on the heap and never moved or resized
//! once made.
#![allow(unsafe_code, reason = "recvmmsg with control messages and UDP's options have no safe wrapper")]

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use crate::option::set_int;

/// Packets that one send may be cut into (UDP_MAX_SEGMENTS, include/linux/udp.h: 64 until 6.9, 128 since).
const SEGMENTS: usize = 64;

/// The longest UDP payload over IPv4.
const LONGEST: usize = 65_507;

/// Messages a system call. Of single packets 64: a system call then costs each about 1 % of what the stack
/// does for it. Of joined ones fewer, since each may be 64 KiB.
const MESSAGES: usize = 64;
const JOINED_MESSAGES: usize = 16;

/// Room for one control message with an `int`, aligned as `cmsghdr` is.
const CONTROL: usize = 8;

/// Each send is cut into packets of so many bytes, the last may be shorter.
pub(super) fn set_segment(fd: impl AsFd, payload: usize) -> io::Result<()> {
    set_int(fd, libc::SOL_UDP, libc::UDP_SEGMENT, payload as libc::c_int)
}

/// Packets of one sender may be handed over joined.
pub(super) fn set_joining(fd: impl AsFd) -> io::Result<()> {
    set_int(fd, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// The receive buffer: past `net.core.rmem_max` where this process may (CAP_NET_ADMIN), else as far as it
/// goes. What it became is the socket's to say.
pub(super) fn set_buffer(fd: impl AsFd, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    if set_int(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).is_err() {
        let _ = set_int(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes);
    }
}

/// Messages that this socket's full receive buffer cost, since it was made (SO_MEMINFO;
/// include/uapi/linux/sock_diag.h). Joined packets count as one.
pub(super) fn drops(fd: impl AsFd) -> io::Result<u64> {
    /// SK_MEMINFO_VARS, and the place of SK_MEMINFO_DROPS among them.
    const NUMBERS: usize = 9;
    const DROPS: usize = 8;
    let mut numbers = [0_u32; NUMBERS];
    let mut length = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `length` bytes, which
    // `numbers` has.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if rc == 0 { Ok(numbers[DROPS].into()) } else { Err(io::Error::last_os_error()) }
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: a C struct of integers and pointers, for which zeros are valid: no address, no buffers, no
    // control data.
    unsafe { std::mem::zeroed() }
}

/// Packets to be sent.
pub(super) struct Sending {
    bytes: Vec<u8>,
    /// Held for the headers' pointers alone.
    #[allow(dead_code, reason = "the headers point at them")]
    pieces: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    payload: usize,
    segments: usize,
}

impl Sending {
    /// Packets of `payload` bytes; `joined`: each message holds as many as the kernel may cut it into.
    pub(super) fn new(payload: usize, joined: bool) -> Sending {
        let segments = if joined { SEGMENTS.min(LONGEST / payload) } else { 1 };
        let messages = if joined { JOINED_MESSAGES } else { MESSAGES };
        let mut bytes = vec![0; messages * segments * payload];
        let mut pieces: Vec<libc::iovec> = bytes
            .chunks_exact_mut(segments * payload)
            .map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: chunk.len() })
            .collect();
        let headers = pieces.iter_mut().map(|piece| {
            let mut header = empty_header();
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            header
        });
        let headers = headers.collect();
        Sending { bytes, pieces, headers, payload, segments }
    }

    /// Packets a batch holds at most.
    pub(super) fn most(&self) -> usize {
        self.headers.len() * self.segments
    }

    /// The first `count` packets, to be filled.
    pub(super) fn packets(&mut self, count: usize) -> impl Iterator<Item = &mut [u8]> {
        self.bytes.chunks_exact_mut(self.payload).take(count)
    }

    /// Sends packets `from..count` of the batch, `from` being what earlier sends of it took. Returns how many
    /// of them left, whole messages; fewer than all only where the socket took no more.
    pub(super) fn send(&mut self, fd: impl AsFd, from: usize, count: usize) -> io::Result<usize> {
        let (first, last) = (from / self.segments, count.div_ceil(self.segments));
        for (index, header) in self.headers[first..last].iter_mut().enumerate() {
            let packets = (count - (first + index) * self.segments).min(self.segments);
            // SAFETY: the header points at this batch's own piece, which lives as long as the batch and is
            // not borrowed now.
            unsafe { (*header.msg_hdr.msg_iov).iov_len = packets * self.payload };
        }
        let fd = fd.as_fd().as_raw_fd();
        let headers = &mut self.headers[first..last];
        let messages = headers.len() as libc::c_uint;
        // The system call itself: musl's sendmmsg is a loop of sendmsg, to clear padding that is clear here.
        // SAFETY: each header points at one piece, each piece at `iov_len` bytes of `bytes`, which is not
        // borrowed now; there is no address and no control data.
        let rc = unsafe { libc::syscall(libc::SYS_sendmmsg, fd, headers.as_mut_ptr(), messages, 0_u32) };
        match usize::try_from(rc) {
            Ok(messages) => Ok((messages * self.segments).min(count - from)),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

/// Room for packets to come.
pub(super) struct Receiving {
    bytes: Vec<u8>,
    stride: usize,
    #[allow(dead_code, reason = "the headers point at them")]
    pieces: Vec<libc::iovec>,
    controls: Vec<[u64; CONTROL]>,
    headers: Vec<libc::mmsghdr>,
}

impl Receiving {
    /// For packets of up to `longest` bytes each, or joined ones.
    pub(super) fn new(longest: usize, joined: bool) -> Receiving {
        let (messages, stride) = if joined { (JOINED_MESSAGES, 65_536) } else { (MESSAGES, longest) };
        let mut bytes = vec![0; messages * stride];
        let mut controls = vec![[0; CONTROL]; messages];
        let mut pieces: Vec<libc::iovec> = bytes
            .chunks_exact_mut(stride)
            .map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: chunk.len() })
            .collect();
        let headers = pieces.iter_mut().zip(&mut controls).map(|(piece, control)| {
            let mut header = empty_header();
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header
        });
        let headers = headers.collect();
        Receiving { bytes, stride, pieces, controls, headers }
    }

    /// Takes all packets that are there, as far as there is room; with `wait` it waits for a first one.
    /// Returns the number of messages.
    pub(super) fn receive(&mut self, fd: impl AsFd, wait: bool) -> io::Result<usize> {
        for header in &mut self.headers {
            // The kernel overwrites it with what it used.
            header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL]>() as _;
        }
        let count = self.headers.len() as libc::c_uint;
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: each header points at one piece with `stride` writable bytes and at its own control room of
        // the length given; none of them is borrowed now, and there is no timeout to be read.
        let rc = unsafe {
            libc::recvmmsg(
                fd.as_fd().as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                flags as _,
                ptr::null_mut(),
            )
        };
        usize::try_from(rc).map_err(|_| io::Error::last_os_error())
    }

    /// The packets of the first `messages` messages, joined ones cut apart again.
    pub(super) fn packets(&self, messages: usize) -> impl Iterator<Item = &[u8]> {
        let rows = self.headers.iter().zip(self.bytes.chunks_exact(self.stride)).zip(&self.controls);
        rows.take(messages).flat_map(|((header, bytes), control)| {
            let length = (header.msg_len as usize).min(bytes.len());
            // Its type is the C library's own.
            let filled: usize = header.msg_hdr.msg_controllen as _;
            let control = &control[..(filled / 8).min(CONTROL)];
            let each = segment_size(control).unwrap_or(length).max(1);
            bytes[..length].chunks(each)
        })
    }
}

/// The size that joined packets had, from the control message UDP_GRO: `struct cmsghdr` and an `int`.
fn segment_size(control: &[u64]) -> Option<usize> {
    // cmsghdr: length (a long), level and type (an int each); then the data.
    let [_length, kind, data, ..] = control else { return None };
    let ints = |word: u64| {
        let bytes = word.to_ne_bytes();
        let int = |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        (int(0), int(4))
    };
    let (level, name) = ints(*kind);
    let (size, _) = ints(*data);
    (level == libc::SOL_UDP && name == libc::UDP_GRO).then(|| usize::try_from(size).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    fn pair() -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (sender, receiver)
    }

    /// Sends `count` packets and returns what came.
    fn carry(count: usize, segment: bool, join: bool) -> Vec<Vec<u8>> {
        let (sender, receiver) = pair();
        if segment {
            set_segment(&sender, 20).unwrap();
        }
        if join {
            set_joining(&receiver).unwrap();
        }
        let mut sending = Sending::new(20, segment);
        for (index, packet) in sending.packets(count).enumerate() {
            packet.fill(index as u8);
        }
        assert_eq!(sending.send(&sender, 0, count).unwrap(), count);
        let mut receiving = Receiving::new(100, join);
        let mut came = Vec::new();
        while came.len() < count {
            let messages = receiving.receive(&receiver, true).unwrap();
            came.extend(receiving.packets(messages).map(<[u8]>::to_vec));
        }
        assert_eq!(drops(&receiver).unwrap(), 0);
        came
    }

    #[test]
    fn packets_come_as_they_were_sent_whatever_was_joined() {
        for count in [1, 5, 33, 64] {
            for (segment, join) in [(false, false), (true, false), (true, true), (false, true)] {
                let came = carry(count, segment, join);
                let sent: Vec<_> = (0..count).map(|index| vec![index as u8; 20]).collect();
                assert_eq!(came, sent, "{count} {segment} {join}");
            }
        }
    }

    #[test]
    fn control_data_of_another_kind_is_none() {
        assert_eq!(segment_size(&[]), None);
        assert_eq!(segment_size(&[20, 0, 7]), None);
    }
}
