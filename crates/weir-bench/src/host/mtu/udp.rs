//! Datagrams of chosen sizes to a port that nobody listens on. The kernel hands back what routers and the
//! host say of them.
//!
//! IP_PMTUDISC_PROBE forbids fragments and ignores what the kernel believes of the path, so that each answer
//! is a fresh one.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};

use super::error_queue::{Notice, Origin, take};
use super::{Answer, Probe, TRIES};
use crate::option::set_int;
use crate::wait::ready;

/// Where traceroute begins: a port that nothing listens on, and that firewalls know.
const PORT: u16 = 33_434;

/// What a probe begins with: this search's token, and the number of the probe.
const MARK: usize = 12;

/// The UDP header.
const HEADER: u32 = 8;

/// Sends them.
pub(super) struct Prober {
    socket: UdpSocket,
    peer: IpAddr,
    token: u64,
    sequence: u32,
    timeout: Duration,
    first_hop: Option<u32>,
    limited_by: Option<IpAddr>,
}

impl Prober {
    pub(super) fn open(peer: IpAddr, rtt: Duration) -> Result<Prober, String> {
        let words = |error: io::Error| format!("cannot send UDP datagrams: {}", weir_units::plain(&error));
        let any: IpAddr = if peer.is_ipv6() { [0_u16; 8].into() } else { [0_u8; 4].into() };
        let socket = UdpSocket::bind((any, 0)).map_err(words)?;
        let fixed = match peer {
            IpAddr::V4(_) => sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE),
            IpAddr::V6(_) => sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE),
        };
        fixed.map_err(|error| words(error.into()))?;
        let (level, name) = match peer {
            IpAddr::V4(_) => (libc::SOL_IP, libc::IP_RECVERR),
            IpAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_RECVERR),
        };
        set_int(&socket, level, name, 1).map_err(words)?;
        socket.set_nonblocking(true).map_err(words)?;
        socket.connect(SocketAddr::new(peer, PORT)).map_err(words)?;
        // Linux says of six datagrams at once that nobody wants them, then of one a second
        // (net.ipv4.icmp_ratelimit): the last of three tries must come a second after the first, or a host
        // that keeps its rate looks like a black hole.
        let timeout = (rtt * 4).clamp(Duration::from_millis(510), Duration::from_secs(1));
        let token = fastrand::u64(..);
        Ok(Prober { socket, peer, token, sequence: 0, timeout, first_hop: None, limited_by: None })
    }

    pub(super) fn smallest(&self) -> u32 {
        self.ip_header() + HEADER + MARK as u32
    }

    /// As this end's kernel told.
    pub(super) fn first_hop(&self) -> Option<u32> {
        self.first_hop
    }

    /// The last router that said that a datagram was too large.
    pub(super) fn limited_by(&self) -> Option<IpAddr> {
        self.limited_by
    }

    fn ip_header(&self) -> u32 {
        if self.peer.is_ipv6() { 40 } else { 20 }
    }

    fn once(&mut self, size: u32, stop: &AtomicBool) -> Result<Answer, String> {
        let words = |error: io::Error| format!("UDP datagrams failed: {}", weir_units::plain(&error));
        let until = Instant::now() + self.timeout;
        self.sequence += 1;
        self.drain();
        let mut payload = vec![0; (size - self.ip_header() - HEADER) as usize];
        payload[..8].copy_from_slice(&self.token.to_be_bytes());
        payload[8..MARK].copy_from_slice(&self.sequence.to_be_bytes());
        match self.socket.send(&payload) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {}
            // Of an earlier one, which the drain took for this call to find.
            Err(error) if crate::host::echo::is_passing(&error) => return Ok(Answer::Silent),
            Err(error) => return Err(words(error)),
        }
        loop {
            while let Some(notice) = take(&self.socket).map_err(words)? {
                if let Some(answer) = self.judge(&notice, size)? {
                    return Ok(answer);
                }
            }
            if !ready(&self.socket, PollFlags::IN, until, stop).map_err(words)? {
                return Ok(Answer::Silent);
            }
            self.swallow();
        }
    }

    /// What a notice says of the last probe; `None` where it is of another one.
    fn judge(&mut self, notice: &Notice, size: u32) -> Result<Option<Answer>, String> {
        // Old routers quote no more than the UDP header.
        let mark = [&self.token.to_be_bytes()[..], &self.sequence.to_be_bytes()].concat();
        if notice.origin != Origin::Here && !notice.quoted.is_empty() && !notice.quoted.starts_with(&mark) {
            return Ok(None);
        }
        Ok(match (notice.errno, notice.origin) {
            (libc::EMSGSIZE, Origin::Here) => {
                self.first_hop = notice.mtu;
                Some(Answer::TooBig(notice.mtu))
            }
            (libc::EMSGSIZE, _) => {
                self.limited_by = notice.by;
                Some(Answer::TooBig(notice.mtu))
            }
            // Only the host itself knows that; a firewall that says it in its own name is not the host.
            (libc::ECONNREFUSED, Origin::Network { .. }) if notice.by == Some(self.peer) => {
                Some(Answer::Passed)
            }
            (errno, Origin::Network { kind, code }) => {
                let by = notice.by.map_or("a router".to_owned(), |by| by.to_string());
                let said = weir_units::plain(&io::Error::from_raw_os_error(errno));
                let words =
                    format!("{by} answers {size} bytes of UDP with: {said} (ICMP type {kind} code {code})");
                return Err(words);
            }
            (_, Origin::Here) => None,
        })
    }

    /// Whatever earlier probes left behind.
    fn drain(&self) {
        while let Ok(Some(_)) = take(&self.socket) {}
        self.swallow();
    }

    /// Takes a pending error, or what somebody answers: that is no word of a closed port.
    fn swallow(&self) {
        let _ = self.socket.recv(&mut [0; 1]);
    }
}

impl Probe for Prober {
    fn probe(&mut self, size: u32, stop: &AtomicBool) -> Result<Answer, String> {
        for _ in 0..TRIES {
            match self.once(size, stop)? {
                Answer::Silent if stop.load(Relaxed) => break,
                Answer::Silent => {}
                answer => return Ok(answer),
            }
        }
        Ok(Answer::Silent)
    }
}
