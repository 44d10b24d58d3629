//! A run of `weir get`: its server at the far end, itself at the near end, judged by the evidence that it
//! wrote.
//!
//! It is held to one connection (`-c 1`), since it would else open more and lift the very limit in question;
//! only where the limit is one a connection does it run as a user would run it. It is interrupted when its
//! time is over, as by ^C.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use weir_lab::bed::Bed;
use weir_lab::slow_core::SlowCore;
use weir_model::evidence::Evidence;
use weir_serve::{Config, Content, Server};
use weir_units::Rate;

use crate::cell::{Cause, Cell};
use crate::facts::Facts;
use crate::plan::{Plan, Reader, Writer};
use crate::settled::{SETTLED, Settled};
use crate::watch::Raw;

/// A name on the server of more bytes than any run takes.
const BULK: &str = "bulk.bin";

/// A server's cap holds each connection to this part of the link. At 400 Mbit/s weir has 64 lanes after six
/// seconds, its most, and they must leave a third of the link; at slower rates it opens twenty or so, and
/// less would be no rate at all.
pub(crate) fn cap(cell: Cell) -> f64 {
    if cell.mbit >= 400 { 0.01 } else { 0.02 }
}

/// The share of one core that weir get may use where its core is the cause: a millisecond of each 20, the
/// least that the kernel allows. It takes 5 to 10 % of a core for the 20 MB/s that such a cell is to carry.
pub(crate) const QUOTA: f64 = 0.05;

/// How long an interrupted `weir get` may take to end.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What a run brought.
pub(crate) struct Fetched {
    pub(crate) evidence: Evidence,
    pub(crate) facts: Facts,
}

/// Why `weir get` is not run in this cell.
pub(crate) fn skips(plan: &Plan) -> Option<&'static str> {
    match plan.cell.cause {
        Cause::FullCoreReceiver if plan.cell.mbit < 400 => {
            Some("weir get takes less of a core at this rate than the least quota that the kernel allows")
        }
        Cause::FullCoreSender => Some("seen from here as any slow server"),
        Cause::SleepingReader if plan.cell.mbit < 40 => {
            Some("one buffer of weir get (1 MiB) keeps such a consumer busy for four seconds")
        }
        Cause::SendBuffer if plan.send_buffer.is_some_and(|size| size.0 < 100_000) => {
            Some("the server's sendfile hands over up to 64 KiB at a time, above such a buffer")
        }
        _ => None,
    }
}

/// Runs it. `folder` takes the output, or `disk`, where the reader is a slow disk.
pub(crate) fn run(
    bed: &Bed,
    plan: &Plan,
    folder: &Path,
    disk: Option<&Path>,
    core: Option<&SlowCore>,
) -> anyhow::Result<Fetched> {
    let span = span(plan);
    bed.far().set_sysctl("net.ipv4.tcp_congestion_control", plan.cell.congestion.name())?;
    if let Some(size) = plan.receive_buffer {
        // The kernel doubles what a program asks for, not what is set here.
        let size = 2 * size.0;
        bed.near().set_sysctl("net.ipv4.tcp_rmem", &format!("4096 {size} {size}"))?;
    }
    let config = server(plan, span).listen(SocketAddr::V4(SocketAddrV4::new(bed.far_address(), 0)));
    let server = bed.far().run(|| Server::bind(config)?.spawn())??;
    let address = server.addresses()[0];
    let evidence = folder.join("evidence.json");
    let output = disk.unwrap_or(folder).join("out");
    std::fs::create_dir_all(&output)?;
    let mut command = command(plan, address, folder, &output, &evidence, span)?;
    bed.near().enter(&mut command)?;
    if let Some(core) = core {
        core.join(&mut command)?;
    }
    let used_up = || core.and_then(SlowCore::used_up).unwrap_or_default();
    let before = used_up();
    let child = command.spawn().context("cannot start weir get")?;
    let result = attend(child, bed, address.port(), plan, span);
    server.stop();
    let settled = result?;
    let files = std::fs::read_dir(&output)?.count() as u32;
    let text = std::fs::read(&evidence).context("weir get left no evidence")?;
    let evidence = serde_json::from_slice(&text).context("its evidence")?;
    let asking = span.as_secs_f64();
    let receiver_cpu = (used_up() - before).as_secs_f64() / asking;
    let facts = Facts { answers: f64::from(files), asking, receiver_cpu, ..Facts::of(plan, &settled) };
    Ok(Fetched { evidence, facts })
}

