//! Packet captures as evidence: what `weir why` reads of live sockets, read of the packets that were
//! captured.
//!
//! [`read`] takes a stream (pcap or pcapng, plain or gzip) and gives back the [`Evidence`] of all its TCP
//! connections together and of the largest ones apart, for the same judge. A capture may come from either end
//! or from between them: the halves of the handshake tell, and which view of a connection is filled follows
//! from that. What a capture cannot show is a missing reading ([`NOT_VISIBLE`]), never a zero.
//!
//! Memory is bounded whatever the capture claims: records, connections, slices of time and what is remembered
//! of each connection have their limits, and what gives way is counted in [`Capture::notes`].
#![forbid(unsafe_code)]

mod error;
mod evidence;
mod flow;
mod judge;
mod link;
mod slice;
mod source;
mod stall;
mod table;
mod way;

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_model::evidence::{Evidence, Facts};

pub use error::CaptureError;
pub use evidence::NOT_VISIBLE;
pub use flow::Vantage;
pub use judge::judge;
pub use source::Format;
pub use stall::{Cause, Stall};

use evidence::Grid;
use flow::Flow;
use link::{Found, OtherPacket, Segment};
use source::Next;
use table::Table;

/// Connections that are told one by one.
pub const FLOWS: usize = 16;

/// Points of a connection's picture, at most.
pub const POINTS: usize = 1000;

/// Connections that have a picture.
pub(crate) const PICTURES: usize = 4;

/// Which packets count, and for how long.
#[derive(Default)]
pub struct Options<'a> {
    /// Only connections with this port at either end.
    pub port: Option<u16>,
    /// Only connections with one of these addresses at either end; with any where none is named.
    pub peers: Vec<IpAddr>,
    /// Only the capture's first so much time.
    pub span: Option<Duration>,
    /// Asked now and then: whether to stop and judge what was read.
    pub stop: Option<&'a dyn Fn() -> bool>,
    /// Who is judged, for words: `web.pcap`.
    pub scope: String,
}

/// What a capture holds.
#[derive(Debug)]
pub struct Capture {
    /// The container.
    pub format: Format,
    /// Packets in it.
    pub packets: u64,
    /// Of these, TCP segments of connections that count.
    pub segments: u64,
    /// Seconds from the first to the last packet, silences above a minute cut short.
    pub seconds: f64,
    /// TCP connections that count.
    pub connections: u64,
    /// New payload bytes of all of them, both ways.
    pub bytes: u64,
    /// All of them together.
    pub evidence: Evidence,
    /// The largest, most bytes first.
    pub flows: Vec<FlowSeen>,
    /// What was left out or looked strange.
    pub notes: Vec<String>,
}

/// One connection.
#[derive(Debug)]
pub struct FlowSeen {
    /// The end that sent more.
    pub from: SocketAddr,
    /// The other.
    pub to: SocketAddr,
    /// New payload bytes of `from`.
    pub bytes: u64,
    /// New payload bytes of `to`.
    pub answered: u64,
    /// Payload bytes of `from` that were sent again.
    pub again: u64,
    /// From its first to its last packet, seconds.
    pub seconds: f64,
    /// Where it was captured.
    pub vantage: Vantage,
    /// The path's round trip, the least seen.
    pub round_trip: Option<Duration>,
    /// Largest segment, payload bytes.
    pub segment: u32,
    /// The peer's window is known: its SYN was captured.
    pub window_known: bool,
    /// The run as if there had been no other connection.
    pub evidence: Evidence,
    /// The longest stalls, in order of time.
    pub stalls: Vec<Stall>,
    /// How many stalls of each cause, and their seconds.
    pub stalled: [(u32, f64); 6],
    /// Its picture; empty but for the largest connections.
    pub points: Vec<Point>,
}

/// A moment of a connection's picture: levels at its end, sums over the time since the point before.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// Seconds from the capture's start.
    pub at: f64,
    /// Payload bytes sent so far.
    pub sent: u64,
    /// Payload bytes acknowledged so far.
    pub acked: u64,
    /// Bytes in flight, mean.
    pub in_flight: u64,
    /// The peer's window at the end.
    pub window: Option<u64>,
    /// Payload bytes sent again.
    pub again: u64,
}

/// What came of reading, before it is judged.
#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    segments: u64,
    /// Packets that are not judged, by [`OtherPacket`].
    others: [u64; OTHERS.len()],
    malformed: u64,
    unknown_link: u64,
    end: Option<String>,
}

