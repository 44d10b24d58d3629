//! From where a limit can be seen at all. Only a limit that its watcher could have seen is ruled out by not
//! having been seen.
//!
//! TCP tells its two ends different things. The sender's socket knows the congestion window, what waits
//! unsent and what was sent again; the receiver's knows what lies unread. A receiver infers the rest from
//! when bytes arrive, which is enough to convict (a queue that grows, a hole that is filled a round trip
//! later) and not enough to acquit: BBR keeps no queue, a lost tail leaves no hole, and where nothing arrives
//! nothing can be told from it.

use crate::evidence::{Clocks, Evidence, ThreadWindow, Window};
use crate::limit::Limit;
use crate::rule::{Context, View};

/// The end of a connection that shows a limit directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vantage {
    /// The end that sends the data.
    Sender,
    /// The end that receives them.
    Receiver,
    /// Either: what it shows there is as good as at the other.
    Either,
}

/// Where a limit is seen directly.
pub fn vantage(limit: Limit) -> Vantage {
    use Limit::*;
    match limit {
        Application | SourceDisk | Compress | Encrypt | SendBuffer => Vantage::Sender,
        Nagle | ProtocolWindow | PathMtu | PathLoss | PathBandwidth | Timeouts => Vantage::Sender,
        Reader | Decompress | Verify | DirtyThrottle | Disk => Vantage::Receiver,
        // The program that waits knows what it waits for; the window is in every segment, a turn in both
        // streams.
        CpuCore | ReceiveWindow | Latency | RequestResponse | RateLimit | Memory => Vantage::Either,
        Connect | Dns | ThinkTime | Upstream | Downstream | SenderOrPath => Vantage::Either,
    }
}

/// What a run was watched from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight {
    view: View,
    /// Another program's transfer, watched from outside: ours has clocks for its waits and trials with more
    /// connections.
    foreign: bool,
    /// Its threads wait at a pipe, whose other end is another program.
    piped: bool,
}

/// From this share of a thread's samples on it counts as waiting at a pipe: as for a main limit.
const QUARTER: f64 = 0.25;

const SENDER: &str = "only the sending end shows them";
const RECEIVER: &str = "only the receiving end shows them";
const PIPE: &str = "the program at the other end of the pipe is not among the watched threads";

impl Sight {
    /// `whole` is all of the evidence that counts, as one window.
    pub(crate) fn of(evidence: &Evidence, whole: &Window) -> Sight {
        let threads = || whole.lanes.iter().filter_map(|lane| lane.thread.value());
        let at_pipe = |thread: &ThreadWindow| thread.found.pipe_full.saturating_add(thread.found.pipe_empty);
        let (waits, samples) = threads().fold((0.0, 0.0), |(waits, samples), thread| {
            (waits + f64::from(at_pipe(thread)), samples + f64::from(thread.looks))
        });
        Sight {
            view: View::of(whole, &Context::alone(evidence)),
            foreign: evidence.facts.clocks == Clocks::Sampled,
            piped: waits > QUARTER * samples,
        }
    }

    pub(crate) fn both_ends(self) -> bool {
        self.view.sender && self.view.receiver
    }

    /// Why `limit` cannot be ruled out by what was watched; `None` where it can.
    pub(crate) fn hidden(self, limit: Limit) -> Option<&'static str> {
        if !self.foreign {
            return None;
        }
        let View { receiver, sender, stages, .. } = self.view;
        match vantage(limit) {
            Vantage::Sender if !sender && !stages => Some(SENDER),
            // The peer's window tells the sender when its reader is late, so that alone can be ruled out
            // there.
            Vantage::Receiver if !receiver && !stages && limit != Limit::Reader => Some(RECEIVER),
            _ if limit == Limit::RateLimit && !sender => Some(SENDER),
            _ if limit == Limit::CpuCore && self.piped => Some(PIPE),
            _ => None,
        }
    }

    /// What this view does not show, a line for each reason: `LIMIT, LIMIT: why`, but for limits that were
    /// `told`.
    pub(crate) fn not_visible(self, told: impl Fn(Limit) -> bool) -> Vec<String> {
        let mut lines: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
        for limit in Limit::ALL.into_iter().filter(|limit| !told(*limit)) {
            let Some(why) = self.hidden(limit) else { continue };
            match lines.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(limit.name()),
                None => lines.push((why, vec![limit.name()])),
            }
        }
        lines.into_iter().map(|(why, names)| format!("{}: {why}", names.join(", "))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{LaneWindow, Reading};

    fn sight(receiver: bool, sender: bool) -> Sight {
        let view = View { receiver, sender, stages: false, programs: false, waits: true, around: true };
        Sight { view, foreign: true, piped: false }
    }

    #[test]
    fn a_receiver_cannot_rule_out_what_its_sender_knows() {
        for limit in
            [Limit::SendBuffer, Limit::PathLoss, Limit::Application, Limit::PathMtu, Limit::RateLimit]
        {
            assert!(sight(true, false).hidden(limit).is_some(), "{limit}");
            assert!(sight(false, true).hidden(limit).is_none(), "{limit}");
            assert!(sight(true, true).hidden(limit).is_none(), "{limit}");
        }
    }

    #[test]
    fn a_sender_cannot_rule_out_the_receivers_disk() {
        for limit in [Limit::Disk, Limit::DirtyThrottle] {
            assert!(sight(false, true).hidden(limit).is_some(), "{limit}");
            assert!(sight(true, false).hidden(limit).is_none(), "{limit}");
        }
        assert!(sight(false, true).hidden(Limit::Reader).is_none());
    }

    #[test]
    fn a_core_behind_a_pipe_is_not_ruled_out() {
        let mut thread = ThreadWindow { looks: 10, ..ThreadWindow::default() };
        thread.found.pipe_full = 9;
        let lane = LaneWindow { thread: Reading::Value(thread), ..LaneWindow::default() };
        let whole = Window { lanes: vec![lane], ..Window::default() };
        let mut evidence = Evidence::default();
        evidence.facts.clocks = Clocks::Sampled;
        assert!(Sight::of(&evidence, &whole).hidden(Limit::CpuCore).is_some());
        assert!(sight(true, false).hidden(Limit::CpuCore).is_none());
    }

    #[test]
    fn what_is_hidden_is_told_once_a_reason() {
        let lines = sight(true, false).not_visible(|limit| limit == Limit::SendBuffer);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].ends_with(SENDER), "{lines:?}");
        assert!(lines[0].contains("path-loss") && !lines[0].contains("send-buffer"), "{lines:?}");
        assert!(sight(true, true).not_visible(|_| false).is_empty());
        assert!(Sight { foreign: false, ..sight(true, false) }.not_visible(|_| false).is_empty());
    }
}
