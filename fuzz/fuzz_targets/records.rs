//! Records out of foreign bytes, and the page that is made of them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_report::records::{self, RUNS};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(found) = records::read(bytes) {
        assert!(!found.records.is_empty() && found.records.len() <= RUNS);
    }
});
