//! A download replaces a file's content: mode, owner, ACL, attributes and other names stay. Until it is
//! complete, the file is its owner's alone. Where no new file can have the name, weir writes the old one
//! after it has verified everything.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::process::Signal;
use support::{MIB, Object, Request, Run, Sandbox, Server, WEIR, Wire, skip, wait_for};

const NOBODY: u32 = 65534;

/// Read whole, and by way of a part.
const SIZES: [usize; 2] = [1000, 3 * MIB];

fn serve(length: usize) -> (Server, Vec<u8>) {
    let object = Object::new(length);
    let bytes = object.bytes.to_vec();
    (Server::start(move |request, wire| object.serve(request, wire)), bytes)
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs `weir get URL -o OUT` for each size over a file that `prepare` set up, then calls `check`.
fn replaces(args: &[&str], prepare: impl Fn(&Sandbox, &Path), check: impl Fn(&Sandbox, &Path, &Run)) {
    for length in SIZES {
        let (server, bytes) = serve(length);
        let sandbox = Sandbox::new();
        let old = sandbox.write("out", "the old content");
        prepare(&sandbox, &old);
        let run = sandbox.get([&server.url("x"), "-o", "out"]).args(args).run();
        run.succeeds();
        assert!(fs::read(&old).unwrap() == bytes, "wrong bytes");
        check(&sandbox, &old, &run);
    }
}

#[test]
fn the_mode_stays() {
    for before in [0o600, 0o640, 0o444, 0o755, 0o666, 0o400] {
        replaces(
            &[],
            |_, old| set_mode(old, before),
            |sandbox, old, run| {
                assert_eq!(mode(old), before);
                assert_eq!(sandbox.names(), ["out"]);
                assert_eq!(run.stderr.matches("warn").count(), 0, "{}", run.stderr);
            },
        );
    }
}

#[test]
fn set_user_id_does_not_stay_and_that_is_said() {
    for before in [0o4755, 0o2755] {
        replaces(
            &[],
            |_, old| set_mode(old, before),
            |_, old, run| {
                assert_eq!(mode(old), 0o755);
                run.says(&["was set-user-id or set-group-id; the new content is not"]);
            },
        );
    }
}

#[test]
fn the_owner_stays() {
    if !is_root() {
        return skip("only root gives files away");
    }
    replaces(
        &[],
        |_, old| {
            chown(old, Some(NOBODY), Some(12)).unwrap();
            set_mode(old, 0o640);
        },
        |_, old, _| {
            let there = old.metadata().unwrap();
            assert_eq!((there.uid(), there.gid(), mode(old)), (NOBODY, 12, 0o640));
        },
    );
}

#[test]
fn a_group_that_cannot_be_kept_takes_its_rights_with_it() {
    for (before, after) in [(0o640, 0o600), (0o664, 0o644), (0o660, 0o600)] {
        let Some((sandbox, get)) = as_nobody() else { return };
        for length in SIZES {
            let (server, bytes) = serve(length);
            let old = sandbox.write("out", "old");
            // A group that nobody is not in.
            chown(&old, Some(NOBODY), Some(12)).unwrap();
            set_mode(&old, before);
            let run = get(&sandbox, &[&server.url("x"), "-o", "out"]);
            run.succeeds().says(&["its group cannot be kept"]);
            let there = old.metadata().unwrap();
            assert_eq!((there.uid(), there.gid(), mode(&old)), (NOBODY, NOBODY, after));
            assert!(fs::read(&old).unwrap() == bytes);
            fs::remove_file(&old).unwrap();
        }
    }
}

/// A folder of nobody's, and what runs `weir get` in it as them.
#[allow(clippy::type_complexity, reason = "a pair for a test")]
fn as_nobody() -> Option<(Sandbox, fn(&Sandbox, &[&str]) -> Run)> {
    fn get(sandbox: &Sandbox, args: &[&str]) -> Run {
        let mut get = sandbox.get(args);
        get.command.uid(NOBODY).gid(NOBODY);
        get.run()
    }
    let sandbox = Sandbox::new();
    if !is_root() {
        skip("only root can be several users");
        return None;
    }
    chown(sandbox.path("."), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut version = sandbox.weir(WEIR, ["--version"]);
    version.command.uid(NOBODY).gid(NOBODY);
    if !version.run().status.success() {
        skip("root cannot run the binary as another user here");
        return None;
    }
    Some((sandbox, get))
}

const ACL: &str = "system.posix_acl_access";

/// An ACL as `setfacl -m u:1000:rw` makes it on a file of mode 640: version 2, then tag, rights and id of
/// each.
fn acl() -> Vec<u8> {
    let entry = |tag: u16, rights: u16, id: u32| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    [
        2_u32.to_le_bytes().to_vec(),
        entry(0x01, 6, none),
        entry(0x02, 6, 1000),
        entry(0x04, 4, none),
        entry(0x10, 6, none),
        entry(0x20, 0, none),
    ]
    .concat()
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1024];
    let length = getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

#[test]
fn acl_and_attributes_stay() {
    let set = |path: &Path, name: &str, value: &[u8]| setxattr(path, name, value, XattrFlags::empty());
    let sandbox = Sandbox::new();
    let probe = sandbox.write("probe", "");
    if set(&probe, ACL, &acl()).is_err() || set(&probe, "user.x", b"y").is_err() {
        return skip("no ACLs or attributes on this file system");
    }
    replaces(
        &[],
        |_, old| {
            set(old, ACL, &acl()).unwrap();
            set(old, "user.origin", b"kept").unwrap();
            if is_root() {
                set(old, "trusted.weir", b"kept too").unwrap();
                // cap_net_raw+ep, as setcap(8) writes it: rights that the old content had.
                let capability = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                set(old, "security.capability", &capability).unwrap();
            }
        },
        |_, old, _| {
            assert_eq!(attribute(old, ACL), Some(acl()));
            assert_eq!(mode(old), 0o660, "the group's bits are the mask");
            assert_eq!(attribute(old, "user.origin").as_deref(), Some(&b"kept"[..]));
            if is_root() {
                assert_eq!(attribute(old, "trusted.weir").as_deref(), Some(&b"kept too"[..]));
            }
            assert_eq!(attribute(old, "security.capability"), None);
        },
    );
}

#[test]
fn a_new_file_has_what_its_folder_and_the_umask_give() {
    let default = "system.posix_acl_default";
    for (args, name) in [(&[][..], "new"), (&["--temp-dir", "temp"], "by-temp-dir")] {
        for length in SIZES {
            let (server, _) = serve(length);
            let url = server.url("x");
            let sandbox = Sandbox::new();
            fs::create_dir(sandbox.path("temp")).unwrap();
            let script = format!("umask 027; exec {WEIR} get {url} -o {name} {}", args.join(" "));
            sandbox.weir("sh", ["-c", &script]).run().succeeds();
            assert_eq!(mode(&sandbox.path(name)), 0o640);
            fs::create_dir(sandbox.path("with")).unwrap();
            if setxattr(sandbox.path("with"), default, &acl(), XattrFlags::empty()).is_err() {
                continue;
            }
            let touched = sandbox.write("with/touched", "");
            let script = format!("umask 077; exec {WEIR} get {url} -o with/{name} {}", args.join(" "));
            sandbox.weir("sh", ["-c", &script]).run().succeeds();
            let got = sandbox.path("with").join(name);
            assert_eq!(attribute(&got, ACL), attribute(&touched, ACL), "{name} {length}");
            assert_eq!(mode(&got), mode(&touched));
            // A file without an ACL keeps that it has none, whatever its folder would give.
            rustix::fs::removexattr(&touched, ACL).unwrap();
            set_mode(&touched, 0o600);
            sandbox.get([&url, "-o", "with/touched"]).args(args).run().succeeds();
            assert_eq!((attribute(&touched, ACL), mode(&touched)), (None, 0o600));
        }
    }
}

/// Answers with five eighths of what was asked for, so that no run ends before a signal is heard.
fn all_but_the_end(object: &Object, request: &Request, wire: &mut Wire) -> io::Result<()> {
    let most = object.answer(request).part.len() * 5 / 8;
    object.serve_up_to(request, wire, most)?;
    wire.wait_for_close()
}

#[test]
fn nobody_else_reads_a_file_before_it_is_complete() {
    for before in [None, Some(0o644)] {
        let object = Object::new(8 * MIB).rate(8 << 20);
        let server = Server::start(move |request, wire| all_but_the_end(&object, request, wire));
        let sandbox = Sandbox::new();
        if let Some(before) = before {
            set_mode(&sandbox.write("out", "old"), before);
        }
        let running = sandbox.get([&server.url("x"), "-o", "out"]).spawn();
        server.wait_sent(4 * MIB as u64);
        assert_eq!(mode(&sandbox.path("out.part")), 0o600);
        running.signal(Signal::INT);
        running.wait().exits(130);
        assert_eq!(mode(&sandbox.path("out.part")), 0o600);
    }
}

#[test]
fn hard_links_stay_names_of_one_file() {
    replaces(
        &[],
        |sandbox, old| {
            set_mode(old, 0o640);
            fs::hard_link(old, sandbox.path("other")).unwrap();
        },
        |sandbox, old, run| {
            let (old, other) = (old.metadata().unwrap(), sandbox.path("other").metadata().unwrap());
            assert_eq!((old.ino(), old.nlink(), old.mode() & 0o7777), (other.ino(), 2, 0o640));
            run.says(&["it has other names too (hard links); written in place"]);
            assert_eq!(sandbox.names(), ["other", "out"]);
        },
    );
}

/// To open it for writing makes another file of it.
#[test]
fn a_file_with_other_names_in_a_lower_layer_of_an_overlay_is_written() {
    for length in SIZES {
        let (server, bytes) = serve(length);
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.path("at")).unwrap();
        let script = format!(
            "mount -t tmpfs none at && cd at && mkdir l u w m && echo old > l/out && ln l/out l/other && \
             mount -t overlay none -o lowerdir=l,upperdir=u,workdir=w m && cd m && \
             {WEIR} get {} -o out && cat out && [ \"$(cat other)\" = old ] && [ \"$(ls)\" = \"$(printf 'other\nout')\" ]",
            server.url("x")
        );
        let run = sandbox.weir("unshare", ["-m", "sh", "-c", &script]).run();
        if run.stderr.contains("unshare") || run.stderr.contains("mount:") {
            return skip("nothing can be mounted here");
        }
        let said = "its other names (hard links) keep the old content, since it is of an overlay";
        run.succeeds().says(&[said]);
        assert!(run.stdout == bytes);
    }
}

#[test]
fn hard_links_of_a_file_that_cannot_be_written_lose_it_and_that_is_said() {
    for length in SIZES {
        let (server, bytes) = serve(length);
        let Some((sandbox, get)) = as_nobody() else { return };
        let old = sandbox.write("out", "old");
        chown(&old, Some(NOBODY), Some(NOBODY)).unwrap();
        set_mode(&old, 0o444);
        fs::hard_link(&old, sandbox.path("other")).unwrap();
        let run = get(&sandbox, &[&server.url("x"), "-o", "out"]);
        run.succeeds().says(&["out: its other names (hard links) keep the old content: permission denied"]);
        assert!(sandbox.read("out") == bytes && sandbox.read("other") == b"old");
        assert_eq!(mode(&old), 0o444);
        // A program that runs, under two names.
        let sandbox = Sandbox::new();
        support::copy_program("/bin/sleep", sandbox.path("program"));
        fs::hard_link(sandbox.path("program"), sandbox.path("again")).unwrap();
        let mut running = Command::new(sandbox.path("program")).arg("60").spawn().unwrap();
        let run = sandbox.get([&*server.url("x"), "-o", "program"]).run();
        running.kill().unwrap();
        running.wait().unwrap();
        run.succeeds().says(&["program: its other names (hard links) keep the old content: text file busy"]);
        assert!(sandbox.read("program") == bytes);
        assert_eq!(mode(&sandbox.path("program")), mode(&sandbox.path("again")));
    }
}

#[test]
fn a_link_that_the_user_names_stays_and_the_file_behind_keeps_its_mode() {
    for length in SIZES {
        let (server, bytes) = serve(length);
        let sandbox = Sandbox::new();
        set_mode(&sandbox.write("behind", "old"), 0o600);
        symlink("behind", sandbox.path("link")).unwrap();
        sandbox.get([&server.url("x"), "-o", "link"]).run().succeeds();
        assert!(sandbox.path("link").is_symlink() && sandbox.read("behind") == bytes);
        assert_eq!(mode(&sandbox.path("behind")), 0o600);
        // A folder that is a link of the user's own is the one behind it.
        fs::create_dir(sandbox.path("folder")).unwrap();
        symlink("folder", sandbox.path("to")).unwrap();
        sandbox.get([&server.url("x"), "-o", "to/"]).run().succeeds();
        assert!(sandbox.read("folder/x") == bytes && sandbox.path("to").is_symlink());
    }
}

#[test]
fn a_mount_point_is_written_in_place() {
    let unshare = if is_root() { "-m" } else { "-rm" };
    let can = Command::new("unshare").args([unshare, "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        return skip("cannot make a mount namespace here");
    }
    for length in SIZES {
        let (server, bytes) = serve(length);
        let sandbox = Sandbox::new();
        sandbox.write("out", "below");
        let outside = sandbox.write("outside", "old and longer than nothing");
        let url = server.url("x");
        let script = format!("mount --bind outside out && exec {WEIR} get {url} -o out");
        let run = sandbox.weir("unshare", [unshare, "sh", "-c", &script]).run();
        run.succeeds().says(&["out: it is a mount point; written in place"]);
        assert!(fs::read(outside).unwrap() == bytes);
        assert_eq!(
            (sandbox.read("out"), sandbox.names()),
            (b"below".to_vec(), vec!["out".into(), "outside".into()])
        );
    }
}

#[test]
fn a_file_in_a_folder_that_cannot_be_written_is_written_in_place() {
    for length in SIZES {
        let (server, bytes) = serve(length);
        let Some((sandbox, get)) = as_nobody() else { return };
        fs::create_dir(sandbox.path("etc")).unwrap();
        fs::create_dir(sandbox.path("tmp")).unwrap();
        chown(sandbox.path("tmp"), Some(NOBODY), None).unwrap();
        let old = sandbox.write("etc/conf", "old");
        chown(&old, Some(NOBODY), None).unwrap();
        set_mode(&old, 0o640);
        set_mode(&sandbox.path("etc"), 0o755);
        let url = server.url("x");
        let tmp = sandbox.path("tmp");
        let mut in_tmp = sandbox.get([&url, "-o", "etc/conf"]).env("TMPDIR", &tmp);
        in_tmp.command.uid(NOBODY).gid(NOBODY);
        in_tmp.run().succeeds().says(&["etc/conf: its folder cannot be written; written in place"]);
        assert!(fs::read(&old).unwrap() == bytes);
        assert_eq!((old.metadata().unwrap().uid(), mode(&old)), (NOBODY, 0o640));
        assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
        // A file that the user may not write either stays.
        chown(&old, Some(0), None).unwrap();
        set_mode(&old, 0o644);
        get(&sandbox, &[&url, "-o", "etc/conf"]).fails(1, &["etc/conf", "permission denied"]);
        assert!(fs::read(&old).unwrap() == bytes);
        get(&sandbox, &[&url, "-o", "etc/new"]).fails(1, &["etc/new", "permission denied"]);
    }
}

#[test]
fn a_part_elsewhere_is_gone_on_with() {
    let object = Object::new(8 * MIB).rate(8 << 20);
    let bytes = object.bytes.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_over);
    let server = Server::start(move |request, wire| match flag.load(Relaxed) {
        false => all_but_the_end(&object, request, wire),
        true => Object { rate: None, ..object.clone() }.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("temp")).unwrap();
    fs::create_dir(sandbox.path("in")).unwrap();
    let get = || sandbox.get([&server.url("x"), "-o", "in/out", "--temp-dir", "temp"]);
    let running = get().spawn();
    server.wait_sent(4 * MIB as u64);
    assert_eq!(fs::read_dir(sandbox.path("in")).unwrap().count(), 0, "nothing beside the name");
    running.signal(Signal::INT);
    running.wait().exits(130);
    assert_eq!(fs::read_dir(sandbox.path("temp")).unwrap().count(), 2);
    is_over.store(true, Relaxed);
    let before = server.requests().len();
    get().run().succeeds();
    assert!(server.requests_from(before)[0].start() > 0, "it went on");
    assert!(sandbox.read("in/out") == *bytes);
    assert_eq!(sandbox.names(), ["in/", "in/out", "temp/"]);
    sandbox
        .get([&server.url("x"), "--temp-dir", "none"])
        .run()
        .fails(1, &["cannot use --temp-dir none: no such file"]);
}

#[test]
fn a_part_on_another_file_system() {
    let shm = Path::new("/dev/shm");
    let sandbox = Sandbox::new();
    let other = shm.metadata().is_ok_and(|there| there.dev() != sandbox.path(".").metadata().unwrap().dev());
    if !other {
        return skip("/dev/shm is no file system of its own");
    }
    let temp = tempfile::tempdir_in(shm).unwrap();
    let args = ["--temp-dir", temp.path().to_str().unwrap()];
    replaces(
        &args,
        |_, old| set_mode(old, 0o600),
        |sandbox, old, _| {
            assert_eq!((mode(old), sandbox.names()), (0o600, vec!["out".to_owned()]));
            assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
        },
    );
    let (server, bytes) = serve(3 * MIB);
    sandbox.get([&server.url("x"), "-o", "new", "--sync"]).args(&args).run().succeeds();
    assert!(sandbox.read("new") == bytes);
    assert_eq!((mode(&sandbox.path("new")) & 0o600, sandbox.names()), (0o600, vec!["new".to_owned()]));
}

#[test]
fn a_disk_that_fills_up_while_it_is_written_in_place_leaves_the_old_content() {
    let unshare = if is_root() { "-m" } else { "-rm" };
    let can = Command::new("unshare").args([unshare, "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        return skip("cannot make a mount namespace here");
    }
    let (server, _) = serve(3 * MIB);
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("small")).unwrap();
    fs::create_dir(sandbox.path("temp")).unwrap();
    let url = server.url("x");
    let script = format!(
        "mount -t tmpfs -o size=1m,mode=755 none small && echo old >small/out && ln small/out small/other && \
         {WEIR} get {url} -o small/out --temp-dir temp; code=$?; cat small/out; exit $code"
    );
    let run = sandbox.weir("unshare", [unshare, "sh", "-c", &script]).run();
    let words =
        ["cannot write in place small/out", "no space left", "nothing was written there", "temp/out."];
    run.fails(1, &words);
    assert_eq!(run.stdout, b"old\n");
    let kept = fs::read_dir(sandbox.path("temp")).unwrap().flatten();
    let kept: Vec<_> = kept.map(|file| file.metadata().unwrap().len()).collect();
    assert!(kept.contains(&(3 * MIB as u64)), "the complete download is kept: {kept:?}");
}

#[test]
fn a_copy_that_fails_leaves_nothing_beside_the_name() {
    let unshare = if is_root() { "-m" } else { "-rm" };
    let can = Command::new("unshare").args([unshare, "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        return skip("cannot make a mount namespace here");
    }
    let (server, _) = serve(3 * MIB);
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("small")).unwrap();
    fs::create_dir(sandbox.path("temp")).unwrap();
    let get = format!("{WEIR} get {} -o small/out --temp-dir temp", server.url("x"));
    let script = format!(
        "mount -t tmpfs -o size=1m,mode=755 none small && {get}; {get}; code=$?; \
         ls -A small; exit $code"
    );
    let run = sandbox.weir("unshare", [unshare, "sh", "-c", &script]).run();
    run.fails(4, &["cannot copy to small/out: no space left", "are kept for small/out"]);
    assert_eq!(String::from_utf8_lossy(&run.stdout), "", "nothing is left");
}

/// Another program makes the file while the body is held back, or none does.
#[test]
fn a_file_that_comes_meanwhile_is_not_clobbered() {
    let near = tempfile::tempdir().unwrap();
    // On most machines another file system.
    let far = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
    for length in SIZES {
        for temp in [None, Some(near.path()), Some(far.path())] {
            for comes in [true, false] {
                println!("{length} bytes, in {temp:?}, another comes: {comes}");
                held_back(length, temp, comes);
            }
        }
    }
}

/// Sends the second half of each answer when it may.
fn in_halves(object: Object, go_on: &Arc<AtomicBool>) -> Server {
    let go_on = Arc::clone(go_on);
    Server::start(move |request, wire| {
        let answer = object.answer(request);
        let (first, rest) = object.bytes[answer.part.clone()].split_at(answer.part.len() / 2);
        wire.head(answer.status, &answer.fields)?;
        wire.body(first)?;
        wait_for("the other program", || go_on.load(Relaxed));
        wire.body(rest)
    })
}

fn held_back(length: usize, temp: Option<&Path>, comes: bool) {
    let object = Object::new(length);
    let expected = if comes { b"theirs".to_vec() } else { object.bytes.to_vec() };
    let go_on = Arc::new(AtomicBool::new(false));
    let server = in_halves(object, &go_on);
    let sandbox = Sandbox::new();
    let mut get = sandbox.get([&server.url("x"), "-o", "out", "--no-clobber", "--json", "-c", "1"]);
    if let Some(temp) = temp {
        get = get.args(&["--temp-dir", temp.to_str().unwrap()]);
    }
    let running = get.spawn();
    server.wait_sent(length as u64 / 2);
    if comes {
        sandbox.write("out", "theirs");
    }
    go_on.store(true, Relaxed);
    let record = running.wait().succeeds().json();
    assert_eq!(record["files"][0]["skipped"].as_bool().unwrap_or(false), comes, "{record}");
    assert!(sandbox.read("out") == expected);
    assert_eq!(sandbox.names(), ["out"]);
    assert!(temp.is_none_or(|temp| fs::read_dir(temp).unwrap().count() == 0), "nothing is left there");
}

#[test]
fn a_part_that_was_removed_is_not_said_to_be_replaced() {
    let go_on = Arc::new(AtomicBool::new(false));
    let server = in_halves(Object::new(3 * MIB), &go_on);
    let sandbox = Sandbox::new();
    let running = sandbox.get([&server.url("x"), "-o", "out", "-c", "1"]).spawn();
    // With the first bytes on its way it is past the looks that a claim takes.
    wait_for("a part", || fs::metadata(sandbox.path("out.part")).is_ok_and(|part| part.blocks() > 0));
    fs::remove_file(sandbox.path("out.part")).unwrap();
    go_on.store(true, Relaxed);
    running.wait().fails(1, &["cannot rename to out: out.part was removed"]);
    assert!(!sandbox.path("out").exists());
}

/// Browsers and other fetchers call theirs so, too: without a journal of weir's it is nobody's to write over,
/// whoever may read it.
#[test]
fn another_programs_part_is_kept() {
    let mut content = vec![7; 5000];
    for length in SIZES {
        for mode in [0o600, 0o644] {
            let (server, bytes) = serve(length);
            let sandbox = Sandbox::new();
            let theirs = sandbox.write("out.part", &content);
            set_mode(&theirs, mode);
            // A file that is small and new never has a part's name; one that replaces another has.
            for run in 0..2 {
                sandbox.get([&server.url("x"), "-o", "out"]).run().succeeds();
                assert!(sandbox.read("out") == bytes, "{length}, run {run}");
                assert!(fs::read(&theirs).unwrap() == content, "{length}, {mode:o}, run {run}");
                assert_eq!(fs::metadata(&theirs).unwrap().mode() & 0o777, mode);
                assert_eq!(sandbox.names().len(), 2, "{:?}", sandbox.names());
            }
            content.push(1);
        }
    }
}

/// What weir began is its own: a part at which it was killed before there was a journal is used again.
#[test]
fn a_part_of_weirs_own_without_a_journal_is_used() {
    let (server, bytes) = serve(3 * MIB);
    for (mark, size) in [(Some("user.weir.part"), 5000), (None, 0)] {
        let sandbox = Sandbox::new();
        let left = sandbox.write("out.part", vec![7; size]);
        set_mode(&left, 0o600);
        if let Some(mark) = mark
            && setxattr(&left, mark, b"1", XattrFlags::empty()).is_err()
        {
            skip("no extended attributes here");
            continue;
        }
        sandbox.get([&server.url("x"), "-o", "out"]).run().succeeds();
        assert!(sandbox.read("out") == bytes);
        assert_eq!(sandbox.names(), ["out"]);
        let marked = getxattr(sandbox.path("out"), "user.weir.part", &mut [0_u8; 8]);
        assert!(marked.is_err(), "the complete file has no mark");
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_end() {
    let (server, _) = serve(3 * MIB);
    let sandbox = Sandbox::new();
    set_mode(&sandbox.write("out", "old"), 0o600);
    let script = format!("ulimit -f 1000; exec {WEIR} get {} -o out", server.url("x"));
    sandbox.weir("bash", ["-c", &script]).run().fails(1, &["out", "file too large"]);
    assert_eq!(sandbox.read("out"), b"old");
}
