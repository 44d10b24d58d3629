//! What really limited a run? Asserted from the facts, so that no label rests on what was merely set up.
//!
//! A cause that did not bind makes the run void, with the reason: it counts neither for nor against the judge.

use std::time::Duration;

use crate::cell::{Cause, Congestion};
use crate::expect::Truth;
use crate::plan::{BIND, Plan, Writer};
use crate::settled::Settled;
use crate::traffic::Account;

/// From here on the link is full: what is missing is the sawtooth of a window.
const FULL: f64 = 0.92;

/// BBR gives up to a tenth of its time to finding the shortest round trip and probing.
const FULL_OF_BBR: f64 = 0.85;

/// Below this it is not. Between the two a loss that keeps the rest from being used and a link that gives most are both
/// true, unless nothing was lost.
const FREE: f64 = 0.75;

/// What the applications of a run did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    /// Share of its life that the first sending thread spent in socket calls.
    pub(crate) sender_in_socket: f64,
    /// And on its processor.
    pub(crate) sender_cpu: f64,
    /// Share of its life that the first receiving thread spent on its processor.
    pub(crate) receiver_cpu: f64,
    /// And in writes to its disk.
    pub(crate) receiver_in_disk: f64,
    /// Answers that the client read.
    pub(crate) answers: u32,
    /// How long it asked for.
    pub(crate) asking: Duration,
}

impl Done {
    /// Of the first connection's threads; answers of all.
    pub(crate) fn of(accounts: &[Account]) -> Done {
        let mut done = Done::default();
        let part = |span: Duration, of: Duration| span.as_secs_f64() / of.as_secs_f64().max(1e-9);
        for account in accounts.iter().rev() {
            let cpu = part(account.cpu, account.wall);
            if account.receives {
                done.receiver_cpu = cpu;
                done.receiver_in_disk = part(account.in_disk, account.wall);
                done.answers += account.answers;
                done.asking = account.wall;
            } else {
                done.sender_cpu = cpu;
                done.sender_in_socket = part(account.in_socket, account.wall);
            }
        }
        done
    }
}

/// The truth of a run between two plain programs.
pub(crate) fn truth(plan: &Plan, settled: &Settled, done: &Done) -> Result<Truth, String> {
    let part = |share: f64| format!("{:.0} %", 100.0 * share);
    let core = |cpu: f64, truth: Truth| {
        demand(cpu >= 0.8, format!("the thread ran only {} of the time", part(cpu)))?;
        below_the_link(plan, settled)?;
        Ok(truth)
    };
    match plan.cell.cause {
        Cause::FullCoreReceiver => core(done.receiver_cpu, Truth::ReceiverCore),
        Cause::FullCoreSender => core(done.sender_cpu, Truth::SenderCore),
        Cause::DiskReader => {
            let disk = done.receiver_in_disk;
            demand(disk >= 0.4, format!("the reader was in its disk only {} of the time", part(disk)))?;
            shared_truth(plan, settled)
        }
        Cause::ApplicationLimited | Cause::ConnectionCap => {
            let blocked = done.sender_in_socket;
            demand(
                blocked <= 0.2,
                format!("the writer was held by its socket {} of the time", part(blocked)),
            )?;
            shared_truth(plan, settled)
        }
        Cause::SlowFirstByte | Cause::SmallRequests => asked(plan, settled, done.answers, done.asking),
        _ => shared_truth(plan, settled),
    }
}

/// Requests one after another: the pause, or the round trip, must take most of the time.
pub(crate) fn asked(plan: &Plan, settled: &Settled, answers: u32, asking: Duration) -> Result<Truth, String> {
    demand(answers >= 3, format!("only {answers} answers"))?;
    below_the_link(plan, settled)?;
    let each = asking / answers;
    match plan.writer {
        Writer::Answers { pause, .. } if !pause.is_zero() => {
            demand(pause >= each.mul_f64(0.6), format!("an answer took {each:?}, its pause {pause:?}"))?;
            Ok(Truth::SlowAnswer)
        }
        _ => {
            // Two round trips, since a wake-up on each end costs what a short round trip does.
            let most = 2 * plan.cell.rtt() + Duration::from_millis(1);
            demand(each <= most, format!("an answer took {each:?}, more than two round trips"))?;
            Ok(Truth::RoundTrips)
        }
    }
}

