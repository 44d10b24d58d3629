//! Places that cannot be written, journals that cannot be believed, interruptions: said clearly, and what
//! came is kept.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::process::Signal;
use support::{MIB, Object, Request, Run, Running, Sandbox, Server, Weir, pattern, skip};
use weir_get::journal::Journal;

/// Who is not root: permissions hold for them.
const NOBODY: u32 = 65534;

/// `weir get` by somebody for whom permissions hold; `None` where this test cannot be somebody else.
fn get_as_nobody(sandbox: &Sandbox, args: &[&str]) -> Option<Weir> {
    let mut get = sandbox.get(args);
    if rustix::process::geteuid().is_root() {
        get.command.uid(NOBODY).gid(NOBODY);
        // Whether nobody may run the binary where it lies shows in trying.
        let mut version = sandbox.weir(support::WEIR, ["--version"]).command;
        if !version.uid(NOBODY).gid(NOBODY).status().is_ok_and(|status| status.success()) {
            skip("root cannot run the binary as another user here");
            return None;
        }
    }
    Some(get)
}

/// Hands a path to [`NOBODY`] where this test is root.
fn hand_over(path: &Path, mode: u32) {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A good server of `length` bytes.
fn serve(length: usize) -> Server {
    let object = Object::new(length);
    Server::start(move |request, wire| object.serve(request, wire))
}

#[test]
fn a_folder_that_cannot_be_written() {
    for length in [1000, 2 * MIB] {
        let server = serve(length);
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("locked")).unwrap();
        hand_over(&sandbox.path("."), 0o755);
        hand_over(&sandbox.path("locked"), 0o555);
        let Some(get) = get_as_nobody(&sandbox, &[&server.url("x"), "-o", "locked/out"]) else { return };
        get.run().fails(1, &["cannot ", "locked/out", "permission denied"]);
        assert_eq!(sandbox.names(), ["locked/"]);
    }
}

#[test]
fn a_folder_that_is_not_there() {
    for length in [1000, 2 * MIB] {
        let server = serve(length);
        let sandbox = Sandbox::new();
        let run = sandbox.get([&server.url("x"), "-o", "nowhere/out"]).run();
        run.fails(2, &["cannot ", "nowhere/out", "no folder nowhere"]);
        assert_eq!(sandbox.names(), [""; 0]);
    }
}

#[test]
fn a_target_that_is_a_directory() {
    let server = serve(1000);
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("out")).unwrap();
    let run = sandbox.get([&server.url("x"), "-o", "out"]).run();
    run.fails(1, &["out is a directory; add a '/' to save into it"]);
    assert_eq!(server.requests().len(), 0, "that shows before anything is asked");
    std::fs::create_dir(sandbox.path("x")).unwrap();
    sandbox.get([&server.url("x")]).run().fails(1, &["x is a directory"]);
    assert_eq!(sandbox.names(), ["out/", "x/"]);
}

/// Runs `weir get URL -o full/out` with `full` a file system of 3 MiB; stdout then lists what is left there.
fn on_a_full_disk(server: &Server) -> Option<Run> {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("full")).unwrap();
    const SCRIPT: &str = "mount -t tmpfs -o size=3m none full || exit 99
        \"$0\" get \"$1\" -o full/out; code=$?; ls full; exit $code";
    let unshare = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    let run = sandbox.weir("unshare", [unshare, "sh", "-c", SCRIPT, support::WEIR, &server.url("x")]).run();
    if run.status.code() == Some(99) || run.stderr.contains("unshare") {
        skip(&format!("no small file system can be mounted here: {}", run.stderr.trim()));
        return None;
    }
    Some(run)
}

#[test]
fn a_disk_without_room_is_noticed_before_the_download() {
    let server = serve(8 * MIB);
    let Some(run) = on_a_full_disk(&server) else { return };
    run.fails(1, &["full/out", "no space left on device: 8.39 MB needed, ", " free"]);
    assert_eq!(String::from_utf8_lossy(&run.stdout), "", "nothing is left");
    assert!(server.sent() < 8 * MIB as u64);
}

#[test]
fn a_disk_that_becomes_full() {
    let server = Server::start(|_, wire| {
        wire.head("200 OK", &[("Connection", "close")])?;
        wire.body(&pattern(8 * MIB, 1))?;
        wire.close()
    });
    let Some(run) = on_a_full_disk(&server) else { return };
    run.fails(1, &["cannot write full/out", "no space left on device"]);
    assert_eq!(String::from_utf8_lossy(&run.stdout), "", "a file of unknown length cannot be gone on with");
}

