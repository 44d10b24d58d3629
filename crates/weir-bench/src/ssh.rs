//! What do ssh's own ciphers reach on this machine? The user's ssh and sshd over loopback, nothing on the way
//! and nothing behind: `ssh -c CIPHER 127.0.0.1 'cat > /dev/null'`, fed with zeros.
//!
//! The sshd is started for each connection, as the current user, with keys and a configuration of its own in
//! a temporary folder; the system's sshd, its keys and the user's configuration stay out of it. One side's
//! work is ssh's, the other's sshd's, each on a core of its own: the figure is that of the slower one, as in
//! scp.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use weir_codec::cipher::Cipher;

use crate::repeat::{GoOn, Limits, Speed, repeat};

/// What ssh offers beside the ciphers of the table, and older servers choose.
const OTHERS: [&str; 2] = ["aes128-ctr", "aes256-ctr"];

/// Bytes of a pass: several times what pipes, sockets and ssh's window of 2 MiB hold. They are as full at its
/// end as at its beginning, but for the first pass, which does not count.
const PASS: usize = 16 << 20;

/// A session that does not move for so long is given up.
const TIMEOUT: Duration = Duration::from_secs(10);

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The name that `ssh -c` takes.
    pub cipher: String,
    /// Bytes per second into ssh, from then on through sshd.
    pub speed: Speed,
}

/// There is no ssh to measure, and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(String);

/// Keys and configuration for sessions of our own; gone with the value.
pub struct Bed {
    folder: tempfile::TempDir,
    sshd: PathBuf,
}

impl Bed {
    /// Makes them.
    pub fn new() -> Result<Bed, Unavailable> {
        // sshd insists on being called by its full name.
        let sshd = find("sshd").ok_or_else(|| Unavailable("sshd is not installed".to_owned()))?;
        let folder =
            tempfile::tempdir().map_err(|error| Unavailable(format!("cannot make a folder: {error}")))?;
        let bed = Bed { folder, sshd };
        for key in ["host", "user"] {
            let mut command = Command::new("ssh-keygen");
            output(command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(bed.path(key)))?;
        }
        let written = fs::copy(bed.path("user.pub"), bed.path("authorized"))
            .and_then(|_| fs::write(bed.path("sshd_config"), bed.configuration()));
        written.map_err(|error| Unavailable(format!("cannot write sshd's configuration: {error}")))?;
        Ok(bed)
    }

