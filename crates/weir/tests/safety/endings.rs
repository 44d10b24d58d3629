//! How commands end that nobody listens to any more, that are asked twice, or that wait for what never comes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use rustix::process::Signal;
use support::{MIB, Object, Sandbox, Server, WEIR, pattern, skip, wait_for};

use crate::same_version::vouch_for_all;

/// Its reader is gone.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn what_nobody_reads_ends_in_silence() {
    let sandbox = Sandbox::new();
    for args in [
        &["completions", "bash"][..],
        &["lab", "list"],
        &["lab", "show", "b1"],
        &["plan", "--link", "1Gbit", "--rtt", "9ms"],
        &["version"],
        &["--version"],
        &["get", "--help"],
    ] {
        let run = sandbox.weir(WEIR, args).stdout(closed_pipe()).run();
        run.exits(141);
        assert_eq!(run.stderr, "", "{args:?}");
    }
}

#[test]
fn what_cannot_be_printed_is_a_failure() {
    let sandbox = Sandbox::new();
    for words in ["version", "--version", "--help", "help get"] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let run = sandbox.weir(WEIR, words.split(' ')).stdout(full).run();
        run.fails(1, &["weir: cannot print the ", "no space left on device"]);
    }
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(MIB, 1));
    let mut copy = sandbox.weir(WEIR, ["cp", "-vv", "a", "b"]);
    copy.command.stderr(OpenOptions::new().write(true).open("/dev/full").unwrap());
    // Whatever it says of the words that it could not say, it has done its work.
    assert_ne!(copy.command.status().unwrap().code(), Some(101));
    assert!(sandbox.read("b") == pattern(MIB, 1));
}

#[test]
fn a_signal_that_comes_twice_is_one() {
    let object = Object::new(8 * MIB).rate(8 << 20);
    let server = Server::start(move |request, wire| {
        // No answer comes to its end before the signals are heard.
        object.serve_up_to(request, wire, object.answer(request).part.len() * 5 / 8)?;
        wire.wait_for_close()
    });
    let sandbox = Sandbox::new();
    let running = sandbox.get([&server.url("x"), "-o", "out"]).spawn();
    server.wait_sent(MIB as u64);
    // As timeout(1) does: to the process, and to its group.
    running.signal(Signal::TERM);
    running.signal(Signal::TERM);
    running.wait().fails(130, &["run the same command again to resume"]);
}

#[test]
fn a_digest_that_takes_an_hour_can_be_interrupted() {
    // No machine reads so much while the test waits.
    const SIZE: u64 = 4 << 40;
    const LAST: u64 = SIZE - 1;
    let server = Server::start(|_, wire| {
        let range = format!("bytes {LAST}-{LAST}/{SIZE}");
        let fields = [("Content-Range", &*range), ("ETag", "\"one\"")];
        wire.answer("206 Partial Content", &fields, &[7])
    });
    let sandbox = Sandbox::new();
    let part = sandbox.write("out.part", "");
    let part = File::options().read(true).write(true).open(part).unwrap();
    if part.set_len(SIZE).is_err() {
        return skip("no file system for so large a file, though it is all hole");
    }
    vouch_for_all(&sandbox.path("out.part"), &server.url("x"), SIZE);
    let checksum = format!("sha512:{}", "0".repeat(128));
    let running = sandbox.get([&server.url("x"), "-o", "out", "--checksum", &checksum]).spawn();
    // All is there then, and only the digest is left.
    wait_for("the last byte", || {
        let mut last = [0];
        part.read_exact_at(&mut last, LAST).is_ok() && last == [7]
    });
    wait_for("its handler", || running.catches(Signal::INT));
    running.signal(Signal::INT);
    running.wait().fails(130, &["run the same command again to resume"]);
    assert_eq!(sandbox.names(), ["out.part", "out.weir"]);
    assert_eq!(sandbox.journalled("out"), SIZE);
}

#[test]
fn a_list_that_never_comes_can_be_interrupted() {
    let sandbox = Sandbox::new();
    sandbox.pipe("list");
    let mut get = sandbox.get(["-i", "list"]);
    let mut child = get.command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Nobody listens to signals yet, and SIGINT is ignored where a shell started this in the background.
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_list_of_names_that_never_comes_can_be_interrupted() {
    let sandbox = Sandbox::new();
    sandbox.pipe("list");
    std::fs::create_dir(sandbox.path("from")).unwrap();
    sandbox.write("from/x", "text");
    let copy = sandbox.weir(WEIR, ["cp", "--files-from", "list", "from", "copy"]).spawn();
    wait_for("a handler", || copy.catches(Signal::INT));
    copy.signal(Signal::INT);
    copy.wait().fails(130, &["interrupted"]);
    // One that comes late is read.
    let copy = sandbox.weir(WEIR, ["cp", "--files-from", "list", "from", "copy"]).spawn();
    let list = sandbox.path("list");
    // Waits for whoever reads it.
    std::thread::spawn(move || std::fs::write(list, "x\n"));
    copy.wait().succeeds();
    assert_eq!(sandbox.read("copy/x"), b"text");
}

#[test]
fn a_pipe_that_is_named_as_a_source_has_failed() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.pipe("folder/pipe");
    sandbox.weir(WEIR, ["cp", "folder", "copy"]).run().succeeds().says(&["copy/pipe is a named pipe"]);
    sandbox
        .weir(WEIR, ["cp", "folder/pipe", "there"])
        .run()
        .fails(1, &["is a named pipe and is not copied", "folder/pipe"]);
}

