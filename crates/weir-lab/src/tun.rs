//! A TUN device: an interface whose packets a program reads and writes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::error::LabError;
use crate::netns::interface;
use crate::path::{Fidelity, MTU};

/// Bytes of struct virtio_net_hdr (linux/virtio_net.h), in front of each packet.
pub const HEADER: usize = 10;

/// An IP packet's largest length, and its header.
const SUPER_FRAME: usize = HEADER + 65_535;

/// A device of the namespace in which it was opened; gone when dropped.
#[derive(Debug)]
pub struct Tun {
    file: OwnedFd,
    fidelity: Fidelity,
}

impl Tun {
    /// Makes interface `name` in the caller's namespace.
    ///
    /// Checksums are left open by the kernel that sends and taken on trust by the one that receives, as
    /// between a machine and its own network card: the virtio header says so, and is passed on with the
    /// packet.
    pub fn open(name: &str, fidelity: Fidelity) -> Result<Tun, LabError> {
        let file = open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
            .map_err(cannot_open)?;
        let mut request = interface::request(name);
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as i16;
        // SAFETY: the kernel reads and writes one ifreq, which lives until the call returns.
        let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request) };
        check(made, "cannot make a TUN device")?;
        let tun = Tun { file, fidelity };
        tun.offload()?;
        Ok(tun)
    }

    /// Bytes that a buffer for [`read`](Tun::read) needs.
    pub(crate) fn buffer_size(&self) -> usize {
        match self.fidelity {
            Fidelity::Packet => HEADER + MTU,
            Fidelity::Gso => SUPER_FRAME,
        }
    }

    /// Reads one packet with its header; None if there is none now.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.file, buffer) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands one packet with its header to the kernel.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        Ok(rustix::io::write(&self.file, packet).map(drop)?)
    }

    /// Says which unfinished packets this end takes.
    fn offload(&self) -> Result<(), LabError> {
        let segmented = libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
        let datagrams = libc::TUN_F_USO4 | libc::TUN_F_USO6;
        let wanted = match self.fidelity {
            Fidelity::Packet => libc::TUN_F_CSUM,
            Fidelity::Gso => libc::TUN_F_CSUM | segmented | datagrams,
        };
        let set = |flags: u32| {
            // SAFETY: this call takes its argument by value.
            unsafe {
                libc::ioctl(self.file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(flags))
            }
        };
        // UDP's came with Linux 6.2; without it each datagram comes alone.
        match set(wanted) {
            0 => Ok(()),
            _ => check(set(wanted & !datagrams), "cannot set the offloads of a TUN device"),
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Bytes that a frame (header and packet) has on a wire, where each segment of a super-frame carries the
/// headers again.
pub fn wire_bytes(frame: &[u8]) -> u32 {
    let total = (frame.len() - HEADER) as u32;
    // gso_type, hdr_len and gso_size of struct virtio_net_hdr, in this machine's byte order.
    let field = |at: usize| u32::from(u16::from_ne_bytes([frame[at], frame[at + 1]]));
    let (kind, header, segment) = (frame[1], field(2), field(4));
    if kind == 0 || segment == 0 || header >= total {
        return total;
    }
    total + header * ((total - header).div_ceil(segment) - 1)
}

fn cannot_open(cause: Errno) -> LabError {
    LabError::Refused {
        attempt: "cannot open /dev/net/tun".to_owned(),
        cause: cause.into(),
        way_out: match cause {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => "load its driver as root: modprobe tun",
            _ => "let this user read and write it, or run as root",
        },
    }
}

fn check(result: i32, attempt: &str) -> Result<(), LabError> {
    match result {
        0 => Ok(()),
        _ => Err(LabError::Refused {
            attempt: attempt.to_owned(),
            cause: io::Error::last_os_error(),
            way_out: "it needs the right to administer this namespace's network (CAP_NET_ADMIN)",
        }),
    }
}
