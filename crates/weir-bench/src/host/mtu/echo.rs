//! Echoes of chosen sizes that must not be fragmented.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};

use super::{Answer, Probe, TRIES};
use crate::host::echo::wire::{HEADER, TOKEN};
use crate::host::echo::{Pinger, is_passing};

/// Sends them.
pub(super) struct Prober {
    pinger: Pinger,
    sequence: u16,
    timeout: Duration,
    v6: bool,
}

impl Prober {
    pub(super) fn open(peer: IpAddr, rtt: Duration) -> Result<Prober, String> {
        let pinger = Pinger::open(peer)?;
        let v6 = peer.is_ipv6();
        let fixed = match v6 {
            false => sockopt::set_ip_mtu_discover(pinger.socket(), Ipv4PathMtuDiscovery::DO),
            true => sockopt::set_ipv6_mtu_discover(pinger.socket(), Ipv6PathMtuDiscovery::DO),
        };
        fixed.map_err(|error| format!("cannot forbid fragments: {}", weir_units::plain(&error.into())))?;
        // Four round trips, since a large packet takes longer on a slow link (1500 bytes at 1 Mbit/s: 24 ms
        // there and back).
        let timeout = (rtt * 4).clamp(Duration::from_millis(150), Duration::from_secs(1));
        Ok(Prober { pinger, sequence: 0, timeout, v6 })
    }

    pub(super) fn smallest(&self) -> u32 {
        self.pinger.ip_header() + (HEADER + TOKEN) as u32
    }

    /// What the kernel thinks the path carries: the interface's MTU at first, then what routers said.
    pub(super) fn known_mtu(&self) -> io::Result<u32> {
        let socket = self.pinger.socket().as_fd();
        let mtu = if self.v6 { sockopt::ipv6_mtu(socket) } else { sockopt::ip_mtu(socket) };
        Ok(mtu?)
    }

    /// Whether this one came back whole.
    fn once(&mut self, payload: usize, stop: &AtomicBool) -> io::Result<bool> {
        let until = Instant::now() + self.timeout;
        self.pinger.send(self.sequence, payload)?;
        while let Some(reply) = self.pinger.receive(until, stop)? {
            if reply.sequence == self.sequence && reply.length == payload {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Probe for Prober {
    fn probe(&mut self, size: u32, stop: &AtomicBool) -> Result<Answer, String> {
        let payload = (size - self.pinger.ip_header()) as usize - HEADER;
        for _ in 0..TRIES {
            self.sequence = self.sequence.wrapping_add(1);
            match self.once(payload, stop) {
                Ok(true) => return Ok(Answer::Passed),
                Ok(false) if stop.load(Relaxed) => return Ok(Answer::Silent),
                Ok(false) => {}
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                    return Ok(Answer::TooBig(self.known_mtu().ok()));
                }
                // Somebody's word about an earlier packet; the next one tells.
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(format!("ICMP echo failed: {}", weir_units::plain(&error))),
            }
        }
        Ok(Answer::Silent)
    }
}
