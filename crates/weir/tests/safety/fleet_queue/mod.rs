//! Workers that a cluster's own queue starts: an array of Slurm on a real controller and node, and a Job of
//! Kubernetes as far as it can be checked without a cluster.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod kubernetes;
mod slurm;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_fleet::ledger::{FleetStatus, LedgerPlace, Patience};

use crate::cluster::{Cluster, Network, PASSWORD};
use crate::support::net::free_port;
use crate::support::{Run, Sandbox, WEIR, count, wait_for};
use slurm::{Slurm, printed};

/// Files of the acceptance, each of some bytes. `WEIR_SOAK=N` makes N times as many.
const FILES: u64 = 20_000;

/// Files of a folder.
const OF_A_FOLDER: u64 = 200;

fn content(number: u64) -> String {
    format!("{number} of the files that an array moves\n")
}

fn files(from: &Path, count: u64) {
    for number in 0..count {
        let folder = from.join(format!("{}", number / OF_A_FOLDER));
        if number % OF_A_FOLDER == 0 {
            std::fs::create_dir_all(&folder).unwrap();
        }
        std::fs::write(folder.join(format!("{number}")), content(number)).unwrap();
    }
}

/// A sandbox with a plan of so many files in `l.db`.
fn planned(count: u64) -> Sandbox {
    let sandbox = Sandbox::new();
    files(&sandbox.path("from"), count);
    fleet(&sandbox, &["plan", "from/", "to"]).succeeds();
    sandbox
}

fn fleet(sandbox: &Sandbox, words: &[&str]) -> Run {
    sandbox.weir(WEIR, [&["fleet"], words, &["--ledger", "l.db"]].concat()).run()
}

/// The number of the job that `weir fleet run` and these words submit.
fn submitted(slurm: &Slurm, sandbox: &Sandbox, words: &[&str]) -> String {
    let words = [&["fleet", "run", "--ledger", "l.db", "--json"], words].concat();
    let run = slurm.meets(sandbox.weir(WEIR, words)).run();
    run.succeeds().json()["job"].as_str().unwrap().to_owned()
}

fn status(sandbox: &Sandbox) -> FleetStatus {
    let patience = Patience { longest: Duration::from_secs(30), stop: Arc::default() };
    LedgerPlace::File(sandbox.path("l.db")).open(patience).unwrap().status().unwrap()
}

#[test]
fn an_array_of_slurm_that_is_cancelled_and_a_second_one_move_every_file_once() {
    let Some(slurm) = Slurm::start() else { return };
    let soak = std::env::var("WEIR_SOAK").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let all = FILES * soak;
    let sandbox = planned(all);
    // So slow that the middle is long: the workers of this host share the rate, so however many have come up
    // they need twenty seconds.
    let rate = all * content(0).len() as u64 / 20;
    fleet(&sandbox, &["set", "--limit-rate", &rate.to_string()]).succeeds();
    let work = slurm.path("work").display().to_string();
    let chdir = format!("--sbatch=--chdir={work}");
    let first = submitted(&slurm, &sandbox, &["--slurm", "4", &chdir]);
    let is_under_way = || {
        let now = status(&sandbox);
        now.moved.objects > all / 10 && now.workers.len() == 4
    };
    wait_for("a tenth of the files, and four workers", is_under_way);
    let running = slurm.tasks(&["--states=RUNNING"]);
    assert_eq!(running.lines().count(), 4, "{running}");
    assert!(
        running.contains(&format!("{first}_0 ")) && running.contains(&format!("{first}_3 ")),
        "{running}"
    );
    slurm.says("scancel", &[&first]);
    slurm.await_end();
    let middle = status(&sandbox);
    assert!(!middle.complete && middle.leased == 0 && middle.moved.objects < all, "{middle:?}");
    assert_eq!(middle.workers.iter().filter(|worker| worker.departed).count(), 4, "{middle:?}");
    let said = printed(&slurm.path("work"));
    assert_eq!(said.matches("stopped, the rest was given back").count(), 4, "{said}");

    // A second one, of which Slurm starts a task again: slower, so that all of its tasks still run then.
    fleet(&sandbox, &["set", "--limit-rate", &(rate / 10).to_string()]).succeeds();
    let second = submitted(&slurm, &sandbox, &["--slurm", "4", &chdir]);
    let joined = || status(&sandbox).workers.len();
    wait_for("all of the second array", || joined() == 8);
    let again = format!("{second}_1");
    slurm.says("scontrol", &["requeue", &again]);
    // Slurm keeps what it starts again waiting for two minutes.
    wait_for("the task again", || {
        slurm.says("scontrol", &["update", &format!("JobId={again}"), "StartTime=now"]);
        joined() == 9
    });
    fleet(&sandbox, &["set", "--limit-rate", "none"]).succeeds();
    slurm.await_end();
    let end = status(&sandbox);
    assert!(end.complete && end.failed == 0, "{end:?}\n{}", printed(&slurm.path("work")));
    // Whoever is killed before it tells leaves files that the next one finds: those are not moved again.
    assert_eq!(end.moved.objects + end.same.objects, all, "each is moved once: {end:?}");
    assert_eq!(count(&sandbox.path("to")), all);
    for number in 0..all {
        let path = sandbox.path("to").join(format!("{}/{number}", number / OF_A_FOLDER));
        assert_eq!(std::fs::read_to_string(path).unwrap(), content(number));
    }
    fleet(&sandbox, &["check", "--source"]).succeeds();
    // Nothing is left to do.
    let words = ["fleet", "run", "--ledger", "l.db", "--slurm", "4"];
    let run = slurm.meets(sandbox.weir(WEIR, words)).run();
    run.succeeds().says(&["is done; nothing was submitted"]);
    assert_eq!(slurm.tasks(&[]), "");
}

