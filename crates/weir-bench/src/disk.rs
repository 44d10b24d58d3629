//! What does the disk under a folder give, and when does the page cache stop hiding it?
//!
//! * [`target`]: a file that nobody sees and that is gone with this process, and the room for it.
//! * [`knee`], [`forecast`]: pure: where writes begin to be paced, and what that means for a file of some
//!   size.
//! * [`ring`]: many requests at once, by io_uring.
//! * [`run`]: everything once, each part bounded in time and room.

pub mod forecast;
pub mod knee;
mod read;
pub mod ring;
pub mod target;
mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_observe::dirty::{DirtyReader, GroupLimit, VmstatReader};
use weir_observe::disk::{Device, DiskReader, block_device, device_number};
use weir_units::{plain, stats};

use forecast::{Grounds, Limits, SeenKnee};
use knee::Knee;
use target::Target;

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The most that is written at a time, bytes.
    pub size: u64,
    /// How long each part goes on, once it has what it needs.
    pub span: Duration,
    /// How long writing into the page cache goes on, whether it meets its knee or not.
    pub timeout: Duration,
    /// Requests at once, one after another.
    pub depths: Vec<u32>,
}

impl Plan {
    /// Some twenty seconds on a disk that is not slow.
    pub fn usual() -> Plan {
        Plan {
            size: 1 << 30,
            span: Duration::from_secs(2),
            timeout: Duration::from_secs(30),
            depths: vec![1, 2, 4, 8, 16, 32, 64],
        }
    }

    /// Some five seconds.
    pub fn quick() -> Plan {
        Plan {
            size: 256 << 20,
            span: Duration::from_millis(500),
            timeout: Duration::from_secs(5),
            depths: vec![1, 8, 64],
        }
    }
}

/// What was found. What could not be measured is `None`, and [`DiskOutcome::missing`] says why.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiskOutcome {
    /// The block device, as the kernel calls it; `None` where there is not one.
    pub device: Option<String>,
    /// The file never had a name.
    pub nameless: bool,
    /// The file system is memory, with no disk below it.
    pub memory: bool,
    /// Bytes that were free before.
    pub free: u64,
    /// The largest file that was written, bytes.
    pub size: u64,
    /// What may wait in memory.
    pub limits: Option<Limits>,
    /// Writing into the page cache.
    pub buffered: Option<Buffered>,
    /// Bytes a second of writing and a sync at the end, the sync's time included.
    pub synced: Option<f64>,
    /// Bytes a second past the page cache (O_DIRECT), in order, a block after another.
    pub direct_write: Option<f64>,
    /// Seconds until a block that is written is on the disk (fdatasync).
    pub sync: Option<Times>,
    /// Bytes a second in order, not in memory.
    pub read_cold: Option<f64>,
    /// The same when it is.
    pub read_warm: Option<f64>,
    /// Bytes a second past the page cache, in order.
    pub read_direct: Option<f64>,
    /// Seconds for a block from a random place, not in memory.
    pub random_cold: Option<Times>,
    /// The same when it is.
    pub random_warm: Option<Times>,
    /// Blocks at random places past the page cache, so many at once.
    pub depths: Vec<Depth>,
    /// What was not measured, and why.
    pub missing: Vec<String>,
    /// Ended before everything was measured.
    pub interrupted: bool,
}

impl DiskOutcome {
    /// What a file's forecast rests on: the knee and the rates that were seen, paced writes where there were
    /// some, else writes past memory; the limits, and the room. What is memory itself never falls behind.
    /// `None` where a rate is missing.
    pub fn grounds(&self) -> Option<Grounds> {
        let buffered = self.buffered?;
        let disk = match self.memory {
            true => f64::INFINITY,
            false => buffered.knee.map(|knee| knee.after).or(self.direct_write).or(self.synced)?,
        };
        let seen = buffered.knee.map_or(SeenKnee::Free(buffered.bytes), |knee| SeenKnee::Paced(knee.bytes));
        Some(Grounds { seen, limits: self.limits, memory: buffered.rate, disk, free: self.free })
    }
}

/// Writing into the page cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Buffered {
    /// Bytes a second until the knee, or all the time without one.
    pub rate: f64,
    /// Where writes began to be paced; `None` if they were not.
    pub knee: Option<Knee>,
    /// Bytes a second that the device took after the knee, all its writers together; where it is known.
    pub on_disk: Option<f64>,
    /// The most that waited in memory, bytes, for all devices.
    pub dirty: u64,
    /// Bytes written.
    pub bytes: u64,
    /// For so long.
    pub seconds: f64,
}

/// How long single requests took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// In the middle, seconds.
    pub median: f64,
    /// Of a hundred the slowest, seconds; the slowest of fewer.
    pub p99: f64,
    /// Requests.
    pub count: usize,
}

