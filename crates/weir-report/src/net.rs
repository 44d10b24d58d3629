//! What `weir bench net` adds to a record: the streams and their figures, for JSON and for people.
//!
//! ```text
//! [ID]  interval            transfer  goodput        rtt      min rtt  cwnd     retr  limit
//! [ 1]    0.00-1.00  s      5.12 GB   41.0 Gbit/s    0.05 ms  0.02 ms  1.31 MB  0     cpu-core
//! ```

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_units::{Bytes, Rate, human_duration};

use crate::escape::escape;
use crate::schema::VerdictRecord;

/// The member `net` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetRecord {
    /// `client` or `server`.
    pub role: String,
    /// As the client named the server; of a server its client's address.
    pub host: String,
    /// The other end of the control connection.
    pub peer: String,
    /// `tcp` or `udp`.
    pub transport: String,
    /// `forward` (client to server), `reverse`, `both`.
    pub direction: String,
    /// Streams each way.
    pub streams: u32,
    /// Seconds at the start that did not count.
    pub omit: u32,
    /// Bytes of a write or datagram; 0 where weir chose.
    pub block: u32,
    /// Bytes per second and stream that were allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_cap: Option<f64>,
    /// As the sender of the test's way counted (client to server, unless `reverse`).
    pub sent: Option<SumRecord>,
    /// As its receiver counted.
    pub received: Option<SumRecord>,
    /// Of `both`: the way back, as the server counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_sent: Option<SumRecord>,
    /// Of `both`: the way back, as the client counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_received: Option<SumRecord>,
    /// Of `both`: what held the way back; the record's own verdict is of the way there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_verdict: Option<VerdictRecord>,
    /// Congestion control of this end.
    pub congestion_control: Option<String>,
    /// Of the other end.
    pub peer_congestion_control: Option<String>,
    /// Bytes, headers of IP included.
    pub path_mtu: Option<u32>,
    /// Payload of a segment, bytes.
    pub segment: Option<u32>,
    /// This end copied what it sent out of its memory; else pages of the kernel went (sendfile).
    pub copied_sending: bool,
    /// This end copied what it received into its memory; else the kernel dropped it (MSG_TRUNC).
    pub copied_receiving: bool,
    /// The same of the other end; `null` where it did not tell (iperf3 does not).
    pub peer_copied_sending: Option<bool>,
    /// Likewise.
    pub peer_copied_receiving: Option<bool>,
    /// Share of one processor that this program used, 0 to 1 and more.
    pub cpu: f64,
    /// The same of the other end's program; `null` when it did not tell.
    pub peer_cpu: Option<f64>,
    /// The run in stretches.
    pub intervals: Vec<IntervalRecord>,
    /// Each stream.
    pub flows: Vec<FlowRecord>,
    /// The server's report, text or JSON, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output: Option<Value>,
}

/// What one end counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SumRecord {
    /// Payload.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
    /// Bytes per second.
    pub rate: f64,
    /// Segments sent again, where they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramsRecord>,
}

/// Datagrams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatagramsRecord {
    /// Sent, or the numbers that went by at the receiver.
    pub packets: u64,
    /// Did not come.
    pub lost: u64,
    /// Came late.
    pub out_of_order: u64,
    /// Seconds (RFC 1889).
    pub jitter: f64,
}

/// All streams of one way over a stretch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntervalRecord {
    /// The stream, where the line is of one; `null` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// This end sends.
    pub sends: bool,
    /// Seconds from the start.
    pub from: f64,
    /// Seconds from the start.
    pub to: f64,
    /// It does not count.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub omitted: bool,
    /// Payload.
    pub bytes: u64,
    /// Bytes per second.
    pub rate: f64,
    /// Seconds, mean of the streams.
    pub rtt: Option<f64>,
    /// Seconds, smallest.
    pub min_rtt: Option<f64>,
    /// Congestion windows, bytes, sum of the streams.
    pub cwnd: Option<u64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramsRecord>,
    /// What held it for most of its time.
    pub limit: Option<String>,
}

/// One stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowRecord {
    /// Its number.
    pub id: u32,
    /// This end sent.
    pub sends: bool,
    /// This end.
    pub local: String,
    /// The other.
    pub remote: String,
    /// As its sender counted.
    pub sent: Option<SumRecord>,
    /// As its receiver counted.
    pub received: Option<SumRecord>,
}

/// How rates are printed: `None` picks the prefix, bits per second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Units(pub Option<char>);

impl Units {
    fn rate(self, rate: f64) -> String {
        let (unit, per_byte, word) = match self.0 {
            None => return bits(rate),
            Some(unit) if unit.is_ascii_lowercase() => (unit, 8.0, "bit/s"),
            Some(unit) => (unit, 1.0, "B/s"),
        };
        let (prefix, scale) = match unit.to_ascii_lowercase() {
            'k' => ("k", 1e3),
            'm' => ("M", 1e6),
            'g' => ("G", 1e9),
            _ => ("T", 1e12),
        };
        format!("{:.2} {prefix}{word}", rate * per_byte / scale)
    }
}

