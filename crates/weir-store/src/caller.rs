//! One line of requests to a store, one after another, over a connection that is kept: with second attempts
//! where they help, by what the store asks.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant, SystemTime};

use url::Url;
use weir_get::GetError;
use weir_get::http::call::{AtHand, Call, Content, Reply};
use weir_get::http::connection::Dial;
use weir_get::http::exchange::{Client, Http};
use weir_get::http::waiting::Waits;
use weir_get::object;
use weir_observe::stage_clock::{Stage, StageClock};
use weir_units::backoff::doubled;

use crate::error::StoreError;
use crate::words::StoreWords;

/// The first pause of several; S3's own clients begin with as much or less.
pub const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause that nobody asked for.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// What is taken away after a stop has this long: the user waits for it.
const CLEARING: Duration = Duration::from_secs(5);

/// Nobody stops what takes away what a stop has left.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A line of requests.
pub struct Caller<'a> {
    setup: CallerSetup<'a>,
    client: Client<'a>,
    clock: &'a StageClock,
    waits: &'a Waits,
    retries: u32,
    throttled: u64,
    words: Option<String>,
    attempts: u32,
    unanswered: u32,
}

/// What a caller needs of its surroundings.
#[derive(Clone, Copy)]
pub struct CallerSetup<'a> {
    /// The way to the network, and who speaks for requests.
    pub http: &'a Http,
    /// Where this caller's time goes.
    pub clock: &'a StageClock,
    /// Hears of each connection that becomes, or ceases to be, this caller's.
    pub on_socket: &'a (dyn Fn(Option<&Arc<TcpStream>>) + Sync),
    /// Set: give up at once.
    pub stop: &'a AtomicBool,
    /// For each stretch without a byte.
    pub timeout: Duration,
    /// For a name, its connect and the handshakes.
    pub connect_timeout: Duration,
    /// The longest wait that a server may ask for, all waits of one request together.
    pub max_wait: Duration,
    /// Attempts after the first.
    pub retries: u32,
}

impl<'a> CallerSetup<'a> {
    /// The same for what takes away what a stop, or an error, has left: nobody stops it, and it is soon over.
    #[must_use]
    pub fn clearing(self) -> CallerSetup<'a> {
        CallerSetup {
            stop: &NEVER,
            timeout: self.timeout.min(CLEARING),
            connect_timeout: self.connect_timeout.min(CLEARING),
            max_wait: self.max_wait.min(CLEARING),
            retries: 1,
            ..self
        }
    }
}

impl<'a> Caller<'a> {
    /// Without a connection yet.
    pub fn new(setup: CallerSetup<'a>) -> Caller<'a> {
        let dial = Dial {
            connect_timeout: setup.connect_timeout,
            max_wait: setup.max_wait,
            ..Dial::new(setup.timeout, [setup.stop, setup.stop])
        };
        let client = Client::new(setup.http, setup.clock, dial, setup.on_socket);
        let CallerSetup { clock, retries, .. } = setup;
        let waits = setup.http.waits();
        Caller { setup, client, clock, waits, retries, throttled: 0, words: None, attempts: 0, unanswered: 0 }
    }

    /// Another line to the same store: see [`CallerSetup::clearing`].
    #[must_use]
    pub fn clearing(&self) -> Caller<'a> {
        Caller::new(self.setup.clearing())
    }

