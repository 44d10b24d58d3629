//! Tokens for a registry (the distribution specification's token authentication): a refusal names who gives
//! them, and for what.
//!
//! Who is asked for a token is the registry's choice, so a login is shown only over https or to this machine
//! itself, and never to a host in the clear. One that is an identity token (`az acr login`) is traded for a
//! token by OAuth 2.0's refresh grant (RFC 6749 section 6).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde::Deserialize;
use url::Url;
use weir_get::GetError;
use weir_get::http::authority::Mend;
use weir_get::http::call::{AtHand, Reply};
use weir_get::object;
use weir_http::challenge::{Challenge, challenges};
use weir_http::head::ResponseHead;
use weir_http::netrc::Login;

use super::asking::{Way, call, get, json};
use super::oci::is_this_machine;
use crate::caller::refusal;
use crate::credentials::Used;
use crate::error::StoreError;

/// A token that is shown within this time after it came has not run out: a refusal means it.
const FRESH: Duration = Duration::from_secs(1);

/// The user in whose place docker and its programs keep an identity token.
pub(super) const IDENTITY: &str = "<token>";

/// Who asks by an identity token; a registry's own logs have it.
const CLIENT: &str = "weir";

/// The type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// What is shown for the requests of one kind.
struct Shown {
    value: String,
    since: Instant,
    /// When each lane last sent a request with it.
    sent: Used<Instant>,
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
        let shown = self.shown.lock();
        let shown = shown.get(of)?;
        shown.sent.set(Instant::now());
        Some(("authorization".to_owned(), shown.value.clone()))
    }

    /// This lane's request to `url` for `of` was refused with `head`: whether there is something else to show
    /// now. One lane asks, the others wait for what it gets.
    pub(super) fn mends(&self, of: &str, url: &Url, head: &ResponseHead) -> Result<Mend, GetError> {
        if head.status != 401 {
            return Ok(Mend::No);
        }
        let mut shown = self.shown.lock();
        if let Some(now) = shown.get(of) {
            match now.sent.own() {
                // It was on its way before this came.
                None => return Ok(Mend::Again),
                Some(sent) if sent.duration_since(now.since) < FRESH => return Ok(Mend::No),
                Some(_) => {}
            }
        }
        let had = shown.remove(of);
        let found = challenges(head.headers_all("www-authenticate"));
        let bearer = found.iter().find(|challenge| challenge.scheme() == "bearer");
        let basic = found.iter().any(|challenge| challenge.scheme() == "basic");
        let value = match (bearer, &self.login) {
            (Some(challenge), _) => Some(format!("Bearer {}", self.token(url, challenge)?)),
            (None, Some(login)) if basic && login.login != IDENTITY => Some(basic_of(login)),
            (None, _) => None,
        };
        // The same login once more would be refused once more.
        let Some(value) = value.filter(|value| had.is_none_or(|had| had.value != *value)) else {
            return Ok(Mend::No);
        };
        shown.insert(of.to_owned(), Shown { value, since: Instant::now(), sent: Used::default() });
        Ok(Mend::Again)
    }

    fn token(&self, registry: &Url, challenge: &Challenge) -> Result<String, GetError> {
        let host = registry.host_str().unwrap_or_default();
        let refused = |why: String| GetError::Refused(format!("cannot get a token for {host}: {why}"));
        let realm = challenge.parameter("realm").unwrap_or_default();
        let realm = Url::parse(realm).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let mut realm = realm.ok_or_else(|| refused("it does not say who gives them".to_owned()))?;
        let is_safe = |url: &Url| url.scheme() == "https" || is_this_machine(url);
        let is_exposed = |url: &Url| registry.scheme() == "https" && !is_safe(url);
        if is_exposed(&realm) {
            return Err(refused(format!("it sends to {realm} for them, where anybody could read along")));
        }
        let login = self.login.as_ref();
        let login = login.filter(|_| is_safe(&realm) || realm.origin() == registry.origin());
        let parameter = |name| Some((name, challenge.parameter(name)?));
        let asks_for: Vec<(&str, &str)> = ["service", "scope"].into_iter().filter_map(parameter).collect();
        let (field, form) = match login {
            Some(login) if login.login == IDENTITY => {
                (Some(("content-type", FORM.to_owned())), refresh_grant(login, &asks_for))
            }
            login => {
                if !asks_for.is_empty() {
                    realm.query_pairs_mut().extend_pairs(&asks_for);
                }
                (login.map(|login| ("authorization", basic_of(login))), String::new())
            }
        };
        let fields: Vec<(String, String)> =
            field.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let what = format!("get a token for {host}");
        let asked = self.ask(&what, realm, &fields, &form).and_then(|(url, mut reply)| {
            if is_exposed(&url) {
                let why = format!("comes from {}, where anybody could read along", object::shown(&url));
                return Err(StoreError::Answer { what: what.clone(), why });
            }
            if (200..300).contains(&reply.head.status) {
                return json::<Given>(&what, &reply.body);
            }
            if let Some(login) = login.filter(|_| !form.is_empty()) {
                without_secret(&mut reply, &login.password);
            }
            Err(refusal(&what, &call("GET", url, &[]), &reply))
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

    /// What `realm` answers to a `form`, or to a question, which may be led on: the login goes to its own
    /// origin alone.
    fn ask(
        &self,
        what: &str,
        realm: Url,
        fields: &[(String, String)],
        form: &str,
    ) -> Result<(Url, Reply), StoreError> {
        self.way.ask(&self.way.http, |caller| match form {
            "" => get(caller, what, realm, fields),
            form => {
                let call = call("POST", realm, fields);
                let reply = caller.ask(&call, &mut AtHand::new(form.as_bytes()))?;
                Ok((call.url, reply))
            }
        })
    }

    /// How a user gets in.
    pub(super) fn way_in(&self, registry: &str) -> String {
        match self.user() {
            Some(IDENTITY) => {
                format!("its identity token may have run out; log in again (docker login {registry})")
            }
            Some(user) => format!("asked as {user}; check the login (-u, or docker login {registry})"),
            None => format!("asked without a login; give -u USER:TOKEN, or run docker login {registry}"),
        }
    }
}

/// The form that trades an identity token for one that is for what it `asks_for`.
fn refresh_grant(login: &Login, asks_for: &[(&str, &str)]) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.extend_pairs([("grant_type", "refresh_token"), ("client_id", CLIENT)]);
    form.extend_pairs(asks_for).append_pair("refresh_token", &login.password);
    form.finish()
}

/// Drops the words of a refusal that echoes the form: only secrets in fields and queries are taken out of
/// what a server says.
fn without_secret(reply: &mut Reply, secret: &str) {
    let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let repeats = |text: &str| text.contains(secret) || text.contains(&encoded);
    if repeats(&String::from_utf8_lossy(&reply.body)) {
        reply.body.clear();
        reply.said = None;
    }
}

/// `Basic` of RFC 7617.
pub(super) fn basic_of(login: &Login) -> String {
    format!("Basic {}", STANDARD.encode(format!("{}:{}", login.login, login.password)))
}
