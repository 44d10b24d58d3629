//! The laws of the pure link, for any packets at any times: nothing is lost without a cause, order is kept,
//! rate and delay hold to the nanosecond, a trace is obeyed byte by byte.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weir_lab::clock::Moment;
use weir_lab::link::{Link, Packet};
use weir_lab::path::{
    Direction, Discipline, GilbertElliott, Loss, Policer, Queue, QueueLimit, Reorder, Share,
};
use weir_lab::trace::Trace;
use weir_units::{Bytes, Rate};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbered {
    number: usize,
    bytes: u32,
}

impl Packet for Numbered {
    fn wire_bytes(&self) -> u32 {
        self.bytes
    }

    fn twin(&self) -> Numbered {
        *self
    }
}

/// When each packet comes, and its size.
type Arrivals = Vec<(u64, u32)>;

const NO_LIMIT: Queue = Queue { limit: QueueLimit::Packets(u32::MAX), discipline: Discipline::DropTail };

/// Packets after gaps of up to 3 ms, in order.
fn arrivals() -> impl Strategy<Value = Arrivals> {
    prop::collection::vec((0..3_000_000u64, 20..1501u32), 1..200).prop_map(|gaps| {
        let mut now = 1_000_000;
        gaps.into_iter()
            .map(|(gap, bytes)| {
                now += gap;
                (now, bytes)
            })
            .collect()
    })
}

/// Lets the link run, asking it only when packets come or something is due.
fn run(direction: &Direction, arrivals: &Arrivals) -> (Vec<(Moment, Numbered)>, Link<Numbered>) {
    let mut link = Link::new(direction, 42, Moment(0));
    let mut out = Vec::new();
    for (number, &(at, bytes)) in arrivals.iter().enumerate() {
        drain(&mut link, Moment(at), &mut out);
        link.push(Numbered { number, bytes }, Moment(at));
    }
    drain(&mut link, Moment(u64::MAX / 4), &mut out);
    (out, link)
}

fn drain(link: &mut Link<Numbered>, until: Moment, out: &mut Vec<(Moment, Numbered)>) {
    while let Some(due) = link.next_due().filter(|due| *due <= until) {
        while let Some((at, packet)) = link.pop(due) {
            assert!(at <= due, "a packet came out before it was due");
            out.push((at, packet));
        }
    }
}

fn numbers(out: &[(Moment, Numbered)]) -> Vec<usize> {
    out.iter().map(|(_, packet)| packet.number).collect()
}

