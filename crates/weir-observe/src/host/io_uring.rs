//! Does the kernel hand out an io_uring?

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use weir_model::ability::Finding;

use super::read;
use weir_units::plain;

/// Bytes of `struct io_uring_params` (include/uapi/linux/io_uring.h).
const PARAMS: usize = 120;

/// Who may have one: 0 everybody, 1 a group, 2 nobody (Linux 6.6).
const SWITCH: &str = "/proc/sys/kernel/io_uring_disabled";

pub(super) fn find() -> Finding {
    let origin = "io_uring_setup(2)";
    let cause = match set_up() {
        Ok(()) => return Finding::ok("a ring of one entry was set up", origin),
        Err(cause) => cause,
    };
    let found = Finding::missing(plain(&cause), origin);
    match (cause.raw_os_error(), read(SWITCH).as_deref()) {
        (Some(libc::EPERM), Ok("1" | "2")) => {
            found.with_way_out("as root: sysctl -w kernel.io_uring_disabled=0")
        }
        (Some(libc::ENOSYS), _) => {
            found.with_way_out("a kernel with CONFIG_IO_URING, or a sandbox that allows it")
        }
        _ => found.with_way_out("a sandbox that allows it: its seccomp filter says no"),
    }
}

/// Sets up the smallest ring, and lets go of it.
fn set_up() -> io::Result<()> {
    let mut params = [0_u64; PARAMS / 8];
    // SAFETY: the kernel reads and writes one io_uring_params, which has this size, is aligned for its
    // largest field and lives until the call returns.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1_u32, params.as_mut_ptr()) };
    if ring < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nothing else knows of it.
    drop(unsafe { OwnedFd::from_raw_fd(ring as i32) });
    Ok(())
}
