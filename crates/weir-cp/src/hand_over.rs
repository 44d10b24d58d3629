//! A far end that is started as for a copy, and then serves another purpose over the same connection.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

use crate::error::CopyError;
use crate::events::{Events, lost};
use crate::hello;
use crate::opening;
use crate::overheard::Hears;
use crate::ssh::{Far, Host};
use crate::wire::driver::FromDriver;
use crate::wire::frame::to_frame;

/// What a far end is for that copies nothing itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It is a worker of a fleet.
    Fleet,
    /// It runs one command of weir.
    Command,
}

/// Starts a far end of this very version for `purpose`: what is said over its streams from here on has words
/// of its own. Nobody is asked for a password.
///
/// # Errors
/// Whatever keeps ssh, or weir there, from running; [`CopyError::Version`] where another weir runs there.
pub fn start(
    host: &Host,
    version: &str,
    purpose: Purpose,
    stop: &Arc<AtomicBool>,
    hears: Hears,
) -> Result<Far, CopyError> {
    // Nothing is told by it before lanes stand.
    let (mailbox, _events) = channel();
    let events = Events::new(host.shown(), mailbox);
    let mut far = host.start_unattended(version, stop, hears)?;
    let theirs = opening::heard(&mut far, &events)?;
    if theirs.version != version {
        let (host, ours) = (host.shown().to_owned(), version.to_owned());
        return Err(CopyError::Version { host, theirs: theirs.version, ours });
    }
    let input = far.input.as_mut().ok_or_else(|| events.gone(None))?;
    let own = to_frame(&FromDriver::Hello(hello::own(version, Vec::new())));
    let wish = match purpose {
        Purpose::Fleet => FromDriver::Fleet,
        Purpose::Command => FromDriver::Command,
    };
    let words = [own, to_frame(&wish)].concat();
    input.write_all(&words).and_then(|()| input.flush()).map_err(|error| lost(&events, &error))?;
    Ok(far)
}
