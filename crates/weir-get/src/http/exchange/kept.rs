//! What a store keeps of an object that is on its way, where that takes requests of its own.

use std::sync::Arc;

use super::{Answer, Client, Exchange};
use crate::error::GetError;
use crate::http::authority::KeptDigest;
use crate::http::call::{AtHand, Call};

/// A digest, and the sizes of the parts whose digests it is of.
type KeptParts = (KeptDigest, Option<Arc<[u64]>>);

impl Client<'_> {
    /// The digest that a store keeps of all of the object of `size` bytes that `answer` brings; why it is of
    /// no use; `None` where it keeps none.
    ///
    /// The body of the answer waits meanwhile: what is asked goes over another connection.
    pub(crate) fn kept_of(&mut self, answer: &Answer, size: u64) -> Option<Result<KeptParts, String>> {
        let authorizer = self.http.authorizer(&answer.url).filter(|_| !answer.is_exposed).cloned()?;
        let kept = authorizer.keeps(&answer.url, &answer.head)?;
        if kept.parts.is_none() {
            return Some(Ok((kept, None)));
        }
        let mut ask = |call: &Call<'_>| self.call(call, &mut AtHand::default());
        let layout = authorizer.layout(&answer.url, &kept, size, &mut ask);
        if let Exchange::Http1(connection) = &answer.body {
            (self.on_socket)(Some(connection.socket()));
        }
        let not = |why: String| format!("not verified by the {}: {why}", kept.field);
        Some(match layout {
            Ok(sizes) if sizes.iter().sum::<u64>() == size => Ok((kept, Some(sizes.into()))),
            Ok(_) => Err(not("the sizes of its parts are not that of the object".to_owned())),
            Err(why) => Err(not(why)),
        })
    }
}

/// Why a request beside a download came to nothing, in a few words.
pub fn in_words(error: &GetError) -> String {
    format!("the sizes of its parts could not be asked for: {error}")
}
