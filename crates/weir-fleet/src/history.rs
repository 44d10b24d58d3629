//! A fleet's whole life, cut to what a page shows. Pure: the ledger's statements fill it.

use std::collections::BTreeMap;

use weir_model::fleet::NO_WORK;

/// What a ledger holds of a fleet, from its first worker on.
#[derive(Debug, Clone)]
pub struct FleetHistory {
    /// When the first worker joined, milliseconds since 1970.
    pub begin: i64,
    /// When the last batch was done, or now.
    pub end: i64,
    /// What held all hosts together, over time.
    pub spans: Vec<HostSpan>,
    /// Hosts, in the order of their names.
    pub hosts: Vec<HostHistory>,
    /// So many milliseconds after the beginning: objects and bytes done and objects given up until then.
    pub steps: Vec<(u64, [u64; 3])>,
    /// Some objects of each class of failures.
    pub failed: Vec<FailedObject>,
    /// What took longest, the longest first.
    pub slow: Vec<SlowBatch>,
}

/// A host over time.
#[derive(Debug, Clone, PartialEq)]
pub struct HostHistory {
    /// Its name.
    pub host: String,
    /// Workers that it has had.
    pub workers: u64,
    /// Objects that they moved.
    pub objects: u64,
    /// Bytes of batches that they finished.
    pub bytes: u64,
    /// Milliseconds that it had work, of all its workers together, and the bytes it moved in them.
    pub at_work: HostTime,
    /// What held it longest of that, and the share.
    pub limit: Option<(String, f64)>,
    /// What held it when.
    pub spans: Vec<HostSpan>,
}

/// A time under one limit, in milliseconds since the beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSpan {
    /// From.
    pub from: f64,
    /// To.
    pub to: f64,
    /// What held most of it.
    pub limit: String,
    /// Of the time that workers told of.
    pub share: f64,
    /// Bytes a second.
    pub rate: f64,
}

/// An object that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedObject {
    /// Below the source.
    pub source: String,
    /// The class.
    pub class: String,
    /// In words.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u64,
    /// Where it was tried last.
    pub host: String,
}

/// A batch, and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowBatch {
    /// Its number.
    pub batch: i64,
    /// Its object, or the first of them.
    pub name: String,
    /// `done` or `leased`.
    pub state: String,
    /// Its objects.
    pub objects: u64,
    /// Their bytes by the plan, as far as sizes are known.
    pub bytes: u64,
    /// From its last lease on, milliseconds.
    pub took: u64,
    /// Who has it, or had it last.
    pub host: String,
    /// How often it was given out.
    pub leases: u64,
}

/// Time and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostTime {
    /// Milliseconds.
    pub held: f64,
    /// Bytes that were moved meanwhile.
    pub bytes: u64,
}

/// Time in equal columns, and what held how much of each.
#[derive(Debug, Clone)]
pub struct TimeGrid {
    /// Milliseconds of a column.
    width: f64,
    columns: Vec<BTreeMap<String, (f64, f64)>>,
}

impl TimeGrid {
    /// So many columns, each of `width` milliseconds.
    pub fn new(columns: usize, width: f64) -> TimeGrid {
        TimeGrid { width: width.max(f64::MIN_POSITIVE), columns: vec![BTreeMap::new(); columns] }
    }

