//! Waits that a person would take for a hang: said once, even with `--quiet`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::error::GetError;
use crate::http::REMEMBERED;
use parking_lot::Mutex;
use weir_units::human_duration;

/// Lines about waits have this target, so that `--quiet` can let them pass.
pub const TARGET: &str = "weir_get::wait";

/// A wait from which on a person wonders.
pub const LONG: Duration = Duration::from_secs(5);

/// What was said of waits in this run.
#[derive(Debug, Default)]
pub struct Waits {
    /// The hosts of which a wait was said, and when that is over: of a thousand files one says it for all.
    said: Mutex<HashMap<String, Instant>>,
    /// See [`Waits::words`].
    words: Mutex<Option<String>>,
    /// See [`Waits::failure`].
    failure: Mutex<Option<String>>,
    /// See [`Waits::breakage`].
    breakage: Mutex<Option<String>>,
}

impl Waits {
    /// A word before a wait for `url`, whose host is `host`: what went wrong, what the server asks for, what
    /// is done.
    pub fn say(&self, url: &str, host: &str, error: &GetError, pause: Duration) {
        match error {
            GetError::Status { status, reason, .. } if error.is_overload() => {
                self.asked_to_wait(format!("{status} {reason}"));
            }
            GetError::Status { status, reason, .. } => self.failed(format!("{status} {reason}")),
            other => self.broke(other),
        }
        let asked = error.retry_after().map_or_else(String::new, |asked| {
            format!("; the server asks for a wait of {}", human_duration(asked))
        });
        let words = format!("{error:#}{asked}; trying again in {}", human_duration(pause));
        if pause >= LONG && self.is_new(host, pause, Instant::now()) {
            tracing::warn!(target: TARGET, "{url}: {words}");
        } else {
            tracing::info!("{url}: {words}");
        }
    }

    /// A server has asked to wait, in these words.
    pub fn asked_to_wait(&self, words: String) {
        *self.words.lock() = Some(words);
    }

    /// What a server said when it last asked to wait.
    pub fn words(&self) -> Option<String> {
        self.words.lock().clone()
    }

    /// A server has failed, in these words, and is asked again.
    pub fn failed(&self, words: String) {
        *self.failure.lock() = Some(words);
    }

    /// What a server said when it last failed and was asked again.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// An attempt had no answer because of `error`, and is followed by another.
    pub fn broke(&self, error: &GetError) {
        *self.breakage.lock() = Some(format!("{error:#}"));
    }

    /// Why the last such attempt had none.
    pub fn breakage(&self) -> Option<String> {
        self.breakage.lock().clone()
    }

    fn is_new(&self, host: &str, pause: Duration, now: Instant) -> bool {
        let mut said = self.said.lock();
        let is_new = said.get(host).is_none_or(|until| *until <= now);
        if is_new {
            if said.len() >= REMEMBERED {
                said.retain(|_, until| *until > now);
            }
            said.insert(host.to_owned(), now + pause);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_s_wait_is_said_once_until_it_is_over() {
        let (waits, now) = (Waits::default(), Instant::now());
        let pause = Duration::from_secs(10);
        assert!(waits.is_new("a", pause, now));
        assert!(!waits.is_new("a", pause, now + pause / 2));
        assert!(waits.is_new("b", pause, now));
        assert!(waits.is_new("a", pause, now + pause));
    }
}
