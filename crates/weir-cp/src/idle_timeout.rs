//! Reading from and writing to an end that may say nothing, or hear nothing, for ever; or while the user
//! wants to stop.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};

/// An end that says or hears nothing for so long is gone. Each of them says something ten times
/// ([`KEEPALIVE`]) in that time, and a lane whose connection is dead has ended three times over (20 s, its
/// TCP_USER_TIMEOUT).
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Between two signs of life of a driver, which has nothing else to say while all goes well.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(6);

/// Between two looks at whether the user wants to stop.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How long both directions of one connection are waited for.
#[derive(Debug, Clone)]
pub struct IdleTimeout {
    stop: Arc<AtomicBool>,
    /// The other end does not hear: then what it says is of no use either.
    not_reading: Arc<AtomicBool>,
    /// When the other end last said something.
    heard: Arc<Mutex<Instant>>,
}

/// While it says so, nothing is held against an end that does not take what it is told.
pub struct Exemption(Box<dyn Fn() -> bool + Send>);

/// A direction that is not waited for without end.
#[derive(Debug)]
pub struct TimedStream<T> {
    stream: T,
    idle_timeout: IdleTimeout,
    /// How long a read or write may wait; none while a person may be asked for a password.
    pub limit: Option<Duration>,
    /// When a write's wait does not count.
    pub exemption: Option<Exemption>,
}

/// Why nobody waits any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// Nothing came.
    #[error("it said nothing for {} s", .0.as_secs())]
    Silent(Duration),
    /// Nothing went.
    #[error("it took nothing for too long")]
    NotReading,
    /// The user.
    #[error("interrupted")]
    Interrupted,
}

/// Whether an error of a read or write is one of these.
pub fn ended(error: &io::Error) -> Option<Ended> {
    error.get_ref()?.downcast_ref().copied()
}

impl IdleTimeout {
    /// Until `stop` is set, or a limit is reached.
    pub fn new(stop: Arc<AtomicBool>) -> IdleTimeout {
        IdleTimeout { stop, not_reading: Arc::default(), heard: Arc::new(Mutex::new(Instant::now())) }
    }

    /// That the other end says something on `input`, if only unread words, since whoever would read them may
    /// be waiting for room to answer: a driver whose user reads a long `--dry-run` page by page. One that is
    /// gone closes it or falls silent.
    pub(crate) fn while_it_talks(&self, input: BorrowedFd<'_>) -> io::Result<Exemption> {
        let (heard, input) = (Arc::clone(&self.heard), input.try_clone_to_owned()?);
        Ok(Exemption::new(move || {
            let mut seen = [PollFd::new(&input, PollFlags::IN)];
            let is_unread =
                poll(&mut seen, Some(&Timespec::default())).is_ok() && seen[0].revents() == PollFlags::IN;
            is_unread || heard.lock().elapsed() < 2 * KEEPALIVE
        }))
    }

    /// One direction of the connection, without a limit at first. From here on `stream` does not block.
    pub fn with<T: AsFd>(&self, stream: T) -> io::Result<TimedStream<T>> {
        ioctl_fionbio(&stream, true)?;
        Ok(TimedStream { stream, idle_timeout: self.clone(), limit: None, exemption: None })
    }
}

impl Exemption {
    /// As `exempt` says.
    pub fn new(exempt: impl Fn() -> bool + Send + 'static) -> Exemption {
        Exemption(Box::new(exempt))
    }
}

impl fmt::Debug for Exemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exemption")
    }
}

impl<T: AsFd> TimedStream<T> {
    /// Waits a little for the stream; an error when that was long enough.
    fn wait(&self, flags: PollFlags, since: Instant) -> io::Result<()> {
        match poll(&mut [PollFd::new(&self.stream, flags)], Some(&POLL_INTERVAL)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let ended = if self.idle_timeout.stop.load(Relaxed) {
            Ended::Interrupted
        } else if self.idle_timeout.not_reading.load(Relaxed) {
            Ended::NotReading
        } else {
            match self.limit.filter(|limit| since.elapsed() >= *limit) {
                Some(limit) => Ended::Silent(limit),
                None => return Ok(()),
            }
        };
        Err(io::Error::other(ended))
    }
}

impl<T> TimedStream<T> {
    /// Nothing was taken for as long as is waited, and there is an exemption.
    fn is_exempt(&self, error: &io::Error) -> bool {
        let is_silent = matches!(ended(error), Some(Ended::Silent(_)));
        is_silent && self.exemption.as_ref().is_some_and(|exemption| exemption.0())
    }
}

impl<R: Read + AsFd> Read for TimedStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let start = Instant::now();
        loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::IN, start)?,
                other => {
                    *self.idle_timeout.heard.lock() = Instant::now();
                    return other;
                }
            }
        }
    }
}

