//! Does the watched program itself take the time, while no socket owes it anything or is owed anything?
//!
//! At such a sample nothing was under way, unread or unsent on any connection, none waited for an answer, no
//! attempt to connect and no resolver was out. Convicts when one of these holds in half of the samples or
//! more:
//! 1. the program was found asleep by its own will or in wait for a child or a terminal; or, without another
//!    socket that is not judged, running, in wait for a pipe, a file to be read or the lock of a file, or
//!    with all its threads in wait for one another: it waited for no peer, whether a connection was open or
//!    not;
//! 2. the same, or it waited for a timer, and no connection was open, no other socket that an answer could
//!    come from, and none at which it listens. Less sure: what a poll waits for does not show.
//!
//! Samples of the intervals beside count as well, where three of ten or more of this one are such: a round of
//! work and waiting may take about as long as an interval.
//!
//! Acquits: connections were busy; the program is the one that sends the data (then `application` says what
//! held it back); it waits to try again after a refused attempt to connect (`connect`); or data came for
//! which nothing was asked within half a second: one answer is under way, and whoever sleeps between two
//! reads of it is its `reader`, even where looks keep step with the reads and find nothing unread.
//!
//! Cannot tell where a program was found running, or waiting for itself, beside a socket of UDP or of this
//! machine alone (a transfer over QUIC looks so), or beside a client's connection of which the last word
//! cannot be told (an answer may be owed); nor where it waited in a poll while its connections rested: for a
//! timer, or for a peer that speaks first.
//!
//! Can be wrong: a connection between two bytes of a slow peer looks at rest; a program that in that moment
//! runs or sleeps, rather than waits in a read, is then blamed for the peer's pause.

use super::around::share_near;
use super::{Context, Judgement, View, connect};
use crate::around::Rest;
use crate::evidence::{Interval, LaneInterval};
use crate::path::SEGMENT;
use crate::rule::waits;
use crate::words::percent;

/// Samples of a kind.
type Samples = fn(&Rest) -> u32;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let around = &interval.around;
    let rest = &around.rest;
    let at_rest = around.share(rest.samples());
    let numbers = format!("no socket owed anything in {} of samples", percent(at_rest));
    let sends = interval.lanes.iter().any(|lane| lane.sender.value().is_some());
    if rest.open > 0 && sends && View::of(interval, context).sender_only() {
        return Judgement::acquit(format!("{numbers}, but the data are this side's to send"));
    }
    if connect::refused(interval, context).is_some() {
        return Judgement::acquit(format!("{numbers}, after a refused attempt to connect"));
    }
    let share_of = |of: Samples| {
        let here = around.share(of(rest));
        if here < 0.3 { here } else { here.max(share_near(interval, context, |around| of(&around.rest))) }
    };
    let sure = share_of(own);
    if rest.open > 0 && is_under_way(interval, context) {
        return Judgement::acquit(format!("{numbers}, but an answer was under way"));
    }
    // Samples with a connection open, or another socket, say nothing of what a poll waits for.
    let alone = rest.samples().saturating_sub(rest.open.max(rest.other_sockets).max(rest.listening));
    let alone = around.share(alone).min(around.share(rest.polling));
    if sure + alone < 0.5 {
        let doubts: [(Samples, &str); 4] = [
            (own_or_owed, "whether it owes an answer: a client's connection does not show whose turn it is"),
            (own_or_unseen, "what its other sockets (UDP, QUIC, local) carry is not seen"),
            (
                |rest| rest.polling.saturating_sub(rest.open),
                "what its poll waits for without a connection: a timer of its own, a client, or an answer that is not seen",
            ),
            (
                |rest| rest.polling,
                "what its poll waits for while its connections rest: a timer of its own, or a peer that speaks first",
            ),
        ];
        if let Some((_, why)) = doubts.into_iter().find(|(of, _)| share_of(*of) >= 0.5) {
            return Judgement::unknown(why);
        }
        return match &around.missing {
            Some(why) if at_rest >= 0.5 => Judgement::unknown(format!("what the program waited for: {why}")),
            _ => Judgement::acquit(numbers),
        };
    }
    let strength = if sure >= 0.5 { 0.6 + 0.37 * sure } else { 0.6 * (sure + alone) };
    let who = rest.who.as_deref().unwrap_or(context.who());
    let open = if rest.open >= rest.samples().div_ceil(2) {
        "its connections rested"
    } else {
        "it had no connection"
    };
    Judgement::convict(strength, format!("{who} was {}: {open}, {numbers}", doing(rest)))
}

