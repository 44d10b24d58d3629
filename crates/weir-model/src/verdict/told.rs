//! A judged run in words: the numbers that support its limits, what is ruled out, and what could not be told.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{IntervalVerdict, Run};
use crate::advice;
use crate::alone;
use crate::evidence::{Clocks, Evidence, Interval, Reading};
use crate::knee::Knee;
use crate::limit::{Limit, QUARTER};
use crate::merge::merged;
use crate::rule::spent::min_rtt;
use crate::rule::{Context, Judge, Judgement, RULES, View, rate_limit, sender_or_path};
use crate::sight::Sight;
use crate::words::{bytes, percent, rate, seconds};

/// A limit below this share of the run is not put into words.
const WORTH_WORDS: f64 = 0.1;

impl Run<'_> {
    pub(super) fn evidence_lines(&self, worded: &[Limit], knee: Option<Knee>) -> Vec<String> {
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
        if worded.contains(&Limit::SenderOrPath) {
            let rtt = min_rtt(&self.whole(), &Context::alone(self.evidence));
            let counted = self.evidence.intervals.get(self.counted.clone()).unwrap_or_default();
            lines.extend(sender_or_path::longest_pause(counted, rtt));
        }
        lines.extend(self.written_and_on_disk());
        lines.extend(self.disk_alone(worded));
        lines
    }

    /// Where the disk holds the writes, or has them paced: what it took when nothing else was asked of it.
    fn disk_alone(&self, worded: &[Limit]) -> Option<String> {
        let by_disk = |limit: Limit| matches!(limit, Limit::Disk | Limit::DirtyThrottle);
        let facts = &self.evidence.facts;
        let alone = facts.disk_alone.as_ref().filter(|_| worded.iter().any(|limit| by_disk(*limit)))?;
        let held = self.judged().filter(|(_, verdict)| by_disk(verdict.limit)).map(|(interval, _)| interval);
        alone::line(alone, facts.disk.as_deref().unwrap_or("the device"), &merged(held))
    }

    /// The rule's words for all of its time together; where that does not convict (a trend, a mixture), those
    /// of one interval, with its place in time.
    fn words_for(&self, limit: Limit) -> Option<String> {
        let (together, context) = (self.together(limit), Context::alone(self.evidence));
        let view = View::of(&together, &context);
        let rules =
            RULES.iter().filter(|rule| rule.limit == limit && rule.speaks(view)).map(|rule| rule.judge);
        let fallback = (limit == Limit::SenderOrPath).then_some(sender_or_path::judge as Judge);
        for judge in rules.chain(fallback) {
            if let Judgement::Convict { evidence, .. } = judge(&together, &context) {
                return Some(evidence);
            }
        }
        let (interval, verdict) = self.strongest(limit)?;
        Some(format!("at {}: {}", seconds(interval.at), verdict.evidence))
    }

    /// The strongest interval of a limit; where another of its signs has at least twice the time of that
    /// one's, the strongest with the longest sign: a handshake is clearer than slow start, and shorter.
    fn strongest(&self, limit: Limit) -> Option<(&Interval, &IntervalVerdict)> {
        let mut times: BTreeMap<&str, f64> = BTreeMap::new();
        for (interval, verdict) in self.intervals_of(limit) {
            *times.entry(sign(verdict)).or_insert(0.0) += interval.span.as_secs_f64();
        }
        let strongest = self.intervals_of(limit).max_by(by_strength)?;
        let (longest, most) = times.iter().max_by(|one, other| one.1.total_cmp(other.1))?;
        if *most < 2.0 * times[sign(strongest.1)] {
            return Some(strongest);
        }
        self.intervals_of(limit).filter(|(_, verdict)| sign(verdict) == *longest).max_by(by_strength)
    }

    /// Writes into the page cache and writes to the device are two figures.
    fn written_and_on_disk(&self) -> Option<String> {
        if self.evidence.facts.to_stdout {
            return None;
        }
        let whole = self.whole();
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

    /// Limits that never convicted and that nearly all of the time acquitted, with the numbers of the whole
    /// run.
    pub(super) fn innocent(&self) -> Vec<(Limit, String)> {
        let whole = self.whole();
        let context = Context::alone(self.evidence);
        let view = View::of(&whole, &context);
        let sight = Sight::of(self.evidence, &whole);
        let shares = self.shares();
        let mut innocent: Vec<(Limit, String)> = Vec::new();
        for (rule, [_, acquitted, _]) in RULES.iter().zip(&self.tallies) {
            let known = innocent.iter().any(|(limit, _)| *limit == rule.limit);
            // Writes that are paced are paced to the disk: it is not the first in the way, but not innocent
            // either.
            let paced = rule.limit == Limit::Disk && self.held.contains_key(&Limit::DirtyThrottle);
            let unseen = self.evidence.facts.unseen.is_some() && !rule.limit.is_of_an_end();
            if known
                || paced
                || unseen
                || rule.limit == Limit::RateLimit && self.programs_limit().is_some()
                || self.convicted(rule.limit)
                || *acquitted < 0.9 * self.total
                || !rule.speaks(view)
                || sight.unshown(rule.limit, &shares).is_some()
            {
                continue;
            }
            if let Judgement::Acquit { evidence } = (rule.judge)(&whole, &context) {
                innocent.push((rule.limit, evidence));
            }
        }
        innocent
    }

    /// What this view could not have seen, so that it is not ruled out either.
    pub(super) fn not_visible(&self) -> Vec<String> {
        Sight::of(self.evidence, &self.whole()).not_visible(&self.shares(), |limit| {
            limit == Limit::SenderOrPath || self.held.contains_key(&limit) || self.convicted(limit)
        })
    }

    /// Whether a rule of this limit convicted at any time, from whichever side.
    fn convicted(&self, limit: Limit) -> bool {
        RULES.iter().zip(&self.tallies).any(|(rule, tally)| rule.limit == limit && tally[0] > 0.0)
    }

    /// A program that somebody else wrote and that rests of its own accord may keep to a rate (`curl
    /// --limit-rate`, `scp -l`): from outside that cannot be told from one that is slow.
    pub(super) fn programs_limit(&self) -> Option<String> {
        let rests =
            [Limit::Application, Limit::Reader].into_iter().find(|limit| self.held.contains_key(limit))?;
        let facts = &self.evidence.facts;
        let foreign = facts.clocks == Clocks::Sampled && !self.convicted(Limit::RateLimit);
        let who = facts.scope.as_ref().filter(|_| foreign)?;
        Some(format!("rate-limit: a limit inside {who} looks like {rests}"))
    }

    /// What rules would have to know that never convicted and often could not tell: once for all that want
    /// the same. A limit that the other end's rule has ruled out wants nothing more.
    pub(super) fn untold(&self, innocent: &[(Limit, String)]) -> Vec<String> {
        let mut untold: Vec<(String, Vec<Limit>)> = Vec::new();
        for (rule, [_, _, unknown]) in RULES.iter().zip(&self.tallies) {
            let ruled_out = innocent.iter().any(|(limit, _)| *limit == rule.limit);
            if ruled_out || self.convicted(rule.limit) || *unknown <= QUARTER * self.total {
                continue;
            }
            let Some(why) = self.wanted(rule.judge) else { continue };
            match untold.iter_mut().find(|(known, _)| *known == why) {
                Some((_, limits)) if limits.contains(&rule.limit) => {}
                Some((_, limits)) => limits.push(rule.limit),
                None => untold.push((why, vec![rule.limit])),
            }
        }
        let line = |(why, limits): (String, Vec<Limit>)| {
            let names: Vec<&str> = limits.iter().map(|limit| limit.name()).collect();
            format!("{}: {why}", names.join(", "))
        };
        untold.into_iter().map(line).collect()
    }

    /// What a rule would have to know: what it said first, or another word of at least twice as much time.
    fn wanted(&self, judge: Judge) -> Option<String> {
        let mut told: BTreeMap<String, (usize, f64)> = BTreeMap::new();
        for (at, interval) in self.evidence.intervals.iter().enumerate() {
            if let Judgement::Unknown { missing } = judge(interval, &Context::at(self.evidence, at)) {
                told.entry(missing).or_insert((at, 0.0)).1 += interval.span.as_secs_f64();
            }
        }
        let (first, (_, time)) = told.iter().min_by_key(|(_, (at, _))| *at)?;
        let (longest, (_, most)) = told.iter().max_by(|one, other| one.1.1.total_cmp(&other.1.1))?;
        let word = if *most >= 2.0 * *time { longest } else { first };
        Some(word.clone())
    }
}