fn span(plan: &Plan) -> Duration {
    let more = match plan.cell.cause {
        // Time for a few doublings of the lanes.
        Cause::ConnectionCap => 3.0,
        // Its quota makes the start of weir get, a tenth of a second of processor time, take two.
        Cause::FullCoreReceiver => 2.0,
        _ => 0.0,
    };
    plan.span + Duration::from_secs_f64(more)
}

fn server(plan: &Plan, span: Duration) -> Config {
    // Twice what the link carries, with room for slow disks.
    let most = (2.0 * plan.cell.rate().0 * span.as_secs_f64()) as u64;
    let files = match plan.writer {
        Writer::Answers { size, .. } => {
            (0..answers(plan, span)).map(|n| (format!("part-{n}"), size as u64)).collect()
        }
        _ => vec![(BULK.to_owned(), most)],
    };
    let mut config = Config::new(Content::Generated(files));
    config.send_buffer = plan.send_buffer;
    match plan.writer {
        Writer::Answers { pause, .. } => config.delay = pause,
        Writer::Paced { .. } if plan.cell.cause == Cause::ConnectionCap => {
            config.limit_rate = Some(Rate(plan.cell.rate().0 * cap(plan.cell)));
        }
        Writer::Paced { rate } => config.limit_rate = Some(rate),
        Writer::Bulk { .. } | Writer::Computes { .. } => {}
    }
    config
}

/// More than it can ask for one after another.
fn answers(plan: &Plan, span: Duration) -> u32 {
    let Writer::Answers { pause, .. } = plan.writer else { return 1 };
    (span.as_secs_f64() / (plan.cell.rtt() + pause).as_secs_f64()) as u32 + 10
}

fn command(
    plan: &Plan,
    server: SocketAddr,
    folder: &Path,
    output: &Path,
    evidence: &Path,
    span: Duration,
) -> anyhow::Result<Command> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["get", "-q", "--http1.1"]).arg("--evidence").arg(evidence);
    for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(name);
    }
    if plan.cell.cause != Cause::ConnectionCap {
        command.args(["-c", "1"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Writer::Answers { .. } = plan.writer {
        let list: PathBuf = folder.join("list");
        let mut file = File::create(&list)?;
        for number in 0..answers(plan, span) {
            writeln!(file, "http://{server}/part-{number}")?;
        }
        command.args(["-j", "1", "-i"]).arg(&list).arg("-o").arg(format!("{}/", output.display()));
    } else if let Reader::Sleeps { .. } = plan.reader {
        command.arg(format!("http://{server}/{BULK}")).args(["-o", "-"]).stdout(Stdio::piped());
    } else {
        command.arg(format!("http://{server}/{BULK}")).arg("-o").arg(output.join(BULK));
    }
    Ok(command)
}

/// Watches the sockets while it runs, interrupts it, and waits for its end.
fn attend(mut child: Child, bed: &Bed, port: u16, plan: &Plan, span: Duration) -> anyhow::Result<Settled> {
    if let (Some(stdout), Reader::Sleeps { rate }) = (child.stdout.take(), plan.reader) {
        std::thread::spawn(move || consume(stdout, rate));
    }
    let result = watch(&mut child, bed, port, plan, span);
    if child.try_wait()?.is_none() {
        kill_process(Pid::from_child(&child), Signal::INT)?;
    }
    let deadline = Instant::now() + TIMEOUT;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("weir get did not end in {TIMEOUT:?} after an interrupt");
        }
        sleep(Duration::from_millis(5));
    }
    result
}

fn watch(child: &mut Child, bed: &Bed, port: u16, plan: &Plan, span: Duration) -> anyhow::Result<Settled> {
    let mut raw = Raw::new(bed, port)?;
    let (start, mut settled) = (Instant::now(), Settled::default());
    while start.elapsed() < span && child.try_wait()?.is_none() {
        sleep(Duration::from_millis(20));
        settled.link.look(bed, plan.cell.rate());
        if start.elapsed() < span.mul_f64(SETTLED) {
            continue;
        }
        settled.begin(bed);
        raw.look(&mut settled)?;
    }
    settled.end(bed);
    Ok(settled)
}

/// A consumer that takes a slice, sleeps, takes the next, until there are no more.
fn consume(mut pipe: impl Read, rate: Rate) {
    let mut bytes = vec![0; ((rate.0 * 0.013) as usize).max(1)];
    let mut due = Instant::now();
    while let Ok(1..) = pipe.read(&mut bytes).inspect(|count| {
        due = due.max(Instant::now()) + rate.time_for(*count as u64).unwrap_or_default();
    }) {
        sleep(due.saturating_duration_since(Instant::now()));
    }
}
