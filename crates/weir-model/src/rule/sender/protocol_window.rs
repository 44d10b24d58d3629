//! Is a window of the protocol above TCP (HTTP/2, SSH, credits of an application) smaller than the bandwidth-delay product?
//!
//! Convicts when all of these hold over a second and a half each way:
//! 1. the peer answers in small segments (below 66 bytes of payload each), four at least, and more often than once a round
//!    trip: WINDOW_UPDATE, window adjust, which release the next part each;
//! 2. the socket takes more: nothing unsent in 70 % of looks, in flight well below the congestion window and the peer's
//!    window, and the send buffer holds nobody;
//! 3. in flight stands at a constant: on average it is three quarters of the most that was seen or more;
//! 4. the round trip is 2 ms or more, and nothing of late was lost: else in flight is whatever scheduling or recovery leaves;
//! 5. the sender's thread is not found asleep by its own will, reading a file or waiting for a pipe: it waits for credit, or
//!    spins, however full its core then is.
//!
//! Acquits: any of these refuted.
//!
//! Can be wrong: a program that writes at a constant rate of its own to a peer that confirms each piece looks the same, but for
//! its thread.

use super::flow::{Flow, by_flow};
use super::network::loss;
use crate::evidence::{Clocks, ThreadWindow, Window};
use crate::rule::turns::{End, Turns};
use crate::rule::{Context, Judgement};
use crate::sender::SenderWindow;
use crate::words::{bytes, percent, seconds};

/// The judgement of one window.
pub fn judge(window: &Window, context: &Context<'_>) -> Judgement {
    by_flow(window, context, |flow| match holds(flow) {
        Ok(text) => Judgement::convict(0.9, text),
        Err(why) => Judgement::acquit(why),
    })
}

/// The numbers of a window above TCP that holds this connection; or why there is none.
pub(crate) fn holds(flow: &Flow<'_>) -> Result<String, String> {
    let none = || "the peer sends no credits".to_owned();
    if flow.context.facts.clocks == Clocks::Own || End::of(flow.lane) != End::Sends {
        return Err(none());
    }
    let rtt = flow.min_rtt().filter(|rtt| *rtt >= 2e-3).ok_or_else(none)?;
    let credits = Turns::of(flow.lane, flow.window, flow.context, rtt).ok_or_else(none)?;
    if credits.are_questions() || credits.count < 4 || credits.share() <= 1.1 {
        return Err(none());
    }
    let mut seen = SenderWindow::default();
    flow.around(1.5).for_each(|(next, _)| seen.join(next));
    let share = |looks: u32| f64::from(looks) / f64::from(seen.looks.max(1));
    let most = credits.waits.in_flight_most;
    let numbers = format!(
        "in flight stands at {} of at most {}, {} small answers of the peer release it, nothing unsent in {} of looks",
        bytes(seen.in_flight as f64),
        bytes(most as f64),
        credits.count,
        percent(share(seen.nothing_unsent))
    );
    let room = seen.cwnd.saturating_sub(most) >= 2 * flow.segment()
        && share(seen.cwnd_filled) < 0.3
        && share(seen.window_filled) < 0.3
        && share(seen.buffer_filled) < 0.5;
    let steady = most > 0 && seen.in_flight as f64 >= 0.75 * most as f64;
    if share(seen.nothing_unsent) < 0.7 || !room || !steady || loss(flow).seen {
        return Err(numbers);
    }
    if flow.thread.as_ref().is_ok_and(elsewhere) {
        return Err(format!("{numbers}, but its thread waits for something else"));
    }
    Ok(format!(
        "{numbers}, with room for {} more in the congestion window; round trip {}",
        bytes(seen.cwnd.saturating_sub(seen.in_flight) as f64),
        seconds(rtt)
    ))
}

/// Its thread sleeps, reads a file or waits for a pipe in 30 % of looks or more.
fn elsewhere(thread: &ThreadWindow) -> bool {
    let found = thread.found;
    let looks = found.sleeping.saturating_add(found.reading_disk).saturating_add(found.pipe_empty);
    thread.looks > 0 && f64::from(looks) >= 0.3 * f64::from(thread.looks)
}