/// `41.0 Gbit/s`.
pub fn bits(rate: f64) -> String {
    // Three digits and a decimal prefix, as bytes have; only the unit's name differs.
    let text = Rate(rate * 8.0).to_string();
    text.replace("KB/s", "kB/s").replace("B/s", "bit/s")
}

/// The heading of the intervals.
pub fn render_heading(udp: bool, out: &mut dyn Write) -> io::Result<()> {
    let figures = if udp {
        format!("{:<9} {:<10} {:<16} {:<7}", "datagrams", "jitter", "lost", "late")
    } else {
        format!("{:<10} {:<10} {:<9} {:<6}", "rtt", "min rtt", "cwnd", "retr")
    };
    writeln!(out, "{:<7} {:<18} {:<9} {:<13} {figures} limit", "[ID]", "interval", "transfer", "goodput")
}

/// One line. Of UDP a sender's has no losses.
pub fn render_interval(line: &IntervalRecord, units: Units, out: &mut dyn Write) -> io::Result<()> {
    let figures = match &line.datagrams {
        Some(datagrams) => udp_figures(datagrams, line.sends),
        None => format!(
            "{:<10} {:<10} {:<9} {:<6}",
            seconds(line.rtt),
            seconds(line.min_rtt),
            line.cwnd.filter(|_| line.sends).map_or_else(dash, |cwnd| Bytes(cwnd).to_string()),
            line.retransmits.filter(|_| line.sends).map_or_else(dash, |count| count.to_string()),
        ),
    };
    let limit = line.limit.as_deref().unwrap_or("-");
    let omitted = if line.omitted { " (omitted)" } else { "" };
    let IntervalRecord { id, sends, from, to, bytes, rate, .. } = *line;
    Columns { id, sends, from, to, bytes, rate }.render(units, out)?;
    writeln!(out, " {figures} {limit}{omitted}")
}

/// The sums of both ends, and what holds for the whole run.
pub fn render_sums(net: &NetRecord, units: Units, out: &mut dyn Write) -> io::Result<()> {
    const SHOWN: usize = 8;
    if net.flows.len() > 1 {
        for flow in net.flows.iter().take(SHOWN) {
            sum(Some(flow.id), flow.sends, flow.sent.as_ref(), "sent", units, out)?;
            sum(Some(flow.id), flow.sends, flow.received.as_ref(), "received", units, out)?;
        }
        if net.flows.len() > SHOWN {
            writeln!(out, "        {} more streams are in the record (--json)", net.flows.len() - SHOWN)?;
        }
    }
    let sends = (net.role == "client") == (net.direction != "reverse");
    sum(None, sends, net.sent.as_ref(), "sent", units, out)?;
    sum(None, sends, net.received.as_ref(), "received", units, out)?;
    sum(None, !sends, net.back_sent.as_ref(), "sent", units, out)?;
    sum(None, !sends, net.back_received.as_ref(), "received", units, out)?;
    let mut facts = Vec::new();
    let name = |name: &Option<String>| {
        name.as_deref().map_or_else(|| "unknown".to_owned(), |name| escape(name).into_owned())
    };
    if net.transport == "tcp" {
        let (own, peer) = (name(&net.congestion_control), name(&net.peer_congestion_control));
        facts.push(format!("congestion control {own} here, {peer} there"));
        facts.extend(net.path_mtu.map(|mtu| format!("path MTU {mtu} bytes")));
        facts.extend(net.segment.map(|segment| format!("segments of {segment} bytes")));
    }
    let cpu = |share: f64| format!("{:.0} %", share * 100.0);
    let there = net.peer_cpu.map_or_else(String::new, |share| format!(", {} there", cpu(share)));
    facts.push(format!("processor {} here{there}", cpu(net.cpu)));
    writeln!(out, "{}", facts.join(" · "))?;
    if let Some(left_out) = left_out(net, net.copied_sending, net.copied_receiving, true) {
        writeln!(out, "left out here: {left_out}")?;
    }
    let there = net.peer_copied_sending.zip(net.peer_copied_receiving);
    if let Some(left_out) = there.and_then(|(sends, receives)| left_out(net, sends, receives, false)) {
        writeln!(out, "left out there: {left_out}")?;
    }
    Ok(())
}

/// Which copies an end did not make, this one or the other.
fn left_out(net: &NetRecord, copied_sending: bool, copied_receiving: bool, here: bool) -> Option<String> {
    if net.transport != "tcp" {
        return None;
    }
    let sends = net.flows.iter().any(|flow| flow.sends == here) && !copied_sending;
    let receives = net.flows.iter().any(|flow| flow.sends != here) && !copied_receiving;
    match (sends, receives) {
        (true, true) => Some(
            "the copies out of the program (sendfile) and into it (MSG_TRUNC; --copy makes it)".to_owned(),
        ),
        (true, false) => Some("the copy from the program into the kernel (sendfile)".to_owned()),
        (false, true) => {
            Some("the copy from the kernel into the program (MSG_TRUNC; --copy makes it)".to_owned())
        }
        (false, false) => None,
    }
}

