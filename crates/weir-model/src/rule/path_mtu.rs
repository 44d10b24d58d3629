//! Do segments of full size never reach us: a link with a smaller MTU, and nothing that tells the sender?
//!
//! Convicts when all of these hold:
//! 1. data lie beyond a hole that is not filled, in half of the looks: the last, smaller segment of an
//!    answer arrived and those before it do not;
//! 2. nothing came in order in that time, over a second at least: a loss is mended within two timers of 0.2
//!    s, mostly;
//! 3. no segment that came before was a full one: 60 % of the connection's largest on average (of 1,448 bytes
//!    where that is not known, and at most), or nothing came.
//!
//! Acquits: no hole, or one that is filled.
//!
//! Cannot tell where an answer began with small segments and nothing came after them, a second or more, to
//! the connection's end: without a small segment behind the large ones no hole shows, which looks like a
//! server that is silent.
//!
//! Can be wrong: a path that lost the same segment four times.

use super::end::End;
use super::turns::at_end;
use super::{Context, Judgement};
use crate::evidence::{Clocks, Interval};
use crate::path::SEGMENT;
use crate::rule::waits;
use crate::waits::Waits;
use crate::words::{bytes, percent, seconds};
use weir_units::counted;

/// Seconds looked at on each side.
const AROUND: f64 = 5.0;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let mut innocent = "no data lay beyond a hole".to_owned();
    for (lane, waits, _) in at_end(interval, End::Receives) {
        if waits.hole > 0 {
            let share = percent(waits.share(waits.hole));
            innocent = format!("data lay beyond a hole in {share} of samples, and it was filled");
        }
        let Some(time) = open_for(lane.lane, waits, interval, context) else { continue };
        let before =
            context.before.iter().filter_map(|interval| waits::of(lane.lane, interval)?.waits.value());
        let (came, segments) = before.fold((0_u64, 0_u64), |(came, segments), waits| {
            (came.saturating_add(waits.came), segments.saturating_add(waits.came_segments))
        });
        let size = came / segments.max(1);
        if time >= 1.0 && is_small(size, waits) {
            return Judgement::convict(
                0.8,
                format!(
                    "data lay beyond a hole for {} and nothing came in order; segments of {} had passed",
                    seconds(time),
                    bytes(size as f64)
                ),
            );
        }
    }
    match broke_off(interval, context) {
        Some(why) => Judgement::unknown(why),
        None => Judgement::acquit(innocent),
    }
}

/// An answer began with small segments, and then nothing came to the end of what is known.
fn broke_off(interval: &Interval, context: &Context<'_>) -> Option<String> {
    if context.facts.clocks == Clocks::Own {
        return None;
    }
    at_end(interval, End::Receives).find_map(|(lane, waits, _)| {
        let mut silent = interval.span.as_secs_f64();
        if waits.came > 0 || interval.received > 0 {
            return None;
        }
        for later in context.after {
            match known(lane.lane, later) {
                Some(waits) if waits.came > 1 => return None,
                Some(_) => silent += later.span.as_secs_f64(),
                None => {}
            }
        }
        let (mut came, mut segments) = (0_u64, 0_u64);
        for earlier in context.before.iter().rev() {
            let Some(waits) = known(lane.lane, earlier) else { continue };
            silent += if came == 0 && waits.came == 0 { earlier.span.as_secs_f64() } else { 0.0 };
            came = came.saturating_add(waits.came);
            segments = segments.saturating_add(waits.came_segments);
        }
        let small = segments > 0 && is_small(came / segments, waits);
        (silent >= 1.0 && small).then(|| {
            format!(
                "whether the rest of an answer is lost on the way or its server is silent: after {} in {} nothing came for {} \
                 (full segments that never pass look so from here; the sender's end would show retransmissions)",
                bytes(came as f64),
                counted(segments, "small segment"),
                seconds(silent)
            )
        })
    })
}

/// No segment of full size: over a tunnel all may be smaller than an Ethernet's.
fn is_small(size: u64, waits: &Waits) -> bool {
    let full = if waits.segment.1 > 0 { waits.segment.1.min(SEGMENT) } else { SEGMENT };
    size.saturating_mul(5) < full.saturating_mul(3)
}

fn known(lane: u32, interval: &Interval) -> Option<&Waits> {
    waits::of(lane, interval)?.waits.value()
}

/// Seconds around the interval in which a hole stood open and nothing came; `None` where it does not in this
/// interval.
fn open_for(lane: u32, here: &Waits, interval: &Interval, context: &Context<'_>) -> Option<f64> {
    let open = |waits: &Waits| waits.hole >= waits.looks.div_ceil(2) && waits.looks > 0 && waits.came == 0;
    let stands =
        |other: &&Interval| waits::of(lane, other).and_then(|lane| lane.waits.value()).is_some_and(open);
    if !open(here) {
        return None;
    }
    let around =
        context.recent(AROUND).take_while(stands).chain(context.following(AROUND).take_while(stands));
    Some(around.map(|interval| interval.span.as_secs_f64()).sum::<f64>() + interval.span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_small_against_those_of_their_own_connection() {
        let of = |segment| Waits { segment: (segment, segment), ..Waits::default() };
        assert!(is_small(800, &of(1448)) && is_small(800, &of(0)), "not known: those of an Ethernet");
        assert!(!is_small(800, &of(848)), "a tunnel's full ones");
        assert!(!is_small(1448, &of(65_483)), "loopback sends what it likes");
    }
}
