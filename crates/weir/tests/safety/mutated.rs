//! Foreign bytes that are nearly right: kept samples, cut, doubled, joined and changed at random places, through what the
//! fuzz targets of the same names call. `WEIR_SOAK=N` changes each sample N hundred times, `WEIR_SEED` repeats a run.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::time::SystemTime;

use support::Dice;
use weir_codec::content::{Coding, Decoder, Pull};
use weir_http::challenge::{challenges, parameters};
use weir_http::digest_login::Nonce;
use weir_http::netrc::Login;
use weir_http::{Fields, problem, signed_link};
use weir_transfer::http::jar::Jar;

/// Hands on each of `samples` as it is, and as a few changes make it.
fn mutated(samples: &[&[u8]], mut take: impl FnMut(&[u8])) {
    let (mut dice, runs) = Dice::for_runs();
    for sample in samples {
        take(sample);
        for _ in 0..runs * 100 {
            let mut bytes = sample.to_vec();
            for _ in 0..dice.roll(1..6) {
                change(&mut bytes, samples, &mut dice);
            }
            take(&bytes);
        }
    }
}

/// One change at a place that the dice choose.
fn change(bytes: &mut Vec<u8>, samples: &[&[u8]], dice: &mut Dice) {
    const ODD: [&[u8]; 12] = [
        b"\0",
        b"\r\n",
        b"\"",
        b"\\",
        b",",
        b"=",
        b";",
        b"%00",
        b"\xff\xff\xff\xff",
        b"\xef\xbf\xbd",
        b"\t",
        b"<",
    ];
    let place = |dice: &mut Dice, most: usize| dice.roll(0..most as u64 + 1) as usize;
    let at = place(dice, bytes.len());
    let end = at + place(dice, (bytes.len() - at).min(16));
    match dice.roll(0..7) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let twice = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, twice));
        }
        3 => drop(bytes.splice(at..at, ODD[dice.roll(0..ODD.len() as u64) as usize].iter().copied())),
        4 => {
            let other = samples[dice.roll(0..samples.len() as u64) as usize];
            let from = place(dice, other.len());
            let to = from + place(dice, (other.len() - from).min(64));
            drop(bytes.splice(at..end, other[from..to].iter().copied()));
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.roll(0..8);
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn challenges_are_bounded_and_answered_in_one_line() {
    let samples: [&[u8]; 5] = [
        b"Digest realm=\"r\", nonce=\"n\", qop=\"auth,auth-int\", algorithm=SHA-256-sess, opaque=\"o\", stale=true",
        b"Basic realm=\"a \\\"b\\\"\", charset=\"UTF-8\", Digest realm=r, nonce=n",
        b"Negotiate, NTLM TlRMTVNTUAAB=, Bearer error=\"invalid_token\"",
        b"Digest qop=\"auth\", realm=\"thermostat\", nonce=\"1612605593\"",
        b"Digest username*=UTF-8''caf%C3%A9, realm=\"r\", nonce=\"n\", userhash=true",
    ];
    mutated(&samples, |bytes| {
        let value = text(bytes);
        let login = Login { login: value.clone(), password: value.clone() };
        for challenge in challenges([value.as_str(), "Digest realm=\"r\", nonce=\"n\""]) {
            if let Some(mut nonce) = Nonce::of(&challenge, "c") {
                let answer = nonce.authorization(&login, "GET", "/x?\"");
                assert!(answer.starts_with("Digest ") && !answer.contains(['\r', '\n', '\0']), "{answer:?}");
                assert_eq!(nonce.uses(), 1);
            }
        }
        parameters(&value);
    });
}

#[test]
fn cookies_are_one_line_and_are_read_back() {
    let samples: [&[u8]; 5] = [
        b"id=7; Path=/; Domain=.a.example; Max-Age=3600; Secure; HttpOnly; SameSite=None",
        b"a=\"b c\"; expires=Thu, 01 Jan 2099 00:00:00 GMT; path=/x/",
        b"# Netscape HTTP Cookie File\n#HttpOnly_s.a.example\tTRUE\t/\tTRUE\t4102444800\tid\t7\n.a.example\tTRUE\t/x\tFALSE\t0\tb\t\n",
        b"s.a.example\tFALSE\t/\tFALSE\t0\tcaf\xc3\xa9\tv=1\r\n\xef\xbf\xbd\n",
        b"__Secure-x=1; __Host-y=2",
    ];
    let url = url::Url::parse("https://s.a.example/x/y").unwrap();
    mutated(&samples, |bytes| {
        let said = text(bytes);
        let mut jar = Jar::default();
        jar.give(&said);
        let mut fields = Fields::new();
        if fields.push("Set-Cookie", &said).is_ok() {
            jar.take(&url, &fields);
        }
        jar.load(&said, SystemTime::UNIX_EPOCH);
        if let Some(field) = jar.field(&url, true) {
            assert!(!field.contains(|letter: char| letter.is_control()), "{field:?}");
        }
        let saved = jar.netscape();
        assert!(Jar::default().load(&saved, SystemTime::UNIX_EPOCH).odd.is_empty(), "{said:?}: {saved:?}");
    });
}

#[test]
fn coded_bodies_are_the_same_however_they_are_cut() {
    let plain = support::pattern(300, 1);
    let all = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut gzip, &[&plain[..], &plain].concat()).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut zlib, &plain).unwrap();
    let zlib = zlib.finish().unwrap();
    // "the bytes" as brotli without and zstd without compression.
    let brotli = [&[0x0b, 0x04, 0x80][..], b"the bytes", &[0x03]].concat();
    let zstd = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 9, 0x49, 0, 0][..], b"the bytes"].concat();
    let (mut number, mut wholes) = (0_usize, 0_u32);
    mutated(&[&gzip, &zlib, &brotli, &zstd], |bytes| {
        number += 1;
        let cut = number % (bytes.len() + 1);
        for codings in [&all[number % 4..=number % 4], &all[..2]] {
            let whole = decode(codings, &[bytes]);
            assert_eq!(whole, decode(codings, &[&bytes[..cut], &bytes[cut..]]), "{codings:?}, cut at {cut}");
            wholes += u32::from(whole.is_some());
        }
    });
    assert!(wholes > 0, "some of them can be decoded");
}

