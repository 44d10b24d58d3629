//! An end of a session, whichever role it has, and how its threads tell whoever runs it.
//!
//! A driver between two far ends is the third kind: it has no role, and hands on what they say to each other.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Sender as Mailbox;
use std::time::Duration;

use weir_model::evidence::LaneWindow;

use crate::between::Between;
use crate::control::Control;
use crate::error::Error;
use crate::lane::Lane;
use crate::measure::Meter;
use crate::patience::{self, Ended, Excuse};
use crate::receiver::Receiver;
use crate::secure::Keyring;
use crate::sender::Sender;
use crate::watch::Sample;
use crate::wire::frame::{self, Kind};
use crate::wire::measure::Measure;
use weir_tree::Name;

use crate::wire::message::{
    Deed, Failure, FailureKind, Found, Listening, MAX_SAMPLE, Message, Problem, Role, Totals, Transport,
};

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
    /// Goes to the other end, after what this end told before: a problem must not come after the end of all.
    Say(Message),
    /// A path that could not be read or written.
    Problem(Problem),
    /// What a dry run would do, or what was done.
    Would(Deed, Name),
    /// The receiver has all.
    Finished(Totals),
    /// This end's window of evidence.
    Window(Box<Sample>),
    /// The window of evidence of a far end of this role, as JSON.
    Sample(Role, String),
    /// The sender wants more names of the list.
    MoreNames,
    /// The session cannot go on.
    Failed(Error),
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

/// Bytes of events that may wait to be taken: whoever has more to tell waits too, since a terminal that was stopped, or a far end
/// that talks without end, must not fill the memory.
const WAITING: usize = 4 << 20;

/// One end.
#[derive(Debug, Clone)]
pub enum End {
    /// Of the one who sends.
    Sender(Arc<Sender>),
    /// Of the one who receives.
    Receiver(Arc<Receiver>),
    /// Of either, where nothing is copied.
    Meter(Arc<Meter>),
    /// Of the one between two others, where it hears the one of this role.
    Between(Arc<Between>, Role),
}

