//! `weir plan`: the published table to the last digit, the limits, a file measured, and input that cannot be
//! right.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::path::Path;

use serde_json::Value;
use support::{Run, Sandbox, WEIR, pattern, skip};

/// Plain text by classic codecs, as published: ratio, and MB/s of one core.
const TABLE: &str = "codec,ratio,compress\nZLIB,0.3580,9.6\nLZO,0.5440,101.7\nLIBLZF,0.5460,134.3\nQUICKLZ,0.5490,183.4\n\
                     FASTLZ,0.5620,134.4\nSNAPPY,0.5980,189\nnone,1,300\n";

/// What it gives over links of 100, 62 and 10 MB/s.
const CELLS: [(&str, [&str; 3]); 7] = [
    ("ZLIB", ["9.6", "9.6", "9.6"]),
    ("LZO", ["101.7", "101.7", "18.38"]),
    ("LIBLZF", ["134.3", "113.55", "18.32"]),
    ("QUICKLZ", ["182.15", "112.93", "18.21"]),
    ("FASTLZ", ["134.4", "110.32", "17.79"]),
    ("SNAPPY", ["167.22", "103.68", "16.72"]),
    ("none", ["100", "62", "10"]),
];

const LINKS: [&str; 6] = ["--link", "100MB/s", "--link", "62MB/s", "--link", "10MB/s"];

fn plan(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.weir(WEIR, ["plan"]).args(args).run()
}

fn text(run: &Run) -> String {
    String::from_utf8(run.succeeds().stdout.clone()).unwrap()
}

/// A table in a file, and what is planned from it.
fn of_table(table: &str, args: &[&str]) -> Run {
    let sandbox = Sandbox::new();
    sandbox.write("figures.csv", table);
    sandbox.weir(WEIR, ["plan", "--codec-table", "figures.csv"]).args(args).run()
}

/// The cell of a codec in a column of the record.
fn cell<'a>(record: &'a Value, column: usize, codec: &str) -> &'a Value {
    let cells = record["plan"]["columns"][column]["cells"].as_array().unwrap();
    cells.iter().find(|cell| cell["codec"] == codec).unwrap()
}

#[test]
fn the_published_table_to_the_last_digit() {
    let text = text(&of_table(TABLE, &LINKS));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for (codec, cells) in CELLS {
        let row: Vec<_> = rows.iter().filter(|row| row.first() == Some(&codec)).collect();
        assert_eq!(row.len(), 1, "{codec} in:\n{text}");
        assert_eq!(row[0][1..], cells, "{codec}");
    }
    for best in [
        "best over 100 MB/s: QUICKLZ, 182.15 MB/s, held by path-bandwidth",
        "best over 62 MB/s: LIBLZF, 113.55 MB/s",
    ] {
        assert!(text.contains(best), "no '{best}' in:\n{text}");
    }
}

#[test]
fn each_cell_has_its_limit_and_its_time_in_json() {
    let run = of_table(TABLE, &[&LINKS[..], &["--size", "1GB", "--json"]].concat());
    let record = run.succeeds().json();
    assert_eq!((record["schema"].as_str(), record["command"].as_str()), (Some("weir.run/1"), Some("plan")));
    let zlib = cell(&record, 0, "ZLIB");
    assert_eq!((zlib["limit"].as_str(), zlib["rate"].as_f64()), (Some("compress"), Some(9.6e6)));
    assert_eq!(zlib["next"][0], "path-bandwidth");
    let quick = cell(&record, 0, "QUICKLZ");
    assert_eq!(quick["limit"], "path-bandwidth");
    assert!((quick["seconds"].as_f64().unwrap() - 5.49).abs() < 1e-6, "{quick}");
    assert_eq!(record["plan"]["best"][2]["codec"], "LZO");
}

#[test]
fn cores_share_the_compressing() {
    let record = of_table(TABLE, &["--link", "100MB/s", "--cores", "4", "--json"]).succeeds().json();
    assert_eq!(cell(&record, 0, "ZLIB")["rate"], 38.4e6);
}

#[test]
fn a_table_from_a_pipe_with_what_decompresses() {
    let sandbox = Sandbox::new();
    let table = "codec,ratio,compress,decompress\nslow,0.5,500,40\n";
    let run =
        sandbox.weir(WEIR, ["plan", "--codec-table", "-", "--link", "100MB/s", "--json"]).input(table).run();
    assert_eq!(cell(&run.succeeds().json(), 0, "slow")["limit"], "decompress");
}

