//! What can go wrong in a transfer, and what each failure means for a retry and for the exit code.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use url::Url;
use weir_observe::names::{Lookup, NameError};
use weir_observe::stage_clock::Stage;
use weir_units::{Bytes, human_duration};
use weir_units::{plain, unreached};

/// A failed step. Whoever talked to the remote decides here whether trying again can help.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// The name has no address.
    #[error("cannot resolve {host}: {cause}{}", .cause.way_out())]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's answer.
        cause: NameError,
    },
    /// All parts are so small that they are not worth their requests.
    #[error("{host} sends parts of {bytes}, however much is asked for")]
    Crumbs {
        /// The server's name.
        host: String,
        /// The last one's size.
        bytes: Bytes,
    },
    /// The name is still being looked up; the lane has other work meanwhile.
    #[error("cannot resolve {} yet", .0.host())]
    NamePending(Lookup),
    /// No address took the connection.
    #[error("cannot connect to {to}: {}{}", plain(.source), unreached(.source))]
    Connect {
        /// `host:port`.
        to: String,
        /// The last address's error.
        source: io::Error,
    },
    /// The TLS session could not be set up or broke.
    #[error("tls with {host} failed: {detail}")]
    Tls {
        /// The server's name.
        host: String,
        /// What rustls said, with a way out.
        detail: String,
        /// Trying again cannot help (a certificate that is not trusted).
        permanent: bool,
    },
    /// The server speaks only HTTP/2; the caller changes over.
    #[error("{host} speaks only HTTP/2; leave out --http1.1")]
    OnlyHttp2 {
        /// The server's name.
        host: String,
    },
    /// The server wants this request over HTTP/1.1.
    #[error("{host} asks for HTTP/1.1; leave out --http2")]
    OnlyHttp1 {
        /// The server's name.
        host: String,
    },
    /// The proxy refused.
    #[error("proxy {proxy} refused the connection to {to}: {detail}")]
    Proxy {
        /// The proxy's address.
        proxy: String,
        /// `host:port` asked for.
        to: String,
        /// Its status code.
        status: u16,
        /// Its status in words.
        detail: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// A SOCKS proxy did not connect.
    #[error("the proxy {proxy} that {named_by} names did not connect to {to}: {detail}")]
    Socks {
        /// The proxy's address.
        proxy: String,
        /// `--proxy`, or a variable.
        named_by: String,
        /// `host:port` asked for.
        to: String,
        /// Why, with a way out where there is one.
        detail: String,
        /// Trying again cannot help.
        permanent: bool,
    },
    /// The connection broke.
    #[error("connection to {host} broke: {}", plain(.source))]
    Broken {
        /// The server's name.
        host: String,
        /// Cause.
        source: io::Error,
    },
    /// The connection ended before the answer did.
    #[error("{host} closed the connection after {got} of its answer, which has {expected}")]
    Truncated {
        /// The server's name.
        host: String,
        /// Bytes received.
        got: Bytes,
        /// What was announced, in words.
        expected: String,
    },
    /// A body without a length ended with a TLS session that was not ended in order: it may have been cut.
    #[error(
        "{host} ended a body of unknown length after {got} without the TLS end mark, so it may be cut; \
         --accept-unclean-close takes it"
    )]
    Unclean {
        /// The server's name.
        host: String,
        /// Bytes received.
        got: Bytes,
    },
    /// No byte, or hardly any, for the whole of the time allowed.
    #[error("{host} sent {what} for {} s; {way_out}", .after.as_secs_f64())]
    Stalled {
        /// The server's name.
        host: String,
        /// `nothing`, `no complete answer`, `under 10 B/s`.
        what: String,
        /// The time allowed.
        after: Duration,
        /// Which option allows more.
        way_out: &'static str,
        /// Bytes came, but too few for the least rate.
        is_slow: bool,
    },
    /// The server asks for a longer wait than the user allows.
    #[error("{cause}; it asks for a wait of {}, --max-wait allows {}{}: run the same command again after {back}",
        human_duration(*.asked), human_duration(*.most), used_up(*.used))]
    ComeBack {
        /// What it answered.
        cause: Box<GetError>,
        /// How long it asks to be left alone.
        asked: Duration,
        /// `--max-wait`, and how much of it is used up.
        most: Duration,
        /// See `most`.
        used: Duration,
        /// When the wait is over, as the user's clock shows it.
        back: String,
    },
    /// The answer is not HTTP, or breaks its rules.
    #[error("{host} sent a malformed answer: {detail}")]
    Malformed {
        /// The server's name.
        host: String,
        /// Which rule.
        detail: String,
    },
    /// A status that is not success.
    #[error("{host} answered {status} {reason}{hint}")]
    Status {
        /// The server's name.
        host: String,
        /// The status code.
        status: u16,
        /// Its phrase.
        reason: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// A way out, or nothing.
        hint: &'static str,
    },
    /// A redirect that is not followed.
    #[error("cannot follow the redirect from {host}: {detail}")]
    Redirect {
        /// Who sent it.
        host: String,
        /// Why not.
        detail: String,
    },
    /// The answer is of another object, or another part of it.
    #[error("{host} sent the wrong part: {detail}")]
    WrongPart {
        /// The server's name.
        host: String,
        /// What was expected and what came.
        detail: String,
    },
    /// The object is not the one the transfer began with.
    #[error("the object changed on {host} during the transfer: {detail}")]
    Changed {
        /// The server's name.
        host: String,
        /// Which validator or size.
        detail: String,
    },
    /// The object is not the one that the manifest names.
    #[error("the object on {host} is not the one of the manifest: {detail}; make a new plan for it")]
    NotPinned {
        /// The server's name.
        host: String,
        /// Which validator or size.
        detail: String,
    },
    /// Nothing in the answer proves that it is of the object the transfer began with.
    #[error("cannot tell whether the object on {host} changed: {detail}{}", anew(*.is_silent))]
    Unproven {
        /// The server's name.
        host: String,
        /// What is missing.
        detail: &'static str,
        /// It has another size as well, and no validator at all: what is here stays.
        is_silent: bool,
    },
    /// A range was answered with nothing at all, as if the object were empty.
    #[error("{host} answered a range with an empty body")]
    EmptyRange {
        /// The server's name.
        host: String,
    },
    /// Parts were given, and are not any more.
    #[error("{host} gives no parts any more, so that the object has to be fetched from its start")]
    NoParts {
        /// The server's name.
        host: String,
    },
    /// A web page in place of the file.
    #[error("{host} sent a web page (text/html) where '{name}' promises a file; --any-type saves it")]
    WebPage {
        /// The server's name.
        host: String,
        /// The file's name.
        name: String,
    },
    /// A digest does not match.
    #[error(
        "{algorithm} of {name} does not match: expected {expected}, got {found} ({origin}); {}{}",
        .fate.words(),
        ignorable(.origin)
    )]
    Digest {
        /// The file.
        name: String,
        /// `sha256`.
        algorithm: &'static str,
        /// Hexadecimal.
        expected: String,
        /// Hexadecimal.
        found: String,
        /// Who named the expected value.
        origin: String,
        /// What became of them.
        fate: Fate,
    },
    /// No expected digest could be had.
    #[error("cannot verify {name}: {detail}")]
    NoDigest {
        /// The file.
        name: String,
        /// Why.
        detail: String,
    },
    /// A local file failed.
    #[error("cannot {action} {}: {}{}", .path.display(), plain(.source), still_kept(.kept, .path, .source))]
    Local {
        /// `write`, `open`, `rename`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
        /// Bytes safely kept for a resume.
        kept: Option<Bytes>,
    },
    /// Another weir is at work on the same file.
    #[error("{} is being written by another weir; wait for it or choose another name", .path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The target cannot be a file.
    #[error("{} is a directory; add a '/' to save into it, or choose another name", .path.display())]
    IsDirectory {
        /// The path.
        path: PathBuf,
    },
    /// Output already exists.
    #[error("{} exists; kept because of --no-clobber", .path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// Another file has the name, and nothing may replace it.
    #[error("{} exists and is not what the source has; it is kept: move it away, or choose another target", .path.display())]
    Differs {
        /// The path.
        path: PathBuf,
    },
    /// Whoever reads what we write has gone.
    #[error("{} was closed by its reader", .path.display())]
    OutputClosed {
        /// `stdout`, or a pipe.
        path: PathBuf,
    },
    /// Something here that no retry mends.
    #[error("{0}")]
    Refused(String),
    /// This host has no credentials for what is asked; others may.
    #[error("{0}")]
    Credentials(String),
    /// Stopped from outside.
    #[error("interrupted")]
    Interrupted,
    /// The lane's bytes were taken over, or the transfer failed elsewhere; not a failure of its own.
    #[error("no longer needed")]
    Dropped,
}

