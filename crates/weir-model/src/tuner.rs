//! How many lanes? The verdict proposes, the goodput decides.
//!
//! Pure: time and readings come in as arguments. The tuner starts with one lane. Where the verdict names a
//! limit that more connections can lift, or one that cannot be told from here without trying, it takes more
//! lanes as a trial: it waits until the new lanes have had their first byte and their slow start, measures,
//! and keeps them only if they brought at least a quarter of what could be hoped for. Otherwise it goes back
//! and waits longer before it tries again. Where the verdict names the disk or this machine, it steps down.
//!
//! A trial takes from the lanes that were there: a window that was cut grows by a segment a round trip. So
//! the larger the windows and the longer the round trips, the more care: one lane more instead of three, a
//! second lane that stays where one would have to grow alone, a pause in proportion to what a failed trial
//! cost. And where many lanes have filled a lossy path for long, a quarter of them is given back as long as
//! the others bring the same.
//!
//! Each round trip of the search is a round trip with too few lanes, so it looks no longer than it must: two
//! windows are enough where losses without a queue, or a full receive window, show what holds the lanes, and
//! a trial that has brought all that could be hoped for is judged before its slow start is over. Where an
//! overflowing queue shows that the link is full, nothing is tried.
//!
//! A lane that shares a lossy path is fastest right after its slow start and falls back in the seconds after;
//! so what a trial found does not hold for ever. The best rate seen is what the path can carry, and when
//! lanes that once brought it fall below it, more are tried at once.

mod recent;
#[cfg(test)]
mod simulator;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::decision::{LaneChange, LaneReason};
use crate::evidence::Trial;
use crate::limit::Limit;

use self::recent::{Recent, STRETCH, Window, are_local, flow_freely, rate, share, still_growing};

/// What a window showed.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// Time since the start of the run, at the window's end.
    pub now: Duration,
    /// The window's length.
    pub span: Duration,
    /// Payload bytes in the window.
    pub bytes: u64,
    /// Lanes at work on bulk objects at the window's end.
    pub lanes: u32,
    /// Of these, lanes that have had a byte of their answer.
    pub started: u32,
    /// The judge's word on the window.
    pub limit: Limit,
    /// Share of all processors' time that was free, in processors: 0.4 of 2.
    pub free_cpus: f64,
    /// Processors that the lanes themselves kept busy.
    pub own_cpu: f64,
    /// Bytes still to come; `None` when the size is not known.
    pub left: Option<u64>,
    /// The server refused or cut a lane beyond the first in this window.
    pub refused: bool,
    /// The longest of the lanes' shortest round trips, where it was read.
    pub round_trip: Option<Duration>,
    /// The lanes' round trips are well above their shortest: a queue stands before a full link.
    pub queue: bool,
    /// Segments arrived out of order: some were lost, if not by a full queue then by the path.
    pub disorder: bool,
}

/// The policy's state.
#[derive(Debug)]
pub struct Tuner {
    max: u32,
    lanes: u32,
    /// See [`Tuner::of_uploads`].
    uploads: bool,
    state: TunerState,
    /// The windows since the lane count changed and the lanes had their first byte.
    recent: Recent,
    /// The best goodput over a stretch of windows since a trial failed: what server and path can carry.
    best: f64,
    /// The most that each number of lanes carried over a stretch, and when last: see [`Recent::held`].
    carried: BTreeMap<u32, (f64, Duration)>,
    not_before: Duration,
    /// When losses first showed since the last trial that the link may be full.
    full_from: Option<Duration>,
    /// When the last trial was judged.
    judged: Option<Duration>,
    failures: u32,
    /// When the lanes are to have back what the last trial took of them.
    recovered: Duration,
    /// When fewer lanes may be tried, and how often they were too few.
    spare_from: Duration,
    shortages: u32,
    ceiling: u32,
    /// The last trial brought all that was hoped for, or there was none yet: the next step may be larger.
    bold: bool,
    trials: Vec<Trial>,
    /// What this window decided.
    decided: Vec<LaneChange>,
}