#[test]
fn buffers_windows_and_loss_hold_as_published() {
    let sandbox = Sandbox::new();
    let steady = |args: &[&str]| {
        let record = plan(&sandbox, &[args, &["--transport", "tcp", "--json"]].concat()).succeeds().json();
        let cell = cell(&record, 0, "none").clone();
        (
            cell["rate"].as_f64().unwrap(),
            cell["limit"].as_str().unwrap().to_owned(),
            cell["seconds"].as_f64().unwrap(),
        )
    };
    let (rate, limit, seconds) =
        steady(&["--link", "100Mbit", "--rtt", "20ms", "--send-buffer", "16KiB", "--size", "22M"]);
    assert_eq!((rate, limit.as_str()), (819_200.0, "send-buffer"));
    assert!((25.0..28.0).contains(&seconds), "{seconds}");
    let (rate, limit, _) = steady(&["--link", "1Gbit", "--rtt", "40ms", "--window", "3456"]);
    assert_eq!((rate.round(), limit.as_str()), (86_400.0, "receive-window"));
    let (rate, limit, _) = steady(&["--link", "1Gbit", "--rtt", "40ms", "--loss", "1%"]);
    assert_eq!(limit, "path-loss");
    assert!((3.4e6..3.7e6).contains(&(rate * 8.0)), "{rate}");
    let (rate, limit, _) = steady(&["--link", "5Gbit", "--disk", "110MB/s"]);
    assert_eq!((rate, limit.as_str()), (110e6, "disk"));
    let (_, _, seconds) =
        steady(&["--link", "1Gbit", "--disk", "100MB/s", "--memory", "1.6GB", "--size", "2GB"]);
    assert!((15.9..16.5).contains(&seconds), "memory takes it all: {seconds}");
}

#[test]
fn lanes_and_buffers_that_a_window_asks_for() {
    let sandbox = Sandbox::new();
    let args = ["--link", "200Mbit", "--rtt", "100ms", "--window", "64KiB"];
    let text = text(&plan(&sandbox, &args));
    for said in [
        "tcp 25",
        "ssh 25",
        "weir x39 25",
        "needs 2.50 MB in flight",
        "net.ipv4.tcp_rmem=\"4096 131072 8388608\"",
        "needs 39 connections",
    ] {
        assert!(text.contains(said), "no '{said}' in:\n{text}");
    }
    let record = plan(&sandbox, &[&args[..], &["--json"]].concat()).succeeds().json();
    assert_eq!(record["plan"]["best"][0]["transport"], "weir");
    let ssh = &record["plan"]["columns"][1];
    assert_eq!(
        (ssh["transport"].as_str(), ssh["cells"][0]["limit"].as_str()),
        (Some("ssh"), Some("receive-window"))
    );
}

#[test]
fn a_chain_of_hosts_beside_a_copy_to_each() {
    let sandbox = Sandbox::new();
    let args = ["--link", "100Mbit", "--size", "200M", "--hosts", "8"];
    let record = plan(&sandbox, &[&args[..], &["--json"]].concat()).succeeds().json();
    let hosts = &record["plan"]["hosts"][0];
    let seconds = |name: &str| hosts[name].as_f64().unwrap();
    assert_eq!((&hosts["hosts"], &hosts["depth"]), (&8.into(), &8.into()), "{record}");
    // Two blocks of 1 MiB at 12.5 MB/s, for each of seven hosts.
    assert!((seconds("chain") - seconds("one") - 7.0 * 0.16777).abs() < 0.01, "{hosts}");
    assert!((seconds("star") / seconds("one") - 8.0).abs() < 0.05, "{hosts}");
    let said = text(&plan(&sandbox, &[&args[..], &["--fanout", "2"]].concat()));
    assert!(said.contains("to 8 hosts (weir cp --to-hosts): 2 chains take 32.5 s"), "{said}");
    assert!(said.contains("by a copy to each from here at once: 2 min 08 s; one copy 16.0 s"), "{said}");
    plan(&sandbox, &["--link", "1M", "--fanout", "2"]).fails(2, &["--hosts"]);
    plan(&sandbox, &["--link", "1M", "--hosts", "0"]).fails(2, &["--hosts"]);
}

