//! `-o` onto a pipe or a device: bytes go through it in order, and it stays what it is.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs::{File, symlink_metadata};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::process::Signal;
use support::{MIB, Object, Sandbox, Server, TIMEOUT, WEIR, pattern, skip, wait_for};

fn serve(object: Object) -> Server {
    Server::start(move |request, wire| object.serve(request, wire))
}

/// What comes out of the pipe at `path`, up to `most` bytes.
fn reading(path: &Path, most: u64) -> Receiver<Vec<u8>> {
    let (path, (done, out)) = (path.to_owned(), channel());
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        File::open(path).unwrap().take(most).read_to_end(&mut bytes).unwrap();
        let _ = done.send(bytes);
    });
    out
}

#[test]
fn a_pipe_gets_the_bytes_in_order_from_several_lanes() {
    for size in [1000, 5 * MIB + 7] {
        let server = serve(Object::new(size));
        let sandbox = Sandbox::new();
        sandbox.pipe("pipe");
        let came = reading(&sandbox.path("pipe"), u64::MAX);
        let run = sandbox.get([&server.url("x.bin"), "-o", "pipe", "-c", "3", "--json"]).run();
        assert_eq!(run.succeeds().json()["files"][0]["path"], "pipe");
        assert!(came.recv_timeout(TIMEOUT).unwrap() == pattern(size, 1));
        assert!(symlink_metadata(sandbox.path("pipe")).unwrap().file_type().is_fifo());
        assert_eq!(sandbox.names(), ["pipe"], "nothing is left beside it");
    }
}

#[test]
fn a_pipe_behind_a_link() {
    let server = serve(Object::new(MIB));
    let sandbox = Sandbox::new();
    sandbox.pipe("pipe");
    std::os::unix::fs::symlink("pipe", sandbox.path("link")).unwrap();
    let came = reading(&sandbox.path("pipe"), u64::MAX);
    sandbox.get([&server.url("x.bin"), "-o", "link"]).run().succeeds();
    assert!(came.recv_timeout(TIMEOUT).unwrap() == pattern(MIB, 1));
    assert_eq!(sandbox.names(), ["link", "pipe"]);
}

#[test]
fn a_pipe_without_a_reader_is_waited_for_and_can_be_left() {
    let server = serve(Object::new(MIB));
    let sandbox = Sandbox::new();
    sandbox.pipe("pipe");
    let running = sandbox.get([&server.url("x.bin"), "-o", "pipe"]).spawn();
    server.wait("the request", |_, requests| !requests.is_empty());
    running.signal(Signal::INT);
    running.wait().exits(130);
}

#[test]
fn a_reader_that_sleeps_does_not_keep_it_from_ending() {
    let server = serve(Object::new(32 * MIB));
    let sandbox = Sandbox::new();
    sandbox.pipe("pipe");
    for (name, redirect) in [("pipe", ""), ("-", " > pipe")] {
        let sleeper = File::options().read(true).write(true).open(sandbox.path("pipe")).unwrap();
        let before = server.requests().len();
        let line = format!("exec \"$0\" get {} -o {name}{redirect}", server.url("x.bin"));
        let running = sandbox.weir("sh", ["-c", &line, WEIR]).spawn();
        server.wait("the request", |_, requests| requests.len() > before);
        // All that the pipe takes is in it, and no more goes.
        wait_for("a full pipe", || held(&sleeper) >= MIB);
        running.signal(Signal::TERM);
        running.wait().exits(130);
    }
}

/// Bytes in a pipe.
fn held(pipe: &File) -> usize {
    rustix::io::ioctl_fionread(pipe).unwrap() as usize
}

#[test]
fn a_pipe_that_its_reader_closes() {
    let server = serve(Object::new(32 * MIB));
    let sandbox = Sandbox::new();
    sandbox.pipe("pipe");
    let came = reading(&sandbox.path("pipe"), 10);
    let run = sandbox.get([&server.url("x.bin"), "-o", "pipe"]).run();
    run.fails(1, &["pipe was closed by its reader"]);
    assert_eq!(came.recv_timeout(TIMEOUT).unwrap(), pattern(MIB, 1)[..10]);
}

