//! iperf3's own lines, so that what greps them goes on working: `grep receiver | awk '{print $7}'`. Words,
//! columns and their widths are those of 3.12.

use std::time::UNIX_EPOCH;

use weir_bench_net::outcome::{
    Interval, Role, Start, StreamInterval, StreamOutcome, Sum, TestOutcome, UdpFigures,
};
use weir_bench_net::parameters::{Direction, Parameters, Transport};
use weir_bench_net::results::{CpuUse, Output};
use weir_report::escape::{escape, escape_lines};
use weir_report::net::Units;

use super::iperf3_json::{all_datagrams, congestion, http_date, lost_percent, plain, socket, system};
use super::iperf3_version;

const SEPARATOR: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";

/// What stands before and behind a server's first words.
const RULE: &str = "-----------------------------------------------------------\n";

/// How the lines are to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) units: Units,
    /// `-V`.
    pub(super) wordy: bool,
}

/// A server waits for its test of this number.
pub(super) fn listening(port: u16, number: u64) -> String {
    format!("{RULE}Server listening on {port} (test #{number})\n{RULE}")
}

/// A test begins: whom with, and over which connections.
pub(super) fn begin(start: &Start, style: Style) -> String {
    let parameters = &start.parameters;
    let since = start.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut text = String::new();
    if style.wordy {
        text += &format!("{}\n{}\n", iperf3_version(), system());
        text += &format!("Control connection MSS {}\n", start.segment);
        text += &format!("Time: {}\n", http_date(since.as_secs()));
    }
    let (host, port) = (escape(&start.host), start.peer.port());
    match start.role {
        Role::Client => text += &format!("Connecting to host {host}, port {port}\n"),
        Role::Server => text += &format!("Accepted connection from {}, port {port}\n", plain(start.peer)),
    }
    if start.role == Role::Client && parameters.direction == Direction::Reverse {
        text += &format!("Reverse mode, remote host {host} is sending\n");
    }
    if style.wordy {
        text += &format!("      Cookie: {}\n", escape(&start.cookie.to_string()));
        match parameters.segment {
            _ if parameters.transport == Transport::Udp => {}
            Some(segment) => text += &format!("      TCP MSS: {segment}\n"),
            None => text += &format!("      TCP MSS: {} (default)\n", start.segment),
        }
        if parameters.rate > 0 {
            text += &format!("      Target Bitrate: {}\n", parameters.rate);
        }
    }
    for stream in &start.streams {
        let (local, remote) = (stream.local, stream.remote);
        text += &format!(
            "[{:3}] local {} port {} connected to {} port {}\n",
            socket(stream.id),
            plain(local),
            local.port(),
            plain(remote),
            remote.port()
        );
    }
    if style.wordy {
        text += &starting(parameters);
    }
    text
}

fn starting(parameters: &Parameters) -> String {
    let Parameters { parallel, block, omit, time, bytes, blocks, service, .. } = parameters;
    let kind = if parameters.transport == Transport::Udp { "UDP" } else { "TCP" };
    let what = match (bytes, blocks) {
        (0, 0) => format!("{time} second test"),
        (0, blocks) => format!("{blocks} blocks to send"),
        (bytes, _) => format!("{bytes} bytes to send"),
    };
    format!(
        "Starting Test: protocol: {kind}, {parallel} streams, {block} byte blocks, omitting {omit} seconds, {what}, tos {service}\n"
    )
}

/// The lines of a stretch.
pub(super) fn interval(start: &Start, interval: &Interval, style: Style) -> String {
    let way = Way::of(start);
    let mut text = String::new();
    // A test's first stretch, and the first one that counts.
    if interval.from == 0.0 {
        text += &way.heading(Heading::Intervals);
    } else if way.several {
        text += SEPARATOR;
    }
    for sends in way.order() {
        let streams: Vec<&StreamInterval> =
            interval.streams.iter().filter(|stream| stream.sends == sends).collect();
        for stream in &streams {
            text += &way.stretch(interval, std::slice::from_ref(stream), Some(stream.id), style);
        }
        if way.several && !streams.is_empty() {
            text += &way.stretch(interval, &streams, None, style);
        }
    }
    text
}

