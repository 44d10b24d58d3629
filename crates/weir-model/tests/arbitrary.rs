//! Whatever the evidence, the judge answers: no panic, shares that add up to 1, the same words for the same
//! evidence.

use std::time::Duration;

use proptest::prelude::*;
use weir_model::around::{
    Around, Attempt, Crowded, FlowName, Listener, Neighbour, Resolver, Rest, Step, Sync,
};
use weir_model::evidence::*;
use weir_model::limit::Limit;
use weir_model::rule::Context;
use weir_model::sender::SenderInterval;
use weir_model::stages::Stages;
use weir_model::verdict::{explain, judge_interval};
use weir_model::waits::{Ended, Stall, Waits};

fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0u64..400_000).prop_map(Duration::from_micros),
        (0u64..100).prop_map(Duration::from_millis),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), 0u64..100_000_000, any::<u64>()]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![Just(f64::NAN), Just(f64::INFINITY), 0.0f64..1.0, 0.0f64..1e9, any::<f64>()]
}

fn reading<T: std::fmt::Debug + Clone>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Reading<T>> {
    prop_oneof![Just(Reading::default()), value.prop_map(Reading::Value)]
}

fn maybe<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(value)
}

fn tcp() -> impl Strategy<Value = TcpInterval> {
    let times = (maybe(span()), maybe(span()));
    let levels = (maybe(number()), maybe(number()), maybe(number()), maybe(number()));
    (times, levels, number(), number(), maybe(number())).prop_map(
        |((receiver_rtt, min_rtt), levels, out_of_order, segments, resent)| TcpInterval {
            receiver_rtt,
            min_rtt,
            receive_window: levels.0,
            window_clamp: levels.1,
            receive_queue: levels.2,
            receive_buffer: levels.3,
            out_of_order,
            segments,
            resent,
            congestion_control: None,
        },
    )
}

/// Every field of a sender's view, each as strange as its type allows.
fn sender() -> impl Strategy<Value = SenderInterval> {
    let rates = proptest::collection::vec(maybe(float()), 3);
    let window = maybe((number(), number(), number()));
    (
        proptest::collection::vec(number(), 16),
        proptest::collection::vec(span(), 4),
        proptest::collection::vec(prop_oneof![0u32..30, any::<u32>()], 10),
        proptest::collection::vec(maybe(span()), 2),
        rates,
        window,
        maybe(prop_oneof![Just("bbr".to_owned()), Just("cubic".to_owned())]),
    )
        .prop_map(|(bytes, times, looks, rtts, rates, peer_window, congestion_control)| SenderInterval {
            acked: bytes[0],
            busy: times[0],
            receive_window_limited: times[1],
            send_buffer_limited: times[2],
            timeout: times[3],
            looks: looks[0],
            app_limited: looks[1],
            nothing_unsent: looks[2],
            nothing_in_flight: looks[3],
            window_filled: looks[4],
            cwnd_filled: looks[5],
            buffer_filled: looks[6],
            recovering: looks[7],
            owing: looks[8],
            awaiting: looks[9],
            asked: bytes[1],
            in_flight: bytes[2],
            unsent: bytes[3],
            queued: Some(bytes[4]),
            send_buffer: Some(bytes[5]),
            peer_window,
            cwnd: bytes[6],
            ssthresh: Some(bytes[7]),
            segment: bytes[8],
            rtt: rtts[0],
            min_rtt: rtts[1],
            delivery_rate: rates[0],
            pacing_rate: rates[1],
            max_pacing_rate: rates[2],
            sent: bytes[9],
            retransmitted: bytes[10],
            duplicates: bytes[11],
            reordered: bytes[12],
            marked: bytes[13],
            congestion_control,
        })
}

fn found() -> impl Strategy<Value = Found> {
    proptest::collection::vec(prop_oneof![0u32..30, any::<u32>()], 13).prop_map(|looks| Found {
        running: looks[0],
        receiving: looks[1],
        sending: looks[2],
        polling: looks[3],
        reading_disk: looks[4],
        writing_disk: looks[5],
        pipe_full: looks[6],
        pipe_empty: looks[7],
        sleeping: looks[8],
        waiting_for_thread: looks[9],
        elsewhere: looks[10],
        paging_in: looks[11],
        awaiting_kernel: looks[12],
    })
}