#[test]
fn stdout_on_a_full_disk() {
    let server = serve(2 * MIB);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let sandbox = Sandbox::new();
    sandbox
        .get([&server.url("x"), "-o", "-"])
        .stdout(full)
        .run()
        .fails(1, &["stdout", "no space left on device"]);
}

/// A download that was broken off with a journal, and the server that can complete it.
struct BrokenOff {
    sandbox: Sandbox,
    server: Server,
    bytes: Arc<Vec<u8>>,
    journalled: Journal,
    before: usize,
}

impl BrokenOff {
    /// Interrupts a download of 8 MiB, paced to take a second on one connection, when half of it has been
    /// sent.
    fn new(signal: Signal, args: &[&str]) -> BrokenOff {
        BrokenOff::at(4 * MIB, signal, args)
    }

    /// Interrupts it when this many bytes have been sent.
    fn at(sent: usize, signal: Signal, args: &[&str]) -> BrokenOff {
        let object = Object::new(8 * MIB).rate(8 << 20);
        let bytes = object.bytes.clone();
        let fast = Arc::new(AtomicBool::new(false));
        let flag = fast.clone();
        let server = Server::start(move |request, wire| match flag.load(Relaxed) {
            false => {
                // A little more, and no end before the signal is heard.
                let part = object.answer(request).part.len();
                let most = part * (sent + MIB) / (8 * MIB);
                object.serve_up_to(request, wire, most)?;
                if most < part { wire.wait_for_close() } else { Ok(()) }
            }
            true => Object { rate: None, ..object.clone() }.serve(request, wire),
        });
        let sandbox = Sandbox::new();
        let running = sandbox.get([&server.url("x?q=1"), "-o", "out"]).args(args).spawn();
        server.wait_sent(sent as u64);
        running.signal(signal);
        let run = running.wait();
        assert_eq!(run.status.code(), (signal != Signal::KILL).then_some(130), "{}", run.stderr);
        assert_eq!(sandbox.names(), ["out.part", "out.weir"]);
        fast.store(true, Relaxed);
        let journalled = Journal::read(&sandbox.path("out.weir")).unwrap().unwrap();
        let before = server.requests().len();
        BrokenOff { sandbox, server, bytes, journalled, before }
    }

    /// Bytes that the journal covers.
    fn kept(&self) -> usize {
        self.journalled.written.iter().map(|(start, end)| (end - start) as usize).sum()
    }

    fn get(&self) -> Weir {
        self.sandbox.get([&self.server.url("x?q=1"), "-o", "out"])
    }

    /// The same command completes the file.
    #[track_caller]
    fn completes(&self) -> Run {
        let run = self.get().run();
        run.succeeds();
        assert!(self.sandbox.read("out") == *self.bytes, "wrong bytes");
        assert_eq!(self.sandbox.names(), ["out"]);
        run
    }

    fn requests(&self) -> Vec<Request> {
        self.server.requests_from(self.before)
    }

    /// No byte that the journal covers is asked for again.
    #[track_caller]
    fn asks_for_nothing_twice(&self) {
        let size = self.bytes.len() as u64;
        for request in self.requests() {
            let (start, end) = request.range().unwrap_or((0, None));
            let asked = start..end.unwrap_or(size);
            for &(from, to) in &self.journalled.written {
                let twice = asked.start.max(from)..asked.end.min(to);
                assert!(
                    twice.is_empty(),
                    "{asked:?} asks again for {twice:?} of {:?}",
                    self.journalled.written
                );
            }
        }
    }
}

#[test]
fn sigint_and_sigterm_keep_what_came() {
    for signal in [Signal::INT, Signal::TERM] {
        for lanes in ["1", "3"] {
            let broken = BrokenOff::new(signal, &["-c", lanes]);
            assert!(broken.kept() >= MIB, "{} bytes kept of 4 MiB sent", broken.kept());
            broken.completes();
            broken.asks_for_nothing_twice();
        }
    }
}

