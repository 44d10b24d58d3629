//! An end of a session, whichever role it has.
//!
//! A driver between two far ends is the third kind: it has no role, and hands on what they say to each other.

use std::io::Read;
use std::sync::Arc;

use crate::between::Between;
use crate::control::Control;
use crate::error::Error;
use crate::events::{Event, Events, lost, read_message};
use crate::lane::Lane;
use crate::meter::Meter;
use crate::receiver::Receiver;
use crate::secure::Keyring;
use crate::sender::Sender;
use crate::wire::frame::{self, Kind};
use crate::wire::measure::Measure;
use crate::wire::message::{
    Failure, FailureKind, Found, MAX_SAMPLE, Message, Role, Totals, Transport,
};

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
