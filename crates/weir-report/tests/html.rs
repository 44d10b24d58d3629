//! Pages: facts of real records on them, and that no record, whatever it holds, makes anything of a page but
//! text.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::Value;
use weir_report::html::{Run, render};
use weir_report::records;

fn gallery() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gallery/records");
    let mut records: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the gallery's records")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    records.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records/first.json"));
    records.sort();
    records
}

fn page(text: &str) -> String {
    let found = records::read(text.as_bytes()).expect("a record");
    let runs: Vec<Run> = (found.records.into_iter())
        .map(|record| Run { name: "run.json".to_owned(), record, notes: found.notes.clone() })
        .collect();
    render(&runs)
}

fn of_gallery(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gallery/records");
    page(&std::fs::read_to_string(folder.join(name)).expect("a record of the gallery"))
}

/// Elements that a page is made of.
const TAGS: &str = "html head meta title style body header main footer section article div p h1 h2 h3 ul ol li dl dt dd strong \
    small span figure figcaption details summary table caption thead tbody tr th td svg defs pattern title desc text rect path \
    polyline polygon circle";

/// Attributes that they may have: none that runs, loads or styles anything.
const ATTRIBUTES: &str = "lang charset http-equiv content name class id role tabindex scope aria-label aria-labelledby \
    aria-hidden viewBox width height x y rx cx cy r d points text-anchor fill patternUnits";

/// What is wrong with a page's markup, if anything is.
fn malformed(page: &str) -> Option<String> {
    let (tags, attributes): (Vec<&str>, Vec<&str>) =
        (TAGS.split_whitespace().collect(), ATTRIBUTES.split_whitespace().collect());
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!doctype html>\n")?;
    while let Some(at) = rest.find('<') {
        if rest[..at].contains('>') && open.last() != Some(&"style") {
            return Some(format!("a bracket in a text: {}", &rest[..at]));
        }
        let end = at + rest[at..].find('>')?;
        let (inside, after) = (&rest[at + 1..end], &rest[end + 1..]);
        rest = after;
        if let Some(closed) = inside.strip_prefix('/') {
            if open.pop() != Some(closed) {
                return Some(format!("</{closed}> closes nothing"));
            }
            continue;
        }
        let (tag, mut given) = inside.split_once(' ').unwrap_or((inside, ""));
        if !tags.contains(&tag) {
            return Some(format!("<{inside}>"));
        }
        while !given.is_empty() {
            let Some((name, value)) = given.split_once("=\"") else {
                return Some(format!("attribute {given}"));
            };
            let Some((value, more)) = value.split_once('"') else {
                return Some(format!("open value {given}"));
            };
            if !attributes.contains(&name.trim_start()) {
                return Some(format!("attribute {name}"));
            }
            let numeric =
                ["x", "y", "width", "height", "points", "cx", "cy", "viewBox"].contains(&name.trim_start());
            if numeric && value.contains(|c: char| c.is_ascii_alphabetic()) && value != "device-width" {
                return Some(format!("{name} is {value}"));
            }
            given = more;
        }
        if tag != "meta" {
            open.push(tag);
        }
        if tag == "style" {
            rest = &rest[rest.find("</style>")?..];
        }
    }
    if open.is_empty() { None } else { Some(format!("still open: {open:?}")) }
}

#[test]
fn every_record_of_the_gallery_is_a_well_formed_page() {
    for path in gallery() {
        let text = std::fs::read_to_string(&path).expect("a record");
        let page = page(&text);
        assert_eq!(malformed(&page), None, "{}", path.display());
        assert!(page.len() < 1 << 20, "{}: {} bytes", path.display(), page.len());
        for leak in ["/work/", "/tmp/", "/home/", "/root/"] {
            assert!(!text.contains(leak), "{}: {leak}", path.display());
        }
    }
}

#[test]
fn a_capped_download_shows_what_held_it_and_what_would_help() {
    let page = of_gallery("get-capped.json");
    for fact in [
        "Received 150 MB in",
        "It was held by <strong>rate limit</strong>",
        "The pipeline",
        "Rate over time",
        "each connection carries",
        "Ruled out",
        "use more connections (-c 32)",
        "would bring about",
        "16 connections, when each was at work",
        "image.iso",
    ] {
        assert!(page.contains(fact), "{fact}");
    }
}