/// Seconds each way in which a question would have been seen that this interval's data answer.
const ASKED: f64 = 0.5;

/// Data came on a connection by which nothing went out: the answer began earlier and goes on.
fn is_under_way(interval: &Interval, context: &Context<'_>) -> bool {
    let streams = |lane: &&LaneInterval| lane.waits.value().is_some_and(|waits| waits.came >= SEGMENT);
    let asks = |lane: u32| {
        let near = context.around(interval, ASKED);
        near.filter_map(|interval| waits::of(lane, interval)?.waits.value()).any(|waits| waits.sent > 0)
    };
    interval.lanes.iter().filter(streams).any(|lane| !asks(lane.lane))
}

/// Samples at which it waited for nobody that a socket leads to, and owed nobody an answer.
fn own(rest: &Rest) -> u32 {
    own_or_owed(rest).saturating_sub(rest.unclear)
}

/// The same where it owed no answer.
fn own_or_owed(rest: &Rest) -> u32 {
    asleep(rest).saturating_add(at_work(rest).saturating_sub(rest.other_sockets))
}

/// The same where its other sockets carried nothing.
fn own_or_unseen(rest: &Rest) -> u32 {
    asleep(rest).saturating_add(at_work(rest))
}

/// Samples at which it waited for nobody, whatever its sockets carried.
fn asleep(rest: &Rest) -> u32 {
    [rest.sleeping, rest.child, rest.terminal].into_iter().fold(0, u32::saturating_add)
}

/// Samples at which it was at work, or waited for itself: for a transfer on a socket that is not judged, too.
fn at_work(rest: &Rest) -> u32 {
    [rest.running, rest.disk, rest.pipe, rest.lock].into_iter().fold(0, u32::saturating_add)
}

