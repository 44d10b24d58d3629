//! An end of a session, whichever role it has.
//!
//! A driver between two far ends is the third kind: it has no role, and hands on what they say to each other.

use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use crate::error::CopyError;
use crate::events::{Event, Events, lost};
use crate::lane::Lane;
use crate::meter::Meter;
use crate::receiver::Receiver;
use crate::relay::Relay;
use crate::secure::Keyring;
use crate::sender::Sender;
use crate::wire::driver::{FromDriver, ToDriver};
use crate::wire::frame::{self, Kind};
use crate::wire::message::{Failure, FailureKind, Found, Role, Totals, Transport};

/// Which of the two that a control connection joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Post {
    /// The process that the user started.
    Driver,
    /// The one that ssh started on the other host.
    Peer,
}

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
    Relay(Arc<Relay>, Role),
}

impl End {
    /// What the end does that this one hears.
    pub fn far(&self) -> Role {
        match self {
            End::Sender(_) => Role::Receiver,
            End::Receiver(_) => Role::Sender,
            End::Meter(meter) => meter.role().other(),
            End::Relay(_, far) => *far,
        }
    }

    /// A lane stands.
    pub fn add_lane(&self, lane: Lane) {
        match self {
            End::Sender(sender) => sender.add_lane(lane),
            End::Receiver(receiver) => receiver.add_lane(lane),
            End::Meter(meter) => meter.add_lane(lane),
            // Its lanes end at the others.
            End::Relay(..) => {}
        }
    }

    /// The lane inside ssh stands.
    pub(crate) fn add_ssh_lane(&self, id: u32) {
        match self {
            End::Sender(sender) => sender.add_ssh_lane(id),
            End::Receiver(receiver) => receiver.add_ssh_lane(id),
            End::Meter(meter) => meter.add_ssh_lane(id),
            End::Relay(..) => {}
        }
    }

    /// Ends all work.
    pub fn stop(&self) {
        match self {
            End::Sender(sender) => sender.stop(),
            End::Receiver(receiver) => receiver.stop(),
            End::Meter(meter) => meter.stop(),
            End::Relay(relay, _) => relay.stop(),
        }
    }

    /// What the sender's walk has found, as far as this end knows.
    pub fn found(&self) -> Found {
        match self {
            End::Sender(sender) => sender.has_found(),
            End::Receiver(receiver) => receiver.found(),
            End::Meter(_) => Found::default(),
            End::Relay(relay, _) => relay.found(),
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
            End::Relay(relay, _) => relay.totals(),
        }
    }

    /// When the sender was last heard, where this end is between two others.
    pub(crate) fn sender_heard(&self) -> Option<Instant> {
        match self {
            End::Relay(relay, _) => Some(relay.sender_heard()),
            _ => None,
        }
    }

    /// Acts on a message that came on the control connection, as driver or as peer.
    pub fn hear(&self, post: Post, body: &[u8], events: &Events) -> Result<(), CopyError> {
        let heard = match post {
            Post::Peer => events.read(body)?.map(|said| self.hear_driver(said, events)),
            Post::Driver => events.read(body)?.map(|said| self.hear_peer(said, events)),
        };
        match (heard, self) {
            (Some(heard), _) => heard,
            (None, End::Sender(sender)) => match events.read(body)? {
                Some(said) => sender.handle(said),
                None => Err(events.out_of_turn("what only a sender says")),
            },
            (None, End::Receiver(receiver)) => match events.read(body)? {
                Some(said) => receiver.handle(said),
                None => Err(events.out_of_turn("what only a receiver says")),
            },
            (None, End::Meter(_)) => Err(events.out_of_turn("what belongs to a copy, while only measuring")),
            (None, End::Relay(..)) => Err(events.out_of_turn("what is said to an end")),
        }
    }

