//! What `weir bench pps` adds to a record: packets per second by method and size, and the highest rates
//! without loss.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::escape::escape;
use crate::host::{count, time};
use crate::schema::VerdictRecord;

/// The member `pps` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PacketsRecord {
    /// The far end, as it was asked for.
    pub peer: String,
    /// Sending threads, and receiving ones.
    pub threads: usize,
    /// Packets a second that were asked for; `null`: as many as go.
    pub asked: Option<f64>,
    /// One for each size and method.
    pub rows: Vec<PacketsRow>,
}

/// One size by one method.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PacketsRow {
    /// `plain`: many packets a system call. `gso`: and many a packet of the kernel's.
    pub method: String,
    /// Bytes of the Ethernet frame with its checksum, without preamble and gap.
    pub frame: usize,
    /// Bytes of the UDP payload.
    pub payload: usize,
    /// Why there are no figures; `null` where there are.
    pub missing: Option<String>,
    /// Seconds of sending.
    pub seconds: f64,
    /// Packets handed to this end's kernel.
    pub sent: u64,
    /// Packets that came, each once.
    pub received: u64,
    /// Packets a second handed over.
    pub sent_rate: f64,
    /// Packets a second that came.
    pub received_rate: f64,
    /// Lost over sent.
    pub loss: f64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets that a later one had overtaken.
    pub reordered: u64,
    /// Lost at the receiver's full socket buffer.
    pub buffer_drops: u64,
    /// The receiver's socket buffer, bytes as its kernel counts them.
    pub receive_buffer: u64,
    /// Share of the time that the busiest sending thread ran.
    pub sender_busy: f64,
    /// The same of the busiest receiving thread.
    pub receiver_busy: f64,
    /// What limited it.
    pub verdict: Option<VerdictRecord>,
    /// The search for the highest rate without loss, if it was asked for.
    pub zero_loss: Option<ZeroLossRecord>,
}

/// A search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ZeroLossRecord {
    /// Packets a second; `null` when no trial passed.
    pub rate: Option<f64>,
    /// Seconds of each trial.
    pub trial: f64,
    /// The share of loss that a trial may have and pass.
    pub tolerance: f64,
    /// What is not known of the rate, as a share of it.
    pub resolution: f64,
    /// The trials in order.
    pub trials: Vec<TrialRecord>,
}

/// A trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrialRecord {
    /// Packets a second that were asked for.
    pub asked: f64,
    /// Packets a second that were sent.
    pub sent_rate: f64,
    /// Lost over sent.
    pub loss: f64,
    /// It passed.
    pub passed: bool,
}

/// The table for people.
pub fn render_table(packets: &PacketsRecord, out: &mut dyn Write) -> io::Result<()> {
    let threads =
        if packets.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", packets.threads) };
    writeln!(out, "UDP to {}, {threads} at each end; frame: Ethernet with checksum", escape(&packets.peer))?;
    let heads = ["sent/s", "received/s", "lost", "reordered", "CPU send", "receive"];
    write!(out, "{:>5} {:>7}  {:<6}", "frame", "payload", "method")?;
    heads.iter().try_for_each(|head| write!(out, " {head:>10}"))?;
    writeln!(out)?;
    for row in &packets.rows {
        render_row(row, out)?;
    }
    Ok(())
}

fn render_row(row: &PacketsRow, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{:>5} {:>7}  {:<6}", row.frame, row.payload, row.method)?;
    if let Some(why) = &row.missing {
        return writeln!(out, " not measured: {}", escape(why));
    }
    let share = |share: f64| format!("{:.0} %", share * 100.0);
    let cells = [
        count(row.sent_rate),
        count(row.received_rate),
        format!("{:.3} %", row.loss * 100.0),
        row.reordered.to_string(),
        share(row.sender_busy),
        share(row.receiver_busy),
    ];
    cells.iter().try_for_each(|cell| write!(out, " {cell:>10}"))?;
    writeln!(out)?;
    if let Some(verdict) = &row.verdict {
        let limit = verdict.limit.as_deref().unwrap_or("not judged");
        writeln!(out, "      held by {limit}: {}", escape(&verdict.evidence.join("; ")))?;
        for advice in &verdict.advice {
            writeln!(out, "      to go faster: {}", escape(&advice.action))?;
        }
    }
    if let Some(search) = &row.zero_loss {
        render_search(search, out)?;
    }
    Ok(())
}

fn render_search(search: &ZeroLossRecord, out: &mut dyn Write) -> io::Result<()> {
    let of = format!("{} trials of {}", search.trials.len(), time(search.trial));
    let allowed = match search.tolerance {
        0.0 => "without loss".to_owned(),
        share => format!("with at most {:.3} % lost", share * 100.0),
    };
    match search.rate {
        Some(rate) => {
            writeln!(
                out,
                "      {allowed}: {} packets/s, to {:.1} % ({of})",
                count(rate),
                search.resolution * 100.0
            )
        }
        None => writeln!(out, "      {allowed}: no rate passed ({of})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_their_verdicts() {
        let row = PacketsRow {
            method: "gso".into(),
            frame: 64,
            payload: 18,
            sent_rate: 5_120_000.0,
            received_rate: 5.1e6,
            loss: 0.0039,
            reordered: 2,
            sender_busy: 0.98,
            receiver_busy: 0.7,
            verdict: Some(VerdictRecord {
                limit: Some("reader".into()),
                evidence: vec!["one".into(), "two".into()],
                ..VerdictRecord::default()
            }),
            zero_loss: Some(ZeroLossRecord {
                rate: Some(4e6),
                trial: 2.0,
                resolution: 0.01,
                ..ZeroLossRecord::default()
            }),
            ..PacketsRow::default()
        };
        let missing = PacketsRow { missing: Some("no UDP_SEGMENT".into()), ..row.clone() };
        let record = PacketsRecord { peer: "h".into(), threads: 1, asked: None, rows: vec![row, missing] };
        let mut out = Vec::new();
        render_table(&record, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
