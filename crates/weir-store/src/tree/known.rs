//! What a target is known to hold: a list of it that comes while others ask, kept as far as memory goes.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;

use parking_lot::Mutex;

use super::StorePlace;
use super::decide::{Facts, Mtime, Rules};
use crate::caller::Caller;
use crate::error::StoreError;
use crate::listing::{Listed, Looked, Page};

/// Objects that are kept, with keys of so many bytes together: 20 MB.
const KNOWN: (usize, usize) = (100_000, 8 << 20);

/// What is known.
pub(super) struct Known<'a> {
    place: StorePlace<'a>,
    /// A rule goes by whether an object is there: what nobody knows must not be taken for absent.
    is_needed: bool,
    state: Mutex<KnownState>,
}

#[derive(Default)]
struct KnownState {
    objects: HashMap<Box<str>, Facts>,
    key_bytes: usize,
    /// The list has ended, and all of it is in `objects`.
    is_all: bool,
    /// It may not be read: nobody knows what is there.
    is_secret: bool,
}

impl<'a> Known<'a> {
    pub fn new(place: StorePlace<'a>, rules: &Rules) -> Known<'a> {
        Known { place, is_needed: rules.ignore_existing || rules.existing, state: Mutex::default() }
    }

    /// Takes up the next page. False: no more of them are wanted, or come.
    pub fn take(&self, pages: &Receiver<Result<Page, StoreError>>) -> Result<bool, StoreError> {
        let Ok(page) = pages.recv() else { return Ok(false) };
        let page = match page {
            Err(error) if error.is_denied() && self.is_needed => {
                tracing::warn!("{error}; each object is asked for by itself");
                return Ok(false);
            }
            Err(error) if error.is_denied() => {
                tracing::warn!("{error}; everything is copied, whether it is there or not");
                self.state.lock().is_secret = true;
                return Ok(false);
            }
            other => other?,
        };
        let mut state = self.state.lock();
        let (most, most_bytes) = KNOWN;
        let is_last = page.next.is_none() && !page.may_go_on;
        for object in page.objects {
            if state.objects.len() >= most || state.key_bytes >= most_bytes {
                tracing::info!("{} holds much: what is there is asked for one by one", self.place.shown);
                return Ok(false);
            }
            state.key_bytes += object.key.len();
            let facts = facts_of(&object);
            state.objects.insert(object.key.into(), facts);
        }
        state.is_all = is_last;
        Ok(!is_last)
    }

    /// What is at `key`: from the list, or by a request of its own.
    pub fn at(&self, caller: &mut Caller<'_>, key: &str) -> Result<Option<Facts>, StoreError> {
        {
            let state = self.state.lock();
            if let Some(facts) = state.objects.get(key) {
                return Ok(Some(facts.clone()));
            }
            if state.is_all || state.is_secret {
                return Ok(None);
            }
        }
        self.look(caller, key, None)
    }

    /// A look at `key`; `size`: its size, if that is known.
    pub fn look(
        &self,
        caller: &mut Caller<'_>,
        key: &str,
        size: Option<u64>,
    ) -> Result<Option<Facts>, StoreError> {
        let looked = self.place.lists().look(caller, key, None, size);
        Ok(looked.map_err(|error| self.explained(error))?.as_ref().map(facts_of_look))
    }

    /// Why a look that the store denies fails the object.
    fn explained(&self, error: StoreError) -> StoreError {
        match self.is_needed && error.is_denied() {
            true => StoreError::Local(format!(
                "{error}; --ignore-existing and --existing need to know what is there"
            )),
            false => error,
        }
    }
}

/// What a list says.
pub(super) fn facts_of(object: &Listed) -> Facts {
    Facts { size: object.size, mtime: Mtime::NotAsked, stored: object.modified, etag: object.etag.clone() }
}

/// What a look says.
pub(super) fn facts_of_look(looked: &Looked) -> Facts {
    Facts { mtime: looked.mtime.map_or(Mtime::Unknown, Mtime::Known), ..facts_of(&looked.listed) }
}
