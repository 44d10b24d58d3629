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
//! Or when another thread of the program, a process that feeds the sender by a pipe or a local socket, was
//! found reading a file in half of the samples or more, while no connection owed or was owed anything, and
//! (2) holds; unless the sender sleeps by its own will, or sends only what it is asked for: then it waits for
//! the next question, whatever else reads.
//!
//! Cannot tell where it starves and slept, in a quarter of the looks or more, in a wait of which the purpose
//! is not known: io_uring and Linux AIO are for files and sockets alike, and the kernel's names change; nor
//! where another process may read, to which a local socket leads ([`relay::may_wait_locally`]).
//!
//! Acquits: a thread that hardly waits for a disk, or data that wait unsent however slow the disk is.
//!
//! Can be wrong: reads of another file (a log, a database) are not told apart, nor, of another thread, pages.

use super::application;
use super::flow::{Flow, by_flow};
use crate::evidence::{Interval, ThreadInterval};
use crate::rule::{Context, Judgement, relay};
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
        Ok(thread) if thread.looks > 0 => Ok(thread),
        Ok(_) => Err("where it sleeps was not read"),
        Err(why) => Err(*why),
    };
    let reading = thread.map_or(0.0, |thread| thread.share(thread.found.reading_disk));
    if let Some(judged) = read_beside(flow).filter(|_| reading < 0.25) {
        return judged;
    }
    let thread = match thread {
        Ok(thread) => thread,
        Err(why) => return Judgement::unknown(format!("the sender's thread: {why}")),
    };
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
    if reading < 0.25 && !flow.is_fed() && relay::may_wait_locally(flow.interval, flow.context) {
        return Judgement::unknown(format!("what is read for what comes by {}", relay::LOCAL));
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

/// Another thread of the watched program reads what this one is to send.
fn read_beside(flow: &Flow<'_>) -> Option<Judgement> {
    let around = &flow.interval.around;
    let share = around.share(around.rest.disk);
    let sleeps = flow.thread.as_ref().is_ok_and(|thread| thread.share(thread.found.sleeping) >= 0.5);
    if flow.is_peers || share < 0.5 || flow.is_fed() || sleeps || application::is_only_asked(flow) {
        return None;
    }
    let who = around.rest.who.as_deref().unwrap_or(flow.context.who());
    let evidence = format!(
        "{who} was found reading from disk in {} of samples, while no connection owed anything, {}",
        percent(share),
        flow.unsent_in_words()
    );
    Some(Judgement::convict(0.7 + 0.3 * share, evidence))
}

/// The share of looks that found a thread asleep in a wait whose purpose is not known, from a quarter on.
pub(crate) fn unnamed(thread: &ThreadInterval) -> Option<f64> {
    let found = thread.found;
    let unnamed = thread.share(found.elsewhere.saturating_add(found.awaiting_kernel));
    (unnamed >= 0.25).then_some(unnamed)
}

/// It was found waiting for pages in half of the looks: of what it sends, most likely.
pub(crate) fn awaits_pages(thread: &ThreadInterval) -> bool {
    thread.found.reads_pages() && thread.share(thread.found.reading_disk) >= 0.5
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::{Around, Rest};
    use crate::evidence::{Evidence, Found, LaneInterval, Reading};
    use crate::sender::SenderInterval;

    /// A connection that starves, whose thread five looks found so.
    fn judged(found: Found) -> Judgement {
        judged_beside(found, Around::default(), 0)
    }

    /// The same with what stood around it, of a connection whose peer asked so often.
    fn judged_beside(found: Found, around: Around, asked: u64) -> Judgement {
        judge(&interval(found, around, asked), &Context::alone(&Evidence::default()))
    }

    fn interval(found: Found, around: Around, asked: u64) -> Interval {
        let seen = SenderInterval { looks: 5, nothing_unsent: 5, asked, ..SenderInterval::default() };
        let thread = ThreadInterval { looks: 5, found, ..ThreadInterval::default() };
        let lane = LaneInterval {
            sender: Reading::Value(seen),
            thread: Reading::Value(thread),
            ..LaneInterval::default()
        };
        let span = std::time::Duration::from_millis(100);
        Interval { span, lanes: vec![lane], around, ..Interval::default() }
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

    /// Another process was found reading in so many of five samples.
    fn reads(disk: u32) -> Around {
        let rest = Rest { open: 5, disk, polling: 5 - disk, ..Rest::default() };
        let who = Some("rsync (pid 7)".to_owned());
        Around { samples: 5, rest: Rest { who, ..rest }, ..Around::default() }
    }

    #[test]
    fn a_process_that_reads_for_the_one_that_sends_is_named() {
        let polls = Found { polling: 5, ..Found::default() };
        let judged = |disk| judged_beside(polls, reads(disk), 0);
        let Judgement::Convict { strength, evidence } = judged(5) else { panic!("{:?}", judged(5)) };
        assert!(strength > 0.9 && evidence.starts_with("rsync (pid 7) was found"), "{strength} {evidence}");
        assert!(judged(2).acquits());
        let pages = Found { reading_disk: 5, paging_in: 5, ..Found::default() };
        let Judgement::Convict { strength, .. } = judged_beside(pages, reads(5), 0) else { panic!("pages") };
        assert!(strength < 0.61, "its own thread's pages: {strength}");
    }

    #[test]
    fn who_waits_for_a_question_or_sleeps_does_not_wait_for_what_others_read() {
        let polls = Found { polling: 5, ..Found::default() };
        let judged = judged_beside(polls, reads(5), 1);
        assert!(judged.acquits(), "the client's pause: {judged:?}");
        let mut intervals = vec![interval(polls, reads(5), 0); 50];
        intervals[0] = interval(polls, reads(5), 1);
        let evidence = Evidence { intervals, ..Evidence::default() };
        let judged = judge(&evidence.intervals[39], &Context::at(&evidence, 39));
        assert!(judged.acquits(), "a pause of seconds: {judged:?}");
        let judged = judged_beside(Found { sleeping: 5, ..Found::default() }, reads(5), 0);
        assert!(judged.acquits(), "its own will: {judged:?}");
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
