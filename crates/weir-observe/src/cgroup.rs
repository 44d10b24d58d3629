//! How long did the CPU quota of its control groups hold a process back?
//!
//! A quota may be set at any level, so the group's own `cpu.stat` and those of all groups above it count.
//! Version 1 tells nanoseconds (`throttled_time`), version 2 microseconds (`throttled_usec`); both sum over
//! the group's processors, so the time of one thread is at most that.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Malformed, ObserveError};
use crate::proc_file::{ProcFile, number, read_once};
use crate::process::Pid;

/// Where control groups of either version are mounted on every common system.
const ROOT: &str = "/sys/fs/cgroup";

/// Whether and how long a group was held back since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Periods (of 100 ms, most often) in which the quota ran out.
    pub periods: u64,
    /// Time for which its threads had to wait, summed over processors.
    pub time: Duration,
}

/// Reads `cpu.stat` of either version (Documentation/scheduler/sched-bwc.rst). A group without a quota has
/// none of it.
pub fn parse(text: &str) -> Result<Throttled, Malformed> {
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map(|value| number(name, Some(value))).transpose()
    };
    let time = match (field("throttled_usec")?, field("throttled_time")?) {
        (Some(micros), _) => Duration::from_micros(micros),
        (None, Some(nanos)) => Duration::from_nanos(nanos),
        (None, None) => Duration::ZERO,
    };
    Ok(Throttled { periods: field("nr_throttled")?.unwrap_or_default(), time })
}

/// The folders of a process's group for `controller` (`cpu`, `memory`) and of all above it. The uppermost
/// that is mounted is one of them: on the host it is the root, which can have no limit, but a container finds
/// its own group there, limits and all.
///
/// `/proc/PID/cgroup` has a line for each hierarchy: number, controllers, path; version 2 is number 0 without
/// any.
pub fn parse_membership(text: &str, controller: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let hierarchy = match controllers {
            "" => PathBuf::from(ROOT),
            names if names.split(',').any(|name| name == controller) => PathBuf::from(ROOT).join(names),
            _ => continue,
        };
        if is_outside(path) {
            continue;
        }
        let mut path = path.trim_matches('/');
        while !path.is_empty() {
            folders.push(hierarchy.join(path));
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
        folders.push(hierarchy);
    }
    folders
}

/// The number of a process's group of version 2, as sockets carry it
/// ([`Glance::cgroup`](crate::sock_diag::QuickSocket)), and the processes in the group; `None` where there is
/// no such group or it may not be read.
pub fn unified(pid: Pid) -> Option<(u64, Vec<Pid>)> {
    use std::os::unix::fs::MetadataExt;
    let path = read_once(&format!("/proc/{pid}/cgroup"), |text| Ok(parse_unified(text))).ok()??;
    // Beside hierarchies of version 1 it has a folder of its own there (systemd's hybrid layout).
    let roots = [PathBuf::from(ROOT).join("unified"), PathBuf::from(ROOT)];
    let folder =
        roots.map(|root| root.join(&path)).into_iter().find(|it| it.join("cgroup.procs").is_file())?;
    let members = |text: &str| Ok(text.split_ascii_whitespace().flat_map(str::parse).map(Pid).collect());
    let processes = read_once(&folder.join("cgroup.procs").to_string_lossy(), members).ok()?;
    Some((std::fs::metadata(folder).ok()?.ino(), processes))
}

/// The path in the hierarchy of version 2, whose line has number 0 and no controllers; without its first
/// stroke.
fn parse_unified(text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    (!is_outside(path)).then(|| PathBuf::from(path))
}

/// Whether a group lies outside of the caller's own part of the tree (cgroup_namespaces.7), where it may not
/// be looked at.
fn is_outside(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// A process's groups, their files kept open.
#[derive(Debug)]
pub struct Quota {
    groups: Vec<(ProcFile, Duration)>,
}

impl Quota {
    /// Fails when the process has ended, or its groups are not visible. A process in the host's root group
    /// has a quota that never holds.
    pub fn open(pid: Pid) -> Result<Quota, ObserveError> {
        let visible = |text: &str| {
            let folders = parse_membership(text, "cpu");
            Ok((!folders.is_empty() || !text.lines().any(is_outside)).then_some(folders))
        };
        let folders = read_once(&format!("/proc/{pid}/cgroup"), visible)?.ok_or_else(|| {
            ObserveError::Absent(
                "the CPU quota is not visible: the control group lies outside this control-group namespace; a \
                 wait for a processor may be the quota's"
                    .to_owned(),
            )
        })?;
        let open = |folder: &PathBuf| {
            let mut file = ProcFile::open(folder.join("cpu.stat").to_string_lossy()).ok()?;
            let before = file.read(parse).ok()?.time;
            Some((file, before))
        };
        Ok(Quota { groups: folders.iter().filter_map(open).collect() })
    }

    /// Time held back since the last call. A thread is held back by one group at a time, the tightest: the
    /// largest counts.
    pub fn interval(&mut self) -> Duration {
        let since = |(file, before): &mut (ProcFile, Duration)| match file.read(parse) {
            Ok(now) => now.time.saturating_sub(std::mem::replace(before, now.time)),
            Err(_) => Duration::ZERO,
        };
        self.groups.iter_mut().map(since).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let one = "nr_periods 20\nnr_throttled 7\nthrottled_time 1500000000\n";
        let two = "usage_usec 1\nuser_usec 1\nsystem_usec 0\nnr_periods 20\nnr_throttled 7\nthrottled_usec 1500000\n";
        let seen = Throttled { periods: 7, time: Duration::from_millis(1500) };
        assert_eq!((parse(one), parse(two)), (Ok(seen), Ok(seen)));
        assert_eq!(parse("usage_usec 1\n"), Ok(Throttled::default()));
        assert!(parse("nr_throttled x\n").is_err());
    }

    #[test]
    fn the_group_of_version_2_has_a_line_of_its_own() {
        let of = |text| parse_unified(text).map(|path| path.display().to_string());
        assert_eq!(of("2:cpu:/a\n0::/user.slice/x.scope\n").as_deref(), Some("user.slice/x.scope"));
        assert_eq!(of("0::/\n").as_deref(), Some(""));
        assert_eq!((of("1:cpu:/a\n"), of("0::/../b\n"), of("")), (None, None, None));
    }

    #[test]
    fn every_group_above_counts() {
        let text = "4:memory:/m\n2:cpu,cpuacct:/a/b\n0::/user.slice/x.scope\n";
        let paths: Vec<_> =
            parse_membership(text, "cpu").iter().map(|path| path.display().to_string()).collect();
        let cpu = "/sys/fs/cgroup/cpu,cpuacct";
        let expected = [
            &format!("{cpu}/a/b"),
            &format!("{cpu}/a"),
            cpu,
            "/sys/fs/cgroup/user.slice/x.scope",
            "/sys/fs/cgroup/user.slice",
            "/sys/fs/cgroup",
        ];
        assert_eq!(paths, expected);
        let container = parse_membership("1:cpu:/\n0::/\nodd\n", "cpu");
        assert_eq!(container, ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(PathBuf::from));
        for none in ["1:memory:/\nodd\n", "1:cpu:/../b\n0::/../../b/c\n", "0::/..\n"] {
            assert_eq!(parse_membership(none, "cpu"), Vec::<PathBuf>::new(), "{none}");
        }
    }

    #[test]
    fn this_process_has_a_quota_or_none() {
        let mut quota = Quota::open(Pid(std::process::id())).unwrap();
        assert!(quota.interval() < Duration::from_secs(3600));
    }
}
