//! `weir cp` against a real sshd: what arrives is what was sent, both ways, however the data travel.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use support::{MIB, Sandbox, Sshd, pattern};

/// Absolute, so that both ends mean the same: this machine is both.
fn far(sandbox: &Sandbox, name: &str) -> String {
    format!("far:{}", sandbox.path(name).display())
}

fn same(sandbox: &Sandbox, one: &str, other: &str) {
    let (one, other) = (sandbox.read(one), sandbox.read(other));
    assert!(one == other, "{} bytes, not the {} that were sent", other.len(), one.len());
}

#[test]
fn files_go_there_and_back() {
    let Some(sshd) = Sshd::start() else { return };
    for size in [0, 1, 300_000, MIB, MIB + 1, 9 * MIB + 77] {
        let sandbox = Sandbox::new();
        sandbox.write("a", pattern(size, 1));
        sshd.copies(&sandbox, &["a", &far(&sandbox, "b")]).succeeds();
        same(&sandbox, "a", "b");
        sshd.copies(&sandbox, &[&far(&sandbox, "b"), "c"]).succeeds();
        same(&sandbox, "a", "c");
        assert_eq!(sandbox.names(), ["a", "b", "c"], "nothing is left beside them");
        let time = |name: &str| sandbox.path(name).metadata().unwrap().mtime_nsec();
        assert_eq!(time("a"), time("c"), "times are kept");
    }
}

#[test]
fn the_record_tells_what_was_done() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(5 * MIB, 1));
    let record = sshd.copies(&sandbox, &["--json", "a", &far(&sandbox, "b")]).succeeds().json();
    assert_eq!(record["command"], "cp");
    assert_eq!(record["outcome"], "complete");
    assert_eq!(record["bytes"], 5 * MIB);
    assert_eq!(record["cp"]["files"], 1);
}

#[test]
fn the_record_tells_what_was_left_out() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    sandbox.pipe("tree/p");
    let record = sandbox.weir(support::WEIR, ["cp", "--json", "tree", "copy"]).run().succeeds().json();
    let [note] = &record["cp"]["notes"].as_array().unwrap()[..] else { panic!("{record}") };
    assert!(note.as_str().unwrap().contains("p is a named pipe and is not copied"), "{record}");
}

#[test]
fn each_stretch_of_the_record_says_its_codec() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(4 * MIB, 1));
    // Two seconds: many windows of 100 ms.
    let args = ["--json", "--codec", "none", "--limit-rate", "2M", "a"];
    let record = sshd.cp(&sandbox, &args).args(&[&far(&sandbox, "b")]).run().succeeds().json();
    let samples = record["samples"].as_array().unwrap();
    let told = samples.iter().find(|sample| !sample["codec"].is_null());
    let told = told.unwrap_or_else(|| panic!("no codec in {samples:?}"));
    assert_eq!(told["codec"], "none");
    assert_eq!(told["ratio"], 1.0);
}

#[test]
fn inside_ssh_and_in_the_clear_it_is_the_same() {
    let Some(sshd) = Sshd::start() else { return };
    for how in [&["--transport", "ssh"][..], &["--transport", "tcp"], &["--plain"], &["-c", "4"]] {
        let sandbox = Sandbox::new();
        sandbox.write("a", pattern(7 * MIB + 5, 1));
        sshd.cp(&sandbox, how).args(&["a", &far(&sandbox, "b")]).run().succeeds();
        same(&sandbox, "a", "b");
        sshd.cp(&sandbox, how).args(&[&far(&sandbox, "b"), "c"]).run().succeeds();
        same(&sandbox, "a", "c");
    }
}

#[test]
fn without_a_far_host_it_copies_here() {
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(3 * MIB, 1));
    // Half a second: decisions are told after each interval.
    let run = sandbox.weir(support::WEIR, ["cp", "-v", "--limit-rate", "6M", "a", "b"]).run();
    run.succeeds().says(&[" s: no codec: the data stay on this machine"]);
    same(&sandbox, "a", "b");
}

#[test]
fn a_host_without_weir_gets_one() {
    let Some(sshd) = Sshd::without_weir() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(MIB, 1));
    for target in ["b", "c"] {
        sshd.copies(&sandbox, &["a", &far(&sandbox, target)]).succeeds();
        same(&sandbox, "a", target);
    }
    let cache = sshd.path("cache/weir");
    let versions: Vec<_> = std::fs::read_dir(cache).unwrap().flatten().collect();
    assert_eq!(versions.len(), 1, "copied once");
    let mode = versions[0].path().join("weir").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "for its owner alone");
}

