//! How many lanes? What both ends see is put before the tuner of `weir get`, which asks the same question.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_model::congestion::is_bbr;
use weir_model::decision::{ControlChange, Decision, Event, LaneChange, LaneReason};
use weir_model::evidence::{Interval, LaneInterval};
use weir_model::limit::Limit;
use weir_model::path::queue_stands;
use weir_model::stages::Stages;
use weir_model::tuner::{Observation, Tuner};

/// Lanes at most: each has two threads at the receiver with a block each.
const MOST: u32 = 16;

/// Lanes that go by BBR over a long path. One leaves a tenth of it to its own probing: a round trip in eight
/// at three quarters of the rate, and every ten seconds 200 ms with four segments in flight. Measured over
/// 200 Mbit/s and 100 ms: 0.89 of the path by one lane, 0.97 by two, all of it by four.
const BBR_LANES: u32 = 4;

/// Lanes to begin with over a long path: of four each needs a quarter of the intervals that one would, two
/// doublings less of its slow start, and a loss in it holds up a quarter. A control message is answered as
/// slowly as the path is long, or as a machine is busy: the lanes' own round trips tell which.
const LONG_LANES: u32 = BBR_LANES;

/// How long these are left alone: slow start's ten round trips at 150 ms, and as long again for the sender,
/// which may find that the path loses segments and go over to BBR. More lanes would hide that from it.
const REST: Duration = Duration::from_secs(3);

/// By then each of them stands or is given up ([`crate::lane_manager::TIMEOUT`]): only lanes that stand can
/// be let go.
const JOINED: Duration = Duration::from_secs(2);

/// What the sender needs from the first interval after that which loss holds: a second that has no queue in
/// it, and three such intervals.
const NOTICE: Duration = Duration::from_secs(2);

/// From this round trip on; below it a queue of a millisecond or two bridges what the probing leaves.
const LONG: Duration = Duration::from_millis(20);

/// With less than this left more lanes do not pay for their slow start.
const WORTHWHILE: Duration = Duration::from_secs(2);

/// The tuner and what it has seen.
#[derive(Debug)]
pub(crate) struct Tuning {
    tuner: Tuner,
    at: Duration,
    /// What each lane's sender went by in the last interval.
    controls: BTreeMap<u32, String>,
    /// Lanes that stand and have received something.
    begun: BTreeSet<u32>,
    /// Bytes so far on the wire and of the files.
    wire: u64,
    payload: u64,
    /// Of a copy that began as over a long path.
    long: Option<LongStart>,
    /// Of a hop of a chain whose lanes have not said yet how long its path is.
    of_hop: bool,
}

/// Lanes of a hop of a chain over a short path. Blocks that go over more of them at a time arrive later, each
/// by as much, and so does all on every host behind: at 100 Mbit/s each takes 84 ms alone. Over a long path
/// that is less than what fewer lanes lose to slow start and losses.
pub(crate) const HOP_LANES: u32 = 2;

/// What is special about a copy that began with [`LONG_LANES`].
#[derive(Debug)]
struct LongStart {
    /// The lanes' own round trips have said that the path is long.
    confirmed: bool,
    /// Until then no trials.
    rests: Duration,
    /// The sender has had its time since loss was first seen to hold the lanes.
    waited: bool,
}

impl LongStart {
    /// Whether an interval at `at`, held by `limit`, is one in which no more lanes are tried.
    fn rests(&mut self, at: Duration, limit: Limit) -> bool {
        if limit == Limit::PathLoss && at >= self.rests && !std::mem::replace(&mut self.waited, true) {
            self.rests = at + NOTICE;
        }
        at < self.rests && !matches!(limit, Limit::ReceiveWindow | Limit::RateLimit)
    }
}