fn thread() -> impl Strategy<Value = ThreadInterval> {
    (span(), span(), span(), any::<u32>(), any::<u32>(), found()).prop_map(
        |(cpu, runqueue, throttled, looks, in_dirty_throttle, found)| ThreadInterval {
            name: None,
            cpu,
            system: (looks % 2 == 0).then_some(runqueue),
            runqueue,
            throttled,
            looks,
            in_dirty_throttle,
            found,
        },
    )
}

fn program() -> impl Strategy<Value = Program> {
    let stage = prop_oneof![Just(Limit::Compress), Just(Limit::Encrypt)];
    (stage, thread()).prop_map(|(stage, thread)| Program { stage, thread })
}

fn waits() -> impl Strategy<Value = Waits> {
    let ended = prop_oneof![
        Just(Ended::Timeout),
        Just(Ended::Retransmission),
        Just(Ended::Peer),
        Just(Ended::Acknowledged),
        Just(Ended::Itself)
    ];
    let stall = (span(), ended, number()).prop_map(|(lasted, ended, asked)| Stall { lasted, ended, asked });
    let counts = proptest::collection::vec(any::<u32>(), 7);
    let stalls = proptest::collection::vec(stall, 0..3);
    (counts, proptest::collection::vec(number(), 12), span(), span(), stalls, maybe(any::<bool>())).prop_map(
        |(counts, numbers, small_held_longest, timeout, stalls, scaled)| Waits {
            looks: counts[0],
            sent: numbers[0],
            sent_segments: numbers[1],
            came: numbers[2],
            came_segments: numbers[3],
            small_held: counts[1],
            small_held_longest,
            retransmitted: numbers[4],
            retransmitted_segments: numbers[5],
            timeouts: numbers[6],
            timeout,
            backoff: counts[2],
            segment: (numbers[7], numbers[8]),
            acked_ever: numbers[9],
            delivered_ever: numbers[10],
            hole: counts[3],
            stalled: counts[4],
            stalls,
            scaled,
            in_flight_most: numbers[11],
            restarts: counts[5],
            silent: counts[6],
        },
    )
}

fn lane() -> impl Strategy<Value = LaneInterval> {
    let counts = (0u32..4, number(), any::<u32>(), any::<u32>(), any::<u32>());
    let views = (reading(thread()), reading(tcp()), reading(sender()), reading(waits()));
    (counts, proptest::collection::vec(span(), 11), views).prop_map(
        |((lane, received, requests, objects, connects), times, (thread, tcp, sender, waits))| LaneInterval {
            lane,
            received,
            connecting: times[0],
            resolving: (objects % 2 == 0).then_some(times[10]),
            first_byte: times[1],
            socket_wait: times[2],
            receive_cpu: times[3],
            decrypt: times[4],
            write: times[5],
            write_cpu: times[6],
            limited: times[7],
            output_wait: times[8],
            idle: times[9],
            requests,
            objects,
            connects,
            thread,
            tcp,
            sender,
            waits,
        },
    )
}

fn interval() -> impl Strategy<Value = Interval> {
    let cpu = (proptest::collection::vec(float(), 0..4), float(), float(), float(), span()).prop_map(
        |(busy, niced, softirq, steal, process)| CpuInterval { busy, niced, softirq, steal, process },
    );
    let dirty = (number(), number(), number(), maybe(number())).prop_map(
        |(dirty, threshold, background, device_limit)| DirtyInterval {
            dirty,
            threshold,
            background,
            device_limit,
        },
    );
    let disk =
        (number(), number(), float()).prop_map(|(written, read, busy)| DiskInterval { written, read, busy });
    let place = (float(), span(), number(), number(), any::<u32>());
    let verify = (span(), span(), number());
    let waits = proptest::collection::vec(span(), 4);
    let silent = prop_oneof![
        Just(Silent::default()),
        (span(), span(), span()).prop_map(|(sender, receiver, watch)| Silent { sender, receiver, watch }),
    ];
    // Boxed, or what a test's thread has of stack does not hold the strategy.
    let host = (reading(cpu), reading(dirty), reading(disk), reading(stages()), reading(stages())).boxed();
    let beside = (proptest::collection::vec(program(), 0..3), around(), silent).boxed();
    (place, proptest::collection::vec(lane(), 0..4), (verify, waits), host, beside).prop_map(
        |(
            (at, span, received, written, objects),
            lanes,
            (verify, waits),
            (cpu, dirty, disk, sending, receiving),
            (programs, around, silent),
        )| {
            Interval {
                at,
                span,
                received,
                written,
                objects,
                lanes,
                server_backoff: verify.0,
                server_failing: waits[0],
                unreached: waits[1],
                broken: waits[2],
                unlisted: waits[3],
                left: (objects % 3 > 0).then_some(objects % 3 == 1),
                verify_busy: verify.1,
                verify_backlog: verify.2,
                cpu,
                dirty,
                disk,
                sending,
                receiving,
                silent,
                programs,
                around,
            }
        },
    )
}

