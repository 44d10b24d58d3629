//! What is copied over what, beside rules: sizes, what is there already, links, file systems, backups, and
//! sources that go.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::trees::{Pair, has_rsync, list, make};
use crate::support::{Sandbox, Special, Sshd, WEIR, skip};

/// Files of a source and others of the same names at the target.
fn plant(tree: &Path, to: &Path) {
    make(tree, &["same", "longer", "new", "dir/same", "dir/new", "only/x", "link -> same", "kind", "big"]);
    fs::write(tree.join("big"), vec![b'x'; 3000]).unwrap();
    make(to, &["same", "dir/same", "extra", "link -> elsewhere", "kind -> same", "big"]);
    fs::write(to.join("longer"), "another, and longer").unwrap();
    fs::write(to.join("same"), "emas").unwrap();
}

#[test]
fn what_is_there_already() {
    if !has_rsync() {
        return;
    }
    for flags in [
        &["--ignore-existing"][..],
        &["--existing"],
        &["--ignore-existing", "--existing"],
        &["--existing", "--delete"],
        &["--ignore-existing", "--delete"],
        &["--max-size=2k"],
        &["--max-size=2k", "--delete"],
        &["--min-size=5", "--delete"],
        &["--max-size=3000", "--min-size=4b"],
        &["--ignore-non-existing", "--max-size=10"],
    ] {
        for sources in [&["./"][..], &["same", "dir", "only", "big"]] {
            Pair::new(plant).agree(flags, sources);
        }
    }
    Pair::new(plant).agree_with(&[], &["-rlt"], &["--size-only"], &["./"]);
    let pair = Pair::new(plant);
    pair.weir(&["-q", "--size-only"], &["./"]).succeeds();
    assert_eq!(fs::read(pair.sandbox.path("weir/to/same")).unwrap(), b"emas", "of one size");
}

/// Second names of a file that is passed over are no failure, and no new file.
#[test]
fn second_names_of_what_is_passed_over() {
    if !has_rsync() {
        return;
    }
    for flags in [&["--max-size=2k"][..], &["--min-size=1k"], &["--max-size=5", "--delete"]] {
        let pair = Pair::new(|tree, to| {
            plant(tree, to);
            for (name, other) in [("big", "big2"), ("same", "same2"), ("new", "new2")] {
                fs::hard_link(tree.join(name), tree.join(other)).unwrap();
            }
            fs::write(to.join("new2"), "of the target").unwrap();
        });
        pair.agree_with(&["-a"], &["-aHI"], flags, &["./"]);
    }
}

/// Links within the tree, to files and to a folder.
const LINKED: [&str; 6] =
    ["file", "dir/in", "to-file -> file", "to-dir -> dir", "dir/up -> ../file", "other/x -> ../dir/in"];

#[test]
fn links_and_what_they_lead_to() {
    if !has_rsync() {
        return;
    }
    let plant = |tree: &Path, to: &Path| {
        make(tree, &["file", "dir/in", "to-file -> file", "to-dir -> dir", "dir/up -> ../file"]);
        make(
            tree,
            &["out -> ../../outside", "abs -> /nonexistent/x", "dir/far -> ../../x", "sub/a/l -> ../../file"],
        );
        make(tree, &["sub/a/m -> b/../../x", "same -> ."]);
        make(to, &["real/", "extra -> real"]);
    };
    for flags in [&["--safe-links"][..], &["--safe-links", "--delete"]] {
        Pair::new(plant).agree(flags, &["./"]);
    }
    let plant = |tree: &Path, to: &Path| {
        make(tree, &LINKED);
        make(to, &["to-dir -> dir", "extra"]);
    };
    Pair::new(plant).agree(&["-L", "--delete"], &["./"]);
    let alone = |tree: &Path, _: &Path| make(tree, &LINKED);
    Pair::new(alone).agree(&["-L", "--exclude=up"], &["to-dir", "to-file"]);
    // Links to nothing, and round and round, cost only themselves.
    let pair = Pair::new(|tree, _| {
        make(tree, &["a", "nothing -> none", "round/in", "round/again -> .", "z/up -> .."])
    });
    let run = pair.weir(&["-q", "-L"], &["./"]);
    run.fails(
        1,
        &["nothing: it is a dangling symbolic link", "round/again leads to a folder that it is in itself"],
    );
    assert_eq!(pair.list("weir/to"), ["a: a", "round/", "round/in: round/in", "z/"]);
}

