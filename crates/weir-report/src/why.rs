//! What `weir why` adds to a record: the connections and threads that were looked at, for JSON and for
//! people.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate};

use crate::escape::escape;

/// The member `why` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhyRecord {
    /// Who was looked at: `wget (pid 4711)`.
    pub subject: String,
    /// Bytes that the subject received and that its peers acknowledged.
    pub received: u64,
    /// Bytes that the subject's peers acknowledged.
    pub acked: u64,
    /// Connections in all; those that were over between two looks are among them.
    pub connections: u64,
    /// Connections that were over between two looks: only their bytes are known.
    pub unseen: u64,
    /// Connections to the same server that ended unseen: they may be others', and are counted nowhere else.
    pub unproven: u64,
    /// What those carried, each the way that more went.
    pub unproven_bytes: u64,
    /// The busiest connections, most bytes first.
    pub flows: Vec<FlowRecord>,
    /// The threads that used most CPU time.
    pub threads: Vec<ThreadRecord>,
    /// What looking cost: share of one processor, 0 to 1.
    pub own_cpu: f64,
    /// The command's exit code, where weir ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
}

/// One connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowRecord {
    /// This end.
    pub local: String,
    /// The peer.
    pub peer: String,
    /// Whose: `wget (pid 4711)`; `null` when not known.
    pub process: Option<String>,
    /// Bytes received.
    pub received: u64,
    /// Bytes that the peer acknowledged.
    pub acked: u64,
    /// How long it was watched.
    pub seconds: f64,
    /// Bytes per second the way that more went.
    pub rate: f64,
    /// `receiver`, `sender`, or `both` where both ends were to be seen.
    pub side: String,
    /// The congestion control of this end.
    pub congestion_control: Option<String>,
    /// What held it; `null` when too little was seen.
    pub limit: Option<String>,
}

/// One thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadRecord {
    /// `wget (pid 4711)`.
    pub name: String,
    /// CPU seconds.
    pub cpu: f64,
    /// Share of one processor over the run, 0 to 1.
    pub busy: f64,
    /// Seconds ready to run but waiting for a processor.
    pub runqueue: f64,
    /// Seconds held back by a CPU quota.
    pub throttled: f64,
    /// Where looks found it, share of them, largest first: `receiving`, `writing-disk`...
    pub found: Vec<(String, f64)>,
}

/// `not counted: 8 connections with 80.0 MB to the same server ended unseen; they may be others'`, where
/// there were any.
pub(crate) fn unproven_line(why: &WhyRecord) -> Option<String> {
    let connections = match why.unproven {
        0 => return None,
        1 => "1 connection".to_owned(),
        count => format!("{count} connections"),
    };
    let bytes = Bytes(why.unproven_bytes);
    // Where nothing of the subject's was seen, no server is known to be its own.
    let whose = if why.connections > 0 { " to the same server" } else { "" };
    Some(format!("not counted: {connections} with {bytes}{whose} ended unseen; they may be others'"))
}

/// Flows and threads that are printed.
const SHOWN: usize = 4;

/// Writes what follows the summary: the busiest connections and threads.
pub fn render(why: &WhyRecord, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let most = if all { usize::MAX } else { SHOWN };
    for flow in why.flows.iter().take(most) {
        writeln!(out, "{}", flow_line(flow))?;
    }
    let more = why.connections.saturating_sub(why.flows.len().min(most) as u64);
    if more > 0 && !why.flows.is_empty() {
        writeln!(out, "flow: {more} more")?;
    }
    for thread in why.threads.iter().take(most) {
        writeln!(out, "{}", thread_line(thread))?;
    }
    Ok(())
}

/// `flow: 10.0.0.1:80 (received here) 12.3 MB/s, receive-window`.
pub(crate) fn flow_line(flow: &FlowRecord) -> String {
    let limit = flow.limit.as_deref().map(|limit| format!(", {limit}")).unwrap_or_default();
    let control = match (&flow.congestion_control, flow.side.as_str()) {
        (Some(name), "sender" | "both") => format!(", {name}"),
        _ => String::new(),
    };
    let way = if flow.acked > flow.received { "to" } else { "from" };
    format!(
        "flow: {} {way} {}: {} for {:.1} s ({}{control}){limit}",
        escape(&flow.local),
        escape(&flow.peer),
        Rate(flow.rate),
        flow.seconds,
        escape(&flow.side),
    )
}