impl Tuning {
    /// One that begins with one lane; with more where a control message was answered so late that the path
    /// may be long.
    pub(crate) fn new(answered: Duration) -> Tuning {
        let long = is_long(Some(answered));
        Tuning {
            tuner: Tuner::new(if long { LONG_LANES } else { 1 }, MOST),
            at: Duration::ZERO,
            controls: BTreeMap::new(),
            begun: BTreeSet::new(),
            wire: 0,
            payload: 0,
            long: long.then_some(LongStart { confirmed: false, rests: REST, waited: false }),
            of_hop: false,
        }
    }

    /// One for a hop of a chain: with [`HOP_LANES`], as long as its lanes' own round trips do not say that
    /// the path is long. What its driver measures is the way to the driver.
    pub(crate) fn of_hop() -> Tuning {
        Tuning { tuner: Tuner::new(HOP_LANES, MOST), of_hop: true, ..Tuning::new(Duration::ZERO) }
    }

    /// How many lanes it wants now.
    pub(crate) fn lanes(&self) -> u32 {
        self.tuner.lanes()
    }

    /// The other end says how long it was.
    fn pass_time(&mut self, interval: &Interval) {
        self.at = self.at.saturating_add(interval.span);
    }

    /// An interval that the user's own limit held: it says nothing of the lanes' number.
    pub(crate) fn pass(&mut self, interval: &Interval) {
        self.pass_time(interval);
        self.tuner.pass();
    }

    /// Takes in an interval of both ends; how many lanes there should be, if not as many as there are.
    pub(crate) fn observe(
        &mut self,
        interval: &Interval,
        limit: Limit,
        lanes: u32,
        left: Option<u64>,
    ) -> Option<u32> {
        self.pass_time(interval);
        self.take_in(interval);
        // What BBR loses takes nothing of its window, so it tells nothing of what more lanes would bring.
        let by_bbr = self.controls.values().next().is_some_and(|name| is_bbr(name));
        let round_trip = interval.lanes.iter().filter_map(|lane| lane.tcp.value()?.min_rtt).max();
        if self.of_hop {
            return self.begin_of_hop(round_trip.filter(|_| is_long(round_trip)), lanes);
        }
        if let Some(long) = self.long.as_mut().filter(|long| !long.confirmed)
            && round_trip.is_some()
            && (lanes >= LONG_LANES || self.at >= JOINED)
        {
            if let Some(short) = round_trip.filter(|_| !is_long(round_trip)) {
                let change = LaneChange { from: lanes, to: 1, why: LaneReason::ShortPath(short) };
                self.tell(Decision::Lanes(change));
                (self.tuner, self.long) = (Tuner::new(1, MOST), None);
                return Some(1);
            }
            long.confirmed = true;
            // Some may not be had.
            self.tuner.settle_on(lanes);
        }
        let bytes: u64 = interval.lanes.iter().map(|lane| lane.received).sum();
        self.wire += bytes;
        self.payload += interval.received;
        let left = left.map(|left| self.on_the_wire(left));
        if by_bbr && is_long(round_trip) && is_of_path(limit) {
            return self.by_bbr(lasts(left, bytes, interval.span));
        }
        if self.long.as_mut().is_some_and(|long| long.rests(self.at, limit)) {
            self.tuner.pass();
            return None;
        }
        let ends = [interval.sending.value(), interval.receiving.value()];
        let free = |end: &Stages| f64::from(end.cpus) - end.busy.unwrap_or(f64::from(end.cpus));
        let seen = Observation {
            now: self.at,
            span: interval.span,
            // Blocks of a mebibyte arrive whole, several of them or none in an interval; on the wire they
            // flow.
            bytes,
            lanes,
            started: self.begun.len() as u32,
            limit,
            free_cpus: ends.into_iter().flatten().map(free).fold(f64::INFINITY, f64::min).clamp(0.0, 1e3),
            own_cpu: 0.0,
            left,
            refused: false,
            queue: has_queue(interval),
            round_trip,
            disorder: loses(interval) && !by_bbr,
        };
        let decided = self.tuner.observe(&seen);
        decided.iter().for_each(|change| self.tell(Decision::Lanes(*change)));
        decided.last().map(|change| change.to)
    }

