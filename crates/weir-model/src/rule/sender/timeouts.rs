//! Does a sender stand still until a timer fires? See [`crate::rule::timeouts`], which judges both ends alike.

use crate::evidence::Window;
use crate::rule::turns::End;
use crate::rule::{Context, Judgement, timeouts};

/// The judgement of one window.
pub fn judge(window: &Window, context: &Context<'_>) -> Judgement {
    timeouts::judge_end(window, context, End::Sends)
}