/// More lanes on trial.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    /// Lanes and goodput before.
    from: u32,
    before: f64,
    /// The gain to hope for, as a share of `before`.
    hope: f64,
    /// Lanes that fell below the best rate are to get it back: the gain cannot tell how many of them it
    /// takes.
    restores: bool,
    /// What held the lanes before.
    limit: Limit,
    /// The path loses segments without being full: lanes that have not met it yet carry more than they will.
    lossy: bool,
}

#[derive(Debug, Clone, Copy)]
enum TunerState {
    Steady,
    /// New lanes are connecting since `since`.
    Joining {
        attempt: Attempt,
        since: Duration,
    },
    /// They have started; their slow start is over at `settled`.
    Measuring {
        attempt: Attempt,
        settled: Duration,
    },
    /// Some of `from` lanes were given back; what the others bring counts from `settled` on.
    Lighter {
        from: u32,
        settled: Duration,
    },
}

/// Slow start of the first lane: ten round trips at 40 ms reach 15 MB in flight, enough for any lane. Where
/// lost segments or a full receive window show that it is over, it is not waited for.
const FIRST_LOOK: Duration = Duration::from_millis(400);

/// Windows that make a rate: 400 ms.
const RATE_WINDOWS: usize = 4;

/// With less than this left a trial, which takes most of a second, cannot pay for itself.
const WORTHWHILE: Duration = Duration::from_secs(2);

/// A lane of this rate and more fills most paths; only slower ones are multiplied by four at once.
const FAST_LANE: f64 = 32e6;

/// What browsers and CDNs bear from one client without complaint. Beyond it lanes are only doubled.
const CIVIL: u32 = 16;

/// Lanes that bring less than this share of the best rate do not hold it any more. One lane's rate swings by
/// itself: a loss takes 30 % of its window (RFC 9438, section 4.6).
const FALLEN: f64 = 0.94;
const FALLEN_ALONE: f64 = 0.6;

/// Below this share a few windows are enough to tell.
const COLLAPSED: f64 = 0.8;

/// After so many trials in a row that brought nothing, a fall is no reason to try at once.
const PATIENT: u32 = 3;

/// A queue that looks like that of a full link may be a server's pauses, which the receiver's round trip
/// takes in: it is believed this long. So is a trial that brought nothing, and after each further one twice
/// as long: a trial costs a lane up to half of its window, which takes 6 s to grow again at 40 ms and 300
/// segments, a tenth of what it brings in 15 s.
const BELIEF: Duration = Duration::from_secs(15);
const MOST_DOUBLINGS: u32 = 5;

/// From so many seconds on trials are begun with care: a quarter of it is what a trial takes anyway.
const DEAR: f64 = 5.0;

/// From so many seconds on a lane that lost something is left alone at first: it would feel a trial for
/// longer than twice [`BELIEF`].
const ENDLESS: f64 = 30.0;

/// An Ethernet frame's payload with time stamps.
const SEGMENT: f64 = 1448.0;

/// Lanes that carry this share of the best rate carry what the path can; the noise of a stretch is 1 to 3 %.
const ENOUGH: f64 = 0.97;

/// Senders that change their congestion control need this long until they bring what they can: 20 round trips
/// at 150 ms.
const ANEW: Duration = Duration::from_secs(3);

/// Lanes that shared a link with those of a failed trial need this long for their windows to grow again.
const RECOVERY: Duration = Duration::from_secs(1);

/// Whether what was carried `at` that time still says what the lanes share: a server may let its first bytes
/// pass at a higher rate than it keeps to.
fn is_believed(at: Duration, now: Duration) -> bool {
    now <= at + BELIEF * 6
}

impl Tuner {
    /// A tuner that begins with `first` lanes and uses at most `max`.
    pub fn new(first: u32, max: u32) -> Tuner {
        Tuner {
            max,
            lanes: first,
            uploads: false,
            state: TunerState::Steady,
            recent: Recent::default(),
            best: 0.0,
            carried: BTreeMap::new(),
            not_before: Duration::ZERO,
            full_from: None,
            judged: None,
            failures: 0,
            recovered: Duration::ZERO,
            spare_from: BELIEF,
            shortages: 0,
            ceiling: max,
            bold: true,
            trials: Vec::new(),
            decided: Vec::new(),
        }
    }

