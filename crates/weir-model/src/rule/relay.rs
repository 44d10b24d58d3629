//! Is it another flow, another process or a file that a program in the middle waits for?
//!
//! A relay takes bytes in on one connection or pipe and hands them on by another. Its own sockets then show
//! what the other side does, so the limit is that flow's, that process' or that device's, and is named.
//!
//! `upstream` is convicted when one of these holds:
//! 1. in half of the samples or more the program owed one peer an answer while it waited for another's
//!    ([`crate::around::Around::chained`]);
//! 2. it carries about as many bytes in as out (within a factor of two over two seconds, so that a codec or
//!    TLS in between does not matter), the connection out has nothing to send in 70 % of samples and no full
//!    buffer, nothing lies unread on the one in, and the program neither sleeps by its own will nor owes an
//!    answer without waiting for one;
//! 3. its connections have nothing to send while it reads from an empty pipe, or polls and the writer of its
//!    pipe is at work (half of a core, or reading a file), and that writer was not found waiting for room in
//!    the pipe. Where it was found in such a read and nobody is known to write there (a named pipe, another
//!    user's process, a local socket, or its own threads), that is not known; nor where a part of the program
//!    itself writes there, which has a name of its own if anything shows what holds it.
//!
//! Of several neighbours it is the one at whose pipe the program was found waiting
//! ([`crate::around::Around::at_pipe`]); where that one waits for the next process of the chain, the evidence
//! says so.
//!
//! `downstream` is convicted when one of these holds:
//! 1. as (2), but the connection out has data unsent, or a full buffer, in half of the samples or more; where
//!    nothing moved for so long that there is nothing to compare, data must lie unread on the one in;
//! 2. it is held by waiting for the reader of its pipe (see `Spent::held_by`), and the process that reads is
//!    known; where it is not, that cannot be told;
//! 3. in half of the samples or more it owed an answer, or no socket owed anything, while a thread waited for
//!    a file to be on its disk (fsync).
//!
//! Cannot tell (`upstream`) where a local socket leads to another process, and the thread may wait for that
//! one, in a poll or in a read from it, while it owes an answer or has nothing to send.
//!
//! Both give way where a thread of the program fills a core. Acquits: no second flow, pipe or sync was seen
//! at work.
//!
//! Can be wrong: a program that happens to receive as much from one peer as it sends to another is no relay;
//! on (3) of `upstream`, a program may be fed by its pipe and yet wait for something else.

use super::spent::spent;
use super::{Context, Judgement, cpu_core, found, is_peers, judge, sender};
use crate::around::{FlowName, Neighbour};
use crate::evidence::{Evidence, Interval, LaneInterval, Reading, ThreadInterval};
use crate::limit::Limit;
use crate::sender::SenderInterval;
use crate::words::{percent, rate};

/// Seconds each way over which what goes in and what comes out are compared: a proxy's buffers hold less than
/// that.
const REACH: f64 = 1.0;

/// Less than this in both directions is talk beside a transfer, not a relay's bytes.
const LEAST: u64 = 16 << 10;

/// The judgement of one interval: does it wait for what feeds it?
pub fn upstream(interval: &Interval, context: &Context<'_>) -> Judgement {
    if let Some(full) = full_core(interval, context) {
        return Judgement::acquit(full);
    }
    let judged = chained(interval, context)
        .or_else(|| Relay::of(interval, context).and_then(|relay| relay.upstream(interval, context)))
        .or_else(|| fed_by_pipe(interval, context));
    judged.unwrap_or_else(|| match may_wait_locally(interval, context) {
        true => Judgement::unknown(format!("what comes by {LOCAL}")),
        false => Judgement::acquit("it waited for no other flow and no writer of a pipe"),
    })
}

/// Of what is not seen there.
pub(crate) const LOCAL: &str = "its local sockets, one of which leads to another process";

