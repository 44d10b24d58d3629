//! iperf3's own JSON (`-J`, `--json-stream`), so that what reads it goes on working. Keys, their nesting and
//! their order are those of
//! 3.12, with the members that 3.21 has beside them; `weir` is the one member of weir's own, with the
//! verdict, and stands last.

use std::time::{Duration, UNIX_EPOCH};

use weir_bench_net::copies::Copies;
use weir_bench_net::ordered::Json;
use weir_bench_net::outcome::{
    Connected, Ending, Interval, Role, Start, StreamInterval, StreamOutcome, Sum, TestOutcome, UdpFigures,
};
use weir_bench_net::parameters::{Direction, Transport};
use weir_bench_net::results::Output;

use super::{iperf3_version, record};

/// A test that did not begin.
pub(super) fn failed(error: &anyhow::Error) -> Json {
    let start = Json::object()
        .with("connected", Json::List(Vec::new()))
        .with("version", iperf3_version())
        .with("system_info", system());
    let end = Json::object();
    Json::object()
        .with("start", start)
        .with("intervals", Json::List(Vec::new()))
        .with("end", end)
        .with("error", format!("error - {}", crate::voice::words(error)))
}

/// A whole test.
pub(super) fn whole(outcome: &TestOutcome) -> Json {
    let intervals = outcome.intervals.iter().map(|interval| of_interval(&outcome.start, interval)).collect();
    let mut whole = Json::object()
        .with("start", of_start(&outcome.start))
        .with("intervals", Json::List(intervals))
        .with("end", of_end(outcome));
    if let Some(error) = error(outcome) {
        whole.put("error", error);
    }
    let parameters = &outcome.start.parameters;
    for (name, value) in [("title", &parameters.title), ("extra_data", &parameters.extra_data)] {
        if let Some(value) = value {
            whole.put(name, value);
        }
    }
    if let Some((name, report)) = report(outcome) {
        whole.put(name, report);
    }
    whole.with("weir", own(outcome))
}

/// What is printed of a stream of events when it ends, a line each.
pub(super) fn events_at_end(outcome: &TestOutcome) -> Vec<Json> {
    let error = error(outcome).map(|error| event("error", error.into()));
    let report = report(outcome).map(|(name, report)| event(name, report));
    let end = of_end(outcome).with("weir", own(outcome));
    error.into_iter().chain(report).chain([event("end", end)]).collect()
}

/// The same of a test that did not begin.
pub(super) fn events_of_failure(error: &anyhow::Error) -> Vec<Json> {
    let words = format!("error - {}", crate::voice::words(error));
    vec![event("error", words.into()), event("end", Json::object())]
}

/// A line of a stream of events.
pub(super) fn event(name: &str, data: Json) -> Json {
    Json::object().with("event", name).with("data", data)
}

fn error(outcome: &TestOutcome) -> Option<String> {
    match &outcome.ending {
        Ending::Complete => None,
        Ending::Interrupted => Some("interrupt - the client has terminated".to_owned()),
        Ending::Broken(why) => Some(format!("error - {why}")),
    }
}

/// The server's report, where it was asked for.
fn report(outcome: &TestOutcome) -> Option<(&'static str, Json)> {
    match outcome.server_output.as_ref()? {
        Output::Text(text) => Some(("server_output_text", text.into())),
        Output::Json(json) => Some(("server_output_json", json.clone())),
    }
}

/// The verdict, and which copies between program and kernel were made; `null` of an end that did not tell.
fn own(outcome: &TestOutcome) -> Json {
    let of =
        |copies: Copies| Json::object().with("sending", copies.sending).with("receiving", copies.receiving);
    let there = outcome.remote_copies.map_or(Json::Leaf(serde_json::Value::Null), of);
    let copies = Json::object().with("here", of(outcome.start.copies)).with("there", there);
    let (record, _) = record::record(outcome);
    let verdict = serde_json::to_value(&record.verdict).unwrap_or_default();
    Json::object().with("verdict", verdict).with("copies", copies)
}

