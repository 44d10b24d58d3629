//! Does a sender stand still until a timer fires? See [`crate::rule::timeouts`], which judges both ends
//! alike.

use crate::evidence::Interval;
use crate::rule::end::End;
use crate::rule::{Context, Judgement, timeouts};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    timeouts::judge_end(interval, context, End::Sends)
}