    /// The requests are the user's own: see [`Client::as_user`].
    pub fn as_user(self) -> Caller<'a> {
        Caller { client: self.client.as_user(), ..self }
    }

    /// Objects of web servers may be elsewhere than they are said to be: see [`Client::follows`].
    pub fn follows(self) -> Caller<'a> {
        Caller { client: self.client.follows(), ..self }
    }

    /// Raises `received` by what objects bring, while it comes: see [`Client::counts`].
    pub fn counts(self, received: &'a AtomicU64) -> Caller<'a> {
        Caller { client: self.client.counts(received), ..self }
    }

    /// It is to give up.
    pub fn is_stopped(&self) -> bool {
        self.client.dial().is_stopped()
    }

    /// The wait before the next attempt, if the store has `asked` for one and others have taken `waited`. A
    /// caller that clears up asks again in the time that is left, however long the store wants.
    fn granted(&self, asked: Duration, waited: Duration) -> Duration {
        match std::ptr::eq(self.setup.stop, &NEVER) {
            true => asked.min(self.setup.max_wait.saturating_sub(waited)),
            false => asked,
        }
    }

    /// How often the last request was sent: of more than once the first may have been done although its
    /// answer was lost.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Of how many of these nobody knows whether the store has done what was asked: it did not answer, or
    /// spoke of a fault of its own.
    pub fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// What the store said when it last asked for fewer requests.
    pub fn throttle_words(&self) -> Option<&str> {
        self.words.as_deref()
    }

    /// How often a store has asked for fewer requests.
    pub fn throttled(&self) -> u64 {
        self.throttled
    }

    /// Sends `call` until it is answered by something that another attempt would not change: a success, or
    /// the last refusal, as it stands. Only for requests that may be sent twice.
    ///
    /// # Errors
    /// The fault on the way, or [`GetError::ComeBack`] where the server asks for a longer wait than is left.
    pub fn ask(&mut self, call: &Call<'_>, content: &mut dyn Content) -> Result<Reply, StoreError> {
        let (mut failed, mut waited) = (0, Duration::ZERO);
        (self.attempts, self.unanswered) = (0, 0);
        loop {
            // A kept connection that was closed meanwhile costs a request that counts for no failure.
            self.client.take_counts();
            let outcome = self.client.call(call, content);
            let sent = self.client.take_counts().1;
            let is_answered =
                outcome.as_ref().is_ok_and(|reply| !matches!(reply.head.status, 500 | 502 | 504));
            self.attempts += sent;
            self.unanswered += sent.saturating_sub(u32::from(is_answered));
            let now = SystemTime::now();
            let (asked, is_throttle) = match &outcome {
                Ok(reply) if is_for_later(reply) => {
                    (weir_http::retry_after::wait(&reply.head.fields, now), is_throttled(reply))
                }
                // A proxy may ask for it, too.
                Err(error) if !error.is_permanent() => (error.retry_after(), false),
                _ => return Ok(outcome?),
            };
            if is_throttle {
                self.throttled += 1;
                self.words = outcome.as_ref().ok().and_then(|reply| reply.said.clone()).or(self.words.take());
            }
            let most = self.setup.max_wait;
            let asked = asked.map(|asked| self.granted(asked, waited));
            if asked.is_some_and(|asked| waited + asked > most) {
                let error = outcome.map_or_else(|error| error, |reply| reply.error(&call.url));
                return Err(error.within(most, waited, now).into());
            }
            if failed >= self.retries {
                return Ok(outcome?);
            }
            // Anywhere within it, so that clients that were refused together do not come back together.
            let pause = doubled(FIRST_PAUSE, failed, LONGEST_PAUSE).mul_f64(0.5 + fastrand::f64() / 2.0);
            let wait = asked.unwrap_or(pause).max(pause);
            waited += asked.unwrap_or_default();
            if let (Some(_), Ok(reply)) = (asked, &outcome) {
                let (url, host) = (object::shown(&call.url), object::host_of(&call.url));
                self.waits.say(&url, &host, &reply.error(&call.url), wait);
            }
            // The store's own words say more than its status.
            if is_throttle {
                self.words.iter().for_each(|words| self.waits.asked_to_wait(words.clone()));
            }
            // Only what was asked for is the store's wish.
            let stage = match &outcome {
                _ if is_throttle || asked.is_some() => Stage::Backoff,
                Ok(reply) => {
                    let words = reply.said.as_ref().map_or_else(String::new, |said| format!(" ({said})"));
                    self.waits.failed(format!("{}{words}", reply.head.status));
                    Stage::Failed
                }
                Err(error) => {
                    self.waits.broke(error);
                    error.pause_stage()
                }
            };
            self.pause(wait, stage)?;
            failed += 1;
            content.rewind()?;
        }
    }

    /// As [`Caller::ask`], and where the store asks to come back later, the error says that `what` could not
    /// be done.
    ///
    /// # Errors
    /// Those of [`Caller::ask`].
    pub fn ask_to(
        &mut self,
        what: &str,
        call: &Call<'_>,
        content: &mut dyn Content,
    ) -> Result<Reply, StoreError> {
        self.ask(call, content).map_err(|error| error.of_later(what))
    }

    /// As [`Caller::ask_to`], and what is no success is the error that `what` could not be done.
    pub fn done(
        &mut self,
        what: &str,
        call: &Call<'_>,
        content: &mut dyn Content,
    ) -> Result<Reply, StoreError> {
        let reply = self.ask_to(what, call, content)?;
        match reply.head.status {
            200..300 => Ok(reply),
            _ => Err(refusal(what, call, &reply)),
        }
    }

    /// Deletes what is at `url`; what is not there counts as deleted. As [`Caller::done`] otherwise.
    pub fn delete(&mut self, what: &str, url: Url) -> Result<(), StoreError> {
        let call = Call { method: "DELETE", url, fields: Vec::new(), most: 1 << 20, asks_first: false };
        let reply = self.ask_to(what, &call, &mut AtHand::default())?;
        match reply.head.status {
            200..300 | 404 => Ok(()),
            _ => Err(refusal(what, &call, &reply)),
        }
    }

    /// Waits for something that the store does meanwhile; an error where the user wants no more.
    pub fn wait(&mut self, span: Duration) -> Result<(), GetError> {
        self.pause(span, Stage::FirstByte)
    }

    fn pause(&mut self, span: Duration, stage: Stage) -> Result<(), GetError> {
        self.clock.enter(stage);
        let began = Instant::now();
        self.client.dial().sleep(span);
        self.clock.enter(Stage::Other);
        tracing::debug!("paused for {:?} before another attempt", began.elapsed());
        if self.client.dial().is_stopped() { Err(GetError::Interrupted) } else { Ok(()) }
    }
}