#[test]
fn each_kind_of_record_has_its_pictures() {
    for (record, facts) in [
        ("get-window.json", &["receive window", "drop --recv-buffer"][..]),
        ("why.json", &["Connections and threads", "curl", "Looking took"]),
        ("cp.json", &["Copied", "How it was copied", "zstd", "on the wire"]),
        ("lab.json", &["send buffer", "What the advice brought", "predicted", "achieved"]),
        ("bench-net.json", &["Streams", "over time", "Goodput"]),
        ("bench-http.json", &["Latency", "99.9 %", "requests, from their planned time"]),
        ("bench-host.json", &["Figures and where they come from"]),
        ("bench-pps.json", &["Packets a second", "1518 bytes"]),
        ("bench-codec.json", &["Which codec on which link", "Over a link of 125 MB/s"]),
        ("bench-cipher.json", &["Ciphers on one core", "aes-256-gcm"]),
        (
            "bench-mem.json",
            &["Reads by working set and stride", "system says", "L1", "by the widest loads", "512 MiB"],
        ),
        (
            "bench-disk.json",
            &["Writing and reading in order", "write and sync", "random read, cold", "100 GB"],
        ),
        ("plan.json", &["1.00 GB over 100 MB/s by tcp", "QUICKLZ"]),
    ] {
        let page = of_gallery(record);
        for fact in facts {
            assert!(page.contains(fact), "{record}: {fact}");
        }
    }
}

#[test]
fn what_a_command_adds_is_on_its_page() {
    let own = serde_json::json!({
        "schema": "weir.run/1", "command": "get", "outcome": "complete", "bytes": 1_000_000, "seconds": 1.0, "rate": 1e6,
    });
    for (command, member, value, facts) in [
        (
            "bench",
            "store",
            serde_json::json!({
                "url": "s3://bucket/", "latency": [{ "operation": "PUT", "bytes": 4096, "median": 0.02, "count": 9 }],
                "throughput": [{ "connections": 8, "rate": 5e7 }],
                "held": [{ "figure": "throughput", "limit": "path-bandwidth", "why": "the link is full" }],
            }),
            &["weir bench store, complete", "s3://bucket/", "PUT", "20.0 ms", "50.0 MB/s", "path bandwidth"]
                [..],
        ),
        (
            "get",
            "fetch",
            serde_json::json!({
                "host": "h2", "attempts": [{ "host": "h1", "error": "no route" }], "record": own,
            }),
            &["Who fetched it", "h1", "could not: no route", "h2", "Received 1.00 MB in 1.00 s"],
        ),
        (
            "cp",
            "cp",
            serde_json::json!({
                "sources": ["data"], "target": "x",
                "hosts": [{ "host": "h1", "outcome": "failed", "error": "gone", "seconds": 1.5, "bytes": 2_000_000 }],
            }),
            &["Hosts", "h1", "failed", "gone", "1.50 s", "2.00 MB"],
        ),
        (
            "plan",
            "plan",
            serde_json::json!({
                "hosts": [{ "link": 1e8, "hosts": 12, "fanout": 2, "chain": 5.0, "star": 60.0 }],
                "best": [{ "link": 1e8, "transport": "weir", "codec": "zstd-3", "rate": 2e8, "seconds": 4.0 }],
            }),
            &["To many hosts", "100 MB/s", "5.00 s", "60.0 s", "What carries most", "zstd-3", "200 MB/s"],
        ),
        (
            "fleet work",
            "fleet",
            serde_json::json!({ "host": "h3", "moved": { "objects": 41, "bytes": 7_000_000 } }),
            &["Moved 1 B", "What the fleet did", "h3", "moved, objects", "41", "7.00 MB"],
        ),
        (
            "get",
            "of_tomorrow",
            serde_json::json!({ "flux_seconds": 1.21 }),
            &["Of tomorrow", "flux seconds", "1.21 s"],
        ),
    ] {
        let record = serde_json::json!({
            "schema": "weir.run/1", "command": command, "outcome": "complete", "bytes": 1, "seconds": 1.0, member: value,
        });
        let page = page(&record.to_string());
        assert_eq!(malformed(&page), None, "{command}");
        for fact in facts {
            assert!(page.contains(fact), "{command}, {member}: {fact}");
        }
    }
}

