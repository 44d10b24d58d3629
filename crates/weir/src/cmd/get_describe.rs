//! What a server says of an object before any of it is fetched, for whoever reads ranges of it: the requests
//! are those of `weir get`, with its options.

use std::time::Instant;

use anyhow::Context;
use std::sync::Arc;
use weir_get::http::authority::Authorizer;
use weir_get::http::call::{AtHand, Call};
use weir_get::object;
use weir_observe::stage_clock::StageClock;
use weir_store::caller::{Caller, refusal};

use crate::args::Get;
use crate::cmd::{asked_store, get, get_hubs, get_jobs, get_who, stores};
use crate::front::Front;
use crate::voice::Usage;

/// An object as its server describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Described {
    /// Bytes; `None` where the server does not say.
    pub size: Option<u64>,
    /// Its ETag as the field has it, with quotes.
    pub etag: Option<String>,
    /// `Last-Modified` as the field has it.
    pub modified: Option<String>,
    /// The server says that it sends ranges (RFC 9110, section 14.3).
    pub has_ranges: bool,
}

/// Asks for the one object that `get` names (HEAD). `None`: there is no such object.
pub fn describe(get: &Get, front: &mut dyn Front) -> anyhow::Result<Option<Described>> {
    let text = match &get.urls[..] {
        [one] if get.list.is_none() => one,
        _ => return Err(Usage("expected one url".to_owned()).into()),
    };
    if get_hubs::names_hub(text) {
        return Err(
            Usage(format!("cannot look at {text}: it is a hub's; fetch it, or name its https url")).into()
        );
    }
    let buckets = stores::buckets(&get.store, get::network(get, front)?)?;
    let url = get_jobs::parse_named(text, &buckets)?.url;
    let user = get_who::user(&get.login, get.user.as_deref(), Some(&url));
    let (http, ..) = get::http(get, user)?;
    let http = http.authorized_by(vec![Arc::clone(&buckets) as Arc<dyn Authorizer>]);
    let (clock, stop) = (StageClock::new(Instant::now()), front.stop()?);
    let setup = asked_store::caller(&http, &clock, &stop);
    let setup = weir_store::caller::CallerSetup {
        timeout: get.timeout,
        connect_timeout: get.connect_timeout.unwrap_or(get.timeout),
        retries: get.retries,
        ..setup
    };
    let call = Call { method: "HEAD", url, fields: Vec::new(), most: 0, asks_first: false };
    let what = || format!("cannot look at {}", stores::shown(&call.url, &buckets));
    let reply = Caller::new(setup).as_user().ask(&call, &mut AtHand::default()).with_context(what)?;
    let field = |name: &str| reply.head.header(name).map(str::to_owned);
    match reply.head.status {
        404 | 410 => Ok(None),
        200..300 => Ok(Some(Described {
            size: field("content-length").and_then(|text| text.parse().ok()),
            etag: field("etag"),
            modified: field("last-modified"),
            has_ranges: field("accept-ranges").is_some_and(|text| text.eq_ignore_ascii_case("bytes")),
        })),
        _ => Err(refusal(&format!("look at {}", object::shown(&call.url)), &call, &reply).into()),
    }
}
