//! Frames of the control connection: length, kind, body.

use std::io::{self, Read};

use serde::Serialize;

use super::messages::{LAST, Message};
use super::record::{HEADER, MAX_PLAIN, TAG};

/// The largest body of a message: what a command line names (2 MiB where the stack has its usual bound,
/// execve(2)), with what is told of each source.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;

/// The largest body of a record that goes this way.
const MAX_RECORD: usize = HEADER + MAX_PLAIN + TAG;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A control message.
    Message = 0,
    /// A lane's record, where the data go through ssh.
    Record = 1,
}

/// Bytes of a frame's header.
pub const HEAD: usize = 5;

/// A frame that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Empty, or larger than its kind may be.
    #[error("a frame of {0} bytes")]
    Length(u32),
    /// Of no known kind.
    #[error("a frame of kind {0}")]
    Kind(u8),
    /// A message that is none, or longer than itself.
    #[error("a message of unknown form")]
    Message,
}

/// A frame's header: kind, and length of the body.
pub fn parse_head(head: [u8; HEAD]) -> Result<(Kind, usize), Malformed> {
    let [a, b, c, d, kind] = head;
    let length = u32::from_le_bytes([a, b, c, d]);
    let (kind, most) = match kind {
        0 => (Kind::Message, MAX_MESSAGE),
        1 => (Kind::Record, MAX_RECORD),
        other => return Err(Malformed::Kind(other)),
    };
    if length == 0 || length as usize > most {
        return Err(Malformed::Length(length));
    }
    Ok((kind, length as usize))
}

/// A frame's header for a body of `length` bytes.
pub fn head(kind: Kind, length: usize) -> [u8; HEAD] {
    let [a, b, c, d] = (length as u32).to_le_bytes();
    [a, b, c, d, kind as u8]
}

/// A message from a frame's body, to its last byte; none where it is one of another direction.
pub fn parse_message<M: Message>(body: &[u8]) -> Result<Option<M>, Malformed> {
    match M::take(body) {
        Some(Ok((message, []))) if message.is_sound() => Ok(Some(message)),
        None if body.first().is_some_and(|number| *number <= LAST) => Ok(None),
        _ => Err(Malformed::Message),
    }
}

/// A message as a whole frame.
pub fn to_frame(message: &(impl Message + Serialize)) -> Vec<u8> {
    let frame = head(Kind::Message, 0).to_vec();
    // Serialising into memory fails only for types without a length, of which there is none.
    let mut frame = postcard::to_extend(message, frame).expect("messages can be serialised");
    debug_assert!(frame.len() - HEAD <= MAX_MESSAGE, "{} bytes", frame.len());
    let length = frame.len() - HEAD;
    frame[..HEAD].copy_from_slice(&head(Kind::Message, length));
    frame
}

/// Reads a frame's body into `body`; `None` at the end of the stream.
pub fn read(from: &mut impl Read, body: &mut Vec<u8>) -> io::Result<Option<Kind>> {
    let mut head = [0; HEAD];
    if from.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..])?;
    let (kind, length) =
        parse_head(head).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    body.resize(length, 0);
    from.read_exact(body)?;
    Ok(Some(kind))
}
