//! What `weir plan` predicts: the member `plan` of a record, and its table for people.
//!
//! ```text
//! MB/s     100 MB/s  62 MB/s  10 MB/s
//! ZLIB          9.6      9.6      9.6
//! QUICKLZ    182.15   112.93    18.21
//! none          100       62       10
//!
//! best over 100 MB/s: QUICKLZ, 182.15 MB/s, held by path-bandwidth; 1.00 GB in 5.5 s
//!   held by compress: ZLIB; by path-bandwidth: QUICKLZ, none
//! ```
//!
//! The table's cells are MB/s of payload with two decimals at most, as scripts read them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_model::limit::Limit;
use weir_model::path::{MOST_BUFFER, MOST_WINDOW};
use weir_model::pipeline::Figure;
use weir_model::plan::{Cell, Column, HostsTimes, Inputs, ManyHosts, Plan};
use weir_units::{Bytes, Rate, human_duration};

use crate::escape::escape;
use crate::figures::trimmed;

/// Where Linux lets buffers end unless someone set another end: the third number of net.ipv4.tcp_wmem, the
/// smaller of the two.
const USUAL: u64 = 4 << 20;

/// The member `plan` of a record. Rates are bytes per second, sizes bytes, times seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanRecord {
    /// What was planned for.
    pub size: u64,
    /// What each codec does to the data.
    pub codecs: Vec<CodecRecord>,
    /// Link by link, transport by transport.
    pub columns: Vec<ColumnRecord>,
    /// For each link, what carries most.
    pub best: Vec<BestRecord>,
    /// For each link, copies to many hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostsRecord>,
    /// What was assumed or measured, and what is worth knowing.
    pub notes: Vec<String>,
}

/// Copies to many hosts over a link, in seconds until the last one has all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostsRecord {
    /// The link.
    pub link: f64,
    /// How many hosts.
    pub hosts: u32,
    /// How many chains.
    pub fanout: u32,
    /// A copy to one.
    pub one: f64,
    /// A copy to each from here, all at once.
    pub star: f64,
    /// Through chains.
    pub chain: f64,
    /// Hosts of the longest chain.
    pub depth: u32,
    /// What each further host of a chain adds.
    pub fill: f64,
}

/// A codec's figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CodecRecord {
    /// `zstd-3`.
    pub name: String,
    /// Compressed over original.
    pub ratio: f64,
    /// On one core; `null` where it costs nothing.
    pub compress: Option<f64>,
    /// On one core; `null` where nobody measured it.
    pub decompress: Option<f64>,
}

/// A link and a transport.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ColumnRecord {
    /// What the link carries.
    pub link: f64,
    /// `tcp`, `ssh`, `weir`.
    pub transport: String,
    /// Connections it takes.
    pub connections: u32,
    /// The best codec.
    pub best: String,
    /// In the order of the codecs.
    pub cells: Vec<CellRecord>,
    /// Bytes in flight that fill the link; `null` without a round trip.
    pub bdp: Option<u64>,
    /// The largest buffer that must be allowed at each end, for one connection to fill it; `null` where loss
    /// keeps one connection from that.
    pub buffer: Option<u64>,
    /// Connections that fill it with the windows and the loss that there are.
    pub connections_needed: Option<u32>,
}

/// A codec in a column.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CellRecord {
    /// The codec.
    pub codec: String,
    /// Payload, once under way.
    pub rate: f64,
    /// On the wire.
    pub wire: f64,
    /// The stage that binds.
    pub limit: String,
    /// All of the transfer: from the first packet to the last byte.
    pub seconds: f64,
    /// What holds the transfer for most of that time.
    pub whole_limit: String,
    /// The stage that would bind next, and at what rate.
    pub next: Option<(String, f64)>,
}

/// What carries most over a link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BestRecord {
    /// The link.
    pub link: f64,
    /// `tcp`, `ssh`, `weir`.
    pub transport: String,
    /// The codec.
    pub codec: String,
    /// Payload, once under way.
    pub rate: f64,
    /// The stage that binds.
    pub limit: String,
    /// All of the transfer.
    pub seconds: f64,
    /// What holds it for most of that time: `latency` where round trips do.
    pub whole_limit: String,
    /// Buffers on this machine end below what its rate takes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_buffers: bool,
}

