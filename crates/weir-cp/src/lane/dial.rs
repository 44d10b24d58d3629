//! Making a lane: connect, greet, prove, and have it proved.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{Lane, direction};
use crate::error::LaneError;
use crate::secure::Keyring;
use crate::wire::message::{Listening, Role};
use crate::wire::record::greeting;

/// How often an address is tried that takes connections and lets them go before it has answered: a door that
/// strangers crowd does so to one in many.
const TRIES: u32 = 5;

/// Between two such tries.
const REST: Duration = Duration::from_millis(50);

/// Tries the addresses one after another until one is the other end of this session, for `timeout` in all.
pub fn dial(
    at: &Listening,
    lane: u32,
    keyring: &Keyring,
    role: Role,
    timeout: Duration,
) -> Result<Lane, String> {
    let start = Instant::now();
    let mut why = "the other end has no address".to_owned();
    for (index, address) in at.addresses.iter().enumerate() {
        let left = timeout.saturating_sub(start.elapsed());
        // An address that swallows packets must leave time for those after it.
        let share = left / (at.addresses.len() - index) as u32;
        if share.is_zero() {
            break;
        }
        let address = SocketAddr::new(*address, at.port);
        match try_again(address, lane, keyring, role, share) {
            Ok(lane) => return Ok(lane),
            Err(error) => why = format!("{address}: {error}"),
        }
    }
    Err(why)
}

/// One address, for `timeout` in all.
fn try_again(
    address: SocketAddr,
    lane: u32,
    keyring: &Keyring,
    role: Role,
    timeout: Duration,
) -> Result<Lane, LaneError> {
    let until = Instant::now() + timeout;
    let mut tries = 1;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match attempt(address, lane, keyring, role, left) {
            Err(LaneError::LetGo) if tries < TRIES && left > 2 * REST => {
                tries += 1;
                std::thread::sleep(REST);
            }
            other => return other,
        }
    }
}

fn attempt(
    address: SocketAddr,
    lane: u32,
    keyring: &Keyring,
    role: Role,
    timeout: Duration,
) -> Result<Lane, LaneError> {
    let until = Instant::now() + timeout;
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_write_timeout(Some(timeout))?;
    let mut lane = Lane::new(lane, stream, keyring, role)?;
    let (out, _) = direction(role);
    let greeting = greeting(lane.id, &keyring.cookie(lane.id, out));
    let greeted = lane.stream.write_all(&greeting).and_then(|()| lane.say_hello());
    greeted.map_err(LaneError::from).and_then(|()| lane.hear_hello(until)).map_err(let_go)?;
    lane.settle()?;
    Ok(lane)
}

/// The connection stood, and was ended before the other end had said a word.
fn let_go(error: LaneError) -> LaneError {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    match &error {
        LaneError::Io(cause)
            if matches!(cause.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof) =>
        {
            LaneError::LetGo
        }
        _ => error,
    }
}
