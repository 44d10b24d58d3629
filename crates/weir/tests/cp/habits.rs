//! `weir cp` as those read it who know rsync and scp: what patterns protect, what lists mean, what a dry run
//! may do, and that a failure is told whatever else is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;
use support::{MIB, Run, Sandbox, WEIR, Weir, pattern, wait_for};

/// Bytes above which a file travels in blocks.
const LARGE: usize = 300 << 10;

/// Another user than root, on Debian `nobody`.
const NOBODY: u32 = 65534;

fn cp(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.weir(WEIR, ["cp"]).args(args).run()
}

/// Every name below a folder.
fn below(sandbox: &Sandbox, folder: &str) -> Vec<String> {
    let names = sandbox.names().into_iter();
    let names = names.filter_map(|name| name.strip_prefix(&format!("{folder}/")).map(str::to_owned));
    names.filter(|name| !name.is_empty()).collect()
}

fn mode(sandbox: &Sandbox, name: &str) -> u32 {
    sandbox.path(name).metadata().unwrap().mode() & 0o7777
}

#[test]
fn a_failure_is_told_behind_any_number_of_notes() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("tree")).unwrap();
    for index in 0..120 {
        sandbox.pipe(&format!("tree/pipe{index:03}"));
    }
    for index in 0..130 {
        sandbox.write(&format!("tree/x{index:03}"), "text");
        fs::create_dir_all(sandbox.path(format!("copy/x{index:03}"))).unwrap();
    }
    let run = cp(&sandbox, &["-q", "tree/", "copy"]);
    run.fails(1, &["cannot put a file at x", "what is there is a directory", "30 more paths failed"]);
    let record = cp(&sandbox, &["--json", "tree/", "copy"]).fails(1, &[]).json();
    assert_eq!(record["cp"]["failed"], 130);
    assert_eq!(record["outcome"], "failed");
    cp(&sandbox, &["tree/", "copy"]).fails(1, &["failed: 120 more", "note: 20 more"]);
}

/// What rsync's users type, and weir does anyway.
#[test]
fn lines_of_rsync_work() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("src")).unwrap();
    sandbox.write("src/a", "text");
    for (at, line) in [
        "--times --perms",
        "-t -p",
        "-pt",
        "-rlptgoD",
        "-avP",
        "-P",
        "-W",
        "-rl",
        "--links --owner --group --info=progress2 --human-readable",
        "-a --owner --whole-file --partial --progress",
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("to{at}");
        let words: Vec<&str> = line.split(' ').chain(["src/", &target]).collect();
        cp(&sandbox, &words).succeeds();
        assert_eq!(sandbox.read(&format!("{target}/a")), b"text", "{line}");
    }
    fs::remove_file(sandbox.path("src/a")).unwrap();
    sandbox.write("src/b", "text");
    cp(&sandbox, &["--delete", "src/", "to0"]).succeeds().says(&["copied 1 file, 1 deleted, 4 B in "]);
}

#[test]
fn a_file_and_a_folder_that_has_one_of_its_name() {
    for sources in [["d/notes.txt", "project/"], ["project/", "d/notes.txt"]] {
        let sandbox = Sandbox::new();
        for (folder, text) in [("d", "of d"), ("project", "of project")] {
            fs::create_dir(sandbox.path(folder)).unwrap();
            sandbox.write(&format!("{folder}/notes.txt"), text);
        }
        let run = cp(&sandbox, &["-q", sources[0], sources[1], "copy/"]);
        run.fails(1, &["notes.txt is in ", "copy them into different folders"]);
        let first = if sources[0].starts_with('d') { "of d" } else { "of project" };
        assert_eq!(sandbox.read("copy/notes.txt"), first.as_bytes(), "the first one, as rsync keeps it");
    }
}

