//! What is the most memory that this process ever held, and how much could it have?

use std::path::Path;

use crate::cgroup::parse_membership;
use crate::error::{Malformed, ObserveError};
use crate::proc_file::{number, read_once};

/// Picks `VmHWM`, the peak of the resident set, out of `/proc/PID/status`; bytes.
pub fn parse(text: &str) -> Result<u64, Malformed> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    // "kB" here means 1024 bytes (fs/proc/task_mmu.c, SEQ_PUT_DEC).
    let value = line.map(|line| line.trim().trim_end_matches(" kB"));
    number("VmHWM", value).map(|kib| kib.saturating_mul(1024))
}

/// This process's peak resident set, bytes; pages of mapped files count while they are resident. The kernel
/// counts in batches, so it may be off by some hundred KiB.
pub fn peak_rss() -> Result<u64, ObserveError> {
    read_once("/proc/self/status", parse)
}

/// The machine's memory, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// In all.
    pub total: u64,
    /// What programs could have without swapping, as the kernel estimates it.
    pub available: u64,
}

/// Picks `MemTotal` and `MemAvailable` out of `/proc/meminfo`.
pub(crate) fn parse_meminfo(text: &str) -> Result<Memory, Malformed> {
    let bytes = |name: &'static str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        number(name, value.map(|value| value.trim().trim_end_matches(" kB")))
            .map(|kib| kib.saturating_mul(1024))
    };
    Ok(Memory { total: bytes("MemTotal")?, available: bytes("MemAvailable")? })
}

/// The page cache of a group and of those below it, out of its `memory.stat`, bytes: what lies on the lists
/// of files. Version 1 tells the group's own beside both together, which have `total_` before their names
/// (Documentation/admin-guide/cgroup-v1/memory.rst).
fn page_cache(text: &str) -> u64 {
    let count = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        lines.next().and_then(|value| value.trim().parse::<u64>().ok())
    };
    let both = |list: &str| count(&format!("total_{list}")).or_else(|| count(list)).unwrap_or(0);
    both("inactive_file").saturating_add(both("active_file"))
}

/// A memory group that has a limit, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// What it may have: of version 2 the lower one of `memory.max` and `memory.high`, above which it is made
    /// to give back.
    pub limit: u64,
    /// What it could still have: what is left, and the page cache that the kernel takes back where memory is
    /// wanted.
    pub available: u64,
    /// It has thresholds of dirty pages of its own, as groups of version 2 do.
    pub has_thresholds: bool,
}

impl Group {
    /// Reads the group in this folder; `None` where it has no limit.
    fn read(folder: &Path) -> Option<Group> {
        let count = |file: &str| {
            read_once(&folder.join(file).to_string_lossy(), |text| number("bytes", Some(text))).ok()
        };
        let second = [count("memory.max"), count("memory.high")].into_iter().flatten().min();
        let limit = second.or_else(|| count("memory.limit_in_bytes"))?;
        let used = count("memory.current").or_else(|| count("memory.usage_in_bytes"));
        let stat = folder.join("memory.stat");
        let cache = read_once(&stat.to_string_lossy(), |text| Ok(page_cache(text))).unwrap_or(0);
        let available = limit.saturating_sub(used.unwrap_or(0).saturating_sub(cache));
        Some(Group { limit, available, has_thresholds: second.is_some() })
    }
}

/// This process's memory groups that have a limit, and those above them.
fn groups() -> Vec<Group> {
    let folders =
        read_once("/proc/self/cgroup", |text| Ok(parse_membership(text, "memory"))).unwrap_or_default();
    folders.iter().filter_map(|folder| Group::read(folder)).collect()
}

/// Of those, the one that could have least; `None` where none could have less than the machine.
pub(crate) fn tightest_group() -> Option<Group> {
    // A group of version 1 without a limit has one of 2^63 bytes.
    let total = machine().map_or(u64::MAX, |machine| machine.total);
    groups().into_iter().filter(|group| group.limit < total).min_by_key(|group| group.available)
}

/// The machine's alone.
pub fn machine() -> Result<Memory, ObserveError> {
    read_once("/proc/meminfo", parse_meminfo)
}

/// What this process may have: the machine's, or less where one of its memory groups has a limit.
pub fn memory() -> Result<Memory, ObserveError> {
    Ok(groups().iter().fold(machine()?, |seen, group| Memory {
        total: seen.total.min(group.limit),
        available: seen.available.min(group.available),
    }))
}

/// Of [`memory`], what programs could have, bytes; `None` where that cannot be read.
pub fn available() -> Option<u64> {
    memory().ok().map(|memory| memory.available)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_told_in_bytes() {
        let text = "MemTotal:       24683840 kB\nMemFree:  23541000 kB\nMemAvailable:   24103000 kB\n";
        let memory = Memory { total: 24_683_840 << 10, available: 24_103_000 << 10 };
        assert_eq!(parse_meminfo(text), Ok(memory));
        assert_eq!(parse_meminfo("MemTotal: 1 kB\n"), Err(Malformed("no MemAvailable".into())));
        let here = super::memory().unwrap();
        assert!(here.available <= here.total && here.total > 1 << 20, "{here:?}");
    }

    #[test]
    fn memory_groups_of_both_versions() {
        let folders = parse_membership("4:memory:/a/b\n1:cpu:/c\n0::/s.slice\nodd\n", "memory");
        let expected = ["memory/a/b", "memory/a", "memory", "s.slice", ""];
        assert_eq!(folders, expected.map(|group| std::path::Path::new("/sys/fs/cgroup").join(group)));
    }

    #[test]
    fn a_group_of_either_version_has_a_limit_and_what_it_could_have() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(Group::read(folder.path()), None);
        write("memory.max", "max\n");
        assert_eq!(Group::read(folder.path()), None);
        write("memory.max", "1000\n");
        write("memory.current", "700\n");
        write("memory.stat", "anon 300\ninactive_file 250\nactive_file 50\n");
        assert_eq!(
            Group::read(folder.path()),
            Some(Group { limit: 1000, available: 600, has_thresholds: true })
        );
        write("memory.high", "900\n");
        assert_eq!(Group::read(folder.path()).unwrap().limit, 900);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("memory.limit_in_bytes"), "500\n").unwrap();
        std::fs::write(folder.path().join("memory.usage_in_bytes"), "600\n").unwrap();
        assert_eq!(
            Group::read(folder.path()),
            Some(Group { limit: 500, available: 0, has_thresholds: false })
        );
    }

    #[test]
    fn the_page_cache_of_groups_of_both_versions() {
        let first = "cache 70\ninactive_file 1\nactive_file 2\ntotal_inactive_file 30\ntotal_active_file 4\n";
        assert_eq!(page_cache(first), 34);
        assert_eq!(page_cache("anon 5\nfile 9\ninactive_anon 1\ninactive_file 4\nactive_file 3\n"), 7);
        assert_eq!((page_cache(""), page_cache("inactive_file lots\n")), (0, 0));
    }

    #[test]
    fn captured_status() {
        let text = include_str!("../tests/data/6.18/status");
        let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        let kib: u64 = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
        assert_eq!(parse(text), Ok(kib * 1024));
    }

    #[test]
    fn truncated_or_odd_status_is_an_error() {
        assert_eq!(parse("Name:\tkthreadd\nState:\tS\n"), Err(Malformed("no VmHWM".into())));
        assert!(parse("VmHWM:\t").is_err());
        assert!(parse("VmHWM:\t  lots kB\n").is_err());
    }

    #[test]
    fn this_process_holds_some_memory() {
        assert!(peak_rss().unwrap() > 100_000);
    }
}
