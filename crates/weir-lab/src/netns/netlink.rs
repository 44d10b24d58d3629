//! The one setting of an interface that its ioctl keeps for the machine's own root: by rtnetlink(7) the owner
//! of the namespace may change it.

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

const RTM_SETLINK: u16 = 19;
const IFLA_IFNAME: u16 = 3;
const IFLA_TXQLEN: u16 = 13;

/// NLM_F_REQUEST and NLM_F_ACK.
const FLAGS: u16 = 1 | 4;

/// Bytes of nlmsghdr, and of ifinfomsg.
const HEADER: usize = 16;

/// How many packets wait for the reader of interface `name` in the caller's namespace.
pub(super) fn set_queue_length(name: &str, packets: u32) -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    // A netlink socket that was not connected talks to the kernel.
    send(&socket, &message(name, packets), SendFlags::empty())?;
    let mut answer = [0; 256];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    match answer[..length].get(HEADER..HEADER + 4) {
        Some(&[a, b, c, d]) => match i32::from_ne_bytes([a, b, c, d]) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        },
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a short answer")),
    }
}

fn message(name: &str, packets: u32) -> Vec<u8> {
    let mut body = vec![0; HEADER];
    let mut named = name.as_bytes().to_vec();
    named.push(0);
    attribute(&mut body, IFLA_IFNAME, &named);
    attribute(&mut body, IFLA_TXQLEN, &packets.to_ne_bytes());
    let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(RTM_SETLINK.to_ne_bytes());
    message.extend(FLAGS.to_ne_bytes());
    // Sequence number and port, of no use for one question.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Length, type, value, padded to four bytes.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(((4 + value.len()) as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}
