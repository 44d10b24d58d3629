//! The line while `weir cp` runs: what is to be copied in all shows here wherever the walk is that finds it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use support::{Sandbox, Sshd, WEIR, pattern};

/// More files than a walk runs ahead of what is stored (256 of more than 256 KiB), so that it ends late.
const FILES: usize = 400;
const SIZE: usize = 300_000;

#[test]
fn the_total_grows_and_then_stands() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    for index in 0..FILES {
        sandbox.write(&format!("tree/f{index}"), pattern(SIZE, 1));
    }
    let place = |host: &str, name: &str| format!("{host}{}", sandbox.path(name).display());
    for (from, to) in [
        (place("", "tree/"), place("far:", "there")),
        (place("far:", "tree/"), place("", "here")),
        (place("one:", "tree/"), place("two:", "between")),
    ] {
        let config = sshd.path("ssh_config").display().to_string();
        let cp = format!("{WEIR} cp -F {config} --codec none --limit-rate 60M {from} {to}");
        // A terminal of its own, of which a pipe gets the picture.
        let run = sandbox.weir("script", ["-qec", &cp, "/dev/null"]).run();
        run.exits(0);
        let picture = String::from_utf8_lossy(&run.stdout).into_owned();
        let lines: Vec<&str> = picture.split(['\r', '\n']).filter(|line| line.contains("/s")).collect();
        let growing = lines.iter().position(|line| line.contains("of at least "));
        let standing = lines.iter().position(|line| line.contains(" % ") && line.contains(" of 120"));
        let (Some(growing), Some(standing)) = (growing, standing) else { panic!("{from}: {lines:#?}") };
        assert!(growing < standing, "{lines:#?}");
        for line in lines.iter().filter(|line| line.contains("of at least ")) {
            assert!(!line.contains(" % "), "no share of what may grow: {line}");
            assert!(!line.contains(" left") || line.matches("at least").count() == 2, "nor a time: {line}");
        }
    }
}
