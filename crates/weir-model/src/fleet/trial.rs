//! Did the last hosts that came (or went) add bytes?
//!
//! Those that worked before and after are looked at: with more hosts beside them they carry less where
//! something that all share is full, and the same where each is limited by itself.
//!
//! 1. The same hosts worked for [`FEWEST`] slots before, other ones joined or left, and the same worked for
//!    as long after. What a host told of both times in one span is of neither, and the first two seconds of
//!    who came, and of the others with it, are slow start.
//! 2. They carried less with more hosts, by more than 7 % and three errors of the mean: **nothing** where
//!    more than half of what came with the hosts was lost by the others, else **in part**.
//! 3. They carried the same within 7 % (or more, by up to three tenths of what came), and within two errors
//!    lost less than three tenths of what came: **added**.
//! 4. They carried much more with more hosts, too little came, or the rates are too unsteady: **unclear**.
//!
//! Hosts that ran out of work at the end are no trial: what is left then are other objects than before.
//!
//! Can be wrong: something else changed in the same seconds.

use std::ops::Range;

use weir_units::stats::median;

use super::shares::FEWEST;
use super::timeline::Timeline;
use super::{FleetTrial, TrialChange, TrialOutcome};

/// Between two times that are compared, at most, seconds: hosts that start do not all start at once.
const BETWEEN: f64 = 20.0;

/// Slow start and the first tries of lanes, seconds.
const WARM_UP: f64 = 2.0;

/// So much of a time is enough, seconds: what is compared is to be of the same hour.
const ENOUGH: f64 = 60.0;

/// A change of the others' rate below it is none: links that are shaped to one rate carry it within 2 %, and
/// five such hosts over a link of twenty that were full would still lose this.
const CHANGE: f64 = 0.07;

/// What the others lost of what came with the hosts, where that was for nothing.
const BROUGHT: f64 = 0.5;

/// And what they may have lost of it, within errors, where nothing was: else too little came to tell.
const KEPT: f64 = 0.3;

/// A normal distribution's deviation is so many medians of absolute deviations.
const DEVIATION: f64 = 1.4826;

/// A stretch of slots in which the same hosts worked.
pub(super) type Stretch = (Range<usize>, Vec<usize>);

/// The last one of which enough was told. `ran_out`: the last hosts to work had the last of the work.
pub(super) fn last(timeline: &Timeline<'_>, ran_out: bool) -> Option<FleetTrial> {
    let stretches = steady(timeline, ran_out);
    stretches.windows(2).rev().find_map(|pair| judge(timeline, &pair[0], &pair[1]))
}

/// Stretches that are long enough, without those of a fleet's end.
pub(super) fn steady(timeline: &Timeline<'_>, ran_out: bool) -> Vec<Stretch> {
    let all = timeline.stretches();
    let mut steady: Vec<Stretch> =
        all.into_iter().filter(|(slots, who)| slots.len() >= FEWEST as usize && !who.is_empty()).collect();
    if ran_out {
        // Fewer and fewer, until nobody has work: the last that is no part of an earlier one has it all.
        while let [.., before, after] = steady.as_slice()
            && after.1.len() < before.1.len()
            && after.1.iter().all(|host| before.1.contains(host))
            && is_end(timeline, after, before)
        {
            steady.pop();
        }
    }
    steady
}

/// Who left before `after` did not leave: there was no work.
fn is_end(timeline: &Timeline<'_>, after: &Stretch, before: &Stretch) -> bool {
    let went = before.1.iter().filter(|host| !after.1.contains(host));
    let works_later =
        |host: &usize| timeline.hosts[*host].cells[after.0.start..].iter().any(|cell| cell.is_in);
    !went.into_iter().any(works_later)
}