/// What packets that are not judged are called, in the order of [`OtherPacket`].
const OTHERS: [&str; OtherPacket::Else as usize + 1] = [
    "UDP at port 443 (QUIC)",
    "other UDP",
    "inside tunnels (VXLAN, GENEVE, GRE, IPsec)",
    "fragments",
    "other protocols",
];

/// Reads a capture to its end, or as far as it can be read.
pub fn read<'r>(reader: impl Read + 'r, options: &Options<'_>) -> Result<Capture, CaptureError> {
    let is_stopped = || options.stop.is_some_and(|stop| stop());
    let mut source =
        source::open(reader).map_err(|error| if is_stopped() { CaptureError::Interrupted } else { error })?;
    let mut table = Table::new();
    let mut counts = Counts::default();
    let most = options.span.map(|span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    loop {
        match source.next() {
            Next::Packet(packet) => {
                counts.packets += 1;
                let now = table.tick(packet.at);
                if most.is_some_and(|most| now > most) {
                    break;
                }
                match link::look(&packet) {
                    Found::Segment(segment) => {
                        if counts_for(&segment, options) {
                            counts.segments += 1;
                            table.take(&segment, now);
                        }
                    }
                    Found::Other(what) => counts.others[what as usize] += 1,
                    Found::Malformed => counts.malformed += 1,
                    Found::UnknownLink => counts.unknown_link += 1,
                }
            }
            Next::Malformed => {
                counts.packets += 1;
                counts.malformed += 1;
            }
            Next::End(why) => {
                // A stream that ends because it was stopped may do so in the middle of a packet.
                counts.end = why.filter(|_| !is_stopped());
                break;
            }
        }
        // A glance at a flag, but not for each of ten million packets.
        if counts.packets.is_multiple_of(1024) && is_stopped() {
            break;
        }
    }
    Ok(judgeable(source.format(), table, counts, options))
}

fn counts_for(segment: &Segment, options: &Options<'_>) -> bool {
    let ends = &segment.key.ends;
    let port = options.port.is_none_or(|port| ends.iter().any(|end| end.port() == port));
    let has = |peer: &IpAddr| ends.iter().any(|end| end.ip().to_canonical() == peer.to_canonical());
    port && (options.peers.is_empty() || options.peers.iter().any(has))
}