#[test]
fn what_is_excluded_is_protected_however_deep_it_is() {
    let sandbox = Sandbox::new();
    for folder in ["tree", "copy/old/sub", "copy/gone"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    for file in
        ["tree/a", "copy/old/sub/x.keep", "copy/old/sub/y", "copy/old/z", "copy/gone/w", "copy/node_modules"]
    {
        sandbox.write(file, "text");
    }
    let flags = ["--delete", "--exclude", "*.keep", "--exclude", "**/node_modules", "tree/", "copy"];
    let dry = cp(&sandbox, &[&["-n"], &flags[..]].concat());
    let said = String::from_utf8(dry.succeeds().stdout.clone()).unwrap();
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["copy a", "delete gone", "delete old/sub/y", "delete old/z"]);
    cp(&sandbox, &flags).succeeds().says(&["note: old stays: something in it is excluded"]);
    assert_eq!(below(&sandbox, "copy"), ["a", "node_modules", "old/", "old/sub/", "old/sub/x.keep"]);
}

/// The idiom of rsync's manual: of everything only these, and not what was left out before.
#[test]
fn the_first_pattern_decides() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("tree/.git")).unwrap();
    fs::create_dir_all(sandbox.path("tree/sub")).unwrap();
    for file in ["a.c", "secret.c", "a.o", ".git/x.c", "sub/b.c", "sub/b.o", "1st.c"] {
        sandbox.write(&format!("tree/{file}"), "text");
    }
    let patterns = [
        "--exclude=.git",
        "--exclude=secret.c",
        "--exclude=[[:digit:]]*",
        "--include=*/",
        "--include=*.c",
        "--exclude=*",
    ];
    cp(&sandbox, &[&patterns[..], &["tree/", "copy"]].concat()).succeeds();
    assert_eq!(below(&sandbox, "copy"), ["a.c", "sub/", "sub/b.c"]);
    cp(&sandbox, &["--exclude=[[:word:]]", "tree/", "copy"]).fails(2, &["unknown class"]);
}

#[test]
fn an_obstinate_folder_keeps_nothing_else_from_going() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    fs::create_dir_all(sandbox.path("copy/a")).unwrap();
    sandbox.write("copy/a/held", "text");
    sandbox.write("copy/b", "text");
    fs::set_permissions(sandbox.path("copy/a"), PermissionsExt::from_mode(0o555)).unwrap();
    fs::set_permissions(sandbox.path("tree"), PermissionsExt::from_mode(0o750)).unwrap();
    let Some(run) = as_nobody(&sandbox, &["-q", "-p", "--delete", "tree/", "copy"]) else { return };
    run.fails(1, &["cannot remove a", "permission denied"]);
    assert_eq!(below(&sandbox, "copy"), ["a/", "a/held"]);
    assert_eq!(mode(&sandbox, "copy"), 0o750, "the folder gets its mode all the same");
}

#[test]
fn a_dry_run_into_what_is_to_be_made() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("tree/sub")).unwrap();
    for file in ["tree/a", "tree/sub/b"] {
        sandbox.write(file, "text");
    }
    sandbox.write("tree/large", pattern(LARGE, 1));
    for target in ["new", "new/"] {
        let dry = cp(&sandbox, &["-n", "--delete", "tree/", target]);
        let said = String::from_utf8(dry.succeeds().stdout.clone()).unwrap();
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["copy a", "copy large", "copy sub/b"]);
        sandbox.has_nothing_of("new");
    }
    cp(&sandbox, &["-n", "tree/", "nowhere/new"]).fails(1, &["nowhere/new", "no such file or directory"]);
}

