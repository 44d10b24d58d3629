//! A test as weir's record tells it.

use std::collections::BTreeMap;

use weir_bench_net::outcome::{Ending, Interval, Role, Start, StreamInterval, Sum, TestOutcome, UdpFigures};
use weir_bench_net::parameters::{Direction, Transport};
use weir_bench_net::results::Output;
use weir_model::evidence::Evidence;
use weir_model::verdict::{Verdict, explain};
use weir_report::net::{DatagramsRecord, FlowRecord, IntervalRecord, NetRecord, SumRecord};
use weir_report::schema::{Record, RunOutcome as Ended, VerdictRecord};

/// The whole record, its member `net` included, and that member once more.
pub(super) fn record(outcome: &TestOutcome) -> (Record, NetRecord) {
    let sends = sends(&outcome.start);
    let sent = outcome.sum(sends, |stream| stream.sent);
    let received = outcome.sum(sends, |stream| stream.received);
    let main = received.or(sent).unwrap_or_default();
    let ended = match outcome.ending {
        Ending::Complete => Ended::Complete,
        Ending::Interrupted => Ended::Partial,
        Ending::Broken(_) => Ended::Failed,
    };
    let seconds = if main.seconds > 0.0 { main.seconds } else { outcome.seconds };
    let mut record = Record::new("bench", ended, main.bytes, seconds);
    let (there, back) =
        if sends { (&outcome.sending, &outcome.receiving) } else { (&outcome.receiving, &outcome.sending) };
    if let Some((evidence, verdict)) = judged(there.as_ref(), received) {
        record = record.with_verdict(evidence, &verdict);
        // Nothing is written: the rates of writing and of a disk mean nothing.
        (record.written_rate, record.disk_rate) = (None, None);
        record.samples.iter_mut().for_each(|sample| (sample.written_rate, sample.disk_rate) = (None, None));
    }
    // Bytes and rate are of this way too.
    let connections = outcome.streams.iter().filter(|stream| stream.connection.sends == sends).count();
    record.connections = u32::try_from(connections).ok();
    record.peak_memory = weir_observe::memory::peak_rss().ok();
    if let Ending::Broken(why) = &outcome.ending {
        record.error = Some(why.clone());
    }
    let both = outcome.start.parameters.direction == Direction::Both;
    let back_received = outcome.sum(!sends, |stream| stream.received).filter(|_| both);
    let net = NetRecord {
        sent: sent.map(|sum| sum_record(&sum)),
        received: received.map(|sum| sum_record(&sum)),
        back_sent: outcome.sum(!sends, |stream| stream.sent).filter(|_| both).map(|sum| sum_record(&sum)),
        back_received: back_received.map(|sum| sum_record(&sum)),
        back_verdict: judged(back.as_ref().filter(|_| both), back_received)
            .map(|(_, verdict)| VerdictRecord::from(&verdict)),
        ..net(outcome)
    };
    if let Ok(value) = serde_json::to_value(&net) {
        record.extra.insert("net".to_owned(), value);
    }
    (record, net)
}

/// Whether this end sends the data of the test's way: there, unless reversed.
fn sends(start: &Start) -> bool {
    (start.role == Role::Client) == (start.parameters.direction != Direction::Reverse)
}

/// What held a way, by what this end saw and what the receiver counted.
fn judged(evidence: Option<&Evidence>, received: Option<Sum>) -> Option<(&Evidence, Verdict)> {
    let evidence = evidence?;
    let verdict = explain(evidence);
    Some(match received.and_then(|sum| losses(&sum)) {
        Some(why) => (evidence, overridden(verdict, why)),
        None => (evidence, verdict),
    })
}

/// From this share of lost datagrams on the rate that was sent is more than arrives: paths that carry what
/// they are sent lose less than one in a hundred.
const LOSES: f64 = 0.01;