/// One stream each way: what was omitted is in the table alone.
#[test]
fn omitted_intervals_are_listed_and_not_drawn() {
    let interval = |from: f64, sends: bool, omitted: bool| {
        let (rate, limit) = if omitted { (9e9, "disk") } else { (1e6, "latency") };
        serde_json::json!({
            "id": u8::from(sends), "sends": sends, "from": from, "to": from + 1.0, "omitted": omitted,
            "rate": rate, "limit": limit,
        })
    };
    let of = |sends| [interval(0.0, sends, true), interval(0.0, sends, false), interval(1.0, sends, false)];
    let intervals = [of(true), of(false)].concat();
    let record = serde_json::json!({
        "schema": "weir.run/1", "command": "bench", "outcome": "complete", "bytes": 2_000_000, "seconds": 2.0, "rate": 1e6,
        "net": { "direction": "both", "streams": 1, "transport": "tcp", "intervals": intervals },
    });
    let page = page(&record.to_string());
    let drawn = "1.00 MB/s on average over 2.00 s, 1.00 MB/s at the most. Held by latency 100 %.";
    for way in ["Sent from here, over time", "Received here, over time"] {
        let at = page.find(&format!("<h3>{way}</h3>")).expect("a picture of the way");
        assert!(page[at..].contains(drawn), "{way}");
    }
    // The caption, and a description in the wide picture and in the narrow one.
    assert_eq!(page.matches(drawn).count(), 2 * 3);
    assert_eq!(page.matches("disk (omitted)").count(), 2);
}

/// What was measured has bytes and seconds too, and no rate in them.
#[test]
fn runs_without_a_rate_are_not_compared_by_one() {
    let run = |rate: f64, member: &str, value: Value| {
        serde_json::json!({
            "schema": "weir.run/1", "command": "bench", "outcome": "complete", "bytes": 25_000_000, "seconds": 70.0,
            "rate": rate, member: value,
        })
    };
    let both = |first: Value, second: Value| page(&format!("{first}\n{second}"));
    let http = |requests: f64| serde_json::json!({ "requests_rate": requests });
    let confidence = "<th scope=\"row\">confidence</th>";
    for (first, second) in [
        (run(333e3, "codecs", serde_json::json!({})), run(666e3, "codecs", serde_json::json!({}))),
        (run(333e3, "http", http(0.4)), run(666e3, "http", http(800.0))),
    ] {
        let text = both(first, second);
        assert!(text.contains("2 runs compared") && text.contains("There are no two rates to compare"));
        for claim in ["of the first", "333 KB/s", "666 KB/s", "<h3>Rates</h3>", confidence] {
            assert!(!text.contains(claim), "{claim}");
        }
    }
    let text = both(run(1.0, "http", http(0.4)), run(1.0, "http", http(800.0)));
    for figure in ["Requests a second", "<td>0.4</td>", "<td>800</td>"] {
        assert!(text.contains(figure), "{figure}");
    }
    let net = |rate: f64| {
        let mut run = run(rate, "net", serde_json::json!({ "streams": 1 }));
        run["samples"] = serde_json::json!([{ "t": 0.0, "rate": rate }]);
        run
    };
    let text = both(net(333e3), net(666e3));
    for figure in ["2.0 × of the first", "<h3>Rates</h3>", "Rates over time", "Goodput"] {
        assert!(text.contains(figure), "{figure}");
    }
    assert!(!text.contains(confidence), "nothing was judged");
}

#[test]
fn a_fleet_s_figures_are_of_what_came() {
    let span = |from: f64, rate: f64| serde_json::json!({ "from": from, "to": from + 10.0, "rate": rate });
    let batch = |state: &str, bytes: u64| serde_json::json!({ "name": "a", "objects": 1, "bytes": bytes, "seconds": 5.0, "state": state });
    let record = serde_json::json!({
        "schema": "weir.run/1", "command": "fleet", "outcome": "partial", "bytes": 1, "seconds": 1000.0, "rate": 9e6,
        "fleet_history": {
            "planned": 100_000, "moved": 99_999, "left": 1, "seconds": 20.0,
            "spans": [span(0.0, 1e6), span(10.0, 3e6)],
            "progress": [{ "t": 1.0, "objects": 1 }, { "t": 20.0, "objects": 99_999 }],
            "slowest": [batch("leased", 35_000_000), batch("done", 20_000_000)],
        },
    });
    let page = page(&record.to_string());
    for fact in [
        // The mean of what is drawn, not of the whole record.
        "2.00 MB/s on average over",
        // 100 % means all.
        "99999 (99 %): 99999 moved",
        "100 k of 100 k objects were done (99 %).",
        "bytes planned",
        "<td class=\"words\">4.00 MB/s</td>",
    ] {
        assert!(page.contains(fact), "{fact}");
    }
    assert!(!page.contains("7.00 MB/s"), "a batch that is under way has no rate by its plan");
}