proptest! {
    #[test]
    fn nothing_asked_nothing_done(arrivals in arrivals()) {
        let (out, _) = run(&Direction::default(), &arrivals);
        let seen: Arrivals = out.iter().map(|(at, packet)| (at.0, packet.bytes)).collect();
        prop_assert_eq!(seen, arrivals);
    }

    #[test]
    fn rate_and_delay_hold_exactly(arrivals in arrivals(), mbit in 1u32..1000, delay in 0u64..200_000_000) {
        let byte = 8000.0 / f64::from(mbit);
        let direction = Direction {
            rate: Some(Rate(f64::from(mbit) * 125_000.0)),
            delay: Duration::from_nanos(delay),
            queue: NO_LIMIT,
            ..Direction::default()
        };
        let (out, _) = run(&direction, &arrivals);
        let mut free = 0.0f64;
        for ((at, packet), &(arrived, bytes)) in out.iter().zip(&arrivals) {
            prop_assert_eq!(packet.bytes, bytes);
            free = free.max(arrived as f64) + f64::from(bytes) * byte;
            // One nanosecond for rounding up, one for this sum's own.
            let off = at.0 as f64 - (free + delay as f64);
            prop_assert!((-1.0..=2.0).contains(&off), "off by {} ns", off);
        }
        prop_assert_eq!(out.len(), arrivals.len());
    }

    #[test]
    fn nothing_is_lost_without_a_cause(
        arrivals in arrivals(), loss in 0.0..0.3f64, queue in 1500u64..20_000, codel: bool, burst: bool,
    ) {
        let share = Share(loss);
        let direction = Direction {
            rate: Some(Rate(500_000.0)),
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(2),
            loss: if burst { Loss::Burst(GilbertElliott::bursts(share, 3.0)) } else { Loss::Random(share) },
            duplicate: Share(0.05),
            reorder: Some(Reorder { share: Share(0.1), early: Duration::from_millis(4) }),
            policer: Some(Policer { rate: Rate(800_000.0), burst: Bytes(6000) }),
            queue: Queue {
                limit: QueueLimit::Bytes(Bytes(queue)),
                discipline: if codel { Discipline::CODEL } else { Discipline::DropTail },
            },
            ..Direction::default()
        };
        let (out, link) = run(&direction, &arrivals);
        let seen = link.counters();
        prop_assert_eq!(seen.packets_in, arrivals.len() as u64);
        prop_assert_eq!(seen.packets_out, out.len() as u64);
        prop_assert_eq!(seen.packets_in + seen.duplicated, seen.packets_out + seen.dropped());
        prop_assert_eq!((seen.under_way, seen.queued_bytes), (0, 0));
        prop_assert_eq!(out.clone(), run(&direction, &arrivals).0, "the same seed, another fate");
    }

    #[test]
    fn order_is_kept_unless_asked_otherwise(arrivals in arrivals(), jitter in 0u64..50) {
        let direction = Direction {
            delay: Duration::from_millis(50),
            jitter: Duration::from_millis(jitter),
            duplicate: Share(0.1),
            ..Direction::default()
        };
        let (out, _) = run(&direction, &arrivals);
        prop_assert!(out.is_sorted_by_key(|(at, packet)| (*at, packet.number)));
    }

    #[test]
    fn a_packet_waits_only_behind_what_the_queue_holds(arrivals in arrivals(), limit in 1500u64..30_000) {
        let rate = 250_000.0;
        let direction = Direction {
            rate: Some(Rate(rate)),
            queue: Queue { limit: QueueLimit::Bytes(Bytes(limit)), discipline: Discipline::DropTail },
            ..Direction::default()
        };
        let (out, link) = run(&direction, &arrivals);
        // Its own bytes are in the limit; the packet being sent is not.
        let most = (limit + 1500) as f64 / rate * 1e9 + 1000.0;
        for (at, packet) in &out {
            prop_assert!(((at.0 - arrivals[packet.number].0) as f64) <= most);
        }
        prop_assert_eq!(link.counters().overflowed as usize, arrivals.len() - out.len());
    }

    #[test]
    fn a_trace_is_obeyed_byte_by_byte(
        arrivals in arrivals(), steps in prop::collection::vec(0u64..12, 1..40), delay in 0u64..20,
    ) {
        let mut time = 1;
        let lines: Vec<String> = steps.iter().map(|step| { time += step; time.to_string() }).collect();
        let trace = Trace::parse(&lines.join("\n")).unwrap();
        let direction = Direction {
            trace: Some(Arc::new(trace)),
            delay: Duration::from_millis(delay),
            queue: NO_LIMIT,
            ..Direction::default()
        };
        let (out, _) = run(&direction, &arrivals);
        let seen: Vec<u64> = out.iter().map(|(at, _)| at.0 - delay * 1_000_000).collect();
        prop_assert_eq!(seen, replay(&lines, &arrivals));
    }

    #[test]
    fn a_policer_passes_its_rate_and_burst(
        arrivals in arrivals(), rate in 50_000u32..2_000_000, burst in 1500u64..20_000,
    ) {
        let policer = Policer { rate: Rate(f64::from(rate)), burst: Bytes(burst) };
        let (out, link) = run(&Direction { policer: Some(policer), ..Direction::default() }, &arrivals);
        let passed = numbers(&out);
        let mut tokens = burst as f64;
        let mut last = 0;
        for (number, &(at, bytes)) in arrivals.iter().enumerate() {
            tokens = (tokens + (at - last) as f64 / 1e9 * f64::from(rate)).min(burst as f64);
            last = at;
            let bytes = f64::from(bytes);
            // Within a hundredth of a byte either answer is right.
            if (tokens - bytes).abs() > 0.01 {
                prop_assert_eq!(passed.contains(&number), tokens > bytes, "packet {}", number);
            }
            if passed.contains(&number) {
                tokens -= bytes;
            }
        }
        prop_assert_eq!(link.counters().policed as usize, arrivals.len() - passed.len());
    }
}

