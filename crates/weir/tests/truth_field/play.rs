//! One case played: ill, with everybody watching, and mended, with nobody watching.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_lab::bed::{Counters, too_late};

use crate::holds::Hosts;
use crate::score::Ran;
use crate::stage::{Lab, Stage};
use crate::story::{Case, End, Service, Variables, View};

/// The longest story takes ten seconds; one that takes this long hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Between two questions whether something has come: short beside all that is measured.
const POLL: Duration = Duration::from_millis(2);

/// What was seen of a case.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) ran: Ran,
    /// Each view's record, with the evidence behind it.
    pub(crate) seen: Vec<(View, Value, Value)>,
}

/// A run without its judgement.
struct Run {
    wall: f64,
    /// What came over the link, bytes of the busier direction.
    carried: u64,
    void: Option<String>,
    seen: Vec<(View, Value, Value)>,
}

pub(crate) fn play(lab: &Lab, case: &Case, views: &[View]) -> anyhow::Result<Played> {
    let ill = run(lab, case, &case.set, views, &case.holds)?;
    let faster = |change: &Option<Variables>| -> anyhow::Result<Option<f64>> {
        let Some(variables) = change else { return Ok(None) };
        let mended = run(lab, case, variables, &[], &[]).context("mended")?;
        // A work of a fixed span does more in it when it is well; any other is over sooner.
        Ok(Some(match case.set.contains_key("timed") {
            true => (mended.carried as f64 / mended.wall) / (ill.carried.max(1) as f64 / ill.wall),
            false => ill.wall / mended.wall,
        }))
    };
    let mut void = ill.void.clone();
    if let Some(faster) = faster(&case.mend)?.filter(|faster| *faster < case.by) {
        void.get_or_insert(format!("the mend made it {faster:.2} times as fast: below {}", case.by));
    }
    let ran = Ran { wall: ill.wall, gain: faster(&case.advised)?, void };
    Ok(Played { ran, seen: ill.seen })
}

fn run(
    lab: &Lab,
    case: &Case,
    variables: &Variables,
    views: &[View],
    holds: &[String],
) -> anyhow::Result<Run> {
    let stage = Stage::set(lab, variables)?;
    let mut services = Vec::new();
    for service in &case.services {
        services.push(start(&stage, service)?);
    }
    let before = Hosts::read(&stage)?;
    let mut watchers = Vec::new();
    for (index, view) in views.iter().enumerate().filter(|(_, view)| !later(view)) {
        watchers.push((view, Watcher::start(&stage, index, view, &services, None)?));
    }
    let begun = Instant::now();
    let by_weir = views.iter().enumerate().find(|(_, view)| view.how == "command");
    let mut work = match by_weir {
        Some((index, view)) => Program::work_by_weir(&stage, index, view, case)?,
        None => Program::spawn(&stage, "work", stage.program(End::Near, &case.work, case.burdens_work())?)?,
    };
    for (index, view) in views.iter().enumerate().filter(|(_, view)| later(view) && view.how != "command") {
        watchers.push((view, Watcher::start(&stage, index, view, &services, Some(&work))?));
    }
    let status = work.wait()?;
    let wall = begun.elapsed().as_secs_f64();
    let after = Hosts::read(&stage)?;
    let expected = case.exit.unwrap_or(0);
    if status.code() != Some(expected) {
        anyhow::bail!("the work ended with {status} in {wall:.1} s: {}", work.said());
    }
    let mut seen = Vec::new();
    if let Some((index, view)) = by_weir {
        seen.push(read(&stage, index, view)?);
    }
    for (view, watcher) in watchers {
        seen.push(watcher.end(&stage, view)?);
    }
    let void = holds.iter().find_map(|claim| after.since(&before).refutes(claim, wall, variables));
    let void = match void {
        Some(why) => Some(why?),
        None => late(&before.link, &after.link, variables)?,
    };
    let carried = after.since(&before).carried();
    Ok(Run { wall, carried, void, seen })
}

/// Whether a view looks at the work itself, which must be there first.
fn later(view: &View) -> bool {
    view.how == "command" || view.how == "pid work"
}

/// An emulator that did not get its processor in time has shown another path.
fn late(before: &Counters, after: &Counters, variables: &Variables) -> anyhow::Result<Option<String>> {
    let milliseconds: f64 = variables.get("rtt").map_or(Ok(20.0), |text| text.parse())?;
    let late = after.late_since(before);
    let round_trip = Duration::from_secs_f64(milliseconds / 1e3);
    Ok(too_late(late, round_trip).then(|| format!("the emulator was late by {late:?} a round trip")))
}

/// A program of the story; it and its children end with it.
struct Program {
    child: Child,
    log: std::path::PathBuf,
}