/// What took most of these samples.
pub(crate) fn doing(rest: &Rest) -> String {
    let kinds = [
        (rest.sleeping, "asleep by its own will"),
        (rest.running, "computing"),
        (rest.child, "waiting for a child process"),
        (rest.terminal, "waiting for its terminal"),
        (rest.disk, "reading a file"),
        (rest.writing, "writing a file"),
        (rest.pipe, "waiting for a pipe"),
        (rest.lock, "waiting for a lock or for its own threads"),
        (rest.polling, "waiting for a timer or any of its descriptors"),
        (rest.accepting, "waiting for a client"),
        (rest.receiving, "waiting for what a peer sends by itself"),
    ];
    // Of equals the first.
    let most = kinds.into_iter().rev().max_by_key(|(samples, _)| *samples);
    let (samples, what) = most.unwrap_or((0, "not seen"));
    let share = f64::from(samples) / f64::from(rest.samples().max(1));
    if share >= 0.995 { what.to_owned() } else { format!("{what} in {} of that time", percent(share)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::Around;
    use crate::evidence::{Evidence, LaneInterval, Reading};
    use crate::sender::SenderInterval;
    use crate::waits::Waits;
    use std::time::Duration;

    fn interval(busy: u32, rest: Rest) -> Interval {
        let samples = busy + rest.samples();
        let around = Around { samples, busy, rest, ..Around::default() };
        Interval { span: Duration::from_millis(100), around, ..Interval::default() }
    }

    fn judged(interval: &Interval) -> Judgement {
        judge(interval, &Context::alone(&Evidence::default()))
    }

    #[test]
    fn a_client_that_sleeps_between_requests_is_named() {
        let who = Some("python3 (pid 7)".to_owned());
        let found = judged(&interval(1, Rest { sleeping: 4, open: 4, who, ..Rest::default() }));
        let Judgement::Convict { strength, evidence } = found else { panic!("{found:?}") };
        assert!(strength > 0.85, "{strength}");
        assert!(
            evidence.starts_with("python3 (pid 7) was asleep by its own will: its connections rested"),
            "{evidence}"
        );
    }

    #[test]
    fn a_client_whose_threads_wait_for_one_another_waits_for_no_peer() {
        let lock = |busy, lock| interval(busy, Rest { lock, open: lock, ..Rest::default() });
        assert!(judged(&lock(1, 4)).convicts());
        let intervals = vec![lock(1, 4), lock(3, 2), lock(1, 4)];
        let evidence = Evidence { intervals, ..Evidence::default() };
        assert!(judge(&evidence.intervals[1], &Context::at(&evidence, 1)).convicts());
        assert!(judged(&lock(3, 2)).acquits());
    }

    #[test]
    fn a_reader_that_sleeps_between_two_reads_of_one_answer_is_not() {
        let came = |came, sent| {
            let mut interval = interval(1, Rest { sleeping: 4, open: 4, ..Rest::default() });
            let waits = Reading::Value(Waits { looks: 5, came, sent, ..Waits::default() });
            interval.lanes = vec![LaneInterval { lane: 1, waits, ..LaneInterval::default() }];
            interval
        };
        let judged_in = |intervals: Vec<Interval>, at: usize| {
            let evidence = Evidence { intervals, ..Evidence::default() };
            judge(&evidence.intervals[at], &Context::at(&evidence, at))
        };
        let read = vec![came(64_000, 0); 20];
        assert!(judged_in(read.clone(), 10).acquits());
        // The same with a question a second: answers that the client then works on.
        let mut asked = read;
        asked[7] = came(64_000, 80);
        assert!(judged_in(asked, 10).convicts());
        assert!(judged_in(vec![came(0, 0); 20], 10).convicts(), "nothing is under way");
    }

    #[test]
    fn a_client_that_waits_in_a_read_is_not() {
        assert!(judged(&interval(0, Rest { receiving: 5, open: 5, ..Rest::default() })).acquits());
        assert!(judged(&interval(3, Rest { sleeping: 2, open: 2, ..Rest::default() })).acquits());
        assert!(judged(&interval(3, Rest { polling: 2, open: 2, ..Rest::default() })).acquits(), "it reads");
        assert!(judged(&interval(0, Rest { accepting: 5, ..Rest::default() })).acquits());
    }

    #[test]
    fn a_poll_beside_a_connection_that_rests_may_be_for_its_own_timer() {
        for rest in [
            Rest { polling: 5, open: 5, ..Rest::default() },
            Rest { polling: 5, other_sockets: 5, ..Rest::default() },
            Rest { polling: 5, listening: 5, ..Rest::default() },
        ] {
            let Judgement::Unknown { missing } = judged(&interval(0, rest)) else {
                panic!("a timer, or not")
            };
            assert!(missing.contains("a timer of its own"), "{missing}");
        }
    }

    #[test]
    fn a_server_may_owe_an_answer_where_the_last_word_is_not_told() {
        let computes =
            |unclear| judged(&interval(0, Rest { running: 5, open: 5, unclear, ..Rest::default() }));
        let Judgement::Unknown { missing } = computes(5) else { panic!("it may answer") };
        assert!(missing.starts_with("whether it owes an answer"), "{missing}");
        assert!(computes(0).convicts() && computes(2).convicts(), "most of it is told");
    }

    #[test]
    fn work_beside_a_socket_that_is_not_judged_may_be_a_transfer() {
        let beside = |other_sockets| {
            let rest = Rest { running: 5, other_sockets, ..Rest::default() };
            judged(&interval(0, rest))
        };
        assert!(beside(0).convicts(), "it computes");
        let Judgement::Unknown { missing } = beside(5) else { panic!("a download over QUIC looks so") };
        assert!(missing.contains("QUIC"), "{missing}");
        // Who sleeps does not read it either.
        assert!(judged(&interval(0, Rest { sleeping: 5, other_sockets: 5, ..Rest::default() })).convicts());
        assert!(judged(&interval(3, Rest { running: 2, other_sockets: 2, ..Rest::default() })).acquits());
    }

    #[test]
    fn without_a_connection_a_timer_is_its_own() {
        let Judgement::Convict { strength, .. } =
            judged(&interval(0, Rest { polling: 5, ..Rest::default() }))
        else {
            panic!("a poll without a connection")
        };
        assert!(strength <= 0.6, "less sure than a sleep: {strength}");
    }

    #[test]
    fn a_sender_that_pauses_is_an_application() {
        let mut interval = interval(0, Rest { sleeping: 5, open: 5, ..Rest::default() });
        let sender =
            Reading::Value(SenderInterval { looks: 5, nothing_unsent: 5, ..SenderInterval::default() });
        let tcp = Reading::Missing("the receiving end is the peer's".to_owned());
        interval.lanes = vec![LaneInterval { sender, tcp, ..LaneInterval::default() }];
        assert!(judged(&interval).acquits());
    }
}
