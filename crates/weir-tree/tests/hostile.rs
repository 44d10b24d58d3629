//! Names, links and swaps that want to lead a copy astray: nothing outside the root is ever touched.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_tree::entry::{LinkTarget, Time};
use weir_tree::{Entry, Filter, Kind, Name, Step, Target, TreeError, Walk, destination, walk};

struct HostileRoot {
    _dir: tempfile::TempDir,
    outside: std::path::PathBuf,
    root: std::path::PathBuf,
    target: Target,
}

/// A root with something precious beside it.
fn place() -> HostileRoot {
    let dir = tempfile::tempdir().unwrap();
    let (outside, root) = (dir.path().join("outside"), dir.path().join("root"));
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "precious").unwrap();
    let target = Target::open(&root, destination::Options::default()).unwrap();
    HostileRoot { _dir: dir, outside, root, target }
}

fn file(name: &str) -> Entry {
    entry(name, Kind::File { size: 3, sparse: false })
}

fn entry(name: &str, kind: Kind) -> Entry {
    let mtime = Time::new(1_000_000_000, 5).unwrap();
    Entry { name: name.parse().unwrap(), kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn no_step_goes_over_a_link() {
    let HostileRoot { outside, root, target, .. } = &place();
    symlink(outside, root.join("way")).unwrap();
    let precious = entry("way/precious", Kind::HardLink { to: "way/other".parse().unwrap() });
    let stolen = entry("stolen", Kind::HardLink { to: "way/precious".parse().unwrap() });
    let link = entry("way/new", Kind::Symlink { target: LinkTarget::new(*b"x").unwrap() });
    let inside: Name = "way/precious".parse().unwrap();
    for refused in [
        target.small(&file("way/precious"), b"bad").err(),
        target.create(&file("way/precious")).err(),
        target.part(&file("way/precious"), false, |_| true).err(),
        target.directory(&"way".parse().unwrap()).err(),
        target.directory(&"way/deeper".parse().unwrap()).err(),
        target.finish_directory(&entry("way", Kind::Directory)).err(),
        target.symlink(&link).err(),
        target.hard_link(&precious).err(),
        target.hard_link(&stolen).err(),
        target.existing(&inside).err(),
        target.open_existing(&inside).err(),
        target.open_existing(&"way".parse().unwrap()).err(),
        target.mend(&file("way/precious"), &Entry { mode: 0o600, ..file("way/precious") }).err(),
        target.remove(&inside, &Filter::default()).err(),
        target
            .extras(
                &"way".parse().unwrap(),
                &mut destination::KeepSet::default(),
                &Filter::default(),
                &mut |_| Ok(()),
            )
            .err(),
    ] {
        let words = refused.expect("a step went over the link").to_string();
        assert!(words.contains("way"), "{words}");
    }
    assert_eq!(names(outside), ["precious"]);
    assert_eq!(fs::read(outside.join("precious")).unwrap(), b"precious");
    assert_eq!(names(root), ["way"]);
    // The link itself may go, or make room for a file.
    target.small(&file("way"), b"new").unwrap();
    assert_eq!(fs::read(root.join("way")).unwrap(), b"new");
}

#[test]
fn a_directory_and_what_is_none_do_not_replace_each_other() {
    let HostileRoot { root, target, .. } = &place();
    fs::create_dir(root.join("dir")).unwrap();
    fs::write(root.join("file"), "old").unwrap();
    let _pipe = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let words = |outcome: Result<(), weir_tree::TreeError>| outcome.unwrap_err().to_string();
    assert_eq!(
        words(target.small(&file("dir"), b"new")),
        "cannot put a file at dir: what is there is a directory; remove it or choose another name"
    );
    let pending = target.create(&file("dir")).unwrap();
    assert!(words(pending.finish(&file("dir"))).contains("what is there is a directory"));
    assert!(words(target.directory(&"file".parse().unwrap())).contains("cannot put a directory at file"));
    assert!(words(target.small(&file("file/below"), b"new")).contains("not a directory"));
    assert!(words(target.small(&file("socket"), b"new")).contains("socket"));
    assert_eq!(names(root), ["dir", "file", "socket"]);
    assert_eq!(fs::read(root.join("file")).unwrap(), b"old");
}

#[test]
fn a_name_that_is_too_long_for_the_file_system_is_named() {
    let HostileRoot { target, .. } = &place();
    // ext4 and tmpfs take 255 bytes, which a name in a tree may have; eCryptfs and others take fewer.
    let long = "n".repeat(255);
    target.small(&file(&long), b"new").unwrap();
    let part = target.part(&file(&long), false, |_| true).unwrap();
    part.write_at(0, b"abc").unwrap();
    part.finish(&file(&long)).unwrap();
    assert_eq!(target.existing(&long.parse().unwrap()).unwrap().unwrap().size(), 3);
    let deep = vec!["d"; 2040].join("/");
    let _ = target.directory(&deep.parse().unwrap());
    target.remove(&"d".parse().unwrap(), &Filter::default()).unwrap();
}

#[test]
fn what_became_of_a_part_is_told() {
    let HostileRoot { root, target, .. } = &place();
    let beside = root.join(".x.weir-part");
    for (is_replaced, fate) in [(false, "removed"), (true, "replaced by another file")] {
        let part = target.part(&file("x"), false, |_| true).unwrap();
        part.write_at(0, b"abc").unwrap();
        fs::remove_file(&beside).unwrap();
        if is_replaced {
            fs::write(&beside, "another's").unwrap();
        }
        let words = part.finish(&file("x")).unwrap_err().to_string();
        assert_eq!(words, format!("the unfinished file of x at the target was {fate}; copy it again"));
        assert!(!root.join("x").exists());
    }
}

#[test]
fn a_part_is_adopted_only_if_it_can_only_be_ours() {
    let HostileRoot { outside, root, target, .. } = &place();
    let part = target.part(&file("x"), false, |_| true).unwrap();
    part.write_at(0, b"ab").unwrap();
    assert!(!part.adopted());
    assert!(target.part(&file("x"), false, |_| true).unwrap_err().to_string().contains("another weir"));
    drop(part);
    assert_eq!(names(root), [".x.weir-part"]);
    let part = target.part(&file("x"), false, |_| true).unwrap();
    assert!(part.adopted());
    part.write_at(2, b"c").unwrap();
    part.finish(&file("x")).unwrap();
    assert_eq!(fs::read(root.join("x")).unwrap(), b"abc");
    for bait in [
        |precious: &Path, part: &Path| fs::hard_link(precious, part),
        |precious: &Path, part: &Path| symlink(precious, part),
    ] {
        bait(&outside.join("precious"), &root.join(".x.weir-part")).unwrap();
        let part = target.part(&file("x"), false, |_| true).unwrap();
        assert!(!part.adopted());
        part.write_at(0, b"new").unwrap();
        part.finish(&file("x")).unwrap();
        assert_eq!(fs::read(outside.join("precious")).unwrap(), b"precious");
    }
    assert!(
        target
            .small(&file(".x.weir-part"), b"new")
            .unwrap_err()
            .to_string()
            .contains("weir's unfinished files")
    );
    // What was there before may be somebody's: it has another name now, and that is said.
    assert_eq!(names(root), [".x.weir-part.aside-1", ".x.weir-part.aside-2", "x"]);
    let words: Vec<String> = target.put_aside().into_iter().map(|(_, words)| words).collect();
    assert_eq!(words.len(), 2);
    assert!(words[0].contains("has other names too") && words[1].contains("is a symbolic link"), "{words:?}");
    fs::create_dir(root.join(".x.weir-part")).unwrap();
    drop(target.part(&file("x"), false, |_| true).unwrap());
    fs::write(root.join(".x.weir-part"), "a letter").unwrap();
    let part = target.part(&file("x"), false, |_| false).unwrap();
    assert!(!part.adopted(), "whoever knows parts may say that it is none");
    assert!(root.join(".x.weir-part.aside-3").is_dir());
    assert_eq!(fs::read(root.join(".x.weir-part.aside-4")).unwrap(), b"a letter");
}

#[test]
fn a_file_swapped_for_a_link_or_a_pipe_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["a", "b", "c"] {
        fs::write(at(name), name).unwrap();
    }
    let steps =
        Walk::new(vec![walk::Root::content_of(dir.path())], Filter::default(), walk::Wanted::default());
    let found: Vec<_> = steps.collect();
    fs::remove_file(at("a")).unwrap();
    symlink(at("b"), at("a")).unwrap();
    fs::remove_file(at("c")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("c"), rustix::fs::Mode::RWXU).unwrap();
    for step in &found {
        let Step::Found(entry, source) = step else { continue };
        let opened = source.open(entry);
        match entry.name.last() {
            b"b" => assert!(opened.is_ok()),
            _ => assert!(
                matches!(opened, Err(weir_tree::TreeError::Replaced { .. })),
                "{}: {opened:?}",
                entry.name
            ),
        }
    }
}

/// What another program does at the target is no change of the source.
#[test]
fn what_was_replaced_at_the_target_is_said_of_the_target() {
    let HostileRoot { root, target, .. } = &place();
    let link = entry("x", Kind::Symlink { target: LinkTarget::new(*b"y").unwrap() });
    symlink("y", root.join("x")).unwrap();
    let there = target.existing(&link.name).unwrap().unwrap();
    fs::remove_file(root.join("x")).unwrap();
    fs::write(root.join("x"), "another's").unwrap();
    let told = target.mend(&link, &there).unwrap_err().to_string();
    assert_eq!(told, "x at the target was replaced by another program; copy it again");
}

#[test]
fn a_directory_that_others_swap_for_a_link_leads_nowhere() {
    let HostileRoot { outside, root, target, .. } = &place();
    let stop = AtomicBool::new(false);
    fs::create_dir(root.join("real")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = symlink(outside, root.join("trap"));
                let _ = fs::remove_file(root.join("trap"));
                let _ = fs::rename(root.join("real"), root.join("trap"));
                let _ = fs::rename(root.join("trap"), root.join("real"));
            }
        });
        for round in 0..2000 {
            let _ = target.small(&file(&format!("trap/{round}")), b"bad");
            let _ = target.directory(&format!("trap/{round}d").parse().unwrap());
            let _ = target.remove(&"trap/precious".parse().unwrap(), &Filter::default());
            let _ = target.remove(&"trap".parse().unwrap(), &Filter::default());
            let _ = fs::create_dir(root.join("real"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(names(outside), ["precious"]);
}

#[test]
fn removing_a_tree_spares_what_its_links_point_to() {
    let HostileRoot { outside, root, target, .. } = &place();
    fs::create_dir_all(root.join("a/b")).unwrap();
    symlink(outside, root.join("a/b/way")).unwrap();
    fs::write(root.join("a/file"), "x").unwrap();
    assert_eq!(target.remove(&"a".parse().unwrap(), &Filter::default()).unwrap().entries, 4);
    assert_eq!(target.remove(&"a".parse().unwrap(), &Filter::default()).unwrap().entries, 0);
    assert!(target.remove(&Name::root(), &Filter::default()).is_err());
    assert_eq!(names(outside), ["precious"]);
}

#[test]
fn extras_are_what_is_neither_kept_nor_protected() {
    let HostileRoot { root, target, .. } = &place();
    for name in ["kept", ".kept.weir-part", ".gone.weir-part", "extra", "x.log"] {
        fs::write(root.join(name), "x").unwrap();
    }
    fs::create_dir(root.join("old")).unwrap();
    let mut filter = Filter::default();
    filter.exclude(b"*.log").unwrap();
    let mut keep_set = destination::KeepSet::default();
    keep_set.insert(b"kept");
    let mut extras = Vec::new();
    let mut take = |names: Vec<Name>| {
        extras.extend(names.iter().map(ToString::to_string));
        Ok(())
    };
    target.extras(&Name::root(), &mut keep_set, &filter, &mut take).unwrap();
    target.extras(&"nowhere".parse().unwrap(), &mut keep_set, &filter, &mut take).unwrap();
    assert_eq!(extras, [".gone.weir-part", "extra", "old"]);
}

#[test]
fn what_is_protected_stays_with_the_folders_that_it_is_in() {
    let HostileRoot { root, target, .. } = &place();
    for folder in ["old/a/b", "old/c", "old/d.keep", "gone/x"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for file in
        ["old/a/b/x.keep", "old/a/b/y", "old/a/z", "old/c/w", "old/d.keep/inside", "gone/x/y", "old/top"]
    {
        fs::write(root.join(file), "x").unwrap();
    }
    let mut filter = Filter::default();
    filter.exclude(b"*.keep").unwrap();
    let told = |name: &str| {
        let mut told = Vec::new();
        target.would_remove(name.parse().unwrap(), &filter, |name| told.push(name.to_string())).unwrap();
        told.join(" ")
    };
    assert_eq!(told("old"), "old/a/b/y old/a/z old/c old/top");
    assert_eq!((told("gone"), told("old/top")), ("gone".to_owned(), "old/top".to_owned()));
    let removed = target.remove(&"old".parse().unwrap(), &filter).unwrap();
    assert_eq!((removed.entries, removed.stays), (5, true), "y, z, c and what is in it, top");
    let removed = target.remove(&"gone".parse().unwrap(), &filter).unwrap();
    assert_eq!((removed.entries, removed.stays), (3, false));
    assert_eq!(names(root), ["old"]);
    assert_eq!(
        (names(&root.join("old")), names(&root.join("old/a/b"))),
        (vec!["a".into(), "d.keep".into()], vec!["x.keep".into()])
    );
    assert!(root.join("old/d.keep/inside").exists());
}

/// More than is listed, or removed, at a time.
#[test]
fn folders_of_many_names_lose_just_what_is_not_kept() {
    const MANY: usize = 10_000;
    let HostileRoot { root, target, .. } = &place();
    let name = |index: usize| format!("{index:05}");
    for index in 0..MANY {
        fs::write(root.join(name(index)), "").unwrap();
    }
    let mut keep_set = destination::KeepSet::default();
    (0..MANY).step_by(7).for_each(|index| keep_set.insert(name(index).as_bytes()));
    let mut pieces = 0;
    let mut remove = |names: Vec<Name>| {
        pieces += 1;
        names.iter().try_for_each(|name| target.remove(name, &Filter::default()).map(drop))
    };
    target.extras(&Name::root(), &mut keep_set, &Filter::default(), &mut remove).unwrap();
    assert!(pieces > 1);
    assert_eq!(names(root), (0..MANY).step_by(7).map(name).collect::<Vec<_>>());
    for index in 0..MANY {
        fs::create_dir_all(root.join("deep").join(name(index))).unwrap();
    }
    assert_eq!(target.remove(&"deep".parse().unwrap(), &Filter::default()).unwrap().entries, MANY as u64 + 1);
}

#[test]
fn names_that_are_not_utf_8_and_directories_that_cannot_be_written() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let odd = from.path().join(std::ffi::OsStr::from_bytes(b"\xff\xfe dir"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join(std::ffi::OsStr::from_bytes(b"\x80\n")), "x").unwrap();
    fs::set_permissions(&odd, PermissionsExt::from_mode(0o555)).unwrap();
    for _ in 0..2 {
        assert_eq!(support::copy(from.path(), to.path()), Vec::<String>::new());
        assert_eq!(support::picture(to.path()), support::picture(from.path()));
    }
}

#[test]
fn a_target_within_its_source_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let target = Target::open(&dir.path().join("copy"), destination::Options::default()).unwrap();
    let wanted = walk::Wanted { avoid: Some(target.identity()), ..walk::Wanted::default() };
    let root = walk::Root::from_argument(dir.path()).unwrap();
    let steps: Vec<_> = Walk::new(vec![root], Filter::default(), wanted).collect();
    let refused = steps.iter().filter(|step| matches!(step, Step::Failed(name, _) if name.last() == b"copy"));
    assert_eq!(refused.count(), 1);
    let found = steps.iter().filter(|step| matches!(step, Step::Found(..)));
    assert_eq!(found.count(), 2);
}

#[test]
fn a_list_brings_its_names_and_the_directories_on_the_way() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::write(dir.path().join("a/b/x"), "x").unwrap();
    fs::write(dir.path().join("a/y"), "y").unwrap();
    fs::write(dir.path().join("a/z"), "z").unwrap();
    symlink("a", dir.path().join("way")).unwrap();
    let list = "a/b/x\na/y\nway/z\nnowhere\na/b\n";
    let names = weir_tree::filter::names(list.as_bytes(), "list".into(), false);
    let walk = Walk::listed(dir.path().to_owned(), names, Filter::default(), walk::Wanted::default());
    let met: Vec<_> = walk
        .map(|step| match step {
            Step::Found(entry, _) => format!("+{}", entry.name),
            Step::Leave(entry) => format!("-{}", entry.name),
            Step::Failed(name, _) => format!("!{name}"),
        })
        .collect();
    let expected =
        ["+a", "+a/b", "+a/b/x", "-a/b", "+a/y", "-a", "!way/z", "!nowhere", "+a", "+a/b", "-a/b", "-a"];
    assert_eq!(met, expected, "the root is not among them: the target's own attributes are its own");
}

#[test]
fn a_list_brings_what_is_beneath_its_directories_if_asked() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
    for name in ["a/b/x", "a/b/c/y", "a/z", "w"] {
        fs::write(dir.path().join(name), "text").unwrap();
    }
    let found = |list: &'static str, exclude: Option<&str>| {
        let names = weir_tree::filter::names(list.as_bytes(), "list".into(), false);
        let mut filter = Filter::default();
        exclude.into_iter().for_each(|pattern| filter.exclude(pattern.as_bytes()).unwrap());
        let wanted = walk::Wanted { beneath: true, ..walk::Wanted::default() };
        let (mut depth, mut found) = (0, Vec::new());
        for step in Walk::listed(dir.path().to_owned(), names, filter, wanted) {
            match step {
                Step::Found(entry, _) => {
                    depth += i32::from(entry.is_directory());
                    found.push(entry.name.to_string());
                }
                Step::Leave(_) => depth -= 1,
                Step::Failed(name, error) => panic!("{name}: {error}"),
            }
        }
        assert_eq!(depth, 0, "every directory is left");
        found.sort();
        found.dedup();
        found.join(" ")
    };
    assert_eq!(found("a/b\nw\n", None), "a a/b a/b/c a/b/c/y a/b/x w");
    assert_eq!(found("a/b/x\na/b\n", None), "a a/b a/b/c a/b/c/y a/b/x", "also where the walk is already");
    assert_eq!(found("a/b/c\na/z\n", Some("y")), "a a/b a/b/c a/z");
    assert_eq!(found("a/b\nw\n", Some("b/")), "a w");
    assert_eq!(found(".\n", None), ". a a/b a/b/c a/b/c/y a/b/x a/z w");
}