    /// A peer hears its driver.
    fn hear_driver(&self, said: FromDriver, events: &Events) -> Result<(), CopyError> {
        match (said, self) {
            (FromDriver::Dial(at, lane), _) => events.send(Event::Dial(at, lane)),
            (FromDriver::Open(lane, Transport::Ssh), _) => self.add_ssh_lane(lane),
            (FromDriver::Open(_, Transport::Tcp) | FromDriver::Alive, _) => {}
            (FromDriver::Abort(failure), _) => events.send(Event::Failed(CopyError::aborted(failure))),
            (FromDriver::Retire(lane), End::Sender(sender)) => sender.retire(lane),
            (FromDriver::Names(names), End::Sender(sender)) => sender.take_piece(names),
            (FromDriver::PassedOn, End::Sender(sender)) => sender.pass_on(),
            (FromDriver::Retire(lane), End::Meter(meter)) if meter.role() == Role::Sender => {
                meter.retire(lane)
            }
            (FromDriver::Names(names), End::Meter(meter)) if meter.role() == Role::Sender => {
                meter.take_piece(names)
            }
            (FromDriver::Ask(ask), End::Meter(meter)) => return meter.begin(ask),
            (
                FromDriver::Hello(_) | FromDriver::Start(_) | FromDriver::Measure(_) | FromDriver::Grows(..),
                _,
            ) => {
                return Err(events.out_of_turn(AT_THE_START));
            }
            _ => return Err(events.out_of_turn("what is not for this end")),
        }
        Ok(())
    }

    /// The driver hears a peer.
    fn hear_peer(&self, said: ToDriver, events: &Events) -> Result<(), CopyError> {
        let event = match (said, self.far()) {
            (ToDriver::Dialled(lane, why), _) => Event::Dialled(lane, why),
            (ToDriver::Strangers(count), _) => Event::Strangers(count),
            (ToDriver::Problem(problem), Role::Receiver) => Event::ProblemThere(problem),
            (ToDriver::Problem(problem) | ToDriver::ProblemThere(problem), Role::Sender) => {
                Event::Problem(problem)
            }
            (ToDriver::Sample(json), far) => Event::Sample(far, json),
            (ToDriver::Abort(failure), _) => Event::Failed(CopyError::aborted(failure)),
            (ToDriver::Would(deed, name), Role::Receiver) => Event::Would(deed, name),
            (ToDriver::MoreNames, Role::Sender) => Event::MoreNames,
            (ToDriver::Tally(_, found), _) => {
                if let End::Receiver(receiver) = self {
                    receiver.told(found);
                }
                return Ok(());
            }
            (ToDriver::Found(found), _) => {
                return match self {
                    End::Meter(meter) => meter.told(*found),
                    _ => Err(events.out_of_turn("what was measured, in a copy")),
                };
            }
            (ToDriver::Alive, _) => return Ok(()),
            (ToDriver::Hello(_) | ToDriver::Listening(_), _) => return Err(events.out_of_turn(AT_THE_START)),
            (ToDriver::Echo(_), _) => return Err(events.out_of_turn("what only one that holds says")),
            (ToDriver::Would(..) | ToDriver::MoreNames | ToDriver::ProblemThere(_), _) => {
                return Err(events.out_of_turn("what only its other role says"));
            }
        };
        events.send(event);
        Ok(())
    }
}

/// For messages that belong before the lanes.
const AT_THE_START: &str = "what is said at the start";

/// Reads the control connection to its end and hands on what comes. Never waits for a write to it, or two
/// ends could wait for each other.
pub fn listen_to(mut control: impl Read, end: &End, post: Post, events: &Events) {
    let mut body = Vec::new();
    let failed = loop {
        let next = match (frame::read(&mut control, &mut body), end) {
            (Ok(Some(kind)), End::Relay(relay, far)) => relay.hear(*far, kind, &body, events),
            (Ok(Some(Kind::Message)), _) => end.hear(post, &body, events),
            (Ok(Some(Kind::Record)), End::Receiver(receiver)) => {
                receiver.handle_record(std::mem::take(&mut body))
            }
            (Ok(Some(Kind::Record)), End::Meter(meter)) => meter.handle_record(&body),
            (Ok(Some(Kind::Record)), End::Sender(_)) => Err(events.out_of_turn("a record")),
            // Of two ends that may close, which one.
            (Ok(None), End::Relay(..)) => Err(events.gone(None)),
            (Ok(None), _) => return events.send(Event::Closed),
            (Err(error), _) => Err(lost(events, &error)),
        };
        if let Err(error) = next {
            break error;
        }
    };
    events.send(Event::Failed(failed));
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
    pub fn failure(words: impl Into<String>) -> CopyError {
        CopyError::Refused(Failure::new(FailureKind::Session, words))
    }
}
