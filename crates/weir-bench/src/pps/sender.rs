//! One sending thread: numbered packets, as many a system call as the method allows, at the rate asked for.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use weir_observe::thread::{ThreadClock, ThreadTimes, current_tid};

use super::batch::{Sending, set_segment};
use super::envelope::Envelope;
use super::frame::Mark;
use super::pace::Pace;
use super::raw::{self, Way};
use super::{Busy, PpsError};

/// How long a send may block before the thread looks whether it is still wanted.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// So many refusals in a row by the host say that nobody listens there any more.
const REFUSALS: u32 = 64;

/// How packets are handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// By a UDP socket, each on its own.
    Plain,
    /// By a UDP socket, for the kernel to cut (UDP_SEGMENT), and to join at the receiver (UDP_GRO).
    Joined,
    /// By a packet socket, as whole frames.
    Frames(Way),
}

/// What a thread sends.
#[derive(Debug, Clone)]
pub struct Job {
    /// To where.
    pub to: SocketAddr,
    /// The first packet's mark; numbers rise from it.
    pub mark: Mark,
    /// Bytes of each packet's payload.
    pub payload: usize,
    /// How.
    pub how: How,
    /// Packets a second; `None`: as fast as it goes.
    pub rate: Option<f64>,
    /// For so long.
    pub span: Duration,
}

/// What it sent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sent {
    /// Packets handed to the kernel.
    pub packets: u64,
    /// From the first to the end of the last send.
    pub span: Duration,
    /// Times that the device had no room for a send (ENOBUFS).
    pub full: u64,
    /// Where the thread's time went.
    pub busy: Busy,
}

/// Whether the kernel segments UDP; the error is the reason in words.
pub fn can_join(payload: usize) -> Result<(), String> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).map_err(|error| weir_units::plain(&error))?;
    set_segment(&socket, payload).map_err(|error| format!("no UDP_SEGMENT: {}", weir_units::plain(&error)))
}

/// Sends until the time is over or `stop` is set.
pub fn run(job: &Job, stop: &AtomicBool) -> Result<Sent, PpsError> {
    let mut outlet = Outlet::open(job)?;
    let clock = ThreadClock::open(current_tid()).ok();
    let before = clock.as_ref().and_then(|clock| clock.read().ok());
    let batch = outlet.batch(job);
    let mut sender = Sender { job, outlet, batch, start: Instant::now(), full: 0, refusals: 0 };
    let mut pace = Pace::new(job.rate);
    let mut sent = Sent::default();
    while sender.start.elapsed() < job.span && !stop.load(Relaxed) {
        let wait = pace.wait(sender.start.elapsed());
        if !wait.is_zero() {
            let left = job.span.saturating_sub(sender.start.elapsed());
            std::thread::sleep(wait.min(left).min(POLL_INTERVAL));
            continue;
        }
        let count = pace.batch(sender.batch.most());
        sender.number(sent.packets, count);
        pace.book(count);
        sent.packets += sender.flush(count, stop)? as u64;
    }
    sent.span = sender.start.elapsed();
    sent.full = sender.full;
    let after = clock.as_ref().and_then(|clock| clock.read().ok());
    if let Some((before, after)) = before.zip(after) {
        sent.busy = share(before, after, sent.span);
    }
    Ok(sent)
}

/// A thread at work.
struct Sender<'a> {
    job: &'a Job,
    outlet: Outlet,
    batch: Sending,
    start: Instant,
    full: u64,
    refusals: u32,
}

