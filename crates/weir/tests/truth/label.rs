//! What really limited a run? Asserted from the facts, so that no label rests on what was merely set up.
//!
//! A cause that did not bind makes the run void, with the reason: it counts neither for nor against the
//! judge.

use std::time::Duration;

use weir_lab::bed::too_late;

use crate::case::Programs;
use crate::cell::{Cause, Cell, Congestion};
use crate::expect::Truth;
use crate::facts::Facts;
use crate::plan::{BIND, Plan, Writer};

/// From here on the link is full: what is missing is the sawtooth of a window.
pub(crate) const FULL: f64 = 0.92;

/// BBR gives up to a tenth of its time to finding the shortest round trip and probing.
const FULL_OF_BBR: f64 = 0.85;

/// Below this it is not. Between the two a loss that keeps the rest from being used and a link that gives
/// most are both true, unless nothing was lost.
const FREE: f64 = 0.75;

/// A link that was full for more of the run than this was one of two causes, whatever held it afterwards:
/// slow start fills a queue that takes seconds to drain at 5 Mbit/s, and the verdict is of the whole run. The
/// share from which it names a limit, less what looks four times a second leave out where the link begins and
/// ceases to be full: half a stretch at either end of a run of 3.5 s at least.
const QUARTER: f64 = 0.25 - 0.05;

/// The least that makes the link one of two causes with a queue that comes and goes, and a full window the
/// only one.
const HALF: f64 = 0.5;

/// Whether the emulator was too late for any truth: this machine's doing, not the lab's.
pub(crate) fn is_late(cell: Cell, facts: &Facts) -> bool {
    too_late(Duration::from_secs_f64(facts.late_ms / 1000.0), cell.rtt())
}

/// The truth of a run, or why it is void.
pub(crate) fn truth(plan: &Plan, programs: Programs, facts: &Facts) -> Result<Truth, String> {
    demand(facts.looks > 0.0, "no connection was seen".to_owned())?;
    demand(!is_late(plan.cell, facts), format!("the emulated path was {:.2} ms late", facts.late_ms))?;
    let plain = programs == Programs::Plain;
    match plan.cell.cause {
        Cause::HealthyLink | Cause::RandomLoss | Cause::BurstLoss | Cause::Policer | Cause::ShallowQueue => {
            return path_truth(plan, facts);
        }
        Cause::LargeAnswers => return turns(facts),
        _ => below_the_link(facts)?,
    }
    match plan.cell.cause {
        Cause::SendBuffer => send_buffer(facts),
        Cause::ReceiveBuffer => receive_buffer(facts),
        Cause::SleepingReader if plain => unread(facts, Truth::SleepingReader),
        Cause::SleepingReader => consumed(facts),
        Cause::DiskReader => {
            let least = if plain { 0.4 } else { 0.0 };
            at_least("the reader was in its disk", facts.receiver_in_disk, least)?;
            // A window that stays open holds no sender: then the late acknowledgements of an unread receiver
            // do, in part.
            at_least("the peer's window was full", facts.window_full, 0.1)?;
            // A window that was full for less than half of the time, and packets that were lost beside it: no
            // counter tells whose the rest was.
            let mixed = facts.dropped > 0.0 && facts.window_full < HALF;
            unread(facts, if mixed { Truth::DiskReaderAndLoss } else { Truth::DiskReader })
        }
        Cause::ApplicationLimited | Cause::ConnectionCap => {
            at_most("the writer was held by its socket", facts.sender_in_socket, 0.2)?;
            let capped = plan.cell.cause == Cause::ConnectionCap;
            Ok(if capped { Truth::ConnectionCap } else { Truth::SlowApplication })
        }
        Cause::SlowFirstByte | Cause::SmallRequests => asked(plan, facts),
        Cause::FullCoreReceiver => {
            at_least("the thread ran", facts.receiver_cpu, 0.8)?;
            Ok(Truth::ReceiverCore)
        }
        Cause::FullCoreSender => {
            at_least("the thread ran", facts.sender_cpu, 0.8)?;
            Ok(Truth::SenderCore)
        }
        Cause::LargeAnswers => turns(facts),
        Cause::HealthyLink | Cause::RandomLoss | Cause::BurstLoss | Cause::Policer | Cause::ShallowQueue => {
            path_truth(plan, facts)
        }
    }
}

