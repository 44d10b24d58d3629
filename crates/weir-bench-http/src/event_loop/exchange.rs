//! A request and its answer over one connection.

use std::cmp::Reverse;
use std::io;
use std::time::Duration;

use super::connecting::Failure;
use super::{EventLoop, ROUND, Source};
use crate::answer::Complete;
use crate::connection::Phase;
use crate::reason::Reason;
use crate::request;
use crate::tally::Times;

/// Buffers that one connection is read at most before the others have their turn: 4 MiB, a few milliseconds
/// of a server that sends as fast as it can. Most answers are one buffer. What takes long to be taken apart
/// ends its turn with the round.
const TURN: usize = 16;

/// What became of a connection after what was read had been taken apart.
enum Taken {
    /// More of its answer may come.
    More,
    /// It has its next request, or is closed.
    Moved,
}

impl EventLoop<'_> {
    /// The connection is free for its next request.
    pub(super) fn ready(&mut self, index: usize) {
        self.settle(index);
        if !self.grant(index) {
            return self.retire(index);
        }
        if let Source::Scripted(script, _) = &self.source {
            // Said while its answer was looked at: wrk asks nothing after it.
            if script.said_stop() {
                return self.retire(index);
            }
            let asked = self.shared.now();
            let delay = script.delay();
            self.meter.tally.spent.script += self.shared.since(asked);
            match delay {
                Ok(None) => {}
                Ok(Some(delay)) => {
                    let connection = &mut self.connections[index];
                    connection.phase = Phase::Delayed;
                    connection.wake_at = self.now.saturating_add(delay.as_nanos() as u64);
                    return self.wakes.push(Reverse((connection.wake_at, index)));
                }
                Err(error) => return self.failed = Some(error),
            }
        }
        match self.schedule.as_mut().map(|schedule| schedule.take(self.now)) {
            None => self.begin(index, None),
            Some(Some(planned)) => self.begin(index, Some(planned)),
            Some(None) => {
                self.connections[index].phase = Phase::Ready;
                self.idle.push_back(index);
            }
        }
    }

    /// Sends the next request; a closed loop's is planned for when it is ready.
    pub(super) fn begin(&mut self, index: usize, planned: Option<u64>) {
        self.settle(index);
        let connection = &mut self.connections[index];
        connection.due = match &self.source {
            Source::Same(_, depth) | Source::Kept(_, depth, _) => *depth,
            Source::Scripted(script, depth) => {
                let asked = self.shared.now();
                match script.request(&mut connection.request) {
                    Ok(true) => {}
                    Ok(false) => return self.retire(index),
                    Err(error) => return self.failed = Some(error),
                }
                request::note_heads(&connection.request, *depth, &mut connection.heads);
                self.shared.beat(self.index);
                // What the script takes is no latency of the server's.
                self.now = self.shared.now();
                self.meter.tally.spent.script += Duration::from_nanos(self.now.saturating_sub(asked));
                *depth
            }
        };
        connection.granted = false;
        (connection.planned, connection.begun) = (planned.unwrap_or(self.now), self.now);
        connection.settled = self.now;
        (connection.sent, connection.sent_all, connection.first_byte) = (0, false, None);
        connection.phase = Phase::Sending;
        self.send(index);
    }

    pub(super) fn send(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(wire) = &mut connection.wire else { return };
        let request = match &self.source {
            Source::Same(request, _) | Source::Kept(request, ..) => request,
            Source::Scripted(..) => &connection.request,
        };
        let before = connection.sent;
        match wire.write(request, &mut connection.sent) {
            Ok(done) => {
                self.meter.tally.sent += (connection.sent - before) as u64;
                if done {
                    connection.sent_all = true;
                    connection.phase = Phase::Waiting;
                    if self.shared.settings.rows > 0 {
                        connection.written = self.shared.now();
                    }
                }
            }
            // A server that had enough may have answered before it closed.
            Err(error) => {
                // A buffer of its own: the loop's may be in use further up. What is beyond one turn is no
                // answer to wait for.
                self.read_into(index, &mut [0; 16 << 10], true);
                if self.connections[index].phase == Phase::Sending {
                    self.fail(index, Failure::Because(Reason::of_write(&error)));
                }
            }
        }
    }

    /// Takes what is there; up to the end of the stream where that has come (`ended`). What is more than one
    /// turn takes, or comes late in a round, waits in `unread`: the kernel tells of it no second time.
    pub(super) fn read(&mut self, index: usize, ended: bool) {
        if let Some(before) = &mut self.connections[index].unread {
            *before |= ended;
        } else if self.is_late() || !self.unread.is_empty() {
            // Behind those that wait already, or they would wait for ever.
            self.read_later(index, ended);
        } else {
            self.read_turn(index, ended);
        }
    }

    fn read_later(&mut self, index: usize, ended: bool) {
        self.connections[index].unread = Some(ended);
        self.unread.push_back(index);
    }

    /// A turn for each connection that was not read to its end, in the order in which they were left, while
    /// the round lasts.
    pub(super) fn read_on(&mut self) {
        for _ in 0..self.unread.len() {
            let Some(index) = self.unread.pop_front() else { return };
            // One that was closed meanwhile has nothing left.
            if let Some(ended) = self.connections[index].unread.take() {
                self.read_turn(index, ended);
            }
            if self.is_over() || self.is_late() {
                return;
            }
        }
    }

    /// The round has lasted long enough.
    fn is_late(&self) -> bool {
        self.now.saturating_sub(self.round) > ROUND
    }

    fn read_turn(&mut self, index: usize, ended: bool) {
        // Out of the loop's hands while answers are taken from it.
        let mut buffer = std::mem::take(&mut self.buffer);
        self.read_into(index, &mut buffer, ended);
        self.buffer = buffer;
        // A peer that closed after its answer takes no other request.
        if ended && matches!(self.connections[index].phase, Phase::Ready | Phase::Delayed) {
            self.left(index);
        }
    }

    fn read_into(&mut self, index: usize, buffer: &mut [u8], ended: bool) {
        for _ in 0..TURN {
            let connection = &mut self.connections[index];
            let Some(wire) = &mut connection.wire else { return };
            let count = match wire.read(buffer) {
                Ok(0) => return self.ended(index),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) if connection.due == 0 => return self.left(index),
                Err(error) => return self.fail(index, Failure::Read(error)),
            };
            let drained = !ended && count < buffer.len() && wire.short_read_means_empty();
            self.meter.tally.received += count as u64;
            match self.take(index, &buffer[..count], ended) {
                Taken::More if drained => return,
                Taken::More => {}
                Taken::Moved => return,
            }
            // The clock, so that the round ends, and the run, also while nothing is answered.
            self.now = self.clock_now();
            // Where the request could not be sent there is no later turn.
            if self.is_late() && self.connections[index].sent_all {
                break;
            }
        }
        self.read_later(index, ended);
    }

    /// Takes what was read apart.
    fn take(&mut self, index: usize, mut bytes: &[u8], ended: bool) -> Taken {
        while !bytes.is_empty() {
            let connection = &mut self.connections[index];
            if connection.due == 0 {
                // Nobody asked for this.
                self.fail(index, Failure::Because(Reason::Unasked));
                return Taken::Moved;
            }
            let heads = match &self.source {
                Source::Scripted(..) => &connection.heads,
                Source::Same(..) | Source::Kept(..) => &self.heads,
            };
            // The answers come in the order of the requests.
            let place = heads.len().checked_sub(connection.due);
            let is_head = place.and_then(|place| heads.get(place)).is_some_and(|is_head| *is_head);
            let kept = self.keeps.then_some(&mut connection.kept);
            let fed = connection.answer.feed(bytes, &mut self.last, is_head, kept);
            match fed {
                Err(wrong) => {
                    let reason = Reason::of_answer(wrong);
                    if reason == Reason::NotHttp {
                        let front = connection.answer.front();
                        self.meter.tally.found_strange(if front.is_empty() { bytes } else { front });
                    }
                    self.fail(index, Failure::Because(reason));
                    return Taken::Moved;
                }
                Ok((_, None)) => {
                    if connection.first_byte.is_none() {
                        connection.first_byte = Some(self.shared.now());
                        connection.hastened = self.meter.tally.spent.hastens();
                    }
                    if let Some(wire) = connection.wire.as_ref().filter(|_| connection.hastened) {
                        wire.acknowledge();
                    }
                    return Taken::More;
                }
                Ok((used, Some(complete))) => {
                    bytes = &bytes[used..];
                    self.answered(index, complete);
                    let connection = &self.connections[index];
                    if self.failed.is_some() {
                        return Taken::Moved;
                    }
                    if !complete.keep_alive {
                        self.reopen_after_answer(index);
                        return Taken::Moved;
                    }
                    if connection.due == 0 && bytes.is_empty() {
                        self.free(index, ended);
                        return Taken::Moved;
                    }
                }
            }
        }
        Taken::More
    }

    /// A whole answer has come.
    pub(super) fn answered(&mut self, index: usize, complete: Complete) {
        self.now = self.shared.now();
        let connection = &mut self.connections[index];
        connection.due -= 1;
        connection.failures = 0;
        let first = self.meter.tally.answered(complete.status, complete.body, complete.keep_alive);
        if first {
            self.meter.tally.first_head = self.last.bytes().to_vec();
        }
        if self.keeps {
            if self.shared.settings.shows_answers {
                self.shared.observer.answered(complete.status, &connection.kept);
            }
            if let Source::Scripted(script, _) = &self.source {
                let asked = self.shared.now();
                if let Err(error) = script.response(complete.status, &connection.kept) {
                    self.failed = Some(error);
                }
                self.meter.tally.spent.script += self.shared.since(asked);
                self.shared.beat(self.index);
            }
            connection.kept.body.clear();
        }
        if connection.due > 0 {
            return;
        }
        if let Some(first) = connection.first_byte {
            let inside = Duration::from_nanos(self.now.saturating_sub(first));
            self.meter.tally.spent.came_in_pieces(inside, connection.hastened);
        }
        let times = Times {
            planned: connection.planned,
            begun: connection.begun,
            written: connection.written,
            first_byte: connection.first_byte.take(),
            ended: self.now,
            connect: connection.connect_begun.take().map(|begun| (begun, connection.connected)),
        };
        self.meter.tally.timed(&times, self.shared.settings.rows);
    }

    /// After the last answer that was due.
    fn free(&mut self, index: usize, ended: bool) {
        // What was answered before it was asked in full leaves the connection in no known state.
        if !ended && self.shared.settings.keep_alive && self.connections[index].sent_all {
            self.ready(index);
        } else {
            self.reopen(index);
        }
    }
}