/// More folders deep than are held open at a time, behind a link.
#[test]
fn deep_below_a_link() {
    let sandbox = Sandbox::new();
    let deep = ["d"; 60].join("/");
    make(&sandbox.path(""), &[&format!("far/{deep}/file"), "far/second", "tree/link -> ../far"]);
    sandbox.weir(WEIR, ["cp", "-q", "-L", "tree/", "copy"]).run().succeeds();
    assert_eq!(sandbox.read(&format!("copy/link/{deep}/file")), format!("far/{deep}/file").as_bytes());
    assert_eq!(sandbox.read("copy/link/second"), b"far/second");
}

#[test]
fn a_link_to_a_folder_at_the_target() {
    if !has_rsync() {
        return;
    }
    let plant = |tree: &Path, to: &Path| {
        make(tree, &["dir/new", "dir/sub/x", "file"]);
        make(to, &["real/old", "dir -> real", "extra"]);
    };
    for flags in [&["-K"][..], &["-K", "--delete", "--exclude=real"], &["-K", "--ignore-existing"]] {
        Pair::new(plant).agree(flags, &["./"]);
    }
    let pair = Pair::new(plant);
    pair.weir(&["-q"], &["./"])
        .fails(1, &["cannot make the directory dir: a symbolic link is there", "(3 paths)"]);
    assert_eq!(
        fs::read_dir(pair.sandbox.path("weir/to/real")).unwrap().count(),
        1,
        "without it no link is followed"
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_said_once() {
    let sandbox = Sandbox::new();
    make(&sandbox.path("copy"), &["was-file", "deep/was-file"]);
    make(&sandbox.path("tree"), &["deep/was-file/sub/x", "other"]);
    for index in 0..600 {
        make(&sandbox.path("tree"), &[&format!("was-file/{index}")]);
    }
    fs::write(sandbox.path("tree/was-file/large"), vec![7; 400 << 10]).unwrap();
    for flags in [&["-q"][..], &["-q", "-u"], &["-q", "-n"], &["-q", "-a", "--checksum"]] {
        let run = sandbox.weir(WEIR, ["cp"]).args(flags).args(&["tree/", "copy"]).run();
        run.fails(1, &["cannot make the directory was-file: a file is there; remove it, or --delete does; what is inside is left out (601 paths)"]);
        let lines: Vec<&str> = run.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
    let record = sandbox.weir(WEIR, ["cp", "--json", "tree/", "copy"]).run().fails(1, &[]).json();
    assert_eq!((record["cp"]["failed"].as_u64(), record["outcome"].as_str()), (Some(2), Some("failed")));
    assert_eq!(sandbox.read("copy/was-file"), b"was-file");
    assert_eq!(sandbox.read("copy/other"), b"other");
}

#[test]
fn folders_on_the_way_are_made_where_that_was_asked_for() {
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["tree/x", "tree/y", "file"]);
    let cp = |args: &[&str]| sandbox.weir(WEIR, ["cp", "-q"]).args(args).run();
    for target in ["a/b/c", "a/b/c/"] {
        for more in [&[][..], &["-n"]] {
            let source = if target.ends_with('/') { "file" } else { "tree/" };
            let run = cp(&[more, &["-r", source, target]].concat());
            run.fails(1, &["a/b/c", "no such file or directory; --mkpath creates the missing folders"]);
        }
    }
    cp(&["file", "a/b"]).fails(1, &["; --mkpath creates the missing folders"]);
    cp(&["file", "tree", "a/b"]).fails(1, &["is no folder"]);
    let dry = cp(&["-n", "--mkpath", "tree/", "a/b/c"]);
    let mut lines: Vec<String> =
        String::from_utf8(dry.succeeds().stdout.clone()).unwrap().lines().map(Into::into).collect();
    lines.sort();
    assert_eq!(lines, ["copy x", "copy y"]);
    sandbox.has_nothing_of("a/");
    cp(&["--mkpath", "tree/", "a/b/c"]).succeeds();
    cp(&["--mkpath", "file", "d/e/"]).succeeds();
    cp(&["--mkpath", "file", "f/g/h"]).succeeds();
    cp(&["--mkpath", "file", "tree", "i/j"]).succeeds();
    for (name, text) in
        [("a/b/c/x", "tree/x"), ("d/e/file", "file"), ("f/g/h", "file"), ("i/j/tree/y", "tree/y")]
    {
        let _ = text;
        assert!(sandbox.path(name).is_file(), "{name}: {:?}", sandbox.names());
    }
}

#[test]
fn sources_that_are_missing_or_named_twice() {
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["a", "d/x", "dangling -> none", "copy/d/old", "copy/keep"]);
    let cp = |args: &[&str]| sandbox.weir(WEIR, ["cp", "-q"]).args(args).run();
    let run = cp(&["a", "missing", "dangling", "d", "copy/"]);
    run.fails(
        1,
        &["cannot read missing: no such file", "dangling: it is a symbolic link to none, which is not there"],
    );
    assert_eq!((sandbox.read("copy/a"), sandbox.read("copy/d/x")), (b"a".to_vec(), b"d/x".to_vec()));
    // What is missing may only be hidden: nothing goes.
    cp(&["--delete", "a", "missing", "d", "copy/"]).fails(1, &["missing"]);
    assert!(sandbox.path("copy/d/old").exists());
    cp(&["--delete", "a", "a", "./a", "d", "d", "copy/"]).succeeds();
    assert!(!sandbox.path("copy/d/old").exists());
    let record = sandbox
        .weir(WEIR, ["cp", "--json", "a", "a", "missing", "copy/"])
        .run()
        .fails(1, &["missing"])
        .json();
    assert_eq!((record["cp"]["files"].as_u64(), record["cp"]["failed"].as_u64()), (Some(1), Some(1)));
    cp(&["missing", "copy/"]).fails(1, &["cannot read missing: no such file"]);
    cp(&["missing", "none", "copy/"]).fails(1, &["cannot read missing", "nor any of the 1 other sources"]);
    // Two were named, so the target is a folder, though one of them is not there.
    cp(&["a", "missing", "new"]).fails(1, &["new is no folder, and"]);
    sandbox.has_nothing_of("new");
    cp(&["-n", "a", "missing", "copy/"]).fails(1, &["cannot read missing"]);
}

/// A tree of which a link and a folder cannot be read, and a target with more in it.
fn plant_unreadable(root: &Path) {
    make(root, &["tree/a", "tree/src/x", "tree/dangling -> none"]);
    make(root, &["copy/gone", "copy/dangling", "copy/src/old"]);
    fs::write(root.join("tree/src/.rules"), "what is this\n").unwrap();
}

/// What could not be read may only be hidden: nothing more goes, and that is said.
#[test]
fn nothing_goes_behind_an_error_unless_errors_are_ignored() {
    let sandbox = Sandbox::new();
    plant_unreadable(&sandbox.path(""));
    let cp = |flags: &[&str]| {
        let cp = sandbox.weir(WEIR, ["cp", "-L", "--delete", "--filter=: .rules"]);
        cp.args(flags).args(&["tree/", "copy"]).run()
    };
    let there = || ["gone", "dangling", "src/old"].map(|name| sandbox.path("copy").join(name).exists());
    for flags in [&["-n"][..], &[]] {
        let run = cp(flags);
        run.fails(
            1,
            &[
                "note: nothing was deleted from src on, since not all of the source could be read: cannot read dangling",
                "; --ignore-errors deletes in spite of it",
            ],
        );
        assert_eq!(run.stderr.matches("nothing was deleted").count(), 1, "{}", run.stderr);
        assert!(!String::from_utf8_lossy(&run.stdout).contains("delete "));
        assert_eq!(there(), [true; 3]);
    }
    let run = cp(&["--ignore-errors"]);
    run.fails(1, &["cannot read dangling", "the rules of src"]);
    assert!(!run.stderr.contains("nothing was deleted"), "{}", run.stderr);
    assert_eq!(there(), [false, true, true], "what could not be read is there");
}

/// A missing source has all that it had at the target, where that is not in folders of others.
#[test]
fn a_missing_source_loses_nothing_where_errors_are_ignored() {
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["d/x", "copy/d/old", "copy/missing"]);
    let cp = |args: &[&str]| sandbox.weir(WEIR, ["cp", "--delete", "--ignore-errors"]).args(args).run();
    let run = cp(&["d/", "missing", "copy/d"]);
    let note = "note: nothing was deleted from . on, since not all sources could be read";
    run.fails(1, &["cannot read missing", note]);
    assert!(sandbox.path("copy/d/old").exists());
    cp(&["d", "missing", "copy/"]).fails(1, &["cannot read missing"]);
    assert!(!sandbox.path("copy/d/old").exists() && sandbox.path("copy/missing").exists());
}

