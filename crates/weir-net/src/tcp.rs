//! A TCP stream at work. What is not needed to measure the network is left out where the user allows it: pages that the
//! kernel already has are sent (sendfile), and what arrives is dropped in the kernel (MSG_TRUNC, tcp(7)).

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create, sendfile};
use rustix::net::{RecvFlags, recv};

use crate::control::is_pause;
use crate::pace::{Pace, nap};
use crate::stream::{Counts, Orders};

/// Bytes of one call where the user names no size. The pages stay in the second-level cache beside the receiver's.
const BLOCK: usize = 256 << 10;

/// What one receiving call may take: more than any window, so that the call takes all there is.
const ROOM: usize = 4 << 20;

/// A receiver that waits for no end of stream believes after this silence that all has come: some round trips of most
/// paths. Longer ones lose what was still on its way, as with iperf3.
const QUIET: Duration = Duration::from_millis(100);

/// Sends until the test or its budget ends.
pub(crate) fn send(mut stream: &TcpStream, orders: &Orders, counts: &Counts) -> io::Result<()> {
    let block = if orders.block > 0 { orders.block as usize } else { BLOCK };
    let source = Source::of(block, orders.copies.sending)?;
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
enum Source {
    /// The kernel's own pages.
    Pages(OwnedFd),
    /// The program's memory.
    Memory(Vec<u8>),
}

impl Source {
    /// Random bytes, since a path may compress others.
    fn of(block: usize, copied: bool) -> io::Result<Source> {
        let mut bytes = vec![0; block];
        fastrand::Rng::new().fill(&mut bytes);
        if copied {
            return Ok(Source::Memory(bytes));
        }
        let file = memfd_create("weir-net", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, block as u64)?;
        let mut written = 0;
        while written < block {
            written += rustix::io::pwrite(&file, &bytes[written..], written as u64)?;
        }
        Ok(Source::Pages(file))
    }
}

/// Receives until the peer's end of stream, or until the test is over and nothing more comes.
pub(crate) fn receive(stream: &TcpStream, orders: &Orders, counts: &Counts) -> io::Result<()> {
    let flags = if orders.copies.receiving { RecvFlags::empty() } else { RecvFlags::TRUNC };
    // Untouched where nothing is copied: then it takes no memory.
    let mut room = vec![0; if orders.copies.receiving { BLOCK } else { ROOM }];
    let mut quiet = Instant::now();
    while !orders.is_over() {
        match recv(stream, room.as_mut_slice(), flags).map_err(io::Error::from) {
            Ok((_, 0)) => return Ok(()),
            Ok((_, count)) => {
                counts.moved(count as u64, orders.start);
                quiet = Instant::now();
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
