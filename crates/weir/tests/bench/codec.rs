//! `weir bench codec` and `weir bench cipher`: what they measure on, what they print, and what they say to
//! bad input.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use support::{MIB, Run, Sandbox, WEIR, Weir, skip, wait_for};
use weir_bench::corpus::{Corpus, Kind};
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

/// Files of 40 MiB whose MiB pieces are of different kinds: in turn, each kind together, and in no order.
fn mixed_files(sandbox: &Sandbox) -> [&'static str; 3] {
    let of_kind =
        [Kind::Random, Kind::Text, Kind::Binary].map(|kind| Corpus::generate(kind, 40 * MIB as u64));
    let pieces: Vec<Vec<&[u8]>> = of_kind.iter().map(|corpus| corpus.blocks().collect()).collect();
    let zeros = vec![0; MIB];
    let write = |name: &str, kind: &dyn Fn(usize) -> usize| {
        let piece = |at: usize| pieces.get(kind(at)).map_or(&zeros[..], |pieces| pieces[at]);
        sandbox.write(name, (0..40).flat_map(|at| piece(at).iter().copied()).collect::<Vec<u8>>());
    };
    write("in-turn", &|at| at % 2);
    write("together", &|at| [1, 1, 1, 0, 2, 2, 3, 0][at / 5]);
    // Squares modulo a prime have no order that a sample could keep step with.
    write("unordered", &|at| (at * at * 7 + at * 3) % 23 % 4);
    ["in-turn", "together", "unordered"]
}

/// What `zstd -b` or `lz4 -b` leaves of a file cut into pieces of 1 MiB.
fn of_own_bench(program: &str, level: i32, file: &Path) -> f64 {
    let mut command = Command::new(program);
    let output = command.args([&format!("-b{level}"), "-i0", "-B1048576"]).arg(file).output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // `15#in-turn : 41943040 -> 24182741 (x1.734), 12.3 MB/s, ...`, written over itself.
    let packed = text.rsplit("->").next().and_then(|rest| rest.split_whitespace().next());
    let packed: f64 = packed.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{text}"));
    packed / fs::metadata(file).unwrap().len() as f64
}

#[test]
fn ratios_of_data_whose_parts_differ_are_those_of_the_codecs_own_programs() {
    if let Some(missing) = ["zstd", "lz4"].iter().find(|name| Command::new(name).arg("-V").output().is_err())
    {
        return skip(&format!("{missing} is not installed"));
    }
    let sandbox = Sandbox::new();
    for name in mixed_files(&sandbox) {
        // The strong level takes ten times as long as all others.
        let codecs = if name == "unordered" { "lz4-1,zstd-3,zstd-15" } else { "lz4-1,lz4-9,zstd-1,zstd-3" };
        let args = [name, "--codec", codecs, "--json"];
        let record = bench(&sandbox, &args).run().succeeds().json();
        let codecs = &record["codecs"];
        assert_eq!((codecs["blocks"].as_u64(), codecs["of_blocks"].as_u64()), (Some(40), Some(40)));
        for row in codecs["rows"].as_array().unwrap() {
            let (program, level) = row["codec"].as_str().unwrap().split_once('-').unwrap();
            let own = of_own_bench(program, level.parse().unwrap(), &sandbox.path(name));
            let off = row["ratio"].as_f64().unwrap() / own - 1.0;
            assert!(off.abs() < 0.01, "{name}: {row} instead of {own}");
            assert_eq!(row["bytes"].as_u64(), Some(40 * MIB as u64), "{row}");
        }
    }
}

