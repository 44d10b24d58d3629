//! `weir bench host --local`, and what plan, cp, get and bench mem make of what it keeps; and that nothing
//! that may lie in its place does harm.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::{MIB, Run, Sandbox, Server, Sshd, WEIR, pattern, skip, wait_for};
use weir_observe::cpuinfo;
use weir_observe::disk::{DiskReader, block_device};

/// Where weir looks for it, below the sandbox's home.
const KEPT: &str = ".cache/weir/host.json";

/// 22 November 2026.
const DAY: u64 = 1_795_305_600;

const ORIGIN: &str = "this host's calibration of 2026-11-22";

/// The block device that the sandbox lies on.
fn device(sandbox: &Sandbox) -> Option<String> {
    let found =
        block_device(&sandbox.path("")).and_then(DiskReader::open).and_then(|mut reader| reader.read());
    found.map(|counters| counters.name).map_err(|why| skip(&why.to_string())).ok()
}

/// A calibration of this host as somebody might have written it.
fn calibration(sandbox: &Sandbox) -> Value {
    let (processors, name) = (cpuinfo::read().unwrap(), rustix::system::uname());
    json!({
        "schema": "weir.run/1", "command": "bench", "outcome": "complete",
        "calibration": {
            "taken": DAY,
            "host": name.nodename().to_str().unwrap(),
            "processor": processors.model,
            "processors": processors.count,
            "kernel": "6.18",
            "disks": [
                { "device": device(sandbox).unwrap_or("none".into()), "taken": DAY, "folder": "/", "write": 2.5e8, "read": 1.2e8 },
            ],
            "ciphers": [
                { "name": "aes-128-gcm", "rate": 7.77e8 },
                { "name": "chacha20-poly1305", "rate": 5e8 },
            ],
            "ssh": { "name": "chacha20-poly1305@openssh.com", "rate": 2.1e8 },
            "ssh_fastest": { "name": "aes128-gcm@openssh.com", "rate": 8.4e8 },
        },
    })
}

fn keep(sandbox: &Sandbox, text: impl AsRef<[u8]>) {
    fs::create_dir_all(sandbox.path(".cache/weir")).unwrap();
    sandbox.write(KEPT, text);
}

/// A sandbox whose host is calibrated.
fn calibrated() -> Sandbox {
    let sandbox = Sandbox::new();
    keep(&sandbox, calibration(&sandbox).to_string());
    sandbox
}

fn weir(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.weir(WEIR, args).run()
}

/// A plan by ssh over a link that holds nothing, for data that need no codec.
fn by_ssh(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.write("figures.csv", "codec,ratio,compress\nplain,1,90000\n");
    let plan = ["plan", "--codec-table", "figures.csv", "--link", "10GB/s", "--transport", "ssh"];
    weir(sandbox, &[&plan, args].concat())
}

/// Rate and limit of the first column's first codec.
fn cell(record: &Value) -> (f64, &str) {
    let cell = &record["plan"]["columns"][0]["cells"][0];
    (cell["rate"].as_f64().unwrap(), cell["limit"].as_str().unwrap())
}

fn notes(record: &Value) -> String {
    record["plan"]["notes"].to_string()
}

