//! The server: where it listens, whom it lets in, and what it says of each test.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use clap::{Args, FromArgMatches};
use weir_net::outcome::{Ending, Outcome};
use weir_net::results::Output;
use weir_net::server::{Event, Options, Server};
use weir_report::escape::escape;
use weir_report::json;
use weir_report::net::{self, Units};

use super::{Form, client, copies, form, iperf3_json, login, record, transactions, units};
use crate::args::BenchNet;
use crate::interrupt;
use crate::voice::Printed;

/// Serves until SIGINT or SIGTERM, or until one test is over. Returns the exit code: of one test its own.
pub(super) fn run(bench: &BenchNet) -> anyhow::Result<u8> {
    let stop = interrupt::stop()?;
    let (form, units) = (form(bench), units(bench));
    let code = Arc::new(AtomicU8::new(0));
    let kept = Arc::clone(&code);
    let tell = move |event: Event| {
        if let Some(code) = code_of(&event) {
            kept.store(code, Relaxed);
        }
        // A reader that went away is no reason to end a test.
        if let Err(cause) = say(&event, form, units) {
            tracing::debug!("cannot print: {cause}");
        }
    };
    let server = bind(bench, tell)?;
    // Beside JSON it stands on stderr: who starts a server on port 0 has to know which one it got.
    let announced = match form {
        Form::Lines => announce(bench, &server, &mut io::stdout().lock()),
        Form::Record | Form::Iperf3 => announce(bench, &server, &mut io::stderr().lock()),
        Form::Quiet => Ok(()),
    };
    announced.printed("where the server listens")?;
    server.run(&stop)?;
    Ok(if bench.bounds.one_off { code.load(Relaxed) } else { 0 })
}

/// The same server beside another command's work: with the bounds that it has by default, at `listen` or else where it listens by
/// default. Returns the places, and what serves until `stop` is set.
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
    let tell = move |event: Event| {
        // A reader that went away is no reason to end a test.
        if let Err(cause) = say(&event, form, Units::default()) {
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
    let units = units(bench);
    let wants_json = bench.iperf3_json;
    let options = |listen: Vec<SocketAddr>| -> anyhow::Result<Options> {
        Ok(Options {
            listen,
            one_off: bounds.one_off,
            most_clients: bounds.max_clients.into(),
            most_time: Duration::from_secs(bounds.max_time.into()),
            most_bytes: Some(bounds.max_bytes.0),
            most_rate: bounds.max_bitrate.map(|bits| bits.rate),
            patience: weir_net::server::PATIENCE,
            interval: bench.interval,
            copies: copies(bench),
            bundles: !bench.no_gso,
            guard: login::of_server(&bench.login)?,
            report: Box::new(move |outcome| report(outcome, wants_json, units)),
        })
    };
    let tell = Arc::new(tell);
    let bind = |listen: Vec<SocketAddr>| -> anyhow::Result<Result<Server, weir_net::Error>> {
        let tell = Arc::clone(&tell);
        Ok(Server::bind(options(listen)?, Box::new(move |event| tell(event))))
    };
    let listen = listen(bench);
    // Without an address that the user named, a machine without IPv6 has 127.0.0.1 alone.
    match bind(listen.clone())? {
        Err(error) if !is_named(bench) && listen.len() > 1 => {
            let v4: Vec<SocketAddr> = listen.into_iter().filter(SocketAddr::is_ipv4).collect();
            match error {
                weir_net::Error::Listen { at, .. } if at.is_ipv6() => Ok(bind(v4)??),
                error => Err(error.into()),
            }
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
        .chain(bench.bind.map(|address| (address, None)))
        .map(|(address, port)| SocketAddr::new(address, port.unwrap_or(bench.port)))
        .collect();
    if !named.is_empty() {
        return named;
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

/// A client's own form is not known here: it gets what this server prints.
fn report(outcome: &Outcome, wants_json: bool, units: Units) -> Output {
    if wants_json {
        return Output::Json(iperf3_json::whole(outcome));
    }
    let mut text = Vec::new();
    // Into memory nothing fails.
    let _ = whole(outcome, units, &mut text);
    Output::Text(String::from_utf8_lossy(&text).into_owned())
}

/// Heading, intervals and summary.
fn whole(outcome: &Outcome, units: Units, out: &mut dyn Write) -> io::Result<()> {
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

/// Lines of several tests carry their numbers.
fn say(event: &Event, form: Form, units: Units) -> anyhow::Result<()> {
    match (event, form) {
        (Event::Failed(number, error), form) if form != Form::Quiet => {
            writeln!(io::stderr(), "weir: test {number}: {}", escape(&error.in_full()))?;
        }
        (Event::Turned(peer), form) if form != Form::Quiet => {
            writeln!(io::stderr(), "weir: {peer} was turned away: as many tests as may be are running")?;
        }
        (Event::Ended(number, outcome), form) if form != Form::Quiet => {
            if let Ending::Broken(why) = &outcome.ending {
                writeln!(io::stderr(), "weir: test {number}: {}", escape(why))?;
            }
            let mut out = io::stdout().lock();
            match form {
                Form::Record => json::render(&record::record(outcome).0, &mut out)?,
                Form::Iperf3 => {
                    drop(out);
                    client::println_json(&iperf3_json::whole(outcome))?;
                }
                _ => {
                    let (mut record, member) = record::record(outcome);
                    record.error = None;
                    client::summary(&record, &member, units, &mut out)?;
                    out.flush()?;
                }
            }
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
        (Event::Interval(number, start, interval), Form::Lines) => {
            let mut out = io::stdout().lock();
            for line in record::lines(start, interval) {
                if *number > 1 {
                    write!(out, "test {number} ")?;
                }
                net::render_interval(&line, units, &mut out)?;
            }
            out.flush()?;
        }
        _ => {}
    }
    Ok(())
}
