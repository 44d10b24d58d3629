//! Servers that speak HTTP/2 and nothing else, as some gateways do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};
use support::Sandbox;
use support::http2::{ACK, END_HEADERS, HEADERS, SETTINGS, config, frame};

/// A seventh of it is more than a timeout of two seconds has to bring at the least rate, of ten bytes a
/// second.
const BODY: &[u8] = b"By HTTP/2 alone, and piece by piece where the link is slow: none of the pieces is so \
    small that it alone could pass for a server that sends next to nothing, since then a machine that has \
    other work to do as well would make it one.";

/// More frame types and flags (RFC 9113 section 6).
const DATA: u8 = 0;
const END_STREAM: u8 = 1;

/// What a slow link is busy for between two pieces: a fifth of the timeout, while one body and more so
/// several take longer.
const BUSY: Duration = Duration::from_millis(400);

/// `:status: 200`, the eighth entry of the static table (RFC 7541 appendix A).
const STATUS_200: [u8; 1] = [0x88];

/// The status, and `content-length`, the 28th, as a literal (RFC 7541 section 6.2.2).
fn head_of(length: usize) -> Vec<u8> {
    let digits = length.to_string();
    [&STATUS_200[..], &[0x0f, 28 - 15, digits.len() as u8], digits.as_bytes()].concat()
}

/// Answers every request with `BODY`, one after another, until the client leaves; after each of its `pieces`
/// but the last the link is busy for a while.
fn serve(mut wire: impl Read + Write, pieces: usize) -> std::io::Result<()> {
    let mut preface = [0; 24];
    wire.read_exact(&mut preface)?;
    wire.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    loop {
        let mut head = [0; 9];
        wire.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        wire.read_exact(&mut payload)?;
        match (head[3], head[4]) {
            (SETTINGS, 0) => wire.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            (HEADERS, _) => {
                wire.write_all(&frame(HEADERS, END_HEADERS, stream, &head_of(BODY.len())))?;
                for piece in BODY.chunks(BODY.len().div_ceil(pieces)) {
                    let is_last = piece.as_ptr_range().end == BODY.as_ptr_range().end;
                    wire.write_all(&frame(DATA, if is_last { END_STREAM } else { 0 }, stream, piece))?;
                    wire.flush()?;
                    if !is_last {
                        std::thread::sleep(BUSY);
                    }
                }
            }
            _ => {}
        }
        wire.flush()?;
    }
}

/// Ends with the test's process.
fn start(pieces: usize) -> SocketAddr {
    let (listener, config) = (TcpListener::bind("127.0.0.1:0").unwrap(), config("127.0.0.1", &["h2"]));
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || {
                serve(StreamOwned::new(ServerConnection::new(config).unwrap(), stream), pieces)
            });
        }
    });
    address
}

#[test]
fn one_object_and_many() {
    let server = start(1);
    let url = |name: &str| format!("https://{server}/{name}");
    let sandbox = Sandbox::new();
    for args in [&[][..], &["--http2"]] {
        sandbox.get([&url("x")]).args(&["-k", "-o", "out"]).args(args).run().succeeds();
        assert_eq!(sandbox.read("out"), BODY);
        // Many are asked for by HTTP/2, unless the server is as near as this one.
        let urls: Vec<String> = (0..20).map(|number| url(&number.to_string())).collect();
        sandbox.get(&urls).args(&["-k", "-o", "in/"]).args(args).run().succeeds();
        for number in 0..20 {
            assert_eq!(sandbox.read(&format!("in/{number}")), BODY, "{args:?}");
        }
        std::fs::remove_dir_all(sandbox.path("in")).unwrap();
    }
    let run = sandbox.get([&url("x")]).args(&["-k", "--http1.1", "-o", "out"]).run();
    run.fails(1, &["127.0.0.1 speaks only HTTP/2"]);
}

/// Such a field makes a request malformed over HTTP/2.
#[test]
fn the_users_fields_about_a_connection_stay_behind() {
    let server = start(1);
    let sandbox = Sandbox::new();
    for args in [&[][..], &["--http2"]] {
        let mut get = sandbox.get([&format!("https://{server}/x")]).args(&["-k", "-o", "out"]).args(args);
        for field in ["Connection: close", "Keep-Alive: 5", "Proxy-Connection: x", "Upgrade: x", "TE: gzip"] {
            get = get.args(&["-H", field]);
        }
        get.run().succeeds();
        assert_eq!(sandbox.read("out"), BODY);
    }
}

#[test]
fn a_slow_link_carries_one_small_body_after_another() {
    let server = start(7);
    let urls: Vec<String> = (0..3).map(|number| format!("https://{server}/{number}")).collect();
    let sandbox = Sandbox::new();
    let args = ["-k", "--http2", "--timeout", "2", "--retries", "0", "-o", "in/"];
    sandbox.get(&urls).args(&args).run().succeeds();
    for number in 0..3 {
        assert_eq!(sandbox.read(&format!("in/{number}")), BODY);
    }
}
