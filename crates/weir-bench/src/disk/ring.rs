//! Many requests at once, by io_uring: each slot has a buffer and one request on its way.
#![allow(unsafe_code, reason = "the kernel is handed pointers to buffers")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};

use crate::mem::arena::Arena;

use super::write::buffer;

/// Times that are kept: a percentile needs no more, and a fast disk answers a million times a second.
const KEPT: usize = 200_000;

/// A ring that cannot be asked any more is given up. What is still on its way then goes to pages that the
/// kernel holds.
const REFUSALS: usize = 1000;

/// What to request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Write instead of reading.
    pub write: bool,
    /// Requests at once.
    pub depth: u32,
    /// Blocks that the file has.
    pub blocks: u64,
    /// New requests begin for so long.
    pub span: Duration,
}

/// A ring and its buffers.
pub struct Ring {
    // Before the buffers, so that it is closed first: the kernel may write into them until then.
    ring: IoUring,
    buffers: Arena,
    block: usize,
    most: u32,
}

impl Ring {
    /// For at most `most` requests of `block` bytes at once. Fails where io_uring is not there or not
    /// allowed.
    pub fn new(most: u32, block: usize) -> io::Result<Ring> {
        let most = most.clamp(1, 4096);
        let ring = IoUring::new(most)?;
        Ok(Ring { ring, buffers: buffer(block * most as usize)?, block, most })
    }

    /// Requests random blocks of `file` until the span is over. Returns how long each took, and the seconds
    /// of all.
    pub fn run(&mut self, file: &File, work: &Work) -> io::Result<(Vec<f64>, f64)> {
        let depth = work.depth.clamp(1, self.most) as usize;
        let mut begun = vec![Instant::now(); depth];
        let mut random = fastrand::Rng::with_seed(u64::from(work.depth));
        let mut times = Vec::new();
        let mut flying = 0;
        let (mut failed, mut refused) = (None, 0);
        let start = Instant::now();
        for slot in 0..depth {
            self.push(file, work, slot, random.u64(..work.blocks.max(1)));
            flying += 1;
        }
        // All that is on its way comes back before this returns, whatever happened: the buffers are the
        // kernel's until then.
        while flying > 0 {
            if let Err(error) = self.ring.submit_and_wait(1)
                && error.kind() != io::ErrorKind::Interrupted
            {
                failed.get_or_insert(error);
                refused += 1;
            }
            if refused > REFUSALS {
                break;
            }
            let done: Vec<(usize, i32)> =
                self.ring.completion().map(|entry| (entry.user_data() as usize, entry.result())).collect();
            let now = Instant::now();
            for (slot, result) in done {
                flying -= 1;
                match usize::try_from(result) {
                    Ok(moved) if moved == self.block => times.push((now - begun[slot]).as_secs_f64()),
                    Ok(_) => drop(failed.get_or_insert(io::ErrorKind::UnexpectedEof.into())),
                    Err(_) => drop(failed.get_or_insert(io::Error::from_raw_os_error(-result))),
                }
                if failed.is_none() && now - start < work.span && times.len() < KEPT {
                    begun[slot] = now;
                    self.push(file, work, slot, random.u64(..work.blocks.max(1)));
                    flying += 1;
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        failed.map_or(Ok((times, seconds)), Err)
    }

    fn push(&mut self, file: &File, work: &Work, slot: usize, block: u64) {
        let fd = types::Fd(file.as_raw_fd());
        let at = &mut self.buffers.bytes_mut()[slot * self.block..][..self.block];
        let (length, offset) = (self.block as u32, block * self.block as u64);
        let entry = match work.write {
            true => opcode::Write::new(fd, at.as_ptr(), length).offset(offset).build(),
            false => opcode::Read::new(fd, at.as_mut_ptr(), length).offset(offset).build(),
        };
        // SAFETY: the buffer is this slot's alone and lives in `self`, the file is open, and `run` returns
        // only once each request has come back.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(slot as u64)) };
        // The ring has room for as many requests as there are slots.
        debug_assert!(pushed.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn blocks_are_read_and_written_or_the_reason_is_said() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 64 << 10]).unwrap();
        let mut ring = match Ring::new(8, 4096) {
            Ok(ring) => ring,
            Err(why) => return println!("skipped: no io_uring: {why}"),
        };
        for write in [false, true] {
            for depth in [1, 8, 100] {
                let work = Work { write, depth, blocks: 16, span: Duration::from_millis(5) };
                let (times, seconds) = ring.run(&file, &work).unwrap();
                assert!(times.len() >= depth.min(8) as usize && seconds >= 0.005, "{}", times.len());
            }
        }
        // Behind the end there is nothing to read.
        let work = Work { write: false, depth: 4, blocks: 1 << 40, span: Duration::from_millis(5) };
        assert_eq!(ring.run(&file, &work).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
