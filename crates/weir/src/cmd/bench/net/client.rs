//! The client: what the arguments ask for, lines while it runs, and the report.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use weir_bench_net::client::{Family, Options, Progress, RECEIVE_TIMEOUT};
use weir_bench_net::outcome::{Ending, Interval, Start, TestOutcome};
use weir_bench_net::parameters::{Direction, MOST_BLOCK, MOST_DATAGRAM, PACING_TIMER, Parameters, Transport};
use weir_bench_net::results::Output;
use weir_model::evidence::Evidence;
use weir_model::limit::Limit;
use weir_model::merge::merged;
use weir_report::escape::{escape, escape_lines};
use weir_report::net::{self, Units};
use weir_report::schema::Record;
use weir_report::{json, terminal};
use weir_units::Rate;

use super::iperf3_text::{self, Style};
use super::printer::{self, Printer};
use super::{Form, copies, form, iperf3_json, login, millis, record, style, transactions, units, wiring};
use crate::args::{BenchNet, Test, host_and_device};
use crate::interrupt::INTERRUPTED;
use crate::live::Live;
use crate::page;
use crate::tui::{self, Screen};
use crate::voice::{self, Printed, Usage};

/// iperf3's rate of UDP where none is named: a megabit.
const UDP_RATE: u64 = 1 << 20;

/// Makes the test and reports. Returns the exit code.
pub(super) fn run(bench: &BenchNet, host: &str) -> anyhow::Result<u8> {
    let options = match options(bench, host) {
        Err(error) if matches!(error.downcast_ref(), Some(weir_bench_net::NetError::Interrupted)) => {
            return Ok(INTERRUPTED);
        }
        other => other?,
    };
    if let Some(kind) = bench.transactions.kind() {
        if bench.tui {
            tracing::warn!("no live view: requests and responses have none");
        }
        return transactions::run(bench, &options, kind);
    }
    let view = tui::is_possible(bench.tui);
    let stop = tui::stop_beside(view)?;
    let mut lines = Lines::new(bench, view);
    let outcome = weir_bench_net::client::run(&options, &mut lines, &stop);
    lines.end();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(weir_bench_net::NetError::Interrupted) => return Ok(INTERRUPTED),
        Err(error) => {
            return failed(error.into(), lines.form);
        }
    };
    let (record, member) = record::record(&outcome);
    report(&outcome, (&record, &member), &lines).printed("the report")?;
    if let Ending::Broken(why) = &outcome.ending {
        writeln!(io::stderr(), "{} {}", voice::name(), escape(why))?;
    }
    // No line of iperf3's: it stands beside them, where a person looks on.
    if let Some(verdict) = record.verdict.as_ref().filter(|_| lines.form == Form::Iperf3Lines)
        && io::stderr().is_terminal()
        && !bench.as_iperf3
    {
        terminal::render_verdict(verdict, voice::sheet(&io::stderr()), &mut io::stderr())?;
    }
    page::keep(&bench.voice, &record)?;
    Ok(code(&outcome.ending))
}

/// A test that did not begin: in JSON, where that is read.
fn failed(error: anyhow::Error, form: Form) -> anyhow::Result<u8> {
    match form {
        Form::Iperf3 => printer::print_json(&iperf3_json::failed(&error)),
        Form::Events { .. } => printer::print_events(&iperf3_json::events_of_failure(&error)),
        _ => return Err(error),
    }
    .printed("the report")?;
    Ok(1)
}

/// The exit code of a test that began.
pub(super) fn code(ending: &Ending) -> u8 {
    match ending {
        Ending::Complete => 0,
        Ending::Interrupted => INTERRUPTED,
        Ending::Broken(_) => 1,
    }
}

