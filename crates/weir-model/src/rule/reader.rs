//! Does the consumer of our output take it too slowly?
//!
//! Convicts when: the lanes are held by waiting for our stdout's reader (see `Spent::held_by`).
//!
//! Acquits: output goes to a file, or the reader kept up.
//!
//! Can be wrong: a consumer that starves for a processor which we occupy is slow because of us.

use super::spent::spent;
use super::{Context, Judgement};
use crate::evidence::Window;
use crate::words::percent;

/// The judgement of one window.
pub fn judge(window: &Window, context: &Context<'_>) -> Judgement {
    let spent = spent(window);
    if spent.held_by(spent.output_wait) {
        let queue = if spent.queue > 0.25 {
            format!(", receive queue {} full", percent(spent.queue))
        } else {
            String::new()
        };
        let evidence =
            format!("waited {} of the time for the reader of our output{queue}", percent(spent.output_wait));
        return Judgement::convict(spent.output_wait, evidence);
    }
    if context.facts.to_stdout {
        Judgement::acquit(format!(
            "the reader of our output was waited for {} of the time",
            percent(spent.output_wait)
        ))
    } else {
        Judgement::acquit("output goes to a file")
    }
}