#[test]
fn what_is_mounted_in_a_source() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root mounts");
    }
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["tree/a", "tree/mounted/", "copy/mounted/kept", "copy/gone"]);
    let script = format!(
        "mount -t tmpfs none tree/mounted && echo x > tree/mounted/inside && {WEIR} cp -q -x --delete tree/ copy && \
         mkdir second && {WEIR} cp -q -x tree/mounted second/ && {WEIR} cp -q tree/ third"
    );
    let run = sandbox.weir("unshare", ["-m", "sh", "-c", &script]).run();
    if run.stderr.contains("unshare") || run.stderr.contains("mount:") {
        return skip("nothing can be mounted here");
    }
    run.succeeds();
    let there = |name: &str| sandbox.path(name).exists();
    assert!(
        there("copy/a") && there("copy/mounted/kept") && !there("copy/mounted/inside"),
        "{:?}",
        sandbox.names()
    );
    assert!(!there("copy/gone") && there("second/mounted/inside") && there("third/mounted/inside"));
}

#[test]
fn what_is_replaced_or_removed_is_kept() {
    if !has_rsync() {
        return;
    }
    let plant = |tree: &Path, to: &Path| {
        make(tree, &["file", "dir/file", "link -> file", "new"]);
        make(to, &["gone", "dir/gone", "link -> gone", "old/x", "file~"]);
        for name in ["file", "dir/file"] {
            fs::write(to.join(name), "before").unwrap();
        }
    };
    for flags in [
        &["--backup"][..],
        &["-b", "--suffix=.old"],
        &["-b", "--delete"],
        &["-b", "--delete", "--suffix=.bak"],
        &["--backup", "--backup-dir=../kept"],
        &["--backup", "--backup-dir=../kept", "--delete"],
        &["--backup", "--backup-dir=../kept", "--suffix=.x", "--delete"],
    ] {
        let pair = Pair::new(plant);
        pair.agree(flags, &["./"]);
        if flags[1..].iter().any(|flag| flag.contains("../kept")) {
            assert_eq!(pair.list("weir/kept"), pair.list("rsync/kept"), "{flags:?}");
        }
    }
    // A folder of backups in the target is none of what the source does not have.
    let pair = Pair::new(plant);
    for _ in 0..2 {
        pair.weir(&["-q", "--backup-dir=kept", "--delete"], &["./"]).succeeds();
    }
    assert!(
        pair.list("weir/to").contains(&"kept/dir/gone: dir/gone".to_owned()),
        "{:?}",
        pair.list("weir/to")
    );
    pair.weir(&["--suffix=x"], &["./"]).fails(2, &["--suffix is for backups"]);
    pair.weir(&["--backup", "--suffix="], &["./"]).fails(2, &["--suffix needs"]);
    let dry = pair.weir(&["-n", "--backup-dir=../never"], &["./"]);
    dry.succeeds();
    assert!(!pair.sandbox.path("weir/never").exists());
}

