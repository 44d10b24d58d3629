//! Content codings (RFC 9110 section 8.4): whether the body is the file, or the file packed for the journey.
//!
//! weir sends `Accept-Encoding: identity`, since ranges, sizes and digests all count coded bytes (section 14.1.2).
//! Some servers send a coding all the same. Then there are two cases, and the name tells them apart: `x.tar.gz` with
//! `gzip` is most often the file itself, labelled with what it is; `x.tar` with `gzip` was packed on the way, and must
//! not be saved as it is nor put together from ranges.

use crate::fields::Fields;

/// Which endings a coding explains.
const ENDINGS: &[(&[&str], &[&str])] = &[
    (&["gzip", "x-gzip"], &["gz", "tgz", "gzip", "svgz", "taz", "apk", "vcfz", "emz", "crate"]),
    (&["br"], &["br"]),
    (&["zstd"], &["zst", "zstd", "tzst"]),
    (&["compress", "x-compress"], &["z"]),
    (&["bzip2", "x-bzip2"], &["bz2", "tbz2", "tbz"]),
    (&["xz", "x-xz"], &["xz", "txz"]),
];

/// The codings of the body in the order in which they were applied, lower case, joined with `, `; `None` if there are
/// none. `identity` is no coding.
pub fn content_coding(fields: &Fields) -> Option<String> {
    let codings: Vec<String> = fields
        .members("content-encoding")
        .filter(|coding| !coding.eq_ignore_ascii_case("identity"))
        .map(str::to_ascii_lowercase)
        .collect();
    if codings.is_empty() { None } else { Some(codings.join(", ")) }
}

/// Whether a body with `coding`, a result of [`content_coding`], is itself the file called `name`.
pub fn coded_body_is_the_file(name: &str, coding: &str) -> bool {
    let Some((_, extension)) = name.rsplit_once('.') else { return false };
    ENDINGS.iter().any(|(codings, endings)| {
        codings.contains(&coding) && endings.iter().any(|ending| ending.eq_ignore_ascii_case(extension))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn codings() {
        let coding = |value: &str| content_coding(&Fields::from([("Content-Encoding", value)]));
        assert_eq!(coding("GZip").as_deref(), Some("gzip"));
        assert_eq!(coding("identity"), None);
        assert_eq!(coding(""), None);
        assert_eq!(coding("gzip, identity, br").as_deref(), Some("gzip, br"));
        assert_eq!(content_coding(&Fields::new()), None);
    }

    #[test]
    fn the_file_itself_or_packed_on_the_way() {
        for (name, coding) in [
            ("a.tar.gz", "gzip"),
            ("a.TGZ", "x-gzip"),
            ("a.br", "br"),
            ("a.zst", "zstd"),
            ("a.Z", "compress"),
        ] {
            assert!(coded_body_is_the_file(name, coding), "{name} {coding}");
        }
        for (name, coding) in
            [("a.tar", "gzip"), ("a.gz", "br"), ("a.gz", "gzip, gzip"), ("gz", "gzip"), ("a.iso", "zstd")]
        {
            assert!(!coded_body_is_the_file(name, coding), "{name} {coding}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(value: String, name: String) {
            if let Some(coding) = content_coding(&Fields::from([("Content-Encoding", value.as_str())])) {
                coded_body_is_the_file(&name, &coding);
            }
        }
    }
}
