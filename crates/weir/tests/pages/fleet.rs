//! What people and programs see of a fleet: `weir fleet status` live, as text and as JSON, its figures for
//! Prometheus, and the page that `weir report` makes of its ledger.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_fleet::class::FailureClass;
use weir_fleet::ledger::database::Now;
use weir_fleet::ledger::sqlite::SqliteDatabase;
use weir_fleet::ledger::{
    BatchClaim, BatchResults, Claimed, FleetLedger, ObjectFailure, Patience, PlanEnds, PlannedBatch,
    SqlLedger, Tally, VerdictSpan, WorkerId, WorkerIdentity,
};
use weir_fleet::object::{FleetObject, pack};

use super::report_pages::{look, shots};
use super::tui::Screen;
use crate::support::browser::Browser;
use crate::support::{Running, Sandbox, TIMEOUT, WEIR, skip};

/// A lease: none ends while a busy machine gets to what is asked.
const LEASE: Duration = Duration::from_secs(3600);

/// The played time ends so much after now, milliseconds: what was told last is of late for a while.
const AHEAD: i64 = 60 * SECOND;

/// A second, milliseconds.
const SECOND: i64 = 1000;

/// A fleet that has worked for some minutes until now, on a clock of the test.
struct Played {
    ledger: SqlLedger,
    clock: Arc<AtomicI64>,
    workers: Vec<WorkerId>,
}

/// The name of a host, which nobody may take for markup or for a word of a terminal.
fn host(number: usize) -> String {
    format!("h{number:04}<b>\"\\\u{1b}[31m")
}

impl Played {
    /// So many batches and workers, each on a host of its own, in the ledger at `path`, of `span` until
    /// [`AHEAD`].
    fn new(path: &Path, batches: usize, workers: usize, span: i64) -> Played {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let clock = Arc::new(AtomicI64::new(now.as_millis() as i64 + AHEAD - span));
        let database = SqliteDatabase::open(path, true, Now::Given(Arc::clone(&clock))).unwrap();
        let patience = Patience { longest: TIMEOUT, stop: Arc::default() };
        let mut ledger = SqlLedger::new(Box::new(database), patience);
        let ends = PlanEnds { source: "s3://b/<i>/".to_owned(), target: "/mnt/a&b".to_owned() };
        let mut lease = ledger.begin(&ends, "a test", 3).unwrap();
        let planned: Vec<PlannedBatch> = (0..batches).map(batch).collect();
        for some in planned.chunks(1000) {
            ledger.append(&mut lease, some, &[]).unwrap();
        }
        ledger.seal(&lease).unwrap();
        let who = |number| WorkerIdentity { host: host(number), pid: 7, version: "1.0.0".to_owned() };
        let workers = (0..workers).map(|number| ledger.join(&who(number)).unwrap()).collect();
        Played { ledger, clock, workers }
    }

    /// Ten seconds in which all of them told what held them; the first is slow and waits for its disk.
    fn tell(&mut self, slot: u64) {
        self.clock.fetch_add(10 * SECOND, Relaxed);
        for (number, worker) in self.workers.iter().enumerate() {
            let span = |limit: &str, share: f64, bytes: u64| VerdictSpan {
                start: slot * 10_000,
                length: 10_000,
                limit: limit.to_owned(),
                share,
                bytes,
            };
            let spans = match number {
                0 => [span("disk", 0.9, 1_000_000), span("no-work", 0.1, 0)],
                _ => [span("path-bandwidth", 0.8, 90_000_000), span("latency", 0.2, 10_000_000)],
            };
            self.ledger.tell(*worker, &spans).unwrap();
        }
    }

    fn claim(&mut self, number: usize) -> Option<BatchClaim> {
        match self.ledger.claim(self.workers[number % self.workers.len()], LEASE).unwrap() {
            Claimed::Batch(claim) => Some(*claim),
            _ => None,
        }
    }

    /// One batch more is done, all but `failed` of its objects.
    fn finish(&mut self, number: usize, failed: u64) {
        let claim = self.claim(number).unwrap();
        let failure = |position| ObjectFailure {
            position,
            class: FailureClass::Missing,
            reason: "cannot open '<script>alert(1)</script>': no such file; plan again".to_owned(),
        };
        let results = BatchResults {
            covered: 10,
            moved: Tally { objects: 10 - failed, bytes: (10 - failed) * 1_000_000 },
            failures: (0..failed).map(failure).collect(),
            ..BatchResults::default()
        };
        self.ledger.finish(claim.lease, &results).unwrap();
    }
}

