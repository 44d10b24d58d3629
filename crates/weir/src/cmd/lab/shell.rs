//! `weir lab shell`: a command at the near end of an emulated path, a file server at its far end.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

use anyhow::Context;
use weir_lab::bed::Bed;
use weir_lab::congestion::{self, Allowed};
use weir_lab::leftovers::Folder;
use weir_lab::path::{Direction, Discipline, Fidelity, Loss, Path, Queue, Reorder};
use weir_lab::sshd::Sshd;
use weir_lab::trace::Trace;
use weir_serve::{Config, Content, Handle, Server};

use super::{exit_code, guard};
use crate::args::{LabFidelity, LabShell};
use crate::caught::Caught;
use crate::voice;

/// Not in use at the far end, and the one a URL need not name.
const PORT: u16 = 80;

/// ssh's own.
const SSH_PORT: u16 = 22;

/// What the far end offers when nothing else is asked for; generated, so that no disk is read.
const FILES: [(&str, u64); 5] = [
    ("1M", 1_000_000),
    ("10M", 10_000_000),
    ("100M", 100_000_000),
    ("1G", 1_000_000_000),
    ("10G", 10_000_000_000),
];

/// Runs the command. Returns its exit code, or 128 and its signal as shells do.
pub fn run(shell: &LabShell) -> anyhow::Result<u8> {
    voice::start_log(false, shell.verbose);
    // Whatever ends the command: its answer counts, and everything here is undone after it.
    let signals = Caught::new()?;
    let _allowed = allow(shell);
    let bed = Bed::new(&path(shell)?)?;
    if let Some(name) = &shell.cc {
        bed.set_sysctl("net.ipv4.tcp_congestion_control", name)?;
    }
    let server = serve(&bed, shell)?;
    let ssh = shell.ssh.then(|| Ssh::start(&bed)).transpose()?;
    let status = run_command(&bed, shell, ssh.as_ref(), signals)?;
    drop(ssh);
    server.stop();
    Ok(exit_code(status))
}

/// The path that the flags describe.
fn path(shell: &LabShell) -> anyhow::Result<Path> {
    let delay = shell.delay.unwrap_or_default();
    let both = Direction {
        rate: shell.rate,
        delay,
        jitter: shell.jitter.unwrap_or_default(),
        loss: match (shell.loss, shell.burst_loss) {
            (Some(share), _) => Loss::Random(share),
            (None, Some(model)) => Loss::Burst(model),
            (None, None) => Loss::None,
        },
        reorder: shell.reorder.map(|(share, early)| Reorder { share, early: early.unwrap_or(delay / 4) }),
        duplicate: shell.duplicate.unwrap_or_default(),
        queue: Queue {
            limit: shell.queue.unwrap_or_default(),
            discipline: if shell.codel { Discipline::CODEL } else { Discipline::DropTail },
        },
        policer: shell.policer,
        trace: None,
    };
    let trace = shell.trace.as_deref().map(Trace::read).transpose()?;
    Ok(Path {
        up: Direction { rate: shell.up_rate.or(shell.rate), ..both.clone() },
        down: Direction { trace: trace.map(Arc::new), ..both },
        fidelity: match shell.fidelity {
            LabFidelity::Packet => Fidelity::Packet,
            LabFidelity::Gso => Fidelity::Gso,
        },
        seed: shell.seed,
    })
}

/// Only when a congestion control is asked for; what may be chosen without it is tried anyway.
fn allow(shell: &LabShell) -> Option<Allowed> {
    if shell.cc.is_none() {
        congestion::undo_leftovers();
        return None;
    }
    congestion::allow().inspect_err(|error| tracing::info!("{error}")).ok()
}

fn serve(bed: &Bed, shell: &LabShell) -> anyhow::Result<Handle> {
    let content = match &shell.serve {
        Some(folder) => Content::Dir(folder.clone()),
        None => Content::Generated(FILES.map(|(name, size)| (name.to_owned(), size)).to_vec()),
    };
    let config = Config::new(content).listen(SocketAddr::from((bed.far_address(), PORT)));
    // Its threads come from this one, inside the namespace, and its sockets with them.
    let server = bed.far().run(|| Server::bind(config)?.spawn())?;
    server.context("cannot serve at the remote end")
}

/// An sshd at the far end, and the folder of its keys, which goes after it.
struct Ssh {
    sshd: Sshd,
    _folder: Folder,
}

impl Ssh {
    fn start(bed: &Bed) -> anyhow::Result<Ssh> {
        let folder = Folder::new()?;
        let weir = std::env::current_exe().context("cannot find this program's own file")?;
        let sshd = Sshd::start(bed.far(), (bed.far_address(), SSH_PORT), folder.path(), &weir)?;
        Ok(Ssh { sshd, _folder: folder })
    }
}

fn run_command(
    bed: &Bed,
    shell: &LabShell,
    ssh: Option<&Ssh>,
    mut signals: Caught,
) -> anyhow::Result<ExitStatus> {
    let own_shell = [default_shell()];
    let words = if shell.command.is_empty() { &own_shell[..] } else { &shell.command[..] };
    let mut command = guard::command(words)?;
    command
        .env("WEIR_LAB_URL", format!("http://{}", bed.far_address()))
        .env("WEIR_LAB_PEER", bed.far_address().to_string())
        .envs(ssh.map(|ssh| ("WEIR_LAB_SSH", ssh.sshd.config())))
        .envs(without_proxy());
    bed.near().enter(&mut command)?;
    // It ends as the command would have by that signal, and all is undone.
    if let Some(number) = signals.first() {
        return Ok(ExitStatus::from_raw(number));
    }
    let mut child = command.spawn().context("cannot start the command's guard")?;
    signals.pass_on_to(&child)?;
    child.wait().context("cannot wait for the command")
}

fn default_shell() -> OsString {
    std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into())
}

/// A proxy of the environment cannot be reached from there.
fn without_proxy() -> [(&'static str, &'static OsStr); 2] {
    [("no_proxy", OsStr::new("*")), ("NO_PROXY", OsStr::new("*"))]
}
