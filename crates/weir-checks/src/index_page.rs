//! What web servers list of a folder: links are slices of the page, and going on from any of them gives the
//! rest.

use weir_http::index_page::{IndexPage, links, parse};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let all = links(bytes).count();
    // A link is `<a href=` at least.
    assert!(all <= bytes.len() / 8);
    let mut rest = links(bytes);
    if rest.next().is_some() {
        let left = rest.left();
        assert!(left < bytes.len());
        assert_eq!(links(&bytes[bytes.len() - left..]).count(), all - 1);
    }
    let is_json = match parse("application/json", bytes) {
        IndexPage::Json(entries) => {
            // Names become links of one step.
            assert!(entries.iter().all(|entry| !entry.is_next));
            !entries.is_empty()
        }
        _ => false,
    };
    if let IndexPage::Html { title } = parse("text/html", bytes) {
        assert!(title.len() <= 2);
    }
    all > 0 || is_json
}
