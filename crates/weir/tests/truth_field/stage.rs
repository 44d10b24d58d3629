//! The stage of one run: two hosts joined by a path, both as the case's variables say.
//!
//! | variable | what it does |
//! | --- | --- |
//! | `rtt`, `rate`, `queue` | round trip in ms; rate of both directions; the queue in front of it |
//! | `codel` | that queue is managed: CoDel with its usual 5 ms |
//! | `loss`, `burst`, `policer`, `reorder` | of what comes from the far end (`burst`: share in runs of ten; `policer`: a rate, 30 KB) |
//! | `way` | `up`: what the line above does to the far end's packets happens to the near end's |
//! | `cc` | congestion control of both ends |
//! | `near.net...`, `far.net...` | a sysctl of that end |
//! | `tc_near`, `tc_far` | the queueing discipline of its interface, in tc's words |
//! | `nft_near`, `nft_far` | a rule for what comes in there, in nft's words |
//! | `disk` | `$DISK` is a folder on a disk of this rate; what the near end writes falls under it |
//! | `quota` | the work, or the service that is marked `burden`, gets this share of one core |
//! | `resolv` | the near end's resolvers |
//! | `user` | `nobody`: every program and `weir` itself run as an ordinary user |
//! | `watcher` | `nobody`: only `weir` does |

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use weir_lab::bed::{Bed, FAR, INTERFACE, NEAR};
use weir_lab::congestion::{self, Allowed};
use weir_lab::leftovers::Folder;
use weir_lab::netns::Namespace;
use weir_lab::path::{
    Direction, Discipline, GilbertElliott, Loss, Path as Route, Policer, Queue, QueueLimit, Reorder, Share,
};
use weir_lab::slow_core::{SlowCore, SlowCoreConfig};
use weir_lab::slow_disk::{SlowDisk, SlowDiskConfig};
use weir_units::{Bytes, Rate};

use crate::story::{End, Variables};

/// What `tcp_wmem` must let a send buffer grow to, so that no healthy path is held by this machine's own.
const SEND_BUFFER: &str = "4096 16384 67108864";

/// A policer's bucket, bytes: 6 ms of 40 Mbit/s.
const BUCKET: u64 = 30_000;

/// Files that servers have to offer, by the name of their size.
const FILES: [(&str, u64); 9] = [
    ("100", 100),
    ("1k", 1000),
    ("10k", 10_000),
    ("100k", 100_000),
    ("1M", 1_000_000),
    ("2M", 2_000_000),
    ("5M", 5_000_000),
    ("20M", 20_000_000),
    ("100M", 100_000_000),
];

/// What every stage needs, made once.
pub(crate) struct Lab {
    _allowed: Allowed,
    leftovers: Folder,
    shared: tempfile::TempDir,
    count: AtomicU32,
}

impl Lab {
    /// Opens it; an error says what this machine does not allow.
    pub(crate) fn open(weir: &Path) -> anyhow::Result<Lab> {
        anyhow::ensure!(rustix::process::geteuid().is_root(), "needs root: two hosts, their users and disks");
        Bed::new(&Route::default()).context("cannot make a test bed")?;
        let lab = Lab {
            _allowed: congestion::allow()?,
            leftovers: Folder::new()?,
            // Below /tmp, where an ordinary user may go.
            shared: tempfile::tempdir_in("/tmp")?,
            count: AtomicU32::new(0),
        };
        open_to_all(lab.shared.path())?;
        std::fs::copy(weir, lab.weir())?;
        std::fs::create_dir(lab.programs())?;
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/truth_field/programs");
        for entry in std::fs::read_dir(own)?.flatten() {
            std::fs::copy(entry.path(), lab.programs().join(entry.file_name()))?;
        }
        let www = lab.shared.path().join("www");
        std::fs::create_dir(&www)?;
        for (name, size) in FILES {
            std::fs::File::create(www.join(name))?.set_len(size)?;
        }
        // Text that packs to about half, as logs do: lines of hexadecimal digits.
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut lines = String::new();
        while lines.len() < 24_000_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            lines.push_str(&format!("{state:016x}\n"));
        }
        std::fs::write(www.join("text"), lines)?;
        Ok(lab)
    }

    pub(crate) fn weir(&self) -> PathBuf {
        self.shared.path().join("weir")
    }

    fn programs(&self) -> PathBuf {
        self.shared.path().join("programs")
    }
}

