//! Intervals judged, and added up to shares over the run; [`told`] puts it into words, [`advised`] says what
//! to change and what that would bring.
//!
//! [`judge_interval`] serves the tuner and the progress line while a transfer runs, [`explain`] the record
//! afterwards. Both ask the same rules.

mod advised;
mod counted;
mod main_limit;
mod told;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::advice::{self, Advice};
use crate::evidence::{Clocks, Evidence, Interval};
use crate::knee::Knee;
use crate::limit::{Limit, QUARTER};
use crate::merge::merged;
pub use crate::rule::judge::{IntervalVerdict, judge_interval};
use crate::rule::judge::{choose, judgements};
use crate::rule::silence::{self, Unseen};
use crate::rule::{Context, Judgement, RULES, latency, rate_limit};
use crate::sight::Sight;
use crate::words::{percent, seconds};
use crate::worth::{self, Grounds};

use counted::counted;
pub use main_limit::MainLimit;
use told::{missing_readings, worded};

/// What held a run, with what supports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The limit; `None` when the run was too short to judge, which `missing` then says.
    pub limit: Option<MainLimit>,
    /// 0 to 1: how sure, by the signs' strength, their share of the time and the readings that were there.
    pub confidence: f64,
    /// The share of the run's time that each limit held, adding up to 1 with what was not seen; empty when
    /// nothing was observed.
    pub shares: BTreeMap<Limit, f64>,
    /// The same in order of time.
    pub phases: Vec<Phase>,
    /// Numbers with units, most important first.
    pub evidence: Vec<String>,
    /// `LIMIT: numbers` for each limit that this view could have seen and that did not hold.
    pub innocent: Vec<String>,
    /// `LIMIT, LIMIT: why`: what this view does not show, so that it is neither named nor ruled out.
    #[serde(default)]
    pub not_visible: Vec<String>,
    /// What could not be read or told.
    pub missing: Vec<String>,
    /// What to change.
    pub advice: Vec<Advice>,
    /// The limit of each interval, in the order of the evidence; `None` where an end was not seen and so
    /// nothing is known.
    #[serde(skip)]
    pub intervals: Vec<Option<Limit>>,
    /// What it rests on, of another program's transfer.
    #[serde(skip)]
    pub grounds: Option<Grounds>,
}

/// A stretch of the run under one limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Seconds from the start of the run.
    pub from: f64,
    /// Seconds from the start of the run.
    pub to: f64,
    /// What held it.
    pub limit: Limit,
}

/// Below this a run is not judged but by direct clocks: it is a few clock ticks (10 ms) and intervals, mostly
/// start-up.
const SHORT: f64 = 0.1;

/// Fewer intervals than these rule nothing out of a run without a limit: as of the verdicts that were
/// measured ([`worth::of_intervals`]).
const LEAST_INTERVALS: usize = 8;

/// What held this run: pure, the same evidence gives the same words.
pub fn explain(evidence: &Evidence) -> Verdict {
    let run = Run::judge(evidence);
    let main = run.main();
    let shares = run.shares();
    let mut worded = worded(&shares);
    // That nothing was seen says nothing where nothing could be.
    worded.retain(|limit| evidence.facts.unseen.is_none() || *limit != Limit::SenderOrPath);
    let told = main.is_some() || run.is_judged_without_one();
    // Of a run that is too short to judge nothing is ruled out either.
    let innocent = if told || run.is_unseen() { run.innocent() } else { Vec::new() };
    let mut missing = run.too_short(main);
    missing.extend(silence::lines(run.judged().map(|(interval, _)| interval), run.total));
    missing.extend(missing_readings(evidence));
    if matches!(main, Some(MainLimit::One(Limit::SenderOrPath) | MainLimit::Mixed)) {
        missing.extend(run.untold(&innocent));
    }
    let knee = run.knee();
    let confidence = run.confidence(main, missing.len());
    // No reading is missing, there is none to be had: it takes nothing from what the others say.
    missing.extend(run.programs_limit());
    Verdict {
        limit: main,
        confidence,
        phases: run.phases(),
        evidence: run.evidence_lines(&worded, knee),
        innocent: innocent.into_iter().map(|(limit, numbers)| format!("{limit}: {numbers}")).collect(),
        not_visible: if told { run.not_visible() } else { Vec::new() },
        missing,
        advice: match main {
            Some(_) => {
                run.advice(&worded, knee).into_iter().chain(advice::buffers::advise(evidence)).collect()
            }
            None => Vec::new(),
        },
        intervals: run.verdicts.iter().map(|one| (!one.is_unseen()).then_some(one.limit)).collect(),
        grounds: run.grounds(&run.mains(main)),
        shares,
    }
}