/// A walk that has met `root` and the file in it: its folders are listed, and none was looked at.
fn at_the_folders(root: &Path, filter: Filter) -> Walk {
    fs::write(root.join("file"), "text").unwrap();
    let root = walk::Root::content_of(root);
    let mut walk = Walk::new(vec![root], filter, walk::Wanted::default());
    for expected in [".", "file"] {
        let Some(Step::Found(entry, _)) = walk.next() else { panic!("{expected} is not found") };
        assert_eq!(entry.name.to_string(), expected);
    }
    walk
}

/// Steps in short: a name that has vanished is a `~`, any other that failed a `!`.
fn in_short(step: Step) -> String {
    match step {
        Step::Found(entry, _) => format!("+{}", entry.name),
        Step::Leave(entry) => format!("-{}", entry.name),
        Step::Failed(name, TreeError::Vanished { .. }) => format!("~{name}"),
        Step::Failed(name, _) => format!("!{name}"),
    }
}

#[test]
fn what_was_listed_and_is_gone_has_vanished() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("root/folder/deep")).unwrap();
    let root = dir.path().join("root");
    let walk = at_the_folders(&root, Filter::default());
    fs::remove_dir_all(root.join("folder")).unwrap();
    assert_eq!(walk.map(in_short).collect::<Vec<_>>(), ["~folder", "-."]);
    // It was opened, and its listing not read.
    fs::create_dir_all(root.join("folder/deep")).unwrap();
    let mut walk = at_the_folders(&root, Filter::default());
    assert_eq!(walk.next().map(in_short).as_deref(), Some("+folder"));
    fs::remove_dir_all(root.join("folder")).unwrap();
    assert_eq!(walk.map(in_short).collect::<Vec<_>>(), ["~folder", "-folder", "-."]);
    // What was named is missing.
    let named = vec![walk::Root::content_of(&root)];
    let mut walk = Walk::new(named, Filter::default(), walk::Wanted::default());
    assert_eq!(walk.next().map(in_short).as_deref(), Some("+."));
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(walk.map(in_short).collect::<Vec<_>>(), ["!.", "-."]);
}

