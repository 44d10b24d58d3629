//! What a program did while no byte moved, over the judged interval and those beside it.

use super::Context;
use crate::around::Around;
use crate::evidence::Interval;

/// Seconds on each side of an interval that are looked at with it: two intervals.
const BESIDE: f64 = 0.2;

/// Samples of one kind as a share of all in this interval and those beside it, 0 to 1: turns of about an
/// interval's length fall into one of five samples here and into four of them there.
pub(crate) fn share_near(interval: &Interval, context: &Context<'_>, of: impl Fn(&Around) -> u32) -> f64 {
    let near = context.around(interval, BESIDE);
    let (mut found, mut all) = (0.0, 0.0);
    for interval in near {
        found += f64::from(of(&interval.around).min(interval.around.samples));
        all += f64::from(interval.around.samples);
    }
    if all > 0.0 { found / all } else { 0.0 }
}