/// Answers one after another: the link is idle between them, or it is full.
fn turns(facts: &Facts) -> Result<Truth, String> {
    demand(facts.answers >= 3.0, format!("only {} answers", facts.answers))?;
    let lost = facts.dropped_in_all;
    demand(lost == 0.0, format!("{lost} packets were lost: loss is a cause as well"))?;
    Ok(match facts.used {
        FULL.. => Truth::FullLink,
        FREE.. => Truth::TurnsAndLink,
        _ if facts.link_full > QUARTER => Truth::TurnsAndLink,
        _ => Truth::Turns,
    })
}

/// Full, held by loss, or something of both.
fn path_truth(plan: &Plan, facts: &Facts) -> Result<Truth, String> {
    let used = facts.used;
    let percent = 100.0 * used;
    // A sender that does not heed loss fills what there is, whatever it costs.
    let bbr = plan.cell.congestion == Congestion::Bbr;
    match used {
        _ if used >= if bbr { FULL_OF_BBR } else { FULL } => Ok(Truth::FullLink),
        // What slow start lost, a window may take the whole run to make good.
        _ if facts.dropped_in_all == 0.0 => {
            Err(format!("the link was {percent:.0} % full, nothing was lost"))
        }
        _ if used >= FREE || (used >= HALF && queued(plan, facts)) => Ok(Truth::LossAndLink),
        _ if facts.link_full > QUARTER => Ok(Truth::LossAndLink),
        // What kept it from the rest is its own probing.
        _ if bbr => Err(format!("bbr left the link {percent:.0} % full")),
        _ => Ok(Truth::LossBound),
    }
}

/// The mean round trip shows a queue at the link, beyond the few packets of a burst: it was full for part of
/// the time.
fn queued(plan: &Plan, facts: &Facts) -> bool {
    let packets_ms = 3.0 * 1500.0 / plan.cell.rate().0 * 1000.0;
    facts.rtt_ms >= 1.25 * plan.cell.round_trip as f64 + 2.0 + packets_ms
}

fn send_buffer(facts: &Facts) -> Result<Truth, String> {
    at_least("the send buffer was full", facts.send_buffer_full, 0.5)?;
    // Any bulk sender fills its buffer; this one must have most of it in flight. What bbr paces waits a
    // moment.
    at_most("of the buffer's bytes were unsent", facts.unsent_share, 0.35)?;
    Ok(Truth::SendBuffer)
}

fn receive_buffer(facts: &Facts) -> Result<Truth, String> {
    at_least("the peer's window was full", facts.window_full, 0.5)?;
    at_most("data lay unread", facts.unread, 0.3)?;
    Ok(Truth::ReceiveWindow)
}

fn unread(facts: &Facts, truth: Truth) -> Result<Truth, String> {
    at_least("data lay unread", facts.unread, 0.4)?;
    Ok(truth)
}

/// A consumer behind `weir get` that takes its part of the link, while the link carries no more than that:
/// whatever the socket holds, nothing else stands at that very rate.
fn consumed(facts: &Facts) -> Result<Truth, String> {
    // Headers add 4 %; buffers that fill or empty in the meantime account for the rest.
    at_least("the link was used", facts.used, 0.8 * BIND)?;
    at_most("the link was used", facts.used, 1.3 * BIND)?;
    Ok(Truth::SleepingReader)
}