#[test]
fn an_interruption_journals_all_that_came() {
    for halves in [7, 9, 11] {
        let sent = halves * MIB / 2;
        let broken = BrokenOff::at(sent, Signal::INT, &["-c", "1"]);
        // What is written stands in the journal, but for a piece in hand: without a last journal the 250 ms
        // (2 MiB) since the one before would not. How much of what was sent has come is the machine's to say.
        let part = broken.sandbox.read("out.part");
        let after = (broken.kept() + (256 << 10)).min(part.len());
        let is_there = part[after..].iter().any(|byte| *byte != 0);
        assert!(!is_there, "of {sent} sent some was written and not journalled after {}", broken.kept());
        assert!(broken.kept() >= MIB, "{} bytes kept of {sent} sent", broken.kept());
    }
}

#[test]
fn an_interruption_says_what_to_do() {
    let object = Object::new(8 * MIB).rate(8 << 20);
    let server = Server::start(move |request, wire| {
        // No answer comes to its end before the signal is heard.
        let most = object.answer(request).part.len() * 5 / 8;
        object.serve_up_to(request, wire, most)?;
        wire.wait_for_close()
    });
    let sandbox = Sandbox::new();
    let running = sandbox.get([&server.url("x"), "-o", "out", "--json"]).spawn();
    server.wait_sent(4 * MIB as u64);
    running.signal(Signal::INT);
    let run = running.wait();
    run.fails(130, &["interrupted", "kept"]);
    assert_eq!(run.json()["outcome"], "partial");
    assert!(run.json()["files"][0]["error"].as_str().unwrap().contains("interrupted"));
}

#[test]
fn sigint_ends_a_connection_that_stalls() {
    let quiet = |server: &Server, url: &str| {
        let sandbox = Sandbox::new();
        let running = sandbox.get([url, "-o", "out", "--timeout", "600"]).spawn();
        server.wait("the request", |_, requests| !requests.is_empty());
        running.signal(Signal::INT);
        running.wait().exits(130);
        sandbox.has_nothing_of("out");
    };
    let server = Server::start(|_, wire| wire.wait_for_close());
    quiet(&server, &server.url("x"));
    let server = Server::start(|request, wire| {
        wire.head("200 OK", &[("Content-Length", 4 * MIB)])?;
        wire.body(&pattern(100 * (request.number + 1), 1))?;
        wire.wait_for_close()
    });
    quiet(&server, &server.url("x"));
}

#[test]
fn sigint_ends_a_tls_handshake_that_stalls() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sandbox = Sandbox::new();
    let url = format!("https://{}/x", listener.local_addr().unwrap());
    let running = sandbox.get([&*url, "-o", "out", "--timeout", "600"]).spawn();
    let (mut socket, _) = listener.accept().unwrap();
    assert!(socket.read(&mut [0; 100]).unwrap() > 0, "the client's hello");
    running.signal(Signal::INT);
    running.wait().exits(130);
    sandbox.has_nothing_of("out");
}

#[test]
fn sigint_ends_a_pause_before_another_attempt() {
    let server =
        Server::start(|_, wire| wire.answer("503 Service Unavailable", &[("Retry-After", "600")], b""));
    let sandbox = Sandbox::new();
    let running = sandbox.get([&server.url("x"), "-o", "out"]).spawn();
    server.wait("the request", |_, requests| !requests.is_empty());
    running.signal(Signal::INT);
    running.wait().exits(130);
}

/// `x`, whose first answer waits in its middle until it may go on; and `other` under all other names.
fn held_in_the_middle(object: Object, other: Object, goes_on: &Arc<AtomicBool>) -> Server {
    let goes_on = Arc::clone(goes_on);
    Server::start(move |request, wire| {
        if request.target != "/x" {
            return other.serve(request, wire);
        }
        if request.number > 0 {
            return object.serve(request, wire);
        }
        object.serve_up_to(request, wire, 3 * MIB)?;
        support::wait_for("it may go on", || goes_on.load(Relaxed));
        wire.body(&object.bytes[3 * MIB..])
    })
}

#[test]
fn a_second_weir_on_one_file_says_so() {
    let object = Object::new(6 * MIB).rate(64 << 20);
    let (bytes, goes_on) = (object.bytes.clone(), Arc::new(AtomicBool::new(false)));
    let server = held_in_the_middle(object.clone(), object, &goes_on);
    let sandbox = Sandbox::new();
    let first = sandbox.get([&server.url("x"), "-o", "out"]).spawn();
    server.wait_sent(2 * MIB as u64);
    let second = sandbox.get([&server.url("x"), "-o", "out"]).run();
    second.fails(1, &["out is being written by another weir"]);
    goes_on.store(true, Relaxed);
    first.wait().succeeds();
    assert!(sandbox.read("out") == *bytes);
    assert_eq!(sandbox.names(), ["out"]);
}

