//! Other programs: run without a shell, within a deadline, and no longer than the user wants.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::threads;

/// Output that is still open when its program has ended (a child holds it) is waited for so long.
const AFTER_END: Duration = Duration::from_secs(1);

/// How often it is looked at: far below what a program takes to start, and no load.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How a program is run.
#[derive(Debug, Clone, Copy)]
pub struct ProgramLimits<'a> {
    /// How long it may take.
    pub time: Duration,
    /// How many bytes are taken of each of its outputs; what is beyond is read and dropped.
    pub output: u64,
    /// Set by a signal.
    pub stop: &'a AtomicBool,
}

/// What a program left.
#[derive(Debug)]
pub struct ProgramEnd {
    /// Its exit code, or the signal that ended it.
    pub status: ExitStatus,
    /// What it printed on stdout: one byte more than the limit where there was more.
    pub out: Vec<u8>,
    /// What it complained on stderr, likewise.
    pub err: Vec<u8>,
}

/// Why a program did not come to its end.
#[derive(Debug)]
pub enum ProgramFailure {
    /// It cannot be run.
    Io(io::Error),
    /// It was killed when its time was over.
    TookLonger,
    /// It was killed because a signal came.
    Interrupted,
}

impl From<io::Error> for ProgramFailure {
    fn from(error: io::Error) -> ProgramFailure {
        ProgramFailure::Io(error)
    }
}

/// Runs `command` with `input` on its stdin, which is empty without one: what weir reads from stdin is not
/// for it. What it starts ends with it.
pub fn run(
    mut command: Command,
    input: &[u8],
    limits: ProgramLimits<'_>,
) -> Result<ProgramEnd, ProgramFailure> {
    command
        .stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = command.spawn()?;
    let attended = attend(&mut child, input, limits);
    if !matches!(attended, Ok((Some(_), _))) {
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = child.wait();
    }
    let (status, outputs) = attended?;
    match status {
        Some(status) => {
            let [out, err] = outputs.map(|from| from.recv_timeout(AFTER_END).unwrap_or_default());
            Ok(ProgramEnd { status, out, err })
        }
        None if limits.stop.load(Relaxed) => Err(ProgramFailure::Interrupted),
        None => Err(ProgramFailure::TookLonger),
    }
}

/// What there is of a program before its end: how it ended, if it did in time, and its outputs.
type Attended = (Option<ExitStatus>, [Receiver<Vec<u8>>; 2]);

/// Gives it its input, reads its outputs, and waits for its end.
fn attend(child: &mut Child, input: &[u8], limits: ProgramLimits<'_>) -> io::Result<Attended> {
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_vec();
        // One that does not read it says itself what it lacks.
        threads::start("input", move || drop(stdin.write_all(&input)))?;
    }
    let out = collected(child.stdout.take(), limits.output)?;
    let err = collected(child.stderr.take(), limits.output)?;
    Ok((wait(child, limits)?, [out, err]))
}

fn wait(child: &mut Child, limits: ProgramLimits<'_>) -> io::Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() > limits.time || limits.stop.load(Relaxed) {
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// All that comes from `pipe`, to the end or one byte too many; the rest is dropped, so that its writer ends.
fn collected(pipe: Option<impl Read + Send + 'static>, most: u64) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    threads::start("output", move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(most + 1).read_to_end(&mut bytes);
            let _ = sender.send(bytes);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
    })?;
    Ok(receiver)
}
