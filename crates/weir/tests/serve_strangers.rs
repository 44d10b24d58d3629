//! Does `weir serve` stay open to honest clients, small and quiet while strangers do to it what they can?

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ClientConfig;
use support::stranger::{PREFACE, connect, connect_tls, frame, get, honest, ping, settings, trusting};
use support::{BETWEEN_LOOKS, MIB, Sandbox, Serving, WEIR, pattern, unfolded, wait_for};

/// What an honest client may wait for its first byte, on a busy machine too. Whoever is shut out waits until
/// another's time is up, ten seconds at least.
const FIRST_BYTE: Duration = Duration::from_millis(900);
/// What a server may take while strangers hold its connections.
const SMALL: u64 = 64 << 20;

/// A served folder with `small` and `large` in it.
fn folder(sandbox: &Sandbox) {
    std::fs::create_dir(sandbox.path("www")).expect("a folder");
    sandbox.write("www/small", pattern(1000, 1));
    sandbox.write("www/large", pattern(8 * MIB, 2));
}

fn serve_tls(sandbox: &Sandbox, args: &[&str]) -> (Serving, Vec<u8>) {
    let mut all = vec!["--tls", "--save-cert", "cert.pem"];
    all.extend(args);
    let serving = sandbox.serve("www", &all);
    let certificate = sandbox.read("cert.pem");
    (serving, certificate)
}

/// Lets this process hold so many sockets; whether it may.
fn sockets(count: u64) -> bool {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let possible = maximum.unwrap_or(u64::MAX).min(count + 500);
    setrlimit(Resource::Nofile, Rlimit { current: Some(possible), maximum }).is_ok() && possible > count
}

/// How a connection is held without a request that is being answered.
type Hold = fn(SocketAddr, &Arc<ClientConfig>) -> Box<dyn Send>;