    /// Of lanes that upload: what reads their bytes and answers is the far end, not this machine.
    pub fn of_uploads(self) -> Tuner {
        Tuner { uploads: true, ..self }
    }

    /// The trials so far.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The count it wants.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// The lanes' senders have changed what they go by: rates from before compare with none after it. A trial
    /// that was under way ends without a verdict, with the lanes that there are.
    pub fn begin_anew(&mut self, now: Duration) {
        self.pass();
        (self.best, self.failures, self.bold) = (0.0, 0, true);
        (self.judged, self.full_from) = (None, None);
        self.carried.clear();
        self.not_before = now + ANEW;
    }

    /// These many lanes, whatever the tuner would try; no more than were ever served. Returns how many there
    /// are to be.
    pub fn settle_on(&mut self, lanes: u32) -> u32 {
        self.lanes = lanes.min(self.max).min(self.ceiling).max(1);
        self.lanes
    }

    /// A window passed that tells nothing of the lanes' number: no trial goes on over it, and no rate reaches
    /// across it.
    pub fn pass(&mut self) {
        self.recent.clear();
        self.state = TunerState::Steady;
    }

    /// Takes a window in and says what is decided; how many lanes there are to be then is [`Tuner::lanes`].
    pub fn observe(&mut self, seen: &Observation) -> Vec<LaneChange> {
        let mut own = *seen;
        if self.uploads && seen.limit == Limit::Reader {
            // What is late and sent twice waits for the far end's reader, and for no link.
            (own.queue, own.disorder) = (false, false);
        }
        let seen = &own;
        self.recent.push(seen, self.uploads);
        if self.recent.is_full() {
            self.best = self.best.max(rate(self.recent.all()));
        }
        if let Some(held) = self.recent.held() {
            let carried = self.carried.entry(self.lanes).or_default();
            if held >= carried.0 || !is_believed(carried.1, seen.now) {
                *carried = (held, seen.now);
            } else if held >= 0.9 * carried.0 {
                // It still carries that, but for the noise of a stretch.
                carried.1 = seen.now;
            }
        }
        let newest = seen.bytes as f64 / seen.span.as_secs_f64().max(1e-3);
        let endless = self.lanes == 1 && regrowth(newest, seen) > ENDLESS;
        if seen.disorder && (seen.queue || endless) {
            self.full_from.get_or_insert(seen.now);
        }
        match self.state {
            _ if seen.refused && self.lanes > 1 => self.refused(seen),
            TunerState::Steady => self.steady(seen),
            TunerState::Joining { attempt, since } => self.joining(seen, attempt, since),
            TunerState::Measuring { attempt, settled } => self.measuring(seen, attempt, settled),
            TunerState::Lighter { from, settled } => self.lighter(seen, from, settled),
        }
        std::mem::take(&mut self.decided)
    }

    fn steady(&mut self, seen: &Observation) {
        if self.lanes > 1 && self.recent.last(RATE_WINDOWS).is_some_and(are_local) {
            self.wait(seen.now, 2);
            return self.go_back(self.lanes / 2, LaneReason::Local(seen.limit));
        }
        if self.has_lanes_to_spare(seen.now) {
            return self.give_back(seen);
        }
        let fallen = self.has_fallen(seen);
        let Some(rate) = self.hopeful(seen, fallen) else { return };
        let worthwhile = seen.left.is_some_and(|left| left as f64 > rate * WORTHWHILE.as_secs_f64());
        if !worthwhile || seen.now < self.not_before && !fallen || self.is_full(seen.now, fallen) {
            return;
        }
        let (to, attempt) = self.next(seen, rate, fallen);
        if to > self.lanes {
            self.state = TunerState::Joining { attempt, since: seen.now };
            self.decide(to, LaneReason::Trial { limit: seen.limit, rate });
        }
    }

    /// More connections can lift this limit, or trying them is the only way to know.
    fn may_help(&self, limit: Limit, seen: &Observation) -> bool {
        match limit {
            Limit::ReceiveWindow | Limit::PathLoss | Limit::RateLimit | Limit::SenderOrPath => {
                lives_on_little(seen)
            }
            // A store that takes a connection's bytes slowly, or thinks before it answers, may do so for
            // each.
            Limit::Reader | Limit::Application if self.uploads => lives_on_little(seen),
            // A second thread needs most of a processor to itself.
            Limit::CpuCore => seen.free_cpus >= 0.6,
            _ => false,
        }
    }