#[test]
fn a_folder_goes_with_all_that_is_in_it() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    make_tree(&sandbox.path("tree"));
    sshd.copies(&sandbox, &["tree", &far(&sandbox, "copy")]).succeeds();
    same_trees(&sandbox.path("tree"), &sandbox.path("copy"));
    std::fs::create_dir(sandbox.path("into")).unwrap();
    sshd.copies(&sandbox, &[&far(&sandbox, "tree"), "into"]).succeeds();
    same_trees(&sandbox.path("tree"), &sandbox.path("into/tree"));
}

#[test]
fn update_leaves_what_is_the_same() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    make_tree(&sandbox.path("tree"));
    sshd.copies(&sandbox, &["tree", &far(&sandbox, "copy")]).succeeds();
    let inode = |name: &str| sandbox.path(name).metadata().unwrap().ino();
    let before = (inode("copy/small0"), inode("copy/large"));
    sandbox.write("tree/small1", "another text");
    let record = sshd.copies(&sandbox, &["-u", "--json", "tree/", &far(&sandbox, "copy")]).succeeds().json();
    assert_eq!(record["cp"]["unchanged"].as_u64(), record["cp"]["files"].as_u64().map(|files| files - 1));
    assert_eq!(before, (inode("copy/small0"), inode("copy/large")), "untouched");
    sandbox.write("tree/small2", "a third text");
    let files = record["cp"]["files"].as_u64().unwrap();
    let said = format!("copied 1 of {files} files (the others are there), 12 B in ");
    sshd.copies(&sandbox, &["-u", "tree/", &far(&sandbox, "copy")]).succeeds().says(&[&said]);
    let said = format!("copied 0 of {files} files (all are there), 0 B in ");
    sshd.copies(&sandbox, &["-u", "tree/", &far(&sandbox, "copy")]).succeeds().says(&[&said]);
    same_trees(&sandbox.path("tree"), &sandbox.path("copy"));
}

#[test]
fn what_the_source_does_not_have_goes_if_asked() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    make_tree(&sandbox.path("tree"));
    let to = far(&sandbox, "copy");
    sshd.copies(&sandbox, &["tree", &to]).succeeds();
    std::fs::create_dir(sandbox.path("copy/sub/more")).unwrap();
    sandbox.write("copy/sub/more/file", "extra");
    sandbox.write("copy/extra", "extra");
    let dry = sshd.copies(&sandbox, &["-u", "--delete", "-n", "tree/", &to]);
    dry.says(&["nothing was copied or deleted (-n): 0 files would be copied, 2 entries deleted"]);
    let mut lines: Vec<&str> = std::str::from_utf8(&dry.succeeds().stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["delete extra", "delete sub/more"]);
    assert!(sandbox.path("copy/extra").exists(), "a dry run does nothing");
    let run = sshd.copies(&sandbox, &["-u", "--delete", "--exclude", "*.none", "tree/", &to]);
    // The two, and what was in one.
    run.succeeds().says(&["files (all are there), 3 deleted, 0 B in "]);
    same_trees(&sandbox.path("tree"), &sandbox.path("copy"));
}

#[test]
fn patterns_leave_out_and_take() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    make_tree(&sandbox.path("tree"));
    let args =
        ["--include", "small1", "--exclude", "small*", "--exclude", "/sub/", "tree", &far(&sandbox, "copy")];
    sshd.copies(&sandbox, &args).succeeds();
    let names: Vec<String> = sandbox.names().into_iter().filter(|name| name.starts_with("copy/")).collect();
    assert!(
        names.contains(&"copy/small1".to_owned()) && names.contains(&"copy/large".to_owned()),
        "{names:?}"
    );
    assert!(!names.iter().any(|name| name.starts_with("copy/small2")), "{names:?}");
}

