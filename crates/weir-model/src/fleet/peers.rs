//! Does a host differ from its peers?
//!
//! Slot by slot, so that what happened to all of them at once is nobody's difference. A host is named when
//! all of these hold:
//!
//! 1. it has two peers or more at a time: of two, either may be the odd one;
//! 2. there are [`FEWEST`] slots and told intervals or more in which it and they had work;
//! 3. its rate, as the median over the slots of what it is of the median of its peers, is below three fifths
//!    or above five thirds;
//! 4. that lies further from the middle of all hosts than 3.5 of their deviations (by the median of absolute
//!    deviations of logarithms; Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993), a tenth each
//!    at the least: hosts that happen to be equal within a hundredth do not make one odd that is two off;
//! 5. it was so in four of five slots.
//!
//! What holds it is its own word. A host with a limit of its own at the rate of the others differs in nothing
//! that could be mended.
//!
//! Can be wrong: it got another kind of objects than its peers.

use weir_units::stats::{median, sorted};

use super::shares::{FEWEST, Held};
use super::timeline::{HostLine, Timeline};
use super::{FleetEvidence, Outlier};
use crate::limit::Limit;
use crate::verdict::MainLimit;
use crate::worth;

/// A host of three fifths of its peers' rate is worth a name, and one that is as much faster.
const RATIO: f64 = 0.6;

/// Deviations from the middle.
const FAR: f64 = 3.5;

/// A normal distribution's deviation is so many medians of absolute deviations.
const DEVIATION: f64 = 1.4826;

/// The least deviation, as a logarithm: a tenth.
const LEAST: f64 = 0.1;

/// Hosts that deviate by more than a factor of two have no common rate that one could be off.
const MOST: f64 = std::f64::consts::LN_2;

/// A host that stands still is a thousandth of its peers: nothing has no logarithm.
const STILL: f64 = 1e-3;

/// Slots in which it must be so, of all.
const STEADY: f64 = 0.8;

/// What was found.
pub(super) struct Peers {
    /// The slowest first.
    pub(super) outliers: Vec<Outlier>,
    /// Why nothing was compared.
    pub(super) missing: Option<String>,
}

/// A host beside its peers.
struct Compared<'a> {
    host: &'a HostLine<'a>,
    /// In each slot, its rate, its peers' median, and how many they were.
    slots: Vec<(f64, f64, usize)>,
    /// Spans that it told of these slots.
    intervals: u32,
}

impl Compared<'_> {
    /// As logarithms.
    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.slots.iter().map(|(own, peers, _)| (own / peers).max(STILL).ln())
    }

    fn ratio(&self) -> Option<f64> {
        median(self.ratios())
    }

    fn is_enough(&self) -> bool {
        self.slots.len() >= FEWEST as usize && self.intervals >= FEWEST
    }
}

