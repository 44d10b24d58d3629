//! Workers' spans on one axis: hosts by slots of time.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{FleetEvidence, HeldBy, WorkerEvidence, WorkerSpan};

/// A slot, seconds: the shortest span that a worker tells. Of more than [`MOST_SLOTS`] each is longer.
const SLOT: f64 = 1.0;

/// A thousand hosts by so many slots are 20 MB.
const MOST_SLOTS: f64 = 1000.0;

/// A pause between two batches is no leaving: a host that works before and after so many slots without work
/// worked in them too.
const PAUSE: usize = 2;

/// A host in one slot.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Cell {
    /// Seconds in which it moved something or tried to.
    pub(super) working: f64,
    /// Moved.
    pub(super) bytes: f64,
    /// It had work for half of the slot, or paused between two slots in which it had.
    pub(super) is_in: bool,
}

/// A worker with those of its spans that make sense, in order.
pub(super) struct WorkerLine<'a> {
    pub(super) spans: Vec<&'a WorkerSpan>,
    pub(super) is_here: bool,
}

impl<'a> WorkerLine<'a> {
    fn of(worker: &'a WorkerEvidence) -> WorkerLine<'a> {
        let mut spans: Vec<&WorkerSpan> = worker.spans.iter().filter(|span| is_sound(span)).collect();
        spans.sort_by(|one, other| order(one, other));
        WorkerLine { spans, is_here: worker.left.is_none() }
    }

    fn order(&self, other: &WorkerLine<'_>) -> Ordering {
        let mut spans = self.spans.iter().zip(&other.spans).map(|(one, other)| order(one, other));
        spans.find(|order| order.is_ne()).unwrap_or(self.spans.len().cmp(&other.spans.len()))
    }

    fn last(&self) -> f64 {
        self.spans.iter().map(|span| span.to).fold(0.0, f64::max)
    }
}

/// A host on the axis.
pub(super) struct HostLine<'a> {
    pub(super) name: &'a str,
    pub(super) workers: Vec<WorkerLine<'a>>,
    /// One for each slot of the timeline.
    pub(super) cells: Vec<Cell>,
}

impl HostLine<'_> {
    /// Spans with work of which a part lies in a time, of the worker that told the fewest of those that told
    /// any.
    pub(super) fn intervals(&self, time: &Range<f64>) -> u32 {
        let told = |worker: &WorkerLine<'_>| {
            let within = worker.spans.iter().filter(|span| span.from < time.end && span.to > time.start);
            within.filter(|span| work(span) > 0.0).count()
        };
        let least = self.workers.iter().map(told).filter(|count| *count > 0).min();
        least.unwrap_or(0).try_into().unwrap_or(u32::MAX)
    }

    /// Bytes a second while it worked, over these slots; `None`: it did not.
    pub(super) fn rate(&self, slots: Range<usize>) -> Option<f64> {
        let cells = self.cells.get(slots)?;
        let (working, bytes) =
            cells.iter().fold((0.0, 0.0), |sum, cell| (sum.0 + cell.working, sum.1 + cell.bytes));
        (working > 0.0).then(|| bytes / working)
    }

    /// The spans that a moment lies within: what they tell is of before and after it.
    pub(super) fn around(&self, moment: f64) -> Range<f64> {
        let spans = self.workers.iter().flat_map(|worker| &worker.spans);
        let within = spans.filter(|span| span.from < moment && span.to > moment);
        within.fold(moment..moment, |sum, span| sum.start.min(span.from)..sum.end.max(span.to))
    }
}

/// Hosts by slots.
pub(super) struct Timeline<'a> {
    /// In the order of their names.
    pub(super) hosts: Vec<HostLine<'a>>,
    /// The number of each slot of which anything was told; neighbours differ by one.
    slots: Vec<i64>,
    width: f64,
}

