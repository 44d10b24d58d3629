//! ssh as the user has it: starting it, and getting a weir of this version to run behind it.
//!
//! ssh is for identity and control. Its own words (unknown host, wrong key, password) go to the terminal as
//! they are.

mod builds;
mod machine;
mod manifest;
mod program;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::error::CopyError;
use crate::idle_timeout::{Ended, IDLE_TIMEOUT, IdleTimeout, TimedStream};
use crate::overheard::{Hears, Overheard};

pub use builds::{mark, own_digest};
pub use manifest::Manifest;
use program::{Program, script};

/// What the far program prints before the protocol begins. Like all that is meant for weir by then it begins
/// with a record separator (ASCII 30), which no text has: so it is found behind a title or a prompt that a
/// login script printed without an end of line.
pub const READY: &str = "\u{1e}weir-peer";

/// What a login script may print before that.
const NOISE: usize = 64 << 10;

/// When it is worth a word that the far host says none: people type passwords in less.
const WORD: Duration = Duration::from_secs(30);

/// Of its last line, what an error repeats.
const REPEATED: usize = 200;

/// How long ssh may take to end once its input has.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long to wait for ssh to exit after its output has ended: one exit causes both, and either may be seen
/// first.
const EXIT: Duration = Duration::from_millis(500);

/// How to reach a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// `[user@]host`; none for this machine itself, without ssh.
    pub name: Option<String>,
    /// The name in words, where that is another: with the port, which tells it from others of its name.
    pub words: Option<String>,
    /// The ssh program and its flags.
    pub ssh: Vec<String>,
    /// The weir to start there, as words for the far shell (`sudo weir`); none for a copy of this one, or one
    /// that is installed.
    pub program: Option<String>,
    /// Builds of this version that are copied there where they are for its machine, before those that lie
    /// beside this program.
    pub builds: Vec<PathBuf>,
    /// How long it may say nothing once weir runs there ([`IDLE_TIMEOUT`] where the user does not say).
    pub silence: Duration,
}

/// What says that no person is there to be asked, and that a host which does not answer is given up on soon.
const UNATTENDED: [&str; 2] = ["-oBatchMode=yes", "-oConnectTimeout=20"];

/// A far end that runs.
#[derive(Debug)]
pub struct Far {
    child: Child,
    /// What it runs as here: ssh, or weir itself.
    program: String,
    /// To it.
    pub input: Option<TimedStream<ChildStdin>>,
    /// From it.
    pub output: Option<BufReader<TimedStream<ChildStdout>>>,
    /// The last line that was not meant for weir.
    said: Option<String>,
    /// The user was told that it says nothing.
    told: bool,
    /// A shell runs there: it has said something.
    heard: bool,
    /// What hears ssh's own words and those of the far program; none where they go to the terminal.
    stderr: Option<Overheard>,
}

impl Host {
    fn unreachable(&self, why: String) -> CopyError {
        CopyError::Unreachable { host: self.shown().to_owned(), why }
    }

    /// For words.
    pub fn shown(&self) -> &str {
        self.words.as_deref().or(self.name.as_deref()).unwrap_or("this machine")
    }

    /// The same at a port of its own; `written` is its name with the port.
    #[must_use]
    pub fn at_port(mut self, port: u16, written: &str) -> Host {
        // Of a port given twice ssh takes the first.
        let at = self.flags_at();
        self.ssh.splice(at..at, ["-p".to_owned(), port.to_string()]);
        self.words = Some(written.to_owned());
        self
    }

    /// Where ssh's flags begin: behind ssh, which other programs may start (`nice ssh`). Of what is not
    /// called so they begin behind the first word.
    fn flags_at(&self) -> usize {
        self.ssh.iter().position(|word| is_ssh(word)).map_or(1, |at| at + 1)
    }

    /// Starts the far end and waits until it is ready to talk; copies this program there where it is missing.
    /// Ends early when `stop` is set.
    pub fn start(&self, version: &str, stop: &Arc<AtomicBool>) -> Result<Far, CopyError> {
        self.start_heard(version, stop, None)
    }

