//! What a far host prints before the protocol begins, and another protocol's first words.

use weir_cp::CopyError;
use weir_cp::hello;
use weir_cp::ssh::{Line, READY};
use weir_cp::wire::message::PROTOCOL;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut understood = false;
    for line in String::from_utf8_lossy(bytes).lines() {
        match Line::parse(line) {
            Line::Ready => assert!(line.ends_with(READY)),
            Line::Machine(rest) | Line::Absent(rest) | Line::Failed(rest) => assert!(line.ends_with(rest)),
            Line::Stored => {}
            Line::Noise(rest) => {
                assert!(line.ends_with(rest));
                continue;
            }
        }
        understood = true;
    }
    if let Some(CopyError::Protocol { theirs, version, .. }) = hello::of_another("far", bytes) {
        assert!(theirs != PROTOCOL && version.chars().count() <= 40);
        understood = true;
    }
    understood
}