/// A run with each interval judged.
struct Run<'a> {
    evidence: &'a Evidence,
    verdicts: Vec<IntervalVerdict>,
    /// The intervals that count: all but a foreign transfer's rest before its first byte and after its last.
    counted: Range<usize>,
    /// Seconds that each limit held.
    held: BTreeMap<Limit, f64>,
    /// Seconds of which nothing is known, since an end, or the watch, told nothing.
    unseen: f64,
    /// Of those of latency, seconds in which connections began: see [`latency::begins`].
    begun: f64,
    /// Seconds observed; 1 in place of none, so that it divides.
    total: f64,
    observed: bool,
    /// For each rule: seconds convicting, acquitting, unable to tell.
    tallies: Vec<[f64; 3]>,
}

impl<'a> Run<'a> {
    fn judge(evidence: &'a Evidence) -> Run<'a> {
        let mut verdicts = Vec::with_capacity(evidence.intervals.len());
        let mut held = BTreeMap::new();
        let (mut begun, mut unseen) = (0.0, 0.0);
        let mut tallies = vec![[0.0; 3]; RULES.len()];
        let mut total = 0.0;
        let counted = counted(evidence);
        for (index, interval) in evidence.intervals.iter().enumerate() {
            let context = Context::at(evidence, index);
            let judgements = judgements(interval, &context);
            let verdict = choose(&judgements, interval, &context);
            let span = if counted.contains(&index) { interval.span.as_secs_f64() } else { 0.0 };
            total += span;
            let seen = span * (1.0 - verdict.unseen);
            unseen += span - seen;
            if seen > 0.0 {
                *held.entry(verdict.limit).or_insert(0.0) += seen;
                if verdict.limit == Limit::Latency && latency::begins(interval, &context) {
                    begun += seen;
                }
            }
            let nothing = Unseen::of(interval);
            for ((tally, judgement), rule) in tallies.iter_mut().zip(&judgements).zip(RULES) {
                let span = span * (1.0 - silence::hidden(interval, Some(rule)));
                match judgement {
                    _ if !nothing.shows(rule) => {}
                    Some(Judgement::Convict { .. }) => tally[0] += span,
                    Some(Judgement::Acquit { .. }) => tally[1] += span,
                    Some(Judgement::Unknown { .. }) => tally[2] += span,
                    None => {}
                }
            }
            verdicts.push(verdict);
        }
        let observed = total > 0.0;
        Run {
            evidence,
            verdicts,
            counted,
            held,
            unseen,
            begun,
            total: if observed { total } else { 1.0 },
            observed,
            tallies,
        }
    }

    fn shares(&self) -> BTreeMap<Limit, f64> {
        self.held.iter().map(|(limit, held)| (*limit, held / self.total)).collect()
    }

    fn knee(&self) -> Option<Knee> {
        let first = self.verdicts.iter().position(|verdict| verdict.limit == Limit::DirtyThrottle)?;
        Knee::find(&self.evidence.intervals, first)
    }

    fn main(&self) -> Option<MainLimit> {
        if !self.observed || self.is_unseen() {
            return None;
        }
        let short = self.total < SHORT;
        let (limit, most) = self.most()?;
        if self.is_scattered() {
            return None;
        }
        // Each transfer begins with a handshake, a question and slow start: they are what holds it only where
        // they hold the most.
        let second = |limit: Limit, held: f64| match limit {
            Limit::Latency if held < most => held - self.begun,
            _ => held,
        };
        let main = |(limit, held): &(&Limit, &f64)| second(**limit, **held) > QUARTER * self.total;
        if self.held.iter().filter(main).count() > 1 {
            let timed = self.held.iter().filter(main).all(|(limit, _)| self.timed(*limit));
            return (!short || timed).then_some(MainLimit::Mixed);
        }
        // With nothing to go by but that nobody here was in the way.
        let blind = self.received() == 0 || self.evidence.facts.unseen.is_some();
        let guessed = limit == Limit::SenderOrPath && blind;
        (!guessed && (!short || self.timed(limit))).then_some(MainLimit::One(limit))
    }

    /// The limit that held the longest, and its seconds.
    fn most(&self) -> Option<(Limit, f64)> {
        let most = self.held.iter().max_by(|a, b| a.1.total_cmp(b.1));
        most.map(|(limit, held)| (*limit, *held))
    }

    /// No limit held long enough to be the run's.
    fn is_scattered(&self) -> bool {
        self.most().is_some_and(|(_, most)| most <= QUARTER * self.total)
    }

    /// No limit is the run's, though it was seen for long enough to say which did not hold it: many held it
    /// in turn, or what did does not show from here.
    fn is_judged_without_one(&self) -> bool {
        let long = self.total >= SHORT && self.judged().count() >= LEAST_INTERVALS && self.received() > 0;
        long && !self.is_unseen() && (self.is_scattered() || self.evidence.facts.unseen.is_some())
    }

    /// Nothing is known of most of the time.
    fn is_unseen(&self) -> bool {
        self.unseen > 0.5 * self.total
    }

    /// Whether this limit shows by a clock that starts and stops with what it measures (a wait for an answer,
    /// the sleep of a limiter), so that a short run will do: over several requests, since one may be any. All
    /// else is told from looks and from counters that step once a clock tick.
    fn timed(&self, limit: Limit) -> bool {
        let lanes = || self.evidence.intervals.iter().flat_map(|interval| &interval.lanes);
        let requests = lanes().fold(0, |sum: u32, lane| sum.saturating_add(lane.requests));
        match limit {
            Limit::Latency | Limit::Application => requests >= 3,
            // A pause is one piece's, where no second one followed.
            Limit::RateLimit => self.evidence.facts.rate_cap.is_none_or(|cap| {
                self.total > 0.0 && rate_limit::reaches(self.received() as f64 / self.total, cap)
            }),
            // The kernel counts each attempt that fails.
            Limit::Connect => {
                self.evidence.intervals.iter().any(|interval| interval.around.failed_attempts > 0)
            }
            _ => false,
        }
    }

    fn received(&self) -> u64 {
        self.evidence.intervals.iter().fold(0, |sum, interval| sum.saturating_add(interval.received))
    }

    fn too_short(&self, main: Option<MainLimit>) -> Vec<String> {
        let why = match main {
            Some(_) => return Vec::new(),
            None if self.is_unseen() => return Vec::new(),
            None if !self.observed => "the run was too short to judge: nothing was observed".to_owned(),
            None if self.total >= SHORT && self.received() == 0 => {
                format!("no byte arrived in {}", seconds(self.total))
            }
            None if self.total >= SHORT && self.is_scattered() => {
                let most = self.most().map(|(limit, held)| format!("{limit} {}", percent(held / self.total)));
                let most = most.unwrap_or_default();
                format!("no limit held more than a quarter of the time, the longest was {most}")
            }
            None => {
                let unseen = self.evidence.facts.unseen.clone().filter(|_| self.total >= SHORT);
                unseen.unwrap_or_else(|| format!("the run was too short to judge: {}", seconds(self.total)))
            }
        };
        vec![why]
    }

    /// The strength of the signs over the time of the main limit, of several that of the weakest, less a
    /// twentieth for each missing reading, and less what the rest of the time leaves open; of a foreign
    /// transfer no more than such verdicts are right ([`Run::known`]).
    fn confidence(&self, main: Option<MainLimit>, missing: usize) -> f64 {
        let mains = self.mains(main);
        let named = |limit: &Limit| *limit != Limit::SenderOrPath || mains.len() == 1;
        let strengths = mains.iter().filter(|limit| named(limit)).map(|limit| self.strength(*limit));
        let strength = strengths.reduce(f64::min).unwrap_or(0.0);
        let stated = (strength * (1.0 - 0.05 * missing.min(10) as f64)).clamp(0.0, 1.0);
        match self.grounds(&mains) {
            Some(grounds) => stated.min(self.known(&mains, grounds)),
            None => stated * worth::of_share(self.named(&mains)),
        }
    }

    /// The share of all time, what was not seen included, of the limits that a verdict names.
    fn named(&self, mains: &[Limit]) -> f64 {
        let held = |limit: &Limit| self.held.get(limit).copied().unwrap_or(0.0);
        mains.iter().map(held).sum::<f64>() / self.total
    }

    /// Of the signs of one limit, the mean over its time.
    fn strength(&self, limit: Limit) -> f64 {
        let (mut sure, mut time) = (0.0, 0.0);
        for (interval, verdict) in self.intervals_of(limit) {
            let seen = interval.span.as_secs_f64() * (1.0 - verdict.unseen);
            sure += verdict.strength * seen;
            time += seen;
        }
        if time > 0.0 { sure / time } else { 0.0 }
    }

    /// The limits that a verdict names.
    fn mains(&self, main: Option<MainLimit>) -> Vec<Limit> {
        let large = |held: f64| held > QUARTER * self.total;
        match main {
            Some(MainLimit::One(limit)) => vec![limit],
            Some(MainLimit::Mixed) => {
                self.held.iter().filter(|(_, held)| large(**held)).map(|(limit, _)| *limit).collect()
            }
            None => Vec::new(),
        }
    }

    /// What a verdict on a foreign transfer rests on.
    fn grounds(&self, mains: &[Limit]) -> Option<Grounds> {
        let foreign = self.evidence.facts.clocks == Clocks::Sampled && !mains.is_empty();
        foreign.then(|| Grounds::of(mains, Sight::of(self.evidence, &self.whole())))
    }

    /// The most that can be known of a foreign transfer from here: how often verdicts on such grounds are
    /// right, less what the share of the time that is named and the number of intervals leave open.
    fn known(&self, mains: &[Limit], grounds: Grounds) -> f64 {
        let share = worth::of_share(self.named(mains));
        grounds.worth() * share * worth::of_intervals(self.judged().count())
    }

    fn phases(&self) -> Vec<Phase> {
        let mut phases: Vec<Phase> = Vec::new();
        let (mut from, mut apart) = (0.0, false);
        for (index, (verdict, interval)) in self.verdicts.iter().zip(&self.evidence.intervals).enumerate() {
            if !self.counted.contains(&index) || verdict.is_unseen() {
                from += interval.span.as_secs_f64();
                apart = true;
                continue;
            }
            let to = from + interval.span.as_secs_f64();
            match phases.last_mut() {
                Some(last) if last.limit == verdict.limit && !apart => last.to = to,
                _ => phases.push(Phase { from, to, limit: verdict.limit }),
            }
            (from, apart) = (to, false);
        }
        phases
    }

    /// The intervals that count, with their verdicts.
    fn judged(&self) -> impl Iterator<Item = (&'a Interval, &IntervalVerdict)> + Clone {
        let counted = |index: &usize| self.counted.contains(index);
        let all = self.evidence.intervals.iter().zip(&self.verdicts).enumerate();
        all.filter(move |(index, _)| counted(index)).map(|(_, judged)| judged)
    }

    fn intervals_of(&self, limit: Limit) -> impl Iterator<Item = (&'a Interval, &IntervalVerdict)> {
        self.judged().filter(move |(_, verdict)| verdict.limit == limit && !verdict.is_unseen())
    }

    /// All time that counts, as one interval: a watch may have begun long before the transfer.
    fn whole(&self) -> Interval {
        merged(self.judged().map(|(interval, _)| interval))
    }

    /// All time under one limit, as one interval.
    fn together(&self, limit: Limit) -> Interval {
        merged(self.intervals_of(limit).map(|(interval, _)| interval))
    }
}

impl Verdict {
    /// `cpu-core 82 %, dirty-throttle 18 %`: the shares, largest first.
    pub fn shares_in_words(&self) -> String {
        let mut order: Vec<(&Limit, &f64)> = self.shares.iter().collect();
        order.sort_by(|a, b| b.1.total_cmp(a.1).then(a.0.cmp(b.0)));
        let words: Vec<String> =
            order.iter().map(|(limit, share)| format!("{limit} {}", percent(**share))).collect();
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::around::{Around, Rest};
    use crate::evidence::{LaneInterval, Reading, Silent, TcpInterval, ThreadInterval};
    use crate::sender::SenderInterval;

    /// Four seconds of a megabyte each, held by the reader of the output.
    fn four_seconds() -> Evidence {
        let waiting = LaneInterval { output_wait: Duration::from_millis(900), ..LaneInterval::default() };
        let second = Interval {
            span: Duration::from_secs(1),
            received: 1_000_000,
            lanes: vec![waiting],
            ..Interval::default()
        };
        Evidence { intervals: vec![second; 4], ..Evidence::default() }
    }

    #[test]
    fn a_promise_is_the_runs_and_never_below_what_was_carried() {
        let evidence = four_seconds();
        let run = Run::judge(&evidence);
        let half = merged(evidence.intervals[..2].iter());
        // Half of the run at twice the rate: 4 MB in 3 s.
        let promised = run.promise(&half, 2e6).unwrap();
        assert!((promised - 4e6 / 3.0).abs() < 1.0, "{promised}");
        for no_more in [0.0, 0.9e6, 1.0e6, f64::NAN] {
            assert_eq!(run.promise(&half, no_more), None, "{no_more}");
        }
    }

    #[test]
    fn a_promise_counts_the_time_that_the_rate_it_stands_beside_counts() {
        let mut evidence = four_seconds();
        evidence.facts.clocks = Clocks::Sampled;
        // A watch that began two seconds before the first byte: 4 MB in 6 s.
        let idle = Interval { span: Duration::from_secs(1), ..Interval::default() };
        evidence.intervals.splice(0..0, [idle.clone(), idle]);
        let run = Run::judge(&evidence);
        assert!(run.total < 5.0, "the idle time is nobody's: {}", run.total);
        let all = merged(evidence.intervals[2..].iter());
        // The four seconds at twice the rate, the two before as they were.
        let promised = run.promise(&all, 2e6).unwrap();
        assert!((promised - 1e6).abs() < 1.0, "{promised}");
    }

    #[test]
    fn what_a_command_does_before_attempts_that_fail_is_not_between_its_transfers() {
        let around = |own_failed_attempts| Around {
            samples: 5,
            command: true,
            failed_attempts: own_failed_attempts,
            own_failed_attempts,
            rest: Rest { running: 5, ..Rest::default() },
            ..Around::default()
        };
        let interval = |around| Interval { span: Duration::from_millis(100), around, ..Interval::default() };
        let starts = interval(around(0));
        let mut evidence = Evidence { intervals: vec![starts.clone(); 5], ..Evidence::default() };
        evidence.facts.clocks = Clocks::Sampled;
        evidence.intervals.push(interval(around(2)));
        assert_eq!(explain(&evidence).limit, Some(MainLimit::One(Limit::Connect)));
        let mut late = evidence.clone();
        late.intervals.splice(0..0, vec![starts; 25]);
        assert_eq!(explain(&late).limit, Some(MainLimit::One(Limit::ThinkTime)), "it is no start");
        // Without an attempt it is what the program did.
        evidence.intervals.pop();
        assert_eq!(explain(&evidence).limit, Some(MainLimit::One(Limit::ThinkTime)));
    }

    /// Ten seconds of a run of our own, so many of them held by the reader of the output; of the rest nothing
    /// was told.
    fn ten_seconds(held: usize) -> Evidence {
        let second = four_seconds().intervals.swap_remove(0);
        let mut intervals = vec![second.clone(); held];
        intervals.resize(10, second.unseen());
        Evidence { intervals, ..Evidence::default() }
    }

    #[test]
    fn a_limit_of_a_part_of_the_time_is_less_sure_in_a_run_of_our_own_as_well() {
        let (all, part) = (explain(&ten_seconds(10)), explain(&ten_seconds(6)));
        assert_eq!((all.limit, part.limit), (part.limit, Some(MainLimit::One(Limit::Reader))));
        assert!(all.confidence > 0.5 && part.confidence <= 0.75 * all.confidence + 1e-9, "{part:?}");
    }

    #[test]
    fn a_limit_of_less_than_a_quarter_of_the_time_is_not_the_runs() {
        let second = four_seconds().intervals.swap_remove(0);
        let of = |lane: LaneInterval| Interval { lanes: vec![lane], ..second.clone() };
        let span = Duration::from_secs(1);
        let thread = Reading::Value(ThreadInterval { cpu: span, looks: 50, ..ThreadInterval::default() });
        let computes = of(LaneInterval { thread, ..LaneInterval::default() });
        let waits = of(LaneInterval { socket_wait: span, ..LaneInterval::default() });
        let silent = second.clone().unseen();
        let turns = [(&second, 3), (&silent, 2), (&computes, 2), (&silent, 3), (&waits, 2)];
        let intervals =
            turns.into_iter().flat_map(|(interval, count)| vec![interval.clone(); count]).collect();
        let verdict = explain(&Evidence { intervals, ..Evidence::default() });
        assert_eq!((verdict.limit, verdict.confidence), (None, 0.0), "{verdict:?}");
        assert!(verdict.missing[0].contains("the longest was reader 25 %"), "{:?}", verdict.missing);
        assert!(verdict.advice.is_empty(), "{:?}", verdict.advice);
    }

    #[test]
    fn few_intervals_of_another_program_leave_room_for_doubt() {
        let mut evidence = four_seconds();
        evidence.facts.clocks = Clocks::Sampled;
        let run = Run::judge(&evidence);
        let mains = run.mains(run.main());
        let short = run.known(&mains, Grounds::OneEnd);
        let most = Grounds::OneEnd.worth() * 5.0 / 6.0;
        assert!((short - most).abs() < 1e-9, "{short}, not {most}");
        evidence.intervals = vec![evidence.intervals[0].clone(); 100];
        assert!(Run::judge(&evidence).known(&mains, Grounds::OneEnd) > short);
    }

    /// The sender has set no rate, and the receiver alone could not have known it.
    #[test]
    fn what_one_end_rules_out_the_other_does_not_miss() {
        let mut evidence = four_seconds();
        for interval in &mut evidence.intervals {
            let received = interval.received;
            interval.lanes = vec![LaneInterval {
                lane: 1,
                received,
                socket_wait: Duration::from_millis(900),
                tcp: Reading::Value(TcpInterval::default()),
                sender: Reading::Value(SenderInterval {
                    acked: received,
                    looks: 50,
                    ..SenderInterval::default()
                }),
                ..LaneInterval::default()
            }];
        }
        let run = Run::judge(&evidence);
        let innocent = run.innocent();
        assert!(innocent.iter().any(|(limit, _)| *limit == Limit::RateLimit), "{innocent:?}");
        let names = |lines: Vec<String>| lines.iter().any(|line| line.starts_with("rate-limit: "));
        assert!(names(run.untold(&[])), "the receiver's rule cannot tell");
        assert!(!names(run.untold(&innocent)));
    }

    #[test]
    fn a_run_that_is_too_short_to_judge_rules_nothing_out() {
        let of = |intervals: usize| {
            let span = Duration::from_millis(20);
            let lane =
                LaneInterval { received: 9000, write: span, write_cpu: span, ..LaneInterval::default() };
            let interval =
                Interval { span, received: 9000, written: 9000, lanes: vec![lane], ..Interval::default() };
            explain(&Evidence { intervals: vec![interval; intervals], ..Evidence::default() })
        };
        let short = of(3);
        assert!(short.limit.is_none() && short.innocent.is_empty(), "{short:?}");
        assert!(!of(30).innocent.is_empty());
    }

    #[test]
    fn a_run_that_many_limits_held_in_turn_says_which_did_not() {
        let second = four_seconds().intervals.swap_remove(0);
        let of = |lane: LaneInterval| Interval { lanes: vec![lane], ..second.clone() };
        let span = Duration::from_secs(1);
        let thread = Reading::Value(ThreadInterval { cpu: span, looks: 50, ..ThreadInterval::default() });
        let turns = [
            second.clone(),
            of(LaneInterval { thread, ..LaneInterval::default() }),
            of(LaneInterval { socket_wait: span, ..LaneInterval::default() }),
            of(LaneInterval { limited: span, ..LaneInterval::default() }),
        ];
        let facts = crate::evidence::Facts { rate_cap: Some(1e6), ..Default::default() };
        let told = |rounds: usize| {
            let intervals = vec![turns.to_vec(); rounds].concat();
            explain(&Evidence { intervals, facts: facts.clone(), ..Evidence::default() })
        };
        let verdict = told(3);
        assert_eq!(verdict.limit, None, "{:?}", verdict.shares);
        let ruled_out = |name: &str| verdict.innocent.iter().any(|line| line.starts_with(name));
        assert!(ruled_out("verify: ") && !ruled_out("cpu-core: "), "{:?}", verdict.innocent);
        assert!(told(1).innocent.is_empty(), "four intervals say little");
    }

    #[test]
    fn a_time_that_was_not_seen_stays_so_where_intervals_are_joined() {
        let mut whole = four_seconds();
        let second = Duration::from_secs(1);
        let silent = Silent { watch: second, ..Silent::default() };
        whole.intervals.push(Interval { span: second, silent, ..Interval::default() });
        whole.intervals.extend(four_seconds().intervals);
        let mut joined = Evidence::default();
        for interval in whole.intervals.clone() {
            joined.push(interval, 4);
        }
        assert!(joined.intervals.len() < whole.intervals.len());
        let held = |evidence: &Evidence| explain(evidence).shares.values().sum::<f64>();
        assert!((held(&whole) - 8.0 / 9.0).abs() < 1e-9 && (held(&joined) - 8.0 / 9.0).abs() < 1e-9);
        let told = |evidence: &Evidence| {
            let missing = explain(evidence).missing;
            missing.into_iter().find(|line| line.contains("weir itself stood still"))
        };
        assert!(told(&whole).is_some_and(|line| line.contains("not seen for 1.0")), "{:?}", told(&whole));
        assert_eq!(told(&joined), told(&whole));
    }
}