/// How the test begins.
pub(super) fn of_start(start: &Start) -> Json {
    let parameters = &start.parameters;
    let udp = parameters.transport == Transport::Udp;
    let server = start.role == Role::Server;
    let since = start.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let connected = start.streams.iter().map(of_connection).collect();
    let mut value = Json::object()
        .with("connected", Json::List(connected))
        .with("version", iperf3_version())
        .with("system_info", system());
    if server && parameters.rate > 0 {
        value.put("target_bitrate", parameters.rate);
    }
    if server && !udp {
        buffers(start, &mut value);
    }
    let timestamp = Json::object()
        .with("time", http_date(since.as_secs()))
        .with("timesecs", since.as_secs())
        .with("timemillisecs", millis(since));
    value.put("timestamp", timestamp);
    let peer = |host: &str| Json::object().with("host", host).with("port", start.peer.port());
    if server {
        value.put("accepted_connection", peer(&plain(start.peer)));
    } else {
        value.put("connecting_to", peer(&start.host));
    }
    value.put("cookie", start.cookie.to_string());
    match parameters.segment {
        _ if udp => {}
        Some(segment) => value.put("tcp_mss", segment),
        None => value.put("tcp_mss_default", start.segment),
    }
    value.put("target_bitrate", parameters.rate);
    value.put("fq_rate", parameters.pacing.unwrap_or_default().saturating_mul(8));
    buffers(start, &mut value);
    value.with("test_start", test_start(start))
}

fn buffers(start: &Start, value: &mut Json) {
    value.put("sock_bufsize", start.parameters.window.unwrap_or_default());
    value.put("sndbuf_actual", start.buffers.0);
    value.put("rcvbuf_actual", start.buffers.1);
}

fn test_start(start: &Start) -> Json {
    let parameters = &start.parameters;
    let udp = parameters.transport == Transport::Udp;
    // Of weir bundles are the rule, of iperf3 they are asked for.
    let bundles = u8::from(udp && start.bundles);
    Json::object()
        .with("protocol", if udp { "UDP" } else { "TCP" })
        .with("num_streams", parameters.parallel)
        .with("blksize", parameters.block)
        .with("omit", parameters.omit)
        .with("duration", parameters.time)
        .with("bytes", parameters.bytes)
        .with("blocks", parameters.blocks)
        .with("reverse", u8::from(parameters.direction == Direction::Reverse))
        .with("tos", parameters.service)
        .with("target_bitrate", parameters.rate)
        .with("bidir", u8::from(parameters.direction == Direction::Both))
        .with("fqrate", parameters.pacing.unwrap_or_default().saturating_mul(8))
        .with("interval", start.interval.as_secs_f64())
        .with("gso", bundles)
        .with("gro", bundles)
}

