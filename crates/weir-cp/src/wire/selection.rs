//! What of the sources is copied beside what the filter says, over what, and what becomes of what was there:
//! rsync's choices.

use serde::{Deserialize, Serialize};
use weir_tree::{Entry, Kind};

use super::modes::ModeChange;
use super::owners::Mapping;

/// Choices that both ends know. The default copies all, over anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Files of more bytes are passed over.
    pub max_size: Option<u64>,
    /// Files of fewer bytes are passed over.
    pub min_size: Option<u64>,
    /// What is at the target stays as it is; folders are gone into.
    pub ignore_existing: bool,
    /// Nothing is made that is not at the target.
    pub existing: bool,
    /// Files of one size are the same.
    pub size_only: bool,
    /// Other file systems that are mounted in the sources are empty folders.
    pub one_file_system: bool,
    /// Folders on the way to the target are made.
    pub mkpath: bool,
    /// What links lead to is copied in their place.
    pub copy_links: bool,
    /// A link to a folder at the target is as good as the folder.
    pub keep_dirlinks: bool,
    /// Links that lead out of what is copied are passed over.
    pub safe_links: bool,
    /// No more entries than this are removed.
    pub max_delete: Option<u64>,
    /// A file is removed at the source once it is at the target and on its disk.
    pub remove_source_files: bool,
    /// What is replaced or removed is kept.
    pub backup: Option<Backup>,
    /// Folders, relative to the target, whose files get second names there where they are the same.
    pub link_dest: Vec<Vec<u8>>,
    /// Each entry that is changed is told.
    pub itemize: bool,
    /// Seconds that an end may be silent, where they are more than its own
    /// [`crate::idle_timeout::IDLE_TIMEOUT`].
    pub silence: Option<u32>,
    /// Modes on the way.
    pub modes: Vec<ModeChange>,
    /// Whom entries are given to: where owners are kept, and where a map says it.
    pub owners: Mapping,
    /// What the source lacks is removed although not all of it could be read. Only a sender goes by it, which
    /// is told by [`super::driver::FromDriver::IgnoreErrors`]: peers of protocol 7 know no further options.
    #[serde(skip)]
    pub ignore_errors: bool,
}

/// Where what is replaced is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// A folder, relative to the target; none for beside what it is of.
    pub folder: Option<Vec<u8>>,
    /// What its name gets at its end.
    pub suffix: Vec<u8>,
}

impl Selection {
    /// Whether the receiver has to look at what is there before a file is sent.
    pub(crate) fn asks_first(&self) -> bool {
        let of_others = !self.link_dest.is_empty();
        self.ignore_existing || self.existing || self.size_only || self.remove_source_files || of_others
    }

    /// Whether an entry is found and not copied: it stays at the target, too.
    pub(crate) fn passes_over(&self, entry: &Entry) -> bool {
        match &entry.kind {
            Kind::File { size, .. } => {
                self.max_size.is_some_and(|most| *size > most)
                    || self.min_size.is_some_and(|least| *size < least)
            }
            Kind::Symlink { target } => {
                self.safe_links && leads_out(entry.name.as_bytes(), target.as_bytes())
            }
            _ => false,
        }
    }

    /// Whether what is to be at a name stays undone for what is there, or is not.
    pub fn leaves(&self, is_there: bool) -> bool {
        if is_there { self.ignore_existing } else { self.existing }
    }
}

/// Whether a link called `name` leads out of the tree, as rsync's `--safe-links` has it: absolute, further up
/// than it is deep, or up again behind a folder, which may be a link itself.
fn leads_out(name: &[u8], target: &[u8]) -> bool {
    let mut depth = name.iter().filter(|byte| **byte == b'/').count();
    let mut has_gone_down = false;
    for component in target.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if has_gone_down || depth == 0 => return true,
            b".." => depth -= 1,
            _ => has_gone_down = true,
        }
    }
    target.first().is_none_or(|first| *first == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Peers read options to their last byte.
    #[test]
    fn what_is_told_apart_is_not_among_the_options() {
        let bytes = |selection: &Selection| postcard::to_extend(selection, Vec::new()).unwrap();
        let ignoring = Selection { ignore_errors: true, ..Selection::default() };
        assert_eq!(bytes(&ignoring), bytes(&Selection::default()));
        assert_eq!(postcard::from_bytes::<Selection>(&bytes(&ignoring)).unwrap(), Selection::default());
    }

    #[test]
    fn links_that_lead_out() {
        for (name, target, out) in [
            ("l", "x", false),
            ("l", "a/b", false),
            ("l", "../x", true),
            ("a/l", "../x", false),
            ("a/l", "../../x", true),
            ("a/b/l", "../../x", false),
            ("l", "/etc/passwd", true),
            ("a/l", "./../x", false),
            ("a/b/l", "c/../../x", true),
        ] {
            assert_eq!(leads_out(name.as_bytes(), target.as_bytes()), out, "{name} -> {target}");
        }
    }
}
