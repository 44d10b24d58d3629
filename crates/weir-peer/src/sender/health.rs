//! Lanes that are over while nobody sends on them: nobody else would notice, and what they have not landed would be waited for
//! for ever.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use weir_observe::tcp_info;

use super::Sender;
use crate::wire::message::{Message, Wait};

/// Between two looks. A lane has to be found dead twice: meanwhile what it landed last is told.
const LOOK: Duration = Duration::from_secs(1);

/// `TCP_CLOSE` and `TCP_CLOSE_WAIT` of include/net/tcp_states.h: reset or timed out, or closed by the receiver, which never closes
/// a lane that it wants.
const DEAD: [u8; 2] = [7, 8];

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(super) struct Health {
    last: Option<Instant>,
    dead: HashSet<u32>,
}

impl Sender {
    /// Gives up lanes whose connection has ended, once in a while.
    pub(super) fn look_after_lanes(&self, health: &mut Health, now: Instant) {
        // Once all is sent and settled the far end may be gone before its last word is here.
        if health.last.is_some_and(|last| now - last < LOOK) || self.asked.load(Relaxed) {
            return;
        }
        health.last = Some(now);
        let mut dead = HashSet::new();
        for (id, socket) in self.lanes.sockets() {
            let state = socket.and_then(|socket| tcp_info::read(socket.as_fd()).ok()?.state);
            if state.is_some_and(|state| DEAD.contains(&state)) {
                dead.insert(id);
            }
        }
        for id in dead.intersection(&health.dead) {
            self.lane_lost(*id, "its connection has ended");
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
            let why = format!("nothing of what was sent has arrived for {:.0} s", still.as_secs_f64());
            // Where something in between swallows the bytes it swallows the connection's end too.
            self.control.send(&Message::LaneLost(wait.lane, why.clone()));
            self.lane_lost(wait.lane, &why);
        }
    }
}
