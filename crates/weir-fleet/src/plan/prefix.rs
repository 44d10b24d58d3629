//! What a store has below a prefix, as a plan lists it.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use weir_get::GetError;
use weir_store::StoreError;
use weir_store::address::StoreUrl;
use weir_store::listing::{Listed, Page};
use weir_units::instant;

use super::list::TargetNames;
use super::{Found, LeftOut, Listing};
use crate::error::FleetError;
use crate::object::FleetObject;

/// The pages of a list. They may come in any order: nothing here relies on it.
pub struct PrefixListing {
    pages: Receiver<Result<Page, StoreError>>,
    page: VecDeque<Listed>,
    /// What is listed, for people.
    shown: String,
    /// What all keys begin with that goes from their names.
    prefix: String,
    /// It had an object.
    has_any: bool,
    /// What the target takes as names.
    names: TargetNames,
}

impl PrefixListing {
    /// Of `pages` below `url`.
    pub fn new(
        pages: Receiver<Result<Page, StoreError>>,
        url: &StoreUrl,
        names: TargetNames,
    ) -> PrefixListing {
        let (shown, prefix) = (url.to_string(), url.key.clone());
        PrefixListing { pages, page: VecDeque::new(), shown, prefix, has_any: false, names }
    }
}

impl Listing for PrefixListing {
    fn next(&mut self) -> Result<Option<Found>, FleetError> {
        let object = loop {
            if let Some(object) = self.page.pop_front() {
                break object;
            }
            match self.pages.recv() {
                Ok(Ok(page)) => self.page = page.objects.into(),
                Ok(Err(StoreError::Http(GetError::Interrupted))) => return Err(FleetError::Stopped),
                Ok(Err(error)) => return Err(FleetError::Manifest(error.to_string())),
                Err(_) => return Ok(None),
            }
        };
        self.has_any = true;
        let rest = object.key.strip_prefix(&self.prefix).unwrap_or(&object.key);
        // What stands for a folder: an object of no bytes, whose key ends with a slash. Another prefix can
        // hold it, but for the one that stands for the source itself.
        let is_folder = object.size == 0 && rest.ends_with('/') && self.names == TargetNames::Paths;
        if is_folder || rest.is_empty() && object.size == 0 {
            return Ok(Some(Found::LeftOut(LeftOut::Folder)));
        }
        if let Err(why) = self.names.check(rest.as_bytes()) {
            return Ok(Some(Found::Bad(format!("{}: {why}", object.key))));
        }
        let nanos = object
            .modified
            .map(instant::since_epoch)
            .and_then(|(seconds, nanos)| seconds.checked_mul(1_000_000_000)?.checked_add(i64::from(nanos)));
        Ok(Some(Found::Object(FleetObject {
            source: rest.as_bytes().to_vec(),
            target: rest.as_bytes().to_vec(),
            size: Some(object.size),
            mtime: nanos,
            etag: object.etag,
            digest: None,
        })))
    }

    fn has_own_targets(&self) -> bool {
        true
    }

    fn lacks(&self) -> Option<String> {
        // A bucket is there, with nothing in it; of a prefix nobody knows.
        let is_none = !self.has_any && !self.prefix.is_empty();
        is_none.then(|| format!("cannot plan {}: the bucket holds nothing of that name", self.shown))
    }
}
