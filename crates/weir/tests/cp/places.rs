//! `weir cp`: where things go, and what must not be: one place for two, a thing onto itself, a folder onto a
//! file.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::os::unix::fs::{MetadataExt, symlink};

use support::{MIB, Sandbox, Sshd, pattern};

/// `a` with its hard and symbolic link, and folders with files of the same name.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for folder in ["one/sub", "two", "dir/in", "to", "taken/x"] {
        std::fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    for name in ["a", "one/x", "two/x", "one/sub/y", "dir/in/z", "dir/x"] {
        sandbox.write(name, name);
    }
    std::fs::hard_link(sandbox.path("a"), sandbox.path("hard")).unwrap();
    symlink("a", sandbox.path("soft")).unwrap();
    symlink("dir", sandbox.path("way")).unwrap();
    sandbox
}

#[test]
fn a_thing_is_not_copied_onto_itself() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = sandbox();
    let before = sandbox.names();
    let inode = |name: &str| sandbox.path(name).metadata().unwrap().ino();
    let inodes = (inode("a"), inode("dir/in/z"));
    let far = |name: &str| format!("far:{}", sandbox.path(name).display());
    // In turn there, back, here, and between two hosts that are this one.
    let mut turn = 0;
    let mut refuses = |from: &str, to: &str, why: &str| {
        let (from, to) = match turn % 4 {
            0 => (from.to_owned(), far(to)),
            1 => (far(from), to.to_owned()),
            2 => (from.to_owned(), to.to_owned()),
            _ => (far(from), far(to).replace("far:", "two:")),
        };
        turn += 1;
        sshd.copies(&sandbox, &[&from, &to]).fails(1, &[why]);
    };
    for (from, to) in [
        ("a", "a"),
        ("a", "./"),
        ("a", "hard"),
        ("a", "soft"),
        ("soft", "a"),
        ("dir", "./"),
        ("dir/", "dir"),
        ("dir/", "way"),
        ("way/", "dir/"),
        ("dir/x", "way/"),
    ] {
        refuses(from, to, "source and target are the same");
    }
    for (from, to) in [
        ("dir", "dir/"),
        ("dir/", "dir/in"),
        ("dir", "way/in/"),
        ("./", "to/"),
        // One that would have to be made.
        ("dir", "dir/new/"),
        ("dir/", "way/in/new/"),
    ] {
        refuses(from, to, "is in the folder that is to be copied there");
    }
    assert_eq!(sandbox.names(), before);
    assert_eq!((inode("a"), inode("dir/in/z")), inodes, "nothing was replaced");
}

/// As a backup inside its source: one that is excluded is never met, and one that is met is left out.
#[test]
fn a_target_in_its_source_is_left_out_of_a_part() {
    let Some(sshd) = Sshd::start() else { return };
    for is_far in [false, true] {
        let sandbox = sandbox();
        sandbox.write("list", "x\nin/z\n");
        let copies = |flags: &[&str], from: &str, to: &str| {
            let to = match is_far {
                true => format!("far:{}/", sandbox.path(to).display()),
                false => format!("{to}/"),
            };
            sshd.copies(&sandbox, &[flags, &[from, &to]].concat())
        };
        for _ in 0..2 {
            copies(&["--exclude=/backup"], "dir/", "dir/backup").succeeds();
        }
        copies(&["--files-from=list"], "dir", "dir/listed").succeeds();
        let run = copies(&["--exclude=/backup", "--exclude=/listed"], "dir/", "dir/in/new");
        run.fails(1, &["in/new is the target of this copy itself; left out"]);
        // Of itself nothing is left.
        copies(&["--exclude=/none"], "dir", "dir").fails(1, &["is in the folder that is to be copied there"]);
        let mut all = sandbox.names();
        all.retain(|name| name.starts_with("dir/") && !name.ends_with('/'));
        let each =
            ["", "backup/", "in/new/", "listed/"].map(|to| ["in/z", "x"].map(|of| format!("dir/{to}{of}")));
        let mut expected = each.concat();
        expected.sort();
        assert_eq!(all, expected);
    }
}

