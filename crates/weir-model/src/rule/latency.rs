//! Do round trips, rather than bytes, take the time?
//!
//! Convicts when one of these holds:
//! 1. handshakes and first-byte waits take half of the lanes' time or more, and one wait for a first byte is
//!    about a round trip (not above `application`'s threshold; of another program's connections not above
//!    two), or handshakes alone take that half. Only what round trips explain counts: no handshake lasts
//!    longer than three and 50 ms, nor is a wait for the addresses of a name one, where it is told apart;
//! 2. small objects: an object takes a lane no more than six round trips in all (its request, and the few of
//!    slow start that a body of a few bandwidth-delay products needs), requests and waits fill 80 % of the
//!    time; over the seconds around, first bytes and handshakes take at least 15 % of it: one round trip of
//!    six. Of another program's connections, where a wait between two objects may be anybody's, these round
//!    trips take half of an object's time or more;
//! 3. one request after another: several small objects a lane, each of which fits the first flight of a
//!    connection, no lane's thread full, and a fifth of the time or more in waits for answers: what is left
//!    is the work on each object between two waits, which other requests could overlap. Not of another
//!    program's connections that were looked at: their turns are [`super::request_response`]'s;
//! 4. slow start: lanes wait for data in the first round trips of the transfer, while the rate still doubles.
//!
//! Acquits: the time goes into bodies; or into an attempt to connect that no round trip explains
//! ([`super::connect`]), or into a name ([`super::dns`]); or the watched program owes the answer itself
//! ([`super::application`]); or a rest below a segment is held back in each turn ([`super::nagle`]).
//!
//! Cannot tell where another program's segments have the sizes of credits: what comes after one is no answer
//! to it, and whether the sender waited for it only the sender knows ([`super::protocol_window`]).
//!
//! Can be wrong: many objects over a full link wait in its queue and look like (1) as long as that queue is
//! short.

use super::application::{self, request_wait, slow_answer};
use super::spent::{Spent, active, min_rtt, spent, working};
use super::{Context, Judgement, connect, cpu_core, nagle, protocol_window, request_response};
use crate::evidence::{Clocks, Interval, LaneInterval};
use crate::path;
use crate::rule::waits;
use crate::words::{bytes, percent, rate, seconds};
use std::time::Duration;
use weir_units::{Bytes, Rate, counted};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    if let Some(why) = connect::holds(interval, context) {
        return Judgement::acquit(why);
    }
    if let Some((_, evidence)) = application::owes(interval, context) {
        return Judgement::acquit(evidence);
    }
    let spent = spent(interval);
    if let Some(why) = nagle::holds(interval, context) {
        return Judgement::acquit(why);
    }
    let waits = round_trips(interval, context, spent)
        .or_else(|| small_objects(interval, context, spent))
        .or_else(|| one_after_another(interval, context, spent));
    if waits.as_ref().is_some_and(Judgement::convicts) && request_response::gives_credits(interval, context) {
        return match protocol_window::judge(interval, context) {
            Judgement::Convict { evidence, .. } => Judgement::acquit(evidence),
            _ => Judgement::unknown(
                "this end waits for what its credits release (HTTP/2, SSH): the path may hold that, or their windows",
            ),
        };
    }
    waits.or_else(|| slow_start(interval, context, spent)).unwrap_or_else(|| {
        Judgement::acquit(format!(
            "handshakes {}, first bytes {} of the time",
            percent(spent.handshakes()),
            percent(spent.first_byte)
        ))
    })
}

