//! The server: where it listens, whom it lets in, and what it says of each test.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use clap::{Args, FromArgMatches};
use weir_bench_net::client::RECEIVE_TIMEOUT;
use weir_bench_net::outcome::{Ending, Interval, Start, TestOutcome};
use weir_bench_net::results::Output;
use weir_bench_net::server::{Event, Options, RATE_SPAN, Server};
use weir_report::escape::escape;
use weir_report::json;
use weir_report::net::{self, Units};

use super::iperf3_text::{self, Style};
use super::printer::{self, Printer};
use super::{
    Form, background, client, copies, form, iperf3_json, login, millis, record, style, transactions, wiring,
};
use crate::args::BenchNet;
use crate::interrupt;
use crate::voice::{self, Printed};

/// Seconds of a test, where the user names no bound: an hour.
const MOST_TIME: u64 = 3600;

/// Its bytes likewise: an hour at more than 20 Gbit/s.
const MOST_BYTES: u64 = 10_000_000_000_000;

/// How the server speaks.
#[derive(Debug, Clone)]
struct Voice {
    form: Form,
    style: Style,
    printer: Printer,
    /// Whether a test is followed by another: then iperf3 says once more that it listens, and where.
    again: Option<u16>,
}

/// Serves until SIGINT or SIGTERM, or until one test is over. Returns the exit code: of one test its own.
pub(super) fn run(bench: &BenchNet) -> anyhow::Result<u8> {
    let stop = interrupt::stop()?;
    let again = (!bench.bounds.one_off).then_some(bench.port);
    let voice = Voice { form: form(bench), style: style(bench), printer: Printer::new(bench), again };
    let said = voice.clone();
    let code = Arc::new(AtomicU8::new(0));
    let kept = Arc::clone(&code);
    let tell = move |event: Event| {
        if let Some(code) = code_of(&event) {
            kept.store(code, Relaxed);
        }
        // A reader that went away is no reason to end a test.
        if let Err(cause) = said.say(&event) {
            tracing::debug!("cannot print: {cause}");
        }
    };
    let server = bind(bench, tell)?;
    // Beside JSON it stands on stderr: who starts a server on port 0 has to know which one it got.
    let announced = match voice.form {
        Form::Lines => announce(bench, &server, &mut io::stdout().lock()),
        // Its own words say no address, so that weir's stand before them.
        Form::Iperf3Lines if !bench.as_iperf3 => announce(bench, &server, &mut io::stdout().lock()),
        Form::Record | Form::Iperf3 | Form::Events { .. } if !bench.as_iperf3 => {
            announce(bench, &server, &mut io::stderr().lock())
        }
        _ => Ok(()),
    };
    announced.printed("where the server listens")?;
    background::listens(bench)?;
    if voice.form == Form::Iperf3Lines {
        let port = server.addresses().first().map_or(bench.port, SocketAddr::port);
        voice.printer.print(&iperf3_text::listening(port, 1)).printed("where the server listens")?;
    }
    server.run(&stop)?;
    Ok(if bench.bounds.one_off { code.load(Relaxed) } else { 0 })
}

