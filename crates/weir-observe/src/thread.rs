//! Where does one thread's time go: running, waiting for a processor, or asleep, and in which kernel
//! function?
//!
//! Threads of this process only, so that no permission is needed (`ptrace_may_access` always allows one's
//! own).

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

use crate::error::{Malformed, ObserveError};
use crate::proc_file::number;
use crate::process::TICK;

/// A thread of this process, by the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tid(pub u32);

/// The calling thread.
pub fn current_tid() -> Tid {
    Tid(gettid().as_raw_nonzero().get().unsigned_abs())
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a thread spent its life so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// On a processor. Counted at each switch and each clock tick, so up to one tick behind (4 ms at HZ=250)
    /// for a thread that is running now; over many intervals nothing is lost.
    pub run: Duration,
    /// Ready to run, but waiting for a processor. Counted when the wait is over.
    pub wait: Duration,
}

/// The first two of schedstat's three numbers, both in nanoseconds (fs/proc/base.c, proc_pid_schedstat).
pub fn parse(text: &str) -> Result<ThreadTimes, Malformed> {
    let mut numbers = text.split_ascii_whitespace();
    Ok(ThreadTimes {
        run: Duration::from_nanos(number("run time", numbers.next())?),
        wait: Duration::from_nanos(number("run-queue wait", numbers.next())?),
    })
}

/// `/proc/self/task/TID/schedstat`, kept open. After the thread's end reads fail, even if its number is used
/// again.
#[derive(Debug)]
pub struct ThreadClock {
    tid: Tid,
    file: File,
}

impl ThreadClock {
    /// Fails when this process has no such thread, or on a kernel without CONFIG_SCHED_INFO.
    pub fn open(tid: Tid) -> Result<ThreadClock, ObserveError> {
        Ok(ThreadClock { tid, file: open(tid, "schedstat")? })
    }

    /// The thread's times up to now.
    pub fn read(&self) -> Result<ThreadTimes, ObserveError> {
        let mut buffer = [0_u8; 128];
        let text = read_short(&self.file, self.tid, "schedstat", &mut buffer)?;
        parse(text).map_err(|found| ObserveError::Unexpected { what: path(self.tid, "schedstat"), found })
    }
}

/// `/proc/self/task/TID/wchan`, kept open: the kernel function in which the thread sleeps.
#[derive(Debug)]
pub struct WaitChannel {
    tid: Tid,
    file: File,
    // KSYM_NAME_LEN is 512, but no function that weir asks for comes near that.
    buffer: [u8; 128],
}

/// Opens a thread's wait channel; fails when this process has no such thread.
pub(crate) fn wait_channel(tid: Tid) -> Result<WaitChannel, ObserveError> {
    Ok(WaitChannel { tid, file: open(tid, "wchan")?, buffer: [0; 128] })
}

impl WaitChannel {
    /// The function's name; `None` while the thread is running or ready to.
    ///
    /// Inlining moves a sleep into a caller of another name (`balance_dirty_pages_ratelimited_flags`), so
    /// compare the start of the name. A kernel that hides its symbols answers as if the thread were running.
    pub fn read(&mut self) -> Result<Option<&str>, ObserveError> {
        let text = read_short(&self.file, self.tid, "wchan", &mut self.buffer)?;
        Ok(parse_wait_channel(text))
    }
}

/// wchan prints a bare name without a newline, or `0` for a thread that does not sleep (proc_pid_wchan).
pub(crate) fn parse_wait_channel(text: &str) -> Option<&str> {
    let name = text.trim();
    (!name.is_empty() && name != "0").then_some(name)
}

/// The time in the kernel from a thread's `stat` (field 15 of proc_pid_stat(5), in ticks of 10 ms). The name
/// in its parentheses may hold anything.
pub(crate) fn parse_system_time(text: &str) -> Option<Duration> {
    let (_, fields) = text.rsplit_once(')')?;
    let ticks: u32 = fields.split_ascii_whitespace().nth(15 - 3)?.parse().ok()?;
    Some(TICK.saturating_mul(ticks))
}

