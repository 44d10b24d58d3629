//! Fixed records, and those of the gallery, rendered and compared with `tests/snapshots`; read the difference
//! when they change (`INSTA_UPDATE=always cargo test -p weir-report` renews them).
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use weir_model::evidence::*;
use weir_model::verdict::explain;
use weir_report::fold::Sheet;
use weir_report::load::{LoadRecord, render as render_load};
use weir_report::net::Units;
use weir_report::schema::{DigestRecord, FileRecord, Record, RunOutcome, VerdictRecord};
use weir_report::terminal::{render_brief, render_summary, render_verdict};
use weir_report::{
    calibration, ciphers, codecs, host, json, load, memory, net, packets, plan, self_check, storage,
    transactions, why,
};

fn file(name: &str, bytes: u64, connections: u32) -> FileRecord {
    FileRecord {
        url: format!("http://host/{name}"),
        path: format!("/data/{name}"),
        bytes,
        connections,
        ..FileRecord::default()
    }
}

/// Two stretches: a full core, then writes paced to the disk.
fn judged() -> Record {
    let ms = Duration::from_millis;
    let facts = Facts { cpus: 4, objects: 1, disk: Some("sda".to_owned()), ..Facts::default() };
    let interval = |index: u32, rate: u64, lane: LaneInterval, dirty: u64| Interval {
        at: f64::from(index) * 0.1,
        span: ms(100),
        received: rate / 10,
        written: rate / 10,
        lanes: vec![LaneInterval {
            received: rate / 10,
            tcp: Reading::Value(TcpInterval {
                min_rtt: Some(Duration::from_micros(300)),
                segments: 1000,
                ..TcpInterval::default()
            }),
            ..lane
        }],
        cpu: Reading::Value(CpuInterval { busy: vec![0.97, 0.1, 0.1, 0.1], ..CpuInterval::default() }),
        dirty: Reading::Value(DirtyInterval {
            dirty,
            threshold: 600_000_000,
            background: 300_000_000,
            device_limit: None,
        }),
        disk: Reading::Value(DiskInterval { written: 10_000_000, read: 0, busy: 1.0 }),
        ..Interval::default()
    };
    let full = LaneInterval {
        receive_cpu: ms(50),
        write: ms(46),
        write_cpu: ms(45),
        thread: Reading::Value(ThreadInterval { cpu: ms(97), ..ThreadInterval::default() }),
        ..LaneInterval::default()
    };
    let paced = LaneInterval {
        receive_cpu: ms(14),
        write: ms(83),
        write_cpu: ms(17),
        thread: Reading::Value(ThreadInterval {
            cpu: ms(32),
            looks: 5,
            in_dirty_throttle: 4,
            ..ThreadInterval::default()
        }),
        ..LaneInterval::default()
    };
    let intervals = (0..20)
        .map(|index| match index {
            0..4 => interval(index, 310_000_000, full.clone(), 200_000_000),
            _ => interval(index, 110_000_000, paced.clone(), 460_000_000),
        })
        .collect();
    let evidence = Evidence { intervals, trials: Vec::new(), facts };
    let verdict = explain(&evidence);
    let bytes = evidence.intervals.iter().map(|interval| interval.received).sum();
    let mut record = Record::new("get", RunOutcome::Complete, bytes, 2.0).with_verdict(&evidence, &verdict);
    record.files = vec![FileRecord {
        digest: Some(DigestRecord { alg: "sha256".to_owned(), hex: "00ff".to_owned() }),
        ..file("big.iso", bytes, 1)
    }];
    record
}

fn summary(record: &Record, colour: bool) -> String {
    let mut out = Vec::new();
    render_summary(record, Sheet { colour, ..Sheet::default() }, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().count() <= 16, "{text}");
    text
}

#[test]
fn one_file() {
    insta::assert_snapshot!(summary(&judged(), false));
}

#[test]
fn one_file_in_color() {
    insta::assert_snapshot!(summary(&judged(), true).replace('\x1b', "ESC"));
}

#[test]
fn many_files_some_failed() {
    let mut record = Record::new("get", RunOutcome::Partial, 12_300_000, 0.456);
    record.files = (0..100).map(|number| file(&format!("part{number}"), 123_000, 8)).collect();
    for number in [3, 14, 15, 92, 65] {
        record.files[number].error = Some("server said 503\x1b[31m; it may answer later".to_owned());
    }
    record.resumed = Some(1_000_000);
    let verdict = judged().verdict;
    insta::assert_snapshot!(summary(&Record { verdict, ..record }, false));
}

#[test]
fn too_short_to_judge() {
    let evidence = Evidence::default();
    let mut record =
        Record::new("get", RunOutcome::Complete, 1000, 0.004).with_verdict(&evidence, &explain(&evidence));
    record.files = vec![FileRecord { path: "-".to_owned(), ..file("tiny", 1000, 1) }];
    insta::assert_snapshot!(summary(&record, false));
}

