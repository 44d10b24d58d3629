//! `weir plan SRC DST`: measured through a real sshd, predicted, nothing left behind; and `weir cp` beside
//! its forecast.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use support::{MIB, Run, Sandbox, Sshd, pattern};

fn far(sandbox: &Sandbox, name: &str) -> String {
    format!("far:{}", sandbox.path(name).display())
}

fn plan(sshd: &Sshd, sandbox: &Sandbox, args: &[&str]) -> Run {
    let config = sshd.path("ssh_config").display().to_string();
    sandbox.weir(support::WEIR, ["plan", "-F", &config]).args(args).run()
}

/// What a plan found, checked for what always holds.
fn planned(sshd: &Sshd, sandbox: &Sandbox, args: &[&str]) -> Value {
    let record = plan(sshd, sandbox, &[args, &["--json"]].concat()).succeeds().json();
    let copy = &record["copy"];
    let best = &record["plan"]["best"][0];
    assert_eq!(
        (&best["transport"], &best["seconds"]),
        (&copy["predicted"]["transport"], &copy["predicted"]["total"])
    );
    assert!(copy["predicted"]["rate"].as_f64().unwrap() > 1e6, "{copy}");
    assert!(copy["write"].as_f64().unwrap() > 1e6, "{copy}");
    assert!(record["plan"]["columns"].as_array().unwrap().len() <= 2);
    let left: Vec<_> = sandbox.names().into_iter().filter(|name| name.contains("weir-plan")).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    record
}

/// Bytes after packing by those before, as a plan measured them.
fn ratio(record: &Value, codec: &str) -> f64 {
    let codecs = record["plan"]["codecs"].as_array().unwrap();
    let measured = codecs.iter().find(|other| other["name"] == codec).unwrap();
    measured["ratio"].as_f64().unwrap()
}

#[test]
fn a_file_there_and_back() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    let text: String =
        (0..200_000u32).map(|n| format!("line {} of {}\n", n.wrapping_mul(77), n % 97)).collect();
    sandbox.write("a", &text);
    for (source, target) in [("a", far(&sandbox, "b").as_str()), (far(&sandbox, "a").as_str(), "b")] {
        let record = planned(&sshd, &sandbox, &[source, target]);
        let copy = &record["copy"];
        assert_eq!((copy["bytes"].as_u64(), copy["files"].as_u64()), (Some(text.len() as u64), Some(1)));
        let burst = &copy["bursts"][0];
        assert!(burst["rate"].as_f64().unwrap() > 1e6 && burst["connections"].as_u64() >= Some(1), "{burst}");
        assert!(burst["rtt"].as_f64().unwrap() < 1.0, "{burst}");
        assert!(!sandbox.path("b").exists(), "a plan copies nothing");
        assert!((0.01..0.7).contains(&ratio(&record, "zstd-1")), "{record}");
    }
}

#[test]
fn a_tree_is_sampled_by_its_bytes() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    std::fs::create_dir(sandbox.path("new")).unwrap();
    sandbox.write("tree/large", pattern(4 * MIB, 1));
    for index in 0..40 {
        sandbox.write(&format!("tree/small{index}"), vec![b'x'; 5000]);
    }
    let record = planned(&sshd, &sandbox, &["tree", &far(&sandbox, "new/place")]);
    let copy = &record["copy"];
    assert_eq!(copy["files"].as_u64(), Some(41));
    assert_eq!(copy["bytes"].as_u64(), Some((4 * MIB + 40 * 5000) as u64));
    assert!(copy["file"].as_f64().unwrap() > 0.0);
    // Nearly all bytes are noise, though nearly all files are not. Whether the twentieth that shrinks pays
    // for a codec is for this machine's path and cores to say.
    assert!(ratio(&record, "zstd-1") > 0.9, "{record}");
    assert!(!sandbox.path("new/place").exists());
    let record = planned(&sshd, &sandbox, &["--exclude", "small*", "tree", &far(&sandbox, "new/place")]);
    assert_eq!(record["copy"]["files"].as_u64(), Some(1), "what a copy leaves out is none of its plan");
}

