//! Do segments of full size never reach us: a link with a smaller MTU, and nothing that tells the sender?
//!
//! Convicts when all of these hold:
//! 1. data lie beyond a hole that is not filled, in half of the looks over two seconds each way: the last, smaller segment of an
//!    answer arrived and those before it do not;
//! 2. nothing came in order in that time, over a second at least: a loss is mended within two timers of 0.2 s, mostly;
//! 3. no segment that came before was a full one: 60 % of 1,448 bytes on average, or nothing came.
//!
//! Acquits: no hole, or one that is filled. Without a small segment at the end of an answer nothing arrives at all, which
//! looks like a server that is silent: see [`super::application`].
//!
//! Can be wrong: a path that lost the same segment four times.

use super::turns::{End, at_end};
use super::{Context, Judgement};
use crate::evidence::Window;
use crate::path::SEGMENT;
use crate::waits;
use crate::words::{bytes, percent, seconds};

/// Seconds looked at on each side.
const AROUND: f64 = 2.0;

/// The judgement of one window.
pub fn judge(window: &Window, context: &Context<'_>) -> Judgement {
    let mut innocent = "no data lay beyond a hole".to_owned();
    for (lane, _, _) in at_end(window, End::Receives) {
        let Some((waits, time)) = waits::around(lane, window, context, AROUND) else { continue };
        let share = waits.share(waits.hole);
        if share > 0.0 {
            innocent = format!("data lay beyond a hole in {} of looks, and it was filled", percent(share));
        }
        if share < 0.5 || time < 1.0 || waits.came > 0 {
            continue;
        }
        let before = context.before.iter().filter_map(|window| waits::of(lane.lane, window)?.waits.value());
        let (bytes_before, segments) = before.fold((0_u64, 0_u64), |(bytes, segments), waits| {
            (bytes.saturating_add(waits.came), segments.saturating_add(waits.came_segments))
        });
        let size = bytes_before / segments.max(1);
        let numbers = format!("data lay beyond a hole in {} of looks over {}", percent(share), seconds(time));
        if size.saturating_mul(5) < 3 * SEGMENT {
            return Judgement::convict(
                0.8,
                format!("{numbers} and nothing came in order; segments of {} had passed", bytes(size as f64)),
            );
        }
    }
    Judgement::acquit(innocent)
}