fn options(bench: &BenchNet, host: &str) -> anyhow::Result<Options> {
    let test = &bench.test;
    let end = End::of(test)?;
    let family = match (bench.v4, bench.v6) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Any,
    };
    let parameters = Parameters {
        time: time(bench, end),
        bytes: if let End::Bytes(bytes) = end { bytes } else { 0 },
        blocks: if let End::Blocks(blocks) = end { blocks } else { 0 },
        zerocopy: bench.zerocopy,
        skip_rx_copy: bench.skip_rx_copy,
        server_affinity: bench.affinity.and_then(|affinity| affinity.server),
        mptcp: bench.mptcp,
        gsro: bench.gsro,
        ..parameters(test)?
    };
    Ok(Options {
        family,
        bind: bench.bind.as_ref().map(|bound| bound.address),
        local_port: test.cport,
        wiring: wiring(bench),
        receive_timeout: bench.rcv_timeout.map_or(RECEIVE_TIMEOUT, millis),
        parameters,
        own_block: test.length.is_some_and(|length| length > 0) || matches!(end, End::Blocks(_)),
        interval: bench.interval,
        connect: Duration::from_millis(test.connect_timeout.max(1)),
        copies: copies(bench),
        bundles: !bench.no_gso,
        login: login::of_client(&bench.login)?,
        ..Options::to(host_and_device(host).0, bench.port)
    })
}

/// Seconds of the test, or of one run of transactions: many short runs say more of their mean than few long
/// ones.
fn time(bench: &BenchNet, end: End) -> u32 {
    let usual = if bench.transactions.repeats() { 1 } else { Parameters::new().time };
    if end == End::Time { bench.test.time.unwrap_or(usual) } else { 0 }
}

/// What ends a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Time,
    Bytes(u64),
    Blocks(u64),
}

impl End {
    /// As iperf3 has it: one of them, and of bytes and blocks none are no limit.
    fn of(test: &Test) -> anyhow::Result<End> {
        let bytes = test.bytes.filter(|bytes| *bytes > 0).map(End::Bytes);
        let blocks = test.blockcount.filter(|blocks| *blocks > 0).map(End::Blocks);
        match (bytes, blocks, test.time) {
            (None, None, _) => Ok(End::Time),
            (Some(end), None, None) | (None, Some(end), None) => Ok(end),
            _ => Err(Usage("only one test end condition (-t, -n, -k) may be specified".to_owned()).into()),
        }
    }
}

fn parameters(test: &Test) -> anyhow::Result<Parameters> {
    let usual = Parameters::new();
    let (least, most) = if test.udp { (16, MOST_DATAGRAM) } else { (1, MOST_BLOCK) };
    let block = match test.length.filter(|length| *length > 0).map(u32::try_from) {
        None if test.udp => 0,
        None => usual.block,
        Some(Ok(block)) if (least..=most).contains(&block) => block,
        Some(_) => return Err(Usage(format!("-l: expected {least} to {most} bytes")).into()),
    };
    let window = match test.window.filter(|window| *window > 0).map(u32::try_from) {
        None => None,
        Some(Ok(window)) if window <= 512 << 20 => Some(window),
        Some(_) => return Err(Usage("-w: expected at most 512M".to_owned()).into()),
    };
    let default_rate = if test.udp { UDP_RATE } else { 0 };
    Ok(Parameters {
        transport: if test.udp { Transport::Udp } else { Transport::Tcp },
        direction: match (test.bidir, test.reverse) {
            (true, _) => Direction::Both,
            (_, true) => Direction::Reverse,
            _ => Direction::Forward,
        },
        omit: test.omit,
        parallel: test.parallel,
        block,
        segment: test.segment.filter(|segment| *segment > 0),
        window,
        rate: test.bitrate.map_or(default_rate, |bits| bits.rate),
        burst: test.bitrate.map_or(0, |bits| bits.burst),
        pacing: test.fq_rate.map(|bits| bits.rate / 8).filter(|rate| *rate > 0),
        service: test.tos.or(test.dscp).unwrap_or_default(),
        flow_label: test.flow_label,
        dont_fragment: test.dont_fragment,
        repeating: test.repeating_payload,
        pacing_timer: test.pacing_timer.unwrap_or(PACING_TIMER),
        no_delay: test.no_delay,
        congestion: test.congestion.clone(),
        title: test.title.clone(),
        extra_data: test.extra_data.clone(),
        server_output: test.get_server_output,
        wide_counters: test.wide_counters,
        ..usual
    })
}

