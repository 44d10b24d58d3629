//! iperf3's own JSON (`-J`), so that what reads it goes on working. Keys and their nesting are those of 3.12; `weir` is the
//! one member of weir's own, with the verdict.

use std::time::UNIX_EPOCH;

use serde_json::{Map, Value, json};
use weir_net::outcome::{
    Connected, Copies, Ending, Interval, Outcome, Role, Start, StreamInterval, StreamOutcome, Sum, UdpFigures,
};
use weir_net::parameters::{Direction, Transport};
use weir_net::results::Output;

use super::record;
use crate::args::VERSION;

/// A test that did not begin.
pub(super) fn failed(error: &anyhow::Error) -> Value {
    json!({ "start": { "connected": [], "version": version() }, "intervals": [], "end": {}, "error": format!("{error:#}") })
}

/// A whole test.
pub(super) fn whole(outcome: &Outcome) -> Value {
    let (record, _) = record::record(outcome);
    let intervals: Vec<Value> =
        outcome.intervals.iter().map(|interval| of_interval(&outcome.start, interval)).collect();
    let mut whole = json!({
        "start": start(&outcome.start),
        "intervals": intervals,
        "end": end(outcome),
        "weir": { "verdict": record.verdict, "copies": copies(outcome) },
    });
    match &outcome.server_output {
        Some(Output::Text(text)) => whole["server_output_text"] = json!(text),
        Some(Output::Json(value)) => whole["server_output_json"] = value.clone(),
        None => {}
    }
    for (name, value) in
        [("title", &outcome.start.parameters.title), ("extra_data", &outcome.start.parameters.extra_data)]
    {
        if let Some(value) = value {
            whole[name] = json!(value);
        }
    }
    match &outcome.ending {
        Ending::Complete => {}
        Ending::Interrupted => whole["error"] = json!("interrupt - the client has terminated"),
        Ending::Broken(why) => whole["error"] = json!(why),
    }
    whole
}

/// Which copies between program and kernel were made; `null` of an end that did not tell.
fn copies(outcome: &Outcome) -> Value {
    let of = |copies: Copies| json!({ "sending": copies.sending, "receiving": copies.receiving });
    json!({ "here": of(outcome.start.copies), "there": outcome.remote_copies.map(of) })
}

fn version() -> String {
    format!("weir {VERSION}")
}

fn start(start: &Start) -> Value {
    let parameters = &start.parameters;
    let udp = parameters.transport == Transport::Udp;
    let connected: Vec<Value> = start.streams.iter().map(of_connection).collect();
    let seconds = start.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut value = json!({
        "connected": connected,
        "version": version(),
        "system_info": system(),
        "timestamp": { "time": http_date(seconds), "timesecs": seconds },
        "cookie": start.cookie.to_string(),
        "target_bitrate": parameters.rate,
        "fq_rate": parameters.pacing.unwrap_or_default().saturating_mul(8),
        "sock_bufsize": parameters.window.unwrap_or_default(),
        "sndbuf_actual": start.buffers.0,
        "rcvbuf_actual": start.buffers.1,
        "test_start": {
            "protocol": if udp { "UDP" } else { "TCP" },
            "num_streams": parameters.parallel,
            "blksize": parameters.block,
            "omit": parameters.omit,
            "duration": parameters.time,
            "bytes": parameters.bytes,
            "blocks": parameters.blocks,
            "reverse": i32::from(parameters.direction == Direction::Reverse),
            "tos": parameters.service,
            "target_bitrate": parameters.rate,
            "bidir": i32::from(parameters.direction == Direction::Both),
            "fqrate": parameters.pacing.unwrap_or_default().saturating_mul(8),
        },
    });
    if !udp {
        value["tcp_mss_default"] = json!(start.segment);
    }
    if start.role == Role::Client {
        value["connecting_to"] = json!({ "host": start.host, "port": start.peer.port() });
    } else {
        value["accepted_connection"] = json!({ "host": plain(start.peer), "port": start.peer.port() });
    }
    value
}

/// `Linux HOST RELEASE ...`, as uname prints it.
fn system() -> String {
    let uname = rustix::system::uname();
    let part = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    [uname.sysname(), uname.nodename(), uname.release(), uname.version(), uname.machine()].map(part).join(" ")
}