fn brief(record: &Record) -> String {
    let mut out = Vec::new();
    render_brief(record, Sheet::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_short_run_is_told_in_a_line() {
    let long = judged();
    assert_eq!(brief(&long), summary(&long, false));
    let short = Record { seconds: 0.1, ..long };
    assert_eq!(brief(&short).lines().count(), 1, "{}", brief(&short));
}

#[test]
fn a_failure_is_told_by_its_error_alone() {
    let mut record = Record { bytes: 0, ..judged() };
    record.outcome = RunOutcome::Failed;
    record.files[0].error = Some("the server says 404".to_owned());
    assert_eq!(brief(&record), "failed: http://host/big.iso: the server says 404\n");
}

#[test]
fn files_left_alone_are_not_received() {
    let mut record = Record::new("get", RunOutcome::Complete, 0, 0.01);
    let there = |name| FileRecord { skipped: true, ..file(name, 5, 0) };
    record.files = vec![there("a")];
    assert!(brief(&record).starts_with("left alone: "), "{}", brief(&record));
    record.files = vec![there("a"), there("b")];
    assert_eq!(brief(&record), "left alone: all 2 files exist\n");
    record.files.push(file("c", 10, 1));
    assert!(brief(&record).contains("1 of 3 files, 2 left alone because they exist"), "{}", brief(&record));
}

#[test]
fn what_many_hosts_deleted_is_told() {
    let copied = |deleted: u64| {
        let row = |host: &str| {
            serde_json::json!({
                "host": host, "outcome": "complete", "files": 3, "unchanged": 3, "deleted": deleted,
            })
        };
        let mut record = Record::new("cp", RunOutcome::Complete, 0, 0.01);
        let cp = serde_json::json!({ "files": 3, "complete": 2, "hosts": [row("a"), row("b")] });
        record.extra.insert("cp".to_owned(), cp);
        brief(&record)
    };
    assert_eq!(copied(0), "left alone: all 2 hosts have it\n");
    assert!(copied(2).starts_with("copied 3 files to 2 hosts, 4 deleted, "), "{}", copied(2));
}

#[test]
fn foreign_text_cannot_drive_the_terminal() {
    let mut record = Record::new("get", RunOutcome::Failed, 5, 0.1);
    record.error = Some("cannot resolve host \x1b]0;title\x07".to_owned());
    record.files = vec![FileRecord { path: "/tmp/a\nlimit: none\u{202e}".to_owned(), ..file("a", 0, 0) }];
    let text = summary(&record, false);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains('\u{202e}'), "{text:?}");
    assert_eq!(text.lines().count(), 2);
}

/// As `weir-model/tests/scenarios` has them.
#[derive(serde::Deserialize)]
struct Scenario {
    facts: Facts,
    #[serde(default)]
    trials: Vec<Trial>,
    stretches: Vec<Stretch>,
}

#[derive(serde::Deserialize)]
struct Stretch {
    windows: usize,
    window: Interval,
}

fn evidence_of(scenario: Scenario) -> Evidence {
    let mut intervals = Vec::new();
    let mut at = 0.0;
    for stretch in &scenario.stretches {
        for _ in 0..stretch.windows {
            intervals.push(Interval { at, ..stretch.window.clone() });
            at += stretch.window.span.as_secs_f64();
        }
    }
    Evidence { intervals, trials: scenario.trials, facts: scenario.facts }
}

/// Whatever is said of a run, it fits the screen: of each scenario of the model the summary, its verdict
/// alone, and the verdict on a load.
#[test]
fn no_line_of_a_verdict_is_wider_than_the_sheet() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-model/tests/scenarios");
    let (mut count, mut folded) = (0, 0);
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let scenario: Scenario = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let evidence = evidence_of(scenario);
        let verdict = explain(&evidence);
        let record =
            Record::new("get", RunOutcome::Complete, 1 << 30, 10.0).with_verdict(&evidence, &verdict);
        let of_verdict = VerdictRecord::from(&verdict);
        let load = LoadRecord { held_by: Some("client".to_owned()), requests: 9, ..LoadRecord::default() };
        for columns in [40, 60, 80, 100] {
            for colour in [false, true] {
                let sheet = Sheet { colour, columns };
                let mut out = Vec::new();
                render_summary(&record, sheet, &mut out).unwrap();
                render_verdict(&of_verdict, sheet, &mut out).unwrap();
                sheet.print(&mut out, |out| render_load(&load, 9, 1.0, Some(&of_verdict), out)).unwrap();
                let text = String::from_utf8(out).unwrap().replace("\x1b[1;33m", "").replace("\x1b[0m", "");
                // A word that is wider than the sheet stands alone.
                let is_wide = |line: &&str| line.chars().count() > columns && line.trim().contains(' ');
                assert_eq!(
                    text.lines().find(is_wide),
                    None,
                    "{}, {columns} columns:\n{text}",
                    path.display()
                );
                if columns == 100 {
                    let widest = text.lines().map(|line| line.chars().count()).max();
                    assert!(widest <= Some(100), "{}:\n{text}", path.display());
                    let said =
                        verdict.evidence.first().map_or("limit", |line| line.split(' ').next().unwrap());
                    assert!(text.contains(said), "{}: no '{said}':\n{text}", path.display());
                }
                count += 1;
                folded += usize::from(text.lines().any(|line| line.starts_with("    ")));
            }
        }
    }
    assert!(count > 1000 && folded > 500, "{count} texts, {folded} with a fold");
}

