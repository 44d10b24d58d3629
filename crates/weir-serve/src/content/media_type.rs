//! Which `Content-Type` does a name suggest?

/// Extension, lower case, and its media type. Files that weir mostly moves need no more; the rest is bytes.
///
/// HTML and CSS can declare their encoding themselves, and a charset here would override it. Other texts
/// cannot, and are taken to be UTF-8.
const TABLE: &[(&str, &str)] = &[
    ("7z", "application/x-7z-compressed"),
    ("avif", "image/avif"),
    ("bz2", "application/x-bzip2"),
    ("css", "text/css"),
    ("csv", "text/csv; charset=utf-8"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("log", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mkv", "video/x-matroska"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tgz", "application/gzip"),
    ("toml", "application/toml"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("xz", "application/x-xz"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The media type of a file with this name or path.
pub(crate) fn of(name: &[u8]) -> &'static str {
    let extension = name.rsplit(|&byte| byte == b'.').next().unwrap_or_default();
    TABLE
        .iter()
        .find(|(known, _)| extension.eq_ignore_ascii_case(known.as_bytes()))
        .map_or("application/octet-stream", |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_matched_in_any_case() {
        for (name, expected) in [
            ("a/b.HTML", "text/html"),
            ("x.css", "text/css"),
            ("x.Log", "text/plain; charset=utf-8"),
            ("x.tar.gz", "application/gzip"),
            ("noext", "application/octet-stream"),
            ("", "application/octet-stream"),
            ("x.unknown", "application/octet-stream"),
        ] {
            assert_eq!(of(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn the_table_is_sorted_and_unique() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
    }
}
