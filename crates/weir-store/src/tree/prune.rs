//! What the target has and the source lacks goes (`--delete`). Whether the source lacks it the source says,
//! never a place in a list: what cannot be asked stays.

use std::io;
use std::path::Path;

use parking_lot::Mutex;
use weir_tree::destination::{KeepSet, Options};
use weir_tree::{Kind, Name, Target};

use super::names::name_of;
use super::seen::SeenNames;
use super::{Copy, StorePlace};
use crate::caller::Caller;
use crate::error::StoreError;
use crate::listing::{Pages, PagesSetup};

/// What a deletion comes to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Deleted.
    pub deleted: u64,
    /// The most that may go are gone, and there are more.
    pub is_at_limit: bool,
}

/// A folder as [`SeenNames`] has it: no name of a file ends so.
pub(super) fn of_folder(name: &Name) -> Vec<u8> {
    [name.as_bytes(), b"/"].concat()
}

/// Deletes below `base` what the list did not have. `most`: entries.
pub fn here(
    copy: &Copy<'_>,
    target: &Target,
    base: &Name,
    seen: &Mutex<SeenNames>,
    most: Option<u64>,
) -> Result<Pruned, StoreError> {
    refuse_open_end(seen)?;
    if let Some(most) = most {
        target.limit_removals(most);
    }
    let cannot = |error: &dyn std::fmt::Display| StoreError::Local(error.to_string());
    let mut pruned = Pruned::default();
    let mut todo = vec![base.clone()];
    while let Some(folder) = todo.pop() {
        let mut failed: Option<StoreError> = None;
        let outcome = target.extras(&folder, &mut KeepSet::default(), copy.filter, &mut |names| {
            for name in names {
                let stays = stays(target, &name, &mut seen.lock());
                match stays {
                    Ok(Stays::Yes) => {}
                    Ok(Stays::Folder) => todo.push(name),
                    Ok(Stays::No) => remove(copy, target, &name, &mut pruned)?,
                    Err(error) => failed = Some(cannot(&error)),
                }
            }
            Ok(())
        });
        outcome.map_err(|error| cannot(&error))?;
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(pruned)
}

enum Stays {
    Yes,
    /// What is in it may not.
    Folder,
    No,
}

fn stays(target: &Target, name: &Name, seen: &mut SeenNames) -> io::Result<Stays> {
    let is_directory = target.existing(name).ok().flatten().is_some_and(|entry| entry.is_directory());
    if is_directory {
        let is_seen = seen.contains(&of_folder(name))?;
        // A key has its name, and was told that it cannot be a file here.
        return Ok(if is_seen {
            Stays::Folder
        } else if seen.contains(name.as_bytes())? {
            Stays::Yes
        } else {
            Stays::No
        });
    }
    let bytes = name.as_bytes();
    // What an unfinished download keeps beside its name goes on with the next run.
    let whole = bytes.strip_suffix(b".part").or_else(|| bytes.strip_suffix(b".weir"));
    let is_of_seen = whole.map_or(Ok(false), |whole| seen.contains(whole))?;
    Ok(if is_of_seen || seen.contains(bytes)? { Stays::Yes } else { Stays::No })
}

fn remove(
    copy: &Copy<'_>,
    target: &Target,
    name: &Name,
    pruned: &mut Pruned,
) -> Result<(), weir_tree::TreeError> {
    if copy.is_dry {
        let within = target.would_remove(name.clone(), copy.filter, |name| {
            pruned.deleted += 1;
            copy.hears.deletes(&name.to_string());
        })?;
        pruned.is_at_limit |= !within;
        return Ok(());
    }
    match target.remove(name, copy.filter) {
        Ok(removed) => {
            pruned.deleted += removed.entries;
            pruned.is_at_limit |= removed.at_limit;
            if removed.entries > 0 {
                copy.hears.deletes(&name.to_string());
            }
        }
        Err(error) => copy.hears.fails(&name.to_string(), error.to_string()),
    }
    Ok(())
}

/// Who says whether the source has a name.
pub enum Source<'a> {
    /// A folder, which stands at `base` in the tree.
    Folder {
        /// The folder.
        path: &'a Path,
        /// What it is called at the target.
        base: &'a Name,
    },
    /// A list that was read to its end.
    List(&'a Mutex<SeenNames>),
}

/// Deletes of `to` what `source` does not have. `most`: objects.
pub fn there(
    copy: &Copy<'_>,
    to: &StorePlace<'_>,
    source: &Source<'_>,
    most: Option<u64>,
) -> Result<Pruned, StoreError> {
    let folder = match source {
        Source::Folder { path, .. } => {
            let options = Options { create: false, ..Options::default() };
            Some(Target::open(path, options).map_err(|error| StoreError::Local(error.to_string()))?)
        }
        Source::List(seen) => {
            refuse_open_end(seen)?;
            None
        }
    };
    let mut caller = Caller::new(copy.caller);
    let shown = to.shown.trim_end_matches('/').to_owned();
    let prefix = match source {
        Source::Folder { base, .. } if !base.is_root() => {
            format!("{}{}/", to.prefix, base.as_path().display())
        }
        _ => to.prefix.to_owned(),
    };
    let setup = PagesSetup { lists: to.lists(), prefix, delimiter: None, versions: false, shown };
    let mut pruned = Pruned::default();
    let mut doomed: Vec<String> = Vec::new();
    let flush = |doomed: &mut Vec<String>, caller: &mut Caller<'_>| -> Result<u64, StoreError> {
        let keys = std::mem::take(doomed);
        for key in &keys {
            copy.hears.deletes(&to.url(key));
        }
        if copy.is_dry || keys.is_empty() {
            return Ok(keys.len() as u64);
        }
        let failed = to.store.deletes().delete(caller, &keys)?;
        for one in &failed {
            copy.hears.fails(&to.url(&one.key), format!("cannot delete it: {}", one.why));
        }
        Ok((keys.len() - failed.len()) as u64)
    };
    // What is deleted while a list is read may shift its pages; each page's keys go when the next is here.
    for page in Pages::new(setup, Caller::new(copy.caller)) {
        for object in page?.objects {
            let rest = object.key.strip_prefix(to.prefix).unwrap_or(&object.key);
            if is_spared(copy, source, folder.as_ref(), rest) {
                continue;
            }
            if most.is_some_and(|most| pruned.deleted + doomed.len() as u64 >= most) {
                pruned.is_at_limit = true;
                break;
            }
            doomed.push(object.key);
            if doomed.len() >= to.store.deletes().at_once() {
                pruned.deleted += flush(&mut doomed, &mut caller)?;
            }
        }
        if pruned.is_at_limit {
            break;
        }
    }
    pruned.deleted += flush(&mut doomed, &mut caller)?;
    Ok(pruned)
}

