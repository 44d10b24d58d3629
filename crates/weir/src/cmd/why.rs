//! `weir why`: what limits the transfer of another program?
//!
//! Who is looked at becomes a [`Subject`] and a filter; [`Watch`] of `weir-observe` looks every 20 ms and
//! makes evidence; the same judge as for `weir get` explains it; [`record`] puts it into the record. A
//! command that weir runs itself is [`child`]'s.

mod child;
mod keys;
mod live;
mod record;

use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_observe::ObserveError;
use weir_observe::names;
use weir_observe::pace::Pace;
use weir_observe::process::{self, Pid};
use weir_observe::sock_diag::Filter;
use weir_observe::watch::{Discovery, Notes, Subject, Watch};
use weir_report::{json, terminal};

use crate::args::Why;
use crate::calibration;
use crate::cmd::why_pcap;
use crate::evidence;
use crate::front::{Front, Program, failures};
use crate::page;
use crate::tui;
use crate::voice::{self, Printed as _, Usage};
use child::Printed;
use keys::Keys;
use live::Live;
use record::ReportedRun;

/// A process or port is looked at for so long unless the user says otherwise.
const SPAN: Duration = Duration::from_secs(10);

/// Looks, judges and tells, for the program. Returns the exit code: the command's own where there is one.
pub fn run(why: &Why) -> anyhow::Result<u8> {
    voice::start_log_beside(why.tui, why.voice.quiet, why.voice.verbose);
    let view = why.pcap.is_none() && tui::is_possible(why.tui);
    // A watch changes the modes of the terminal too, to read its key.
    look(why, view, &mut Program::new(&why.voice, view || why.watch, ""))
}

/// The same for whoever stands at the front, which has the whole terminal if there is to be a `view`.
pub fn look(why: &Why, view: bool, front: &mut dyn Front) -> anyhow::Result<u8> {
    if let Some(file) = &why.pcap {
        return why_pcap::run(why, file, front);
    }
    let filter = filter(why)?;
    evidence::check(why.evidence.as_deref())?;
    let live = Live::new(why.watch && !why.voice.quiet, why.command.is_empty() && !why.voice.json);
    match why.command.is_empty() {
        true => look_at_running(why, filter, live, view, front),
        false => run_command(why, filter, live, view, front),
    }
}

fn filter(why: &Why) -> anyhow::Result<Filter> {
    if why.pid.is_none() && why.port.is_none() && why.peer.is_none() && why.command.is_empty() {
        return Err(Usage(
            "nothing to watch: give --pid, --port, --peer, --pcap FILE or -- COMMAND".to_owned(),
        )
        .into());
    }
    Ok(Filter { port: why.port, peers: peers(why)?, listening: false })
}

