//! What many hosts told, judged: shares, hosts, peers, the trial, and what follows from them.

use weir_units::stats::median;

use super::shares::{FEWEST, Held};
use super::timeline::{HostLine, SILENT, Timeline};
use super::trial::{self, Stretch};
use super::words::{evidence_lines, named};
use super::{
    FleetEvidence, FleetHold, FleetPrediction, FleetTrial, FleetVerdict, HostVerdict, TrialOutcome, advice,
    peers, shared,
};
use crate::worth::{self, Grounds};

/// From this share of the judged time on that is of the hosts themselves, each is limited by itself without
/// any trial.
const OWN: f64 = 0.75;

/// From this share of host-time without work on it is the work that is short.
pub(super) const IDLE: f64 = 0.5;

/// The rate of a fleet is that of its last seconds, so many.
const LAST: f64 = 60.0;

/// What the rest is found from.
pub(super) struct Known<'a> {
    pub(super) evidence: &'a FleetEvidence,
    pub(super) timeline: &'a Timeline<'a>,
    /// Of all hosts together.
    pub(super) held: Held,
    /// The last time in which the same hosts worked, those of the end aside.
    pub(super) last: Option<Stretch>,
}

/// What holds this fleet: pure, the same evidence gives the same words, whatever order it comes in.
pub fn explain(evidence: &FleetEvidence) -> FleetVerdict {
    let timeline = &Timeline::of(evidence);
    let (mut held, mut hosts) = (Held::default(), Vec::new());
    for host in &timeline.hosts {
        let own = Held::of(host, evidence.since);
        held.add(&own);
        hosts.push(of_host(evidence, timeline, host, &own));
    }
    let last = trial::steady(timeline, evidence.is_complete).pop();
    let known = Known { evidence, timeline, held, last };
    let intervals = hosts.iter().map(|host| host.intervals).max().unwrap_or(0);
    let (main, mut missing) = match known.held.main(intervals) {
        Ok(main) => (Some(main), Vec::new()),
        Err(why) => (None, vec![format!("what holds the fleet cannot be told: {why}")]),
    };
    let peers = peers::compare(evidence, timeline);
    let trial = trial::last(timeline, evidence.is_complete);
    let (hold, hold_confidence) = known.hold(trial.as_ref(), intervals, &mut missing);
    missing.extend(peers.missing);
    missing.extend(silent(&hosts));
    let mut verdict = FleetVerdict {
        limit: main.map(|(limit, _)| limit),
        confidence: main.map_or(0.0, |(_, confidence)| confidence),
        shares: known.held.shares(),
        rate: known.rate(),
        hosts,
        outliers: peers.outliers,
        trial,
        hold,
        hold_confidence,
        next: None,
        evidence: Vec::new(),
        missing,
        advice: Vec::new(),
    };
    verdict.next = known.next(&verdict);
    verdict.evidence = evidence_lines(&verdict);
    verdict.advice = advice::advise(&known, &verdict);
    verdict
}

fn of_host(
    evidence: &FleetEvidence,
    timeline: &Timeline<'_>,
    host: &HostLine<'_>,
    held: &Held,
) -> HostVerdict {
    let time = evidence.since..timeline.end();
    let intervals = host.intervals(&time);
    let main = held.main(intervals);
    let told = host.workers.iter().flat_map(|worker| &worker.spans).map(|span| span.to).fold(0.0, f64::max);
    let is_here = host.workers.iter().any(|worker| worker.is_here);
    let silence = timeline.end() - told;
    let word = main.as_ref().ok();
    HostVerdict {
        host: host.name.to_owned(),
        workers: host.workers.len().try_into().unwrap_or(u32::MAX),
        limit: word.map(|(limit, _)| *limit),
        confidence: word.map_or(0.0, |(_, confidence)| *confidence),
        shares: held.shares(),
        rate: host.rate(timeline.within(&time)),
        intervals,
        is_here,
        missing: match main {
            Ok(_) if is_here && silence >= SILENT => Some(format!("it told nothing for {silence:.0} s")),
            Ok(_) => None,
            Err(why) => Some(why),
        },
    }
}

