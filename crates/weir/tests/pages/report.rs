//! `weir report` by its command line: what it makes of good records, of foreign bytes, and of places that
//! cannot be written.

use crate::support;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use support::{Run, Sandbox, WEIR, skip, wait_for};

/// A record as `--json` prints it.
fn record(name: &str) -> String {
    serde_json::json!({
        "schema": "weir.run/1", "command": "get", "outcome": "complete", "bytes": 1000, "seconds": 1.0, "rate": 1000.0,
        "files": [{ "url": format!("http://far/{name}"), "path": name, "bytes": 1000, "resumed_from": 0, "connections": 1,
                    "digest": null, "error": null }],
        "verdict": { "limit": "disk", "confidence": 0.9, "shares": { "disk": 1.0 }, "evidence": ["disk: busy"],
                     "innocent": ["latency: none"], "missing": [], "advice": [{ "action": "buy one", "predicted_rate": 2000.0 }] },
        "samples": [{ "t": 0.0, "rate": 1000.0, "limit": "disk" }]
    })
    .to_string()
}

fn report(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.weir(WEIR, ["report"]).args(args).run()
}

fn text(sandbox: &Sandbox, name: &str) -> String {
    String::from_utf8(sandbox.read(name)).expect("a page is UTF-8")
}

#[test]
fn a_page_is_written_beside_its_record() {
    let sandbox = Sandbox::new();
    sandbox.write("run.json", record("a"));
    report(&sandbox, &["run.json"]).succeeds().says(&["page: run.html"]);
    let page = text(&sandbox, "run.html");
    for part in
        ["Received 1.00 KB in 1.00 s", "held by", "The pipeline", "Rate over time", "buy one", "2.0 ×"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(sandbox.names(), ["run.html", "run.json"], "nothing else is left");
    // Its own page is replaced without a word, another's file is not.
    report(&sandbox, &["run.json", "-q"]).succeeds();
    sandbox.write("run.html", "my thesis");
    report(&sandbox, &["run.json"]).fails(1, &["not a page of weir", "-o 'run.html'"]);
    assert_eq!(text(&sandbox, "run.html"), "my thesis");
    report(&sandbox, &["run.json", "-o", "run.html"]).succeeds();
    // A page is no record, whatever is to become of it.
    for args in [&["run.html"][..], &["run.json", "run.html", "-o", "both.html"]] {
        report(&sandbox, args).fails(2, &["run.html is a page already; open it in a browser"]);
    }
    std::fs::rename(sandbox.path("run.json"), sandbox.path("record.html")).expect("another name");
    report(&sandbox, &["record.html"])
        .fails(2, &["record.html is a record; give the page another name (-o)"]);
}

/// In a folder weir chooses the page's name, which another's file may have already.
#[test]
fn no_file_in_a_folder_is_overwritten_by_chance() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("folder")).expect("a folder");
    sandbox.write("run.json", record("a"));
    sandbox.write("folder/run.html", "my thesis");
    report(&sandbox, &["run.json", "-o", "folder"])
        .fails(1, &["cannot write folder/run.html", "not a page of weir", "-o 'folder/run.html'"]);
    assert_eq!(text(&sandbox, "folder/run.html"), "my thesis");
    report(&sandbox, &["run.json", "-o", "folder/run.html"]).succeeds();
    report(&sandbox, &["run.json", "-o", "folder"]).succeeds();
}

