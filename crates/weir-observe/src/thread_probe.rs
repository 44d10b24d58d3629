//! What did one thread, of any process, do between two looks at it?
//!
//! As [`LaneProbe`](crate::LaneProbe) does for weir's own lanes, but a foreign thread has no stage clock, so
//! where each look finds it stands for the time between two looks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use weir_model::evidence::{Found, Reading, ThreadInterval};

use crate::error::ObserveError;
use crate::process::{self, Pid};
use crate::thread::{self, ThreadTimes, parse_wait_channel};
use crate::waiting::{self, Call, Doing};

/// Watches one thread. A look costs two reads of `/proc`; one more where neither tells what it does, and one
/// where it seems to wait for a disk.
#[derive(Debug)]
pub struct ThreadProbe {
    pid: Pid,
    tid: u32,
    name: String,
    times: File,
    place: File,
    stat: File,
    /// `None` where the caller may not read it.
    call: Option<File>,
    before: Option<ThreadTimes>,
    system: Option<Duration>,
    looks: u32,
    throttled: u32,
    found: Found,
    doing: Option<Doing>,
    hidden: u32,
}

/// What one look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadLook {
    /// What it does.
    pub doing: Doing,
    /// The first argument of the system call in which it sleeps: the descriptor, where that takes one.
    pub descriptor: Option<u32>,
    /// The number of that call, where it may be read.
    pub call: Option<i64>,
}

impl ThreadProbe {
    /// Starts the first interval of this thread; `name` is for words: `wget (pid 4711)`. Fails when it has
    /// ended.
    pub fn open(pid: Pid, tid: u32, name: impl Into<String>) -> Result<ThreadProbe, ObserveError> {
        let open = |file: &str| {
            let path = format!("/proc/{pid}/task/{tid}/{file}");
            File::open(&path).map_err(|cause| match cause.kind() {
                io::ErrorKind::NotFound => ObserveError::Absent(format!("thread {tid} has ended")),
                _ => ObserveError::unreadable(path, cause),
            })
        };
        let mut probe = ThreadProbe {
            pid,
            tid,
            name: name.into(),
            times: open("schedstat")?,
            place: open("wchan")?,
            stat: open("stat")?,
            call: open("syscall").ok(),
            before: None,
            system: None,
            looks: 0,
            throttled: 0,
            found: Found::default(),
            doing: None,
            hidden: 0,
        };
        probe.before = probe.times();
        probe.system = probe.system_time();
        Ok(probe)
    }

    /// The thread's number.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Its name, as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// From now on it goes by this name: its process runs another program.
    pub fn rename(&mut self, name: impl Into<String>) {
        self.name = name.into();
    }

    /// What the last look found.
    pub fn doing(&self) -> Option<Doing> {
        self.doing
    }

    /// Sees what the thread does; `None` when it has ended.
    pub fn look(&mut self) -> Option<ThreadLook> {
        let call = self.read_call();
        let mut room = [0; 128];
        let symbol = match call {
            Some(Call::Running) => None,
            _ => parse_wait_channel(read(&self.place, &mut room)?),
        };
        let mut doing = waiting::doing(None, call, symbol);
        // The state is dear to read (the kernel prints fifty numbers), and decides only where nothing else
        // does.
        if doing == Doing::Elsewhere {
            let state = waiting::parse_state(read(&self.stat, &mut [0; 512])?);
            doing = waiting::doing(state, call, symbol);
            self.hidden += u32::from(waiting::is_hidden(state, call, symbol));
        }
        let (number, descriptor) = match call {
            Some(Call::In(number, first)) => (Some(number), u32::try_from(first).ok()),
            _ => (None, None),
        };
        // Only of a wait for a disk it matters, and costs one more read.
        let elsewhere = waiting::at_socket(doing, call);
        if elsewhere != doing && descriptor.is_some_and(|fd| process::is_socket(self.pid, fd)) {
            doing = elsewhere;
        }
        self.looks += 1;
        self.throttled += u32::from(doing == Doing::DirtyThrottle);
        waiting::count(&mut self.found, doing);
        self.doing = Some(doing);
        Some(ThreadLook { doing, descriptor, call: number })
    }