#[test]
fn people_are_told_what_was_measured_and_what_follows() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(2 * MIB, 1));
    let run = plan(&sshd, &sandbox, &["a", &far(&sandbox, "b")]);
    let text = String::from_utf8(run.succeeds().stdout.clone()).unwrap();
    for said in ["data: 2.10 MB in 1 file", "path: ", "target: ", "predicted: ", "weir x", "in flight"] {
        assert!(text.contains(said), "no '{said}' in:\n{text}");
    }
    // Within one machine a copy by ssh is no choice, however quick it was.
    assert!(!text.contains("by ssh"), "{text}");
    assert!(run.stderr.contains("measuring for about 5 s"), "{}", run.stderr);
}

#[test]
fn inside_ssh_alone() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(2 * MIB, 1));
    let record = planned(&sshd, &sandbox, &["--transport", "ssh", "a", &far(&sandbox, "b")]);
    assert_eq!(record["copy"]["predicted"]["transport"], "ssh");
    assert!(record["copy"]["ssh"]["rate"].as_f64().unwrap() > 1e6);
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(1000, 1));
    plan(&sshd, &sandbox, &["a", "far:/proc/self/b"]).fails(1, &["cannot write in /proc/self"]);
    plan(&sshd, &sandbox, &["nothing", &far(&sandbox, "b")])
        .fails(1, &["cannot read nothing", "no such file"]);
    plan(&sshd, &sandbox, &["far:a", "far:b"]).fails(2, &["both remote"]);
}

/// What is refused, and the last line of why.
fn refusal(run: &Run) -> (Option<i32>, String) {
    (run.status.code(), run.stderr.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn what_a_copy_refuses_a_plan_refuses_in_the_same_words() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    for folder in ["tree/sub", "other/tree", "there"] {
        std::fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    sandbox.write("a", pattern(1000, 1));
    sandbox.write("there/a", "text");
    let there = |name: &str| far(&sandbox, name);
    for (sources, target, says) in [
        (&["a"][..], there("missing/parent"), "missing"),
        (&["tree"], there("missing/parent/"), "missing"),
        (&["nothing"], there("b"), "cannot read nothing"),
        (&["tree"], there("a"), "is a file, and a folder is to be copied there"),
        (&["a", "tree"], there("there/a"), "there/a"),
        (&["tree", "other/tree"], there("there"), "two sources would both become tree"),
        (&["tree"], there("tree/sub"), "is in the folder that is to be copied there"),
        (&["a"], there("a"), "source and target are the same"),
        (&["a"], "missing/parent".to_owned(), "missing"),
        (&["tree"], "tree/sub".to_owned(), "is in the folder that is to be copied there"),
    ] {
        let args = [&["-q"][..], sources, &[target.as_str()]].concat();
        let (planned, copied) = (plan(&sshd, &sandbox, &args), sshd.copies(&sandbox, &args));
        planned.fails(1, &[says]);
        assert_eq!(refusal(&planned), refusal(&copied), "{args:?}");
    }
    // From there to here it is the same.
    let args = ["-q".to_owned(), there("nothing"), "b".to_owned()];
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    assert_eq!(refusal(&plan(&sshd, &sandbox, &args)), refusal(&sshd.copies(&sandbox, &args)));
}

#[test]
fn a_small_copy_is_foretold_by_its_login_and_its_round_trips() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("small", pattern(100_000, 1));
    let to = far(&sandbox, "copy");
    let copy = planned_small(&sshd, &sandbox, &["small", &to]);
    assert_eq!(copy["bytes"].as_u64(), Some(100_000));
    let record = sshd.copies(&sandbox, &["--json", "small", &to]).succeeds().json();
    let prediction = &record["prediction"];
    let number = |name: &str| prediction[name].as_f64().unwrap();
    assert_eq!(prediction["total"], copy["predicted"]["total"]);
    // What the machine does beside makes either login a few times as long; a login that was left out would be
    // a hundred times less.
    let off = number("took") / number("total");
    assert!((0.1..10.0).contains(&off), "{prediction}");
    let without_login = copy["bytes"].as_f64().unwrap() / number("achieved");
    assert!(without_login < number("took") * 0.9, "its rate counts the login: {prediction}");
    let run = sshd.copies(&sandbox, &["small", &to]);
    // On a busy machine whose login takes over a second, the rate is shown as for any longer copy.
    let told = if number("total") < 1.0 { "with the login (by the plan" } else { "(by the plan" };
    assert!(run.succeeds().stderr.contains(told), "{}", run.stderr);
}

/// As [`planned`], of what is too small to have a rate.
fn planned_small(sshd: &Sshd, sandbox: &Sandbox, args: &[&str]) -> Value {
    let record = plan(sshd, sandbox, &[args, &["--json"]].concat()).succeeds().json();
    let predicted = &record["copy"]["predicted"];
    assert_eq!(predicted["limit"], "latency", "{predicted}");
    let number = |name: &str| predicted[name].as_f64().unwrap();
    assert!(number("seconds") > 0.0 && number("total") > number("seconds"), "{predicted}");
    record["copy"].clone()
}

#[test]
fn a_copy_of_nothing_takes_its_login() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("empty", "");
    std::fs::create_dir_all(sandbox.path("folder/in/it")).unwrap();
    for source in ["empty", "folder"] {
        let copy = planned_small(&sshd, &sandbox, &[source, &far(&sandbox, "b")]);
        assert_eq!(copy["bytes"].as_u64(), Some(0), "{source}");
        let run = plan(&sshd, &sandbox, &[source, &far(&sandbox, "b")]);
        let text = String::from_utf8(run.succeeds().stdout.clone()).unwrap();
        assert!(text.contains("predicted: held by latency; 0 B in "), "{text}");
        assert!(text.contains("with the login"), "{text}");
    }
}