#[test]
fn two_sources_do_not_become_one() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = sandbox();
    let far = |name: &str| format!("far:{}", sandbox.path(name).display());
    for (to, from) in [
        (far("to"), ["one/x".to_owned(), "two/x".to_owned()]),
        ("to".to_owned(), ["one/x", "two/x"].map(far)),
    ] {
        let [one, two] = from;
        sshd.copies(&sandbox, &[&one, &two, &to])
            .fails(1, &["two sources would both become x", "different folders"]);
    }
    assert!(std::fs::read_dir(sandbox.path("to")).unwrap().next().is_none());
    // A folder that is not there is not made for what is refused, nor are those on the way to it.
    for args in [&["one/x", "two/x"][..], &["--delete", "one/", "two/"], &["--mkpath", "one/x", "two/x"]] {
        let to = far(if args[0] == "--mkpath" { "new/deep/" } else { "new/" });
        sshd.copies(&sandbox, &[args, &[to.as_str()]].concat()).exits(1);
        sandbox.has_nothing_of("new");
    }
    // What is in both folders goes once: the first one's, and that is said.
    let run = sshd.copies(&sandbox, &["one/", "two/", &far("to")]);
    run.fails(1, &["x is in one/ and in two/", "the one in one/ is copied"]);
    assert_eq!(sandbox.read("to/x"), b"one/x");
    assert_eq!(sandbox.read("to/sub/y"), b"one/sub/y");
    // Folders of two sources may well become one.
    std::fs::create_dir(sandbox.path("two/sub")).unwrap();
    sandbox.write("two/sub/w", "w");
    std::fs::remove_file(sandbox.path("two/x")).unwrap();
    sshd.copies(&sandbox, &[&far("one/"), &far("two/"), "both/"]).succeeds();
    // Each tells what it has, none of them all that is to stay.
    for (sources, to) in [(["one/", "two/"], far("both")), (["two", "one/"], far("both"))] {
        sshd.copies(&sandbox, &["--delete", sources[0], sources[1], &to])
            .fails(1, &["--delete would remove what the others bring", "copy DIR/ by itself"]);
    }
    assert!(["both/x", "both/sub/w"].iter().all(|name| sandbox.path(name).exists()));
    let both: Vec<String> = sandbox.names().into_iter().filter(|name| name.starts_with("both/")).collect();
    assert_eq!(both, ["both/", "both/sub/", "both/sub/w", "both/sub/y", "both/x"]);
}

#[test]
fn a_second_name_does_not_lead_to_what_another_source_brought() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = sandbox();
    std::fs::hard_link(sandbox.path("two/x"), sandbox.path("two/z")).unwrap();
    let to = format!("far:{}", sandbox.path("to").display());
    let run = sshd.copies(&sandbox, &["-a", "one/", "two/", &to]);
    run.fails(1, &["x is in one/ and in two/", "z is a second name of x, which was not copied"]);
    assert_eq!(sandbox.read("to/x"), b"one/x");
    assert!(!sandbox.path("to/z").exists());
}

#[test]
fn a_folder_does_not_replace_a_file_nor_a_file_a_folder() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = sandbox();
    let far = |name: &str| format!("far:{}", sandbox.path(name).display());
    let refuses = |args: &[&str], texts: &[&str]| {
        sshd.copies(&sandbox, args).fails(1, texts);
    };
    refuses(&["dir", &far("a")], &["a is a file, and a folder is to be copied there"]);
    refuses(&["dir/", &far("a")], &["a is a file, and a folder is to be copied there"]);
    refuses(&["one/x", &far("a/")], &["a/ is a file, and it was named as a folder"]);
    refuses(&["one/x", "dir", &far("a")], &["a is no folder, and 2 sources are to go there"]);
    refuses(&["one/x/", &far("b")], &["cannot read one/x/: not a directory"]);
    refuses(&["-", "b"], &["cannot read -: no such file", "'weir put - URL' sends a stream to a store"]);
    // x is a folder there, and the file does not take its place.
    refuses(&["one/x", &far("taken")], &["cannot put a file at x", "is a directory", "remove it"]);
    sandbox.write("large", pattern(5 * MIB, 1));
    std::fs::create_dir(sandbox.path("taken/large")).unwrap();
    refuses(&["large", &far("taken")], &["cannot put a file at large", "is a directory"]);
    // Within a tree the rest goes on.
    sandbox.write("to/sub", "a file");
    refuses(&["one/", &far("to")], &["cannot make the directory sub", "a file is there", "remove it"]);
    assert_eq!(sandbox.read("to/x"), b"one/x");
    assert_eq!(sandbox.read("to/sub"), b"a file");
}