/// The limits worth words: the largest always, others from a tenth of the time on, three at most.
pub(super) fn worded(shares: &BTreeMap<Limit, f64>) -> Vec<Limit> {
    let mut order: Vec<(Limit, f64)> = shares.iter().map(|(limit, share)| (*limit, *share)).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let worth = order.iter().enumerate().filter(|(rank, (_, share))| *rank == 0 || *share >= WORTH_WORDS);
    worth.map(|(_, (limit, _))| *limit).take(3).collect()
}

/// Readings that no interval has. A reading missing now and then (a socket not yet there) is not worth a
/// word.
pub(super) fn missing_readings(evidence: &Evidence) -> Vec<String> {
    let mut missing = Vec::new();
    let intervals = || evidence.intervals.iter();
    let lanes = || intervals().flat_map(|interval| &interval.lanes);
    never(intervals().map(|interval| &interval.cpu), "processor use", &mut missing);
    // What only a receiver has: where it writes, and its side of the connection.
    let receivers = || lanes().filter(|lane| lane.sender.value().is_none());
    if !evidence.facts.to_stdout && (receivers().next().is_some() || lanes().next().is_none()) {
        never(intervals().map(|interval| &interval.dirty), "dirty pages", &mut missing);
        never(intervals().map(|interval| &interval.disk), "disk use", &mut missing);
    }
    never(lanes().map(|lane| &lane.thread), "lane threads", &mut missing);
    never(receivers().map(|lane| &lane.tcp), "connection state", &mut missing);
    missing
}

fn by_strength(one: &(&Interval, &IntervalVerdict), other: &(&Interval, &IntervalVerdict)) -> Ordering {
    one.1.strength.total_cmp(&other.1.strength)
}

/// The words of a verdict before its first number, which tell its signs apart.
fn sign(verdict: &IntervalVerdict) -> &str {
    verdict.evidence.split(|mark: char| mark.is_ascii_digit()).next().unwrap_or_default()
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