#[test]
fn a_list_says_nothing_of_the_target_itself() {
    let sandbox = Sandbox::new();
    for (folder, mode) in [("tree", 0o777), ("copy", 0o700), ("other", 0o700)] {
        fs::create_dir(sandbox.path(folder)).unwrap();
        fs::set_permissions(sandbox.path(folder), PermissionsExt::from_mode(mode)).unwrap();
    }
    sandbox.write("tree/a", "text");
    let listed = |list: &str, to: &str| {
        let weir = sandbox.weir(WEIR, ["cp", "-q", "-a", "--files-from", "-"]);
        weir.args(&["tree", to]).input(list.as_bytes()).run().succeeds();
    };
    let rest = sandbox.weir(WEIR, ["cp", "-q", "-r", "-n", "--files-from", "-", "tree", "copy"]);
    rest.input(".\n.\nnone\n").run().fails(1, &["cannot read none"]);
    listed("a\n", "copy");
    assert_eq!(mode(&sandbox, "copy"), 0o700);
    listed(".\na\n", "other");
    assert_eq!(mode(&sandbox, "other"), 0o777, "but where it names it");
}

/// As `cp -r`, `scp -r` and `rsync -r` leave it: a copy into /tmp must not close it to others.
#[test]
fn a_folder_that_was_there_keeps_its_mode() {
    let sandbox = Sandbox::new();
    for folder in ["tree/sub", "tree/fresh", "copy/sub"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    for file in ["tree/a", "tree/sub/b", "tree/fresh/c"] {
        sandbox.write(file, "text");
    }
    let set = |name: &str, mode: u32, time: u64| {
        fs::set_permissions(sandbox.path(name), PermissionsExt::from_mode(mode)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(time);
        fs::File::open(sandbox.path(name)).unwrap().set_modified(time).unwrap();
    };
    let time = |name: &str| sandbox.path(name).metadata().unwrap().mtime();
    for folder in ["tree/sub", "tree/fresh", "tree"] {
        set(folder, 0o750, 1_000_000_000);
    }
    set("copy", 0o1777, 1_100_000_000);
    set("copy/sub", 0o711, 1_100_000_000);
    cp(&sandbox, &["-q", "tree/", "copy"]).succeeds();
    let modes = || ["copy", "copy/sub", "copy/fresh"].map(|name| mode(&sandbox, name));
    assert_eq!(modes(), [0o1777, 0o711, 0o750]);
    assert_eq!(time("copy/fresh"), 1_000_000_000, "what is made is as the source is");
    assert_eq!(
        time("copy/sub"),
        1_000_000_000,
        "its time is the source's, as it is where nothing was put in"
    );
    let told = cp(&sandbox, &["-q", "-u", "--itemize-changes", "tree/", "copy"]);
    assert_eq!(modes(), [0o1777, 0o711, 0o750]);
    assert_eq!(String::from_utf8_lossy(&told.succeeds().stdout), "");
    for asked in ["-p", "-a", "--chmod=F644"] {
        set("copy/sub", 0o711, 1_100_000_000);
        set("copy", 0o1777, 1_100_000_000);
        cp(&sandbox, &["-q", "-u", asked, "tree/", "copy"]).succeeds();
        assert_eq!((modes(), time("copy/sub")), ([0o750; 3], 1_000_000_000), "{asked}");
    }
    for args in [&["tree/", "made"][..], &["tree/", "other/"], &["--mkpath", "tree/", "deep/er"]] {
        cp(&sandbox, &[&["-q"], args].concat()).succeeds();
        assert_eq!(mode(&sandbox, args[args.len() - 1]), 0o750, "the target itself, where it is new");
    }
}

#[test]
fn a_folder_of_a_run_that_was_killed_gets_its_mode() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("tree/fresh")).unwrap();
    fs::create_dir(sandbox.path("copy")).unwrap();
    sandbox.write("tree/fresh/large", pattern(8 * MIB, 1));
    fs::set_permissions(sandbox.path("tree/fresh"), PermissionsExt::from_mode(0o755)).unwrap();
    for target in ["copy", "new"] {
        let running = sandbox.weir(WEIR, ["cp", "-q", "--limit-rate", "1Mi", "tree/", target]).spawn();
        let made = sandbox.path(target).join("fresh");
        let has_mode = || made.metadata().is_ok_and(|made| made.mode() & 0o7777 == 0o755);
        wait_for("a part in a folder with its mode", || made.join(".large.weir-part").exists() && has_mode());
        running.signal(Signal::KILL);
        running.wait();
        cp(&sandbox, &["-q", "-u", "tree/", target]).succeeds();
        assert!(has_mode(), "{target}");
    }
    // Under a new name that the same command had begun all folders are its own.
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::open(sandbox.path("tree/fresh")).unwrap().set_modified(old).unwrap();
    let running = sandbox.weir(WEIR, ["cp", "-q", "--limit-rate", "1Mi", "tree", "begun"]).spawn();
    wait_for("a part", || sandbox.path("begun/fresh/.large.weir-part").exists());
    running.signal(Signal::KILL);
    running.wait();
    cp(&sandbox, &["-q", "tree", "begun"]).succeeds();
    assert_eq!(sandbox.path("begun/fresh").metadata().unwrap().modified().unwrap(), old);
}

