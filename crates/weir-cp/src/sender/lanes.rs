//! The sending ends of all lanes: whoever has a record ready takes the one that rested longest.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::lane::LaneSender;

/// All lanes.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    state: Mutex<SenderLanesState>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct SenderLanesState {
    free: VecDeque<LaneSender>,
    /// Each lane that stands, with its socket where it has one.
    standing: HashMap<u32, Option<Arc<TcpStream>>>,
    retired: HashSet<u32>,
    over: bool,
}

impl Lanes {
    /// A lane more.
    pub(crate) fn add(&self, lane: LaneSender, stream: Option<Arc<TcpStream>>) {
        let mut state = self.lock();
        state.standing.insert(lane.id, stream);
        state.free.push_back(lane);
        self.freed.notify_one();
    }

    /// Waits for a lane that nobody sends on; `None` when it is over.
    pub(crate) fn take(&self) -> Option<LaneSender> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            if let Some(lane) = state.free.pop_front() {
                return Some(lane);
            }
            self.freed.wait(&mut state);
        }
    }

    /// A lane that was taken is free again.
    pub(crate) fn give_back(&self, lane: LaneSender) {
        let mut state = self.lock();
        if state.retired.contains(&lane.id) {
            lane.finish();
        } else if state.standing.contains_key(&lane.id) {
            state.free.push_back(lane);
            self.freed.notify_one();
        }
    }

    /// A lane is over; true where it stood until now. Whoever sends on it gets an error.
    pub(crate) fn remove(&self, id: u32) -> bool {
        let mut state = self.lock();
        state.free.retain(|lane| lane.id != id);
        let stood = state.standing.remove(&id);
        if let Some(Some(stream)) = &stood {
            let _ = stream.shutdown(Shutdown::Both);
        }
        stood.is_some()
    }

    /// A lane takes no more records: closed as soon as nobody sends on it. What is on its way arrives.
    pub(crate) fn retire(&self, id: u32) {
        let mut state = self.lock();
        state.retired.insert(id);
        state.free.retain(|lane| lane.id != id || !lane.finish());
    }

    /// The sockets of those that stand.
    pub(crate) fn sockets(&self) -> Vec<(u32, Option<Arc<TcpStream>>)> {
        self.lock().standing.iter().map(|(id, stream)| (*id, stream.clone())).collect()
    }

    /// No more lanes for anyone.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.over = true;
        for stream in state.standing.values().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.freed.notify_all();
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, SenderLanesState> {
        self.state.lock()
    }
}
