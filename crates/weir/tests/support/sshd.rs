//! A real sshd on a free port of this machine, with keys and a configuration of its own.

use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use weir_lab::netns::Namespace;

use super::net::free_port;
use super::runner::{Run, Sandbox, WEIR, Weir};
use super::{BETWEEN_LOOKS, TIMEOUT, skip};

/// Where sshd lies on the usual systems: it is not on the path of ordinary users.
const SSHD: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"];

/// A running sshd, and a client's configuration under which it is the host `far`, and the hosts `one` and
/// `two`.
pub(crate) struct Sshd {
    folder: tempfile::TempDir,
    child: Child,
    port: u16,
    /// In a network of its own.
    apart: bool,
}

/// An sshd that is not as usual.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Special<'a> {
    /// In this network namespace, at an address of it.
    pub(crate) place: Option<(&'a Namespace, &'a str)>,
    /// Its path has no weir.
    pub(crate) without_weir: bool,
    /// Lines of its configuration, before the usual ones: the first of a kind counts.
    pub(crate) config: &'a str,
    /// Namespaces of its own (as unshare's flags: `-m`, `-n`), and what a shell does in them first. `$CACHE`
    /// is its cache folder.
    pub(crate) within: Option<(&'a str, &'a str)>,
}

impl Sshd {
    /// One that lets this user in and has weir on its path; `None` (and a word) where there is no sshd.
    pub(crate) fn start() -> Option<Sshd> {
        Sshd::special(Special::default())
    }

    /// One inside a network namespace, at an address of it.
    pub(crate) fn start_in(namespace: &Namespace, address: &str) -> Option<Sshd> {
        Sshd::special(Special { place: Some((namespace, address)), ..Special::default() })
    }

    /// One whose path has no weir.
    pub(crate) fn without_weir() -> Option<Sshd> {
        Sshd::special(Special { without_weir: true, ..Special::default() })
    }

    /// One whose weir believes that ssh reached it at this address.
    pub(crate) fn seen_at(address: IpAddr) -> Option<Sshd> {
        let sshd = Sshd::without_weir()?;
        let script = format!("#!/bin/sh\nSSH_CONNECTION='{address} 1 {address} 22' exec {WEIR} \"$@\"\n");
        let weir = sshd.path("bin/weir");
        std::fs::write(&weir, script).expect("a file");
        std::fs::set_permissions(&weir, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        Some(sshd)
    }

    /// One that is not as usual.
    pub(crate) fn special(special: Special<'_>) -> Option<Sshd> {
        if special.within.is_some() && !rustix::process::geteuid().is_root() {
            skip("only root makes such namespaces");
            return None;
        }
        let Some(sshd) = SSHD.iter().find(|path| Path::new(path).exists()) else {
            skip("no sshd on this machine");
            return None;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        for key in ["host_key", "key"] {
            let mut keygen = Command::new("ssh-keygen");
            let made = keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(key)).status();
            assert!(made.expect("ssh-keygen runs").success());
        }
        std::fs::copy(path("key.pub"), path("authorized")).expect("a key");
        std::fs::create_dir(path("bin")).expect("a folder");
        if !special.without_weir {
            symlink(WEIR, path("bin/weir")).expect("a link");
        }
        // Privilege separation wants this folder; whoever runs as root may make it.
        let _ = std::fs::create_dir_all("/run/sshd");
        // A namespace of the test's own has no other listener.
        let port = if special.place.is_some() { 2222 } else { free_port() };
        let address = special.place.map_or("127.0.0.1", |(_, address)| address);
        let here = folder.path().display();
        let lines = special.config;
        let config = format!(
            "{lines}\nPort {port}\nListenAddress {address}\nHostKey {here}/host_key\nAuthorizedKeysFile {here}/authorized\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PermitRootLogin yes\nMaxStartups 200\nLogLevel ERROR\nUseDNS no\n\
             SetEnv XDG_CACHE_HOME={here}/cache PATH={here}/bin:/usr/bin:/bin\n"
        );
        std::fs::write(path("sshd_config"), config).expect("a file");
        let client = format!(
            "Host far one two\n HostName {address}\n Port {port}\n IdentityFile {here}/key\n IdentitiesOnly yes\n\
             UserKnownHostsFile {here}/known\n StrictHostKeyChecking accept-new\n LogLevel ERROR\n BatchMode yes\n"
        );
        std::fs::write(path("ssh_config"), client).expect("a file");
        std::fs::create_dir(path("cache")).expect("a folder");
        let mut command = match special.within {
            None => Command::new(sshd),
            Some((flags, script)) => {
                let mut command = Command::new("unshare");
                let script = format!("set -e; PATH=$PATH:/usr/sbin:/sbin; {script}; exec \"$@\"");
                command.args([flags, "sh", "-c", &script, "sh", sshd]).env("CACHE", path("cache"));
                command
            }
        };
        command.args(["-D", "-e", "-f"]).arg(path("sshd_config")).stdin(Stdio::null());
        if let Some((namespace, _)) = special.place {
            namespace.enter(&mut command).expect("a namespace to enter");
        }
        let log = std::fs::File::create(path("log")).expect("a file");
        let child = command.stderr(log).spawn().expect("sshd starts");
        let apart = special.within.is_some_and(|(flags, _)| flags.contains('n'));
        let mut sshd = Sshd { folder, child, port, apart };
        let start = Instant::now();
        while !sshd.listens(special.place) {
            let log = || std::fs::read_to_string(sshd.folder.path().join("log")).unwrap_or_default();
            assert!(start.elapsed() < TIMEOUT, "sshd does not listen: {}", log());
            assert!(matches!(sshd.child.try_wait(), Ok(None)), "sshd does not run: {}", log());
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Some(sshd)
    }

    fn listens(&self, place: Option<(&Namespace, &str)>) -> bool {
        if let Some((namespace, address)) = place {
            let connects = || TcpStream::connect((address, self.port)).is_ok();
            return namespace.run(connects).expect("a namespace");
        }
        if !self.apart {
            return TcpStream::connect(("127.0.0.1", self.port)).is_ok();
        }
        let port = self.port;
        let mut connect = Command::new("nsenter");
        connect.args(["-t", &self.child.id().to_string(), "-n", "bash", "-c"]);
        connect.arg(format!("</dev/tcp/127.0.0.1/{port}")).stderr(Stdio::null());
        connect.status().is_ok_and(|status| status.success())
    }

    /// The program.
    pub(crate) fn program() -> &'static str {
        SSHD.into_iter().find(|path| Path::new(path).exists()).unwrap_or("sshd")
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A path as this sshd and what it starts see it.
    pub(crate) fn seen(&self, path: &Path) -> PathBuf {
        let inside = path.strip_prefix("/").expect("an absolute path");
        PathBuf::from(format!("/proc/{}/root", self.child.id())).join(inside)
    }

    /// A path in the folder of keys and configurations.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `weir cp` that knows this host as `far`, to be run in `sandbox`.
    pub(crate) fn cp(&self, sandbox: &Sandbox, args: &[&str]) -> Weir {
        let config = self.path("ssh_config").display().to_string();
        if self.apart {
            let pid = self.child.id().to_string();
            return sandbox.weir("nsenter", ["-t", &pid, "-n", WEIR, "cp", "-F", &config]).args(args);
        }
        sandbox.weir(WEIR, ["cp", "-F", &config]).args(args)
    }

    /// The same, run to its end.
    pub(crate) fn copies(&self, sandbox: &Sandbox, args: &[&str]) -> Run {
        self.cp(sandbox, args).run()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
