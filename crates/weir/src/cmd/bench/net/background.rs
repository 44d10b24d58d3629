//! What a run does around its test, as iperf3 does it: a processor of its own, a log in a file, a file with
//! its number, and a server's life behind the shell (`-D`).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use weir_units::Bytes;

use crate::args::BenchNet;
use crate::voice::Usage;

/// What a server in the background says when it listens: no text holds it.
const LISTENS: u8 = 0;

/// The number of a process, at most: 4,194,304 and a line's end (proc(5), pid_max).
const LONGEST: Bytes = Bytes(32);

/// A file with this process's number, which goes when the run is over.
#[derive(Debug)]
pub(super) struct PidFile(Option<PathBuf>);

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Gone already: somebody else took it away.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Before anything else: the processor, the log and the number. What it returns lives as long as the run.
pub(super) fn prepare(bench: &BenchNet) -> anyhow::Result<PidFile> {
    if let Some(affinity) = bench.affinity {
        bind_to(affinity.own)?;
    }
    // A server that is still to go behind tells its first words to whoever started it.
    if !bench.detached {
        log_into(bench)?;
    }
    let Some(path) = &bench.pidfile else { return Ok(PidFile(None)) };
    claim(path)?;
    Ok(PidFile(Some(path.clone())))
}

fn bind_to(processor: u32) -> anyhow::Result<()> {
    let wanted = processor as usize;
    let mut set = CpuSet::new();
    if wanted < CpuSet::MAX_CPU {
        set.set(wanted);
    }
    if sched_setaffinity(None, &set).is_ok() {
        return Ok(());
    }
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let numbers: Vec<String> =
        (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| cpu.to_string()).collect();
    Err(Usage(format!("-A: cannot run on processor {processor}; there are {}", numbers.join(", "))).into())
}

/// From now on stdout and stderr are the log, if one was asked for.
fn log_into(bench: &BenchNet) -> anyhow::Result<()> {
    let Some(path) = &bench.logfile else { return Ok(()) };
    let cannot = || format!("cannot write {}", path.display());
    let log = OpenOptions::new().append(true).create(true).open(path).with_context(cannot)?;
    speak_into(&log).with_context(cannot)
}

fn speak_into(file: &File) -> io::Result<()> {
    io::stdout().flush()?;
    rustix::stdio::dup2_stdout(file)?;
    rustix::stdio::dup2_stderr(file)?;
    Ok(())
}

/// Writes this process's number into the file, unless it holds that of one which runs, or something else.
fn claim(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    match weir_units::read_text(path, LONGEST).map(|text| text.trim().to_owned()) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Ok(text) if text.is_empty() => {}
        Ok(text) => match text.parse::<u32>() {
            Ok(pid) if pid != std::process::id() && Path::new(&format!("/proc/{pid}")).exists() => {
                anyhow::bail!(
                    "{shown} holds the number of a process that runs ({pid}); end it, or name another file (-I)"
                );
            }
            Ok(_) => {}
            Err(_) => {
                anyhow::bail!("{shown} holds something else than a process's number; name another file (-I)")
            }
        },
        Err(cause) => return Err(cause).with_context(|| format!("cannot read {shown}")),
    }
    std::fs::write(path, std::process::id().to_string()).with_context(|| format!("cannot write {shown}"))
}

/// Starts the same server behind the shell, and waits until it listens. Returns the exit code.
pub(super) fn detach(bench: &BenchNet) -> anyhow::Result<u8> {
    let mut words = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).arg("--detached");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start a server in the background")?;
    let mut said = Vec::new();
    // Its errors are few words: they fit what a pipe holds while nobody reads.
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_end(&mut said).context("cannot hear the server in the background")?;
    }
    let mut errors = Vec::new();
    if let Some(stderr) = &mut child.stderr {
        stderr.read_to_end(&mut errors).context("cannot hear the server in the background")?;
    }
    io::stderr().write_all(&errors)?;
    if said.pop() != Some(LISTENS) {
        let status = child.wait().context("cannot wait for the server in the background")?;
        return Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
    }
    // iperf3 says nothing now, and its users compare.
    if !bench.as_iperf3 && !bench.voice.quiet {
        io::stdout().write_all(&said)?;
    }
    Ok(0)
}

/// The server listens: whoever started it may go. Its words go to the log from now on, or nowhere.
pub(super) fn listens(bench: &BenchNet) -> anyhow::Result<()> {
    if !bench.detached {
        return Ok(());
    }
    // A session of its own: no terminal's hang-up is for it. That fails where it leads its group already,
    // which is as good.
    let _ = rustix::process::setsid();
    {
        let mut out = io::stdout().lock();
        out.write_all(&[LISTENS])?;
        out.flush()?;
    }
    if bench.logfile.is_some() {
        return log_into(bench);
    }
    let nowhere = OpenOptions::new().write(true).open("/dev/null").context("cannot open /dev/null")?;
    speak_into(&nowhere).context("cannot write /dev/null")
}
