//! A tcpdump in a namespace.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::spawn;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use weir_lab::netns::Namespace;

/// Packets of an interface of the lab, 96 bytes of each, on their way into a file.
pub(crate) struct Recorder(Child);

/// Whether there is a tcpdump on this machine.
pub(crate) fn is_there() -> bool {
    Command::new("tcpdump").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

impl Recorder {
    pub(crate) fn start(space: &Namespace, file: &Path) -> anyhow::Result<Recorder> {
        let mut command = Command::new("tcpdump");
        // As the user who runs it: another could not write here. Each packet at once: of a buffer that waits
        // to be full, an interrupt loses the last half second.
        command.args(["-i", "weir0", "-s", "96", "-B", "16384", "--immediate-mode", "-Z", "root", "-w"]);
        command.arg(file).arg("tcp");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        space.enter(&mut command)?;
        let mut child = command.spawn().context("cannot start tcpdump")?;
        let stderr = child.stderr.take().context("tcpdump has no stderr")?;
        let mut lines = BufReader::new(stderr).lines();
        let listens = lines.by_ref().map_while(Result::ok).any(|line| line.contains("listening on"));
        // Read on, so that it can say its counts at the end.
        spawn(move || lines.for_each(drop));
        anyhow::ensure!(listens, "tcpdump does not listen");
        Ok(Recorder(child))
    }

    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::INT)?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // It is over already unless the run failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
