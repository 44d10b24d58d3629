//! From where a limit can be seen at all. Only a limit that its watcher could have seen is ruled out by not having been seen.
//!
//! TCP tells its two ends different things. The sender's socket knows the congestion window, what waits unsent and what was sent
//! again; the receiver's knows what lies unread. A receiver infers the rest from when bytes arrive, which is enough to convict
//! (a queue that grows, a hole that is filled a round trip later) and not enough to acquit: BBR keeps no queue, a lost tail leaves
//! no hole, and where nothing arrives nothing can be told from it.

use crate::evidence::{Clocks, Evidence};
use crate::limit::Limit;
use crate::rule::View;

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
        // The program that waits knows what it waits for; the window is in every segment, a turn in both streams.
        CpuCore | ReceiveWindow | Latency | RequestResponse | RateLimit | Memory => Vantage::Either,
        Connect | Dns | ThinkTime | Upstream | Downstream | SenderOrPath => Vantage::Either,
    }
}

/// Why `limit` cannot be ruled out by what was watched; `None` where it can.
pub(crate) fn hidden(limit: Limit, view: View, evidence: &Evidence) -> Option<&'static str> {
    // A transfer of our own has clocks for its waits and trials with more connections beside its socket.
    if evidence.facts.clocks != Clocks::Sampled {
        return None;
    }
    match (vantage(limit), view.receiver, view.sender) {
        (Vantage::Sender, _, false) if !view.stages => Some("only the sending end shows them"),
        // The peer's window tells the sender when its reader is late, so that alone can be ruled out there.
        (Vantage::Receiver, false, _) if !view.stages && limit != Limit::Reader => {
            Some("only the receiving end shows them")
        }
        (_, _, false) if limit == Limit::RateLimit => Some("only the sending end shows them"),
        _ => None,
    }
}

/// What this view does not show, a line for each reason: `LIMIT, LIMIT: why`. `told` are limits that were named or ruled out.
pub(crate) fn not_visible(view: View, evidence: &Evidence, told: impl Fn(Limit) -> bool) -> Vec<String> {
    let mut lines: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
    for limit in Limit::ALL.into_iter().filter(|limit| !told(*limit)) {
        let Some(why) = hidden(limit, view, evidence) else { continue };
        match lines.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(limit.name()),
            None => lines.push((why, vec![limit.name()])),
        }
    }
    lines.into_iter().map(|(why, names)| format!("{}: {why}", names.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign() -> Evidence {
        let mut evidence = Evidence::default();
        evidence.facts.clocks = Clocks::Sampled;
        evidence
    }

    fn view(receiver: bool, sender: bool) -> View {
        View { receiver, sender, stages: false, programs: false, waits: true, around: true }
    }

    #[test]
    fn a_receiver_cannot_rule_out_what_its_sender_knows() {
        let hides = |limit, view| hidden(limit, view, &foreign()).is_some();
        for limit in
            [Limit::SendBuffer, Limit::PathLoss, Limit::Application, Limit::PathMtu, Limit::RateLimit]
        {
            assert!(hides(limit, view(true, false)), "{limit}");
            assert!(!hides(limit, view(false, true)), "{limit}");
            assert!(!hides(limit, view(true, true)), "{limit}");
        }
    }

    #[test]
    fn a_sender_cannot_rule_out_the_receivers_disk() {
        let hides = |limit, view| hidden(limit, view, &foreign()).is_some();
        assert!(hides(Limit::Disk, view(false, true)) && hides(Limit::DirtyThrottle, view(false, true)));
        assert!(!hides(Limit::Reader, view(false, true)) && !hides(Limit::Disk, view(true, false)));
    }

    #[test]
    fn what_is_hidden_is_told_once_a_reason() {
        let lines = not_visible(view(true, false), &foreign(), |limit| limit == Limit::SendBuffer);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].ends_with(": only the sending end shows them"), "{lines:?}");
        assert!(lines[0].contains("path-loss") && !lines[0].contains("send-buffer"), "{lines:?}");
        assert!(not_visible(view(true, true), &foreign(), |_| false).is_empty());
        assert!(not_visible(view(true, false), &Evidence::default(), |_| false).is_empty());
    }
}
