//! To which service of this machine is a local socket connected?
//!
//! `NETLINK_SOCK_DIAG` for AF_UNIX (include/uapi/linux/unix_diag.h): a client's socket has no name, but its
//! peer's is the path on which the service listens. Needs no privilege within the caller's network namespace.

use rustix::net::netlink::SOCK_DIAG;

use crate::error::ObserveError;
use crate::netlink::{Netlink, attributes, word};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;

/// `struct unix_diag_msg` without attributes.
const FIXED: usize = 16;

/// Attributes, and the bits of `udiag_show` that ask for them.
const NAME: u16 = 0;
const PEER: u16 = 2;
const SHOW: u32 = 1 | 1 << 2;

/// What the kernel tells of one local socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnixSocket {
    /// Its path, where it has one.
    pub path: Option<String>,
    /// The inode of its peer.
    pub peer: Option<u32>,
    /// It carries a connection, not datagrams (as a log's does).
    pub connects: bool,
}

/// A netlink socket that answers for the network namespace in which it was opened.
#[derive(Debug)]
pub struct UnixDiag(Netlink);

impl UnixDiag {
    /// Opens it in the calling thread's network namespace. A kernel without `CONFIG_UNIX_DIAG` refuses the
    /// first question.
    pub fn open() -> Result<UnixDiag, ObserveError> {
        Netlink::open(Some(SOCK_DIAG), 0).map(UnixDiag).map_err(failed)
    }

    /// This socket now; `None` where there is no local socket with that inode.
    pub fn socket(&mut self, inode: u32) -> Option<UnixSocket> {
        let mut found = None;
        let asked = self.0.ask(BY_FAMILY, false, &request(inode), |message| {
            if message.kind == BY_FAMILY {
                found = parse(message.payload);
            }
        });
        asked.ok().and(found)
    }
}

fn failed(cause: std::io::Error) -> ObserveError {
    ObserveError::unreadable("the local sockets of this network namespace (NETLINK_SOCK_DIAG)", cause)
}

/// `struct unix_diag_req`: family, states, inode, what to show, and no cookie (INET_DIAG_NOCOOKIE).
fn request(inode: u32) -> [u8; 24] {
    let mut whole = [0xff; 24];
    whole[..4].copy_from_slice(&[1, 0, 0, 0]);
    whole[8..12].copy_from_slice(&inode.to_ne_bytes());
    whole[12..16].copy_from_slice(&SHOW.to_ne_bytes());
    whole
}

/// Reads one `struct unix_diag_msg` and its attributes; `None` when it is cut or of another family.
pub fn parse(bytes: &[u8]) -> Option<UnixSocket> {
    let fixed = bytes.get(..FIXED)?;
    if fixed[0] != 1 {
        return None;
    }
    // SOCK_STREAM and SOCK_SEQPACKET.
    let mut socket = UnixSocket { connects: matches!(fixed[1], 1 | 5), ..UnixSocket::default() };
    for (kind, value) in attributes(&bytes[FIXED..]) {
        match kind {
            // An abstract name begins with a zero, and is no path.
            NAME if value.first() == Some(&b'/') => {
                let path = value.split(|byte| *byte == 0).next().unwrap_or_default();
                socket.path = std::str::from_utf8(path).ok().map(str::to_owned);
            }
            // A peer that the service has not accepted yet has no inode.
            PEER => socket.peer = word(value, 0).filter(|inode| *inode != 0),
            _ => {}
        }
    }
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_client_is_led_to_the_path_of_its_service() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("service");
        let service = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        let _accepted = service.accept().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&client) as u32;
        let inode =
            crate::process::descriptors(crate::process::Pid(std::process::id())).unwrap().sockets[&fd];
        let mut diag = UnixDiag::open().unwrap();
        let peer = diag.socket(inode).and_then(|socket| socket.peer).unwrap();
        assert_eq!(diag.socket(peer).and_then(|socket| socket.path).as_deref(), path.to_str());
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&tcp) as u32;
        let inode =
            crate::process::descriptors(crate::process::Pid(std::process::id())).unwrap().sockets[&fd];
        assert!(diag.socket(inode).is_none());
    }

    #[test]
    fn what_is_cut_or_foreign_is_passed_over() {
        let mut bytes = vec![1, 1, 1, 0];
        bytes.extend([0; 12]);
        crate::netlink::push_attribute(&mut bytes, NAME, b"/run/x\0");
        crate::netlink::push_attribute(&mut bytes, PEER, &7_u32.to_ne_bytes());
        let whole = UnixSocket { path: Some("/run/x".to_owned()), peer: Some(7), connects: true };
        assert_eq!(parse(&bytes), Some(whole));
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]).is_some(), length >= FIXED, "{length}");
        }
        bytes[0] = 2;
        assert_eq!(parse(&bytes), None);
    }
}
