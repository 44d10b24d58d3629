//! The numbers of a load test in words.

use super::figures::Figures;
use super::{Acks, Use};
use crate::words::{percent, seconds};
use weir_units::counted;

/// A number of requests, to the digits that mean something.
pub(super) fn short(number: f64) -> String {
    if number < 100.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// ` and waited 30 % of it for a processor`, where it did.
pub(super) fn waited(thread: &Use) -> String {
    match thread.waiting() {
        waiting if waiting < 0.05 => String::new(),
        waiting => format!(" and waited {} of it for a processor", percent(waiting)),
    }
}

/// Little's law of this run: `10 connections, each waiting 20.4 ms for its answer, can ask no more than 490
/// times a second`.
pub(super) fn little(figures: &Figures<'_>) -> String {
    let seen = figures.seen;
    let streams = seen.streams.max(1);
    let each = if streams > 1 { format!(" of {streams} streams") } else { String::new() };
    let latency = seen.latency.as_secs_f64();
    format!(
        "{}{each}, each waiting {} for its answer, can ask no more than {} times a second",
        counted(seen.connections.into(), "connection"),
        seconds(latency),
        short(figures.places() / latency.max(1e-9))
    )
}

/// Where connecting took the time.
pub(super) fn connecting(figures: &Figures<'_>) -> String {
    let (time, made) = (&figures.seen.time, figures.seen.connects.made);
    let each = time.connecting.as_secs_f64() / made.max(1) as f64;
    let (client, server) = (figures.client.busy(), figures.server().map(|server| server.busiest.busy()));
    let server = server.map_or_else(String::new, |busy| format!(", the server's thread {}", percent(busy)));
    format!(
        "{} for {}, {} each, took {} of the connections' time; weir's loop was busy {} of the time{server}",
        counted(made, "connection"),
        counted(figures.seen.requests, "request"),
        seconds(each),
        percent(time.share(time.connecting)),
        percent(client)
    )
}

/// What stood still.
pub(super) fn paused(figures: &Figures<'_>) -> String {
    let (time, connects) = (&figures.seen.time, &figures.seen.connects);
    let still = time.share(time.still);
    let failed = time.share(time.failed + time.resting);
    let mut text = if still >= failed {
        format!("nothing came for {} of the connections' time, far longer than answers take", percent(still))
    } else {
        format!(
            "requests that failed, and the pauses after them, took {} of the connections' time",
            percent(failed)
        )
    };
    if connects.refused > 0 {
        text.push_str(&format!(
            "; {} refused: no server listened there",
            counted(connects.refused, "connection")
        ));
    }
    if let Some(server) = figures.server().filter(|server| !server.halted.is_zero()) {
        let halted = seconds(server.halted.as_secs_f64());
        text.push_str(&format!("; {} was stopped or gone for {halted}", server.name));
    }
    text
}

/// The experiment's outcome.
pub(super) fn acks(seen: &Acks) -> String {
    let (plain, hastened) = (&seen.plain, &seen.hastened);
    format!(
        "the rest of an answer came {} after its first piece, and {} after it where that was acknowledged \
         at once ({} times): the server \
         sends in two small writes with Nagle's algorithm, and waits for an acknowledgement that TCP delays \
         here",
        seconds(plain.mean()),
        seconds(hastened.mean()),
        hastened.count
    )
}
