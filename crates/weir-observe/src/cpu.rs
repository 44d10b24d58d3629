//! How busy is each processor, and how many may this process use?

use std::time::Duration;

use weir_model::evidence::CpuInterval;

use crate::error::{Malformed, ObserveError};
use crate::proc_file::{ProcFile, number};

/// One processor's time since the machine started, in clock ticks of 10 ms (USER_HZ, 100 on every common
/// machine).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// The processor's number. Those that are offline are not listed, so numbers may skip.
    pub cpu: u32,
    /// Working, interrupts of both kinds included; not idle, not waiting for I/O, not stolen.
    pub busy: u64,
    /// Of that, for programs of a positive nice value, which make room for all others.
    pub niced: u64,
    /// In soft interrupts: most of the kernel's work on received packets.
    pub softirq: u64,
    /// Ready to work, but the hypervisor ran someone else.
    pub steal: u64,
    /// All of these, idle and I/O wait.
    pub total: u64,
}

/// Reads the `cpuN` lines of `/proc/stat` (fs/proc/stat.c): user nice system idle iowait irq softirq steal;
/// guest time follows, but is in user already.
pub fn parse(text: &str) -> Result<Vec<CpuTicks>, Malformed> {
    let mut cpus = Vec::new();
    for line in text.lines().take_while(|line| line.starts_with("cpu")) {
        let mut words = line.split_ascii_whitespace();
        let label = words.next().unwrap_or_default();
        let Some(index) = label.strip_prefix("cpu").filter(|index| !index.is_empty()) else { continue };
        let index: u32 = index.parse().map_err(|_| Malformed(format!("a line for processor '{index}'")))?;
        let mut field = |name: &str| number(&format!("{name} of {label}"), words.next());
        let (user, nice, system) = (field("user")?, field("nice")?, field("system")?);
        let (idle, iowait) = (field("idle")?, field("iowait")?);
        let (irq, softirq, steal) = (field("irq")?, field("softirq")?, field("steal")?);
        let busy = [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add);
        let total = [busy, idle, iowait, steal].into_iter().fold(0, u64::saturating_add);
        cpus.push(CpuTicks { cpu: index, busy, niced: nice, softirq, steal, total });
    }
    if cpus.is_empty() { Err(Malformed("no processor".to_owned())) } else { Ok(cpus) }
}

/// The shares between two readings; `process` is this process's CPU time between them. `None` when no tick
/// passed.
///
/// A share is no finer than one tick: in an interval of 100 ms it moves by tenths. A processor that came or
/// went between the two readings is left out.
pub fn interval(before: &[CpuTicks], after: &[CpuTicks], process: Duration) -> Option<CpuInterval> {
    let mut seen = CpuInterval { process, ..CpuInterval::default() };
    let mut passed = false;
    for now in after {
        let Some(then) = before.iter().find(|then| then.cpu == now.cpu) else { continue };
        let total = now.total.saturating_sub(then.total);
        passed |= total > 0;
        // Idle and I/O wait can step back a little (Documentation/filesystems/proc.rst), so parts may exceed
        // the total.
        let share = |now: u64, then: u64| (now.saturating_sub(then) as f64 / total.max(1) as f64).min(1.0);
        seen.busy.push(share(now.busy, then.busy));
        seen.niced += share(now.niced, then.niced);
        seen.softirq = seen.softirq.max(share(now.softirq, then.softirq));
        seen.steal = seen.steal.max(share(now.steal, then.steal));
    }
    passed.then_some(seen)
}

/// `/proc/stat`, kept open. The kernel prints all its interrupt counters on each read, so ten times a second
/// is plenty on a machine with hundreds of processors.
#[derive(Debug)]
pub struct CpuReader(ProcFile);

impl CpuReader {
    /// Fails where `/proc` is not mounted.
    pub fn open() -> Result<CpuReader, ObserveError> {
        ProcFile::open("/proc/stat").map(CpuReader)
    }

    /// Each processor's ticks up to now.
    pub fn read(&mut self) -> Result<Vec<CpuTicks>, ObserveError> {
        self.0.read(parse)
    }
}

/// Processors this process may use: its affinity mask, cut by the CPU quota of its cgroup (v1 and v2, and
/// those of the cgroups above it) rounded down to whole processors, at least 1.
pub fn available_cpus() -> u32 {
    // The standard library does exactly this on Linux; it errs only where sched_getaffinity is forbidden.
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURED: &str = include_str!("../tests/data/6.18/stat");

    #[test]
    fn captured_stat_has_two_processors() {
        let cpus = parse(CAPTURED).unwrap();
        let line = CAPTURED.lines().nth(2).unwrap();
        let fields: Vec<u64> = line.split(' ').skip(1).map(|field| field.parse().unwrap()).collect();
        assert_eq!(cpus.len(), 2);
        assert_eq!(cpus[1].cpu, 1);
        assert_eq!(cpus[1].softirq, fields[6]);
        assert_eq!(cpus[1].steal, fields[7]);
        assert_eq!(cpus[1].total, fields[..8].iter().sum::<u64>());
        assert_eq!(cpus[1].busy, cpus[1].total - fields[3] - fields[4] - fields[7]);
    }

    #[test]
    fn truncated_or_odd_stat_is_an_error() {
        assert_eq!(parse(""), Err(Malformed("no processor".into())));
        assert_eq!(parse("cpu  1 2 3 4 5 6 7 8 0 0\n"), Err(Malformed("no processor".into())));
        assert_eq!(parse("cpu0 1 2 3 4 5 6"), Err(Malformed("no softirq of cpu0".into())));
        assert_eq!(
            parse("cpu0 1 -2 3 4 5 6 7 8"),
            Err(Malformed("nice of cpu0 is '-2', not a number".into()))
        );
        assert_eq!(parse("cpux 1"), Err(Malformed("a line for processor 'x'".into())));
    }

    #[test]
    fn shares_are_those_of_the_window_alone() {
        let before = parse("cpu0 100 0 100 800 0 0 50 0\ncpu1 0 5 0 1000 0 0 0 0\n").unwrap();
        let after =
            parse("cpu0 101 2 101 800 0 0 56 0\ncpu1 0 6 0 1007 0 0 0 2\ncpu2 9 0 0 0 0 0 0 0\n").unwrap();
        let seen = interval(&before, &after, Duration::from_millis(7)).unwrap();
        assert_eq!(seen.busy, [1.0, 0.1]);
        assert_eq!((seen.softirq, seen.steal), (0.6, 0.2));
        assert!((seen.niced - 0.3).abs() < 1e-9, "{seen:?}");
        assert_eq!(seen.process, Duration::from_millis(7));
        assert_eq!(interval(&before, &before, Duration::ZERO), None);
    }

    #[test]
    fn idle_time_that_steps_back_does_not_give_more_than_all() {
        let before = parse("cpu0 10 0 0 100 50 0 0 0\n").unwrap();
        let after = parse("cpu0 20 0 0 100 45 0 0 0\n").unwrap();
        assert_eq!(interval(&before, &after, Duration::ZERO).unwrap().busy, [1.0]);
    }

    #[test]
    fn this_machine_has_processors() {
        let listed = CpuReader::open().unwrap().read().unwrap().len() as u32;
        assert!((1..=listed).contains(&available_cpus()));
    }
}
