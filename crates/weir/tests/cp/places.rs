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
