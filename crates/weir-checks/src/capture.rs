//! A capture from anywhere: no bytes may make weir fail, and none may make it count what was not there.

use weir_capture::{Options, judge, read};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let options = Options { scope: "fuzz".to_owned(), ..Options::default() };
    let Ok(capture) = read(bytes, &options) else { return false };
    // Each record has a head of 16 bytes at least.
    assert!(bytes.starts_with(&[0x1f, 0x8b]) || capture.packets <= bytes.len() as u64 / 12);
    let verdict = judge(&capture.evidence, &capture.notes);
    assert!((0.0..=1.0).contains(&verdict.confidence));
    for lane in capture.evidence.intervals.iter().flat_map(|interval| &interval.lanes) {
        if let Some(sender) = lane.sender.value() {
            assert!(sender.nothing_in_flight <= sender.looks && sender.window_filled <= sender.looks);
        }
    }
    true
}
