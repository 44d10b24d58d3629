//! `weir why --pcap FILE`: what limited the transfers in a capture? Arguments and printing; [`weir_capture`]
//! reads and judges.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use weir_capture::{Capture, Cause, FlowSeen, Format, Options, Vantage, judge};
use weir_report::capture::{CaptureRecord, CapturedFlow, SequenceRecord, StallRecord, StalledRecord};
use weir_report::schema::{Record, RunOutcome};
use weir_report::why::{FlowRecord, WhyRecord};
use weir_report::{json, terminal};

use super::why::{named_peer, peers};
use crate::args::Why;
use crate::evidence;
use crate::front::Front;
use crate::page;
use crate::voice::{self, Printed as _};

/// Reads, judges and tells. Exit code 0 where there was a connection to judge, else 1.
pub fn run(why: &Why, file: &Path, front: &mut dyn Front) -> anyhow::Result<u8> {
    evidence::check(why.evidence.as_deref())?;
    let peers = peers(why)?;
    let wanted = why.peer.as_deref().map(|peer| format!(" with {}", named_peer(peer, &peers)));
    // Ctrl-C ends the reading: what came so far is judged, as tcpdump's own end does.
    let stop = front.stop()?;
    let over = Cell::new(false);
    let stopped = || stop.load(Relaxed) || over.get();
    let name = match file.as_os_str() == "-" {
        true => "stdin".to_owned(),
        false => file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
    };
    let (port, span) = (why.port, why.span);
    let options = Options { port, peers, span, stop: Some(&stopped), scope: name.clone() };
    let stream = Stream { file: open(file)?, stopped: &stopped, over: &over, span, last: None };
    let capture = weir_capture::read(stream, &options)
        .with_context(|| format!("cannot judge capture {}", file.display()))?;
    let (record, why_record, capture_record) = tell(&capture, file, &name, &wanted.unwrap_or_default());
    front.tell(&record, &mut || {
        say(why, &record, &why_record, &capture_record, &mut std::io::stdout().lock())
    })?;
    evidence::keep(why.evidence.as_deref(), &capture.evidence)?;
    page::keep(&why.voice, &record)?;
    Ok(if capture.connections > 0 { 0 } else { 1 })
}

fn open(file: &Path) -> anyhow::Result<File> {
    let cannot = || format!("cannot open capture {}", file.display());
    if file.as_os_str() == "-" {
        return Ok(File::from(std::io::stdin().as_fd().try_clone_to_owned().with_context(cannot)?));
    }
    // A pipe may have no writer yet.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file).with_context(cannot)?;
    let folder = opened.metadata().is_ok_and(|metadata| metadata.is_dir());
    anyhow::ensure!(!folder, "cannot judge capture {}: it is a folder", file.display());
    Ok(opened)
}

/// Between two looks at the clock and at what the user wants.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A capture as it comes. A live one may be silent for long: it ends then where the user wants that, or when
/// nothing came for as long as its span. A recorded one may come slowly: its packets tell the time.
struct Stream<'a> {
    file: File,
    stopped: &'a dyn Fn() -> bool,
    /// Set when nothing came for too long, so that its end is not taken for a cut.
    over: &'a Cell<bool>,
    span: Option<Duration>,
    /// When bytes came last.
    last: Option<Instant>,
}

impl Stream<'_> {
    fn is_silent(&self) -> bool {
        self.last.zip(self.span).is_some_and(|(last, span)| last.elapsed() >= span)
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        while !(self.stopped)() {
            let ready = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&PAUSE));
            match ready {
                Ok(0) if self.is_silent() => self.over.set(true),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => match self.file.read(room) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    read => {
                        self.last = Some(Instant::now());
                        return read;
                    }
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    }
}

