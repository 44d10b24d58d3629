//! Did a watched program move anything at all? A verdict says what held a transfer; where none took place it
//! must not name whatever the program did meanwhile.

use std::time::Duration;

use crate::evidence::{Evidence, Interval, LaneInterval};
use crate::limit::{Limit, QUARTER};
use crate::merge::merged;
use crate::verdict::{MainLimit, Verdict};
use crate::words::{bytes, seconds};

/// Fewer payload bytes than this in a whole run are no transfer: the least answers that anybody waits for
/// have a hundred bytes of head, while a connection that is only kept alive has a byte or a few each way.
const LEAST: u64 = 100;

/// What a program that had no connection can be held by all the same: what comes before one.
const BEFORE_CONNECTION: [Limit; 2] = [Limit::Connect, Limit::Dns];

/// The same, and its own time.
const WITHOUT_CONNECTION: [Limit; 3] = [Limit::Connect, Limit::Dns, Limit::ThinkTime];

/// What keeps bytes from moving at all.
const WITHOUT_BYTES: [Limit; 4] = [Limit::Connect, Limit::Dns, Limit::PathMtu, Limit::Timeouts];

/// Takes the limit from a verdict on a run without a connection, and what was said of it, unless it needs
/// none. Nobody was seen who could be innocent. Its own time is named only where no other socket says what
/// that was: who listens may serve clients, and sockets of UDP or of this machine may carry its work.
pub fn without_connection(evidence: &Evidence, verdict: &mut Verdict) {
    let around = merged(&evidence.intervals).around;
    let doubt = if around.share(around.rest.listening) >= 0.5 {
        Some("it listens for clients, and none was connected: whether its own time kept any does not show")
    } else if around.share(around.rest.other_sockets) >= 0.5 {
        Some("what its other sockets (UDP, QUIC, local) carry is not judged")
    } else {
        None
    };
    let limits: &[Limit] = if doubt.is_some() { &BEFORE_CONNECTION } else { &WITHOUT_CONNECTION };
    if !is_of(verdict, limits) {
        withdraw(verdict);
    }
    forget(verdict, Limit::SenderOrPath);
    if let Some(why) = doubt.filter(|_| verdict.shares.contains_key(&Limit::ThinkTime)) {
        forget(verdict, Limit::ThinkTime);
        verdict.missing.push(format!("{}: {why}", Limit::ThinkTime));
    }
    verdict.innocent.clear();
}

/// Takes back what names a limit and what follows from it; the shares of the time that were seen stay.
fn withdraw(verdict: &mut Verdict) {
    verdict.limit = None;
    verdict.confidence = 0.0;
    verdict.grounds = None;
    verdict.evidence.clear();
    verdict.innocent.clear();
    verdict.not_visible.clear();
    verdict.advice.clear();
}

/// Removes a limit that nobody can have seen. The fallback is one where nothing moved: neither a sender nor a
/// path was seen.
fn forget(verdict: &mut Verdict, unseen: Limit) {
    let is_seen = |limit: &Limit| *limit != unseen;
    verdict.shares.retain(|limit, _| is_seen(limit));
    verdict.phases.retain(|phase| is_seen(&phase.limit));
    // Where it is the only one in words, `withdraw` has taken them.
    let words = format!("{unseen}: ");
    verdict.evidence.retain(|line| !line.starts_with(&words));
    for interval in &mut verdict.intervals {
        *interval = interval.filter(is_seen);
    }
}

fn is_of(verdict: &Verdict, limits: &[Limit]) -> bool {
    match verdict.limit {
        Some(MainLimit::One(limit)) => limits.contains(&limit),
        Some(MainLimit::Mixed) => {
            let main = verdict.shares.iter().filter(|(_, share)| **share > QUARTER);
            main.map(|(limit, _)| limit).all(|limit| limits.contains(limit))
        }
        None => false,
    }
}

