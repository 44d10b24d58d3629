//! A PostgreSQL of the test's own: an ordinary cluster in a folder of its own, reached over its socket alone.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;

/// Who runs it where the test is root, whom it refuses: `nobody`.
const NOBODY: u32 = 65534;

/// A folder in memory where there is one: every transaction waits for its disk.
pub fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a folder")
}

pub struct Cluster {
    folder: tempfile::TempDir,
    programs: PathBuf,
    server: Mutex<Option<Child>>,
    /// Where it listens for TCP, and whether it speaks TLS.
    network: Mutex<Network>,
}

/// How it is reached beside its socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Not at all.
    None,
    /// At 127.0.0.1, at this port, with a password.
    Plain(u16),
    /// The same with TLS, by `server.pem` and `server.key` in its folder.
    Tls(u16),
}

/// The password of its user, whom it asks for it over the network alone.
pub const PASSWORD: &str = "s3cret-of-the-fleet";

/// Where Debian and others put its programs.
fn programs() -> Option<PathBuf> {
    let of_debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = of_debian.map(|entry| entry.path().join("bin")).collect();
    folders.sort();
    folders.reverse();
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    folders.into_iter().find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

impl Cluster {
    /// A running one; `None`, and a word on it, where PostgreSQL is not installed.
    pub fn start() -> Option<Cluster> {
        let Some(programs) = programs() else {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "PostgreSQL is not installed");
            println!("skipped: PostgreSQL is not installed (scripts/need test)");
            return None;
        };
        let folder = folder();
        if is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("a folder of nobody");
        }
        let (server, network) = (Mutex::new(None), Mutex::new(Network::None));
        let cluster = Cluster { folder, programs, server, network };
        let password = cluster.path("password");
        std::fs::write(&password, PASSWORD).expect("a file");
        let made = cluster
            .program("initdb")
            .args(["-U", "fleet", "--auth-local=trust", "--auth-host=scram-sha-256", "-E", "UTF8"])
            .args(["--locale=C", "--no-sync", "--pwfile"])
            .arg(password)
            .arg("-D")
            .arg(cluster.data())
            .output();
        succeeded(made.expect("initdb runs"));
        cluster.begin();
        Some(cluster)
    }

    /// Begins anew, reached by `network` too.
    pub fn listen(&self, network: Network) {
        self.stop();
        *self.network.lock().unwrap() = network;
        self.begin();
    }

    /// A file of its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Gives a file of its folder to the server, which reads no key that others own.
    pub fn hand_over(&self, name: &str) {
        if is_root() {
            chown(self.path(name), Some(NOBODY), Some(NOBODY)).expect("a file of nobody");
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(program);
                command
            }
            false => Command::new(program),
        };
        command.current_dir(self.folder.path()).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// Starts the server, and waits until it answers.
    pub fn begin(&self) {
        let log = std::fs::File::create(self.folder.path().join("log")).expect("a log");
        let mut server = self.program("postgres");
        server.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path());
        // What is written is in the kernel, which outlives a stop of the server.
        server.args(["-c", "fsync=off", "-c", "max_connections=50"]);
        match *self.network.lock().unwrap() {
            Network::None => drop(server.args(["-h", ""])),
            Network::Plain(port) => drop(server.args(["-h", "127.0.0.1", "-p", &port.to_string()])),
            Network::Tls(port) => {
                server.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-c", "ssl=on"]);
                let file = |name: &str| self.path(name).display().to_string();
                server.args(["-c", &format!("ssl_cert_file={}", file("server.pem"))]);
                server.args(["-c", &format!("ssl_key_file={}", file("server.key"))]);
            }
        }
        let child = server.stdout(Stdio::null()).stderr(log).spawn().expect("postgres runs");
        *self.server.lock().unwrap() = Some(child);
        let is_up = || {
            let mut ready = self.program("pg_isready");
            if let Network::Plain(port) | Network::Tls(port) = *self.network.lock().unwrap() {
                ready.args(["-p", &port.to_string()]);
            }
            let ready = ready.arg("-q").arg("-h").arg(self.folder.path()).status();
            ready.expect("pg_isready runs").success()
        };
        while !is_up() {
            let mut server = self.server.lock().unwrap();
            let ended = server.as_mut().expect("a server").try_wait().expect("its status");
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(ended.is_none(), "postgres ended: {}", log());
            std::thread::yield_now();
        }
    }

    /// Does these statements by psql.
    pub fn does(&self, sql: &str) {
        let file = self.path("statements");
        std::fs::write(&file, sql).expect("a file");
        let mut psql = self.program("psql");
        psql.arg("-h").arg(self.folder.path()).args(["-U", "fleet", "-d", "postgres", "-q"]);
        psql.args(["-v", "ON_ERROR_STOP=1", "-f"]).arg(file);
        succeeded(psql.output().expect("psql runs"));
    }

    /// What psql answers to these: a row a line, columns with `|` between them.
    pub fn answers(&self, statements: &[&str]) -> String {
        let mut psql = self.program("psql");
        psql.arg("-h").arg(self.folder.path()).args(["-U", "fleet", "-d", "postgres", "-qAtX"]);
        for sql in statements {
            psql.args(["-c", sql]);
        }
        let output = psql.output().expect("psql runs");
        let answer = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        succeeded(output);
        answer
    }

    /// Ends the server at once, as a crash does (SIGQUIT: an immediate shutdown).
    pub fn stop(&self) {
        let Some(mut child) = self.server.lock().unwrap().take() else { return };
        let quit = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status();
        assert!(quit.expect("kill runs").success());
        let ended = child.wait().expect("it ends");
        assert!(ended.code().is_some() || ended.signal().is_some());
    }

    /// Kills the server, as a lack of memory does. The next one wants no process of it left, and they end by
    /// themselves when they see that it is gone.
    pub fn kill(&self) {
        let Some(mut child) = self.server.lock().unwrap().take() else { return };
        child.kill().expect("a server to kill");
        child.wait().expect("it ends");
        let data = self.data();
        let is_of_it = |process: &std::fs::DirEntry| {
            std::fs::read_link(process.path().join("cwd")).is_ok_and(|folder| folder == data)
        };
        while std::fs::read_dir("/proc").expect("processes").flatten().any(|process| is_of_it(&process)) {
            std::thread::yield_now();
        }
    }

    /// The address of a ledger in it, in a schema of its own.
    pub fn url(&self, schema: &str) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://fleet@{folder}/postgres?schema={schema}")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|own| own.uid() == 0)
}

fn succeeded(output: Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