/// Reads the answer to a request, head and body.
fn use_once(socket: &mut (impl Read + Write)) {
    socket.write_all(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n").expect("a request");
    let mut answer: Vec<u8> = Vec::new();
    let mut piece = [0; 4096];
    while !answer.windows(4).any(|bytes| bytes == b"\r\n\r\n") || answer.len() < 1100 {
        match socket.read(&mut piece).expect("an answer") {
            0 => break,
            count => answer.extend(&piece[..count]),
        }
    }
}

const PLAIN: &[(&str, Hold)] = &[
    ("silent", |address, _| Box::new(connect(address))),
    ("half a head", |address, _| {
        let mut socket = connect(address);
        let _ = socket.write_all(b"GET /small HTTP/1.1\r\nHo");
        Box::new(socket)
    }),
    ("used once", |address, _| {
        let mut socket = connect(address);
        use_once(&mut socket);
        Box::new(socket)
    }),
    ("HTTP/2 that pings", |address, _| {
        let mut socket = connect(address);
        let _ = socket.write_all(&[PREFACE, &settings(65_535), &ping(false), &ping(true)].concat());
        Box::new(socket)
    }),
    ("half a preface", |address, _| {
        let mut socket = connect(address);
        let _ = socket.write_all(&PREFACE[..10]);
        Box::new(socket)
    }),
];

const TLS: &[(&str, Hold)] = &[
    ("silent", |address, _| Box::new(connect(address))),
    ("half a hello", |address, _| {
        let mut socket = connect(address);
        // A handshake record of 512 bytes of which 10 come.
        let _ = socket.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\0\0\0\0");
        Box::new(socket)
    }),
    ("HTTP/2 that pings", |address, config| {
        let mut stream = connect_tls(address, config);
        let _ = stream.write_all(&[PREFACE, &settings(65_535), &ping(false), &ping(true)].concat());
        Box::new(stream)
    }),
];

/// Holds `count` connections of each kind, one kind after another, and asks honestly while they come and when
/// all are there.
fn hold_all(kinds: &[(&str, Hold)], count: usize, args: &[&str], tls: bool) {
    let sandbox = Sandbox::new();
    folder(&sandbox);
    for (kind, hold) in kinds {
        let (serving, certificate) = match tls {
            true => serve_tls(&sandbox, args),
            false => (sandbox.serve("www", args), Vec::new()),
        };
        let address = serving.address();
        // Without TLS it is never used.
        let config = |protocol: &[u8]| match tls {
            true => trusting(&certificate, protocol),
            false => trusting(FILLER.as_bytes(), protocol),
        };
        let (theirs, ours) = (config(b"h2"), config(b"http/1.1"));
        let ask = || honest(address, tls.then_some(&ours), "/small");
        let mut held = Vec::with_capacity(count);
        let mut waits = Vec::new();
        let start = Instant::now();
        for number in 0..count {
            held.push(hold(address, &theirs));
            if number % (count / 10) == count / 20 {
                waits.push(ask());
            }
        }
        let took = start.elapsed();
        waits.extend((0..5).map(|_| ask()));
        assert!(waits.iter().all(|(status, _)| status == "200"), "{kind}: {waits:?}");
        let mut waits: Vec<Duration> = waits.into_iter().map(|(_, wait)| wait).collect();
        waits.sort();
        println!(
            "{count} {kind}, TLS {tls}: held in {took:.1?}, first byte {:.1?} in the middle, {:.1?} at most, {} MiB",
            waits[waits.len() / 2],
            waits[waits.len() - 1],
            serving.resident() >> 20,
        );
        // The middle one: other tests may take the processors for a moment.
        assert!(waits[waits.len() / 2] < FIRST_BYTE, "{kind}: {waits:?}");
        drop(held);
    }
}

/// A self-signed certificate for nobody, where a configuration must trust something.
const FILLER: &str = include_str!("support/nobody.pem");

fn soak() -> bool {
    std::env::var_os("WEIR_SOAK").is_some()
}

#[test]
fn idle_connections_shut_nobody_out() {
    let (count, args) = if soak() { (10_000, &[][..]) } else { (1500, &["--max-connections", "1000"][..]) };
    if !sockets(count as u64) {
        return support::skip("the limit of open files is too low");
    }
    hold_all(PLAIN, count, args, false);
    hold_all(TLS, count, args, true);
}

/// The descriptors of ordinary limits: 1024 of them, and 1100 handshakes that nobody goes on with.
#[test]
fn few_descriptors_are_enough() {
    if !sockets(1200) {
        return support::skip("the limit of open files is too low");
    }
    let sandbox = Sandbox::new();
    folder(&sandbox);
    let (serving, certificate) = serve_tls(&sandbox, &["--max-connections", "300"]);
    let config = trusting(&certificate, b"http/1.1");
    let held: Vec<TcpStream> = (0..1100).map(|_| connect(serving.address())).collect();
    let (status, wait) = honest(serving.address(), Some(&config), "/small");
    assert_eq!(status, "200");
    // Without a free descriptor it would wait until the first handshakes time out, after ten seconds. A busy
    // machine takes less than half of that.
    assert!(wait < Duration::from_secs(5), "{wait:?}");
    drop(held);
}

#[test]
fn the_longest_idle_gives_way_and_who_downloads_does_not() {
    let sandbox = Sandbox::new();
    folder(&sandbox);
    let serving = sandbox.serve("www", &["--max-connections", "4"]);
    let mut busy = connect(serving.address());
    busy.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = vec![0; 100_000];
    busy.read_exact(&mut answer).expect("the beginning");
    // It reads all the while, slowly: who takes nothing for a second counts as idle, and a busy machine may
    // need longer than that for what follows. At this pace the file lasts for five seconds and more.
    let hurry = Arc::new(AtomicBool::new(false));
    let told = hurry.clone();
    let downloading = std::thread::spawn(move || {
        let mut chunk = [0; 16 * 1024];
        while !told.load(Relaxed) {
            let count = busy.read(&mut chunk).expect("some of the file");
            if count == 0 {
                break;
            }
            answer.extend_from_slice(&chunk[..count]);
            std::thread::sleep(Duration::from_millis(10));
        }
        busy.read_to_end(&mut answer).expect("the rest");
        answer
    });
    let mut idle: Vec<TcpStream> = Vec::new();
    for number in 0..3 {
        let mut socket = connect(serving.address());
        use_once(&mut socket);
        idle.push(socket);
        // Those who come may be as old as one another to the millisecond.
        let since = Instant::now();
        wait_for("another millisecond", || since.elapsed() > Duration::from_millis(60 + number));
    }
    // The first becomes the one that was used last.
    use_once(&mut idle[0]);
    let since = Instant::now();
    wait_for("a while", || since.elapsed() > Duration::from_millis(60));
    assert_eq!(honest(serving.address(), None, "/small").0, "200");
    assert_eq!(idle[1].read(&mut [0]).expect("an end"), 0, "the longest idle one is closed");
    use_once(&mut idle[0]);
    use_once(&mut idle[2]);
    // Forty more come and go; the download goes on to its end, slowly.
    let more: Vec<TcpStream> = (0..40).map(|_| connect(serving.address())).collect();
    assert_eq!(honest(serving.address(), None, "/small").0, "200");
    hurry.store(true, Relaxed);
    let answer = downloading.join().expect("the download");
    assert!(answer.ends_with(&pattern(8 * MIB, 2)[7 * MIB..]), "{} bytes", answer.len());
    drop(more);
}

/// Waits until a server's memory has been the same for a while, and returns the most that it was.
fn settled(serving: &Serving) -> u64 {
    let (mut most, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_millis(500) {
        let now = serving.resident();
        if now > most {
            (most, since) = (now, Instant::now());
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    most
}

#[test]
fn streams_without_a_window_cost_little() {
    let sandbox = Sandbox::new();
    folder(&sandbox);
    for tls in [false, true] {
        for window in [1, 0, 100, 0x7fff_ffff] {
            let (serving, certificate) = match tls {
                true => serve_tls(&sandbox, &[]),
                false => (sandbox.serve("www", &[]), Vec::new()),
            };
            let scheme = if tls { "https" } else { "http" };
            let mut opening = [PREFACE, &settings(window)].concat();
            // As much for the connection as a stream may have.
            opening.extend(frame(8, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes()));
            opening.extend((0..256).flat_map(|number| get(2 * number + 1, scheme, "/large")));
            let mut held: Vec<Box<dyn Send>> = Vec::new();
            for _ in 0..16 {
                match tls {
                    true => {
                        let mut stream = connect_tls(serving.address(), &trusting(&certificate, b"h2"));
                        stream.write_all(&opening).expect("what a client says");
                        held.push(Box::new(stream));
                    }
                    false => {
                        let mut socket = connect(serving.address());
                        socket.write_all(&opening).expect("what a client says");
                        held.push(Box::new(socket));
                    }
                }
            }
            let most = settled(&serving);
            println!("16 x 256 streams of window {window}, TLS {tls}: {} MiB", most >> 20);
            assert!(most < SMALL, "window {window}, TLS {tls}: {most}");
            let config = tls.then(|| trusting(&certificate, b"http/1.1"));
            assert_eq!(honest(serving.address(), config.as_ref(), "/small").0, "200");
        }
    }
}

#[test]
fn clients_that_do_not_read_cost_little() {
    let sandbox = Sandbox::new();
    folder(&sandbox);
    for number in 0..20_000 {
        let name = format!("www/many/a-name-that-is-rather-long-{number}");
        if number == 0 {
            std::fs::create_dir(sandbox.path("www/many")).expect("a folder");
        }
        sandbox.write(&name, b"");
    }
    for tls in [false, true] {
        // The listing of /many/ is three megabytes.
        for path in ["/large", "/many/"] {
            let (serving, certificate) = match tls {
                true => serve_tls(&sandbox, &[]),
                false => (sandbox.serve("www", &[]), Vec::new()),
            };
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
            let config = trusting(if tls { &certificate } else { FILLER.as_bytes() }, b"http/1.1");
            let mut held: Vec<Box<dyn Send>> = Vec::new();
            for _ in 0..if path == "/large" { 200 } else { 60 } {
                match tls {
                    true => {
                        let mut stream = connect_tls(serving.address(), &config);
                        stream.write_all(request.as_bytes()).expect("a request");
                        held.push(Box::new(stream));
                    }
                    false => {
                        let mut socket = connect(serving.address());
                        socket.write_all(request.as_bytes()).expect("a request");
                        held.push(Box::new(socket));
                    }
                }
            }
            let most = settled(&serving);
            println!("{} that read nothing of {path}, TLS {tls}: {} MiB", held.len(), most >> 20);
            assert!(most < SMALL + (32 << 20), "{path}, TLS {tls}: {most}");
            assert_eq!(honest(serving.address(), tls.then_some(&config), "/small").0, "200");
        }
    }
}

#[test]
fn floods_are_a_few_lines() {
    let sandbox = Sandbox::new();
    folder(&sandbox);
    let serving = sandbox.serve_saying("www", &["--max-connections", "8"], "said");
    // Answers to pings that were never asked.
    let mut socket = connect(serving.address());
    let mut flood = [PREFACE, &settings(65_535)].concat();
    flood.extend(std::iter::repeat_n(ping(true), 100_000).flatten());
    socket.write_all(&flood).expect("a flood");
    socket.write_all(&get(1, "http", "/small")).expect("a request behind it");
    socket.read_exact(&mut [0; 9 + 18]).expect("an answer");
    // What is no request, and connections that end in every other way.
    for bytes in [
        &b"junk\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\njunkjunkjunk",
        b"",
    ] {
        for _ in 0..200 {
            let mut socket = connect(serving.address());
            let _ = socket.write_all(bytes);
        }
    }
    assert_eq!(honest(serving.address(), None, "/small").0, "200");
    assert_eq!(serving.end(), Some(0));
    let said = String::from_utf8_lossy(&sandbox.read("said")).into_owned();
    assert!(said.lines().count() < 20, "{said}");
}

#[test]
fn a_file_that_fails_its_client_is_named() {
    let sandbox = Sandbox::new();
    folder(&sandbox);
    let large = std::fs::File::create(sandbox.path("www/changing")).expect("a file");
    large.set_len(64 * MIB as u64).expect("room");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    large.set_modified(long_ago).expect("a date");
    let serving = sandbox.serve_saying("www", &["--send-buffer", "65536"], "said");
    let begin = || {
        let mut socket = connect(serving.address());
        socket.write_all(b"GET /changing HTTP/1.0\r\n\r\n").expect("a request");
        socket.read_exact(&mut [0; 12]).expect("an answer");
        socket
    };
    // A client that goes away is no news.
    drop(begin());
    let mut socket = begin();
    large.set_len(32 * MIB as u64).expect("less of it");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("the rest of it");
    assert!(answer.len() < 64 * MIB, "{} bytes", answer.len());
    assert_eq!(serving.end(), Some(0));
    let said = unfolded(&String::from_utf8_lossy(&sandbox.read("said")));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("cannot send all of changing: the file became shorter"), "{said}");
}

#[test]
fn who_cannot_say_where_it_listens_ends_as_other_commands_do() {
    let sandbox = Sandbox::new();
    folder(&sandbox);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let run = sandbox.weir(WEIR, ["serve", "www", "--listen", "127.0.0.1:0"]).stdout(writer).run();
    run.exits(141);
    assert_eq!(run.stderr, "");
}

#[test]
fn an_unfinished_handshake_has_ten_seconds() {
    let sandbox = Sandbox::new();
    folder(&sandbox);
    let (serving, _) = serve_tls(&sandbox, &[]);
    let mut silent = connect(serving.address());
    let start = Instant::now();
    assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0);
    let waited = start.elapsed().as_secs_f64();
    assert!((9.0..20.0).contains(&waited), "{waited}");
}

/// Each of these takes a minute, so they wait together, and only when someone has the time.
#[test]
fn slow_heads_and_silence_have_a_minute() {
    if !soak() {
        return;
    }
    let sandbox = Sandbox::new();
    folder(&sandbox);
    let serving = sandbox.serve("www", &[]);
    let address = serving.address();
    let minute = |opening: Vec<u8>, drip: Option<Vec<u8>>| {
        std::thread::spawn(move || {
            let mut socket = connect(address);
            socket.write_all(&opening).expect("an opening");
            socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
            let start = Instant::now();
            let mut answer = Vec::new();
            loop {
                let mut piece = [0; 1000];
                match socket.read(&mut piece) {
                    Ok(0) => break,
                    Ok(count) => answer.extend(&piece[..count]),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        let _ = drip.as_ref().map(|drip| socket.write_all(drip));
                    }
                    Err(_) => break,
                }
                assert!(start.elapsed() < Duration::from_secs(90), "never ended");
            }
            (start.elapsed().as_secs_f64(), answer)
        })
    };
    let head = minute(b"GET /small HTTP/1.1\r\nHost: x\r\n".to_vec(), Some(b"X".to_vec()));
    let silent = minute(Vec::new(), None);
    let pinging = minute([PREFACE, &settings(1)].concat(), Some(ping(false)));
    for (what, thread) in [("a head", head), ("silence", silent), ("pings", pinging)] {
        let (waited, answer) = thread.join().expect("a thread");
        println!("{what}: ended after {waited:.1} s");
        assert!((55.0..75.0).contains(&waited), "{what}: {waited}");
        assert!(what != "a head" || answer.starts_with(b"HTTP/1.1 408 "), "{}", answer.escape_ascii());
    }
}

/// All of RFC 9113 and 7541 that <https://github.com/summerwind/h2spec> knows, over TLS: `make h2spec` brings
/// it.
#[test]
fn h2spec_has_nothing_to_say() {
    let own = std::env::var_os("HOME").map(|home| std::path::Path::new(&home).join("go/bin/h2spec"));
    let program = own.filter(|path| path.exists()).unwrap_or_else(|| "h2spec".into());
    let sandbox = Sandbox::new();
    folder(&sandbox);
    let (serving, _) = serve_tls(&sandbox, &[]);
    let port = serving.address().port().to_string();
    let h2spec =
        std::process::Command::new(program).args(["-h", "127.0.0.1", "-p", &port, "-t", "-k"]).output();
    let Ok(output) = h2spec else {
        return support::skip("h2spec is not installed (make h2spec installs it)");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("145 tests, 145 passed, 0 skipped, 0 failed"), "{said}");
}