fn judgeable(format: Format, mut table: Table, counts: Counts, options: &Options<'_>) -> Capture {
    let all = table.finish();
    let most = options.span.map_or(u64::MAX, |span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    let length = table.clock().now.min(most);
    let grid = Grid::new(table.span, length);
    let flows: Vec<&Flow> = all.iter().map(|flow| &**flow).collect();
    let sliced: Vec<&Flow> = flows.iter().copied().filter(|flow| !flow.slices.is_empty()).collect();
    let facts = facts(&flows, options);
    let evidence = evidence::of(&sliced, grid, Some(&table.moved), facts.clone());
    let bytes = flows.iter().fold(table.given_up.1, |sum, flow| sum.saturating_add(flow.bytes()));
    let notes = notes(&table, &counts, &flows);
    let largest = flows.iter().filter(|flow| flow.bytes() > 0 || flow.syn_again > 0).take(FLOWS);
    let seen = |(place, flow): (usize, &&Flow)| flow_seen(flow, grid, &facts, place < PICTURES);
    Capture {
        format,
        packets: counts.packets,
        segments: counts.segments,
        seconds: length as f64 / 1e9,
        connections: table.connections,
        bytes,
        evidence,
        flows: largest.enumerate().map(seen).collect(),
        notes,
    }
}

fn facts(flows: &[&Flow], options: &Options<'_>) -> Facts {
    // Where the largest connections' end is not known, nothing of the path is.
    let all: u64 = flows.iter().map(|flow| flow.bytes()).sum();
    let blind: u64 = flows
        .iter()
        .filter(|flow| flow.vantage(flow.sender()) == Vantage::Unknown)
        .map(|flow| flow.bytes())
        .sum();
    let unseen = (all > 0 && 2 * blind > all).then(|| {
        "at which end the capture was made: it has neither the handshake nor the timestamps of the connections that \
         carried most"
            .to_owned()
    });
    Facts { scope: Some(options.scope.clone()), unseen, objects: 0, ..Facts::default() }
}

fn flow_seen(flow: &Flow, grid: Grid, facts: &Facts, picture: bool) -> FlowSeen {
    let sender = flow.sender();
    let vantage = flow.vantage(sender);
    let unseen = facts.unseen.clone().filter(|_| vantage == Vantage::Unknown);
    FlowSeen {
        from: flow.key.ends[sender],
        to: flow.key.ends[1 - sender],
        bytes: flow.carried[sender],
        answered: flow.carried[1 - sender],
        again: flow.again[sender],
        seconds: flow.last.saturating_sub(flow.born) as f64 / 1e9,
        vantage,
        round_trip: flow.least_round_trip().map(Duration::from_nanos),
        segment: flow.mss(sender),
        window_known: flow.knows_window(sender),
        evidence: alone(flow, grid, Facts { unseen, ..facts.clone() }),
        stalls: flow.stalls.longest(),
        stalled: flow.stalls.sums,
        points: if picture { points(flow, sender, grid) } else { Vec::new() },
    }
}

/// The evidence of one connection, from its first to its last interval.
fn alone(flow: &Flow, grid: Grid, facts: Facts) -> Evidence {
    let mut evidence = evidence::of(&[flow], grid, None, facts);
    evidence.intervals.retain(|interval| !interval.lanes.is_empty());
    evidence
}

fn points(flow: &Flow, sender: usize, grid: Grid) -> Vec<Point> {
    let each = flow.slices.len().div_ceil(POINTS).max(1);
    let mut points = Vec::with_capacity(flow.slices.len() / each + 1);
    let mut last = Point::default();
    for slices in flow.slices.chunks(each) {
        let (mut again, mut in_flight, mut lived) = (0_u64, 0.0, 0_u32);
        for slice in slices {
            let half = &slice.halves[sender];
            last.sent = last.sent.saturating_add(half.fresh);
            last.acked = last.acked.saturating_add(half.acked);
            last.window =
                half.windows.filter(|_| half.windowed > 0).map(|(.., now)| now.into()).or(last.window);
            again = again.saturating_add(half.again);
            in_flight += half.in_flight;
            lived = lived.saturating_add(slice.lived);
            last.at = ((u64::from(slice.index) + 1) * grid.span).min(grid.length) as f64 / 1e9;
        }
        let in_flight = if lived > 0 { (in_flight / f64::from(lived)) as u64 } else { 0 };
        points.push(Point { again, in_flight, ..last });
    }
    points
}

fn notes(table: &Table, counts: &Counts, flows: &[&Flow]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(end) = &counts.end {
        notes.push(format!("the capture ends after {} packets: {end}", counts.packets));
    }
    if counts.unknown_link > 0 {
        notes.push(format!("{} packets have a link type that weir does not read", counts.unknown_link));
    }
    if counts.malformed > 0 {
        notes.push(format!(
            "{} packets are damaged or cut before the end of their TCP header",
            counts.malformed
        ));
    }
    let uncaptured: u64 = flows.iter().map(|flow| flow.uncaptured()).sum();
    if uncaptured > 0 {
        notes.push(format!(
            "the capture misses segments: {uncaptured} bytes were acknowledged that it does not have"
        ));
    }
    let windowless = || flows.iter().filter(|flow| flow.bytes() > 0 && !flow.knows_window(flow.sender()));
    let cut = windowless().filter(|flow| flow.offer_cut).count();
    if cut > 0 {
        notes.push(format!(
            "receive windows of {cut} connections: the capture's snaplen cut their SYN before the scale; 128 bytes \
             of each packet hold all headers (tcpdump -s 128)"
        ));
    }
    let uncaught = windowless().count() - cut;
    if uncaught > 0 {
        notes.push(format!(
            "receive windows of {uncaught} connections: their SYN was not captured, which has the scale"
        ));
    }
    if table.given_up.0 > 0 {
        notes.push(format!(
            "{} connections, the smallest, are counted and not judged; they carried {} bytes",
            table.given_up.0, table.given_up.1
        ));
    }
    let shed = flows.iter().filter(|flow| flow.shed).count();
    if shed > 0 {
        notes.push(format!("{shed} connections, the smallest, are counted by their bytes only"));
    }
    if table.clock().cut > 0 {
        notes.push(format!(
            "its clock jumped, or no packet came for more than a minute, {} times: that time is left out",
            table.clock().cut
        ));
    }
    notes.extend(of_others(counts));
    notes
}

/// What a capture holds instead of TCP, where that is half of it or more.
fn of_others(counts: &Counts) -> Option<String> {
    let all: u64 = counts.others.iter().sum();
    let told = OTHERS.iter().zip(counts.others).filter(|(_, count)| *count > 0);
    let told: Vec<String> = told.map(|(what, count)| format!("{count} {what}")).collect();
    let packets = counts.packets;
    (all > 0 && 2 * all >= packets).then(|| {
        format!("{all} of {packets} packets are not TCP, which alone is judged: {}", told.join(", "))
    })
}
