//! From what both ends counted to a row of the table, with its verdict.

use weir_bench::pps::Busy;
use weir_bench::pps::client::{Client, Trial, TrialOutcome};
use weir_model::evidence::Reading;
use weir_model::packets::{self, PacketRun, ThreadShare};
use weir_report::packets::PacketsRow;
use weir_report::schema::VerdictRecord;

use crate::args::Method;

/// Fills in the figures.
pub fn fill(
    row: &mut PacketsRow,
    outcome: &TrialOutcome,
    trial: &Trial,
    client: &Client,
    same_host: bool,
    method: Method,
) {
    let counted = &outcome.counted;
    row.seconds = outcome.span.as_secs_f64();
    row.sent = outcome.sent;
    row.received = counted.counts.received;
    row.sent_rate = outcome.sent_rate();
    row.received_rate = outcome.received_rate();
    row.loss = outcome.loss();
    row.duplicates = counted.counts.duplicates;
    row.reordered = counted.counts.reordered;
    row.buffer_drops = counted.buffer_drops;
    row.receive_buffer = client.buffer();
    row.sender_busy = outcome.busy.run;
    row.receiver_busy = counted.busy.run;
    let run = PacketRun {
        asked: trial.rate,
        sent_rate: outcome.sent_rate(),
        sent: outcome.sent,
        received: counted.counts.received,
        buffer_drops: counted.buffer_drops,
        backlog_drops: Reading::Value(counted.backlog_drops),
        device_full: outcome.full,
        sender: share(outcome.busy),
        receiver: share(counted.busy),
        same_host,
        // Frames of our own are as far as one thread's packets go too: what is left is more threads.
        joined: method != Method::Plain,
    };
    let mut verdict = VerdictRecord::from(&packets::judge(&run));
    if method == Method::Gso && !client.is_joined_there() {
        verdict
            .missing
            .push("the receiver's kernel does not join packets (UDP_GRO): each arrived alone".to_owned());
    }
    row.verdict = Some(verdict);
}

fn share(busy: Busy) -> ThreadShare {
    ThreadShare { run: busy.run, wait: busy.wait }
}