#[test]
fn two_records_are_compared() {
    let sandbox = Sandbox::new();
    sandbox.write("before.json", record("a"));
    sandbox.write("after.json", record("a").replace("1000.0", "1900.0"));
    report(&sandbox, &["before.json", "after.json"]).succeeds().says(&["page: before-and-after.html"]);
    let page = text(&sandbox, "before-and-after.html");
    for part in [
        "2 runs compared",
        "1.9 × of the first",
        "had predicted 2.00 KB/s",
        "A: before.json",
        "B: after.json",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

/// A record of `weir why` at one end of a connection.
fn end(local: &str, peer: &str, sends: bool, limit: &str) -> String {
    let (received, acked) = if sends { (10, 1000) } else { (1000, 10) };
    serde_json::json!({
        "schema": "weir.run/1", "command": "why", "outcome": "complete", "bytes": 1000, "seconds": 1.0, "rate": 1000.0,
        "verdict": { "limit": limit, "confidence": 0.9, "shares": { limit: 1.0 }, "evidence": [], "innocent": [], "missing": [],
                     "advice": [] },
        "samples": [],
        "why": { "subject": limit, "flows": [{ "local": local, "peer": peer, "received": received, "acked": acked }] }
    })
    .to_string()
}

#[test]
fn both_ends_of_one_transfer_are_read_together() {
    let sandbox = Sandbox::new();
    sandbox.write("near.json", end("10.0.0.1:4000", "10.0.0.2:80", false, "application"));
    sandbox.write("far.json", end("10.0.0.2:80", "10.0.0.1:4000", true, "path-loss"));
    report(&sandbox, &["near.json", "far.json"])
        .succeeds()
        .says(&["path-loss, by the sender", "the receiver says application"]);
    let page = text(&sandbox, "near-and-far.html");
    for part in ["Both ends of one transfer", "path-loss, by the sender", "sender: B: far.json"] {
        assert!(page.contains(part), "{part}");
    }
    // In one file too, however alike their titles are.
    let lines = [("10.0.0.1:4000", "10.0.0.2:80", false), ("10.0.0.2:80", "10.0.0.1:4000", true)]
        .map(|(local, peer, sends)| end(local, peer, sends, "path-loss"));
    sandbox.write("both.jsonl", lines.join("\n"));
    report(&sandbox, &["both.jsonl"]).succeeds().says(&["both ends of one transfer agree: path-loss"]);
    sandbox.write("other.json", end("10.0.0.2:80", "10.0.0.1:4001", true, "path-loss"));
    report(&sandbox, &["near.json", "other.json"]).succeeds();
    assert!(!text(&sandbox, "near-and-other.html").contains("Both ends of one transfer"));
}

#[test]
fn the_page_goes_where_it_is_told() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("folder")).expect("a folder");
    sandbox.write("run.json", record("a"));
    report(&sandbox, &["run.json", "-o", "folder"]).succeeds();
    assert!(text(&sandbox, "folder/run.html").starts_with("<!doctype html>"));
    let printed = report(&sandbox, &["run.json", "-o", "-"]);
    assert_eq!(printed.succeeds().stdout, sandbox.read("folder/run.html"), "the same page, whoever gets it");
    let piped = sandbox.weir(WEIR, ["report", "-", "-o", "-"]).input(record("a")).run();
    assert!(String::from_utf8_lossy(&piped.succeeds().stdout).contains("</html>"));
    sandbox.weir(WEIR, ["report", "-"]).input(record("a")).run().fails(2, &["stdin", "-o PAGE.html"]);
    report(&sandbox, &["run.json", "-o", "run.json"]).fails(2, &["is a record"]);
    // A link stays one.
    std::os::unix::fs::symlink("folder/run.html", sandbox.path("link.html")).expect("a link");
    report(&sandbox, &["run.json", "-o", "link.html"]).succeeds();
    assert!(sandbox.path("link.html").is_symlink());
    // Also one that leads to nothing yet.
    std::os::unix::fs::symlink("other.html", sandbox.path("folder/link.html")).expect("a link");
    report(&sandbox, &["run.json", "-o", "folder/link.html"]).succeeds();
    assert!(sandbox.path("folder/link.html").is_symlink());
    assert!(text(&sandbox, "folder/other.html").starts_with("<!doctype html>"));
}

#[test]
fn what_is_no_record_is_refused_with_its_line() {
    let sandbox = Sandbox::new();
    let whole = record("a");
    for (bytes, words) in [
        (String::new(), "nothing is in it"),
        ("hello\n".to_owned(), "line 1: no record of weir's"),
        (whole[..whole.len() / 2].to_owned(), "line 1: the record is cut off"),
        (
            whole.replace("weir.run/1", "weir.run/7"),
            "line 1: record is 'weir.run/7', this weir reads weir.run/1",
        ),
        (whole.replace("\"get\"", "7"), "line 1: a broken record"),
        ("\u{0}\u{1b}[2J".to_owned(), "line 1: no record"),
        ("[".repeat(1 << 20), "line 1"),
    ] {
        sandbox.write("bad.json", bytes);
        let run = report(&sandbox, &["bad.json"]);
        run.fails(1, &["cannot read bad.json", words]);
        assert!(!run.stderr.contains('\u{1b}'));
        assert_eq!(sandbox.names(), ["bad.json"], "no page of it");
    }
    report(&sandbox, &["absent.json"]).fails(1, &["cannot read absent.json"]);
    report(&sandbox, &["."]).fails(1, &["cannot read .: it is a folder"]);
    report(&sandbox, &[]).fails(2, &["RECORD"]);
}

