//! Both ends' intervals as one: what the judge of a copy gets.

use std::time::{Duration, Instant};

use weir_model::congestion::Controls;
use weir_model::evidence::{Command, Evidence, Interval, LaneInterval, Reading, Silent, Trial};
use weir_model::forecast::{self, Forecast};
use weir_model::limit::Limit;
use weir_model::rule::Context;
use weir_model::verdict::judge_interval;
use weir_units::Rate;

use crate::watch::Sample;
use crate::wire::message::Role;

/// Intervals kept where there are few lanes: eight minutes at full grain.
const MOST_INTERVALS: usize = 4800;

/// Intervals of one lane kept, about 1 KiB each: of sixteen lanes those of two minutes at full grain.
const MOST_LANE_INTERVALS: usize = 24_000;

/// JSON of an interval itself, and of each lane in it: twice what they take. Words fill the rest of what a
/// far end that lies may send.
const INTERVAL_JSON: usize = 8 << 10;
const LANE_JSON: usize = 3 << 10;

/// An end's window says nothing of a time so much later. Windows come ten times a second, over ssh in bursts
/// of a few. One that is longer than this by itself is of an end that stood still, and has the state in which
/// it stopped.
const STALE: Duration = Duration::from_secs(1);

/// Joins the intervals of both ends as they come.
#[derive(Debug)]
pub struct Joiner {
    /// This end's role.
    role: Role,
    evidence: Evidence,
    /// The sender's last interval, where it is no older than it may be.
    sending: Option<Interval>,
    /// When that came; before the first when the receiver's first did.
    told: Option<Instant>,
    /// Intervals of the receiver's since then.
    since: usize,
    /// The sender has told nothing lately.
    silent: bool,
    /// When the receiver's last interval came, and the sender's since then.
    receiving: Option<Instant>,
    alone: Vec<Interval>,
    /// Time of the copy that is told of without the receiver, whose words on it may come late; and when the
    /// first came.
    passed: Duration,
    back: Option<Instant>,
    limit: Option<Limit>,
    fresh: bool,
    outlook: Option<Rate>,
    forecast: Option<Forecast>,
    controls: Controls,
}

impl Joiner {
    /// For an end of this role, with a far end on the same machine or not.
    pub fn new(role: Role, peer_is_local: bool, lanes_fixed: Option<u32>, objects: u64) -> Joiner {
        let mut evidence = Evidence::default();
        evidence.facts.command = Command::HostCopy;
        evidence.facts.peer_is_local = peer_is_local;
        evidence.facts.lanes_fixed = lanes_fixed;
        evidence.facts.objects = objects;
        let (limit, outlook, forecast) = (None, None, None);
        Joiner {
            role,
            evidence,
            sending: None,
            told: None,
            since: 0,
            silent: false,
            receiving: None,
            alone: Vec::new(),
            passed: Duration::ZERO,
            back: None,
            limit,
            fresh: false,
            outlook,
            forecast,
            controls: Controls::default(),
        }
    }

    /// An interval of this end.
    pub fn own(&mut self, sample: Sample) {
        self.take(sample, self.role);
    }

    /// An interval of a far end of this role, as it told it, when as many lanes as `made` had been begun.
    pub fn far(&mut self, role: Role, json: &str, made: u32) {
        // Evidence is for words only: what cannot be read is missing there.
        match serde_json::from_str::<Sample>(json) {
            Ok(mut sample) => {
                let lanes = &mut sample.interval.lanes;
                lanes.retain(|lane| lane.lane < made);
                lanes.iter_mut().for_each(without_strange_names);
                lanes.sort_by_key(|lane| lane.lane);
                lanes.dedup_by_key(|lane| lane.lane);
                if json.len() <= INTERVAL_JSON + LANE_JSON * lanes.len() {
                    self.take(sample, role);
                }
            }
            Err(error) => tracing::debug!("the far end's sample: {error}"),
        }
    }

    /// What holds the copy now.
    pub fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// What the copy's first moments foretell.
    pub fn forecast(&self) -> Option<Forecast> {
        self.forecast
    }

    /// What congestion control the lanes went by, and from when on.
    pub fn controls(&self) -> &[(f64, String)] {
        self.controls.changes()
    }

