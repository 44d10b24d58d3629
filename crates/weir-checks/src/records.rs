//! Records out of foreign bytes, and the page that is made of them.

use weir_report::records::{self, RUNS};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(found) = records::read(bytes) else { return false };
    assert!(!found.records.is_empty() && found.records.len() <= RUNS);
    true
}