/// CPU time of the calling thread, exact to the moment. A system call of about 0.1 us, not a vDSO read.
pub fn thread_cpu_now() -> Duration {
    cpu_time(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process, ended ones included.
pub fn process_cpu_now() -> Duration {
    cpu_time(ClockId::ProcessCPUTime)
}

fn cpu_time(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    // CPU clocks start at zero and never run backwards, so neither part is negative.
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

fn path(tid: Tid, name: &str) -> String {
    format!("/proc/self/task/{tid}/{name}")
}

fn open(tid: Tid, name: &str) -> Result<File, ObserveError> {
    File::open(path(tid, name)).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound if !std::path::Path::new(&path(tid, "")).exists() => ended(tid),
        _ => ObserveError::unreadable(path(tid, name), cause),
    })
}

/// One read is all: both files are printed whole on the first one (single_open), and end there.
fn read_short<'a>(file: &File, tid: Tid, name: &str, buffer: &'a mut [u8]) -> Result<&'a str, ObserveError> {
    match file.read_at(buffer, 0) {
        Ok(length) => std::str::from_utf8(&buffer[..length]).map_err(|_| ObserveError::Unexpected {
            what: path(tid, name),
            found: Malformed("not text".to_owned()),
        }),
        // proc_single_show finds no task behind the file's struct pid.
        Err(cause) if cause.raw_os_error() == Some(libc::ESRCH) => Err(ended(tid)),
        Err(cause) => Err(ObserveError::unreadable(path(tid, name), cause)),
    }
}

fn ended(tid: Tid) -> ObserveError {
    ObserveError::Absent(format!("thread {tid} has ended"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Instant;

    #[test]
    fn captured_schedstat() {
        let times = parse(include_str!("../tests/data/6.18/schedstat")).unwrap();
        assert_eq!(times.run, Duration::from_nanos(29_017_090));
        assert_eq!(times.wait, Duration::from_nanos(10_154_073));
    }

    #[test]
    fn truncated_or_odd_schedstat_is_an_error() {
        for text in ["", "12", "12 x 3", "-1 2 3", "99999999999999999999999 0 0"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn wait_channel_names() {
        assert_eq!(parse_wait_channel("0"), None);
        assert_eq!(parse_wait_channel(""), None);
        assert_eq!(parse_wait_channel("balance_dirty_pages"), Some("balance_dirty_pages"));
    }

    #[test]
    fn own_clock_runs_while_this_thread_works() {
        let clock = ThreadClock::open(current_tid()).unwrap();
        let (before, exact_before) = (clock.read().unwrap().run, thread_cpu_now());
        while thread_cpu_now() - exact_before < Duration::from_millis(60) {}
        let (coarse, exact) = (clock.read().unwrap().run - before, thread_cpu_now() - exact_before);
        // Behind or ahead by a tick at each end, at most 10 ms each (HZ=100).
        assert!(coarse + Duration::from_millis(21) > exact, "{coarse:?} of {exact:?}");
        assert!(coarse < exact + Duration::from_millis(21), "{coarse:?} of {exact:?}");
        assert!(process_cpu_now() >= exact);
    }

    #[test]
    fn a_sleeping_thread_is_seen_asleep_and_an_ended_one_ended() {
        let (send, receive) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            send.send(current_tid()).unwrap();
            let _ = stopped.recv();
        });
        let tid = receive.recv().unwrap();
        let mut channel = wait_channel(tid).unwrap();
        let clock = ThreadClock::open(tid).unwrap();
        let start = Instant::now();
        while channel.read().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(10), "never asleep");
            std::thread::yield_now();
        }
        drop(stop);
        sleeper.join().unwrap();
        // The kernel wakes the joiner a moment before the task leaves /proc.
        let start = Instant::now();
        while clock.read().is_ok() || channel.read().is_ok() {
            assert!(start.elapsed() < Duration::from_secs(10), "never ended");
            std::thread::yield_now();
        }
        assert_eq!(clock.read().unwrap_err().to_string(), format!("thread {tid} has ended"));
        assert_eq!(channel.read().unwrap_err().to_string(), format!("thread {tid} has ended"));
        assert_eq!(ThreadClock::open(tid).unwrap_err().to_string(), format!("thread {tid} has ended"));
    }
}