    /// Empty again.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(BTreeMap::clear);
    }

    /// `limit` held for some of the time between these two; it is spread evenly over them.
    pub fn add(&mut self, (from, to): (f64, f64), limit: &str, time: HostTime) {
        let length = (to - from).max(1.0);
        let column =
            |at: f64| ((at / self.width).max(0.0) as usize).min(self.columns.len().saturating_sub(1));
        let (first, last) = (column(from), column(from + length));
        for index in first..=last {
            let begin = (index as f64 * self.width).max(from);
            // What is beyond the last column, by a clock that differs, belongs to it.
            let end = if index == last { from + length } else { (index + 1) as f64 * self.width };
            let share = ((end - begin) / length).clamp(0.0, 1.0);
            if share > 0.0
                && let Some(column) = self.columns.get_mut(index)
            {
                let (held, bytes) = column.entry(limit.to_owned()).or_default();
                *held += time.held * share;
                *bytes += time.bytes as f64 * share;
            }
        }
    }

    /// Adds what another one of the same columns holds.
    pub fn add_all(&mut self, other: &TimeGrid) {
        for (own, others) in self.columns.iter_mut().zip(&other.columns) {
            for (limit, (held, bytes)) in others {
                let sum = own.entry(limit.clone()).or_default();
                (sum.0, sum.1) = (sum.0 + held, sum.1 + bytes);
            }
        }
    }

    /// Time with work, and what was moved in it.
    pub fn at_work(&self) -> HostTime {
        let all = self.columns.iter().flatten();
        let work = all.filter(|(limit, _)| *limit != NO_WORK);
        let (held, bytes) = work.fold((0.0, 0.0), |sum, (_, of)| (sum.0 + of.0, sum.1 + of.1));
        HostTime { held, bytes: bytes.round() as u64 }
    }

    /// The limit that held longest of the time with work, and its share of that.
    pub fn most(&self) -> Option<(String, f64)> {
        let mut limits = BTreeMap::<&str, f64>::new();
        for (limit, (held, _)) in self.columns.iter().flatten().filter(|(limit, _)| *limit != NO_WORK) {
            *limits.entry(limit).or_default() += held;
        }
        let all: f64 = limits.values().sum();
        let most = limits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        most.filter(|_| all > 0.0).map(|(limit, held)| (limit.to_owned(), held / all))
    }

    /// A span for each column that holds anything: by what held longest, work before none.
    pub fn spans(&self) -> Vec<HostSpan> {
        let of = |(index, limits): (usize, &BTreeMap<String, (f64, f64)>)| {
            let all: f64 = limits.values().map(|(held, _)| held).sum();
            let bytes: f64 = limits.values().map(|(_, bytes)| bytes).sum();
            let key = |(limit, (held, _)): &(&String, &(f64, f64))| (*limit != NO_WORK, *held);
            let most = limits.iter().max_by(|a, b| {
                let (a, b) = (key(a), key(b));
                a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
            });
            let (limit, (held, _)) = most?;
            Some(HostSpan {
                from: index as f64 * self.width,
                to: (index + 1) as f64 * self.width,
                limit: limit.clone(),
                share: if all > 0.0 { held / all } else { 0.0 },
                rate: bytes * 1000.0 / self.width,
            })
        };
        self.columns.iter().enumerate().filter_map(of).collect()
    }
}

impl HostHistory {
    /// Bytes a second of a worker that had work.
    pub fn rate(&self) -> f64 {
        let HostTime { held, bytes } = self.at_work;
        if held > 0.0 { bytes as f64 * 1000.0 / held } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_spread_over_the_columns_and_none_is_lost() {
        let mut grid = TimeGrid::new(4, 1000.0);
        grid.add((500.0, 2500.0), "disk", HostTime { held: 2000.0, bytes: 4000 });
        grid.add((3900.0, 9000.0), "latency", HostTime { held: 100.0, bytes: 10 });
        grid.add((0.0, 4000.0), NO_WORK, HostTime { held: 3000.0, bytes: 0 });
        assert_eq!(grid.at_work(), HostTime { held: 2100.0, bytes: 4010 });
        assert_eq!(
            grid.most().map(|(limit, share)| (limit, (share * 100.0).round())),
            Some(("disk".to_owned(), 95.0))
        );
        let told: Vec<_> = grid.spans().iter().map(|span| (span.limit.clone(), span.rate.round())).collect();
        let of = |limit: &str, rate| (limit.to_owned(), rate);
        assert_eq!(told, [of("disk", 1000.0), of("disk", 2000.0), of("disk", 1000.0), of("latency", 10.0)]);
        let mut twice = TimeGrid::new(4, 1000.0);
        twice.add_all(&grid);
        twice.add_all(&grid);
        assert_eq!(twice.at_work(), HostTime { held: 4200.0, bytes: 8020 });
    }
}
