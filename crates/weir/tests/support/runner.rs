//! Runs the `weir` binary in a folder of its own and keeps what it said.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Once};
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGINT;
use signal_hook::flag::register_conditional_default;
use weir_get::journal::Journal;

use super::{MIB, TIMEOUT, wait_for};

/// The binary under test.
pub(crate) const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// What must not reach weir from the environment of whoever runs the tests.
const FOREIGN: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "NETRC",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NO_COLOR",
    "RUST_LOG",
    "WEIR_CONFIG",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_STS",
    "AWS_CA_BUNDLE",
    "AWS_ROLE_ARN",
    "RUST_BACKTRACE",
    // Whose requests to stores are.
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "STORAGE_EMULATOR_HOST",
    "AZURE_STORAGE_ACCOUNT",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_CLIENT_ID",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "CLOUDSDK_AUTH_ACCESS_TOKEN",
    "AZURE_STORAGE_ENDPOINT",
    "HF_TOKEN",
    "HF_TOKEN_PATH",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "DOCKER_CONFIG",
    "REGISTRY_AUTH_FILE",
    "XDG_RUNTIME_DIR",
    // How wide help is.
    "COLUMNS",
    "LINES",
];

/// Nobody is asked for credentials who listens outside this machine.
const NO_METADATA: [(&str, &str); 3] = [
    ("AWS_EC2_METADATA_DISABLED", "true"),
    ("NO_GCE_CHECK", "true"),
    // Where nobody listens: Azure has no switch.
    ("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1"),
];

/// A shell that runs the tests in the background has SIGINT ignored, and so would be whatever starts here.
fn heed_interrupts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let always = Arc::new(AtomicBool::new(true));
        register_conditional_default(SIGINT, always).expect("a handler");
    });
}

/// A folder in which weir runs.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    /// An empty one.
    pub(crate) fn new() -> Sandbox {
        heed_interrupts();
        Sandbox { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// One below another folder than that for temporary files.
    pub(crate) fn new_in(folder: &Path) -> Sandbox {
        heed_interrupts();
        Sandbox { folder: tempfile::tempdir_in(folder).expect("a temporary folder") }
    }

    /// A path in it.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file's bytes.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name))
            .unwrap_or_else(|error| panic!("{name}: {error}; there: {:?}", self.names()))
    }

    /// Puts a file there.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file can be written");
        path
    }

    /// Makes a named pipe there. Without a writer, who opens it to read waits for ever.
    pub(crate) fn pipe(&self, name: &str) {
        mkfifoat(CWD, self.path(name), Mode::RUSR | Mode::WUSR).expect("a pipe can be made");
    }

    /// Every file and folder below it, sorted, with `/` after folders.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a readable folder").flatten() {
                let path = entry.path();
                let inside = path.strip_prefix(self.folder.path()).expect("a path inside");
                let slash = if path.is_dir() { "/" } else { "" };
                names.push(format!("{}{slash}", inside.to_string_lossy()));
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path);
                }
            }
        }
        names.sort();
        names
    }

    /// Fails if `name`, or anything of it, is there.
    pub(crate) fn has_nothing_of(&self, name: &str) {
        let names = self.names();
        assert!(!names.iter().any(|there| there.starts_with(name)), "{names:?}");
    }

    /// `weir get`, to be run in the folder.
    pub(crate) fn get<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Weir {
        let mut weir = self.weir(WEIR, ["get"]);
        weir.command.args(args);
        weir
    }

    /// Bytes of `name` that its journal says are there; 0 without one.
    pub(crate) fn journalled(&self, name: &str) -> u64 {
        let journal = Journal::read(&self.path(format!("{name}.weir")));
        journal.ok().flatten().map_or(0, |journal| journal.stored().len())
    }

    /// Begins to fetch `url`, of some MiB, into `out`, and interrupts it once a quarter of a MiB is there: it
    /// is so slow that its end is seconds away then.
    pub(crate) fn begin_and_interrupt(&self, url: &str, args: &[&str]) {
        let running = self.get([url, "-o", "out", "--limit-rate", "1M"]).args(args).spawn();
        // A file that cannot be gone on with has no journal: its part is looked at.
        wait_for("bytes of the file", || {
            let mut some = [0_u8; 64];
            let part = std::fs::File::open(self.path("out.part"));
            part.is_ok_and(|part| part.read_exact_at(&mut some, MIB as u64 / 4).is_ok()) && some != [0; 64]
        });
        wait_for("its handler", || running.catches(Signal::INT));
        running.signal(Signal::INT);
        running.wait().exits(130);
    }

    /// Any program, to be run in the folder as `weir` is.
    pub(crate) fn weir<I: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = I>,
    ) -> Weir {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).env("HOME", self.folder.path());
        for name in FOREIGN {
            command.env_remove(name);
        }
        command.envs(NO_METADATA);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Weir { command, input: Vec::new() }
    }

    /// `weir serve` of `folder`, on a free port.
    pub(crate) fn serve(&self, folder: &str, args: &[&str]) -> Serving {
        Serving::start(self, folder, args, Stdio::inherit())
    }

    /// The same; what it says on stderr goes into the file `said`.
    pub(crate) fn serve_saying(&self, folder: &str, args: &[&str], said: &str) -> Serving {
        let said = std::fs::File::create(self.path(said)).expect("a file can be written");
        Serving::start(self, folder, args, said.into())
    }
}

/// A command to be run.
pub(crate) struct Weir {
    pub(crate) command: Command,
    input: Vec<u8>,
}

