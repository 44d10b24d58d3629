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

use weir_tree::Filter;
use weir_tree::Name;
use weir_tree::filter::{Scope, Side};

pub use decide::Rules;
pub use names::{Unholdable, key_of, name_below};

use crate::caller::CallerSetup;
use crate::listing::Lists;
use crate::store::Store;

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
    /// Whether the rules take `name`, and all folders that it is in.
    fn takes(&self, name: &Name, is_directory: bool) -> bool {
        takes(self.filter, name, is_directory)
    }

    /// Whether what the target has under `name` is protected.
    fn spares(&self, name: &Name, is_directory: bool) -> bool {
        !is_taken(self.filter, name, is_directory, Side::Receiver { doomed: false })
    }
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
