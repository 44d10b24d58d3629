//! A foreign connection as the model takes lanes: no stage clock runs in another's program, so its times are
//! estimates from looks, by where the thread was found and whether data lay in the receive queue.

use std::time::Duration;

use weir_model::evidence::{LaneInterval, Reading, ThreadInterval};

use crate::flow::FlowInterval;

impl FlowInterval {
    /// The lane of a connection that sends the data.
    pub fn sending(&self, thread: Reading<ThreadInterval>) -> LaneInterval {
        LaneInterval {
            received: self.acked,
            thread,
            tcp: Reading::Missing("the receiving end is the peer's".to_owned()),
            sender: self.sender.clone(),
            waits: self.waits.clone(),
            ..LaneInterval::default()
        }
    }

    /// The lane of a connection that receives the data. `lived` is how long of the interval it was there,
    /// `connecting` the share of that before its handshake's end.
    pub fn receiving(
        &self,
        thread: Reading<ThreadInterval>,
        lived: Duration,
        connecting: f64,
    ) -> LaneInterval {
        let (mut held, mut output, mut running) = (0.0, 0.0, 0.0);
        if let Reading::Value(thread) = &thread {
            held = share(thread.in_writes(), thread.looks);
            output = share(thread.found.pipe_full, thread.looks);
            running = share(thread.found.running, thread.looks);
        }
        let free = (1.0 - held - output - running - connecting).max(0.0);
        let asked = self.awaiting_answer.clamp(0.0, free);
        let waiting = (self.waiting - self.awaiting_answer).clamp(0.0, free - asked);
        LaneInterval {
            received: self.received,
            connecting: lived.mul_f64(connecting),
            first_byte: lived.mul_f64(asked),
            socket_wait: lived.mul_f64(waiting),
            write: lived.mul_f64(held),
            output_wait: lived.mul_f64(output),
            thread,
            tcp: self.receiver.clone(),
            sender: Reading::Missing("the sending end is the peer's".to_owned()),
            waits: self.waits.clone(),
            ..LaneInterval::default()
        }
    }
}

/// A count of samples as a share of all, 0 to 1; 0 without a look.
pub fn share(part: u32, whole: u32) -> f64 {
    if whole > 0 { (f64::from(part) / f64::from(whole)).min(1.0) } else { 0.0 }
}
