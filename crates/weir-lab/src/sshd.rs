//! A real sshd at one end of a bed, and a client's configuration under which it is the host `far`.
//!
//! Keys and configurations are made on the spot and lie in the lab's own folder; the socket is in the end's
//! namespace, so that nobody but the other end reaches it. sshd runs below weir's guard, which ends the
//! sessions too: they outlive their sshd, and would hold the namespace.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weir_observe::sock_diag::{Filter, SockDiag};

use crate::child::die_with_parent;
use crate::error::LabError;
use crate::netns::Namespace;

/// Where sshd lies on the usual systems: it is not on the path of ordinary users. It wants to be called by
/// its whole path.
const PLACES: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"];

/// Where sftp's server lies; scp needs it.
const SFTP: [&str; 3] =
    ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server"];

/// What sshd's privilege separation needs to be there.
const SEPARATION: &str = "/run/sshd";

/// What tells weir's guard that its parent has gone, so that it ends all that it guards.
const PARENT_GONE: Signal = Signal::USR2;

/// A server that does not listen by then never will.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Runs until it is dropped; its sessions end with it.
#[derive(Debug)]
pub struct Sshd {
    guard: Child,
    config: PathBuf,
}

impl Sshd {
    /// Starts one in `namespace` at `address` and `port`, for this user. `folder` is for its keys, and must
    /// be this user's alone. `weir` is put on its path, and guards it.
    pub fn start(
        namespace: &Namespace,
        (address, port): (Ipv4Addr, u16),
        folder: &Path,
        weir: &Path,
    ) -> Result<Sshd, LabError> {
        let refused = |cause, way_out| LabError::Refused {
            attempt: "cannot start an sshd in the lab".to_owned(),
            cause,
            way_out,
        };
        if !rustix::process::geteuid().is_root() {
            return Err(refused(io::ErrorKind::PermissionDenied.into(), "run as root"));
        }
        let there = PLACES.iter().find(|path| Path::new(path).exists());
        let missing = || refused(io::ErrorKind::NotFound.into(), "install openssh-server");
        let program: &str = there.ok_or_else(missing)?;
        let prepared = prepare(folder, (address, port), weir);
        let config = prepared.map_err(LabError::system("cannot make an sshd's keys and configuration"))?;
        let said = File::create(folder.join("log")).map_err(LabError::system("cannot write sshd's log"))?;
        let mut command = Command::new(weir);
        command.args(["lab", "guard", "--", program, "-D", "-e", "-f"]).arg(folder.join("sshd_config"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        die_with_parent(&mut command, PARENT_GONE);
        namespace.enter(&mut command)?;
        let guard = command.spawn().map_err(LabError::system("cannot run sshd"))?;
        let mut sshd = Sshd { guard, config };
        sshd.wait_until_it_listens(namespace, port, folder)?;
        Ok(sshd)
    }

    /// For `ssh -F`, `scp -F`, `weir cp -F`: there the host is `far`.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// The process above sshd and its sessions.
    pub fn pid(&self) -> u32 {
        self.guard.id()
    }

    fn wait_until_it_listens(&mut self, at: &Namespace, port: u16, folder: &Path) -> Result<(), LabError> {
        let start = Instant::now();
        while !is_listening(at, port)? {
            let ended = self.guard.try_wait().map_err(LabError::system("cannot wait for sshd"))?.is_some();
            if ended || start.elapsed() > TIMEOUT {
                let said = fs::read_to_string(folder.join("log")).unwrap_or_default();
                let why = said.lines().last().unwrap_or("it says nothing").to_owned();
                return Err(LabError::system("sshd does not listen")(io::Error::other(why)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // The guard passes it on to sshd, and ends what is left when that has ended. Nobody else waits for
        // the guard, so its number is still its own.
        let _ = kill_process(Pid::from_child(&self.guard), Signal::TERM);
        let _ = self.guard.wait();
    }
}

/// Whether a socket of `namespace` listens on `port`.
pub(crate) fn is_listening(namespace: &Namespace, port: u16) -> Result<bool, LabError> {
    let cannot = || LabError::system("cannot list the sockets of a namespace");
    let listed = namespace.run(move || {
        let filter = Filter { port: Some(port), listening: true, ..Filter::default() };
        SockDiag::open()?.tcp(&filter).map(|sockets| !sockets.is_empty())
    })?;
    listed.map_err(|error: weir_observe::ObserveError| cannot()(io::Error::other(error.to_string())))
}

/// Writes what sshd and its clients need into `folder`; returns the clients' configuration.
fn prepare(folder: &Path, (address, port): (Ipv4Addr, u16), weir: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder.join("bin"))?;
    symlink(weir, folder.join("bin/weir"))?;
    // Only root may make it; where it is already there, that is just as well.
    if let Err(error) = DirBuilder::new().mode(0o755).create(SEPARATION)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    for key in ["host_key", "key"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(key)).stdin(Stdio::null());
        if !keygen.status()?.success() {
            return Err(io::Error::other("ssh-keygen failed"));
        }
    }
    let sftp = SFTP.iter().find(|path| Path::new(path).exists()).unwrap_or(&"internal-sftp");
    let here = folder.display();
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    let server = format!(
        "Port {port}\nListenAddress {address}\nHostKey {here}/host_key\nAuthorizedKeysFile {here}/key.pub\n\
         PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin yes\nMaxStartups 200\nLogLevel ERROR\nUseDNS no\nSubsystem sftp {sftp}\n\
         SetEnv XDG_CACHE_HOME={here}/cache PATH={here}/bin:{path}\n"
    );
    fs::write(folder.join("sshd_config"), server)?;
    let client = format!(
        "Host far\n HostName {address}\n Port {port}\n IdentityFile {here}/key\n IdentitiesOnly yes\n\
         \x20UserKnownHostsFile {here}/known\n StrictHostKeyChecking accept-new\n LogLevel ERROR\n BatchMode yes\n"
    );
    let config = folder.join("ssh_config");
    fs::write(&config, client)?;
    Ok(config)
}
