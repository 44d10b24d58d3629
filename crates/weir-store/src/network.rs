//! The way to whoever gives credentials: token services, metadata of hosts. Small requests, each within a
//! deadline, over sockets of weir's own.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use url::Url;
use weir_get::GetError;
use weir_get::http::call::{AtHand, Call, Reply};
use weir_get::http::connection::MAX_WAIT;
use weir_get::http::exchange::{Http, Manner, Version, Who};
use weir_get::http::proxy::{Proxies, Said};
use weir_get::http::reach::Reach;
use weir_get::http::trust::Trust;
use weir_observe::stage_clock::StageClock;

use crate::caller::{Caller, CallerSetup};
use crate::environment::Environment;
use crate::error::StoreError;

/// What the user says of the network.
#[derive(Clone)]
pub struct Network {
    /// Which certificates are trusted.
    pub trust: Trust,
    /// `None`: those of the environment.
    pub proxies: Option<Proxies>,
    /// How hosts are reached.
    pub reach: Reach,
    /// For each stretch without a byte.
    pub timeout: Duration,
    /// For a name, its connect and the handshakes.
    pub connect_timeout: Duration,
    /// Whether the user wants no more.
    pub stop: Stop,
}

/// A flag that says that the user wants no more, and that need not be there yet: who names buckets may come
/// before whoever listens to signals.
#[derive(Clone, Default)]
pub struct Stop(Arc<OnceLock<Arc<AtomicBool>>>);

impl Stop {
    /// It is this flag.
    pub fn set(&self, flag: &Arc<AtomicBool>) {
        self.0.get_or_init(|| Arc::clone(flag));
    }

    /// The flag.
    pub fn flag(&self) -> &AtomicBool {
        static NEVER: AtomicBool = AtomicBool::new(false);
        self.0.get().map_or(&NEVER, |flag| flag)
    }
}

impl Default for Network {
    fn default() -> Network {
        Network {
            trust: Trust::default(),
            proxies: None,
            reach: Reach::default(),
            // Token services answer within a second; as long as a download waits by default.
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(30),
            stop: Stop::default(),
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the proxy's login nor a key is for a log.
        f.debug_struct("Network").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// The most bytes of an answer with credentials. A token of Azure with many groups has 16 KiB.
const MOST: usize = 256 << 10;

/// How long a host's own metadata may take to answer, as in Amazon's tools: they are one hop away.
pub const METADATA: Duration = Duration::from_secs(1);

/// Attempts after the first at a token service.
const RETRIES: u32 = 3;

/// Asks for credentials.
pub struct Asker {
    network: Network,
    http: Http,
    /// For metadata of the host, which no proxy can see.
    direct: Http,
}

/// A request for credentials.
pub struct Question<'a> {
    /// In capitals.
    pub method: &'a str,
    /// Whom.
    pub url: Url,
    /// Its fields, names in lower case.
    pub fields: Vec<(String, String)>,
    /// What is sent.
    pub body: String,
    /// What of that must not be repeated, should the answer repeat it.
    pub secrets: Vec<String>,
    /// The host's own metadata: no proxy, and [`METADATA`] to answer.
    pub is_metadata: bool,
    /// Attempts after the first.
    pub retries: u32,
}

impl<'a> Question<'a> {
    /// A GET.
    pub fn get(url: Url) -> Question<'a> {
        let (fields, body, secrets) = (Vec::new(), String::new(), Vec::new());
        Question { method: "GET", url, fields, body, secrets, is_metadata: false, retries: RETRIES }
    }

    /// A POST of a form; all its values count as secret.
    pub fn form(url: Url, values: &[(&str, &str)]) -> Question<'a> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(values).finish();
        let secrets = values.iter().map(|(_, value)| (*value).to_owned()).collect();
        let kind = "application/x-www-form-urlencoded; charset=utf-8".to_owned();
        let fields = vec![("content-type".to_owned(), kind)];
        Question { method: "POST", url, fields, body, secrets, is_metadata: false, retries: RETRIES }
    }

    /// The same with this field.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Question<'a> {
        self.fields.push((name.to_owned(), value.into()));
        self
    }

    /// The same, of the host's own metadata.
    pub fn of_metadata(self) -> Question<'a> {
        Question { is_metadata: true, ..self }
    }

    /// The same, asked once: nobody may be there.
    pub fn once(self) -> Question<'a> {
        Question { retries: 0, ..self }
    }
}

