//! `weir bench codec` and `weir bench cipher`: what they measure on, what they print, and what they say to bad input.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use support::{Run, Sandbox, WEIR, Weir, skip};
use weir_codec::codec::Codec;
use weir_model::pipeline::table;

/// `weir bench codec ARGS`, each figure in a moment.
fn bench(sandbox: &Sandbox, args: &[&str]) -> Weir {
    sandbox.weir(WEIR, ["bench", "codec", "--for", "2ms"]).args(args)
}

fn stdout(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

fn codecs(record: &Value) -> Vec<&str> {
    let rows = record["codecs"]["rows"].as_array().unwrap();
    rows.iter().map(|row| row["codec"].as_str().unwrap()).collect()
}

#[test]
fn the_usual_table_has_every_codec() {
    let sandbox = Sandbox::new();
    let run = bench(&sandbox, &["--generate", "text", "--size", "100k", "--json"]).run();
    let record = run.succeeds().json();
    assert_eq!(record["schema"], "weir.run/1");
    assert_eq!(record["command"], "bench");
    assert_eq!(record["bytes"], 100_000);
    let names = codecs(&record);
    for codec in Codec::all() {
        let name = codec.name();
        assert!(names.iter().any(|row| row.split('-').next() == Some(name)), "{name} is not in {names:?}");
    }
    for row in record["codecs"]["rows"].as_array().unwrap() {
        assert!(row["ratio"].as_f64().unwrap() <= 1.0, "{row}");
        assert!(row["compress"]["rate"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["decompress"]["passes"].as_u64().unwrap() >= 3, "{row}");
    }
}

#[test]
fn links_get_predictions_and_a_winner() {
    let sandbox = Sandbox::new();
    sandbox.write("zeros", vec![0; 300_000]);
    let args = ["zeros", "--codec", "none,zstd-1", "--link", "80kbit", "--link", "8000Gbit", "--json"];
    let record = bench(&sandbox, &args).run().succeeds().json();
    let links = record["codecs"]["links"].as_array().unwrap();
    // 300 KB of zeros shrink to almost nothing; and no codec packs at a terabyte a second.
    assert_eq!(links[0]["link"], 10_000.0);
    assert_eq!(links[0]["best"], "zstd-1");
    assert_eq!(links[0]["predictions"][0]["rate"], 10_000.0);
    assert_eq!(links[0]["predictions"][0]["limit"], "path-bandwidth");
    assert_eq!(links[1]["best"], "none");
    let regions = record["codecs"]["regions"].as_array().unwrap();
    assert_eq!(regions[0]["codec"], "zstd-1");
    assert_eq!(regions[1]["codec"], "none");
    assert_eq!(regions[0]["to"], regions[1]["from"]);
    assert!(regions[1]["to"].is_null());
}

#[test]
fn nothing_is_packed_that_does_not_shrink() {
    let sandbox = Sandbox::new();
    let args = [
        "--generate",
        "random",
        "--size",
        "1M",
        "--codec",
        "lzo,lz4,zstd-1,none",
        "--link",
        "1Mbit",
        "--json",
    ];
    let record = bench(&sandbox, &args).run().succeeds().json();
    assert_eq!(record["codecs"]["links"][0]["best"], "none");
    assert_eq!(record["codecs"]["regions"].as_array().unwrap().len(), 1);
}

#[test]
fn people_get_a_table_and_a_chart() {
    let sandbox = Sandbox::new();
    sandbox.write("one", "a line of a log, again and again\n".repeat(2000));
    sandbox.write("two", vec![7; 5000]);
    let args = ["one", "two", "--codec", "none,lz4,zlib-9", "--link", "10Mbit", "--threads", "1,2"];
    let run = bench(&sandbox, &args).run();
    let text = stdout(run.succeeds());
    assert!(text.starts_with("2 files: 71.0 KB, in blocks of 1024 KiB\n"), "{text}");
    for word in ["codec", "threads", "ratio", "payload over a link of", "zlib-9", "payload rate", "GB/s link"]
    {
        assert!(text.contains(word), "no '{word}':\n{text}");
    }
    let rows = text.lines().filter(|line| line.starts_with("zlib-9 ")).count();
    assert_eq!(rows, 2, "{text}");
    assert_eq!(run.stderr, "");
}

#[test]
fn plan_can_read_the_table() {
    let sandbox = Sandbox::new();
    let args = ["--generate", "binary", "--size", "200k", "--codec", "zstd-all,fastlz", "--csv"];
    let run = bench(&sandbox, &args).run();
    let figures = table::parse(&stdout(run.succeeds())).unwrap();
    assert_eq!(figures.len(), 30);
    assert_eq!(figures[0].name, "zstd--7");
    assert!(figures.iter().all(|figure| figure.decompress.is_some()));
}

#[test]
fn the_chart_is_written_and_a_place_that_cannot_be_is_told_before_measuring() {
    let sandbox = Sandbox::new();
    let chart = |path: &str| {
        let args = ["--generate", "text", "--size", "50k", "--codec", "none,lz4", "-q", "--chart", path];
        bench(&sandbox, &args).run()
    };
    let run = chart("codecs.svg");
    assert_eq!(stdout(run.succeeds()), "");
    let picture = String::from_utf8(sandbox.read("codecs.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains(">lz4-1<"), "{picture}");
    chart("nowhere/codecs.svg").fails(1, &["cannot create nowhere/codecs.svg"]);
}

#[test]
fn bad_files_are_named() {
    let sandbox = Sandbox::new();
    sandbox.write("empty", "");
    sandbox.write("good", "x");
    fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.pipe("pipe");
    let fails = |name: &str, text: &str| {
        bench(&sandbox, &["good", name]).run().fails(1, &[text]);
    };
    fails("missing", "cannot open missing: ");
    fails("empty", "empty is empty: expected at least one byte");
    fails("folder", "folder is a directory: expected files, such as folder/*");
    fails("pipe", "pipe is not a regular file");
    fails("/dev/zero", "/dev/zero is not a regular file");
    let secret = sandbox.write("secret", "x");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&secret).is_ok() {
        skip_for_root();
    } else {
        fails("secret", "cannot open secret: ");
    }
}

/// Root reads every file, also in CI: there is nothing to be refused.
fn skip_for_root() {
    println!("skipped: this user may read every file");
}

#[test]
fn bad_arguments_are_usage_errors() {
    let sandbox = Sandbox::new();
    let fails = |args: &[&str], texts: &[&str]| {
        bench(&sandbox, args).run().fails(2, texts);
    };
    let known = "unknown codec 'rar': expected one of none, lz4, zstd, zlib, snappy, lzo, lzf, quicklz, fastlz, brotli";
    fails(&["x", "--codec", "lz4,rar"], &[known]);
    fails(&["x", "--codec", "zstd-23"], &["zstd has no level 23: expected -7 to -1, 1 to 22"]);
    fails(&["x", "--codec", "rar-all"], &["unknown codec 'rar'"]);
    fails(&[], &["FILE"]);
    fails(&["x", "--generate", "text"], &["cannot be used with"]);
    fails(&["--generate", "music"], &["possible values: text, binary, random"]);
    fails(&["--generate", "text", "--size", "0"], &["expected at least one byte"]);
    fails(&["x", "--threads", "0"], &["0 is not in 1..=1024"]);
    fails(&["x", "--link", "fast"], &["invalid rate 'fast'"]);
    for (time, text) in [("0", "expected seconds"), ("601", "expected a time from 1ms to 600s")] {
        sandbox.weir(WEIR, ["bench", "codec", "x", "--for", time]).run().fails(2, &[text]);
    }
    fails(&["x", "--csv", "--json"], &["cannot be used with"]);
}

#[test]
fn ciphers_and_ssh() {
    let sandbox = Sandbox::new();
    let run = sandbox.weir(WEIR, ["bench", "cipher", "--for", "10ms", "--json"]).run();
    let record = run.succeeds().json();
    let rows = record["ciphers"]["rows"].as_array().unwrap();
    let lines: Vec<_> =
        rows.iter().map(|row| (row["cipher"].as_str().unwrap(), row["record"].as_u64().unwrap())).collect();
    let expected =
        ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"].map(|name| [(name, 16 << 10), (name, 1 << 20)]);
    assert_eq!(lines, expected.concat());
    match record["ciphers"]["ssh_missing"].as_str() {
        None => assert!(record["ciphers"]["ssh"].as_array().unwrap().len() >= 3, "{record}"),
        Some(why) => skip(why),
    }
    // Without ssh, in words.
    let run = sandbox.weir(WEIR, ["bench", "cipher", "--for", "1ms"]).env("PATH", "/nonexistent").run();
    let text = stdout(run.succeeds());
    assert!(
        text.contains("ssh: not measured: ssh-keygen is not installed")
            || text.contains("sshd is not installed"),
        "{text}"
    );
}
