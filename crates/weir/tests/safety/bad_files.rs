//! What happens where a user names a device, a pipe that nobody writes to, or a folder as a file to be read?

use crate::support;

use std::io::Write;
use std::time::{Duration, Instant};

use support::{Run, Sandbox, WEIR};

/// Long enough for a pipe to be given up (ten seconds), and far too short to read a device to its end.
const SOON: Duration = Duration::from_secs(30);

/// Every option that names a file to be read, with `FILE` in its place.
const READERS: &[&[&str]] = &[
    &["serve", ".", "--listen", "127.0.0.1:0", "--cert", "FILE", "--key", "key.pem"],
    &["serve", ".", "--listen", "127.0.0.1:0", "--cert", "cert.pem", "--key", "FILE"],
    &["get", "https://ADDRESS/x", "--cacert", "FILE", "--retries", "0"],
    &["get", "-i", "FILE", "--retries", "0"],
    &["bench", "http", "-s", "FILE", "http://127.0.0.1:1/"],
    &["report", "FILE"],
];

fn run(args: &[&str], file: &str) -> Run {
    let sandbox = Sandbox::new();
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    sandbox.write("cert.pem", certificate.cert.pem());
    sandbox.write("key.pem", certificate.signing_key.serialize_pem());
    sandbox.pipe("pipe");
    std::fs::create_dir(sandbox.path("folder")).expect("a folder");
    // The authorities are read when there is someone to hold them against.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let args = args.iter().map(|arg| match *arg {
        "FILE" => file.to_owned(),
        arg => arg.replace("ADDRESS", &address),
    });
    let start = Instant::now();
    let running = sandbox.weir(WEIR, args).spawn();
    let run = running.wait_for(SOON);
    assert!(start.elapsed() < SOON);
    run
}

/// All at once: each waits for its pipe.
fn all(file: &'static str, words: &'static str) {
    let threads: Vec<_> =
        READERS.iter().map(|args| std::thread::spawn(move || (args, run(args, file)))).collect();
    for thread in threads {
        let (args, run) = thread.join().expect("a command that ends");
        println!("{args:?}: {}", run.stderr.trim());
        assert_ne!(run.status.code(), Some(0), "{args:?}");
        assert!(run.status.code().is_some() && !run.stderr.contains("panicked"), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn devices_are_not_read_for_ever() {
    all("/dev/zero", "");
}

#[test]
fn pipes_are_not_waited_for_for_ever() {
    all("pipe", "gave nothing within 10 s");
}

#[test]
fn folders_are_named_as_such() {
    all("folder", "");
}

#[test]
fn a_pipe_with_a_writer_is_a_file_like_any() {
    let sandbox = Sandbox::new();
    sandbox.pipe("list");
    let path = sandbox.path("list");
    let writer = std::thread::spawn(move || {
        let mut pipe = std::fs::File::options().write(true).open(path).expect("a pipe with a reader");
        // Longer than the first look takes, and in two pieces.
        pipe.write_all(b"http://127.0.0.1:1/on").expect("the first half");
        std::thread::yield_now();
        pipe.write_all(b"e\n").expect("the rest");
    });
    let run = sandbox.get(["-i", "list", "--retries", "0"]).run();
    writer.join().expect("a writer");
    assert!(run.stderr.contains("127.0.0.1:1/one"), "{}", run.stderr);
}

#[test]
fn a_list_of_names_without_end_is_none() {
    for nul in [&[][..], &["-0"]] {
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("from")).expect("a folder");
        let args = ["cp", "from/", "to", "--files-from", "/dev/zero"];
        let run = sandbox.weir(WEIR, args.iter().chain(nul)).spawn().wait_for(SOON);
        assert_ne!(run.status.code(), Some(0), "{}", run.stderr);
        assert!(run.stderr.contains("not a list of names"), "{}", run.stderr);
    }
}
