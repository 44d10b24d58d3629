//! What becomes of one download, and what is to be done next? Its whole life is this state machine: no file,
//! no socket, no clock and no lock. Lanes drive it: they do what an [`Action`] says and tell what came of it.
//!
//! `asking` has the way from a job to its object, `bulk` that of an object which lanes share. Which byte
//! belongs to which lane is the ledger's matter, what an answer says of its object is [`crate::object`]'s,
//! which job or part a lane takes up is the pool's.
//!
//! A lane that takes a job up has its machine; once lanes share the object it is in the
//! [`crate::transfer::Transfer`], and goes back into the queue where the download begins anew. What the lanes
//! of the old attempt still hold is then `Replaced`: whatever they bring changes nothing.
//!
//! [`Phase`] has three members beside those that one would expect, for what is true of a download: `Ending`,
//! between the decision to give up and what is kept of it (of several lanes that fail only one ends it);
//! `Kept`, an existing file that stays as it is; and `Replaced`.

mod asking;
mod bulk;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use weir_observe::names::Lookup;
use weir_units::Bytes;
use weir_units::backoff::doubled;

pub(crate) use self::asking::SMALL;
pub use self::asking::{Destination, Rest, Step, Taken, Wishes};
pub use self::bulk::{Bulk, BulkSeen, Carried, Carry, LEAST_PART, Standing};
use crate::error::GetError;
use crate::job::{JobOutcome, Options};
use crate::version::Version;

/// First pause after a failure; doubled each time up to `MAX_PAUSE`, and spread by half either way so that
/// many clients do not come back together.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How often an object may change under us before we stop following it; the last time it comes over one
/// connection.
const MAX_RESTARTS: u32 = 3;

/// Connections on which the version of a transfer is looked for before all of it is thrown away: of two
/// servers that take turns the second answers on the second.
const VERSION_TRIES: u32 = 3;

/// Where a download is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// In the queue, perhaps for a pause.
    #[default]
    Waiting,
    /// A lane looks at what an earlier run left, and asks for the object.
    Asking,
    /// Its answer is read whole.
    Small,
    /// Lanes carry its parts.
    Bulk,
    /// As `Bulk`; an answer was of another version, or may have been, and a lane asks what the URL gives now.
    Doubted,
    /// All bytes are here: digests are compared and the file gets its name.
    Verifying,
    /// It was given up; what is here is being kept or discarded.
    Ending,
    /// Complete, verified and named.
    Done,
    /// The existing file stays as it is.
    Kept,
    /// Incomplete; a later run can resume it.
    Partial,
    /// Nothing is kept.
    Failed,
    /// It began anew, and went back into the queue.
    Replaced,
}

impl Phase {
    /// No event changes it any more.
    pub fn is_final(self) -> bool {
        matches!(self, Phase::Done | Phase::Kept | Phase::Partial | Phase::Failed | Phase::Replaced)
    }
}

/// What the driver is to do.
#[derive(Debug)]
pub enum Action {
    /// Nothing: it is over, or another lane is at it. This one takes other work.
    Leave,
    /// Back into the queue, to be asked for at once.
    AskAgain,
    /// Back into the queue until this name has an address, or has none.
    AwaitName(Lookup),
    /// Back into the queue for as long as `pause`.
    AskLater {
        /// What failed.
        error: GetError,
        /// How long.
        pause: Duration,
    },
    /// This lane pauses; others carry, or ask.
    Rest {
        /// How long.
        pause: Duration,
        /// The server refused this connection while others carry.
        refused: Option<GetError>,
    },
    /// The next part after a pause.
    BackOff {
        /// What failed.
        error: GetError,
        /// How long.
        pause: Duration,
        /// The lane waits here; else its place is free for another download meanwhile.
        stays: bool,
        /// Others carry: the failed connection may have been one too many.
        others: bool,
    },
    /// Ask on a new connection what the URL gives now, and tell [`Download::on_look`].
    Look(GetError),
    /// Carry the answer to that: it holds the lane's bytes up to here (`None`: to the object's end).
    Carry(Option<u64>),
    /// Ask without a range whether all of it would come, and tell [`Download::on_plain`].
    AskPlainly(GetError),
    /// Drop what is here; back into the queue for as long as `pause`.
    BeginAnew {
        /// Why.
        error: GetError,
        /// How long.
        pause: Duration,
        /// The download from here on. What the lanes have is replaced.
        next: Box<Download>,
    },
    /// Compare digests, give the file its name, and tell [`Download::on_verified`].
    Verify,
    /// End it with this error, and tell [`Download::on_given_up`] what is left of it.
    GiveUp(GetError),
    /// As `GiveUp`: the server asks for a longer wait than is allowed, and so much of that is used up.
    ComeBack {
        /// What the server said.
        error: GetError,
        /// Waited for this download already.
        used: Duration,
    },
}