#[test]
fn a_name_that_a_list_has_twice() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("tree/d")).unwrap();
    sandbox.write("tree/a", "text");
    fs::hard_link(sandbox.path("tree/a"), sandbox.path("tree/b")).unwrap();
    sandbox.write("tree/d/big", pattern(20 * LARGE, 1));
    let weir = sandbox
        .weir(WEIR, ["cp", "-q", "-a", "-r", "--limit-rate", "20MB", "--files-from", "-", "tree", "copy"]);
    weir.input("a\na\nb\nd\nd/big\na\n").run().succeeds();
    assert!(sandbox.read("tree/d/big") == sandbox.read("copy/d/big"));
    let inode = |name: &str| sandbox.path(name).metadata().unwrap().ino();
    assert_eq!(inode("copy/a"), inode("copy/b"), "still one file of two names");
}

#[test]
fn folders_that_are_closed_and_met_twice() {
    let sandbox = Sandbox::new();
    for folder in ["a/ro", "b/ro"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    sandbox.write("a/ro/small", "text");
    sandbox.write("b/ro/big", pattern(20 * LARGE, 1));
    for folder in ["a/ro", "b/ro"] {
        fs::set_permissions(sandbox.path(folder), PermissionsExt::from_mode(0o555)).unwrap();
    }
    fs::create_dir(sandbox.path("copy")).unwrap();
    let Some(run) = as_nobody(&sandbox, &["-q", "--limit-rate", "40MB", "a/", "b/", "copy"]) else { return };
    run.succeeds();
    assert_eq!(below(&sandbox, "copy"), ["ro/", "ro/big", "ro/small"]);
    assert_eq!(mode(&sandbox, "copy/ro"), 0o555);
}

/// What is told of each entry has to fit into what carries many of them.
#[test]
fn long_ways_and_large_attributes() {
    let sandbox = Sandbox::new();
    let deep = format!("tree/{}/{}", "d".repeat(250), "e".repeat(250));
    fs::create_dir_all(sandbox.path(&deep)).unwrap();
    sandbox.write(&format!("{deep}/first{}", "f".repeat(95)), "text");
    for index in 0..2500 {
        let first = sandbox.path(format!("{deep}/first{}", "f".repeat(95)));
        fs::hard_link(first, sandbox.path(format!("{deep}/{index:04}{}", "f".repeat(95)))).unwrap();
        symlink("t".repeat(2000), sandbox.path(format!("tree/way{index}"))).unwrap();
    }
    cp(&sandbox, &["-q", "-a", "tree/", "copy"]).succeeds();
    assert_eq!(sandbox.path("copy/way7").read_link().unwrap().as_os_str().len(), 2000);
    assert_eq!(sandbox.path(format!("{deep}/0007{}", "f".repeat(95))).metadata().unwrap().nlink(), 2501);
    assert_eq!(below(&sandbox, "tree").len(), below(&sandbox, "copy").len());

    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    let value = vec![b'v'; 3900];
    for index in 0..300 {
        let path = sandbox.write(&format!("tree/{index}"), "text");
        rustix::fs::setxattr(&path, "user.weir", &value, rustix::fs::XattrFlags::empty()).unwrap();
    }
    for _ in 0..2 {
        cp(&sandbox, &["-q", "-a", "-u", "tree/", "copy"]).succeeds();
    }
    let mut kept = vec![0; 4096];
    let len = rustix::fs::getxattr(sandbox.path("copy/299"), "user.weir", &mut kept).unwrap();
    assert_eq!(kept[..len], value);
}

#[test]
fn as_many_sources_as_a_command_line_holds() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("s")).unwrap();
    let names: Vec<String> = (0..9000).map(|index| format!("s/{index:04}{}", "n".repeat(122))).collect();
    names.iter().for_each(|name| drop(sandbox.write(name, "")));
    let sources: Vec<&str> = names.iter().map(String::as_str).collect();
    cp(&sandbox, &[&["-q"], &sources[..], &["copy/"]].concat()).succeeds();
    assert_eq!(below(&sandbox, "copy").len(), 9000);
    let many = vec!["x"; 16400];
    cp(&sandbox, &[&many[..], &["copy/"]].concat()).fails(2, &["16400 sources", "--files-from"]);
    let long = "p/".repeat(2100);
    cp(&sandbox, &[&long, "copy/"]).fails(2, &["a path of 4200 bytes"]);
}