/// A run that changes nothing replaces no backup: what was there at first is in none other.
#[test]
fn what_stays_as_it_is_leaves_its_backup_alone() {
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["tree/a", "tree/link -> a", "to/a", "to/b", "to/link -> elsewhere"]);
    fs::hard_link(sandbox.path("tree/a"), sandbox.path("tree/b")).unwrap();
    let expected = ["a: tree/a", "a~: to/a", "b: tree/a", "b~: to/b", "link -> a", "link~ -> elsewhere"];
    for run in 0..3 {
        sandbox.weir(WEIR, ["cp", "-q", "-a", "-u", "--backup", "tree/", "to"]).run().succeeds();
        assert_eq!(list(&sandbox.path("to")), expected, "run {run}");
        let links = |name: &str| fs::metadata(sandbox.path("to").join(name)).unwrap().nlink();
        assert_eq!(["a", "b", "a~", "b~"].map(links), [2, 2, 1, 1], "run {run}");
    }
    // The same of second names of an earlier copy's files.
    let linked = || {
        let flags = ["cp", "-q", "--backup", "--link-dest=../to", "tree/", "third"];
        sandbox.weir(WEIR, flags).run().succeeds();
        list(&sandbox.path("third"))
    };
    fs::create_dir(sandbox.path("third")).unwrap();
    fs::write(sandbox.path("third/a"), "first").unwrap();
    let first = linked();
    assert!(first.contains(&"a~: first".to_owned()), "{first:?}");
    assert_eq!(linked(), first);
}

/// A pipe takes the place of a file, and a backup is all that is left of that.
#[test]
fn what_a_node_replaces_is_kept() {
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["tree/dir/", "to/dir/pipe", "to/dir/pipe~"]);
    sandbox.pipe("tree/dir/pipe");
    for run in 0..2 {
        sandbox.weir(WEIR, ["cp", "-q", "--specials", "--backup", "tree/", "to"]).run().succeeds();
        let there = list(&sandbox.path("to/dir"));
        assert_eq!(there, ["pipe is a node", "pipe~: to/dir/pipe"], "run {run}");
    }
}

