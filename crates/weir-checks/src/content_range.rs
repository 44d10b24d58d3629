//! `Content-Range` as a client reads it, alone and in a body of several parts, and `Range` as a server does.

use weir_http::ContentRange;
use weir_http::multipart::{self, Parts};
use weir_http::range_request::{self, Requested};

use crate::Input;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (size, value) = (input.long(), input.text());
    let (value, mut understood) = (&*value, false);
    if let Ok(range) = value.parse::<ContentRange>() {
        assert_eq!(range.to_string().parse::<ContentRange>(), Ok(range));
        let _ = range.answers(0, range.len(), range.complete());
        understood = true;
    }
    let _ = multipart::boundary(value);
    let mut parts = Parts::new("B");
    if parts.read(value.as_bytes(), |range| assert!(range.len() > 0)).is_ok() {
        understood |= parts.is_whole();
    }
    if let Requested::Single(range) = range_request::parse(value, size) {
        assert!(range.first <= range.last && range.last < size);
        understood = true;
    }
    understood
}