    /// All of it so far.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// The interval that was joined last, if it was not asked for before.
    pub fn latest(&mut self) -> Option<&Interval> {
        std::mem::take(&mut self.fresh).then(|| self.evidence.intervals.last()).flatten()
    }

    /// All of it, with what changes of the lane count brought.
    pub fn into_evidence(mut self, trials: &[Trial]) -> Evidence {
        self.evidence.trials = trials.to_vec();
        self.evidence
    }

    fn take(&mut self, sample: Sample, role: Role) {
        if let Some(told) = sample.facts {
            let facts = &mut self.evidence.facts;
            match role {
                Role::Receiver => {
                    facts.tcp_rmem_max = told.tcp_rmem_max;
                    facts.disk = told.disk;
                    facts.memory = told.memory;
                    facts.cpus = told.cpus;
                }
                Role::Sender => {
                    facts.rate_cap = told.rate_cap;
                    facts.tcp_wmem_max = told.tcp_wmem_max;
                }
            }
        }
        let now = Instant::now();
        match role {
            Role::Sender => {
                self.outlook = sample.outlook.map(Rate).or(self.outlook);
                self.sender_told(sample.interval, now);
            }
            Role::Receiver => self.receiver_told(sample.interval, now),
        }
    }

    /// The receiver's intervals are the ground, as long as it tells any; else the sender's own are.
    fn sender_told(&mut self, interval: Interval, now: Instant) {
        let stood = interval.span > STALE;
        // It begins to tell before this end has a first interval.
        let last = *self.receiving.get_or_insert(now);
        self.alone.push(if stood { unseen(&interval, Role::Sender) } else { interval.clone() });
        if now.saturating_duration_since(last) > STALE {
            for interval in std::mem::take(&mut self.alone) {
                self.passed += interval.span;
                self.back = None;
                self.add(without_receiver(interval));
            }
        }
        self.look_for_silence(now);
        self.silent |= stood;
        self.sending = (!stood).then_some(interval);
        (self.told, self.since) = (Some(now), 0);
    }

    fn receiver_told(&mut self, interval: Interval, now: Instant) {
        self.receiving = Some(now);
        self.alone.clear();
        if !self.passed.is_zero() {
            let back = *self.back.get_or_insert(now);
            // What comes at once is of the time that was told of without it.
            if now.saturating_duration_since(back) <= STALE {
                self.passed = self.passed.saturating_sub(interval.span);
                return;
            }
            self.passed = Duration::ZERO;
        }
        self.back = None;
        let interval = if interval.span > STALE { unseen(&interval, Role::Receiver) } else { interval };
        self.join(interval, now);
    }

    /// The sender's last interval says what its end did, as long as that end goes on telling: of one that
    /// stands still its last state is no news, and was none since.
    fn look_for_silence(&mut self, now: Instant) {
        let told = *self.told.get_or_insert(now);
        if self.silent || now.saturating_duration_since(told) <= STALE {
            return;
        }
        tracing::debug!("no samples from the sender");
        self.silent = true;
        // But for the one that it was told for.
        let since = self.since.saturating_sub(self.sending.take().is_some().into());
        self.evidence.intervals.iter_mut().rev().take(since).for_each(without_sender);
    }

    /// Adds an interval of the receiver's, with what the sender told of its end.
    fn join(&mut self, mut interval: Interval, now: Instant) {
        self.look_for_silence(now);
        self.since += 1;
        if let Some(sending) = &self.sending {
            self.silent = false;
            interval.sending = sending.sending.clone();
            for lane in &mut interval.lanes {
                if let Some(other) = sending.lanes.iter().find(|other| other.lane == lane.lane) {
                    lane.sender = other.sender.clone();
                }
            }
            if let Reading::Value(stages) = &sending.sending {
                let limited = stages.share(stages.limited, sending.span);
                interval.lanes.iter_mut().for_each(|lane| lane.limited = interval.span.mul_f64(limited));
            }
        } else if self.silent {
            without_sender(&mut interval);
        }
        self.add(interval);
    }

    fn add(&mut self, interval: Interval) {
        let verdict = judge_interval(&interval, &Context::live(&self.evidence));
        self.limit = (!verdict.is_unseen()).then_some(verdict.limit);
        // Of a long run intervals are joined, and what happened within one is no more to be seen.
        self.controls.observe(&interval);
        let most = MOST_INTERVALS.min(MOST_LANE_INTERVALS / interval.lanes.len().max(1));
        self.evidence.push(interval, most);
        self.fresh = true;
        if self.forecast.is_none() {
            self.forecast = forecast::from_start(&self.evidence, self.outlook);
        }
    }
}