/// The sums of a test, and what a client was told beside them.
pub(super) fn end(outcome: &TestOutcome, style: Style) -> String {
    let way = Way::of(&outcome.start);
    let mut text = SEPARATOR.to_owned();
    if style.wordy {
        text += "Test Complete. Summary Results:\n";
    }
    let counted = |stream: &StreamOutcome| stream.sent.is_some_and(|sent| sent.retransmits.is_some());
    let retransmits =
        outcome.streams.iter().any(|stream| (way.client || stream.connection.sends) && counted(stream));
    text += &way.heading(Heading::Sums { retransmits });
    for sends in way.order() {
        let streams: Vec<&StreamOutcome> =
            outcome.streams.iter().filter(|stream| stream.connection.sends == sends).collect();
        for stream in &streams {
            text += &way.sums(Some(stream.connection.id), sends, (stream.sent, stream.received), style);
        }
        if way.several && !streams.is_empty() {
            let both =
                (outcome.sum(sends, |stream| stream.sent), outcome.sum(sends, |stream| stream.received));
            text += &way.sums(None, sends, both, style);
        }
    }
    if style.wordy {
        text += &processors(outcome);
    }
    match &outcome.server_output {
        Some(Output::Text(report)) => text += &format!("\nServer output:\n{}\n", escape_lines(report)),
        Some(Output::Json(report)) => {
            text += &format!("\nServer JSON output:\n{}\n", escape_lines(&report.lines()));
        }
        None => {}
    }
    text
}

/// The last words of a client whose test is complete.
pub(super) const DONE: &str = "\niperf Done.\n";

fn processors(outcome: &TestOutcome) -> String {
    let start = &outcome.start;
    let sends = (start.role == Role::Client) == (start.parameters.direction != Direction::Reverse);
    let (own, other) = if sends { ("sender", "receiver") } else { ("receiver", "sender") };
    let of = |cpu: CpuUse| format!("{:.1}% ({:.1}%u/{:.1}%s)", cpu.total, cpu.user, cpu.system);
    let (here, there) = (of(outcome.cpu), of(outcome.remote_cpu.unwrap_or_default()));
    let mut text = format!("CPU Utilization: local/{own} {here}, remote/{other} {there}\n");
    let (sender, receiver) = congestion(outcome);
    for (name, congestion) in [("snd", sender), ("rcv", receiver)] {
        if let Some(congestion) = congestion.filter(|_| start.parameters.transport == Transport::Tcp) {
            text += &format!("{name}_tcp_congestion {}\n", escape(congestion));
        }
    }
    text
}

/// Which columns follow.
#[derive(Debug, Clone, Copy)]
enum Heading {
    Intervals,
    Sums { retransmits: bool },
}

/// What of a test decides its lines.
struct Way {
    client: bool,
    udp: bool,
    both: bool,
    sends: bool,
    /// There are lines for all streams together.
    several: bool,
}

impl Way {
    fn of(start: &Start) -> Way {
        let parameters = &start.parameters;
        let client = start.role == Role::Client;
        Way {
            client,
            udp: parameters.transport == Transport::Udp,
            both: parameters.direction == Direction::Both,
            sends: client == (parameters.direction != Direction::Reverse),
            several: parameters.parallel > 1,
        }
    }

    /// The client's way first.
    fn order(&self) -> [bool; 2] {
        [self.client, !self.client]
    }

    fn heading(&self, heading: Heading) -> String {
        // A client of 3.12 has these columns whichever way data flow.
        let sends = self.sends || self.both || self.client;
        let figures = match heading {
            Heading::Sums { .. } if self.udp => "         Jitter    Lost/Total Datagrams",
            Heading::Sums { retransmits: true } => "         Retr",
            Heading::Intervals if self.udp && self.sends && !self.both => "         Total Datagrams",
            Heading::Intervals if self.udp => "         Jitter    Lost/Total Datagrams",
            Heading::Intervals if sends => "         Retr  Cwnd",
            _ => "",
        };
        let role = if self.both { "[Role]" } else { "" };
        format!("[ ID]{role} Interval           Transfer     Bitrate{figures}\n")
    }

    /// What each line begins with.
    fn columns(
        &self,
        id: Option<u32>,
        sends: bool,
        (from, to): (f64, f64),
        bytes: u64,
        style: Style,
    ) -> String {
        let name = id.map_or_else(|| "SUM".to_owned(), |id| format!("{:3}", socket(id)));
        let role = match (self.both, sends, self.client) {
            (false, _, _) => String::new(),
            (_, sends, client) => {
                format!("[{}-{}]", if sends { "TX" } else { "RX" }, if client { "C" } else { "S" })
            }
        };
        let seconds = to - from;
        let rate = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
        format!(
            "[{name}]{role} {from:6.2}-{to:<6.2} sec  {}s  {}s/sec",
            scaled(bytes as f64, 'A'),
            scaled(rate, style.units.0.unwrap_or('a'))
        )
    }

