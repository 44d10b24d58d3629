//! What a far host prints before the protocol begins, and another protocol's first words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_peer::Error;
use weir_peer::hello;
use weir_peer::ssh::{Line, READY};
use weir_peer::wire::message::PROTOCOL;

fuzz_target!(|bytes: &[u8]| {
    for line in String::from_utf8_lossy(bytes).lines() {
        match Line::parse(line) {
            Line::Ready => assert!(line.ends_with(READY)),
            Line::Absent(rest) | Line::Failed(rest) | Line::Noise(rest) => assert!(line.ends_with(rest)),
            Line::Stored => {}
        }
    }
    if let Some(Error::Protocol { theirs, version, .. }) = hello::of_another("far", bytes) {
        assert!(theirs != PROTOCOL && version.chars().count() <= 40);
    }
});