/// It may wait for another process to which a local socket leads: it polls, reads there or is not seen, while
/// it owes an answer or has nothing to send.
pub(crate) fn may_wait_locally(interval: &Interval, context: &Context<'_>) -> bool {
    let around = &interval.around;
    let owes = around.share(around.owing) >= 0.3;
    let waits = |thread: &ThreadInterval| {
        let waits = thread.found.polling.saturating_add(thread.found.pipe_empty);
        thread.looks == 0 || thread.share(waits) >= 0.5
    };
    let is_held = |lane: &LaneInterval| {
        owes || (lane.sender.value().is_some_and(|seen| !holds(seen, lane))
            && !is_peers(lane, interval, context))
    };
    around.share(around.local) >= 0.3
        && interval.lanes.iter().any(|lane| lane.thread.value().is_none_or(waits) && is_held(lane))
}

/// The judgement of one interval: does it wait for what it feeds?
pub fn downstream(interval: &Interval, context: &Context<'_>) -> Judgement {
    if let Some(full) = full_core(interval, context) {
        return Judgement::acquit(full);
    }
    let judged = Relay::of(interval, context)
        .and_then(|relay| relay.downstream(interval, context))
        .or_else(|| into_pipe(interval, context))
        .or_else(|| syncing(interval));
    judged
        .unwrap_or_else(|| Judgement::acquit("it waited for no other flow, no reader of a pipe and no sync"))
}

/// A thread of the program that fills a core is the limit itself.
fn full_core(interval: &Interval, context: &Context<'_>) -> Option<String> {
    let judged = [cpu_core::judge(interval, context), sender::cpu_core::judge(interval, context)];
    judged.into_iter().find_map(|judged| match judged {
        Judgement::Convict { evidence, .. } => Some(format!("its own thread is the limit: {evidence}")),
        _ => None,
    })
}

fn chained(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let around = &interval.around;
    let share = around.share(around.chained);
    if share < 0.5 {
        return None;
    }
    let to = around.flows.iter().find(|flow| Some(flow.lane) == around.chained_to);
    let peer = to.map_or("another peer", |flow| flow.peer.as_str());
    let (_, own) = to.map(|flow| own_limit(flow, interval, context)).unwrap_or_default();
    let evidence = format!(
        "{} owed an answer while it waited for one from {peer} in {} of samples{own}",
        whose(to, context),
        percent(share)
    );
    Some(Judgement::convict(0.6 + 0.37 * share, evidence))
}

/// A program that hands on what it gets: the busiest connection in, and the busiest out.
struct Relay<'a> {
    into: &'a FlowName,
    out: &'a FlowName,
    lane_in: &'a LaneInterval,
    lane_out: &'a LaneInterval,
}