/// Why there is nothing of an end.
const SENDER_SILENT: &str =
    "the sender reported nothing at that time: its program was stopped, or its reports did not arrive";

/// An interval of which the sender told nothing.
fn without_sender(interval: &mut Interval) {
    interval.silent.sender = interval.span;
    interval.sending = Reading::Missing(SENDER_SILENT.to_owned());
    for lane in &mut interval.lanes {
        lane.sender = Reading::Missing(SENDER_SILENT.to_owned());
        lane.limited = Duration::ZERO;
    }
}

/// A sender's own interval, of which the receiver told nothing. The disk and the dirty pages would be of the
/// sender's machine.
fn without_receiver(interval: Interval) -> Interval {
    let silent = Silent { receiver: interval.span, ..interval.silent };
    Interval { silent, written: 0, disk: Reading::default(), dirty: Reading::default(), ..interval }
}

/// The time of an interval of an end of this role that stood still in it: that it passed, and what came in
/// it.
fn unseen(interval: &Interval, role: Role) -> Interval {
    let silent = match role {
        Role::Sender => Silent { sender: interval.span, ..Silent::default() },
        Role::Receiver => Silent { receiver: interval.span, ..Silent::default() },
    };
    Interval {
        at: interval.at,
        span: interval.span,
        received: interval.received,
        silent,
        ..Interval::default()
    }
}

