//! From a URL to an answer whose body can be read: proxies, redirects, kept-open connections, HTTP/1.1 or
//! HTTP/2.

mod answer;
pub mod kept;
mod manner;
mod redirects;
mod session;
mod steps;
mod user;
mod windowed;

use std::collections::{HashMap, HashSet};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime};

use crate::http::{REMEMBERED, make_room};
use parking_lot::Mutex;
use url::{Position, Url};
use weir_http::digest_field::{self, Linked};
use weir_http::head::ResponseHead;
use weir_observe::names::Names;

use answer::Answered;
pub use answer::{Answer, Exchange};
pub use manner::Manner;
pub use redirects::Downgrade;
use redirects::{is_choice, is_downgrade, take_as_file};
pub(super) use redirects::{is_redirect, redirect};
use session::Known;
use user::{Shown, UserAnswer};
pub(super) use user::{is_at_home, login, may_be_refused, names_region};

use crate::error::GetError;
use crate::http::address::Way;
use crate::http::authority::Authorizer;
use crate::http::connection::{Connection, Dial};
use crate::http::credentials::Credentials;
use crate::http::decoded::Decoded;
use crate::http::jar::Jar;
use crate::http::ladder::Ladder;
use crate::http::logins::{Asker, Logins, MAX_ANSWERS, Schemes, Sent, Space};
use crate::http::proxy::{Proxies, Proxy};
use crate::http::request::{Ask, Origin, Unless};
use crate::http::trust::{Clients, Trust};
use crate::http::waiting::Waits;
use crate::http::window::tail::Tails;
use crate::object;
use weir_observe::stage_clock::{Stage, StageClock};

/// RFC 9110 section 15.4 leaves the bound to us; browsers' and wget's is 20, curl's 50: what any of them
/// fetches comes.
pub(crate) const MAX_REDIRECTS: usize = 50;

/// Which HTTP version to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// HTTP/1.1 for bulk; HTTP/2 for many small objects where the server offers it.
    #[default]
    Auto,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only (on http:// with prior knowledge).
    Http2,
}

/// What all lanes share: trust, proxies, credentials, HTTP/2 sessions.
pub struct Http {
    trust: Trust,
    clients: Mutex<Option<Clients>>,
    /// For stores, where other authorities are trusted there.
    store_clients: Mutex<Option<Clients>>,
    proxies: Proxies,
    version: Version,
    headers: Vec<(String, String)>,
    credentials: Credentials,
    logins: Logins,
    proxy_logins: Logins,
    jar: Jar,
    sessions: Mutex<HashMap<Origin, Arc<Mutex<Known>>>>,
    /// Who asked for a client certificate. In a TLS session that is resumed nobody asks again.
    certificate_wanted: Mutex<HashSet<Origin>>,
    names: Names,
    waits: Waits,
    ladder: Ladder,
    tails: Tails,
    compressed: bool,
    manner: Manner,
    authorizers: Vec<Arc<dyn Authorizer>>,
}

/// Who we are to servers: logins and cookies.
#[derive(Default)]
pub struct Who {
    /// Users and passwords, by host.
    pub credentials: Credentials,
    /// How they are shown.
    pub schemes: Schemes,
    /// What servers remember us by.
    pub jar: Jar,
}

impl Http {
    /// `headers` and what `who` holds for no host by name are for the origin of each URL asked for.
    pub fn new(
        trust: Trust,
        proxies: Proxies,
        version: Version,
        headers: Vec<(String, String)>,
        who: Who,
    ) -> Http {
        Http {
            trust,
            clients: Mutex::new(None),
            store_clients: Mutex::new(None),
            proxies,
            version,
            headers,
            credentials: who.credentials,
            logins: Logins::new(who.schemes),
            proxy_logins: Logins::default(),
            jar: who.jar,
            sessions: Mutex::default(),
            certificate_wanted: Mutex::default(),
            names: Names::default(),
            waits: Waits::default(),
            manner: Manner::default(),
            ladder: Ladder::default(),
            tails: Tails::default(),
            compressed: false,
            authorizers: Vec::new(),
        }
    }

