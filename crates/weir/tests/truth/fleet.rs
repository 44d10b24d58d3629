//! Is the verdict on a fleet right?
//!
//! Hosts are network namespaces behind a router, and a server stands behind another link of it: each host's
//! own link, the one that all share, the server and the hosts' disks are as a case says. Each host runs
//! `weir fleet work`; hosts join one after the other, so that the fleet has its trials, and
//! `weir fleet status --json` is asked until it says something or is too late.

#[path = "fleet/cases.rs"]
mod cases;
#[path = "fleet/yard.rs"]
mod yard;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::Signal;
use serde_json::Value;
use weir_lab::leftovers::Folder;

use crate::support::{Running, WEIR};
use cases::{CASES, FleetCase, Says};
use yard::Yard;

/// Cases at a time: they mostly wait for their links.
const TOGETHER: usize = 2;

/// A verdict that is not there by then does not come.
const LATEST: Duration = Duration::from_secs(40);

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(300);

/// What a prediction may be off.
const OFF: f64 = 0.15;

#[test]
fn verdicts_on_fleets_are_right() {
    let _alone = crate::alone();
    if !rustix::process::geteuid().is_root() {
        return crate::skip("namespaces and slow disks need root");
    }
    let wanted = std::env::var("WEIR_TRUTH_FLEET").unwrap_or_default();
    let cases: Vec<&FleetCase> = CASES.iter().filter(|case| case.name.contains(&wanted)).collect();
    let lab = Folder::new().expect("a folder of the lab");
    let (start, next, wrong) = (Instant::now(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Relaxed)) {
                    let begun = Instant::now();
                    let told = judge(&lab, case);
                    println!("{}: {told:?} in {:.1} s", case.name, begun.elapsed().as_secs_f64());
                    let why = told.err().filter(|error| !error.is::<Void>());
                    let why = why.map(|error| format!("{}: {error:#}", case.name));
                    wrong.lock().expect("an unpoisoned list").extend(why);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("an unpoisoned list");
    println!("{} cases in {:.0} s", cases.len(), start.elapsed().as_secs_f64());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs it. What it said, or what is wrong with that.
fn judge(lab: &Folder, case: &FleetCase) -> anyhow::Result<String> {
    let yard = Yard::make(lab, case)?;
    let mut fleet = Fleet { yard: &yard, workers: Vec::new() };
    let told = says(&mut fleet, case);
    let last = fleet.status();
    fleet.end();
    told.or_else(|wrong| Void::check(&last).map_or_else(|void| Err(void.into()), |()| Err(wrong)))
}

fn says(fleet: &mut Fleet<'_>, case: &FleetCase) -> anyhow::Result<String> {
    (0..case.first).try_for_each(|_| fleet.start())?;
    if case.told > 0 {
        fleet.until("its first hosts", |verdict| told(verdict, case.first, case.told))?;
    }
    match &case.says {
        Says::Nothing => fleet.says_nothing(),
        Says::Slow(host, limits) => fleet.names(host, limits),
        Says::Shared(ends) => {
            (case.first..case.links.len()).try_for_each(|_| fleet.start())?;
            fleet.names_what_is_shared(ends)
        }
        Says::Own => {
            fleet.start()?;
            let (hosts, predicted) = fleet.predicts()?;
            fleet.start()?;
            fleet.brings(hosts, predicted)
        }
    }
}

/// This machine's processors held the hosts for so much of the time, and not what was made: others take them.
#[derive(Debug)]
struct Void(f64);

impl Void {
    /// What a busy machine takes of processes that mostly wait.
    const SHARE: f64 = 0.05;

    fn check(verdict: &Value) -> Result<(), Void> {
        let share = verdict["shares"]["cpu-core"].as_f64().unwrap_or(0.0);
        if share > Void::SHARE { Err(Void(share)) } else { Ok(()) }
    }
}

impl std::fmt::Display for Void {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "void: this machine's processors held the hosts {:.0} % of the time", 100.0 * self.0)
    }
}

impl std::error::Error for Void {}

/// So many hosts work, and told so many intervals each.
fn told(verdict: &Value, hosts: usize, intervals: u64) -> bool {
    let all = verdict["hosts"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.len() >= hosts && all.iter().all(|host| host["intervals"].as_u64() >= Some(intervals))
}

/// Workers on the hosts of a yard.
struct Fleet<'a> {
    yard: &'a Yard,
    workers: Vec<Running>,
}