    /// The present rate, where more lanes may raise it.
    fn hopeful(&self, seen: &Observation, fallen: bool) -> Option<f64> {
        let few = few(seen);
        let sure = self.recent.last(few).filter(|last| flow_freely(last) && self.is_sure(last, seen));
        let last = match sure {
            Some(last) => last,
            None if seen.now < FIRST_LOOK => return None,
            None => self.recent.last(if fallen { few } else { RATE_WINDOWS })?,
        };
        let hopeful = sure.is_some() || share(last, |limit| self.may_help(limit, seen)) > 0.5;
        if self.recent.is_lossy() && !self.recent.has_faded() {
            return None;
        }
        // What losses have just taken comes back slowly: the last window tells what is left.
        let now = if self.recent.is_lossy() { rate(&last[last.len() - 1..]) } else { f64::INFINITY };
        let rate = rate(last).min(now);
        (hopeful && rate > 0.0 && !still_growing(last)).then_some(rate)
    }

    /// It takes no long look to know what holds these lanes: each is at the end of its receive window, the
    /// path loses segments, or the last trial showed that nothing they share is full.
    fn is_sure(&self, last: &[Window], seen: &Observation) -> bool {
        let held = share(last, |limit| matches!(limit, Limit::ReceiveWindow | Limit::PathLoss)) >= 0.5;
        let after_loss = |limit| self.may_help(limit, seen) || limit == Limit::Latency;
        // One lane's few losses may be those of a queue that its slow start has filled.
        let lossy = self.recent.is_lossy() && !self.is_risky(rate(&last[last.len() - 1..]), seen);
        let lost = lossy && share(last, after_loss) == 1.0;
        let paid =
            self.bold && self.judged.is_some() && share(last, |limit| self.may_help(limit, seen)) == 1.0;
        (held && self.may_help(seen.limit, seen)) || lost || paid
    }

    /// The present lanes have lost what they, or as many, once brought.
    fn has_fallen(&self, seen: &Observation) -> bool {
        let below = |windows: &[Window], share: f64| rate(windows) < share * self.best;
        let often = self.recent.loses_often();
        let (fallen, collapsed) = match (self.lanes, self.failures) {
            (2.., _) if often => (FALLEN, COLLAPSED),
            (_, 0) => (FALLEN_ALONE, FALLEN_ALONE),
            // The faster half of the lanes of a trial had half of what all brought.
            _ => (FALLEN / 2.0, FALLEN / 2.0),
        };
        let Some(last) = self.recent.last(few(seen)) else { return false };
        let slowly = self.recent.is_full() && below(self.recent.all(), fallen) && below(last, fallen);
        let suddenly = below(last, collapsed);
        // Lanes that took part in a trial come back to what they had in a while.
        let recovers = self.failures > 0 && seen.now < self.recovered;
        // Before a full link more lanes would only take from others.
        !seen.queue && !recovers && (slowly || suddenly)
    }

    /// The present lanes bring all that the path can carry, losses or not: fewer may as well.
    fn has_lanes_to_spare(&self, now: Duration) -> bool {
        let fills = self.recent.is_full() && rate(self.recent.all()) >= ENOUGH * self.best;
        self.lanes > 2 && now >= self.spare_from && fills && self.recent.loses()
    }

    /// Gives a quarter of the lanes back, to see whether the others bring the same.
    fn give_back(&mut self, seen: &Observation) {
        let from = self.lanes;
        let brought = rate(self.recent.all());
        self.go_back(from - (from / 4).max(1), LaneReason::Spare { rate: brought });
        self.state = TunerState::Lighter { from, settled: seen.now + RECOVERY };
    }

    fn lighter(&mut self, seen: &Observation, from: u32, settled: Duration) {
        if seen.now <= settled {
            self.recent.clear();
        }
        if !self.recent.is_full() {
            return;
        }
        let (after, best) = (rate(self.recent.all()), self.best);
        if after >= ENOUGH * best {
            self.state = TunerState::Steady;
            self.wait(seen.now, BELIEF.as_secs());
            return self.decide(self.lanes, LaneReason::SpareHolds { rate: after, best });
        }
        self.spare_from = seen.now + BELIEF * (1 << self.shortages.min(MOST_DOUBLINGS));
        self.shortages += 1;
        self.wait(seen.now, BELIEF.as_secs());
        self.go_back(from, LaneReason::TooFew { rate: after, best });
    }