fn round_trips(interval: &Interval, context: &Context<'_>, spent: Spent) -> Option<Judgement> {
    let handshakes = spent.handshakes();
    if handshakes + spent.first_byte < 0.5 {
        return None;
    }
    if context.facts.peer_is_local
        && spent.lanes > 1
        && cpu_core::free_cores(interval).is_some_and(|free| free < 0.2)
    {
        return Some(Judgement::unknown(
            "the round trip: all processors were busy, so waits for first bytes are also waits for one of them",
        ));
    }
    let wait = request_wait(interval, context);
    let path_like = match slow_answer(interval, context) {
        Some(limit) => wait <= limit,
        None => false,
    };
    // The server's share of the wait is `application`'s; what handshakes take is latency in any case.
    if path_like && handshakes < 0.5 && !is_round_trip(wait, interval, context) {
        return Some(Judgement::unknown(
            "the round trip: waits for first bytes of two to three of them are the server's as well, or a loss's",
        ));
    }
    let share = if path_like { handshakes + spent.first_byte } else { handshakes };
    if share < 0.5 {
        return (slow_answer(interval, context).is_none()).then(|| {
            Judgement::unknown("the round trip: a wait for first bytes may be the server's or the path's")
        });
    }
    if handshakes >= 0.5 && connect::is_long(interval, context) {
        return Some(Judgement::unknown(connect::LONG));
    }
    let requests: u64 = interval.lanes.iter().map(|lane| u64::from(lane.requests)).sum();
    let rtt = min_rtt(interval, context);
    let waits = if handshakes < 0.005 {
        format!("waits for first bytes took {} of the time", percent(spent.first_byte))
    } else {
        format!(
            "handshakes took {} and waits for first bytes {} of the time",
            percent(handshakes),
            percent(spent.first_byte)
        )
    };
    let each = match rtt {
        Some(rtt) if requests > 0 && spent.first_byte > 0.0 => format!(
            "; {} waited {}{}, the round trip is {}",
            counted(requests, "request"),
            seconds(wait),
            if requests == 1 { "" } else { " each" },
            seconds(rtt)
        ),
        Some(rtt) => format!("; the round trip is {}", seconds(rtt)),
        None => String::new(),
    };
    Some(Judgement::convict(share, waits + &each))
}

/// A wait of another program for a first byte is explained by one round trip: no more than two, of which the
/// second is left to a congestion window that begins anew, and 5 ms for a server's ordinary work. Of our own
/// lanes the wait starts when the request was written, whatever the time between the looks.
fn is_round_trip(wait: f64, interval: &Interval, context: &Context<'_>) -> bool {
    context.facts.clocks == Clocks::Own
        || min_rtt(interval, context).is_none_or(|rtt| wait <= 2.0 * rtt + 0.005)
}

fn small_objects(interval: &Interval, context: &Context<'_>, spent: Spent) -> Option<Judgement> {
    let rtt = min_rtt(interval, context)?;
    let waits = spent.handshakes() + spent.first_byte + spent.socket_wait;
    if waits < 0.8 {
        return None;
    }
    // What counts objects by the segments that went out counts credits of HTTP/2 and SSH as well.
    if context.facts.clocks == Clocks::Sampled && request_response::overlaps(interval, context) {
        return None;
    }
    let around = Around::of(interval, context);
    if around.objects < 1.0 || around.starts < 0.15 * around.time {
        return None;
    }
    let each = around.time / around.objects;
    // What the round trips of an object take of its time: question and answer, slow start, and a handshake.
    let rounds = f64::from(path::slow_start_rounds(Bytes((around.received / around.objects) as u64)))
        + 1.0
        + around.connects / around.objects;
    let explained =
        if context.facts.clocks == Clocks::Sampled { (rounds * rtt / each).min(1.0) } else { 1.0 };
    (each <= 6.0 * rtt && explained >= 0.5).then(|| {
        let evidence = format!(
            "objects of {} took a connection {} each, {:.1} round trips of {}",
            bytes(around.received / around.objects),
            seconds(each),
            each / rtt,
            seconds(rtt)
        );
        Judgement::convict(0.9 * waits * explained.sqrt(), evidence)
    })
}

/// The connections at work here are in their first exchange: a handshake, a question, and the growth of the
/// congestion window. A handshake of TLS and a question have four segments.
pub(crate) fn begins(interval: &Interval, context: &Context<'_>) -> bool {
    const QUESTIONS: u64 = 4;
    let mut at_work = working(interval).peekable();
    at_work.peek().is_some()
        && at_work.all(|lane| {
            let seen = || {
                std::iter::once(interval)
                    .chain(context.before.iter().rev())
                    .filter_map(|interval| waits::of(lane.lane, interval))
            };
            let asked = |lane: &LaneInterval| {
                u64::from(lane.requests).max(lane.sender.value().map_or(0, |sender| sender.asked))
            };
            seen().any(|lane| lane.connects > 0)
                && seen().map(asked).fold(0, u64::saturating_add) <= QUESTIONS
        })
}

