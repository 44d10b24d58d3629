//! Is the sender held at a rate that someone set: its own limit, or a pacing of its socket
//! (SO_MAX_PACING_RATE)?
//!
//! Convicts when weir's own sender slept for its limit (`bench net -b`), or because the store asked it to
//! wait (503, 429), as [`super::super::rate_limit`] does of a receiver; or when an upload's connections are
//! taken at one rate whatever their number ([`per_connection`]); else when all of these hold:
//! 1. a largest pacing rate is set on the socket, and the kernel paces at it (95 %);
//! 2. data wait unsent, and acknowledgements come at 85 % of it or more: headers and whole segments take the
//!    rest.
//!
//! Acquits: no such rate, or one that is not reached. An application that counts bytes and sleeps (a server's
//! limit per connection) is no socket's limit: from here it has nothing to send, which [`super::application`]
//! says.
//!
//! Can be wrong: a link of just that rate; a store that spends one slow thread on each connection takes equal
//! rates too.

use super::flow::{Flow, by_flow};
use super::reader;
use crate::evidence::Interval;
use crate::rule::rate_limit::{one_rate, own_limiter, server_said_wait};
use crate::rule::{Context, Judgement};
use crate::words::rate;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let told = own_limiter(interval, context)
        .or_else(|| server_said_wait(interval, context))
        .or_else(|| per_connection(interval, context));
    told.unwrap_or_else(|| by_flow(interval, context, judge_flow))
}

/// The store takes each connection of an upload at one rate: a trial's goodput grew with the lanes, they
/// carry equal rates, that of the trial, and each is held by the store, which does not read in time
/// ([`reader`]): what holds one by one and is no window, path or thread of this end is a rate that was set.
fn per_connection(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    if !context.facts.uploads {
        return None;
    }
    let each = one_rate(interval, context).ok()?;
    match reader::judge(interval, context) {
        Judgement::Convict { evidence, .. } => Some(Judgement::convict(
            0.9,
            format!("the store takes {} of each connection whatever their number: {evidence}", rate(each)),
        )),
        _ => None,
    }
}

fn judge_flow(flow: &Flow<'_>) -> Judgement {
    let Some(cap) = flow.seen.max_pacing_rate.filter(|cap| *cap > 0.0 && cap.is_finite()) else {
        return Judgement::acquit("no pacing rate is set on the socket");
    };
    let paced = flow.seen.pacing_rate.is_some_and(|pace| pace >= 0.95 * cap);
    let numbers = format!("{} of a pacing rate of {} set on the socket", rate(flow.rate()), rate(cap));
    if paced && flow.data_wait() && flow.rate() >= 0.85 * cap {
        Judgement::convict(0.95, format!("{numbers}, {}", flow.unsent_in_words()))
    } else {
        Judgement::acquit(numbers)
    }
}
