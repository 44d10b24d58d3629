//! What is to be fetched, how, and what became of it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use url::Url;
use weir_codec::digest::Expected;
use weir_http::validator::equal_weak;
use weir_model::evidence::{Evidence, Interval};
use weir_model::limit::Limit;
use weir_units::Rate;
use weir_units::limiter::Limiter;

use crate::error::GetError;
use crate::http::connection::MAX_WAIT;
use crate::http::speed::SpeedLimit;
use crate::object::{self, Object};
use crate::sink::Existing;
use crate::sink::stamp::Stamping;
use crate::sink::stream;
use crate::verify::Expectation;

/// Where an object goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// This file.
    File(PathBuf),
    /// The pipe or character device at this path, in order. Decided once: what has the name may change while
    /// a run goes on.
    Pipe(PathBuf),
    /// A file in this folder, named by the server or the URL.
    Folder(PathBuf),
    /// Stdout, in order.
    Stdout,
    /// Memory, for what weir itself reads (a list of checksums); at most this many bytes.
    Memory(usize),
}

impl Output {
    /// To `path`, by what is there now.
    pub fn to(path: PathBuf) -> Output {
        if stream::is_stream(&path) { Output::Pipe(path) } else { Output::File(path) }
    }

    /// Bytes go out in order and cannot be had back: stdout, a pipe, a device.
    pub(crate) fn is_stream(&self) -> bool {
        match self {
            Output::Stdout | Output::Pipe(_) => true,
            Output::File(_) | Output::Folder(_) | Output::Memory(_) => false,
        }
    }
}

/// One object to fetch.
#[derive(Debug, Clone)]
pub struct Job {
    /// http or https.
    pub url: Url,
    /// Whose credentials and fields may be sent: those given for this URL's origin. `None`: `url` itself.
    pub home: Option<Url>,
    /// Where to.
    pub output: Output,
    /// What it is called in a folder unless the server says; `None`: by the last part of `url`.
    pub name: Option<String>,
    /// Digests it must have.
    pub expectations: Vec<Expectation>,
    /// What a manifest or an earlier answer says of it: another object is not fetched.
    pub pinned: Option<Pinned>,
    /// These bytes of it alone, into a part that other hosts fill as well and that gets no name here. It
    /// takes [`Existing::Kept`] and a `pinned` size and strong tag.
    pub piece: Option<Range<u64>>,
}

/// What was known of an object before: when its manifest was written, or by an answer of its server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pinned {
    /// Bytes.
    pub size: Option<u64>,
    /// Its entity tag, with its quotes.
    pub etag: Option<String>,
    /// When it was last changed.
    pub modified: Option<SystemTime>,
    /// An answer of its server said so: each further one has to say it again, to the second.
    pub is_exact: bool,
}

/// Indexes of web servers show minutes, rounded down.
const SHOWN: Duration = Duration::from_secs(60);

impl Pinned {
    /// How an object differs of which this is known; `None`: in nothing that both sides know. Times are held
    /// against one another where there are no two tags. Of what an answer said ([`Pinned::is_exact`]) silence
    /// and any other date is a difference too.
    pub fn differs(
        &self,
        size: Option<u64>,
        etag: Option<&str>,
        modified: Option<SystemTime>,
    ) -> Option<String> {
        if let (Some(own), Some(there)) = (self.size, size)
            && own != there
        {
            return Some(format!("it has {there} bytes, not {own}"));
        }
        if self.is_exact {
            return self.differs_from_an_answer(etag, modified).map(str::to_owned);
        }
        match (self.etag.as_deref(), etag, self.modified, modified) {
            (Some(own), Some(there), ..) if own == there || equal_weak(own, there) => None,
            (Some(_), Some(_), ..) => Some("its ETag is another".to_owned()),
            (.., Some(own), Some(there)) if there >= own + SHOWN => Some("it was changed later".to_owned()),
            _ => None,
        }
    }

    /// The object of an answer that says nothing of its size, with the one that is known: an early end, and
    /// bytes beyond it, are then errors as they are of an announced size.
    pub(crate) fn sized(&self, object: Object) -> Object {
        match self.size.filter(|_| object.size.is_none() && object.holds_to.is_none()) {
            Some(size) => Object { size: Some(size), holds_to: Some(size), ..object },
            None => object,
        }
    }