/// Takes the limit from a verdict on a run that had connections and moved nothing, and says so; `true` where
/// it did.
///
/// What keeps bytes from moving at all stays: an attempt to connect, a resolver, packets that never pass,
/// timeouts; and so does a server that owes an answer, whose question may have come before the watch. It can
/// be wrong for a run that ends before its first answer, whose wait may have had a cause that shows only in
/// the rates of bytes; and for a server that waits in a poll for what its answer needs.
pub fn say_if_nothing(evidence: &Evidence, verdict: &mut Verdict) -> bool {
    let carried = |interval: &Interval| {
        let sent = |lane: &LaneInterval| lane.sender.value().map_or(0, |sender| sender.acked);
        let lanes = interval.lanes.iter().map(|lane| lane.received.max(sent(lane)));
        lanes.fold(0_u64, u64::saturating_add).max(interval.received)
    };
    let moved = evidence.intervals.iter().map(carried).fold(0_u64, u64::saturating_add);
    if moved >= LEAST || is_of(verdict, &WITHOUT_BYTES) || owes(evidence, verdict) {
        return false;
    }
    forget(verdict, Limit::SenderOrPath);
    if verdict.limit.is_none() {
        return false;
    }
    let spans = evidence.intervals.iter().map(|interval| interval.span);
    let span = spans.fold(Duration::ZERO, Duration::saturating_add);
    let moved = if moved == 0 { "no byte".to_owned() } else { bytes(moved as f64) };
    withdraw(verdict);
    verdict.missing.insert(0, format!("nothing moved: {moved} in {}", seconds(span.as_secs_f64())));
    true
}