/// The trace rule, opportunity by opportunity: when each packet's last byte goes.
fn replay(lines: &[String], arrivals: &Arrivals) -> Vec<u64> {
    let times: Vec<u64> = lines.iter().map(|line| line.parse().unwrap()).collect();
    let period = times[times.len() - 1];
    let mut waiting: VecDeque<(u64, u32)> = arrivals.iter().copied().collect();
    let mut out = Vec::new();
    let mut opportunity = 0;
    while !waiting.is_empty() {
        let (round, index) = (opportunity / times.len(), opportunity % times.len());
        let at = (round as u64 * period + times[index]) * 1_000_000;
        let mut budget = 1500;
        // What arrives at the very instant of an opportunity has missed it.
        while budget > 0
            && let Some((_, left)) = waiting.front_mut().filter(|(arrived, _)| *arrived < at)
        {
            let part = budget.min(*left);
            budget -= part;
            *left -= part;
            if *left == 0 {
                waiting.pop_front();
                out.push(at);
            }
        }
        opportunity += 1;
    }
    out
}

/// Packets of full size at even gaps.
fn stream(count: usize, gap: u64) -> Arrivals {
    (0..count).map(|index| (1_000_000 + index as u64 * gap, 1500)).collect()
}

#[test]
fn no_nanosecond_is_lost_in_a_million_packets() {
    // 3 Gbit/s: 2.67 ns a byte, whose rounding would show here a thousand times over.
    let direction = Direction { rate: Some(Rate(375e6)), queue: NO_LIMIT, ..Direction::default() };
    let (out, _) = run(&direction, &stream(1_000_000, 0));
    let expected = 1_000_000 + 1_500_000_000u64 * 8 / 3;
    assert!(out[999_999].0.0.abs_diff(expected) <= 1, "{} ns instead of {expected}", out[999_999].0.0);
}

#[test]
fn losses_come_in_the_share_and_the_runs_asked_for() {
    let count = 200_000;
    let lost = |loss| {
        let (out, _) = run(&Direction { loss, ..Direction::default() }, &stream(count, 1000));
        let mut kept = vec![false; count];
        numbers(&out).into_iter().for_each(|number| kept[number] = true);
        let runs = kept.windows(2).filter(|pair| pair[0] && !pair[1]).count();
        let lost = kept.iter().filter(|kept| !**kept).count();
        (lost as f64 / count as f64, lost as f64 / runs as f64)
    };
    let (share, run) = lost(Loss::Random(Share(0.01)));
    // 4.5 standard deviations of a binomial: sqrt(0.01 * 0.99 / 200000) = 0.00022.
    assert!((share - 0.01).abs() < 0.001 && run < 1.1, "{share} in runs of {run}");
    let (share, run) = lost(Loss::Burst(GilbertElliott::bursts(Share(0.01), 5.0)));
    // Runs of 5 make losses about 3 times as uneven.
    assert!((share - 0.01).abs() < 0.003 && (4.0..6.0).contains(&run), "{share} in runs of {run}");
}

#[test]
fn the_share_asked_for_overtakes() {
    let direction = Direction {
        delay: Duration::from_millis(20),
        reorder: Some(Reorder { share: Share(0.02), early: Duration::from_millis(5) }),
        ..Direction::default()
    };
    let (out, link) = run(&direction, &stream(50_000, 100_000));
    let overtaken = out.windows(2).filter(|pair| pair[1].1.number < pair[0].1.number).count();
    // 1000 expected, 31 the standard deviation.
    assert!((850..1150).contains(&link.counters().reordered), "{}", link.counters().reordered);
    assert!(overtaken > 800, "{overtaken} packets were overtaken");
    assert!(out.is_sorted_by_key(|(at, _)| *at));
}