fn decode(codings: &[Coding], pieces: &[&[u8]]) -> Option<Vec<u8>> {
    let (mut decoder, mut out, mut room) = (Decoder::new(codings), Vec::new(), [0; 4096]);
    let mut pieces = pieces.iter();
    loop {
        match decoder.pull(&mut room).ok()? {
            Pull::Bytes(length) => out.extend_from_slice(&room[..length]),
            Pull::Done => return Some(out),
            Pull::Needs => match pieces.next() {
                Some(piece) => decoder.push(piece),
                None => decoder.end(),
            },
        }
        if out.len() > 1 << 20 {
            return None;
        }
    }
}

#[test]
fn words_of_servers_are_one_short_line() {
    let samples: [&[u8]; 5] = [
        b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>",
        b"{\"message\":\"API rate limit exceeded\",\"errors\":[{\"code\":\"x\",\"detail\":\"y\"}]}",
        b"<html><head><title>403 &lt;Forbidden&gt;</title></head><body><h1>no</h1></body></html>",
        b"plain words\r\nand others \x1b[31mred\xe2\x80\xae",
        b"X-Amz-Signature=abc&X-Amz-Date=1&part=1&sig=%2F&se=1&sv=2&token=t",
    ];
    mutated(&samples, |bytes| {
        for kind in ["text/html", "application/xml", "application/json", "text/plain", ""] {
            let mut fields = Fields::new();
            fields.push("Content-Type", kind).unwrap();
            if let Some(said) = problem::words(&fields, "Forbidden", bytes) {
                assert!(said.chars().count() < 300 && !said.contains(char::is_control), "{said:?}");
            }
        }
        let value = text(bytes);
        assert_eq!(signed_link::kinds(value.split('&')).len(), value.split('&').count());
    });
}

#[test]
fn captures_count_no_more_than_is_there() {
    let samples = [capture(false), capture(true)];
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    mutated(&samples, |bytes| {
        let options =
            weir_capture::Options { scope: "mutated".to_owned(), ..weir_capture::Options::default() };
        let Ok(capture) = weir_capture::read(bytes, &options) else { return };
        assert!(bytes.starts_with(&[0x1f, 0x8b]) || capture.packets <= bytes.len() as u64 / 12);
        let verdict = weir_capture::judge(&capture.evidence, &capture.notes);
        assert!((0.0..=1.0).contains(&verdict.confidence));
        for lane in capture.evidence.windows.iter().flat_map(|window| &window.lanes) {
            if let Some(sender) = lane.sender.value() {
                assert!(sender.nothing_in_flight <= sender.looks && sender.window_filled <= sender.looks);
            }
        }
    });
}

/// A handshake and some segments over Ethernet, as tcpdump keeps them; `nanos`: in nanoseconds.
fn capture(nanos: bool) -> Vec<u8> {
    let magic: u32 = if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let head: [u32; 5] = [0x0004_0002, 0, 0, 65_535, 1];
    let mut bytes = magic.to_le_bytes().to_vec();
    head.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    let mut sequence = [1000_u32, 5000];
    for number in 0..40_u32 {
        let from_server = number % 2 == 1;
        let (flags, length) = match number {
            0 => (0x02, 0),
            1 => (0x12, 0),
            38 | 39 => (0x11, 0),
            _ => (0x10, if from_server { 1000 } else { 0 }),
        };
        let own = usize::from(from_server);
        let frame = segment(from_server, sequence[own], sequence[1 - own], flags, length);
        sequence[own] += length as u32 + u32::from(flags & 0x03 != 0);
        let fraction = number * if nanos { 10_000_000 } else { 10_000 };
        for word in [1_700_000_000, fraction, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}

fn segment(from_server: bool, sequence: u32, acknowledged: u32, flags: u8, length: usize) -> Vec<u8> {
    let (client, server) = (([10, 0, 0, 1], 40_000_u16), ([10, 0, 0, 2], 443_u16));
    let (from, to) = if from_server { (server, client) } else { (client, server) };
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00]);
    frame.extend([0x45, 0]);
    frame.extend((40 + length as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend(from.0);
    frame.extend(to.0);
    frame.extend(from.1.to_be_bytes());
    frame.extend(to.1.to_be_bytes());
    frame.extend(sequence.to_be_bytes());
    frame.extend(acknowledged.to_be_bytes());
    frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(vec![0; length]);
    frame
}
