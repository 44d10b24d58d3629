//! Do connections take long to be made, or are they never made?
//!
//! Convicts when one of these holds:
//! 1. in half of the samples or more an attempt to connect was unanswered while no connection was busy, and
//!    the attempt turns out to be a hard one: a step of it was sent again; or it lasts about a second or
//!    more, the time after which a SYN is sent again (RFC 6298, section 2), so that no round trip explains
//!    it; or the listener, on this machine, was seen with a full queue; or the first message of TLS waits for
//!    more than three round trips and 50 ms (one round trip is the path's, a second may be a lost segment's,
//!    and 50 ms are ten times what a public-key operation takes);
//! 2. attempts failed at once (refused, no route) and the program, without any connection, rests until the
//!    next one;
//! 3. in half of the samples or more the queue of one of the program's own listeners was full, and the kernel
//!    has just dropped clients because of it: they wait, and try again after a second or more.
//!
//! Acquits: no attempt was unanswered for long, and handshakes took less than a tenth of the time; what an
//! ordinary handshake takes is `latency`.
//!
//! Can be wrong: on (2), the kernel counts failed attempts for a whole network namespace, and another
//! program's may be among them; on TLS, which is told by the port, a server that speaks first on such a port
//! and is slow to do so looks the same.

use std::time::Duration;

use super::{Context, Judgement};
use crate::around::{Around, Attempt, Crowded, Listener, Step};
use crate::evidence::Interval;
use crate::words::{percent, seconds};
use weir_units::counted;

/// The first retransmission of a SYN comes after a second (RFC 6298, section 2.1). The last sample of an
/// attempt that it ended may lie up to an interval before; no round trip comes near that, those of satellites
/// take 0.6 s.
const SYN_TIMEOUT: Duration = Duration::from_millis(900);

/// What a TLS server's own work may take beside the round trips.
const TLS_WORK: Duration = Duration::from_millis(50);

/// Programs that try again wait longer each time: of common ones a minute at most (curl --retry doubles from
/// a second on).
const RETRY: f64 = 60.0;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let around = &interval.around;
    let share = around.share(around.connecting);
    if share >= 0.5 {
        let ends: Vec<Attempt> = around.attempts.iter().map(|attempt| at_its_end(attempt, context)).collect();
        let worst = ends.iter().filter(|attempt| is_hard(attempt)).max_by_key(|attempt| weight(attempt));
        if let Some(worst) = worst {
            return Judgement::convict(0.6 + 0.37 * share, in_words(worst, ends.len(), around));
        }
    }
    if let Some(judged) = crowded(around) {
        return judged;
    }
    if let Some(evidence) = refused(interval, context) {
        return Judgement::convict(0.75, evidence);
    }
    // Of one interval it is no matter: the others may have none.
    let whole = context.before.is_empty() && context.after.is_empty();
    if whole && share >= 0.1 {
        return Judgement::unknown(format!(
            "whether handshakes took longer than round trips explain: {} of the time was spent on them",
            percent(share)
        ));
    }
    if around.attempts.is_empty() {
        return Judgement::acquit("no attempt to connect went unanswered");
    }
    Judgement::acquit(format!(
        "attempts to connect were answered, {} of the time was spent on them",
        percent(share)
    ))
}

/// Clients find the program's own listener full.
fn crowded(around: &Around) -> Option<Judgement> {
    let share = around.share(around.refusing);
    let Crowded { port, listener } = around.crowded.filter(|_| share >= 0.5)?;
    let evidence = format!(
        "the program's own listener at port {port} was full in {} of samples: {} waited to be accepted, where {} may, and \
         the kernel dropped others, who try again after a second or more",
        percent(share),
        counted(listener.queued.into(), "connection"),
        listener.backlog.saturating_add(1)
    );
    Some(Judgement::convict(0.6 + 0.37 * share, evidence))
}

/// The attempt as it was when it was last seen: in the moments before its first retransmission it looks like
/// any.
fn at_its_end(attempt: &Attempt, context: &Context<'_>) -> Attempt {
    let mut last = attempt.clone();
    // The engine samples all attempts in every interval that they live in.
    for interval in context.after {
        match interval.around.attempts.iter().find(|other| other.lane == attempt.lane) {
            Some(later) if later.step == attempt.step => {
                let full = last.listener.filter(|listener| listener.is_full());
                last = Attempt { listener: full.or(later.listener), ..later.clone() };
            }
            _ => break,
        }
    }
    last
}