/// Requests one after another: the pause, or the round trip, must take most of the time.
fn asked(plan: &Plan, facts: &Facts) -> Result<Truth, String> {
    demand(facts.answers >= 3.0, format!("only {} answers", facts.answers))?;
    let each = facts.asking / facts.answers;
    let rtt = plan.cell.rtt().as_secs_f64();
    match plan.writer {
        Writer::Answers { pause, .. } if !pause.is_zero() => {
            at_least("pauses took", pause.as_secs_f64() / each, 0.6)?;
            Ok(Truth::SlowAnswer)
        }
        _ => {
            // Two round trips, since a wake-up on each end costs what a short round trip does.
            demand(each <= 2.0 * rtt + 0.001, format!("an answer took {:.1} round trips", each / rtt))?;
            Ok(Truth::RoundTrips)
        }
    }
}

fn below_the_link(facts: &Facts) -> Result<(), String> {
    at_most("the link was used", facts.used, FREE)
}

fn at_least(what: &str, share: f64, least: f64) -> Result<(), String> {
    demand(share >= least, format!("{what} {:.0} %, less than {:.0}", 100.0 * share, 100.0 * least))
}

fn at_most(what: &str, share: f64, most: f64) -> Result<(), String> {
    demand(share <= most, format!("{what} {:.0} %, more than {:.0}", 100.0 * share, 100.0 * most))
}

fn demand(holds: bool, otherwise: String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;

    fn label(cause: Cause, congestion: Congestion, facts: Facts) -> Result<Truth, String> {
        let plan = Plan::of(Cell { cause, congestion, round_trip: 20, mbit: 40 }).unwrap();
        truth(&plan, Programs::Plain, &Facts { looks: 100.0, rtt_ms: 20.0, ..facts })
    }

    #[test]
    fn a_policer_that_is_filled_is_a_full_link_and_one_that_is_not_is_loss() {
        let of = |used| Facts { used, dropped_in_all: 9.0, ..Facts::default() };
        assert_eq!(label(Cause::Policer, Congestion::Cubic, of(0.95)), Ok(Truth::FullLink));
        assert_eq!(label(Cause::Policer, Congestion::Cubic, of(0.85)), Ok(Truth::LossAndLink));
        assert_eq!(label(Cause::Policer, Congestion::Cubic, of(0.30)), Ok(Truth::LossBound));
        assert_eq!(label(Cause::Policer, Congestion::Bbr, of(0.86)), Ok(Truth::FullLink));
        assert!(label(Cause::Policer, Congestion::Bbr, of(0.30)).is_err());
    }

    #[test]
    fn a_link_that_was_full_for_part_of_the_run_is_one_of_two_causes() {
        let of = |link_full| {
            let facts = Facts { used: 0.4, link_full, dropped_in_all: 9.0, ..Facts::default() };
            label(Cause::BurstLoss, Congestion::Reno, facts)
        };
        assert_eq!((of(0.15), of(0.3)), (Ok(Truth::LossBound), Ok(Truth::LossAndLink)));
    }

    #[test]
    fn a_buffer_that_was_set_but_does_not_bind_is_void() {
        let facts = Facts { used: 0.4, send_buffer_full: 1.0, unsent_share: 0.9, ..Facts::default() };
        assert!(label(Cause::SendBuffer, Congestion::Cubic, facts).is_err());
        let facts = Facts { unsent_share: 0.0, ..facts };
        assert_eq!(label(Cause::SendBuffer, Congestion::Cubic, facts), Ok(Truth::SendBuffer));
        let facts = Facts { used: 0.9, ..facts };
        assert!(label(Cause::SendBuffer, Congestion::Cubic, facts).is_err());
    }

    #[test]
    fn a_reader_with_nothing_unread_is_void() {
        let facts = Facts { used: 0.4, unread: 0.1, ..Facts::default() };
        assert!(label(Cause::SleepingReader, Congestion::Reno, facts).is_err());
        let facts = Facts { unread: 0.9, ..facts };
        assert_eq!(label(Cause::SleepingReader, Congestion::Reno, facts), Ok(Truth::SleepingReader));
    }
}
