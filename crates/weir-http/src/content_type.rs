//! Whether a body is the file that was asked for, or a page about it.
//!
//! Login pages, captive portals and "file not found" pages often come with 200. Saved under the name of an
//! archive, they are found much later. Only HTML is judged: servers get other types wrong too often.

/// Endings of names that promise something other than HTML.
const BINARY: &[&str] = &[
    // archives and compressed files
    "7z",
    "apk",
    "br",
    "bz2",
    "cab",
    "cpio",
    "crate",
    "deb",
    "gem",
    "gz",
    "jar",
    "lz",
    "lz4",
    "lzma",
    "nupkg",
    "rar",
    "rpm",
    "tar",
    "tbz2",
    "tgz",
    "txz",
    "tzst",
    "war",
    "whl",
    "xz",
    "z",
    "zip",
    "zst",
    // images of disks and machines
    "dmg",
    "img",
    "iso",
    "ova",
    "qcow2",
    "raw",
    "vdi",
    "vhd",
    "vhdx",
    "vmdk",
    "wim",
    // programs and packages
    "appimage",
    "bin",
    "dll",
    "exe",
    "flatpak",
    "ko",
    "msi",
    "pkg",
    "run",
    "so",
    "snap",
    "wasm",
    // pictures, sound, films, documents
    "avi",
    "avif",
    "docx",
    "epub",
    "flac",
    "gif",
    "heic",
    "jpeg",
    "jpg",
    "m4a",
    "mkv",
    "mov",
    "mp3",
    "mp4",
    "odt",
    "ogg",
    "opus",
    "pdf",
    "png",
    "pptx",
    "tif",
    "tiff",
    "wav",
    "webm",
    "webp",
    "xlsx",
    // data and models
    "arrow",
    "avro",
    "bam",
    "ckpt",
    "db",
    "fastq",
    "gguf",
    "h5",
    "hdf5",
    "nc",
    "npy",
    "npz",
    "onnx",
    "orc",
    "parquet",
    "pb",
    "pt",
    "pth",
    "safetensors",
    "sqlite",
    "tfrecord",
    // checksums and signatures
    "asc",
    "md5",
    "sha1",
    "sha256",
    "sha512",
    "sig",
];

/// Whether the body is an HTML page although `name` promises an archive, an image or another binary.
///
/// `content_type` is the value of the field (RFC 9110 section 8.3), parameters included. Without it, or with
/// any other type, there is nothing to object to.
pub fn html_instead_of(name: &str, content_type: Option<&str>) -> bool {
    is_html(content_type.unwrap_or_default()) && promises_binary(name)
}

/// Whether a media type is that of an HTML page.
pub(crate) fn is_html(content_type: &str) -> bool {
    let media_type = content_type.split([';', ',']).next().unwrap_or_default().trim();
    ["text/html", "application/xhtml+xml"].iter().any(|html| html.eq_ignore_ascii_case(media_type))
}

fn promises_binary(name: &str) -> bool {
    let Some((_, extension)) = name.rsplit_once('.') else { return false };
    BINARY.iter().any(|binary| binary.eq_ignore_ascii_case(extension))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_in_place_of_a_file() {
        assert!(html_instead_of("a.tar.GZ", Some("text/html; charset=utf-8")));
        assert!(html_instead_of("model.safetensors", Some("Text/HTML")));
        assert!(html_instead_of("a.iso", Some("application/xhtml+xml")));
        for (name, content_type) in [
            ("index.html", Some("text/html")),
            ("page", Some("text/html")),
            ("a.php", Some("text/html")),
            ("a.iso", Some("application/octet-stream")),
            ("a.iso", Some("text/htmlx")),
            ("a.iso", Some("")),
            ("a.iso", None),
        ] {
            assert!(!html_instead_of(name, content_type), "{name} {content_type:?}");
        }
    }

    #[test]
    fn the_table_is_sound() {
        let mut seen = std::collections::HashSet::new();
        for extension in BINARY {
            assert!(seen.insert(extension), "{extension} is there twice");
            assert!(extension.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
        }
    }

    proptest! {
        #[test]
        fn never_panics(name: String, content_type: String) {
            html_instead_of(&name, Some(&content_type));
        }
    }
}
