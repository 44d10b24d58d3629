//! How is a netlink socket asked, and how are its answers taken apart?
//!
//! Messages and attributes are walked with bounds (include/uapi/linux/netlink.h): a length that does not fit
//! ends the walk. What the payloads mean is the business of the one who asks.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

/// A message's head: length, type, flags, sequence number, sender.
const HEAD: usize = 16;

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;

/// `NLM_F_ROOT | NLM_F_MATCH`.
const DUMP: u16 = 0x300;

/// `NLMSG_ERROR`: an error number, or 0 for an acknowledgement.
const ERROR: u16 = 2;

/// `NLMSG_DONE`: the end of a dump.
const DONE: u16 = 3;

/// Questions in one system call. The kernel answers each with a packet of its own before the call returns,
/// and an answer takes some 1.3 KB of the socket's room: 32 fit the smallest common default
/// (`net.core.rmem_default`, 208 KiB) five times.
const AT_ONCE: usize = 32;

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    sequence: u32,
    pub(crate) payload: &'a [u8],
}

/// The messages in what one receive call brought.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = word(bytes, 0)? as usize;
        let (kind, sequence) = (half(bytes, 4)?, word(bytes, 8)?);
        let payload = bytes.get(HEAD..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some(Message { kind, sequence, payload })
    })
}

/// The attributes of a payload: type without its flag bits, and value.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(half(bytes, 0)?);
        // NLA_F_NESTED and NLA_F_NET_BYTEORDER are the two high bits.
        let kind = half(bytes, 2)? & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Adds an attribute to a payload under construction.
pub(crate) fn push_attribute(payload: &mut Vec<u8>, kind: u16, value: &[u8]) {
    payload.extend((value.len() as u16 + 4).to_ne_bytes());
    payload.extend(kind.to_ne_bytes());
    payload.extend(value);
    payload.resize(aligned(payload.len()), 0);
}

pub(crate) fn half(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

pub(crate) fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

pub(crate) fn long(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

/// Both messages and attributes begin at multiples of four.
fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

/// A netlink socket with the buffer that answers are read into.
#[derive(Debug)]
pub(crate) struct Netlink {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace, where it stays; `groups` is a mask of those
    /// to join.
    pub(crate) fn open(protocol: Option<Protocol>, groups: u32) -> io::Result<Netlink> {
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        // The kernel fills at most 32 KiB of a dump at once (netlink_recvmsg, max_recvmsg_len).
        Ok(Netlink { fd, sequence: 0, buffer: vec![0; 64 << 10] })
    }

    /// Asks for more room, so that a burst of notices is not lost. The system may give less.
    pub(crate) fn want_room(&self, bytes: usize) {
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&self.fd, bytes);
    }

    /// Asks once and hands every answer to `each`. An error that the kernel answers with is returned.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        dump: bool,
        payload: &[u8],
        mut each: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        let mut request = Vec::with_capacity(HEAD + payload.len());
        self.push_request(&mut request, kind, if dump { REQUEST | DUMP } else { REQUEST }, payload);
        send(&self.fd, &request, SendFlags::empty())?;
        loop {
            let bytes = receive(&self.fd, &mut self.buffer)?;
            // Answers to an earlier question that broke off are skipped.
            for message in messages(bytes).filter(|message| message.sequence == self.sequence) {
                match message.kind {
                    ERROR | DONE => return outcome(message),
                    _ if dump => each(message),
                    _ => {
                        each(message);
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Asks many questions of one kind, several in a system call, and hands each one's answer, or the
    /// kernel's refusal, to `each` with the question's place in `payloads`.
    pub(crate) fn ask_many<P: AsRef<[u8]>>(
        &mut self,
        kind: u16,
        payloads: &[P],
        mut each: impl FnMut(usize, io::Result<Message<'_>>),
    ) -> io::Result<()> {
        for (turn, some) in payloads.chunks(AT_ONCE).enumerate() {
            let mut requests = Vec::new();
            let first = self.sequence.wrapping_add(1);
            for payload in some {
                self.push_request(&mut requests, kind, REQUEST, payload.as_ref());
            }
            send(&self.fd, &requests, SendFlags::empty())?;
            let mut awaited = some.len();
            while awaited > 0 {
                let bytes = receive(&self.fd, &mut self.buffer)?;
                for message in messages(bytes) {
                    let place = message.sequence.wrapping_sub(first) as usize;
                    if place < some.len() {
                        awaited -= 1;
                        let refused = if message.kind == ERROR { outcome(message) } else { Ok(()) };
                        each(turn * AT_ONCE + place, refused.map(|()| message));
                    }
                    if awaited == 0 {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn push_request(&mut self, request: &mut Vec<u8>, kind: u16, flags: u16, payload: &[u8]) {
        self.sequence = self.sequence.wrapping_add(1);
        request.extend(((HEAD + payload.len()) as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0_u32.to_ne_bytes());
        request.extend(payload);
        request.resize(aligned(request.len()), 0);
    }

    /// Hands over what came by itself, without waiting. `ENOBUFS`: some was lost, what follows is still good.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(Message<'_>)) -> io::Result<()> {
        loop {
            match retry(|| recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT)) {
                Ok((_, length)) => {
                    messages(&self.buffer[..length.min(self.buffer.len())]).for_each(&mut each)
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(cause) => return Err(cause.into()),
            }
        }
    }
}

/// The next packet, waited for.
fn receive<'a>(fd: &OwnedFd, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let (_, length) = retry(|| recv(fd, &mut *buffer, RecvFlags::empty()))?;
    Ok(&buffer[..length.min(buffer.len())])
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Both kinds of end carry a negative error number, or 0.
fn outcome(message: Message<'_>) -> io::Result<()> {
    match word(message.payload, 0).map(|word| word as i32) {
        None | Some(0..) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_do_not_fit_end_the_walk() {
        for length in [0_u16, 3, 9, u16::MAX] {
            let mut bytes = Vec::new();
            push_attribute(&mut bytes, 7, &[1, 2, 3, 4]);
            bytes.extend(length.to_ne_bytes());
            bytes.extend([0; 6]);
            let whole: Vec<_> = attributes(&bytes).collect();
            assert_eq!(whole[0], (7, &[1, 2, 3, 4][..]), "{length}");
            assert!(whole.len() <= 2, "{length}");
        }
        assert_eq!(messages(&[0xff; 20]).count(), 0);
        assert_eq!(messages(&[16, 0, 0, 0]).count(), 0);
    }

    #[test]
    fn an_error_number_becomes_an_error() {
        let payload = (-2_i32).to_ne_bytes();
        let message = Message { kind: ERROR, sequence: 0, payload: &payload };
        assert_eq!(outcome(message).unwrap_err().raw_os_error(), Some(2));
        assert!(outcome(Message { payload: &[0; 4], ..message }).is_ok());
        assert!(outcome(Message { payload: &i32::MIN.to_ne_bytes(), ..message }).is_err());
    }
}