impl Fleet<'_> {
    /// Starts a worker on the next host.
    fn start(&mut self) -> anyhow::Result<()> {
        self.workers.push(self.yard.work(self.workers.len())?.spawn());
        Ok(())
    }

    fn status(&self) -> Value {
        let args = ["fleet", "status", "--ledger", "plan.db", "--json"];
        let verdict = self.yard.sandbox.weir(WEIR, args).run().succeeds().json()["verdict"].clone();
        // Of what is told too shortly nothing is ever named.
        let hosts = verdict["hosts"].as_array().map(Vec::as_slice).unwrap_or_default();
        if hosts.iter().all(|host| host["intervals"].as_u64() < Some(3)) {
            assert!(verdict["limit"].is_null() && verdict["next"].is_null(), "{verdict:#}");
            assert_eq!(verdict["outliers"], Value::Array(Vec::new()), "{verdict:#}");
        }
        verdict
    }

    /// What the fleet says once it says this; `what` is waited for.
    fn until(&self, what: &str, says: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let start = Instant::now();
        loop {
            let verdict = self.status();
            if says(&verdict) {
                return Ok(verdict);
            }
            anyhow::ensure!(start.elapsed() < LATEST, "it never said {what}: {verdict:#}");
            std::thread::sleep(PAUSE);
        }
    }

    fn says_nothing(&mut self) -> anyhow::Result<String> {
        self.workers.drain(..).for_each(|worker| drop(worker.wait()));
        let verdict = self.status();
        anyhow::ensure!(
            verdict["limit"].is_null() && verdict["outliers"] == Value::Array(Vec::new()),
            "{verdict:#}"
        );
        anyhow::ensure!(verdict["hold"] == "unknown" && verdict["next"].is_null(), "{verdict:#}");
        let why = verdict["missing"].to_string();
        anyhow::ensure!(why.contains("too short"), "{why}");
        Ok(why)
    }

    fn names(&self, host: &str, limits: &[&str]) -> anyhow::Result<String> {
        let is_named = |verdict: &Value| verdict["outliers"].as_array().is_some_and(|odd| !odd.is_empty());
        let verdict = self.until("which host is slow", is_named)?;
        let odd = &verdict["outliers"];
        anyhow::ensure!(odd.as_array().map(Vec::len) == Some(1) && odd[0]["host"] == host, "{verdict:#}");
        let limit = odd[0]["limit"].as_str().unwrap_or_default();
        anyhow::ensure!(limits.contains(&limit), "{limit} holds {host}: {verdict:#}");
        let first = verdict["advice"][0]["action"].as_str().unwrap_or_default();
        anyhow::ensure!(first.starts_with(&format!("mend {host}:")), "{verdict:#}");
        Ok(format!("{} {limit}", odd[0]))
    }

    fn names_what_is_shared(&self, ends: &[&str]) -> anyhow::Result<String> {
        let verdict = self.until("what is shared", |verdict| verdict["hold"] != "unknown")?;
        let end = verdict["hold"]["shared"].as_str().unwrap_or("nothing").to_owned();
        anyhow::ensure!(ends.contains(&&*end), "{end} is shared: {verdict:#}");
        let advice = verdict["advice"].to_string();
        anyhow::ensure!(advice.contains("add no host") && !advice.contains("add hosts"), "{advice}");
        anyhow::ensure!(verdict["trial"]["outcome"] != "added", "{verdict:#}");
        Ok(format!("{end}; {}", verdict["evidence"]))
    }

    /// Hosts, and what they would move.
    fn predicts(&self) -> anyhow::Result<(u64, f64)> {
        let verdict = self.until("that each is limited by itself", |verdict| verdict["hold"] == "own")?;
        let advice = verdict["advice"][0]["action"].as_str().unwrap_or_default();
        anyhow::ensure!(advice.starts_with("add hosts"), "{verdict:#}");
        let next = &verdict["next"];
        let hosts = next["hosts"].as_u64().context("no number of hosts")?;
        anyhow::ensure!(hosts == self.workers.len() as u64 + 1, "{hosts} are predicted: {verdict:#}");
        Ok((hosts, next["rate"].as_f64().context("no rate")?))
    }

    fn brings(&self, hosts: u64, predicted: f64) -> anyhow::Result<String> {
        let verdict = self.until("what the last host brought", |verdict| {
            verdict["trial"]["others"].as_u64() == Some(hosts - 1) && verdict["next"]["hosts"] == hosts + 1
        })?;
        let rate = verdict["rate"].as_f64().context("no rate")?;
        let off = rate / predicted - 1.0;
        anyhow::ensure!(off.abs() <= OFF, "{rate} is {off:.2} off {predicted}: {verdict:#}");
        Ok(format!("{hosts} hosts moved {:.1} MB/s, {:+.1} % of the prediction", rate / 1e6, off * 100.0))
    }

    fn end(&mut self) {
        self.workers.iter().for_each(|worker| worker.signal(Signal::KILL));
        self.workers.drain(..).for_each(|worker| drop(worker.wait()));
    }
}
