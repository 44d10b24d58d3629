//! `Content-Range` as a client reads it, alone and in a body of several parts, and `Range` as a server does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_http::ContentRange;
use weir_http::multipart::{self, Parts};
use weir_http::range_request::{self, Requested};

fuzz_target!(|input: (u64, &str)| {
    let (size, value) = input;
    if let Ok(range) = value.parse::<ContentRange>() {
        assert_eq!(range.to_string().parse::<ContentRange>(), Ok(range));
        let _ = range.answers(0, range.len(), range.complete());
    }
    let _ = multipart::boundary(value);
    let mut parts = Parts::new("B");
    if parts.read(value.as_bytes(), |range| assert!(range.len() > 0)).is_ok() {
        let _ = parts.is_whole();
    }
    if let Requested::Single(range) = range_request::parse(value, size) {
        assert!(range.first <= range.last && range.last < size);
    }
});
