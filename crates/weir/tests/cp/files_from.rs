//! `weir cp --files-from`: what a list names, with the folders on the way, wherever source and list are.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::disks::{NOBODY, as_nobody};
use crate::support;

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use support::{Sandbox, Sshd, WEIR, pattern};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("tree/sub/deep")).unwrap();
    for name in ["a", "b", "sub/c", "sub/deep/d", "sub/deep/e", "sub/#f"] {
        sandbox.write(&format!("tree/{name}"), name);
    }
    sandbox.write("tree/large", pattern(5_000_000, 1));
    sandbox
}

fn copied(sandbox: &Sandbox) -> Vec<String> {
    let names = sandbox.names().into_iter();
    names
        .filter_map(|name| name.strip_prefix("copy/").map(str::to_owned))
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn names_come_with_the_folders_on_the_way() {
    let Some(sshd) = Sshd::start() else { return };
    let list = "# what we want\n./a\n/sub/deep//e\nsub/deep/d\nlarge\n\nsub\n";
    for there in [true, false] {
        let sandbox = sandbox();
        sandbox.write("list", list);
        let far = |name: &str| format!("far:{}", sandbox.path(name).display());
        let (from, to) = match there {
            true => ("tree".to_owned(), far("copy")),
            false => (far("tree/"), "copy".to_owned()),
        };
        sshd.copies(&sandbox, &["-q", "--files-from", "list", &from, &to]).succeeds();
        assert_eq!(copied(&sandbox), ["a", "large", "sub/", "sub/deep/", "sub/deep/d", "sub/deep/e"]);
        assert!(sandbox.read("tree/large") == sandbox.read("copy/large"));
        let time = |name: &str| sandbox.path(name).metadata().unwrap().modified().unwrap();
        assert_eq!(time("tree/sub/deep"), time("copy/sub/deep"), "folders on the way keep their times");
    }
}

#[test]
fn a_folder_that_is_named_goes_whole_if_asked() {
    for list in ["sub/deep\na\n", "sub/c\nsub/deep/d\nsub/deep\na\n"] {
        let sandbox = sandbox();
        let cp = |more: &[&str]| {
            let cp = sandbox.weir(WEIR, ["cp", "-q", "--files-from", "-"]).args(more);
            cp.args(&["tree", "copy"]).input(list).run()
        };
        cp(&["-r", "--exclude", "e"]).succeeds();
        let all: Vec<String> = copied(&sandbox).into_iter().filter(|name| name != "sub/c").collect();
        assert_eq!(all, ["a", "sub/", "sub/deep/", "sub/deep/d"], "but for what a pattern leaves out");
        cp(&["-r"]).succeeds();
        assert!(copied(&sandbox).contains(&"sub/deep/e".to_owned()));
    }
}

#[test]
fn nul_ends_any_name() {
    let sandbox = sandbox();
    let odd = std::ffi::OsStr::from_bytes(b"not \xff utf-8\n");
    std::fs::write(sandbox.path("tree").join(odd), "odd").unwrap();
    let list = b"not \xff utf-8\n\0sub/#f\0";
    let cp = sandbox.weir(WEIR, ["cp", "-q", "-0", "--files-from", "-", "tree", "copy"]);
    cp.input(&list[..]).run().succeeds();
    assert_eq!(std::fs::read(sandbox.path("copy").join(odd)).unwrap(), b"odd");
    assert!(copied(&sandbox).contains(&"sub/#f".to_owned()));
}

#[test]
fn what_is_missing_is_said_and_the_rest_is_copied() {
    let Some(sshd) = Sshd::start() else { return };
    for there in [true, false] {
        let sandbox = sandbox();
        let far = |name: &str| format!("far:{}", sandbox.path(name).display());
        let (from, to) = match there {
            true => ("tree".to_owned(), far("copy")),
            false => (far("tree"), "copy".to_owned()),
        };
        let list = "gone\na\nsub/none/x\n../up\na/x\nb\n";
        let run = sshd.cp(&sandbox, &["--json", "--files-from", "-", &from, &to]).input(list).run();
        run.fails(1, &["cannot read gone: no such file", "cannot read sub/none", "leaves its tree", "a/x"]);
        assert_eq!(copied(&sandbox)[..2], ["a", "b"]);
        assert_eq!(run.json()["files"].as_array().unwrap().len(), 4, "each of them in the record");
    }
}

#[test]
fn more_names_than_a_message_holds() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = sandbox();
    let long = "x".repeat(100);
    for index in 0..20 {
        sandbox.write(&format!("tree/{long}{index}"), "text");
    }
    // 12,000 names of 100 bytes: five pieces, most of them twice and more.
    let list: String = (0..12_000).map(|index| format!("{long}{}\n", index % 20)).collect();
    let from = format!("far:{}", sandbox.path("tree").display());
    let run = sshd.cp(&sandbox, &["-q", "--files-from", "-", &from, "copy"]).input(list).run();
    run.succeeds();
    assert_eq!(copied(&sandbox).len(), 20);
}

/// A folder that its user may pass, and not list, is enough for names that are known.
#[test]
fn names_lead_through_folders_that_may_not_be_read() {
    if !rustix::process::geteuid().is_root() {
        return support::skip("only root runs it as somebody else");
    }
    let sandbox = sandbox();
    let mode = |mode| std::fs::set_permissions(sandbox.path("tree/sub"), PermissionsExt::from_mode(mode));
    mode(0o711).unwrap();
    symlink("sub", sandbox.path("tree/way")).unwrap();
    std::fs::create_dir(sandbox.path("copy")).unwrap();
    chown(sandbox.path("copy"), Some(NOBODY), Some(NOBODY)).unwrap();
    let cp = |flag: &str, list: &str| {
        let cp = as_nobody(&sandbox, &["-q", flag, "--files-from", "-", "tree", "copy"])?;
        Some(cp.input(list).run())
    };
    let Some(run) = cp("-r", "sub/c\nsub/deep/d\nway/c\n") else { return };
    run.fails(1, &["cannot read way/c: way is a symbolic link; -L copies what links lead to"]);
    assert_eq!(copied(&sandbox), ["sub/", "sub/c", "sub/deep/", "sub/deep/d"]);
    // All that is in it cannot be known.
    cp("-r", "sub/c\nsub\n").unwrap().fails(1, &["sub: permission denied"]);
    mode(0o755).unwrap();
    cp("-L", "way/c\n").unwrap().succeeds();
    assert_eq!(sandbox.read("copy/way/c"), b"sub/c");
}

#[test]
fn a_list_that_cannot_be_is_refused() {
    let sandbox = sandbox();
    let refuses = |args: &[&str], code: i32, text: &str| {
        sandbox.weir(WEIR, ["cp"]).args(args).run().fails(code, &[text]);
    };
    refuses(&["--files-from", "none", "tree", "copy"], 2, "cannot read none: no such file");
    refuses(&["--files-from", "tree", "tree", "copy"], 1, "cannot read tree: is a directory");
    refuses(&["--files-from", "-", "tree/a", "tree/b", "copy"], 2, "several sources");
    refuses(&["--files-from", "-", "--delete", "tree", "copy"], 2, "would remove all");
    refuses(&["-0", "tree", "copy"], 2, "-0 is for --files-from");
    refuses(&["--files-from", "-", "tree/a", "copy"], 1, "not a directory");
    assert!(!sandbox.path("copy").exists());
}