/// The addresses that `--peer` stands for: all of a name, since connections may be with any of them.
pub(super) fn peers(why: &Why) -> anyhow::Result<Vec<IpAddr>> {
    let Some(host) = &why.peer else { return Ok(Vec::new()) };
    if let Some(address) = written_out(host) {
        return Ok(vec![address]);
    }
    let found = names::resolve(host, 0, names::TIMEOUT, &|| false);
    let found = found.with_context(|| format!("cannot resolve --peer {host}"))?;
    let mut addresses: Vec<IpAddr> = found.iter().map(|address| address.ip().to_canonical()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    anyhow::ensure!(!addresses.is_empty(), "cannot resolve --peer {host}: no address");
    Ok(addresses)
}

fn written_out(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// `db.example.org (10.0.0.1, 2001:db8::1)`; an address as it is written.
pub(super) fn named_peer(host: &str, addresses: &[IpAddr]) -> String {
    /// More would not be read.
    const MOST: usize = 4;
    if written_out(host).is_some() {
        return host.to_owned();
    }
    let shown: Vec<String> = addresses.iter().take(MOST).map(IpAddr::to_string).collect();
    let more = match addresses.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{host} ({}{more})", shown.join(", "))
}

/// A process, or whoever has the sockets, until the time is over, it ends, or the user stops.
fn look_at_running(
    why: &Why,
    filter: Filter,
    mut live: Live,
    view: bool,
    front: &mut dyn Front,
) -> anyhow::Result<u8> {
    let root = why.pid.map(Pid);
    root.map_or(Ok(()), can_be_watched)?;
    let mut notes = Notes::default();
    let scope = match root {
        Some(pid) => process::described(pid),
        None => described(why, &filter.peers),
    };
    let subject = root.map_or(Subject::Sockets, Subject::Tree);
    let mut discovery = Discovery::new(subject, filter, &mut notes)?;
    discovery.check(&mut notes).map_err(|error| anyhow::anyhow!("cannot watch {scope}: {error}"))?;
    let stop = front.stop()?;
    let mut watch =
        Watch::new(discovery, notes, Some(scope.clone()), false).with_disk_alone(calibration::set_disk_alone);
    if view {
        live.open(&scope, "q ends the looking", why.span);
    }
    let span = why.span.unwrap_or(if why.watch { Duration::MAX } else { SPAN });
    let mut pace = Pace::new(Instant::now());
    // The live view has keys of its own.
    let keys = (live.is_terminal() && !view).then(Keys::open).flatten();
    let quit = || stop.load(Relaxed) || keys.as_ref().is_some_and(Keys::quit);
    while watch.elapsed() < span && !quit() && root.is_none_or(|pid| watch.is_alive(pid)) {
        step(&mut watch, &mut live, &mut pace);
    }
    drop(keys);
    watch.finish();
    live.clear();
    let mut told = record::tell(&watch, scope, None);
    let is_empty = told.fail_if_empty();
    front.tell(&told.record, &mut || say(why, &told, &mut std::io::stdout().lock()))?;
    evidence::keep(why.evidence.as_deref(), &watch.evidence)?;
    page::keep(&why.voice, &told.record)?;
    Ok(u8::from(is_empty))
}

fn can_be_watched(pid: Pid) -> anyhow::Result<()> {
    let why_not = match process::stat(pid) {
        Ok(stat) if stat.kernel => {
            "a thread of the kernel has no connections of its own; name their port (--port) or peer (--peer)"
                .to_owned()
        }
        Ok(_) => return Ok(()),
        Err(ObserveError::Absent(_)) if process::is_hidden(pid) => {
            "it is another user's, and /proc does not show it here (hidepid): run weir why as that user or as root"
                .to_owned()
        }
        Err(ObserveError::Absent(_)) => "no process has this number; pgrep -n NAME finds it".to_owned(),
        Err(error) => error.to_string(),
    };
    anyhow::bail!("cannot watch process {pid}: {why_not}")
}

fn described(why: &Why, addresses: &[IpAddr]) -> String {
    let peer = why.peer.as_deref().map(|peer| named_peer(peer, addresses));
    match (why.port, peer) {
        (Some(port), Some(peer)) => format!("port {port} with {peer}"),
        (Some(port), None) => format!("port {port}"),
        (None, peer) => format!("connections with {}", peer.unwrap_or_default()),
    }
}

/// Runs the command to its end, or until `--for` is over; it then runs on unobserved until it ends.
fn run_command(
    why: &Why,
    filter: Filter,
    mut live: Live,
    view: bool,
    front: &mut dyn Front,
) -> anyhow::Result<u8> {
    let mut notes = Notes::default();
    // Before the command starts, so that no connection of its is missed.
    let opened = Discovery::new(Subject::Tree(Pid(std::process::id())), filter, &mut notes)?;
    let printed = view.then(Printed::new).transpose().context("cannot keep what the command prints")?;
    let mut running = child::Running::start(&why.command, why.voice.json, printed.as_ref())?;
    running.hear(front.handed_on()?);
    let pid = Pid(running.pid());
    let program = why.command.first().map(|name| std::path::Path::new(name).file_name().unwrap_or(name));
    let scope = format!("{} (pid {pid})", program.unwrap_or_default().to_string_lossy());
    let mut watch = Watch::new(opened.of(Subject::Tree(pid)), notes, Some(scope.clone()), true)
        .with_disk_alone(calibration::set_disk_alone);
    if view {
        live.open(&scope, "q ends the command as Ctrl-C does", why.span);
    }
    let mut pace = Pace::new(Instant::now());
    let mut told = None;
    while !running.is_over() {
        running.pass_signals();
        if why.span.is_some_and(|span| watch.elapsed() >= span) {
            if told.is_none() {
                watch.finish();
                live.clear();
                told = Some(record::tell(&watch, scope.clone(), None));
            }
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        step(&mut watch, &mut live, &mut pace);
    }
    // Before it is waited for: its counters hold what its children wrote, too.
    let mut told = told.unwrap_or_else(|| {
        watch.finish();
        live.clear();
        record::tell(&watch, scope, None)
    });
    let code = child::exit_code(running.wait()?);
    if let Some(printed) = printed {
        printed.show().printed("what the command printed")?;
    }
    told.set_exit_code(code);
    front.tell(&told.record, &mut || match why.voice.json {
        true => say(why, &told, &mut std::io::stdout().lock()),
        false => say(why, &told, &mut std::io::stderr().lock()),
    })?;
    evidence::keep(why.evidence.as_deref(), &watch.evidence)?;
    page::keep(&why.voice, &told.record)?;
    Ok(code)
}

/// Looks, and sleeps until the next look is due.
fn step(watch: &mut Watch, live: &mut Live, pace: &mut Pace) {
    if watch.look() {
        live.show(watch);
    }
    watch.rest(pace);
}

fn say(why: &Why, told: &ReportedRun, out: &mut (impl Write + IsTerminal + AsFd)) -> anyhow::Result<()> {
    if why.voice.quiet || why.voice.json {
        failures(&told.record).iter().for_each(|text| voice::warn(text));
    }
    if why.voice.json {
        return json::render(&told.record, out).printed("the record");
    }
    if why.voice.quiet {
        return Ok(());
    }
    let (sheet, is_verbose) = (voice::sheet(&*out), why.voice.verbose > 0);
    terminal::render_summary(&told.record, sheet, out).printed("the summary")?;
    sheet.print(out, |out| weir_report::why::render(&told.why, is_verbose, out)).printed("the summary")?;
    if is_verbose {
        writeln!(out, "looking at it took {:.2} % of one core", told.why.own_cpu * 100.0)
            .printed("the summary")?;
    }
    Ok(())
}
