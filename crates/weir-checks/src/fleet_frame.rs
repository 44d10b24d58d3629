//! A frame between `weir fleet run` and a worker that it started, or between `weir get --to-hosts` and the
//! command that it started, as each direction reads it.

use weir_fleet::launch::far_command::{FromCommand, ToCommand};
use weir_fleet::launch::wire::{self, FleetMessage, ToHub, ToWorker};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let framed = is_read::<ToHub>(bytes) | is_read::<ToWorker>(bytes);
    let command = is_read::<ToCommand>(bytes) | is_read::<FromCommand>(bytes);
    let parsed = is_parsed::<ToHub>(bytes) | is_parsed::<ToWorker>(bytes);
    framed | command | parsed | is_parsed::<ToCommand>(bytes) | is_parsed::<FromCommand>(bytes)
}

/// Reads frames up to the first malformed one; each that was read can be written and read again.
fn is_read<M: FleetMessage>(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut understood = false;
    while let Ok(Some(message)) = wire::read::<M>(&mut rest) {
        let written = wire::to_frame(&message).expect("what was read is no larger than may be written");
        assert!(matches!(wire::read::<M>(&mut &written[..]), Ok(Some(_))));
        understood = true;
    }
    understood
}

fn is_parsed<M: FleetMessage>(bytes: &[u8]) -> bool {
    wire::parse::<M>(bytes).is_some()
}
