//! What of an object a request asks for: ranges and preconditions, against an object of any size.

use std::time::{Duration, SystemTime};

use weir_http::Fields;
use weir_http::precondition::{self, Version};
use weir_http::range_request::{self, MAX_RANGES, Requested};

use crate::Input;

fn within(requested: &Requested, size: u64) {
    let ranges = match requested {
        Requested::Single(range) => std::slice::from_ref(range),
        Requested::Multi(ranges) => ranges,
        _ => return,
    };
    assert!(!ranges.is_empty() && ranges.len() <= MAX_RANGES);
    assert!(ranges.iter().all(|range| range.first <= range.last && range.last < size));
    let total: u128 = ranges.iter().map(|range| u128::from(range.len())).sum();
    assert!(total <= u128::from(size));
}

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (size, seconds, text) = (input.long(), input.word(), input.text());
    within(&range_request::parse(&text, size), size);
    let mut fields = Fields::new();
    for line in text.lines() {
        let _ = fields.push_line(line);
    }
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let version = Version { tag: "\"1-a-2.3\"", modified: Some(modified) };
    let _ = precondition::judge(&fields, version);
    let now = modified + Duration::from_secs(seconds.into());
    let requested = precondition::requested(&fields, version, size, now);
    within(&requested, size);
    matches!(requested, Requested::Single(_) | Requested::Multi(_))
}
