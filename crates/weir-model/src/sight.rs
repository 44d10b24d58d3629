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
use crate::limit::{Limit, QUARTER};
use crate::rule::end::End;
use crate::rule::turns::are_credits;
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
        // A queue that drops before it grows, or a policer with a short one.
        PathLoss => &[PathBandwidth, RateLimit],
        SendBuffer | ReceiveWindow | Dns | Memory | SenderOrPath => &[],
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
    /// The peer gives credits of a protocol above TCP.
    credits: bool,
}

const SENDER: &str = "only the sending end shows them";
const RECEIVER: &str = "only the receiving end shows them";
const PIPE: &str = "the program at the other end of the pipe is not among the watched threads";
const PROGRAM: &str = "only the end whose program it is shows it";
const UNCLOCKED: &str = "this end asks for nothing, so that no clock of it shows them";
const CLIENT: &str = "what a client waits for before it is accepted shows at its end";
const BEHIND: &str = "what holds the peer's program shows at its end";
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
            // As for a main limit.
            piped: waits > QUARTER * samples,
            credits: gives_credits(evidence),
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
        // Where none held long, the run is made of such as held for a moment.
        let most = shares.values().copied().fold(0.0, f64::max);
        let worth = if most > QUARTER { WORTH } else { 0.0 };
        let mut held: Vec<(&Limit, &f64)> = shares.iter().filter(|(_, share)| **share >= worth).collect();
        held.sort_by(|a, b| b.1.total_cmp(a.1));
        let names = || held.iter().map(|(held, _)| **held);
        let behind = names().any(|held| self.behind(held).contains(&limit)).then_some(BEHIND);
        let same = names().filter(|held| !self.is_servers(*held)).find(|held| beside(*held).contains(&limit));
        let here = here.or(behind).map(str::to_owned);
        here.or_else(|| same.map(|held| format!("not told apart from {held}")))
    }

    /// A client knows its own time from that of the server that answers it.
    fn is_servers(self, held: Limit) -> bool {
        let sends = self.view.sender && self.own_sends;
        held == Limit::Application && self.view.receiver && !sends && !self.served
    }

    /// What may be behind `held`, where that is the doing of the peer's program: nothing of its processor,
    /// its neighbours or its will shows here.
    fn behind(self, held: Limit) -> &'static [Limit] {
        use Limit::*;
        match held {
            Reader if self.view.sender_only() => &[CpuCore, Memory, Upstream, RateLimit],
            // A reader that is late gives its credits late, and reads all that they let come. Where the
            // sender was found waiting for anything else, it is its application that held.
            SenderOrPath if self.credits && self.view.sender_only() => &[Reader, ProtocolWindow],
            Application if self.is_servers(held) => &[CpuCore, SourceDisk],
            _ => &[],
        }
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

/// Four fifths of the segments that came against the data have the sizes of credits, as for one connection
/// ([`crate::rule::turns`]).
fn gives_credits(evidence: &Evidence) -> bool {
    let lanes = evidence.intervals.iter().flat_map(|interval| &interval.lanes);
    let sending = lanes.filter(|lane| End::of(lane) == End::Sends).filter_map(|lane| lane.waits.value());
    let (mut credits, mut all) = (0_u64, 0_u64);
    for waits in sending {
        all = all.saturating_add(waits.came_segments);
        if are_credits(waits.came, waits.came_segments) {
            credits = credits.saturating_add(waits.came_segments);
        }
    }
    credits >= 4 && credits.saturating_mul(5) >= all.saturating_mul(4)
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
            credits: false,
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
        let hardly = BTreeMap::from([(Limit::Application, 0.05), (Limit::PathBandwidth, 0.9)]);
        assert_eq!(view.unshown(Limit::ThinkTime, &hardly), None);
        // Of a run that many limits held in turn none held for much longer.
        assert!(view.unshown(Limit::ThinkTime, &held(Limit::Application, 0.05)).is_some());
        assert_eq!(view.unshown(Limit::ThinkTime, &held(Limit::PathBandwidth, 0.9)), None);
        assert!(view.unshown(Limit::RateLimit, &held(Limit::PathBandwidth, 0.9)).is_some());
        for limit in [Limit::PathBandwidth, Limit::RateLimit] {
            assert!(view.unshown(limit, &held(Limit::PathLoss, 0.9)).is_some(), "{limit}: a short queue");
        }
    }

    #[test]
    fn what_is_behind_the_peers_program_is_not_ruled_out_at_the_other_end() {
        let reader = BTreeMap::from([(Limit::Reader, 0.9)]);
        for limit in [Limit::CpuCore, Limit::Memory, Limit::Upstream, Limit::RateLimit] {
            assert!(sight(false, true).unshown(limit, &reader).is_some(), "{limit}");
        }
        assert_eq!(sight(true, true).unshown(Limit::CpuCore, &reader), None, "its end is seen");
        let application = BTreeMap::from([(Limit::Application, 0.9)]);
        let why = |sight: Sight, limit| sight.unshown(limit, &application);
        assert_eq!(why(sight(true, false), Limit::CpuCore).as_deref(), Some(BEHIND));
        assert_eq!(
            why(Sight { served: true, ..sight(true, false) }, Limit::CpuCore),
            None,
            "it is the server"
        );
        assert_eq!(why(sight(false, true), Limit::CpuCore), None);
        // The server's socket is on this machine, its program is another.
        let client = Sight { own_sends: false, ..sight(true, true) };
        for limit in [Limit::CpuCore, Limit::SourceDisk] {
            assert_eq!(why(client, limit).as_deref(), Some(BEHIND), "{limit}");
        }
        assert_eq!(why(client, Limit::ThinkTime), None, "a client knows its own time");
        let unexplained = BTreeMap::from([(Limit::SenderOrPath, 0.9)]);
        for limit in [Limit::Reader, Limit::ProtocolWindow] {
            assert_eq!(sight(false, true).unshown(limit, &unexplained), None, "{limit}");
            let credits = Sight { credits: true, ..sight(false, true) };
            assert_eq!(credits.unshown(limit, &unexplained).as_deref(), Some(BEHIND), "{limit}");
            assert_eq!(why(credits, limit), None, "{limit}: its thread waited for something else");
        }
    }

    #[test]
    fn credits_are_known_by_what_comes_against_the_data() {
        let run = |came| {
            let waits = crate::waits::Waits { came, came_segments: 1, ..Default::default() };
            let sender = Reading::Value(SenderInterval::default());
            let lane = LaneInterval { sender, waits: Reading::Value(waits), ..LaneInterval::default() };
            let interval = Interval { lanes: vec![lane], ..Interval::default() };
            Evidence { intervals: vec![interval; 5], ..Evidence::default() }
        };
        assert!(gives_credits(&run(35)) && !gives_credits(&run(200)));
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
