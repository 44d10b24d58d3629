//! From where a limit can be seen at all. Only a limit that its watcher could have seen is ruled out by not
//! having been seen.
//!
//! TCP tells its two ends different things. The sender's socket knows the congestion window, what waits
//! unsent and what was sent again; the receiver's knows what lies unread. A receiver infers the rest from
//! when bytes arrive, which is enough to convict (a queue that grows, a hole that is filled a round trip
//! later) and not enough to acquit: BBR keeps no queue, a lost tail leaves no hole, and where nothing arrives
//! nothing can be told from it.
//!
//! What a program does, which other flow it waits for and what it waits for before it has a connection shows
//! at that program's end only. And several limits are names of one cause, or what lies behind it: where one
//! of them held, the others are not ruled out ([`beside`]).

use std::collections::BTreeMap;

use crate::evidence::{Clocks, Evidence, Interval, LaneInterval, ThreadInterval};
use crate::limit::Limit;
use crate::rule::{Context, View};
pub use crate::vantage::{Vantage, vantage};

/// Limits that say the same cause in another word, or that lie behind it: that they were not seen by
/// themselves says nothing where `limit` held.
fn beside(limit: Limit) -> &'static [Limit] {
    use Limit::*;
    match limit {
        // A program that has nothing to send thinks.
        Application => &[ThinkTime],
        ThinkTime => &[Application, RateLimit, Reader],
        RateLimit => &[Application, ThinkTime],
        Reader => &[ThinkTime, Downstream],
        // What holds the neighbour is the neighbour's, and of it only a word is known.
        Upstream => {
            &[Application, ThinkTime, RateLimit, SourceDisk, CpuCore, Compress, PathBandwidth, PathLoss]
        }
        Downstream => {
            &[Reader, ThinkTime, RateLimit, Disk, DirtyThrottle, CpuCore, Compress, PathBandwidth, PathLoss]
        }
        Compress => &[CpuCore, Upstream, Downstream],
        Encrypt | Decompress | Verify => &[CpuCore],
        CpuCore => &[Compress, Encrypt, Decompress, ThinkTime],
        Disk => &[DirtyThrottle, Downstream, Reader],
        DirtyThrottle => &[Disk, Downstream, Reader],
        // Round trips: of a handshake, of a question, of a credit.
        Latency => &[RequestResponse, Connect, ProtocolWindow],
        RequestResponse => &[Latency, ProtocolWindow],
        ProtocolWindow => &[RequestResponse, Application, Reader],
        Nagle => &[RequestResponse, Latency],
        Connect => &[Latency, Timeouts],
        Timeouts => &[PathLoss, ThinkTime],
        PathMtu => &[Timeouts],
        // A shaper or a policer on the way is a rate that someone set.
        PathBandwidth => &[RateLimit],
        SourceDisk => &[Application, Upstream],
        PathLoss | SendBuffer | ReceiveWindow | Dns | Memory | SenderOrPath => &[],
    }
}

/// What a run was watched from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight {
    view: View,
    /// Three quarters of the bytes went by connections that are seen from their sender.
    sends: bool,
    /// The watched program's own sockets send most of it: of a peer on this machine the other end is seen as
    /// well.
    own_sends: bool,
    /// Connections came to a listener of this machine.
    served: bool,
    /// The peers' buffers may have taken in what their programs did not read.
    buffered: bool,
    /// Another program's transfer, watched from outside, or one that is only taken in: others of ours have
    /// clocks for their waits and trials with more connections.
    foreign: bool,
    /// One that is only taken in.
    takes_in: bool,
    /// Its threads wait at a pipe, whose other end is another program.
    piped: bool,
}

/// From this share of a thread's samples on it counts as waiting at a pipe: as for a main limit.
const QUARTER: f64 = 0.25;

const SENDER: &str = "only the sending end shows them";
const RECEIVER: &str = "only the receiving end shows them";
const PIPE: &str = "the program at the other end of the pipe is not among the watched threads";
const PROGRAM: &str = "only the end whose program it is shows it";
const UNCLOCKED: &str = "this end asks for nothing, so that no clock of it shows them";
const CLIENT: &str = "what a client waits for before it is accepted shows at its end";
const BUFFERED: &str =
    "the peer's buffer holds what its program has not read, and its window shows that only late";