/// `wanted`: with whom the connections are that count, for words.
fn tell(capture: &Capture, file: &Path, name: &str, wanted: &str) -> (Record, WhyRecord, CaptureRecord) {
    let mut verdict = judge(&capture.evidence, &capture.notes);
    if capture.connections == 0 {
        verdict.missing.insert(0, format!("{name} has no TCP connection{wanted} that counts"));
        verdict.limit = None;
        verdict.innocent.clear();
    }
    let mut record = Record::new("why", RunOutcome::Complete, capture.bytes, capture.seconds);
    record = record.with_verdict(&capture.evidence, &verdict);
    record.connections = record.connections.filter(|count| *count > 0);
    record.peak_memory = weir_observe::memory::peak_rss().ok();
    let flows: Vec<FlowRecord> = capture.flows.iter().map(flow).collect();
    let why = WhyRecord {
        subject: name.to_owned(),
        received: capture.bytes,
        connections: capture.connections,
        flows,
        ..WhyRecord::default()
    };
    let of = CaptureRecord {
        file: file.display().to_string(),
        format: match capture.format {
            Format::Pcap => "pcap".to_owned(),
            Format::PcapNg => "pcapng".to_owned(),
        },
        packets: capture.packets,
        segments: capture.segments,
        flows: capture.flows.iter().map(captured).collect(),
    };
    let members = [("why", serde_json::to_value(&why)), ("capture", serde_json::to_value(&of))];
    for (name, value) in members {
        if let Ok(value) = value {
            record.extra.insert(name.to_owned(), value);
        }
    }
    (record, why, of)
}

fn flow(seen: &FlowSeen) -> FlowRecord {
    // `local` is the end at which the capture was made; from between them, or from nowhere known, the
    // sender's.
    let at_receiver = seen.vantage == Vantage::Receiver;
    let (local, peer) = if at_receiver { (seen.to, seen.from) } else { (seen.from, seen.to) };
    FlowRecord {
        local: local.to_string(),
        peer: peer.to_string(),
        process: None,
        received: if at_receiver { seen.bytes } else { seen.answered },
        acked: if at_receiver { seen.answered } else { seen.bytes },
        seconds: seen.seconds,
        rate: if seen.seconds > 0.0 { seen.bytes as f64 / seen.seconds } else { 0.0 },
        side: seen.vantage.name().to_owned(),
        congestion_control: None,
        limit: judge(&seen.evidence, &[]).limit.map(|limit| limit.name().to_owned()),
    }
}

fn captured(seen: &FlowSeen) -> CapturedFlow {
    let stalled = Cause::ALL.iter().zip(seen.stalled).filter(|(_, (count, _))| *count > 0);
    CapturedFlow {
        from: seen.from.to_string(),
        to: seen.to.to_string(),
        vantage: seen.vantage.name().to_owned(),
        bytes: seen.bytes,
        retransmitted: seen.again,
        round_trip: seen.round_trip.map(|rtt| rtt.as_secs_f64()),
        segment: seen.segment.into(),
        window_known: seen.window_known,
        stalled: stalled
            .map(|(cause, (count, seconds))| StalledRecord { cause: cause.name().to_owned(), count, seconds })
            .collect(),
        stalls: (seen.stalls.iter())
            .map(|stall| StallRecord { from: stall.from, to: stall.to, cause: stall.cause.name().to_owned() })
            .collect(),
        sequence: sequence(seen),
    }
}

fn sequence(seen: &FlowSeen) -> SequenceRecord {
    let points = &seen.points;
    let windows: Option<Vec<u64>> = points.iter().map(|point| point.window).collect();
    SequenceRecord {
        t: points.iter().map(|point| point.at).collect(),
        sent: points.iter().map(|point| point.sent).collect(),
        acked: points.iter().map(|point| point.acked).collect(),
        in_flight: points.iter().map(|point| point.in_flight).collect(),
        window: windows.unwrap_or_default(),
        again: points.iter().map(|point| point.again).collect(),
    }
}

fn say(
    why: &Why,
    record: &Record,
    flows: &WhyRecord,
    capture: &CaptureRecord,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if why.voice.json {
        return json::render(record, out).printed("the record");
    }
    if why.voice.quiet {
        return Ok(());
    }
    let sheet = voice::sheet(&std::io::stdout());
    terminal::render_summary(record, sheet, out)?;
    sheet.print(out, |out| {
        weir_report::why::render(flows, why.voice.verbose > 0, out)?;
        weir_report::capture::render(capture, out)
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_ends_a_stream_that_is_silent_for_so_long_and_not_one_that_is_so_old() {
        let (from, to) = rustix::pipe::pipe().unwrap();
        let (over, span) = (Cell::new(false), Duration::from_millis(500));
        let stopped = || over.get();
        let mut stream =
            Stream { file: from.into(), stopped: &stopped, over: &over, span: Some(span), last: None };
        let mut writer = File::from(to);
        let mut since = Instant::now();
        for age in [Duration::ZERO, span] {
            std::thread::sleep(age);
            since = Instant::now();
            writer.write_all(b"x").unwrap();
            assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
        }
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
        assert!(over.get() && since.elapsed() >= span, "{:?}", since.elapsed());
    }
}