/// What the user allows a download.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Attempts after the first that bring nothing new.
    pub retries: u32,
    /// The longest wait that a server may ask for.
    pub max_wait: Duration,
    /// Bytes that a connection broken off as too slow must have brought to count as progress.
    pub drip: u64,
}

impl Rules {
    /// Those of `options`.
    pub fn of(options: &Options) -> Rules {
        Rules { retries: options.retries, max_wait: options.max_wait, drip: options.speed.quota() }
    }
}

/// The moment of an event.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// What holds in this run.
    pub rules: Rules,
    /// The time.
    pub time: Instant,
    /// A number by chance, in [0, 1), that spreads pauses.
    pub chance: f64,
    /// The run ends.
    pub is_stopping: bool,
}

impl Moment {
    /// The pause after so many failures in a row.
    fn pause(&self, failures: u32, error: &GetError) -> Duration {
        let doubled = doubled(FIRST_PAUSE, failures.saturating_sub(1), MAX_PAUSE);
        let spread = doubled.mul_f64(0.5 + self.chance);
        // A longer wait than the user allows ends the file, unless other connections bring it.
        let asked = error.retry_after().map(|asked| asked.min(self.rules.max_wait));
        asked.map_or(spread, |asked| asked.max(spread))
    }
}

/// What is left of a download that is given up.
#[derive(Debug, Clone, Copy)]
pub enum Remains {
    /// It went out in order, and cannot be had back.
    Stream,
    /// Its object was not at work yet; an earlier run kept so many bytes.
    Earlier(u64),
    /// A part file.
    Part {
        /// Bytes in it.
        kept: u64,
        /// It is complete and verified, and its target may hold the half of it.
        is_precious: bool,
        /// It has its name, under which the user finds it.
        is_there: bool,
        /// A later run will find it.
        will_be_found: bool,
        /// A later run could fetch the rest.
        is_resumable: bool,
    },
}

/// How a download ends that was given up.
#[derive(Debug)]
pub struct Ending {
    /// What the report says.
    pub outcome: JobOutcome,
    /// The part file goes.
    pub discards: bool,
}

/// One download.
#[derive(Debug, Clone, Default)]
pub struct Download {
    phase: Phase,
    /// Failures in a row that brought nothing new.
    failures: u32,
    /// Failures in a row with which all went that had come, since it could not be gone on with.
    lost: u32,
    /// Times it began anew for another reason than those.
    restarts: u32,
    /// It is asked for without a range: over one connection, and not to be resumed.
    plain: bool,
    /// It goes on with bytes that another program left.
    on_trust: bool,
    /// Bytes of the last body that ended with a TLS session that was not ended in order.
    unclean: Option<u64>,
    /// Waited because a server asked for it, since it last brought something.
    waited: Duration,
    /// The last answer broke off.
    is_cut: bool,
    /// Waited for another weir that writes the same file.
    lent: Duration,
    /// The version of the object and its size, where announced, as an answer of this run had them.
    seen: Option<Box<(Version, Option<u64>)>>,
    asking: asking::Asking,
    /// Answers in a row that were not of the version that is here.
    looks: u32,
    bulk: Option<Box<Bulk>>,
}

impl Download {
    /// What stays where a download has gone elsewhere: to the lanes that share it, or back into the queue.
    pub fn replaced() -> Download {
        Download { phase: Phase::Replaced, ..Download::default() }
    }

    /// Where it is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// It ended, well or not, or is about to; lanes let go of it.
    pub fn is_over(&self) -> bool {
        self.phase.is_final() || matches!(self.phase, Phase::Verifying | Phase::Ending)
    }

    /// A lane's attempt failed with `error`; `at` says how the others stand.
    pub fn on_error(&mut self, error: GetError, at: &Standing, moment: &Moment) -> Action {
        match (self.phase, &self.bulk) {
            (Phase::Asking | Phase::Small | Phase::Verifying, None) => self.question_failed(error, moment),
            (Phase::Bulk | Phase::Doubted, Some(_)) if !moment.is_stopping => {
                self.part_failed(error, at, moment)
            }
            _ => Action::Leave,
        }
    }

    /// All bytes of it are here.
    pub fn on_complete(&mut self) -> Action {
        match self.phase {
            Phase::Bulk | Phase::Doubted => {
                self.phase = Phase::Verifying;
                Action::Verify
            }
            _ => Action::Leave,
        }
    }