fn is_hard(attempt: &Attempt) -> bool {
    let patience = match (attempt.step, attempt.rtt) {
        (Step::Tls, Some(rtt)) => rtt.saturating_mul(3).saturating_add(TLS_WORK),
        _ => SYN_TIMEOUT,
    };
    attempt.retransmits > 0 || attempt.age >= patience || attempt.listener.is_some_and(Listener::is_full)
}

/// A full queue explains more than an age does.
fn weight(attempt: &Attempt) -> (bool, Duration, u32) {
    (attempt.listener.is_some_and(Listener::is_full), attempt.age, attempt.retransmits)
}

fn in_words(worst: &Attempt, attempts: usize, around: &Around) -> String {
    let (peer, age) = (&worst.peer, seconds(worst.age.as_secs_f64()));
    let again = match worst.retransmits {
        0 => String::new(),
        times => {
            format!(", sent again {}", if times == 1 { "once".to_owned() } else { format!("{times} times") })
        }
    };
    let first = match worst.step {
        Step::Syn => format!("a SYN to {peer} went unanswered for {age}{again}"),
        Step::Accept => {
            format!("{peer} answered the SYN, but acknowledged nothing of the first bytes for {age}{again}")
        }
        Step::Tls => {
            format!("the first message of the TLS handshake to {peer} went unanswered for {age}{again}")
        }
    };
    let listener = match worst.listener {
        Some(full) if full.is_full() => format!(
            "; its listener on this machine was full: {} waited to be accepted, where {} may",
            counted(full.queued.into(), "connection"),
            full.backlog.saturating_add(1)
        ),
        Some(_) => "; its listener on this machine had room".to_owned(),
        None => String::new(),
    };
    let dropped = match around.listen_overflows {
        0 => String::new(),
        times => format!("; this namespace counted {} of listen queues", counted(times, "overflow")),
    };
    let others =
        if attempts > 1 { format!("; it is the longest of {attempts} attempts") } else { String::new() };
    format!("{first}{listener}{dropped}{others}")
}

