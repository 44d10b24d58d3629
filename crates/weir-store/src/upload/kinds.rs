//! `Content-Type` by the ending of a name, for what browsers and tools care about. Anything else stays what
//! the store takes it for.

/// Endings and their types (IANA's registry, and what nginx says of them).
const KINDS: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("bz2", "application/x-bzip2"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/vnd.microsoft.icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("mkv", "video/x-matroska"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The type of what is called `name`; `None` where its ending says nothing.
pub fn of(name: &str) -> Option<&'static str> {
    let (stem, ending) = name.rsplit('/').next().unwrap_or(name).rsplit_once('.')?;
    let known = KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending))?;
    (!stem.is_empty()).then_some(known.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_known_once_and_in_order() {
        assert!(KINDS.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(of("a/b.tar.GZ"), Some("application/gzip"));
        for name in ["a", ".html", "a.html/x", "a.unknown", ""] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
