//! Content codings (RFC 9110 section 8.4): whether the body is the file, or the file packed for the journey.
//!
//! weir sends `Accept-Encoding: identity`, since ranges, sizes and digests all count coded bytes (section
//! 14.1.2), unless `--compressed` is given. Some servers send a coding all the same. Then there are two
//! cases, and the name tells them apart: `x.tar.gz` with `gzip` is most often the file itself, labelled with
//! what it is; `x.tar` with `gzip` was packed on the way, and is saved as it came with a word about it. Coded
//! bytes are never put together with others.
//!
//! Many servers name something that is no coding (`none`, `UTF-8`, `aws-chunked`, a media type). Such a word
//! changes nothing about the bytes, and is passed over.

use weir_codec::content::Coding;

use crate::fields::Fields;

/// Codings that there are (RFC 9110 section 8.4.1, the registry it founds, and what is used without being in
/// it), in lower case. Everything else is passed over.
const CODINGS: &[&str] = &[
    "aes128gcm",
    "br",
    "bzip2",
    "compress",
    "dcb",
    "dcz",
    "deflate",
    "exi",
    "gzip",
    "lz4",
    "lzma",
    "pack200-gzip",
    "snappy",
    "x-bzip2",
    "x-compress",
    "x-gzip",
    "x-snappy-framed",
    "x-xz",
    "xz",
    "zstd",
];

/// What `--compressed` asks for: the codings that [`Coding`] decodes.
pub const ACCEPTED: &str = "gzip, deflate, br, zstd";

/// Which endings a coding explains.
const ENDINGS: &[(&[&str], &[&str])] = &[
    (&["gzip", "x-gzip"], &["gz", "tgz", "gzip", "svgz", "taz", "apk", "vcfz", "emz", "crate"]),
    (&["br"], &["br"]),
    (&["zstd"], &["zst", "zstd", "tzst"]),
    (&["compress", "x-compress"], &["z"]),
    (&["bzip2", "x-bzip2"], &["bz2", "tbz2", "tbz"]),
    (&["xz", "x-xz"], &["xz", "txz"]),
    (&["lz4"], &["lz4"]),
    (&["lzma"], &["lzma"]),
];

/// The codings of the body in the order in which they were applied, lower case, joined with `, `; `None` if
/// there are none. `identity` is no coding, and neither is a word that names none.
pub fn content_coding(fields: &Fields) -> Option<String> {
    let codings: Vec<String> = words(fields).filter(|word| CODINGS.contains(&word.as_str())).collect();
    if codings.is_empty() { None } else { Some(codings.join(", ")) }
}

/// The words of `Content-Encoding` that name no coding, and so were passed over.
pub fn passed_over(fields: &Fields) -> Vec<String> {
    words(fields).filter(|word| word != "identity" && !CODINGS.contains(&word.as_str())).collect()
}

/// How `coding`, a result of [`content_coding`], is decoded, the last applied first; `None` where it cannot
/// be.
pub fn decodable(coding: &str) -> Option<Vec<Coding>> {
    /// More than a proxy and its origin put around each other is an attack.
    const MOST: usize = 3;
    let codings: Option<Vec<Coding>> = coding.rsplit(", ").map(Coding::from_http_name).collect();
    codings.filter(|codings| codings.len() <= MOST)
}

fn words(fields: &Fields) -> impl Iterator<Item = String> + '_ {
    fields.members("content-encoding").map(str::to_ascii_lowercase)
}

/// Whether a body with `coding`, a result of [`content_coding`], is itself the file called `name`.
pub fn coded_body_is_the_file(name: &str, coding: &str) -> bool {
    has_ending(name, |codings| codings.contains(&coding))
}

/// Whether the file called `name` is packed itself: a body with that coding may be the file, or the file
/// packed once more.
pub fn is_packed(name: &str) -> bool {
    has_ending(name, |_| true)
}

/// `name` ends as files do that are packed by one of the codings that `are_meant`.
fn has_ending(name: &str, are_meant: impl Fn(&[&str]) -> bool) -> bool {
    let Some((_, extension)) = name.rsplit_once('.') else { return false };
    ENDINGS.iter().any(|(codings, endings)| {
        are_meant(codings) && endings.iter().any(|ending| ending.eq_ignore_ascii_case(extension))
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
        for none in
            ["none", "aws-chunked", "binary", "UTF-8", "zip", "base64", "application/zip", "8bit", "*"]
        {
            assert_eq!(coding(none), None, "{none}");
        }
        assert_eq!(coding("aws-chunked, gzip").as_deref(), Some("gzip"));
        let fields = Fields::from([("Content-Encoding", "None, gzip, identity")]);
        assert_eq!(passed_over(&fields), ["none"]);
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
            assert!(coded_body_is_the_file(name, coding) && is_packed(name), "{name} {coding}");
        }
        assert!(!is_packed("a.tar") && !is_packed("gz"));
        for (name, coding) in
            [("a.tar", "gzip"), ("a.gz", "br"), ("a.gz", "gzip, gzip"), ("gz", "gzip"), ("a.iso", "zstd")]
        {
            assert!(!coded_body_is_the_file(name, coding), "{name} {coding}");
        }
    }

    #[test]
    fn what_is_asked_for_can_be_decoded() {
        assert!(ACCEPTED.split(", ").all(|name| decodable(name).is_some() && CODINGS.contains(&name)));
        assert_eq!(decodable("gzip, br"), Some(vec![Coding::Brotli, Coding::Gzip]));
        assert_eq!(decodable("gzip, xz"), None);
        assert_eq!(decodable("gzip, gzip, gzip, gzip"), None);
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
