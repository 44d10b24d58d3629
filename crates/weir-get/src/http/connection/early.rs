//! What a server says before it has all of a request: that it wants the body, or that it does not.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_http::head::{ResponseHead, parse_response_to};
use weir_observe::stage_clock::StageClock;

use super::{Connection, Dial};
use crate::error::GetError;

impl Connection {
    /// Waits for `100 Continue`, no longer than `limit`; the head of an answer that came in its place.
    pub(crate) fn await_continue(
        &mut self,
        method: &str,
        limit: Duration,
        clock: &StageClock,
        dial: &Dial<'_>,
    ) -> Result<Option<ResponseHead>, GetError> {
        let deadline = Instant::now() + limit;
        while !dial.is_stopped() {
            let parsed = parse_response_to(method, &self.buffer[self.decoded..self.filled]);
            match parsed.map_err(|error| self.malformed(error.to_string()))? {
                Some((head, length)) => {
                    self.decoded += length;
                    match head.status {
                        100 => return Ok(None),
                        _ if head.is_interim() => {}
                        _ => {
                            // Whether the server still waits for the body, nobody can tell.
                            self.left = true;
                            self.begin_body(method, &head, dial)?;
                            return Ok(Some(head));
                        }
                    }
                }
                None if Instant::now() >= deadline => return Ok(None),
                None => self.receive_head(clock, dial)?,
            }
        }
        Err(GetError::Interrupted)
    }

    /// No TLS, neither to the server nor to a proxy.
    pub(super) fn is_plain(&self) -> bool {
        self.session.is_none() && self.outer.is_none()
    }

    /// Bytes, or an end, have come to the socket.
    pub(super) fn is_readable(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        matches!(poll(&mut polled, Some(&Timespec::default())), Ok(ready) if ready > 0)
    }

    /// The head of an answer that has come while the request's body is still under way. Of a TLS session that
    /// is not known before it is read: what has come may be a ticket.
    pub(crate) fn early_answer(
        &mut self,
        method: &str,
        clock: &StageClock,
        dial: &Dial<'_>,
    ) -> Result<Option<ResponseHead>, GetError> {
        if !self.is_plain() || !self.is_readable() {
            return Ok(None);
        }
        self.receive_head(clock, dial)?;
        loop {
            let parsed = parse_response_to(method, &self.buffer[self.decoded..self.filled]);
            let Some((head, length)) = parsed.map_err(|error| self.malformed(error.to_string()))? else {
                return Ok(None);
            };
            self.decoded += length;
            if !head.is_interim() {
                self.left = true;
                self.begin_body(method, &head, dial)?;
                return Ok(Some(head));
            }
        }
    }

    /// A request was left in its middle: the connection carries no other.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }
}
