//! Objects that Google copies itself, of any size, in as many steps as it wants.
//! <https://cloud.google.com/storage/docs/json_api/v1/objects/rewrite>

use serde::Deserialize;
use weir_get::http::call::Call;

use super::GcsStore;
use super::upload::generation_at;
use crate::caller::Caller;
use crate::condition::Condition;
use crate::error::{StoreError, shown};
use crate::key;
use crate::listing::{Copies, Listed};

/// Steps of one copy: each moves 1 GB or more where a step is wanted at all, and an object is 5 TiB at most.
const MAX_STEPS: usize = 10_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    done: bool,
    rewrite_token: Option<String>,
    /// Of all steps so far; a number, or one in a text.
    #[serde(default)]
    total_bytes_rewritten: serde_json::Value,
}

impl Step {
    fn copied(&self) -> u64 {
        let told = &self.total_bytes_rewritten;
        let text = told.as_str().and_then(|text| text.parse().ok());
        text.or(told.as_u64()).unwrap_or_default()
    }
}

impl Copies for GcsStore {
    fn copy(
        &self,
        caller: &mut Caller<'_>,
        bucket: &str,
        from: &Listed,
        (to, condition): (&str, &Condition),
        hears: &dyn Fn(u64),
    ) -> Result<(), StoreError> {
        let source = format!("gs://{bucket}/{}", shown(&from.key));
        let what = format!("copy {source} to {}", self.shown(to));
        let version = match &from.version {
            Some(version) => version.id.clone(),
            None => self.generation(caller, &what, bucket, from)?,
        };
        let there = generation_at(&what, condition)?;
        let path = format!(
            "{}/rewriteTo/b/{}/o/{}",
            GcsStore::path_of(bucket, &from.key)?,
            self.bucket,
            key::in_segment(to)?
        );
        let (mut token, mut copied): (Option<String>, u64) = (None, 0);
        for _ in 0..MAX_STEPS {
            let mut query = vec![("sourceGeneration", version.as_str())];
            query.extend(there.as_deref().map(|generation| ("ifGenerationMatch", generation)));
            query.extend(token.iter().map(|token| ("rewriteToken", token.as_str())));
            let fields = vec![("content-type".to_owned(), "application/json".to_owned())];
            let call = Call {
                method: "POST",
                url: self.json(&path, &query)?,
                fields,
                most: 1 << 20,
                asks_first: false,
            };
            let step: Step = self.asks(caller, &what, &call, "")?;
            hears(step.copied().saturating_sub(copied));
            copied = step.copied().max(copied);
            match step.rewrite_token {
                _ if step.done => return Ok(()),
                Some(next) => token = Some(next),
                None => break,
            }
        }
        Err(StoreError::Answer {
            what,
            why: "says that the copy is not done, and not how to go on".to_owned(),
        })
    }
}

impl GcsStore {
    /// The generation of what was listed, if it is still there.
    fn generation(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        bucket: &str,
        from: &Listed,
    ) -> Result<String, StoreError> {
        let answer = |why: &str| StoreError::Answer { what: what.to_owned(), why: why.to_owned() };
        let resource = self.resource(caller, bucket, &from.key, None)?;
        let resource = resource.ok_or_else(|| answer("says that the source is gone"))?;
        let generation = resource.generation.clone().ok_or_else(|| answer("has no generation"))?;
        let now = resource.listed(false).map_err(|why| answer(&why))?;
        let is_same = now.size == from.size && (now.etag == from.etag || from.etag.is_none());
        is_same.then_some(generation).ok_or_else(|| answer("has another object than the list had"))
    }
}