/// The error that `reply` is for whoever wanted `what`.
pub fn refusal(what: &str, call: &Call<'_>, reply: &Reply) -> StoreError {
    match StoreWords::of(&reply.body) {
        Some(words) => StoreError::Refused {
            what: what.to_owned(),
            code: words.code.clone(),
            // What speaks for the request says more than the store does.
            message: match &reply.said {
                Some(said) => without_code(said, &words),
                None => words.message,
            },
            hint: String::new(),
        },
        None => StoreError::Answered { what: what.to_owned(), answer: Box::new(reply.error(&call.url)) },
    }
}

/// What is `said` behind the code, which stands before it already; the store's own first line where that is
/// all.
fn without_code(said: &str, words: &StoreWords) -> String {
    let behind = said.strip_prefix(&words.code).and_then(|rest| {
        let bare = rest.trim_start_matches([':', ';', ' ']);
        (rest.is_empty() || bare.len() < rest.len()).then_some(bare)
    });
    match behind {
        Some("") => words.message.lines().next().unwrap_or_default().to_owned(),
        Some(behind) => behind.to_owned(),
        None => said.to_owned(),
    }
}

/// Another attempt may be answered otherwise: an overload, a fault of the server's, a request that it lost.
fn is_for_later(reply: &Reply) -> bool {
    let by_status = matches!(reply.head.status, 408 | 429 | 500 | 502..=504);
    // An error may come with 200, when the answer had begun before it was known (CompleteMultipartUpload).
    let by_code = || StoreWords::of(&reply.body).is_some_and(|words| is_transient(&words.code));
    by_status || matches!(reply.head.status, 200 | 400 | 403 | 409) && by_code()
}

/// The store asks for fewer requests.
fn is_throttled(reply: &Reply) -> bool {
    let by_code = || StoreWords::of(&reply.body).is_some_and(|words| is_throttle(&words.code));
    matches!(reply.head.status, 429 | 503) || by_code()
}

/// Codes of stores that ask for fewer requests.
fn is_throttle(code: &str) -> bool {
    matches!(
        code,
        "SlowDown"
            | "Throttling"
            | "ThrottlingException"
            | "RequestLimitExceeded"
            | "ServerBusy"
            | "rateLimitExceeded"
            | "userRateLimitExceeded"
    )
}

/// Codes of stores that ask for another attempt.
pub fn is_transient(code: &str) -> bool {
    is_throttle(code)
        || matches!(
            code,
            "InternalError"
                | "ServiceUnavailable"
                | "RequestTimeout"
                | "OperationAborted"
                | "ConditionalRequestConflict"
                | "OperationTimedOut"
                | "backendError"
                | "internalError"
        )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::mock::{Mock, Said, said};
    use crate::testing::with_setup;

    /// A store that asks for a wait of so many seconds, so many times.
    fn busy(times: usize, seconds: &'static str) -> Mock {
        let asked = AtomicUsize::new(0);
        Mock::new(move |_| match asked.fetch_add(1, Relaxed) < times {
            true => Said {
                fields: vec![("Retry-After".to_owned(), seconds.to_owned())],
                ..said(503, "<Error><Code>SlowDown</Code><Message>less of it</Message></Error>")
            },
            false => said(204, ""),
        })
    }

    fn url(mock: &Mock) -> Url {
        Url::parse(&mock.url).unwrap()
    }

    #[test]
    fn what_is_left_is_asked_for_again_however_long_the_store_wants() {
        let mock = busy(1, "3600");
        with_setup(Vec::new(), |setup| {
            let setup = CallerSetup { max_wait: Duration::from_millis(50), ..setup };
            Caller::new(setup.clearing()).delete("clear it", url(&mock)).unwrap();
        });
        assert_eq!(mock.asked().len(), 2);
    }

    #[test]
    fn what_is_for_later_is_told_with_its_subject() {
        let mock = busy(usize::MAX, "3600");
        with_setup(Vec::new(), |setup| {
            let call =
                Call { method: "GET", url: url(&mock), fields: Vec::new(), most: 99, asks_first: false };
            let mut caller = Caller::new(setup);
            for error in [
                caller.delete("clear it", url(&mock)).unwrap_err(),
                caller.done("clear it", &call, &mut AtHand::default()).unwrap_err(),
            ] {
                assert!(
                    error.is_for_later() && error.to_string().starts_with("cannot clear it: "),
                    "{error}"
                );
            }
        });
    }

    #[test]
    fn the_words_of_a_store_are_told_rather_than_its_status() {
        let mock = busy(1, "0");
        with_setup(Vec::new(), |setup| {
            Caller::new(CallerSetup { retries: 1, ..setup }).delete("clear it", url(&mock)).unwrap();
            let words = setup.http.waits().words().unwrap_or_default();
            assert!(words.contains("less of it"), "{words}");
        });
    }
}
