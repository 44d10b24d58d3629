//! ssh as the user has it: starting it, and getting a weir of this version to run behind it.
//!
//! ssh is for identity and control. Its own words (unknown host, wrong key, password) go to the terminal as they are.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_codec::hex;

use crate::error::Error;
use crate::patience::{Ended, Patience, Patient, SILENCE};

/// What the far program prints before the protocol begins.
pub const READY: &str = "weir-peer";

/// What a login script may print before that.
const NOISE: usize = 64 << 10;

/// What helps where the cache folder is of no use. In the far shell's words: no quotes.
const WAY_OUT: &str = "set XDG_CACHE_HOME there to another folder or install weir";

/// When it is worth a word that the far host says none: people type passwords in less.
const WORD: Duration = Duration::from_secs(30);

/// Of its last line, what an error repeats.
const REPEATED: usize = 200;

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
#[derive(Debug)]
struct Program {
    file: File,
    /// Of its BLAKE3 the first 16 hexadecimal digits: what the far cache calls it.
    name: String,
    /// Bytes.
    size: u64,
}

/// A far end that runs.
#[derive(Debug)]
pub struct Far {
    child: Child,
    /// To it.
    pub input: Option<Patient<ChildStdin>>,
    /// From it.
    pub output: Option<BufReader<Patient<ChildStdout>>>,
    /// The last line that was not meant for weir.
    said: Option<String>,
    /// How long the first line may take without a word to the user.
    word: Option<Duration>,
}

impl Host {
    fn unreachable(&self, why: String) -> Error {
        Error::Unreachable { host: self.shown().to_owned(), why }
    }

    /// For words.
    pub fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or("this machine")
    }

    /// Starts the far end and waits until it is ready to talk; copies this program there where it is missing.
    /// Ends early when `stop` is set.
    pub fn start(&self, version: &str, stop: &Arc<AtomicBool>) -> Result<Far, Error> {
        let Some(host) = &self.name else { return self.start_here(stop) };
        let mut command = Command::new(&self.ssh[0]);
        // As scp does: nothing of the user's configuration that is meant for sessions of a person.
        command.args(["-x", "-T", "-oPermitLocalCommand=no", "-oClearAllForwardings=yes"]);
        command.args(["-oRemoteCommand=none", "-oRequestTTY=no", "-oForwardAgent=no"]);
        command.args(&self.ssh[1..]).arg("--").arg(host).arg(script(version));
        let mut far = Far::spawn(command, stop)?;
        // While ssh connects: some 10 ms for 20 MB.
        let mut program = Program::own().map_err(|source| Error::Ssh { program: "weir".into(), source })?;
        far.tell(program.line().as_bytes());
        if let Greeting::Absent(machine) = far.greeting(self)? {
            program.send(&mut far, (version, &machine), self)?;
        }
        far.limit();
        Ok(far)
    }

    fn start_here(&self, stop: &Arc<AtomicBool>) -> Result<Far, Error> {
        let own = std::env::current_exe().map_err(|source| Error::Ssh { program: "weir".into(), source })?;
        let mut command = Command::new(own);
        command.arg("peer");
        let mut far = Far::spawn(command, stop)?;
        far.greeting(self)?;
        far.limit();
        Ok(far)
    }
}

/// What the far host says first.
enum Greeting {
    Ready,
    /// No weir of this version; its system and machine.
    Absent(String),
}

/// A line that the far host prints before the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// Weir runs there.
    Ready,
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
        let prefixed = |prefix| line.strip_prefix(prefix);
        match line {
            READY => Line::Ready,
            "weir-stored" => Line::Stored,
            _ => None
                .or_else(|| prefixed("weir-absent ").map(Line::Absent))
                .or_else(|| prefixed("weir-failed ").map(Line::Failed))
                .unwrap_or(Line::Noise(line)),
        }
    }
}