#[test]
fn a_second_weir_on_one_file_that_wants_another_object() {
    let object = Object::new(6 * MIB).rate(64 << 20);
    let (bytes, goes_on) = (object.bytes.clone(), Arc::new(AtomicBool::new(false)));
    let server = held_in_the_middle(object.clone(), object.changed(), &goes_on);
    let sandbox = Sandbox::new();
    let first = sandbox.get([&server.url("x"), "-o", "out"]).spawn();
    server.wait_sent(2 * MIB as u64);
    for args in [&[][..], &["--force"]] {
        let second = sandbox.get([&server.url("y"), "-o", "out"]).args(args).run();
        second.fails(1, &["out is being written by another weir"]);
    }
    goes_on.store(true, Relaxed);
    first.wait().succeeds();
    assert!(sandbox.read("out") == *bytes);
}

#[test]
fn a_damaged_journal_begins_again() {
    for (damage, cause) in [
        (&(|text: &mut Vec<u8>| text.truncate(text.len() / 2)) as &dyn Fn(&mut Vec<u8>), "is damaged"),
        (&|text| text.clear(), "is damaged"),
        (&|text| *text.last_mut().unwrap() ^= 1, "its checksum does not match"),
        (&|text| *text = b"\0\xff binary \n\n".to_vec(), "is damaged"),
        (
            &|text| *text = b"weir-journal 0 crc32c=00000000\n{}".to_vec(),
            "version 0, this weir reads version 2",
        ),
        (
            &|text| *text = b"weir-journal 99 crc32c=00000000\n{}".to_vec(),
            "version 99, this weir reads version 2",
        ),
    ] {
        let broken = BrokenOff::new(Signal::INT, &["-c", "1"]);
        let mut text = broken.sandbox.read("out.weir");
        damage(&mut text);
        broken.sandbox.write("out.weir", text);
        broken.completes().says(&["out", cause, "starting again"]);
        assert_eq!(broken.requests()[0].start(), 0);
    }
}

#[test]
fn a_journal_of_another_url_begins_again() {
    let broken = BrokenOff::new(Signal::INT, &["-c", "1"]);
    let run = broken.sandbox.get([&broken.server.url("y"), "-o", "out"]).run();
    run.succeeds().says(&["out", "another url", "starting again"]);
    assert!(broken.sandbox.read("out") == *broken.bytes);
    assert_eq!(broken.requests()[0].start(), 0);
    // What came from the other one is not this one's to throw away.
    assert_eq!(broken.sandbox.names(), ["out", "out.part.aside-1", "out.weir.aside-1"]);
    // A query may be new in each run.
    let broken = BrokenOff::new(Signal::INT, &["-c", "1"]);
    broken.sandbox.get([&broken.server.url("x?signature=2"), "-o", "out"]).run().succeeds();
    assert_eq!(broken.sandbox.names(), ["out"]);
}

#[test]
fn a_part_file_of_another_size_begins_again() {
    let broken = BrokenOff::new(Signal::INT, &["-c", "1"]);
    std::fs::File::options()
        .write(true)
        .open(broken.sandbox.path("out.part"))
        .unwrap()
        .set_len(1000)
        .unwrap();
    broken.completes().says(&["out", "starting again"]);
    assert_eq!(broken.requests()[0].start(), 0);
}

#[test]
fn force_begins_again() {
    let broken = BrokenOff::new(Signal::INT, &["-c", "1"]);
    broken.get().args(&["--force"]).run().succeeds();
    assert!(broken.sandbox.read("out") == *broken.bytes);
    assert_eq!(broken.requests()[0].start(), 0);
    assert_eq!(broken.sandbox.names(), ["out"]);
}

#[test]
fn another_boot_trusts_only_what_was_durable() {
    let broken = BrokenOff::new(Signal::INT, &["-c", "1"]);
    let journal = Journal {
        boot: "another".into(),
        durable: vec![(0, MIB as u64)],
        ..Journal::read(&broken.sandbox.path("out.weir")).unwrap().unwrap()
    };
    journal.store(&broken.sandbox.path("out.weir"), false).unwrap();
    broken.completes();
    assert_eq!(broken.requests()[0].start(), MIB as u64);
}