/// RFC 1123, as iperf3 prints it. Days by the civil calendar (Howard Hinnant, days_from_civil, turned round).
fn http_date(seconds: u64) -> String {
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

fn of_connection(connection: &Connected) -> Value {
    json!({
        "socket": connection.id,
        "local_host": plain(connection.local),
        "local_port": connection.local.port(),
        "remote_host": plain(connection.remote),
        "remote_port": connection.remote.port(),
    })
}

fn plain(address: std::net::SocketAddr) -> String {
    address.ip().to_canonical().to_string()
}

fn bits(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

fn of_interval(start: &Start, interval: &Interval) -> Value {
    let streams: Vec<Value> = interval.streams.iter().map(|stream| of_stream(interval, stream)).collect();
    let mut value = json!({ "streams": streams });
    let first = start.role == Role::Client;
    // Of a test both ways the way back has a name of its own.
    for (sends, name) in [(first, "sum"), (!first, "sum_bidir_reverse")] {
        let of_way: Vec<&StreamInterval> =
            interval.streams.iter().filter(|stream| stream.sends == sends).collect();
        if of_way.is_empty() {
            continue;
        }
        let name = if start.parameters.direction == Direction::Both { name } else { "sum" };
        value[name] = sum_of_interval(interval, &of_way, sends);
    }
    value
}

fn of_stream(interval: &Interval, stream: &StreamInterval) -> Value {
    let mut value = Map::new();
    value.insert("socket".to_owned(), json!(stream.id));
    spans(&mut value, interval.from, interval.to, stream.bytes);
    if let Some(tcp) = stream.tcp.filter(|_| stream.sends) {
        let micros = |span: Option<std::time::Duration>| span.unwrap_or_default().as_micros() as u64;
        value.extend([
            ("retransmits".to_owned(), json!(tcp.retransmits)),
            ("snd_cwnd".to_owned(), json!(tcp.cwnd)),
            ("snd_wnd".to_owned(), json!(tcp.peer_window.unwrap_or_default())),
            ("rtt".to_owned(), json!(micros(tcp.rtt))),
            ("rttvar".to_owned(), json!(micros(tcp.rtt_deviation))),
            ("pmtu".to_owned(), json!(tcp.path_mtu.unwrap_or_default())),
        ]);
    }
    if let Some(udp) = &stream.udp {
        datagrams(&mut value, udp, !stream.sends);
    }
    value.insert("omitted".to_owned(), json!(interval.omitted));
    value.insert("sender".to_owned(), json!(stream.sends));
    Value::Object(value)
}

fn sum_of_interval(interval: &Interval, streams: &[&StreamInterval], sends: bool) -> Value {
    let mut value = Map::new();
    spans(&mut value, interval.from, interval.to, streams.iter().map(|stream| stream.bytes).sum());
    let tcp: Vec<_> = streams.iter().filter_map(|stream| stream.tcp).collect();
    if sends && !tcp.is_empty() {
        let all: u64 = tcp.iter().map(|tcp| tcp.retransmits).sum();
        value.insert("retransmits".to_owned(), json!(all));
    }
    let udp: Vec<UdpFigures> = streams.iter().filter_map(|stream| stream.udp).collect();
    if !udp.is_empty() {
        let sum = UdpFigures {
            packets: udp.iter().map(|udp| udp.packets).sum(),
            lost: udp.iter().map(|udp| udp.lost).sum(),
            out_of_order: udp.iter().map(|udp| udp.out_of_order).sum(),
            jitter: udp.iter().map(|udp| udp.jitter).sum::<f64>() / udp.len() as f64,
        };
        datagrams(&mut value, &sum, !sends);
    }
    value.insert("omitted".to_owned(), json!(interval.omitted));
    value.insert("sender".to_owned(), json!(sends));
    Value::Object(value)
}

fn spans(value: &mut Map<String, Value>, from: f64, to: f64, bytes: u64) {
    let seconds = to - from;
    for (name, number) in [
        ("start", json!(from)),
        ("end", json!(to)),
        ("seconds", json!(seconds)),
        ("bytes", json!(bytes)),
        ("bits_per_second", json!(bits(bytes, seconds))),
    ] {
        value.insert(name.to_owned(), number);
    }
}

fn datagrams(value: &mut Map<String, Value>, udp: &UdpFigures, with_losses: bool) {
    if with_losses {
        let share = if udp.packets > 0 { 100.0 * udp.lost as f64 / udp.packets as f64 } else { 0.0 };
        value.insert("jitter_ms".to_owned(), json!(udp.jitter * 1e3));
        value.insert("lost_packets".to_owned(), json!(udp.lost));
        value.insert("lost_percent".to_owned(), json!(share));
    }
    value.insert("packets".to_owned(), json!(udp.packets));
}

fn end(outcome: &Outcome) -> Value {
    let start = &outcome.start;
    let udp = start.parameters.transport == Transport::Udp;
    let streams: Vec<Value> =
        outcome.streams.iter().map(|stream| if udp { of_udp(stream) } else { of_tcp(stream) }).collect();
    let mut value = json!({ "streams": streams });
    // The way of the test, then the way back of one both ways.
    let forward = (start.role == Role::Client) == (start.parameters.direction != Direction::Reverse);
    for (sends, suffix) in [(forward, ""), (!forward, "_bidir_reverse")] {
        let sent = outcome.sum(sends, |stream| stream.sent);
        let received = outcome.sum(sends, |stream| stream.received);
        if sent.is_none() && received.is_none() {
            continue;
        }
        let name = |name: &str| format!("{name}{suffix}");
        if udp {
            value[name("sum")] = both(sent, received, sends);
        }
        // Of UDP these say whose count it is, of TCP whether this end sent.
        value[name("sum_sent")] = sum(sent.as_ref(), udp, udp || sends);
        value[name("sum_received")] = sum(received.as_ref(), udp, !udp && sends);
    }
    let remote = outcome.remote_cpu.unwrap_or_default();
    value["cpu_utilization_percent"] = json!({
        "host_total": outcome.cpu.total, "host_user": outcome.cpu.user, "host_system": outcome.cpu.system,
        "remote_total": remote.total, "remote_user": remote.user, "remote_system": remote.system,
    });
    let (own, peer) = &outcome.congestion;
    let (sender, receiver) = if forward { (own, peer) } else { (peer, own) };
    for (name, congestion) in [("sender_tcp_congestion", sender), ("receiver_tcp_congestion", receiver)] {
        if let Some(congestion) = congestion.as_ref().filter(|_| !udp) {
            value[name] = json!(congestion);
        }
    }
    value
}

fn of_tcp(stream: &StreamOutcome) -> Value {
    let sends = stream.connection.sends;
    let side = |found: Option<&Sum>| {
        let mut value = sum(found, false, sends);
        value["socket"] = json!(stream.connection.id);
        value
    };
    let mut sender = side(stream.sent.as_ref());
    // Zero where the other end sends, as there.
    let (least, mean, most) = stream.rtt.filter(|_| sends).unwrap_or_default();
    sender["max_snd_cwnd"] = json!(stream.most_cwnd);
    sender["max_snd_wnd"] = json!(stream.most_window);
    for (name, span) in [("max_rtt", most), ("min_rtt", least), ("mean_rtt", mean)] {
        sender[name] = json!(span.as_micros() as u64);
    }
    let mut receiver = side(stream.received.as_ref());
    if let Some(members) = receiver.as_object_mut() {
        members.remove("retransmits");
    }
    json!({ "sender": sender, "receiver": receiver })
}

fn of_udp(stream: &StreamOutcome) -> Value {
    let sends = stream.connection.sends;
    let mut value = both(stream.sent, stream.received, sends);
    value["socket"] = json!(stream.connection.id);
    let late = stream.received.and_then(|sum| sum.udp).unwrap_or_default().out_of_order;
    value["out_of_order"] = json!(late);
    json!({ "udp": value })
}

/// Of UDP in one: the bytes that the sender counts, and what the receiver found of them.
fn both(sent: Option<Sum>, received: Option<Sum>, sends: bool) -> Value {
    let udp = received.or(sent).and_then(|sum| sum.udp);
    let found = sent.or(received).map(|sum| Sum { udp, ..sum });
    sum(found.as_ref(), true, sends)
}

fn sum(found: Option<&Sum>, udp: bool, sends: bool) -> Value {
    let found = found.copied().unwrap_or_default();
    let mut value = Map::new();
    spans(&mut value, 0.0, found.seconds, found.bytes);
    if let Some(retransmits) = found.retransmits {
        value.insert("retransmits".to_owned(), json!(retransmits));
    }
    if udp {
        datagrams(&mut value, &found.udp.unwrap_or_default(), true);
    }
    value.insert("sender".to_owned(), json!(sends));
    Value::Object(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_the_senders_bytes_and_the_receivers_losses() {
        let udp = |packets, lost| Some(UdpFigures { packets, lost, out_of_order: 0, jitter: 0.001 });
        let sent = Sum { bytes: 1000, seconds: 1.0, retransmits: None, udp: udp(10, 0) };
        let received = Sum { bytes: 800, seconds: 1.1, udp: udp(10, 2), ..sent };
        let value = both(Some(sent), Some(received), true);
        let told = ["bytes", "packets", "lost_packets"].map(|name| value[name].as_u64());
        assert_eq!(told, [Some(1000), Some(10), Some(2)]);
        assert_eq!((&value["lost_percent"], &value["sender"]), (&json!(20.0), &json!(true)));
        // Where the other end told nothing.
        assert_eq!(both(Some(sent), None, true)["bytes"], 1000);
        assert_eq!(both(None, Some(received), false)["bytes"], 800);
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