impl Sight {
    /// `whole` is all of the evidence that counts, as one interval.
    pub(crate) fn of(evidence: &Evidence, whole: &Interval) -> Sight {
        let threads = || whole.lanes.iter().filter_map(|lane| lane.thread.value());
        let at_pipe =
            |thread: &ThreadInterval| thread.found.pipe_full.saturating_add(thread.found.pipe_empty);
        let (waits, samples) = threads().fold((0.0, 0.0), |(waits, samples), thread| {
            (waits + f64::from(at_pipe(thread)), samples + f64::from(thread.looks))
        });
        Sight {
            view: View::of(whole, &Context::alone(evidence)),
            sends: sends(whole),
            own_sends: own_sends(whole),
            served: whole.around.served,
            buffered: buffered(evidence),
            foreign: evidence.facts.clocks == Clocks::Sampled || evidence.facts.takes_in,
            takes_in: evidence.facts.takes_in,
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
            _ if self.takes_in && matches!(limit, Limit::Latency | Limit::Reader | Limit::Verify) => {
                Some(UNCLOCKED)
            }
            _ if limit == Limit::CpuCore && self.piped => Some(PIPE),
            _ => None,
        }
    }

    /// Why it says nothing that `limit` was not seen, where the limits of `shares` held: this view does not
    /// show it, or it is another word for what held.
    pub(crate) fn unshown(self, limit: Limit, shares: &BTreeMap<Limit, f64>) -> Option<String> {
        if !self.foreign {
            return None;
        }
        let View { receiver, sender, stages, .. } = self.view;
        let here = match limit {
            _ if self.hidden(limit).is_some() => self.hidden(limit),
            _ if vantage(limit) == Vantage::Sender && !self.sends && !stages => Some(SENDER),
            Limit::ThinkTime | Limit::Downstream if !receiver => Some(PROGRAM),
            Limit::Upstream if !sender || !self.own_sends => Some(PROGRAM),
            Limit::Connect if self.served => Some(CLIENT),
            Limit::Reader if self.view.sender_only() && self.buffered => Some(BUFFERED),
            _ => None,
        };
        let mut held: Vec<(&Limit, &f64)> = shares.iter().filter(|(_, share)| **share >= WORTH).collect();
        held.sort_by(|a, b| b.1.total_cmp(a.1));
        // A client knows its own time from that of the server that answers it.
        let clients = |held: Limit| held == Limit::Application && receiver && !sender && !self.served;
        let mut names = held.into_iter().map(|(held, _)| *held).filter(|held| !clients(*held));
        let same = names.find(|held| beside(*held).contains(&limit));
        here.map(str::to_owned).or_else(|| same.map(|held| format!("not told apart from {held}")))
    }

    /// What this view does not show, a line for each reason: `LIMIT, LIMIT: why`, but for limits that were
    /// `told`.
    pub(crate) fn not_visible(
        self,
        shares: &BTreeMap<Limit, f64>,
        told: impl Fn(Limit) -> bool,
    ) -> Vec<String> {
        let mut lines: Vec<(String, Vec<&'static str>)> = Vec::new();
        for limit in Limit::ALL.into_iter().filter(|limit| !told(*limit)) {
            let Some(why) = self.unshown(limit, shares) else { continue };
            match lines.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(limit.name()),
                None => lines.push((why, vec![limit.name()])),
            }
        }
        lines.into_iter().map(|(why, names)| format!("{}: {why}", names.join(", "))).collect()
    }
}

/// A limit with less of the time than this has no name beside it.
const WORTH: f64 = 0.1;

/// Three quarters of the bytes went by connections that are seen from their sender. A relay sees each of its
/// flows from another end.
fn sends(whole: &Interval) -> bool {
    let (mut all, mut seen) = (0.0, 0.0);
    for lane in &whole.lanes {
        let bytes = lane.received as f64;
        all += bytes;
        seen += if lane.sender.value().is_some() { bytes } else { 0.0 };
    }
    seen >= 0.75 * all
}