impl Program {
    fn spawn(stage: &Stage<'_>, name: &str, mut command: Command) -> anyhow::Result<Program> {
        use std::os::unix::process::CommandExt;
        let log = stage.folder.path().join(format!("{name}.log"));
        command.process_group(0).stdout(File::create(&log)?).stderr(File::options().append(true).open(&log)?);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Program { child, log })
    }

    /// The work run by `weir why`, whose record is in a file of its own.
    fn work_by_weir(stage: &Stage<'_>, index: usize, view: &View, case: &Case) -> anyhow::Result<Program> {
        fs::write(stage.folder.path().join("work.sh"), &case.work)?;
        let line = format!("--json --evidence $DIR/evidence-{index} -- sh $DIR/work.sh >$DIR/record-{index}");
        Program::spawn(stage, "work", stage.why(view.at, &line, case.burdens_work())?)
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            anyhow::ensure!(start.elapsed() < TIMEOUT, "it did not end: {}", self.said());
            sleep(POLL);
        }
    }

    /// The end of what it printed.
    fn said(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().rev().take(4).collect::<Vec<_>>().join(" / ")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The group is this program's own: it was made for it.
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn start(stage: &Stage<'_>, service: &Service) -> anyhow::Result<(String, Program)> {
    let command = stage.program(service.at, &service.run, service.burden)?;
    let mut program = Program::spawn(stage, &service.name, command)?;
    let Some(port) = service.port else { return Ok((service.name.clone(), program)) };
    let start = Instant::now();
    while !listens(stage, service.at, port)? {
        if let Some(status) = program.child.try_wait()? {
            anyhow::bail!("{} ended with {status}: {}", service.name, program.said());
        }
        anyhow::ensure!(start.elapsed() < TIMEOUT, "{} never listened: {}", service.name, program.said());
        sleep(POLL);
    }
    Ok((service.name.clone(), program))
}

/// Whether a TCP port listens, or a UDP port is bound, at that end.
fn listens(stage: &Stage<'_>, end: End, port: u16) -> anyhow::Result<bool> {
    let marked = |path: &str, state: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().skip(1).any(|line| {
            let mut words = line.split_whitespace();
            let local = words.nth(1).and_then(|local| local.rsplit(':').next());
            let own = local.and_then(|digits| u16::from_str_radix(digits, 16).ok()) == Some(port);
            own && words.nth(1) == Some(state)
        })
    };
    Ok(stage.host(end).run(|| {
        let tables = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];
        tables.iter().any(|(table, state)| marked(&format!("/proc/thread-self/net/{table}"), state))
    })?)
}

/// `weir why` beside the story.
struct Watcher {
    index: usize,
    program: Program,
}

impl Watcher {
    fn start(
        stage: &Stage<'_>,
        index: usize,
        view: &View,
        services: &[(String, Program)],
        work: Option<&Program>,
    ) -> anyhow::Result<Watcher> {
        let who = match view.how.split_once(' ') {
            Some(("port", port)) => format!("--port {port}"),
            Some(("pid", "work")) => format!("--pid {}", work.context("the work is not there yet")?.pid()),
            Some(("pid", name)) => {
                let found = services.iter().find(|(service, _)| service == name);
                format!("--pid {}", found.with_context(|| format!("no service {name}"))?.1.pid())
            }
            _ => anyhow::bail!("{}: expected command, pid NAME or port NUMBER", view.how),
        };
        let line = format!("--json --for 90s {who} --evidence $DIR/evidence-{index} >$DIR/record-{index}");
        let mut program = Program::spawn(stage, &format!("why-{index}"), stage.why(view.at, &line, false)?)?;
        // It watches as soon as it has its socket to the kernel.
        let start = Instant::now();
        while !has_socket(program.pid()) {
            if let Some(status) = program.child.try_wait()? {
                anyhow::bail!("weir why {who} ended with {status}: {}", program.said());
            }
            anyhow::ensure!(start.elapsed() < TIMEOUT, "weir why {who} never began");
            sleep(POLL);
        }
        Ok(Watcher { index, program })
    }

    fn end(mut self, stage: &Stage<'_>, view: &View) -> anyhow::Result<(View, Value, Value)> {
        let pid = i32::try_from(self.program.pid()).ok().and_then(Pid::from_raw).context("a pid")?;
        // A process that was watched may have ended, and its watcher with it.
        if self.program.child.try_wait()?.is_none() {
            kill_process(pid, Signal::INT)?;
        }
        self.program.wait()?;
        read(stage, self.index, view).with_context(|| self.program.said())
    }
}

fn has_socket(pid: u32) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.into_iter().any(|link| link.to_string_lossy().starts_with("socket:"))
}

/// The record and the evidence of a view.
fn read(stage: &Stage<'_>, index: usize, view: &View) -> anyhow::Result<(View, Value, Value)> {
    let file = |name: &str| stage.folder.path().join(format!("{name}-{index}"));
    let record = json(&file("record")).with_context(|| format!("{} {}", view.at.name(), view.how))?;
    let evidence = json(&file("evidence")).unwrap_or(Value::Null);
    Ok((view.clone(), record, evidence))
}

fn json(path: &Path) -> anyhow::Result<Value> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    serde_json::from_str(&text)
        .with_context(|| format!("no record: {}", text.chars().take(200).collect::<String>()))
}
