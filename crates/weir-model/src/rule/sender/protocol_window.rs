//! Is a window of the protocol above TCP (HTTP/2, SSH, credits of an application) smaller than the
//! bandwidth-delay product?
//!
//! Convicts when all of these hold:
//! 1. the peer answers in small segments, four at least over a second and a half each way, which release the
//!    next part each. By their sizes they are WINDOW_UPDATE or window adjust (see [`crate::rule::turns`]); or
//!    they come more often than once a round trip, as the credits of an application do, or its questions that
//!    overlap: those have a number on their way that is a window as well;
//! 2. the socket takes more, over two round trips each way: nothing unsent in 70 % of samples or no more than
//!    a tenth of what is in flight (Nagle's or pacing's rest; of a sender that paces, half of it, with
//!    application-limited samples), in flight well below the congestion window and the peer's window, and the
//!    send buffer holds nobody;
//! 3. in flight stands at a constant: in two thirds of the intervals of that time it is within a quarter of
//!    its median;
//! 4. the round trip is 2 ms or more, and less than a thousandth was lost of late: else in flight is whatever
//!    scheduling or recovery leaves; and no queue stands on the path: a window that fills one is large
//!    enough;
//! 5. the sender's thread is not found asleep by its own will, reading a file or waiting for a pipe: it waits
//!    for credit, or spins, however full its core then is.
//!
//! Acquits: any of these refuted; but over a shorter path than (4) says, it cannot tell of a peer whose
//! answers have the sizes of credits.
//!
//! Can be wrong: a program that writes at a constant rate of its own to a peer that confirms each piece looks
//! the same, but for its thread.

use weir_units::stats::high;

use super::flow::{Flow, by_flow};
use super::network::loss;
use crate::evidence::{Clocks, Interval, ThreadInterval};
use crate::rule::end::End;
use crate::rule::turns::Turns;
use crate::rule::{Context, Judgement};
use crate::sender::SenderInterval;
use crate::words::{bytes, percent, seconds};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    by_flow(interval, context, |flow| match holds(flow) {
        Ok(text) => Judgement::convict(0.9, text),
        Err(_) if takes_credits_nearby(flow) => {
            Judgement::unknown("what the peer's credits (HTTP/2, SSH) hold: the round trip is below 2 ms")
        }
        Err(why) => Judgement::acquit(why),
    })
}

/// Below this scheduling decides when a credit comes, seconds.
const SHORTEST: f64 = 2e-3;

/// The peer gives credits over a path so short that what they hold does not show.
fn takes_credits_nearby(flow: &Flow<'_>) -> bool {
    let sends = flow.context.facts.clocks != Clocks::Own && End::of(flow.lane) == End::Sends;
    sends && flow.min_rtt().is_some_and(|rtt| rtt < SHORTEST && flow.takes_credits(rtt))
}

