//! Which congestion controls the lab's namespaces may choose.
//!
//! A namespace other than the first may only select what `net.ipv4.tcp_allowed_congestion_control` of the
//! first one lists, even as root (net/ipv4/tcp_cong.c, `tcp_set_default_congestion_control`). Root can add to
//! that list; it holds for the whole machine, so the old value comes back with the last run that needed the
//! change. It is kept in a file that each of them holds locked, shared: whoever can lock it alone is the
//! last, or the first after a crash. A list that somebody else has changed meanwhile stays as it is.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{CONGESTION_CONTROL, LabError};

/// What a comparison needs.
const WANTED: [&str; 3] = ["reno", "bbr", "cubic"];

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Where the old value is kept: in memory, so that it does not survive a reboot, as the change does not.
const FOLDER: &str = "/run/weir";

/// While it lives, namespaces may choose reno, cubic and bbr, as far as this kernel has them.
#[derive(Debug)]
pub struct Allowed {
    /// None where nothing had to be changed.
    change: Option<(List, File)>,
}

/// Adds reno, cubic and bbr to what namespaces may choose, if they are not there. Needs root in the first
/// namespace.
pub fn allow() -> Result<Allowed, LabError> {
    List::of_system().allow()
}

/// Puts back what a killed run changed, where nobody needs it any more. For runs that need no change
/// themselves.
pub fn undo_leftovers() {
    let list = List::of_system();
    // For others than root there is nothing to be done.
    if let Ok(mut record) = File::options().read(true).write(true).open(list.record())
        && let Err(error) = list.restore(&mut record)
    {
        tracing::warn!("cannot restore {ALLOWED}: {error}");
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        if let Some((list, record)) = &mut self.change
            && let Err(error) = list.restore(record)
        {
            tracing::warn!("cannot restore {}: {error}", list.allowed.display());
        }
    }
}

/// What to do where a value of TCP cannot be set.
pub(crate) fn advice(name: &str) -> String {
    if name != CONGESTION_CONTROL {
        return "its name or value is not one of this kernel's, or it is not a namespace's own".to_owned();
    }
    let allowed = fs::read_to_string(ALLOWED).unwrap_or_default();
    let works = match allowed.trim() {
        "" => "without it, the default works".to_owned(),
        names => format!("without it, these work: {names}"),
    };
    format!("allow it as root: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno bbr cubic'; {works}")
}

/// The list, and where its old value is kept.
#[derive(Debug, Clone)]
struct List {
    allowed: PathBuf,
    available: PathBuf,
    folder: PathBuf,
}

impl List {
    fn of_system() -> List {
        List { allowed: ALLOWED.into(), available: AVAILABLE.into(), folder: FOLDER.into() }
    }

    fn record(&self) -> PathBuf {
        self.folder.join("tcp_allowed_congestion_control")
    }

    fn allow(self) -> Result<Allowed, LabError> {
        let lacking = !missing(&read(&self.allowed)?, &read(&self.available)?).is_empty();
        match self.raise() {
            Ok(record) => Ok(Allowed { change: record.map(|record| (self, record)) }),
            // An ordinary user, while a run of root's holds the change.
            Err(_) if !lacking => Ok(Allowed { change: None }),
            Err(cause) => Err(LabError::Refused {
                attempt: format!("cannot change {}", self.allowed.display()),
                cause,
                way_out: "run as root; the congestion controls it already lists can be chosen anyway",
            }),
        }
    }

    /// Returns the record, locked shared, after the list is as it should be; none where nobody had to change
    /// it. Only under the turn is that certain: a list that lacks nothing may be another run's, about to put
    /// the old one back.
    fn raise(&self) -> io::Result<Option<File>> {
        let _turn = self.take_turn()?;
        let path = self.record();
        let now = fs::read_to_string(&self.allowed)?;
        let available = fs::read_to_string(&self.available)?;
        let lacking = missing(&now, &available);
        if lacking.is_empty() && !path.exists() {
            self.forget();
            return Ok(None);
        }
        let mut record = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        flock(&record, FlockOperation::LockShared)?;
        let mut text = String::new();
        record.read_to_string(&mut text)?;
        let raised = [now.trim(), &lacking.join(" ")].join(" ");
        if text.is_empty() {
            // First the record, then the change: a crash between the two restores what is there anyway.
            writeln!(record, "{}\n{raised}", now.trim())?;
        }
        // Not again: the kernel empties the list before it fills it, and a namespace that chooses meanwhile
        // is refused.
        if !lacking.is_empty() {
            fs::write(&self.allowed, raised).inspect_err(|_| {
                if text.is_empty() {
                    self.forget();
                }
            })?;
        }
        Ok(Some(record))
    }

