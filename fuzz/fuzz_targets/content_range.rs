//! `Content-Range` as a client reads it and `Range` as a server does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_http::ContentRange;
use weir_http::range_request::{self, Requested};

fuzz_target!(|input: (u64, &str)| {
    let (size, value) = input;
    if let Ok(range) = value.parse::<ContentRange>() {
        assert_eq!(range.to_string().parse::<ContentRange>(), Ok(range));
        let _ = range.answers(0, range.len(), range.complete());
    }
    if let Requested::Single(range) = range_request::parse(value, size) {
        assert!(range.first <= range.last && range.last < size);
    }
});
