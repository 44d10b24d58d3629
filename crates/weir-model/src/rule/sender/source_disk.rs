//! Does the sender wait for the file that it reads?
//!
//! Convicts when all of these hold:
//! 1. its thread was found blocked in a read from disk in a quarter of the looks or more, and more often than
//!    in a write to a socket;
//! 2. the socket starves meanwhile: nothing unsent in half of the looks or more, and the send buffer does not
//!    hold it.
//!
//! Acquits: a thread that hardly waits for a disk, or data that wait unsent however slow the disk is.
//!
//! Can be wrong: reads of another file by the same thread (a log, a database) are not told apart.

use super::flow::{Flow, by_flow};
use crate::evidence::Interval;
use crate::rule::{Context, Judgement};
use crate::words::percent;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    // A copy's own clocks say it without looks.
    if let Some(judged) = crate::rule::stage::source_disk(interval, context) {
        return judged;
    }
    by_flow(interval, context, judge_flow)
}

fn judge_flow(flow: &Flow<'_>) -> Judgement {
    let thread = match &flow.thread {
        Ok(thread) if thread.looks > 0 => thread,
        Ok(_) => return Judgement::unknown("the sender's thread: where it sleeps was not read"),
        Err(why) => return Judgement::unknown(format!("the sender's thread: {why}")),
    };
    let share = |looks: u32| (f64::from(looks) / f64::from(thread.looks)).min(1.0);
    let reading = share(thread.found.reading_disk);
    let numbers = format!(
        "{} was found reading from disk in {} of samples",
        thread.name.as_deref().unwrap_or("the sender's thread"),
        percent(reading)
    );
    if reading < 0.25 || thread.found.sending > thread.found.reading_disk {
        return Judgement::acquit(numbers);
    }
    if flow.data_wait() || (flow.buffer_holds() && !flow.writer_is_elsewhere()) {
        return Judgement::acquit(format!("{numbers}, but {}", flow.unsent_in_words()));
    }
    Judgement::convict(0.7 + 0.3 * reading, format!("{numbers}, {}", flow.unsent_in_words()))
}
