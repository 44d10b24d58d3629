//! Links that `weir cp` meets: symbolic ones that are named themselves, and hard ones that the target cannot
//! make.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

use support::{MIB, Run, Sandbox, Sshd, WEIR, pattern, skip};

fn cp(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.weir(WEIR, ["cp", "-q"]).args(args).run()
}

/// Where a link leads; empty for what is none.
fn leads(sandbox: &Sandbox, name: &str) -> String {
    sandbox.path(name).read_link().map(|to| to.display().to_string()).unwrap_or_default()
}

/// A folder of releases and a file, with links to them, one of them by its whole path, and one to nothing.
fn releases() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("releases/42")).unwrap();
    fs::create_dir(sandbox.path("copy")).unwrap();
    sandbox.write("releases/42/file", "text");
    sandbox.write("notes", "text");
    for (to, name) in [("releases/42", "current"), ("notes", "short"), ("none", "dangling")] {
        symlink(to, sandbox.path(name)).unwrap();
    }
    symlink(sandbox.path("notes"), sandbox.path("whole")).unwrap();
    sandbox
}

#[test]
fn a_link_that_is_named_stays_one_with_a() {
    let sandbox = releases();
    let whole = sandbox.path("notes").display().to_string();
    let is_there = |folder: &str| {
        let links =
            [("current", "releases/42"), ("short", "notes"), ("dangling", "none"), ("whole", &*whole)];
        for (name, to) in links {
            assert_eq!(leads(&sandbox, &format!("{folder}/{name}")), to);
        }
        assert_eq!(sandbox.read(&format!("{folder}/notes")), b"text");
    };
    // The second time over what is there.
    for _ in 0..2 {
        cp(&sandbox, &["-a", "current", "short", "dangling", "whole", "notes", "copy/"]).succeeds();
        is_there("copy");
    }
    for (name, to) in [("current", "releases/42"), ("dangling", "none")] {
        cp(&sandbox, &["-a", name, "renamed"]).succeeds();
        assert_eq!(leads(&sandbox, "renamed"), to);
        fs::remove_file(sandbox.path("renamed")).unwrap();
    }
    // What it leads to, where that is meant.
    for (flags, name) in [(&["-a"][..], "current/"), (&["-a", "-L"], "current"), (&[], "current")] {
        cp(&sandbox, &[flags, &[name, "followed"]].concat()).succeeds();
        assert!(!sandbox.path("followed").is_symlink(), "{flags:?} {name}");
        assert_eq!(sandbox.read("followed/file"), b"text");
        fs::remove_dir_all(sandbox.path("followed")).unwrap();
    }
    for flags in [&[][..], &["-a", "-L"]] {
        let run = cp(&sandbox, &[flags, &["dangling", "followed"]].concat());
        run.fails(1, &["dangling: it is a symbolic link to none, which is not there"]);
    }
}

#[test]
fn a_link_that_is_named_stays_one_between_hosts() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = releases();
    let far = |name: &str| format!("far:{}", sandbox.path(name).display());
    sshd.copies(&sandbox, &["-q", "-a", "current", "dangling", &far("copy/")]).succeeds();
    sshd.copies(&sandbox, &["-q", "-a", &far("copy/current"), &far("copy/dangling"), "back/"]).succeeds();
    for folder in ["copy", "back"] {
        assert_eq!(leads(&sandbox, &format!("{folder}/current")), "releases/42");
        assert_eq!(leads(&sandbox, &format!("{folder}/dangling")), "none");
    }
}

/// It would be all that is left of both.
#[test]
fn a_link_does_not_take_the_place_of_what_it_leads_to() {
    let sandbox = releases();
    for name in ["short", "whole"] {
        cp(&sandbox, &["-a", name, "notes"]).fails(1, &["source and target are the same"]);
    }
    assert_eq!(sandbox.read("notes"), b"text");
    for name in ["short", "dangling"] {
        let run = cp(&sandbox, &["-a", "--remove-source-files", name, "./"]);
        run.fails(1, &["source and target are the same"]);
        assert!(sandbox.path(name).is_symlink(), "{name}");
    }
}

/// What is mounted in the target can have no second name of a file outside (EXDEV).
#[test]
fn a_second_name_that_the_target_cannot_make_is_a_copy() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root mounts");
    }
    let sandbox = Sandbox::new();
    for folder in ["tree/a", "tree/b", "copy/b"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    sandbox.write("tree/a/small", "text");
    sandbox.write("tree/a/large", pattern(5 * MIB + 3, 1));
    let holes = fs::File::create(sandbox.path("tree/a/holes")).unwrap();
    holes.write_all_at(b"middle", 4 * MIB as u64).unwrap();
    holes.set_len(9 * MIB as u64).unwrap();
    symlink("small", sandbox.path("tree/a/link")).unwrap();
    fs::set_permissions(sandbox.path("tree/a/small"), fs::Permissions::from_mode(0o640)).unwrap();
    for name in ["small", "large", "holes", "link"] {
        fs::hard_link(sandbox.path("tree/a").join(name), sandbox.path("tree/b").join(name)).unwrap();
    }
    // With -u the copies of the first run stay.
    let script = format!(
        "mount -t tmpfs none copy/b && {WEIR} cp -a tree/ copy && inodes=$(stat -c %i copy/?/*) && \
         {WEIR} cp -a -u tree/ copy && [ \"$inodes\" = \"$(stat -c %i copy/?/*)\" ] || exit; \
         cd copy; for name in small large holes link; do stat -c '%f %s %Y %h' a/$name; stat -c '%f %s %Y %h' b/$name; done; \
         cmp a/large b/large && cmp a/holes b/holes && cmp b/small ../tree/a/small && readlink a/link b/link; \
         stat -c %b a/holes b/holes"
    );
    let run = sandbox.weir("unshare", ["-m", "sh", "-c", &script]).run();
    if run.stderr.contains("unshare") || run.stderr.contains("mount:") {
        return skip("nothing can be mounted here");
    }
    run.succeeds().says(&["note: ", " and 3 more copied instead of hard-linked: invalid cross-device link"]);
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 12, "{said}");
    for pair in lines[..10].chunks(2) {
        assert_eq!(pair[0], pair[1], "{said}");
    }
    let blocks = lines[10..].iter().map(|blocks| blocks.parse::<u64>().unwrap());
    assert!(blocks.sum::<u64>() < 1000, "holes stay holes: {said}");
}
