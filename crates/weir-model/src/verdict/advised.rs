//! What [`crate::advice`] says of a judged run, each rate that it promises made the run's.

use super::Run;
use crate::advice::{self, Advice};
use crate::evidence::Interval;
use crate::knee::Knee;
use crate::limit::{Limit, QUARTER};

/// A promise of less than this much more is within what two runs of the same transfer differ by.
const WORTH_PROMISING: f64 = 1.02;

impl Run<'_> {
    pub(super) fn advice(&self, worded: &[Limit], knee: Option<Knee>) -> Vec<Advice> {
        let written = self.evidence.intervals.iter().map(|interval| interval.written);
        let written = written.fold(0, u64::saturating_add);
        worded
            .iter()
            .filter(|limit| worded.len() == 1 || self.held[limit] > QUARTER * self.total)
            .flat_map(|limit| {
                let together = self.together(*limit);
                let held = advice::Held { evidence: self.evidence, together: &together, knee, written };
                let mut advice = advice::advise(*limit, &held);
                let sure = *limit != Limit::PathLoss || !self.is_doubtful(*limit);
                for one in &mut advice {
                    one.predicted_rate = one
                        .predicted_rate
                        .filter(|_| sure)
                        .and_then(|promised| self.promise(&together, promised));
                    // Foreign evidence may hold figures that are none.
                    one.predicted_rate = one.predicted_rate.filter(|rate| rate.is_finite() && *rate > 0.0);
                }
                advice
            })
            .collect()
    }

    /// For most of its time the signs of this limit are less than an even chance: those of loss, where the
    /// link may be full as well and carries no more, whatever is changed at the ends.
    fn is_doubtful(&self, limit: Limit) -> bool {
        let (mut doubtful, mut all) = (0.0, 0.0);
        for (interval, verdict) in self.intervals_of(limit) {
            let seconds = interval.span.as_secs_f64();
            doubtful += if verdict.strength < 0.5 { seconds } else { 0.0 };
            all += seconds;
        }
        doubtful > 0.5 * all
    }

    /// A rate promised for the time under one limit, as the run's: that time would pass faster and the rest
    /// as it did, with it what of the watch came before and after the transfer, which the rate that was
    /// carried counts as well. `None` where it would be no more than was carried: the figure it came from was
    /// not that limit's then.
    pub(super) fn promise(&self, together: &Interval, promised: f64) -> Option<f64> {
        let held = together.span.as_secs_f64();
        let bytes = self.whole().received as f64;
        if bytes <= 0.0 || held <= 0.0 {
            return None;
        }
        let spans = self.evidence.intervals.iter().map(|interval| interval.span.as_secs_f64());
        let watched = spans.sum::<f64>();
        let carried = bytes / watched;
        let faster = (watched - held) + together.received as f64 / promised;
        // A fraction of a byte a second is the arithmetic's.
        let whole = (bytes / faster).round();
        (promised.is_finite() && whole > WORTH_PROMISING * carried).then_some(whole)
    }
}