/// The same server beside another command's work: with the bounds that it has by default, at `listen` or else
/// where it listens by default. Returns the places, and what serves until `stop` is set.
pub fn beside(
    listen: Option<SocketAddr>,
    quiet: bool,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<(Vec<SocketAddr>, impl FnOnce() + Send + 'static)> {
    let place = listen.map(|at| format!("--listen={at}"));
    let words = ["net", "--server"].into_iter().map(str::to_owned).chain(place);
    let matches = BenchNet::augment_args(clap::Command::new("net")).try_get_matches_from(words)?;
    let bench = BenchNet::from_arg_matches(&matches)?;
    let form = if quiet { Form::Quiet } else { Form::Lines };
    let style = Style { units: Units::default(), wordy: false };
    let voice = Voice { form, style, printer: Printer::default(), again: None };
    let tell = move |event: Event| {
        // A reader that went away is no reason to end a test.
        if let Err(cause) = voice.say(&event) {
            tracing::debug!("cannot print: {cause}");
        }
    };
    let server = bind(&bench, tell)?;
    let places = server.addresses();
    let serve = move || {
        if let Err(error) = server.run(&stop) {
            tracing::warn!("measurements are no longer answered: {}", escape(&error.in_full()));
        }
    };
    Ok((places, serve))
}

fn bind(bench: &BenchNet, tell: impl Fn(Event) + Send + Sync + 'static) -> anyhow::Result<Server> {
    let bounds = &bench.bounds;
    let style = style(bench);
    let wants_json = bench.iperf3_json || bench.json_stream;
    // iperf3 bounds nothing unless it is asked to.
    let bound = |asked: Option<u64>, usual: u64| {
        let usual = if bench.as_iperf3 { 0 } else { usual };
        Some(asked.unwrap_or(usual)).filter(|bound| *bound > 0)
    };
    let options = |listen: Vec<SocketAddr>| -> anyhow::Result<Options> {
        Ok(Options {
            listen,
            one_off: bounds.one_off,
            most_clients: bounds.max_clients.into(),
            most_time: bound(bounds.max_time.map(u64::from), MOST_TIME).map(Duration::from_secs),
            most_bytes: bound(bounds.max_bytes.map(|bytes| bytes.0), MOST_BYTES),
            most_rate: bounds.max_bitrate.map(|limit| limit.rate).filter(|rate| *rate > 0),
            rate_span: bounds.max_bitrate.and_then(|limit| limit.span).unwrap_or(RATE_SPAN),
            timeout: weir_bench_net::server::TIMEOUT,
            receive_timeout: bench.rcv_timeout.map_or(RECEIVE_TIMEOUT, millis),
            idle: bounds.idle_timeout.map(|seconds| Duration::from_secs(seconds.into())),
            wiring: wiring(bench),
            interval: bench.interval,
            copies: copies(bench),
            bundles: !bench.no_gso,
            guard: login::of_server(&bench.login)?,
            report: Box::new(move |outcome| report(outcome, wants_json, style)),
        })
    };
    let tell = Arc::new(tell);
    let bind = |listen: Vec<SocketAddr>| -> anyhow::Result<Result<Server, weir_bench_net::NetError>> {
        let tell = Arc::clone(&tell);
        Ok(Server::bind(options(listen)?, Box::new(move |event| tell(event))))
    };
    let listen = listen(bench);
    // Without an address that the user named, a machine without IPv6 has IPv4 alone.
    match bind(listen.clone())? {
        Err(weir_bench_net::NetError::Listen { at, source })
            if !is_named(bench) && !bench.v6 && at.is_ipv6() && source.kind() != io::ErrorKind::AddrInUse =>
        {
            let v4 = |at: &SocketAddr| match at.ip() {
                IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
                    Some(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), at.port()))
                }
                ip => ip.is_ipv4().then_some(*at),
            };
            Ok(bind(listen.iter().filter_map(v4).collect())??)
        }
        bound => Ok(bound?),
    }
}

fn is_named(bench: &BenchNet) -> bool {
    bench.bind.is_some() || !bench.bounds.listen.is_empty()
}

fn listen(bench: &BenchNet) -> Vec<SocketAddr> {
    let places = bench.bounds.listen.iter().map(|place| (place.address, place.port));
    let named: Vec<SocketAddr> = places
        .chain(bench.bind.as_ref().map(|bound| (bound.address, None)))
        .map(|(address, port)| SocketAddr::new(address, port.unwrap_or(bench.port)))
        .collect();
    if !named.is_empty() {
        return named;
    }
    // iperf3 is a server of the network: who starts weir by its name means that.
    if bench.as_iperf3 {
        let all: IpAddr = if bench.v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        return vec![SocketAddr::new(all, bench.port)];
    }
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let wanted = |address: &IpAddr| (address.is_ipv4() && !bench.v6) || (address.is_ipv6() && !bench.v4);
    loopback.into_iter().filter(wanted).map(|address| SocketAddr::new(address, bench.port)).collect()
}

fn announce(bench: &BenchNet, server: &Server, out: &mut dyn Write) -> io::Result<()> {
    let places: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    write!(out, "listening on {}", places.join(" and "))?;
    if is_named(bench) {
        writeln!(out)?;
    } else {
        writeln!(out, ", for this machine alone; --listen 0.0.0.0 or --listen :: opens it to the network")?;
    }
    out.flush()
}

/// A client's own form is not known here: it gets JSON where this server prints that, else the lines that its
/// program knows.
fn report(outcome: &TestOutcome, wants_json: bool, style: Style) -> Output {
    if wants_json {
        return Output::Json(iperf3_json::whole(outcome));
    }
    if !outcome.start.parameters.client_is_weir() {
        let intervals = outcome.intervals.iter();
        let intervals = intervals.map(|interval| iperf3_text::interval(&outcome.start, interval, style));
        let begun = iperf3_text::begin(&outcome.start, style);
        return Output::Text(begun + &intervals.collect::<String>() + &iperf3_text::end(outcome, style));
    }
    let mut text = Vec::new();
    // Into memory nothing fails.
    let _ = whole(outcome, style.units, &mut text);
    Output::Text(String::from_utf8_lossy(&text).into_owned())
}