#[test]
fn a_journal_without_its_part_file_begins_again() {
    let broken = BrokenOff::new(Signal::INT, &["-c", "1"]);
    std::fs::remove_file(broken.sandbox.path("out.part")).unwrap();
    broken.completes().says(&["starting again"]);
    assert_eq!(broken.requests()[0].start(), 0);
}

#[test]
fn a_read_only_folder_keeps_what_was_there() {
    let broken = BrokenOff::new(Signal::INT, &["-c", "1"]);
    let sandbox = &broken.sandbox;
    let url = broken.server.url("x?q=1");
    let Some(get) = get_as_nobody(sandbox, &[&url, "-o", "out"]) else { return };
    hand_over(&sandbox.path("out.part"), 0o644);
    hand_over(&sandbox.path("out.weir"), 0o444);
    hand_over(&sandbox.path("."), 0o555);
    let run = get.run();
    assert!(matches!(run.status.code(), Some(1 | 4)), "{}", run.stderr);
    run.says(&["out", "permission denied"]);
    assert_eq!(sandbox.names(), ["out.part", "out.weir"]);
    hand_over(&sandbox.path("."), 0o755);
    let run = get_as_nobody(sandbox, &[&url, "-o", "out"]).unwrap().run();
    run.succeeds();
    assert!(sandbox.read("out") == *broken.bytes);
    broken.asks_for_nothing_twice();
}

#[test]
fn a_journal_that_cannot_be_read() {
    let broken = BrokenOff::new(Signal::INT, &["-c", "1"]);
    let sandbox = &broken.sandbox;
    let url = broken.server.url("x?q=1");
    let Some(get) = get_as_nobody(sandbox, &[&url, "-o", "out"]) else { return };
    hand_over(&sandbox.path("."), 0o755);
    hand_over(&sandbox.path("out.part"), 0o644);
    hand_over(&sandbox.path("out.weir"), 0o000);
    get.run().succeeds().says(&["cannot read the journal: ", "ermission denied", "starting again"]);
    assert!(sandbox.read("out") == *broken.bytes);
}

/// Reads `length` bytes of `-o -` and closes the pipe.
fn closed_after(length: usize, args: &[&str]) -> (Server, Running) {
    let object = Object::new(24 * MIB);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| object.serve(request, wire));
    let (mut reader, writer) = std::io::pipe().unwrap();
    let sandbox = Sandbox::new();
    let running = sandbox.get([&server.url("x"), "-o", "-"]).args(args).stdout(writer).spawn();
    let mut head = vec![0; length];
    reader.read_exact(&mut head).unwrap();
    assert!(head == bytes[..length]);
    (server, running)
}

#[test]
fn a_stdout_that_is_closed() {
    for lanes in ["1", "4"] {
        let (server, running) = closed_after(100_000, &["-c", lanes]);
        let run = running.wait();
        run.exits(141);
        assert_eq!(run.stderr, "");
        assert!(server.sent() < 24 * MIB as u64, "it does not fetch for nobody");
    }
}

#[test]
fn a_stdout_that_is_closed_at_once() {
    let (_server, running) = closed_after(0, &[]);
    let run = running.wait();
    run.exits(141);
    assert_eq!(run.stderr, "");
}

#[test]
fn a_stdout_that_is_closed_before_the_record() {
    let server = serve(1000);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--json"]).stdout(writer).run();
    run.exits(141);
    assert_eq!(run.stderr, "");
    assert_eq!(sandbox.names(), ["out"], "the file is kept");
}

/// Our own end of the connection must not be taken for the server's: an answer without a length that is
/// interrupted is not a file.
#[test]
fn sigint_on_an_answer_that_ends_with_its_connection() {
    let (send, sent) = std::sync::mpsc::channel();
    let send = std::sync::Mutex::new(send);
    let server = Server::start(move |_, wire| {
        wire.head("200 OK", &[("Connection", "close")])?;
        wire.body(&pattern(3 * MIB, 7))?;
        let _ = send.lock().expect("a channel").send(());
        wire.wait_for_close()
    });
    let sandbox = Sandbox::new();
    let running = sandbox.get([server.url("/x").as_str(), "-o", "out"]).spawn();
    sent.recv_timeout(support::TIMEOUT).expect("a request");
    running.signal(Signal::INT);
    running.wait().exits(130);
    assert!(!sandbox.path("out").exists(), "a cut answer was taken for a whole one");
}
