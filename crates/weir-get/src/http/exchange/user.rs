//! Asking as the user that a host knows: with its cookies and its login, and an answer to its challenge.

use std::sync::Arc;

use url::{Position, Url};
use weir_http::encoding::ACCEPTED;
use weir_http::head::ResponseHead;
use weir_http::netrc::Login;

use super::redirects::{is_downgrade, is_redirect};
use super::{Answered, Client, Exchange, Http};
use crate::error::GetError;
use crate::http::authority::{Authorizer, MAX_MENDED, Mend, is_authorized};
use crate::http::credentials;
use crate::http::logins::{Asker, MAX_ANSWERS, Sent, Space};
use crate::http::request::{Ask, IDENTITY, Origin, is_harmless, safe_elsewhere};
use crate::http::said;

/// Whom a request named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Nobody,
    User,
    /// There is one, but the server asked for no scheme that may be used.
    Withheld,
}

impl Shown {
    fn of(is_sent: bool, is_known: bool) -> Shown {
        match (is_sent, is_known) {
            (true, _) => Shown::User,
            (false, true) => Shown::Withheld,
            (false, false) => Shown::Nobody,
        }
    }
}

/// An answer to a request as the user, and whom that named.
pub(super) struct UserAnswer {
    pub(super) told: Answered,
    pub(super) shown: Shown,
    pub(super) said: Option<String>,
    /// An authorizer said why it was refused, and what helps.
    pub(super) explained: bool,
    /// Where the authorizer has it asked for instead.
    pub(super) moved: Option<Url>,
    /// The server asked for a client certificate, and none was shown.
    pub(super) lacks_certificate: bool,
}

impl Client<'_> {
    /// From now on objects are asked for in codings, if the user has those undone (`--compressed`), or as
    /// they are in any case.
    pub(crate) fn takes_coded(&mut self, takes_coded: bool) {
        self.takes_coded = takes_coded;
    }

    /// Whether objects are asked for in codings.
    pub(crate) fn asks_for_codings(&self) -> bool {
        self.takes_coded && self.http.compressed
    }

    /// Asks as the user that this URL's host knows, with its cookies, and answers its challenge. Returns with
    /// the answer who was named: nobody where a redirect led from https to http, since whoever is on the way
    /// there reads along, and may have made the answer.
    pub(super) fn ask_as_user(
        &mut self,
        home: &Url,
        url: &Url,
        (range, if_range): (Option<(u64, Option<u64>)>, Option<&str>),
        many: bool,
    ) -> Result<UserAnswer, GetError> {
        let (http, unless) = (self.http, self.unless.clone());
        let at_home = is_at_home(http, home, url);
        let jar = (!is_downgrade(home, url)).then_some(&http.jar);
        let elsewhere = if at_home { Vec::new() } else { safe_elsewhere(&http.headers) };
        let headers = if at_home { &http.headers } else { &elsewhere };
        let authorizer = http.authorizer(url).filter(|_| jar.is_some());
        let known = login(http, home, url, headers).filter(|_| authorizer.is_none());
        let target = &url[Position::BeforePath..Position::AfterQuery];
        let (mut answers, mut mended) = (0, 0);
        loop {
            let signed = authorizer.map(|one| signed(one, url, headers)).transpose()?;
            let headers = signed.as_ref().unwrap_or(headers);
            let cookies = jar.and_then(|jar| jar.field(url, at_home));
            let sent = (known.as_ref())
                .and_then(|(space, login)| http.logins.authorization(space, login, "GET", target));
            let authorization = sent.as_ref().map(|sent| sent.value.as_str());
            let ask = Ask {
                range,
                set: None,
                if_range,
                pins: authorizer.is_some_and(|authorizer| authorizer.pins(url)),
                headers,
                authorization,
                cookies: cookies.as_deref(),
                removed: &http.manner.removed,
                unless: unless.as_ref(),
                codings: Some(if self.asks_for_codings() { ACCEPTED } else { IDENTITY }),
                sealed_by: authorizer.map(|one| (&**one, url)),
            };
            let Answered { head, mut body, ranged, judged } = self.ask_down(url, &ask, many)?;
            jar.into_iter().for_each(|jar| jar.take(url, &head.fields));
            is_an_object(authorizer, url, &head)?;
            let hears = |space| hears(http, space, &head, &sent, answers < MAX_ANSWERS);
            let asks_again = known.as_ref().is_some_and(|(space, _)| hears(space));
            let said = (!asks_again).then(|| self.words(url, &ask, &head, &mut body)).flatten();
            let is_refused = may_be_refused(&head);
            let speaker = authorizer.filter(|_| is_refused || names_region(&head));
            let mends = speaker.filter(|_| mended < MAX_MENDED);
            let mend = mends.map_or(Ok(Mend::No), |one| one.mends(url, &head, said.as_deref()))?;
            if mend == Mend::Again {
                mended += 1;
            } else if !asks_again {
                let is_known = authorizer.is_some() || sent.is_some() || !at_home;
                let moved = self.moved(mend, url, &head, is_known);
                let shown = Shown::of(sent.is_some(), known.is_some());
                let lacks_certificate = http.trust.identity.is_none() && http.wants_certificate(url);
                let refused = speaker.filter(|_| is_refused);
                let explained = refused.and_then(|one| one.explains(url, &head, said.as_deref()));
                let (said, explained) = (explained.clone().or(said), explained.is_some());
                let told = Answered { head, body, ranged, judged };
                return Ok(UserAnswer { told, shown, said, explained, moved, lacks_certificate });
            } else {
                answers += 1;
            }
            self.drain(&mut body);
            self.keep(url, body);
        }
    }

    /// Where a refused request is asked for instead: where `mend` says, or by somebody who speaks for it from
    /// now on. Nobody does for who `is_known`: has said already who they are, or was led there by others.
    fn moved(&self, mend: Mend, url: &Url, head: &ResponseHead, is_known: bool) -> Option<Url> {
        if let Mend::At(next) = mend {
            return Some(*next);
        }
        if is_known || is_authorized(&self.http.headers) || !may_be_refused(head) {
            return None;
        }
        self.http.authorizers.iter().find_map(|one| one.takes_over(url, head))
    }

    /// What an error says of itself; nothing of the request that is secret.
    fn words(&self, url: &Url, ask: &Ask<'_>, head: &ResponseHead, body: &mut Exchange) -> Option<String> {
        // Of a redirect that leads nowhere the body may be the file; of a store's it says why.
        let is_of_store = ask.sealed_by.is_some() && may_be_refused(head);
        if !said::has_words(head) && !is_of_store {
            return None;
        }
        let own = ask.headers.iter().filter(|(name, _)| !is_harmless(name));
        let fields = own.map(|(_, value)| value.as_str()).chain(ask.authorization);
        let fields = fields.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or_default()]);
        let cookies = ask.cookies.into_iter().flat_map(|all| all.split("; "));
        let values = cookies.filter_map(|cookie| cookie.split_once('=')).map(|(_, value)| value);
        let words = fields.chain(values);
        said::words(head, body, self.clock, &self.dial, &said::secrets(url, words))
    }
}