/// Onto another file system nothing is renamed, and nothing has a second name there.
#[test]
fn backups_go_onto_another_file_system() {
    if !has_rsync() {
        return;
    }
    let Ok(kept) = tempfile::tempdir_in("/dev/shm") else { return skip("no folder in /dev/shm") };
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000);
    let pair = Pair::new(|tree, to| {
        make(tree, &["file", "dir/file", "link -> file", "new"]);
        make(to, &["gone", "dir/gone", "dir/lost -> gone", "link -> gone"]);
        for name in ["file", "dir/file"] {
            fs::write(to.join(name), "before").unwrap();
        }
        fs::set_permissions(to.join("dir/file"), fs::Permissions::from_mode(0o604)).unwrap();
        fs::File::options().write(true).open(to.join("dir/file")).unwrap().set_modified(time).unwrap();
    });
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    if device(kept.path()) == device(&pair.sandbox.path("")) {
        return skip("/dev/shm is on the file system of temporary files");
    }
    let [ours, theirs] = ["ours", "theirs"].map(|name| kept.path().join(name));
    let [own, rsyncs] = [&ours, &theirs].map(|folder| format!("--backup-dir={}", folder.display()));
    pair.agree_with(&[&own], &["-rlI", &rsyncs], &["--backup", "--delete"], &["./"]);
    let there = list(&ours);
    assert_eq!(there, list(&theirs));
    assert_eq!(there.len(), 7, "{there:?}");
    let file = fs::metadata(ours.join("dir/file")).unwrap();
    assert_eq!((file.mode() & 0o7777, file.modified().unwrap()), (0o604, time));
    // Over what an earlier run has left there.
    fs::write(pair.sandbox.path("weir/to/dir/file"), "again").unwrap();
    pair.weir(&["--backup", &own], &["./"]).succeeds();
    assert_eq!(fs::read(ours.join("dir/file")).unwrap(), b"again");
}

#[test]
fn sources_go_once_they_have_arrived() {
    if !has_rsync() {
        return;
    }
    let plant = |tree: &Path, to: &Path| {
        make(tree, &["file", "dir/file", "empty"]);
        fs::write(tree.join("empty"), "").unwrap();
        fs::write(tree.join("large"), vec![b'x'; 600 << 10]).unwrap();
        make(to, &["file"]);
    };
    for flags in [&["--remove-source-files"][..], &["--remove-source-files", "--exclude=file"]] {
        Pair::new(plant).agree(flags, &["./"]);
    }
    Pair::new(plant).agree_with(&["-u"], &["-rlt"], &["--remove-source-files"], &["./"]);
    Pair::new(plant).agree(&["--remove-source-files", "--ignore-existing"], &["./"]);
    let pair = Pair::new(plant);
    pair.weir(&["-q", "-n", "--remove-source-files"], &["./"]).succeeds();
    assert_eq!(pair.list("weir/tree"), pair.list("rsync/tree"));
    pair.weir(&["-L", "--remove-source-files"], &["./"]).fails(2, &["--copy-links", "--remove-source-files"]);
}