fn judge(timeline: &Timeline<'_>, before: &Stretch, after: &Stretch) -> Option<FleetTrial> {
    let (fewer, more, change) = match before.1.len() < after.1.len() {
        true => (&before.1, &after.1, TrialChange::Joined),
        false => (&after.1, &before.1, TrialChange::Left),
    };
    let is_part = fewer.iter().all(|host| more.contains(host));
    let (end, start) = (timeline.time(&before.0).end, timeline.time(&after.0).start);
    if fewer.len() == more.len() || !is_part || start - end > BETWEEN {
        return None;
    }
    let (first, second) = apart(timeline, before, after)?;
    let intervals = |slots: &Range<usize>| {
        let time = timeline.time(slots);
        fewer.iter().map(|host| timeline.hosts[*host].intervals(&time)).min().unwrap_or(0)
    };
    let intervals = (intervals(&first), intervals(&second));
    if intervals.0.min(intervals.1) < FEWEST {
        return None;
    }
    let came = more.iter().filter(|host| !fewer.contains(host));
    let mut trial = FleetTrial {
        at: start,
        change,
        hosts: came.map(|host| timeline.hosts[*host].name.to_owned()).collect(),
        others: fewer.len().try_into().unwrap_or(u32::MAX),
        before: rate(timeline, &before.1, &first),
        after: rate(timeline, &after.1, &second),
        others_before: rate(timeline, fewer, &first),
        others_after: rate(timeline, fewer, &second),
        intervals,
        outcome: TrialOutcome::Unclear,
    };
    let error = |slots, count| error(timeline, fewer, slots, count);
    trial.outcome = outcome(&trial, error(&first, intervals.0).hypot(error(&second, intervals.1)));
    Some(trial)
}

/// Bytes a second of these hosts together.
pub(super) fn rate(timeline: &Timeline<'_>, who: &[usize], slots: &Range<usize>) -> f64 {
    who.iter().filter_map(|host| timeline.hosts[*host].rate(slots.clone())).sum()
}

/// The slots before and after of which something is told apart, without the seconds in which all begins.
fn apart(timeline: &Timeline<'_>, before: &Stretch, after: &Stretch) -> Option<(Range<usize>, Range<usize>)> {
    let around = |moment: f64| {
        let of = |host: &usize| timeline.hosts[*host].around(moment);
        let all = before.1.iter().chain(&after.1).map(of);
        all.fold(moment..moment, |sum, one| sum.start.min(one.start)..sum.end.max(one.end))
    };
    let (earlier, later) = (timeline.time(&before.0), timeline.time(&after.0));
    let (end, start) = (around(earlier.end).start, around(later.start).end + WARM_UP);
    let begin = (earlier.start + WARM_UP).max(end - ENOUGH);
    let slots = (timeline.within(&(begin..end)), timeline.within(&(start..later.end.min(start + ENOUGH))));
    (slots.0.len().min(slots.1.len()) >= FEWEST as usize).then_some(slots)
}

/// By how much the mean rate of hosts over these slots may be off, of which they told in so many intervals.
fn error(timeline: &Timeline<'_>, who: &[usize], slots: &Range<usize>, intervals: u32) -> f64 {
    let each = |slot: usize| rate(timeline, who, &(slot..slot + 1));
    let rates: Vec<f64> = slots.clone().map(each).collect();
    let middle = median(rates.iter().copied()).unwrap_or(0.0);
    let spread = median(rates.iter().map(|rate| (rate - middle).abs())).unwrap_or(0.0);
    DEVIATION * spread / f64::from(intervals.max(1)).sqrt()
}

fn outcome(trial: &FleetTrial, error: f64) -> TrialOutcome {
    let (fewer, more, all) = match trial.change {
        TrialChange::Joined => (trial.others_before, trial.others_after, trial.after),
        TrialChange::Left => (trial.others_after, trial.others_before, trial.before),
    };
    let (lost, brought) = (fewer - more, all - more);
    // Who brings next to nothing takes nothing from others either, whatever they share.
    if fewer <= 0.0 || brought <= 0.0 {
        return TrialOutcome::Unclear;
    }
    let is_less = lost > CHANGE * fewer && lost > 3.0 * error;
    // That they carried a little more is no sign that they share anything.
    let is_same = lost <= CHANGE * fewer && -lost <= (CHANGE * fewer).max(KEPT * brought);
    match (is_less, lost > BROUGHT * brought) {
        (true, true) => TrialOutcome::Nothing,
        (true, false) => TrialOutcome::InPart,
        (false, _) if is_same && lost + 2.0 * error <= KEPT * brought => TrialOutcome::Added,
        (false, _) => TrialOutcome::Unclear,
    }
}
