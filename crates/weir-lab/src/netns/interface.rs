//! Settings of a network interface in the caller's namespace, by the ioctls of netdevice(7): a handful of
//! calls does not pay for a netlink library.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libc::{c_char, c_int, ifreq};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::netlink;
use crate::error::LabError;

/// Switches it on.
pub fn up(name: &str) -> Result<(), LabError> {
    Interface::open(name)?.up()
}

/// An interface and a socket to talk about it.
#[derive(Debug)]
pub struct Interface {
    name: String,
    socket: OwnedFd,
}

impl Interface {
    /// Does not look whether it exists.
    pub fn open(name: &str) -> Result<Interface, LabError> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(LabError::system("cannot open a socket"))?;
        Ok(Interface { name: name.to_owned(), socket })
    }

    /// Switches it on.
    pub fn up(&self) -> Result<(), LabError> {
        let mut request = request(&self.name);
        self.call(libc::SIOCGIFFLAGS, &mut request, "read the flags of")?;
        // SAFETY: the call above filled in the flags.
        unsafe { request.ifr_ifru.ifru_flags |= libc::IFF_UP as i16 };
        self.call(libc::SIOCSIFFLAGS, &mut request, "switch on")
    }

    /// Gives it an address in a network of `prefix` bits.
    pub(crate) fn set_address(&self, address: Ipv4Addr, prefix: u32) -> Result<(), LabError> {
        let mut request = request(&self.name);
        request.ifr_ifru.ifru_addr = socket_address(address);
        self.call(libc::SIOCSIFADDR, &mut request, "give an address to")?;
        let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
        request.ifr_ifru.ifru_netmask = socket_address(Ipv4Addr::from(mask));
        self.call(libc::SIOCSIFNETMASK, &mut request, "give a network to")
    }

    /// Bytes of its largest IP packet.
    pub(crate) fn set_mtu(&self, bytes: usize) -> Result<(), LabError> {
        let mut request = request(&self.name);
        request.ifr_ifru.ifru_mtu = bytes as c_int;
        self.call(libc::SIOCSIFMTU, &mut request, "set the MTU of")
    }

    /// Packets that wait for a reader of its other end.
    pub(crate) fn set_queue_length(&self, packets: u32) -> Result<(), LabError> {
        netlink::set_queue_length(&self.name, packets)
            .map_err(LabError::system(format!("cannot set the queue of interface {}", self.name)))
    }

    /// Sends everything for which there is no other route through it.
    pub(crate) fn make_default_route(&self) -> Result<(), LabError> {
        let mut name = [0 as c_char; libc::IFNAMSIZ];
        copy_name(&self.name, &mut name);
        // SAFETY: all fields are integers, addresses or a pointer, for which zero is valid.
        let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
        route.rt_dst = socket_address(Ipv4Addr::UNSPECIFIED);
        route.rt_genmask = socket_address(Ipv4Addr::UNSPECIFIED);
        route.rt_flags = libc::RTF_UP;
        route.rt_dev = name.as_mut_ptr();
        // SAFETY: the kernel reads one rtentry and the name it points to; both live until the call returns.
        let result = unsafe { libc::ioctl(self.socket.as_fd().as_raw_fd(), libc::SIOCADDRT as _, &route) };
        self.check(result, "route through")
    }

    fn call(&self, number: libc::c_ulong, request: &mut ifreq, what: &str) -> Result<(), LabError> {
        // SAFETY: all these calls read and write one ifreq, which lives until the call returns.
        let result = unsafe { libc::ioctl(self.socket.as_fd().as_raw_fd(), number as _, request) };
        self.check(result, what)
    }

    fn check(&self, result: c_int, what: &str) -> Result<(), LabError> {
        match result {
            0 => Ok(()),
            _ => Err(LabError::System {
                attempt: format!("cannot {what} interface {}", self.name),
                source: io::Error::last_os_error(),
            }),
        }
    }
}

/// An ifreq about `name`, otherwise zero.
pub(crate) fn request(name: &str) -> ifreq {
    // SAFETY: an ifreq is a name and a union of integers, addresses and pointers, for which zero is valid.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    copy_name(name, &mut request.ifr_name);
    request
}

/// Leaves at least one zero at the end.
fn copy_name(name: &str, into: &mut [c_char; libc::IFNAMSIZ]) {
    for (to, from) in into[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let internet = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: both have 16 bytes and no invalid values; sockaddr_in is the form that sockaddr stands for.
    unsafe { std::mem::transmute(internet) }
}