#[test]
fn a_plan_takes_the_flags_of_its_copy() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(2 * MIB, 1));
    let args = ["-avzhu", "--delete", "--progress", "a", &far(&sandbox, "b")];
    planned(&sshd, &sandbox, &args);
}

/// What a copy then moves is what was foretold, whatever leaves something out: rules, sizes, what is at the
/// target, a list; to there and to here.
#[test]
fn a_plan_foretells_what_its_copy_moves() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    for folder in ["tree/sub", "before"] {
        std::fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    for (name, length) in
        [("tree/old", 700_000), ("tree/new", 500_000), ("tree/sub/x.o", 4000), ("tree/sub/y", 0)]
    {
        sandbox.write(name, pattern(length, 1));
    }
    sandbox.write("tree/big", pattern(3 * MIB, 2));
    std::os::unix::fs::symlink("big", sandbox.path("tree/link")).unwrap();
    std::fs::hard_link(sandbox.path("tree/big"), sandbox.path("tree/second")).unwrap();
    sandbox.write("list", "new\nsub/y\nsub/../x\n");
    let sources = sandbox.path("tree").display().to_string() + "/";
    for (at, flags) in [
        &["-u"][..],
        &["-a", "-u"],
        &["--size-only"],
        &["--ignore-existing"],
        &["--existing"],
        &["--exclude=*.o", "--exclude=big"],
        &["-f", "+ old", "-f", "- *"],
        &["--max-size=600k"],
        &["--min-size=600k", "-u"],
        &["-L", "--exclude=second"],
        &["-a", "--link-dest=../before"],
        &["--cvs-exclude"],
        &["--checksum", "--ignore-existing"],
        &["--files-from", "list"],
        &["--files-from=list", "-u"],
    ]
    .into_iter()
    .enumerate()
    {
        let to = format!("to{at}");
        for folder in [&to, "before"] {
            let there = sandbox.path(folder);
            std::fs::create_dir_all(&there).unwrap();
            let mut cp = std::process::Command::new("cp");
            assert!(cp.arg("-p").arg(sandbox.path("tree/old")).arg(&there).status().unwrap().success());
        }
        let (from, to) = match at % 2 {
            0 => (sources.clone(), far(&sandbox, &to) + "/"),
            _ => (format!("far:{sources}"), to + "/"),
        };
        let args = [&["--json", "-q"], flags, &[from.as_str(), &to]].concat();
        let fails = flags.iter().any(|flag| flag.starts_with("--files-from"));
        let planned = plan(&sshd, &sandbox, &args);
        let copied = sshd.copies(&sandbox, &args);
        for run in [&planned, &copied] {
            match fails {
                // A name that leaves its tree is told by both, and costs only itself.
                true => drop(run.fails(1, &["leaves its tree"])),
                false => drop(run.succeeds()),
            }
        }
        let (foretold, record) = (planned.json()["copy"].clone(), copied.json());
        let number = |value: &Value| value.as_u64().unwrap();
        let moved = number(&record["cp"]["files"]) - number(&record["cp"]["unchanged"]);
        assert_eq!(
            (number(&foretold["bytes"]), number(&foretold["files"])),
            (number(&record["bytes"]), moved),
            "{flags:?}: {foretold} {record}"
        );
    }
}