    fn stretch(
        &self,
        interval: &Interval,
        streams: &[&StreamInterval],
        id: Option<u32>,
        style: Style,
    ) -> String {
        let sends = streams.first().is_some_and(|stream| stream.sends);
        let bytes = streams.iter().map(|stream| stream.bytes).sum();
        let columns = self.columns(id, sends, (interval.from, interval.to), bytes, style);
        let omitted = if interval.omitted { "(omitted)" } else { "" };
        match all_datagrams(streams) {
            Some(udp) if sends => {
                let gap = if self.both { "          " } else { "" };
                format!("{columns} {gap} {}  {omitted}\n", udp.packets)
            }
            Some(udp) => format!("{columns}  {}  {omitted}\n", losses(&udp)),
            None if sends => {
                let tcp = || streams.iter().filter_map(|stream| stream.tcp);
                let retransmits: u64 = tcp().map(|tcp| tcp.retransmits).sum();
                match id {
                    Some(_) => {
                        let window = scaled(tcp().map(|tcp| tcp.cwnd as f64).sum(), 'A');
                        format!("{columns}  {retransmits:3}   {window}s       {omitted}\n")
                    }
                    None => format!("{columns}  {retransmits:3}             {omitted}\n"),
                }
            }
            None => format!("{columns}                  {omitted}\n"),
        }
    }

    /// What the sender and the receiver counted. A server's report comes before the client's figures, so it
    /// has its own alone.
    fn sums(
        &self,
        id: Option<u32>,
        sends: bool,
        (sent, received): (Option<Sum>, Option<Sum>),
        style: Style,
    ) -> String {
        let mut text = String::new();
        for (sum, own, end) in [(sent, sends, "sender"), (received, !sends, "receiver")] {
            let name = id.map_or_else(|| "SUM".to_owned(), |id| format!("{:3}", socket(id)));
            if !self.client && !own {
                if style.wordy {
                    text += &format!("[{name}] ({end} statistics not available)\n");
                }
                continue;
            }
            let Some(sum) = sum else { continue };
            let columns = self.columns(id, sends, (0.0, sum.seconds), sum.bytes, style);
            text += &match (sum.udp, sum.retransmits) {
                (Some(udp), _) if end == "sender" => {
                    let udp = UdpFigures { packets: udp.packets, ..UdpFigures::default() };
                    format!("{columns}  {}  {end}\n", losses(&udp))
                }
                (Some(udp), _) => format!("{columns}  {}  {end}\n", losses(&udp)),
                (None, Some(retransmits)) if end == "sender" => {
                    format!("{columns}  {retransmits:3}             {end}\n")
                }
                _ => format!("{columns}                  {end}\n"),
            };
            if let Some(udp) = sum.udp.filter(|udp| udp.out_of_order > 0 && end == "receiver") {
                text += &format!(
                    "[{name}] {:4.1}-{:4.1} sec  {} datagrams received out-of-order\n",
                    0.0, sum.seconds, udp.out_of_order
                );
            }
        }
        text
    }
}

fn losses(udp: &UdpFigures) -> String {
    format!("{:5.3} ms  {}/{} ({}%)", udp.jitter * 1e3, udp.lost, udp.packets, two_digits(lost_percent(udp)))
}

/// iperf3's unit_snprintf: bytes as `A` or a letter from K to T, bits as `a` or k to t, in four places and
/// the unit's singular.
fn scaled(bytes: f64, unit: char) -> String {
    const BYTES: [&str; 5] = ["Byte", "KByte", "MByte", "GByte", "TByte"];
    const BITS: [&str; 5] = ["bit", "Kbit", "Mbit", "Gbit", "Tbit"];
    let (number, step, names) =
        if unit.is_ascii_uppercase() { (bytes, 1024.0, BYTES) } else { (bytes * 8.0, 1000.0_f64, BITS) };
    let power = match unit.to_ascii_lowercase() {
        'k' => 1,
        'm' => 2,
        'g' => 3,
        't' => 4,
        _ => (0..4).find(|power| number < step.powi(power + 1)).unwrap_or(4),
    };
    let value = number / step.powi(power);
    // Rounded these would be 10.0 and 100.
    let digits = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:4.digits$} {}", names[power as usize])
}

/// C's `%.2g`.
fn two_digits(value: f64) -> String {
    let text = format!("{value:.1e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if value == 0.0 {
        "0".to_owned()
    } else if (-4..2).contains(&exponent) {
        trimmed(&format!("{value:.*}", (1 - exponent).max(0) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        for (value, text) in [
            (0.0, "0"),
            (0.026, "0.026"),
            (1.234, "1.2"),
            (12.3, "12"),
            (5.0, "5"),
            (100.0, "1e+02"),
            (0.00001, "1e-05"),
            (99.6, "1e+02"),
        ] {
            assert_eq!(two_digits(value), text, "{value}");
        }
        for (bytes, unit, text) in [
            (1_310_720.0, 'A', "1.25 MByte"),
            (1_310_720.0, 'a', "10.5 Mbit"),
            (0.0, 'A', "0.00 Byte"),
            (131_072.0, 'A', " 128 KByte"),
            (1e9, 'm', "8000 Mbit"),
            (1_073_741_824.0, 'G', "1.00 GByte"),
            (1_022.0 * 1024.0, 'A', "1022 KByte"),
        ] {
            assert_eq!(scaled(bytes, unit), text, "{bytes} {unit}");
        }
    }
}