#[test]
fn codel_keeps_a_standing_queue_short() {
    let direction = |discipline| Direction {
        rate: Some(Rate(1.5e6)),
        queue: Queue { limit: QueueLimit::Packets(2000), discipline },
        ..Direction::default()
    };
    // A tenth more than the rate carries, for 60 s: without drops the queue fills, and its 2000 packets take
    // 2 s.
    let arrivals = stream(66_000, 909_091);
    let wait = |discipline| {
        let (out, _) = run(&direction(discipline), &arrivals);
        let late = &out[out.len() * 9 / 10..];
        let waits: Vec<u64> = late.iter().map(|(at, packet)| at.0 - arrivals[packet.number].0).collect();
        waits.iter().sum::<u64>() as f64 / waits.len() as f64 / 1e6
    };
    let (tail, codel) = (wait(Discipline::DropTail), wait(Discipline::CODEL));
    assert!(tail > 1900.0 && codel < 100.0, "{tail} ms and {codel} ms");
}

#[test]
fn a_new_rate_holds_for_what_is_waiting() {
    let mut slow = Direction { rate: Some(Rate(150_000.0)), queue: NO_LIMIT, ..Direction::default() };
    let mut link = Link::new(&slow, 1, Moment(0));
    for number in 0..3 {
        link.push(Numbered { number, bytes: 1500 }, Moment(0));
    }
    // Half of the first packet's 10 ms are over: the rest takes half a millisecond at ten times the rate.
    slow.rate = Some(Rate(1_500_000.0));
    link.configure(&slow, Moment(5_000_000));
    let mut out = Vec::new();
    drain(&mut link, Moment(1_000_000_000), &mut out);
    let times: Vec<u64> = out.iter().map(|(at, _)| at.0 / 1000).collect();
    assert_eq!(times, [5500, 6500, 7500]);
    slow.rate = None;
    link.push(Numbered { number: 3, bytes: 1500 }, Moment(2_000_000_000));
    link.configure(&slow, Moment(2_000_000_001));
    assert!(link.pop(Moment(2_000_000_001)).is_some(), "without a rate nothing waits");
}

/// Drives a link as a thread does that wakes up to 2 ms late, for a sender that has `window` packets on their
/// way and sends the next when one has arrived. Returns when each left. At 400 Mbit/s a packet takes 30 us.
fn woken_late(window: usize) -> Vec<u64> {
    let direction = Direction { rate: Some(Rate(50e6)), queue: NO_LIMIT, ..Direction::default() };
    let mut link = Link::new(&direction, 1, Moment(0));
    let mut lateness = fastrand::Rng::with_seed(7);
    let (mut now, mut sent, mut out) = (Moment(0), 0, Vec::new());
    while out.len() < 20_000 {
        while sent < out.len() + window {
            link.push(Numbered { number: sent, bytes: 1500 }, now);
            sent += 1;
        }
        now = link.next_due().unwrap() + Duration::from_nanos(lateness.u64(0..2_000_000));
        out.extend(std::iter::from_fn(|| link.pop(now)).map(|(at, _)| at.0));
    }
    out
}

#[test]
fn late_wake_ups_cost_no_rate_while_packets_wait() {
    // 200 packets take 6 ms: there is always one to send, however late the thread wakes, and each leaves to
    // the nanosecond.
    let out = woken_late(200);
    assert!(out.iter().zip(1..).all(|(at, count)| *at == count * 30_000));
    // 30 packets take 0.9 ms: here the sender starves, because nothing tells it in time that it may send.
    let starved = woken_late(30);
    assert!(starved[19_999] > 20_000 * 30_000 * 5 / 4, "{} ns", starved[19_999]);
}