    /// Its digests were compared and the file got its name, or one of both failed.
    pub fn on_verified(&mut self, result: Result<(), GetError>, moment: &Moment) -> Action {
        match result {
            _ if self.phase != Phase::Verifying => Action::Leave,
            Ok(()) => {
                self.phase = Phase::Done;
                Action::Leave
            }
            // Another program's beginning was not of this object.
            Err(error) if error.is_verification() && std::mem::take(&mut self.on_trust) => {
                self.begin_anew(error, false, moment)
            }
            Err(error) => self.give_up(error),
        }
    }

    /// The existing file stays as it is; where it came meanwhile, what was fetched goes.
    pub fn on_kept(&mut self) {
        if matches!(self.phase, Phase::Asking | Phase::Verifying) {
            self.phase = Phase::Kept;
        }
    }

    /// The run ends. Returns whether that ends the download, which is then to be given up.
    pub fn on_stop(&mut self) -> bool {
        let is_at_work = !self.is_over();
        if is_at_work {
            self.phase = Phase::Ending;
        }
        is_at_work
    }

    /// It was given up with `error`, and `remains` is here of it: keeps that where a later run can go on from
    /// it.
    pub fn on_given_up(&mut self, error: GetError, remains: Remains) -> Ending {
        let ending = ending(error, remains);
        if self.phase == Phase::Ending {
            self.phase = match ending.outcome {
                JobOutcome::Partial(_) => Phase::Partial,
                _ => Phase::Failed,
            };
        }
        ending
    }

    fn advance(&mut self, from: Phase, to: Phase) {
        if self.phase == from {
            self.phase = to;
        }
    }

    fn give_up(&mut self, error: GetError) -> Action {
        self.phase = Phase::Ending;
        Action::GiveUp(error)
    }

    /// Gives up where the server asks for a longer wait than what is left.
    fn come_back(&mut self, error: GetError) -> Action {
        self.phase = Phase::Ending;
        Action::ComeBack { error, used: self.waited }
    }

    /// The object changed, or cannot be gone on with: once more from its URL and byte 0; `plain`: without a
    /// range.
    fn begin_anew(&mut self, error: GetError, plain: bool, moment: &Moment) -> Action {
        self.restarts += 1;
        if self.restarts > MAX_RESTARTS || !self.bulk.as_ref().is_some_and(|bulk| bulk.to_file) {
            return self.give_up(error);
        }
        let pause = moment.pause(self.restarts, &error);
        // The last time over one connection: one answer is of one version, whatever each further one would be
        // of.
        self.plain = plain || self.restarts == MAX_RESTARTS;
        (self.failures, self.lost) = (0, 0);
        self.requeue(error, pause)
    }

    /// Back into the queue for as long as `pause`, and then from its URL and byte 0.
    fn requeue(&mut self, error: GetError, pause: Duration) -> Action {
        let own = std::mem::replace(self, Download::replaced());
        let next = Download { phase: Phase::Waiting, bulk: None, ..own };
        Action::BeginAnew { error, pause, next: Box::new(next) }
    }

    /// A pause counts where a server asked for it.
    fn waits_for(&mut self, error: &GetError, pause: Duration) {
        if let Some(asked) = error.retry_after() {
            self.waited += asked.min(pause);
        }
    }
}

/// What becomes of what is here after `error`.
fn ending(error: GetError, remains: Remains) -> Ending {
    let is_perhaps_whole = matches!(error, GetError::Unclean { .. });
    let keeps = |error| Ending { outcome: JobOutcome::Partial(error), discards: false };
    // What is for later is so whatever is kept of it.
    let fails = |error: GetError, discards| match error.is_for_later() {
        true => Ending { outcome: JobOutcome::Partial(error), discards },
        false => Ending { outcome: JobOutcome::Failed(error), discards },
    };
    match remains {
        Remains::Stream if is_perhaps_whole => keeps(error),
        // What an earlier run left stays, and it is not what has a wrong digest.
        Remains::Earlier(_) if error.is_verification() => fails(error, false),
        Remains::Earlier(bytes) if bytes > 0 && !matches!(error, GetError::Locked { .. }) => keeps(error),
        Remains::Stream | Remains::Earlier(_) => fails(error, false),
        // The error says where the complete download is, and what its target holds.
        Remains::Part { is_precious: true, .. } => fails(error, false),
        Remains::Part { kept, is_there: true, .. } if is_perhaps_whole && kept > 0 => keeps(error),
        Remains::Part { kept, will_be_found, is_resumable, .. } => {
            if !will_be_found || error.is_verification() || !is_resumable || kept == 0 {
                return fails(error, true);
            }
            keeps(match error {
                GetError::Local { action, path, source, .. } => {
                    GetError::Local { action, path, source, kept: Some(Bytes(kept)) }
                }
                error => error,
            })
        }
    }
}
