//! A large object that several workers fetch into one part: each notes which part it wrote into, and whoever
//! finds all of them there gives it its name.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::UNIX_EPOCH;

use weir_get::GetError;
use weir_get::sink::PartFile;
use weir_get::sink::folder::Target;
use weir_get::sink::home::Home;
use weir_get::sink::stamp::{Stamp, Stamping};
use weir_get::version::Version;
use weir_http::validator::http_date;

use super::desk::{Desk, TaskEnd};
use super::fetch::expectation;
use super::target::TargetTree;
use super::why::{class_of, class_of_io};
use crate::class::FailureClass;
use crate::object::FleetObject;
use crate::reading;

/// The file that has the name says by its version's word that it is the object: all pieces were joined.
pub(super) fn is_joined(path: &Path, object: &FleetObject) -> bool {
    let stamp = Target::open(path).ok().and_then(|target| Stamp::read(&target));
    let is_it = |stamp: &Stamp| Some(stamp.size()) == object.size && stamp.tag() == object.etag.as_deref();
    object.etag.is_some() && stamp.as_ref().is_some_and(is_it)
}

/// There were pieces, and where their part was is the file: whoever joined them could not say so any more.
fn was_joined(path: &Path, object: &FleetObject) -> bool {
    let is_whole = std::fs::symlink_metadata(path).is_ok_and(|there| Some(there.len()) == object.size);
    is_whole && Target::open(path).is_ok_and(|target| !Home::shared(&target).has_part())
}

/// Which part a piece went into. Where somebody removed the part meanwhile, the next piece goes into another
/// one.
pub(super) fn note(to: &TargetTree, object: &FleetObject) -> Result<String, TaskEnd> {
    let (_, part) = open(to, object)?;
    let inode = part.file().metadata().map_err(|error| failed(&part, &error))?.ino();
    Ok(format!("{inode}"))
}

/// Gives the part its name; `notes` are those of its pieces. `Ok(None)`: the run was ended by `stop`.
pub(super) fn join(
    to: &TargetTree,
    (desk, stop): (&Desk, &AtomicBool),
    object: &FleetObject,
    notes: &[String],
) -> Result<Option<TaskEnd>, TaskEnd> {
    let size = object.size.unwrap_or_default();
    if was_joined(&to.place(object)?, object) {
        return Ok(Some(TaskEnd::Same(0)));
    }
    let (target, part) = open(to, object)?;
    let own = note(to, object)?;
    if notes.iter().any(|note| *note != own) {
        let reason = format!(
            "the part of {} was removed while it was filled; plan the object again",
            target.path().display()
        );
        return Err(TaskEnd::Failed(FailureClass::Changed, reason));
    }
    if let Some(digest) = &object.digest
        && !is_verified(&part, (desk, stop), digest, size)?
    {
        return Ok(None);
    }
    part.publish(false).map_err(|error| of_get(&error))?;
    let modified = object.mtime.and_then(|nanos| u64::try_from(nanos).ok());
    let modified = modified.map(|nanos| http_date(UNIX_EPOCH + std::time::Duration::from_nanos(nanos)));
    let version = Version::from_journal(object.etag.as_deref(), modified.as_deref(), "", None);
    Stamping::TimeAndVersion.give(&target, &version, size);
    Ok(Some(TaskEnd::Moved(0)))
}

fn open(to: &TargetTree, object: &FleetObject) -> Result<(Target, PartFile), TaskEnd> {
    let path = to.place(object)?;
    let target = Target::open(&path).map_err(|error| {
        let reason = format!("cannot write {}: {}", path.display(), weir_units::plain(&error));
        TaskEnd::Failed(class_of_io(&error), reason)
    })?;
    let part = PartFile::open_piece(&target, object.size.unwrap_or_default());
    Ok((target, part.map_err(|error| of_get(&error))?))
}

/// The part has the digest that the manifest names. False: the run was ended before that was known.
fn is_verified(
    part: &PartFile,
    (desk, stop): (&Desk, &AtomicBool),
    digest: &str,
    size: u64,
) -> Result<bool, TaskEnd> {
    let expected = expectation(digest)?.expected;
    let found = reading::digest(part.file(), expected.algorithm(), size, &mut |_: &[u8]| {
        desk.stir();
        !stop.load(Relaxed)
    });
    let Some(found) = found.map_err(|error| failed(part, &error))? else { return Ok(false) };
    if expected.matches(&found) {
        return Ok(true);
    }
    let (name, shown) = (expected.algorithm().name(), part.target().display());
    let reason = format!("{name} of {shown} is not {}; plan the object again", expected.hex());
    Err(TaskEnd::Failed(FailureClass::Digest, reason))
}

fn failed(part: &PartFile, error: &std::io::Error) -> TaskEnd {
    let reason = format!("cannot read the part of {}: {}", part.target().display(), weir_units::plain(error));
    TaskEnd::Failed(class_of_io(error), reason)
}

fn of_get(error: &GetError) -> TaskEnd {
    TaskEnd::Failed(class_of(error), error.to_string())
}
