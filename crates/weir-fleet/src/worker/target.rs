//! The folder that a fleet fills: names that stay below it, and folders on the way.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use weir_get::sink::home;
use weir_store::tree::down::make_folder;
use weir_tree::compare::Keep;
use weir_tree::{Name, Target, TreeError, destination};

use super::desk::TaskEnd;
use super::leftovers::Leftovers;
use super::why::class_of_io;
use crate::class::FailureClass;
use crate::object::FleetObject;

/// The folder.
pub(super) struct TargetTree {
    target: Target,
    root: PathBuf,
    folders: Mutex<()>,
    /// Parts beside its files.
    pub(super) leftovers: Leftovers,
}

impl TargetTree {
    /// Opens `root`, which is there.
    pub(super) fn open(root: &Path) -> Result<TargetTree, TreeError> {
        let keep = Keep { modes: false, times: false, users: false, groups: false, xattrs: false };
        let target = Target::open(root, destination::Options { keep, ..destination::Options::default() })?;
        Ok(TargetTree {
            target,
            root: root.to_owned(),
            folders: Mutex::default(),
            leftovers: Leftovers::default(),
        })
    }

    /// Its path.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The path of an object's file, with the folders on the way made.
    pub(super) fn place(&self, object: &FleetObject) -> Result<PathBuf, TaskEnd> {
        let shown = object.target_text();
        let bad = |why: &str| TaskEnd::Failed(FailureClass::Name, format!("cannot write '{shown}': {why}"));
        let name = Name::new(object.target.as_slice()).map_err(|invalid| bad(&invalid.to_string()))?;
        if name.is_root() {
            return Err(bad("it has no name; plan it with one"));
        }
        if home::is_shared_name(OsStr::from_bytes(name.last())) {
            return Err(bad("unfinished files of a fleet are called so; plan it under another name"));
        }
        if let Some(around) = name.parent().filter(|around| !around.is_root()) {
            make_folder(&self.target, &self.folders, &around).map_err(|error| self.failed(&error))?;
        }
        Ok(self.root.join(name.as_path()))
    }

    fn failed(&self, error: &TreeError) -> TaskEnd {
        let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
        let class = cause.map_or(FailureClass::Name, class_of_io);
        TaskEnd::Failed(class, error.to_string())
    }
}
