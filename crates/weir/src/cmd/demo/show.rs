//! What the scenes share: the embedded server, `weir get` as a child with its summary printed, and how they
//! speak.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use weir_lab::child::Running;
use weir_lab::leftovers::Folder;
use weir_report::schema::Record;
use weir_report::{json, terminal};
use weir_serve::{Config, Content, Handle, Server};
use weir_units::{Bytes, Rate, human_duration};

use crate::voice::{self, Printed};

/// How a scene ended; an error means that it could not show what it is for.
pub enum SceneOutcome {
    /// All of it was shown.
    Shown,
    /// This machine does not allow it, and why.
    Skipped(String),
}

/// The stage crew.
pub struct Show {
    stop: Arc<AtomicBool>,
    folder: Folder,
    /// The scene's part of the folder, where its commands run.
    scene: PathBuf,
    /// Why no slow path can be emulated here, if so.
    no_lab: Option<weir_lab::LabError>,
}

/// A `weir get` that ended well.
pub struct Got {
    /// What it reported.
    pub record: Record,
    /// From the start of the process to its end, which is a little more than the record's time.
    pub wall: Duration,
}

impl Show {
    /// Makes the folder and removes what a killed demo left.
    pub fn open(stop: Arc<AtomicBool>, no_lab: Option<weir_lab::LabError>) -> anyhow::Result<Show> {
        let folder = Folder::new()?;
        let scene = folder.path().to_owned();
        Ok(Show { stop, folder, scene, no_lab })
    }

    /// Set once the user wants to end it.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Why no slow path can be emulated here, if so.
    pub fn no_lab(&self) -> Option<&weir_lab::LabError> {
        self.no_lab.as_ref()
    }

    /// The folder of the whole demo, where slow disks are made.
    pub fn whole_folder(&self) -> &Folder {
        &self.folder
    }

    /// The user wants to end it.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// A folder for the scene `name`.
    pub fn enter(&mut self, name: &str) -> anyhow::Result<()> {
        self.scene = self.folder.path().join(name);
        fs::create_dir_all(&self.scene).with_context(|| format!("cannot make {}", self.scene.display()))
    }

    /// Removes the scene's folder.
    pub fn leave(&self) {
        // What resists is tried again, and reported, when the whole folder goes.
        let _ = fs::remove_dir_all(&self.scene);
    }

    /// Where the scene's commands run.
    pub fn folder(&self) -> &Path {
        &self.scene
    }

    /// One line of plain text.
    pub fn say(&self, text: &str) -> anyhow::Result<()> {
        writeln!(io::stdout().lock(), "{text}").printed("what it shows")
    }

    /// Begins a new line where a child that was killed left its live line.
    pub fn leave_live_line(&self) {
        if io::stderr().is_terminal() {
            // A terminal that went away is of no concern.
            let _ = writeln!(io::stderr());
        }
    }

    /// The scene's first line.
    pub fn title(&self, text: &str) -> anyhow::Result<()> {
        if voice::colours(&io::stdout()) {
            self.say(&format!("\x1b[1m{text}\x1b[0m"))
        } else {
            self.say(text)
        }
    }

    /// The scene's last line.
    pub fn see(&self, text: &str) -> anyhow::Result<()> {
        self.say(&format!("what to see: {text}"))
    }

    /// Serves generated files on a free port of 127.0.0.1; `limit` is for each connection.
    pub fn serve(&self, files: Vec<(String, u64)>, limit: Option<Rate>) -> anyhow::Result<Handle> {
        self.serve_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), files, limit)
    }

    /// As [`serve`](Show::serve), at this address.
    pub fn serve_at(
        &self,
        address: SocketAddr,
        files: Vec<(String, u64)>,
        limit: Option<Rate>,
    ) -> anyhow::Result<Handle> {
        let config = Config { limit_rate: limit, ..Config::new(Content::Generated(files)).listen(address) };
        Ok(Server::bind(config)?.spawn()?)
    }

    /// Prints and runs `weir get ARGS`, prints its summary; fails if it fails.
    pub fn get(&self, args: &[&str]) -> anyhow::Result<Got> {
        self.get_by(weir()?, args)
    }

    /// As [`get`](Show::get), by a command that ends in this program's name.
    pub fn get_by(&self, program: Command, args: &[&str]) -> anyhow::Result<Got> {
        let running = self.start_get(program, args)?;
        let (status, wall) = running.finish()?;
        let text = fs::read_to_string(self.record_path()).context("cannot read the record")?;
        let record = json::parse(&text);
        if let Ok(record) = &record {
            terminal::render_summary(record, voice::sheet(&io::stdout()), &mut io::stdout().lock())
                .printed("what it shows")?;
        }
        anyhow::ensure!(status.success(), "weir get: {status}");
        Ok(Got { record: record.context("cannot read the record")?, wall })
    }

    /// Prints and starts `weir get ARGS`. Its live line goes to the terminal as ever, its record to a file.
    pub fn start_get(&self, mut program: Command, args: &[&str]) -> anyhow::Result<Running> {
        self.say(&format!("$ weir get {}", args.join(" ")))?;
        let record = File::create(self.record_path()).context("cannot write the record")?;
        // The record holds more than the summary, and rendering it here prints what the child would print.
        self.start(program.args(["--no-config", "get", "--json"]).args(args).stdout(record))
    }

    /// Prints and runs a command of another maker. Returns its wall time.
    pub fn run(&self, name: &str, args: &[&str]) -> anyhow::Result<Duration> {
        self.say(&format!("$ {name} {}", args.join(" ")))?;
        let (status, wall) = self.start(Command::new(name).args(args))?.finish()?;
        anyhow::ensure!(status.success(), "{name}: {status}");
        Ok(wall)
    }

    fn start(&self, command: &mut Command) -> anyhow::Result<Running> {
        // A proxy of the environment cannot know this machine's own address.
        let local = [("no_proxy", "127.0.0.1"), ("NO_PROXY", "127.0.0.1")];
        let name = command.get_program().display().to_string();
        Running::start(command.current_dir(&self.scene).envs(local).stdin(Stdio::null()), &self.stop)
            .with_context(|| format!("cannot start {name}"))
    }

    fn record_path(&self) -> PathBuf {
        self.folder.path().join("record.json")
    }
}

/// This program.
pub fn weir() -> anyhow::Result<Command> {
    Ok(Command::new(std::env::current_exe().context("cannot find this program's own file")?))
}

/// `0.84 s, 12.1 MB of memory`: a run's wall time and peak, as far as known.
pub fn cost(got: &Got) -> String {
    match got.record.peak_memory {
        Some(peak) => format!("{}, {} of memory", seconds(got.wall), Bytes(peak)),
        None => seconds(got.wall),
    }
}

/// `0.84 s`.
pub fn seconds(span: Duration) -> String {
    if span < Duration::from_secs(10) { format!("{:.2} s", span.as_secs_f64()) } else { human_duration(span) }
}

/// `1.6 times`: how often `small` goes into `large`.
pub fn times(large: f64, small: f64) -> String {
    let ratio = large / small;
    if ratio < 9.95 { format!("{ratio:.1} times") } else { format!("{ratio:.0} times") }
}

/// The limit that the verdict named.
pub fn limit(got: &Got) -> &str {
    got.record.verdict.as_ref().and_then(|verdict| verdict.limit.as_deref()).unwrap_or("not known")
}
