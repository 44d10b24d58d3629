//! How much has a client really taken? What the kernel holds for it does not count.

use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Where `tcpi_bytes_acked` lies in `struct tcp_info` (include/uapi/linux/tcp.h, since Linux 4.1).
const BYTES_ACKED: usize = 120;

/// Bytes that the client's kernel has acknowledged since the connection began; `None` where this kernel cannot tell.
pub(crate) fn bytes(socket: &TcpStream) -> Option<u64> {
    let mut info = [0u8; BYTES_ACKED + 8];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`, which is that long, and stores how many it wrote.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    let bytes = info[BYTES_ACKED..].try_into().ok()?;
    (result == 0 && length as usize == info.len()).then(|| u64::from_ne_bytes(bytes))
}