#[test]
fn gigabytes_are_not_held_in_memory() {
    let sandbox = Sandbox::new();
    // Sparse: three gigabytes of zeros after a record, and alone.
    for (start, code, words) in
        [(record("a") + "\n", 1, "more than 1 GiB"), (String::new(), 1, "longer than 32 MiB")]
    {
        let path = sandbox.write("big.json", start);
        let file = std::fs::File::options().write(true).open(path).expect("a file");
        file.set_len(3 << 30).expect("a sparse file");
        report(&sandbox, &["big.json"]).fails(code, &[words]);
    }
}

#[test]
fn a_record_that_never_comes_can_be_interrupted() {
    let sandbox = Sandbox::new();
    // Nobody writes to it: to open it takes for ever.
    sandbox.pipe("pipe");
    for signal in [Signal::INT, Signal::TERM] {
        let running = sandbox.weir(WEIR, ["report", "pipe", "-o", "page.html"]).spawn();
        wait_for("a handler", || running.catches(signal));
        running.signal(signal);
        running.wait().exits(130);
    }
    assert_eq!(sandbox.names(), ["pipe"]);
}

#[test]
fn of_many_lines_the_last_whole_one_of_each_transfer_counts() {
    let sandbox = Sandbox::new();
    let begun = record("a").replace("complete", "partial");
    let last = record("a").replace("1000.0", "3000.0");
    let lines = format!("{begun}\n{}\n{last}\n{}", record("b"), &last[..99]);
    sandbox.write("log.jsonl", lines);
    report(&sandbox, &["log.jsonl"]).succeeds().says(&["line 4 was left out", "the last whole line counts"]);
    let page = text(&sandbox, "log.html");
    assert!(
        page.contains("2 runs compared")
            && page.contains("3.00 KB/s")
            && page.contains("line 4 was left out")
    );
    // What was complete and done again is another run.
    sandbox.write("log.jsonl", format!("{}\n{last}\n", record("a")));
    report(&sandbox, &["log.jsonl"]).succeeds();
    assert!(text(&sandbox, "log.html").contains("3.0 × of the first"));
}

#[test]
fn records_are_read_however_jq_lays_them_out() {
    let sandbox = Sandbox::new();
    let values: [serde_json::Value; 3] =
        ["a", "b", "c"].map(|name| serde_json::from_str(&record(name)).expect("JSON"));
    let pretty = |value: &serde_json::Value| serde_json::to_string_pretty(value).expect("JSON");
    let behind = values.iter().map(pretty).collect::<Vec<_>>().join("\n");
    let list = serde_json::Value::from(values.to_vec());
    for text in [behind, pretty(&list), list.to_string()] {
        let run = sandbox.weir(WEIR, ["report", "-", "-o", "-"]).input(text).run();
        let page = String::from_utf8_lossy(&run.succeeds().stdout).into_owned();
        assert!(page.contains("3 runs compared"), "{page}");
    }
}

#[test]
fn hostile_words_come_out_inert() {
    let sandbox = Sandbox::new();
    let evil =
        "\"><script>alert(1)</script><img src=x onerror=alert(2)>' style=x javascript:alert(3)//\u{202e}";
    let mut value: serde_json::Value = serde_json::from_str(&record(evil)).expect("JSON");
    poison(&mut value, evil);
    value["schema"] = "weir.run/1".into();
    value["outcome"] = "complete".into();
    for member in [
        "cp",
        "why",
        "lab",
        "http",
        "net",
        "pps",
        "codecs",
        "ciphers",
        "host",
        "plan",
        "copy",
        "prediction",
        "mem",
    ] {
        value[member] = serde_json::json!({ "subject": evil, "url": evil, "host": evil, "data": evil, "sources": [evil],
            "target": evil, "rate": 1e308, "limit": evil, "scenarios": [{ "name": evil, "title": evil }],
            "rows": [{ "codec": evil, "cipher": evil, "method": evil, "ratio": 1e-300 }], "notes": [evil],
            "flows": [{ "local": evil, "peer": evil, "limit": evil, "rate": -1e308 }],
            "figures": [{ "name": evil, "text": evil, "unit": evil, "origin": evil }] });
    }
    sandbox.write("evil.json", value.to_string());
    report(&sandbox, &["evil.json"]).succeeds();
    let page = text(&sandbox, "evil.html");
    assert!(page.contains("&lt;script&gt;"), "it is shown");
    for bad in ["<script", "<img", "onerror=alert(2)>", "\u{202e}", "href=", " style=\""] {
        assert!(!page.contains(bad), "{bad}");
    }
}

