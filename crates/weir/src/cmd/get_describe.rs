//! What a server says of an object before any of it is fetched, for whoever reads ranges of it: by the answer
//! to a GET for its first byte, which goes the way of `weir get`, with its options. HEAD is refused by signed
//! links and by some servers, and others answer it without a length.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use url::Url;
use weir_get::error::GetError;
use weir_get::http::authority::Authorizer;
use weir_get::http::connection::Dial;
use weir_get::http::exchange::{Answer, Client};
use weir_get::job::Pinned;
use weir_get::object::Part;
use weir_http::validator::Validators;
use weir_observe::stage_clock::StageClock;
use weir_store::caller::{FIRST_PAUSE, LONGEST_PAUSE};
use weir_units::backoff::doubled;

use crate::args::Get;
use crate::cmd::get_jobs::Wanted;
use crate::cmd::{get, get_hubs, get_jobs, get_who, stores};
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
    /// The server says that it sends ranges (RFC 9110, section 14.3), or has sent one.
    pub has_ranges: bool,
}

impl Described {
    fn of(answer: &Answer, part: &Part) -> Described {
        let size = match part {
            Part::Asked(object) | Part::Whole(object) => object.size,
            Part::Empty => Some(0),
            Part::Beyond(size) => *size,
        };
        let ranges = answer.head.header("accept-ranges");
        let has_ranges =
            matches!(part, Part::Asked(_)) || ranges.is_some_and(|text| text.eq_ignore_ascii_case("bytes"));
        let validators = Validators::from_fields(&answer.head.fields);
        let (etag, modified) = (validators.etag(), validators.last_modified());
        Described { size, etag: etag.map(str::to_owned), modified: modified.map(str::to_owned), has_ranges }
    }

    /// What an answer with a part of it has to say as well. Its size is not that of a part.
    pub fn pinned(&self) -> Pinned {
        let validators = Validators::from_journal(self.etag.as_deref(), self.modified.as_deref());
        Pinned { size: None, etag: self.etag.clone(), modified: validators.modified(), is_exact: true }
    }
}

/// Asks for the one object that `get` names. `None`: there is no such object.
pub fn describe(get: &Get, front: &mut dyn Front) -> anyhow::Result<Option<Described>> {
    let text = match &get.urls[..] {
        [one] if get.list.is_empty() => one,
        _ => return Err(Usage("expected one url".to_owned()).into()),
    };
    if get_hubs::names_hub(text) {
        // What stands behind the scheme may hold a login.
        let scheme = text.split("://").next().unwrap_or_default();
        let why = "a hub has it; fetch it, or name its https url";
        return Err(Usage(format!("cannot look at what {scheme}:// names: {why}")).into());
    }
    let buckets = stores::buckets(&get.store, get::network(get, front)?)?;
    let Wanted { url, zone, .. } = get_jobs::parse_named(text, &buckets)?;
    let user = get_who::user(&get.login, get.user.as_deref(), Some(&url));
    let (http, ..) = get::http(get, user)?;
    let http = http.in_zones(zone.into_iter().collect());
    let http = http.authorized_by(vec![Arc::clone(&buckets) as Arc<dyn Authorizer>]);
    let (clock, stop) = (StageClock::new(Instant::now()), front.stop()?);
    let dial = Dial {
        connect_timeout: get.connect_timeout.unwrap_or(get.timeout),
        max_wait: get.max_wait,
        ..Dial::new(get.timeout, [&*stop, &*stop])
    };
    let mut client = Client::new(&http, &clock, dial, &|_| {});
    match first_answer(&mut client, &url, get.retries) {
        Ok((answer, part)) => Ok(Some(Described::of(&answer, &part))),
        Err(GetError::Status { status: 404 | 410, .. }) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", stores::shown(&url, &buckets))),
    }
}

/// The answer that brings the first byte of the object at `url`; one with all of it where a part says nothing
/// of the whole. Its body is left unread. Asked for anew as long as that may help.
fn first_answer(client: &mut Client<'_>, url: &Url, retries: u32) -> Result<(Answer, Part), GetError> {
    let (mut range, mut failed) = (Some((0, Some(1))), 0);
    loop {
        let answered = client.get(url, url, range, None, false).and_then(|mut answer| {
            let part = answer.judge(range.map(|_| 0))?;
            Ok((answer, part))
        });
        let error = match answered {
            Ok((_, Part::Beyond(_))) | Err(GetError::WrongPart { .. }) if range.is_some() => {
                range = None;
                continue;
            }
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        let (asked, most) = (error.retry_after(), client.dial().max_wait);
        if error.is_permanent() || failed >= retries || asked.is_some_and(|asked| asked > most) {
            return Err(error);
        }
        client.dial().sleep(doubled(FIRST_PAUSE, failed, LONGEST_PAUSE).max(asked.unwrap_or_default()));
        if client.dial().is_stopped() {
            return Err(GetError::Interrupted);
        }
        failed += 1;
    }
}