    /// The same, in this manner.
    pub fn in_manner(self, manner: Manner) -> Http {
        Http { names: Names::of(&manner.reach.servers), manner, ..self }
    }

    /// The same, with these zones of link-local addresses.
    pub fn in_zones(mut self, zones: HashMap<String, String>) -> Http {
        self.manner.reach.zones = zones;
        self
    }

    /// The same, with these to speak for requests; the first that is for a URL does.
    pub fn authorized_by(self, authorizers: Vec<Arc<dyn Authorizer>>) -> Http {
        Http { authorizers, ..self }
    }

    /// The proxy that requests for `url` go through.
    pub(super) fn proxy_for(&self, url: &Url) -> Result<Option<&Proxy>, GetError> {
        self.proxies.for_url(url)
    }

    /// Who speaks for requests for `url`.
    pub(super) fn authorizer(&self, url: &Url) -> Option<&Arc<dyn Authorizer>> {
        self.authorizers.iter().find(|authorizer| authorizer.is_for(url))
    }

    /// The user's own fields.
    pub(super) fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Names of fields that are not sent, in lower case.
    pub(super) fn removed(&self) -> &[String] {
        &self.manner.removed
    }

    /// Redirects in a row that are followed.
    pub(super) fn max_redirects(&self) -> usize {
        self.manner.max_redirects
    }

    /// What servers know of the user's logins.
    pub(super) fn logins(&self) -> &Logins {
        &self.logins
    }

    /// Parts are asked for, unless the user has taken the field for it away.
    pub(crate) fn asks_for_parts(&self) -> bool {
        !self.manner.removed.iter().any(|name| name == "range")
    }

    /// Asks for coded bodies, to be decoded here (`--compressed`).
    pub fn compressed(self, compressed: bool) -> Http {
        Http { compressed, ..self }
    }

    /// See [`Http::compressed`].
    pub(crate) fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// What was said of waits.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// The cookies.
    pub fn jar(&self) -> &Jar {
        &self.jar
    }

    /// What is shown to `proxy` with a request for `target`.
    pub(super) fn for_proxy(&self, proxy: &Proxy, method: &str, target: &str) -> Option<Sent> {
        let login = proxy.login.as_ref().filter(|_| proxy.takes_requests())?;
        self.proxy_logins.authorization(&space_of(proxy)?, login, method, target)
    }

    /// The proxy wants another login than what was `sent`, and there is one.
    pub(super) fn can_answer(&self, proxy: &Proxy, head: &ResponseHead, sent: Option<&Sent>) -> bool {
        let Some(space) = space_of(proxy) else { return false };
        self.proxy_logins.hears_answer(&space, &head.fields);
        head.status == space.asker.status() && self.proxy_logins.hears_challenge(&space, &head.fields, sent)
    }

    /// TLS is set up when the first https URL is met: reading the system's certificates takes milliseconds.
    pub(super) fn clients(&self) -> Result<Clients, GetError> {
        let mut clients = self.clients.lock();
        match &*clients {
            Some(clients) => Ok(clients.clone()),
            None => Ok(clients.insert(Clients::new(&self.trust)?).clone()),
        }
    }

    /// The same for `origin`, by what is trusted there.
    pub(super) fn clients_for(&self, origin: &Origin) -> Result<Clients, GetError> {
        let is_own = self.trust.of_stores.is_some() && self.trust.authorities.is_none();
        let url = || Url::parse(&format!("https://{}:{}/", origin.host, origin.port)).ok();
        let is_store = |url: Url| self.authorizers.iter().any(|one| one.is_at(&url));
        if !is_own || !url().is_some_and(is_store) {
            return self.clients();
        }
        let mut clients = self.store_clients.lock();
        match &*clients {
            Some(clients) => Ok(clients.clone()),
            None => Ok(clients.insert(Clients::new(&self.trust.for_stores())?).clone()),
        }
    }