/// What is answered well may be none: a folder of a store, which has a head as an empty object has.
fn is_an_object(
    authorizer: Option<&Arc<dyn Authorizer>>,
    url: &Url,
    head: &ResponseHead,
) -> Result<(), GetError> {
    let why =
        authorizer.filter(|_| (200..300).contains(&head.status)).and_then(|one| one.why_no_object(url, head));
    why.map_or(Ok(()), |why| Err(GetError::Refused(why)))
}

/// `headers` and what `authorizer` adds to a GET for `url`.
fn signed(
    authorizer: &Arc<dyn Authorizer>,
    url: &Url,
    headers: &[(String, String)],
) -> Result<Vec<(String, String)>, GetError> {
    let added = authorizer.fields("GET", url, headers)?;
    Ok(headers.iter().cloned().chain(added).collect())
}

/// An error, or a redirect that leads nowhere: of a store, one to another region.
pub(in crate::http) fn may_be_refused(head: &ResponseHead) -> bool {
    head.status >= 400 || is_redirect(head.status) && head.header("location").is_none()
}

/// A redirect of a store to where a bucket is. Followed as it stands it would be asked without a signature:
/// the authorizer has to sign for that region.
pub(in crate::http) fn names_region(head: &ResponseHead) -> bool {
    matches!(head.status, 301 | 307) && head.header("x-amz-bucket-region").is_some()
}

/// Whether the server asks for another login than what was `sent`, and there is one.
fn hears(http: &Http, space: &Space, head: &ResponseHead, sent: &Option<Sent>, may_answer: bool) -> bool {
    http.logins.hears_answer(space, &head.fields);
    head.status == space.asker.status()
        && may_answer
        && http.logins.hears_challenge(space, &head.fields, sent.as_ref())
}

/// What was given for `home` is for `url` too. `--location-trusted` means other hosts, not everybody on the
/// way to them.
pub(in crate::http) fn is_at_home(http: &Http, home: &Url, url: &Url) -> bool {
    let is_trusted = http.credentials.everywhere && !is_downgrade(home, url);
    is_trusted || Origin::of(url) == Origin::of(home)
}

/// The login for `url`, where the user gave none in `headers`, and to whom it is shown.
pub(in crate::http) fn login(
    http: &Http,
    home: &Url,
    url: &Url,
    headers: &[(String, String)],
) -> Option<(Space, Login)> {
    let at_home = is_at_home(http, home, url);
    // Another port of the host that was named, or it without TLS, is not who the netrc file means.
    let is_aside = !at_home && (url.host_str() == home.host_str() || is_downgrade(home, url));
    let login = match (is_authorized(headers), is_aside) {
        (true, _) => None,
        (false, true) => credentials::from_url(url),
        (false, false) => http.credentials.of(url, at_home.then_some(home)),
    }?;
    let origin = Origin::of(url)?;
    let at = format!("{}://{}:{}", url.scheme(), origin.host, origin.port);
    Some((Space { asker: Asker::Server, at, user: login.login.clone() }, login))
}
