//! Connections that a [`Way`] makes: asked for here, made on threads beside the loop, taken from a queue when
//! an event tells of them.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll, eventfd};

use super::EventLoop;
use super::connecting::Failure;
use crate::connection::Phase;
use crate::error::LoadError;
use crate::way::{Way, dial_beside};
use crate::wire::Wire;

/// The event that tells of made connections; no connection has this number, nor has the timer.
pub(super) const DIALED: u64 = u64::MAX - 1;

/// A connection that was made, or not: its number, when it was asked for, and what came of it.
type Made = (usize, u64, io::Result<TcpStream>);

/// A loop's queue of made connections.
pub(super) struct Dialing {
    way: Arc<dyn Way>,
    bell: Arc<OwnedFd>,
    sender: Sender<Made>,
    made: Receiver<Made>,
}

impl Dialing {
    pub(super) fn new(way: &Arc<dyn Way>, epoll: &OwnedFd) -> Result<Dialing, LoadError> {
        let make = || {
            let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
            epoll::add(epoll, &bell, epoll::EventData::new_u64(DIALED), epoll::EventFlags::IN)?;
            Ok(bell)
        };
        let bell = make().map_err(|cause: rustix::io::Errno| LoadError::system("make an event", cause))?;
        let (sender, made) = channel();
        Ok(Dialing { way: Arc::clone(way), bell: Arc::new(bell), sender, made })
    }

    fn ask(&self, index: usize, begun: u64, timeout: Duration) -> io::Result<()> {
        let (sender, bell) = (self.sender.clone(), Arc::clone(&self.bell));
        dial_beside(&self.way, timeout, move |result| {
            // A loop that has ended takes none.
            if sender.send((index, begun, result)).is_ok() {
                let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
            }
        })
    }
}

impl EventLoop<'_> {
    /// Asks for a connection by the way there is; false without one.
    pub(super) fn dials(&mut self, index: usize) -> bool {
        let Some(dialing) = &self.dialing else { return false };
        if let Err(why) = dialing.ask(index, self.now, self.shared.settings.timeout) {
            self.fail(index, Failure::Connect(why));
        }
        true
    }

    /// Takes the connections that were made meanwhile.
    pub(super) fn take_dialed(&mut self) {
        if let Some(dialing) = &self.dialing {
            let _ = rustix::io::read(&*dialing.bell, &mut [0; 8]);
        }
        while let Some(Ok((index, begun, result))) =
            self.dialing.as_ref().map(|dialing| dialing.made.try_recv())
        {
            let connection = &self.connections[index];
            // One that came too late was given up, and another has been asked for.
            if connection.phase != Phase::Connecting || connection.connect_begun != Some(begun) {
                continue;
            }
            let settings = &self.shared.settings;
            let over = |stream| Wire::over(stream, settings.tls.as_ref(), settings.window);
            match result.and_then(over).and_then(|wire| self.watch(index, wire)) {
                Ok(()) => self.go_on_connecting(index),
                Err(why) => self.fail(index, Failure::Connect(why)),
            }
        }
    }
}