impl Asker {
    /// By the user's words, and the environment's on proxies.
    pub fn new(network: &Network, environment: Environment<'_>) -> Result<Asker, StoreError> {
        let proxies = match &network.proxies {
            Some(proxies) => proxies.clone(),
            None => Proxies::new(Said::default(), environment)?,
        };
        let manner = || Manner { reach: network.reach.clone(), ..Manner::default() };
        let http = |proxies| {
            let http = Http::new(network.trust.clone(), proxies, Version::Http1, Vec::new(), Who::default());
            http.in_manner(manner())
        };
        Ok(Asker { network: network.clone(), http: http(proxies), direct: http(Proxies::default()) })
    }

    /// The answer, whatever its status.
    pub fn ask(&self, question: &Question<'_>) -> Result<Reply, StoreError> {
        let (clock, stop) = (StageClock::new(Instant::now()), self.stop());
        let metadata = question.is_metadata;
        let within = |usual: Duration| if metadata { METADATA.min(usual) } else { usual };
        let mut caller = Caller::new(CallerSetup {
            http: if metadata { &self.direct } else { &self.http },
            clock: &clock,
            on_socket: &|_| {},
            stop,
            timeout: within(self.network.timeout),
            connect_timeout: within(self.network.connect_timeout),
            max_wait: MAX_WAIT,
            retries: question.retries,
        });
        let call = Call {
            method: question.method,
            url: question.url.clone(),
            fields: question.fields.clone(),
            most: MOST,
            asks_first: false,
        };
        let reply = caller.ask(&call, &mut AtHand::new(question.body.as_bytes()));
        let mut reply = reply.map_err(|error| if metadata { of_metadata(error) } else { error })?;
        reply.said = reply.said.map(|said| without(said, &question.secrets));
        Ok(reply)
    }

    /// The body of a success; anything else is the error that there are no credentials from `source`, with
    /// `way_out`.
    pub fn body(&self, question: &Question<'_>, source: &str, way_out: &str) -> Result<Vec<u8>, StoreError> {
        match self.ask(question) {
            Ok(reply) => success(reply, &question.url, source, way_out),
            Err(StoreError::Http(error)) if !matches!(error, GetError::Interrupted) => {
                Err(StoreError::Credentials(no_credentials(source, error, way_out)))
            }
            Err(other) => Err(other),
        }
    }

    /// Set: give up at once.
    pub fn stop(&self) -> &AtomicBool {
        self.network.stop.flag()
    }
}

/// For the metadata of a host no option allows more than [`METADATA`], so none is advised.
fn of_metadata(error: StoreError) -> StoreError {
    match error {
        StoreError::Http(GetError::Stalled { host, what, after, is_slow, .. }) if after >= METADATA => {
            let way_out = "metadata of a host answer sooner";
            GetError::Stalled { host, what, after, way_out, is_slow }.into()
        }
        other => other,
    }
}

/// As [`Asker::body`], of an answer from `url` that is there.
pub fn success(reply: Reply, url: &Url, source: &str, way_out: &str) -> Result<Vec<u8>, StoreError> {
    match reply.head.status {
        200..300 => Ok(reply.body),
        _ => Err(StoreError::Credentials(no_credentials(source, reply.error(url), way_out))),
    }
}

/// `cannot get credentials from SOURCE: CAUSE; WAY OUT`.
pub fn no_credentials(source: &str, cause: impl fmt::Display, way_out: &str) -> String {
    let mark = if way_out.is_empty() { "" } else { "; " };
    format!("cannot get credentials from {source}: {cause}{mark}{way_out}")
}

/// Texts that are shorter are no secrets, and would be found everywhere.
const SHORT: usize = 8;

/// `text` with nothing of `secrets`.
pub fn without(mut text: String, secrets: &[String]) -> String {
    for secret in secrets.iter().filter(|secret| secret.len() >= SHORT) {
        text = text.replace(secret.as_str(), "REDACTED");
    }
    text
}

/// An address that a file or a variable names.
pub fn address(text: &str, named_by: &str) -> Result<Url, StoreError> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| StoreError::Usage(format!("cannot use {named_by}: expected a URL, as in https://HOST")))
}

/// The address of a service, which may come without its scheme.
pub fn endpoint_of(text: &str) -> Result<Url, StoreError> {
    let full = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = Url::parse(&full).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| {
        StoreError::Usage(format!(
            "cannot use the endpoint '{text}': expected a URL, as in https://HOST:PORT"
        ))
    })
}