#[test]
fn a_program_that_runs_as_its_owner_does_so_only_with_its_owner() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    sandbox.write("tree/program", "text");
    sandbox.write("tree/large", pattern(LARGE, 1));
    for file in ["tree/program", "tree/large"] {
        fs::set_permissions(sandbox.path(file), PermissionsExt::from_mode(0o6755)).unwrap();
    }
    for flags in [&["-q"][..], &["-q", "-u"]] {
        cp(&sandbox, &[flags, &["tree/", "copy"]].concat()).succeeds();
        assert_eq!(
            (mode(&sandbox, "copy/program"), mode(&sandbox, "copy/large")),
            (0o755, 0o755),
            "as scp -p has it"
        );
    }
    cp(&sandbox, &["-q", "-a", "tree/", "copy"]).succeeds();
    assert_eq!((mode(&sandbox, "copy/program"), mode(&sandbox, "copy/large")), (0o6755, 0o6755));
}

#[test]
fn words_that_a_shell_left_empty_and_flags_anywhere() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "text");
    for paths in [["", "copy/"], ["a", ""]] {
        cp(&sandbox, &paths).fails(2, &["an empty path"]);
    }
    cp(&sandbox, &["a"]).fails(2, &["nothing to copy: weir cp SRC... DST"]);
    cp(&sandbox, &["a", "-q", "copy/", "--archive"]).succeeds();
    assert_eq!(sandbox.read("copy/a"), b"text");
    cp(&sandbox, &["*.log", "copy/"]).fails(1, &["cannot read *.log", "patterns are not expanded"]);
    cp(&sandbox, &["-q", "--codec", "zstd-3", "a", "copy/"]).succeeds();
    sandbox
        .weir(WEIR, ["plan", "a", "copy/", "--link", "1Gbit"])
        .run()
        .fails(2, &["--link is for a plan from figures"]);
    let list = sandbox.weir(WEIR, ["cp", "-q", "--files-from", "-", "copy", "listed/"]);
    list.input("a\r\n\r\n").run().succeeds();
    assert_eq!(sandbox.read("listed/a"), b"text");
}