    /// What its lanes go by and which of them have begun; lanes that go by something else now are judged
    /// anew.
    fn take_in(&mut self, interval: &Interval) {
        let controls = controls(interval);
        // Of all lanes that were there before the first tells: those that were just made follow it in an
        // interval.
        let first = controls.iter().find_map(|(lane, name)| Some((name, self.controls.get(lane)?)));
        if let Some((to, from)) = first.filter(|(now, before)| now != before) {
            self.tell(Decision::Congestion(ControlChange::Seen { from: from.clone(), to: to.clone() }));
            self.tuner.begin_anew(self.at);
        }
        self.controls = controls;
        // A lane that waits for a segment to come again receives nothing for an interval or two, and has
        // begun all the same.
        self.begun.retain(|lane| interval.lanes.iter().any(|other| other.lane == *lane));
        self.begun.extend(interval.lanes.iter().filter(|lane| lane.received > 0).map(|lane| lane.lane));
    }

    /// An interval of a hop with so many lanes, whose path has this round trip if it is a long one.
    fn begin_of_hop(&mut self, long: Option<Duration>, lanes: u32) -> Option<u32> {
        self.tuner.pass();
        let round_trip = long?;
        self.of_hop = false;
        self.long = Some(LongStart { confirmed: true, rests: self.at + REST, waited: false });
        let to = self.tuner.settle_on(LONG_LANES);
        let why = LaneReason::LongPath(round_trip);
        self.tell(Decision::Lanes(LaneChange { from: lanes, to, why }));
        Some(to)
    }

    fn tell(&self, decision: Decision) {
        tracing::info!("{}", Event { at: self.at, decision });
    }

    /// What so many bytes of files are on the wire, as far as those before them tell.
    fn on_the_wire(&self, left: u64) -> u64 {
        if self.payload == 0 { left } else { (left as f64 * self.wire as f64 / self.payload as f64) as u64 }
    }

    /// The path holds lanes that go by BBR, which finds by itself what it carries: no trial would tell more.
    fn by_bbr(&mut self, lasts: bool) -> Option<u32> {
        let before = self.tuner.lanes();
        if before == BBR_LANES || !lasts {
            self.tuner.pass();
            return None;
        }
        self.tuner.begin_anew(self.at);
        let lanes = self.tuner.settle_on(BBR_LANES);
        (lanes != before).then(|| {
            self.tell(Decision::Lanes(LaneChange { from: before, to: lanes, why: LaneReason::Bbr }));
            lanes
        })
    }

    /// What trials brought.
    pub(crate) fn trials(&self) -> &[weir_model::evidence::Trial] {
        self.tuner.trials()
    }
}

/// The congestion control of each lane's sender, where it is known.
fn controls(interval: &Interval) -> BTreeMap<u32, String> {
    let lanes = interval.lanes.iter();
    lanes.filter_map(|lane| Some((lane.lane, lane.sender.value()?.congestion_control.clone()?))).collect()
}

pub(crate) fn is_long(round_trip: Option<Duration>) -> bool {
    round_trip.is_some_and(|round_trip| round_trip >= LONG)
}

fn is_of_path(limit: Limit) -> bool {
    matches!(limit, Limit::PathBandwidth | Limit::PathLoss | Limit::SenderOrPath)
}

/// So many bytes take longer than [`WORTHWHILE`] at this rate.
fn lasts(left: Option<u64>, bytes: u64, span: Duration) -> bool {
    left.is_some_and(|left| left as f64 * span.as_secs_f64() > bytes as f64 * WORTHWHILE.as_secs_f64())
}

fn loses(interval: &Interval) -> bool {
    interval.lanes.iter().filter_map(|lane| lane.tcp.value()).any(|tcp| tcp.out_of_order > 0)
}