fn stdout(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// What a run noted of itself in `evidence`.
fn facts(sandbox: &Sandbox) -> Value {
    serde_json::from_slice::<Value>(&sandbox.read("evidence")).unwrap()["facts"].clone()
}

/// Some half a minute, once.
#[test]
fn all_of_a_host_is_measured_and_kept() {
    let sandbox = Sandbox::new();
    let mut before = calibration(&sandbox);
    before["calibration"]["disks"] = json!([
        { "device": "another0", "taken": 86_400, "folder": "/far", "write": 5e7 },
        { "device": device(&sandbox).unwrap_or("none".into()), "taken": 86_400, "folder": "/", "write": 1.0 },
    ]);
    keep(&sandbox, before.to_string());
    fs::create_dir(sandbox.path("here")).unwrap();
    let run = sandbox.weir(WEIR, ["bench", "host", "--local", "--disk", "here", "--json"]).spawn();
    let record = run.wait_for(Duration::from_secs(300)).succeeds().json();
    assert_eq!((&record["command"], &record["outcome"]), (&"bench".into(), &"complete".into()));
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    assert!(number(&record["mem"]["levels"][0]["throughput"]) > 1e8, "{}", record["mem"]);
    assert!(number(&record["codecs"]["rows"][1]["compress"]["rate"]) > 1e5, "{}", record["codecs"]);
    assert!(number(&record["ciphers"]["rows"][0]["seal"]["rate"]) > 1e5, "{}", record["ciphers"]);
    assert_eq!(record["disk"]["folder"], "here");
    let found = &record["calibration"];
    assert_eq!(found["processors"].as_u64(), Some(cpuinfo::read().unwrap().count.into()));
    assert!(found["taken"].as_u64() > Some(1_700_000_000), "{found}");
    let named =
        |list: &str, name: &str| found[list].as_array().unwrap().iter().any(|one| one["name"] == name);
    assert!(
        named("ciphers", "aes-128-gcm") && named("codecs", "zstd-12") && !named("codecs", "none"),
        "{found}"
    );
    if let Some(device) = device(&sandbox) {
        let disks = found["disks"].as_array().unwrap();
        let names: Vec<_> = disks.iter().map(|disk| disk["device"].as_str().unwrap()).collect();
        assert_eq!(names, [device.as_str(), "another0"]);
        assert!(number(&disks[0]["write"]) > 1e4 && disks[0]["taken"] == found["taken"], "{found}");
        assert_eq!(disks[1]["taken"], 86_400, "its own date stays");
        assert_eq!(record["mem"]["disks"], found["disks"]);
    }

    let mode = |path: &str| fs::metadata(sandbox.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(KEPT), 0o600);
    let kept: Value = serde_json::from_slice(&sandbox.read(KEPT)).unwrap();
    assert_eq!(kept, record);
    let left: Vec<_> = sandbox.names().into_iter().filter(|name| name.contains("host.")).collect();
    assert_eq!(left, [KEPT], "no draft of it is left");
    weir(&sandbox, &["report", KEPT, "-o", "host.html"]).succeeds();
    let page = String::from_utf8(sandbox.read("host.html")).unwrap();
    for part in [
        "weir bench host --local, complete",
        "This host",
        "Caches and memory",
        "Codecs",
        "Ciphers",
        "The disk",
    ] {
        assert!(page.contains(part), "no '{part}'");
    }
    // What was kept is what later runs go by.
    let used = by_ssh(&sandbox, &["--json"]).succeeds().json();
    let by_it = notes(&used).contains("this host's calibration of 20");
    assert_eq!(by_it, !found["ssh"].is_null(), "{used}");
}

#[test]
fn an_interrupt_keeps_nothing() {
    let sandbox = Sandbox::new();
    let running = sandbox.weir(WEIR, ["bench", "host", "--local", "--json"]).spawn();
    // Memory is measured first, and has mapped most of what it wants.
    wait_for("its memory", || running.resident() > 150 << 20);
    running.signal(Signal::INT);
    let record = running.wait().exits(130).json();
    assert_eq!(record["outcome"], "partial");
    assert!(record["mem"].is_object() && record["codecs"].is_null() && record["disk"].is_null(), "{record}");
    assert!(!sandbox.path(".cache").exists(), "{:?}", sandbox.names());
}

#[test]
fn a_plan_goes_by_it_and_says_so() {
    let sandbox = calibrated();
    let record = by_ssh(&sandbox, &["--json"]).succeeds().json();
    assert_eq!(cell(&record), (2.1e8, "encrypt"));
    let text = stdout(by_ssh(&sandbox, &[]).succeeds());
    for note in [
        format!("note: ssh encrypts 210 MB/s by chacha20-poly1305@openssh.com: {ORIGIN}"),
        "note: ssh -c aes128-gcm@openssh.com would encrypt 840 MB/s (--ssh-rate plans with that)".to_owned(),
    ] {
        assert!(text.contains(&note), "no '{note}' in:\n{text}");
    }
    // What the user says is what counts.
    let record = by_ssh(&sandbox, &["--ssh-rate", "99MB/s", "--json"]).succeeds().json();
    assert_eq!(cell(&record), (99e6, "encrypt"));
    assert_eq!(notes(&record), "[]");
    let none = by_ssh(&Sandbox::new(), &["--json"]).succeeds().json();
    assert_eq!(cell(&none), (3.4e8, "encrypt"));
    assert!(notes(&none).contains("assumed to encrypt 340 MB/s"), "{none}");
}

/// A file of 8 MiB on the disk, in memory or not.
fn data(sandbox: &Sandbox, in_memory: bool) {
    let file = fs::File::open(sandbox.write("data", pattern(8 * MIB, 3))).unwrap();
    file.sync_all().unwrap();
    if !in_memory {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

#[test]
fn a_plan_with_a_file_knows_the_cipher_and_the_disk_it_is_read_from() {
    let sandbox = calibrated();
    let plan = |args: &[&str]| {
        let plan = [
            "plan",
            "data",
            "--link",
            "10GB/s",
            "--transport",
            "weir",
            "--lanes",
            "1",
            "--cores",
            "1",
            "--json",
        ];
        weir(&sandbox, &[&plan, args].concat()).succeeds().json()
    };
    let of_none = |record: &Value| {
        let cells = record["plan"]["columns"][0]["cells"].as_array().unwrap();
        let none = cells.iter().find(|cell| cell["codec"] == "none").unwrap();
        (none["rate"].as_f64().unwrap(), none["limit"].as_str().unwrap().to_owned())
    };
    data(&sandbox, true);
    let warm = plan(&[]);
    assert_eq!(of_none(&warm), (7.77e8, "encrypt".to_owned()));
    assert!(
        notes(&warm).contains(&format!("one of weir's threads encrypts 777 MB/s by aes-128-gcm: {ORIGIN}")),
        "{warm}"
    );
    assert!(!notes(&warm).contains("gives"), "what is in memory is not read from a disk: {warm}");
    let Some(device) = device(&sandbox) else { return };
    data(&sandbox, false);
    let cold = plan(&[]);
    assert_eq!(of_none(&cold), (1.2e8, "source-disk".to_owned()), "{cold}");
    assert!(
        notes(&cold).contains(&format!("{device} gives 120 MB/s of data that are not in memory")),
        "{cold}"
    );
    data(&sandbox, false);
    assert_eq!(of_none(&plan(&["--source", "50MB/s"])), (5e7, "source-disk".to_owned()));
}

#[test]
fn a_copy_begins_with_its_speeds_and_says_so() {
    let sandbox = calibrated();
    let Some(device) = device(&sandbox) else { return };
    sandbox.write("a", pattern(32 * MIB, 5));
    let run =
        weir(&sandbox, &["cp", "-v", "--limit-rate", "60MB/s", "--evidence", "evidence", "a", "b", "--json"]);
    let record = run.succeeds().says(&["speeds of ciphers and codecs", ORIGIN]).json();
    assert_eq!(record["cp"]["calibration"], "2026-11-22");
    let facts = facts(&sandbox);
    assert_eq!(facts["disk"], device.as_str(), "{facts}");
    assert_eq!(facts["disk_alone"], json!({ "write": 2.5e8, "read": 1.2e8, "date": "2026-11-22" }));
    let none = Sandbox::new();
    none.write("a", "b");
    let run = weir(&none, &["cp", "-v", "a", "b", "--json"]);
    assert!(
        run.succeeds().json()["cp"]["calibration"].is_null() && !run.stderr.contains("calibration"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_disk_of_a_far_host_is_not_this_ones() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = calibrated();
    let Some(device) = device(&sandbox) else { return };
    sandbox.write("a", pattern(32 * MIB, 6));
    let to = format!("far:{}", sandbox.path("b").display());
    let run =
        sshd.copies(&sandbox, &["--limit-rate", "60MB/s", "--evidence", "evidence", "a", &to, "--json"]);
    assert_eq!(run.succeeds().json()["cp"]["calibration"], "2026-11-22");
    // Its name is the same, as it happens.
    let facts = facts(&sandbox);
    assert_eq!((&facts["disk"], &facts["disk_alone"]), (&device.into(), &Value::Null), "{facts}");
}

#[test]
fn a_download_knows_what_its_disk_took_alone() {
    let sandbox = calibrated();
    let Some(_) = device(&sandbox) else { return };
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], b"the bytes"));
    weir(&sandbox, &["get", "-q", "--evidence", "evidence", &server.url("x")]).succeeds();
    let evidence: Value = serde_json::from_slice(&sandbox.read("evidence")).unwrap();
    assert_eq!(
        evidence["facts"]["disk_alone"],
        json!({ "write": 2.5e8, "read": 1.2e8, "date": "2026-11-22" })
    );
}

/// Sends itself a second and a half of bytes and writes them to a file.
const KEEPER: &str = "import socket,sys,threading,time
listener = socket.create_server(('127.0.0.1', 0))
near = socket.create_connection(listener.getsockname())
far = listener.accept()[0]
def keep():
    with open(sys.argv[1], 'wb') as out:
        for piece in iter(lambda: far.recv(65536), b''):
            out.write(piece)
            out.flush()
threading.Thread(target=keep).start()
end = time.time() + 1.5
while time.time() < end:
    near.sendall(b'x' * 50000)
    time.sleep(0.02)
near.close()";

#[test]
fn a_program_that_writes_is_judged_by_what_its_disk_took_alone() {
    let sandbox = calibrated();
    let Some(device) = device(&sandbox) else { return };
    if std::process::Command::new("python3").arg("-V").output().is_err() {
        return skip("no python3");
    }
    weir(&sandbox, &["why", "--json", "--evidence", "evidence", "--", "python3", "-c", KEEPER, "kept"])
        .succeeds();
    let facts = facts(&sandbox);
    assert_eq!(facts["disk"], device, "{facts}");
    assert_eq!(facts["disk_alone"], json!({ "write": 2.5e8, "read": 1.2e8, "date": "2026-11-22" }));
}

#[test]
fn memory_has_the_disks_beside_it() {
    let sandbox = Sandbox::new();
    let mut hostile = calibration(&sandbox);
    hostile["calibration"]["disks"][0]["device"] = "v\u{1b}[2Jda".into();
    keep(&sandbox, hostile.to_string());
    let mem = ["bench", "mem", "--quick", "--up-to", "2MiB", "--threads", "1"];
    let text = stdout(weir(&sandbox, &mem).succeeds());
    let line = "disk v\\u{1b}[2Jda  written 250 MB/s, read 120 MB/s (2026-11-22)";
    assert!(text.contains(line) && !text.contains('\u{1b}'), "{text}");
    let run = weir(&sandbox, &[&mem[..], &["--json", "--report", "mem.html"]].concat());
    assert_eq!(run.succeeds().json()["mem"]["disks"][0]["write"], 2.5e8);
    let page = String::from_utf8(sandbox.read("mem.html")).unwrap();
    assert!(
        page.contains("Disks and links beside it") && page.contains("250 MB/s") && !page.contains('\u{1b}')
    );
}

#[test]
fn one_of_another_host_is_not_used_and_that_is_said() {
    for (name, other) in
        [("processor", json!("6502")), ("processors", json!(4097)), ("host", json!("another.example"))]
    {
        let sandbox = Sandbox::new();
        let mut record = calibration(&sandbox);
        record["calibration"][name] = other;
        keep(&sandbox, record.to_string());
        let run = by_ssh(&sandbox, &["-v", "--json"]);
        assert_eq!(cell(&run.succeeds().json()), (3.4e8, "encrypt"), "{name}");
        run.says(&["host.json is not used", "weir bench host --local measures this host"]);
        assert_eq!(run.stderr.matches("is not used").count(), 1, "{}", run.stderr);
    }
}

#[test]
fn what_is_no_calibration_does_no_harm() {
    let template = Sandbox::new();
    let sound = calibration(&template);
    let text = sound.to_string();
    let with = |name: &str, value: &str| {
        text.replacen(&format!("\"{name}\":"), &format!("\"{name}\":{value},\"x\":"), 1)
    };
    let mut long_name = sound.clone();
    long_name["calibration"]["ssh"]["name"] = "x".repeat(100_000).into();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("truncated", text.as_bytes()[..text.len() - 20].to_vec()),
        ("huge", format!("{}{text}", " ".repeat(2 << 20)).into()),
        ("not a number", text.replace("210000000.0", "NaN").into()),
        ("negative", text.replace("210000000.0", "-1").into()),
        ("nothing a second", text.replace("210000000.0", "0").into()),
        ("beyond numbers", text.replace("210000000.0", "1e999").into()),
        ("a word", text.replace("210000000.0", "\"fast\"").into()),
        ("disks are a number", with("disks", "7").into()),
        ("deep", format!("{{\"schema\":\"weir.run/1\",\"mem\":{}", "[".repeat(500_000)).into()),
        ("a long name", long_name.to_string().into()),
        ("another version", text.replace("weir.run/1", "weir.run/9").into()),
        ("no text", vec![0xff; 4096]),
    ];
    for (what, bytes) in cases {
        assert_ne!(bytes, text.as_bytes(), "{what} changed nothing");
        let sandbox = Sandbox::new();
        keep(&sandbox, bytes);
        let run = by_ssh(&sandbox, &["--json"]);
        assert_eq!(cell(&run.succeeds().json()), (3.4e8, "encrypt"), "{what}");
        assert_eq!(run.stderr, "", "{what}");
    }
    let folder = Sandbox::new();
    fs::create_dir_all(folder.path(KEPT)).unwrap();
    let pipe = Sandbox::new();
    fs::create_dir_all(pipe.path(".cache/weir")).unwrap();
    pipe.weir("mkfifo", [KEPT]).run().succeeds();
    for sandbox in [folder, pipe] {
        assert_eq!(cell(&by_ssh(&sandbox, &["--json"]).succeeds().json()), (3.4e8, "encrypt"));
    }
}

#[test]
fn what_could_not_be_measured_is_told_at_once_or_at_the_end() {
    let sandbox = Sandbox::new();
    let run = sandbox.weir(WEIR, ["bench", "host", "--local", "-q", "--disk", "nope"]).spawn();
    // All parts take half a minute and more.
    run.wait_for(Duration::from_secs(10)).fails(1, &["nope", "no such file"]);
    // A working folder that no file can be made in is found last, and the others are kept.
    let run = sandbox.weir("env", ["-C", "/proc", WEIR, "bench", "host", "--local", "-q"]).spawn();
    run.wait_for(Duration::from_secs(300)).fails(1, &["disk: "]);
    let kept: Value = serde_json::from_slice(&sandbox.read(KEPT)).unwrap();
    assert!(kept["codecs"].is_object() && kept["disk"].is_null(), "{kept}");
}

#[test]
fn words_of_the_command_line() {
    let sandbox = Sandbox::new();
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["HOST[:PORT]"]),
        (&["--local", "127.0.0.1"], &["cannot be used with"]),
        (&["127.0.0.1", "--disk", "."], &["cannot be used with"]),
        (&["--disk", "."], &["--local"]),
        (&["--local", "--tries", "3"], &["cannot be used with"]),
        (&["--local", "--only", "rtt"], &["cannot be used with"]),
    ];
    for (args, says) in cases {
        sandbox.weir(WEIR, ["bench", "host"]).args(args).run().fails(2, says);
    }
}
