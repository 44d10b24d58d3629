//! A connection's making and ending, and what failures cost.

use std::cmp::Reverse;
use std::io;
use std::os::fd::AsFd;

use rustix::event::epoll;

use super::EventLoop;
use crate::connection::{Phase, backoff};
use crate::reason::Reason;
use crate::wire::{Progress, Wire};

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Failure {
    Connect(io::Error),
    Read(io::Error),
    Because(Reason),
}

impl EventLoop<'_> {
    /// Opens a connection, if there is something left to ask.
    pub(super) fn open(&mut self, index: usize) {
        if !self.grant(index) {
            return self.retire(index);
        }
        self.settle(index);
        let connection = &mut self.connections[index];
        connection.answer.reset();
        connection.connect_begun = Some(self.now);
        connection.phase = Phase::Connecting;
        if self.dials(index) {
            return;
        }
        let opened = {
            let settings = &self.shared.settings;
            Wire::connect(&self.address, settings.tls.as_ref(), settings.window)
        };
        if let Err(why) = opened.and_then(|wire| self.watch(index, wire)) {
            self.fail(index, Failure::Connect(why));
        }
    }

    /// From now on events tell of what happens to `wire`, which is the connection's.
    pub(super) fn watch(&mut self, index: usize, wire: Wire) -> io::Result<()> {
        let interest =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, wire.as_fd(), epoll::EventData::new_u64(index as u64), interest)?;
        self.connections[index].wire = Some(wire);
        Ok(())
    }

    /// Opens the connection when its turn of the ramp comes.
    pub(super) fn open_in_turn(&mut self, index: usize) {
        let turn = self.shared.turn(self.index, index);
        if turn == 0 {
            return self.open(index);
        }
        let connection = &mut self.connections[index];
        connection.wake_at = self.now.saturating_add(turn);
        self.wakes.push(Reverse((connection.wake_at, index)));
    }

    pub(super) fn go_on_connecting(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(wire) = &mut connection.wire else { return };
        match wire.open() {
            Ok(Progress::Waiting) => {}
            Ok(Progress::Ready) => {
                self.now = self.clock_now();
                let connection = &mut self.connections[index];
                connection.connected = self.now;
                let took = self.now.saturating_sub(connection.connect_begun.unwrap_or(self.now));
                self.meter.tally.connect.saturating_record(took);
                self.ready(index);
            }
            Err(why) => self.fail(index, Failure::Connect(why)),
        }
    }

    /// Whether the connection may make a request.
    pub(super) fn grant(&mut self, index: usize) -> bool {
        let depth = self.source.depth();
        let connection = &mut self.connections[index];
        connection.granted = connection.granted || self.shared.grant(depth);
        connection.granted
    }

    pub(super) fn retire(&mut self, index: usize) {
        self.settle(index);
        let connection = &mut self.connections[index];
        if connection.phase != Phase::Retired {
            connection.phase = Phase::Retired;
            connection.wire = None;
            self.active -= 1;
        }
    }

    /// After an answer that ends the connection. Answers that were still due on it will not come.
    pub(super) fn reopen_after_answer(&mut self, index: usize) {
        let lost = self.connections[index].due as u64;
        self.meter.tally.failed(Reason::ClosedUnanswered, lost);
        self.reopen(index);
    }

    pub(super) fn reopen(&mut self, index: usize) {
        self.close(index);
        self.open(index);
    }

    pub(super) fn close(&mut self, index: usize) {
        self.settle(index);
        let connection = &mut self.connections[index];
        // epoll forgets a socket that is closed.
        connection.wire = None;
        connection.due = 0;
        connection.unread = None;
        connection.kept.body.clear();
        if connection.phase == Phase::Ready {
            self.idle.retain(|other| *other != index);
        }
        connection.phase = Phase::Closed;
    }

    /// The peer has closed its end.
    pub(super) fn ended(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.due == 0 {
            return self.left(index);
        }
        match connection.answer.end() {
            Some(complete) => {
                self.answered(index, complete);
                if self.failed.is_none() {
                    self.reopen_after_answer(index);
                }
            }
            None => {
                let reason = connection.answer.missing();
                self.fail(index, Failure::Because(reason));
            }
        }
    }

    /// What the connection was to carry has failed: all answers that are due on it, or the requests that were
    /// granted to it; bytes that nobody asked for are one failure.
    pub(super) fn fail(&mut self, index: usize, failure: Failure) {
        let connection = &self.connections[index];
        let lost = if connection.granted { self.source.depth() } else { connection.due.max(1) };
        let lost = lost as u64;
        // What is planned keeps its place in the plan until it is asked; of counted requests (`-n`) it is
        // spent.
        let is_counted = self.shared.settings.requests.is_some();
        if self.schedule.is_some() && !is_counted && connection.due == 0 {
            self.meter.tally.attempts += lost;
        }
        match failure {
            Failure::Connect(why) => self.meter.tally.refused(why, lost),
            Failure::Read(why) => self.meter.tally.broke(why, !connection.answer.is_fresh(), lost),
            Failure::Because(reason) => self.meter.tally.failed(reason, lost),
        }
        self.connections[index].granted = false;
        self.rest(index);
    }

    /// The peer has closed a connection on which nothing was asked. One that never had an answer is made
    /// again after a pause: a server that takes connections and closes them at once would otherwise be
    /// flooded with them.
    pub(super) fn left(&mut self, index: usize) {
        match self.connections[index].connect_begun {
            Some(_) => self.rest(index),
            None => self.reopen(index),
        }
    }

    /// Closes the connection until some time has passed.
    fn rest(&mut self, index: usize) {
        self.close(index);
        let connection = &mut self.connections[index];
        connection.failures += 1;
        // Never from within: a server that refuses at once would make this a recursion.
        connection.wake_at = self.now + backoff(connection.failures).as_nanos() as u64;
        self.wakes.push(Reverse((connection.wake_at, index)));
    }
}
