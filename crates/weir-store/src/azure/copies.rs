//! Blobs that the service copies itself.
//! <https://learn.microsoft.com/rest/api/storageservices/copy-blob>

use std::time::{Duration, Instant};

use weir_get::http::call::AtHand;

use super::{AzureStore, at};
use crate::caller::Caller;
use crate::condition::Condition;
use crate::error::{StoreError, shown};
use crate::key;
use crate::listing::{Copies, Listed};

/// Between two looks at a copy that is under way: one within an account is over at once, and one of a
/// terabyte takes minutes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A copy without an end within that is left to the service.
const LONGEST: Duration = Duration::from_secs(6 * 3600);

impl Copies for AzureStore {
    fn copy(
        &self,
        caller: &mut Caller<'_>,
        bucket: &str,
        from: &Listed,
        (to, condition): (&str, &Condition),
        hears: &dyn Fn(u64),
    ) -> Result<(), StoreError> {
        let source = format!("az://{bucket}@{}/{}", self.settings.account, shown(&from.key));
        let what = format!("copy {source} to {}", self.shown(to));
        let query: Vec<(&str, &str)> =
            from.version.iter().map(|version| ("versionid", version.id.as_str())).collect();
        let path = format!("{bucket}/{}", key::in_path(&from.key)?);
        let mut fields =
            vec![("x-ms-copy-source".to_owned(), at(&self.settings, &path, &query)?.to_string())];
        fields.extend(from.etag.iter().map(|tag| ("x-ms-source-if-match".to_owned(), tag.clone())));
        fields.extend(condition.field());
        let call = self.call("PUT", to, &[], fields)?;
        let reply = caller.done(&what, &call, &mut AtHand::default())?;
        let field =
            |head: &weir_http::head::ResponseHead, name: &str| head.header(name).map(str::to_ascii_lowercase);
        let id = field(&reply.head, "x-ms-copy-id");
        // Where it says no more than that, 201 is of a copy that is over, and 202 of one that was begun.
        let silent = if reply.head.status == 201 { "success" } else { "pending" };
        let mut now = field(&reply.head, "x-ms-copy-status").or_else(|| Some(silent.to_owned()));
        let (began, mut copied) = (Instant::now(), 0_u64);
        while now.as_deref() == Some("pending") && began.elapsed() < LONGEST {
            caller.wait(LOOK_EVERY)?;
            let call = self.call("HEAD", to, &[], Vec::new())?;
            let head = caller.done(&what, &call, &mut AtHand::default())?.head;
            let other = field(&head, "x-ms-copy-id").filter(|own| id.as_ref().is_some_and(|id| id != own));
            if other.is_some() {
                let why = "is of another copy, which has taken the name meanwhile".to_owned();
                return Err(StoreError::Answer { what, why });
            }
            // `BYTES/SIZE`.
            let progress = field(&head, "x-ms-copy-progress");
            let done = progress.and_then(|text| text.split('/').next()?.parse().ok()).unwrap_or(copied);
            hears(done.saturating_sub(copied));
            copied = done.max(copied);
            now = field(&head, "x-ms-copy-status");
        }
        let why = match now.as_deref() {
            Some("success") => return Ok(()),
            Some(other) => format!("says '{}' of the copy", shown(other)),
            None => "does not say what became of the copy".to_owned(),
        };
        Err(StoreError::Answer { what, why })
    }
}
