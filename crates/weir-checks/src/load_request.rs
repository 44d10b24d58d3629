//! What a user or a script gives `weir bench http`: URLs, and texts of requests.

use weir_bench_http::request::{self, Request};
use weir_bench_http::target::Target;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    if let Ok(count) = request::count(bytes) {
        assert!(count >= 1 && count <= bytes.len());
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let target = Target::parse(text);
    if let Ok(target) = &target {
        assert!(target.path.starts_with('/') && target.effective_port() > 0 && !target.host.is_empty());
        let request = Request::default().bytes(target);
        // Whatever the URL was, it makes one request and not two.
        assert_eq!(request.windows(4).filter(|bytes| bytes == b"\r\n\r\n").count(), 1);
    }
    target.is_ok()
}