/// In words, where a receiver lost a share that counts.
fn losses(received: &Sum) -> Option<String> {
    let udp = received.udp.filter(|udp| udp.packets > 0)?;
    let share = udp.lost as f64 / udp.packets as f64;
    let percent = 100.0 * share;
    let words = format!("{percent:.1} % of the datagrams were lost: the path or the receiver takes no more");
    (share >= LOSES).then_some(words)
}

/// What a sender of datagrams sees of itself says nothing of what is lost behind it, so that neither its
/// limit nor advice to send more stands.
fn overridden(verdict: Verdict, why: String) -> Verdict {
    let missing = std::iter::once(why).chain(verdict.missing).collect();
    Verdict {
        limit: None,
        confidence: 0.0,
        shares: BTreeMap::new(),
        phases: Vec::new(),
        evidence: Vec::new(),
        innocent: Vec::new(),
        not_visible: Vec::new(),
        advice: Vec::new(),
        missing,
        ..verdict
    }
}

/// All but the sums of the two ways.
fn net(outcome: &TestOutcome) -> NetRecord {
    let start = &outcome.start;
    let parameters = &start.parameters;
    NetRecord {
        role: if start.role == Role::Client { "client" } else { "server" }.to_owned(),
        host: if start.host.is_empty() { start.peer.ip().to_string() } else { start.host.clone() },
        peer: start.peer.to_string(),
        transport: if parameters.transport == Transport::Udp { "udp" } else { "tcp" }.to_owned(),
        direction: match parameters.direction {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
            Direction::Both => "both",
        }
        .to_owned(),
        streams: parameters.parallel,
        omit: parameters.omit,
        block: parameters.block,
        rate_cap: (parameters.rate > 0).then_some(parameters.rate as f64 / 8.0),
        congestion_control: outcome.congestion.0.clone(),
        peer_congestion_control: outcome.congestion.1.clone(),
        path_mtu: outcome.path.0,
        segment: outcome.path.1,
        copied_sending: start.copies.sending,
        copied_receiving: start.copies.receiving,
        peer_copied_sending: outcome.remote_copies.map(|copies| copies.sending),
        peer_copied_receiving: outcome.remote_copies.map(|copies| copies.receiving),
        cpu: outcome.cpu.total / 100.0,
        peer_cpu: outcome.remote_cpu.map(|cpu| cpu.total / 100.0),
        intervals: outcome.intervals.iter().flat_map(|interval| lines(start, interval)).collect(),
        flows: outcome
            .streams
            .iter()
            .map(|stream| FlowRecord {
                id: stream.connection.id,
                sends: stream.connection.sends,
                local: stream.connection.local.to_string(),
                remote: stream.connection.remote.to_string(),
                sent: stream.sent.as_ref().map(sum_record),
                received: stream.received.as_ref().map(sum_record),
            })
            .collect(),
        server_output: outcome.server_output.clone().map(|output| match output {
            Output::Text(text) => text.into(),
            Output::Json(report) => (&report).into(),
        }),
        ..NetRecord::default()
    }
}

/// The lines of a stretch: each stream, and all of a way where there are several. The limit stands on a way's
/// last line.
pub(super) fn lines(start: &Start, interval: &Interval) -> Vec<IntervalRecord> {
    let mut lines = Vec::new();
    let first = start.role == Role::Client;
    for sends in [first, !first] {
        let streams: Vec<&StreamInterval> =
            interval.streams.iter().filter(|stream| stream.sends == sends).collect();
        if streams.is_empty() {
            continue;
        }
        let limit = if sends { interval.sending_limit } else { interval.receiving_limit };
        let limit = limit.map(|limit| limit.name().to_owned());
        if streams.len() > 1 {
            lines.extend(streams.iter().map(|stream| line(interval, std::slice::from_ref(stream), sends)));
            lines.push(IntervalRecord { id: None, limit, ..line(interval, &streams, sends) });
        } else {
            lines.push(IntervalRecord { limit, ..line(interval, &streams, sends) });
        }
    }
    lines
}

