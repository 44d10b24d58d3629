//! A large object that several workers fetch into one part: each notes which part it wrote into, and whoever
//! finds all of them there gives it its name.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::UNIX_EPOCH;

use weir_get::GetError;
use weir_get::sink::PartFile;
use weir_get::sink::folder::Target;
use weir_get::sink::stamp::{Stamp, Stamping};
use weir_get::version::Version;
use weir_http::validator::http_date;
use weir_store::tree::content;
use weir_units::Bytes;

use super::desk::{Desk, TaskEnd};
use super::fetch::expectation;
use super::target::TargetTree;
use super::why::{class_of, class_of_io};
use crate::class::FailureClass;
use crate::object::FleetObject;

/// The file that has the name says by its version's word that it is the object: all pieces were joined.
pub(super) fn is_joined(path: &Path, object: &FleetObject) -> bool {
    let stamp = Target::open(path).ok().and_then(|target| Stamp::read(&target));
    let is_it = |stamp: &Stamp| Some(stamp.size()) == object.size && stamp.tag() == object.etag.as_deref();
    object.etag.is_some() && stamp.as_ref().is_some_and(is_it)
}

/// Which file a part is: its inode, and when that was made, where the file system says so, since the number
/// of an inode is soon given to another file.
#[derive(Debug, PartialEq, Eq)]
struct PartIdentity {
    inode: u64,
    /// Nanoseconds since 1970.
    made: Option<u128>,
}

impl PartIdentity {
    fn of(data: &Metadata) -> PartIdentity {
        let made = data.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        PartIdentity { inode: data.ino(), made: made.map(|since| since.as_nanos()) }
    }

    /// `INODE` or `INODE-TIME`, as a piece has noted it.
    fn parse(note: &str) -> Option<PartIdentity> {
        match note.split_once('-') {
            None => Some(PartIdentity { inode: note.parse().ok()?, made: None }),
            Some((inode, made)) => {
                Some(PartIdentity { inode: inode.parse().ok()?, made: Some(made.parse().ok()?) })
            }
        }
    }

    fn note(&self) -> String {
        match self.made {
            Some(made) => format!("{}-{made}", self.inode),
            None => format!("{}", self.inode),
        }
    }

    /// All pieces went into this file, as far as their hosts could tell.
    fn has_all(&self, notes: &[String]) -> bool {
        let is_it = |noted: PartIdentity| {
            let both = self.made.zip(noted.made);
            noted.inode == self.inode && both.is_none_or(|(own, noted)| own == noted)
        };
        !notes.is_empty() && notes.iter().all(|note| PartIdentity::parse(note).is_some_and(is_it))
    }
}

/// The file at `path` is what the pieces became: whoever joined them could not say so any more.
fn was_joined(path: &Path, object: &FleetObject, notes: &[String]) -> bool {
    let is_their_part = |there: &Metadata| {
        // It keeps its inode when it gets its name.
        Some(there.len()) == object.size && PartIdentity::of(there).has_all(notes)
    };
    is_joined(path, object) || std::fs::symlink_metadata(path).is_ok_and(|there| is_their_part(&there))
}

/// Which part a piece went into. Where somebody removed the part meanwhile, the next piece goes into another
/// one.
pub(super) fn note(to: &TargetTree, object: &FleetObject) -> Result<String, TaskEnd> {
    let (target, part) = existing(to, object)?;
    let Some(part) = part else {
        let reason = format!("the part of {} was removed while it was filled", target.path().display());
        return Err(TaskEnd::Failed(FailureClass::Local, reason));
    };
    Ok(identity(&part)?.note())
}

fn identity(part: &PartFile) -> Result<PartIdentity, TaskEnd> {
    let data = part.file().metadata().map_err(|error| failed(part, &error))?;
    Ok(PartIdentity::of(&data))
}