/// Lines as they come, or when the live view is over.
struct Lines {
    form: Form,
    units: Units,
    style: Style,
    printer: Printer,
    title: Option<String>,
    /// There is to be a live view.
    view: bool,
    live: Live,
    seen: LiveFacts,
    /// What was to be printed meanwhile.
    held: Vec<u8>,
}

/// What the live view is told of a test, apart from its intervals.
#[derive(Default)]
struct LiveFacts {
    /// This end sends the data that the view shows.
    sends: bool,
    began: Option<Instant>,
    /// From the beginning to the end, where that is known.
    span: Option<Duration>,
    /// Bytes that the test takes, where that is known.
    bytes: Option<u64>,
    moved: u64,
    lanes: u32,
}

impl Lines {
    fn new(bench: &BenchNet, view: bool) -> Lines {
        Lines {
            form: form(bench),
            units: units(bench),
            style: style(bench),
            printer: Printer::new(bench),
            title: bench.test.title.clone(),
            view,
            live: Live::new(false, 0),
            seen: LiveFacts::default(),
            held: Vec::new(),
        }
    }

    /// Prints, now or when the live view is over.
    fn print(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        // A reader that went away ends the program by the report's own error.
        let _ = if self.live.is_view() {
            write(&mut self.held)
        } else {
            let mut out = io::stdout().lock();
            write(&mut out).and_then(|()| out.flush())
        };
    }

    /// The test is over.
    fn end(&mut self) {
        self.live.clear();
        let held = std::mem::take(&mut self.held);
        self.print(|out| out.write_all(&held));
    }

    /// Opens the live view.
    fn show(&mut self, start: &Start) {
        let parameters = &start.parameters;
        let span = Duration::from_secs((parameters.omit + parameters.time).into());
        self.seen = LiveFacts {
            sends: parameters.direction != Direction::Reverse,
            began: Some(Instant::now()),
            span: (parameters.time > 0 && parameters.budget().is_none()).then_some(span),
            bytes: parameters.budget().filter(|_| parameters.omit == 0),
            moved: 0,
            lanes: start.streams.len() as u32,
        };
        let kind = if parameters.transport == Transport::Udp { "UDP" } else { "TCP" };
        let way = if self.seen.sends { "to" } else { "from" };
        let screen = Screen::open(&format!("bench net, {kind} {way} {}", start.host), "q ends it");
        self.live.on(screen);
        self.live.tell(|news| {
            for stream in &start.streams {
                news.name(stream.id, format!("stream {} {way} {}", stream.id, stream.remote));
            }
        });
    }
}

impl Progress for Lines {
    fn started(&mut self, start: &Start) {
        if std::mem::take(&mut self.view) {
            self.show(start);
        }
        // A reader that went away ends the program by the report's own error.
        let _ = match self.form {
            Form::Lines => {
                self.print(|out| heading(start, out));
                Ok(())
            }
            Form::Iperf3Lines => self.printer.print(&iperf3_text::begin(start, self.style)),
            Form::Events { .. } => {
                printer::print_events(&[iperf3_json::event("start", iperf3_json::of_start(start))])
            }
            Form::Record | Form::Iperf3 | Form::Quiet => Ok(()),
        };
    }

    fn judged(&mut self, sends: bool, evidence: &Evidence, limit: Limit) {
        let (true, Some(interval)) =
            (sends == self.seen.sends && self.live.is_view(), evidence.intervals.last())
        else {
            return;
        };
        self.live.tell(|news| news.interval(interval, Some(limit), evidence));
        let seen = &mut self.seen;
        seen.moved += interval.received;
        let elapsed = seen.began.map(|began| began.elapsed()).unwrap_or_default();
        self.live.draw(&weir_report::progress::Progress {
            done: seen.moved,
            total: seen.bytes,
            rate: of_late(evidence).0,
            lanes: seen.lanes,
            limit: Some(limit),
            due: seen.span.map(|span| span.saturating_sub(elapsed)),
            ..Default::default()
        });
    }