#[test]
fn a_file_is_measured_with_every_codec() {
    let sandbox = Sandbox::new();
    let lines: String = (0..200_000u32)
        .map(|line| format!("line {} of {}\n", line.wrapping_mul(2_654_435_761), line % 97))
        .collect();
    sandbox.write("text", &lines);
    let record =
        plan(&sandbox, &["text", "--link", "20Mbit", "--link", "1000Gbit", "--json"]).succeeds().json();
    let codecs = record["plan"]["codecs"].as_array().unwrap();
    let named = |name: &str| {
        codecs.iter().find(|codec| codec["name"] == name).unwrap_or_else(|| panic!("{name}: {codecs:?}"))
    };
    for name in ["zstd-1", "zstd-19"] {
        let ratio = named(name)["ratio"].as_f64().unwrap();
        assert!((0.01..0.7).contains(&ratio), "{name} {ratio}");
        assert!(named(name)["decompress"].as_f64().unwrap() > 1e6);
    }
    assert!(codecs.len() > 10, "{codecs:?}");
    assert_eq!(record["plan"]["size"].as_u64(), Some(lines.len() as u64));
    // On a slow link whatever shrinks wins, on one that is faster than any memory nothing does.
    assert_ne!(record["plan"]["best"][0]["codec"], "none");
    assert_eq!(record["plan"]["best"][1]["codec"], "none");
}

#[test]
fn a_file_that_does_not_shrink_is_sent_as_it_is() {
    let sandbox = Sandbox::new();
    sandbox.write("noise", pattern(700_000, 3));
    let record = plan(&sandbox, &["noise", "--link", "5Mbit", "--json"]).succeeds().json();
    assert_eq!(record["plan"]["best"][0]["codec"], "none");
    let is_told_too_little = |record: &Value| record["plan"]["notes"].to_string().contains("is too little");
    assert!(!is_told_too_little(&record), "{record}");
    sandbox.write("byte", "x");
    let record = plan(&sandbox, &["byte", "--link", "5Mbit", "--json"]).succeeds().json();
    assert!(is_told_too_little(&record), "{record}");
}

#[test]
fn tables_that_cannot_be_right_are_refused_with_their_place() {
    for (table, said) in [
        ("", "line 1: header is ''"),
        ("codec,ratio,compress\n", "no codec in the table"),
        ("codec,ratio,compress\nZLIB,35.8,9.6\n", "line 2: ratio is '35.8'"),
        ("codec,ratio,compress\nZLIB,0.358,NaN\n", "line 2: compress is 'NaN'"),
        ("codec,ratio,compress\nZLIB,0.358,0\n", "line 2: compress is '0'"),
        ("codec,ratio,compress\nZLIB,-1,9\n", "line 2: ratio is '-1'"),
        ("codec,ratio,compress\nZLIB,0.358\n", "line 2: 2 fields where the header has 3"),
        ("codec,ratio,compress\nA,1,1\nA,1,1\n", "line 3: codec 'A' is there already"),
        ("\u{1b}[31m\n", "line 1: header is '\\u{1b}[31m'"),
    ] {
        of_table(table, &["--link", "1Gbit"]).fails(2, &["figures.csv: ", said]);
    }
    let sandbox = Sandbox::new();
    sandbox.write("binary", [0xff, 0xfe, 0x00]);
    plan(&sandbox, &["--codec-table", "binary", "--link", "1M"]).fails(2, &["binary", "not text"]);
    plan(&sandbox, &["--codec-table", "nowhere.csv", "--link", "1M"])
        .fails(1, &["cannot read nowhere.csv: no such file"]);
}

#[test]
fn flags_that_cannot_be_right_are_refused() {
    let sandbox = Sandbox::new();
    for (args, said) in [
        (&["--link", "0"][..], "invalid rate '0'"),
        (&["--link", "-5M"], "unexpected argument '-5'"),
        (&["--link", "NaN"], "invalid rate 'NaN'"),
        (&["--link", "10parsec"], "invalid rate '10parsec'"),
        (&["--link", "999999999T"], "expected 1 byte/s to 1000 TB/s"),
        (&["--link", "0.5"], "expected 1 byte/s"),
        (&[], "--link"),
        (&["--link", "1M", "--size", "0"], "expected 1 byte to 1000000 TB"),
        (&["--link", "1M", "--rtt", "1ms", "--window", "0"], "expected 1 byte"),
        (&["--link", "1M", "--window", "64k"], "--rtt"),
        (&["--link", "1M", "--rtt", "-1ms"], "unexpected argument '-1'"),
        (&["--link", "1M", "--rtt", "1ms", "--loss", "101%"], "invalid share '101%'"),
        (
            &["--link", "1M", "--rtt", "1ms", "--loss", "100%"],
            "nothing arrives when every packet is lost; expected less than 100%",
        ),
        (&["--link", "1M", "--cores", "0"], "from 0.1 to 4096"),
        (&["--link", "1M", "--cores", "NaN"], "from 0.1 to 4096"),
        (&["--link", "1M", "--transport", "pigeon"], "pigeon"),
        (&["--link", "1M", "--memory", "1G"], "--disk"),
        (&["x", "--codec-table", "y", "--link", "1M"], "cannot be used with"),
    ] {
        plan(&sandbox, args).fails(2, &[said]);
    }
}

