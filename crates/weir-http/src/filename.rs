//! Local names for remote files. A remote name is hostile until it has been through [`plain_name`].

use percent_encoding::percent_decode_str;

use crate::content_disposition;
use crate::fields::Fields;

/// What weir appends to a name while the file is incomplete. A name leaves room for it.
pub(crate) const PART_SUFFIX: &str = ".part.weir";

/// What stands behind a file's name while it grows: its bytes, its journal, and the journal while it is
/// written.
pub const KEPT: [&str; 3] = [".part", ".weir", ".weir~"];

/// The longest name in bytes: `NAME_MAX` of Linux less [`PART_SUFFIX`].
pub const MAX_NAME: usize = 255 - PART_SUFFIX.len();

/// The longest ending that survives when a name is cut.
const MAX_EXTENSION: usize = 24;

/// The name that `remote` stands for, as one plain component of a path, or `None` if nothing is left of it.
///
/// * All up to the last `/` or `\` goes, so that the file cannot leave its directory (RFC 6266 section 4.3).
/// * Control characters go, and those that turn text around: `cod\u{202e}gpj.exe` would read as a picture.
/// * Blanks at both ends go; a name of dots alone is no name.
/// * What is longer than [`MAX_NAME`] is cut before its ending, at a character.
///
/// Kept: a leading `-`, since weir always puts a directory before it (in a shell, write `./-name`), and a
/// leading dot; [`from_header`] takes that away where the name is the server's own idea.
pub fn plain_name(remote: &str) -> Option<String> {
    let last = remote.rsplit(['/', '\\']).next()?;
    let name: String = last.chars().filter(|&c| !c.is_control() && !turns_text(c)).collect();
    let name = name.trim();
    if name.chars().all(|c| c == '.') {
        return None;
    }
    let name = shortened(name);
    // A very long run of dots may be all that the cut has left.
    (!name.chars().all(|c| c == '.')).then_some(name)
}

/// The name in `Content-Disposition`. A leading dot becomes `_`: a server must not be able to place `.bashrc`
/// (CVE-2010-2252). So does a last letter by which it would be what is kept of another file, to take that
/// one's place.
pub fn from_header(fields: &Fields) -> Option<String> {
    let name = plain_name(&content_disposition::filename(fields.header("content-disposition")?)?)?;
    let mut name = match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    };
    if KEPT.iter().any(|ending| name.ends_with(ending)) {
        name.pop();
        name.push('_');
    }
    Some(name)
}

/// The name in the last segment of a URL's path, percent-decoded; `None` where the path ends with `/`.
///
/// Bytes that are not UTF-8 stay percent-encoded.
pub fn from_url(url: &str) -> Option<String> {
    let path = url.split(['?', '#']).next()?;
    let path = match path.split_once("://") {
        Some((_scheme, rest)) => rest.split_once('/')?.1,
        None => path,
    };
    let segment = path.rsplit('/').next()?;
    match percent_decode_str(segment).decode_utf8() {
        Ok(decoded) => plain_name(&decoded),
        Err(_) => plain_name(segment),
    }
}

/// `path` with `.NUMBER` behind its name, as wget has it for a second file of one name.
pub fn numbered(path: &std::path::Path, number: usize) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The explicit controls of Unicode bidirectional text, the marks beside them, and the invisible byte order
/// mark.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn shortened(name: &str) -> String {
    if name.len() <= MAX_NAME {
        return name.to_owned();
    }
    let extension = extension(name);
    let mut stem = MAX_NAME - extension.len();
    while !name.is_char_boundary(stem) {
        stem -= 1;
    }
    format!("{}{extension}", name[..stem].trim_end())
}

/// The ending with its dot, `.tar` before it included; empty if there is none or if it is too long to be one.
fn extension(name: &str) -> &str {
    let Some(dot) = name.rfind('.') else { return "" };
    let dot = name[..dot].strip_suffix(".tar").map_or(dot, str::len);
    if dot == 0 || name.len() - dot > MAX_EXTENSION { "" } else { &name[dot..] }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reduces_to_one_component() {
        for (remote, name) in [
            ("a.iso", "a.iso"),
            ("../../etc/passwd", "passwd"),
            ("C:\\dir\\a.iso", "a.iso"),
            ("/etc/cron.d/x", "x"),
            ("a\0b\r\nc", "abc"),
            (" a.iso ", "a.iso"),
            ("cod\u{202e}gpj.exe", "codgpj.exe"),
            ("-rf", "-rf"),
            (".hidden", ".hidden"),
            ("größe.txt", "größe.txt"),
        ] {
            assert_eq!(plain_name(remote).as_deref(), Some(name), "{remote:?}");
        }
        for remote in ["", ".", "..", "...", "a/", "a/..", " . ", "\0", "\u{202e}"] {
            assert_eq!(plain_name(remote), None, "{remote:?}");
        }
    }

    #[test]
    fn long_names_keep_their_ending() {
        let name = plain_name(&format!("{}.tar.gz", "ü".repeat(200))).unwrap();
        assert!(name.len() <= MAX_NAME && name.len() > MAX_NAME - 2 && name.ends_with("ü.tar.gz"));
        assert_eq!(plain_name(&"x".repeat(300)).unwrap().len(), MAX_NAME);
        assert_eq!(plain_name(&format!("a.{}", "x".repeat(300))).unwrap().len(), MAX_NAME);
    }

    #[test]
    fn cut_names_are_plain_too() {
        let name = plain_name(&format!("{} {}", "x".repeat(MAX_NAME - 1), "y".repeat(50))).unwrap();
        assert_eq!(name, "x".repeat(MAX_NAME - 1));
        assert_eq!(plain_name(&format!("{}{}", ".".repeat(300), "x".repeat(50))), None);
    }

    #[test]
    fn from_urls() {
        for (url, name) in [
            ("https://h/dir/a%20b.iso?sig=x/y#z", Some("a b.iso")),
            ("https://h/a%2Fb", Some("b")),
            ("https://h/%2e%2e", None),
            ("https://h/a%00b", Some("ab")),
            ("https://h/caf%E9", Some("caf%E9")),
            ("https://h/dir/", None),
            ("https://h", None),
            ("https://h?x=/y", None),
            ("/dir/a.iso", Some("a.iso")),
        ] {
            assert_eq!(from_url(url).as_deref(), name, "{url}");
        }
    }

    #[test]
    fn a_server_cannot_hide_a_file() {
        let from = |value: &str| from_header(&Fields::from([("Content-Disposition", value)]));
        assert_eq!(from("attachment; filename=\"../.bashrc\"").as_deref(), Some("_bashrc"));
        assert_eq!(from("attachment; filename*=UTF-8''%2e%2e%2fx").as_deref(), Some("x"));
        assert_eq!(from("attachment; filename=\"..\""), None);
    }

    proptest! {
        #[test]
        fn always_one_plain_component(remote in "([./\\\\\\x00 ü-]|\\PC|[\\x00-\\x7f]){0,300}|[ü. ]{200,300}") {
            for name in [plain_name(&remote), from_url(&remote)].into_iter().flatten() {
                prop_assert!(!name.contains(['/', '\\', '\0']) && !name.contains(char::is_control));
                prop_assert!(!name.is_empty() && name != "." && name != "..");
                prop_assert!(name.len() <= MAX_NAME);
                prop_assert_eq!(std::path::Path::new(&name).components().count(), 1);
                prop_assert_eq!(plain_name(&name), Some(name.clone()), "not stable");
            }
        }
    }
}