impl<W: Write + AsFd> Write for TimedStream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut since = Instant::now();
        loop {
            match self.stream.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match self.wait(PollFlags::OUT, since) {
                        Err(error) if self.is_exempt(&error) => since = Instant::now(),
                        other => other.inspect_err(|_| self.idle_timeout.not_reading.store(true, Relaxed))?,
                    }
                }
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended<T>(outcome: io::Result<T>) -> Option<Ended> {
        super::ended(&outcome.err()?)
    }

    #[test]
    fn what_comes_is_read_and_silence_ends() {
        let (from, mut to) = io::pipe().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let mut patient = IdleTimeout::new(Arc::clone(&stop)).with(from).unwrap();
        let mut buffer = [0; 8];
        to.write_all(b"word").unwrap();
        assert_eq!(patient.read(&mut buffer).unwrap(), 4);
        let limit = Duration::from_millis(1);
        patient.limit = Some(limit);
        assert_eq!(ended(patient.read(&mut buffer)), Some(Ended::Silent(limit)));
        patient.limit = None;
        stop.store(true, Relaxed);
        assert_eq!(ended(patient.read(&mut buffer)), Some(Ended::Interrupted));
        drop(to);
        assert_eq!(patient.read(&mut buffer).unwrap(), 0, "an end is an end");
    }

    /// A pipe that nobody empties fills, and then nothing is read from the other end any more.
    #[test]
    fn what_is_not_taken_ends_both_directions() {
        let (_kept, to) = io::pipe().unwrap();
        let (from, _silent) = io::pipe().unwrap();
        let idle_timeout = IdleTimeout::new(Arc::default());
        let (mut out, mut back) = (idle_timeout.with(to).unwrap(), idle_timeout.with(from).unwrap());
        out.limit = Some(Duration::from_millis(1));
        assert!(matches!(ended(out.write_all(&vec![0; 2 << 20])), Some(Ended::Silent(_))));
        assert_eq!(ended(back.read(&mut [0; 8])), Some(Ended::NotReading));
    }

    #[test]
    fn one_that_is_excused_may_take_its_time() {
        let (mut kept, to) = io::pipe().unwrap();
        let (from, mut word) = io::pipe().unwrap();
        let idle_timeout = IdleTimeout::new(Arc::default());
        let exemption = idle_timeout.while_it_talks(from.as_fd()).unwrap();
        let mut back = idle_timeout.with(from).unwrap();
        assert!(exemption.0(), "it may have had no time yet");
        *idle_timeout.heard.lock() -= 2 * KEEPALIVE;
        assert!(!exemption.0(), "silent, and no word left to read");
        word.write_all(b"x").unwrap();
        assert!(exemption.0(), "a word that nobody has read");
        assert_eq!(back.read(&mut [0; 8]).unwrap(), 1);
        assert!(exemption.0(), "it has spoken just now");
        *idle_timeout.heard.lock() -= 2 * KEEPALIVE;
        word.write_all(b"x").unwrap();
        drop(word);
        assert!(!exemption.0(), "what it left behind is no sign of life");

        let mut out = idle_timeout.with(to).unwrap();
        let exempt = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&exempt);
        (out.limit, out.exemption) =
            (Some(Duration::from_millis(1)), Some(Exemption::new(move || flag.load(Relaxed))));
        let much = std::thread::spawn(move || (out.write_all(&vec![0; 2 << 20]), out));
        // More than a look; the limit is a hundredth of one.
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            std::thread::yield_now();
        }
        kept.read_exact(&mut vec![0; 2 << 20]).unwrap();
        let (written, mut out) = much.join().unwrap();
        written.unwrap();
        exempt.store(false, Relaxed);
        assert!(matches!(ended(out.write_all(&vec![0; 2 << 20])), Some(Ended::Silent(_))));
    }
}