/// Under these letters rsync has flags without a value.
#[test]
fn a_flag_that_takes_a_source_as_its_value_is_refused() {
    let sandbox = Sandbox::new();
    for folder in ["a", "b", "copy"] {
        fs::create_dir(sandbox.path(folder)).unwrap();
    }
    sandbox.write("a/one", "1");
    sandbox.write("b/two", "2");
    sandbox.write("copy/one", "1");
    for flag in ["-i", "-avi", "-aS", "-aJ", "-o", "-e"] {
        let args = ["-u", "--delete", flag, "a/", "b/", "copy/"];
        cp(&sandbox, &args).fails(2, &["takes 'a/' as its value", "leave out"]);
    }
    cp(&sandbox, &["-ai", "a/", "b/", "far:copy/"]).fails(2, &["takes 'a/' as its value"]);
    cp(&sandbox, &["-ai", "a/one", "b/two", "copy/"]).fails(2, &["takes 'a/one' as its value"]);
    assert_eq!(below(&sandbox, "copy"), ["one"]);
    fs::create_dir(sandbox.path("ssh")).unwrap();
    cp(&sandbox, &["-e", "ssh", "b/two", "copy/"]).succeeds();
}

/// A file may come before the word of the folder that it is in.
#[test]
fn what_changed_in_a_folder_that_its_owner_may_not_write() {
    let sandbox = Sandbox::new();
    for folder in ["tree/ro", "copy/ro"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
        sandbox
            .write(&format!("{folder}/large"), pattern(if folder.starts_with('t') { LARGE } else { 10 }, 1));
        sandbox.write(&format!("{folder}/small"), if folder.starts_with('t') { "new" } else { "old text" });
        fs::set_permissions(sandbox.path(folder), PermissionsExt::from_mode(0o555)).unwrap();
    }
    let Some(run) = as_nobody(&sandbox, &["-q", "-u", "tree/", "copy"]) else { return };
    run.succeeds();
    assert!(sandbox.read("tree/ro/large") == sandbox.read("copy/ro/large"));
    assert_eq!((sandbox.read("copy/ro/small"), mode(&sandbox, "copy/ro")), (b"new".to_vec(), 0o555));
}

/// The copy as a user to whom modes mean something; `None` where that cannot be.
fn as_nobody(sandbox: &Sandbox, args: &[&str]) -> Option<Run> {
    let mut weir: Weir = sandbox.weir(WEIR, ["cp"]).args(args);
    if rustix::process::geteuid().is_root() {
        let mut version = Command::new(WEIR);
        version.arg("--version").stdout(std::process::Stdio::null());
        // Whether nobody may run the binary where it lies shows in trying.
        if !version.uid(NOBODY).gid(NOBODY).status().is_ok_and(|status| status.success()) {
            support::skip("root cannot run the binary as another user here");
            return None;
        }
        let owned = Command::new("chown").args(["-R", &NOBODY.to_string()]).arg(sandbox.path("")).status();
        assert!(owned.unwrap().success());
        weir.command.uid(NOBODY).gid(NOBODY);
    }
    Some(weir.run())
}

/// Copies `tree` to the new name `new`, killed while the large file is under way.
fn cut_off(sandbox: &Sandbox) {
    let running = sandbox.weir(WEIR, ["cp", "-q", "--limit-rate", "1Mi", "tree", "new"]).spawn();
    let part = sandbox.path("new/.large.weir-part");
    wait_for("a part", || part.exists());
    running.signal(Signal::KILL);
    running.wait();
}

#[test]
fn a_folder_under_a_new_name_goes_on_under_it() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("tree/below")).unwrap();
    fs::create_dir(sandbox.path("other")).unwrap();
    sandbox.write("tree/large", pattern(8 * MIB, 1));
    sandbox.write("tree/below/small", "text");
    sandbox.write("other/file", "text");
    cut_off(&sandbox);
    let dry = String::from_utf8(cp(&sandbox, &["-n", "tree", "new"]).stdout).unwrap();
    assert!(dry.contains("copy new/large"), "{dry}");
    cp(&sandbox, &["-q", "other", "new"]).succeeds();
    cp(&sandbox, &["tree", "new"])
        .succeeds()
        .says(&["new was started by this command and is incomplete: resuming there"]);
    assert_eq!(below(&sandbox, "new"), ["below/", "below/small", "large", "other/", "other/file"]);
    assert!(!sandbox.path(".new.weir-part").exists(), "nothing tells of it once it is whole");
    cp(&sandbox, &["-q", "tree", "new"]).succeeds();
    assert!(sandbox.path("new/tree/large").exists(), "into what is whole, as ever");
}