    fn interval(&mut self, start: &Start, interval: &Interval) {
        // A reader that went away ends the program by the report's own error.
        let _ = match self.form {
            Form::Iperf3Lines => self.printer.print(&iperf3_text::interval(start, interval, self.style)),
            Form::Events { .. } => {
                let data = iperf3_json::of_interval(start, interval);
                printer::print_events(&[iperf3_json::event("interval", data)])
            }
            _ => Ok(()),
        };
        if self.form == Form::Lines {
            let title = self.title.as_deref().map(|title| format!("{title}:  ")).unwrap_or_default();
            let units = self.units;
            self.print(|out| {
                record::lines(start, interval).iter().try_for_each(|line| {
                    write!(out, "{title}")?;
                    net::render_interval(line, units, out)
                })
            });
        }
    }
}

/// The rate of the last second or so.
fn of_late(evidence: &Evidence) -> Rate {
    let intervals = &evidence.intervals;
    let last = merged(&intervals[intervals.len().saturating_sub(10)..]);
    Rate::of(last.received, last.span)
}

/// Who, what, and the columns.
pub(super) fn heading(start: &Start, out: &mut dyn Write) -> io::Result<()> {
    let parameters = &start.parameters;
    let udp = parameters.transport == Transport::Udp;
    let count = match start.streams.len() {
        1 => "1 stream".to_owned(),
        count => format!("{count} streams"),
    };
    let way = match parameters.direction {
        Direction::Forward => "to the server",
        Direction::Reverse => "from the server",
        Direction::Both => "both ways",
    };
    let kind = if udp { format!("UDP, datagrams of {} bytes", parameters.block) } else { "TCP".to_owned() };
    writeln!(out, "connected to {}: {count} of {kind}, {way}", start.peer)?;
    net::render_heading(udp, out)
}

/// What came of it.
fn report(
    outcome: &TestOutcome,
    (record, member): (&Record, &net::NetRecord),
    lines: &Lines,
) -> anyhow::Result<()> {
    match lines.form {
        Form::Record => json::render(record, &mut io::stdout().lock())?,
        Form::Iperf3 => printer::print_json(&iperf3_json::whole(outcome))?,
        Form::Events { whole } => {
            printer::print_events(&iperf3_json::events_at_end(outcome))?;
            if whole {
                printer::print_json(&iperf3_json::whole(outcome))?;
            }
        }
        Form::Iperf3Lines => {
            let done = if outcome.ending == Ending::Complete { iperf3_text::DONE } else { "" };
            lines.printer.print(&(iperf3_text::end(outcome, lines.style) + done))?;
        }
        Form::Quiet => {}
        Form::Lines => {
            let mut out = io::stdout().lock();
            // Said once, on stderr.
            let record = Record { error: None, ..record.clone() };
            summary(&record, member, lines.units, &mut out)?;
            let text = match &outcome.server_output {
                Some(Output::Text(text)) => text.clone(),
                Some(Output::Json(report)) => report.lines(),
                None => return Ok(()),
            };
            writeln!(out, "\nthe server's report:\n{}", escape_lines(&text))?;
        }
    }
    Ok(())
}

/// The sums, and the verdict as every command tells it.
pub(super) fn summary(
    record: &Record,
    member: &net::NetRecord,
    units: Units,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out)?;
    let sheet = voice::sheet(&io::stdout());
    sheet.print(out, |out| net::render_sums(member, units, out))?;
    terminal::render_summary(record, sheet, out)?;
    if let Some(back) = &member.back_verdict {
        writeln!(out, "the way back:")?;
        terminal::render_verdict(back, sheet, out)?;
    }
    Ok(())
}