/// Every text of a record, and every name that may be anyone's, becomes this.
fn poison(value: &mut serde_json::Value, with: &str) {
    match value {
        serde_json::Value::String(text) => *text = with.to_owned(),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| poison(item, with)),
        serde_json::Value::Object(members) => {
            members.values_mut().for_each(|member| poison(member, with));
            if members.contains_key("disk") {
                members.insert(with.to_owned(), 0.5.into());
            }
        }
        _ => {}
    }
}

#[test]
fn a_place_that_cannot_be_written_is_said_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    sandbox.write("run.json", record("a"));
    report(&sandbox, &["run.json", "-o", "no/such/page.html"])
        .fails(1, &["cannot write no/such/page.html", "no such file"]);
    report(&sandbox, &["run.json", "-o", "/dev/full"]).fails(1, &["cannot write /dev/full", "no space left"]);
    let full = sandbox.weir(WEIR, ["report", "run.json", "-o", "-"]);
    full.stdout(std::fs::File::options().write(true).open("/dev/full").expect("/dev/full"))
        .run()
        .fails(1, &["cannot print the page", "no space left"]);
    assert_eq!(sandbox.names(), ["run.json"]);
    if rustix::process::geteuid().is_root() {
        return as_root();
    }
    let folder = sandbox.path("locked");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).expect("its mode");
    report(&sandbox, &["run.json", "-o", "locked/page.html"])
        .fails(1, &["cannot write locked/page.html", "permission denied"]);
}

/// Root may write anywhere; a mount that is read-only stops root too.
fn as_root() {
    let sandbox = Sandbox::new();
    sandbox.write("run.json", record("a"));
    let script = "mount -t tmpfs -o size=16k small small && cp run.json small/ && ! \"$WEIR\" report small/run.json \
                  && ls -A small && mount -o remount,ro small && ! \"$WEIR\" report run.json -o small/page.html";
    std::fs::create_dir(sandbox.path("small")).expect("a folder");
    // 16 KiB hold the record and no page; a mount namespace of its own, so that nothing is left.
    let run = sandbox.weir("unshare", ["-m", "sh", "-c", script]).env("WEIR", WEIR).run();
    if run.stderr.contains("unshare") {
        return skip("no mount namespace here");
    }
    run.succeeds().says(&[
        "cannot write small/run.html: no space left",
        "cannot write small/page.html: read-only file system",
    ]);
    assert_eq!(String::from_utf8_lossy(&run.stdout), "run.json\n", "no half page, no temporary file");
}

#[test]
fn every_command_with_a_record_writes_its_page() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("served")).expect("a folder");
    let mut file = std::fs::File::create(sandbox.path("served/file")).expect("a file");
    file.write_all(&[7; 1 << 20]).expect("its bytes");
    let serving = sandbox.serve("served", &[]);
    let url = serving.url("file");
    sandbox.get([url.as_str(), "-o", "copy", "--report", "get.html"]).run().succeeds();
    assert!(text(&sandbox, "get.html").contains("Received 1.05 MB"));
    let bench = ["bench", "http", "-c", "1", "-t", "1", "-n", "20", url.as_str(), "--report", "http.html"];
    sandbox.weir(WEIR, bench).run().succeeds();
    assert!(text(&sandbox, "http.html").contains("Latency"));
    let plan = ["plan", "--link", "100MB/s", "--report", "plan.html", "-q"];
    sandbox.weir(WEIR, plan).run().succeeds();
    assert!(text(&sandbox, "plan.html").contains("none"));
    // It may miss what transfers need: then its exit code is 1, with a page all the same.
    sandbox.weir(WEIR, ["self-check", "--timeout", "30", "--report", "check.html"]).run();
    assert!(text(&sandbox, "check.html").contains("tcp-info"));
    // What cannot be written is said before the run, not after it.
    sandbox
        .get([&url, "-o", "late", "--report", "no/page.html"])
        .run()
        .fails(1, &["cannot write no/page.html"]);
    sandbox.has_nothing_of("late");
    sandbox.get([url.as_str(), "-o", "late", "--report", "-"]).run().fails(2, &["--report needs a file"]);
}