#[test]
fn of_a_changed_file_what_differs_is_sent() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    let mut bytes = pattern(20 * MIB, 1);
    sandbox.write("a", &bytes);
    sshd.copies(&sandbox, &["a", &far(&sandbox, "b")]).succeeds();
    bytes.splice(1_000_000..1_000_000, *b"inserted");
    bytes[15 * MIB..15 * MIB + 1000].fill(7);
    sandbox.write("a", &bytes);
    let record = sshd.copies(&sandbox, &["-u", "--json", "a", &far(&sandbox, "b")]).succeeds().json();
    same(&sandbox, "a", "b");
    let packed = record["cp"]["packed"].as_u64().unwrap();
    assert!(packed < 600_000, "3 % are 600 KB: {packed}");
}

#[test]
fn content_decides_where_it_is_asked_to() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", "one text");
    sshd.copies(&sandbox, &["a", &far(&sandbox, "b")]).succeeds();
    let time = sandbox.path("a").metadata().unwrap().modified().unwrap();
    sandbox.write("a", "two text");
    std::fs::File::open(sandbox.path("a")).unwrap().set_modified(time).unwrap();
    sshd.copies(&sandbox, &["-u", "a", &far(&sandbox, "b")]).succeeds();
    assert_eq!(sandbox.read("b"), b"one text", "size and time are the same");
    sshd.copies(&sandbox, &["--checksum", "a", &far(&sandbox, "b")]).succeeds();
    assert_eq!(sandbox.read("b"), b"two text");
    let record = sshd.copies(&sandbox, &["--checksum", "--json", "a", &far(&sandbox, "b")]).succeeds().json();
    assert_eq!(record["cp"]["unchanged"], 1);
}

#[test]
fn archives_keep_second_names_and_attributes_and_holes() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    sandbox.write("tree/one", pattern(2 * MIB, 1));
    std::fs::hard_link(sandbox.path("tree/one"), sandbox.path("tree/two")).unwrap();
    let holes = std::fs::File::create(sandbox.path("tree/holes")).unwrap();
    holes.set_len(64 * MIB as u64).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&holes, b"middle", 33 * MIB as u64 + 5).unwrap();
    sshd.copies(&sandbox, &["-a", "tree", &far(&sandbox, "copy")]).succeeds();
    same_trees(&sandbox.path("tree"), &sandbox.path("copy"));
    let of = |name: &str| sandbox.path(name).metadata().unwrap();
    assert_eq!(of("copy/one").ino(), of("copy/two").ino());
    assert!(of("copy/holes").blocks() <= of("tree/holes").blocks() + 8, "{}", of("copy/holes").blocks());
}

#[test]
fn a_codec_of_ones_choice_is_used() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", "the same line again and again\n".repeat(200_000));
    for codec in ["none", "lz4", "zstd:9", "zlib", "brotli"] {
        let record =
            sshd.copies(&sandbox, &["--codec", codec, "--json", "a", &far(&sandbox, "b")]).succeeds().json();
        same(&sandbox, "a", "b");
        assert_eq!(record["cp"]["codecs"][0]["codec"], codec.split(':').next().unwrap());
    }
    sshd.copies(&sandbox, &["--codec", "zip", "a", "far:b"]).fails(2, &["unknown codec 'zip'"]);
}

/// What is the same a mebibyte further on is found where a record carries several blocks, and a block alone
/// would not shrink. How many go alone until it is known what the lanes carry is the machine's to decide: the
/// limit is for them, and what comes after them is judged.
#[test]
fn a_strong_codec_looks_beyond_a_block() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    let bytes = pattern(MIB, 3).repeat(64);
    sandbox.write("a", &bytes);
    let words = ["--codec", "zstd:9", "--limit-rate", "50M", "--json", "a", &far(&sandbox, "b")];
    let record = sshd.copies(&sandbox, &words).succeeds().json();
    same(&sandbox, "a", "b");
    let ratios: Vec<f64> =
        record["samples"].as_array().unwrap().iter().filter_map(|sample| sample["ratio"].as_f64()).collect();
    assert!(ratios.iter().any(|ratio| *ratio < 0.7), "{ratios:?}");
}

