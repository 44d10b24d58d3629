//! How much has a client really taken? What the kernel holds for it does not count.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Where `tcpi_last_ack_recv` lies in `struct tcp_info`.
const LAST_ACK: usize = 56;
/// Where `tcpi_bytes_acked` lies in `struct tcp_info` (include/uapi/linux/tcp.h, since Linux 4.1).
const BYTES_ACKED: usize = 120;
/// Where `tcpi_bytes_received` lies, which came with it.
const BYTES_RECEIVED: usize = 128;
/// What is asked for: up to the last of them.
const INFO: usize = BYTES_RECEIVED + 8;

/// What a client's kernel has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// Since the connection began.
    pub(crate) bytes: u64,
    /// How long ago it last acknowledged anything.
    pub(crate) age: Duration,
}

/// Asks the kernel; `None` where it does not count, or nothing has come from the client yet.
pub(crate) fn by_client(socket: &TcpStream) -> Option<Acknowledged> {
    let mut info = [0u8; INFO];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`, which is that long, and stores how many
    // it wrote.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if result == 0 && length as usize == info.len() { parse(&info) } else { None }
}

/// Bytes that wait for the client: not sent yet, or not acknowledged. 0 where the kernel cannot tell.
pub(crate) fn queued(socket: &TcpStream) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ (tcp(7)), stores an int, and `bytes` is one.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { u64::try_from(bytes).unwrap_or_default() } else { 0 }
}

/// Some kernels hand out a structure of zeros (gVisor). Whoever asks for a body has sent a request, so one
/// that has received nothing of it counts nothing.
fn parse(info: &[u8; INFO]) -> Option<Acknowledged> {
    let long = |at: usize| Some(u64::from_ne_bytes(info[at..at + 8].try_into().ok()?));
    let age = u32::from_ne_bytes(info[LAST_ACK..LAST_ACK + 4].try_into().ok()?);
    let bytes = long(BYTES_ACKED)?;
    (long(BYTES_RECEIVED)? > 0).then(|| Acknowledged { bytes, age: Duration::from_millis(age.into()) })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_kernel_that_counts_nothing_is_not_believed() {
        let mut info = [0; INFO];
        assert_eq!(parse(&info), None);
        info[BYTES_RECEIVED..].copy_from_slice(&40u64.to_ne_bytes());
        assert_eq!(parse(&info), Some(Acknowledged { bytes: 0, age: Duration::ZERO }));
        info[BYTES_ACKED..BYTES_RECEIVED].copy_from_slice(&7u64.to_ne_bytes());
        assert_eq!(parse(&info).map(|client| client.bytes), Some(7));
    }

    #[test]
    fn what_a_client_leaves_waits_for_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = listener.accept().unwrap().0;
        assert_eq!(queued(&socket), 0);
        client.write_all(b"?").unwrap();
        socket.read_exact(&mut [0]).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = socket.write(&[0; 64 * 1024]) {
            sent += count;
        }
        assert!(queued(&socket) > 0);
        client.read_exact(&mut vec![0; sent]).unwrap();
        let waiting = Instant::now();
        while queued(&socket) > 0 || by_client(&socket).is_none_or(|client| client.bytes < sent as u64) {
            assert!(waiting.elapsed() < Duration::from_secs(10));
        }
    }
}