fn line(interval: &Interval, streams: &[&StreamInterval], sends: bool) -> IntervalRecord {
    let bytes = streams.iter().map(|stream| stream.bytes).sum();
    let span = interval.to - interval.from;
    let tcp = || streams.iter().filter_map(|stream| stream.tcp.as_ref());
    let rtts: Vec<f64> = tcp().filter_map(|tcp| tcp.rtt).map(|rtt| rtt.as_secs_f64()).collect();
    let has_tcp = tcp().next().is_some();
    let udp: Vec<&UdpFigures> = streams.iter().filter_map(|stream| stream.udp.as_ref()).collect();
    IntervalRecord {
        id: streams.first().map(|stream| stream.id),
        sends,
        from: interval.from,
        to: interval.to,
        omitted: interval.omitted,
        bytes,
        rate: if span > 0.0 { bytes as f64 / span } else { 0.0 },
        rtt: (!rtts.is_empty()).then(|| rtts.iter().sum::<f64>() / rtts.len() as f64),
        min_rtt: tcp().filter_map(|tcp| tcp.min_rtt).min().map(|rtt| rtt.as_secs_f64()),
        cwnd: has_tcp.then(|| tcp().map(|tcp| tcp.cwnd).sum()),
        retransmits: (has_tcp && sends).then(|| tcp().map(|tcp| tcp.retransmits).sum()),
        datagrams: (!udp.is_empty()).then(|| DatagramsRecord {
            packets: udp.iter().map(|udp| udp.packets).sum(),
            lost: udp.iter().map(|udp| udp.lost).sum(),
            out_of_order: udp.iter().map(|udp| udp.out_of_order).sum(),
            jitter: udp.iter().map(|udp| udp.jitter).sum::<f64>() / udp.len() as f64,
        }),
        limit: None,
    }
}

fn sum_record(sum: &Sum) -> SumRecord {
    SumRecord {
        bytes: sum.bytes,
        seconds: sum.seconds,
        rate: if sum.seconds > 0.0 { sum.bytes as f64 / sum.seconds } else { 0.0 },
        retransmits: sum.retransmits,
        datagrams: sum.udp.map(|udp| DatagramsRecord {
            packets: udp.packets,
            lost: udp.lost,
            out_of_order: udp.out_of_order,
            jitter: udp.jitter,
        }),
    }
}

#[cfg(test)]
mod tests {
    use weir_model::advice::Advice;
    use weir_model::limit::Limit;
    use weir_model::verdict::MainLimit;

    use super::*;

    #[test]
    fn losses_override_what_the_sender_says_of_itself() {
        let of = |packets, lost| {
            let udp = UdpFigures { packets, lost, ..UdpFigures::default() };
            Some(Sum { udp: Some(udp), ..Sum::default() })
        };
        let verdict = |received| judged(Some(&Evidence::default()), received).map(|(_, verdict)| verdict);
        let (kept, lossy) = (verdict(of(1000, 5)).unwrap(), verdict(of(1000, 496)).unwrap());
        assert_eq!(kept, explain(&Evidence::default()));
        assert!(lossy.missing[0].starts_with("49.6 % of the datagrams were lost"), "{:?}", lossy.missing);
        assert!(lossy.limit.is_none() && lossy.advice.is_empty() && lossy.innocent.is_empty());
        assert_eq!(verdict(None).unwrap(), kept);
        let (limit, innocent) = (Some(MainLimit::One(Limit::RateLimit)), vec!["cpu-core: 3 %".to_owned()]);
        let advice = vec![Advice { action: "raise it".to_owned(), predicted_rate: None }];
        let sure = Verdict { limit, confidence: 0.9, innocent, advice, ..kept };
        let lossy = overridden(sure, "lost".to_owned());
        assert!(lossy.limit.is_none() && lossy.advice.is_empty() && lossy.innocent.is_empty());
        assert_eq!((lossy.confidence, lossy.missing[0].as_str()), (0.0, "lost"));
    }
}
