//! ssh as the user has it: starting it, and getting a weir of this version to run behind it.
//!
//! ssh is for identity and control. Its own words (unknown host, wrong key, password) go to the terminal as they are.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use weir_codec::hex;

use crate::error::Error;

/// What the far program prints before the protocol begins.
pub const READY: &str = "weir-peer";

/// What a login script may print before that.
const NOISE: u64 = 64 << 10;

/// How long ssh may take to end once its input has.
const FAREWELL: Duration = Duration::from_secs(2);

/// How to reach a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// `[user@]host`; none for this machine itself, without ssh.
    pub name: Option<String>,
    /// The ssh program and its flags.
    pub ssh: Vec<String>,
}

/// This program, as a far host is to have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// As `weir --version` prints it.
    pub version: String,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
}

/// A far end that runs.
#[derive(Debug)]
pub struct Far {
    child: Child,
    /// To it.
    pub input: Option<ChildStdin>,
    /// From it.
    pub output: Option<BufReader<ChildStdout>>,
}

impl Host {
    /// For words.
    pub fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or("this machine")
    }

    /// Starts the far end and waits until it is ready to talk; copies this program there where it is missing.
    pub fn start(&self, version: &str) -> Result<Far, Error> {
        let Some(host) = &self.name else { return self.start_here() };
        let program =
            Program::own(version).map_err(|source| Error::Ssh { program: "weir".into(), source })?;
        let mut command = Command::new(&self.ssh[0]);
        // As scp does: nothing of the user's configuration that is meant for sessions of a person.
        command.args(["-x", "-T", "-oPermitLocalCommand=no", "-oClearAllForwardings=yes"]);
        command.args(["-oRemoteCommand=none", "-oRequestTTY=no", "-oForwardAgent=no"]);
        command.args(&self.ssh[1..]).arg("--").arg(host).arg(program.script());
        let mut far = Far::spawn(command)?;
        match far.greeting(self)? {
            Greeting::Ready => Ok(far),
            Greeting::Absent(machine) => {
                program.send(&mut far, &machine, self)?;
                Ok(far)
            }
        }
    }

    fn start_here(&self) -> Result<Far, Error> {
        let own = std::env::current_exe().map_err(|source| Error::Ssh { program: "weir".into(), source })?;
        let mut command = Command::new(own);
        command.arg("peer");
        let mut far = Far::spawn(command)?;
        far.greeting(self)?;
        Ok(far)
    }
}

/// What the far host says first.
enum Greeting {
    Ready,
    /// No weir of this version; its system and machine.
    Absent(String),
}