/// Some connection's own socket sent more than came, or it is not known which did.
fn own_sends(whole: &Interval) -> bool {
    let mut waits = whole.lanes.iter().filter_map(|lane| lane.waits.value()).peekable();
    waits.peek().is_none() || waits.any(|waits| waits.sent > waits.came)
}

/// A peer's reader that is late fills its buffer first. It is known to have kept up where more than twice the
/// largest window that it offered was acknowledged, the window never stood a fifth below its largest, and it
/// was filled in few looks but those in which each round trip brought all of it anew: a reader that is late
/// holds back acknowledgements too.
fn buffered(evidence: &Evidence) -> bool {
    let mut flows: BTreeMap<u32, Offered> = BTreeMap::new();
    for lane in evidence.intervals.iter().flat_map(|interval| &interval.lanes) {
        flows.entry(lane.lane).or_default().add(lane);
    }
    let all: f64 = flows.values().map(|flow| flow.acked as f64).sum();
    let kept_up = flows.values().filter(|flow| flow.kept_up()).map(|flow| flow.acked as f64).sum::<f64>();
    kept_up < 0.75 * all || all <= 0.0
}

/// What one connection's peer offered.
#[derive(Debug, Default)]
struct Offered {
    acked: u64,
    largest: u64,
    shrank: bool,
    looks: u64,
    filled: u64,
}

impl Offered {
    fn add(&mut self, lane: &LaneInterval) {
        let Some(seen) = lane.sender.value() else { return };
        self.acked = self.acked.saturating_add(seen.acked);
        self.looks += u64::from(seen.looks);
        let late = match (seen.rtt, seen.min_rtt) {
            (Some(now), Some(least)) => now > least.saturating_mul(5) / 4,
            _ => true,
        };
        self.filled += if late { u64::from(seen.window_filled) } else { 0 };
        if let Some((least, _, most)) = seen.peer_window {
            // What is in flight takes window as well until it is read.
            let under_way = seen.in_flight.saturating_add(seen.segment.saturating_mul(2));
            self.shrank |= least.saturating_add(under_way) < self.largest / 5 * 4;
            self.largest = self.largest.max(most);
        }
    }

    fn kept_up(&self) -> bool {
        let more = self.largest > 0 && self.acked > self.largest.saturating_mul(2);
        more && !self.shrank && 10 * self.filled <= self.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Reading;
    use crate::sender::SenderInterval;

    fn sight(receiver: bool, sender: bool) -> Sight {
        let view = View {
            receiver,
            sender,
            stages: false,
            fed: false,
            programs: false,
            waits: true,
            around: true,
            steps: false,
        };
        Sight {
            view,
            sends: sender,
            own_sends: sender,
            served: false,
            buffered: false,
            foreign: true,
            takes_in: false,
            piped: false,
        }
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
    fn who_only_takes_in_rules_out_nothing_by_clocks_that_it_does_not_keep() {
        let thread = Reading::Value(ThreadInterval::default());
        let lane = LaneInterval { thread, ..LaneInterval::default() };
        let whole = Interval { lanes: vec![lane], ..Interval::default() };
        let mut evidence = Evidence::default();
        let hidden = |evidence: &Evidence, limit| Sight::of(evidence, &whole).hidden(limit).is_some();
        let limits = [Limit::Latency, Limit::Reader, Limit::Verify, Limit::Application, Limit::PathLoss];
        for limit in limits {
            assert!(!hidden(&evidence, limit), "{limit}");
        }
        evidence.facts.takes_in = true;
        for limit in limits {
            assert!(hidden(&evidence, limit), "{limit}");
        }
        assert!(!hidden(&evidence, Limit::CpuCore) && !hidden(&evidence, Limit::ReceiveWindow));
    }

    #[test]
    fn a_core_behind_a_pipe_is_not_ruled_out() {
        let mut thread = ThreadInterval { looks: 10, ..ThreadInterval::default() };
        thread.found.pipe_full = 9;
        let lane = LaneInterval { thread: Reading::Value(thread), ..LaneInterval::default() };
        let whole = Interval { lanes: vec![lane], ..Interval::default() };
        let mut evidence = Evidence::default();
        evidence.facts.clocks = Clocks::Sampled;
        assert!(Sight::of(&evidence, &whole).hidden(Limit::CpuCore).is_some());
        assert!(sight(true, false).hidden(Limit::CpuCore).is_none());
    }

    #[test]
    fn what_is_hidden_is_told_once_a_reason() {
        let none = BTreeMap::new();
        let lines = sight(true, false).not_visible(&none, |limit| limit == Limit::SendBuffer);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].ends_with(SENDER), "{lines:?}");
        assert!(lines[0].contains("path-loss") && !lines[0].contains("send-buffer"), "{lines:?}");
        assert_eq!(lines[1], format!("upstream: {PROGRAM}"));
        assert!(sight(true, true).not_visible(&none, |_| false).is_empty());
        assert!(Sight { foreign: false, ..sight(true, false) }.not_visible(&none, |_| false).is_empty());
    }