    /// `origin` has asked for a client certificate.
    pub(super) fn note_certificate_wanted(&self, origin: &Origin) {
        let mut wanted = self.certificate_wanted.lock();
        make_room(&mut *wanted);
        wanted.insert(origin.clone());
    }

    fn wants_certificate(&self, url: &Url) -> bool {
        let wanted = self.certificate_wanted.lock();
        Origin::of(url).is_some_and(|origin| wanted.contains(&origin))
    }

    fn known(&self, origin: &Origin) -> Arc<Mutex<Known>> {
        let mut sessions = self.sessions.lock();
        if sessions.len() >= REMEMBERED {
            sessions.retain(|_, known| Arc::strong_count(known) > 1);
        }
        sessions.entry(origin.clone()).or_default().clone()
    }
}

/// A lane's way to the network: the shared part, and the one connection it keeps open.
pub struct Client<'a> {
    pub(super) http: &'a Http,
    pub(super) clock: &'a StageClock,
    pub(super) dial: Dial<'a>,
    kept: Option<(Origin, Box<Connection>)>,
    on_socket: &'a (dyn Fn(Option<&Arc<TcpStream>>) + Sync),
    connects: u32,
    requests: u32,
    /// The lane has other work while a name is looked up; for how long this job has waited for one already.
    put_aside: Option<Duration>,
    /// What the next requests are to bring another of.
    unless: Option<Unless>,
    /// A failed attempt is followed by another one.
    tries_again: bool,
    /// A digest that the user gave proves what comes.
    is_proven: bool,
    /// Objects may come coded, where the user has that undone.
    takes_coded: bool,
    /// Calls show the user's login, fields and cookies where nobody else speaks for them.
    pub(super) as_user: bool,
    /// Calls for which nobody speaks follow redirects.
    pub(super) follows: bool,
    /// Raised by the bodies of calls as they come.
    pub(super) received: Option<&'a AtomicU64>,
    /// What was left out of the request that is under way.
    notes: Vec<String>,
}