/// Heading, intervals and summary.
fn whole(outcome: &TestOutcome, units: Units, out: &mut dyn Write) -> io::Result<()> {
    client::heading(&outcome.start, out)?;
    for interval in &outcome.intervals {
        for line in record::lines(&outcome.start, interval) {
            net::render_interval(&line, units, out)?;
        }
    }
    let (record, member) = record::record(outcome);
    client::summary(&record, &member, units, out)
}

fn code_of(event: &Event) -> Option<u8> {
    match event {
        Event::Ended(_, outcome) => Some(client::code(&outcome.ending)),
        Event::Answered(..) => Some(0),
        Event::Failed(..) => Some(1),
        _ => None,
    }
}

impl Voice {
    fn say(&self, event: &Event) -> anyhow::Result<()> {
        match (event, self.form) {
            (_, Form::Quiet) => {}
            (Event::Failed(number, error), _) => {
                writeln!(io::stderr(), "{} test {number}: {}", voice::name(), escape(&error.in_full()))?;
                self.listens_again(*number)?;
            }
            (Event::Turned(peer), _) => {
                let why = "was turned away: as many tests as may be are running";
                writeln!(io::stderr(), "{} {peer} {why}", voice::name())?;
            }
            (Event::Ended(number, outcome), _) => {
                if let Ending::Broken(why) = &outcome.ending {
                    writeln!(io::stderr(), "{} test {number}: {}", voice::name(), escape(why))?;
                }
                self.end(outcome)?;
                self.listens_again(*number)?;
            }
            (Event::Answered(number, answered), form) => {
                let mut out = io::stdout().lock();
                transactions::say(*number, answered, form, &mut out)?;
                out.flush()?;
            }
            (Event::Started(number, start), Form::Lines) => {
                let mut out = io::stdout().lock();
                write!(out, "test {number}: ")?;
                client::heading(start, &mut out)?;
                out.flush()?;
            }
            (Event::Started(_, start), Form::Iperf3Lines) => {
                self.printer.print(&iperf3_text::begin(start, self.style))?;
            }
            (Event::Started(_, start), Form::Events { .. }) => {
                printer::print_events(&[iperf3_json::event("start", iperf3_json::of_start(start))])?;
            }
            (Event::Interval(number, start, interval), form) => {
                self.interval(form, *number, start, interval)?
            }
            (Event::Started(..), Form::Record | Form::Iperf3) => {}
        }
        Ok(())
    }

    /// Lines of several tests carry their numbers, where they are weir's own.
    fn interval(&self, form: Form, number: u64, start: &Start, interval: &Interval) -> anyhow::Result<()> {
        match form {
            Form::Lines => {
                let mut out = io::stdout().lock();
                for line in record::lines(start, interval) {
                    if number > 1 {
                        write!(out, "test {number} ")?;
                    }
                    net::render_interval(&line, self.style.units, &mut out)?;
                }
                out.flush()?;
            }
            Form::Iperf3Lines => self.printer.print(&iperf3_text::interval(start, interval, self.style))?,
            Form::Events { .. } => {
                let data = iperf3_json::of_interval(start, interval);
                printer::print_events(&[iperf3_json::event("interval", data)])?;
            }
            Form::Record | Form::Iperf3 | Form::Quiet => {}
        }
        Ok(())
    }

    fn end(&self, outcome: &TestOutcome) -> anyhow::Result<()> {
        match self.form {
            Form::Record => json::render(&record::record(outcome).0, &mut io::stdout().lock())?,
            Form::Iperf3 => printer::print_json(&iperf3_json::whole(outcome))?,
            Form::Events { whole } => {
                printer::print_events(&iperf3_json::events_at_end(outcome))?;
                if whole {
                    printer::print_json(&iperf3_json::whole(outcome))?;
                }
            }
            Form::Iperf3Lines => self.printer.print(&iperf3_text::end(outcome, self.style))?,
            Form::Lines | Form::Quiet => {
                let mut out = io::stdout().lock();
                let (mut record, member) = record::record(outcome);
                record.error = None;
                client::summary(&record, &member, self.style.units, &mut out)?;
                out.flush()?;
            }
        }
        Ok(())
    }

    fn listens_again(&self, number: u64) -> io::Result<()> {
        match self.again.filter(|_| self.form == Form::Iperf3Lines) {
            Some(port) => self.printer.print(&iperf3_text::listening(port, number + 1)),
            None => Ok(()),
        }
    }
}