/// Counts that need not add up, and names that are there or not.
fn around() -> impl Strategy<Value = Around> {
    let count = || prop_oneof![0u32..10, any::<u32>()];
    let attempt = (0u32..4, span(), count(), maybe(span()), maybe((count(), count())), 0u8..3).prop_map(
        |(lane, age, retransmits, rtt, queue, step)| Attempt {
            lane,
            peer: "10.0.0.9:443".to_owned(),
            step: [Step::Syn, Step::Accept, Step::Tls][usize::from(step)],
            age,
            retransmits,
            rtt,
            listener: queue.map(|(queued, backlog)| Listener { queued, backlog }),
        },
    );
    let flow =
        (0u32..4, any::<bool>()).prop_map(|(lane, sends)| FlowName { lane, sends, ..FlowName::default() });
    let pipe = (any::<bool>(), any::<bool>(), reading(thread()), maybe(count()))
        .prop_map(|(reads, inside, thread, waited_at)| Neighbour { reads, thread, inside, waited_at });
    let sync =
        (count(), maybe(float())).prop_map(|(samples, busy)| Sync { samples, busy, ..Sync::default() });
    let lists = (
        proptest::collection::vec(attempt, 0..3),
        proptest::collection::vec(flow, 0..4),
        proptest::collection::vec(pipe, 0..3),
        (maybe(sync), maybe(thread())),
    );
    let counts = (proptest::collection::vec(count(), 25), any::<bool>(), number(), number());
    (counts, lists).prop_map(|((of, command, failed_attempts, listen_overflows), lists)| Around {
        samples: of[0],
        command,
        busy: of[1],
        chained: of[2],
        chained_to: Some(of[3]),
        local: of[3],
        owing: of[4],
        connecting: of[5],
        resolving: of[6],
        refusing: of[20],
        crowded: (of[20] > 0)
            .then_some(Crowded { port: 80, listener: Listener { queued: of[21], backlog: of[22] } }),
        served: command,
        rest: Rest {
            open: of[7],
            other_sockets: of[8],
            listening: of[8] / 2,
            running: of[9],
            sleeping: of[10],
            child: of[11],
            terminal: of[12],
            disk: of[13],
            writing: of[14],
            pipe: of[15],
            lock: of[16],
            polling: of[17],
            accepting: of[18],
            receiving: of[19],
            unclear: of[23],
            ..Rest::default()
        },
        attempts: lists.0,
        resolvers: vec![Resolver { address: "10.0.0.53:53".to_owned(), samples: of[6] }],
        failed_attempts,
        own_failed_attempts: failed_attempts / 2,
        listen_overflows,
        pipes: lists.2,
        syncs: lists.3.0,
        writer: lists.3.1,
        writes_unseen: of[24],
        flows: lists.1,
        missing: None,
    })
}

fn stages() -> impl Strategy<Value = Stages> {
    let shares = (maybe(float()), maybe(float()));
    (any::<u32>(), proptest::collection::vec(span(), 12), shares, any::<u32>()).prop_map(
        |(threads, times, (busy, own), cpus)| Stages {
            threads,
            idle: times[0],
            read: times[1],
            verify: times[2],
            compress: times[3],
            encrypt: times[4],
            turn: times[5],
            send: times[6],
            receive: times[7],
            decompress: times[8],
            write: times[9],
            limited: times[10],
            input: times[11],
            busy,
            own,
            cpus,
            ..Stages::default()
        },
    )
}

