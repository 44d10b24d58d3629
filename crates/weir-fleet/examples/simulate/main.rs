//! Where does a ledger stop scaling?
//!
//! `claims` measures: so many clients at once, each with a connection of its own, claim batches of a real
//! ledger and finish them, as fast as it answers.
//!
//! `fleet` simulates: thousands of workers, their kills, their stragglers and a database that stops, under a
//! clock that jumps from one event to the next. The ledger is the real one, with its real statements, in a
//! file in memory; how long it takes to answer is given, as `claims` measured it. Nothing is moved.
//!
//!     cargo run --release -p weir-fleet --example simulate -- claims --clients 1,16,64,256
//!     cargo run --release -p weir-fleet --example simulate -- claims --ledger postgres://fleet@%2Ftmp/fleet
//!     cargo run --release -p weir-fleet --example simulate -- fleet --workers 1000 --objects 10000000
//!
//! Each prints lines of a table. `docs/scale.md` has what they said.

mod claims;
mod events;
mod fleet;

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use weir_fleet::ledger::{PlanEnds, PlanStep, PlannedBatch, SqlLedger};

/// How long a batch is held, as `weir fleet work` has it.
const LEASE: Duration = Duration::from_secs(30);

/// Batches that are added in a transaction, as by `weir fleet plan`.
const APPENDED: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let flags = Flags::of(words)?;
    match what.as_str() {
        "claims" => claims::run(&flags),
        "fleet" => fleet::run(&flags),
        other => Err(format!("unknown '{other}': expected claims or fleet, and flags").into()),
    }
}

/// What the command line says, by name.
struct Flags(HashMap<String, String>);

impl Flags {
    fn of(mut words: impl Iterator<Item = String>) -> Result<Flags, Box<dyn Error>> {
        let mut flags = HashMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or_else(|| format!("unexpected '{word}'"))?;
            flags.insert(name.to_owned(), words.next().ok_or_else(|| format!("--{name} needs a value"))?);
        }
        Ok(Flags(flags))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, name: &str, usual: T) -> Result<T, Box<dyn Error>> {
        let Some(text) = self.text(name) else { return Ok(usual) };
        text.parse().map_err(|_| format!("invalid --{name} '{text}': expected a number").into())
    }
}

/// A folder of a run's own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    /// In `around`, or where temporary files are.
    fn new(around: Option<&str>) -> Result<Folder, std::io::Error> {
        let around = around.map_or_else(std::env::temp_dir, PathBuf::from);
        let path = around.join(format!("simulate-{}-{:08x}", std::process::id(), fastrand::u32(..)));
        std::fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A whole plan of so many batches like `batch`.
fn plan(ledger: &mut SqlLedger, batches: u64, batch: &PlannedBatch) -> Result<(), Box<dyn Error>> {
    let ends = PlanEnds { source: "/from/".to_owned(), target: "/to/".to_owned() };
    let mut lease = ledger.begin(&ends, "a simulation", 5)?;
    let many = vec![batch.clone(); APPENDED];
    let mut left = batches;
    while left > 0 {
        let some = left.min(APPENDED as u64);
        must(ledger.append(&mut lease, &many[..some as usize], &[])?)?;
        left -= some;
    }
    must(ledger.seal(&lease)?)
}

fn must(step: PlanStep) -> Result<(), Box<dyn Error>> {
    match step {
        PlanStep::Done => Ok(()),
        PlanStep::Lost => Err("another planner has the ledger".into()),
    }
}