#[test]
fn a_wrong_digest_says_that_the_bytes_are_gone() {
    let server = serve(Object::new(1000));
    let sandbox = Sandbox::new();
    let wrong = "crc32c:00000000";
    let run = sandbox.get([&server.url("x.bin"), "-o", "-", "--checksum", wrong]).run();
    run.says(&["the bytes have already been passed on"]);
    let run = sandbox.get([&server.url("x.bin"), "-o", "out", "--checksum", wrong]).run();
    run.says(&["the bytes were discarded"]);
    sandbox.has_nothing_of("out");
}

#[test]
fn a_null_device_stays_one() {
    let sandbox = Sandbox::new();
    let null = sandbox.path("null");
    if mknodat(CWD, &null, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 3)).is_err()
        || File::options().write(true).open(&null).is_err()
    {
        return skip("making a device needs root, and a file system that allows devices");
    }
    for size in [1000, 5 * MIB] {
        let server = serve(Object::new(size));
        sandbox.get([&server.url("x.bin"), "-o", "null"]).run().succeeds();
        let kind = symlink_metadata(&null).unwrap().file_type();
        assert!(kind.is_char_device(), "{kind:?}");
        assert_eq!(sandbox.names(), ["null"]);
    }
}

/// What nobody can read is no failure of the download; what is for stdout is.
#[test]
fn a_stderr_that_takes_nothing() {
    let server = serve(Object::new(1000));
    let sandbox = Sandbox::new();
    for (line, code) in [("2> /dev/full", 0), ("-v 2> /dev/full", 0), ("-o - > /dev/full", 1)] {
        let line = format!("exec \"$0\" get {} {line}", server.url("x.bin"));
        sandbox.weir("sh", ["-c", &line, WEIR]).run().exits(code);
    }
    assert!(sandbox.read("x.bin") == pattern(1000, 1));
    assert_eq!(sandbox.names(), ["x.bin"]);
}

#[test]
fn a_socket_is_refused_and_stays() {
    let server = serve(Object::new(MIB));
    let sandbox = Sandbox::new();
    let _listener = UnixListener::bind(sandbox.path("socket")).unwrap();
    let run = sandbox.get([&server.url("x.bin"), "-o", "socket"]).run();
    run.fails(1, &["it is a socket"]);
    assert!(symlink_metadata(sandbox.path("socket")).unwrap().file_type().is_socket());
    assert_eq!(server.requests_from(0).len(), 0, "nothing was asked for");
}

/// As `cat` has it: one behind the other, whatever their sizes, and nothing behind the first that fails.
#[test]
fn several_go_to_stdout_in_their_order() {
    let object = Object::new(3 * MIB);
    let server = Server::start(move |request, wire| match request.path() {
        "/none" => wire.answer("404 Not Found", &[], b""),
        "/large" => object.serve(request, wire),
        path => wire.answer("200 OK", &[], path.as_bytes()),
    });
    let sandbox = Sandbox::new();
    let [large, small, none] = ["large", "small", "none"].map(|name| server.url(name));
    let both = [pattern(3 * MIB, 1), b"/small".to_vec()].concat();
    sandbox.write("list", format!("{large}\n{small}\n"));
    for args in [
        &[&*large, &small, "-o", "-"][..],
        &["-o", "-", "-o", "-", &large, &small],
        &["-i", "list", "-o", "-", "-c", "3", "-j", "3"],
    ] {
        assert!(sandbox.get(args).run().succeeds().stdout == both, "{args:?}");
    }
    let before = server.requests().len();
    let run = sandbox.get([&*small, &none, &large, "-o", "-"]).run();
    run.fails(1, &["404", "stdout gets nothing behind the first failure; files not begun: 1"])
        .hides("to resume");
    assert_eq!(run.stdout, b"/small");
    assert!(server.requests_from(before).iter().all(|request| request.path() != "/large"));
    assert_eq!(sandbox.names(), ["list"]);
}