#[test]
fn a_transport_named_twice_is_one_column() {
    let sandbox = Sandbox::new();
    let named = ["--link", "1M", "--transport", "tcp,tcp", "--transport", "tcp", "--json"];
    let record = plan(&sandbox, &named).succeeds().json();
    assert_eq!(record["plan"]["columns"].as_array().unwrap().len(), 1);
}

#[test]
fn a_disk_or_loss_that_holds_is_no_matter_of_buffers() {
    let sandbox = Sandbox::new();
    let path = ["--link", "10Gbit", "--rtt", "1s"];
    for held in [["--disk", "1k"], ["--loss", "1%"]] {
        let said = text(&plan(&sandbox, &[&path[..], &held[..]].concat()));
        assert!(!said.contains("holds one connection"), "{said}");
    }
}

#[test]
fn files_that_cannot_be_measured_are_named() {
    let sandbox = Sandbox::new();
    sandbox.write("empty", "");
    plan(&sandbox, &["nothing", "--link", "1M"]).fails(1, &["cannot open nothing", "no such file"]);
    // A transfer of nothing takes its round trips.
    let record = plan(&sandbox, &["empty", "--link", "1M", "--rtt", "100ms", "--json"]).succeeds().json();
    let best = &record["plan"]["best"][0];
    assert_eq!((best["transport"].as_str(), best["whole_limit"].as_str()), (Some("tcp"), Some("latency")));
    assert!((0.1..1.0).contains(&best["seconds"].as_f64().unwrap()), "{best}");
    let empty = text(&plan(&sandbox, &["empty", "--link", "1M"]));
    assert!(empty.contains("the file is empty"), "{empty}");
    // Nothing was measured that would speak for a codec.
    assert!(empty.contains("best over 1 MB/s: none"), "{empty}");
    plan(&sandbox, &[".", "--link", "1M"]).fails(2, &["is a directory"]);
    plan(&sandbox, &["/dev/null", "--link", "1M"]).fails(2, &["is not a regular file"]);
}

/// Files with holes, of a file system that has such sizes.
#[test]
fn files_may_sum_to_more_than_a_number_holds() {
    let sandbox = Sandbox::new_in(Path::new("/dev/shm"));
    std::fs::create_dir(sandbox.path("from")).unwrap();
    for name in ["from/a", "from/b", "from/c"] {
        let file = std::fs::File::create(sandbox.path(name)).unwrap();
        if file.set_len(9_000_000_000_000_000_000).is_err() {
            return skip("files in /dev/shm have less");
        }
    }
    let planned = text(&plan(&sandbox, &["from", "to"]));
    assert!(planned.contains("18447 PB of holes are not moved"), "{planned}");
    let copied = sandbox.weir(WEIR, ["cp", "--json", "from", "to"]).run();
    assert_eq!(copied.succeeds().json()["bytes"], u64::MAX);
}

#[test]
fn quiet_says_nothing_and_extremes_stay_finite() {
    let sandbox = Sandbox::new();
    assert_eq!(text(&plan(&sandbox, &["-q", "--link", "1M"])), "");
    for link in ["1", "1000TB/s"] {
        for size in ["1", "1000000TB"] {
            let args = [
                "--link", link, "--size", size, "--rtt", "3600s", "--loss", "99.9%", "--window", "1",
                "--json",
            ];
            let record = plan(&sandbox, &args).succeeds().json();
            for column in record["plan"]["columns"].as_array().unwrap() {
                let seconds = column["cells"][0]["seconds"].as_f64().unwrap();
                assert!(seconds.is_finite() && seconds > 0.0, "{column}");
            }
            text(&plan(&sandbox, &args[..args.len() - 1]));
        }
    }
}
