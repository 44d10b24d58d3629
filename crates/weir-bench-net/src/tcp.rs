//! A TCP stream at work. What is not needed to measure the network is left out where the user allows it: what
//! arrives is dropped in the kernel (MSG_TRUNC, tcp(7)), and pages that the kernel already has may be sent
//! (sendfile).

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::net::{RecvFlags, recv};

use crate::control::is_pause;
use crate::orders::{Counts, Orders};
use crate::pace::{Pace, nap};
use crate::sys;

/// Bytes of one call where the user names no size: over loopback with CUBIC 128 KiB brought 49 Gbit/s and 512
/// KiB 64 (medians of three), with BBR 46 and 39. More no longer fits the second-level cache.
pub(crate) const BLOCK: u32 = 512 << 10;

/// What one receiving call may take: more than any window, so that the call takes all there is.
const ROOM: usize = 4 << 20;

/// A receiver need not wake for each segment of a fast stream: it sleeps until as much is there as comes in
/// this time (SO_RCVLOWAT). Of 1 Gbit/s that is 25 KB, less than two bursts of a sender, so that a path's own
/// timing stays as it is.
const DOZE: Duration = Duration::from_micros(200);

/// The most it sleeps for, reached at 10 Gbit/s.
const MOST_DOZE: f64 = 262_144.0;

/// A stream that fast is left alone for a moment each time it was emptied, instead of waking this thread
/// again: over loopback the wake-up is the sender's work, a sixth of it where processors are virtual. With
/// what a timer adds (50 us) 131 KB of 10 Gbit/s come meanwhile, a fiftieth of the usual largest window.
/// Loopback with CUBIC went from 56 to 79 Gbit/s, with BBR from 37 to 46 (medians of three, against a mark of
/// 1 MiB and no nap).
const NAP: Duration = Duration::from_micros(50);

/// Between two looks at how fast the stream is.
const RATE: Duration = Duration::from_millis(20);

/// A receiver that waits for no end of stream believes after this silence that all has come: some round trips
/// of most paths. Longer ones lose what was still on its way, as with iperf3.
const QUIET: Duration = Duration::from_millis(100);

/// Sends until the test or its budget ends.
pub(crate) fn send(mut stream: &TcpStream, orders: &Orders, counts: &Counts) -> io::Result<()> {
    let block = orders.block as usize;
    let source = Source::of(block, orders)?;
    let pace = Pace::of_bits(orders.rate, orders.start);
    let burst = u64::from(orders.burst.max(1));
    let (mut sent, mut blocks) = (0, 0);
    while orders.is_running() {
        if let Some(pace) = pace.filter(|_| blocks % burst == 0) {
            let wait = pace.wait(sent, Instant::now());
            if wait > Duration::ZERO {
                counts.slept(nap(wait));
                continue;
            }
        }
        let want = orders.take(block as u64);
        if want == 0 {
            break;
        }
        let result = match &source {
            Source::Pages(file) => {
                sendfile(stream, file, Some(&mut 0), want as usize).map_err(io::Error::from)
            }
            Source::Memory(bytes) => stream.write(&bytes[..want as usize]),
        };
        let count = match result {
            Ok(count) => count as u64,
            Err(cause) if is_pause(&cause) => 0,
            Err(cause) => {
                orders.give_back(want);
                return Err(cause);
            }
        };
        orders.give_back(want - count);
        if count > 0 {
            counts.moved(count, orders.start);
            sent += count;
            blocks += 1;
        }
    }
    Ok(())
}

/// What is sent, again and again.
enum Source<'a> {
    /// The kernel's own pages.
    Pages(OwnedFd),
    /// The program's memory, the same of all streams.
    Memory(&'a [u8]),
}

impl Source<'_> {
    fn of(block: usize, orders: &Orders) -> io::Result<Source<'_>> {
        let bytes = orders.payload.get(..block).unwrap_or(&orders.payload);
        if orders.copies.sending {
            return Ok(Source::Memory(bytes));
        }
        let file = memfd_create("weir-net", MemfdFlags::CLOEXEC)?;
        let mut written = 0;
        while written < bytes.len() {
            written += rustix::io::pwrite(&file, &bytes[written..], written as u64)?;
        }
        Ok(Source::Pages(file))
    }
}

/// Receives until the peer's end of stream, or until the test is over and nothing more comes.
pub(crate) fn receive(stream: &TcpStream, orders: &Orders, counts: &Counts) -> io::Result<()> {
    let flags = if orders.copies.receiving { RecvFlags::empty() } else { RecvFlags::TRUNC };
    // Untouched where nothing is copied: then it takes no memory.
    let mut room = vec![0; if orders.copies.receiving { BLOCK as usize } else { ROOM }];
    let mut quiet = Instant::now();
    let mut doze = Doze::new(quiet);
    while !orders.is_over() {
        match recv(stream, room.as_mut_slice(), flags).map_err(io::Error::from) {
            Ok((_, 0)) => return Ok(()),
            Ok((_, count)) => {
                counts.moved(count as u64, orders.start);
                quiet = Instant::now();
                doze.took(stream, count, quiet);
                if doze.is_deep() && count < room.len() {
                    std::thread::sleep(NAP);
                }
            }
            Err(cause) if is_pause(&cause) => {
                if !orders.is_running() && !orders.peer_closes && quiet.elapsed() >= QUIET {
                    return Ok(());
                }
            }
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

/// How much a receiver lets come before it wakes.
struct Doze {
    since: Instant,
    bytes: usize,
    mark: usize,
}

impl Doze {
    fn new(now: Instant) -> Doze {
        Doze { since: now, bytes: 0, mark: 1 }
    }

    /// The stream is so fast that a nap after each reading misses nothing.
    fn is_deep(&self) -> bool {
        self.mark as f64 >= MOST_DOZE
    }

    fn took(&mut self, stream: &TcpStream, count: usize, now: Instant) {
        self.bytes += count;
        let span = now - self.since;
        if span < RATE {
            return;
        }
        let rate = self.bytes as f64 / span.as_secs_f64();
        let mark = (rate * DOZE.as_secs_f64()).clamp(1.0, MOST_DOZE) as usize;
        // A call for each change by half is enough.
        let most = mark as f64 >= MOST_DOZE && !self.is_deep();
        if most || mark > self.mark * 3 / 2 || mark < self.mark * 2 / 3 {
            self.mark = mark;
            // Without it the receiver only wakes more often.
            let _ = sys::set_low_mark(stream.as_fd(), mark);
        }
        (self.since, self.bytes) = (now, 0);
    }
}
