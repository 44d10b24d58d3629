//! A server that can misbehave in every way, and a runner of the `weir` binary in a folder of its own.
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(unused_imports, reason = "each test binary uses a part")]

pub(crate) mod browser;
pub(crate) mod bucket;
mod dice;
mod expect;
pub(crate) mod google;
pub(crate) mod http2;
pub(crate) mod http_servers;
pub(crate) mod listed;
mod machine;
pub(crate) mod names;
pub(crate) mod net;
mod object;
mod relay;
mod runner;
mod scenario;
mod server;
pub(crate) mod socks;
mod sshd;
pub(crate) mod stores;
pub(crate) mod strange;
pub(crate) mod stranger;
mod terminal;
pub(crate) mod wires;

use std::io;
use std::time::{Duration, Instant};

pub(crate) use dice::Dice;
pub(crate) use expect::{brings, never_brings_another, refuses};
pub(crate) use machine::undisturbed;
pub(crate) use object::{Answer, Object, pattern};
pub(crate) use relay::Relay;
pub(crate) use runner::{Run, Running, Sandbox, Serving, WEIR, Weir, unfolded};
pub(crate) use scenario::QUICK;
pub(crate) use server::{Fields, LoggedRequest, Request, Server, Wire};
pub(crate) use sshd::{Special, Sshd};
pub(crate) use terminal::{on_terminal, terminal};

/// A test that waits this long for anything has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);

/// Copies a program that is to be run, by another program: a file that this one has open to write may be so
/// in a child of another test just then, and cannot be run (ETXTBSY).
pub(crate) fn copy_program(from: &str, to: impl AsRef<std::path::Path>) {
    let copied = std::process::Command::new("cp").arg(from).arg(to.as_ref()).status();
    assert!(copied.expect("cp").success());
}

/// The pause between two looks at something that comes by itself. A test that spins takes a processor from
/// the other tests, and from what it waits for.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Waits for something that comes by itself.
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < TIMEOUT, "waited in vain for {what}");
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Bytes in a MiB.
pub(crate) const MIB: usize = 1 << 20;

/// Says why a test did not test. In CI that is a failure: there the machine has to be able to.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "skipped in CI: {why}");
    println!("skipped: {why}");
}

/// Entries below a folder that are no folders.
pub(crate) fn count(root: &std::path::Path) -> u64 {
    let mut found = 0;
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a readable folder").flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => folders.push(entry.path()),
                false => found += 1,
            }
        }
    }
    found
}

/// Standard base64 with padding (RFC 4648 section 4).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |sextet: u32| char::from(LETTERS[(sextet & 63) as usize]);
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let letters: String = [18, 12, 6, 0].map(|shift| letter(word >> shift)).iter().collect();
        text.push_str(&letters[..three.len() + 1]);
        text.push_str(&"==="[..3 - three.len()]);
    }
    text
}

/// A handler's way out when the peer has done what ends the conversation.
pub(crate) fn over<T>() -> io::Result<T> {
    Err(io::ErrorKind::ConnectionAborted.into())
}
