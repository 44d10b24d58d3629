//! Do connections take long to be made, or are they never made?
//!
//! Convicts when one of these holds:
//! 1. in half of the samples or more an attempt to connect was unanswered while no connection was busy, and
//!    the attempt turns out to be a hard one: a step of it was sent again; or it lasts about a second or
//!    more, the time after which a SYN is sent again (RFC 6298, section 2), so that no round trip explains
//!    it; or the listener, on this machine, was seen with a full queue; or the first message of TLS waits for
//!    more than three round trips and 50 ms (one round trip is the path's, a second may be a lost segment's,
//!    and 50 ms are ten times what a public-key operation takes);
//! 2. attempts failed at once (refused, no route), one of the program's own among them, and the program,
//!    without any connection, rests until the next one;
//! 3. in half of the samples or more the queue of one of the program's own listeners was full, and the kernel
//!    has just dropped clients because of it: they wait, and try again after a second or more.
//!
//! The clocks of our own lanes tell the steps: there (1) is half of the lanes' time in handshakes, without
//! what names take ([`super::dns`]), and a hard one among them, of TLS only where the lane's thread did not
//! run for most of it; and (2) is a quarter of the time or more asleep before another attempt, while nothing
//! came.
//!
//! Acquits: no attempt was unanswered for long, and handshakes took less than a tenth of the time; what an
//! ordinary handshake takes is `latency`.
//!
//! Cannot tell where handshakes of our own lanes last longer than three round trips and 50 ms, and none of
//! them was hard: one of several addresses may not have answered.
//!
//! Cannot tell whose attempts failed at once where none was seen to be the program's: the kernel counts them
//! for a whole network namespace.
//!
//! Can be wrong: on (2), other programs' attempts may be among those that are counted; on TLS, which is told
//! by the port, a server that speaks first on such a port and is slow to do so looks the same.

use std::time::Duration;