/// The program was named because it owed an answer, in half of all samples or more, and did not idle: who is
/// only sent to (a log, pings) never has the last word, and waits for more in a poll.
fn owes(evidence: &Evidence, verdict: &Verdict) -> bool {
    if verdict.limit != Some(MainLimit::One(Limit::Application)) {
        return false;
    }
    let whole = merged(&evidence.intervals);
    let idles = |lane: &LaneInterval| {
        lane.thread.value().is_some_and(|thread| thread.share(thread.found.polling) >= 0.5)
    };
    let all_idle = !whole.lanes.is_empty() && whole.lanes.iter().all(idles);
    whole.around.share(whole.around.owing) >= 0.5 && !all_idle
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::{Around, Rest};
    use crate::evidence::{Clocks, Facts, Found, Reading, ThreadInterval};
    use crate::verdict::{Phase, explain};
    use crate::waits::Waits;

    fn busy_thread(received: u64) -> Evidence {
        let span = Duration::from_millis(100);
        let thread = ThreadInterval { cpu: span, looks: 5, ..ThreadInterval::default() };
        let lane = LaneInterval { received, thread: Reading::Value(thread), ..LaneInterval::default() };
        let interval = |at: u32| Interval {
            at: f64::from(at) * 0.1,
            span,
            received,
            lanes: vec![lane.clone()],
            ..Interval::default()
        };
        Evidence { intervals: (0..30).map(interval).collect(), ..Evidence::default() }
    }

    #[test]
    fn a_busy_program_with_idle_connections_is_no_full_core() {
        let mut idle = busy_thread(0);
        idle.intervals[7].lanes[0].received = 2;
        idle.intervals[7].received = 2;
        let mut verdict = explain(&idle);
        assert!(say_if_nothing(&idle, &mut verdict), "{verdict:?}");
        assert_eq!((verdict.limit, verdict.missing[0].as_str()), (None, "nothing moved: 2 B in 3.0 s"));
    }

    #[test]
    fn a_server_that_owes_an_answer_is_named_though_the_question_came_before() {
        let hung = |owing, thread: &Reading<ThreadInterval>| {
            let mut evidence = busy_thread(0);
            for interval in &mut evidence.intervals {
                interval.lanes[0].thread = thread.clone();
                interval.lanes[0].waits = Reading::Value(Waits::default());
                interval.around.samples = 5;
                interval.around.owing = owing;
                interval.around.busy = 5 - owing;
            }
            let mut verdict = explain(&evidence);
            let withdrawn = say_if_nothing(&evidence, &mut verdict);
            (verdict.limit, withdrawn)
        };
        let found = |found| Reading::Value(ThreadInterval { looks: 5, found, ..ThreadInterval::default() });
        let elsewhere = found(Found { elsewhere: 5, ..Found::default() });
        for thread in [&Reading::default(), &elsewhere] {
            assert_eq!(hung(5, thread), (Some(MainLimit::One(Limit::Application)), false));
        }
        let polling = found(Found { polling: 5, ..Found::default() });
        assert_eq!(hung(5, &polling), (None, true), "who is only sent to owes nothing");
        assert_eq!(hung(0, &Reading::default()).0, None);
    }

    #[test]
    fn nothing_is_said_for_a_limit_that_was_taken_back() {
        let mut verdict = explain(&busy_thread(1_000_000));
        assert!(verdict.confidence > 0.0 && !verdict.evidence.is_empty() && !verdict.advice.is_empty());
        without_connection(&Evidence::default(), &mut verdict);
        assert_eq!((verdict.limit, verdict.confidence), (None, 0.0));
        assert!(verdict.evidence.is_empty() && verdict.advice.is_empty(), "{verdict:?}");
    }

    #[test]
    fn a_sender_and_a_path_that_nobody_saw_have_no_share() {
        let idle = busy_thread(0);
        let mut verdict = explain(&idle);
        let fallback = Limit::SenderOrPath;
        verdict.shares.insert(fallback, 0.2);
        verdict.phases.push(Phase { from: 0.0, to: 0.1, limit: fallback });
        verdict.intervals[0] = Some(fallback);
        let names = |verdict: &Verdict| {
            verdict.shares.contains_key(&fallback)
                || verdict.phases.iter().any(|phase| phase.limit == fallback)
                || verdict.intervals.contains(&Some(fallback))
        };
        assert!(names(&verdict));
        let mut without = verdict.clone();
        without_connection(&idle, &mut without);
        assert!(!names(&without) && !without.shares.is_empty(), "{without:?}");
        verdict.limit = None;
        assert!(!say_if_nothing(&idle, &mut verdict), "no limit was named");
        assert!(!names(&verdict) && !verdict.shares.is_empty(), "{verdict:?}");
    }

    #[test]
    fn a_pause_beside_sockets_that_are_not_judged_is_not_its_own_time() {
        let judged = |rest: Rest| {
            let span = Duration::from_millis(100);
            let around = Around { samples: 5, command: true, rest, ..Around::default() };
            let interval = Interval { span, around, ..Interval::default() };
            let facts = Facts { clocks: Clocks::Sampled, ..Facts::default() };
            let evidence = Evidence { intervals: vec![interval; 30], facts, ..Evidence::default() };
            let mut verdict = explain(&evidence);
            without_connection(&evidence, &mut verdict);
            verdict
        };
        let think_time = Some(MainLimit::One(Limit::ThinkTime));
        assert_eq!(judged(Rest { sleeping: 5, ..Rest::default() }).limit, think_time);
        let none = |rest: Rest| {
            let verdict = judged(rest);
            assert_eq!((verdict.limit, verdict.shares.len()), (None, 0), "{verdict:?}");
            assert!(verdict.advice.is_empty(), "{verdict:?}");
            verdict.missing.join("; ")
        };
        assert!(none(Rest { sleeping: 5, other_sockets: 5, ..Rest::default() }).contains("UDP"));
        assert!(none(Rest { sleeping: 5, listening: 5, ..Rest::default() }).contains("clients"));
        none(Rest { polling: 5, listening: 5, ..Rest::default() });
    }

    #[test]
    fn what_moves_little_is_judged() {
        let slow = busy_thread(100);
        let mut verdict = explain(&slow);
        let before = verdict.clone();
        assert!(!say_if_nothing(&slow, &mut verdict));
        assert_eq!(verdict, before);
    }
}