/// What a list does not have may be behind its end, if it does not say that this is one.
fn refuse_open_end(seen: &Mutex<SeenNames>) -> Result<(), StoreError> {
    let why = "nothing was deleted, since the store does not say that its list is whole";
    if seen.lock().may_lack { Err(StoreError::Local(why.to_owned())) } else { Ok(()) }
}

/// The source has it, the rules protect it, or nobody can tell.
fn is_spared(copy: &Copy<'_>, source: &Source<'_>, folder: Option<&Target>, rest: &str) -> bool {
    if rest.is_empty() || copy.spares(rest) {
        return true;
    }
    let bare = rest.trim_end_matches('/');
    let is_folder = bare.len() < rest.len();
    match (source, folder, &name_of(bare)) {
        (Source::List(seen), _, _) => seen.lock().contains(rest.as_bytes()).unwrap_or(true),
        // No file can have that name.
        (Source::Folder { .. }, _, Err(_)) => false,
        (Source::Folder { base, .. }, Some(folder), Ok(name)) => match folder.existing(&within(base, name)) {
            Ok(Some(entry)) => {
                entry.is_directory() == is_folder || matches!(entry.kind, Kind::Symlink { .. })
            }
            Ok(None) => false,
            // A file is on the way: there is nothing below it.
            Err(error) => error.errno() != Some(rustix::io::Errno::NOTDIR.raw_os_error()),
        },
        (Source::Folder { .. }, None, Ok(_)) => true,
    }
}

/// `name`, which begins with `base`, without it.
fn within(base: &Name, name: &Name) -> Name {
    let rest = name.as_bytes().strip_prefix(base.as_bytes()).unwrap_or(name.as_bytes());
    Name::new(rest.strip_prefix(b"/").unwrap_or(rest)).unwrap_or_else(|_| name.clone())
}