#[test]
fn what_is_put_into_a_folder_that_was_begun_is_not_deleted() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    sandbox.write("tree/large", pattern(8 * MIB, 1));
    cut_off(&sandbox);
    sandbox.write("new/notes", "mine");
    let run = cp(&sandbox, &["--delete", "tree", "new"]);
    run.succeeds().says(&["resuming there without removing anything"]);
    assert_eq!(below(&sandbox, "new"), ["large", "notes"]);
    fs::remove_dir_all(sandbox.path("new")).unwrap();
    cut_off(&sandbox);
    cp(&sandbox, &["-q", "tree/", "new"]).succeeds();
    assert!(!sandbox.path(".new.weir-part").exists(), "a folder like any other from then on");
    sandbox.write("new/notes", "mine");
    cp(&sandbox, &["-q", "--delete", "tree", "new"]).succeeds();
    assert_eq!(below(&sandbox, "new"), ["large", "notes", "tree/", "tree/large"]);
}

#[test]
fn a_folder_of_which_something_failed_goes_on_under_its_name() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    sandbox.write("tree/x", "text");
    sandbox.write("tree/secret", "text");
    fs::set_permissions(sandbox.path("tree/secret"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let Some(run) = as_nobody(&sandbox, &["-q", "tree", "new"]) else { return };
    run.fails(1, &["secret", "permission denied"]);
    fs::set_permissions(sandbox.path("tree/secret"), fs::Permissions::from_mode(0o644)).unwrap();
    as_nobody(&sandbox, &["-q", "tree", "new"]).unwrap().succeeds();
    assert_eq!(below(&sandbox, "new"), ["secret", "x"]);
}

/// As root meets what another user has mounted by FUSE: it is listed, and nobody else may look at it.
#[test]
fn what_may_not_be_looked_at_is_left_out_by_its_name() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("tree/closed/.gvfs")).unwrap();
    fs::create_dir_all(sandbox.path("copy/closed")).unwrap();
    sandbox.write("tree/a", "text");
    let set = |folder: &str, mode: u32| {
        fs::set_permissions(sandbox.path(folder), PermissionsExt::from_mode(mode)).unwrap();
    };
    for (flags, fails) in
        [(&["--exclude=.gvfs"][..], false), (&["--exclude=.gvfs/"], false), (&["--exclude=other"], true)]
    {
        sandbox.write("copy/gone", "text");
        set("tree/closed", 0o444);
        let run = as_nobody(&sandbox, &[&["-q", "--delete"], flags, &["tree/", "copy"]].concat());
        // Open again, for the next one and for whoever removes it all.
        for folder in ["tree/closed", "copy/closed"] {
            set(folder, 0o755);
        }
        let Some(run) = run else { return };
        match fails {
            true => run.fails(1, &["cannot read closed/.gvfs: permission denied"]),
            false => run.succeeds(),
        };
        assert_eq!(sandbox.path("copy/gone").exists(), fails, "{flags:?}");
    }
}

