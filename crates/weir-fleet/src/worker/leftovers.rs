//! Parts that lie beside the files of a fleet, and who removes them.
//!
//! A part stays where its object may go on from it. Nobody goes on from one whose object another worker has
//! brought meanwhile, into a part of its own: whoever began it removes it when it learns that the batch is
//! another's, and whoever brought the object looks again at its end, since the other one may be gone.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use weir_get::sink::PartFile;
use weir_get::sink::folder::Target;
use weir_get::sink::home::Home;

use super::desk::{Desk, FleetTask};
use crate::ledger::BatchLease;

/// The parts that this worker knows of.
#[derive(Default)]
pub(super) struct Leftovers {
    /// Objects that were begun here and did not end, and for which batch that was.
    begun: Mutex<Vec<(BatchLease, PathBuf)>>,
    /// Objects that have their names, beside which a part was in use by another worker.
    strange: Mutex<Vec<PathBuf>>,
}

impl Leftovers {
    /// A part of `task` stays beside `path`.
    pub(super) fn stays(&self, task: &FleetTask, path: PathBuf) {
        let mut begun = self.begun.lock();
        if !begun.iter().any(|(lease, other)| *lease == task.lease() && *other == path) {
            begun.push((task.lease(), path));
        }
    }

    /// The object at `path` has its name.
    pub(super) fn is_placed(&self, path: &Path) {
        self.begun.lock().retain(|(_, begun)| begun != path);
        if Target::open(path).is_ok_and(|target| Home::shared(&target).has_part()) {
            self.strange.lock().push(path.to_owned());
        }
    }

    /// A run has ended: removes the parts of batches that are others' now.
    pub(super) fn tidy(&self, desk: &Desk) {
        self.begun.lock().retain(|(lease, path)| {
            let is_lost = desk.is_lost(*lease);
            if is_lost {
                discard(path);
            }
            !is_lost
        });
    }

    /// The worker has ended: removes what nobody goes on from.
    pub(super) fn leave(&self, desk: &Desk) {
        self.tidy(desk);
        self.strange.lock().drain(..).for_each(|path| discard(&path));
    }
}

/// Removes the part of a file that others bring, unless they are at work on it.
fn discard(path: &Path) {
    let Ok(target) = Target::open(path) else { return };
    let home = Home::shared(&target);
    if home.has_part()
        && let Ok(part) = PartFile::open(&target, home)
        && part.restart().is_ok()
    {
        part.discard();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::super::desk::NextTask;
    use super::*;
    use crate::ledger::{BatchClaim, BatchWork, FleetSettings};
    use crate::object::FleetObject;

    /// A desk with an object, taken from it.
    fn begun() -> (Desk, FleetTask) {
        let desk = Desk::new(8, 1);
        let object = FleetObject { target: b"a".to_vec(), size: Some(9), ..FleetObject::default() };
        let claim = BatchClaim {
            lease: BatchLease { batch: 1, fence: 1 },
            work: BatchWork::Objects(vec![object]),
            given_before: 0,
            is_final: false,
            is_last: false,
            length: Duration::from_secs(30),
            settings: FleetSettings::default(),
        };
        desk.add(claim, Instant::now());
        desk.lift_limits();
        let NextTask::Task(task) = desk.next(Duration::ZERO) else { panic!("it has one") };
        (desk, task)
    }

    /// Where an object of a folder is to be, with a part beside it that is let go.
    fn place(folder: &Path) -> (PathBuf, Arc<Target>) {
        let path = folder.join("a");
        let target = Arc::new(Target::open(&path).unwrap());
        drop(PartFile::open(&target, Home::shared(&target)).unwrap());
        (path, target)
    }

    fn has_part(target: &Target) -> bool {
        Home::shared(target).has_part()
    }

    #[test]
    fn a_part_goes_when_its_batch_is_lost_after_it_was_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let ((desk, task), (path, target)) = (begun(), place(folder.path()));
        let leftovers = Leftovers::default();
        leftovers.stays(&task, path);
        desk.give_back(&task);
        leftovers.tidy(&desk);
        assert!(has_part(&target), "it goes on from it");
        desk.lose(task.lease());
        leftovers.tidy(&desk);
        assert!(!has_part(&target));
    }

    #[test]
    fn a_part_stays_for_whoever_gets_the_batch_that_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let ((desk, task), (path, target)) = (begun(), place(folder.path()));
        let leftovers = Leftovers::default();
        leftovers.stays(&task, path);
        desk.forget(task.lease());
        leftovers.leave(&desk);
        assert!(has_part(&target));
    }

    #[test]
    fn what_another_is_at_work_on_stays_and_what_it_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let ((desk, _), (path, target)) = (begun(), place(folder.path()));
        let other = PartFile::open(&target, Home::shared(&target)).unwrap();
        let leftovers = Leftovers::default();
        leftovers.is_placed(&path);
        leftovers.leave(&desk);
        assert!(has_part(&target));
        drop(other);
        leftovers.is_placed(&path);
        leftovers.leave(&desk);
        assert!(!has_part(&target));
    }
}