#[test]
fn the_record_in_json() {
    let mut record = judged();
    record.samples.truncate(1);
    let value = serde_json::to_value(&record).unwrap();
    insta::assert_json_snapshot!(value);
}

#[test]
fn records_come_back_as_they_were() {
    let record = judged();
    let mut text = Vec::new();
    json::render(&record, &mut text).unwrap();
    assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1);
    let text = String::from_utf8(text).unwrap();
    let again = json::parse(&text).unwrap();
    assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&record).unwrap());
}

#[test]
fn records_on_file_still_load() {
    let first = json::parse(include_str!("records/first.json")).unwrap();
    assert_eq!(first.verdict.unwrap().limit.as_deref(), Some("receive-window"));
    assert_eq!(first.files[0].digest, None);
    let sparse =
        json::parse(r#"{"schema":"weir.run/1","command":"bench","outcome":"complete","mem":{"levels":[]}}"#);
    assert!(sparse.unwrap().extra.contains_key("mem"));
    let later = json::parse(r#"{"schema":"weir.run/9","command":"get","outcome":"complete"}"#).unwrap_err();
    assert_eq!(later.to_string(), "record is 'weir.run/9', this weir reads weir.run/1");
    assert!(json::parse("[]").is_err());
}

/// A member of a record as its command prints it.
fn print_member(name: &str, value: &Value, record: &Record, out: &mut dyn Write) -> io::Result<()> {
    fn of<T: DeserializeOwned>(value: &Value) -> T {
        T::deserialize(value).unwrap()
    }
    match name {
        "calibration" => calibration::render(&of(value), out),
        "ciphers" => ciphers::render_table(&of(value), out),
        "codecs" => {
            let codecs = of(value);
            codecs::render_data(&codecs, out)?;
            codecs::render_table(&codecs, out)
        }
        "disk" => storage::render(&of(value), out),
        "host" => host::render_list(&of(value), out),
        "http" => load::render(&of(value), record.bytes, record.seconds, record.verdict.as_ref(), out),
        "mem" => {
            let memory = of(value);
            memory::render_levels(&memory, out)?;
            memory::render_curves(&memory, out)
        }
        "net" => {
            let net: net::NetRecord = of(value);
            net::render_heading(net.transport == "udp", out)?;
            net.intervals
                .iter()
                .take(3)
                .try_for_each(|line| net::render_interval(line, Units::default(), out))?;
            net::render_sums(&net, Units::default(), out)
        }
        "plan" => plan::render(&of(value), out),
        "pps" => packets::render_table(&of(value), out),
        "self_check" => self_check::render(&of(value), true, out),
        "transactions" => transactions::render(&of(value), out),
        "why" => why::render(&of(value), true, out),
        // Only pages show these.
        "cp" | "lab" | "stages" => Ok(()),
        other => panic!("how is '{other}' printed?"),
    }
}

/// Names of members that `value` has, itself or further in, those of maps of limits or figures left out.
fn names_of(value: &Value, of: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| names_of(item, of, names)),
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if !["shares", "values"].contains(&of) && name.chars().all(is_name) {
                names.insert(name.clone());
            }
            names_of(member, name, names);
        }),
        _ => {}
    }
}

#[test]
fn every_member_of_a_record_is_described() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join("record.md")).unwrap();
    let described: BTreeSet<&str> = page.split('`').skip(1).step_by(2).collect();
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(docs.join("gallery/records")).unwrap() {
        let record = json::parse(&std::fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap();
        names_of(&serde_json::to_value(record).unwrap(), "", &mut names);
    }
    assert!(names.len() > 200, "{names:?}");
    names.retain(|name| !described.contains(name.as_str()));
    assert!(names.is_empty(), "docs/record.md has none of these: {names:?}");
}

/// The records of the gallery, one of each kind, as a terminal shows them.
#[test]
fn the_gallery_on_a_terminal() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gallery/records");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let records: Vec<PathBuf> = entries.collect();
    assert!(records.len() > 15, "{records:?}");
    for path in records {
        let record = json::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let mut out = Vec::new();
        render_summary(&record, Sheet::default(), &mut out).unwrap();
        for (name, value) in &record.extra {
            Sheet::default().print(&mut out, |out| print_member(name, value, &record, out)).unwrap();
        }
        let name = format!("gallery-{}", path.file_stem().unwrap().to_string_lossy());
        insta::with_settings!({ omit_expression => true }, {
            insta::assert_snapshot!(name, String::from_utf8(out).unwrap());
        });
    }
}