/// Nothing in a target inside its source moves.
#[test]
fn a_plan_does_not_go_into_its_target() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("tree/in/new")).unwrap();
    sandbox.write("tree/x", pattern(MIB, 1));
    sandbox.write("tree/in/new/y", pattern(2 * MIB, 2));
    let [source, target] = ["tree/", "tree/in/new/"];
    for (flag, from, to) in [
        ("--exclude=/none", source.to_owned(), far(&sandbox, target)),
        ("-ux", far(&sandbox, source), target.to_owned()),
    ] {
        let planned = plan(&sshd, &sandbox, &["--json", flag, &from, &to]);
        let record = planned.fails(1, &["in/new is the target of this copy itself; left out"]).json();
        let number = |name: &str| record["copy"][name].as_u64();
        assert_eq!((number("bytes"), number("files")), (Some(MIB as u64), Some(1)), "{flag}: {record}");
    }
}

#[test]
fn a_plan_names_what_is_missing_and_foretells_the_others() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(2 * MIB, 1));
    sandbox.write("b", pattern(1000, 1));
    std::fs::create_dir(sandbox.path("to")).unwrap();
    let there = |name: &str| far(&sandbox, name);
    let (far_a, far_none, far_b) = (there("a"), there("none"), there("b"));
    let fars = [far_a.as_str(), &far_none, &far_b];
    for (sources, target) in [(["a", "none", "b"], there("to")), (fars, "to".to_owned())] {
        let args = [&["--json"], &sources[..], &[target.as_str()]].concat();
        let planned = plan(&sshd, &sandbox, &args);
        let record = planned.fails(1, &["cannot read", "none: no such file"]).json();
        assert_eq!(record["copy"]["bytes"].as_u64(), Some(2 * MIB as u64 + 1000), "{record}");
        assert_eq!(
            (record["outcome"].as_str(), record["files"].as_array().unwrap().len()),
            (Some("failed"), 1)
        );
        sshd.copies(&sandbox, &args).fails(1, &["cannot read", "none: no such file"]);
    }
}

/// The bytes of a sparse file are its data: holes do not move.
#[test]
fn holes_are_none_of_what_a_plan_moves() {
    use std::os::unix::fs::FileExt;
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    let file = std::fs::File::create(sandbox.path("sparse")).unwrap();
    file.set_len(8 << 30).unwrap();
    for at in [0, 3 << 30, (8 << 30) - MIB as u64] {
        file.write_all_at(&pattern(MIB, at), at).unwrap();
    }
    for (from, to) in
        [("sparse".to_owned(), far(&sandbox, "copy")), (far(&sandbox, "sparse"), "copy".to_owned())]
    {
        let record = planned(&sshd, &sandbox, &[&from, &to]);
        assert_eq!(record["copy"]["bytes"].as_u64(), Some(3 * MIB as u64), "{record}");
        assert!(record["plan"]["notes"].to_string().contains("of holes are not moved"), "{record}");
        // What is sampled is data, and these are noise.
        assert_eq!(record["copy"]["predicted"]["codec"], "none");
    }
}