/// A consumer behind `weir get` that takes its part of the link, while the link carries no more than that: whatever the
/// socket holds, nothing else stands at that very rate.
pub(crate) fn consumed(plan: &Plan, settled: &Settled) -> Result<Truth, String> {
    let used = used(plan, settled);
    // Headers add 4 %; buffers that fill or empty in the meantime account for the rest.
    demand((0.8 * BIND..1.3 * BIND).contains(&used), format!("the link carried {:.0} %", 100.0 * used))?;
    Ok(Truth::SleepingReader)
}

/// The truths that the link and the sockets show, whoever the programs are.
pub(crate) fn shared_truth(plan: &Plan, settled: &Settled) -> Result<Truth, String> {
    demand(settled.looks > 0, "no connection was seen".to_owned())?;
    match plan.cell.cause {
        Cause::HealthyLink | Cause::RandomLoss | Cause::BurstLoss | Cause::Policer | Cause::ShallowQueue => {
            path_truth(plan, settled)
        }
        Cause::SendBuffer => {
            mostly(settled, settled.send_buffer_full, "the send buffer was full")?;
            // Any bulk sender fills its buffer; this one must have all of it in flight.
            mostly(settled, settled.nothing_unsent, "nothing was unsent")?;
            below_the_link(plan, settled)?;
            Ok(Truth::SendBuffer)
        }
        Cause::ReceiveBuffer => {
            mostly(settled, settled.window_full, "the peer's window was full")?;
            let unread = settled.share(settled.unread);
            demand(unread <= 0.3, format!("data lay unread at {:.0} % of the looks", 100.0 * unread))?;
            below_the_link(plan, settled)?;
            Ok(Truth::ReceiveWindow)
        }
        Cause::SleepingReader | Cause::DiskReader => {
            let unread = settled.share(settled.unread);
            demand(unread >= 0.4, format!("data lay unread at only {:.0} % of the looks", 100.0 * unread))?;
            below_the_link(plan, settled)?;
            Ok(if plan.cell.cause == Cause::DiskReader { Truth::DiskReader } else { Truth::SleepingReader })
        }
        Cause::ApplicationLimited => {
            below_the_link(plan, settled)?;
            Ok(Truth::SlowApplication)
        }
        Cause::ConnectionCap => {
            below_the_link(plan, settled)?;
            Ok(Truth::ConnectionCap)
        }
        cause => Err(format!("{} cannot be told from outside", cause.name())),
    }
}

/// Full, held by loss, or something of both.
fn path_truth(plan: &Plan, settled: &Settled) -> Result<Truth, String> {
    let used = used(plan, settled);
    // A sender that does not heed loss fills what there is whatever it costs.
    let full = if plan.cell.congestion == Congestion::Bbr { FULL_OF_BBR } else { FULL };
    match used {
        _ if used >= full => Ok(Truth::FullLink),
        // What slow start lost, a window may take the whole run to make good.
        _ if settled.dropped_in_all == 0 => {
            Err(format!("the link was only {:.0} % full, and nothing was lost", 100.0 * used))
        }
        _ if used >= FREE || queued(plan, settled) => Ok(Truth::LossAndLink),
        _ => Ok(Truth::LossBound),
    }
}

/// The mean round trip shows a queue at the link: it was full for part of the time.
fn queued(plan: &Plan, settled: &Settled) -> bool {
    settled.rtt() >= 1.25 * plan.cell.rtt().as_secs_f64() + 0.002
}

/// The part of the link's (or policer's) rate that was carried.
pub(crate) fn used(plan: &Plan, settled: &Settled) -> f64 {
    settled.rate() / plan.cell.rate().0
}

fn below_the_link(plan: &Plan, settled: &Settled) -> Result<(), String> {
    let used = used(plan, settled);
    demand(used <= FREE, format!("the link was {:.0} % full", 100.0 * used))
}

fn mostly(settled: &Settled, looks: u32, what: &str) -> Result<(), String> {
    let share = settled.share(looks);
    demand(share >= 0.5, format!("{what} at only {:.0} % of the looks", 100.0 * share))
}

fn demand(holds: bool, otherwise: String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise) }
}