impl<'a> Timeline<'a> {
    pub(super) fn of(evidence: &'a FleetEvidence) -> Timeline<'a> {
        let mut by_host: BTreeMap<&str, Vec<WorkerLine<'_>>> = BTreeMap::new();
        for worker in &evidence.workers {
            by_host.entry(&worker.host).or_default().push(WorkerLine::of(worker));
        }
        // Sums of fractions depend on their order by a hair.
        for workers in by_host.values_mut() {
            workers.sort_by(WorkerLine::order);
        }
        let workers = || by_host.values().flatten();
        let (width, until) = (width(workers()), until(workers()));
        let told = workers().flat_map(|worker| &worker.spans).flat_map(|span| slots_of(span, width));
        let told: BTreeSet<i64> = told.collect();
        let slots: Vec<i64> = told.into_iter().filter(|slot| (slot + 1) as f64 * width <= until).collect();
        let line = |(name, workers): (&'a str, Vec<WorkerLine<'a>>)| HostLine {
            cells: cells(&workers, &slots, width),
            name,
            workers,
        };
        Timeline { hosts: by_host.into_iter().map(line).collect(), slots, width }
    }

    /// From the beginning of the first to the end of the last of these; none of none.
    pub(super) fn time(&self, slots: &Range<usize>) -> Range<f64> {
        match self.slots.get(slots.clone()) {
            Some([first, .., last]) => *first as f64 * self.width..(last + 1) as f64 * self.width,
            Some([one]) => *one as f64 * self.width..(one + 1) as f64 * self.width,
            _ => 0.0..0.0,
        }
    }

    /// The end of what was told.
    pub(super) fn end(&self) -> f64 {
        self.slots.last().map_or(0.0, |number| (number + 1) as f64 * self.width)
    }

    /// The whole slots within a time.
    pub(super) fn within(&self, time: &Range<f64>) -> Range<usize> {
        let first = self.slots.partition_point(|number| (*number as f64 * self.width) < time.start - 1e-6);
        let end = self.slots.partition_point(|number| (number + 1) as f64 * self.width <= time.end + 1e-6);
        first..end.max(first)
    }

    /// Slots in a row in which the same hosts worked, with these hosts by their places.
    pub(super) fn stretches(&self) -> Vec<(Range<usize>, Vec<usize>)> {
        let mut found: Vec<(Range<usize>, Vec<usize>)> = Vec::new();
        for slot in 0..self.slots.len() {
            let is_in = |host: &usize| self.hosts[*host].cells[slot].is_in;
            let who: Vec<usize> = (0..self.hosts.len()).filter(is_in).collect();
            let is_next = slot > 0 && self.slots[slot] == self.slots[slot - 1] + 1;
            match found.last_mut() {
                Some((slots, before)) if is_next && *before == who => slots.end = slot + 1,
                _ => found.push((slot..slot + 1, who)),
            }
        }
        found
    }
}

fn order(one: &WorkerSpan, other: &WorkerSpan) -> Ordering {
    let times =
        one.from.total_cmp(&other.from).then(one.to.total_cmp(&other.to)).then(one.bytes.cmp(&other.bytes));
    times.then(one.held.partial_cmp(&other.held).unwrap_or(Ordering::Equal))
}

/// No worker tells of more at once, seconds, and no clock is further than some thousand years off.
const LONGEST: f64 = 3600.0;
const LATEST: f64 = 1e11;

/// A span that makes sense: others may write into a ledger too.
fn is_sound(span: &WorkerSpan) -> bool {
    let length = span.to - span.from;
    (0.0..LATEST).contains(&span.from)
        && length > 0.0
        && length <= LONGEST
        && span.held.iter().all(|(_, share)| (0.0..=1.0 + 1e-6).contains(share))
}

/// A host that is there and told nothing for so long is not waited for, seconds: two spans of a worker, and
/// what a busy ledger takes.
pub(super) const SILENT: f64 = 30.0;

/// The last moment that all hosts which are there have told of. Later ones would look as if some had gone.
fn until<'a>(workers: impl Iterator<Item = &'a WorkerLine<'a>>) -> f64 {
    let last: Vec<(f64, bool)> = workers.map(|worker| (worker.last(), worker.is_here)).collect();
    let latest = last.iter().map(|(told, _)| *told).fold(0.0, f64::max);
    let there = last.iter().filter(|(told, is_here)| *is_here && latest - told < SILENT);
    there.map(|(told, _)| *told).fold(latest, f64::min)
}

/// Wide enough that there are not more than [`MOST_SLOTS`], of which something was told.
fn width<'a>(workers: impl Iterator<Item = &'a WorkerLine<'a>>) -> f64 {
    let mut times: Vec<(f64, f64)> =
        workers.flat_map(|worker| &worker.spans).map(|span| (span.from, span.to)).collect();
    times.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut told, mut until) = (0.0, 0.0_f64);
    for (from, to) in times {
        told += (to - from.max(until)).max(0.0);
        until = until.max(to);
    }
    SLOT * (told / (SLOT * MOST_SLOTS)).ceil().max(1.0)
}

fn slots_of(span: &WorkerSpan, width: f64) -> Range<i64> {
    (span.from / width).floor() as i64..(span.to / width).ceil() as i64
}

/// Of a span, the share in which there was work.
fn work(span: &WorkerSpan) -> f64 {
    let idle: f64 = span.held.iter().filter(|held| held.0 == HeldBy::NoWork).map(|held| held.1).sum();
    1.0 - idle.clamp(0.0, 1.0)
}

fn cells(workers: &[WorkerLine<'_>], slots: &[i64], width: f64) -> Vec<Cell> {
    let mut cells = vec![Cell::default(); slots.len()];
    for span in workers.iter().flat_map(|worker| &worker.spans) {
        let work = work(span);
        for number in slots_of(span, width) {
            let Ok(place) = slots.binary_search(&number) else { continue };
            let (start, end) = (number as f64 * width, (number + 1) as f64 * width);
            let shared = span.to.min(end) - span.from.max(start);
            cells[place].working += shared * work;
            cells[place].bytes += span.bytes as f64 * shared / (span.to - span.from);
        }
    }
    for cell in &mut cells {
        // Two workers of a host that work at the same time are one host that works.
        cell.working = cell.working.min(width);
        cell.is_in = cell.working >= width / 2.0;
    }
    fill_pauses(&mut cells, slots);
    cells
}

fn fill_pauses(cells: &mut [Cell], slots: &[i64]) {
    let mut last: Option<usize> = None;
    for place in 0..cells.len() {
        if !cells[place].is_in {
            continue;
        }
        if let Some(before) = last.filter(|before| slots[place] - slots[*before] <= PAUSE as i64 + 1) {
            cells[before..place].iter_mut().for_each(|cell| cell.is_in = true);
        }
        last = Some(place);
    }
}