/// What lanes did over the second before an interval and the one after: an object may take several intervals,
/// begin in one and finish in another.
#[derive(Debug, Default)]
struct Around {
    objects: f64,
    connects: f64,
    received: f64,
    /// Seconds of lanes at work.
    time: f64,
    /// Of these, in handshakes and waits for first bytes.
    starts: f64,
}

impl Around {
    fn of(interval: &Interval, context: &Context<'_>) -> Around {
        let mut around = Around::default();
        for interval in context.around(interval, 1.0) {
            let time = working(interval).map(|lane| active(lane, interval)).sum::<f64>();
            let spent = self::spent(interval);
            around.objects += f64::from(interval.objects);
            around.connects += interval.lanes.iter().map(|lane| f64::from(lane.connects)).sum::<f64>();
            around.received += interval.received as f64;
            around.time += time;
            around.starts += (spent.handshakes() + spent.first_byte) * time;
        }
        around
    }
}

fn one_after_another(interval: &Interval, context: &Context<'_>, spent: Spent) -> Option<Judgement> {
    let looked_at = || working(interval).all(|lane| lane.waits.value().is_some());
    if context.facts.clocks == Clocks::Sampled && looked_at() {
        return None;
    }
    let waits = spent.handshakes() + spent.first_byte;
    let size = interval.received as f64 / f64::from(interval.objects.max(1));
    let several = f64::from(interval.objects) >= 3.0 * f64::from(spent.lanes);
    let full = cpu_core::busiest_thread(interval).is_none_or(|cpu| cpu >= 0.9);
    if !several || size > path::INITIAL_WINDOW as f64 || waits < 0.2 || full {
        return None;
    }
    let evidence = format!(
        "{} of {} one after another on {}: waits for answers took {} of the time, the work on each between them the rest",
        counted(interval.objects.into(), "object"),
        bytes(size),
        counted(u64::from(spent.lanes), "connection"),
        percent(waits)
    );
    Some(Judgement::convict(0.5, evidence))
}

/// Slow start doubles the window each round trip from ten segments on. With hindsight the best rate of the
/// two seconds that follow says how many round trips it needed; live, ten (they reach 15 MB in flight).
fn slow_start(interval: &Interval, context: &Context<'_>, spent: Spent) -> Option<Judgement> {
    let rtt = min_rtt(interval, context)?;
    // Below 1 ms slow start is over before a window is.
    if !spent.waits_for_data() || rtt < 1e-3 {
        return None;
    }
    let first = context.before.iter().find(|interval| interval.received > 0).unwrap_or(interval);
    let age = interval.at + interval.span.as_secs_f64() - first.at;
    // Data come once a round trip, so a rate is that of a round trip.
    let here = rate_over(std::iter::once(interval).chain(context.recent(rtt)));
    let later: Vec<f64> = context
        .following(2.0)
        .map(|interval| Rate::of(interval.received, interval.span).0)
        .filter(|rate| rate.is_finite())
        .collect();
    let best = later.iter().copied().fold(0.0, f64::max);
    // Without intervals before and after (one interval that stands alone) nothing shows growth.
    let live = context.after.is_empty() && !context.before.is_empty();
    let rounds = if live {
        10.0
    } else if best > 1.5 * here {
        let round_trip = Duration::try_from_secs_f64(rtt).ok()?;
        // One more for the first round trip itself, and one since intervals do not start with a round trip.
        f64::from(path::slow_start_rounds(path::bdp(Rate(best), round_trip))) + 2.0
    } else {
        return None;
    };
    // Live, growth is what tells slow start from a connection that is simply slow.
    let earlier = || rate_over(context.recent(3.0 * rtt).skip_while(|past| past.at + rtt > interval.at));
    let grows = !live || here >= 1.3 * earlier();
    (here > 0.0 && age <= rounds * rtt && grows).then(|| {
        let evidence =
            format!("slow start: {} and growing, {} after the first byte", rate(here), seconds(age.max(0.0)));
        Judgement::convict(0.8, evidence)
    })
}

fn rate_over<'a>(intervals: impl Iterator<Item = &'a Interval>) -> f64 {
    let (bytes, time) = intervals.fold((0.0, 0.0), |(bytes, time), interval| {
        (bytes + interval.received as f64, time + interval.span.as_secs_f64())
    });
    if time > 0.0 { bytes / time } else { 0.0 }
}