/// Hosts of which nothing is said, in a line for each reason.
fn silent(hosts: &[HostVerdict]) -> Vec<String> {
    let mut lines: Vec<(&str, Vec<&str>)> = Vec::new();
    for host in hosts {
        let Some(why) = host.missing.as_deref() else { continue };
        match lines.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(&host.host),
            None => lines.push((why, vec![&host.host])),
        }
    }
    lines.into_iter().map(|(why, names)| format!("{}: {why}", named(&names))).collect()
}

impl Known<'_> {
    fn idle_share(&self) -> f64 {
        self.held.shares().get(&super::HeldBy::NoWork).copied().unwrap_or(0.0)
    }

    /// Whether hosts hold themselves, with the share of such words that is right, by what was told in so many
    /// intervals; why that is not known goes to `missing`.
    fn hold(
        &self,
        trial: Option<&FleetTrial>,
        intervals: u32,
        missing: &mut Vec<String>,
    ) -> (FleetHold, f64) {
        let (ends, capped) = (self.evidence.ends, self.evidence.rate_cap.is_some());
        let working = self.last.as_ref().map_or(0, |(_, who)| who.len());
        let tried = trial.map_or(0, |trial| trial.others as usize + trial.hosts.len());
        let sure = trial.map_or(0.0, |trial| {
            worth::of_intervals(trial.intervals.0.min(trial.intervals.1) as usize) * worth::of_trial()
        });
        let own = shared::own_share(&self.held, ends, capped);
        let why = match trial.map(|trial| trial.outcome) {
            Some(TrialOutcome::Nothing | TrialOutcome::InPart) => {
                return (FleetHold::Shared(shared::end(&self.held, ends, capped)), sure);
            }
            Some(TrialOutcome::Added) if working <= tried => return (FleetHold::Own, sure),
            // Nobody waits for anything but itself.
            _ if own >= OWN && intervals >= FEWEST => {
                let told = worth::of_intervals(intervals as usize) * self.held.sure();
                return (FleetHold::Own, own * Grounds::OneEnd.worth() * told);
            }
            Some(TrialOutcome::Added) => format!("{working} hosts work now, and the trial had {tried}"),
            Some(TrialOutcome::Unclear) => "the rates when hosts came or went do not tell".to_owned(),
            None if working == 0 || intervals < FEWEST => "too short to tell".to_owned(),
            None => "no host came or went while others worked".to_owned(),
        };
        missing.push(format!("whether more hosts would bring more: {why}"));
        (FleetHold::Unknown, 0.0)
    }

    /// Of all hosts in the last time of which all told.
    fn rate(&self) -> Option<f64> {
        let (slots, who) = self.last.as_ref()?;
        Some(trial::rate(self.timeline, who, &self.latest(slots)))
    }

    fn latest(&self, slots: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        let time = self.timeline.time(slots);
        self.timeline.within(&(time.start.max(time.end - LAST)..time.end))
    }

    /// One more host brings what the middle of those there carries, where each is limited by itself, and
    /// nothing where the last that came brought nothing.
    fn next(&self, verdict: &FleetVerdict) -> Option<FleetPrediction> {
        let (slots, who) = self.last.as_ref()?;
        let all = self.rate()?;
        let slots = self.latest(slots);
        let each = who.iter().filter_map(|host| self.timeline.hosts[*host].rate(slots.clone()));
        let hosts = u32::try_from(who.len() + 1).unwrap_or(u32::MAX);
        let outcome = verdict.trial.as_ref().map(|trial| trial.outcome);
        match verdict.hold {
            FleetHold::Own if self.idle_share() < IDLE => {
                Some(FleetPrediction { hosts, rate: all + median(each)? })
            }
            FleetHold::Shared(_) if outcome == Some(TrialOutcome::Nothing) => {
                Some(FleetPrediction { hosts, rate: all })
            }
            _ => None,
        }
    }
}
