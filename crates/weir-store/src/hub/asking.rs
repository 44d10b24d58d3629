//! Small requests to hubs: answers that fit into memory, redirects followed, pages put together.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use url::Url;
use weir_get::http::call::{AtHand, Call, Reply};
use weir_get::http::exchange::Http;
use weir_get::http::request::safe_elsewhere;
use weir_observe::stage_clock::StageClock;

use crate::caller::{Caller, CallerSetup, refusal};
use crate::error::StoreError;

/// The longest answer of a hub, bytes: a page of the list of files has 1,000 of them, under 400 bytes each; a
/// repository that is described with all its 100,000 files takes 10 MB.
const MOST: usize = 32 << 20;

/// Redirects of one request: a repository that was renamed twice, and a slash.
const MAX_REDIRECTS: usize = 5;

/// The way of requests that are none of a lane's: for tokens, and what is asked anew in mid-flight.
#[derive(Clone)]
pub struct Way {
    /// The network, without anybody to speak for requests.
    pub http: Arc<Http>,
    /// Set: give up at once.
    pub stop: Arc<AtomicBool>,
    /// For each stretch without a byte.
    pub timeout: Duration,
    /// For a name, its connect and the handshakes.
    pub connect_timeout: Duration,
    /// The longest wait that a hub may ask for.
    pub max_wait: Duration,
    /// Attempts after the first.
    pub retries: u32,
}

impl Way {
    /// Asks by a caller of its own.
    pub fn ask<T>(
        &self,
        http: &Http,
        asks: impl FnOnce(&mut Caller<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let clock = StageClock::new(Instant::now());
        let setup = CallerSetup {
            http,
            clock: &clock,
            on_socket: &|_| {},
            stop: &self.stop,
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            max_wait: self.max_wait,
            retries: self.retries,
        };
        asks(&mut Caller::new(setup))
    }
}

/// A request without a body.
pub(super) fn call<'a>(method: &'a str, url: Url, fields: &[(String, String)]) -> Call<'a> {
    Call { method, url, fields: fields.to_vec(), most: MOST, asks_first: false }
}

/// Asks for `url` and follows where it leads to; whatever the last answer's status is. Of `fields` those that
/// may hold a secret go to the first origin alone.
pub(super) fn get(
    caller: &mut Caller<'_>,
    what: &str,
    url: Url,
    fields: &[(String, String)],
) -> Result<(Url, Reply), StoreError> {
    let mut call = call("GET", url.clone(), fields);
    for _ in 0..=MAX_REDIRECTS {
        let reply = caller.ask_to(what, &call, &mut AtHand::default())?;
        let Some(next) = leads_to(&call.url, &reply) else { return Ok((call.url, reply)) };
        let next = next.map_err(|why| StoreError::Answer { what: what.to_owned(), why })?;
        if next.origin() != url.origin() {
            call.fields = safe_elsewhere(&call.fields);
        }
        call.url = next;
    }
    let why = format!("leads on more than {MAX_REDIRECTS} times");
    Err(StoreError::Answer { what: what.to_owned(), why })
}

/// As [`get`], of which only a success will do.
pub(super) fn got(
    caller: &mut Caller<'_>,
    what: &str,
    url: Url,
    fields: &[(String, String)],
) -> Result<(Url, Reply), StoreError> {
    let (url, reply) = get(caller, what, url, fields)?;
    match reply.head.status {
        200..300 => Ok((url, reply)),
        _ => Err(refusal(what, &call("GET", url, &[]), &reply)),
    }
}

/// Where an answer from `from` leads to.
pub(super) fn leads_to(from: &Url, reply: &Reply) -> Option<Result<Url, String>> {
    let location = reply.head.header("location")?;
    if !matches!(reply.head.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    Some(match from.join(location) {
        Ok(next) if next.scheme() == from.scheme() || next.scheme() == "https" => Ok(next),
        Ok(next) => Err(format!("leads to the scheme '{}'", next.scheme())),
        Err(error) => Err(format!("leads to what is no URL ({error})")),
    })
}

/// Reads `body` as JSON.
pub(super) fn json<T: serde::de::DeserializeOwned>(what: &str, body: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(body).map_err(|error| StoreError::Answer {
        what: what.to_owned(),
        why: format!("is not what was asked for ({error})"),
    })
}