/// Where programs are: the usual folders, and those in which Debian keeps PostgreSQL's server.
pub(crate) fn folders() -> Vec<String> {
    let usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let servers = versions.map(|version| version.path().join("bin").display().to_string());
    usual.into_iter().map(str::to_owned).chain(servers).collect()
}

/// Readable, writable and enterable by everyone.
fn open_to_all(path: &Path) -> anyhow::Result<()> {
    Ok(std::fs::set_permissions(path, PermissionsExt::from_mode(0o777))?)
}

/// Two hosts; gone when dropped.
pub(crate) struct Stage<'a> {
    lab: &'a Lab,
    pub(crate) bed: Bed,
    pub(crate) folder: tempfile::TempDir,
    variables: Variables,
    disk: Option<SlowDisk>,
    core: Option<SlowCore>,
}

impl<'a> Stage<'a> {
    pub(crate) fn set(lab: &'a Lab, variables: &Variables) -> anyhow::Result<Stage<'a>> {
        let bed = Bed::new(&route(variables)?)?;
        bed.set_sysctl("net.ipv4.tcp_wmem", SEND_BUFFER)?;
        bed.set_sysctl(
            "net.ipv4.tcp_congestion_control",
            variables.get("cc").map_or("cubic", String::as_str),
        )?;
        let folder = tempfile::tempdir_in(lab.shared.path())?;
        open_to_all(folder.path())?;
        let mut stage = Stage { lab, bed, folder, variables: variables.clone(), disk: None, core: None };
        for (name, value) in variables {
            stage.apply(name, value).with_context(|| format!("cannot set {name} to {value}"))?;
        }
        Ok(stage)
    }

    fn apply(&mut self, name: &str, value: &str) -> anyhow::Result<()> {
        if value.is_empty() {
            return Ok(());
        }
        for end in [End::Near, End::Far] {
            let sysctl = name.strip_prefix(end.name()).and_then(|rest| rest.strip_prefix('.'));
            if let Some(sysctl) = sysctl {
                self.host(end).set_sysctl(sysctl, value)?;
            }
            if name == format!("tc_{}", end.name()) {
                self.administer(end, &format!("tc qdisc replace dev {INTERFACE} root {value}"))?;
            }
            if name == format!("nft_{}", end.name()) {
                let table = format!(
                    "table inet field {{\nchain in {{\ntype filter hook input priority 0;\n{value}\n}}\n}}\n"
                );
                std::fs::write(self.folder.path().join("nft"), table)?;
                self.administer(end, "nft -f $DIR/nft")?;
            }
        }
        match name {
            "disk" => {
                let rate: Rate = value.parse().map_err(anyhow::Error::msg)?;
                // A quarter of a second of the disk may wait in memory: the threshold is soon reached.
                let dirty = Some(Bytes(((0.25 * rate.0) as u64).max(1 << 20)));
                let config = SlowDiskConfig { rate, dirty, size: Bytes(1 << 30) };
                let number = self.lab.count.fetch_add(1, Relaxed);
                let disk = SlowDisk::make(&self.lab.leftovers, &format!("disk-{number}"), &config)?;
                open_to_all(disk.path())?;
                self.disk = Some(disk);
            }
            "quota" => {
                self.core = Some(SlowCore::make(&self.lab.leftovers, SlowCoreConfig::Quota(value.parse()?))?);
            }
            "resolv" => {
                let path = self.folder.path().join("resolv.conf");
                let servers = value.split(' ').map(|server| format!("nameserver {server}\n"));
                let text = servers.collect::<String>() + "options timeout:5 attempts:2\n";
                std::fs::write(path, text)?;
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn host(&self, end: End) -> &Namespace {
        match end {
            End::Near => self.bed.near(),
            End::Far => self.bed.far(),
        }
    }

    fn administer(&self, end: End, line: &str) -> anyhow::Result<()> {
        let mut command = self.shell(end, line, None)?;
        let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
        anyhow::ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// A program of the story at one end; with its `burden` it falls under quota and disk.
    pub(crate) fn program(&self, end: End, line: &str, burden: bool) -> anyhow::Result<Command> {
        let mut command = self.shell(end, line, self.variables.get("user").map(String::as_str))?;
        if burden {
            self.burden(&mut command)?;
        }
        Ok(command)
    }

    fn burden(&self, command: &mut Command) -> anyhow::Result<()> {
        if let Some(disk) = &self.disk {
            disk.join(command)?;
        }
        if let Some(core) = &self.core {
            core.join(command)?;
        }
        Ok(())
    }

    /// `weir why` at one end, with these words; under the burden of the work that it runs itself.
    pub(crate) fn why(&self, end: End, line: &str, burden: bool) -> anyhow::Result<Command> {
        let user = self.variables.get("watcher").or(self.variables.get("user")).map(String::as_str);
        let mut command = self.shell(end, &format!("exec $WEIR why {line}"), user)?;
        if burden {
            self.burden(&mut command)?;
        }
        Ok(command)
    }

    fn shell(&self, end: End, line: &str, user: Option<&str>) -> anyhow::Result<Command> {
        let mut command = match user.filter(|user| *user != "root") {
            Some("nobody") => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", line]);
                command
            }
            Some(user) => anyhow::bail!("unknown user {user}: expected root or nobody"),
            None => {
                let mut command = Command::new("sh");
                command.args(["-c", line]);
                command
            }
        };
        if end == End::Near && self.variables.contains_key("resolv") {
            command = resolving(&command, self.folder.path());
        }
        command.env_clear().current_dir(self.folder.path());
        command.envs(self.variables.iter().filter(|(name, _)| !name.contains('.')));
        command
            .env("PATH", folders().join(":"))
            .env("HOME", self.folder.path())
            .env("DIR", self.folder.path())
            .env("WWW", self.lab.shared.path().join("www"))
            .env("PROGRAMS", self.lab.programs())
            .env("WEIR", self.lab.weir())
            .env("WEIR_CONFIG", "")
            .env("PEER", FAR.to_string())
            .env("NEAR", NEAR.to_string())
            .env("DISK", self.disk.as_ref().map_or(self.folder.path(), SlowDisk::path))
            .stdin(Stdio::null());
        self.host(end).enter(&mut command)?;
        Ok(command)
    }
}

/// The same command with this run's resolv.conf in place of the machine's.
fn resolving(inner: &Command, folder: &Path) -> Command {
    let mut outer = Command::new("unshare");
    let script = "mount --bind \"$0/resolv.conf\" /etc/resolv.conf && exec \"$@\"";
    outer.args(["--mount", "sh", "-c", script]).arg(folder).arg(inner.get_program()).args(inner.get_args());
    outer
}

fn route(variables: &Variables) -> anyhow::Result<Route> {
    let get = |name: &str| variables.get(name).filter(|value| !value.is_empty());
    let milliseconds: f64 = get("rtt").map_or(Ok(20.0), |text| text.parse()).context("rtt")?;
    let rate: Option<Rate> = get("rate").map(|text| text.parse()).transpose().map_err(anyhow::Error::msg)?;
    let delay = Duration::from_secs_f64(milliseconds / 2e3);
    let queue: Option<Bytes> =
        get("queue").map(|text| text.parse()).transpose().map_err(anyhow::Error::msg)?;
    let mut up = Direction { rate, delay, ..Direction::default() };
    let mut down = up.clone();
    if let Some(bytes) = queue {
        down.queue = Queue { limit: QueueLimit::Bytes(bytes), ..Queue::default() };
    }
    if get("codel").is_some() {
        down.queue.discipline = Discipline::CODEL;
    }
    if let Some(text) = get("loss") {
        down.loss = Loss::Random(share(text)?);
    }
    if let Some(text) = get("burst") {
        down.loss = Loss::Burst(GilbertElliott::bursts(share(text)?, 10.0));
    }
    if let Some(text) = get("reorder") {
        down.reorder = Some(Reorder { share: share(text)?, early: delay / 2 });
    }
    if let Some(text) = get("policer") {
        let rate = text.parse().map_err(anyhow::Error::msg)?;
        down.policer = Some(Policer { rate, burst: Bytes(BUCKET) });
    }
    if get("way").is_some_and(|way| way == "up") {
        std::mem::swap(&mut up, &mut down);
    }
    Ok(Route { up, down, seed: 1 + milliseconds as u64, ..Route::default() })
}

fn share(text: &str) -> anyhow::Result<Share> {
    text.parse().map_err(|why| anyhow::anyhow!("{text}: {why}"))
}