impl<'a> Relay<'a> {
    fn of(interval: &'a Interval, context: &Context<'_>) -> Option<Relay<'a>> {
        let near = || context.around(interval, REACH);
        let moved = |flow: &FlowName| -> u64 {
            let lanes = near().flat_map(|interval| &interval.lanes).filter(|lane| lane.lane == flow.lane);
            lanes.map(|lane| carried(lane, flow.sends)).fold(0, u64::saturating_add)
        };
        let lane = |flow: &FlowName| interval.lanes.iter().find(|lane| lane.lane == flow.lane);
        let stands = |flow: &FlowName| match lane(flow) {
            Some(lane) if flow.sends => lane.sender.value().is_some_and(|out| holds(out, lane)),
            Some(lane) => unread(lane),
            None => false,
        };
        // Of several that moved nothing the one that stands still though it has something to move.
        let busiest = |sends: bool| {
            let flows = interval.around.flows.iter().filter(move |flow| flow.sends == sends);
            let flows = flows.map(|flow| (moved(flow), stands(flow), flow));
            flows.max_by_key(|(bytes, stands, _)| (*bytes, *stands))
        };
        let ((bytes_in, in_stands, into), (bytes_out, out_stands, out)) = (busiest(false)?, busiest(true)?);
        let (lane_in, lane_out) = (lane(into)?, lane(out)?);
        // What fills the buffer of the connection out has come in, and is on its way.
        let on_its_way = lane_out.sender.value().map_or(0, |seen| seen.unsent.saturating_mul(2));
        let alike = bytes_in <= bytes_out.saturating_mul(2).saturating_add(on_its_way)
            && bytes_out <= bytes_in.saturating_mul(2);
        let moves = alike && bytes_in.min(bytes_out) >= LEAST;
        let is_stuck = in_stands && out_stands && bytes_in.max(bytes_out) < LEAST;
        (into.process == out.process && (moves || is_stuck)).then_some(Relay { into, out, lane_in, lane_out })
    }

    fn upstream(&self, interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
        let out = self.lane_out.sender.value()?;
        let starves = 10 * u64::from(out.nothing_unsent) >= 7 * u64::from(out.looks.max(1));
        if !starves || holds(out, self.lane_out) || unread(self.lane_in) || self.rests(interval) {
            return None;
        }
        let (sure, own) = own_limit(self.into, interval, context);
        let evidence = format!(
            "{} hands on what comes from {}, and its connection to {} had nothing to send in {} of samples{}",
            whose(Some(self.into), context),
            self.into.peer,
            self.out.peer,
            percent(f64::from(out.nothing_unsent) / f64::from(out.looks.max(1))),
            own
        );
        Some(Judgement::convict(if sure { 0.95 } else { 0.9 }, evidence))
    }

    /// It does not wait for what comes: it owes an answer and is asked nothing of others, or sleeps by its
    /// own will.
    fn rests(&self, interval: &Interval) -> bool {
        let around = &interval.around;
        let sleeps = |thread: &ThreadInterval| thread.share(thread.found.sleeping) >= 0.5;
        let thread = self.lane_in.thread.value().or(self.lane_out.thread.value());
        around.share(around.owing.saturating_add(around.rest.sleeping)) >= 0.5 || thread.is_some_and(sleeps)
    }

    fn downstream(&self, interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
        let out = self.lane_out.sender.value()?;
        if !holds(out, self.lane_out) {
            return None;
        }
        let (sure, own) = own_limit(self.out, interval, context);
        let evidence = format!(
            "{} hands on to {} what comes from {}, and that connection was full: {} with data unsent in {} of samples{}",
            whose(Some(self.out), context),
            self.out.peer,
            self.into.peer,
            rate(out.acked as f64 / interval.span.as_secs_f64().max(1e-3)),
            percent(1.0 - f64::from(out.nothing_unsent) / f64::from(out.looks.max(1))),
            own
        );
        Some(Judgement::convict(if sure { 0.97 } else { 0.85 }, evidence))
    }
}

/// The bytes that a connection carried that way. A server's takes a question in and sends the answer out: of
/// the same lane both are counted as what it carried.
fn carried(lane: &LaneInterval, out: bool) -> u64 {
    match (&lane.sender, out) {
        (Reading::Value(seen), true) => seen.acked,
        (Reading::Value(_), false) if lane.tcp.is_missing() => 0,
        (_, false) => lane.received,
        (Reading::Missing(_), true) => 0,
    }
}

/// The connection out holds its writer: data wait unsent, its buffer is full, or the thread sleeps in a write
/// to it.
fn holds(out: &SenderInterval, lane: &LaneInterval) -> bool {
    let half = |samples: u32| out.looks > 0 && 2 * u64::from(samples) >= u64::from(out.looks);
    let sending =
        |thread: &ThreadInterval| thread.looks > 0 && thread.found.sending >= thread.looks.div_ceil(2);
    !half(out.nothing_unsent) || half(out.buffer_filled) || lane.thread.value().is_some_and(sending)
}

/// An eighth of the receive buffer lies unread: the kernel gives about half of a buffer to payload, so that
/// is a quarter of what fits.
fn unread(lane: &LaneInterval) -> bool {
    lane.tcp.value().is_some_and(|tcp| {
        let queue = tcp.receive_queue.unwrap_or(0);
        queue > 0 && tcp.receive_buffer.is_some_and(|buffer| queue.saturating_mul(8) >= buffer)
    })
}

/// What holds this connection when it is judged as if it were alone: whether that is known, and in words.
fn own_limit(flow: &FlowName, interval: &Interval, context: &Context<'_>) -> (bool, String) {
    let alone = |interval: &Interval| {
        let mine = interval.lanes.iter().filter(|lane| lane.lane == flow.lane);
        let lanes: Vec<LaneInterval> = mine.cloned().collect();
        let received = lanes.iter().map(|lane| lane.received).fold(0, u64::saturating_add);
        let (at, span, cpu) = (interval.at, interval.span, interval.cpu.clone());
        Interval { at, span, received, lanes, cpu, ..Interval::default() }
    };
    let mut before: Vec<Interval> = context.recent(2.0 * REACH).map(alone).collect();
    before.reverse();
    let at = before.len();
    let mut intervals = before;
    intervals.push(alone(interval));
    intervals.extend(context.following(2.0 * REACH).map(alone));
    let evidence = Evidence { intervals, facts: context.facts.clone(), ..Evidence::default() };
    let judged = judge::judge_interval(&evidence.intervals[at], &Context::at(&evidence, at));
    match judged.limit {
        _ if judged.strength <= 0.0 => (false, String::new()),
        Limit::SenderOrPath => (false, "; what holds that flow is not visible from here".to_owned()),
        limit => (true, format!("; that flow is held by {limit}: {}", judged.evidence)),
    }
}

