//! The client: what the arguments ask for, lines while it runs, and the report.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use weir_model::evidence::Evidence;
use weir_model::limit::Limit;
use weir_model::merge::merged;
use weir_net::client::{Family, Options, Progress};
use weir_net::outcome::{Ending, Interval, Outcome, Start};
use weir_net::parameters::{Direction, MOST_BLOCK, MOST_DATAGRAM, Parameters, Transport};
use weir_net::results::Output;
use weir_report::escape::{escape, escape_lines};
use weir_report::net::{self, Units};
use weir_report::schema::Record;
use weir_report::{json, terminal};
use weir_units::Rate;

use super::{Form, copies, form, iperf3_json, login, record, transactions, units};
use crate::args::{BenchNet, Test};
use crate::interrupt::{self, INTERRUPTED};
use crate::live::Live;
use crate::page;
use crate::tui::{self, Screen};
use crate::voice::{self, Printed, Usage};

/// iperf3's rate of UDP where none is named: a megabit.
const UDP_RATE: u64 = 1 << 20;

/// Makes the test and reports. Returns the exit code.
pub(super) fn run(bench: &BenchNet, host: &str) -> anyhow::Result<u8> {
    let options = match options(bench, host) {
        Err(error) if matches!(error.downcast_ref(), Some(weir_net::Error::Interrupted)) => {
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
    let stop = interrupt::stop_beside(view)?;
    let mut lines = Lines::new(bench, view);
    let outcome = weir_net::client::run(&options, &mut lines, &stop);
    lines.end();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(weir_net::Error::Interrupted) => return Ok(INTERRUPTED),
        Err(error) => {
            if lines.form == Form::Iperf3 {
                println_json(&iperf3_json::failed(&anyhow::Error::from(error)))?;
                return Ok(1);
            }
            return Err(error.into());
        }
    };
    let (record, member) = record::record(&outcome);
    report(&outcome, (&record, &member), lines.form, lines.units).printed("the report")?;
    if let Ending::Broken(why) = &outcome.ending {
        writeln!(io::stderr(), "weir: {}", escape(why))?;
    }
    page::keep(&bench.voice, &record)?;
    Ok(code(&outcome.ending))
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
    let family = match (bench.v4, bench.v6) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Any,
    };
    Ok(Options {
        family,
        bind: bench.bind,
        parameters: Parameters { time: time(bench), ..parameters(test)? },
        own_block: test.length.is_some() || test.blockcount.is_some(),
        interval: bench.interval,
        connect: Duration::from_millis(test.connect_timeout.max(1)),
        copies: copies(bench),
        bundles: !bench.no_gso,
        login: login::of_client(&bench.login)?,
        ..Options::to(host, bench.port)
    })
}

/// Seconds of the test, or of one run of transactions: many short runs say more of their mean than few long ones.
fn time(bench: &BenchNet) -> u32 {
    let test = &bench.test;
    let usual = if bench.transactions.repeats() { 1 } else { Parameters::new().time };
    if test.bytes.is_some() || test.blockcount.is_some() { 0 } else { test.time.unwrap_or(usual) }
}

fn parameters(test: &Test) -> anyhow::Result<Parameters> {
    let usual = Parameters::new();
    let (least, most) = if test.udp { (16, MOST_DATAGRAM) } else { (1, MOST_BLOCK) };
    let block = match test.length.map(u32::try_from) {
        None if test.udp => 0,
        None => usual.block,
        Some(Ok(block)) if (least..=most).contains(&block) => block,
        Some(_) => return Err(Usage(format!("-l: expected {least} to {most} bytes")).into()),
    };
    let window = match test.window.map(u32::try_from) {
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
        bytes: test.bytes.unwrap_or_default(),
        blocks: test.blockcount.unwrap_or_default(),
        parallel: test.parallel,
        block,
        segment: test.segment,
        window,
        rate: test.bitrate.map_or(default_rate, |bits| bits.rate),
        burst: test.bitrate.map_or(0, |bits| bits.burst),
        pacing: test.fq_rate.map(|bits| bits.rate / 8).filter(|rate| *rate > 0),
        service: test.tos,
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
    title: Option<String>,
    /// There is to be a live view.
    view: bool,
    live: Live,
    seen: Seen,
    /// What was to be printed meanwhile.
    held: Vec<u8>,
}

/// What the live view is told of a test, apart from its windows.
#[derive(Default)]
struct Seen {
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
            title: bench.test.title.clone(),
            view,
            live: Live::new(false, 0),
            seen: Seen::default(),
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
        self.seen = Seen {
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
        if self.form == Form::Lines {
            self.print(|out| heading(start, out));
        }
    }

    fn window(&mut self, sends: bool, evidence: &Evidence, limit: Limit) {
        let (true, Some(window)) = (sends == self.seen.sends && self.live.is_view(), evidence.windows.last())
        else {
            return;
        };
        self.live.tell(|news| news.window(window, Some(limit), evidence));
        let seen = &mut self.seen;
        seen.moved += window.received;
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
    let windows = &evidence.windows;
    let last = merged(&windows[windows.len().saturating_sub(10)..]);
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
    outcome: &Outcome,
    (record, member): (&Record, &net::NetRecord),
    form: Form,
    units: Units,
) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match form {
        Form::Record => json::render(record, &mut out)?,
        Form::Iperf3 => {
            drop(out);
            println_json(&iperf3_json::whole(outcome))?;
        }
        Form::Quiet => {}
        Form::Lines => {
            // Said once, on stderr.
            let record = Record { error: None, ..record.clone() };
            summary(&record, member, units, &mut out)?;
            match &outcome.server_output {
                Some(Output::Text(text)) => writeln!(out, "\nthe server's report:\n{}", escape_lines(text))?,
                Some(Output::Json(value)) => {
                    writeln!(out, "\nthe server's report:\n{}", escape_lines(&format!("{value:#}")))?;
                }
                None => {}
            }
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
    net::render_sums(member, units, out)?;
    terminal::render_summary(record, voice::colours(&io::stdout()), out)?;
    if let Some(back) = &member.back_verdict {
        writeln!(out, "the way back:")?;
        terminal::render_verdict(back, voice::colours(&io::stdout()), out)?;
    }
    Ok(())
}

/// As iperf3 prints it: in lines, with tabs.
pub(super) fn println_json(value: &serde_json::Value) -> anyhow::Result<()> {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"\t");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    serde::Serialize::serialize(value, &mut serializer)?;
    text.push(b'\n');
    io::stdout().lock().write_all(&text).printed("the report")
}
