//! What a capture adds to the record of `weir why --pcap`: what was read, and the pictures of its largest
//! connections.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::escape::escape;

/// The member `capture` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaptureRecord {
    /// The file; `-` for stdin.
    pub file: String,
    /// `pcap` or `pcapng`.
    pub format: String,
    /// Packets in it.
    pub packets: u64,
    /// Of these, TCP segments that count.
    pub segments: u64,
    /// The largest connections, most bytes first.
    pub flows: Vec<CapturedFlow>,
}

/// One connection of a capture.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CapturedFlow {
    /// The end that sends the data.
    pub from: String,
    /// The end that receives them.
    pub to: String,
    /// Where it was captured: `sender`, `receiver`, `middle`, or `unknown`.
    pub vantage: String,
    /// Payload bytes of `from`.
    pub bytes: u64,
    /// Payload bytes of `from` that were sent again.
    pub retransmitted: u64,
    /// The path's round trip, the least seen, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<f64>,
    /// Largest segment, payload bytes.
    pub segment: u64,
    /// The receiver's window is known, since its SYN was captured.
    pub window_known: bool,
    /// How many stalls, and seconds of them, by what ended each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stalled: Vec<StalledRecord>,
    /// The longest stalls, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<StallRecord>,
    /// Its picture: columns of equal length, so that a thousand points stay small. Empty but for the largest
    /// connections.
    #[serde(skip_serializing_if = "SequenceRecord::is_empty")]
    pub sequence: SequenceRecord,
}

/// Stalls of one cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StalledRecord {
    /// What ended them: `retransmission`, `window`, `answer`, `request`, `sender`, `acknowledgment`.
    pub cause: String,
    /// How many.
    pub count: u32,
    /// Seconds.
    pub seconds: f64,
}

/// One stall.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StallRecord {
    /// Seconds from the capture's start.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// What ended it.
    pub cause: String,
}

/// A time-sequence graph: each column has a value for each moment in `t`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SequenceRecord {
    /// Seconds from the capture's start.
    pub t: Vec<f64>,
    /// Payload bytes sent so far.
    pub sent: Vec<u64>,
    /// Payload bytes acknowledged so far.
    pub acked: Vec<u64>,
    /// Bytes in flight, mean since the moment before.
    pub in_flight: Vec<u64>,
    /// The receiver's window; empty where it is not known.
    pub window: Vec<u64>,
    /// Payload bytes sent again since the moment before.
    pub again: Vec<u64>,
}

impl SequenceRecord {
    /// Without any moment.
    pub fn is_empty(&self) -> bool {
        self.t.is_empty()
    }
}

/// Writes what follows the summary: what was read, and the stalls of the largest connection.
pub fn render(capture: &CaptureRecord, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "capture: {} ({}), {} packets, {} TCP segments judged",
        escape(&capture.file),
        escape(&capture.format),
        capture.packets,
        capture.segments
    )?;
    let Some(flow) = capture.flows.first() else { return Ok(()) };
    let stalled: Vec<String> = (flow.stalled.iter().filter(|sum| sum.seconds >= 0.1))
        .map(|sum| format!("{} ({:.1} s) ended by {}", sum.count, sum.seconds, ended_by(&sum.cause)))
        .collect();
    if !stalled.is_empty() {
        writeln!(out, "stalls of the largest: {}", stalled.join("; "))?;
    }
    Ok(())
}

/// What ended a stall, in words.
pub fn ended_by(cause: &str) -> &str {
    match cause {
        "retransmission" => "a retransmission",
        "window" => "the receiver's window opening",
        "answer" => "the answer",
        "request" => "the next request",
        "sender" => "new data of the sender",
        "acknowledgment" => "an acknowledgment",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_lines_and_loads_again() {
        let flow = CapturedFlow {
            stalled: vec![
                StalledRecord { cause: "window".to_owned(), count: 3, seconds: 1.5 },
                StalledRecord { cause: "sender".to_owned(), count: 1, seconds: 0.02 },
            ],
            ..CapturedFlow::default()
        };
        let capture = CaptureRecord {
            file: "a\u{1b}.pcap".to_owned(),
            format: "pcap".to_owned(),
            packets: 10,
            segments: 9,
            flows: vec![flow],
        };
        let mut text = Vec::new();
        render(&capture, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("(pcap), 10 packets, 9 TCP segments judged\n"), "{text}");
        assert!(text.ends_with("stalls of the largest: 3 (1.5 s) ended by the receiver's window opening\n"));
        assert!(!text.contains('\u{1b}'));
        let json = serde_json::to_value(&capture).unwrap();
        assert_eq!(serde_json::from_value::<CaptureRecord>(json).unwrap(), capture);
        assert_eq!(serde_json::from_str::<CaptureRecord>("{}").unwrap(), CaptureRecord::default());
    }
}
