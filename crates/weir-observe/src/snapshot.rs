//! What did the machine do between two looks at it?
//!
//! Holds the files open that [`Sampler::host_window`] reads, and the counters of the last call. What the
//! lanes' threads and sockets did is [`LaneProbe`](crate::LaneProbe)'s.

use std::path::Path;
use std::time::{Duration, Instant};

use weir_model::evidence::{CpuInterval, DirtyInterval, DiskInterval, Reading};

use crate::cpu::{self, CpuReader, CpuTicks};
use crate::dirty::DirtyReader;
use crate::disk::{self, Device, DiskCounters, DiskReader, FileSystem};
use crate::error::{ObserveError, reading};
use crate::thread::process_cpu_now;

/// The machine over one interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostInterval {
    /// Every processor's use.
    pub cpu: Reading<CpuInterval>,
    /// The page cache's dirty state at the interval's end.
    pub dirty: Reading<DirtyInterval>,
    /// The device that holds the output.
    pub disk: Reading<DiskInterval>,
}

/// Watches the machine during one transfer.
#[derive(Debug)]
pub struct Sampler {
    cpu: Result<CpuReader, ObserveError>,
    dirty: Result<DirtyReader, ObserveError>,
    disk: Result<DiskReader, ObserveError>,
    before: Snapshot,
}

/// The counters at one instant. Where a reading failed, the next interval has nothing to subtract and says
/// why.
#[derive(Debug)]
struct Snapshot {
    at: Instant,
    process: Duration,
    cpu: Result<Vec<CpuTicks>, String>,
    disk: Result<DiskCounters, String>,
}

impl Sampler {
    /// Starts the first interval. `output` is the file or folder written to, which need not exist yet; `None`
    /// when the bytes go to a pipe or nowhere.
    pub fn new(output: Option<&Path>) -> Sampler {
        let device = output.map(disk::device_number).and_then(Result::ok);
        let disk = match output {
            Some(path) => disk::block_device(path),
            None => Err(ObserveError::Absent("the output is not a file".to_owned())),
        };
        Sampler::start(device, disk)
    }

    /// The same for a file that another program writes, which may live in another mount namespace.
    pub(crate) fn of_file(path: &Path, on: FileSystem) -> Sampler {
        Sampler::start(Some(on.device), on.block_device(path))
    }

    fn start(device: Option<Device>, disk: Result<Device, ObserveError>) -> Sampler {
        let mut cpu = CpuReader::open();
        let dirty = DirtyReader::open(device);
        let mut disk = disk.and_then(DiskReader::open);
        let before = Snapshot::read(&mut cpu, &mut disk);
        Sampler { cpu, dirty, disk, before }
    }

    /// The device that holds the output, as `/proc/diskstats` calls it; as of the last interval.
    pub fn disk_name(&self) -> Reading<&str> {
        match &self.before.disk {
            Ok(counters) => Reading::Value(&counters.name),
            Err(why) => Reading::Missing(why.clone()),
        }
    }

    /// What changed since the last call, or since [`Sampler::new`].
    ///
    /// Costs 25 us on a 2-core Linux 6.18 machine, more with more processors: the kernel prints
    /// `/proc/vmstat`, `/proc/stat` and `/proc/diskstats` anew. Under 100 ms an interval is too short for the
    /// processors' 10 ms ticks.
    pub fn host_interval(&mut self) -> HostInterval {
        let now = Snapshot::read(&mut self.cpu, &mut self.disk);
        let interval = HostInterval {
            cpu: now.cpu_since(&self.before),
            dirty: reading(through(&mut self.dirty, DirtyReader::read)),
            disk: now.disk_since(&self.before),
        };
        self.before = now;
        interval
    }
}

impl Snapshot {
    fn read(
        cpu: &mut Result<CpuReader, ObserveError>,
        disk: &mut Result<DiskReader, ObserveError>,
    ) -> Snapshot {
        Snapshot {
            at: Instant::now(),
            process: process_cpu_now(),
            cpu: through(cpu, CpuReader::read),
            disk: through(disk, DiskReader::read),
        }
    }

    fn cpu_since(&self, before: &Snapshot) -> Reading<CpuInterval> {
        reading(both(&before.cpu, &self.cpu).and_then(|(then, now)| {
            cpu::interval(then, now, self.process.saturating_sub(before.process))
                .ok_or_else(|| "no clock tick passed in this interval".to_owned())
        }))
    }

    fn disk_since(&self, before: &Snapshot) -> Reading<DiskInterval> {
        let span = self.at.duration_since(before.at);
        reading(both(&before.disk, &self.disk).map(|(then, now)| disk::interval(then, now, span)))
    }
}

/// Reads through a source that may have failed to open, and then has its reason again each time.
fn through<S, T>(
    source: &mut Result<S, ObserveError>,
    read: fn(&mut S) -> Result<T, ObserveError>,
) -> Result<T, String> {
    match source {
        Ok(source) => read(source).map_err(|err| err.to_string()),
        Err(why) => Err(why.to_string()),
    }
}

fn both<'a, T>(then: &'a Result<T, String>, now: &'a Result<T, String>) -> Result<(&'a T, &'a T), String> {
    match (then, now) {
        (Ok(then), Ok(now)) => Ok((then, now)),
        (_, Err(why)) | (Err(why), _) => Err(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_work_shows_in_the_processors() {
        let mut sampler = Sampler::new(None);
        let start = Instant::now();
        let cpu_start = process_cpu_now();
        while process_cpu_now() - cpu_start < Duration::from_millis(100) {
            assert!(start.elapsed() < Duration::from_secs(60), "never ran");
        }
        let seen = sampler.host_interval();
        let cpu = seen.cpu.value().unwrap();
        assert!(cpu.process >= Duration::from_millis(100), "{cpu:?}");
        assert!(cpu.busy.iter().all(|share| (0.0..=1.0).contains(share)), "{cpu:?}");
        assert!(cpu.busy.iter().any(|&share| share > 0.0), "{cpu:?}");
        assert!(seen.dirty.value().is_some(), "{seen:?}");
        assert_eq!(seen.disk.missing(), Some("the output is not a file"));
        assert_eq!(sampler.disk_name().missing(), Some("the output is not a file"));
    }

    #[test]
    fn an_output_without_a_disk_says_why() {
        let mut sampler = Sampler::new(Some(Path::new("/proc/self/status")));
        let seen = sampler.host_interval();
        assert!(seen.disk.missing().unwrap().contains("it is on a file system without one"), "{seen:?}");
        assert!(seen.dirty.value().is_some(), "{seen:?}");
    }

    #[test]
    fn a_window_without_a_tick_is_missing_not_zero() {
        let ticks = vec![CpuTicks { cpu: 0, busy: 5, niced: 0, softirq: 0, steal: 0, total: 9 }];
        let at = Instant::now();
        let same =
            || Snapshot { at, process: Duration::ZERO, cpu: Ok(ticks.clone()), disk: Err("gone".into()) };
        let missing = same().cpu_since(&same());
        assert_eq!(missing.missing(), Some("no clock tick passed in this interval"));
        assert_eq!(same().disk_since(&same()).missing(), Some("gone"));
    }
}
