//! Does less than a segment of the data wait unsent for an acknowledgement? See [`crate::rule::nagle`], which
//! judges both ends alike.

use crate::evidence::Interval;
use crate::rule::end::End;
use crate::rule::{Context, Judgement, nagle};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    nagle::judge_end(interval, context, End::Sends)
}
