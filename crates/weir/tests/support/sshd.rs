//! A real sshd on a free port of this machine, with keys and a configuration of its own.

use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use weir_lab::netns::Namespace;

use super::runner::{Run, Sandbox, WEIR, Weir};
use super::{PATIENCE, skip};

/// Where sshd lies on the usual systems: it is not on the path of ordinary users.
const SSHD: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"];

/// A running sshd, and a client's configuration under which it is the host `far`, and the hosts `one` and `two`.
pub(crate) struct Sshd {
    folder: tempfile::TempDir,
    child: Child,
}

impl Sshd {
    /// One that lets this user in and has weir on its path; `None` (and a word) where there is no sshd.
    pub(crate) fn start() -> Option<Sshd> {
        Sshd::with(true, None)
    }

    /// One inside a network namespace, at an address of it.
    pub(crate) fn start_in(namespace: &Namespace, address: &str) -> Option<Sshd> {
        Sshd::with(true, Some((namespace, address)))
    }

    /// One whose path has no weir.
    pub(crate) fn without_weir() -> Option<Sshd> {
        Sshd::with(false, None)
    }

    /// One whose weir believes that ssh reached it at this address.
    pub(crate) fn seen_at(address: IpAddr) -> Option<Sshd> {
        let sshd = Sshd::with(false, None)?;
        let script = format!("#!/bin/sh\nSSH_CONNECTION='{address} 1 {address} 22' exec {WEIR} \"$@\"\n");
        let weir = sshd.path("bin/weir");
        std::fs::write(&weir, script).expect("a file");
        std::fs::set_permissions(&weir, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        Some(sshd)
    }

    fn with(has_weir: bool, place: Option<(&Namespace, &str)>) -> Option<Sshd> {
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
        if has_weir {
            symlink(WEIR, path("bin/weir")).expect("a link");
        }
        // Privilege separation wants this folder; whoever runs as root may make it.
        let _ = std::fs::create_dir_all("/run/sshd");
        // A namespace of the test's own has no other listener.
        let port = if place.is_some() { 2222 } else { free_port() };
        let address = place.map_or("127.0.0.1", |(_, address)| address);
        let here = folder.path().display();
        let config = format!(
            "Port {port}\nListenAddress {address}\nHostKey {here}/host_key\nAuthorizedKeysFile {here}/authorized\n\
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
        let mut command = Command::new(sshd);
        command.args(["-D", "-e", "-f"]).arg(path("sshd_config")).stdin(Stdio::null()).stderr(Stdio::null());
        if let Some((namespace, _)) = place {
            namespace.enter(&mut command).expect("a namespace to enter");
        }
        let child = command.spawn().expect("sshd starts");
        let sshd = Sshd { folder, child };
        let start = Instant::now();
        let listens = || TcpStream::connect((address, port)).is_ok();
        while !place.map_or_else(listens, |(namespace, _)| namespace.run(listens).expect("a namespace")) {
            assert!(start.elapsed() < PATIENCE, "sshd does not listen");
            std::thread::yield_now();
        }
        Some(sshd)
    }

    /// The program.
    pub(crate) fn program() -> &'static str {
        SSHD.into_iter().find(|path| Path::new(path).exists()).unwrap_or("sshd")
    }

    /// A path in the folder of keys and configurations.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `weir cp` that knows this host as `far`, to be run in `sandbox`.
    pub(crate) fn cp(&self, sandbox: &Sandbox, args: &[&str]) -> Weir {
        let config = self.path("ssh_config").display().to_string();
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

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}
