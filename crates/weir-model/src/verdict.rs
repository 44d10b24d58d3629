//! Windows judged, added up to shares over the run, and put into words.
//!
//! [`judge_window`] serves the tuner and the progress line while a transfer runs, [`explain`] the record afterwards.
//! Both ask the same rules. What to do about it is [`crate::advice`]'s.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::advice::{self, Advice};
use crate::evidence::{Evidence, Reading, Window};
use crate::limit::Limit;
use crate::merge::merged;
use crate::rule::{Context, Judgement, RULES, rate_limit, sender_or_path};
use crate::words::{bytes, percent, rate, seconds};

/// What held one window.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowVerdict {
    /// The limit.
    pub limit: Limit,
    /// 0 to 1, see [`Judgement::Convict`].
    pub strength: f64,
    /// The numbers that say so.
    pub evidence: String,
}

/// What held a run, with what supports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The limit; `None` when the run was too short to judge, which `missing` then says.
    pub limit: Option<MainLimit>,
    /// 0 to 1: how sure, by the signs' strength and the readings that were there.
    pub confidence: f64,
    /// The share of the run's time that each limit held, adding up to 1; empty when nothing was observed.
    pub shares: BTreeMap<Limit, f64>,
    /// The same in order of time.
    pub phases: Vec<Phase>,
    /// Numbers with units, most important first.
    pub evidence: Vec<String>,
    /// `LIMIT: numbers` for each limit that was checked and did not hold.
    pub innocent: Vec<String>,
    /// What could not be read or told.
    pub missing: Vec<String>,
    /// What to change.
    pub advice: Vec<Advice>,
    /// The limit of each window, in the order of the evidence.
    #[serde(skip)]
    pub windows: Vec<Limit>,
}

/// One limit, or the statement that no single one holds. `"receive-window"` or `"mixed"` in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainLimit {
    /// This one.
    One(Limit),
    /// Two or more hold more than a quarter of the time each.
    Mixed,
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

/// Two convictions this close are decided by the table's order, since strengths are no finer than that.
const CLOSE: f64 = 0.1;

/// A limit with more than this share is a main one (design: `mixed` where two hold more than a quarter each).
const QUARTER: f64 = 0.25;

/// A limit below this share of the run is not put into words.
const WORTH_WORDS: f64 = 0.1;

/// Below this a run that no rule explains is not judged: it is a few dozen windows at most, mostly start-up.
const SHORT: f64 = 0.1;

/// What held this window. Live, `context` is [`Context::live`].
pub fn judge_window(window: &Window, context: &Context<'_>) -> WindowVerdict {
    choose(&judgements(window, context), window, context)
}

/// What held this run: pure, the same evidence gives the same words.
pub fn explain(evidence: &Evidence) -> Verdict {
    let run = Run::judge(evidence);
    let main = run.main();
    let shares: BTreeMap<Limit, f64> =
        run.held.iter().map(|(limit, held)| (*limit, held / run.total)).collect();
    let worded = worded(&shares);
    let mut missing = run.too_short(main);
    missing.extend(missing_readings(evidence));
    if matches!(main, Some(MainLimit::One(Limit::SenderOrPath) | MainLimit::Mixed)) {
        missing.extend(run.untold());
    }
    let knee = Knee::find(&run);
    Verdict {
        limit: main,
        confidence: run.confidence(main, missing.len()),
        phases: run.phases(),
        evidence: run.evidence_lines(&worded, knee),
        innocent: run.innocent(),
        missing,
        advice: if main.is_some() { run.advice(&worded, knee) } else { Vec::new() },
        windows: run.verdicts.iter().map(|verdict| verdict.limit).collect(),
        shares,
    }
}

fn judgements(window: &Window, context: &Context<'_>) -> Vec<Judgement> {
    RULES.iter().map(|rule| (rule.judge)(window, context)).collect()
}

fn choose(judgements: &[Judgement], window: &Window, context: &Context<'_>) -> WindowVerdict {
    let convictions = || {
        RULES.iter().zip(judgements).filter_map(|(rule, judgement)| match judgement {
            Judgement::Convict { strength, evidence } => Some((rule.limit, *strength, evidence)),
            _ => None,
        })
    };
    let strongest = convictions().map(|(_, strength, _)| strength).fold(0.0, f64::max);
    match convictions().find(|(_, strength, _)| *strength + CLOSE >= strongest) {
        Some((limit, strength, evidence)) => WindowVerdict { limit, strength, evidence: evidence.clone() },
        None => match sender_or_path::judge(window, context) {
            Judgement::Convict { strength, evidence } => {
                WindowVerdict { limit: Limit::SenderOrPath, strength, evidence }
            }
            Judgement::Acquit { evidence: why } | Judgement::Unknown { missing: why } => {
                WindowVerdict { limit: Limit::SenderOrPath, strength: 0.0, evidence: why }
            }
        },
    }
}

