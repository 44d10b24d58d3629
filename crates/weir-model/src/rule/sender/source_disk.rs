//! Does the sender wait for the file that it reads?
//!
//! Convicts when all of these hold:
//! 1. its thread was found blocked in a read from disk in a quarter of the looks or more, and more often than
//!    in a write to a socket;
//! 2. the socket starves meanwhile: nothing unsent in half of the looks or more, and the send buffer does not
//!    hold it.
//!
//! Where pages were read rather than a file by a call, it convicts with three fifths at most: they may be of
//! its own memory.
//!
//! Cannot tell where it starves and slept, in a quarter of the looks or more, in a wait of which the purpose
//! is not known: io_uring and Linux AIO are for files and sockets alike, and the kernel's names change.
//!
//! Acquits: a thread that hardly waits for a disk, or data that wait unsent however slow the disk is.
//!
//! Can be wrong: reads of another file by the same thread (a log, a database) are not told apart.

use super::flow::{Flow, by_flow};
use crate::evidence::{Interval, ThreadInterval};
use crate::rule::{Context, Judgement};
use crate::words::percent;

/// What pages are read for.
const PAGING: &str = "waiting for pages to be read (a mapped file, or memory that was swapped or taken back)";

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
    let reading = thread.share(thread.found.reading_disk);
    let pages = thread.found.reads_pages();
    let numbers = format!(
        "{} was found {} in {} of samples",
        thread.name.as_deref().unwrap_or("the sender's thread"),
        if pages { PAGING } else { "reading from disk" },
        percent(reading)
    );
    if let Some(unnamed) = unnamed(thread).filter(|_| reading < 0.25 && !flow.is_fed()) {
        return Judgement::unknown(format!(
            "whether it waits for a file: in {} of samples it slept where no name is known",
            percent(unnamed)
        ));
    }
    if reading < 0.25 || thread.found.sending > thread.found.reading_disk {
        return Judgement::acquit(numbers);
    }
    if flow.is_fed() {
        return Judgement::acquit(format!("{numbers}, but {}", flow.unsent_in_words()));
    }
    let strength = if pages { 0.6 } else { 0.7 + 0.3 * reading };
    Judgement::convict(strength, format!("{numbers}, {}", flow.unsent_in_words()))
}

/// The share of looks that found a thread asleep in a wait whose purpose is not known, from a quarter on.
pub(crate) fn unnamed(thread: &ThreadInterval) -> Option<f64> {
    let found = thread.found;
    let unnamed = thread.share(found.elsewhere.saturating_add(found.awaiting_kernel));
    (unnamed >= 0.25).then_some(unnamed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, Found, LaneInterval, Reading};
    use crate::sender::SenderInterval;

    /// A connection that starves, whose thread five looks found so.
    fn judged(found: Found) -> Judgement {
        let seen = SenderInterval { looks: 5, nothing_unsent: 5, ..SenderInterval::default() };
        let thread = ThreadInterval { looks: 5, found, ..ThreadInterval::default() };
        let lane = LaneInterval {
            sender: Reading::Value(seen),
            thread: Reading::Value(thread),
            ..LaneInterval::default()
        };
        let span = std::time::Duration::from_millis(100);
        let interval = Interval { span, lanes: vec![lane], ..Interval::default() };
        judge(&interval, &Context::alone(&Evidence::default()))
    }

    #[test]
    fn a_wait_without_a_known_purpose_rules_no_file_out() {
        let unnamed = Found { elsewhere: 2, receiving: 3, ..Found::default() };
        let handed = Found { polling: 5, awaiting_kernel: 5, ..Found::default() };
        for found in [unnamed, handed] {
            let judged = judged(found);
            assert!(matches!(judged, Judgement::Unknown { .. }), "{judged:?}");
        }
        assert!(judged(Found { polling: 5, ..Found::default() }).acquits());
        assert!(judged(Found { elsewhere: 1, sleeping: 4, ..Found::default() }).acquits());
    }

    #[test]
    fn pages_are_less_sure_to_be_of_a_file() {
        let of = |paging_in| match judged(Found { reading_disk: 5, paging_in, ..Found::default() }) {
            Judgement::Convict { strength, evidence } => (strength, evidence),
            other => panic!("{other:?}"),
        };
        let (strength, words) = of(5);
        assert!(strength < 0.61 && words.contains("waiting for pages to be read"), "{strength} {words}");
        let (strength, words) = of(0);
        assert!(strength > 0.9 && words.contains("reading from disk"), "{strength} {words}");
    }
}
