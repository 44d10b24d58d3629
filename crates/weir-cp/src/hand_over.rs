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

/// Starts a far end of this very version for a worker of a fleet: what is said over its streams from here on
/// is the fleet's. Nobody is asked for a password.
///
/// # Errors
/// Whatever keeps ssh, or weir there, from running; [`CopyError::Version`] where another weir runs there.
pub fn start(host: &Host, version: &str, stop: &Arc<AtomicBool>, hears: Hears) -> Result<Far, CopyError> {
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
    let words = [own, to_frame(&FromDriver::Fleet)].concat();
    input.write_all(&words).and_then(|()| input.flush()).map_err(|error| lost(&events, &error))?;
    Ok(far)
}
