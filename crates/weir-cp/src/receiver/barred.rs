//! Folders that are not there and cannot be made: each is told once, at the end, with how much was to be in
//! it. What is in them comes in any order, before the folder's own word as well as after it.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use weir_tree::destination::{Barrier, SPECIAL};
use weir_tree::{Entry, Name};

use super::{CopyDestination, Receiver};
use crate::wire::message::{Failure, FailureKind};

/// Such folders that are remembered: of more than these the paths are told one by one.
const MOST: usize = 4096;

/// By their names: no one of them is in another.
#[derive(Debug, Default)]
pub(super) struct Barred(Mutex<BTreeMap<Name, Bar>>);

/// Why a folder is not there.
#[derive(Debug)]
struct Bar {
    /// What is in its place.
    there: Option<&'static str>,
    /// What the system said, where nothing is.
    why: String,
    /// Paths that were to be in it.
    inside: u64,
}

impl Barred {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Bar>> {
        self.0.lock()
    }

    /// Whether `entry` is a folder that is known to be barred, or in one. What is in one is counted, unless
    /// it `was_counted`.
    pub(super) fn holds(&self, entry: &Entry, was_counted: bool) -> bool {
        let mut bars = self.lock();
        let bytes = entry.name.as_bytes();
        let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'/').chain([bytes.len()]);
        for end in ends {
            let Ok(name) = Name::new(&bytes[..end]) else { return false };
            if let Some(bar) = bars.get_mut(&name) {
                bar.inside += u64::from(end < bytes.len() && !was_counted);
                return true;
            }
        }
        false
    }

    fn note(&self, barrier: Barrier, entry: &Entry, was_counted: bool, why: &Failure) -> bool {
        let mut bars = self.lock();
        if bars.len() >= MOST && !bars.contains_key(&barrier.name) {
            return false;
        }
        let is_inside = barrier.name != entry.name;
        let why = why.words.rsplit(": ").next().unwrap_or_default().to_owned();
        let bar = bars.entry(barrier.name).or_insert(Bar { there: barrier.there, why, inside: 0 });
        bar.inside += u64::from(is_inside && !was_counted);
        true
    }
}

impl Receiver {
    /// Whether `entry`, which could not be put, failed for a folder that is not there, which is told at the
    /// end. `was_counted`: it is only the last word of a folder.
    pub(super) fn is_barred(
        &self,
        place: &CopyDestination,
        entry: &Entry,
        was_counted: bool,
        why: &Failure,
    ) -> bool {
        match place.target.barrier(entry) {
            Ok(Some(barrier)) => self.barred.note(barrier, entry, was_counted, why),
            Ok(None) | Err(_) => false,
        }
    }

    /// The same of an entry that was not tried: something else is in the place of a folder that it would be
    /// in.
    pub(super) fn would_be_barred(&self, place: &CopyDestination, entry: &Entry, was_counted: bool) -> bool {
        match place.target.barrier(entry) {
            Ok(Some(barrier)) if barrier.there.is_some() => {
                self.barred.note(barrier, entry, was_counted, &Failure::local(""))
            }
            _ => false,
        }
    }

    /// Each of them, at the end.
    pub(super) fn say_barred(&self) {
        for (name, Bar { there, why, inside }) in std::mem::take(&mut *self.barred.lock()) {
            let cause = match there {
                Some(SPECIAL) => format!("{SPECIAL} at the target is not replaced; remove it by hand"),
                Some(there) if self.options.delete => {
                    format!("{there} at the target is protected; remove it by hand")
                }
                Some(there) => format!("{there} is there; remove it, or --delete does"),
                None => why,
            };
            let left_out = match inside {
                0 => String::new(),
                1 => "; what is inside is left out (1 path)".to_owned(),
                paths => format!("; what is inside is left out ({paths} paths)"),
            };
            let words = format!("cannot make the directory {name}: {cause}{left_out}");
            self.problem(name, Failure::new(FailureKind::Local, words), false);
        }
    }
}
