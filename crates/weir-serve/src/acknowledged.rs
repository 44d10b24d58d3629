//! How much has a client really taken? What the kernel holds for it does not count.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Where `tcpi_last_ack_recv` lies in `struct tcp_info`.
const LAST_ACK: usize = 56;
/// Where `tcpi_bytes_acked` lies in `struct tcp_info` (include/uapi/linux/tcp.h, since Linux 4.1).
const BYTES_ACKED: usize = 120;

/// What a client's kernel has acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acknowledged {
    /// Since the connection began.
    pub(crate) bytes: u64,
    /// How long ago it last acknowledged anything.
    pub(crate) age: Duration,
}

/// Asks the kernel; `None` where it cannot tell.
pub(crate) fn by_client(socket: &TcpStream) -> Option<Acknowledged> {
    let mut info = [0u8; BYTES_ACKED + 8];
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
    let bytes = u64::from_ne_bytes(info[BYTES_ACKED..].try_into().ok()?);
    let age = u32::from_ne_bytes(info[LAST_ACK..LAST_ACK + 4].try_into().ok()?);
    (result == 0 && length as usize == info.len())
        .then(|| Acknowledged { bytes, age: Duration::from_millis(age.into()) })
}