impl PlanRecord {
    /// As the model has it.
    pub fn new(inputs: &Inputs, plan: &Plan, notes: Vec<String>) -> PlanRecord {
        let none = [Figure::none()];
        let figures: &[Figure] = if inputs.figures.is_empty() { &none } else { &inputs.figures };
        let codecs = (figures.iter())
            .map(|figure| CodecRecord {
                name: figure.name.clone(),
                ratio: figure.ratio,
                compress: Some(figure.compress.0).filter(|rate| rate.is_finite()),
                decompress: figure.decompress.map(|rate| rate.0),
            })
            .collect();
        let columns: Vec<ColumnRecord> =
            plan.columns.iter().map(|column| ColumnRecord::new(column, figures)).collect();
        let best = (inputs.links.iter())
            .filter_map(|link| {
                let (column, cell) = plan.best_for(*link)?;
                Some(BestRecord {
                    link: link.0,
                    transport: column.path.transport.name.to_owned(),
                    codec: figures[column.best].name.clone(),
                    rate: cell.steady.rate.0,
                    limit: cell.steady.limit.name().to_owned(),
                    seconds: cell.whole.time.as_secs_f64(),
                    whole_limit: cell.whole.limit.name().to_owned(),
                    needs_buffers: false,
                })
            })
            .collect();
        PlanRecord { size: inputs.size.0, codecs, columns, best, hosts: Vec::new(), notes }
    }

    /// The same on a machine where buffers end at `allowed`.
    pub fn with_buffers(mut self, plan: &Plan, allowed: Bytes) -> PlanRecord {
        for best in &mut self.best {
            let column = plan.best_for(Rate(best.link)).map(|(column, _)| column);
            best.needs_buffers = column.is_some_and(|column| column.exceeds(allowed));
        }
        self
    }

    /// The same with copies to many hosts, over each link.
    pub fn with_hosts(mut self, inputs: &Inputs, many: &ManyHosts) -> PlanRecord {
        let over = |link: &Rate| HostsRecord::new(*link, many, &many.over(inputs, *link));
        self.hosts = inputs.links.iter().map(over).collect();
        self
    }
}

impl HostsRecord {
    fn new(link: Rate, many: &ManyHosts, times: &HostsTimes) -> HostsRecord {
        HostsRecord {
            link: link.0,
            hosts: many.hosts,
            fanout: times.fanout,
            one: times.one.as_secs_f64(),
            star: times.star.as_secs_f64(),
            chain: times.chain.as_secs_f64(),
            depth: times.depth,
            fill: times.fill.as_secs_f64(),
        }
    }
}

impl ColumnRecord {
    fn new(column: &Column, figures: &[Figure]) -> ColumnRecord {
        let cells = figures.iter().zip(&column.cells).map(|(figure, cell)| CellRecord::new(figure, cell));
        ColumnRecord {
            link: column.path.link.0,
            transport: column.path.transport.name.to_owned(),
            connections: column.path.transport.connections,
            best: figures[column.best].name.clone(),
            cells: cells.collect(),
            bdp: column.needs.map(|needs| needs.bdp.0),
            buffer: column.needs.filter(|_| !column.path.loss_holds_one()).map(|needs| needs.buffer.0),
            connections_needed: column.needs.map(|needs| needs.connections),
        }
    }

    /// `ssh 12.5 MB/s`, or the link alone where there is only one transport.
    fn title(&self, alone: bool) -> String {
        let link = megabytes(self.link);
        match (alone, self.connections) {
            (true, _) => format!("{link} MB/s"),
            (false, 2..) => format!("{} x{} {link}", self.transport, self.connections),
            (false, _) => format!("{} {link}", self.transport),
        }
    }
}

impl CellRecord {
    fn new(figure: &Figure, cell: &Cell) -> CellRecord {
        let next = cell.steady.next().filter(|next| next.rate.0.is_finite());
        CellRecord {
            codec: figure.name.clone(),
            rate: cell.steady.rate.0,
            wire: cell.steady.wire.0,
            limit: cell.steady.limit.name().to_owned(),
            seconds: cell.whole.time.as_secs_f64(),
            whole_limit: cell.whole.limit.name().to_owned(),
            next: next.map(|next| (next.limit.name().to_owned(), next.rate.0)),
        }
    }
}

