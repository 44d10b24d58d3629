//! Which lanes nothing comes on: the sender is told, which knows whether something should.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::lane::LaneReceiver;
use crate::wire::to_sender::Wait;

/// Between two looks. The sender is told of a lane when it has stood still for one of them: often enough for
/// a timeout of seconds, and nothing beside what a lane at work costs.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What was seen of the lanes at the last look.
#[derive(Debug, Default)]
pub(super) struct Waits {
    last: Option<Instant>,
    seen: HashMap<u32, u64>,
}

impl Waits {
    /// The lanes that have stood still since the look before, once in a while.
    pub(super) fn look<'a>(
        &mut self,
        now: Instant,
        lanes: impl Iterator<Item = &'a Arc<LaneReceiver>>,
    ) -> Vec<Wait> {
        if self.last.is_some_and(|last| now - last < POLL_INTERVAL) {
            return Vec::new();
        }
        self.last = Some(now);
        let waits: Vec<Wait> = lanes.filter_map(|lane| lane.wait()).collect();
        let before = std::mem::take(&mut self.seen);
        self.seen = waits.iter().map(|wait| (wait.lane, wait.bytes)).collect();
        waits.into_iter().filter(|wait| before.get(&wait.lane) == Some(&wait.bytes)).collect()
    }
}
