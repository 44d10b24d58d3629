//! The files of a folder, as a plan lists them.

use std::path::Path;

use weir_tree::walk::{Root, Wanted};
use weir_tree::{Filter, Kind, Step, Walk};

use super::{Found, LeftOut, Listing};
use crate::error::FleetError;
use crate::object::FleetObject;

/// A walk through a folder. `DIR/` is its content, `DIR` keeps its name at the target, as `weir cp` has it.
pub struct TreeListing {
    walk: Walk,
    /// What names in the tree begin with, and the source's do not.
    base: usize,
}

impl TreeListing {
    /// Of the folder at `path`.
    ///
    /// # Errors
    /// [`FleetError::Manifest`] where its name is none.
    pub fn new(path: &Path) -> Result<TreeListing, FleetError> {
        let root = Root::from_argument(path)
            .map_err(|error| FleetError::Manifest(format!("cannot plan {}: {error}", path.display())))?;
        let base = root.name.as_bytes().len();
        let walk = Walk::new(vec![root], Filter::default(), Wanted::default());
        Ok(TreeListing { walk, base })
    }
}

impl Listing for TreeListing {
    fn next(&mut self) -> Result<Option<Found>, FleetError> {
        loop {
            let entry = match self.walk.next() {
                None => return Ok(None),
                Some(Step::Leave(_)) => continue,
                Some(Step::Failed(name, error)) => {
                    let name = if name.is_root() { ".".to_owned() } else { name.to_string() };
                    return Ok(Some(Found::Bad(format!("{name}: {error}"))));
                }
                Some(Step::Found(entry, _)) => entry,
            };
            let size = match entry.kind {
                Kind::File { size, .. } => size,
                Kind::Directory => return Ok(Some(Found::LeftOut(LeftOut::Folder))),
                Kind::Symlink { .. } => return Ok(Some(Found::LeftOut(LeftOut::Link))),
                Kind::HardLink { .. } | Kind::Special(_) => {
                    return Ok(Some(Found::LeftOut(LeftOut::Special)));
                }
            };
            let target = entry.name.as_bytes();
            // A file that is named itself is all that there is, and has no name below itself.
            let source = target.get(self.base..).unwrap_or_default();
            let source = source.strip_prefix(b"/").unwrap_or(source);
            let nanos = entry.mtime.secs().checked_mul(1_000_000_000);
            return Ok(Some(Found::Object(FleetObject {
                source: source.to_vec(),
                target: target.to_vec(),
                size: Some(size),
                mtime: nanos.and_then(|nanos| nanos.checked_add(i64::from(entry.mtime.nanos()))),
                ..FleetObject::default()
            })));
        }
    }

    fn has_own_targets(&self) -> bool {
        true
    }
}