fn evidence() -> impl Strategy<Value = Evidence> {
    let trial = (float(), any::<u32>(), any::<u32>(), float(), float(), any::<bool>()).prop_map(
        |(at, lanes_before, lanes_after, rate_before, rate_after, kept)| Trial {
            at,
            lanes_before,
            lanes_after,
            rate_before,
            rate_after,
            kept,
        },
    );
    let facts =
        (maybe(float()), maybe(any::<u32>()), maybe(number()), maybe(number()), any::<[bool; 4]>(), number())
            .prop_map(|(rate_cap, lanes_fixed, receive_buffer, tcp_rmem_max, flags, objects)| Facts {
                rate_cap,
                lanes_fixed,
                receive_buffer,
                tcp_rmem_max,
                cpus: 2,
                peer_is_local: flags[0],
                to_stdout: flags[1],
                tls: flags[2],
                objects,
                uploads: flags[0] != flags[1],
                command: match (flags[0], flags[2]) {
                    (_, false) => Command::Get,
                    (false, true) => Command::StoreCopy,
                    (true, true) => Command::HostCopy,
                },
                clocks: if flags[3] { Clocks::Sampled } else { Clocks::Own },
                scope: flags[3].then(|| "wget (pid 4711)".to_owned()),
                link_rate: rate_cap,
                wmem_max: tcp_rmem_max,
                tcp_wmem_max: receive_buffer,
                ..Facts::default()
            });
    (proptest::collection::vec(interval(), 0..6), proptest::collection::vec(trial, 0..3), facts)
        .prop_map(|(intervals, trials, facts)| Evidence { intervals, trials, facts })
}

proptest! {
    #[test]
    fn the_judge_always_answers(evidence in evidence()) {
        let verdict = explain(&evidence);
        let sum: f64 = verdict.shares.values().sum();
        let observed = evidence.intervals.iter().any(|interval| !interval.span.is_zero());
        let unseen = evidence.intervals.iter().any(|interval| !interval.silent.is_none());
        let whole = (sum - 1.0).abs() < 1e-6 || unseen && sum < 1.0;
        prop_assert!(if observed { whole } else { verdict.shares.is_empty() }, "shares add up to {}", sum);
        prop_assert!((0.0..=1.0).contains(&verdict.confidence));
        prop_assert!(verdict.advice.iter().filter_map(|advice| advice.predicted_rate).all(|rate| rate.is_finite() && rate > 0.0));
        prop_assert_eq!(verdict.intervals.len(), evidence.intervals.len());
        prop_assert_eq!(&verdict, &explain(&evidence.clone()));
        serde_json::to_string(&verdict).unwrap();
        if let Some(interval) = evidence.intervals.first() {
            let live = judge_interval(interval, &Context::live(&evidence));
            prop_assert!((0.0..=1.0).contains(&live.strength));
        }
    }

    #[test]
    fn keeping_few_windows_keeps_their_bytes(intervals in proptest::collection::vec(interval(), 0..40)) {
        let mut evidence = Evidence::default();
        let bytes = intervals.iter().fold(0u64, |sum, interval| sum.saturating_add(interval.received));
        for interval in intervals {
            evidence.push(interval, 8);
        }
        prop_assert!(evidence.intervals.len() <= 8);
        prop_assert_eq!(evidence.intervals.iter().fold(0u64, |sum, interval| sum.saturating_add(interval.received)), bytes);
        explain(&evidence);
    }

    #[test]
    fn joining_windows_keeps_the_time_that_was_not_seen(
        intervals in proptest::collection::vec(interval(), 0..20)
    ) {
        let sum = |intervals: &[Interval], of: fn(&Silent) -> Duration| {
            let times = intervals.iter().map(|interval| of(&interval.silent).min(interval.span));
            times.fold(Duration::ZERO, Duration::saturating_add)
        };
        let each: [fn(&Silent) -> Duration; 3] =
            [|silent| silent.sender, |silent| silent.receiver, |silent| silent.watch];
        let before = each.map(|of| sum(&intervals, of));
        let mut evidence = Evidence::default();
        for interval in intervals {
            evidence.push(interval, 4);
        }
        prop_assert_eq!(each.map(|of| sum(&evidence.intervals, of)), before);
    }
}