    /// What changed since the last call. `throttled`: the time that its control groups' quota took in the
    /// interval.
    pub fn interval(&mut self, throttled: Duration) -> Reading<ThreadInterval> {
        let now = self.times();
        let interval = match (self.before, now) {
            (Some(before), Some(now)) => Reading::Value(ThreadInterval {
                name: Some(self.name.clone()),
                cpu: now.run.saturating_sub(before.run),
                system: self.system_since_last(),
                runqueue: now.wait.saturating_sub(before.wait),
                throttled,
                looks: self.looks,
                in_dirty_throttle: self.throttled,
                found: self.found,
            }),
            _ => Reading::Missing(format!("thread {} has ended", self.tid)),
        };
        self.before = now;
        (self.looks, self.throttled, self.found) = (0, 0, Found::default());
        interval
    }

    /// How often it was found waiting for a disk, since the last call, where the caller may not read in which
    /// system call and where in the kernel: it may have been a write.
    pub fn take_hidden(&mut self) -> u32 {
        std::mem::take(&mut self.hidden)
    }

    /// Time in the kernel since the last call.
    fn system_since_last(&mut self) -> Option<Duration> {
        let now = self.system_time()?;
        let before = self.system.replace(now)?;
        Some(now.saturating_sub(before))
    }

    fn system_time(&self) -> Option<Duration> {
        thread::parse_system_time(read(&self.stat, &mut [0; 512])?)
    }

    /// CPU time so far.
    pub fn cpu(&self) -> Option<Duration> {
        self.times().map(|times| times.run)
    }

    fn times(&self) -> Option<ThreadTimes> {
        thread::parse(read(&self.times, &mut [0; 128])?).ok()
    }

    fn read_call(&mut self) -> Option<Call> {
        let mut room = [0; 256];
        match self.call.as_ref()?.read_at(&mut room, 0) {
            Ok(length) => waiting::parse_call(std::str::from_utf8(&room[..length]).ok()?),
            Err(_) => {
                // Refused now means refused always; an end shows in the other files too.
                self.call = None;
                None
            }
        }
    }
}

/// A short file, printed whole on the first read; `None` when the thread has ended.
fn read<'a>(file: &File, room: &'a mut [u8]) -> Option<&'a str> {
    let length = file.read_at(room, 0).ok()?;
    // A name that is not UTF-8 stands before what is asked for: cut to where the text is good again.
    match std::str::from_utf8(&room[..length]) {
        Ok(text) => Some(text),
        Err(_) => {
            let start = room[..length].iter().rposition(|byte| *byte == b')')?;
            std::str::from_utf8(&room[start..length]).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    fn found_doing(child: &Child, expected: Doing) {
        let pid = Pid(child.id());
        let mut probe = ThreadProbe::open(pid, pid.0, "it").unwrap();
        let start = Instant::now();
        while probe.look().map(|look| look.doing) != Some(expected) {
            assert!(start.elapsed() < Duration::from_secs(10), "never {expected:?}, but {:?}", probe.doing());
            std::thread::yield_now();
        }
    }

    #[test]
    fn processes_are_found_at_what_they_do() {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        found_doing(&sleeper, Doing::Sleeping);
        let mut reader = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        found_doing(&reader, Doing::PipeEmpty);
        let mut writer = Command::new("cat").arg("/dev/zero").stdout(Stdio::piped()).spawn().unwrap();
        found_doing(&writer, Doing::PipeFull);
        let mut worker = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        found_doing(&worker, Doing::Running);
        reader.stdin.take().unwrap().flush().unwrap();
        for child in [&mut sleeper, &mut reader, &mut writer, &mut worker] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn an_ended_thread_is_missing() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid(child.id());
        let mut probe = ThreadProbe::open(pid, pid.0, "sleep").unwrap();
        assert_eq!(probe.interval(Duration::ZERO).value().unwrap().name.as_deref(), Some("sleep"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(probe.look(), None);
        assert!(probe.interval(Duration::ZERO).missing().unwrap().ends_with("has ended"));
        assert!(ThreadProbe::open(pid, pid.0, "sleep").is_err());
    }
}
