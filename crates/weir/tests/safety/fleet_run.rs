//! Workers on several hosts, each a real sshd, that are started from here and ask a ledger here: whoever is
//! killed, refused, of another version or without credentials, every object comes once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_cp::wire::driver::ToDriver;
use weir_cp::wire::frame::to_frame;
use weir_fleet::ledger::{FleetStatus, LedgerPlace, Patience};

use crate::cluster::{Cluster, Network, PASSWORD};
use crate::support::listed::{ListedBucket, Manner, weir_of};
use crate::support::net::free_port;
use crate::support::strange::hello;
use crate::support::{
    Dice, MIB, Run, Running, Sandbox, Special, Sshd, WEIR, Weir, count, pattern, skip, wait_for,
};

/// A folder of files, a plan of them, and hosts `h0`, `h1` ... that see both.
struct Site {
    sandbox: Sandbox,
    sshds: Vec<Sshd>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Site {
    /// `small` files and large ones of these sizes; `None` (and a word) where there is no sshd.
    fn new(hosts: usize, small: usize, large: &[usize]) -> Option<Site> {
        let sshds: Vec<Sshd> = (0..hosts).map(|_| Sshd::start()).collect::<Option<_>>()?;
        let site = Site::with(sshds, small, large);
        let mut config = String::new();
        for (number, sshd) in site.sshds.iter().enumerate() {
            config += &client(&format!("h{number}"), sshd);
        }
        site.sandbox.write("ssh_config", config);
        Some(site)
    }

    fn with(sshds: Vec<Sshd>, small: usize, large: &[usize]) -> Site {
        let sandbox = Sandbox::new();
        let mut files = BTreeMap::new();
        for number in 0..small {
            files.insert(format!("s{}/{number}", number / 100), pattern(number % 3000, number as u64));
        }
        for (number, size) in large.iter().enumerate() {
            files.insert(format!("large{number}"), pattern(*size, 77 + number as u64));
        }
        for (name, bytes) in &files {
            let path = sandbox.path("from").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let plan = ["fleet", "plan", "from/", "out", "--ledger", "plan.db"];
        sandbox.weir(WEIR, plan).run().succeeds();
        Site { sandbox, sshds, files }
    }

    /// `weir fleet run` on these hosts.
    fn run(&self, hosts: &str, args: &[&str]) -> Weir {
        let run =
            ["fleet", "run", "--ledger", "plan.db", "-F", "ssh_config", "--lease", "2s", "--hosts", hosts];
        self.sandbox.weir(WEIR, run).args(args)
    }

    fn status(&self) -> FleetStatus {
        let patience = Patience { longest: Duration::from_secs(30), stop: Default::default() };
        LedgerPlace::File(self.sandbox.path("plan.db")).open(patience).unwrap().status().unwrap()
    }

    /// Files that have their names, and which they are.
    fn named(&self) -> BTreeMap<&str, u64> {
        let out = self.sandbox.path("out");
        let inode = |name: &String| std::fs::metadata(out.join(name)).ok().map(|data| data.ino());
        self.files.keys().filter_map(|name| Some((name.as_str(), inode(name)?))).collect()
    }

    /// Ledger and folder say that all is there, whole and alone, and `check` agrees.
    #[track_caller]
    fn is_complete(&self) {
        let status = self.status();
        assert!(status.complete && status.failed == 0, "{status:?}");
        assert_eq!(status.moved.objects + status.same.objects, self.files.len() as u64, "{status:?}");
        for (name, bytes) in &self.files {
            assert!(std::fs::read(self.sandbox.path("out").join(name)).unwrap() == *bytes, "{name}");
        }
        assert_eq!(count(&self.sandbox.path("out")), self.files.len() as u64, "nothing is left beside them");
        let check = ["fleet", "check", "--ledger", "plan.db", "--source", "--digests"];
        self.sandbox.weir(WEIR, check).run().succeeds();
    }

    /// Sets what holds for the fleet.
    fn set(&self, args: &[&str]) {
        let args = [&["fleet"], args, &["--ledger", "plan.db"]].concat();
        self.sandbox.weir(WEIR, args).run().succeeds();
    }

    /// Starts a run whose workers begin when so many of them are there: on a busy machine one may come
    /// seconds later than the first.
    fn begins_together(&self, run: Weir, workers: usize) -> Running {
        self.set(&["pause"]);
        let running = run.spawn();
        wait_for("all workers", || self.status().workers.len() >= workers);
        self.set(&["resume"]);
        running
    }

    /// Waits until so many objects are done, and the workers of `hosts` are there.
    fn await_middle(&self, objects: u64, workers: usize) {
        wait_for("the middle", || {
            let status = self.status();
            assert!(!status.complete, "it is over before the middle");
            status.moved.objects >= objects && status.workers.len() >= workers
        });
    }
}

/// What ssh is to know of a host.
fn client(name: &str, sshd: &Sshd) -> String {
    let (key, known, port) = (sshd.path("key"), sshd.path("known"), sshd.port());
    format!(
        "Host {name}\n HostName 127.0.0.1\n Port {port}\n IdentityFile {}\n IdentitiesOnly yes\n \
         UserKnownHostsFile {}\n StrictHostKeyChecking accept-new\n LogLevel ERROR\n",
        key.display(),
        known.display()
    )
}

/// Ends a process that a test has the number of.
fn kill(pid: u64) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// Whether it has not ended: what nobody waits for yet has.
fn lives(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// It lives, and is a weir: the number may be another's by now.
fn is_worker(pid: u64) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    lives(pid) && program.to_string_lossy().contains("weir")
}

#[test]
fn hosts_share_the_work_and_one_that_refuses_is_named() {
    let Some(site) = Site::new(2, 2000, &[3 * MIB, 5 * MIB, 8 * MIB]) else { return };
    let closed = free_port();
    site.sandbox.write("hosts", format!("# a rack\nh0 workers=2\nh1\n127.0.0.1:{closed}\n"));
    // Slow enough that all find work.
    let run = site.begins_together(site.run("hosts", &["--json", "--limit-rate", "1500k"]), 3).wait();
    run.succeeds().says(&[
        &format!("127.0.0.1:{closed}: cannot reach 127.0.0.1:{closed}: ssh could not connect or log in: "),
        "Connection refused; try the same by hand: ssh",
    ]);
    let record = run.json();
    assert_eq!((&record["outcome"], &record["fleet"]["complete"]), (&"complete".into(), &true.into()));
    let workers = record["fleet"]["workers"].as_array().unwrap();
    let of = |host: &str| -> Vec<&Value> { workers.iter().filter(|worker| worker["host"] == host).collect() };
    assert_eq!((of("h0").len(), of("h1").len(), workers.len()), (2, 1, 4), "{workers:?}");
    let refused = of(&format!("127.0.0.1:{closed}"));
    assert!(refused[0]["error"].as_str().unwrap().contains("Connection refused"), "{refused:?}");
    let status = site.status();
    assert!(status.workers.iter().all(|worker| worker.departed), "{status:?}");
    // Of two workers on one host the second may come when all is taken.
    let moved = status.workers.iter().filter(|worker| worker.moved.bytes > 0);
    let hosts: BTreeSet<&str> = moved.map(|worker| worker.host.as_str()).collect();
    assert_eq!(hosts, BTreeSet::from(["h0", "h1"]), "{status:?}");
    site.is_complete();
    // What is done is done.
    site.run("h0", &[]).run().succeeds().says(&["moved 0 objects", "the plan is done"]);
}

#[test]
fn a_killed_worker_is_started_again_and_a_killed_run_goes_on() {
    let Some(site) = Site::new(3, 2000, &[3 * MIB, 5 * MIB, 8 * MIB]) else { return };
    let slow = ["--limit-rate", "500k", "-c", "2"];
    let first = site.begins_together(site.run("h0,h1,h2", &slow), 3);
    site.await_middle(100, 3);
    let victim = site.status().workers[0].clone();
    kill(victim.pid);
    wait_for("another worker of its host", || {
        let workers = site.status().workers;
        workers.iter().any(|worker| worker.host == victim.host && worker.pid != victim.pid)
    });
    let seen = site.named();
    let orphans: Vec<u64> = site.status().workers.iter().map(|worker| worker.pid).collect();
    first.signal(Signal::KILL);
    drop(first.wait());
    // Two at once, of which one has other hosts.
    let second = site.run("h0,h1", &["--limit-rate", "8M"]).spawn();
    site.run("h2", &["--limit-rate", "8M"]).run().succeeds();
    second.wait().succeeds().says(&["the plan is done"]);
    let named = site.named();
    assert!(seen.iter().all(|(name, inode)| named[name] == *inode), "a file was replaced");
    wait_for("workers that nobody speaks to any more", || !orphans.iter().any(|pid| lives(*pid)));
    site.is_complete();
}

/// Five kills; `WEIR_SOAK=100` for a hundred, of which the half are of the run itself (`make soak-fleet`).
#[test]
fn runs_and_workers_that_are_killed_again_and_again_lose_nothing() {
    let (mut dice, kills) = Dice::for_runs();
    let kills = if std::env::var_os("WEIR_SOAK").is_some() { kills } else { 5 };
    let Some(site) = Site::new(2, 90 * kills.max(20) as usize, &[300_000, 500_000]) else { return };
    let start = |rate: &str| site.run("h0,h1", &["--limit-rate", rate, "-c", "2"]).spawn();
    let (mut run, mut runs, mut killed) = (start("100k"), 1, 0);
    let mut seen = BTreeMap::new();
    while killed < kills {
        let (before, more) = (site.status().moved.objects, dice.roll(1..20));
        let until = Instant::now() + Duration::from_millis(dice.roll(200..2500));
        // Whichever comes first: some objects more, or a moment between two.
        wait_for("a moment", || {
            let now = site.status();
            now.complete || now.moved.objects >= before + more || Instant::now() >= until
        });
        let status = site.status();
        if status.complete {
            break;
        }
        if dice.roll(0..2) == 0 {
            run.signal(Signal::KILL);
            drop(run.wait());
            (run, runs) = (start("100k"), runs + 1);
        } else {
            let there: Vec<u64> =
                status.workers.iter().map(|worker| worker.pid).filter(|pid| is_worker(*pid)).collect();
            if there.is_empty() {
                continue;
            }
            kill(there[dice.roll(0..there.len() as u64) as usize]);
        }
        killed += 1;
        let now = site.named();
        assert!(seen.iter().all(|(name, inode)| now.get(name) == Some(inode)), "a file was replaced");
        seen = now;
    }
    run.signal(Signal::KILL);
    drop(run.wait());
    println!(
        "{killed} of {kills} were killed, in {runs} runs, {} files were seen before the end",
        seen.len()
    );
    assert!(Dice::is_enough(killed, kills), "too few were killed before the end: {killed}");
    start("20M").wait();
    let status = site.status();
    if status.failed > 0 {
        // Workers died with the same object so often that it is put aside.
        assert!(status.failures.iter().all(|failure| failure.class == "poisoned"), "{status:?}");
        site.sandbox.weir(WEIR, ["fleet", "retry", "--ledger", "plan.db"]).run().succeeds();
        start("20M").wait().succeeds();
    }
    // Those of runs that were killed end what they have, and tidy up.
    wait_for("workers that nobody speaks to any more", || {
        !site.status().workers.iter().any(|worker| is_worker(worker.pid))
    });
    let now = site.named();
    assert!(seen.iter().all(|(name, inode)| now.get(name) == Some(inode)), "a file was replaced");
    site.is_complete();
}

#[test]
fn ctrl_c_lets_workers_end_what_they_have_and_settings_reach_them() {
    let Some(site) = Site::new(1, 300, &[3 * MIB; 4]) else { return };
    let set = |args: &[&str]| site.set(args);
    set(&["pause"]);
    let running = site.run("h0", &["--workers-per-host", "2", "--limit-rate", "1M"]).spawn();
    wait_for("two workers", || site.status().workers.len() == 2);
    assert_eq!(site.status().moved.objects, 0, "none works while the fleet is paused");
    set(&["resume"]);
    site.await_middle(1, 2);
    running.signal(Signal::INT);
    let run = running.wait();
    run.exits(130).says(&["the plan is not done"]);
    let status = site.status();
    assert!(status.leased == 0 && status.workers.iter().all(|worker| worker.departed), "{status:?}");
    assert!(!status.complete && status.moved.objects > 0, "{status:?}");

    // Drained by another command, it ends and says so; a drained fleet starts nobody.
    let running = site.run("localhost", &["--limit-rate", "1M"]).spawn();
    wait_for("a worker", || site.status().workers.len() == 3);
    set(&["drain"]);
    running.wait().fails(4, &["the fleet drains, and no worker is started; weir fleet resume"]);
    site.run("h0", &[]).run().fails(4, &["weir fleet resume gives out batches again"]);
    set(&["resume"]);
    set(&["set", "--limit-rate", "60M"]);
    site.run("h0,localhost", &[]).run().succeeds();
    site.is_complete();
}

#[test]
fn hosts_of_another_version_and_without_credentials_are_named_and_the_others_go_on() {
    let keys: Vec<String> = (0..60).map(|number| format!("p/{number}.bin")).collect();
    let objects: Vec<(&str, &[u8])> = keys.iter().map(|key| (&**key, key.as_bytes())).collect();
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 1000);
    let Some(site) = Site::new(1, 10, &[]) else { return };
    let (sandbox, endpoint) = (&site.sandbox, bucket.server.url(""));
    let plan = |ledger: &str, target: &str| {
        let words = ["fleet", "plan", "s3://b/p/", target, "--ledger", ledger];
        weir_of(sandbox, &endpoint, &words).run().succeeds();
    };
    plan("stores.db", "got");
    let fleet = |ledger: &str, hosts: &str, args: &[&str]| {
        let run = ["fleet", "run", "--ledger", ledger, "-F", "ssh_config", "--hosts", hosts];
        let endpoint = endpoint.trim_end_matches('/');
        weir_of(sandbox, endpoint, &run).args(&["--endpoint", endpoint, "--region", "us-east-1"]).args(args)
    };
    // What the variables of this process say is not on the host, and no metadata of a cloud either.
    let weir = site.sshds[0].path("bin/weir");
    std::fs::remove_file(&weir).unwrap();
    let ended = sandbox.path("ended");
    let words = format!("AWS_EC2_METADATA_DISABLED=true {WEIR} \"$@\"; code=$?; echo >>{}", ended.display());
    std::fs::write(&weir, format!("#!/bin/sh\n{words}; exit $code\n")).unwrap();
    std::fs::set_permissions(&weir, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ends = || std::fs::read(&ended).map_or(0, |text| text.len());
    let lacks = |run: &Run| {
        let record = run.json();
        let workers = record["fleet"]["workers"].as_array().unwrap();
        let h0 = workers.iter().find(|worker| worker["host"] == "h0").expect("its worker");
        assert!(h0["error"].as_str().is_some_and(|why| why.contains("credentials")), "{record:#}");
    };
    let run = fleet("stores.db", "h0", &["--json"]).run();
    run.fails(4, &["h0: it can", "no worker is left, and the plan is not done"]);
    lacks(&run);
    // Beside one that has some, which begins when this one has left.
    wait_for("the end of its weir", || ends() > 0);
    let before = ends();
    let set = |word: &str| {
        sandbox.weir(WEIR, ["fleet", word, "--ledger", "stores.db"]).run().succeeds();
    };
    set("pause");
    let both = fleet("stores.db", "h0,localhost", &["--json"]).spawn();
    wait_for("the end of its weir", || ends() > before);
    set("resume");
    let run = both.wait();
    lacks(run.succeeds());
    assert_eq!(count(&sandbox.path("got")), 60);

    // A weir of another version, by what it says first.
    let told = to_frame(&ToDriver::Hello(hello()));
    sandbox.write("hello", told);
    let old = sandbox
        .write("old", "#!/bin/sh\nprintf '\\036weir-peer\\n'; cat \"${0%/*}/hello\"; cat >/dev/null\n");
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    let old = old.display().to_string();
    plan("stores2.db", "got2");
    let run = fleet("stores2.db", "h0", &["--far-program", &old]).run();
    let words = "install the same there, or leave out --far-program";
    run.fails(4, &["h0: weir on h0 is version 0.0.0, this weir is ", words, "it is left out"]);
    fleet("stores2.db", "h0,localhost", &["--far-program", &old]).run().succeeds();
    assert_eq!(count(&sandbox.path("got2")), 60);
}

#[test]
fn nothing_but_the_port_of_ssh_is_needed() {
    if Command::new("nft").arg("--version").output().is_err() {
        return skip("no nft on this machine; apt-get install nftables");
    }
    // weir is carried along, too.
    let within = Some(("-n", "ip link set lo up"));
    let special = Special { within, without_weir: true, ..Special::default() };
    let Some(sshd) = Sshd::special(special) else { return };
    let (pid, port) = (sshd.pid().to_string(), sshd.port());
    let site = Site::with(vec![sshd], 300, &[2 * MIB]);
    site.sandbox.write("ssh_config", client("h0", &site.sshds[0]));
    let inside = |script: &str| {
        let script = format!("PATH=$PATH:/usr/sbin:/sbin; {script}");
        let run = site.sandbox.weir("nsenter", ["-t", &pid, "-n", "sh", "-c", &script]).run();
        run.succeeds();
        String::from_utf8_lossy(&run.stdout).into_owned()
    };
    inside(&format!(
        "nft add table inet t; nft 'add chain inet t in {{ type filter hook input priority 0; }}'; \
         nft add rule inet t in tcp dport {port} accept; nft add rule inet t in tcp sport {port} accept; \
         nft add rule inet t in counter drop"
    ));
    let args =
        ["-t", &pid, "-n", WEIR, "fleet", "run", "--ledger", "plan.db", "-F", "ssh_config", "--hosts", "h0"];
    site.sandbox.weir("nsenter", args).args(&["--workers-per-host", "2"]).run().succeeds();
    site.is_complete();
    let rules = inside("nft list chain inet t in");
    assert!(rules.contains("counter packets 0 bytes 0 drop"), "something else was tried: {rules}");
}

/// Who starts the workers has the database's password; hosts are not told it.
#[test]
fn hosts_ask_a_private_database_through_the_machine_that_started_them() {
    let Some(cluster) = Cluster::start() else { return };
    let port = free_port();
    cluster.listen(Network::Plain(port));
    let Some(site) = Site::new(2, 300, &[2 * MIB]) else { return };
    let ledger = format!("postgres://fleet@127.0.0.1:{port}/postgres?schema=fleet&sslmode=disable");
    let fleet = |words: &[&str]| {
        let all = [&["fleet"], words, &["--ledger", &ledger]].concat();
        site.sandbox.weir(WEIR, all).env("PGPASSWORD", PASSWORD)
    };
    fleet(&["plan", "from/", "out"]).run().succeeds();
    let alone = fleet(&["run", "-F", "ssh_config", "--hosts", "h0", "--ledger-from-hosts"]).run();
    alone.fails(2, &["other hosts cannot reach", "leave out --ledger-from-hosts"]);
    let run = fleet(&["run", "--json", "-v", "-F", "ssh_config", "--hosts", "h0,h1"]).run();
    run.succeeds().hides(PASSWORD);
    let workers = run.json()["fleet"]["workers"].as_array().map(Vec::len);
    assert_eq!(workers, Some(2), "{:#}", run.json());
    let status = fleet(&["status", "--json"]).run().json();
    assert_eq!((&status["complete"], &status["moved"]["objects"]), (&true.into(), &301.into()), "{status:#}");
    for (name, bytes) in &site.files {
        assert!(std::fs::read(site.sandbox.path("out").join(name)).unwrap() == *bytes, "{name}");
    }
}

#[test]
fn what_cannot_be_started_is_said() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("from")).unwrap();
    sandbox.write("from/a", "1");
    sandbox.weir(WEIR, ["fleet", "plan", "from/", "out", "--ledger", "l.db"]).run().succeeds();
    let run = |ledger: &str, hosts: &str| {
        sandbox.weir(WEIR, ["fleet", "run", "--ledger", ledger, "--hosts", hosts, "--limit-rate", "1G"])
    };
    run("none.db", "a").run().fails(1, &["none.db: no ledger is there; make one with weir fleet plan"]);
    run("l.db", ",").run().fails(2, &["cannot use --hosts: no host is named"]);
    run("l.db", "a,-oProxyCommand=x").run().fails(2, &["invalid host '-oProxyCommand=x'"]);
    run("l.db", "./none").run().fails(1, &["cannot read the hosts in ./none: no such file"]);
    run("l.db", "-").input("a\nb many\n").run().fails(2, &["stdin, line 2: 'many': expected workers=N"]);
    let from_hosts = run("l.db", "a").args(&["--ledger-from-hosts"]).run();
    from_hosts.fails(2, &["cannot use --ledger-from-hosts: l.db is a file of this host; leave it out"]);
    let away = run("postgres://me:secret@127.0.0.1:1/d", "a").args(&["--ledger-from-hosts"]).run();
    away.fails(2, &["other hosts cannot reach postgres://me@127.0.0.1:1/d", "leave out"]).hides("secret");
    sandbox.weir(WEIR, ["fleet", "run", "--ledger", "l.db"]).run().fails(2, &["--hosts"]);
    run("l.db", "localhost,localhost").run().succeeds().says(&["localhost is named twice and counts once"]);
    assert_eq!(sandbox.read("out/a"), b"1");
}

/// A worker here and its run, of which the run is gone: it ends by itself.
#[test]
fn a_worker_whose_run_was_killed_ends_by_itself() {
    let site = Site::with(Vec::new(), 10, &[30 * MIB]);
    site.sandbox.write("ssh_config", "");
    let running: Running = site.run("localhost", &["--limit-rate", "1M"]).spawn();
    wait_for("a worker", || site.status().leased > 0);
    let worker = site.status().workers[0].pid;
    running.signal(Signal::KILL);
    drop(running.wait());
    wait_for("its end", || !lives(worker));
    site.run("localhost", &[]).run().succeeds();
    site.is_complete();
}