    /// The same of two answers of one server. What is left out proves nothing, and a weak tag little.
    fn differs_from_an_answer(
        &self,
        etag: Option<&str>,
        modified: Option<SystemTime>,
    ) -> Option<&'static str> {
        match (self.etag.as_deref(), etag) {
            (Some(own), Some(there)) if own != there => return Some("its ETag is another"),
            (Some(_), None) => return Some("its answer has no ETag"),
            (Some(own), Some(_)) if !own.starts_with("W/") => return None,
            _ => {}
        }
        match (self.modified, modified) {
            (Some(own), Some(there)) if own != there => Some("its Last-Modified is another"),
            // Beside a tag it may be left out of a part (RFC 9110 section 15.3.7).
            (Some(_), None) if self.etag.is_none() => Some("its answer has no Last-Modified"),
            _ => None,
        }
    }
}

impl Job {
    /// The file that it becomes unless the server names it otherwise; `None` if it becomes none.
    pub fn target(&self) -> Option<PathBuf> {
        match &self.output {
            Output::File(path) => Some(path.clone()),
            Output::Folder(folder) => Some(folder.join(self.file_name())),
            Output::Pipe(_) | Output::Stdout | Output::Memory(_) => None,
        }
    }

    /// What its file is called unless the server says otherwise.
    pub(crate) fn file_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| object::name_from_url(&self.url))
    }

    /// The user named its file, or its URL does.
    pub(crate) fn is_named(&self) -> bool {
        let in_folder = matches!(self.output, Output::Folder(_));
        !in_folder || self.name.is_some() || weir_http::filename::from_url(self.url.as_str()).is_some()
    }

    /// Its file is called by its digest, and so is the same whoever brings it.
    pub(crate) fn is_named_by_its_digest(&self) -> bool {
        let target = self.target();
        let name = target.as_deref().and_then(Path::file_name).unwrap_or_default();
        self.expectations.iter().any(|one| one.parts.is_none() && *name == *one.expected.hex())
    }

    /// A digest that the user gave tells whether its bytes are the right ones, whatever way they come, before
    /// anybody has them.
    pub(crate) fn is_proven(&self) -> bool {
        !self.output.is_stream() && self.expectations.iter().any(Expectation::proves)
    }

    /// A report in which nothing has happened yet.
    pub fn blank_report(&self) -> FileReport {
        FileReport {
            url: object::shown(&self.url),
            path: None,
            bytes: 0,
            resumed_from: 0,
            connections: 0,
            digest: None,
            verified: false,
            outcome: JobOutcome::Complete,
            notes: Vec::new(),
            body: None,
        }
    }

    /// A number for its host and port, the same for all jobs of one. That two hosts share one is as likely as
    /// a hit in four thousand million, and makes them wait for each other.
    pub(crate) fn host(&self) -> u32 {
        let mut hasher = DefaultHasher::new();
        (self.url.host_str(), self.url.port_or_known_default()).hash(&mut hasher);
        // One is left for a lane without a job.
        (hasher.finish() as u32).min(u32::MAX - 1)
    }

    /// The URL for whose origin credentials and fields were given.
    pub(crate) fn home(&self) -> &Url {
        self.home.as_ref().unwrap_or(&self.url)
    }
}

/// How to fetch.
#[derive(Debug, Clone)]
pub struct Options {
    /// Lanes for bulk objects: `Some` fixes the count, `None` lets the tuner decide.
    pub lanes: Option<u32>,
    /// Files at once: `Some` fixes the count.
    pub files_at_once: Option<u32>,
    /// `--limit-rate`.
    pub rate_cap: Option<Rate>,
    /// In its place, what keeps a rate that may change while the run goes on.
    pub limiter: Option<Arc<Limiter>>,
    /// For each stretch without a byte, and for the head of an answer.
    pub timeout: Duration,
    /// For a name, its connect and the handshakes.
    pub connect_timeout: Duration,
    /// The least rate of a connection that carries a body.
    pub speed: SpeedLimit,
    /// The longest wait that a server may ask for.
    pub max_wait: Duration,
    /// Attempts after the first that bring nothing new.
    pub retries: u32,
    /// SO_RCVBUF, bytes.
    pub receive_buffer: Option<usize>,
    /// Save web pages under any name.
    pub any_type: bool,
    /// Keep what does not have the digest that the server declares.
    pub ignore_digest: bool,
    /// Take a body without a length for whole although its TLS session was not ended in order.
    pub accept_unclean: bool,
    /// Begin at byte 0 whatever an earlier run left.
    pub fresh: bool,
    /// Fetch only what is not the same here already (`-N`).
    pub newer: bool,
    /// A file gets the time of its object on the server (`-R`).
    pub remote_time: bool,
    /// Go on with the beginning of a file that another program left (`-C -`).
    pub go_on: bool,
    /// Wait for the disk before a file gets its name.
    pub sync: bool,
    /// What becomes of a file that is there. [`Existing::Kept`] goes without `temp_dir`, and two jobs of a
    /// run may then have one name: the first to be complete gets it.
    pub existing: Existing,
    /// Where files grow; `None`: beside their names.
    pub temp_dir: Option<PathBuf>,
}