#[test]
fn ssh_is_called_as_rsync_is_told_to() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", "text");
    let command = format!("ssh -F '{}'", sshd.path("ssh_config").display());
    let weir =
        sandbox.weir(support::WEIR, ["cp", "-aq", "-e", &command, "--bwlimit=10m", "a", &far(&sandbox, "b")]);
    weir.run().succeeds();
    assert_eq!(sandbox.read("b"), b"text");
    // Another program may start it, and may fail itself.
    let started = |by: &str, name: &str| {
        let command = format!("{by} {command}");
        sandbox.weir(support::WEIR, ["cp", "-q", "-e", &command, "a", &far(&sandbox, name)]).run()
    };
    started("env A=1", "d").succeeds();
    assert_eq!(sandbox.read("d"), b"text");
    let words = "'env' ended with code 125 before the far shell said anything";
    let far_words = "if ssh itself ran, the account there must be allowed to run programs";
    started("env --no-such-flag", "e").fails(1, &[words, far_words]);
    // It may ask for a password: it is not run to ask ssh for its version.
    let counts = sandbox.write("counts", "#!/bin/sh\necho \"$*\" >> \"$0.log\"\nexec \"$@\"\n");
    std::fs::set_permissions(&counts, std::fs::Permissions::from_mode(0o755)).unwrap();
    started(&counts.display().to_string(), "f").succeeds();
    let runs = String::from_utf8(sandbox.read("counts.log")).unwrap();
    assert!(runs.starts_with("ssh ") && !runs.contains("-V\n"), "{runs}");
    let weir =
        sandbox.weir(support::WEIR, ["plan", "-q", &format!("--rsh={command}"), "a", &far(&sandbox, "c")]);
    weir.run().succeeds();
}

#[test]
fn a_copy_stands_beside_its_plan() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(3 * MIB, 1));
    let to = far(&sandbox, "b");
    let rate = planned(&sshd, &sandbox, &["a", &to])["copy"]["predicted"]["rate"].as_f64().unwrap();
    let record = sshd.copies(&sandbox, &["--json", "a", &to]).succeeds().json();
    let prediction = &record["prediction"];
    assert_eq!((prediction["from"].as_str(), prediction["rate"].as_f64()), (Some("plan"), Some(rate)));
    assert_eq!(prediction["achieved"], record["rate"]);
    let run = sshd.copies(&sandbox, &["a", &to]);
    assert!(run.succeeds().stderr.contains("by the plan"), "{}", run.stderr);
}

/// A plan of another choice, or over other connections, is of another copy.
#[test]
fn a_plan_stands_beside_its_own_copy_alone() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    for name in ["tree/a", "tree/b"] {
        sandbox.write(name, pattern(3 * MIB, 1));
    }
    sandbox.write("list", "a\n");
    let to = far(&sandbox, "copy");
    planned(&sshd, &sandbox, &["--exclude", "b", "tree/", &to]);
    let foretold = |args: &[&str]| {
        let args = [args, &["--json", "tree/", &to]].concat();
        let record = sshd.copies(&sandbox, &args).succeeds().json();
        // What is there already would not be sent again.
        std::fs::remove_dir_all(sandbox.path("copy")).unwrap();
        record["prediction"]["from"].as_str().unwrap_or("nothing").to_owned()
    };
    let others: [&[&str]; 6] = [
        &[],
        &["--exclude", "a"],
        &["--exclude", "b", "--max-size", "1G"],
        &["--files-from", "list"],
        &["--exclude", "b", "--plain"],
        &["--exclude", "b", "--transport", "ssh"],
    ];
    for args in others {
        assert_ne!(foretold(args), "plan", "{args:?}");
    }
    assert_eq!(foretold(&["--exclude", "b"]), "plan");
    // What no forecast hangs on.
    assert_eq!(foretold(&["--exclude", "b", "--sync", "-p"]), "plan");
}

#[test]
fn a_copy_without_a_plan_is_foretold_from_its_start() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(8 * MIB, 1));
    let args = ["--json", "--limit-rate", "2M", "a", &far(&sandbox, "b")];
    let record = sshd.copies(&sandbox, &args).succeeds().json();
    let prediction = &record["prediction"];
    assert_eq!(
        (prediction["from"].as_str(), prediction["limit"].as_str()),
        (Some("start"), Some("rate-limit"))
    );
    // What was reached is the machine's.
    let off = prediction["rate"].as_f64().unwrap() / 2e6;
    assert!((0.5..2.0).contains(&off), "{prediction}");
}
