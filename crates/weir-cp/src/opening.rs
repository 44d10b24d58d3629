//! The first words between the driver and a far end, one after another on the control connection.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_codec::cipher::Cipher;

use crate::ciphers;
use crate::control::{Control, Outlet};
use crate::error::CopyError;
use crate::events::{Events, lost};
use crate::hello;
use crate::lane::way::LaneOptions;
use crate::secret::Secret;
use crate::ssh::{Far, Host};
use crate::wire::driver::{FromDriver, ToDriver};
use crate::wire::frame::{self, Kind};
use crate::wire::message::{Hello, Options, Ports, Role, Start, Transport};
use crate::wire::messages::{Heard, Message};
use crate::wire::to_receiver::ToReceiver;

/// Starts a far end; returns it with the way to talk to it.
pub fn reach(
    host: &Host,
    version: &str,
    stop: &Arc<AtomicBool>,
    events: &Events,
) -> Result<(Far, Arc<Control>), CopyError> {
    let mut far = host.start(version, stop)?;
    let control = control_of(&mut far, events)?;
    Ok((far, control))
}

/// How a far end is started.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Meeting<'a> {
    /// ssh may ask a person for something.
    Plain,
    /// Nobody is there to be asked.
    Unattended,
    /// Nor here; the far end is to give its connection to the process that holds there under this word.
    Holder(&'a Secret),
}

/// Starts a far end. The hello of one that holds comes too.
pub(crate) fn meet(
    host: &Host,
    version: &str,
    way: Meeting<'_>,
    stop: &Arc<AtomicBool>,
    events: &Events,
) -> Result<(Far, Arc<Control>, Option<Hello>), CopyError> {
    if let Meeting::Plain = way {
        let (far, control) = reach(host, version, stop, events)?;
        return Ok((far, control, None));
    }
    let shown = host.shown().to_owned();
    let hears = Arc::new(move |line: &str| tracing::debug!("{shown}: {line}"));
    let mut far = host.start_unattended(version, stop, hears)?;
    let control = control_of(&mut far, events)?;
    let Meeting::Holder(word) = way else { return Ok((far, control, None)) };
    heard(&mut far, events)?;
    Outlet::new(&control).send(&FromDriver::Join(word.clone()));
    let hello = heard(&mut far, events)?;
    Ok((far, control, Some(hello)))
}

/// The way to talk to a far end.
pub(crate) fn control_of(far: &mut Far, events: &Events) -> Result<Arc<Control>, CopyError> {
    let mut input = far.input.take().ok_or_else(|| events.gone(None))?;
    // Of a far end that has more to tell than is taken here nobody can expect that it listens.
    input.exemption = Some(events.crowd());
    Ok(Arc::new(Control::new(input)))
}

/// What a far end says before its lanes stand and a thread listens to it: of a sender also what it has
/// for the receiver.
pub type Early = Heard<ToDriver, ToReceiver>;

/// A far end's first words.
pub fn heard(far: &mut Far, events: &Events) -> Result<Hello, CopyError> {
    match next(far, events)? {
        Some(Heard::Driver(ToDriver::Hello(theirs))) => {
            hello::check(events.host(), &theirs)?;
            Ok(theirs)
        }
        _ => Err(events.out_of_turn("something before hello")),
    }
}

/// A far end's next message; none where it is nothing that is said so early.
pub fn next(far: &mut Far, events: &Events) -> Result<Option<Early>, CopyError> {
    let said = match next_of(far.output.as_mut().ok_or_else(|| events.gone(None))?, events) {
        Err(CopyError::Lost { host, why: None }) => {
            return Err(CopyError::Lost { host, why: far.how_it_ended() });
        }
        said => said?,
    };
    match said {
        Some(Heard::Driver(ToDriver::Abort(failure))) => Err(CopyError::aborted(failure)),
        message => Ok(message),
    }
}

/// The next message of a session that has not begun; none where it is of another direction.
pub(crate) fn next_of<M: Message>(input: &mut impl Read, events: &Events) -> Result<Option<M>, CopyError> {
    let mut body = Vec::new();
    match frame::read(input, &mut body).map_err(|error| lost(events, &error))? {
        Some(Kind::Message) => {
            events.read(&body).map_err(|error| hello::of_another(events.host(), &body).unwrap_or(error))
        }
        Some(Kind::Record) => Err(events.out_of_turn("a record before the start")),
        None => Err(events.gone(None)),
    }
}

/// The lanes' cipher: the fastest of both ends.
pub fn cipher(lanes: &LaneOptions, one: &Hello, other: &Hello) -> Option<Cipher> {
    (!lanes.plain).then(|| ciphers::fastest(&one.ciphers, &other.ciphers))
}

/// The lanes to begin with: within one host two, so that a second processor takes part; `None` for one, and
/// more where they help.
pub(crate) fn lanes_at_first(lanes: &LaneOptions, near: bool) -> Option<u32> {
    let two = near && weir_observe::cpu::available_cpus() > 1;
    lanes.count.or(two.then_some(2))
}

/// What an end of this role is to do.
pub(crate) fn start_of(
    role: Role,
    paths: Vec<Vec<u8>>,
    lanes: &LaneOptions,
    options: &Options,
    (secret, cipher): (&Secret, Option<Cipher>),
) -> Start {
    let listens = lanes.transport != Some(Transport::Ssh);
    Start {
        secret: secret.clone(),
        cipher: cipher.map_or(0, |cipher| cipher.id()),
        role,
        listen: listens.then_some(lanes.ports.unwrap_or(Ports { first: 0, last: 0 })),
        options: options.clone(),
        paths,
    }
}
