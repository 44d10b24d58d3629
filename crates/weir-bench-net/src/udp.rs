//! A UDP stream at work: many datagrams a call, and bundles of them where the kernel takes those
//! (UDP_SEGMENT, UDP_GRO).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};

use crate::control::is_pause;
use crate::datagram::{Head, WELCOME, is_hello};
use crate::orders::{Counts, Orders, fill};
use crate::pace::{Pace, nap};
use crate::sys::{BATCH, Inbox, send_many, set_bundles, set_segment};

/// Datagrams of a bundle: UDP_MAX_SEGMENTS of Linux before 6.9 (later kernels take 128).
const BUNDLE: usize = 64;

/// Bytes of a bundle: those of IP's largest packet, less the heads.
const MOST: usize = 65_000;

/// Bundles of one call. A few hide the call's own cost; many would make a sender's rate coarse.
const BUNDLES: usize = 8;

/// A receiver believes after this silence that all has come: a sender that has not heard of the end yet may
/// wait so long for a processor.
const QUIET: Duration = Duration::from_millis(100);

/// Of a slow sender it waits longer, though no more than this.
const MOST_QUIET: Duration = Duration::from_secs(2);

/// A receiver of many datagrams sleeps for so long when it has emptied its socket, instead of being woken for
/// each: over loopback that wake-up costs the sender more than the datagram. With what a timer adds (50 us)
/// it is a tenth of a millisecond, in which two million small datagrams a second fill half of the usual
/// buffer (212,992 bytes, 768 of them for a small datagram).
const DOZE: Duration = Duration::from_micros(20);

/// From so many messages a second on: below, jitter is measured as they come.
const BUSY: f64 = 50_000.0;

/// Between two looks at how many come.
const RATE: Duration = Duration::from_millis(10);

/// Without room in the device's queue a sender tries again after this long: some packets of a slow link.
const CROWDED: Duration = Duration::from_micros(200);

/// A payload that fits links of any size in use: of the 576 bytes that each host takes whole (RFC 791), less
/// IPv6's and UDP's heads.
const ANY_PATH: usize = 576 - 40 - 8;

/// Bytes that a stream keeps to send: sixteen of the largest datagrams, so that a client who asks for many
/// streams of them costs a server 1 MiB each.
const MOST_LOAD: usize = 1 << 20;

/// What is sent at once.
struct Load {
    size: usize,
    /// Datagrams of one message.
    bundle: usize,
    wide: bool,
    data: Vec<u8>,
}

impl Load {
    fn new(size: usize, bundle: usize, wide: bool, repeating: bool) -> Load {
        let size = size.max(Head::length(wide));
        let most = (MOST_LOAD / size).max(1);
        let count = if bundle > 1 { bundle * BUNDLES } else { BATCH.min(most) };
        let mut data = vec![0; size * count];
        fill(&mut data, repeating);
        Load { size, bundle, wide, data }
    }

    fn datagrams(&self) -> usize {
        self.data.len() / self.size
    }

    /// Sends `count` datagrams that follow number `last`; returns how many went.
    fn send(&mut self, socket: &UdpSocket, count: usize, last: u64, sent: Duration) -> io::Result<usize> {
        let data = &mut self.data[..count * self.size];
        for (datagram, number) in data.chunks_exact_mut(self.size).zip(last + 1..) {
            Head { sent, number }.write(self.wide, datagram);
        }
        let messages = send_many(socket.as_fd(), data, self.bundle * self.size)?;
        Ok((messages * self.bundle).min(count))
    }
}

/// Sends until the test or its budget ends.
pub(crate) fn send(socket: &UdpSocket, orders: &Orders, counts: &Counts) -> io::Result<()> {
    let size = orders.block as usize;
    let mut load = Load::new(size, bundle(socket, size, orders.bundles), orders.wide, orders.repeating);
    if load.size <= ANY_PATH {
        ask_for_no_path_mtu(socket);
    }
    let pace = Pace::of_bits(orders.rate, orders.start);
    let (mut number, mut sent) = (0_u64, 0_u64);
    while orders.is_running() {
        let mut count = load.datagrams();
        if let Some(pace) = pace {
            let now = Instant::now();
            let wait = pace.wait(sent, now);
            if wait > Duration::ZERO {
                counts.slept(nap(wait));
                continue;
            }
            let due = (pace.allowance(sent, now) / load.size as u64) as usize;
            count = count.min(due + orders.burst.max(1) as usize);
        }
        let want = orders.take((count * load.size) as u64);
        if want == 0 {
            break;
        }
        // A budget that ends within a datagram is ended by a whole one.
        count = (want as usize).div_ceil(load.size);
        let went = match load.send(socket, count, number, orders.start.elapsed()) {
            Ok(went) => went,
            Err(cause) if is_pause(&cause) => 0,
            Err(cause) if cause.raw_os_error() == Some(libc::ENOBUFS) => {
                std::thread::sleep(CROWDED);
                0
            }
            // Larger than the path takes in bundles, or a device that cannot: one by one.
            Err(cause) if load.bundle > 1 && refuses_bundles(&cause) => {
                set_segment(socket.as_fd(), 0)?;
                load = Load::new(size, 1, orders.wide, orders.repeating);
                0
            }
            Err(cause) => {
                orders.give_back(want);
                return Err(cause);
            }
        };
        let bytes = (went * load.size) as u64;
        orders.give_back(want.saturating_sub(bytes));
        if went > 0 {
            number += went as u64;
            sent += bytes;
            counts.packets.fetch_add(went as u64, std::sync::atomic::Ordering::Relaxed);
            counts.moved(bytes, orders.start);
        }
    }
    Ok(())
}