/// Writes the table, what holds each cell, what is best, and what it takes.
pub fn render(plan: &PlanRecord, out: &mut dyn Write) -> io::Result<()> {
    let transports: Vec<&str> = plan.columns.iter().map(|column| column.transport.as_str()).collect();
    let alone = transports.windows(2).all(|two| two[0] == two[1])
        && plan.columns.iter().all(|column| column.connections < 2);
    table(plan, alone, out)?;
    for link in links(plan) {
        writeln!(out)?;
        for best in plan.best.iter().filter(|best| best.link == link) {
            writeln!(out, "{}", best_line(plan, best, alone))?;
        }
        for column in plan.columns.iter().filter(|column| column.link == link) {
            let by = if alone { String::new() } else { format!("by {}, ", column.transport) };
            writeln!(out, "  {by}{}", held_by(column))?;
        }
        for line in needs(plan, link) {
            writeln!(out, "  {line}")?;
        }
        for line in plan.hosts.iter().filter(|hosts| hosts.link == link).flat_map(hosts_lines) {
            writeln!(out, "  {line}")?;
        }
    }
    for note in &plan.notes {
        writeln!(out, "note: {}", escape(note))?;
    }
    Ok(())
}

fn table(plan: &PlanRecord, alone: bool, out: &mut dyn Write) -> io::Result<()> {
    let titles: Vec<String> = plan.columns.iter().map(|column| column.title(alone)).collect();
    let names: Vec<String> = plan.codecs.iter().map(|codec| escape(&codec.name).into_owned()).collect();
    let first = names.iter().map(|name| name.chars().count()).chain([4]).max().unwrap_or(4);
    let rows = (0..names.len()).map(|row| {
        let cells = plan
            .columns
            .iter()
            .map(|column| column.cells.get(row).map_or(String::new(), |cell| megabytes(cell.rate)));
        cells.collect::<Vec<_>>()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let width = |index: usize| {
        rows.iter().map(|row| row[index].len()).chain([titles[index].len()]).max().unwrap_or(0)
    };
    let line = |name: &str, cells: &[String]| {
        let cells: Vec<String> =
            cells.iter().enumerate().map(|(index, cell)| format!("{cell:>0$}", width(index))).collect();
        format!("{name:<first$}  {}", cells.join("  "))
    };
    writeln!(out, "{}", line("MB/s", &titles))?;
    for (name, row) in names.iter().zip(&rows) {
        writeln!(out, "{}", line(name, row))?;
    }
    Ok(())
}

/// Each link once, in the order asked for.
fn links(plan: &PlanRecord) -> Vec<f64> {
    let mut links: Vec<f64> = Vec::new();
    for column in &plan.columns {
        if !links.contains(&column.link) {
            links.push(column.link);
        }
    }
    links
}

fn best_line(plan: &PlanRecord, best: &BestRecord, alone: bool) -> String {
    let by = if alone { String::new() } else { format!(" by {}", best.transport) };
    let trips = if best.whole_limit == Limit::Latency.name() { ", held by its round trips" } else { "" };
    let buffers = if best.needs_buffers { " (after the sysctl below)" } else { "" };
    format!(
        "best over {} MB/s: {}{by}, {} MB/s, held by {}; {} in {}{trips}{buffers}",
        megabytes(best.link),
        escape(&best.codec),
        megabytes(best.rate),
        escape(&best.limit),
        Bytes(plan.size),
        time(best.seconds)
    )
}

/// A chain of hosts beside a copy to each.
fn hosts_lines(hosts: &HostsRecord) -> [String; 2] {
    let how = match hosts.fanout {
        1 => "a chain takes".to_owned(),
        fanout => format!("{fanout} chains take"),
    };
    let count = if hosts.hosts == 1 { "1 host".to_owned() } else { format!("{} hosts", hosts.hosts) };
    let fill = match hosts.depth {
        1 => String::new(),
        _ => format!(", {} of that for each host behind the first", time(hosts.fill)),
    };
    [
        format!("to {count} (weir cp --to-hosts): {how} {}{fill}", time(hosts.chain)),
        format!(
            "to {count} by a copy to each from here at once: {}; one copy {}",
            time(hosts.star),
            time(hosts.one)
        ),
    ]
}

/// `held by compress: zstd-19; by path-bandwidth: lz4, none`, in the order of the limits' list.
fn held_by(column: &ColumnRecord) -> String {
    let mut held: BTreeMap<(Option<Limit>, &str), Vec<String>> = BTreeMap::new();
    for cell in &column.cells {
        let key = (Limit::parse(&cell.limit), cell.limit.as_str());
        held.entry(key).or_default().push(escape(&cell.codec).into_owned());
    }
    let held: Vec<String> = held
        .iter()
        .map(|((_, limit), codecs)| format!("by {}: {}", escape(limit), codecs.join(", ")))
        .collect();
    format!("held {}", held.join("; "))
}

/// What connections need on this link, where a round trip is known.
fn needs(plan: &PlanRecord, link: f64) -> Vec<String> {
    let mut columns = plan.columns.iter().filter(|column| column.link == link);
    let Some(column) = columns.clone().find(|column| column.transport != "ssh").or(columns.next()) else {
        return Vec::new();
    };
    let Some(bdp) = column.bdp else { return Vec::new() };
    let how = how_one_can(bdp, column.buffer);
    let mut lines = vec![format!("needs {} in flight; {how}", Bytes(bdp))];
    if let Some(connections) = column.connections_needed.filter(|connections| *connections > 1) {
        lines.push(format!("needs {connections} connections with the windows and the loss that there are"));
    }
    lines
}

/// What lets one connection have `bdp` in flight.
fn how_one_can(bdp: u64, buffer: Option<u64>) -> String {
    let Some(buffer) = buffer else {
        return "loss keeps one connection below that, whatever its buffers".to_owned();
    };
    if buffer <= USUAL {
        "the kernel's usual buffers suffice for one connection".to_owned()
    } else if bdp > MOST_WINDOW || buffer > MOST_BUFFER {
        let (most, connections) = (Bytes(MOST_WINDOW), bdp.div_ceil(MOST_WINDOW));
        format!(
            "no buffer lets one connection have more than {most}: it takes {connections} (-c {connections})"
        )
    } else {
        format!(
            "one connection can with sysctl -w net.ipv4.tcp_rmem=\"4096 131072 {buffer}\" there and \
             net.ipv4.tcp_wmem=\"4096 16384 {buffer}\" here"
        )
    }
}

/// `182.15`, `100`, `0.0864`: MB/s with two decimals at most, more only where two would hide the value.
fn megabytes(rate: f64) -> String {
    let value = rate / 1e6;
    let digits =
        if value >= 0.1 || value <= 0.0 { 2 } else { (2.0 - value.log10().floor()).min(12.0) as usize };
    let text = format!("{value:.digits$}");
    trimmed(&text).to_owned()
}

fn time(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds) {
        Ok(span) if span.as_secs() < 1_000_000 * 3600 => human_duration(span),
        _ => "more than a lifetime".to_owned(),
    }
}

/// What this machine's settings allow one connection, and what more would bring; nothing where they suffice,
/// or where more would bring nothing.
pub fn buffer_note(name: &str, allowed: Bytes, needed: Bytes, now: Rate, then: Rate) -> Option<String> {
    (allowed < needed && now.0 < then.0).then(|| {
        format!(
            "{name} ends at {allowed} on this machine, which holds one connection to about {now}; with {needed} it \
             would carry {then}"
        )
    })
}

#[cfg(test)]
mod tests {
    use weir_model::pipeline::{Path, SSH_CIPHER};
    use weir_model::plan::Means;

    use super::*;

    #[test]
    fn megabytes_have_two_decimals_at_most() {
        for (rate, text) in [
            (182.149362e6, "182.15"),
            (9.6e6, "9.6"),
            (100e6, "100"),
            (18.315018e6, "18.32"),
            (86_400.0, "0.0864"),
            (1.0, "0.000001"),
            (1e15, "1000000000"),
            (0.0, "0"),
        ] {
            assert_eq!(megabytes(rate), text, "{rate}");
        }
    }

    #[test]
    fn as_many_chains_as_hosts_at_most_and_no_filling_of_one() {
        let hosts = |hosts, fanout| {
            let link = Rate(12.5e6);
            let inputs = Inputs {
                figures: Vec::new(),
                path: Path::of(link),
                links: vec![link],
                means: vec![Means::Tcp],
                ssh: SSH_CIPHER,
                cipher: None,
                lanes: None,
                size: Bytes(200_000_000),
            };
            let many = ManyHosts { hosts, fanout, block: Bytes(1 << 20), lanes: 2 };
            HostsRecord::new(link, &many, &many.over(&inputs, link))
        };
        let three = hosts(3, 9);
        assert_eq!((three.fanout, three.depth), (3, 1));
        let [chains, _] = hosts_lines(&three);
        assert!(chains.contains("3 chains take ") && !chains.contains("behind the first"), "{chains}");
        let [chains, _] = hosts_lines(&hosts(4, 2));
        assert!(chains.contains("2 chains take ") && chains.contains("behind the first"), "{chains}");
    }
}