/// The words for attempts that fail at once, and for the rest before the next one.
pub(crate) fn refused(interval: &Interval, context: &Context<'_>) -> Option<String> {
    let around = &interval.around;
    // An attempt that fails may be seen for the round trip that it takes, and its name may be asked for.
    let idle = |interval: &&Interval| {
        let around = &interval.around;
        around.samples > 0 && around.busy == 0 && around.owing == 0 && around.rest.open == 0
    };
    let at_rest = around.share(around.rest.samples()) >= 0.5;
    if !idle(&interval) || !at_rest || around.share(around.rest.other_sockets) > 0.5 {
        return None;
    }
    let past = std::iter::once(interval).chain(context.recent(RETRY));
    let failed: u64 =
        past.take_while(idle).map(|interval| interval.around.failed_attempts).fold(0, u64::saturating_add);
    (failed > 0).then(|| {
        let rest = around.rest.samples();
        let who = around.rest.who.as_deref().unwrap_or(context.who());
        let rests = if rest > 0 {
            format!("; {who} had no connection in {} of samples", percent(around.share(rest)))
        } else {
            String::new()
        };
        format!(
            "{} failed at once in this network namespace (refused, or no route){rests}",
            counted(failed, "attempt")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::Rest;
    use crate::evidence::Evidence;

    fn interval(at: f64, attempt: Attempt) -> Interval {
        let span = Duration::from_millis(100);
        let around = Around { samples: 5, connecting: 5, attempts: vec![attempt], ..Around::default() };
        Interval { at, span, around, ..Interval::default() }
    }

    fn syn(age: f64, retransmits: u32) -> Attempt {
        Attempt {
            lane: 1,
            peer: "10.0.0.9:80".to_owned(),
            age: Duration::from_secs_f64(age),
            retransmits,
            ..Attempt::default()
        }
    }

    #[test]
    fn a_lost_syn_is_convicted_from_its_first_moment_on() {
        let intervals = (0..12).map(|at| {
            let age = 0.1 * f64::from(at);
            interval(age, syn(age, u32::from(at >= 10)))
        });
        let evidence = Evidence { intervals: intervals.collect(), ..Evidence::default() };
        for at in 0..12 {
            let judged = judge(&evidence.intervals[at], &Context::at(&evidence, at));
            let Judgement::Convict { evidence, .. } = judged else { panic!("{at}: {judged:?}") };
            assert!(evidence.contains("SYN to 10.0.0.9:80 went unanswered for 1.1"), "{evidence}");
        }
    }

    #[test]
    fn a_handshake_over_a_long_path_is_none_of_it() {
        let intervals = (0..3).map(|at| interval(0.1 * f64::from(at), syn(0.1 * f64::from(at), 0)));
        let evidence = Evidence { intervals: intervals.collect(), ..Evidence::default() };
        assert!(judge(&evidence.intervals[0], &Context::at(&evidence, 0)).acquits());
    }

    #[test]
    fn a_full_queue_is_named_and_one_with_room_is_not_blamed() {
        let evidence = Evidence::default();
        let with = |queued| {
            let listener = Some(Listener { queued, backlog: 1 });
            interval(0.0, Attempt { listener, ..syn(0.2, 0) })
        };
        let Judgement::Convict { evidence: words, .. } = judge(&with(2), &Context::alone(&evidence)) else {
            panic!("a full queue")
        };
        assert!(words.contains("was full: 2 connections waited to be accepted, where 2 may"), "{words}");
        assert!(!judge(&with(1), &Context::alone(&evidence)).convicts());
    }

    #[test]
    fn tls_is_slow_after_three_round_trips() {
        let evidence = Evidence::default();
        let tls = |age| {
            let rtt = Some(Duration::from_millis(40));
            interval(0.0, Attempt { step: Step::Tls, rtt, ..syn(age, 0) })
        };
        assert!(judge(&tls(0.5), &Context::alone(&evidence)).convicts());
        assert!(!judge(&tls(0.16), &Context::alone(&evidence)).convicts());
    }

    #[test]
    fn a_listener_that_drops_clients_is_named_by_its_own_program() {
        let evidence = Evidence::default();
        let queue = |refusing| {
            let crowded = Crowded { port: 80, listener: Listener { queued: 2, backlog: 1 } };
            let around = Around { samples: 5, refusing, crowded: Some(crowded), ..Around::default() };
            Interval { span: Duration::from_millis(100), around, ..Interval::default() }
        };
        let Judgement::Convict { evidence: words, .. } = judge(&queue(5), &Context::alone(&evidence)) else {
            panic!("a full queue")
        };
        assert!(words.contains("port 80") && words.contains("2 connections waited"), "{words}");
        assert!(judge(&queue(1), &Context::alone(&evidence)).acquits());
    }

    #[test]
    fn handshakes_that_took_a_part_of_the_time_are_not_ruled_out() {
        let mut evidence =
            Evidence { intervals: vec![interval(0.0, syn(0.05, 0)); 2], ..Evidence::default() };
        evidence.intervals[0].around.connecting = 1;
        let some = evidence.intervals[0].clone();
        assert!(judge(&some, &Context::at(&evidence, 0)).acquits());
        assert!(matches!(judge(&some, &Context::alone(&evidence)), Judgement::Unknown { .. }));
    }

    #[test]
    fn refusals_hold_the_rest_until_the_next_attempt() {
        let at_rest = |failed_attempts, open| {
            let rest = Rest { sleeping: 5, open, ..Rest::default() };
            let around = Around { samples: 5, rest, failed_attempts, ..Around::default() };
            Interval { span: Duration::from_millis(100), around, ..Interval::default() }
        };
        let mut evidence = Evidence { intervals: vec![at_rest(1, 0), at_rest(0, 0)], ..Evidence::default() };
        assert!(judge(&evidence.intervals[1], &Context::at(&evidence, 1)).convicts());
        evidence.intervals = vec![at_rest(0, 0), at_rest(0, 0)];
        assert!(judge(&evidence.intervals[1], &Context::at(&evidence, 1)).acquits());
        // The second attempt is seen for the moment until it fails.
        let mut tried = at_rest(1, 0);
        (tried.around.connecting, tried.around.rest.sleeping) = (1, 4);
        evidence.intervals = vec![at_rest(1, 0), at_rest(0, 0), tried, at_rest(0, 0)];
        for at in 0..4 {
            assert!(judge(&evidence.intervals[at], &Context::at(&evidence, at)).convicts(), "{at}");
        }
        // With a connection open the failure may be anybody's.
        evidence.intervals = vec![at_rest(1, 5), at_rest(0, 5)];
        assert!(judge(&evidence.intervals[1], &Context::at(&evidence, 1)).acquits());
        // So may it with other sockets, however often they were seen.
        let mut others = at_rest(1, 0);
        others.around.rest.other_sockets = u32::MAX;
        assert!(judge(&others, &Context::alone(&evidence)).acquits());
    }
}