    /// The same where nobody is there to be asked: `hears` gets the lines of ssh and of the far end, one at a
    /// time, which otherwise go to the terminal; and signals of the terminal reach neither.
    pub fn start_unattended(
        &self,
        version: &str,
        stop: &Arc<AtomicBool>,
        hears: Hears,
    ) -> Result<Far, CopyError> {
        self.start_heard(version, stop, Some(hears))
    }

    fn start_heard(
        &self,
        version: &str,
        stop: &Arc<AtomicBool>,
        hears: Option<Hears>,
    ) -> Result<Far, CopyError> {
        let Some(host) = &self.name else { return self.start_here(stop, hears) };
        let (starts, flags) = self.ssh.split_at(self.flags_at());
        let mut command = called(starts);
        // As scp does: nothing of the user's configuration that is meant for sessions of a person.
        command.args(["-x", "-T", "-oPermitLocalCommand=no", "-oClearAllForwardings=yes"]);
        command.args(["-oRemoteCommand=none", "-oRequestTTY=no", "-oForwardAgent=no"]);
        command.args(session_options(starts)).args(flags);
        if hears.is_some() {
            // Of an option given twice the first counts, so the user's own stay.
            command.args(UNATTENDED);
        }
        command.arg("--").arg(host);
        let mut far = match &self.program {
            Some(program) => {
                command.arg(format!("{program} peer"));
                let mut far = Far::spawn(command, stop, hears)?;
                match far.greeting(self)? {
                    Greeting::Ready => far,
                    Greeting::Absent(_) | Greeting::Machine(_) => {
                        return Err(self.unreachable(format!("'{program}' is not weir")));
                    }
                }
            }
            None => {
                // Its name is in the script: the far end is told nothing before it has said that it listens,
                // since a login script that reads would take it. Some 10 ms for 30 MB.
                let mut program = Program::own(version, &self.builds)?;
                command.arg(script(&program));
                let mut far = Far::spawn(command, stop, hears)?;
                program.settle(&mut far, self)?;
                far
            }
        };
        far.limit(self.silence);
        Ok(far)
    }

    fn start_here(&self, stop: &Arc<AtomicBool>, hears: Option<Hears>) -> Result<Far, CopyError> {
        let own =
            std::env::current_exe().map_err(|source| CopyError::Ssh { program: "weir".into(), source })?;
        let mut command = Command::new(own);
        command.arg("peer");
        let mut far = Far::spawn(command, stop, hears)?;
        far.greeting(self)?;
        far.limit(self.silence);
        Ok(far)
    }
}

/// What the far host says first.
enum Greeting {
    Ready,
    /// It is another machine than this one, and waits for what it is to have; its system and machine.
    Machine(String),
    /// No weir of this version; its system and machine.
    Absent(String),
}