/// Ten objects of a megabyte.
fn batch(number: usize) -> PlannedBatch {
    let object = |index: usize| {
        let source = format!("<img src=x>/{number}/{index}").into_bytes();
        FleetObject { target: source.clone(), source, size: Some(1_000_000), ..FleetObject::default() }
    };
    let objects: Vec<FleetObject> = (0..10).map(object).collect();
    PlannedBatch { objects: 10, bytes: 10_000_000, lines: pack(&objects) }
}

/// Two minutes of a fleet of 30 hosts, which has 104 batches left, and each host holds one of them.
fn small(sandbox: &Sandbox) -> Played {
    let mut played = Played::new(&sandbox.path("plan.db"), 200, 30, 125 * SECOND);
    for slot in 0..12 {
        played.tell(slot);
        (0..8).for_each(|number| played.finish(slot as usize * 8 + number, u64::from(slot == 3)));
    }
    (0..30).for_each(|number| drop(played.claim(number)));
    played
}

fn status(sandbox: &Sandbox, words: &[&str]) -> crate::support::Weir {
    sandbox.weir(WEIR, [&["fleet", "status", "--ledger", "plan.db"], words].concat())
}

#[test]
fn ten_thousand_batches_and_a_thousand_hosts_are_a_page_and_a_table_that_can_be_read() {
    let sandbox = Sandbox::new();
    // Most of the batches wait: what is asked is how much the page and the table hold.
    let mut played = Played::new(&sandbox.path("plan.db"), 10_000, 1000, 45 * SECOND);
    for slot in 0..4 {
        played.tell(slot);
        (0..100).for_each(|number| played.finish(slot as usize * 100 + number, u64::from(number == 0)));
    }
    (0..1000).for_each(|number| drop(played.claim(number)));
    drop(played);
    let began = Instant::now();
    let run = sandbox.weir(WEIR, ["report", "plan.db", "-o", "page.html"]).run();
    run.succeeds();
    let took = began.elapsed();
    let page = String::from_utf8(sandbox.read("page.html")).unwrap();
    println!("a page of {} bytes in {took:?}", page.len());
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    for words in [
        "h0000&lt;b&gt;",
        "10000 batches",
        "path bandwidth",
        "&lt;img src=x&gt;/",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "Hosts over time",
        "What took longest",
        "940 more hosts are not drawn",
    ] {
        assert!(page.contains(words), "no '{words}' on the page");
    }
    for markup in ["<script", "<img", "<b>\"", "\u{1b}"] {
        assert!(!page.contains(markup), "{markup:?} is on the page");
    }
    let text = status(&sandbox, &[]).run();
    let text = String::from_utf8_lossy(&text.succeeds().stdout).into_owned();
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("host ")).skip(1).collect();
    assert!(rows[0].starts_with("h0000<b>\"\\\\u{1b}[31m") && rows[0].contains("% of what its"), "{text}");
    assert!(rows.len() == 201 && rows[200] == "800 more hosts", "{} rows", rows.len());
    let json = status(&sandbox, &["--json"]).run().succeeds().json();
    assert_eq!(json["hosts"].as_array().unwrap().len(), 1000);
    assert_eq!(json["verdict"]["outliers"][0]["host"], host(0));
}