impl Sender<'_> {
    /// Marks the next `count` packets, of which `sent` have left before.
    fn number(&mut self, sent: u64, count: usize) {
        let mut mark = Mark { number: self.job.mark.number + sent, ..self.job.mark };
        match &self.outlet.around {
            None => self.batch.packets(count).for_each(|packet| {
                mark.put(packet);
                mark.number += 1;
            }),
            Some((_, envelope)) => self.batch.packets(count).for_each(|frame| {
                mark.put(&mut frame[envelope.length()..]);
                envelope.seal(frame);
                mark.number += 1;
            }),
        }
    }

    /// Hands over the first `count` packets of the batch. Returns how many left; fewer only where the time is
    /// long over.
    fn flush(&mut self, count: usize, stop: &AtomicBool) -> Result<usize, PpsError> {
        let mut done = 0;
        while done < count && !stop.load(Relaxed) && self.start.elapsed() < self.job.span + POLL_INTERVAL {
            let error = match self.batch.send(self.outlet.fd(), done, count) {
                Ok(left) => {
                    done += left;
                    self.refusals = 0;
                    continue;
                }
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN) => {}
                Some(libc::ENOBUFS) => {
                    self.full += 1;
                    std::thread::yield_now();
                }
                // The answer to an earlier packet; this one was not sent.
                Some(libc::ECONNREFUSED) if self.refusals < REFUSALS => self.refusals += 1,
                _ => return Err(explain(self.job, &error)),
            }
        }
        Ok(done)
    }
}

/// Shares of `span` between two readings.
pub(super) fn share(before: ThreadTimes, after: ThreadTimes, span: Duration) -> Busy {
    let share = |before: Duration, after: Duration| {
        (after.saturating_sub(before).as_secs_f64() / span.as_secs_f64().max(1e-9)).min(1.0)
    };
    Busy { run: share(before.run, after.run), wait: share(before.wait, after.wait) }
}

/// What packets leave through.
struct Outlet {
    /// Theirs, or, beside frames, what holds the port that they come from.
    udp: UdpSocket,
    around: Option<(OwnedFd, Envelope)>,
}

impl Outlet {
    fn open(job: &Job) -> Result<Outlet, PpsError> {
        let udp = open(job)?;
        let around = match &job.how {
            How::Plain | How::Joined => None,
            How::Frames(way) => {
                let from = udp.local_addr().map_err(PpsError::socket("cannot tell this end's address"))?;
                let envelope = Envelope::new(way.link, from, job.to, job.payload);
                let envelope = envelope.ok_or_else(|| {
                    PpsError::Size(format!("no frame holds {} bytes of payload to {}", job.payload, job.to))
                })?;
                Some((raw::open(way)?, envelope))
            }
        };
        Ok(Outlet { udp, around })
    }

    /// Room for packets, their headers in place where they have any.
    fn batch(&mut self, job: &Job) -> Sending {
        let around = self.around.as_ref().map_or(0, |(_, envelope)| envelope.length());
        let mut batch = Sending::new(around + job.payload, job.how == How::Joined);
        if let Some((_, envelope)) = &self.around {
            let most = batch.most();
            batch.packets(most).for_each(|frame| envelope.put(frame));
        }
        batch
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.around.as_ref().map_or(self.udp.as_fd(), |(socket, _)| socket.as_fd())
    }
}

fn open(job: &Job) -> Result<UdpSocket, PpsError> {
    let any: SocketAddr = if job.to.is_ipv6() { ([0_u16; 8], 0).into() } else { ([0_u8; 4], 0).into() };
    let socket = UdpSocket::bind(any).map_err(PpsError::socket("cannot open a UDP socket"))?;
    let made = PpsError::socket("cannot set up a UDP socket");
    // A packet that does not fit the path shall be refused, not cut in two: two are not one packet a packet.
    let whole = match job.to {
        SocketAddr::V4(_) => sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO),
        SocketAddr::V6(_) => sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO),
    };
    whole.map_err(io::Error::from).map_err(&made)?;
    socket.set_write_timeout(Some(POLL_INTERVAL)).map_err(&made)?;
    socket.connect(job.to).map_err(PpsError::socket("cannot reach the remote end over UDP"))?;
    if job.how == How::Joined {
        set_segment(&socket, job.payload)
            .map_err(PpsError::socket("the kernel cuts no UDP packets (UDP_SEGMENT)"))?;
    }
    Ok(socket)
}

fn explain(job: &Job, error: &io::Error) -> PpsError {
    let what = match error.raw_os_error() {
        Some(libc::EMSGSIZE) => "packets of this size do not fit the path's MTU",
        Some(libc::ECONNREFUSED) => "the receiver no longer listens",
        Some(libc::ENETDOWN | libc::ENXIO) => "the interface went away",
        _ if job.how == How::Joined => "cannot send packets for the kernel to cut",
        _ => "cannot send packets",
    };
    PpsError::Socket { what, cause: weir_units::plain(error) }
}