#[test]
fn a_name_of_a_list_is_missing_and_what_is_beneath_it_vanishes() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("named/folder")).unwrap();
    fs::write(dir.path().join("named/file"), "text").unwrap();
    let names = weir_tree::filter::names(&b"named\nnowhere\n"[..], "list".into(), false);
    let wanted = walk::Wanted { beneath: true, ..walk::Wanted::default() };
    let mut walk = Walk::listed(dir.path().to_owned(), names, Filter::default(), wanted);
    let first: Vec<_> = walk.by_ref().take(2).map(in_short).collect();
    assert_eq!(first, ["+named", "+named/file"]);
    fs::remove_dir(dir.path().join("named/folder")).unwrap();
    assert_eq!(walk.map(in_short).collect::<Vec<_>>(), ["~named/folder", "-named", "!nowhere"]);
}

/// Who asks the rules only after a look has to look at what is left out: here it is gone, elsewhere it may
/// not be looked at.
#[test]
fn what_is_left_out_need_not_be_there() {
    let dir = tempfile::tempdir().unwrap();
    let folders = ["by-name", "as-folder", "as-file"];
    folders.iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
    let mut filter = Filter::default();
    for pattern in ["by-name", "as-folder/"] {
        filter.exclude(pattern.as_bytes()).unwrap();
    }
    // Of folders all are taken, and of files only one.
    for pattern in ["*/", "file"] {
        filter.include(pattern.as_bytes()).unwrap();
    }
    filter.exclude(b"*").unwrap();
    let walk = at_the_folders(dir.path(), filter);
    folders.iter().for_each(|name| fs::remove_dir(dir.path().join(name)).unwrap());
    assert_eq!(walk.map(in_short).collect::<Vec<_>>(), ["~as-file", "-."]);
}