impl Far {
    fn spawn(mut command: Command) -> Result<Far, Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|source| Error::Ssh { program, source })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Ssh { program: "ssh".into(), source: io::ErrorKind::BrokenPipe.into() });
        };
        // Pipes of 1 MiB where the kernel allows: data may go this way.
        let _ = rustix::pipe::fcntl_setpipe_size(&input, 1 << 20);
        let _ = rustix::pipe::fcntl_setpipe_size(&output, 1 << 20);
        Ok(Far { child, input: Some(input), output: Some(BufReader::with_capacity(1 << 16, output)) })
    }

    fn greeting(&mut self, host: &Host) -> Result<Greeting, Error> {
        loop {
            let line = self.line(host)?;
            if line == READY {
                return Ok(Greeting::Ready);
            }
            if let Some(machine) = line.strip_prefix("weir-absent ") {
                return Ok(Greeting::Absent(machine.to_owned()));
            }
            if let Some(why) = line.strip_prefix("weir-failed ") {
                let why = format!("weir could not be copied there: {why}");
                return Err(Error::Unreachable { host: host.shown().to_owned(), why });
            }
            tracing::debug!("{}: {line}", host.shown());
        }
    }

    /// The next line of what the far host prints before the protocol.
    fn line(&mut self, host: &Host) -> Result<String, Error> {
        let mut line = Vec::new();
        let read = match &mut self.output {
            Some(output) => output.take(NOISE).read_until(b'\n', &mut line),
            None => Ok(0),
        };
        let ended = match read {
            Ok(_) if line.ends_with(b"\n") => {
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            Ok(0) => self.why_it_ended(),
            Ok(_) => "it printed no line that weir understands".to_owned(),
            Err(error) => weir_transfer::error::reason(&error),
        };
        Err(Error::Unreachable { host: host.shown().to_owned(), why: ended })
    }

    /// ssh's exit codes: 255 is its own, others are the far shell's.
    fn why_it_ended(&mut self) -> String {
        self.input = None;
        match self.child.wait().ok().and_then(|status| status.code()) {
            Some(255) => {
                "ssh could not connect or log in, its words are above; try the same by hand: ssh HOST true"
                    .into()
            }
            Some(126 | 127) => "no shell ran there; the account needs one (sh) to start weir".into(),
            Some(code) => format!("the far shell ended with code {code} before weir ran there"),
            None => "ssh was ended by a signal".into(),
        }
    }

    /// No more words to it, and its end.
    pub fn end(&mut self) {
        self.input = None;
        // Only a host that hangs keeps ssh from ending; then it is not waited for.
        let start = Instant::now();
        let mut pause = Duration::from_micros(200);
        while start.elapsed() < FAREWELL {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.end();
    }
}

impl Program {
    /// This program's file.
    fn own(version: &str) -> io::Result<Program> {
        let mut file = File::open("/proc/self/exe")?;
        let mut digest = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        let mut buffer = vec![0; 1 << 20];
        let mut size = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => {
                    digest.update(&buffer[..read]);
                    size += read as u64;
                }
            }
        }
        Ok(Program { version: version.to_owned(), sha256: hex::encode(digest.finish().as_ref()), size })
    }

    /// What the far shell runs. No single quote may be in it.
    fn script(&self) -> String {
        let Program { version, sha256, size } = self;
        let safe: String =
            version.chars().filter(|c| c.is_ascii_alphanumeric() || ".-".contains(*c)).collect();
        let short = &sha256[..16];
        let script = format!(
            "c=${{XDG_CACHE_HOME:-$HOME/.cache}}/weir/{safe}-{short}; \
             if [ -x \"$c/weir\" ]; then exec \"$c/weir\" peer; fi; \
             if [ \"$(weir --version 2>/dev/null)\" = \"weir {version}\" ]; then exec weir peer; fi; \
             echo \"weir-absent $(uname -sm)\"; \
             read -r go && [ \"$go\" = send ] || exit 0; \
             umask 077; t=$c/weir.$$; \
             mkdir -p \"$c\" && head -c {size} >\"$t\" || {{ echo \"weir-failed cannot write $c\"; exit 1; }}; \
             case \"$(sha256sum <\"$t\")\" in {sha256}*) ;; \
             *) rm -f \"$t\"; echo \"weir-failed the copy in $c does not have its digest\"; exit 1;; esac; \
             chmod 700 \"$t\" && mv \"$t\" \"$c/weir\" || {{ echo \"weir-failed cannot write $c\"; exit 1; }}; \
             echo weir-stored; exec \"$c/weir\" peer"
        );
        format!("exec sh -c '{script}'")
    }

    /// Copies this program there, and waits until it runs.
    fn send(&self, far: &mut Far, machine: &str, host: &Host) -> Result<(), Error> {
        let unreachable = |why: String| Error::Unreachable { host: host.shown().to_owned(), why };
        let own = rustix::system::uname();
        let own = format!("{} {}", own.sysname().to_string_lossy(), own.machine().to_string_lossy());
        if own != machine {
            let why = format!(
                "it has no weir {}, and this one is for {own} while it is {machine}; install weir there",
                self.version
            );
            return Err(unreachable(why));
        }
        tracing::info!("copying weir to {}", host.shown());
        let input = far.input.as_mut().ok_or_else(|| unreachable("ssh closed its input".into()))?;
        let sent = input.write_all(b"send\n").and_then(|()| {
            let mut file = File::open(Path::new("/proc/self/exe"))?.take(self.size);
            io::copy(&mut file, input)?;
            input.flush()
        });
        // If it broke off, the far side has said why.
        match far.greeting(host)? {
            Greeting::Ready => sent.map_err(|error| unreachable(weir_transfer::error::reason(&error))),
            Greeting::Absent(_) => Err(unreachable("weir could not be copied there".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_word_for_any_shell() {
        let program =
            Program { version: "0.1.0 (abc)".into(), sha256: "0123456789abcdef".repeat(4), size: 7 };
        let script = program.script();
        let inner = script.strip_prefix("exec sh -c '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
        assert!(!inner.contains(['\'', '\n', '!']));
        assert!(inner.contains("weir/0.1.0abc-0123456789abcdef"));
    }
}