/// `Linux HOST RELEASE ...`, as uname prints it.
pub(super) fn system() -> String {
    let uname = rustix::system::uname();
    let part = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    [uname.sysname(), uname.nodename(), uname.release(), uname.version(), uname.machine()].map(part).join(" ")
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// RFC 1123, as iperf3 prints it. Days by the civil calendar (Howard Hinnant, days_from_civil, turned round).
pub(super) fn http_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = seconds / 86_400;
    let shifted = days + 719_468; // days from 1 March of year 0
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = (march + 2) % 12;
    let year = year_of_era + era * 400 + u64::from(month < 2);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let (weekday, month) = (DAYS[(days % 7) as usize], MONTHS[month as usize]);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

fn of_connection(connection: &Connected) -> Json {
    Json::object()
        .with("socket", socket(connection.id))
        .with("local_host", plain(connection.local))
        .with("local_port", connection.local.port())
        .with("remote_host", plain(connection.remote))
        .with("remote_port", connection.remote.port())
}

/// A stream's number in iperf3's reports. There it is the socket's descriptor: 5, 7, 9, ... of a client,
/// which scripts look for.
pub(super) fn socket(id: u32) -> u32 {
    3 + 2 * id.saturating_sub(1).max(1)
}

pub(super) fn plain(address: std::net::SocketAddr) -> String {
    address.ip().to_canonical().to_string()
}

fn bits(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// A stretch of the test.
pub(super) fn of_interval(start: &Start, interval: &Interval) -> Json {
    let first = start.role == Role::Client;
    let of_way = |sends: bool| interval.streams.iter().filter(move |stream| stream.sends == sends);
    let streams = of_way(first).chain(of_way(!first)).map(|stream| of_stream(interval, stream)).collect();
    let mut value = Json::object().with("streams", Json::List(streams));
    // Of a test both ways the way back has a name of its own.
    for (sends, name) in [(first, "sum"), (!first, "sum_bidir_reverse")] {
        let streams: Vec<&StreamInterval> = of_way(sends).collect();
        if streams.is_empty() {
            continue;
        }
        let name = if start.parameters.direction == Direction::Both { name } else { "sum" };
        value.put(name, sum_of_interval(interval, &streams, sends));
    }
    value
}

fn of_stream(interval: &Interval, stream: &StreamInterval) -> Json {
    let mut value = Json::object().with("socket", socket(stream.id));
    spans(&mut value, interval.from, interval.to, stream.bytes);
    if let Some(tcp) = stream.tcp.filter(|_| stream.sends) {
        let micros = |span: Option<Duration>| span.unwrap_or_default().as_micros() as u64;
        value = value
            .with("retransmits", tcp.retransmits)
            .with("snd_cwnd", tcp.cwnd)
            .with("snd_wnd", tcp.peer_window.unwrap_or_default())
            .with("rtt", micros(tcp.rtt))
            .with("rttvar", micros(tcp.rtt_deviation))
            .with("pmtu", tcp.path_mtu.unwrap_or_default())
            .with("reorder", tcp.reordered);
    }
    if let Some(udp) = &stream.udp {
        datagrams(&mut value, udp, !stream.sends);
    }
    value.with("omitted", interval.omitted).with("sender", stream.sends)
}

fn sum_of_interval(interval: &Interval, streams: &[&StreamInterval], sends: bool) -> Json {
    let mut value = Json::object();
    spans(&mut value, interval.from, interval.to, streams.iter().map(|stream| stream.bytes).sum());
    let tcp: Vec<_> = streams.iter().filter_map(|stream| stream.tcp).collect();
    if sends && !tcp.is_empty() {
        value.put("retransmits", tcp.iter().map(|tcp| tcp.retransmits).sum::<u64>());
    }
    if let Some(sum) = all_datagrams(streams) {
        datagrams(&mut value, &sum, !sends);
    }
    value.with("omitted", interval.omitted).with("sender", sends)
}

/// The datagrams of all these streams; `None` of TCP.
pub(super) fn all_datagrams(streams: &[&StreamInterval]) -> Option<UdpFigures> {
    let udp: Vec<UdpFigures> = streams.iter().filter_map(|stream| stream.udp).collect();
    (!udp.is_empty()).then(|| UdpFigures {
        packets: udp.iter().map(|udp| udp.packets).sum(),
        lost: udp.iter().map(|udp| udp.lost).sum(),
        out_of_order: udp.iter().map(|udp| udp.out_of_order).sum(),
        jitter: udp.iter().map(|udp| udp.jitter).sum::<f64>() / udp.len() as f64,
    })
}

fn spans(value: &mut Json, from: f64, to: f64, bytes: u64) {
    let seconds = to - from;
    value.put("start", from);
    value.put("end", to);
    value.put("seconds", seconds);
    value.put("bytes", bytes);
    value.put("bits_per_second", bits(bytes, seconds));
}

fn datagrams(value: &mut Json, udp: &UdpFigures, with_losses: bool) {
    if with_losses {
        value.put("jitter_ms", udp.jitter * 1e3);
        value.put("lost_packets", udp.lost);
    }
    value.put("packets", udp.packets);
    if with_losses {
        value.put("lost_percent", lost_percent(udp));
    }
}

/// Of a hundred datagrams.
pub(super) fn lost_percent(udp: &UdpFigures) -> f64 {
    if udp.packets > 0 { 100.0 * udp.lost as f64 / udp.packets as f64 } else { 0.0 }
}

fn of_end(outcome: &TestOutcome) -> Json {
    let start = &outcome.start;
    let udp = start.parameters.transport == Transport::Udp;
    let of = |stream: &StreamOutcome| if udp { of_udp(stream) } else { of_tcp(stream) };
    let mut value = Json::object().with("streams", Json::List(outcome.streams.iter().map(of).collect()));
    // The way of the test, then the way back of one both ways.
    let forward = (start.role == Role::Client) == (start.parameters.direction != Direction::Reverse);
    for (sends, suffix) in [(forward, ""), (!forward, "_bidir_reverse")] {
        let sent = outcome.sum(sends, |stream| stream.sent);
        let received = outcome.sum(sends, |stream| stream.received);
        if sent.is_none() && received.is_none() {
            continue;
        }
        if udp {
            value.put(&format!("sum{suffix}"), both(Json::object(), sent, received, sends));
        }
        // Of UDP these say whose count it is, of TCP whether this end sent.
        value.put(
            &format!("sum_sent{suffix}"),
            sum(Json::object(), sent.as_ref(), udp).with("sender", udp || sends),
        );
        let received = received.map(|sum| Sum { retransmits: None, ..sum });
        let received = sum(Json::object(), received.as_ref(), udp);
        value.put(&format!("sum_received{suffix}"), received.with("sender", !udp && sends));
    }
    let remote = outcome.remote_cpu.unwrap_or_default();
    let shares = Json::object()
        .with("host_total", outcome.cpu.total)
        .with("host_user", outcome.cpu.user)
        .with("host_system", outcome.cpu.system)
        .with("remote_total", remote.total)
        .with("remote_user", remote.user)
        .with("remote_system", remote.system);
    value.put("cpu_utilization_percent", shares);
    let (sender, receiver) = congestion(outcome);
    for (name, congestion) in [("sender_tcp_congestion", sender), ("receiver_tcp_congestion", receiver)] {
        if let Some(congestion) = congestion.filter(|_| !udp) {
            value.put(name, congestion);
        }
    }
    value
}

/// Of the end that sends on the way of the test, and of the other.
pub(super) fn congestion(outcome: &TestOutcome) -> (Option<&str>, Option<&str>) {
    let start = &outcome.start;
    let sends = (start.role == Role::Client) == (start.parameters.direction != Direction::Reverse);
    let (own, peer) = (outcome.congestion.0.as_deref(), outcome.congestion.1.as_deref());
    if sends { (own, peer) } else { (peer, own) }
}

fn of_tcp(stream: &StreamOutcome) -> Json {
    let sends = stream.connection.sends;
    let begun = || Json::object().with("socket", socket(stream.connection.id));
    let mut sender = sum(begun(), stream.sent.as_ref(), false);
    if stream.sent.is_some_and(|sent| sent.retransmits.is_some()) {
        // Zero where the other end sends, as there.
        let (least, mean, most) = stream.rtt.filter(|_| sends).unwrap_or_default();
        sender.put("reorder", stream.reordered);
        sender.put("max_snd_cwnd", stream.most_cwnd);
        sender.put("max_snd_wnd", stream.most_window);
        for (name, span) in [("max_rtt", most), ("min_rtt", least), ("mean_rtt", mean)] {
            sender.put(name, span.as_micros() as u64);
        }
    }
    let received = stream.received.map(|sum| Sum { retransmits: None, ..sum });
    let receiver = sum(begun(), received.as_ref(), false);
    Json::object()
        .with("sender", sender.with("sender", sends))
        .with("receiver", receiver.with("sender", sends))
}

fn of_udp(stream: &StreamOutcome) -> Json {
    let sends = stream.connection.sends;
    let begun = Json::object().with("socket", socket(stream.connection.id));
    let found = datagrams_of_both(stream.sent, stream.received);
    let late = stream.received.and_then(|sum| sum.udp).unwrap_or_default().out_of_order;
    let udp = sum(begun, found.as_ref(), true).with("out_of_order", late).with("sender", sends);
    Json::object().with("udp", udp)
}

/// Of UDP in one: the bytes that the sender counts, and what the receiver found of them.
fn datagrams_of_both(sent: Option<Sum>, received: Option<Sum>) -> Option<Sum> {
    let udp = received.or(sent).and_then(|sum| sum.udp);
    sent.or(received).map(|sum| Sum { udp, ..sum })
}

fn both(value: Json, sent: Option<Sum>, received: Option<Sum>, sends: bool) -> Json {
    sum(value, datagrams_of_both(sent, received).as_ref(), true).with("sender", sends)
}

/// `value` with the figures of a sum behind what it has.
fn sum(mut value: Json, found: Option<&Sum>, udp: bool) -> Json {
    let found = found.copied().unwrap_or_default();
    spans(&mut value, 0.0, found.seconds, found.bytes);
    if let Some(retransmits) = found.retransmits {
        value.put("retransmits", retransmits);
    }
    if udp {
        datagrams(&mut value, &found.udp.unwrap_or_default(), true);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn datagrams_are_the_senders_bytes_and_the_receivers_losses() {
        let udp = |packets, lost| Some(UdpFigures { packets, lost, out_of_order: 0, jitter: 0.001 });
        let sent = Sum { bytes: 1000, seconds: 1.0, retransmits: None, udp: udp(10, 0) };
        let received = Sum { bytes: 800, seconds: 1.1, udp: udp(10, 2), ..sent };
        let told = |sent, received, sends| Value::from(&both(Json::object(), sent, received, sends));
        let value = told(Some(sent), Some(received), true);
        let figures = ["bytes", "packets", "lost_packets"].map(|name| value[name].as_u64());
        assert_eq!(figures, [Some(1000), Some(10), Some(2)]);
        assert_eq!((&value["lost_percent"], &value["sender"]), (&json!(20.0), &json!(true)));
        // Where the other end told nothing.
        assert_eq!(told(Some(sent), None, true)["bytes"], 1000);
        assert_eq!(told(None, Some(received), false)["bytes"], 800);
    }

    #[test]
    fn streams_are_numbered_as_descriptors_are() {
        assert_eq!([1, 3, 4, 5].map(socket), [5, 7, 9, 11]);
    }

    #[test]
    fn dates_are_as_the_calendar_has_them() {
        // date -u -d @N.
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_700_000_000, "Tue, 14 Nov 2023 22:13:20 GMT"),
            (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
        ] {
            assert_eq!(http_date(seconds), text);
        }
    }
}
