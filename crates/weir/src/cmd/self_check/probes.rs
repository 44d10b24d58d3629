//! Runs the probes side by side, each on a thread or in a process of its own, and waits for none longer than
//! it may.

use crate::voice::Printed;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_lab::child::Running;
use weir_model::ability::{Ability, Finding};
use weir_observe::host::Probe;
use weir_units::plain;

/// A finding is some lines; more than this is another program's output.
const ANSWER: u64 = 64 << 10;

/// SIGSYS: how a seccomp filter ends a process that makes a forbidden system call.
const SIGSYS: i32 = 31;

/// Every probe there is.
fn probes() -> impl Iterator<Item = Probe> {
    weir_observe::host::PROBES.into_iter().chain(weir_lab::ability::PROBES)
}

/// What each probe found within `timeout`, in the order of reports. A thread that still waits then ends with
/// this process, as does a process: each is killed when the thread that waits for it ends.
pub fn run(timeout: Duration) -> Vec<(Ability, Finding)> {
    let deadline = Instant::now() + timeout;
    let running: Vec<_> = probes().map(|probe| (probe.ability, start(probe))).collect();
    let mut found: Vec<_> = (running.into_iter())
        .map(|(ability, answer)| (ability, answer.and_then(|answer| wait(&answer, deadline, timeout))))
        .map(|(ability, answer)| (ability, answer.unwrap_or_else(|why| Finding::missing(why, "the probe"))))
        .collect();
    found.sort_by_key(|(ability, _)| *ability);
    found
}

fn start(probe: Probe) -> Result<Receiver<Finding>, String> {
    let (tell, told) = channel();
    let thread = std::thread::Builder::new().name(format!("weir-{}", probe.ability));
    let started = thread.spawn(move || {
        let found = if probe.apart { apart(probe.ability) } else { (probe.find)() };
        // Whoever gave up waiting does not listen.
        let _ = tell.send(found);
    });
    match started {
        Ok(_) => Ok(told),
        Err(cause) => Err(format!("cannot start a thread for it: {}", plain(&cause))),
    }
}

fn wait(answer: &Receiver<Finding>, deadline: Instant, timeout: Duration) -> Result<Finding, String> {
    use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
    match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(found) => Ok(found),
        Err(Timeout) => Err(format!("no answer within {} s", timeout.as_secs_f64())),
        Err(Disconnected) => Err("it ended without an answer".to_owned()),
    }
}

/// In a process of its own: this program again.
fn apart(ability: Ability) -> Finding {
    let failed = |why: String| Finding::missing(why, "a process of its own");
    match ask(ability) {
        Ok((status, text)) => serde_json::from_str(&text).unwrap_or_else(|_| failed(ended(status))),
        Err(cause) => failed(format!("cannot start it: {}", plain(&cause))),
    }
}

fn ask(ability: Ability) -> io::Result<(ExitStatus, String)> {
    let (reader, writer) = io::pipe()?;
    // The program that runs, whatever has become of its name.
    let mut command = Command::new("/proc/self/exe");
    command.args(["--no-config", "self-check", "--probe", ability.name()]);
    command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
    let running = Running::start(&mut command, &Arc::new(AtomicBool::new(false)))?;
    // With it goes the only other end of the pipe that can be written to.
    drop(command);
    let (status, _) = running.finish()?;
    let mut text = String::new();
    reader.take(ANSWER).read_to_string(&mut text)?;
    Ok((status, text))
}

fn ended(status: ExitStatus) -> String {
    match status.signal() {
        Some(SIGSYS) => "a seccomp filter killed the process that tried it".to_owned(),
        Some(signal) => format!("the process that tried it was killed by signal {signal}"),
        None => format!("the process that tried it gave no answer ({status})"),
    }
}

/// The other end: finds out, here and now, and prints the finding.
pub fn answer(ability: Ability) -> anyhow::Result<u8> {
    let probe = probes().find(|probe| probe.ability == ability).context("no probe for it")?;
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, &(probe.find)()).printed("the finding")?;
    stdout.flush().printed("the finding")?;
    Ok(0)
}