/// The numbers of a window above TCP that holds this connection; or why there is none.
pub(crate) fn holds(flow: &Flow<'_>) -> Result<String, String> {
    let none = || "the peer sends no credits".to_owned();
    if flow.context.facts.clocks == Clocks::Own || End::of(flow.lane) != End::Sends {
        return Err(none());
    }
    let rtt = flow.min_rtt().filter(|rtt| *rtt >= SHORTEST).ok_or_else(none)?;
    let credits = Turns::of(flow.lane, flow.interval, flow.context, rtt).ok_or_else(none)?;
    // Of what are questions by their size two may belong to one turn.
    let overlap = credits.share() > if credits.are_questions() { 2.2 } else { 1.1 };
    if credits.count < 4 || !(credits.are_waited_for() || overlap) {
        return Err(none());
    }
    let near = (2.0 * rtt).max(0.3);
    let mut seen = SenderInterval::default();
    flow.around(near).for_each(|(next, _)| seen.join(next));
    let share = |looks: u32| f64::from(looks) / f64::from(seen.looks.max(1));
    let (stands_at, stands) = level(flow.around(near).map(|(seen, _)| seen.in_flight).collect());
    let numbers = format!(
        "in flight stands at {}, {} small answers of the peer release it, nothing unsent in {} of samples",
        bytes(stands_at as f64),
        credits.count,
        percent(share(seen.nothing_unsent))
    );
    let room = seen.cwnd.saturating_sub(stands_at) >= 2 * flow.segment()
        && share(seen.cwnd_filled) < 0.3
        && share(seen.window_filled) < 0.3
        && share(seen.buffer_filled) < 0.5;
    // Of what BBR was given a part waits for the next tick of its pacing; the kernel's mark then says that it
    // was all.
    let paced = flow.ignores_loss()
        && share(seen.app_limited) >= 0.7
        && seen.unsent.saturating_mul(2) <= seen.in_flight;
    let takes_more =
        share(seen.nothing_unsent) >= 0.7 || seen.unsent.saturating_mul(10) <= seen.in_flight || paced;
    let (lost, queued) = (loss(flow), flow.queue_stands() == Some(true));
    if !takes_more || !room || !stands || lost.share > 1e-3 || lost.timeouts > 0.0 || queued {
        return Err(numbers);
    }
    if flow.thread.as_ref().is_ok_and(is_elsewhere) {
        return Err(format!("{numbers}, but its thread waits for something else"));
    }
    Ok(format!(
        "{numbers}, with room for {} more in the congestion window; round trip {}",
        bytes(seen.cwnd.saturating_sub(seen.in_flight) as f64),
        seconds(rtt)
    ))
}

/// The median of these, and whether two thirds are within a quarter of it.
fn level(mut values: Vec<u64>) -> (u64, bool) {
    values.sort_unstable();
    let Some(median) = high(&values, 1, 2) else { return (0, false) };
    let near = values.iter().filter(|value| value.abs_diff(median).saturating_mul(4) <= median).count();
    (median, median > 0 && 3 * near >= 2 * values.len())
}

/// Its thread sleeps, reads a file or waits for a pipe in 30 % of samples or more.
pub(crate) fn is_elsewhere(thread: &ThreadInterval) -> bool {
    let found = thread.found;
    let looks = found.sleeping.saturating_add(found.reading_disk).saturating_add(found.pipe_empty);
    thread.looks > 0 && f64::from(looks) >= 0.3 * f64::from(thread.looks)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{Evidence, Facts, LaneInterval, Reading};
    use crate::waits::Waits;

    /// A connection over 50 µs whose peer answers in one segment of so many bytes an interval.
    fn judged(asked: u64) -> Judgement {
        let short = Some(Duration::from_micros(50));
        let seen = SenderInterval {
            acked: 32_768,
            sent: 32_768,
            looks: 5,
            nothing_unsent: 5,
            rtt: short,
            min_rtt: short,
            ..SenderInterval::default()
        };
        let waits = Waits { looks: 5, sent: 32_768, came: asked, came_segments: 1, ..Waits::default() };
        let lane = LaneInterval {
            received: 32_768,
            sender: Reading::Value(seen),
            waits: Reading::Value(waits),
            ..LaneInterval::default()
        };
        let span = Duration::from_millis(100);
        let interval = Interval { span, received: 32_768, lanes: vec![lane], ..Interval::default() };
        let facts = Facts { clocks: Clocks::Sampled, ..Facts::default() };
        let evidence = Evidence { intervals: vec![interval; 20], facts, ..Evidence::default() };
        judge(&evidence.intervals[10], &Context::at(&evidence, 10))
    }

    #[test]
    fn over_a_short_path_credits_are_not_ruled_out() {
        let Judgement::Unknown { missing } = judged(36) else { panic!("an SSH's window adjusts") };
        assert!(missing.contains("below 2 ms"), "{missing}");
        assert!(judged(200).acquits(), "questions");
    }
}
