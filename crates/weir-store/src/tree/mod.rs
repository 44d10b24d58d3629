//! Trees: what of a tree of files and a prefix of a store is to be moved, decided while it is listed, in
//! memory that does not grow with either, and without relying on the order of a list.
//!
//! * Down ([`down`]): each listed object is held against the file of its name. Nothing else has to be known,
//!   so objects are moved from the first page on.
//! * Up ([`up`]): each file that the walk meets is held against the object of its name. A list of the target
//!   runs beside the walk; while it is short, it answers. A file that it has not answered for, since it is
//!   still on its way or longer than is kept, is asked for by itself. So nothing waits for a list of ten
//!   million keys.
//! * Across ([`across`]): between two prefixes, with what is known of the target as for the way up. What
//!   no store copies itself comes through here ([`through`]).
//! * What the source lacks ([`prune`]) is decided at the end, and by the source itself: a key is deleted if
//!   no file of its name is there, a file if its name was in no page of the list ([`seen`]).

pub mod across;
pub mod content;
pub mod decide;
pub mod down;
mod known;
mod names;
pub mod prune;
pub mod seen;
pub mod through;
pub mod up;

use std::io;
use std::thread::Scope as ThreadScope;

use weir_tree::Filter;
use weir_tree::Name;
use weir_tree::filter::{Scope, Side};
use weir_units::threads;

pub use decide::Rules;
pub use names::{Unholdable, key_of, name_below};

use crate::caller::CallerSetup;
use crate::listing::Lists;
use crate::store::Store;

/// Starts so many threads that do the same, or fewer where the system refuses some; one at least.
fn hire<'scope, W: FnOnce() + Send + 'scope>(
    scope: &'scope ThreadScope<'scope, '_>,
    name: &str,
    count: usize,
    work: impl Fn() -> W,
) -> io::Result<()> {
    for started in 0..count {
        match threads::start_scoped(scope, name, work()) {
            Ok(_) => {}
            Err(error) if started == 0 => return Err(error),
            Err(error) => {
                tracing::warn!("{started} threads instead of {count}: {error}");
                break;
            }
        }
    }
    Ok(())
}

/// Hears what becomes of each entry. Called from several threads.
pub trait Hears: Sync {
    /// It is moved, or would be in a dry run; `name` as the target calls it.
    fn moves(&self, name: &str, bytes: u64);

    /// It has been moved.
    fn moved(&self, name: &str, bytes: u64);

    /// It is the same at the target.
    fn unchanged(&self, name: &str, bytes: u64);

    /// It is deleted at the target, or would be.
    fn deletes(&self, name: &str);

    /// It could not be moved or deleted.
    fn fails(&self, name: &str, error: String);

    /// Something else that is worth a word.
    fn notes(&self, note: String);
}

/// One side of a copy: keys that begin so, in a bucket.
#[derive(Clone, Copy)]
pub struct StorePlace<'a> {
    /// The bucket.
    pub store: &'a dyn Store,
    /// What its keys begin with: empty, or with a slash at its end.
    pub prefix: &'a str,
    /// `s3://BUCKET/`.
    pub shown: &'a str,
}

impl StorePlace<'_> {
    fn lists(&self) -> &dyn Lists {
        self.store.lists()
    }

    /// As a person would write it.
    fn url(&self, key: &str) -> String {
        format!("{}{key}", self.shown)
    }
}

/// What all ways have in common.
#[derive(Clone, Copy)]
pub struct Copy<'a> {
    /// What is moved, over what.
    pub rules: &'a Rules,
    /// What is left out.
    pub filter: &'a Filter,
    /// Nothing is moved or deleted, only told.
    pub is_dry: bool,
    /// How stores are asked.
    pub caller: CallerSetup<'a>,
    /// Requests at once.
    pub at_once: usize,
    /// Who hears of it.
    pub hears: &'a dyn Hears,
}

impl Copy<'_> {
    /// Whether the rules take the key that `rest` is behind the prefix, which is called `base` in the tree.
    fn takes(&self, base: &Name, rest: &str) -> bool {
        takes_below(self.filter, base, rest)
    }

    /// Whether what the target has under the key that `rest` is behind the prefix is protected. So is a key
    /// whose last part no rule can be asked about.
    fn spares(&self, rest: &str) -> bool {
        if self.filter.is_empty() {
            return false;
        }
        let Ruled { name, is_folder, is_cut } = Ruled::of(&Name::root(), rest);
        is_cut || !is_taken(self.filter, &name, is_folder, Side::Receiver { doomed: false })
    }
}

/// What rules are asked about, of a key. One that no file could have goes by those of its parts that a name
/// can have.
struct Ruled {
    name: Name,
    is_folder: bool,
    /// Its last part is none of them: `name` is the folder that it would be in.
    is_cut: bool,
}

impl Ruled {
    /// `rest` is behind the prefix, which is called `base`.
    fn of(base: &Name, rest: &str) -> Ruled {
        let bare = rest.trim_end_matches('/');
        let join = |name: Name, part: &str| name.join(part.as_bytes()).unwrap_or(name);
        let name = name_below(base, bare).unwrap_or_else(|_| bare.split('/').fold(base.clone(), join));
        let is_cut = bare.rsplit('/').next().is_none_or(|last| Name::root().join(last.as_bytes()).is_err());
        Ruled { name, is_folder: is_cut || bare.len() < rest.len(), is_cut }
    }
}

/// Whether a copy by these rules takes the key that `rest` is behind the prefix, which is called `base` in
/// the tree. Of one whose last part no rule can be asked about its folder decides.
fn takes_below(filter: &Filter, base: &Name, rest: &str) -> bool {
    if filter.is_empty() {
        return true;
    }
    let Ruled { name, is_folder, .. } = Ruled::of(base, rest);
    name.is_root() || takes(filter, &name, is_folder)
}

/// Whether a copy by these rules takes `name`, and all folders that it is in.
pub fn takes(filter: &Filter, name: &Name, is_directory: bool) -> bool {
    is_taken(filter, name, is_directory, Side::Sender)
}

fn is_taken(filter: &Filter, name: &Name, is_directory: bool, side: Side) -> bool {
    if filter.is_empty() {
        return true;
    }
    let around = std::iter::successors(name.parent(), Name::parent).filter(|name| !name.is_root());
    let takes = |name: &Name, is_directory| filter.decides(&Scope::default(), name, is_directory, side);
    around.into_iter().all(|folder| takes(&folder, true)) && takes(name, is_directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_go_by_what_of_a_key_a_name_can_have() {
        let long = "n".repeat(256);
        let of = |base: &str, rest: &str| {
            let Ruled { name, is_folder, is_cut } = Ruled::of(&Name::new(base.as_bytes()).unwrap(), rest);
            (String::from_utf8(name.as_bytes().to_vec()).unwrap(), is_folder, is_cut)
        };
        for (base, rest, name, is_folder, is_cut) in [
            ("", "a/b", "a/b", false, false),
            ("p", "a/", "p/a", true, false),
            ("", "a//b", "a/b", false, false),
            ("p", "/../b/", "p/b", true, false),
            ("", &format!("a/{long}"), "a", true, true),
            ("", &format!("{long}/b"), "b", false, false),
            ("p", "//", "p", true, true),
            ("", "", "", true, true),
        ] {
            assert_eq!(of(base, rest), (name.to_owned(), is_folder, is_cut), "{base} {rest}");
        }
    }
}