use super::spent::{active, kept_busy, min_rtt, spent};
use super::{Context, Judge, Judgement, cpu_core, dns, failing, waits};
use crate::around::{Around, Attempt, Crowded, Listener, Step};
use crate::evidence::{Clocks, Interval, LaneInterval};
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
    let clocked = tells_steps(interval);
    let share = if clocked { spent(interval).handshakes() } else { around.share(around.connecting) };
    if share >= 0.5 {
        let ends: Vec<Attempt> = around.attempts.iter().map(|attempt| at_its_end(attempt, context)).collect();
        let hard = |attempt: &&Attempt| is_hard(attempt) && !is_of_here(attempt, interval, context);
        if let Some(worst) = ends.iter().filter(hard).max_by_key(|attempt| weight(attempt)) {
            return Judgement::convict(0.6 + 0.37 * share, in_words(worst, ends.len(), around));
        }
        if clocked && is_long(interval, context) {
            return Judgement::unknown(LONG);
        }
    }
    if let Some(judged) = crowded(around) {
        return judged;
    }
    match failed_at_once(interval, context) {
        Some((true, evidence)) => return Judgement::convict(0.75, evidence),
        Some((false, words)) => return Judgement::unknown(format!("whose attempts these were: {words}")),
        None => {}
    }
    if let Some((share, evidence)) = unreached(interval, context) {
        return Judgement::convict(share, evidence);
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

/// What may be behind a handshake that lasts longer than round trips explain.
pub(crate) const LONG: &str = "why a handshake lasts longer than three round trips: a lost SYN, a listener that is full, or an address \
     that does not answer";

/// The clocks of our own lanes tell the steps on the way to a connection apart.
pub(crate) fn tells_steps(interval: &Interval) -> bool {
    interval.lanes.iter().any(|lane| lane.resolving.is_some())
}

/// What keeps connections from coming about, where that was seen: a name, or an attempt that no round trip
/// explains.
pub(crate) fn holds(interval: &Interval, context: &Context<'_>) -> Option<String> {
    let clocked = tells_steps(interval);
    let ways = [(clocked, dns::judge as Judge), (clocked || interval.around.samples > 0, judge as Judge)];
    ways.into_iter().filter(|(is_seen, _)| *is_seen).find_map(|(_, way)| match way(interval, context) {
        Judgement::Convict { evidence, .. } => Some(evidence),
        _ => None,
    })
}

/// An attempt to connect lasts longer than round trips explain, with what is known of it before and after:
/// three of them, one for TCP and two for TLS, and what public keys take. Where our own lanes' clocks do not
/// tell it apart, the time holds the name as well.
pub(crate) fn is_long(interval: &Interval, context: &Context<'_>) -> bool {
    let own = context.facts.clocks == Clocks::Own;
    let handshake = |lane: &LaneInterval| lane.connecting.saturating_sub(lane.resolving.unwrap_or_default());
    let shakes = |lane: &LaneInterval| !handshake(lane).is_zero();
    interval.lanes.iter().filter(|lane| shakes(lane)).any(|lane| {
        // A lane of our own makes one connection after another.
        let attempt = waits::stretch(lane, context, shakes, |other| own && other.connects > 0);
        let made: u64 = attempt.iter().map(|lane| u64::from(lane.connects)).sum();
        let lasts: f64 = attempt.iter().map(|lane| handshake(lane).as_secs_f64()).sum();
        let made_by = attempt.last().filter(|_| own).and_then(|lane| round_trip(lane));
        let rtt = made_by.or_else(|| min_rtt(interval, context));
        let near = std::iter::once(interval).chain(context.after.iter().take(100));
        let rtt = rtt.or_else(|| near.flat_map(|other| &other.lanes).find_map(round_trip));
        lasts / made.max(1) as f64 > 3.0 * rtt.unwrap_or(1.0) + TLS_WORK.as_secs_f64()
    })
}

/// The round trip of a lane's own connection, seconds, where no lost SYN is in it.
fn round_trip(lane: &LaneInterval) -> Option<f64> {
    let received = lane.tcp.value().and_then(|tcp| tcp.shortest_rtt());
    let rtt = received.or_else(|| lane.sender.value()?.min_rtt)?;
    Some(rtt.as_secs_f64()).filter(|_| !rtt.is_zero() && rtt < SYN_TIMEOUT)
}

/// A handshake of TLS that takes long because this machine does: the lane's thread ran or was kept from it,
/// or the server shares its full processors, for one of which nobody waits as long as a second.
fn is_of_here(attempt: &Attempt, interval: &Interval, context: &Context<'_>) -> bool {
    let is_shared = context.facts.peer_is_local && attempt.age < SYN_TIMEOUT;
    let full = is_shared && cpu_core::free_cores(interval).is_some_and(|free| free < 0.2);
    let is_busy = |lane: &LaneInterval| {
        let active = active(lane, interval);
        kept_busy(lane, active) >= 0.5 * active
    };
    let lane = waits::of(attempt.lane, interval);
    attempt.step == Step::Tls && tells_steps(interval) && (full || lane.is_some_and(is_busy))
}

/// The words for the rest of our own lanes after attempts that failed, and its share of the time.
fn unreached(interval: &Interval, context: &Context<'_>) -> Option<(f64, String)> {
    let (share, why) = failing::large(interval.unreached, interval, context.facts.broke.as_ref())?;
    (interval.received == 0).then(|| {
        let waited = percent(share);
        let words = format!(
            "no connection came about, and requests waited {waited} of the time to be sent again{why}"
        );
        (share, words)
    })
}

/// The attempt as it was when it was last seen: in the moments before its first retransmission it looks like
/// any.
fn at_its_end(attempt: &Attempt, context: &Context<'_>) -> Attempt {
    let mut last = attempt.clone();
    // The engine samples all attempts in every interval that they live in. A lane of our own may have begun
    // another one since.
    for interval in context.after {
        let goes_on = |later: &Attempt| {
            later.step == attempt.step && (!tells_steps(interval) || later.age >= interval.span)
        };
        match interval.around.attempts.iter().find(|other| other.lane == attempt.lane) {
            Some(later) if goes_on(later) => {
                let full = last.listener.filter(|listener| listener.is_full());
                last = Attempt { listener: full.or(later.listener), ..later.clone() };
            }
            _ => break,
        }
    }
    last
}

/// No round trip explains how long it lasts, or its listener had no room.
pub(crate) fn is_hard(attempt: &Attempt) -> bool {
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

/// The words for attempts of the program that fail at once, and for the rest before the next one.
pub(crate) fn refused(interval: &Interval, context: &Context<'_>) -> Option<String> {
    failed_at_once(interval, context).filter(|(is_own, _)| *is_own).map(|(_, words)| words)
}

/// The same for attempts that may be anybody's, and whether the program is known to have made one of them.
fn failed_at_once(interval: &Interval, context: &Context<'_>) -> Option<(bool, String)> {
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
    let past = || std::iter::once(interval).chain(context.recent(RETRY)).take_while(idle);
    let failed = past().map(|interval| interval.around.failed_attempts).fold(0, u64::saturating_add);
    let tries = |around: &Around| {
        around.own_failed_attempts > 0 || around.attempts.iter().any(|attempt| attempt.step == Step::Syn)
    };
    (failed > 0).then(|| {
        let mut near = past().chain(context.following(RETRY).take_while(idle));
        let is_own = near.any(|interval| tries(&interval.around));
        let rest = around.rest.samples();
        let who = around.rest.who.as_deref().unwrap_or(context.who());
        let rests = if rest > 0 {
            format!("; {who} had no connection in {} of samples", percent(around.share(rest)))
        } else {
            String::new()
        };
        let words = format!(
            "{} failed at once in this network namespace (refused, or no route){rests}",
            counted(failed, "attempt")
        );
        (is_own, words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::Rest;
    use crate::evidence::{Evidence, Reading, TcpInterval, ThreadInterval};
    use crate::rule::latency;

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

    /// A lane of our own that was at its handshake for all of 100 ms, of which the attempt is so old.
    fn own(at: f64, attempt: Attempt) -> Interval {
        let span = Duration::from_millis(100);
        let lane = LaneInterval {
            lane: 1,
            connecting: span,
            resolving: Some(Duration::ZERO),
            ..LaneInterval::default()
        };
        let around = Around { attempts: vec![attempt], ..Around::default() };
        Interval { at, span, around, lanes: vec![lane], ..Interval::default() }
    }

    #[test]
    fn a_lost_syn_of_our_own_is_no_round_trip() {
        let intervals = |count: u32| {
            let interval = |tenth: u32| own(0.1 * f64::from(tenth), syn(0.1 * f64::from(tenth + 1), 0));
            Evidence { intervals: (0..count).map(interval).collect(), ..Evidence::default() }
        };
        let (lost, far) = (intervals(11), intervals(6));
        for at in 0..11 {
            let judged = judge(&lost.intervals[at], &Context::at(&lost, at));
            let Judgement::Convict { evidence, .. } = judged else { panic!("{at}: {judged:?}") };
            assert!(evidence.contains("SYN to 10.0.0.9:80 went unanswered for 1.1"), "{evidence}");
            assert!(latency::judge(&lost.intervals[at], &Context::at(&lost, at)).acquits(), "{at}");
        }
        // A satellite's round trip.
        let context = Context::at(&far, 3);
        assert!(judge(&far.intervals[3], &context).acquits());
        assert!(latency::judge(&far.intervals[3], &context).convicts());
    }

    #[test]
    fn a_handshake_of_our_own_that_no_round_trip_explains_is_not_told() {
        let rtt = Some(Duration::from_millis(1));
        let tcp = TcpInterval { min_rtt: rtt, ..TcpInterval::default() };
        let mut evidence = Evidence { intervals: vec![own(0.0, syn(0.1, 0)); 3], ..Evidence::default() };
        evidence.intervals[2].lanes[0].tcp = Reading::Value(tcp);
        for judge in [judge, latency::judge] {
            let judged = judge(&evidence.intervals[0], &Context::at(&evidence, 0));
            assert!(matches!(judged, Judgement::Unknown { .. }), "{judged:?}");
        }
        // With TLS the first step has told the round trip.
        let tls = Attempt { step: Step::Tls, rtt, ..syn(0.2, 0) };
        let slow = own(0.0, tls);
        assert!(judge(&slow, &Context::alone(&evidence)).convicts());
        let mut busy = slow.clone();
        let cpu = Duration::from_millis(80);
        busy.lanes[0].thread = Reading::Value(ThreadInterval { cpu, ..ThreadInterval::default() });
        assert!(!judge(&busy, &Context::alone(&evidence)).convicts(), "its own thread takes the time");
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
            let own_failed_attempts = failed_attempts;
            let around =
                Around { samples: 5, rest, failed_attempts, own_failed_attempts, ..Around::default() };
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

    #[test]
    fn attempts_that_may_be_anybodys_convict_nobody() {
        let rest = Rest { sleeping: 5, ..Rest::default() };
        let around = Around { samples: 5, rest, failed_attempts: 3, ..Around::default() };
        let theirs = Interval { span: Duration::from_millis(100), around, ..Interval::default() };
        let mut evidence = Evidence { intervals: vec![theirs; 3], ..Evidence::default() };
        let judged = |evidence: &Evidence| judge(&evidence.intervals[1], &Context::at(evidence, 1));
        let Judgement::Unknown { missing } = judged(&evidence) else { panic!("{:?}", judged(&evidence)) };
        assert!(missing.starts_with("whose attempts these were: 6 attempts failed"), "{missing}");
        assert_eq!(refused(&evidence.intervals[1], &Context::at(&evidence, 1)), None);
        // One of them was seen to be the program's, then or later.
        evidence.intervals[2].around.own_failed_attempts = 1;
        assert!(judged(&evidence).convicts());
    }
}
