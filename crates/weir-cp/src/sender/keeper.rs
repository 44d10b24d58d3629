//! The lanes of a sender, from where they stand to where they are over. Also those that end while nobody
//! sends on them: nobody else would notice, and what they have not landed would be waited for for ever.

use std::collections::HashSet;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use weir_observe::tcp_info::{self, TcpInfo};

use super::lanes::Lanes;
use super::shared::Shared;
use super::silence::Silence;
use crate::events::Event;
use crate::lane::{self, Lane, LaneSender};
use crate::secure::Keyring;
use crate::tuning;
use crate::wire::record::HEADER;
use crate::wire::to_receiver::ToReceiver;
use crate::wire::to_sender::Wait;

/// Bytes that the socket of a lane over a long path may hold unsent before its worker waits
/// (TCP_NOTSENT_LOWAT): the kernel's own 4 MiB take a slow lane a second when the others have nothing left to
/// send. The worker is woken at half of it, 2 ms at 1 Gbit/s, and needs a third of one to seal its next
/// block.
const UNSENT: u32 = 512 << 10;

/// Between two looks. A lane has to be found dead twice: meanwhile what it landed last is told.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// `TCP_CLOSE` and `TCP_CLOSE_WAIT` of include/net/tcp_states.h: reset or timed out, or closed by the
/// receiver, which never closes a lane that it wants.
const DEAD: [u8; 2] = [7, 8];

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(super) struct Health {
    last: Option<Instant>,
    dead: HashSet<u32>,
    /// Lanes whose receiver takes nothing, though it is there.
    held: HashSet<u32>,
}

/// All that was sent is acknowledged, and the rest waits for the receiver's window.
fn waits_for_window(info: &TcpInfo) -> bool {
    info.unacked == Some(0) && info.notsent_bytes.is_some_and(|bytes| bytes > 0)
}

/// All lanes, and what is known of them.
#[derive(Debug)]
pub(super) struct LaneKeeper {
    shared: Arc<Shared>,
    keyring: Keyring,
    lanes: Lanes,
    silence: Silence,
}

impl LaneKeeper {
    pub(super) fn new(shared: &Arc<Shared>, keyring: Keyring) -> LaneKeeper {
        let (lanes, silence) = (Lanes::default(), Silence::default());
        LaneKeeper { shared: Arc::clone(shared), keyring, lanes, silence }
    }

    /// A lane stands.
    pub(super) fn add(&self, lane: Lane) {
        let (lane, stream) = lane.into_sender();
        // What the first words cannot say where /proc hides this boot's number.
        if is_local(&stream) {
            self.shared.packer.set_near();
        }
        if tuning::is_long(round_trip(&stream)) {
            // Without it a lane is a little later done than the others.
            let _ = socket2::SockRef::from(&*stream).set_tcp_notsent_lowat(UNSENT);
        }
        self.lanes.add(lane, Some(stream));
    }

    /// The lane inside ssh stands.
    pub(super) fn add_ssh(&self, id: u32) {
        self.lanes
            .add(LaneSender::over_ssh(id, Arc::clone(self.shared.receiver.control()), &self.keyring), None);
    }

    /// A lane is to take no more records.
    pub(super) fn retire(&self, id: u32) {
        self.lanes.retire(id);
    }

    /// A lane is over. Tells who manages lanes, once.
    pub(super) fn lost(&self, id: u32, why: &str) {
        let stood = self.lanes.remove(id);
        self.silence.forget(id);
        // Each time: a worker that had taken the lane may have noted its record only after it was removed.
        self.shared.queue.lane_lost(id);
        if stood {
            self.shared.events.send(Event::LaneLost(id, why.to_owned()));
        }
    }

    /// The sockets of those that stand.
    pub(super) fn sockets(&self) -> Vec<(u32, Option<Arc<TcpStream>>)> {
        self.lanes.sockets()
    }

    /// Waits for a lane that nobody sends on; `None` when it is over.
    pub(super) fn take(&self) -> Option<LaneSender> {
        self.lanes.take()
    }

