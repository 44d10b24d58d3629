//! The same choices between two hosts, over a real sshd: either end may have to know them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::trees::{list, make};
use crate::support::{Sandbox, Sshd, WEIR, wait_for};

fn far(sandbox: &Sandbox, name: &str) -> String {
    format!("far:{}", sandbox.path(name).display())
}

#[test]
fn rules_hold_at_the_far_end() {
    let Some(sshd) = Sshd::start() else { return };
    for towards in [true, false] {
        let sandbox = Sandbox::new();
        make(&sandbox.path("tree"), &["a.o", "b.c", "src/main.o", "src/main.c"]);
        fs::write(sandbox.path("tree/src/.rules"), "- *.o\n").unwrap();
        make(&sandbox.path("copy"), &["src/kept.o", "src/gone.c", "kept.log", "gone"]);
        fs::write(sandbox.path("copy/src/.rules"), "P *.o\n").unwrap();
        fs::write(sandbox.path("rules"), "P *.log\n- a.*\n").unwrap();
        let here = |name: &str| sandbox.path(name).display().to_string();
        let (from, to) = match towards {
            true => (here("tree/"), far(&sandbox, "copy")),
            false => (far(&sandbox, "tree/"), here("copy")),
        };
        let flags = ["-q", "-f", ". rules", "-f", ": .rules", "--delete", "--max-delete=2"];
        sshd.cp(&sandbox, &flags).args(&[&from, &to]).run().succeeds();
        let there: Vec<String> = list(&sandbox.path("copy"))
            .into_iter()
            .map(|line| line.split(':').next().unwrap().to_owned())
            .collect();
        assert_eq!(there, ["b.c", "kept.log", "src/", "src/.rules", "src/kept.o", "src/main.c"]);
    }
}

/// Who reads the sources has to know it, and is told apart from the other options.
#[test]
fn errors_are_ignored_where_the_sources_are() {
    let Some(sshd) = Sshd::start() else { return };
    for towards in [true, false] {
        let sandbox = Sandbox::new();
        make(&sandbox.path(""), &["tree/a", "tree/src/x", "copy/gone", "copy/src/old"]);
        fs::write(sandbox.path("tree/src/.rules"), "what is this\n").unwrap();
        let here = |name: &str| sandbox.path(name).display().to_string();
        let (from, to) = match towards {
            true => (here("tree/"), far(&sandbox, "copy")),
            false => (far(&sandbox, "tree/"), here("copy")),
        };
        for (more, stays) in [(&[][..], true), (&["--ignore-errors"], false)] {
            let flags = [&["--delete", "-f", ": .rules"], more].concat();
            let run = sshd.cp(&sandbox, &flags).args(&[&from, &to]).run();
            run.fails(1, &["the rules of src"]);
            assert_eq!(run.stderr.contains("note: nothing was deleted from src on"), stays, "{}", run.stderr);
            assert_eq!(sandbox.path("copy/gone").exists(), stays, "{more:?}");
            assert!(sandbox.path("copy/src/old").exists(), "the folder could not be read");
        }
    }
}

#[test]
fn far_sources_that_are_missing() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["d/x", "a", "copy/d/old"]);
    let sources = [far(&sandbox, "missing"), far(&sandbox, "d"), far(&sandbox, "a"), far(&sandbox, "a")];
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let run = sshd.cp(&sandbox, &["-q", "--delete"]).args(&[&sources[..], &["copy/"]].concat()).run();
    run.fails(1, &["cannot read", "missing: no such file"]);
    assert_eq!((sandbox.read("copy/d/x"), sandbox.read("copy/a")), (b"d/x".to_vec(), b"a".to_vec()));
    assert!(sandbox.path("copy/d/old").exists(), "nothing goes where a source may only be hidden");
    let run = sshd.cp(&sandbox, &["-q"]).args(&["none", "a", &far(&sandbox, "second/")]).run();
    run.fails(1, &["cannot read none"]);
    assert_eq!(sandbox.read("second/a"), b"a");
}

#[test]
fn far_sources_that_go_and_targets_that_are_kept() {
    let Some(sshd) = Sshd::start() else { return };
    for towards in [true, false] {
        let sandbox = Sandbox::new();
        make(&sandbox.path(""), &["tree/x", "tree/d/y", "copy/d/", "tree/taken", "copy/taken/"]);
        fs::write(sandbox.path("copy/x"), "before").unwrap();
        fs::write(sandbox.path("tree/large"), vec![1; 700 << 10]).unwrap();
        let here = |name: &str| sandbox.path(name).display().to_string();
        let (from, to) = match towards {
            true => (here("tree/"), far(&sandbox, "copy")),
            false => (far(&sandbox, "tree/"), here("copy")),
        };
        let flags = ["-q", "--remove-source-files", "--backup", "--itemize-changes"];
        let run = sshd.cp(&sandbox, &flags).args(&[&from, &to]).run();
        run.fails(1, &["cannot put a file at taken"]);
        assert_eq!(list(&sandbox.path("tree")), ["d/", "taken: tree/taken"]);
        assert_eq!(sandbox.read("copy/x~"), b"before");
        assert_eq!(
            (sandbox.read("copy/x"), sandbox.read("copy/d/y")),
            (b"tree/x".to_vec(), b"tree/d/y".to_vec())
        );
        let said = String::from_utf8(run.stdout).unwrap();
        let arrow = if towards { '<' } else { '>' };
        assert!(said.contains(&format!("{arrow}f+++++++++ d/y\n")), "{said}");
    }
}

#[test]
fn a_far_end_that_stands_still_is_given_up_after_the_time_that_was_said() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("a"), vec![b'x'; 8 << 20]).unwrap();
    let [pid, go] = ["pid", "go"].map(|name| sandbox.path(name).display().to_string());
    let script = format!(
        "#!/bin/sh\necho $$ > {pid}\n(while [ ! -e {go} ]; do sleep 0.05; done; kill -STOP $$) </dev/null >&2 &\nexec {WEIR} \"$@\"\n"
    );
    fs::write(sandbox.path("far-weir"), script).unwrap();
    fs::set_permissions(sandbox.path("far-weir"), fs::Permissions::from_mode(0o755)).unwrap();
    let program = sandbox.path("far-weir").display().to_string();
    let flags = ["-q", "--far-program", &program, "--timeout", "2", "--limit-rate", "1Mi", "--codec", "none"];
    let running = sshd.cp(&sandbox, &flags).args(&["a", &far(&sandbox, "b")]).spawn();
    wait_for("a part", || sandbox.path(".b.weir-part").exists());
    let since = Instant::now();
    fs::write(&go, "").unwrap();
    let run = running.wait();
    let pid = Pid::from_raw(fs::read_to_string(&pid).unwrap().trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert!(since.elapsed() < Duration::from_secs(40), "{:?}", since.elapsed());
    assert!(matches!(run.status.code(), Some(1 | 4)), "{}", run.stderr);
    assert!(run.stderr.contains("it said nothing for 2 s"), "{}", run.stderr);
}
