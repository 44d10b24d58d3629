//! Uploads whose beginning was never answered: nobody knows their ids, and some stores keep them, and bill
//! for them, until somebody looks.

use super::{Object, Upload, Uploads};
use crate::caller::Caller;
use crate::error::StoreError;

/// Has `begin` begin an upload, and takes away what was begun without an answer. `others` were there before;
/// `None`: that is not known, and nothing is taken away. `is_kept`: a journal knows that it was to begin, and
/// the next run looks.
pub(crate) fn begin(
    uploads: &dyn Uploads,
    caller: &mut Caller<'_>,
    object: &Object<'_>,
    (others, is_kept): (Option<&[String]>, bool),
    begin: &mut dyn FnMut(&mut Caller<'_>) -> Result<String, StoreError>,
) -> Result<String, StoreError> {
    let begun = begin(caller);
    let (Some(others), most @ 1..) = (others, caller.unanswered() as usize) else { return begun };
    match &begun {
        Ok(id) => abort(uploads, &mut caller.clearing(), object, (others, Some(id)), most),
        Err(error) if !is_kept && !error.is_answer() => {
            abort(uploads, &mut caller.clearing(), object, (others, None), most);
        }
        Err(_) => {}
    }
    begun
}

/// Takes away the uploads of an object that are not among `others`, which were there before, and have no
/// part. More than `most` of them are not all of this run: then whose each is cannot be told, and all stay.
/// They stay too where the list does not have `own`, which is there.
pub(super) fn abort(
    uploads: &dyn Uploads,
    caller: &mut Caller<'_>,
    object: &Object<'_>,
    (others, own): (&[String], Option<&str>),
    most: usize,
) {
    let pending = uploads.pending(caller, object.key).unwrap_or_else(|error| {
        tracing::info!("{error}");
        Vec::new()
    });
    if own.is_some_and(|own| pending.iter().all(|one| one.id != own)) {
        return;
    }
    let is_new = |id: &&str| !others.iter().any(|other| other == id) && own != Some(*id);
    let new = pending.iter().map(|one| one.id.as_str()).filter(is_new);
    let mut has_no_part = |id: &&str| {
        let upload = Upload { object: *object, id };
        matches!(uploads.parts(caller, &upload), Ok(Some(parts)) if parts.is_empty())
    };
    let new: Vec<&str> = new.filter(|id| has_no_part(id)).collect();
    if new.len() > most {
        tracing::info!("{} uploads of {} have no part; not all are this run's", new.len(), object.key);
        return;
    }
    for id in new {
        if let Err(error) = uploads.abort(caller, &Upload { object: *object, id }) {
            tracing::info!("{error}");
        }
    }
}