fn thread_line(thread: &ThreadRecord) -> String {
    let found: Vec<String> = (thread.found.iter().take(3).filter(|(_, share)| *share >= 0.01))
        .map(|(name, share)| format!("{} {:.0} %", name.replace('-', " "), share * 100.0))
        .collect();
    let mut line = format!("thread: {}: {:.0} % of a core", escape(&thread.name), thread.busy * 100.0);
    if !found.is_empty() {
        line.push_str(&format!("; found {}", found.join(", ")));
    }
    if thread.throttled > 0.0 {
        line.push_str(&format!("; {:.1} s held back by a CPU quota", thread.throttled));
    }
    line
}

/// One moment of a watch, for `--watch`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moment {
    /// Seconds since the start.
    pub at: f64,
    /// Bytes per second over the last second.
    pub rate: f64,
    /// Bytes so far.
    pub bytes: u64,
    /// What holds it now.
    pub limit: Option<String>,
    /// The numbers that say so.
    pub evidence: Option<String>,
    /// Bytes per second written, and to the device, where a file is written.
    pub written: Option<(f64, Option<f64>)>,
    /// The busiest connections.
    pub flows: Vec<FlowRecord>,
}

/// The first line is enough for a log; the others are for a terminal. Each is cut to `width` characters.
pub fn moment_lines(moment: &Moment, width: usize) -> Vec<String> {
    let limit = moment.limit.as_deref().unwrap_or("not known yet");
    let mut lines = vec![format!("{:6.1} s  {:>10}  {limit}", moment.at, Rate(moment.rate).to_string())];
    if let Some((written, disk)) = moment.written {
        let disk = disk.map(|disk| format!(", on disk {}", Rate(disk))).unwrap_or_default();
        lines[0].push_str(&format!("  written {}{disk}", Rate(written)));
    }
    lines.extend(moment.evidence.iter().map(|text| format!("  {}", escape(text))));
    lines.extend(moment.flows.iter().take(SHOWN).map(|flow| format!("  {}", flow_line(flow))));
    lines.into_iter().map(|line| line.chars().take(width).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> FlowRecord {
        FlowRecord {
            local: "10.0.0.2:4000".to_owned(),
            peer: "10.0.0.1:80".to_owned(),
            received: 2_000_000,
            seconds: 2.0,
            rate: 1e6,
            side: "receiver".to_owned(),
            congestion_control: Some("bbr".to_owned()),
            limit: Some("reader".to_owned()),
            ..FlowRecord::default()
        }
    }

    #[test]
    fn flows_and_threads_read_as_lines() {
        let thread = ThreadRecord {
            name: "wget (pid 7)".to_owned(),
            busy: 0.12,
            found: vec![
                ("writing-disk".to_owned(), 0.8),
                ("running".to_owned(), 0.2),
                ("polling".to_owned(), 0.0),
            ],
            ..ThreadRecord::default()
        };
        let why =
            WhyRecord { connections: 3, flows: vec![flow()], threads: vec![thread], ..WhyRecord::default() };
        let mut text = Vec::new();
        render(&why, false, &mut text).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap());
        let json = serde_json::to_value(&why).unwrap();
        assert_eq!(serde_json::from_value::<WhyRecord>(json).unwrap(), why);
    }

    #[test]
    fn what_is_not_counted_is_said() {
        let mut why = WhyRecord { connections: 1, ..WhyRecord::default() };
        assert_eq!(unproven_line(&why), None);
        (why.unproven, why.unproven_bytes) = (8, 80_000_000);
        let said =
            "not counted: 8 connections with 80.0 MB to the same server ended unseen; they may be others'";
        assert_eq!(unproven_line(&why).as_deref(), Some(said));
        (why.unproven, why.connections) = (1, 0);
        let said = "not counted: 1 connection with 80.0 MB ended unseen; they may be others'";
        assert_eq!(unproven_line(&why).as_deref(), Some(said));
    }

    #[test]
    fn a_moment_fits_the_width() {
        let moment = Moment { at: 3.0, rate: 1e6, flows: vec![flow()], ..Moment::default() };
        let lines = moment_lines(&moment, 20);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.chars().count() <= 20));
    }
}