/// As `/dev/stdout` is one: it is not to be lost to a file of its name.
#[test]
fn a_link_to_what_is_no_data_is_not_replaced() {
    let sandbox = sandbox();
    sandbox.pipe("pipe");
    symlink("nowhere", sandbox.path("to/way")).unwrap();
    symlink("../a", sandbox.path("to/file")).unwrap();
    symlink("../pipe", sandbox.path("to/pipe")).unwrap();
    let cp = |args: &[&str]| sandbox.weir(support::WEIR, ["cp"]).args(args).run();
    for flags in [&[][..], &["-n"]] {
        cp(&[flags, &["one/x", "to/pipe"]].concat())
            .fails(1, &["cannot put a file at pipe: what is there is a link to a device, pipe or socket"]);
    }
    assert!(sandbox.path("to/pipe").is_symlink());
    // Others are, as in rsync.
    for link in ["to/file", "to/way"] {
        cp(&["one/x", link]).succeeds();
        assert_eq!(sandbox.read(link), b"one/x");
    }
    assert_eq!(sandbox.read("a"), b"a");
}

/// With `-a` a link is copied as one, also over its own copy.
#[test]
fn a_named_link_to_what_is_no_data_is_copied_again() {
    let sandbox = sandbox();
    sandbox.pipe("pipe");
    for leads_to in ["../pipe", "/dev/null"] {
        symlink(leads_to, sandbox.path("one/masked")).unwrap();
        for _ in 0..2 {
            sandbox.weir(support::WEIR, ["cp", "-a", "one/masked", "to/masked"]).run().succeeds();
            let copied = std::fs::read_link(sandbox.path("to/masked")).unwrap();
            assert_eq!(copied.to_str(), Some(leads_to));
        }
        std::fs::remove_file(sandbox.path("one/masked")).unwrap();
    }
}

#[test]
fn for_what_is_refused_no_folder_stays() {
    let sandbox = sandbox();
    let cp = |args: &[&str]| sandbox.weir(support::WEIR, ["cp"]).args(args).run();
    let file = sandbox.path("a").display().to_string();
    for (refused, why) in [
        (format!("--link-dest={file}"), "not a directory"),
        ("--backup-dir=.".to_owned(), "the folder of backups is the target itself"),
        (format!("--backup-dir={file}/backups"), "cannot create"),
    ] {
        cp(&[&refused, "one/", "new"]).fails(1, &[why]);
        cp(&[&refused, "--mkpath", "one/", "new/on/the/way"]).fails(1, &[why]);
        sandbox.has_nothing_of("new");
    }
    // The folders on the way to one that cannot be made.
    let long = format!("new/{}", "n".repeat(256));
    cp(&["--mkpath", "one/", &long]).fails(1, &["does not take a name that long"]);
    sandbox.has_nothing_of("new");
    // A dry run needs no folder of its own, either.
    let dry = sandbox.weir(support::WEIR, ["cp", "-n", "one/", "new"]).env("TMPDIR", "/nonexistent").run();
    assert_eq!(String::from_utf8_lossy(&dry.succeeds().stdout).lines().count(), 2);
    sandbox.has_nothing_of("new");
    // Beside a target that is yet to be made.
    let dry = cp(&["-n", "-a", "--link-dest=../one", "one/", "new"]);
    assert_eq!(String::from_utf8_lossy(&dry.succeeds().stdout), "", "all of it would be linked");
}

#[test]
fn a_slash_at_the_end_means_what_is_in_it() {
    let Some(sshd) = Sshd::start() else { return };
    for (from, to, there) in [
        ("one", "new", "new/x"),
        ("one/", "new", "new/x"),
        ("one/.", "new", "new/x"),
        ("one", "new/", "new/one/x"),
        ("one/", "new/", "new/x"),
        ("one", "to", "to/one/x"),
        ("one", "to/", "to/one/x"),
        ("one/", "to", "to/x"),
        ("one/x", "to", "to/x"),
        ("one/x", "new", "new"),
        ("one/x", "new/", "new/x"),
    ] {
        let sandbox = sandbox();
        sshd.copies(&sandbox, &["-q", from, &format!("far:{}/{to}", sandbox.path("").display())]).succeeds();
        assert_eq!(sandbox.read(there), b"one/x", "{from} to {to}");
    }
}