impl GetError {
    /// Trying again cannot help.
    pub fn is_permanent(&self) -> bool {
        match self {
            // A resolver repeats its questions by itself; what it does not know, or is silent about, stays
            // so.
            GetError::Resolve { cause, .. } => !matches!(cause, NameError::Passing(_)),
            GetError::NamePending(_) | GetError::Connect { .. } | GetError::Broken { .. } => false,
            GetError::Truncated { .. } | GetError::Stalled { .. } | GetError::Malformed { .. } => false,
            GetError::Unclean { .. } | GetError::OnlyHttp1 { .. } => false,
            GetError::WrongPart { .. } | GetError::Changed { .. } | GetError::Unproven { .. } => false,
            GetError::EmptyRange { .. } | GetError::NoParts { .. } | GetError::Crumbs { .. } => false,
            GetError::Tls { permanent, .. } | GetError::Socks { permanent, .. } => *permanent,
            // A quota that is used up, with the time when it is not (GitHub says 403 for 429).
            GetError::Status { status: 403, retry_after: Some(_), .. } => false,
            // 408, 425, 429 and 5xx are the server's passing trouble; 501 and 505 are not.
            GetError::Status { status, .. } | GetError::Proxy { status, .. } => {
                !matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504 | 507..=599)
            }
            _ => true,
        }
    }

    /// The far side said so, on one connection; another connection may fare better.
    pub fn is_remote(&self) -> bool {
        matches!(
            self,
            GetError::Status { .. }
                | GetError::Resolve { .. }
                | GetError::WebPage { .. }
                | GetError::Redirect { .. }
                | GetError::Tls { .. }
                | GetError::OnlyHttp2 { .. }
                | GetError::Proxy { .. }
                | GetError::Socks { .. }
        )
    }

    /// It came over HTTP/2 and may not over HTTP/1.1.
    pub(crate) fn is_of_http2(&self) -> bool {
        matches!(self, GetError::Broken { .. } | GetError::Malformed { .. } | GetError::OnlyHttp1 { .. })
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            GetError::Status { retry_after, .. } | GetError::Proxy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The server has too much to do, or finds that we ask for too much.
    pub(crate) fn is_overload(&self) -> bool {
        self.retry_after().is_some() || matches!(self, GetError::Status { status: 429 | 503, .. })
    }

    /// What the pause before another attempt is a wait for: what the server asks for, its failure, a name, a
    /// connection that did not come about, or anything else that broke off.
    pub fn pause_stage(&self) -> Stage {
        match self {
            error if error.is_overload() => Stage::Backoff,
            GetError::Status { .. } => Stage::Failed,
            GetError::Resolve { .. } => Stage::Resolving,
            GetError::Connect { .. } | GetError::Tls { .. } => Stage::Unreached,
            GetError::Proxy { .. } | GetError::Socks { .. } => Stage::Unreached,
            GetError::Locked { .. } => Stage::Idle,
            _ => Stage::Broken,
        }
    }

    /// The server asks for a longer wait than what is left of `most`.
    pub(crate) fn asks_beyond(&self, most: Duration, used: Duration) -> bool {
        self.retry_after().is_some_and(|asked| used + asked > most)
    }

    /// This error, or where the server asks for a longer wait than what is left of `most` the word to come
    /// back later.
    #[must_use]
    pub fn within(self, most: Duration, used: Duration, now: SystemTime) -> GetError {
        match self.retry_after() {
            Some(asked) if self.asks_beyond(most, used) => {
                let back = now.checked_add(asked).map_or_else(String::new, weir_observe::clock::minute);
                GetError::ComeBack { cause: Box::new(self), asked, most, used, back }
            }
            _ => self,
        }
    }

    /// A peer that kept silent for as long as `after`.
    pub(crate) fn stalled(host: &str, what: &str, after: Duration) -> GetError {
        let way_out = "raise --timeout if that is normal there";
        GetError::Stalled { host: host.to_owned(), what: what.to_owned(), after, way_out, is_slow: false }
    }

    /// A peer with which no session came about in time.
    pub(crate) fn stalled_before(host: &str, what: &str, after: Duration) -> GetError {
        let way_out = "raise --connect-timeout (or --timeout) if that is normal there";
        GetError::Stalled { host: host.to_owned(), what: what.to_owned(), after, way_out, is_slow: false }
    }

    /// The same command may bring the file later, whatever is kept of it now.
    pub fn is_for_later(&self) -> bool {
        matches!(self, GetError::ComeBack { .. })
    }

    /// Of the way to a proxy, which `named_by` names, not of the way to the server.
    pub(crate) fn at_proxy(self, named_by: &str) -> GetError {
        match self {
            GetError::Connect { to, source } => {
                GetError::Connect { to: format!("the proxy {to} that {named_by} names"), source }
            }
            GetError::Resolve { host, cause } => {
                GetError::Resolve { host: format!("the proxy {host} that {named_by} names"), cause }
            }
            GetError::Tls { host, detail, permanent } => {
                GetError::Tls { host: format!("the proxy {host} that {named_by} names"), detail, permanent }
            }
            other => other,
        }
    }

    /// Of a request that did name a user.
    pub(crate) fn in_spite_of_credentials(self) -> GetError {
        match self {
            GetError::Status { host, status: 401, reason, retry_after, .. } => {
                let hint = "; it did not accept the user and password given (-u, the URL or ~/.netrc)";
                GetError::Status { host, status: 401, reason, retry_after, hint }
            }
            other => other,
        }
    }

    /// With what the server itself says of it.
    pub(crate) fn with_words(self, said: Option<&str>) -> GetError {
        match (self, said) {
            (GetError::Status { host, status, reason, retry_after, hint }, Some(said)) => {
                let reason = format!("{reason} ({said})").trim_start().to_owned();
                GetError::Status { host, status, reason, retry_after, hint }
            }
            (error, _) => error,
        }
    }

    /// With another way out than the status alone suggests.
    pub(crate) fn with_hint(self, hint: &'static str) -> GetError {
        match self {
            GetError::Status { host, status, reason, retry_after, .. } => {
                GetError::Status { host, status, reason, retry_after, hint }
            }
            other => other,
        }
    }

    /// The bytes came but are not the right ones.
    pub fn is_verification(&self) -> bool {
        matches!(self, GetError::Digest { .. } | GetError::NoDigest { .. })
    }
}

