//! Is the bottleneck link full?
//!
//! Convicts when the network holds the connection (see [`super::network::holds`]) and one of these holds:
//! 1. a queue stands on the path (round trip a quarter above its minimum): only a full link keeps one. Unless loss holds
//!    the mean rate below 60 % of the ceiling, when the round trip is jitter;
//! 2. the sender models the path (BBR): by construction it stays at the rate that the path delivers and keeps the queue
//!    short (round trips of 1.05 to 1.15 were measured on a full link). With loss, only if the mean rate is 85 % of the
//!    ceiling or more: BBR fills a link of 1 % loss, but not one of any loss;
//! 3. the rate is flat: over a second or more the mean is 85 % of the ceiling. A link whose queue is short, or a policer,
//!    shows as loss at just one rate; random loss strikes at any.
//!
//! Acquits: the ends hold it, slow start, or a rate far from its ceiling.
//!
//! Can be wrong: a loss-driven sender between two losses that are many seconds apart climbs slowly enough to look flat
//! (3); what a shared link leaves to one connection looks like a link of that rate.

use super::flow::{Flow, by_flow};
use super::network::{self, loss, usage};
use crate::evidence::Window;
use crate::rule::{Context, Judgement};
use crate::words::{percent, rate};

/// The judgement of one window.
pub fn judge(window: &Window, context: &Context<'_>) -> Judgement {
    by_flow(window, context, judge_flow)
}

fn judge_flow(flow: &Flow<'_>) -> Judgement {
    if let Err(why) = network::holds(flow) {
        return Judgement::acquit(why);
    }
    match full(flow) {
        Ok((strength, evidence)) => Judgement::convict(strength, evidence),
        Err(numbers) => Judgement::acquit(numbers),
    }
}

/// A mean rate of this share of the ceiling is a link in use: sawtooths of CUBIC between 70 and 100 % have it.
const USED: f64 = 0.85;

/// With which strength the link is full and why; or the numbers of a link that is not. The premise is
/// [`network::holds`].
pub(crate) fn full(flow: &Flow<'_>) -> Result<(f64, String), String> {
    let (lost, used) = (loss(flow), usage(flow));
    let flat = format!("{} on average of a best of {}", rate(used.mean), rate(used.ceiling));
    let losses = if lost.seen { format!(", {} retransmitted", percent(lost.share)) } else { String::new() };
    let unsent = flow.unsent_in_words();
    if flow.queue_stands() == Some(true) {
        let numbers = format!("{}: a queue; {flat}, {unsent}{losses}", flow.round_trip_in_words());
        return if lost.seen && used.share() < 0.6 && !flow.window_pinned() {
            Err(numbers)
        } else {
            Ok((0.9, numbers))
        };
    }
    let numbers = format!("{flat}, {unsent}, {}{losses}", flow.round_trip_in_words());
    if flow.ignores_loss() && (used.share() >= USED || !lost.seen) {
        let name = flow.seen.congestion_control.as_deref().unwrap_or("bbr");
        return Ok((0.85, format!("{name} sends at what the path delivers: {numbers}")));
    }
    if used.share() >= USED && used.seconds >= 1.0 {
        return Ok((0.75, format!("the rate is flat: {numbers}")));
    }
    Err(numbers)
}
