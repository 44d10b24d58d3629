//! Does less than a segment of the data wait unsent for an acknowledgement? See [`crate::rule::nagle`], which judges both ends
//! alike.

use crate::evidence::Window;
use crate::rule::turns::End;
use crate::rule::{Context, Judgement, nagle};

/// The judgement of one window.
pub fn judge(window: &Window, context: &Context<'_>) -> Judgement {
    nagle::judge_end(window, context, End::Sends)
}