/// Where rsync's `-u` would keep them.
#[test]
fn newer_files_that_are_overwritten_are_told() {
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["tree/old", "tree/new", "copy/old", "copy/new"]);
    for (name, seconds) in [("tree/old", 1000), ("copy/old", 2000), ("tree/new", 2000), ("copy/new", 1000)] {
        let file = fs::File::options().write(true).open(sandbox.path(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
    }
    let cp = |flag: &str| sandbox.weir(WEIR, ["cp", flag, "tree/", "copy"]).run();
    cp("-un").succeeds().says(&["note: 1 newer file at the target would be overwritten"]);
    cp("-u").succeeds().says(&["note: 1 newer file at the target was overwritten (rsync's -u keeps them)"]);
    assert_eq!(sandbox.read("copy/old"), b"tree/old");
    let again = cp("-u");
    assert!(!again.succeeds().stderr.contains("newer"), "{}", again.stderr);
}

/// A pipe, and a device where that can be made.
fn make_nodes(tree: &Path) {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let mode = Mode::from_raw_mode(0o644);
    mknodat(CWD, tree.join("dir/pipe"), FileType::Fifo, mode, 0).unwrap();
    let _ = mknodat(CWD, tree.join("null"), FileType::CharacterDevice, mode, makedev(1, 3));
}

/// As rsync has it, links go like files: symbolic ones wherever they lead, second names, pipes and devices.
#[test]
fn links_and_nodes_go_as_files_do() {
    if !has_rsync() {
        return;
    }
    let plant = |tree: &Path, to: &Path| {
        make(
            tree,
            &["file", "link -> file", "dir/out -> ../../x", "dir/none -> none", "dir/same -> x", "deep/er/x"],
        );
        for (name, other) in [("file", "dir/second"), ("file", "deep/third"), ("link", "dir/link")] {
            fs::hard_link(tree.join(name), tree.join(other)).unwrap();
        }
        fs::write(tree.join("large"), vec![b'x'; 600 << 10]).unwrap();
        fs::hard_link(tree.join("large"), tree.join("deep/er/large")).unwrap();
        make_nodes(tree);
        make(to, &["dir/same -> x", "link -> elsewhere", "deep/third"]);
    };
    let go = "--remove-source-files";
    for flags in [
        &[go][..],
        &[go, "--safe-links"],
        &[go, "--ignore-existing"],
        &[go, "--existing"],
        &[go, "--exclude=dir", "--max-size=100k"],
        &[go, "--exclude=second", "--delete"],
    ] {
        // Of second names of what is left as it is rsync makes files, and weir says that it does not.
        if !flags.iter().any(|flag| flag.contains("existing")) {
            let pair = Pair::new(plant);
            pair.agree_with(&["-a", "--specials"], &["-aHI"], flags, &["./"]);
            let links = |program: &str| {
                let count = |name: &str| {
                    fs::metadata(pair.sandbox.path(program).join(name)).map_or(0, |of| of.nlink())
                };
                ["to/file", "to/dir/second", "to/deep/er/large"].map(count)
            };
            assert_eq!(links("weir"), links("rsync"), "{flags:?}");
        }
        Pair::new(plant).agree_with(&[], &["-rlI"], flags, &["./"]);
    }
    let pair = Pair::new(plant);
    pair.agree_with(&["-a", "-u", "--specials"], &["-aH"], &[go], &["dir", "large"]);
}

/// What did not arrive stays, and so does what is elsewhere.
#[test]
fn sources_stay_where_they_did_not_arrive() {
    let sandbox = Sandbox::new();
    make(
        &sandbox.path(""),
        &["tree/barred/x", "tree/file", "tree/good", "copy/file/", "copy/barred", "elsewhere"],
    );
    symlink(sandbox.path("elsewhere"), sandbox.path("named")).unwrap();
    symlink(sandbox.path("elsewhere"), sandbox.path("tree/link")).unwrap();
    let cp = |args: &[&str]| sandbox.weir(WEIR, ["cp", "-q", "--remove-source-files"]).args(args).run();
    cp(&["tree/", "copy"]).fails(1, &["cannot put a file at file", "cannot make the directory barred"]);
    let left: Vec<bool> = ["tree/barred/x", "tree/file", "tree/good", "tree/link"]
        .map(|name| sandbox.path(name).is_file())
        .to_vec();
    assert_eq!(left, [true, true, false, false], "the link is there, and so it went");
    // A folder that is not empty is where a link was to go: the link stays, the others go.
    make(&sandbox.path(""), &["links/a -> x", "links/b -> y", "to/a/in", "to/b"]);
    cp(&["links/", "to"]).fails(1, &["a"]);
    assert_eq!(list(&sandbox.path("links")), ["a -> x"]);
    cp(&["named", "copy/"]).fails(1, &["named was reached over a symbolic link, so it stays"]);
    assert_eq!(
        (sandbox.read("elsewhere"), sandbox.read("copy/named")),
        (b"elsewhere".to_vec(), b"elsewhere".to_vec())
    );
}

#[test]
fn a_source_that_is_the_target_over_another_way_stays() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root mounts");
    }
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["tree/sub/x", "tree/sub/link -> x", "copy/sub/"]);
    fs::hard_link(sandbox.path("tree/sub/x"), sandbox.path("tree/sub/y")).unwrap();
    sandbox.pipe("tree/sub/pipe");
    let there = list(&sandbox.path("tree"));
    let script = format!(
        "mount --bind tree/sub copy/sub && {WEIR} cp -q -a -u --remove-source-files tree/ copy; echo ended; cat tree/sub/x copy/sub/x"
    );
    let run = sandbox.weir("unshare", ["-m", "sh", "-c", &script]).run();
    if run.stderr.contains("unshare") || run.stderr.contains("mount:") {
        return skip("nothing can be mounted here");
    }
    assert_eq!(list(&sandbox.path("tree")), there, "{}", run.stderr);
}

/// As where two hosts have mounted one file server: neither can tell by itself that source and target are the
/// same.
#[test]
fn a_source_that_is_the_target_of_another_host_stays() {
    let boot_id = "echo 01234567-89ab-4cde-8f01-23456789abcd >$CACHE/boot_id; \
                   mount --bind $CACHE/boot_id /proc/sys/kernel/random/boot_id && true";
    let special = Special { within: Some(("-m", boot_id)), ..Special::default() };
    let Some(sshd) = Sshd::special(special) else { return };
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["tree/x", "tree/link -> x"]);
    sandbox.write("tree/large", vec![b'x'; 2 << 20]);
    sandbox.pipe("tree/pipe");
    let there = list(&sandbox.path("tree"));
    let far = format!("far:{}/", sandbox.path("tree").display());
    for same in ["-u", "--size-only", "--checksum"] {
        for (from, to) in [("tree/", &*far), (&*far, "tree/")] {
            let run = sshd.copies(&sandbox, &["-q", "-a", same, "--remove-source-files", from, to]);
            run.fails(1, &["was replaced by something else"]);
            assert_eq!(list(&sandbox.path("tree")), there, "{same}: {}", run.stderr);
        }
    }
}