    /// Puts the old value back, unless another run still needs the new one.
    fn restore(&self, record: &mut File) -> io::Result<()> {
        let _turn = self.take_turn()?;
        match flock(&*record, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        // Another run may have restored it since this one opened the record.
        if record.metadata()?.nlink() > 0 {
            record.rewind()?;
            let mut text = String::new();
            record.read_to_string(&mut text)?;
            let (original, raised) = text.split_once('\n').unwrap_or((&text, ""));
            if !original.is_empty() && same(raised, &fs::read_to_string(&self.allowed)?) {
                fs::write(&self.allowed, original)?;
            }
        }
        self.forget();
        Ok(())
    }

    /// Removes the record and its folder.
    fn forget(&self) {
        // Gone already, or with other files in it: as good.
        let _ = fs::remove_file(self.record());
        let _ = fs::remove_dir(&self.folder);
    }

    /// Something else has the folder's name.
    fn is_obstructed(&self) -> bool {
        fs::symlink_metadata(&self.folder).is_ok_and(|there| !there.is_dir())
    }

    /// Only one run at a time looks at the record and acts on it.
    fn take_turn(&self) -> io::Result<File> {
        loop {
            match DirBuilder::new().recursive(true).mode(0o755).create(&self.folder) {
                Ok(()) => {}
                // It was there, and the run before has removed it since; another may have made it anew.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !self.is_obstructed() => {
                    continue;
                }
                Err(error) => return Err(error),
            }
            let folder = match File::open(&self.folder) {
                Ok(folder) => folder,
                // Removed by the run before.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            flock(&folder, FlockOperation::LockExclusive)?;
            let inode = folder.metadata()?.ino();
            if fs::metadata(&self.folder).is_ok_and(|there| there.ino() == inode) {
                return Ok(folder);
            }
        }
    }
}

/// Whether both list the same names; the kernel has its own order.
fn same(one: &str, other: &str) -> bool {
    let names = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    names(one) == names(other)
}

/// What is wanted and there, but not allowed.
fn missing<'a>(allowed: &str, available: &'a str) -> Vec<&'a str> {
    let wanted = available.split_whitespace().filter(|name| WANTED.contains(name));
    wanted.filter(|name| !allowed.split_whitespace().any(|other| other == *name)).collect()
}

fn read(path: &Path) -> Result<String, LabError> {
    fs::read_to_string(path).map_err(|cause| LabError::Refused {
        attempt: format!("cannot read {}", path.display()),
        cause,
        way_out: "it exists in the machine's first network namespace alone; the default congestion control works",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of a machine that has four, of which two are allowed.
    fn list(folder: &Path) -> List {
        let list = List {
            allowed: folder.join("allowed"),
            available: folder.join("available"),
            folder: folder.join("run/weir"),
        };
        fs::write(&list.allowed, "reno bbr\n").unwrap();
        fs::write(&list.available, "reno bbr cubic dctcp\n").unwrap();
        list
    }

    fn allowed(list: &List) -> BTreeSet<String> {
        fs::read_to_string(&list.allowed).unwrap().split_whitespace().map(str::to_owned).collect()
    }

    fn names(text: &str) -> BTreeSet<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_what_is_there_and_not_yet_allowed_is_added() {
        assert_eq!(missing("reno bbr", "reno bbr cubic dctcp"), ["cubic"]);
        assert!(missing("reno cubic", "reno cubic").is_empty());
    }

    #[test]
    fn the_last_run_restores_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let list = list(folder.path());
        let first = list.clone().allow().unwrap();
        let second = list.clone().allow().unwrap();
        assert_eq!(allowed(&list), names("reno bbr cubic"));
        drop(first);
        assert_eq!(allowed(&list), names("reno bbr cubic"), "the second still needs it");
        drop(second);
        assert_eq!(allowed(&list), names("reno bbr"));
        assert!(!list.folder.exists());
    }

    #[test]
    fn the_next_run_restores_what_a_killed_one_changed() {
        let folder = tempfile::tempdir().unwrap();
        let list = list(folder.path());
        // Killed: its descriptor is closed, nothing is dropped.
        drop(list.raise().unwrap());
        assert_eq!(allowed(&list), names("reno bbr cubic"));
        drop(list.clone().allow().unwrap());
        assert_eq!(allowed(&list), names("reno bbr"));
        drop(list.raise().unwrap());
        let mut record = File::options().read(true).write(true).open(list.record()).unwrap();
        list.restore(&mut record).unwrap();
        assert_eq!(allowed(&list), names("reno bbr"));
        assert!(!list.folder.exists());
    }

    #[test]
    fn what_somebody_else_allows_stays() {
        let folder = tempfile::tempdir().unwrap();
        let list = list(folder.path());
        fs::write(&list.allowed, "reno bbr cubic").unwrap();
        let nothing_to_do = list.clone().allow().unwrap();
        assert!(nothing_to_do.change.is_none() && !list.folder.exists());
        fs::write(&list.allowed, "reno bbr").unwrap();
        let changed = list.clone().allow().unwrap();
        fs::write(&list.allowed, "reno bbr cubic dctcp").unwrap();
        drop(changed);
        assert_eq!(allowed(&list), names("reno bbr cubic dctcp"), "changed by somebody else meanwhile");
        assert!(!list.folder.exists());
    }

    #[test]
    fn whoever_has_it_allowed_has_it_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let list = list(folder.path());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let held = list.clone().allow().unwrap();
                        assert!(allowed(&list).contains("cubic"));
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(allowed(&list), names("reno bbr"));
        assert!(!list.folder.exists());
    }

    #[test]
    fn a_list_that_cannot_be_changed_leaves_no_record() {
        let folder = tempfile::tempdir().unwrap();
        let mut list = list(folder.path());
        list.allowed = folder.path().to_owned();
        assert!(matches!(list.clone().allow(), Err(LabError::Refused { .. })));
        assert!(!list.folder.exists());
    }
}