#[test]
fn what_was_not_measured_has_no_figures() {
    let record = serde_json::json!({
        "schema": "weir.run/1", "command": "bench", "outcome": "complete", "bytes": 1, "seconds": 1.0,
        "pps": { "rows": [
            { "frame": 64, "sent_rate": 5e6, "received_rate": 4e6, "loss": 0.01, "sender_busy": 0.5, "receiver_busy": 0.6 },
            { "frame": 1518, "method": "gso", "missing": "no segmentation here" },
        ] },
    });
    let page = page(&record.to_string());
    assert!(page.contains("not measured: no segmentation here"));
    for claim in ["0.000 %", "<td>0 %</td>"] {
        assert!(!page.contains(claim), "{claim}");
    }
}

/// A page names 200 files; one that came in spite of something is among them.
#[test]
fn what_was_overridden_is_not_lost_among_many_files() {
    let file = |number: usize| {
        let notes = if number == 299 { vec!["kept in spite of its digest"] } else { Vec::new() };
        serde_json::json!({
            "url": format!("http://h/{number}"), "path": format!("f{number}"), "bytes": 1, "resumed_from": 0,
            "connections": 1, "digest": null, "error": null, "notes": notes,
        })
    };
    let files: Vec<Value> = (0..300).map(file).collect();
    let record = serde_json::json!({
        "schema": "weir.run/1", "command": "get", "outcome": "complete", "bytes": 300, "seconds": 1.0,
        "files": files,
    });
    let page = page(&record.to_string());
    assert!(page.contains("note: kept in spite of its digest") && page.contains("100 more"));
    assert!(!page.contains("http://h/298"));
}

/// If a run was too short to judge, no picture names what held it.
#[test]
fn a_run_without_a_limit_is_not_judged_by_its_page() {
    let run = |command: &str, rate: f64| {
        serde_json::json!({
            "schema": "weir.run/1", "command": command, "outcome": "complete", "bytes": 19_000_000, "seconds": 0.028,
            "rate": 679e6, "samples": [{ "t": 0.0, "rate": rate, "limit": "sender-or-path" }],
            "loads": [{ "limit": "sender-or-path", "load": 0.7, "ceiling": null, "basis": "data were awaited" }],
            "verdict": {
                "limit": null, "confidence": 0.0, "shares": { "sender-or-path": 1.0 },
                "phases": [{ "from": 0.0, "to": 0.028, "limit": "sender-or-path" }],
                "missing": ["the run was too short to judge: 28 ms"],
            },
        })
        .to_string()
    };
    let one = run("get", 679e6);
    for text in [page(&one), page(&format!("{one}\n{}", one.replace("679", "680")))] {
        let why = "What held it is not known (the run was too short to judge: 28 ms).";
        for fact in [why, "awaited 70 %", "679 MB/s"] {
            assert!(text.contains(fact), "{fact}");
        }
        for claim in
            ["<h3>What held it</h3>", "eld by sender", "held 100 %", "100 % of the time", "class=\"ring\""]
        {
            assert!(!text.contains(claim), "{claim}");
        }
    }
    // It was over before anything was acknowledged.
    assert!(page(&one).contains("Rate over time") && !page(&run("put", 0.0)).contains("at the most"));
}

/// The run's own, as at the top of the page; with many hosts, of which only one was watched, those drawn.
#[test]
fn a_picture_has_the_rate_and_the_time_of_its_run() {
    let run = |cp: Value| {
        serde_json::json!({
            "schema": "weir.run/1", "command": "cp", "outcome": "complete", "bytes": 20_000_000, "seconds": 4.0,
            "rate": 5e6, "samples": [{ "t": 0.0, "rate": 16e6 }, { "t": 1.0, "rate": 16e6 }], "cp": cp,
            "verdict": { "limit": "disk", "phases": [{ "from": 0.0, "to": 1.25, "limit": "disk" }] },
        })
        .to_string()
    };
    for (cp, drawn) in [
        (serde_json::json!({}), "5.00 MB/s on average over 4.00 s, 16.0 MB/s at the most"),
        (serde_json::json!({ "hosts": [{}] }), "16.0 MB/s on average over 1.25 s, 16.0 MB/s at the most"),
    ] {
        assert!(page(&run(cp)).contains(drawn), "{drawn}");
    }
}