impl Weir {
    /// With a variable in its environment.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Weir {
        self.command.env(name, value);
        self
    }

    /// With further arguments.
    pub(crate) fn args(mut self, args: &[&str]) -> Weir {
        self.command.args(args);
        self
    }

    /// With these bytes on its stdin.
    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Weir {
        self.command.stdin(Stdio::piped());
        self.input = bytes.into();
        self
    }

    /// With this as its stdout; [`Run::stdout`] then stays empty.
    pub(crate) fn stdout(mut self, stdout: impl Into<Stdio>) -> Weir {
        self.command.stdout(stdout);
        self
    }

    /// Starts it.
    pub(crate) fn spawn(mut self) -> Running {
        let shown = format!("{:?}", self.command);
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        if let Some(stdin) = child.stdin.take() {
            feed(stdin, self.input);
        }
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        Running { shown, child, stdout, stderr }
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Run {
        self.spawn().wait()
    }
}

/// A command at work; killed if the test forgets it.
pub(crate) struct Running {
    shown: String,
    child: Child,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
}

impl Running {
    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// It has a handler for the signal by now (`SigCgt` of proc_pid_status(5)).
    pub(crate) fn catches(&self, signal: Signal) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("a process");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a line of it");
        let caught = u64::from_str_radix(caught.trim(), 16).expect("hexadecimal digits");
        caught & 1 << (signal.as_raw() - 1) != 0
    }

    /// Its resident memory, bytes.
    pub(crate) fn resident(&self) -> u64 {
        resident(self.id())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a process to signal");
    }

    /// Waits for its end; a test that waits too long fails.
    pub(crate) fn wait(self) -> Run {
        self.wait_for(TIMEOUT)
    }

    /// The same, for what may take longer.
    pub(crate) fn wait_for(mut self, timeout: Duration) -> Run {
        // weir has no children: its pipes close when it ends.
        let streams = [&self.stdout, &self.stderr].map(|stream| stream.recv_timeout(timeout));
        let [Ok(stdout), Ok(stderr)] = streams else {
            let _ = self.child.kill();
            let said = self.stderr.recv().unwrap_or_default();
            panic!("{} did not end in {timeout:?}; it said: {}", self.shown, String::from_utf8_lossy(&said));
        };
        let status = self.child.wait().expect("a child to wait for");
        let stderr = unfolded(&String::from_utf8_lossy(&stderr));
        Run { shown: std::mem::take(&mut self.shown), status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) shown: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    /// Each line as it was before it was folded.
    pub(crate) stderr: String,
}

impl Run {
    /// Its exit code must be this one, and it must not have panicked.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Run {
        assert!(!self.stderr.contains("panicked"), "{}\n{}", self.shown, self.stderr);
        assert_eq!(self.status.code(), Some(code), "{}\n{}", self.shown, self.stderr);
        self
    }

    /// It must have succeeded.
    #[track_caller]
    pub(crate) fn succeeds(&self) -> &Run {
        self.exits(0)
    }

    /// Its exit code must be this one, and its stderr must name all of `texts`.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, texts: &[&str]) -> &Run {
        self.exits(code).says(texts)
    }

    /// Its stderr must name all of `texts`.
    #[track_caller]
    pub(crate) fn says(&self, texts: &[&str]) -> &Run {
        for text in texts {
            assert!(self.stderr.contains(text), "{}\ndid not say '{text}':\n{}", self.shown, self.stderr);
        }
        self
    }

    /// Neither stream may hold `secret`.
    #[track_caller]
    pub(crate) fn hides(&self, secret: &str) -> &Run {
        let stdout = String::from_utf8_lossy(&self.stdout);
        assert!(!self.stderr.contains(secret), "'{secret}' in stderr:\n{}", self.stderr);
        assert!(!stdout.contains(secret), "'{secret}' in stdout:\n{stdout}");
        self
    }

    /// The record of `--json`.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        let shown = || format!("{}\n{}\n{}", self.shown, String::from_utf8_lossy(&self.stdout), self.stderr);
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown()))
    }
}

/// The lines before they were folded: what goes on stands at least four columns from the edge.
pub(crate) fn unfolded(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.strip_prefix("    ") {
            Some(rest) if lines.ends_with('\n') && !lines.ends_with("\n\n") => {
                lines.truncate(lines.len() - 1);
                lines.push(' ');
                lines.push_str(rest.trim_start_matches(' '));
            }
            _ => lines.push_str(line),
        }
    }
    lines
}

/// A running `weir serve`.
pub(crate) struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    fn start(sandbox: &Sandbox, folder: &str, args: &[&str], stderr: Stdio) -> Serving {
        let listen = if args.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] };
        let mut command = sandbox.weir(WEIR, ["serve", folder]).command;
        command.args(listen).args(args).stderr(stderr);
        let mut child = command.spawn().expect("weir serve starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("weir serve says where it listens");
        let url = line.split_whitespace().next_back().unwrap_or_default().to_owned();
        assert!(url.starts_with("http"), "weir serve said {line:?}");
        Serving { child, url }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        let (_, rest) = self.url.split_once("://").expect("a URL");
        rest.trim_end_matches('/').parse().expect("an address")
    }

    /// Its resident memory, bytes.
    pub(crate) fn resident(&self) -> u64 {
        resident(self.child.id())
    }

    /// The URL of a file in the folder.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a process to signal");
    }

    /// Ends it as a user would, and returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.child.wait().expect("a child to wait for").code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.expect("a process that has not ended").trim().trim_end_matches(" kB");
    kib.parse::<u64>().expect("a number") << 10
}

fn collect(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

fn feed(mut stdin: ChildStdin, bytes: Vec<u8>) {
    std::thread::spawn(move || {
        let _ = stdin.write_all(&bytes);
    });
}