    /// The queue may have taken what one lane lost, and a trial that fails costs it much.
    fn is_risky(&self, rate: f64, seen: &Observation) -> bool {
        let shown = self.recent.loses_often() || self.recent.has_collapsed();
        self.lanes == 1 && regrowth(rate, seen) > DEAR && !shown
    }

    /// The link is full, as far as can be told from here.
    fn is_full(&self, now: Duration, fallen: bool) -> bool {
        let judged = self.judged.unwrap_or_default();
        let overflowed = self.full_from.is_some_and(|from| now < from + BELIEF);
        let refuted = fallen || self.recent.loses_often() || self.recent.has_collapsed();
        self.recent.is_link_full() && now < judged + BELIEF || overflowed && !refuted
    }

    /// How many lanes to try from `rate`, and what to hope for.
    fn next(&self, seen: &Observation, rate: f64, fallen: bool) -> (u32, Attempt) {
        let from = self.lanes;
        let is_slow = rate < FAST_LANE * f64::from(from);
        let lossy = self.recent.is_lossy();
        // Lanes that lose segments one by one bring what they bring whatever their number, until the link is
        // full.
        let careful = lossy && self.is_risky(rate, seen);
        let bold = self.bold || lossy && from < CIVIL && self.failures == 0;
        let bold = if bold && is_slow && !careful { 4.0 } else { 2.0 };
        let step = if fallen {
            // As many as bring the best rate at what each brings now, and some for what it will lose yet.
            (self.best / rate * 1.25).min(4.0)
        } else {
            bold
        };
        // A loss comes back on lanes that have just been spared it.
        let step = if lossy && from < CIVIL { step.max(bold) } else { step };
        let to = (f64::from(from) * step).ceil() as u32;
        // Beyond what anybody bears only by doubling.
        let to = to.min(CIVIL.max(from * 2)).min(self.max).min(self.ceiling);
        let gain = f64::from(to) / f64::from(from) - 1.0;
        let hope = if fallen { gain.min(self.best / rate - 1.0) } else { gain };
        (to, Attempt { from, before: rate, hope, restores: fallen, limit: seen.limit, lossy })
    }

    fn refused(&mut self, seen: &Observation) {
        self.ceiling = (self.lanes / 2).max(1);
        self.wait(seen.now, 10);
        self.go_back(self.ceiling, LaneReason::Refused);
    }

    /// Goes on steadily with `lanes`.
    fn go_back(&mut self, lanes: u32, why: LaneReason) {
        self.decide(lanes.max(1), why);
        self.state = TunerState::Steady;
        self.recent.clear();
    }

    /// So many lanes from now on.
    fn decide(&mut self, to: u32, why: LaneReason) {
        self.decided.push(LaneChange { from: self.lanes, to, why });
        self.lanes = to;
    }

    fn wait(&mut self, now: Duration, seconds: u64) {
        self.not_before = now + Duration::from_secs(seconds);
    }
}

/// Seconds that a lane of this rate takes to grow half of its window again: a segment each round trip (RFC
/// 5681).
fn regrowth(rate: f64, seen: &Observation) -> f64 {
    let round_trip = seen.round_trip.unwrap_or_default().as_secs_f64();
    rate * round_trip / SEGMENT / 2.0 * round_trip
}

/// Windows that cover two and a half round trips, and two at least: data come in bursts of a round trip.
fn few(seen: &Observation) -> usize {
    let spans = seen.round_trip.unwrap_or_default().as_secs_f64() * 2.5 / seen.span.as_secs_f64().max(1e-3);
    (spans.ceil() as usize).clamp(2, STRETCH)
}

/// A lane that mostly waits gets the little it needs even on a busy machine.
fn lives_on_little(seen: &Observation) -> bool {
    seen.free_cpus >= 0.2 || seen.own_cpu < 0.3 * f64::from(seen.lanes.max(1))
}