#[test]
fn a_netrc_without_end_is_not_read() {
    let server = Server::start(|request, wire| Object::new(5).serve(request, wire));
    let sandbox = Sandbox::new();
    sandbox.pipe("pipe");
    let huge = File::create(sandbox.path("huge")).unwrap();
    huge.set_len(3 << 20).unwrap();
    for (netrc, says) in
        [("/dev/zero", "it is no file"), ("pipe", "it is no file"), ("huge", "it is longer than")]
    {
        let run = sandbox.get([&server.url("x"), "-o", "out"]).env("NETRC", netrc).run();
        run.succeeds().says(&[&format!("{netrc} is not used: {says}")]);
        std::fs::remove_file(sandbox.path("out")).unwrap();
    }
}

#[test]
fn a_file_without_end_is_refused() {
    let sandbox = Sandbox::new();
    let cases: [(&[&str], i32, &str); 6] = [
        (&["lab", "run", "/dev/zero"], 2, "larger than 1.00 MB"),
        (&["lab", "show", "/dev/zero", "--file"], 2, "larger than 1.00 MB"),
        (&["bench", "http", "-s", "/dev/zero", "http://127.0.0.1:9/"], 1, "larger than 16.0 MB"),
        (
            &["bench", "net", "-c", "127.0.0.1", "--username", "u", "--rsa-public-key-path", "/dev/zero"],
            1,
            "larger than 1.00 MB",
        ),
        (&["plan", "--codec-table", "/dev/zero", "--link", "1Gbit"], 2, "larger than 1.00 MB"),
        (&["get", "-i", "/dev/zero"], 1, "it holds no lines of text"),
    ];
    for (args, code, says) in cases {
        sandbox.weir(WEIR, args).run().fails(code, &["/dev/zero", says]);
    }
}

#[test]
fn a_stdout_that_is_closed_takes_nothing() {
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], b"the bytes"));
    let sandbox = Sandbox::new();
    sandbox.write("a", "text");
    let fetch = format!("get {} -o -", server.url("x"));
    for (words, said) in [
        ("version", "cannot print the version: stdout is closed"),
        ("--version", "cannot print the version: stdout is closed"),
        ("--help", "cannot print the help: stdout is closed"),
        ("cp -n a b", "cannot print the changes: stdout is closed"),
        (&*fetch, "stdout is closed"),
    ] {
        let script = format!("exec {WEIR} {words} >&-");
        sandbox.weir("sh", ["-c", &script]).run().fails(1, &[said]);
    }
    // Nothing is printed by a copy.
    sandbox.weir("sh", ["-c", &format!("exec {WEIR} cp a b >&-")]).run().succeeds();
    // Where a server listens was asked for by --listen.
    let script = format!("exec {WEIR} serve . --listen 127.0.0.1:0 >&-");
    let serve = sandbox.weir("sh", ["-c", &script]).spawn();
    wait_for("its handler", || serve.catches(Signal::TERM));
    serve.signal(Signal::TERM);
    serve.wait().succeeds();
}

#[test]
fn a_signal_that_was_blocked_is_heard_all_the_same() {
    let args = ["--block-signal=TERM", WEIR, "serve", ".", "--listen", "127.0.0.1:0"];
    let sandbox = Sandbox::new();
    let serve = sandbox.weir("env", args).spawn();
    wait_for("its handler", || serve.catches(Signal::TERM));
    serve.signal(Signal::TERM);
    serve.wait().succeeds();
}

/// As a shell has it for what a script runs in the background.
#[test]
fn a_signal_that_was_ignored_interrupts_nothing() {
    let object = Object::new(MIB).rate(2 << 20);
    let server = Server::start(move |request, wire| object.serve(request, wire));
    let sandbox = Sandbox::new();
    let ignoring = "trap '' INT; exec \"$@\"";
    let url = server.url("x");
    let get = sandbox.weir("sh", ["-c", ignoring, "sh", WEIR, "get", &url, "-o", "out"]).spawn();
    wait_for("its handler", || get.catches(Signal::TERM));
    assert!(!get.catches(Signal::INT));
    get.signal(Signal::INT);
    get.wait().succeeds();
}

#[test]
fn a_folder_that_was_deleted_is_named_as_the_cause() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "text");
    let script = format!("mkdir gone && cd gone && rmdir ../gone && exec {WEIR} cp ../a x");
    sandbox.weir("sh", ["-c", &script]).run().fails(1, &["the folder that this ran in was deleted"]);
}

#[test]
fn changes_that_cannot_be_printed_are_a_failure_and_the_copy_is_made() {
    for (flag, is_copied) in [("-v", true), ("--itemize-changes", true), ("-n", false)] {
        let sandbox = Sandbox::new();
        sandbox.write("a", "text");
        let copy = |stdout: Stdio| sandbox.weir(WEIR, ["cp", flag, "a", "b"]).stdout(stdout).run();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        copy(full.into()).fails(1, &["cannot print the changes: no space left on device"]);
        assert_eq!(sandbox.path("b").exists(), is_copied, "{flag}");
        let _ = std::fs::remove_file(sandbox.path("b"));
        copy(closed_pipe()).exits(141);
        assert_eq!(sandbox.path("b").exists(), is_copied, "{flag}");
    }
}
