//! Tokens for a registry (the distribution specification's token authentication): a refusal names who gives
//! them, and for what.
//!
//! Who is asked for a token is the registry's choice, so a login is shown only over https or to this machine
//! itself, and never to a host in the clear.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde::Deserialize;
use url::Url;
use weir_get::GetError;
use weir_get::http::authority::Mend;
use weir_get::http::call::AtHand;
use weir_http::challenge::{Challenge, challenges};
use weir_http::head::ResponseHead;
use weir_http::netrc::Login;

use super::asking::{Way, call, json};
use super::oci::is_this_machine;
use crate::caller::refusal;

/// A refusal within this time after a token came is of a request that was on its way before, or means it.
const FRESH: Duration = Duration::from_secs(1);

/// What is shown for the requests of one kind.
#[derive(Clone)]
struct Shown {
    value: String,
    since: Instant,
}

/// The tokens of one registry, by what they are for.
pub(super) struct Tokens {
    way: Way,
    login: Option<Login>,
    shown: Mutex<HashMap<String, Shown>>,
}

/// What gives a token: older ones call it by the first name, newer by the second.
#[derive(Deserialize)]
struct Given {
    token: Option<String>,
    access_token: Option<String>,
}

impl Tokens {
    pub(super) fn new(way: Way, login: Option<Login>) -> Tokens {
        Tokens { way, login, shown: Mutex::default() }
    }

    /// The user is known.
    pub(super) fn user(&self) -> Option<&str> {
        self.login.as_ref().map(|login| login.login.as_str())
    }

    /// What is shown with a request for `of`.
    pub(super) fn field(&self, of: &str) -> Option<(String, String)> {
        let shown = self.shown.lock().get(of).cloned()?;
        Some(("authorization".to_owned(), shown.value))
    }

    /// A request to `url` for `of` was refused with `head`: whether there is something else to show now. One
    /// lane asks, the others wait for what it gets.
    pub(super) fn mends(&self, of: &str, url: &Url, head: &ResponseHead) -> Result<Mend, GetError> {
        if head.status != 401 {
            return Ok(Mend::No);
        }
        let mut shown = self.shown.lock();
        if shown.get(of).is_some_and(|shown| shown.since.elapsed() < FRESH) {
            return Ok(Mend::Again);
        }
        let had = shown.remove(of);
        let found = challenges(head.headers_all("www-authenticate"));
        let bearer = found.iter().find(|challenge| challenge.scheme() == "bearer");
        let basic = found.iter().any(|challenge| challenge.scheme() == "basic");
        let value = match (bearer, &self.login) {
            (Some(challenge), _) => Some(format!("Bearer {}", self.token(url, challenge)?)),
            (None, Some(login)) if basic => Some(basic_of(login)),
            (None, _) => None,
        };
        // The same login once more would be refused once more.
        let Some(value) = value.filter(|value| had.is_none_or(|had| had.value != *value)) else {
            return Ok(Mend::No);
        };
        shown.insert(of.to_owned(), Shown { value, since: Instant::now() });
        Ok(Mend::Again)
    }

    fn token(&self, registry: &Url, challenge: &Challenge) -> Result<String, GetError> {
        let host = registry.host_str().unwrap_or_default();
        let refused = |why: String| GetError::Refused(format!("cannot get a token for {host}: {why}"));
        let realm = challenge.parameter("realm").unwrap_or_default();
        let realm = Url::parse(realm).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let mut realm = realm.ok_or_else(|| refused("it does not say who gives them".to_owned()))?;
        let is_safe = realm.scheme() == "https" || is_this_machine(&realm);
        if registry.scheme() == "https" && !is_safe {
            return Err(refused(format!("it sends to {realm} for them, where anybody could read along")));
        }
        for name in ["service", "scope"] {
            if let Some(value) = challenge.parameter(name) {
                realm.query_pairs_mut().append_pair(name, value);
            }
        }
        let login = self.login.as_ref().filter(|_| is_safe || realm.origin() == registry.origin());
        let fields: Vec<(String, String)> =
            login.map(|login| ("authorization".to_owned(), basic_of(login))).into_iter().collect();
        let what = format!("get a token for {host}");
        let asked = self.way.ask(&self.way.http, |caller| {
            let call = call("GET", realm.clone(), &fields);
            let reply = caller.ask(&call, &mut AtHand::default())?;
            match reply.head.status {
                200..300 => json::<Given>(&what, &reply.body),
                _ => Err(refusal(&what, &call, &reply)),
            }
        });
        let given = asked.map_err(|error| match error.into_answer() {
            Ok(error @ GetError::Status { status: 400..=403, .. }) => {
                refused(format!("{error}; {}", self.way_in(host)))
            }
            Ok(error) => error,
            Err(other) => GetError::Refused(other.to_string()),
        })?;
        let token = given.token.or(given.access_token);
        let is_token =
            |token: &String| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        token.filter(is_token).ok_or_else(|| refused("what came holds none".to_owned()))
    }

    /// How a user gets in.
    pub(super) fn way_in(&self, registry: &str) -> String {
        match self.user() {
            Some(user) => format!("asked as {user}; check the login (-u, or docker login {registry})"),
            None => format!("asked without a login; give -u USER:TOKEN, or run docker login {registry}"),
        }
    }
}

/// `Basic` of RFC 7617.
pub(super) fn basic_of(login: &Login) -> String {
    format!("Basic {}", STANDARD.encode(format!("{}:{}", login.login, login.password)))
}
