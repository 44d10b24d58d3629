//! Is the bottleneck link full?
//!
//! Convicts when the network holds the connection (see [`super::network::holds`]) and one of these holds:
//! 1. a queue stands on the path (round trip a quarter above its minimum): only a full link keeps one. Unless
//!    it loses and the rate is below 80 % of the ceiling, now and on average, with the round trip not even
//!    doubled: that is jitter;
//! 2. the sender models the path (BBR): by construction it stays at the rate that the path delivers and keeps
//!    the queue short (round trips of 1.05 to 1.15 were measured on a full link), and loss of a few per cent
//!    costs it little. Unless timeouts take a tenth of the time, or it loses and stays below half of what it
//!    reached;
//! 3. the rate is that of a link which a queue has shown: within 10 s one stood, and now the rate is 90 % of
//!    what came then. After a loss at a full queue CUBIC and Reno start again at about the link's rate, with
//!    the queue gone;
//! 4. it loses again and again, yet the rate is steady (see [`STEADY`]), no lower where it lost than
//!    elsewhere: a policer, or a link whose queue is very short, strikes at just one rate; random loss
//!    strikes at any, and slows.
//!
//! Acquits: the ends hold it, slow start, or a rate far from its ceiling. A flat rate between two losses is
//! no sign: Reno grows by a segment a round trip, which takes minutes on a long path.
//!
//! Cannot tell where the network holds it and its rate stays near the ceiling though nothing of the above
//! shows: CoDel (RFC 8289) drops what keeps a queue of 5 ms standing, a twentieth of a round trip of 100 ms.
//!
//! Can be wrong: what a shared link leaves to one connection looks like a link of that rate.

use super::flow::{Flow, by_flow};
use super::network::{self, Use, loss, moves_though_struck, shown_link, usage};
use crate::evidence::Interval;
use crate::rule::steadiness::STEADY;
use crate::rule::{Context, Judgement};
use crate::words::{percent, rate};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    by_flow(interval, context, judge_flow)
}

fn judge_flow(flow: &Flow<'_>) -> Judgement {
    if let Err(why) = network::holds(flow) {
        return Judgement::acquit(why);
    }
    let used = usage(flow);
    match full(flow, &used) {
        Ok((strength, evidence)) => Judgement::convict(strength, evidence),
        Err(_) if used.is_near_ceiling() => {
            Judgement::unknown("whether the link is full: a managed queue drops before it shows")
        }
        Err(numbers) => Judgement::acquit(numbers),
    }
}

/// With which strength the link is full and why; or the numbers of a link that is not. The premise is
/// [`network::holds`].
pub(crate) fn full(flow: &Flow<'_>, used: &Use) -> Result<(f64, String), String> {
    let lost = loss(flow);
    let flat = format!("{} on average of a best of {}", rate(used.mean), rate(used.ceiling));
    let losses = if lost.seen { format!(", {} retransmitted", percent(lost.share)) } else { String::new() };
    let unsent = flow.unsent_in_words();
    let numbers = format!("{flat}, {unsent}, {}{losses}", flow.round_trip_in_words());
    if flow.queue_stands() == Some(true) {
        let held_by_loss = lost.seen && used.share() < 0.8 && flow.rate() < 0.8 * used.ceiling;
        // Jitter does not double a round trip; what others leave of a full link may be far below its best.
        let held_by_loss = held_by_loss && flow.more_than_doubled() == Some(false);
        return if held_by_loss {
            Err(numbers)
        } else {
            Ok((0.9, format!("{}: a queue; {flat}, {unsent}{losses}", flow.round_trip_in_words())))
        };
    }
    if flow.ignores_loss() {
        let name = flow.seen.congestion_control.as_deref().unwrap_or("bbr");
        let sends = lost.timeouts < 0.1 && (used.share() >= 0.5 || !lost.seen);
        return if sends {
            Ok((0.85, format!("{name} sends at what the path delivers: {numbers}")))
        } else {
            Err(numbers)
        };
    }
    if let Some(link) = shown_link(flow, used.ceiling).filter(|link| used.mean.max(flow.rate()) >= 0.9 * link)
    {
        return Ok((0.85, format!("a queue stood while the link carried {}: {numbers}", rate(link))));
    }
    match moves_though_struck(flow) {
        Some(moves) if moves <= STEADY => {
            let text = format!("loss at just one rate, which moved by {}: {numbers}", percent(moves));
            Ok((0.8, text))
        }
        _ => Err(numbers),
    }
}
