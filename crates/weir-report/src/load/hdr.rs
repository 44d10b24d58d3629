//! A spectrum of latencies, in the text that HdrHistogram's plotters read.

use std::io::{self, Write};

/// One step: a value in milliseconds, the share of requests at or below it, and how many those are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Milliseconds.
    pub value: f64,
    /// 0 to 1.
    pub share: f64,
    /// Requests at or below.
    pub count: u64,
}

/// What stands below the steps, milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Foot {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stdev: f64,
    /// Largest.
    pub max: f64,
    /// How many values.
    pub count: u64,
    /// Powers of two that the histogram spans, and steps in each.
    pub buckets: (u64, u64),
}

/// Writes steps and foot.
pub fn render(steps: &[Step], foot: &Foot, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    for Step { value, share, count } in steps {
        match *share < 1.0 {
            true => writeln!(out, "{value:>12.3} {share:>2.12} {count:>10} {:>14.2}", 1.0 / (1.0 - share))?,
            false => writeln!(out, "{value:>12.3} {share:>2.12} {count:>10}")?,
        }
    }
    writeln!(out, "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]", foot.mean, foot.stdev)?;
    writeln!(out, "#[Max     = {:>12.3}, Total count    = {:>12}]", foot.max, foot.count)?;
    writeln!(out, "#[Buckets = {:>12}, SubBuckets     = {:>12}]", foot.buckets.0, foot.buckets.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_has_no_inverse() {
        let steps = [Step { value: 1.5, share: 0.5, count: 2 }, Step { value: 9.0, share: 1.0, count: 4 }];
        let mut text = Vec::new();
        render(&steps, &Foot { max: 9.0, count: 4, ..Foot::default() }, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("       1.500 0.500000000000          2           2.00\n"), "{text}");
        assert!(text.contains("       9.000 1.000000000000          4\n#[Mean"), "{text}");
    }
}