#[test]
fn a_line_for_each_change() {
    if !has_rsync() {
        return;
    }
    let plant = |tree: &Path, to: &Path| {
        make(tree, &["file", "dir/file", "link -> file", "new", "same"]);
        make(to, &["gone", "old/x", "same"]);
        fs::write(to.join("file"), "before, and longer").unwrap();
        let before = fs::File::options().write(true).open(to.join("file")).unwrap();
        before.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000)).unwrap();
        for root in [tree, to] {
            let same = fs::File::options().write(true).open(root.join("same")).unwrap();
            same.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        fs::set_permissions(to.join("same"), fs::Permissions::from_mode(0o600)).unwrap();
    };
    let lines = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        // The order is not said, nor the time of the folders that files came into.
        let mut lines: Vec<String> =
            text.lines().filter(|line| !line.contains(" ./") && *line != "./").map(Into::into).collect();
        lines.sort();
        lines
    };
    for dry in [&[][..], &["-n"]] {
        let pair = Pair::new(plant);
        let flags = [dry, &["-u", "--itemize-changes", "--delete", "--exclude=old"]].concat();
        let ours = pair.weir(&[&["-q"], &flags[..]].concat(), &["./"]);
        let theirs = pair
            .rsync(&[&["-rltp"], dry, &["--itemize-changes", "--delete", "--exclude=old"]].concat(), &["./"]);
        assert_eq!(lines(&ours.succeeds().stdout), lines(&theirs.stdout), "{dry:?}");
    }
    let pair = Pair::new(plant);
    let said = lines(&pair.weir(&["-v", "-u", "--delete"], &["./"]).succeeds().stdout);
    assert_eq!(
        said,
        ["deleting gone", "deleting old/", "dir/", "dir/file", "file", "link -> file", "new", "same"]
    );
    let run = pair.weir(&["--json", "-v"], &["./"]);
    run.succeeds().json();
    assert!(run.stderr.contains("dir/file"), "{}", run.stderr);
    assert_eq!(fs::metadata(pair.sandbox.path("weir/to/new")).unwrap().size(), 3);
}

/// A target that is made is new to both, as all that comes into it.
#[test]
fn a_dry_run_tells_of_a_new_target_as_its_copy_does() {
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["tree/file", "tree/dir/x"]);
    let lines = |flag: &str| {
        let run = sandbox.weir(WEIR, ["cp", "--itemize-changes", flag, "tree/", "copy"]).run();
        let text = String::from_utf8(run.succeeds().stdout.clone()).unwrap();
        let mut lines: Vec<String> = text.lines().map(Into::into).collect();
        lines.sort();
        lines
    };
    let (dry, done) = (lines("-nq"), lines("-q"));
    assert_eq!(dry, done);
    assert_eq!(done.iter().filter(|line| line.starts_with("cd+++++++++ ")).count(), 2, "{done:?}");
}