/// Compares the hosts of what was told.
pub(super) fn compare(evidence: &FleetEvidence, timeline: &Timeline<'_>) -> Peers {
    let none = |why: String| Peers { outliers: Vec::new(), missing: Some(why) };
    match timeline.hosts.len() {
        0 => return none("no host has joined".to_owned()),
        1 => return none("one host has no peers".to_owned()),
        2 => return none("two hosts have no peers: which of them is odd only a third would show".to_owned()),
        _ => {}
    }
    let compared = beside(evidence, timeline);
    let enough: Vec<(&Compared<'_>, f64)> =
        compared.iter().filter(|one| one.is_enough()).filter_map(|one| Some((one, one.ratio()?))).collect();
    if enough.len() < 3 {
        let why = "too short to compare hosts: fewer than three had work in the same";
        return none(format!("{why} {FEWEST} intervals"));
    }
    let middle = median(enough.iter().map(|(_, ratio)| *ratio)).unwrap_or(0.0);
    let spread = DEVIATION * median(enough.iter().map(|(_, ratio)| (ratio - middle).abs())).unwrap_or(0.0);
    if spread > MOST {
        return none("the hosts' rates are too far apart for one of them to be the odd one".to_owned());
    }
    let least = (FAR * spread.max(LEAST)).max(-RATIO.ln());
    let is_odd = |ratio: f64| (ratio - middle).abs() > least;
    let mut outliers: Vec<Outlier> = (enough.iter())
        .filter(|(one, ratio)| is_odd(*ratio) && is_steady(one, *ratio, middle))
        .filter_map(|(one, _)| outlier(evidence, timeline, one))
        .collect();
    outliers.sort_by(|one, other| (one.rate / one.peers_rate).total_cmp(&(other.rate / other.peers_rate)));
    Peers { outliers, missing: None }
}

fn is_steady(one: &Compared<'_>, ratio: f64, middle: f64) -> bool {
    let same = one.ratios().filter(|of| (*of < middle) == (ratio < middle)).count();
    same as f64 >= STEADY * one.slots.len() as f64
}

fn beside<'a>(evidence: &FleetEvidence, timeline: &'a Timeline<'_>) -> Vec<Compared<'a>> {
    let times = evidence.since..timeline.end();
    let slots = timeline.within(&times);
    let none = |host| Compared { host, slots: Vec::new(), intervals: 0 };
    let mut compared: Vec<Compared<'a>> = timeline.hosts.iter().map(none).collect();
    for slot in slots.clone() {
        let rate = |host: &HostLine<'_>| {
            let cell = host.cells.get(slot).filter(|cell| cell.is_in && cell.working > 0.0)?;
            Some(cell.bytes / cell.working)
        };
        let rates: Vec<Option<f64>> = timeline.hosts.iter().map(rate).collect();
        let sorted = sorted(rates.iter().flatten().copied());
        if sorted.len() < 3 {
            continue;
        }
        for (one, rate) in compared.iter_mut().zip(&rates) {
            let Some(rate) = rate else { continue };
            let peers = median_without(&sorted, *rate);
            if peers > 0.0 {
                one.slots.push((*rate, peers, sorted.len() - 1));
            }
        }
    }
    for one in &mut compared {
        one.intervals = one.host.intervals(&timeline.time(&slots));
    }
    compared
}

/// The median of all but one of them.
fn median_without(ascending: &[f64], one: f64) -> f64 {
    let place = ascending.partition_point(|rate| *rate < one);
    let left = ascending.len() - 1;
    let at = |rank: usize| ascending[if rank < place { rank } else { rank + 1 }];
    f64::midpoint(at((left - 1) / 2), at(left / 2))
}

fn outlier(evidence: &FleetEvidence, timeline: &Timeline<'_>, one: &Compared<'_>) -> Option<Outlier> {
    let count = one.slots.len() as f64;
    let mean = |of: fn(&(f64, f64, usize)) -> f64| one.slots.iter().map(of).sum::<f64>() / count;
    let intervals = one.intervals.min(one.slots.len() as u32);
    let word = Held::of(one.host, evidence.since).main(intervals).ok();
    let peers = one.slots.iter().map(|(_, _, peers)| *peers).min()?;
    Some(Outlier {
        host: one.host.name.to_owned(),
        rate: mean(|slot| slot.0),
        peers_rate: mean(|slot| slot.1),
        peers: peers.try_into().unwrap_or(u32::MAX),
        intervals,
        limit: word.map(|(limit, _)| limit),
        peers_limit: peers_limit(evidence, timeline, one.host.name),
        confidence: worth::of_intervals(intervals as usize) * worth::of_peers(peers),
    })
}

/// What holds more than half of a host's peers by their own word.
fn peers_limit(evidence: &FleetEvidence, timeline: &Timeline<'_>, but: &str) -> Option<Limit> {
    let peers = || timeline.hosts.iter().filter(|host| host.name != but);
    let word = |host: &HostLine<'_>| {
        let intervals = host.intervals(&(evidence.since..timeline.end()));
        match Held::of(host, evidence.since).main(intervals).ok()?.0 {
            MainLimit::One(limit) => Some(limit),
            MainLimit::Mixed => None,
        }
    };
    let words: Vec<Limit> = peers().filter_map(word).collect();
    let agree = |limit: &&Limit| words.iter().filter(|word| word == limit).count() * 2 > peers().count();
    words.iter().find(agree).copied()
}
