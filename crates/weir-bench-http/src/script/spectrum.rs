//! A distribution as `done()` and wrk's report see it: distinct values and how often each came.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use mlua::{MetaMethod, UserData, UserDataFields, UserDataMethods};

/// Distinct values, ascending, with their counts. The arithmetic is wrk's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spectrum {
    values: Vec<(u64, u64)>,
    count: u64,
}

impl Spectrum {
    /// Of single values.
    pub fn of(values: impl IntoIterator<Item = u64>) -> Spectrum {
        Spectrum::counted(values.into_iter().map(|value| (value, 1)))
    }

    /// Of a histogram of nanoseconds, in microseconds.
    pub fn micros(histogram: &Histogram<u64>) -> Spectrum {
        // The middle of a histogram's step stands for what fell into it.
        let value = |at: u64| (histogram.median_equivalent(at) + 500) / 1000;
        Spectrum::counted(
            histogram.iter_recorded().map(|step| (value(step.value_iterated_to()), step.count_at_value())),
        )
    }

    fn counted(pairs: impl Iterator<Item = (u64, u64)>) -> Spectrum {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for (value, count) in pairs {
            *counts.entry(value).or_default() += count;
        }
        Spectrum { count: counts.values().sum(), values: counts.into_iter().collect() }
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest; 0 of nothing.
    pub fn min(&self) -> u64 {
        self.values.first().map_or(0, |(value, _)| *value)
    }

    /// The largest; 0 of nothing.
    pub fn max(&self) -> u64 {
        self.values.last().map_or(0, |(value, _)| *value)
    }

    /// 0 of nothing.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.values.iter().map(|(value, count)| *value as f64 * *count as f64).sum();
        if self.count == 0 { 0.0 } else { sum / self.count as f64 }
    }

    /// Of a sample (n - 1); 0 of fewer than two.
    pub fn stdev(&self) -> f64 {
        let mean = self.mean();
        let squares = |(value, count): &(u64, u64)| (*value as f64 - mean).powi(2) * *count as f64;
        let sum: f64 = self.values.iter().map(squares).sum();
        if self.count < 2 { 0.0 } else { (sum / (self.count - 1) as f64).sqrt() }
    }

    /// The value of rank p/100 x count + 0.5, rounded; 0 of nothing.
    pub fn percentile(&self, p: f64) -> u64 {
        let rank = (p / 100.0 * self.count as f64 + 0.5).round() as u64;
        let mut seen = 0;
        for (value, count) in &self.values {
            seen += count;
            if seen >= rank {
                return *value;
            }
        }
        0
    }

    /// The share of values at most one standard deviation from the mean, in percent; 0 of nothing.
    pub fn within_stdev(&self) -> f64 {
        let (mean, stdev) = (self.mean(), self.stdev());
        let inside = self.values.iter().filter(|(value, _)| (*value as f64 - mean).abs() <= stdev);
        let inside: u64 = inside.map(|(_, count)| count).sum();
        if self.count == 0 { 0.0 } else { 100.0 * inside as f64 / self.count as f64 }
    }

    /// The i-th distinct value, from 1, and its count; zeros beyond the last.
    pub fn at(&self, index: f64) -> (u64, u64) {
        let found = (index >= 1.0).then(|| self.values.get(index as usize - 1)).flatten();
        found.copied().unwrap_or_default()
    }

    /// How many distinct values.
    pub fn distinct(&self) -> usize {
        self.values.len()
    }
}

impl UserData for Spectrum {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("min", |_, own| Ok(own.min() as f64));
        fields.add_field_method_get("max", |_, own| Ok(own.max() as f64));
        fields.add_field_method_get("mean", |_, own| Ok(own.mean()));
        fields.add_field_method_get("stdev", |_, own| Ok(own.stdev()));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("percentile", |_, own, p: f64| Ok(own.percentile(p) as f64));
        methods.add_meta_method(MetaMethod::Len, |_, own, ()| Ok(own.distinct()));
        methods.add_meta_method(MetaMethod::Call, |_, own, index: f64| {
            let (value, count) = own.at(index);
            Ok((value as f64, count as f64))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_values() {
        let of = Spectrum::of([4, 1, 1, 10]);
        assert_eq!((of.count(), of.min(), of.max(), of.distinct()), (4, 1, 10, 3));
        assert_eq!(of.mean(), 4.0);
        assert!((of.stdev() - 18.0_f64.sqrt()).abs() < 1e-9);
        assert_eq!(of.within_stdev(), 75.0);
        // Ranks 2.5 and 4.5 are rounded away from zero; beyond the last there is no value.
        assert_eq!((of.percentile(50.0), of.percentile(75.0), of.percentile(100.0)), (4, 10, 0));
        assert_eq!((of.at(1.0), of.at(3.0), of.at(4.0), of.at(0.0)), ((1, 2), (10, 1), (0, 0), (0, 0)));
        assert_eq!(Spectrum::default().within_stdev(), 0.0);
    }

    #[test]
    fn a_histogram_becomes_microseconds() {
        let mut histogram = crate::tally::histogram();
        for nanos in [150_000, 150_010, 2_000_000] {
            histogram.saturating_record(nanos);
        }
        let of = Spectrum::micros(&histogram);
        assert_eq!((of.count(), of.min()), (3, 150));
        assert!((1998..=2002).contains(&of.max()));
    }
}