/// A congestion control has a short name of few letters (TCP_CA_NAME_MAX, 16 bytes with the zero); anything
/// else is none.
fn without_strange_names(lane: &mut LaneInterval) {
    if let Reading::Value(seen) = &mut lane.sender {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        seen.congestion_control
            .take_if(|name| name.len() > 15 || name.is_empty() || !name.bytes().all(plain));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::sender::SenderInterval;

    const SPAN: Duration = Duration::from_millis(100);

    fn receivers(span: Duration) -> Interval {
        Interval { span, receiving: Reading::Value(Default::default()), ..Interval::default() }
    }

    fn senders(span: Duration) -> Interval {
        Interval { span, sending: Reading::Value(Default::default()), ..Interval::default() }
    }

    /// Seconds of each kind of silence: of none, of the sender, of the receiver, of both.
    fn silences(joiner: &Joiner) -> [f64; 4] {
        let mut sums = [0.0; 4];
        for interval in &joiner.evidence().intervals {
            let Silent { sender, receiver, .. } = interval.silent;
            let (sender, receiver) = (!sender.is_zero(), !receiver.is_zero());
            sums[usize::from(sender) + 2 * usize::from(receiver)] += interval.span.as_secs_f64();
            assert!(!sender || interval.sending.is_missing());
            assert!(!receiver || interval.receiving.is_missing());
        }
        sums.map(|sum| (sum * 10.0).round() / 10.0)
    }

    #[test]
    fn the_last_word_of_a_sender_that_stands_still_is_no_news() {
        let mut joiner = Joiner::new(Role::Receiver, false, None, 1);
        let start = Instant::now();
        let at = |tenths: u32| start + tenths * SPAN;
        for tenth in 0..10 {
            joiner.sender_told(senders(SPAN), at(tenth));
            joiner.receiver_told(receivers(SPAN), at(tenth));
        }
        (10..110).for_each(|tenth| joiner.receiver_told(receivers(SPAN), at(tenth)));
        // The second in which it was not known yet is none of its last state either.
        assert_eq!(silences(&joiner), [1.0, 10.0, 0.0, 0.0]);
        // Its first word is of all that time, with the state in which it stopped.
        joiner.sender_told(senders(101 * SPAN), at(110));
        joiner.receiver_told(receivers(SPAN), at(110));
        joiner.sender_told(senders(SPAN), at(111));
        joiner.receiver_told(receivers(SPAN), at(111));
        assert_eq!(silences(&joiner), [1.1, 10.1, 0.0, 0.0]);
    }

    #[test]
    fn a_sender_that_stands_still_from_the_start_is_not_seen() {
        let mut joiner = Joiner::new(Role::Receiver, false, None, 1);
        let start = Instant::now();
        (0..50).for_each(|tenth| joiner.receiver_told(receivers(SPAN), start + tenth * SPAN));
        assert_eq!(silences(&joiner), [0.0, 5.0, 0.0, 0.0]);
        joiner.sender_told(senders(SPAN), start + 50 * SPAN);
        joiner.receiver_told(receivers(SPAN), start + 50 * SPAN);
        assert_eq!(silences(&joiner), [0.1, 5.0, 0.0, 0.0]);
    }

    #[test]
    fn a_receiver_that_stands_still_is_not_seen_and_its_time_is_counted_once() {
        let mut joiner = Joiner::new(Role::Sender, false, None, 1);
        let start = Instant::now();
        let at = |tenths: u32| start + tenths * SPAN;
        for tenth in 0..10 {
            joiner.receiver_told(receivers(SPAN), at(tenth));
            joiner.sender_told(senders(SPAN), at(tenth));
        }
        (10..130).for_each(|tenth| joiner.sender_told(senders(SPAN), at(tenth)));
        assert_eq!(silences(&joiner), [1.0, 0.0, 12.1, 0.0]);
        // Its first word is of all that time.
        joiner.receiver_told(receivers(120 * SPAN), at(130));
        for tenth in 131..136 {
            joiner.receiver_told(receivers(SPAN), at(tenth));
            joiner.sender_told(senders(SPAN), at(tenth));
        }
        // The first of these is of that time too, as far as is known.
        assert_eq!(silences(&joiner), [1.4, 0.0, 12.1, 0.0]);
    }

    #[test]
    fn words_that_come_late_are_of_time_that_is_told_of_already() {
        let mut joiner = Joiner::new(Role::Sender, false, None, 1);
        let start = Instant::now();
        let at = |tenths: u32| start + tenths * SPAN;
        joiner.receiver_told(receivers(SPAN), at(0));
        (1..51).for_each(|tenth| joiner.sender_told(senders(SPAN), at(tenth)));
        // All of them at once.
        (1..51).for_each(|_| joiner.receiver_told(receivers(SPAN), at(51)));
        joiner.receiver_told(receivers(SPAN), at(52));
        assert_eq!(silences(&joiner), [0.2, 0.0, 5.0, 0.0]);
    }

    #[test]
    fn this_end_may_have_stood_still_itself() {
        for role in [Role::Sender, Role::Receiver] {
            let mut joiner = Joiner::new(role, false, None, 1);
            let start = Instant::now();
            joiner.sender_told(senders(SPAN), start);
            joiner.receiver_told(receivers(SPAN), start);
            let back = start + 12 * STALE;
            // Its own first word is of all that time; those of the other end have waited.
            let late = |joiner: &mut Joiner| match role {
                Role::Sender => (0..120).for_each(|_| joiner.receiver_told(receivers(SPAN), back)),
                Role::Receiver => (0..120).for_each(|_| joiner.sender_told(senders(SPAN), back)),
            };
            match role {
                Role::Sender => joiner.sender_told(senders(12 * STALE), back),
                Role::Receiver => joiner.receiver_told(receivers(12 * STALE), back),
            }
            late(&mut joiner);
            let seconds: f64 = silences(&joiner).iter().sum();
            assert!((12.0..12.5).contains(&seconds), "{role:?}: {:?}", silences(&joiner));
            assert!(silences(&joiner)[0] < 0.2, "{role:?}: {:?}", silences(&joiner));
        }
    }

    #[test]
    fn a_far_end_names_its_congestion_control_in_plain_letters() {
        let left = |name: &str| {
            let sender =
                SenderInterval { congestion_control: Some(name.to_owned()), ..SenderInterval::default() };
            let mut lane = LaneInterval { sender: Reading::Value(sender), ..LaneInterval::default() };
            without_strange_names(&mut lane);
            lane.sender.value().and_then(|seen| seen.congestion_control.clone())
        };
        for name in ["cubic", "bbr", "dctcp-reno", "a23456789_12345"] {
            assert_eq!(left(name).as_deref(), Some(name));
        }
        for name in ["", "\u{1b}[2J", "bbr\n", "b b", "a234567890123456"] {
            assert_eq!(left(name), None, "{name:?}");
        }
    }
}