#[test]
fn a_sample_is_the_same_for_every_codec_and_whole_takes_all() {
    let sandbox = Sandbox::new();
    // Only every seventh piece does not shrink.
    let random = Corpus::generate(Kind::Random, MIB as u64);
    let noise: Vec<u8> = random.blocks().flatten().copied().collect();
    let piece = |at: usize| if at % 7 == 3 { noise.clone() } else { vec![at as u8; MIB] };
    sandbox.write("data", (0..35).flat_map(piece).collect::<Vec<u8>>());
    let codecs = "lz4-1,zstd-1,zlib-1";
    let record =
        bench(&sandbox, &["data", "--codec", codecs, "--blocks", "14", "--json"]).run().succeeds().json();
    let found = &record["codecs"];
    assert_eq!(
        (found["held"].as_u64(), found["whole"].as_u64()),
        (Some(14 * MIB as u64), Some(35 * MIB as u64))
    );
    assert_eq!((found["blocks"].as_u64(), found["of_blocks"].as_u64()), (Some(14), Some(35)));
    // Each codec met the same pieces of noise, of which it leaves all, and those that the record names.
    let places = found["places"].as_array().unwrap();
    assert_eq!(places.len(), 14, "{places:?}");
    let noisy = places.iter().filter(|place| place.as_u64().unwrap() % 7 == 3).count() as f64;
    assert!((1.0..=4.0).contains(&noisy), "{places:?}");
    for row in found["rows"].as_array().unwrap() {
        assert!((row["ratio"].as_f64().unwrap() * 14.0 / noisy - 1.0).abs() < 0.1, "{row} of {noisy}");
    }
    let run = bench(&sandbox, &["data", "--codec", codecs, "--blocks", "14"]).run();
    let said =
        "data: 14.7 MB sampled evenly from 36.7 MB, 14 of 35 blocks of 1 MiB, the same for every codec\n";
    assert!(stdout(run.succeeds()).starts_with(said), "{}", stdout(&run));
    let record = bench(&sandbox, &["data", "--codec", "zstd-1", "--whole", "--json"]).run().succeeds().json();
    assert_eq!(
        (record["codecs"]["blocks"].as_u64(), &record["codecs"]["places"]),
        (Some(35), &serde_json::json!([]))
    );
    let ratio = record["codecs"]["rows"][0]["ratio"].as_f64().unwrap();
    assert!((ratio / (5.0 / 35.0) - 1.0).abs() < 0.01, "{ratio}");
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
    assert!(text.starts_with("2 files: 71.0 KB, 2 blocks of 1 MiB, the same for every codec\n"), "{text}");
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
    chart("nowhere/codecs.svg").fails(1, &["cannot write nowhere/codecs.svg"]);
}

#[test]
fn a_chart_that_is_not_drawn_leaves_the_old_one() {
    let sandbox = Sandbox::new();
    sandbox.write("codecs.svg", "of yesterday");
    // Some seconds of figures, of which the first are measured once signals are heard.
    let args = ["bench", "codec", "--generate", "text", "--size", "100k", "--codec", "zstd-all", "-q"];
    let running = sandbox.weir(WEIR, args).args(&["--for", "500ms", "--chart", "codecs.svg"]).spawn();
    wait_for("a handler", || running.catches(Signal::INT));
    running.signal(Signal::INT);
    running.wait().exits(130);
    assert_eq!(sandbox.read("codecs.svg"), b"of yesterday");
}

#[test]
fn an_interrupt_ends_a_pass_and_leaves_a_record() {
    let sandbox = Sandbox::new();
    // A pass of half a minute, on two threads beside the main one.
    let data = ["bench", "codec", "--generate", "text", "--size", "100k", "--codec", "none,zstd-19"];
    let running = sandbox.weir(WEIR, data).args(&["--threads", "2", "--for", "600s", "--json"]).spawn();
    let threads = format!("/proc/{}/task", running.id());
    wait_for("a pass", || running.catches(Signal::INT) && fs::read_dir(&threads).unwrap().count() >= 3);
    running.signal(Signal::INT);
    let record = running.wait().exits(130).json();
    assert_eq!(record["outcome"], "partial");
    assert!(codecs(&record).iter().all(|row| *row == "none"), "{record}");
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
    // Root reads every file.
    if fs::File::open(&secret).is_err() {
        fails("secret", "cannot open secret: ");
    }
}

#[test]
fn bad_arguments_are_usage_errors() {
    let sandbox = Sandbox::new();
    let fails = |args: &[&str], texts: &[&str]| {
        bench(&sandbox, args).run().fails(2, texts);
    };
    let known = "unknown codec 'rar': expected one of none, lz4, zstd, ";
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
    fails(&["x", "--whole", "--blocks", "5"], &["cannot be used with"]);
    fails(&["x", "--blocks", "0"], &["expected a number of blocks from 1"]);
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
