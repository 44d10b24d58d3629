//! Blobs that the service copies itself.
//! <https://learn.microsoft.com/rest/api/storageservices/copy-blob>

use std::time::{Duration, Instant};

use weir_get::http::call::AtHand;

use super::{AzureStore, at};
use crate::caller::Caller;
use crate::error::{StoreError, shown};
use crate::key;
use crate::listing::{Copies, Listed};

/// Between two looks at a copy that is under way: one within an account is over at once, and one of a
/// terabyte takes minutes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A copy without an end within that is left to the service.
const LONGEST: Duration = Duration::from_secs(6 * 3600);

impl Copies for AzureStore {
    fn copy(&self, caller: &mut Caller<'_>, bucket: &str, from: &Listed, to: &str) -> Result<(), StoreError> {
        let source = format!("az://{bucket}@{}/{}", self.settings.account, shown(&from.key));
        let what = format!("copy {source} to {}", self.shown(to));
        let query: Vec<(&str, &str)> =
            from.version.iter().map(|version| ("versionid", version.id.as_str())).collect();
        let path = format!("{bucket}/{}", key::in_path(&from.key)?);
        let mut fields =
            vec![("x-ms-copy-source".to_owned(), at(&self.settings, &path, &query)?.to_string())];
        fields.extend(from.etag.iter().map(|tag| ("x-ms-source-if-match".to_owned(), tag.clone())));
        let call = self.call("PUT", to, &[], fields)?;
        let reply = caller.done(&what, &call, &mut AtHand::default())?;
        let status = |head: &weir_http::head::ResponseHead| {
            head.header("x-ms-copy-status").map(str::to_ascii_lowercase)
        };
        // A first answer without the field is of a copy that is over; a later look is then at another blob.
        let mut now = status(&reply.head).or_else(|| Some("success".to_owned()));
        let began = Instant::now();
        while now.as_deref() == Some("pending") && began.elapsed() < LONGEST {
            caller.wait(LOOK_EVERY)?;
            let call = self.call("HEAD", to, &[], Vec::new())?;
            now = status(&caller.done(&what, &call, &mut AtHand::default())?.head);
        }
        let why = match now.as_deref() {
            Some("success") => return Ok(()),
            Some(other) => format!("says '{}' of the copy", shown(other)),
            None => "does not say what became of the copy".to_owned(),
        };
        Err(StoreError::Answer { what, why })
    }
}