#[test]
fn what_sbatch_would_not_do_is_said_before_it_is_asked() {
    let sandbox = planned(3);
    let run = |words: &[&str]| {
        let words = [&["fleet", "run", "--ledger", "l.db"], words].concat();
        sandbox.weir(WEIR, words).env("PATH", sandbox.path("nowhere")).run()
    };
    run(&["--slurm", "4", "--sbatch=--array=0-9"])
        .fails(2, &["cannot pass '--array=0-9' to sbatch: --slurm N is"]);
    run(&["--slurm", "4", "--sbatch=long"])
        .fails(2, &["expected one option, as in --sbatch=--partition=long"]);
    run(&["--slurm", "0"]).fails(2, &["--slurm"]);
    run(&["--sbatch=-x"]).fails(2, &["--slurm"]);
    run(&["--slurm", "1", "--hosts", "a"]).fails(2, &["cannot be used with"]);
    run(&["--slurm", "4"]).fails(1, &["cannot run sinfo: it is not installed here; run the same on a host"]);
    run(&["--slurm", "4", "--sbatch=--nodelist=n"])
        .fails(1, &["cannot run sbatch: it is not installed here"]);
    run(&["--slurm", "4", "--proxy", "http://u:secret@h:1", "--print"])
        .fails(2, &["cannot hand --proxy to workers", "set https_proxy"])
        .hides("secret");
    // Its script has neither the password nor a need of the database.
    let database = "postgres://me:secret@127.0.0.1:1/d?sslmode=disable";
    let words = ["fleet", "run", "--slurm", "2", "--print", "--lanes", "3", "--ledger", database];
    let script = sandbox.weir(WEIR, words).run();
    script.succeeds().hides("secret");
    let script = String::from_utf8(script.stdout).unwrap();
    assert!(
        script.contains("'--ledger=postgres://me@127.0.0.1:1/d?sslmode=disable' '--lanes=3'"),
        "{script}"
    );
    assert!(!script.contains("secret"), "{script}");
}

/// A `sbatch` that writes down what it is given.
const NOTES: &str =
    "#!/bin/sh\nenv > ../noted.env; printf '%s\\n' \"$@\" > ../noted.args; cat > ../noted.script; echo 7\n";

#[test]
fn a_password_that_a_file_of_this_host_has_reaches_tasks_by_their_environment_alone() {
    let Some(cluster) = Cluster::start() else { return };
    let port = free_port();
    cluster.listen(Network::Plain(port));
    let sandbox = Sandbox::new();
    for folder in ["from", "bin", "elsewhere"] {
        std::fs::create_dir(sandbox.path(folder)).unwrap();
    }
    sandbox.write("from/a", "1");
    let private = |name: &str, text: &str, mode: u32| {
        sandbox.write(name, text);
        std::fs::set_permissions(sandbox.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    private(".pgpass", &format!("127.0.0.1:{port}:*:fleet:{PASSWORD}\n"), 0o600);
    private("bin/sbatch", &NOTES.replace("../", &format!("{}/", sandbox.path("").display())), 0o755);
    let ledger = format!("postgres://fleet@127.0.0.1:{port}/postgres?schema=queue&sslmode=disable");
    let fleet = |words: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
        sandbox.weir(WEIR, [&["fleet"], words, &["--ledger", &ledger]].concat()).env("PATH", path).run()
    };
    fleet(&["plan", "from/", "to", "-q"]).succeeds();
    let run = fleet(&["run", "--slurm", "2", "--json"]);
    assert_eq!(run.succeeds().json()["job"], "7");
    run.hides(PASSWORD);
    let noted = |name: &str| String::from_utf8(sandbox.read(&format!("noted.{name}"))).unwrap();
    assert!(!noted("args").contains(PASSWORD) && !noted("script").contains(PASSWORD));
    assert!(noted("env").lines().any(|line| line == format!("PGPASSWORD={PASSWORD}")));
    // On a node whose user has no such file.
    let mut task = std::process::Command::new("sh");
    task.arg(sandbox.path("noted.script"))
        .env_clear()
        .env("PGPASSWORD", PASSWORD)
        .env("PATH", "/usr/bin:/bin");
    let ended = task.env("HOME", sandbox.path("elsewhere")).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(sandbox.read("to/a"), b"1");
}
