//! Control groups: can the quota that holds this process be read, and may groups be made?

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use weir_model::ability::Finding;

use super::{listed, read};
use crate::cgroup::{Throttled, parse, parse_membership};

const ROOT: &str = "/sys/fs/cgroup";

/// The trees of a processor quota and of a disk's rate, and what each is called there.
struct Trees {
    version: u8,
    cpu: Option<PathBuf>,
    io: Option<PathBuf>,
}

impl Trees {
    fn find(root: &Path) -> Option<Trees> {
        if let Ok(offered) = std::fs::read_to_string(root.join("cgroup.controllers")) {
            let tree = |name: &str| {
                offered.split_ascii_whitespace().any(|offered| offered == name).then(|| root.to_owned())
            };
            return Some(Trees { version: 2, cpu: tree("cpu"), io: tree("io") });
        }
        // As the lab finds them: by version 1's list of tasks.
        let tree = |name: &str| Some(root.join(name)).filter(|tree| tree.join("tasks").exists());
        let found = Trees { version: 1, cpu: tree("cpu"), io: tree("blkio") };
        (found.cpu.is_some() || found.io.is_some()).then_some(found)
    }
}

pub(super) fn find() -> Finding {
    let Some(trees) = Trees::find(Path::new(ROOT)) else {
        return Finding::missing("no control groups are mounted there", ROOT);
    };
    let mut lacking = Vec::new();
    if trees.cpu.is_none() {
        lacking.push("no cpu controller");
    }
    if trees.io.is_none() {
        lacking.push(if trees.version == 2 { "no io controller" } else { "no blkio controller" });
    }
    let quota = if trees.cpu.is_some() { quota() } else { "not read".to_owned() };
    let makes = |tree: &PathBuf| access(tree, Access::WRITE_OK).is_ok();
    if ![&trees.cpu, &trees.io].into_iter().flatten().all(makes) {
        lacking.push("this user may make none");
    }
    let what = format!("version {}, processor quota: {quota}", trees.version);
    let origin = format!("{ROOT} and /proc/self/cgroup");
    match lacking.is_empty() {
        true => Finding::ok(what, origin),
        false => Finding::limited(format!("{what}; {}", listed(&lacking)), origin),
    }
}

/// The tightest quota of this process's groups, and whether it ever held.
fn quota() -> String {
    let folders = read("/proc/self/cgroup").map(|text| parse_membership(&text, "cpu")).unwrap_or_default();
    let cores = folders.iter().filter_map(|folder| cores(folder)).min_by(f64::total_cmp);
    let held = |folder: &PathBuf| -> Option<Throttled> {
        parse(&std::fs::read_to_string(folder.join("cpu.stat")).ok()?).ok()
    };
    let periods = folders.iter().filter_map(held).map(|throttled| throttled.periods).max();
    match (cores, periods) {
        (Some(cores), Some(periods)) => format!("{cores} processors, used up {periods} times"),
        (Some(cores), None) => format!("{cores} processors"),
        (None, _) => "none".to_owned(),
    }
}

/// Processors that a group may use: `cpu.max` of version 2, `cpu.cfs_quota_us` over `cpu.cfs_period_us` of
/// version 1.
fn cores(folder: &Path) -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let text = match read("cpu.max") {
        Some(text) => text,
        None => format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim()),
    };
    parse_cores(&text)
}

/// `50000 100000`; `max 100000` and `-1 100000` are no quota.
fn parse_cores(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace().map(str::parse::<f64>);
    let (quota, period) = (words.next()?.ok()?, words.next()?.ok()?);
    let cores = quota / period;
    (quota > 0.0 && cores.is_finite()).then(|| (cores * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_of_both_versions_and_of_none() {
        let root = tempfile::tempdir().unwrap();
        assert!(Trees::find(root.path()).is_none());
        std::fs::create_dir(root.path().join("blkio")).unwrap();
        std::fs::write(root.path().join("blkio/tasks"), "").unwrap();
        let first = Trees::find(root.path()).unwrap();
        assert_eq!((first.version, first.cpu.is_some(), first.io.is_some()), (1, false, true));
        std::fs::write(root.path().join("cgroup.controllers"), "cpuset cpu memory\n").unwrap();
        let second = Trees::find(root.path()).unwrap();
        assert_eq!((second.version, second.cpu.is_some(), second.io.is_some()), (2, true, false));
    }

    #[test]
    fn quotas_are_told_in_processors() {
        assert_eq!(parse_cores("50000 100000\n"), Some(0.5));
        for text in ["max 100000\n", "-1 100000", "", "5", "1 0", "x 1"] {
            assert_eq!(parse_cores(text), None, "{text}");
        }
        let group = tempfile::tempdir().unwrap();
        std::fs::write(group.path().join("cpu.cfs_quota_us"), "150000\n").unwrap();
        std::fs::write(group.path().join("cpu.cfs_period_us"), "100000\n").unwrap();
        assert_eq!(cores(group.path()), Some(1.5));
    }
}