/// A run with each window judged.
struct Run<'a> {
    evidence: &'a Evidence,
    verdicts: Vec<WindowVerdict>,
    /// Seconds that each limit held.
    held: BTreeMap<Limit, f64>,
    /// Seconds observed; 1 in place of none, so that it divides.
    total: f64,
    observed: bool,
    /// For each rule: seconds convicting, acquitting, unable to tell.
    tallies: Vec<[f64; 3]>,
}

impl<'a> Run<'a> {
    fn judge(evidence: &'a Evidence) -> Run<'a> {
        let mut verdicts = Vec::with_capacity(evidence.windows.len());
        let mut held = BTreeMap::new();
        let mut tallies = vec![[0.0; 3]; RULES.len()];
        let mut total = 0.0;
        for (index, window) in evidence.windows.iter().enumerate() {
            let context = Context::at(evidence, index);
            let judgements = judgements(window, &context);
            let verdict = choose(&judgements, window, &context);
            let span = window.span.as_secs_f64();
            total += span;
            if span > 0.0 {
                *held.entry(verdict.limit).or_insert(0.0) += span;
            }
            for (tally, judgement) in tallies.iter_mut().zip(&judgements) {
                tally[match judgement {
                    Judgement::Convict { .. } => 0,
                    Judgement::Acquit { .. } => 1,
                    Judgement::Unknown { .. } => 2,
                }] += span;
            }
            verdicts.push(verdict);
        }
        let observed = total > 0.0;
        Run { evidence, verdicts, held, total: if observed { total } else { 1.0 }, observed, tallies }
    }

    fn main(&self) -> Option<MainLimit> {
        if !self.observed {
            return None;
        }
        if self.held.values().filter(|held| **held > QUARTER * self.total).count() > 1 {
            return Some(MainLimit::Mixed);
        }
        let (limit, _) = self.held.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        let guessed = *limit == Limit::SenderOrPath && (self.total < SHORT || self.received() == 0);
        (!guessed).then_some(MainLimit::One(*limit))
    }

    fn received(&self) -> u64 {
        self.evidence.windows.iter().fold(0, |sum, window| sum.saturating_add(window.received))
    }

    fn too_short(&self, main: Option<MainLimit>) -> Vec<String> {
        let why = match main {
            Some(_) => return Vec::new(),
            None if !self.observed => "the run was too short to judge: nothing was observed".to_owned(),
            None if self.received() == 0 => format!("no byte arrived in {}", seconds(self.total)),
            None => format!("the run was too short to judge: {}", seconds(self.total)),
        };
        vec![why]
    }

    /// The strength of the signs over the time of the main limit, less a twentieth for each missing reading.
    fn confidence(&self, main: Option<MainLimit>, missing: usize) -> f64 {
        let counts = |limit: Limit| match main {
            Some(MainLimit::One(one)) => limit == one,
            Some(MainLimit::Mixed) => true,
            None => false,
        };
        let (mut sure, mut time) = (0.0, 0.0);
        for (verdict, window) in self.verdicts.iter().zip(&self.evidence.windows) {
            if counts(verdict.limit) {
                sure += verdict.strength * window.span.as_secs_f64();
                time += window.span.as_secs_f64();
            }
        }
        let strength = if time > 0.0 { sure / time } else { 0.0 };
        (strength * (1.0 - 0.05 * missing.min(10) as f64)).clamp(0.0, 1.0)
    }

    fn phases(&self) -> Vec<Phase> {
        let mut phases: Vec<Phase> = Vec::new();
        let mut from = 0.0;
        for (verdict, window) in self.verdicts.iter().zip(&self.evidence.windows) {
            let to = from + window.span.as_secs_f64();
            match phases.last_mut() {
                Some(last) if last.limit == verdict.limit => last.to = to,
                _ => phases.push(Phase { from, to, limit: verdict.limit }),
            }
            from = to;
        }
        phases
    }

    fn windows_of(&self, limit: Limit) -> impl Iterator<Item = (&'a Window, &WindowVerdict)> {
        self.evidence.windows.iter().zip(&self.verdicts).filter(move |(_, verdict)| verdict.limit == limit)
    }

    /// All time under one limit, as one window.
    fn together(&self, limit: Limit) -> Window {
        merged(self.windows_of(limit).map(|(window, _)| window))
    }

    fn evidence_lines(&self, worded: &[Limit], knee: Option<Knee>) -> Vec<String> {
        let mut lines: Vec<String> = worded
            .iter()
            .filter_map(|limit| {
                let words = self.words_for(*limit)?;
                Some(if worded.len() > 1 { format!("{limit}: {words}") } else { words })
            })
            .collect();
        if worded.contains(&Limit::DirtyThrottle) {
            lines.extend(knee.map(|knee| knee.to_string()));
        }
        if worded.contains(&Limit::RateLimit) {
            lines.extend(advice::core_ceiling(&self.together(Limit::RateLimit)).map(|(busy, ceiling)| {
                format!("a thread used {} of a core: it would be full at {}", percent(busy), rate(ceiling))
            }));
        }
        if !worded.contains(&Limit::SenderOrPath) {
            lines.extend(
                self.evidence.trials.iter().filter(|trial| trial.kept || rate_limit::flat(trial)).map(
                    |trial| {
                        format!(
                            "{} connections carried {}, {} carried {}",
                            trial.lanes_after,
                            rate(trial.rate_after),
                            trial.lanes_before,
                            rate(trial.rate_before)
                        )
                    },
                ),
            );
        }
        lines.extend(self.written_and_on_disk());
        lines
    }

    /// The rule's words for all of its time together; where that does not convict (a trend, a mixture), those of its
    /// strongest window, with the window's place in time.
    fn words_for(&self, limit: Limit) -> Option<String> {
        let judge = RULES
            .iter()
            .find(|rule| rule.limit == limit)
            .map_or(sender_or_path::judge as fn(&Window, &Context<'_>) -> Judgement, |rule| rule.judge);
        match judge(&self.together(limit), &Context::alone(self.evidence)) {
            Judgement::Convict { evidence, .. } => Some(evidence),
            _ => {
                let (window, verdict) =
                    self.windows_of(limit).max_by(|a, b| a.1.strength.total_cmp(&b.1.strength))?;
                Some(format!("at {}: {}", seconds(window.at), verdict.evidence))
            }
        }
    }

    /// Writes into the page cache and writes to the device are two figures.
    fn written_and_on_disk(&self) -> Option<String> {
        if self.evidence.facts.to_stdout {
            return None;
        }
        let whole = merged(&self.evidence.windows);
        let disk = whole.disk.value().filter(|_| whole.written > 0)?;
        let name = self.evidence.facts.disk.as_deref().unwrap_or("the device");
        Some(format!(
            "written {} ({}), on disk {} ({}; {name}, all its writers)",
            rate(whole.written as f64 / self.total),
            bytes(whole.written as f64),
            rate(disk.written as f64 / self.total),
            bytes(disk.written as f64)
        ))
    }

    /// Limits that never convicted and that nearly all of the time acquitted, with the numbers of the whole run.
    fn innocent(&self) -> Vec<String> {
        let whole = merged(&self.evidence.windows);
        let context = Context::alone(self.evidence);
        (RULES.iter().zip(&self.tallies))
            .filter(|(_, [convicted, acquitted, _])| *convicted <= 0.0 && *acquitted >= 0.9 * self.total)
            // Writes that are paced are paced to the disk: it is not the first in the way, but not innocent either.
            .filter(|(rule, _)| rule.limit != Limit::Disk || !self.held.contains_key(&Limit::DirtyThrottle))
            .filter_map(|(rule, _)| match (rule.judge)(&whole, &context) {
                Judgement::Acquit { evidence } => Some(format!("{}: {evidence}", rule.limit)),
                _ => None,
            })
            .collect()
    }

    /// What rules would have to know that never convicted and often could not tell.
    fn untold(&self) -> Vec<String> {
        let mut untold: Vec<String> = Vec::new();
        for (index, (rule, [convicted, _, unknown])) in RULES.iter().zip(&self.tallies).enumerate() {
            if *convicted > 0.0 || *unknown <= QUARTER * self.total {
                continue;
            }
            let why = self.evidence.windows.iter().enumerate().find_map(|(at, window)| {
                match (RULES[index].judge)(window, &Context::at(self.evidence, at)) {
                    Judgement::Unknown { missing } => Some(format!("{}: {missing}", rule.limit)),
                    _ => None,
                }
            });
            untold.extend(why.filter(|why| !untold.contains(why)));
        }
        untold
    }

    fn advice(&self, worded: &[Limit], knee: Option<Knee>) -> Vec<Advice> {
        worded
            .iter()
            .filter(|limit| worded.len() == 1 || self.held[limit] > QUARTER * self.total)
            .flat_map(|limit| {
                let together = self.together(*limit);
                let written = self
                    .evidence
                    .windows
                    .iter()
                    .fold(0, |sum: u64, window| sum.saturating_add(window.written));
                advice::advise(
                    *limit,
                    &advice::Held { evidence: self.evidence, together: &together, knee, written },
                )
            })
            .collect()
    }
}

/// The limits worth words: the largest always, others from a tenth of the time on, three at most.
fn worded(shares: &BTreeMap<Limit, f64>) -> Vec<Limit> {
    let mut order: Vec<(Limit, f64)> = shares.iter().map(|(limit, share)| (*limit, *share)).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let worth = order.iter().enumerate().filter(|(rank, (_, share))| *rank == 0 || *share >= WORTH_WORDS);
    worth.map(|(_, (limit, _))| *limit).take(3).collect()
}

/// Readings that no window has. A reading missing now and then (a socket not yet there) is not worth a word.
fn missing_readings(evidence: &Evidence) -> Vec<String> {
    let mut missing = Vec::new();
    let windows = || evidence.windows.iter();
    let lanes = || windows().flat_map(|window| &window.lanes);
    never(windows().map(|window| &window.cpu), "processor use", &mut missing);
    if !evidence.facts.to_stdout {
        never(windows().map(|window| &window.dirty), "dirty pages", &mut missing);
        never(windows().map(|window| &window.disk), "disk use", &mut missing);
    }
    never(lanes().map(|lane| &lane.thread), "lane threads", &mut missing);
    never(lanes().map(|lane| &lane.tcp), "connection state", &mut missing);
    missing
}

fn never<'a, T: 'a>(readings: impl Iterator<Item = &'a Reading<T>>, name: &str, missing: &mut Vec<String>) {
    let mut first = None;
    for reading in readings {
        match reading.missing() {
            Some(why) => first = first.or(Some(why)),
            None => return,
        }
    }
    missing.extend(first.map(|why| format!("{name}: {why}")));
}

/// Where memory stopped taking the writes: after how many bytes, and the rates before and after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Knee {
    /// Bytes written before pacing began.
    pub(crate) bytes: u64,
    /// Bytes per second written before; `None` when pacing began at once.
    pub(crate) before: Option<f64>,
    /// Bytes per second written from then on.
    pub(crate) after: f64,
}

impl Knee {
    fn find(run: &Run<'_>) -> Option<Knee> {
        let first = run.verdicts.iter().position(|verdict| verdict.limit == Limit::DirtyThrottle)?;
        let (before, after) = run.evidence.windows.split_at(first);
        // A tail without writes (a digest, a sync) is no longer the phase whose rate is told.
        let last = after.iter().rposition(|window| window.written > 0).map_or(0, |last| last + 1);
        let written =
            |windows: &[Window]| windows.iter().fold(0u64, |sum, window| sum.saturating_add(window.written));
        let rate_of = |windows: &[Window]| {
            let time: f64 = windows.iter().map(|window| window.span.as_secs_f64()).sum();
            (time > 0.0).then(|| written(windows) as f64 / time)
        };
        // Time without a byte (connecting, waiting for the answer) says nothing of how fast memory takes them.
        let start = before.iter().position(|window| window.written > 0).unwrap_or(before.len());
        Some(Knee {
            bytes: written(before),
            before: rate_of(&before[start..]).filter(|rate| *rate > 0.0),
            after: rate_of(&after[..last])?,
        })
    }
}

impl fmt::Display for Knee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.before {
            Some(before) => write!(
                f,
                "memory took the first {} at {}; from then on writes were paced to {}",
                bytes(self.bytes as f64),
                rate(before),
                rate(self.after)
            ),
            None => write!(f, "writes were paced from the start, to {}", rate(self.after)),
        }
    }
}

impl MainLimit {
    /// The limit's name, or `mixed`.
    pub fn name(self) -> &'static str {
        match self {
            MainLimit::One(limit) => limit.name(),
            MainLimit::Mixed => "mixed",
        }
    }
}

impl fmt::Display for MainLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for MainLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for MainLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MainLimit, D::Error> {
        let name = String::deserialize(deserializer)?;
        match name.as_str() {
            "mixed" => Ok(MainLimit::Mixed),
            name => Limit::parse(name)
                .map(MainLimit::One)
                .ok_or_else(|| serde::de::Error::custom(format!("unknown limit '{name}'"))),
        }
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