fn whose<'a>(flow: Option<&'a FlowName>, context: &Context<'a>) -> &'a str {
    flow.and_then(|flow| flow.process.as_deref()).unwrap_or(context.who())
}

fn into_pipe(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let spent = spent(interval);
    if !spent.held_by(spent.output_wait) {
        return None;
    }
    let Some((reader, thread)) = interval.around.at_pipe(true) else {
        return Some(Judgement::unknown(
            "who takes its output: it waited at a pipe, or a local socket, whose reader was not found",
        ));
    };
    // A reader that waits for the pipe itself is not what holds it.
    if thread.share(thread.found.pipe_empty) >= 0.5 {
        return None;
    }
    let evidence = format!(
        "{} waited {} of the time for the reader of its pipe, {}",
        context.who(),
        percent(spent.output_wait),
        neighbour_in_words(reader, thread, interval)
    );
    Some(Judgement::convict(0.6 + 0.37 * spent.output_wait, evidence))
}

fn fed_by_pipe(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let (mut flows, mut starved, mut sure) = (0, 0, false);
    for lane in &interval.lanes {
        let Some(seen) = lane.sender.value().filter(|seen| seen.looks > 0) else { continue };
        flows += 1;
        let Some(thread) = lane.thread.value().filter(|_| !holds(seen, lane)) else { continue };
        let reads = thread.share(thread.found.pipe_empty) >= 0.5;
        starved += u32::from(reads || thread.share(thread.found.polling) >= 0.5);
        sure |= reads;
    }
    if flows == 0 || 2 * starved < flows {
        return None;
    }
    // A poll may be for anything: only a writer that is at work is then what it waits for.
    let span = interval.span.as_secs_f64();
    let works = |writer: &ThreadInterval| {
        cpu_core::thread_load(writer, span).cpu >= 0.5 || writer.share(writer.found.reading_disk) >= 0.5
    };
    let Some((writer, thread)) = interval.around.at_pipe(false) else {
        // A named pipe, or one between its own threads.
        return sure.then(|| {
            Judgement::unknown(
                "who feeds it: it had nothing to send and waited at a pipe, or a local socket, whose writer was not found",
            )
        });
    };
    if thread.share(thread.found.pipe_full) >= 0.3 || !(sure || works(thread)) {
        return None;
    }
    if writer.inside {
        return Some(Judgement::unknown(format!(
            "what holds the part of the program that feeds its pipe, {}",
            neighbour_in_words(writer, thread, interval)
        )));
    }
    let evidence = format!(
        "{} had nothing to send: it is fed by a pipe from {}",
        context.who(),
        neighbour_in_words(writer, thread, interval)
    );
    Some(Judgement::convict(0.93, evidence))
}

/// `gzip (pid 7), which used 98 % of one core`.
fn neighbour_in_words(neighbour: &Neighbour, thread: &ThreadInterval, interval: &Interval) -> String {
    let name = thread.name.as_deref().unwrap_or("another process");
    let load = cpu_core::thread_load(thread, interval.span.as_secs_f64());
    let doing = found::doing(thread).filter(|_| load.cpu < 0.5).map(|doing| format!(" and was {doing}"));
    let link = if neighbour.waits_on() >= 0.5 { ": it is not the end of the chain" } else { "" };
    format!(
        "{name}, which used {} of one core{}{}{link}",
        percent(load.cpu),
        load.waits_in_words(),
        doing.unwrap_or_default()
    )
}

