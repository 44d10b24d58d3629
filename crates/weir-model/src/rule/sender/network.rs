//! Is it the network, rather than an end, that holds a sender back? The premise that [`super::path_bandwidth`] and
//! [`super::path_loss`] share, and what they weigh against each other.

use super::flow::Flow;
use super::{latency, reader};
use crate::sender::SenderWindow;
use crate::words::percent;

/// Whether the network holds this connection; if not, why.
///
/// 1. Data wait to be sent or the congestion window is filled; or a queue stands on the path, which a filled peer's window
///    or send buffer then merely feeds;
/// 2. the peer's window does not stop it short of a queue, nor does a reader that takes it away;
/// 3. it is past slow start.
pub(crate) fn holds(flow: &Flow<'_>) -> Result<(), String> {
    let queue = flow.queue_stands() == Some(true);
    let fed = queue && (flow.window_pinned() || flow.buffer_holds());
    if !flow.data_wait() && !flow.cwnd_pinned() && !fed {
        return Err(format!(
            "{} and the congestion window filled in {}",
            flow.unsent_in_words(),
            percent(flow.share(flow.seen.cwnd_filled))
        ));
    }
    let by_window = flow.share(flow.seen.window_filled).max(flow.part(flow.seen.receive_window_limited));
    if by_window >= 0.5 && reader::shrinks(flow) {
        return Err(format!("the peer's reader holds its window shut, {} of the time", percent(by_window)));
    }
    if flow.window_pinned() && !queue {
        return Err(format!(
            "in flight fills the peer's window in {} of looks",
            percent(flow.share(flow.seen.window_filled))
        ));
    }
    if let Some(growth) = latency::slow_start(flow) {
        return Err(growth);
    }
    Ok(())
}

/// What a connection lost over the last round trips, those to come included where they are known.
pub(crate) struct Loss {
    /// Retransmitted bytes as a share of those sent, without what the peer reported as not needed.
    pub(crate) share: f64,
    /// It lost something, or was in recovery.
    pub(crate) seen: bool,
}

pub(crate) fn loss(flow: &Flow<'_>) -> Loss {
    let mut sum = SenderWindow::default();
    flow.around(flow.horizon()).for_each(|(seen, _)| sum.join(seen));
    let spurious = sum.duplicates.saturating_mul(flow.segment());
    let lost = sum.retransmitted.saturating_sub(spurious);
    let share = if sum.sent > 0 { (lost as f64 / sum.sent as f64).min(1.0) } else { 0.0 };
    Loss { share, seen: lost > 0 || !sum.timeout.is_zero() }
}

/// How evenly a connection runs against its ceiling.
pub(crate) struct Use {
    /// Mean of the acknowledged bytes per second while data waited.
    pub(crate) mean: f64,
    /// The rate that a tenth of the windows reach: one sample above the rest is an accident of acknowledgements.
    pub(crate) ceiling: f64,
    /// Seconds that this covers.
    pub(crate) seconds: f64,
}

impl Use {
    /// The mean as a share of the ceiling.
    pub(crate) fn share(&self) -> f64 {
        if self.ceiling > 0.0 { (self.mean / self.ceiling).min(1.0) } else { 0.0 }
    }
}

/// A link is a ceiling that is reached again and again, so the mean stays near the best; random loss strikes at any
/// window size, so the best is far above the mean. The ceiling is looked for over 10 s each way, slow start included:
/// it goes up to the link's rate where there is nothing to stop it.
pub(crate) fn usage(flow: &Flow<'_>) -> Use {
    let (mut acked, mut seconds) = (0.0, 0.0);
    for (seen, span) in flow.around(flow.horizon()).filter(|(seen, _)| loaded(seen)) {
        acked += seen.acked as f64;
        seconds += span;
    }
    let rates = flow.around(10.0).filter(|(seen, _)| loaded(seen)).filter_map(|(seen, _)| seen.delivery_rate);
    let mut rates: Vec<f64> = rates.filter(|rate| rate.is_finite() && *rate > 0.0).collect();
    rates.sort_by(f64::total_cmp);
    let ceiling = rates.len().checked_sub(1).map_or(0.0, |last| rates[last - last / 10]);
    let mean = if seconds > 0.0 { acked / seconds } else { 0.0 };
    Use { mean, ceiling, seconds }
}

/// Whether a window had data to send: a pause says nothing of the path.
fn loaded(seen: &SenderWindow) -> bool {
    let half = seen.looks.div_ceil(2);
    seen.looks > 0 && (seen.nothing_unsent <= half || seen.cwnd_filled >= half || seen.window_filled >= half)
}