/// From now on the kernel looks for no learnt path MTU: that takes it some 60 ns of a small datagram, 3 % (30
/// interleaved pairs over loopback, Linux 6.18). It forbids fragments, as it does anyway (ip(7),
/// IP_MTU_DISCOVER). Where it cannot be set, datagrams go too.
fn ask_for_no_path_mtu(socket: &UdpSocket) {
    // A socket of IPv6 may send to IPv4 too, and one of IPv4 refuses the other's option.
    let _ = sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE);
    let _ = sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE);
}

/// Datagrams of one message, after the socket was told of their size; 1 where bundles are not wanted or not
/// known.
fn bundle(socket: &UdpSocket, size: usize, wanted: bool) -> usize {
    let most = BUNDLE.min(MOST / size.max(1));
    let segment = u16::try_from(size).ok().filter(|_| wanted && most > 1);
    match segment.map(|segment| set_segment(socket.as_fd(), segment)) {
        Some(Ok(())) => most,
        _ => 1,
    }
}

fn refuses_bundles(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO | libc::EOPNOTSUPP))
}

/// The silence after which all has come: of a sender at a small rate that of two datagrams, or bursts, that
/// are still to come. What it sends until it hears of the end would count as lost otherwise.
fn silence(orders: &Orders) -> Duration {
    if orders.rate == 0 {
        return QUIET;
    }
    let burst = 8.0 * f64::from(orders.block) * f64::from(orders.burst.max(1));
    let apart = burst / orders.rate as f64;
    Duration::from_secs_f64((2.0 * apart).clamp(QUIET.as_secs_f64(), MOST_QUIET.as_secs_f64()))
}

/// Receives until the test is over and nothing more comes.
pub(crate) fn receive(socket: &UdpSocket, orders: &Orders, counts: &Counts) -> io::Result<()> {
    if orders.bundles
        && let Err(cause) = set_bundles(socket.as_fd())
    {
        tracing::debug!("no bundles of datagrams from this kernel: {cause}");
    }
    let mut inbox = Inbox::new();
    let silence = silence(orders);
    let mut quiet = Instant::now();
    let (mut since, mut messages, mut busy) = (quiet, 0, false);
    while !orders.is_over() {
        match inbox.receive(socket.as_fd()) {
            Ok(()) => {
                quiet = Instant::now();
                take(&inbox, socket, orders, counts);
                messages += inbox.messages();
                if quiet - since >= RATE {
                    busy = messages as f64 >= BUSY * (quiet - since).as_secs_f64();
                    (since, messages) = (quiet, 0);
                }
                if busy && !inbox.is_full() {
                    std::thread::sleep(DOZE);
                }
            }
            Err(cause) if is_pause(&cause) => {
                if !orders.is_running() && quiet.elapsed() >= silence {
                    break;
                }
            }
            // The peer's socket is closed already, or not open yet: what else comes will show.
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

fn take(inbox: &Inbox, socket: &UdpSocket, orders: &Orders, counts: &Counts) {
    let came = orders.start.elapsed();
    let mut bytes = 0;
    let mut arrivals = counts.arrivals();
    for datagram in inbox.datagrams() {
        match Head::parse(orders.wide, datagram) {
            Some(head) => {
                arrivals.take(head.number, head.sent, came);
                bytes += datagram.len() as u64;
            }
            // The welcome was lost, and the client asks again.
            None if is_hello(datagram) => drop(socket.send(&WELCOME)),
            None => {}
        }
    }
    drop(arrivals);
    if bytes > 0 {
        counts.moved(bytes, orders.start);
    }
}