impl Event {
    /// What it holds in memory, of the kinds that may come in any number; 0 of others.
    fn weight(&self) -> usize {
        match self {
            Event::Problem(problem) => 64 + problem.name.as_bytes().len() + problem.failure.words.len(),
            Event::Would(_, name) => 64 + name.as_bytes().len(),
            Event::Sample(_, json) => 64 + json.len(),
            Event::Window(sample) => {
                size_of::<Sample>() + sample.window.lanes.len() * size_of::<LaneWindow>()
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

    /// Tells it. Nobody hears it once the session is over, and nobody needs to.
    /// Of those that may come in any number the teller waits until there is room; evidence that nobody takes is dropped.
    pub fn send(&self, event: Event) {
        if matches!(&event, Event::Problem(problem) if !problem.harmless) {
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
    pub fn crowd(&self) -> Excuse {
        let waiting = Arc::clone(&self.waiting);
        Excuse::new(move || waiting.load(Relaxed) > WAITING)
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
    pub fn gone(&self, why: Option<String>) -> Error {
        Error::Lost { host: self.host.clone(), why }
    }

    /// The other end said something that it may not say.
    pub fn out_of_turn(&self, what: &'static str) -> Error {
        Error::OutOfTurn { host: self.host.clone(), what }
    }
}

impl End {
    /// What the end does that this one hears.
    pub fn far(&self) -> Role {
        match self {
            End::Sender(_) => Role::Receiver,
            End::Receiver(_) => Role::Sender,
            End::Meter(meter) => meter.role().other(),
            End::Between(_, far) => *far,
        }
    }

    /// A lane stands.
    pub fn add_lane(&self, lane: Lane) {
        match self {
            End::Sender(sender) => sender.add_lane(lane),
            End::Receiver(receiver) => receiver.add_lane(lane),
            End::Meter(meter) => meter.add_lane(lane),
            // Its lanes end at the others.
            End::Between(..) => {}
        }
    }

    /// The lane inside ssh stands.
    pub fn add_ssh_lane(&self, id: u32) {
        match self {
            End::Sender(sender) => sender.add_ssh_lane(id),
            End::Receiver(receiver) => receiver.add_ssh_lane(id),
            End::Meter(meter) => meter.add_ssh_lane(id),
            End::Between(..) => {}
        }
    }

    /// Ends all work.
    pub fn stop(&self) {
        match self {
            End::Sender(sender) => sender.stop(),
            End::Receiver(receiver) => receiver.stop(),
            End::Meter(meter) => meter.stop(),
            End::Between(between, _) => between.stop(),
        }
    }

    /// What the sender's walk has found, as far as this end knows.
    pub fn found(&self) -> Found {
        match self {
            End::Sender(sender) => sender.has_found(),
            End::Receiver(receiver) => receiver.found(),
            End::Meter(_) => Found::default(),
            End::Between(between, _) => between.found(),
        }
    }

    /// Bytes of all files, once all are found.
    pub fn total(&self) -> Option<u64> {
        let found = self.found();
        found.all.then_some(found.bytes)
    }

    /// What was done so far.
    pub fn totals(&self) -> Totals {
        match self {
            End::Sender(sender) => sender.totals(),
            End::Receiver(receiver) => receiver.totals(),
            End::Meter(_) => Totals::default(),
            End::Between(between, _) => between.totals(),
        }
    }

    /// What the other end says.
    pub fn handle(&self, message: Message, events: &Events) -> Result<(), Error> {
        let event = match message {
            Message::Dial(at, lane) => Event::Dial(at, lane),
            Message::Dialled(lane, why) => Event::Dialled(lane, why),
            Message::Open(lane, Transport::Ssh) => {
                self.add_ssh_lane(lane);
                return Ok(());
            }
            Message::Open(_, Transport::Tcp) => return Ok(()),
            Message::Strangers(count) => Event::Strangers(count),
            Message::Problem(problem) => Event::Problem(problem),
            Message::Sample(json) => Event::Sample(self.far(), json),
            Message::Alive => return Ok(()),
            Message::MoreNames if self.far() == Role::Sender => Event::MoreNames,
            Message::Tally(_, found) => {
                if let End::Receiver(receiver) = self {
                    receiver.told(found);
                }
                return Ok(());
            }
            Message::Abort(failure) if failure.kind == FailureKind::Interrupted => {
                Event::Failed(Error::Interrupted)
            }
            Message::Abort(failure) => Event::Failed(Error::Far(failure)),
            Message::Hello(_)
            | Message::Start(_)
            | Message::Listening(_)
            | Message::Measure(Measure::Begin(_)) => {
                return Err(events.out_of_turn("what is said at the start"));
            }
            message => {
                return match self {
                    End::Sender(sender) => sender.handle(message),
                    End::Receiver(receiver) => receiver.handle(message),
                    End::Meter(meter) => meter.handle(message),
                    End::Between(..) => Err(events.out_of_turn("what is said to an end")),
                };
            }
        };
        events.send(event);
        Ok(())
    }
}

/// Reads the control connection to its end and hands on what comes. Never waits for a write to it, or two ends could
/// wait for each other.
pub fn listen_to(mut control: impl Read, end: &End, events: &Events) {
    let mut body = Vec::new();
    let failed = loop {
        let next = match (frame::read(&mut control, &mut body), end) {
            (Ok(Some(kind)), End::Between(between, far)) => between.hear(*far, kind, &body, events),
            (Ok(Some(Kind::Message)), _) => {
                read_message(&body, events).and_then(|message| end.handle(message, events))
            }
            (Ok(Some(Kind::Record)), End::Receiver(receiver)) => {
                receiver.handle_record(std::mem::take(&mut body))
            }
            (Ok(Some(Kind::Record)), End::Meter(meter)) => meter.handle_record(&body),
            (Ok(Some(Kind::Record)), End::Sender(_)) => Err(events.out_of_turn("a record")),
            // Of two ends that may close, which one.
            (Ok(None), End::Between(..)) => Err(events.gone(None)),
            (Ok(None), _) => return events.send(Event::Closed),
            (Err(error), _) => Err(lost(events, &error)),
        };
        if let Err(error) = next {
            break error;
        }
    };
    events.send(Event::Failed(failed));
}

/// A message from a frame's body.
pub fn read_message(body: &[u8], events: &Events) -> Result<Message, Error> {
    frame::parse_message(body).map_err(|what| Error::Frame { host: events.host().to_owned(), what })
}

/// A control connection that broke.
pub fn lost(events: &Events, error: &std::io::Error) -> Error {
    let host = events.host().to_owned();
    match patience::ended(error) {
        Some(Ended::Interrupted) => return Error::Interrupted,
        Some(silent) => return Error::Lost { host, why: Some(silent.to_string()) },
        None => {}
    }
    match error.get_ref().and_then(|inner| inner.downcast_ref::<frame::Malformed>()) {
        Some(what) => Error::Frame { host, what: *what },
        None => Error::Lost { host, why: Some(weir_units::plain(error)) },
    }
}

/// An event told to the far end.
pub fn tell(control: &Control, event: Event) {
    match event {
        Event::Problem(problem) => control.send(&Message::Problem(problem)),
        Event::Say(message) => control.send(&message),
        Event::Would(deed, name) => control.send(&Message::Would(deed, name)),
        Event::LaneLost(lane, why) => control.send(&Message::LaneLost(lane, why)),
        Event::Strangers(count) => control.send(&Message::Strangers(count)),
        Event::Failed(error) => control.send(&Message::Abort(error.to_failure())),
        Event::Window(sample) => match serde_json::to_string(&sample) {
            Ok(json) if json.len() <= MAX_SAMPLE => control.send(&Message::Sample(json)),
            Ok(json) => tracing::debug!("a window of evidence of {} bytes is not told", json.len()),
            Err(error) => tracing::debug!("a window of evidence: {error}"),
        },
        _ => {}
    }
}

/// Keys, role and mailbox of an end: what is needed to make lanes.
#[derive(Debug, Clone)]
pub struct Context {
    /// Of this session.
    pub keyring: Keyring,
    /// Of this end.
    pub role: Role,
    /// To whoever runs it.
    pub events: Events,
}

impl Context {
    /// A failure of the session.
    pub fn failure(words: impl Into<String>) -> Error {
        Error::Refused(Failure::new(FailureKind::Session, words))
    }
}
