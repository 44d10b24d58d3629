//! The command of `weir why -- COMMAND ARGS`: run as it would run by itself, signals passed on.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Seek};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::front::HandedOn;
use crate::stdout;
use crate::voice::CannotRun;

/// What a command prints while a live view has the terminal.
pub(super) struct Printed {
    file: File,
}

impl Printed {
    /// A file without a name; in memory where the folder for such files allows none.
    pub(super) fn new() -> std::io::Result<Printed> {
        use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::APPEND;
        let file = open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)
            .or_else(|_| memfd_create("weir-why", MemfdFlags::CLOEXEC))?;
        Ok(Printed { file: File::from(file) })
    }

    /// Prints it: stdout and stderr are one terminal.
    pub(super) fn show(mut self) -> std::io::Result<()> {
        self.file.rewind()?;
        std::io::copy(&mut self.file, &mut std::io::stderr()).map(|_| ())
    }
}

/// A running command.
pub(super) struct Running {
    child: Child,
    signals: HandedOn,
}

impl Running {
    /// Starts it. `quiet_stdout` sends what it prints to our stderr, because our stdout is for the record.
    /// With `printed` it has no terminal: what it prints is kept there, and it gets no keys.
    pub(super) fn start(
        command: &[OsString],
        quiet_stdout: bool,
        printed: Option<&Printed>,
    ) -> anyhow::Result<Running> {
        let [program, args @ ..] = command else {
            return Err(CannotRun { text: "no command after --".to_owned(), code: 2 }.into());
        };
        let mut prepared = Command::new(program);
        prepared.args(args);
        if let Some(printed) = printed {
            match (printed.file.try_clone(), printed.file.try_clone()) {
                (Ok(out), Ok(err)) => prepared.stdout(out).stderr(err),
                (Err(cause), _) | (_, Err(cause)) => return Err(cause.into()),
            };
            if std::io::stdin().is_terminal() {
                prepared.stdin(Stdio::null());
            }
        } else if quiet_stdout {
            match std::io::stderr().as_fd().try_clone_to_owned() {
                Ok(stderr) => prepared.stdout(Stdio::from(stderr)),
                Err(cause) => return Err(cause.into()),
            };
        } else if stdout::was_closed() {
            // Ours is a pipe that nobody reads: SIGPIPE would end a command that prints a word.
            prepared.stdout(Stdio::null());
        }
        let child = prepared.spawn().map_err(|cause| CannotRun::new(program, &cause))?;
        Ok(Running { child, signals: Box::new(Vec::<Signal>::new) })
    }

    /// Has these signals to hand on.
    pub(super) fn hear(&mut self, signals: HandedOn) {
        self.signals = signals;
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Hands on the signals that came.
    pub(super) fn pass_signals(&mut self) {
        for signal in (self.signals)() {
            // Gone already: nothing to pass on.
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// Whether it has ended; until [`Running::wait`] is called, its counters are still there to be read.
    pub(super) fn is_over(&self) -> bool {
        let pid = Pid::from_child(&self.child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error is told by the waiting itself.
        waitid(WaitId::Pid(pid), options).map_or(true, |status| status.is_some())
    }

    /// How it ended, which it has.
    pub(super) fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait()
    }
}

/// The command's own code; 128 and the signal's number where one ended it, as shells say it.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
