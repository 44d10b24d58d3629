//! What `weir bench store` adds to a record: what a store gives, and what holds it.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate};

use crate::escape::escape;
use crate::fold::Sheet;
use crate::host::{count, time};

/// The member `store` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreRecord {
    /// As it was asked for.
    pub url: String,
    /// Single requests over one connection.
    pub latency: Vec<StoreTimesRecord>,
    /// Large objects over connections at once.
    pub throughput: Vec<StoreLoadRecord>,
    /// Small objects over connections at once.
    pub requests: Vec<StoreLoadRecord>,
    /// What holds the two.
    pub held: Vec<StoreHeldRecord>,
    /// What was not measured, what is left at the store, and why.
    pub missing: Vec<String>,
}

/// Requests of one kind and size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreTimesRecord {
    /// `GET`, `PUT`, `LIST`.
    pub operation: String,
    /// Of the object, bytes.
    pub bytes: u64,
    /// Seconds of the shortest.
    pub shortest: f64,
    /// Seconds of the one in the middle.
    pub median: f64,
    /// Seconds of the longest.
    pub longest: f64,
    /// Requests.
    pub count: usize,
}

/// So many connections at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreLoadRecord {
    /// Connections.
    pub connections: u32,
    /// Requests a second that were answered.
    pub requests: f64,
    /// Bytes of objects a second.
    pub rate: f64,
    /// Requests that the store put off.
    pub throttled: u64,
    /// Requests that failed for another reason.
    pub failed: u64,
    /// Processors of this host that weir kept busy.
    pub cpus: f64,
}

/// What holds a figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreHeldRecord {
    /// `throughput`, `requests`.
    pub figure: String,
    /// The limit's name; `null` where the measurement does not tell.
    pub limit: Option<String>,
    /// In words.
    pub why: String,
}

/// For people.
pub fn render(store: &StoreRecord, sheet: Sheet, out: &mut dyn Write) -> io::Result<()> {
    sheet.print(out, |out| lines(store, out))
}

fn lines(store: &StoreRecord, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", escape(&store.url))?;
    if !store.latency.is_empty() {
        let head = ["one at a time", "size", "median", "shortest", "longest", "requests"];
        writeln!(
            out,
            "{:<14} {:>9} {:>10} {:>10} {:>10} {:>9}",
            head[0], head[1], head[2], head[3], head[4], head[5]
        )?;
    }
    for row in &store.latency {
        let size = if row.operation == "LIST" { "-".to_owned() } else { Bytes(row.bytes).to_string() };
        writeln!(
            out,
            "{:<14} {size:>9} {:>10} {:>10} {:>10} {:>9}",
            escape(&row.operation),
            time(row.median),
            time(row.shortest),
            time(row.longest),
            row.count
        )?;
    }
    if !store.throughput.is_empty() || !store.requests.is_empty() {
        writeln!(out, "\n{:>11} {:>12} {:>12} {:>9}", "connections", "large", "small/s", "cpus")?;
    }
    let mut connections: Vec<u32> =
        store.throughput.iter().chain(&store.requests).map(|load| load.connections).collect();
    connections.sort_unstable();
    connections.dedup();
    for number in connections {
        let of = |loads: &[StoreLoadRecord]| loads.iter().find(|load| load.connections == number).copied();
        let (large, small) = (of(&store.throughput), of(&store.requests));
        let rate = large.map_or("-".to_owned(), |load| Rate(load.rate).to_string());
        let requests = small.map_or("-".to_owned(), |load| match load.throttled {
            0 => count(load.requests),
            _ => format!("{} *", count(load.requests)),
        });
        let cpus = large.into_iter().chain(small).map(|load| load.cpus).fold(0.0, f64::max);
        writeln!(out, "{number:>11} {rate:>12} {requests:>12} {cpus:>9.2}")?;
    }
    if store.requests.iter().any(|load| load.throttled > 0) {
        writeln!(out, "* the store put requests off")?;
    }
    for held in &store.held {
        let limit = held.limit.as_deref().unwrap_or("not told");
        writeln!(out, "{}: {limit}: {}", escape(&held.figure), escape(&held.why))?;
    }
    store.missing.iter().try_for_each(|why| writeln!(out, "not as usual: {}", escape(why)))
}
