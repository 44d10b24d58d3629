//! A file name out of a header, and what is left of it: always one plain component of a path.

use weir_http::{content_disposition, filename};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let value = String::from_utf8_lossy(bytes);
    let value = &*value;
    let header = content_disposition::filename(value).and_then(|name| filename::plain_name(&name));
    let understood = header.is_some();
    for name in [header, filename::plain_name(value), filename::from_url(value)].into_iter().flatten() {
        assert!(!name.is_empty() && name != "." && name != "..");
        assert!(!name.contains(['/', '\\', '\0']) && name.len() <= filename::MAX_NAME);
    }
    understood
}
