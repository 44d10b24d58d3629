//! What a server says of its error: read from the body of its answer, within bounds, and without what is
//! secret.

use std::time::{Duration, Instant};

use url::Url;
use weir_http::problem;

use crate::http::connection::Dial;
use crate::http::exchange::Exchange;
use crate::http::window;
use crate::object;
use weir_http::head::ResponseHead;
use weir_observe::stage_clock::StageClock;

/// How long words that nobody waits for may be in coming: a round trip over a long path.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Shorter texts are no secrets, and would be found everywhere.
const SHORT: usize = 6;

/// Whether an answer with this head has words: all errors, but for the one whose body tells whether the
/// object is empty.
pub(crate) fn has_words(head: &ResponseHead) -> bool {
    head.status >= 400 && !(head.status == 416 && window::size_in(head) == Some(0))
}

/// The words of the answer with this head, whose body is read as far as that takes.
pub fn words(
    head: &ResponseHead,
    body: &mut Exchange,
    clock: &StageClock,
    dial: &Dial<'_>,
    secrets: &[String],
) -> Option<String> {
    let is_coded = weir_http::encoding::content_coding(&head.fields).is_some();
    let text = if is_coded { Vec::new() } else { beginning(body, clock, dial) };
    of_body(head, &text, secrets)
}

/// The words of the answer with this head and this body.
pub fn of_body(head: &ResponseHead, body: &[u8], secrets: &[String]) -> Option<String> {
    let is_coded = weir_http::encoding::content_coding(&head.fields).is_some();
    let body = if is_coded { &[] } else { body };
    let said = problem::words(&head.fields, &object::printable(&head.reason), body)?;
    Some(without(said, secrets))
}

fn beginning(body: &mut Exchange, clock: &StageClock, dial: &Dial<'_>) -> Vec<u8> {
    let (began, dial) = (Instant::now(), Dial { timeout: TIMEOUT, ..*dial });
    let mut text = Vec::new();
    while !body.is_end() && text.len() < problem::MAX_BODY && began.elapsed() < TIMEOUT {
        match body.fill(problem::MAX_BODY - text.len(), clock, &dial) {
            Ok(0) | Err(_) => break,
            Ok(_) => body.pieces().for_each(|piece| text.extend_from_slice(piece)),
        }
    }
    text
}

/// What of a request must not be repeated, should a server repeat it: signatures in the query, values of
/// fields.
pub fn secrets<'a>(url: &Url, fields: impl Iterator<Item = &'a str>) -> Vec<String> {
    let of_query = object::secret_values(url);
    let mut secrets: Vec<String> =
        of_query.into_iter().chain(fields.map(str::to_owned)).filter(|value| value.len() >= SHORT).collect();
    // A part of one must not be left of another.
    secrets.sort_by_key(|value| std::cmp::Reverse(value.len()));
    secrets
}

fn without(mut said: String, secrets: &[String]) -> String {
    for secret in secrets {
        said = said.replace(secret, "REDACTED");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_repeats_is_not() {
        let url = Url::parse("http://h/x?X-Amz-Signature=geheim1&part=public-part").unwrap();
        let secrets = secrets(&url, ["Bearer geheim2", "geheim2", "a"].into_iter());
        let said = "geheim1 of public-part by Bearer geheim2 (geheim2) a".to_owned();
        assert_eq!(without(said, &secrets), "REDACTED of public-part by REDACTED (REDACTED) a");
    }
}
