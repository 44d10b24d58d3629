//! A file name out of a header, and what is left of it: always one plain component of a path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_http::{content_disposition, filename};

fuzz_target!(|value: &str| {
    let header = content_disposition::filename(value).and_then(|name| filename::plain_name(&name));
    for name in [header, filename::plain_name(value), filename::from_url(value)].into_iter().flatten() {
        assert!(!name.is_empty() && name != "." && name != "..");
        assert!(!name.contains(['/', '\\', '\0']) && name.len() <= filename::MAX_NAME);
    }
});