#[test]
fn files_of_an_earlier_copy_get_second_names() {
    if !has_rsync() {
        return;
    }
    let plant = |tree: &Path, _: &Path| {
        make(tree, &["same", "dir/same", "changed", "mode"]);
        let before = tree.parent().unwrap().join("before");
        make(&before, &["same", "dir/same", "changed", "mode", "gone"]);
        fs::write(before.join("changed"), "other").unwrap();
        fs::set_permissions(before.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
        for name in ["same", "dir/same", "changed", "mode"] {
            for root in [tree, &before] {
                let file = fs::File::options().write(true).open(root.join(name)).unwrap();
                file.set_modified(std::time::UNIX_EPOCH).unwrap();
            }
        }
    };
    let pair = Pair::new(plant);
    pair.agree_with(&[], &["-rltp"], &["--link-dest=../before"], &["./"]);
    let linked = |program: &str| {
        let names = ["same", "dir/same", "changed", "mode"];
        names.map(|name| {
            let inode = |folder: &str| {
                fs::metadata(pair.sandbox.path(program).join(folder).join(name)).unwrap().ino()
            };
            inode("to") == inode("before")
        })
    };
    assert_eq!(linked("weir"), [true, true, false, false]);
    assert_eq!(linked("weir"), linked("rsync"));
    let dry = Pair::new(plant);
    let said = dry.weir(&["-n", "--link-dest=../before"], &["./"]).succeeds().stdout.clone();
    let mut lines: Vec<String> = String::from_utf8(said).unwrap().lines().map(Into::into).collect();
    lines.sort();
    assert_eq!(lines, ["copy changed", "copy mode"]);
    // One that is not there has nothing to link to, as before the first of many copies.
    pair.weir(&["--link-dest=../none", "--link-dest=../before"], &["./"])
        .succeeds()
        .says(&["--link-dest ../none is not there"]);
    assert_eq!(linked("weir"), [true, true, false, false]);
    // What is no folder has the name that was written.
    pair.weir(&["--link-dest=../before/same"], &["./"]).fails(1, &["cannot open ../before/same: "]);
}

#[test]
fn modes_and_owners_on_the_way() {
    if !has_rsync() {
        return;
    }
    let plant = |tree: &Path, _: &Path| {
        make(tree, &["file", "dir/run"]);
        fs::set_permissions(tree.join("dir/run"), fs::Permissions::from_mode(0o700)).unwrap();
    };
    let modes = |pair: &Pair, program: &str| {
        ["file", "dir", "dir/run"].map(|name| {
            let stat = fs::metadata(pair.sandbox.path(program).join("to").join(name)).unwrap();
            (stat.mode() & 0o7777, stat.uid(), stat.gid())
        })
    };
    for chmod in ["D755,F644", "u+rwX,go=rX", "go-rwx", "Dg+s,F600", "a=r,u+w,D+x"] {
        let pair = Pair::new(plant);
        pair.agree_with(&[], &["-rltp"], &[&format!("--chmod={chmod}")], &["./"]);
        assert_eq!(modes(&pair, "weir"), modes(&pair, "rsync"), "{chmod}");
    }
    let pair = Pair::new(plant);
    pair.weir(&["--chmod=rw"], &["./"]).fails(2, &["invalid --chmod 'rw'"]);
    for flags in
        [&["-a", "--chown=no-such-user"][..], &["--chown=no-such-user"], &["--groupmap=*:no-such-user"]]
    {
        pair.weir(flags, &["./"]).fails(1, &["no user or group \"no-such-user\""]);
    }
    if !rustix::process::geteuid().is_root() {
        return skip("only root gives files away");
    }
    for flags in [
        &["--chown=daemon:bin"][..],
        &["--chown=:4242"],
        &["--chown=4243"],
        &["--usermap=root:daemon", "--groupmap=*:bin"],
        &["--usermap=0-99:77", "--numeric-ids"],
        &["--numeric-ids"],
    ] {
        // A map alone keeps what it maps, users or groups, and not the other one.
        for (own, theirs) in [(&["-a"][..], "-a"), (&[], "-rltp")] {
            let pair = Pair::new(|tree, to| {
                plant(tree, to);
                std::os::unix::fs::chown(tree.join("dir/run"), Some(33), Some(44)).unwrap();
            });
            pair.agree_with(own, &[theirs], flags, &["./"]);
            assert_eq!(modes(&pair, "weir"), modes(&pair, "rsync"), "{flags:?} {own:?}");
            let again = pair.weir(&[own, &["--json", "-u"], flags].concat(), &["./"]).succeeds().json();
            assert_eq!(again["bytes"].as_u64(), Some(0), "{again}");
            assert_eq!(modes(&pair, "weir"), modes(&pair, "rsync"), "again: {flags:?} {own:?}");
        }
    }
}

/// A number that is called otherwise where it goes is another one there.
#[test]
fn owners_go_by_name() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root gives files away");
    }
    let sandbox = Sandbox::new();
    make(&sandbox.path(""), &["tree/file"]);
    std::os::unix::fs::chown(sandbox.path("tree/file"), Some(4321), Some(4321)).unwrap();
    let Some(name) = fs::read_to_string("/etc/passwd").unwrap().lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some("daemon")).then(|| fields.nth(1).unwrap().to_owned())
    }) else {
        return skip("there is no user daemon here");
    };
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let passwd = passwd.replace(&format!("daemon:x:{name}:"), "daemon:x:4321:");
    fs::write(sandbox.path("passwd"), passwd).unwrap();
    let Some(sshd) = Sshd::special(Special {
        within: Some(("-m", &format!("mount --bind {} /etc/passwd", sandbox.path("passwd").display()))),
        ..Default::default()
    }) else {
        return;
    };
    let from = format!("far:{}", sandbox.path("tree/").display());
    let uid = |name: &str| fs::metadata(sandbox.path(name)).unwrap().uid().to_string();
    sshd.cp(&sandbox, &["-q", "-a"]).args(&[&from, "named/"]).run().succeeds();
    sshd.cp(&sandbox, &["-q", "-a", "--numeric-ids"]).args(&[&from, "numbered/"]).run().succeeds();
    assert_eq!((uid("named/file"), uid("numbered/file")), (name, "4321".to_owned()));
}
