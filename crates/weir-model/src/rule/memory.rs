//! Do the copies into the page cache wait for memory?
//!
//! A write that finds its pages there costs a processor 0.15 to 0.25 ns a byte. Where a host has taken a
//! guest's free memory back and lends it again page by page (balloons, free page reporting, overcommitted
//! hosts), or pages have to be reclaimed first, the same call costs 2 ns and more, all of it as the writer's
//! own system time: nothing sleeps, no disk is busy, and the thread looks like a full core
//! (docs/decisions/0005-writes-of-128-kib.md).
//!
//! Convicts when all of these hold:
//! 1. bytes were written to files, 1 MiB or more in the interval;
//! 2. the writers' system time is [`SLOW`] ns or more for each of them. Of our own lanes it is that of their
//!    write calls; of another's thread all of its system time, less as much for the bytes it received as a
//!    copy costs ([`COPY`]);
//! 3. receiving, where that is known, costs less than half as much: both are copies, and a slow processor
//!    slows both;
//! 4. that makes up half of the lanes' time or more.
//!
//! Acquits where bytes were written and cost less than half of that, or no more than twice what receiving
//! them did.
//!
//! Can be wrong: a file system that compresses, encrypts or checks sums in the write call (btrfs, eCryptfs)
//! spends as much, as does a thread whose system time is spent elsewhere; a slow processor comes near the
//! bound.

use std::time::Duration;

use super::spent::{active, working};
use super::{Context, Judgement};
use crate::evidence::{Clocks, Interval, LaneInterval};
use crate::words::percent;

/// Nanoseconds of a processor for a byte written, from which on its page was not there: five times what it
/// costs where it is, half of what it costs where a host has to lend it.
const SLOW: f64 = 1.1;

/// What a byte costs that is copied out of a socket, ns, with the kernel's own work for it.
const COPY: f64 = 0.4;

/// Less than this says nothing of a cost that is measured in ticks of 10 ms.
const ENOUGH: u64 = 1 << 20;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    if interval.written < ENOUGH {
        return Judgement::acquit("too little was written to a file");
    }
    let costs: Vec<(f64, f64)> =
        working(interval).filter_map(|lane| Some((cost(lane, context)?, active(lane, interval)))).collect();
    if costs.is_empty() {
        return Judgement::unknown("the writers' system time: it was not read");
    }
    let (spent, all) = costs.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let each = spent * 1e9 / interval.written as f64;
    let share = if all > 0.0 { (spent / all).min(1.0) } else { 0.0 };
    let says = format!(
        "each byte written took {each:.1} ns of a processor, {} of the writers' time",
        percent(share)
    );
    let received: f64 = working(interval).map(|lane| lane.receive_cpu.as_secs_f64()).sum();
    let copies = received * 1e9 / interval.received.max(1) as f64;
    if each >= SLOW && each >= 2.0 * copies && share >= 0.5 {
        Judgement::convict(
            share,
            format!("{says}: its page had to be found first (0.2 ns where it is there)"),
        )
    } else if each < SLOW / 2.0 || each < 2.0 * copies {
        Judgement::acquit(says)
    } else {
        Judgement::unknown(format!("whether pages were there: {says}"))
    }
}

/// Seconds of a processor that a lane's writes took.
fn cost(lane: &LaneInterval, context: &Context<'_>) -> Option<f64> {
    if context.facts.clocks == Clocks::Own {
        return Some(lane.write_cpu.as_secs_f64());
    }
    let system: Duration = lane.thread.value()?.system?;
    Some((system.as_secs_f64() - lane.received as f64 * COPY * 1e-9).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, Reading, ThreadInterval};

    const MIB: u64 = 1 << 20;

    fn own(write_cpu: u64, written: u64) -> Judgement {
        let lane = LaneInterval {
            received: written,
            write: Duration::from_millis(write_cpu),
            write_cpu: Duration::from_millis(write_cpu),
            ..LaneInterval::default()
        };
        let span = Duration::from_millis(100);
        let interval =
            Interval { span, received: written, written, lanes: vec![lane], ..Interval::default() };
        judge(&interval, &Context::alone(&Evidence::default()))
    }

    fn foreign(system: Option<u64>, written: u64) -> Judgement {
        let thread = ThreadInterval {
            cpu: Duration::from_millis(95),
            system: system.map(Duration::from_millis),
            ..ThreadInterval::default()
        };
        let lane =
            LaneInterval { received: written, thread: Reading::Value(thread), ..LaneInterval::default() };
        let span = Duration::from_millis(100);
        let interval =
            Interval { span, received: written, written, lanes: vec![lane], ..Interval::default() };
        let mut evidence = Evidence::default();
        evidence.facts.clocks = Clocks::Sampled;
        judge(&interval, &Context::alone(&evidence))
    }

    #[test]
    fn copies_into_lent_pages_are_told_from_quick_ones() {
        // 40 MiB in 90 ms of write calls, 2.1 ns a byte; 300 MiB in 60 ms, 0.19 ns.
        assert!(own(90, 40 * MIB).convicts());
        assert!(own(60, 300 * MIB).acquits());
        assert!(foreign(Some(90), 35 * MIB).convicts());
        assert!(foreign(Some(60), 150 * MIB).acquits());
    }

    #[test]
    fn what_was_not_read_or_hardly_written_convicts_nobody() {
        assert!(matches!(foreign(None, 35 * MIB), Judgement::Unknown { .. }));
        assert!(own(90, 0).acquits());
        // Dear, but a fifth of the time only.
        assert!(!own(15, 8 * MIB).convicts());
    }
}
