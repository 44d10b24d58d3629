//! Shares of time by limit, and the limit that they name.

use std::collections::BTreeMap;

use super::HeldBy;
use super::timeline::HostLine;
use crate::limit::{Limit, QUARTER};
use crate::verdict::MainLimit;
use crate::worth::{self, Grounds};
use weir_units::counted;

/// Below so many spans nothing is named: of one, half may be the start of everything.
pub(super) const FEWEST: u32 = 3;

/// Seconds that each limit held hosts.
#[derive(Debug, Clone, Default)]
pub(super) struct Held(pub(super) BTreeMap<HeldBy, f64>);

impl Held {
    /// Of one host from `since` on. Of several workers at the same time each counts.
    pub(super) fn of(host: &HostLine<'_>, since: f64) -> Held {
        let mut held = Held::default();
        for span in host.workers.iter().flat_map(|worker| &worker.spans) {
            let seconds = span.to - span.from.max(since);
            for (by, share) in span.held.iter().filter(|_| seconds > 0.0) {
                *held.0.entry(*by).or_default() += seconds * share.clamp(0.0, 1.0);
            }
        }
        held
    }

    /// Adds the shares of a host's time.
    pub(super) fn add(&mut self, other: &Held) {
        for (by, seconds) in &other.0 {
            *self.0.entry(*by).or_default() += seconds;
        }
    }

    pub(super) fn shares(&self) -> BTreeMap<HeldBy, f64> {
        let all: f64 = self.0.values().sum();
        let held = self.0.iter().filter(|_| all > 0.0);
        held.map(|(by, seconds)| (*by, seconds / all)).collect()
    }

    fn seconds(&self, by: HeldBy) -> f64 {
        self.0.get(&by).copied().unwrap_or(0.0)
    }

    /// The limits alone.
    pub(super) fn limits(&self) -> impl Iterator<Item = (Limit, f64)> {
        self.0.iter().filter_map(|(by, seconds)| match by {
            HeldBy::Limit(limit) => Some((*limit, *seconds)),
            HeldBy::NoWork | HeldBy::NotJudged => None,
        })
    }

    /// Seconds of which a limit was told.
    pub(super) fn judged(&self) -> f64 {
        self.limits().map(|(_, seconds)| seconds).sum()
    }

    /// A limit was told of most of the time with work: else the limits say nothing of the rest.
    pub(super) fn is_judged(&self) -> bool {
        self.judged() > self.seconds(HeldBy::NotJudged)
    }

    /// What the time with work of which no limit was told takes from a word on all of it.
    pub(super) fn sure(&self) -> f64 {
        let (judged, silent) = (self.judged(), self.seconds(HeldBy::NotJudged));
        if judged > 0.0 { worth::of_share(judged / (judged + silent)) } else { 0.0 }
    }

    /// What held while there was work, and the share of such verdicts that is right; or why that cannot be
    /// told. As [`crate::verdict`] does: two that hold more than a quarter each are `mixed`.
    pub(super) fn main(&self, intervals: u32) -> Result<(MainLimit, f64), String> {
        let judged = self.judged();
        let (idle, silent) = (self.seconds(HeldBy::NoWork), self.seconds(HeldBy::NotJudged));
        if judged + idle + silent <= 0.0 {
            return Err("nothing was told".to_owned());
        }
        if judged + silent <= 0.0 {
            return Err("there was no work".to_owned());
        }
        if !self.is_judged() {
            return Err("what held is not judged".to_owned());
        }
        if intervals < FEWEST {
            return Err(format!(
                "too short: {} told of, {FEWEST} are needed",
                counted(intervals.into(), "interval")
            ));
        }
        let large: Vec<(Limit, f64)> =
            self.limits().filter(|(_, seconds)| *seconds > QUARTER * judged).collect();
        let sure = worth::of_intervals(intervals as usize) * self.sure();
        match large.as_slice() {
            // Each worker watches the stages of its own end.
            [(limit, seconds)] => {
                let worth = worth::of_own_word(*limit) * worth::of_share(seconds / judged);
                Ok((MainLimit::One(*limit), sure * worth))
            }
            [] => Err("no limit held a quarter of the time".to_owned()),
            several => {
                let named: Vec<Limit> = several.iter().map(|(limit, _)| *limit).collect();
                Ok((MainLimit::Mixed, sure * Grounds::of_several(&named).worth()))
            }
        }
    }
}