impl Times {
    /// `None` of none.
    pub fn of(seconds: Vec<f64>) -> Option<Times> {
        let seconds = stats::sorted(seconds);
        Some(Times {
            median: stats::low(&seconds, 1, 2)?,
            p99: stats::high(&seconds, 1, 100)?,
            count: seconds.len(),
        })
    }
}

/// So many requests at once.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Depth {
    /// Requests at once.
    pub depth: u32,
    /// They write.
    pub write: bool,
    /// Requests a second.
    pub rate: f64,
    /// How long each took.
    pub times: Times,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// No file can be made there.
    #[error("cannot make a file in {}: {}", folder.display(), plain(cause))]
    Make {
        /// The folder.
        folder: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// Too little room.
    #[error("{} has {free} bytes free, and {kept} of them are left alone: at least {least} more are needed", folder.display())]
    Full {
        /// The folder.
        folder: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that stay free.
        kept: u64,
        /// Bytes that are needed.
        least: u64,
    },
    /// A write failed, which nothing can be measured without.
    #[error("cannot write in {}: {}", folder.display(), plain(cause))]
    Write {
        /// The folder.
        folder: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// No memory for buffers.
    #[error("cannot have memory for the buffers: {}", plain(.0))]
    Buffers(io::Error),
}

/// Told what comes next, which of how many parts that is; false ends the measurement.
pub type Progress<'a> = dyn FnMut(&str, usize, usize) -> bool + 'a;

/// What the parts share.
pub(crate) struct Subject<'a, 'b> {
    pub(crate) plan: &'a Plan,
    pub(crate) target: Target,
    pub(crate) room: u64,
    pub(crate) device: Option<Device>,
    pub(crate) outcome: DiskOutcome,
    progress: &'a mut Progress<'b>,
    part: &'static str,
    done: usize,
    told: Option<Instant>,
}

/// How often whoever waits is told, and asked whether to go on.
const TELL: Duration = Duration::from_millis(50);

/// The parts, in order.
const PARTS: usize = 7;

/// Whether there is a folder that a file can be made in, with room: what [`run`] would begin with.
pub fn check(folder: &Path, plan: &Plan) -> Result<(), DiskError> {
    place(folder, plan).map(|_| ())
}

/// The file, the bytes that are free beside it, and how many of them may be written.
fn place(folder: &Path, plan: &Plan) -> Result<(Target, u64, u64), DiskError> {
    let target =
        Target::make(folder).map_err(|cause| DiskError::Make { folder: folder.to_owned(), cause })?;
    let free = target.free().map_err(|cause| DiskError::Make { folder: folder.to_owned(), cause })?;
    let room = target::room(plan.size, free).map_err(|kept| DiskError::Full {
        folder: folder.to_owned(),
        free,
        kept,
        least: target::LEAST,
    })?;
    Ok((target, free, room))
}

/// Measures in `folder`.
pub fn run(folder: &Path, plan: &Plan, progress: &mut Progress<'_>) -> Result<DiskOutcome, DiskError> {
    let (target, free, room) = place(folder, plan)?;
    let device = device_number(folder).ok();
    let (nameless, memory) = (target.nameless, target.has_disk().is_err());
    let mut outcome = DiskOutcome { free, size: room, nameless, memory, ..DiskOutcome::default() };
    if let Some(why) = &target.why_named {
        outcome.missing.push(why.clone());
    }
    if room < target::whole(plan.size) {
        outcome
            .missing
            .push(format!("{room} bytes are written instead of {}: the rest stays free", plan.size));
    }
    match block_device(folder) {
        Ok(device) => outcome.device = name(device),
        Err(why) => outcome.missing.push(why.to_string()),
    }
    outcome.limits = limits(device);
    let mut subject =
        Subject { plan, target, room, device, outcome, progress, part: "", done: 0, told: None };
    let failed = |cause| DiskError::Write { folder: folder.to_owned(), cause };
    write::buffered(&mut subject).map_err(failed)?;
    write::synced(&mut subject).map_err(failed)?;
    write::direct(&mut subject).map_err(DiskError::Buffers)?;
    write::sync(&mut subject);
    read::sequential(&mut subject).map_err(DiskError::Buffers)?;
    read::random(&mut subject).map_err(DiskError::Buffers)?;
    read::depths(&mut subject).map_err(DiskError::Buffers)?;
    Ok(subject.outcome)
}

impl Subject<'_, '_> {
    /// Says what comes next. False when no more is wanted.
    pub(crate) fn next(&mut self, part: &'static str) -> bool {
        self.part = part;
        self.done += 1;
        self.told = None;
        self.go_on()
    }

    /// Whether the part may go on.
    pub(crate) fn go_on(&mut self) -> bool {
        if self.told.is_some_and(|told| told.elapsed() < TELL) {
            return !self.outcome.interrupted;
        }
        self.told = Some(Instant::now());
        let index = self.done.saturating_sub(1).min(PARTS - 1);
        let more = !self.outcome.interrupted && (self.progress)(self.part, index, PARTS);
        self.outcome.interrupted = !more;
        more
    }

    /// Notes why a part has no figure.
    pub(crate) fn missing(&mut self, what: &str, why: &io::Error) {
        self.outcome.missing.push(format!("{what}: {}", plain(why)));
    }

    /// Bytes that the device has taken, all its writers together.
    pub(crate) fn taken(&self) -> Option<u64> {
        let counters = DiskReader::open(self.device?).and_then(|mut reader| reader.read());
        counters.ok().map(|counters| counters.written)
    }
}

fn name(device: Device) -> Option<String> {
    DiskReader::open(device).and_then(|mut reader| reader.read()).ok().map(|counters| counters.name)
}

/// What may wait in memory for the device.
fn limits(device: Option<Device>) -> Option<Limits> {
    let now = DirtyReader::open(device).and_then(|mut reader| reader.read()).ok()?;
    let machine = VmstatReader::open().and_then(|mut reader| reader.read()).ok();
    let group = machine.as_ref().and_then(GroupLimit::read);
    Some(Limits { threshold: now.threshold, background: now.background, device: now.device_limit, group })
}

/// Looks at what waits in memory, for all devices.
pub(crate) struct Waiting(Option<VmstatReader>);

impl Waiting {
    pub(crate) fn open() -> Waiting {
        Waiting(VmstatReader::open().ok())
    }

    pub(crate) fn read(&mut self) -> u64 {
        let now = self.0.as_mut().and_then(|reader| reader.read().ok());
        now.map_or(0, |now| now.dirty.saturating_add(now.writeback))
    }
}

/// Seconds since.
pub(crate) fn since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick() -> Plan {
        Plan {
            size: 32 << 20,
            span: Duration::from_millis(30),
            timeout: Duration::from_millis(300),
            depths: vec![1, 4],
        }
    }

    #[test]
    fn every_part_has_a_figure_or_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        let outcome = run(folder.path(), &quick(), &mut |part, index, count| {
            assert!(index < count);
            told.push(part.to_owned());
            true
        })
        .unwrap();
        told.dedup();
        assert_eq!(told.len(), PARTS, "{told:?}");
        let buffered = outcome.buffered.unwrap();
        assert!(buffered.rate > 0.0 && buffered.bytes > 0, "{buffered:?}");
        assert!(outcome.read_warm.unwrap() > 0.0 && outcome.random_warm.unwrap().count > 0);
        let said = |what: &str| outcome.missing.iter().any(|why| why.contains(what));
        assert!(outcome.synced.is_some() || said("writes with a sync"), "{outcome:?}");
        assert!(outcome.sync.is_some() || said("syncs"), "{outcome:?}");
        assert!(outcome.read_cold.is_some() || said("cold reads in order"), "{outcome:?}");
        assert!(outcome.random_cold.is_some() || said("cold reads at random"), "{outcome:?}");
        assert!(outcome.direct_write.is_some() || said("direct writes"), "{outcome:?}");
        assert!(outcome.depths.len() == 4 || said("at once"), "{outcome:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn whoever_stops_it_gets_what_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let outcome = run(folder.path(), &quick(), &mut |_, index, _| index < 1).unwrap();
        assert!(outcome.interrupted && outcome.buffered.is_some());
        assert!(outcome.direct_write.is_none() && outcome.depths.is_empty());
    }

    #[test]
    fn what_was_not_read_has_no_rate() {
        let folder = tempfile::tempdir().unwrap();
        // The part begins, and the next question comes before its first read.
        let mut begun = false;
        let outcome = run(folder.path(), &quick(), &mut |part, _, _| {
            let is_second = begun;
            begun = part == "reads in order";
            if begun {
                std::thread::sleep(TELL);
            }
            !is_second
        })
        .unwrap();
        assert!(outcome.interrupted && (outcome.synced.is_some() || outcome.memory), "{outcome:?}");
        let rates = [outcome.read_cold, outcome.read_warm, outcome.read_direct];
        assert_eq!(rates, [None; 3], "{outcome:?}");
    }

    #[test]
    fn middle_and_slowest() {
        assert_eq!(Times::of(Vec::new()), None);
        let times = Times::of((1..=1000).rev().map(f64::from).collect()).unwrap();
        assert_eq!((times.median, times.p99, times.count), (500.0, 991.0, 1000));
        assert_eq!(Times::of(vec![3.0, 1.0]).unwrap().p99, 3.0);
    }
}