    /// A record is sent on a lane that was taken; an error ends the lane.
    pub(super) fn send(&self, mut lane: LaneSender, header: &[u8; HEADER], sealed: &[u8]) {
        self.silence.sending(lane.id, header.len() + sealed.len());
        match lane.send(header, sealed) {
            Ok(()) => self.lanes.give_back(lane),
            Err(error) => {
                lane.close();
                self.lost(lane.id, &weir_units::plain(&error));
            }
        }
    }

    /// All work ends.
    pub(super) fn stop(&self) {
        self.lanes.stop();
    }

    /// Gives up lanes whose connection has ended, once in a while.
    pub(super) fn look_after(&self, health: &mut Health, now: Instant) {
        // Once all is sent and settled the far end may be gone before its last word is here.
        if health.last.is_some_and(|last| now - last < POLL_INTERVAL) || self.shared.asked.load(Relaxed) {
            return;
        }
        health.last = Some(now);
        let (mut dead, mut held) = (HashSet::new(), HashSet::new());
        for (id, socket) in self.lanes.sockets() {
            let Some(socket) = socket else { continue };
            let Ok(info) = tcp_info::read(socket.as_fd()) else { continue };
            if info.state.is_some_and(|state| DEAD.contains(&state)) {
                dead.insert(id);
            }
            let is_held = waits_for_window(&info);
            if is_held != health.held.contains(&id) {
                // One that cannot be set is as it was.
                let _ = lane::wait_for_window(&socket, is_held);
            }
            if is_held {
                held.insert(id);
            }
        }
        health.held = held;
        for id in dead.intersection(&health.dead) {
            self.lost(*id, "its connection has ended");
        }
        health.dead = dead;
    }

    /// The receiver waits for bytes of a lane: for too long, if they were sent.
    pub(super) fn waited_for(&self, wait: &Wait) {
        let sockets = self.lanes.sockets();
        let socket = sockets.into_iter().find(|(id, _)| *id == wait.lane).and_then(|(_, socket)| socket);
        let Some(socket) = socket else { return };
        let rto = tcp_info::read(socket.as_fd()).ok().and_then(|info| info.rto);
        if let Some(still) = self.silence.waits(wait, rto, Instant::now()) {
            let why = format!("none of the data sent has arrived for {:.0} s", still.as_secs_f64());
            // Where something in between swallows the bytes it swallows the connection's end too.
            self.shared.receiver.send(&ToReceiver::LaneLost(wait.lane, why.clone()));
            self.lost(wait.lane, &why);
        }
    }
}

/// Whether what is sent there never leaves this machine.
fn is_local(stream: &TcpStream) -> bool {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(own), Ok(far)) => own.ip().to_canonical() == far.ip().to_canonical(),
        _ => false,
    }
}

/// The shortest that a connection has seen; its handshake's at first.
fn round_trip(stream: &TcpStream) -> Option<Duration> {
    tcp_info::read(stream.as_fd()).ok()?.min_rtt
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Whether the socket comes to wait for a window, or no more to, within ten seconds.
    fn comes_to(socket: &TcpStream, waits: bool) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if waits_for_window(&tcp_info::read(socket.as_fd()).unwrap()) == waits {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    #[test]
    fn a_receiver_that_takes_nothing_is_waited_for_and_one_that_is_gone_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        assert!(comes_to(&sender, false), "nothing was sent");
        sender.set_nonblocking(true).unwrap();
        while sender.write(&[0; 1 << 16]).is_ok() {}
        assert!(comes_to(&sender, true), "its window is closed, and what it took is acknowledged");
        lane::wait_for_window(&sender, true).unwrap();
        assert_eq!(socket2::SockRef::from(&sender).tcp_user_timeout().unwrap(), None);
        let drain =
            std::thread::spawn(move || while receiver.read(&mut [0; 1 << 16]).is_ok_and(|got| got > 0) {});
        assert!(comes_to(&sender, false), "it takes again");
        lane::wait_for_window(&sender, false).unwrap();
        assert!(socket2::SockRef::from(&sender).tcp_user_timeout().unwrap().is_some());
        drop(sender);
        drain.join().unwrap();
    }
}