fn syncing(interval: &Interval) -> Option<Judgement> {
    let around = &interval.around;
    let sync = around.syncs.as_ref()?;
    let held = around.owing.saturating_add(around.rest.samples());
    let share = around.share(sync.samples.min(held));
    if share < 0.5 {
        return None;
    }
    let answer = if around.owing >= around.samples.div_ceil(2) { ", while it owed an answer" } else { "" };
    Some(Judgement::convict(0.6 + 0.37 * share, sync.in_words(share) + answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::{Around, Sync};
    use crate::evidence::{Clocks, Facts, Found, TcpInterval};
    use std::time::Duration;

    const SPAN: Duration = Duration::from_millis(100);

    /// A relay of 100 KB an interval. `full`: its connection out is; else it starves.
    fn relay(full: bool, in_bytes: u64) -> Interval {
        let tcp = TcpInterval {
            receive_queue: Some(if full { 400_000 } else { 0 }),
            receive_buffer: Some(600_000),
            ..TcpInterval::default()
        };
        let into = LaneInterval {
            lane: 1,
            received: in_bytes,
            socket_wait: if full { Duration::ZERO } else { SPAN },
            tcp: Reading::Value(tcp),
            ..LaneInterval::default()
        };
        let seen = SenderInterval {
            looks: 5,
            nothing_unsent: if full { 0 } else { 5 },
            buffer_filled: if full { 5 } else { 0 },
            acked: 100_000,
            unsent: if full { 200_000 } else { 0 },
            segment: 1448,
            ..SenderInterval::default()
        };
        let out = LaneInterval {
            lane: 2,
            received: 100_000,
            sender: Reading::Value(seen),
            ..LaneInterval::default()
        };
        let name = |lane, sends| FlowName {
            lane,
            sends,
            peer: format!("10.0.0.{lane}:80"),
            process: Some("socat (pid 7)".to_owned()),
        };
        let flows = vec![name(1, false), name(2, true)];
        let around = Around { samples: 5, busy: 5, flows, ..Around::default() };
        Interval {
            span: SPAN,
            received: in_bytes.max(100_000),
            lanes: vec![into, out],
            around,
            ..Interval::default()
        }
    }

    fn of(interval: Interval) -> Evidence {
        let facts = Facts { clocks: Clocks::Sampled, ..Facts::default() };
        Evidence { intervals: vec![interval; 10], facts, ..Evidence::default() }
    }

    #[test]
    fn the_side_that_holds_is_named_with_its_limit() {
        let evidence = of(relay(true, 100_000));
        let context = Context::at(&evidence, 5);
        let judged = downstream(&evidence.intervals[5], &context);
        let Judgement::Convict { evidence: words, .. } = judged else { panic!("{judged:?}") };
        assert!(
            words.starts_with("socat (pid 7) hands on to 10.0.0.2:80 what comes from 10.0.0.1:80"),
            "{words}"
        );
        assert!(upstream(&evidence.intervals[5], &context).acquits());

        let evidence = of(relay(false, 100_000));
        let context = Context::at(&evidence, 5);
        let judged = upstream(&evidence.intervals[5], &context);
        let Judgement::Convict { evidence: words, .. } = judged else { panic!("{judged:?}") };
        assert!(words.contains("nothing to send in 100 % of samples"), "{words}");
        assert!(downstream(&evidence.intervals[5], &context).acquits());
    }

    #[test]
    fn a_relay_that_stands_still_waits_for_a_connection_out_that_is_full() {
        let still = |full: bool| {
            let mut interval = relay(full, 0);
            (interval.received, interval.lanes[1].received) = (0, 0);
            if let Reading::Value(seen) = &mut interval.lanes[1].sender {
                seen.acked = 0;
            }
            Evidence { intervals: vec![interval; 20], ..of(relay(full, 0)) }
        };
        let evidence = still(true);
        let judged = downstream(&evidence.intervals[10], &Context::at(&evidence, 10));
        let Judgement::Convict { evidence: words, .. } = judged else { panic!("{judged:?}") };
        assert!(words.contains("that connection was full"), "{words}");
        let evidence = still(false);
        let context = Context::at(&evidence, 10);
        assert!(downstream(&evidence.intervals[10], &context).acquits(), "nothing is there to be handed on");
        assert!(upstream(&evidence.intervals[10], &context).acquits());
    }

    #[test]
    fn what_carries_unlike_amounts_is_no_relay() {
        let evidence = of(relay(true, 1_000_000));
        assert!(downstream(&evidence.intervals[5], &Context::at(&evidence, 5)).acquits());
    }

    #[test]
    fn an_answer_that_waits_for_another_is_upstreams() {
        let mut interval = relay(false, 0);
        interval.around.chained = 4;
        interval.around.chained_to = Some(1);
        let evidence = of(interval.clone());
        let judged = upstream(&interval, &Context::alone(&evidence));
        let Judgement::Convict { evidence: words, .. } = judged else { panic!("{judged:?}") };
        assert!(
            words.contains("owed an answer while it waited for one from 10.0.0.1:80 in 80 % of samples"),
            "{words}"
        );
        interval.around.chained = 2;
        assert!(upstream(&interval, &Context::alone(&of(relay(false, 0)))).acquits());
    }

    fn neighbour(reads: bool, cpu: f64, pipe_empty: u32) -> Neighbour {
        let thread = ThreadInterval {
            name: Some("gzip (pid 7)".to_owned()),
            cpu: SPAN.mul_f64(cpu),
            looks: 5,
            found: Found { pipe_empty, running: 5 - pipe_empty, ..Found::default() },
            ..ThreadInterval::default()
        };
        Neighbour { reads, thread: Reading::Value(thread), inside: false, waited_at: None }
    }

    #[test]
    fn the_reader_of_a_pipe_is_named_with_what_it_does() {
        let lane = LaneInterval { lane: 1, received: 9, output_wait: SPAN, ..LaneInterval::default() };
        let mut interval = Interval { span: SPAN, lanes: vec![lane], ..Interval::default() };
        interval.around =
            Around { samples: 5, busy: 5, pipes: vec![neighbour(true, 0.98, 0)], ..Around::default() };
        let evidence = of(interval.clone());
        let judged = downstream(&interval, &Context::alone(&evidence));
        let Judgement::Convict { evidence: words, .. } = judged else { panic!("{judged:?}") };
        assert!(
            words.ends_with("the reader of its pipe, gzip (pid 7), which used 98 % of one core"),
            "{words}"
        );
        interval.around.pipes = vec![neighbour(true, 0.01, 5)];
        assert!(downstream(&interval, &Context::alone(&evidence)).acquits(), "it waits for the pipe as well");
        // A named pipe: its reader may be what holds it.
        interval.around.pipes.clear();
        let judged = downstream(&interval, &Context::alone(&evidence));
        let Judgement::Unknown { missing } = judged else { panic!("nobody was seen there: {judged:?}") };
        assert!(missing.ends_with("whose reader was not found"), "{missing}");
    }

    #[test]
    fn a_neighbour_at_another_pipe_is_not_named() {
        let lane = LaneInterval { lane: 1, received: 9, output_wait: SPAN, ..LaneInterval::default() };
        let mut interval = Interval { span: SPAN, lanes: vec![lane], ..Interval::default() };
        let at = |waited_at, neighbour| Neighbour { waited_at: Some(waited_at), ..neighbour };
        let unseen = Neighbour { reads: true, ..Neighbour::default() };
        let pipes = vec![at(0, neighbour(true, 0.98, 0)), at(5, unseen)];
        interval.around = Around { samples: 5, busy: 5, pipes, ..Around::default() };
        let evidence = of(interval.clone());
        let judged = downstream(&interval, &Context::alone(&evidence));
        assert!(matches!(judged, Judgement::Unknown { .. }), "a named pipe: {judged:?}");
        interval.around.pipes.push(at(9, neighbour(true, 0.02, 0)));
        let judged = downstream(&interval, &Context::alone(&evidence));
        let Judgement::Convict { evidence: words, .. } = judged else { panic!("{judged:?}") };
        assert!(words.contains("which used 2 % of one core"), "{words}");
    }

    #[test]
    fn a_reader_that_waits_for_the_next_one_is_not_the_end_of_the_chain() {
        let lane = LaneInterval { lane: 1, received: 9, output_wait: SPAN, ..LaneInterval::default() };
        let mut interval = Interval { span: SPAN, lanes: vec![lane], ..Interval::default() };
        let thread = ThreadInterval {
            name: Some("tee (pid 7)".to_owned()),
            looks: 5,
            found: Found { pipe_full: 5, ..Found::default() },
            ..ThreadInterval::default()
        };
        let tee = Neighbour { reads: true, thread: Reading::Value(thread), ..Neighbour::default() };
        interval.around = Around { samples: 5, busy: 5, pipes: vec![tee], ..Around::default() };
        let evidence = of(interval.clone());
        let judged = downstream(&interval, &Context::alone(&evidence));
        let Judgement::Convict { evidence: words, .. } = judged else { panic!("{judged:?}") };
        assert!(words.ends_with("it is not the end of the chain"), "{words}");
    }

    #[test]
    fn the_writer_of_a_pipe_holds_a_sender_that_starves() {
        let mut interval = relay(false, 0);
        interval.around.flows.clear();
        let thread = ThreadInterval {
            looks: 5,
            found: Found { pipe_empty: 5, ..Found::default() },
            ..ThreadInterval::default()
        };
        interval.lanes[1].thread = Reading::Value(thread);
        interval.lanes.remove(0);
        interval.around.pipes = vec![neighbour(false, 0.98, 0)];
        let evidence = of(interval.clone());
        assert!(upstream(&interval, &Context::alone(&evidence)).convicts());
        // A part of the program has its own name, but is what it waits for.
        interval.around.pipes[0].inside = true;
        let judged = upstream(&interval, &Context::alone(&evidence));
        let Judgement::Unknown { missing } = judged else { panic!("its own part: {judged:?}") };
        assert!(missing.contains("feeds its pipe, gzip (pid 7)"), "{missing}");
        interval.around.pipes.clear();
        let judged = upstream(&interval, &Context::alone(&evidence));
        let Judgement::Unknown { missing } = judged else { panic!("a named pipe: {judged:?}") };
        assert!(missing.ends_with("whose writer was not found"), "{missing}");
        interval.lanes[0].thread = Reading::Value(ThreadInterval {
            looks: 5,
            found: Found { polling: 5, ..Found::default() },
            ..ThreadInterval::default()
        });
        assert!(
            upstream(&interval, &Context::alone(&evidence)).acquits(),
            "a poll may be for anything, and nobody is known to feed it"
        );
    }

    #[test]
    fn what_a_local_socket_brings_is_not_ruled_out() {
        let judged = |local, found: Found| {
            let mut interval = relay(false, 0);
            interval.around = Around { samples: 5, busy: 5, local, ..Around::default() };
            interval.lanes.remove(0);
            let thread = ThreadInterval { looks: 5, found, ..ThreadInterval::default() };
            interval.lanes[0].thread = Reading::Value(thread);
            let evidence = of(interval.clone());
            upstream(&interval, &Context::alone(&evidence))
        };
        let polling = Found { polling: 5, ..Found::default() };
        assert!(matches!(judged(5, polling), Judgement::Unknown { .. }), "{:?}", judged(5, polling));
        assert!(judged(0, polling).acquits());
        assert!(judged(5, Found { sleeping: 5, ..Found::default() }).acquits(), "it waits for nobody");
    }

    #[test]
    fn a_sync_is_named_where_an_answer_waits_for_it() {
        let sync = |samples| Sync {
            samples,
            who: "postgres (pid 9)".to_owned(),
            path: Some("/var/lib/wal".to_owned()),
            device: Some("vda".to_owned()),
            busy: Some(0.97),
        };
        let around = Around { samples: 5, owing: 5, syncs: Some(sync(4)), ..Around::default() };
        let mut interval = Interval { span: SPAN, around, ..Interval::default() };
        let evidence = of(interval.clone());
        let judged = downstream(&interval, &Context::alone(&evidence));
        let Judgement::Convict { evidence: words, .. } = judged else { panic!("{judged:?}") };
        assert!(
            words.contains("the sync of /var/lib/wal on vda, which was busy 97 % of the time"),
            "{words}"
        );
        interval.around.syncs = Some(sync(1));
        assert!(downstream(&interval, &Context::alone(&evidence)).acquits());
        interval.around = Around { samples: 5, busy: 5, syncs: Some(sync(4)), ..Around::default() };
        assert!(downstream(&interval, &Context::alone(&evidence)).acquits(), "bytes moved all the while");
    }
}