/// A queue stands on the path, as its sender sees it.
fn has_queue(interval: &Interval) -> bool {
    let round_trips = |lane: &LaneInterval| {
        let seen = lane.sender.value()?;
        Some((seen.rtt?, seen.min_rtt?))
    };
    queue_stands(interval.lanes.iter().filter_map(round_trips))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::evidence::{Reading, TcpInterval};

    fn interval(round_trip: Option<Duration>) -> Interval {
        let tcp = TcpInterval { min_rtt: round_trip, ..TcpInterval::default() };
        let lane = |lane| LaneInterval { lane, tcp: Reading::Value(tcp.clone()), ..LaneInterval::default() };
        let span = Duration::from_millis(100);
        Interval { span, lanes: (1..=LONG_LANES).map(lane).collect(), ..Interval::default() }
    }

    /// What it says to intervals of these round trips.
    fn said(answered: u64, round_trips: &[Option<u64>]) -> Vec<Option<u32>> {
        let mut tuning = Tuning::new(Duration::from_millis(answered));
        let mut observe = |round_trip: &Option<u64>| {
            let interval = interval(round_trip.map(Duration::from_millis));
            tuning.observe(&interval, Limit::SenderOrPath, LONG_LANES, None)
        };
        round_trips.iter().map(&mut observe).collect()
    }

    #[test]
    fn a_path_that_may_be_long_begins_with_four_lanes() {
        assert_eq!(Tuning::new(Duration::from_millis(3)).lanes(), 1);
        assert_eq!(Tuning::new(Duration::from_millis(100)).lanes(), LONG_LANES);
        assert_eq!(said(100, &[None, Some(100), Some(100)]), [None; 3]);
    }

    #[test]
    fn a_hop_has_more_lanes_over_a_long_path_alone() {
        let said = |round_trips: &[Option<u64>]| {
            let mut tuning = Tuning::of_hop();
            assert_eq!(tuning.lanes(), HOP_LANES);
            let mut observe = |round_trip: &Option<u64>| {
                let mut seen = interval(round_trip.map(Duration::from_millis));
                seen.lanes.iter_mut().for_each(|lane| lane.received = 1_000_000);
                tuning.observe(&seen, Limit::SenderOrPath, HOP_LANES, Some(1 << 40))
            };
            round_trips.iter().map(&mut observe).collect::<Vec<_>>()
        };
        assert_eq!(said(&[None, Some(100)]), [None, Some(LONG_LANES)]);
        assert_eq!(said(&[Some(1); 200]), [None; 200], "not even a trial");
    }

    #[test]
    fn a_far_machine_that_was_busy_is_no_long_path() {
        assert_eq!(said(100, &[None, Some(1), Some(1)]), [None, Some(1), None]);
        assert_eq!(said(3, &[Some(1)]), [None]);
        // Not before all stand, or are given up: those that are being made cannot be let go.
        let mut tuning = Tuning::new(Duration::from_millis(100));
        let seen = interval(Some(Duration::from_millis(1)));
        let mut observe = || tuning.observe(&seen, Limit::SenderOrPath, 3, None);
        assert_eq!((1..100).find(|_| observe() == Some(1)), Some(20));
    }

    /// When lanes of 100 ms that loss holds at a quarter of a megabyte an interval are first to be more.
    #[test]
    fn the_sender_has_time_to_go_over_to_bbr_before_lanes_are_tried() {
        let mut tuning = Tuning::new(Duration::from_millis(100));
        let mut seen = interval(Some(Duration::from_millis(100)));
        seen.received = 250_000;
        seen.lanes.iter_mut().for_each(|lane| lane.received = 62_500);
        let mut observe = |limit| tuning.observe(&seen, limit, LONG_LANES, Some(1 << 30));
        let mut first = |limit| (1..200).find(|_| observe(limit).is_some());
        assert_eq!(
            first(Limit::PathLoss),
            Some(49 + 3),
            "rest, notice, and three windows of the tuner's own"
        );
    }
}