#[test]
fn an_old_record_without_the_newer_members_has_a_page() {
    let first = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records/first.json");
    let page = page(&std::fs::read_to_string(first).expect("the first record"));
    assert_eq!(malformed(&page), None);
    assert!(page.contains("Received"));
}

/// Texts that try to be something else.
const HOSTILE: [&str; 8] = [
    "<script>alert(1)</script>",
    "\"><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "--></style><script src=//evil>",
    "url(javascript:1)",
    "&lt;b&gt;&#x3c;",
    "\u{0}\u{202e}\u{2028}\u{1b}[2J",
    "",
];

/// Numbers at the edge of what JSON has.
const EDGES: [f64; 9] = [0.0, -0.0, -1.0, 1e308, -1e308, 5e-324, 1e-300, 1.8446744073709552e19, 0.5];

/// Walks through a value and changes the leaves that the dice choose.
fn mutate(value: &mut Value, dice: &mut impl FnMut() -> usize) {
    match value {
        Value::Array(items) => {
            if dice().is_multiple_of(40) {
                items.truncate(dice() % 3);
            }
            items.iter_mut().for_each(|item| mutate(item, dice));
        }
        Value::Object(members) => {
            let hostile = HOSTILE[dice() % HOSTILE.len()];
            if dice().is_multiple_of(20) && members.values().all(Value::is_number) {
                members.insert(hostile.to_owned(), EDGES[dice() % EDGES.len()].into());
            }
            members
                .iter_mut()
                .filter(|(name, _)| *name != "schema")
                .for_each(|(_, member)| mutate(member, dice));
        }
        leaf if dice().is_multiple_of(6) => {
            *leaf = match (&leaf, dice() % 8) {
                (_, 0) => Value::Null,
                (Value::Number(_), choice) => match EDGES[(dice() + choice) % EDGES.len()] {
                    // Most numbers of a record are counts, which a fraction would only make unreadable.
                    whole if whole.fract() == 0.0 && (0.0..1e19).contains(&whole) => (whole as u64).into(),
                    other => other.into(),
                },
                (Value::String(_), choice) => HOSTILE[(dice() + choice) % HOSTILE.len()].into(),
                (other, _) => (*other).clone(),
            };
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn no_record_makes_anything_but_text(seed in any::<u64>()) {
        let all = gallery();
        let mut state = seed | 1;
        let mut dice = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize
        };
        let path = &all[dice() % all.len()];
        let text = std::fs::read_to_string(path).expect("a record");
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        mutate(&mut value, &mut dice);
        if let Ok(found) = records::read(value.to_string().as_bytes()) {
            let run = |name: &str| Run { name: name.to_owned(), record: found.records[0].clone(), notes: vec![HOSTILE[1].to_owned()] };
            for runs in [&[run(HOSTILE[0])][..], &[run("a"), run(HOSTILE[2])]] {
                let page = render(runs);
                prop_assert_eq!(malformed(&page), None);
                prop_assert!(!page.contains("NaN") && page.len() < 16 << 20);
            }
        }
    }
}

#[test]
fn a_calibration_whose_names_are_hostile() {
    let name = "<script>\u{1b}[2J\"'&";
    let disk = serde_json::json!({ "device": name, "taken": u64::MAX, "write": -1e300, "read": 4e8 });
    let figure = serde_json::json!({ "name": name, "rate": 1e300 });
    let record = serde_json::json!({
        "schema": "weir.run/1", "command": "bench", "outcome": "complete",
        "calibration": {
            "taken": 1_795_305_600_u64, "host": name, "processor": name, "processors": 7, "kernel": name,
            "disks": [disk], "ciphers": [figure], "ssh": figure, "ssh_fastest": figure, "missing": [name],
        },
        "mem": { "disks": [disk], "links": [figure] },
    });
    let page = page(&record.to_string());
    assert_eq!(malformed(&page), None);
    for text in [
        "weir bench host --local, complete",
        "2026-11-22",
        "9999-12-31",
        "7 of &lt;script&gt;",
        "Disks and links beside it",
    ] {
        assert!(page.contains(text), "no '{text}'");
    }
}