#[test]
fn a_page_of_a_ledger_reads_well_in_a_browser() {
    let mut browser = match Browser::start() {
        Ok(browser) => browser,
        Err(why) => return skip(&why),
    };
    let sandbox = Sandbox::new();
    drop(small(&sandbox));
    sandbox.weir(WEIR, ["report", "plan.db", "-o", "fleet-ledger.html"]).run().succeeds();
    let wrong = look(&mut browser, &sandbox.path("fleet-ledger.html"), &shots());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_no_ledger_gets_no_page() {
    let sandbox = Sandbox::new();
    drop(small(&sandbox));
    let whole = sandbox.read("plan.db");
    sandbox.write("half.db", &whole[..whole.len() / 3]);
    let mut other = whole.clone();
    // The mark of another program (SQLite's file format, 1.3.20).
    other[68..72].copy_from_slice(b"Else");
    sandbox.write("other.db", other);
    let run = |words: &[&str]| sandbox.weir(WEIR, [&["report"], words].concat()).run();
    run(&["half.db"]).fails(1, &["half.db is damaged"]);
    run(&["other.db"]).fails(1, &["other.db is a database of another program, not a ledger"]);
    run(&["postgres://u:secret@127.0.0.1:1/d?sslmode=x", "-o", "p.html"])
        .fails(1, &["sslmode"])
        .hides("secret");
    run(&["postgres://127.0.0.1:1/d"]).fails(2, &["add -o PAGE.html"]);
    assert!(!sandbox.names().iter().any(|name| name.ends_with(".html")), "{:?}", sandbox.names());
}

#[test]
fn status_says_rate_end_and_who_differs_once_and_again() {
    let sandbox = Sandbox::new();
    let mut played = small(&sandbox);
    let once = status(&sandbox, &[]).run();
    once.succeeds();
    let text = String::from_utf8_lossy(&once.stdout).into_owned();
    // One look tells how many objects are left, and not how many are done a second.
    for words in ["over the last ", "its end is not known: one look does not tell", "failed by class missing"]
    {
        assert!(text.contains(words), "no '{words}':\n{text}");
    }
    // A line each second, and the end of its own.
    let mut watching = status(&sandbox, &["--watch", "--json"]).spawn_lines();
    let first = watching.next();
    assert_eq!((&first["complete"], &first["leased"]), (&false.into(), &30.into()));
    let now = Arc::clone(&played.clock);
    played.clock.store(now.load(Relaxed) + 2 * LEASE.as_millis() as i64, Relaxed);
    let mut number = 0;
    while let Some(claim) = played.claim(number) {
        number += 1;
        let moved = Tally { objects: 10, bytes: 10_000_000 };
        let results = BatchResults { covered: 10, moved, ..BatchResults::default() };
        played.ledger.finish(claim.lease, &results).unwrap();
    }
    let last = watching.until(|line| line["complete"] == true);
    assert_eq!(last["left"]["objects"], 0);
    watching.running.wait().succeeds();
}

/// A command and the JSON lines that it prints.
struct Lines {
    running: Running,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Lines {
    fn next(&mut self) -> serde_json::Value {
        serde_json::from_str(&self.lines.recv_timeout(TIMEOUT).expect("a line")).unwrap()
    }

    fn until(&mut self, is_it: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        loop {
            let line = self.next();
            if is_it(&line) {
                return line;
            }
        }
    }
}

trait SpawnLines {
    fn spawn_lines(self) -> Lines;
}

impl SpawnLines for crate::support::Weir {
    fn spawn_lines(self) -> Lines {
        let (read, write) = std::io::pipe().unwrap();
        let running = self.stdout(write).spawn();
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(read).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Lines { running, lines }
    }
}

/// Another program holds the ledger's file, as a database that is down holds everybody.
fn held(sandbox: &Sandbox) -> std::process::Child {
    let words = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); \
                 c.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()";
    let mut python = Command::new("python3")
        .args(["-c", words])
        .arg(sandbox.path("plan.db"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut said = [0; 4];
    python.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    python
}

#[test]
fn the_live_view_outlives_its_ledger_and_gives_the_terminal_back() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    drop(small(&sandbox));
    let seen = |text: &str| text.contains("those that differ first");
    screen.view_until("fleet status --ledger plan.db", seen);
    let whole = screen.until("all of it", |text| text.contains("q ends the view"));
    for part in [
        "weir fleet s3://b/<i>/ to /mnt/a&b",
        "batches: 74 wait, 30 are held",
        "30 hosts, 30 workers",
        "> h0000<b>",
    ] {
        assert!(whole.contains(part), "no '{part}':\n{whole}");
    }
    let mut holder = held(&sandbox);
    screen.until("word that it is away", |text| text.contains("the ledger does not answer since"));
    drop(holder.stdin.take());
    holder.wait().unwrap();
    screen.until("a ledger that is back", |text| {
        !text.contains("does not answer") && text.contains("30 hosts")
    });
    screen.tmux(&["resize-window", "-x", "40", "-y", "8"]);
    screen
        .until("a small picture", |text| text.lines().nth(7).is_some_and(|last| last.starts_with("q ends")));
    screen.press("C-c");
    screen.is_over(0);
    assert!(screen.whole().contains("planned"), "what was seen last is printed");
}

/// An exporter over the ledger, and its address.
fn exporter(sandbox: &Sandbox) -> (Running, String) {
    let mut weir = status(sandbox, &["--metrics", ":0"]);
    weir.command.stderr(std::fs::File::create(sandbox.path("said")).unwrap());
    let running = weir.spawn();
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let said = std::fs::read_to_string(sandbox.path("said")).unwrap_or_default();
        if let Some(url) = said.lines().find_map(|line| line.strip_prefix("metrics at ")) {
            return (running, url.to_owned());
        }
        assert!(Instant::now() < deadline, "no address: {said}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn curl(words: &[&str]) -> String {
    let curl =
        Command::new("curl").args(["-sS", "--max-time", "20"]).args(words).output().expect("curl runs");
    assert!(curl.status.success(), "{words:?}: {}", String::from_utf8_lossy(&curl.stderr));
    String::from_utf8(curl.stdout).unwrap()
}

#[test]
fn metrics_are_what_prometheus_reads_and_nobody_can_block_them() {
    let sandbox = Sandbox::new();
    drop(small(&sandbox));
    let (running, url) = exporter(&sandbox);
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let page = curl(&["-i", &url]);
    let (head, page) = page.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let media_type = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.contains(media_type) && head.contains("Cache-Control: no-store"), "{head}");
    is_openmetrics(page);
    for line in [
        "weir_fleet_up 1",
        "weir_fleet_moved_objects_total 952",
        "weir_fleet_failed_objects{class=\"missing\"} 8",
        "weir_fleet_batches{state=\"leased\"} 30",
        "weir_fleet_host_limit_ratio{host=\"h0000<b>\\\"\\\\\u{fffd}[31m\",limit=\"disk\"} 9e-1",
    ] {
        assert!(page.lines().any(|known| known == line), "no '{line}':\n{page}");
    }
    parsed_by_prometheus(&sandbox, page);
    // Nothing else is answered, and nothing is changed.
    let code = |words: &[&str]| curl(&[&["-o", "/dev/null", "-w", "%{http_code}"], words].concat());
    let root = url.strip_suffix("metrics").unwrap();
    assert_eq!(code(&[root]), "404");
    assert_eq!(code(&["-X", "POST", "-d", "x", &url]), "405");
    // Those who hold connections and say nothing, or a little, give way to one who asks.
    let address = root.strip_prefix("http://").unwrap().trim_end_matches('/');
    let mut hostile: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (number, stream) in hostile.iter_mut().enumerate().filter(|(number, _)| number % 2 == 0) {
        // One that was hung up on already is as good.
        let _ = write!(stream, "GET /metrics HTTP/1.1\r\nX-{number}: ");
    }
    is_openmetrics(&curl(&["--retry", "5", "--retry-all-errors", &url]));
    drop(hostile);
    running.signal(Signal::TERM);
    running.wait().exits(0);
}

/// OpenMetrics 1.0.0, as far as a page of gauges and counters goes.
fn is_openmetrics(page: &str) {
    assert!(page.ends_with("\n# EOF\n") && page.matches("# EOF").count() == 1, "{page}");
    let (mut families, mut samples) = (BTreeSet::new(), BTreeSet::new());
    let mut family = ("", "");
    for line in page.lines().filter(|line| *line != "# EOF") {
        if let Some(of) = line.strip_prefix("# TYPE ") {
            family = of.split_once(' ').unwrap();
            assert!(families.insert(family.0) && ["gauge", "counter"].contains(&family.1), "{line}");
        } else if let Some(of) = line.strip_prefix("# HELP ") {
            assert_eq!(of.split_once(' ').unwrap().0, family.0, "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let suffix = if family.1 == "counter" { "_total" } else { "" };
            assert_eq!(name, format!("{}{suffix}", family.0), "{line}");
            assert!(value.parse::<f64>().is_ok() && samples.insert(series), "{line}");
        }
    }
    assert!(samples.len() > 20, "{page}");
}

/// The parser of Prometheus' own client, where there is one.
fn parsed_by_prometheus(sandbox: &Sandbox, page: &str) {
    let folder =
        std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/weir-test/prometheus_client"));
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        return skip("no prometheus_client: scripts/need test");
    };
    let words = "import sys; from prometheus_client.openmetrics.parser import text_string_to_metric_families as read; \
                 print(sum(len(f.samples) for f in read(open(sys.argv[1], encoding='utf-8').read())))";
    let page = sandbox.write("metrics.txt", page);
    let python =
        Command::new("python3").args(["-c", words]).arg(page).env("PYTHONPATH", folder).output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let samples: usize = String::from_utf8_lossy(&python.stdout).trim().parse().unwrap();
    assert!(samples > 20, "{samples}");
}
