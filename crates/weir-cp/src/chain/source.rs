//! The machine that has the sources of a chain, where that is another one: whether it is there.

use std::time::{Duration, Instant};

use weir_units::backoff::doubled;

use crate::error::CopyError;
use crate::ssh::Host;

/// A source that says nothing for so long is lost: it says something ten times a second. Longer than a host
/// of the chain may take, whose own silence would keep the source's words from coming through.
const SILENT: Duration = Duration::from_secs(4);

/// One that has been silent for so long keeps whoever waits for it from being judged.
const QUIET: Duration = Duration::from_secs(1);

/// Attempts in a row that brought nothing.
const TRIES: u32 = 3;

/// Before it is tried again; each further time twice as long.
const REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(10);

/// Where the sources are.
#[derive(Debug)]
pub(super) struct ChainSource {
    /// None for this machine, which is always there.
    host: Option<Host>,
    failures: u32,
    /// Not before.
    due: Instant,
    /// Why it was not there last.
    why: String,
}

impl ChainSource {
    pub(super) fn new(host: Option<Host>, now: Instant) -> ChainSource {
        ChainSource { host, failures: 0, due: now, why: String::new() }
    }

    /// For words.
    pub(super) fn shown(&self) -> &str {
        self.host.as_ref().map_or("here", Host::shown)
    }

    /// A session from it may begin.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        self.due <= now && !self.is_given_up()
    }

    /// It was not there too often.
    pub(super) fn is_given_up(&self) -> bool {
        self.failures >= TRIES
    }

    /// Why.
    pub(super) fn why(&self) -> &str {
        &self.why
    }

    /// It was not there, after it had sent something where `gained`.
    pub(super) fn failed(&mut self, why: String, gained: bool) {
        tracing::info!("{}: {why}", self.shown());
        self.failures = if gained { 1 } else { self.failures + 1 };
        self.due = Instant::now() + doubled(REST, self.failures - 1, LONGEST_REST);
        self.why = why;
    }

    /// Whether there may be something from it for a session in which it was heard then.
    pub(super) fn feeds(&self, heard: Option<Instant>, now: Instant) -> bool {
        self.host.is_none() || heard.is_none_or(|heard| now.duration_since(heard) < QUIET)
    }

    /// Whether an error of a session from it is its own, and not the receiver's.
    pub(super) fn is_at_fault(&self, error: &CopyError) -> bool {
        let Some(host) = self.host.as_ref().map(Host::shown) else { return false };
        error.is_of(host) || matches!(error, CopyError::Version { host: of, .. } if of == host)
    }

    /// Why a session from it, whose last word came then, is taken for lost.
    pub(super) fn silence(&self, heard: Option<Instant>, now: Instant) -> Option<CopyError> {
        let silent = heard.is_some_and(|heard| now.duration_since(heard) > SILENT);
        let host = self.host.as_ref().filter(|_| silent)?.shown().to_owned();
        Some(CopyError::Lost { host, why: Some("it stopped answering".to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::{Failure, FailureKind};

    fn source() -> ChainSource {
        let host = Host {
            name: Some("a".to_owned()),
            words: None,
            ssh: Vec::new(),
            program: None,
            builds: Vec::new(),
            silence: Duration::ZERO,
        };
        ChainSource::new(Some(host), Instant::now())
    }

    #[test]
    fn whose_fault_an_error_is() {
        let lost = |host: &str| CopyError::Lost { host: host.to_owned(), why: None };
        let far = |kind, words: &str| CopyError::Far(Failure::new(kind, words));
        for (error, is_its, refuses) in [
            (lost("a"), true, false),
            (lost("b"), false, false),
            (far(FailureKind::Local, "a: cannot read x"), true, true),
            (far(FailureKind::Local, "ab: cannot write x"), false, true),
            (far(FailureKind::Session, "a: other sources"), true, false),
        ] {
            assert_eq!(source().is_at_fault(&error), is_its, "{error}");
            assert_eq!(error.refusal().is_some(), refuses, "{error}");
        }
        assert!(!ChainSource::new(None, Instant::now()).is_at_fault(&lost("here")));
    }

    #[test]
    fn it_is_given_up_where_it_brings_nothing() {
        let mut source = source();
        (0..5).for_each(|_| source.failed("lost".to_owned(), true));
        assert!(!source.is_given_up(), "each time it had sent something");
        (0..2).for_each(|_| source.failed("lost".to_owned(), false));
        assert!(source.is_given_up() && source.why() == "lost");
    }
}
