//! A Slurm of the test's own, on this host: a controller and a node in a folder, on ports of loopback, which
//! believe anybody (`auth/none`) and keep no other state than that folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::net::free_port;
use crate::support::{Weir, skip, wait_for};

/// What it is called, which is not what this host is called.
const NODE: &str = "bed";

/// A daemon that was told to end gets so long: the node waits for its tasks.
const ENDS_IN: Duration = Duration::from_secs(20);

/// See the module.
pub(super) struct Slurm {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).any(|folder| folder.join(program).exists())
}

impl Slurm {
    /// One with room for eight tasks; `None`, and a word on it, where Slurm is not installed.
    pub(super) fn start() -> Option<Slurm> {
        if !["slurmctld", "slurmd", "sbatch", "scancel", "sinfo"].iter().all(|program| is_there(program)) {
            skip("Slurm is not installed (scripts/need test)");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mut slurm = Slurm { folder, daemons: Vec::new() };
        for name in ["state", "spool", "work"] {
            std::fs::create_dir(slurm.path(name)).expect("a folder");
        }
        let user = Command::new("id").arg("-un").output().expect("id runs").stdout;
        let user = String::from_utf8_lossy(&user).trim().to_owned();
        let (host, at) = (rustix::system::uname(), slurm.folder.path().display().to_string());
        let host = host.nodename().to_string_lossy().into_owned();
        let text = include_str!("slurm.conf")
            .replace("{folder}", &at)
            .replace("{user}", &user)
            .replace("{host}", &host)
            .replace("{node}", NODE)
            .replace("{controller port}", &free_port().to_string())
            .replace("{node port}", &free_port().to_string());
        std::fs::write(slurm.path("slurm.conf"), text).expect("its settings");
        slurm.begin("slurmctld", &["-D"]);
        slurm.begin("slurmd", &["-D", "-N", NODE]);
        wait_for("a node of Slurm's", || {
            for daemon in &mut slurm.daemons {
                assert!(daemon.try_wait().expect("its status").is_none(), "{}", slurm.folder_log());
            }
            slurm.says("sinfo", &["--noheader", "--format=%T"]).trim() == "idle"
        });
        Some(slurm)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn folder_log(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.path(name)).unwrap_or_default();
        ["slurmctld.log", "slurmd.log", "said"].map(read).join("\n")
    }

    fn begin(&mut self, program: &str, args: &[&str]) {
        let said = std::fs::OpenOptions::new().create(true).append(true).open(self.path("said"));
        let said = said.expect("a log");
        let mut command = self.command(program);
        command.args(args).arg("-f").arg(self.path("slurm.conf"));
        command.stdout(said.try_clone().expect("a log")).stderr(said);
        self.daemons.push(command.spawn().expect("it runs"));
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        command.env("SLURM_CONF", self.path("slurm.conf")).stdin(Stdio::null());
        command.current_dir(self.path("work"));
        command
    }

    /// What a program of Slurm's prints; nothing where it fails.
    pub(super) fn says(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program).args(args).output().expect("it runs");
        if output.status.success() {
            String::from_utf8_lossy(&output.stdout).into_owned()
        } else {
            String::new()
        }
    }

    /// The same command line, which meets this Slurm.
    pub(super) fn meets(&self, weir: Weir) -> Weir {
        weir.env("SLURM_CONF", self.path("slurm.conf"))
    }

    /// No task is there any more.
    pub(super) fn await_end(&self) {
        wait_for("the end of all tasks", || self.tasks(&[]).is_empty());
    }

    /// Tasks, one a line; with `args` some of them.
    pub(super) fn tasks(&self, args: &[&str]) -> String {
        let all = [&["--noheader", "--array", "--format=%i %T"], args].concat();
        let output = self.command("squeue").args(all).output().expect("squeue runs");
        assert!(
            output.status.success(),
            "{}\n{}",
            String::from_utf8_lossy(&output.stderr),
            self.folder_log()
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let tasks = self.command("squeue").args(["--noheader", "--format=%A"]).output();
        let tasks =
            tasks.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        for task in tasks.split_whitespace() {
            let _ = self.command("scancel").arg(task).output();
        }
        // The node first, which ends its tasks and tells the controller.
        for daemon in self.daemons.iter_mut().rev() {
            let _ = kill_process(Pid::from_child(daemon), Signal::TERM);
            let begun = Instant::now();
            while begun.elapsed() < ENDS_IN && matches!(daemon.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// What tasks printed.
pub(super) fn printed(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "out") {
            all.push_str(&std::fs::read_to_string(entry.path()).unwrap_or_default());
        }
    }
    all
}