#[test]
fn a_tree_deeper_than_the_descriptors_that_are_held() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut path = from.path().to_owned();
    for level in 0..300 {
        path.push("d");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("before"), level.to_string()).unwrap();
        fs::write(path.join("file"), level.to_string()).unwrap();
        fs::create_dir(path.join("z")).unwrap();
    }
    assert_eq!(support::copy(from.path(), to.path()), Vec::<String>::new());
    assert_eq!(support::picture(to.path()), support::picture(from.path()));
    assert_eq!(fs::metadata(to.path()).unwrap().mode(), fs::metadata(from.path()).unwrap().mode());
}

/// Of what the walk saw: what has been put in its place meanwhile stays, a link that leads elsewhere and a
/// pipe that became a file too.
#[test]
fn a_source_that_is_another_by_now_is_not_removed() {
    use walk::{Root, Wanted};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pipe = |name: &str| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at(name), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    for name in ["link", "moved-link"] {
        symlink("target", at(name)).unwrap();
    }
    for name in ["pipe", "was-pipe"] {
        pipe(name);
    }
    for name in ["file", "second", "written"] {
        std::fs::write(at(name), "text").unwrap();
    }
    std::fs::hard_link(at("second"), at("second-name")).unwrap();
    let wanted = Wanted { hard_links: true, ..Wanted::default() };
    let walk = Walk::new(vec![Root::content_of(folder.path())], Filter::default(), wanted);
    let found: Vec<_> = walk
        .filter_map(|step| match step {
            Step::Found(entry, source) if !entry.is_directory() => Some((entry, source)),
            _ => None,
        })
        .collect();
    assert_eq!(found.len(), 8);
    std::fs::remove_file(at("moved-link")).unwrap();
    symlink("elsewhere", at("moved-link")).unwrap();
    std::fs::remove_file(at("was-pipe")).unwrap();
    std::fs::write(at("was-pipe"), "text").unwrap();
    std::fs::write(at("written"), "longer text").unwrap();
    for (entry, source) in found {
        let name = entry.name.to_string();
        let stays = ["moved-link", "was-pipe", "written"].contains(&name.as_str());
        assert_eq!(source.remove(&entry).is_err(), stays, "{name}");
        assert_eq!(at(&name).symlink_metadata().is_ok(), stays, "{name}");
    }
}