impl Far {
    fn spawn(mut command: Command, stop: &Arc<AtomicBool>) -> Result<Far, Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|source| Error::Ssh { program, source })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Ssh { program: "ssh".into(), source: io::ErrorKind::BrokenPipe.into() });
        };
        // Pipes of 1 MiB where the kernel allows: data may go this way.
        let _ = rustix::pipe::fcntl_setpipe_size(&input, 1 << 20);
        let _ = rustix::pipe::fcntl_setpipe_size(&output, 1 << 20);
        let patience = Patience::new(Arc::clone(stop));
        let patient = patience.with(input).and_then(|input| Ok((input, patience.with(output)?)));
        let (input, output) = patient.map_err(|source| Error::Ssh { program: "ssh".into(), source })?;
        let output = BufReader::with_capacity(1 << 16, output);
        Ok(Far { child, input: Some(input), output: Some(output), said: None, word: Some(WORD) })
    }

    /// Tells the far shell something. Where that does not arrive, what ssh says of it is the better error.
    fn tell(&mut self, line: &[u8]) {
        if let Some(input) = &mut self.input
            && let Err(error) = input.write_all(line).and_then(|()| input.flush())
        {
            tracing::debug!("{error}");
        }
    }

    /// Weir runs there, and nobody is asked for anything any more: from here on it has to say something now and then.
    fn limit(&mut self) {
        if let (Some(input), Some(output)) = (&mut self.input, &mut self.output) {
            input.limit = Some(SILENCE);
            output.get_mut().limit = Some(SILENCE);
        }
    }

    fn greeting(&mut self, host: &Host) -> Result<Greeting, Error> {
        let mut room = NOISE;
        loop {
            let line = self.line(host, &mut room)?;
            match Line::parse(&line) {
                Line::Ready => return Ok(Greeting::Ready),
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
    fn line(&mut self, host: &Host, room: &mut usize) -> Result<String, Error> {
        let mut line = Vec::new();
        let mut read = self.read_line(*room, &mut line);
        if read.as_ref().is_err_and(|error| matches!(crate::patience::ended(error), Some(Ended::Silent(_)))) {
            tracing::warn!(
                "{}: no word yet; is ssh asking for something, or may the account only use sftp?",
                host.shown()
            );
            read = self.read_line(*room, &mut line);
        }
        *room = room.saturating_sub(line.len());
        let ended = match read {
            Ok(_) if line.ends_with(b"\n") => {
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            Ok(_) if *room == 0 => {
                format!("it printed more than {} KiB before weir ran; look at its login scripts", NOISE >> 10)
            }
            Ok(_) => self.why_it_ended(),
            Err(error) if crate::patience::ended(&error) == Some(Ended::Interrupted) => {
                return Err(Error::Interrupted);
            }
            Err(error) => weir_units::plain(&error),
        };
        Err(host.unreachable(ended))
    }

    /// Reads on to the end of a line. The first time with a limit, for a word to the user.
    fn read_line(&mut self, room: usize, line: &mut Vec<u8>) -> io::Result<usize> {
        let Some(output) = &mut self.output else { return Ok(0) };
        output.get_mut().limit = self.word.take();
        output.take(room as u64).read_until(b'\n', line)
    }

    /// ssh's exit codes: 255 is its own, others are the far shell's.
    fn why_it_ended(&mut self) -> String {
        self.input = None;
        match self.child.wait().ok().and_then(|status| status.code()) {
            Some(255) => {
                "ssh could not connect or log in, its words are above; try the same by hand: ssh HOST true"
                    .into()
            }
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
        self.said.as_ref().map_or_else(String::new, |said| format!(" and said: {said}"))
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
    fn own() -> io::Result<Program> {
        let mut file = File::open("/proc/self/exe")?;
        let mut digest = blake3::Hasher::new();
        let size = each_piece(&mut file, |piece| {
            digest.update(piece);
        })?;
        let name = hex::encode(&digest.finalize().as_bytes()[..8]);
        Ok(Program { file, name, size })
    }

    /// What the far shell is to know of it.
    fn line(&self) -> String {
        format!("{} {}\n", self.name, self.size)
    }

    /// By the digest that every host has a program for. Three to ten times slower than BLAKE3, so only where it is needed.
    fn sha256(&mut self) -> io::Result<String> {
        let mut digest = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        self.file.rewind()?;
        each_piece(&mut self.file, |piece| digest.update(piece))?;
        Ok(hex::encode(digest.finish().as_ref()))
    }

    /// Copies this program there, and waits until it runs.
    fn send(&mut self, far: &mut Far, (version, machine): (&str, &str), host: &Host) -> Result<(), Error> {
        let own = rustix::system::uname();
        let own = format!("{} {}", own.sysname().to_string_lossy(), own.machine().to_string_lossy());
        if own != machine {
            return Err(host.unreachable(format!(
                "it has no weir {version}, and this one is for {own} while it is {machine}; install weir there"
            )));
        }
        tracing::info!("copying weir to {}", host.shown());
        let input = far.input.as_mut().ok_or_else(|| host.unreachable("ssh closed its input".into()))?;
        let sent = self.sha256().and_then(|digest| {
            input.write_all(format!("send {digest}\n").as_bytes())?;
            self.file.rewind()?;
            io::copy(&mut (&self.file).take(self.size), input)?;
            input.flush()
        });
        if sent.as_ref().is_err_and(|error| crate::patience::ended(error).is_some()) {
            return Err(Error::Interrupted);
        }
        // If it broke off, the far side has said why.
        match far.greeting(host)? {
            Greeting::Ready => sent.map_err(|error| host.unreachable(weir_units::plain(&error))),
            Greeting::Absent(_) => Err(host.unreachable("weir could not be copied there".into())),
        }
    }
}

/// The bytes of a file from where it stands to its end, and how many they are.
fn each_piece(file: &mut File, mut take: impl FnMut(&[u8])) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(size),
            read => {
                take(&buffer[..read]);
                size += read as u64;
            }
        }
    }
}

/// What the far shell runs; it reads the program's name in the cache and size as its first line. No single quote may be in it.
fn script(version: &str) -> String {
    let safe: String = version.chars().filter(|c| c.is_ascii_alphanumeric() || ".-".contains(*c)).collect();
    let script = format!(
        "read -r k n || exit 0; \
         c=${{XDG_CACHE_HOME:-$HOME/.cache}}/weir/{safe}-$k; w=$c/weir; t=$w.$$; u=$(umask); \
         fail() {{ rm -f \"$t\"; echo \"weir-failed $1\"; exit 1; }}; \
         runs() {{ [ -x \"$w\" ] && \"$w\" --version >/dev/null 2>&1; }}; \
         runs && exec \"$w\" peer; \
         if [ \"$(weir --version 2>/dev/null)\" = \"weir {version}\" ]; then exec weir peer; fi; \
         echo \"weir-absent $(uname -sm)\"; \
         read -r go d && [ \"$go\" = send ] || exit 0; \
         umask 077; \
         mkdir -p \"$c\" || fail \"cannot create $c, {WAY_OUT}\"; \
         head -c \"$n\" >\"$t\" || fail \"cannot write $c, {WAY_OUT}\"; \
         case \"$(sha256sum <\"$t\")\" in \"$d \"*) ;; \
         *) fail \"the copy in $c does not have its digest, try again\";; esac; \
         chmod 700 \"$t\" && mv \"$t\" \"$w\" || fail \"cannot write $c, {WAY_OUT}\"; \
         umask \"$u\"; runs || fail \"programs in $c do not run (mounted noexec?), {WAY_OUT}\"; \
         echo weir-stored; exec \"$w\" peer"
    );
    format!("exec sh -c '{script}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_word_for_any_shell() {
        let script = script("0.1.0 (abc)");
        let inner = script.strip_prefix("exec sh -c '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
        assert!(!inner.contains(['\'', '\n', '!']));
        assert!(inner.contains("weir/0.1.0abc-$k;"));
    }
}
