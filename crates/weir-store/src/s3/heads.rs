//! HEAD of an object. A refusal of one has no body, and so no words: what is wrong is asked for by a GET.

use url::Url;
use weir_get::GetError;
use weir_get::http::call::{AtHand, Call};
use weir_http::head::ResponseHead;

use super::S3Store;
use crate::caller::{Caller, refusal};
use crate::error::StoreError;

/// An error of a store has some hundred bytes, the object's first byte is one.
const MOST: usize = 64 << 10;

impl S3Store {
    /// The head of the object at `url`; `None` where there is no such object.
    ///
    /// Of credentials that have run out, a clock that is wrong and an archived object a HEAD tells only 400
    /// or 403. A GET of one byte is refused in words, and what they lead to (renewed credentials) may have
    /// been done by then: where it is answered, the HEAD is sent again.
    pub(super) fn head(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        url: Url,
    ) -> Result<Option<ResponseHead>, StoreError> {
        let call = Call { method: "HEAD", url, fields: Vec::new(), most: 0, asks_first: false };
        let mut reply = caller.ask_to(what, &call, &mut AtHand::default())?;
        if matches!(reply.head.status, 301 | 307 | 400 | 401 | 403) {
            let fields = vec![("range".to_owned(), "bytes=0-0".to_owned())];
            let aloud = Call { method: "GET", fields, most: MOST, ..call.clone() };
            match caller.ask_to(what, &aloud, &mut AtHand::default()) {
                Ok(said) if matches!(said.head.status, 200..300 | 416) => {
                    reply = caller.ask_to(what, &call, &mut AtHand::default())?;
                }
                Ok(said) => return Err(refusal(what, &aloud, &said)),
                Err(StoreError::Http(GetError::Interrupted)) => return Err(GetError::Interrupted.into()),
                Err(error) if error.is_for_later() => return Err(error),
                // Nothing more was heard.
                Err(_) => {}
            }
        }
        match reply.head.status {
            200..300 => Ok(Some(reply.head)),
            404 => Ok(None),
            _ => Err(refusal(what, &call, &reply)),
        }
    }
}