/// Carrying a byte within one machine takes its processors less than packing it. What the later ones get
/// depends on how busy these are.
#[test]
fn within_one_machine_the_first_small_files_go_as_they_are() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("many")).unwrap();
    for index in 0..400 {
        sandbox.write(&format!("many/{index}"), "the same line again and again\n".repeat(300));
    }
    let record = sshd.copies(&sandbox, &["-r", "--json", "many", &far(&sandbox, "copy")]).succeeds().json();
    let mut codecs = record["cp"]["codecs"].as_array().unwrap().iter();
    assert!(codecs.any(|share| share["codec"] == "none"), "{}", record["cp"]["codecs"]);
    for index in 0..400 {
        same(&sandbox, &format!("many/{index}"), &format!("copy/{index}"));
    }
}

#[test]
fn bad_words_and_strange_ends_are_said() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", "text");
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    let far = |name: &str| far(&sandbox, name);
    let refuses = |args: &[&str], code: i32, texts: &[&str]| {
        sshd.copies(&sandbox, args).fails(code, texts);
    };
    refuses(&["nothing", &far("b")], 1, &["cannot read nothing", "no such file"]);
    refuses(&[&far("nothing"), "b"], 1, &["nothing", "no such file"]);
    refuses(&["a", &far("none/b")], 1, &["none", "no such file"]);
    refuses(&["folder", &far("a")], 1, &["is a file, and a folder"]);
    refuses(&["a", &far("a")], 1, &["source and target are the same"]);
    std::fs::create_dir(sandbox.path("other")).unwrap();
    sandbox.write("other/a", "another");
    refuses(&["a", "other/a", &far("folder")], 1, &["two sources would both become a"]);
    refuses(&["a", "folder", &far("a")], 1, &["is no folder"]);
    refuses(&["-S", "/nonexistent/ssh", "a", "far:b"], 1, &["cannot start /nonexistent/ssh", "no such file"]);
    refuses(&["a", "nowhere.invalid:b"], 1, &["cannot reach nowhere.invalid", "ssh could not connect"]);
    refuses(
        &["-i", "/dev/null", "-o", "IdentitiesOnly=yes", "-o", "IdentityFile=none", "a", "x@far:b"],
        1,
        &["ssh could not"],
    );
    assert_eq!(sandbox.names(), ["a", "folder/", "other/", "other/a"]);
    assert_eq!(sandbox.read("a"), b"text");
}

/// A few of each kind.
fn make_tree(root: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(root.join(name), bytes).unwrap();
    std::fs::create_dir_all(root.join("sub/empty")).unwrap();
    for index in 0..300 {
        write(&format!("small{index}"), &pattern(index * 37, 1));
    }
    write("large", &pattern(6 * MIB + 3, 1));
    write("sub/middle", &pattern(700_000, 1));
    write("sub/none", b"");
    symlink("../large", root.join("sub/link")).unwrap();
    symlink("/nowhere/at all", root.join("dangling")).unwrap();
    let odd = std::os::unix::ffi::OsStrExt::from_bytes(b"not \xff utf-8\n");
    std::fs::write(root.join::<&std::ffi::OsStr>(odd), "odd").unwrap();
    std::fs::set_permissions(root.join("small7"), std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::set_permissions(root.join("sub"), std::fs::Permissions::from_mode(0o2750)).unwrap();
    // The content of a folder must not change after its time was set.
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    for name in ["sub/empty", "sub", "small3"] {
        std::fs::File::open(root.join(name)).unwrap().set_modified(old).unwrap();
    }
}

/// Names, kinds, bytes, modes, times and links.
fn same_trees(one: &Path, other: &Path) {
    let names = |root: &Path| {
        let mut names: Vec<_> =
            std::fs::read_dir(root).unwrap().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(one), names(other), "in {}", one.display());
    for name in names(one) {
        let (a, b) = (one.join(&name), other.join(&name));
        let (x, y) = (a.symlink_metadata().unwrap(), b.symlink_metadata().unwrap());
        let shown = a.display();
        assert_eq!(
            (x.mode(), x.size() * u64::from(!x.is_dir())),
            (y.mode(), y.size() * u64::from(!y.is_dir())),
            "{shown}"
        );
        assert_eq!((x.mtime(), x.mtime_nsec()), (y.mtime(), y.mtime_nsec()), "time of {shown}");
        if x.is_dir() {
            same_trees(&a, &b);
        } else if x.is_symlink() {
            assert_eq!(a.read_link().unwrap(), b.read_link().unwrap());
        } else {
            assert!(std::fs::read(&a).unwrap() == std::fs::read(&b).unwrap(), "{shown} differs");
        }
    }
}