/// What became of bytes that do not have their digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// They are gone.
    Discarded,
    /// They went out as they came.
    PassedOn,
    /// They were here before.
    LeftAlone,
}

impl Fate {
    fn words(self) -> &'static str {
        match self {
            Fate::Discarded => "the bytes were discarded",
            Fate::PassedOn => "the bytes have already been passed on",
            Fate::LeftAlone => "it already exists and is kept; drop --no-clobber to overwrite it",
        }
    }
}

/// How the origin of a digest begins that a server declares.
pub(crate) const DECLARED: &str = "the server's ";

/// The way past a digest of this origin.
fn ignorable(origin: &str) -> &'static str {
    if origin.starts_with(DECLARED) { "; --ignore-digest keeps them" } else { "" }
}

/// The way past a part that stays because an answer `is_silent`.
fn anew(is_silent: bool) -> &'static str {
    if is_silent { "; --force starts at byte 0" } else { "" }
}

/// What may help against `status` of `url`.
pub(crate) fn hint(status: u16, url: &Url) -> &'static str {
    match status {
        202 | 204 | 205 => "; no file comes with it, and --any-type saves what does",
        400 | 404 if has_pattern(url.path()) => {
            "; weir expands no {a,b} or [1-3]: the shell does, unquoted ({a,b} or {1..3})"
        }
        // What servers say to plain HTTP on a TLS port.
        400 if url.scheme() == "http" => "; if this port speaks TLS, say https://",
        401 => "; give -u USER:PASSWORD, or a line for this host in ~/.netrc",
        403 => "; the link may have expired or need credentials",
        407 => "; give user:password in the proxy's URL",
        _ => "",
    }
}

/// A path with what curl would expand: `{a,b}`, as a URL writes that, or `[1-3]`.
fn has_pattern(path: &str) -> bool {
    let within = |open: &str, close: &str| {
        path.split_once(open).and_then(|(_, rest)| rest.split_once(close)).map(|(inner, _)| inner)
    };
    let is_range = |(from, to): (&str, &str)| !from.is_empty() && !to.is_empty();
    within("%7B", "%7D").is_some_and(|inner| inner.contains(','))
        || within("[", "]").and_then(|inner| inner.split_once('-')).is_some_and(is_range)
}

fn used_up(used: Duration) -> String {
    if used.is_zero() { String::new() } else { format!(", of which {} are used up", human_duration(used)) }
}

fn still_kept(kept: &Option<Bytes>, path: &std::path::Path, cause: &io::Error) -> String {
    let is_full = matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let way_out = if is_full {
        "free space and run the same command again"
    } else {
        "run the same command again once that is mended"
    };
    match kept {
        Some(bytes) => {
            format!("; {bytes} are kept for {}, {way_out}", path.display())
        }
        None => String::new(),
    }
}