/// Gives the part its name; `notes` are those of its pieces. `Ok(None)`: the run was ended by `stop`.
pub(super) fn join(
    to: &TargetTree,
    (desk, stop): (&Desk, &AtomicBool),
    object: &FleetObject,
    notes: &[String],
) -> Result<Option<TaskEnd>, TaskEnd> {
    let size = object.size.unwrap_or_default();
    let (target, part) = existing(to, object)?;
    // Asked after the part was looked for, since another joiner may give it its name meanwhile.
    if was_joined(target.path(), object, notes) {
        return Ok(Some(TaskEnd::Same(0)));
    }
    let has_all = part.as_ref().map(identity).transpose()?.is_some_and(|own| own.has_all(notes));
    let Some(part) = part.as_ref().filter(|_| has_all) else {
        return Err(removed(&target, part.as_ref(), size));
    };
    if let Some(digest) = &object.digest
        && !is_verified(part, (desk, stop), digest, size)?
    {
        return Ok(None);
    }
    part.publish(false).map_err(|error| of_get(&error))?;
    let modified = object.mtime.and_then(|nanos| u64::try_from(nanos).ok());
    let modified = modified.map(|nanos| http_date(UNIX_EPOCH + std::time::Duration::from_nanos(nanos)));
    let version = Version::from_journal(object.etag.as_deref(), modified.as_deref(), "", None);
    Stamping::TimeAndVersion.give(&target, None, &version, size);
    Ok(Some(TaskEnd::Moved(0)))
}

/// What all pieces went into is not there, but perhaps another `part`, or a file that has the name.
fn removed(target: &Target, part: Option<&PartFile>, size: u64) -> TaskEnd {
    let path = target.path();
    if part.is_none() && target.look().is_ok_and(|there| there.is_some()) {
        return of_get(&GetError::Differs { path: path.to_owned() });
    }
    let way_out = way_out(part, size);
    let reason = format!("the part of {} was removed while it was filled; {way_out}", path.display());
    TaskEnd::Failed(FailureClass::Changed, reason)
}

/// What there is to do about an object that is given up with its `part`, which nobody else tells of.
fn way_out(part: Option<&PartFile>, size: u64) -> String {
    let stays = part.map(|part| {
        format!(", which fills {} ({}) anew, or remove that", part.shown().display(), Bytes(size))
    });
    format!("plan the object again{}", stays.unwrap_or_default())
}

/// Its part, if that is there: none is made.
fn existing(to: &TargetTree, object: &FleetObject) -> Result<(Target, Option<PartFile>), TaskEnd> {
    let path = to.place(object)?;
    let target = Target::open(&path).map_err(|error| {
        let reason = format!("cannot write {}: {}", path.display(), weir_units::plain(&error));
        TaskEnd::Failed(class_of_io(&error), reason)
    })?;
    let part = PartFile::existing_piece(&target, object.size.unwrap_or_default());
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
    let hears = &mut |_: &[u8]| desk.goes_on(stop);
    let found = content::digest(part.file(), expected.algorithm(), size, hears);
    let Some(found) = found.map_err(|error| failed(part, &error))? else { return Ok(false) };
    if expected.matches(&found) {
        return Ok(true);
    }
    let (name, shown) = (expected.algorithm().name(), part.target().display());
    let way_out = way_out(Some(part), size);
    let reason = format!("{name} of {shown} is not {}; {way_out}", expected.hex());
    Err(TaskEnd::Failed(FailureClass::Digest, reason))
}

fn failed(part: &PartFile, error: &std::io::Error) -> TaskEnd {
    let reason = format!("cannot read the part of {}: {}", part.target().display(), weir_units::plain(error));
    TaskEnd::Failed(class_of_io(error), reason)
}

fn of_get(error: &GetError) -> TaskEnd {
    TaskEnd::Failed(class_of(error), error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_known_by_its_inode_and_its_time() {
        let part = PartIdentity { inode: 7, made: Some(20) };
        let has_all = |notes: &[&str]| {
            let notes: Vec<String> = notes.iter().map(|note| (*note).to_owned()).collect();
            part.has_all(&notes)
        };
        assert!(has_all(&["7-20", "7"]), "a host that sees no time notes none");
        for notes in [&["7-20", "7-21"][..], &["8-20"], &["7-20", ""], &[]] {
            assert!(!has_all(notes), "{notes:?}");
        }
        assert_eq!(PartIdentity::parse(&part.note()), Some(part));
    }
}