    /// The ciphers worth comparing that this ssh has.
    pub fn ciphers(&self) -> Result<Vec<&'static str>, Unavailable> {
        let offered = output(Command::new("ssh").args(["-Q", "cipher"]))?;
        let wanted = Cipher::all().map(Cipher::ssh_name).chain(OTHERS);
        Ok(wanted.filter(|name| offered.lines().any(|line| line == *name)).collect())
    }

    /// Of these ciphers the one that the user's ssh takes unless it is told another: the client's order
    /// decides (RFC 4253 section 7.1), and distributions change it by configuration. `None` where ssh does
    /// not say.
    pub fn usual_cipher(&self, of: &[&'static str]) -> Option<&'static str> {
        let settings = output(Command::new("ssh").args(["-G", "127.0.0.1"])).ok()?;
        let order = settings.lines().find_map(|line| line.strip_prefix("ciphers "))?;
        order.split(',').find_map(|name| of.iter().find(|known| **known == name.trim()).copied())
    }

    /// One session with one cipher; `None` when `go_on` says no.
    pub fn measure(
        &self,
        cipher: &str,
        limits: &Limits,
        go_on: &GoOn<'_>,
    ) -> Result<Option<Row>, Unavailable> {
        let mut session = Session::open(self, cipher)?;
        let zeros = vec![0; 256 << 10];
        let timing =
            repeat(limits, go_on, || session.send(&zeros, PASS)).map_err(|error| session.explain(&error))?;
        let row = |timing| Row { cipher: cipher.to_owned(), speed: Speed::of(PASS as u64, timing) };
        Ok(timing.map(row))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configuration(&self) -> String {
        format!(
            "HostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitUserRC no\nPrintMotd no\nLogLevel ERROR\n\
             Ciphers +{}\n",
            self.path("host").display(),
            self.path("authorized").display(),
            OTHERS.join(","),
        )
    }
}

/// An ssh and the sshd that it talks to; both end with the value.
struct Session {
    client: Child,
    server: Child,
    input: ChildStdin,
}

impl Session {
    fn open(bed: &Bed, cipher: &str) -> Result<Session, Unavailable> {
        let failed = |what: &str, error: io::Error| Unavailable(format!("cannot {what}: {error}"));
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| failed("listen", error))?;
        let port = listener.local_addr().map_err(|error| failed("listen", error))?.port();
        let mut client =
            client(&bed.path("user"), cipher, port).spawn().map_err(|error| failed("start ssh", error))?;
        let accepted = await_ready(&listener, PollFlags::IN).and_then(|()| listener.accept());
        let stream = match accepted {
            Ok((stream, _)) => OwnedFd::from(stream),
            Err(error) => {
                end(&mut client);
                return Err(Unavailable(format!("ssh did not connect: {error}{}", words(&mut client))));
            }
        };
        let server = stream.try_clone().and_then(|input| {
            server(&bed.sshd, &bed.path("sshd_config"))
                .stdin(input)
                .stdout(stream)
                .stderr(Stdio::piped())
                .spawn()
        });
        match (server, client.stdin.take()) {
            (Ok(server), Some(input)) => {
                let session = Session { client, server, input };
                // Waiting for room is bounded, so writing must not wait.
                let flags = fcntl_getfl(&session.input)
                    .and_then(|f| fcntl_setfl(&session.input, f | OFlags::NONBLOCK));
                flags.map_err(|error| failed("use ssh's input", error.into()))?;
                Ok(session)
            }
            (server, _) => {
                end(&mut client);
                let error = server.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
                Err(failed("start sshd", error))
            }
        }
    }

    /// Sends so many bytes; how long it took.
    fn send(&mut self, piece: &[u8], bytes: usize) -> io::Result<Duration> {
        let start = Instant::now();
        let mut left = bytes;
        while left > 0 {
            match self.input.write(&piece[..left.min(piece.len())]) {
                Ok(sent) => left -= sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    await_ready(&self.input, PollFlags::OUT)?
                }
                Err(error) => return Err(error),
            }
        }
        Ok(start.elapsed())
    }

    /// Why a session broke: what ssh and sshd said, or else the error.
    fn explain(&mut self, error: &io::Error) -> Unavailable {
        end(&mut self.client);
        end(&mut self.server);
        Unavailable(format!(
            "ssh to an sshd of our own broke: {error}{}{}",
            words(&mut self.client),
            words(&mut self.server)
        ))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        end(&mut self.client);
        end(&mut self.server);
    }
}

fn client(key: &Path, cipher: &str, port: u16) -> Command {
    let mut ssh = Command::new("ssh");
    ssh.args(["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"])
        .args([
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "GlobalKnownHostsFile=/dev/null",
            "-o",
            "LogLevel=ERROR",
        ])
        .args(["-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-o", "Compression=no"])
        .args([
            "-o",
            "ControlPath=none",
            "-o",
            "ConnectTimeout=10",
            "-c",
            cipher,
            "-p",
            &port.to_string(),
            "-i",
        ])
        .arg(key)
        .args(["127.0.0.1", "cat > /dev/null"]);
    ssh.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    ssh
}

/// sshd for one connection on its stdin. For root it locks half of itself into /run/sshd, which only the
/// system's own start makes: where that is missing, a /run of its own in a mount namespace of its own holds
/// one, and goes with it.
fn server(sshd: &Path, configuration: &Path) -> Command {
    let lacks_folder = rustix::process::geteuid().is_root() && !Path::new("/run/sshd").exists();
    let mut command = if lacks_folder {
        let mut unshare = Command::new("unshare");
        let script = "mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && exec \"$@\"";
        unshare.args(["--mount", "sh", "-c", script, "sh"]).arg(sshd);
        unshare
    } else {
        Command::new(sshd)
    };
    command.args(["-i", "-e", "-f"]).arg(configuration);
    command
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Where sshd lies is not in every user's PATH.
    let usual = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).chain(usual);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn await_ready(fd: &impl AsFd, flags: PollFlags) -> io::Result<()> {
    let timeout = Timespec::try_from(TIMEOUT).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(fd, flags)], Some(&timeout)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn end(child: &mut Child) {
    // Both fail only where it has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// What an ended child wrote to stderr: its last line, after `: `.
fn words(child: &mut Child) -> String {
    let mut text = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(64 << 10).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    text.trim().lines().last().map(|line| format!(": {}", line.trim())).unwrap_or_default()
}

fn output(command: &mut Command) -> Result<String, Unavailable> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Unavailable(format!("{name} is not installed")))
        }
        Err(error) => Err(Unavailable(format!("cannot start {name}: {error}"))),
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(Unavailable(format!(
                "{name} failed: {}",
                words.trim().lines().last().unwrap_or("without a word")
            )))
        }
    }
}
