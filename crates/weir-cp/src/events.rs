//! How the threads of an end tell whoever runs it. Where the system refuses one of several threads that
//! do the same, the others do its work; without a thread that is the only one of its kind the session
//! ends with a word, at both ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Sender as Mailbox;
use std::time::Duration;

use weir_model::evidence::LaneInterval;
use weir_tree::Name;

use crate::error::CopyError;
use crate::idle_timeout::{self, Ended, Exemption};
use crate::threads;
use crate::watch::Sample;
use crate::wire::frame;
use crate::wire::message::{Deed, Listening, Problem, Role, Totals};
use crate::wire::messages::Message;
use crate::wire::to_receiver::ToReceiver;
use crate::wire::to_sender::ToSender;

/// Something that whoever runs an end has to know.
#[derive(Debug)]
pub enum Event {
    /// The driver asks this end to connect as this lane.
    Dial(Listening, u32),
    /// How the far end's connecting went.
    Dialled(u32, Option<String>),
    /// A lane stands.
    LaneUp(u32),
    /// A lane is over, and why.
    LaneLost(u32, String),
    /// Connections to a port for lanes that were none of the session's, so far.
    Strangers(u64),
    /// Goes to the receiver, after what this end told before: a problem must not come after the end of all.
    ToReceiver(ToReceiver),
    /// Goes to the sender, as late.
    ToSender(ToSender),
    /// A path that could not be read or written.
    Problem(Problem),
    /// The same of the receiver, where this end sends.
    ProblemThere(Problem),
    /// What a dry run would do, or what was done.
    Would(Deed, Name),
    /// The receiver has all.
    Finished(Totals),
    /// This end's interval of evidence.
    Window(Box<Sample>),
    /// The interval of evidence of a far end of this role, as JSON.
    Sample(Role, String),
    /// The sender wants more names of the list.
    MoreNames,
    /// The session cannot go on.
    Failed(CopyError),
    /// The far end closed the connection.
    Closed,
}

/// A way to tell.
#[derive(Debug, Clone)]
pub struct Events {
    host: String,
    to: Mailbox<Event>,
    /// Bytes of what was told and not yet taken, about.
    waiting: Arc<AtomicUsize>,
    /// A path could not be read or written.
    failed: Arc<AtomicBool>,
}

/// Bytes of events that may wait to be taken: whoever has more to tell waits too, since a terminal that was
/// stopped, or a far end that talks without end, must not fill the memory.
const WAITING: usize = 4 << 20;

impl Event {
    /// What it holds in memory, of the kinds that may come in any number; 0 of others.
    fn weight(&self) -> usize {
        match self {
            Event::Problem(problem) | Event::ProblemThere(problem) => {
                64 + problem.name.as_bytes().len() + problem.failure.words.len()
            }
            Event::Would(_, name) => 64 + name.as_bytes().len(),
            Event::Sample(_, json) => 64 + json.len(),
            Event::Window(sample) => {
                size_of::<Sample>() + sample.interval.lanes.len() * size_of::<LaneInterval>()
            }
            _ => 0,
        }
    }
}

impl Events {
    /// Events of a session with `host`.
    pub fn new(host: &str, to: Mailbox<Event>) -> Events {
        Events { host: host.to_owned(), to, waiting: Arc::default(), failed: Arc::default() }
    }

    /// The same under another name: what waits counts for both.
    pub fn named(&self, host: &str) -> Events {
        Events { host: host.to_owned(), ..self.clone() }
    }

    /// The other end, for words.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Tells it. Nobody hears it once the session is over, and nobody needs to. Of those that may come in any
    /// number the teller waits until there is room; evidence that nobody takes is dropped.
    pub fn send(&self, event: Event) {
        if matches!(&event, Event::Problem(problem) | Event::ProblemThere(problem) if !problem.harmless) {
            self.failed.store(true, Relaxed);
        }
        let weight = event.weight();
        while weight > 0 && self.waiting.load(Relaxed) > WAITING {
            if let Event::Sample(..) | Event::Window(_) = event {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.waiting.fetch_add(weight, Relaxed);
        if self.to.send(event).is_err() {
            self.waiting.fetch_sub(weight, Relaxed);
        }
    }

    /// An event was taken out of the mailbox.
    pub fn taken(&self, event: &Event) {
        self.waiting.fetch_sub(event.weight(), Relaxed);
    }

    /// That more is told than whoever runs this end takes: its output may be a pager.
    pub fn crowd(&self) -> Exemption {
        let waiting = Arc::clone(&self.waiting);
        Exemption::new(move || waiting.load(Relaxed) > WAITING)
    }

    /// Whether a path that could not be read or written was told of.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// A path that could not be read or written.
    pub fn problem(&self, problem: Problem) {
        self.send(Event::Problem(problem));
    }

    /// The other end is not there any more.
    pub fn gone(&self, why: Option<String>) -> CopyError {
        CopyError::Lost { host: self.host.clone(), why }
    }

    /// The other end said something that it may not say.
    pub(crate) fn out_of_turn(&self, what: &'static str) -> CopyError {
        CopyError::OutOfTurn { host: self.host.clone(), what }
    }

    /// What the other end says, from a frame's body; none where it is of another direction.
    pub fn read<M: Message>(&self, body: &[u8]) -> Result<Option<M>, CopyError> {
        frame::parse_message(body).map_err(|what| CopyError::Frame { host: self.host.clone(), what })
    }

    /// A thread without which a session cannot go on.
    pub(crate) fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) {
        if let Err(source) = threads::start(name, work) {
            self.send(Event::Failed(CopyError::Threads { source }));
        }
    }

    /// So many threads that do the same, or fewer where the system refuses some; one at least, or the session
    /// cannot go on.
    pub(crate) fn spawn_several<W: FnOnce() + Send + 'static>(
        &self,
        name: &str,
        count: u32,
        work: impl Fn() -> W,
    ) {
        for started in 0..count {
            match threads::start(name, work()) {
                Ok(()) => {}
                Err(source) if started == 0 => {
                    return self.send(Event::Failed(CopyError::Threads { source }));
                }
                Err(why) => {
                    return tracing::warn!(
                        "{name}: {started} threads instead of {count}: {}",
                        weir_units::plain(&why)
                    );
                }
            }
        }
    }
}

/// A control connection that broke.
pub fn lost(events: &Events, error: &std::io::Error) -> CopyError {
    let host = events.host().to_owned();
    match idle_timeout::ended(error) {
        Some(Ended::Interrupted) => return CopyError::Interrupted,
        Some(silent) => return CopyError::Lost { host, why: Some(silent.to_string()) },
        None => {}
    }
    match error.get_ref().and_then(|inner| inner.downcast_ref::<frame::Malformed>()) {
        Some(what) => CopyError::Frame { host, what: *what },
        None => CopyError::Lost { host, why: Some(weir_units::plain(error)) },
    }
}
