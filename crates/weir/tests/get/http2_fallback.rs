//! HTTP/2 that weir itself chose and that fails gives way to HTTP/1.1.
//!
//! weir chooses it for many files of a server that is not near. What makes this one far is that its name has
//! two addresses, the first of which takes no connection.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustls::{ServerConnection, StreamOwned};
use support::Sandbox;
use support::http2::{ACK, END_HEADERS, HEADERS, SETTINGS, config, frame};
use support::names::{Reply, where_names};

const BODY: &[u8] = b"by HTTP/1.1 after all";

/// More frame types and flags (RFC 9113 section 6).
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;

/// `:status: 200` (RFC 7541 appendix A).
const STATUS_200: u8 = 0x88;

/// Error codes (RFC 9113 section 7).
const INTERNAL_ERROR: u32 = 2;
const HTTP_1_1_REQUIRED: u32 = 13;

/// How HTTP/2 fails.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Each stream is reset with this code.
    Reset(u32),
    /// The session is ended with this code at the first request.
    GoAway(u32),
    /// The connection is closed at the first request.
    Close,
    /// A stream begins its answer and is reset.
    Midway,
}

/// Requests by HTTP/2 and by HTTP/1.1.
#[derive(Default)]
struct Counts {
    two: AtomicUsize,
    one: AtomicUsize,
}

fn serve_two(mut wire: impl Read + Write, fault: Fault, counts: &Counts) -> std::io::Result<()> {
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
                counts.two.fetch_add(1, Relaxed);
                match fault {
                    Fault::Reset(code) => {
                        wire.write_all(&frame(RST_STREAM, 0, stream, &code.to_be_bytes()))?
                    }
                    Fault::GoAway(code) => {
                        let payload = [[0; 4], code.to_be_bytes()].concat();
                        wire.write_all(&frame(GOAWAY, 0, 0, &payload))?;
                        return wire.flush();
                    }
                    Fault::Close => return Ok(()),
                    Fault::Midway => {
                        wire.write_all(&frame(HEADERS, END_HEADERS, stream, &[STATUS_200]))?;
                        wire.write_all(&frame(0, 0, stream, b"half"))?;
                        wire.write_all(&frame(RST_STREAM, 0, stream, &INTERNAL_ERROR.to_be_bytes()))?;
                    }
                }
            }
            _ => {}
        }
        wire.flush()?;
    }
}

fn serve_one(mut wire: impl Read + Write, counts: &Counts) -> std::io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            wire.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        counts.one.fetch_add(1, Relaxed);
        wire.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BODY.len()).as_bytes())?;
        wire.write_all(BODY)?;
        wire.flush()?;
    }
}

/// Ends with the test's process.
fn start(fault: Fault) -> (SocketAddr, Arc<Counts>) {
    let (listener, config) =
        (TcpListener::bind((SERVER, 0)).unwrap(), config("far.test", &["h2", "http/1.1"]));
    let (address, counts) = (listener.local_addr().unwrap(), Arc::<Counts>::default());
    let theirs = Arc::clone(&counts);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, counts) = (Arc::clone(&config), Arc::clone(&theirs));
            std::thread::spawn(move || {
                let mut wire = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                wire.conn.complete_io(&mut wire.sock)?;
                match wire.conn.alpn_protocol() == Some(b"h2") {
                    true => serve_two(wire, fault, &counts),
                    false => serve_one(wire, &counts),
                }
            });
        }
    });
    (address, counts)
}

/// Where the server is.
const SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// An address that takes no connection. It is tried first: its own source is nearer to it (RFC 6724 section
/// 6, rule 9).
const HOLE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// What keeps it from taking any: a queue for one, which nobody accepts.
fn hole(port: u16) -> (TcpListener, TcpStream) {
    let listener = TcpListener::bind((HOLE, port)).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let first = TcpStream::connect((HOLE, port)).unwrap();
    (listener, first)
}

#[test]
fn every_way_in_which_it_fails() {
    let names = |_: &str| Reply::Addresses(vec![HOLE.into(), SERVER.into()]);
    where_names(names, |_| {
        for fault in [
            Fault::Reset(HTTP_1_1_REQUIRED),
            Fault::Reset(INTERNAL_ERROR),
            Fault::GoAway(HTTP_1_1_REQUIRED),
            Fault::GoAway(INTERNAL_ERROR),
            Fault::Close,
            Fault::Midway,
        ] {
            let (server, counts) = start(fault);
            let _full = hole(server.port());
            let urls: Vec<String> =
                (0..20).map(|number| format!("https://far.test:{}/{number}", server.port())).collect();
            let sandbox = Sandbox::new();
            let run = sandbox.get(&urls).args(&["-k", "-o", "in/", "--json"]).run();
            let record = run.succeeds().json();
            for number in 0..20 {
                assert_eq!(sandbox.read(&format!("in/{number}")), BODY, "{fault:?}");
            }
            let (two, one) = (counts.two.load(Relaxed), counts.one.load(Relaxed));
            assert!(two > 0, "{fault:?}: HTTP/2 was chosen");
            assert_eq!(one, 20, "{fault:?}, {two} by HTTP/2");
            assert!(
                record["files"].to_string().contains("HTTP/1.1 in place of HTTP/2"),
                "{fault:?}: {record}"
            );
            // What the user chose is not left.
            let run = sandbox.get([&urls[0], "--http2", "-k", "--retries", "0", "-o", "out"]).run();
            run.exits(1);
            sandbox.has_nothing_of("out");
        }
    });
}