fn sum(
    id: Option<u32>,
    sends: bool,
    sum: Option<&SumRecord>,
    what: &str,
    units: Units,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(sum) = sum else { return Ok(()) };
    let SumRecord { bytes, seconds: to, rate, .. } = *sum;
    Columns { id, sends, from: 0.0, to, bytes, rate }.render(units, out)?;
    let figures = match (&sum.datagrams, sum.retransmits) {
        (Some(datagrams), _) => format!(" {}", udp_figures(datagrams, what == "sent")),
        (None, Some(retransmits)) if what == "sent" => format!(" {:<6}", format!("{retransmits} retr")),
        _ => String::new(),
    };
    writeln!(out, " {what}{figures}")
}

fn udp_figures(datagrams: &DatagramsRecord, sends: bool) -> String {
    let DatagramsRecord { packets, lost, out_of_order, jitter } = datagrams;
    if sends {
        return format!("{packets:<9} {:<10} {:<16} {:<7}", "-", "-", "-");
    }
    let share = if *packets > 0 { 100.0 * *lost as f64 / *packets as f64 } else { 0.0 };
    format!(
        "{packets:<9} {:<10} {:<16} {out_of_order:<7}",
        seconds(Some(*jitter)),
        format!("{lost} ({share:.2} %)")
    )
}

/// What every line begins with.
struct Columns {
    id: Option<u32>,
    sends: bool,
    from: f64,
    to: f64,
    bytes: u64,
    rate: f64,
}

impl Columns {
    fn render(&self, units: Units, out: &mut dyn Write) -> io::Result<()> {
        let id = self.id.map_or_else(|| "sum".to_owned(), |id| format!("{id:>3}"));
        let way = if self.sends { '>' } else { '<' };
        let span = format!("{:>6.2}-{:<6.2} s", self.from, self.to);
        write!(out, "[{id} {way}] {span:<18} {:<9} {:<13}", Bytes(self.bytes), units.rate(self.rate))
    }
}

fn seconds(seconds: Option<f64>) -> String {
    match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(span) => human_duration(span),
        None => dash(),
    }
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(render: impl Fn(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        render(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_of_tcp_has_all_its_figures() {
        let line = IntervalRecord {
            id: Some(1),
            sends: true,
            from: 0.0,
            to: 1.0,
            bytes: 5_120_000_000,
            rate: 5.12e9,
            rtt: Some(5e-5),
            min_rtt: Some(2e-5),
            cwnd: Some(1_310_000),
            retransmits: Some(0),
            limit: Some("cpu-core".to_owned()),
            ..IntervalRecord::default()
        };
        assert_eq!(
            text(|out| render_interval(&line, Units::default(), out)),
            "[  1 >]   0.00-1.00   s    5.12 GB   41.0 Gbit/s   50 µs      20 µs      1.31 MB   0      cpu-core\n"
        );
        let receiving = IntervalRecord { sends: false, id: None, ..line };
        assert_eq!(
            text(|out| render_interval(&receiving, Units(Some('m')), out)),
            "[sum <]   0.00-1.00   s    5.12 GB   40960.00 Mbit/s 50 µs      20 µs      -         -      cpu-core\n"
        );
    }

    #[test]
    fn what_was_left_out_is_said() {
        let flow = |sends| FlowRecord { sends, ..FlowRecord::default() };
        let net = NetRecord { transport: "tcp".to_owned(), flows: vec![flow(true)], ..NetRecord::default() };
        let said = |net: &NetRecord| text(|out| render_sums(net, Units::default(), out));
        assert!(said(&net).contains("left out here: the copy from the program into the kernel (sendfile)"));
        let copied = NetRecord { copied_sending: true, ..net.clone() };
        assert!(!said(&copied).contains("left out"));
        let there = NetRecord {
            peer_copied_sending: Some(true),
            peer_copied_receiving: Some(false),
            ..copied.clone()
        };
        assert!(
            said(&there).contains("left out there: the copy from the kernel into the program (MSG_TRUNC")
        );
        let both = NetRecord { flows: vec![flow(true), flow(false)], ..net };
        assert!(said(&both).contains("left out here: the copies out of the program (sendfile)"));
    }

    #[test]
    fn rates_are_in_bits() {
        assert_eq!(bits(1e9 / 8.0), "1.00 Gbit/s");
        assert_eq!(bits(1500.0), "12.0 kbit/s");
        assert_eq!(Units(Some('G')).rate(2.5e9), "2.50 GB/s");
    }
}