impl<'a> Client<'a> {
    /// `on_socket` hears of each connection that becomes, or ceases to be, the lane's.
    pub fn new(
        http: &'a Http,
        clock: &'a StageClock,
        dial: Dial<'a>,
        on_socket: &'a (dyn Fn(Option<&Arc<TcpStream>>) + Sync),
    ) -> Client<'a> {
        let (kept, put_aside, notes) = (None, None, Vec::new());
        Client {
            http,
            clock,
            dial,
            kept,
            on_socket,
            connects: 0,
            requests: 0,
            put_aside,
            tries_again: true,
            is_proven: false,
            takes_coded: true,
            as_user: false,
            follows: false,
            received: None,
            notes,
            unless: None,
        }
    }

    /// Whether a failed attempt is followed by another one, or whatever helps has to be tried at once.
    pub(crate) fn tries_again(mut self, tries_again: bool) -> Client<'a> {
        self.tries_again = tries_again;
        self
    }

    /// Calls ([`crate::http::call`]) are the user's own: with the login, the fields and the cookies that were
    /// given, and redirects that keep the method are followed.
    pub fn as_user(self) -> Client<'a> {
        Client { as_user: true, ..self }
    }

    /// Calls without a body ([`crate::http::call`]) for which nobody speaks follow redirects, as a download
    /// does. They lead to nothing that is asked for with credentials: who sends a redirect may not have them.
    pub fn follows(self) -> Client<'a> {
        Client { follows: true, ..self }
    }

    /// From now on a name that is long in coming is an error ([`GetError::NamePending`]), with which the job
    /// can be put aside; it has been for as long as `so_far`. `None`: names are waited for.
    pub(crate) fn may_put_aside(&mut self, so_far: Option<Duration>) {
        self.put_aside = so_far;
    }

    /// From now on objects are asked for only if they are others than what is known here. `None`: in any
    /// case.
    pub(crate) fn only_if_changed(&mut self, unless: Option<Unless>) {
        self.unless = unless;
    }

    /// From now on what comes is held against a digest that the user gave, or is not, before anybody has it.
    /// See [`Downgrade::IfProven`].
    pub(crate) fn expects_proven(&mut self, is_proven: bool) {
        self.is_proven = is_proven;
    }

    /// How this lane dials.
    pub fn dial(&self) -> &Dial<'a> {
        &self.dial
    }

    /// Fresh connections and requests since the last call.
    pub fn take_counts(&mut self) -> (u32, u32) {
        (std::mem::take(&mut self.connects), std::mem::take(&mut self.requests))
    }

    /// Asks for `url`, following redirects. `home` is the URL that the user gave: credentials go to its
    /// origin alone. `many`: one of many objects, so HTTP/2 pays.
    pub fn get(
        &mut self,
        home: &Url,
        url: &Url,
        range: Option<(u64, Option<u64>)>,
        if_range: Option<&str>,
        many: bool,
    ) -> Result<Answer, GetError> {
        let mut url = url.clone();
        let mut waited = Duration::ZERO;
        let mut linked = Linked::default();
        self.notes.clear();
        for _ in 0..=self.http.manner.max_redirects {
            let UserAnswer { told, shown, said, explained, moved, lacks_certificate } =
                self.ask_as_user(home, &url, (range, if_range), many)?;
            if let Some(next) = moved {
                url = next;
                continue;
            }
            let Answered { mut head, mut body, ranged, mut judged } = told;
            let of_whole = !ranged && self.http.manner.window.is_none();
            let is_part = of_whole && matches!(judged, Some(Err(GetError::WrongPart { .. })));
            if self.http.manner.any_answer
                && let Some(note) = take_as_file(&mut head, is_part)
            {
                self.notes.push(note);
                judged = None;
            }
            let leads_on = is_choice(head.status) && head.header("location").is_some();
            // Of a store that says why it leads nowhere the words count.
            let is_end = explained && head.header("location").is_none();
            if !leads_on && !is_redirect(head.status) || is_end {
                let at_home = Origin::of(&url) == Origin::of(home);
                let (authorized, withheld) = (shown == Shown::User, shown == Shown::Withheld);
                let of_all = self.http.manner.window.is_none();
                return Ok(Answer {
                    head,
                    is_exposed: is_downgrade(home, &url),
                    url,
                    body,
                    authorized,
                    withheld,
                    at_home,
                    lacks_certificate,
                    ranged,
                    judged,
                    said,
                    explained,
                    linked,
                    of_all,
                    notes: std::mem::take(&mut self.notes),
                });
            }
            let found = digest_field::linked(&head.fields);
            if found.digest.is_some() {
                linked = found;
            }
            let next = self.led_to(&url, &head)?;
            self.drain(&mut body);
            self.keep(&url, body);
            waited += self.wait_as_asked(&url, head, waited)?;
            url = next;
        }
        Err(too_many(home, self.http.manner.max_redirects))
    }

    /// Where a redirect from `url` leads. One that leaves https is noted.
    fn led_to(&mut self, url: &Url, head: &ResponseHead) -> Result<Url, GetError> {
        let downgrade = match self.http.manner.downgrade {
            Downgrade::IfProven if self.is_proven => Downgrade::Followed,
            given => given,
        };
        let next = redirect(url, head, downgrade)?;
        if is_downgrade(url, &next) {
            self.notes.push(format!("followed a redirect from https to {}", object::shown(&next)));
        }
        Ok(next)
    }

    /// Takes a connection back once its answer has been read; the next request to its origin uses it.
    pub fn keep(&mut self, url: &Url, body: Exchange) {
        match (body, Origin::of(url)) {
            (Exchange::Decoded(decoded), _) if decoded.is_end() => self.keep(url, decoded.into_coded()),
            (Exchange::Parts(parts), _) => self.keep(url, parts.into_body()),
            (Exchange::Http1(connection), Some(origin)) if connection.is_reusable() => {
                self.kept = Some((origin, connection));
            }
            _ => (self.on_socket)(None),
        }
    }

    /// Closes the kept connection.
    pub fn close(&mut self) {
        self.kept = None;
        (self.on_socket)(None);
    }

    /// RFC 9110 section 10.2.3: with a redirect, the least time before the next request.
    fn wait_as_asked(&self, url: &Url, head: ResponseHead, used: Duration) -> Result<Duration, GetError> {
        let now = SystemTime::now();
        let retry_after = weir_http::retry_after::retry_after(&head.fields, now);
        let Some(asked) = retry_after.filter(|asked| !asked.is_zero()) else { return Ok(Duration::ZERO) };
        let (host, status, reason) = (object::host_of(url), head.status, object::printable(&head.reason));
        let error = GetError::Status { host: host.clone(), status, reason, retry_after, hint: "" };
        match error.within(self.dial.max_wait, used, now) {
            error @ GetError::ComeBack { .. } => return Err(error),
            error => self.http.waits.say(&object::shown(url), &host, &error, asked),
        }
        self.clock.enter(Stage::Backoff);
        self.dial.sleep(asked);
        self.clock.enter(Stage::Other);
        if self.dial.is_stopped() { Err(GetError::Interrupted) } else { Ok(asked) }
    }

    /// The way of a connection that begins now.
    pub(super) fn way(&self) -> Way<'_> {
        let whole = self.dial.connect_timeout;
        // What a job has waited for its name is gone, but a connect gets a fair chance.
        let left = whole.saturating_sub(self.put_aside.unwrap_or_default()).max(whole / 4);
        Way {
            names: &self.http.names,
            reach: &self.http.manner.reach,
            dial: &self.dial,
            clock: self.clock,
            deadline: Instant::now() + left,
            may_put_aside: self.put_aside.is_some(),
        }
    }

    fn ask(&mut self, url: &Url, ask: &Ask<'_>, many: bool) -> Result<(ResponseHead, Exchange), GetError> {
        let origin = origin_of(url)?;
        self.requests += 1;
        let wants_http2 = match self.http.version {
            Version::Auto => many && origin.tls && self.http.proxies.for_url(url)?.is_none(),
            Version::Http1 => false,
            Version::Http2 => true,
        };
        let auto = self.http.version == Version::Auto;
        let over2 = |(head, stream)| (head, Exchange::Http2(Box::new(stream)));
        let first = if wants_http2 { self.ask_http2(url, &origin, ask, auto) } else { Ok(None) };
        let answer = match first {
            Ok(Some(answer)) => return Ok(over2(answer)),
            Ok(None) => self.ask_http1(url, &origin, ask),
            // weir chose it, so weir leaves it.
            Err(error) if auto && error.is_of_http2() => {
                self.leave_http2(&origin, &error);
                self.ask_http1(url, &origin, ask)
            }
            Err(error) => Err(error),
        };
        match answer {
            // Whether or not HTTP/2 pays, there is nothing else here.
            Err(only @ GetError::OnlyHttp2 { .. }) if auto => {
                self.ask_http2(url, &origin, ask, false)?.map(over2).ok_or(only)
            }
            other => other,
        }
    }

    fn ask_http1(
        &mut self,
        url: &Url,
        origin: &Origin,
        ask: &Ask<'_>,
    ) -> Result<(ResponseHead, Exchange), GetError> {
        let proxy = self.http.proxies.for_url(url)?;
        // Through a tunnel, requests are no matter of the proxy's.
        let reader = proxy.filter(|proxy| proxy.takes_requests() && !origin.tls);
        let target = &url[Position::BeforePath..Position::AfterQuery];
        let mut answers = 0;
        loop {
            let sent = reader.and_then(|proxy| self.http.for_proxy(proxy, "GET", target));
            let shown = sent.as_ref().map(|sent| sent.value.as_str());
            let request = ask.head(url, origin, proxy.map(|proxy| (proxy, shown)));
            let mut connection = self.connection(origin, proxy)?;
            let was_used = !connection.is_fresh();
            self.clock.enter(Stage::FirstByte);
            let head = connection
                .send(&request, self.clock, &self.dial)
                .and_then(|()| connection.read_head("GET", self.clock, &self.dial));
            match head {
                Ok(head)
                    if answers < MAX_ANSWERS
                        && reader.is_some_and(|proxy| self.http.can_answer(proxy, &head, sent.as_ref())) =>
                {
                    answers += 1;
                    let mut body = Exchange::Http1(connection);
                    self.drain(&mut body);
                    self.keep(url, body);
                }
                Ok(head) => {
                    let (codings, body) = (head.transfer_codings(), Exchange::Http1(connection));
                    if codings.is_empty() {
                        return Ok((head, body));
                    }
                    let body = Decoded::new(&origin.host, body, &codings);
                    return Ok((head, Exchange::Decoded(Box::new(body))));
                }
                // A kept connection may have been closed by the server while it was idle: once more, afresh.
                Err(GetError::Broken { .. }) if was_used => {}
                Err(error) => {
                    (self.on_socket)(None);
                    return Err(error);
                }
            }
        }
    }

    /// One more request is on its way.
    pub(super) fn count_request(&mut self) {
        self.requests += 1;
    }

    /// One that is asked again since the answer wanted it.
    pub(super) fn uncount_request(&mut self) {
        self.requests = self.requests.saturating_sub(1);
    }

    /// The connection to `origin` that was kept, if it can carry another request, or a new one.
    pub(super) fn connection(
        &mut self,
        origin: &Origin,
        proxy: Option<&Proxy>,
    ) -> Result<Box<Connection>, GetError> {
        let kept = self.kept.take().filter(|(kept, _)| kept == origin);
        let connection = match kept.and_then(|(_, mut one)| one.is_quiet(self.clock).then_some(one)) {
            Some(kept) => kept,
            None => Box::new(self.open(origin, proxy)?),
        };
        (self.on_socket)(Some(connection.socket()));
        Ok(connection)
    }

    fn open(&mut self, origin: &Origin, proxy: Option<&Proxy>) -> Result<Connection, GetError> {
        self.clock.enter(Stage::Connecting);
        self.connects += 1;
        let way = self.way();
        let line = self.dial_through(origin, proxy, &way)?;
        self.secure(origin, line, way.deadline)
    }

    /// Reads a short answer that nobody wants, so that its connection can be used again; for no longer than a
    /// new one may take.
    fn drain(&self, body: &mut Exchange) {
        const SHORT: u64 = 64 << 10;
        const TIMEOUT: Duration = Duration::from_millis(250);
        let Exchange::Http1(connection) = body else { return };
        let (began, dial) = (Instant::now(), Dial { timeout: TIMEOUT, ..self.dial });
        while connection.left().is_some_and(|left| left > 0 && left <= SHORT) && began.elapsed() < TIMEOUT {
            if connection.fill(SHORT as usize, self.clock, &dial).is_err() {
                break;
            }
        }
    }
}

/// More redirects in a row than are followed.
fn too_many(home: &Url, most: usize) -> GetError {
    let detail = format!("more than {most} in a row; --max-redirs N allows N");
    GetError::Redirect { host: object::host_of(home), detail }
}

/// Who we are to a proxy.
fn space_of(proxy: &Proxy) -> Option<Space> {
    let user = proxy.login.as_ref()?.login.clone();
    Some(Space { asker: Asker::Proxy, at: proxy.address(), user })
}

pub(super) fn origin_of(url: &Url) -> Result<Origin, GetError> {
    Origin::of(url).ok_or_else(|| {
        GetError::Refused(format!("cannot fetch {}: weir speaks http and https", object::shown(url)))
    })
}
