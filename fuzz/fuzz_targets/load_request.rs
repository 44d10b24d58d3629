//! What a user or a script gives `weir bench http`: URLs, and texts of requests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_load::request::{self, Request};
use weir_load::target::Target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(count) = request::count(bytes) {
        assert!(count >= 1 && count <= bytes.len());
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(target) = Target::parse(text) {
        assert!(target.path.starts_with('/') && target.effective_port() > 0 && !target.host.is_empty());
        let request = Request::default().bytes(&target);
        // Whatever the URL was, it makes one request and not two.
        assert_eq!(request.windows(4).filter(|bytes| bytes == b"\r\n\r\n").count(), 1);
    }
});