/// A minute without a byte is a broken path: TCP itself has tried again eight times by then.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Default for Options {
    fn default() -> Options {
        Options {
            lanes: None,
            files_at_once: None,
            rate_cap: None,
            limiter: None,
            timeout: TIMEOUT,
            connect_timeout: TIMEOUT,
            speed: SpeedLimit::usual(TIMEOUT),
            max_wait: MAX_WAIT,
            retries: 5,
            receive_buffer: None,
            any_type: false,
            ignore_digest: false,
            accept_unclean: false,
            fresh: false,
            newer: false,
            remote_time: false,
            go_on: false,
            sync: false,
            existing: Existing::Replaced,
            temp_dir: None,
        }
    }
}

impl Options {
    /// What keeps the rate of a run, if anything does.
    pub(crate) fn limiter(&self) -> Option<Arc<Limiter>> {
        let own = || self.rate_cap.map(|rate| Arc::new(Limiter::new(rate)));
        self.limiter.clone().or_else(own)
    }

    /// What a complete file is told of its object.
    pub(crate) fn stamping(&self) -> Stamping {
        match (self.newer, self.remote_time) {
            (true, _) => Stamping::TimeAndVersion,
            (false, true) => Stamping::Time,
            (false, false) => Stamping::Nothing,
        }
    }
}

/// The most lanes that weir opens by itself. A lane of 64 KiB a round trip, or one that loses a segment in a
/// thousand, carries 1.5 MB/s over 40 ms: this many fill most of 1 Gbit/s. Each doubling must have paid
/// before the next is tried.
pub(crate) const MAX_LANES: u32 = 64;

/// The most connections for small objects.
pub(crate) const MAX_SMALL_LANES: u32 = 32;

/// What became of a job.
#[derive(Debug)]
pub enum JobOutcome {
    /// Complete and verified.
    Complete,
    /// Not fetched because the file exists (`--no-clobber`).
    Skipped,
    /// Not fetched because the file that is here is the same (`-N`, `-C -`).
    Unchanged,
    /// Incomplete; the same command goes on from what is kept, now or when the server wants to be asked
    /// again.
    Partial(GetError),
    /// Failed, nothing kept.
    Failed(GetError),
}

/// A job's end.
#[derive(Debug)]
pub struct FileReport {
    /// The URL as it may be shown.
    pub url: String,
    /// The file, if there is one.
    pub path: Option<PathBuf>,
    /// Bytes of the object now here.
    pub bytes: u64,
    /// Bytes that an earlier run had left.
    pub resumed_from: u64,
    /// Connections that brought bytes of it.
    pub connections: u32,
    /// The first digest computed.
    pub digest: Option<Expected>,
    /// A digest was expected and matched.
    pub verified: bool,
    /// How it ended.
    pub outcome: JobOutcome,
    /// What was passed over, left out or overridden to get it.
    pub notes: Vec<String>,
    /// The body, for [`Output::Memory`].
    pub body: Option<Vec<u8>>,
}

/// A run's end.
#[derive(Debug)]
pub struct RunReport {
    /// Jobs that its source gave.
    pub given: usize,
    /// Jobs that it would have given as well; `None` if it did not come to know how many there are.
    pub not_given: Option<usize>,
    /// Why the source broke.
    pub broken: Option<GetError>,
    /// Payload bytes received in this run.
    pub received: u64,
    /// From the first connect to the last rename.
    pub elapsed: Duration,
    /// What was seen, for the judge.
    pub evidence: Evidence,
    /// It was stopped from outside.
    pub interrupted: bool,
}