/// A line that the far host prints before the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// Weir runs there.
    Ready,
    /// It is another machine than the build that it was asked for; its system and machine.
    Machine(&'a str),
    /// There is no weir of this version; its system and machine.
    Absent(&'a str),
    /// It could not be copied there, and why.
    Failed(&'a str),
    /// It was.
    Stored,
    /// Nothing that is meant for weir, such as a login script's words.
    Noise(&'a str),
}

impl Line<'_> {
    /// What a line, without its end, says.
    pub fn parse(line: &str) -> Line<'_> {
        let Some(meant) = line.rfind('\u{1e}').map(|at| &line[at..]) else { return Line::Noise(line) };
        let prefixed = |prefix| meant.strip_prefix(prefix);
        match meant {
            READY => Line::Ready,
            "\u{1e}weir-stored" => Line::Stored,
            _ => None
                .or_else(|| prefixed("\u{1e}weir-machine ").map(Line::Machine))
                .or_else(|| prefixed("\u{1e}weir-absent ").map(Line::Absent))
                .or_else(|| prefixed("\u{1e}weir-failed ").map(Line::Failed))
                .unwrap_or(Line::Noise(line)),
        }
    }
}

impl Far {
    fn spawn(mut command: Command, stop: &Arc<AtomicBool>, hears: Option<Hears>) -> Result<Far, CopyError> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if hears.is_some() {
            command.stderr(Stdio::piped()).process_group(0);
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(source) => return Err(CopyError::Ssh { program, source }),
        };
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(CopyError::Ssh { program: "ssh".into(), source: io::ErrorKind::BrokenPipe.into() });
        };
        // Pipes of 1 MiB where the kernel allows: data may go this way.
        let _ = rustix::pipe::fcntl_setpipe_size(&input, 1 << 20);
        let _ = rustix::pipe::fcntl_setpipe_size(&output, 1 << 20);
        let idle_timeout = IdleTimeout::new(Arc::clone(stop));
        let patient = idle_timeout.with(input).and_then(|input| Ok((input, idle_timeout.with(output)?)));
        let (input, output) = patient.map_err(|source| CopyError::Ssh { program: "ssh".into(), source })?;
        let output = BufReader::with_capacity(1 << 16, output);
        let stderr = child.stderr.take().zip(hears).map(|(stderr, hears)| Overheard::listen(stderr, hears));
        let (input, output, said) = (Some(input), Some(output), None);
        Ok(Far { child, program, input, output, said, told: false, heard: false, stderr })
    }

    /// Weir runs there, and nobody is asked for anything any more: from here on it has to say something now
    /// and then.
    fn limit(&mut self, silence: Duration) {
        if let (Some(input), Some(output)) = (&mut self.input, &mut self.output) {
            input.limit = Some(silence);
            output.get_mut().limit = Some(silence);
        }
    }

    fn greeting(&mut self, host: &Host) -> Result<Greeting, CopyError> {
        let mut room = NOISE;
        loop {
            let line = self.line(host, &mut room)?;
            match Line::parse(&line) {
                Line::Ready => return Ok(Greeting::Ready),
                Line::Machine(machine) => return Ok(Greeting::Machine(machine.to_owned())),
                Line::Absent(machine) => return Ok(Greeting::Absent(machine.to_owned())),
                Line::Failed(why) => {
                    return Err(host.unreachable(format!("weir could not be copied there: {why}")));
                }
                Line::Stored | Line::Noise("") => {}
                Line::Noise(words) => {
                    tracing::debug!("{}: {words}", host.shown());
                    self.said = Some(words.chars().take(REPEATED).collect());
                }
            }
        }
    }

    /// The next line of what the far host prints before the protocol; `room` is what it may still print.
    fn line(&mut self, host: &Host, room: &mut usize) -> Result<String, CopyError> {
        let mut line = Vec::new();
        let is_silent = |read: &io::Result<usize>| {
            let ended = read.as_ref().err().and_then(crate::idle_timeout::ended);
            matches!(ended, Some(Ended::Silent(_)))
        };
        let mut read = self.read_line(*room, &mut line);
        if is_silent(&read) && line.is_empty() && !self.heard {
            self.told = true;
            let asks = if self.stderr.is_none() { "ssh may be asking for something, or " } else { "" };
            tracing::warn!("{}: no answer yet; {asks}the account may be limited to sftp", host.shown());
            read = self.read_line(*room, &mut line);
        }
        *room = room.saturating_sub(line.len());
        if is_silent(&read) {
            return Err(host.unreachable(self.why_it_hangs(host, &line)));
        }
        let ended = match read {
            Ok(_) if line.ends_with(b"\n") => {
                self.heard = true;
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            Ok(_) if *room == 0 => {
                format!("it printed more than {} KiB before weir ran; look at its login scripts", NOISE >> 10)
            }
            Ok(_) => self.why_it_ended(host),
            Err(error) if crate::idle_timeout::ended(&error) == Some(Ended::Interrupted) => {
                return Err(CopyError::Interrupted);
            }
            Err(error) => weir_units::plain(&error),
        };
        Err(host.unreachable(ended))
    }

    /// Reads on to the end of a line. Once a shell has said something nobody is asked for anything any more,
    /// and what else it does has a minute. Before that there is a limit for a word to the user; after it
    /// none, unless nobody is there to be asked.
    fn read_line(&mut self, room: usize, line: &mut Vec<u8>) -> io::Result<usize> {
        let Some(output) = &mut self.output else { return Ok(0) };
        output.get_mut().limit = match self.told {
            _ if self.heard => Some(IDLE_TIMEOUT),
            false => Some(WORD),
            true => {
                let asks_nobody = self.stderr.is_some() || File::open("/dev/tty").is_err();
                asks_nobody.then_some(IDLE_TIMEOUT)
            }
        };
        output.take(room as u64).read_until(b'\n', line)
    }

    /// Nothing more came, perhaps in the middle of a line.
    fn why_it_hangs(&mut self, host: &Host, line: &[u8]) -> String {
        let begun: String = String::from_utf8_lossy(line).trim().chars().take(REPEATED).collect();
        if !begun.is_empty() {
            self.said = Some(begun);
        }
        match self.said {
            Some(_) => format!(
                "it is logged in{}, and then nothing more for {} s: a login script there waits for something; try {}, and let the \
                 script end early where no person is ([ -t 0 ] || return)",
                self.words(),
                IDLE_TIMEOUT.as_secs(),
                by_hand(host)
            ),
            None => format!(
                "it says nothing: the account may only use sftp, or ssh's configuration keeps commands from running there (SessionType, \
                 ForceCommand); try {}",
                by_hand(host)
            ),
        }
    }

    /// ssh's exit codes: 255 is its own, others are the far shell's.
    fn why_it_ended(&mut self, host: &Host) -> String {
        self.input = None;
        let code = self.child.wait().ok().and_then(|status| status.code());
        let overheard = self.last_words();
        match code {
            Some(255) if let Some(words) = overheard => {
                format!("ssh could not connect or log in: {words}; try the same by hand: {}", by_hand(host))
            }
            Some(255) => format!(
                "ssh could not connect or log in, its words are above; try the same by hand: {}",
                by_hand(host)
            ),
            Some(126 | 127) if let Some(program) = &host.program => {
                format!(
                    "'{program}' does not run there{}; --far-program takes words for its shell",
                    self.words()
                )
            }
            // Where nothing came a program before ssh may have failed (env, timeout, sudo), or the far shell.
            Some(code) if !self.heard && !is_ssh(&self.program) => format!(
                "'{}' ended with code {code} before the far shell said anything{}; if ssh itself ran, the account there must \
                 be allowed to run programs; try the same by hand: {}",
                self.program,
                self.words(),
                by_hand(host)
            ),
            Some(126 | 127) => {
                format!("no shell ran there{}; the account needs one (sh) to start weir", self.words())
            }
            Some(code) => format!(
                "the far shell ended with code {code} before weir ran there{}; the account must be allowed to run programs",
                self.words()
            ),
            None => "ssh was ended by a signal".into(),
        }
    }

    /// What it said last.
    fn words(&self) -> String {
        self.said
            .clone()
            .or_else(|| self.last_words())
            .map_or_else(String::new, |said| format!(" and said: {said}"))
    }

    /// What it printed last for people, where that is heard: for one that has ended.
    pub fn last_words(&self) -> Option<String> {
        self.stderr.as_ref().and_then(Overheard::last_words)
    }

    /// Why nothing comes from it any more, as far as its process tells: ssh exits with the far program's
    /// code, and with 255 for errors of its own.
    pub(crate) fn how_it_ended(&mut self) -> Option<String> {
        let status = self.exit_within(EXIT)?;
        Some(match (status.code(), status.signal()) {
            // ssh(1): "255 if an error occurred", and where a signal ended the far program.
            (Some(255), _) => {
                "ssh's connection broke, or weir was killed there (ssh ended with code 255)".into()
            }
            (Some(code), _) => format!("weir there ended with code {code}"),
            (None, Some(signal)) => format!("{} was ended by signal {signal}", self.program),
            (None, None) => return None,
        })
    }

    /// No more words to it, and its end.
    pub fn end(&mut self) {
        self.input = None;
        // Only a host that hangs keeps ssh from ending; then it is not waited for.
        if self.exit_within(FAREWELL).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn exit_within(&mut self, time: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(200);
        while start.elapsed() < time {
            match self.child.try_wait() {
                Ok(None) => {}
                Ok(ended) => return ended,
                // Nobody's child any more: there is nothing to wait for.
                Err(_) => return None,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.end();
    }
}

/// What shows a person why a host cannot be reached, as they would type it.
fn by_hand(host: &Host) -> String {
    format!("{} {} true", host.ssh.join(" "), host.name.as_deref().unwrap_or_default())
}

/// Whether a word of a command is ssh, wherever it lies.
fn is_ssh(word: &str) -> bool {
    Path::new(word).file_name() == Some(OsStr::new("ssh"))
}

/// A program and its first arguments.
fn called(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// What says that a session runs a command whose input is weir's, whatever the user's configuration has for
/// this host: words that OpenSSH knows from 8.7 on, and refuses before. A program that the user names in
/// ssh's place is not asked: it may do anything then. What starts ssh is not run for that either: it may ask
/// for a password, or count its runs.
fn session_options(starts: &[String]) -> &'static [&'static str] {
    if starts.last().is_none_or(|ssh| ssh != "ssh") {
        return &[];
    }
    let asked = Command::new("ssh").arg("-V").stdin(Stdio::null()).output();
    let said = asked.map(|output| output.stderr).unwrap_or_default();
    match knows_session_types(&String::from_utf8_lossy(&said)) {
        true => &["-oSessionType=default", "-oStdinNull=no", "-oForkAfterAuthentication=no"],
        false => &[],
    }
}

/// Whether the version that `ssh -V` prints (`OpenSSH_9.2p1 ...`) is 8.7 or later.
fn knows_session_types(said: &str) -> bool {
    let version = said.strip_prefix("OpenSSH_").and_then(|rest| rest.split_once('.'));
    let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    let version: Option<(u32, u32)> = version.and_then(|(major, rest)| Some((number(major)?, number(rest)?)));
    version.is_some_and(|version| version >= (8, 7))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_meant_for_weir_are_found_behind_others() {
        for (line, meant) in [
            ("\u{1b}]0;host\u{7}\u{1e}weir-peer", Line::Ready),
            ("hi\u{1e}weir-absent Linux x86_64", Line::Absent("Linux x86_64")),
            ("\u{1e}weir-failed a \u{1e}b", Line::Noise("\u{1e}weir-failed a \u{1e}b")),
            ("weir-peer", Line::Noise("weir-peer")),
            ("\u{1e}weir-peer now", Line::Noise("\u{1e}weir-peer now")),
        ] {
            assert_eq!(Line::parse(line), meant, "{line:?}");
        }
    }

    #[test]
    fn flags_go_to_ssh_whatever_starts_it() {
        for (words, at) in [
            (&["ssh", "-i", "k"][..], 1),
            (&["/usr/bin/ssh"], 1),
            (&["env", "A=1", "ssh", "-F", "f"], 3),
            (&["sudo", "-u", "me", "/opt/bin/ssh"], 4),
            (&["plink", "-x"], 1),
        ] {
            let ssh = words.iter().map(|word| (*word).to_owned()).collect();
            let (name, silence) = (Some("far".to_owned()), IDLE_TIMEOUT);
            let host = Host { name, words: None, ssh, program: None, builds: Vec::new(), silence };
            assert_eq!(host.flags_at(), at, "{words:?}");
            assert_eq!(host.at_port(22, "far:22").ssh[at..at + 2], ["-p", "22"], "{words:?}");
        }
    }

    #[test]
    fn versions_of_ssh() {
        for (said, knows) in [
            ("OpenSSH_9.2p1 Debian-2+deb12u3, OpenSSL 3.0.15", true),
            ("OpenSSH_8.7p1", true),
            ("OpenSSH_8.4p1", false),
            ("OpenSSH_10.0p2", true),
            ("Sun_SSH_1.1", false),
            ("", false),
        ] {
            assert_eq!(knows_session_types(said), knows, "{said}");
        }
    }
}