#[test]
fn a_pipe_that_somebody_put_there_stays() {
    let sandbox = Sandbox::new();
    for folder in ["tree", "copy", "taken/x"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    sandbox.write("tree/x", "text");
    sandbox.pipe("copy/x");
    cp(&sandbox, &["-q", "--delete", "tree/", "copy"])
        .fails(1, &["what is there is a device, pipe or socket"]);
    cp(&sandbox, &["-q", "--delete", "tree/x", "copy/x"])
        .fails(1, &["what is there is a device, pipe or socket"]);
    assert!(sandbox.path("copy/x").metadata().unwrap().file_type().is_fifo());
    // Where a folder is to be as well.
    fs::create_dir(sandbox.path("tree/folder")).unwrap();
    sandbox.write("tree/folder/y", "text");
    sandbox.pipe("copy/folder");
    for flags in [&["-q"][..], &["-q", "--delete"]] {
        let run = cp(&sandbox, &[flags, &["tree/", "copy"]].concat());
        run.fails(1, &["folder: a device, pipe or socket at the target is not replaced; remove it by hand"]);
    }
    // Of a single file nothing says what else is to be there.
    cp(&sandbox, &["-q", "--delete", "tree/x", "taken"]).fails(1, &["what is there is a directory"]);
}

#[test]
fn a_folder_that_somebody_made_since_is_not_the_one_that_was_begun() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    sandbox.write("tree/large", pattern(8 * MIB, 1));
    cut_off(&sandbox);
    fs::remove_dir_all(sandbox.path("new")).unwrap();
    fs::create_dir(sandbox.path("new")).unwrap();
    cp(&sandbox, &["-q", "tree", "new"]).succeeds();
    assert_eq!(below(&sandbox, "new"), ["tree/", "tree/large"]);
}

#[test]
fn what_changed_its_kind() {
    let sandbox = Sandbox::new();
    for folder in
        ["tree/was-file", "tree/was-link", "copy/was-folder/deep", "copy/was-large/deep", "copy/kept/deep"]
    {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    for index in 0..600 {
        sandbox.write(&format!("tree/was-file/{index:03}"), "new");
    }
    sandbox.write("tree/was-link/x", "new");
    sandbox.write("tree/was-folder", "new");
    sandbox.write("tree/was-large", pattern(LARGE, 1));
    sandbox.write("tree/kept", "new");
    sandbox.write("copy/was-folder/deep/x", "old");
    sandbox.write("copy/kept/deep/x.keep", "old");
    sandbox.write("copy/was-file", "old");
    fs::create_dir(sandbox.path("elsewhere")).unwrap();
    symlink(sandbox.path("elsewhere"), sandbox.path("copy/was-link")).unwrap();
    let run = cp(&sandbox, &["-q", "tree/", "copy"]);
    run.fails(
        1,
        &["cannot put a file at was-folder", "remove it", "was-file: a file is there", "(600 paths)"],
    );
    assert_eq!(run.stderr.lines().count(), 5, "a folder that cannot be made is said once: {}", run.stderr);
    let args = ["--delete", "--exclude=*.keep", "tree/", "copy"];
    let dry = cp(&sandbox, &[&["-n"], &args[..]].concat());
    let dry = String::from_utf8(dry.stdout).unwrap();
    for line in
        ["delete was-file", "delete was-folder", "delete was-large", "delete was-link", "copy was-file/000"]
    {
        assert_eq!(dry.lines().filter(|told| *told == line).count(), 1, "{line}: {dry}");
    }
    assert!(!dry.contains("delete kept"), "{dry}");
    let run = cp(&sandbox, &[&["-q"], &args[..]].concat());
    run.fails(1, &["cannot put a file at kept"]);
    assert_eq!(run.stderr.lines().count(), 1, "nothing else failed: {}", run.stderr);
    assert_eq!(sandbox.read("copy/was-folder"), b"new");
    assert_eq!(sandbox.read("copy/was-large"), pattern(LARGE, 1));
    assert_eq!(below(&sandbox, "copy/was-file").len(), 600);
    assert_eq!(sandbox.read("copy/was-link/x"), b"new");
    assert!(!sandbox.path("elsewhere/x").exists(), "no link is followed");
    assert_eq!(sandbox.read("copy/kept/deep/x.keep"), b"old");
}

#[test]
fn evidence_that_cannot_be_written_is_said_before_anything_moves() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "text");
    cp(&sandbox, &["-q", "--evidence", "none/x", "a", "b"]).fails(1, &["cannot write none/x: no such file"]);
    assert_eq!(sandbox.names(), ["a"]);
    cp(&sandbox, &["-q", "--evidence", "seen", "a", "b"]).succeeds();
    assert!(sandbox.read("seen").starts_with(b"{"));
}