/// A look at a running transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Duration,
    /// Bytes here, those of an earlier run included.
    pub bytes: u64,
    /// Of how many, if all sizes are known.
    pub total: Option<u64>,
    /// Goodput over the last second.
    pub rate: Rate,
    /// Lanes at work.
    pub lanes: u32,
    /// What limits it now.
    pub limit: Option<Limit>,
    /// Files finished, and of how many, as far as is known.
    pub files: (usize, usize),
    /// There may be more files than that.
    pub at_least: bool,
}

/// Hears of a run while it goes on. Called every 100 ms from the thread that called [`crate::engine::run`].
pub trait Observer {
    /// A look.
    fn progress(&mut self, now: &Progress);

    /// What the interval that has just closed was like, before [`Observer::progress`] is told of it.
    fn interval(&mut self, _seen: &ClosedInterval<'_>) {}
}

/// An interval that has just closed.
pub struct ClosedInterval<'a> {
    /// What was seen in it.
    pub interval: &'a Interval,
    /// What held it.
    pub limit: Limit,
    /// All that was seen before, and what holds for the whole run.
    pub evidence: &'a Evidence,
    /// The objects at work, counted when asked for.
    pub under_way: &'a dyn Fn() -> Vec<UnderWay>,
}

/// An object at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnderWay {
    /// Its URL's last part, or its file's name.
    pub name: String,
    /// Bytes that are here.
    pub done: u64,
    /// Of how many, if the server said so.
    pub size: Option<u64>,
    /// Where it will be, if it grows beside that and another process may follow it
    /// ([`crate::growing::GrowingFile`]).
    pub grows_at: Option<PathBuf>,
}

/// Nobody looks.
impl Observer for () {
    fn progress(&mut self, _: &Progress) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_s_word_is_held_against_what_is_there() {
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let pinned = |etag: Option<&str>| Pinned {
            size: Some(5),
            etag: etag.map(str::to_owned),
            modified: at(1000),
            is_exact: false,
        };
        for (etag, size, there, modified, differs) in [
            (Some("\"a\""), Some(5), Some("\"a\""), at(9000), false),
            (Some("\"a\""), Some(5), Some("W/\"a\""), None, false),
            (Some("\"a\""), Some(5), Some("\"b\""), at(1000), true),
            (Some("\"a\""), Some(6), Some("\"a\""), None, true),
            (Some("\"a\""), None, None, at(1000), false),
            (None, Some(5), Some("\"a\""), at(1059), false),
            (None, Some(5), Some("\"a\""), at(1060), true),
            (None, Some(5), None, at(900), false),
        ] {
            assert_eq!(pinned(etag).differs(size, there, modified).is_some(), differs, "{etag:?} {there:?}");
        }
    }

    #[test]
    fn a_further_answer_says_the_same() {
        let at = |seconds: Option<u64>| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds?));
        let (strong, weak, other) = (Some("\"a\""), Some("W/\"a\""), Some("W/\"b\""));
        for (etag, modified, there, changed, differs) in [
            (strong, Some(1000), strong, Some(1000), false),
            // Copies of one object may have several dates.
            (strong, Some(1000), strong, Some(9000), false),
            (strong, Some(1000), None, Some(1000), true),
            (strong, None, weak, None, true),
            (weak, None, weak, None, false),
            (weak, None, other, None, true),
            (weak, Some(1000), weak, Some(1001), true),
            (weak, Some(1000), weak, None, false),
            (None, Some(1000), None, Some(1000), false),
            (None, Some(1000), None, Some(1001), true),
            (None, Some(1000), None, Some(900), true),
            (None, Some(1000), strong, None, true),
            (None, None, strong, Some(1000), false),
        ] {
            let etag = etag.map(str::to_owned);
            let pinned = Pinned { size: None, etag, modified: at(modified), is_exact: true };
            let found = pinned.differs(Some(5), there, at(changed));
            assert_eq!(found.is_some(), differs, "{pinned:?} {there:?} {changed:?}");
        }
    }
}