    #[test]
    fn what_a_program_does_is_ruled_out_at_its_own_end_only() {
        let none = BTreeMap::new();
        let unshown = |sight: Sight, limit| sight.unshown(limit, &none).is_some();
        for limit in [Limit::ThinkTime, Limit::Downstream] {
            assert!(unshown(sight(false, true), limit) && !unshown(sight(true, false), limit), "{limit}");
        }
        assert!(
            unshown(sight(true, false), Limit::Upstream) && !unshown(sight(false, true), Limit::Upstream)
        );
        let server = Sight { served: true, ..sight(false, true) };
        assert!(unshown(server, Limit::Connect) && !unshown(sight(true, false), Limit::Connect));
        // The server is on this machine, so that its socket is seen, and its program is another.
        let client = Sight { own_sends: false, ..sight(true, true) };
        assert!(unshown(client, Limit::Upstream) && !unshown(sight(true, true), Limit::Upstream));
        // Of a relay's two connections one is seen from its receiver.
        let relay = Sight { sends: false, ..sight(true, true) };
        assert!(unshown(relay, Limit::PathBandwidth) && !unshown(sight(true, true), Limit::PathBandwidth));
    }

    #[test]
    fn another_word_for_what_held_is_not_ruled_out() {
        let view = sight(true, true);
        let held = |limit, share| BTreeMap::from([(limit, share)]);
        let why = view.unshown(Limit::ThinkTime, &held(Limit::Application, 0.9));
        assert_eq!(why.as_deref(), Some("not told apart from application"));
        assert_eq!(view.unshown(Limit::ThinkTime, &held(Limit::Application, 0.05)), None);
        assert_eq!(view.unshown(Limit::ThinkTime, &held(Limit::PathBandwidth, 0.9)), None);
        assert!(view.unshown(Limit::RateLimit, &held(Limit::PathBandwidth, 0.9)).is_some());
    }

    #[test]
    fn a_peers_reader_is_ruled_out_once_it_has_read_more_than_its_buffer_holds() {
        let run = |intervals: &[(u64, u64)]| {
            let lane = |(acked, window)| {
                let peer_window = Some((window, window, window));
                let seen = SenderInterval { acked, peer_window, looks: 5, ..SenderInterval::default() };
                LaneInterval { lane: 1, sender: Reading::Value(seen), ..LaneInterval::default() }
            };
            let interval = |seen: &(u64, u64)| Interval { lanes: vec![lane(*seen)], ..Interval::default() };
            Evidence { intervals: intervals.iter().map(interval).collect(), ..Evidence::default() }
        };
        assert!(!buffered(&run(&[(500_000, 400_000), (500_000, 400_000)])));
        assert!(buffered(&run(&[(300_000, 400_000), (300_000, 400_000)])), "its buffer took it in");
        assert!(buffered(&run(&[(500_000, 400_000), (500_000, 200_000)])), "its window shrank");
        assert!(buffered(&run(&[])));
    }
}
