//! A packet socket for whole Ethernet frames (packet(7)): past UDP, IP and, where the kernel lets it, the
//! interface's queue.
#![allow(unsafe_code, reason = "the address of a packet socket has no safe wrapper")]

use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use weir_observe::nic::Routing;

use super::PpsError;
use super::envelope::Link;
use crate::option::set_int;

/// How frames to some host leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    interface: u32,
    /// The addresses on the first link.
    pub link: Link,
}

/// Finds the interface and the next hop. The hop must have been spoken to a moment ago, else the kernel may
/// not know its address.
pub fn way_to(peer: SocketAddr) -> Result<Way, PpsError> {
    let cannot = |cause: String| PpsError::Socket { what: "cannot send frames of our own", cause };
    let words = |error: weir_observe::ObserveError| cannot(error.to_string());
    let mut routing = Routing::open().map_err(words)?;
    let hop = routing.hop_to(peer.ip()).map_err(words)?;
    let interface = routing.interface(hop.interface).map_err(words)?;
    let name = &interface.name;
    if interface.loopback {
        return Err(cannot(format!("{name} leads back to this machine and takes none; use --via udp")));
    }
    let Ok(from) = <[u8; 6]>::try_from(interface.address.as_slice()) else {
        return Err(cannot(format!("{name} is not an Ethernet interface; use --via udp")));
    };
    let neighbour = routing.neighbour(hop.interface, hop.address).map_err(words)?;
    let to = <[u8; 6]>::try_from(neighbour.as_slice());
    let to = to.map_err(|_| cannot(format!("the next hop {} has no Ethernet address", hop.address)))?;
    Ok(Way { interface: hop.interface, link: Link { from, to } })
}

/// Opens a socket that sends through the interface of `way` and receives nothing.
pub fn open(way: &Way) -> Result<OwnedFd, PpsError> {
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None);
    let socket = socket.map_err(|error| match error {
        rustix::io::Errno::PERM | rustix::io::Errno::ACCESS => PpsError::Socket {
            what: "cannot open a packet socket",
            cause: "not permitted; run as root or with CAP_NET_RAW, or use --via udp".to_owned(),
        },
        error => PpsError::socket("cannot open a packet socket")(error.into()),
    })?;
    bind(&socket, way.interface).map_err(PpsError::socket("cannot bind a packet socket to the interface"))?;
    // Since 3.14. Without it frames wait in the interface's queue, which is a little slower and no less
    // right.
    let _ = set_int(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1);
    Ok(socket)
}

fn bind(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    // SAFETY: a C struct of integers, for which zeros are valid; protocol 0: nothing is to be received.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_ifindex = interface as libc::c_int;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the kernel reads `length` bytes of `address`, which lives on.
    let rc = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
