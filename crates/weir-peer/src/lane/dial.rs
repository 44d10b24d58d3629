//! Making a lane: connect, greet, prove, and have it proved.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::Lane;
use crate::error::LaneError;
use crate::secure::Keyring;
use crate::wire::message::{Listening, Role};
use crate::wire::record::greeting;

/// Tries the addresses one after another until one is the other end of this session, for `patience` in all.
pub fn dial(
    at: &Listening,
    lane: u32,
    keyring: &Keyring,
    role: Role,
    patience: Duration,
) -> Result<Lane, String> {
    let start = Instant::now();
    let mut why = "the other end has no address".to_owned();
    for (index, address) in at.addresses.iter().enumerate() {
        let left = patience.saturating_sub(start.elapsed());
        // An address that swallows packets must leave time for those after it.
        let share = left / (at.addresses.len() - index) as u32;
        if share.is_zero() {
            break;
        }
        let address = SocketAddr::new(*address, at.port);
        match attempt(address, lane, keyring, role, share) {
            Ok(lane) => return Ok(lane),
            Err(error) => why = format!("{address}: {error}"),
        }
    }
    Err(why)
}

fn attempt(
    address: SocketAddr,
    lane: u32,
    keyring: &Keyring,
    role: Role,
    patience: Duration,
) -> Result<Lane, LaneError> {
    let until = Instant::now() + patience;
    let stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_write_timeout(Some(patience))?;
    let mut lane = Lane::new(lane, stream, keyring, role)?;
    lane.stream.write_all(&greeting(lane.id))?;
    lane.say_hello()?;
    lane.hear_hello(until)?;
    lane.settle()?;
    Ok(lane)
}
