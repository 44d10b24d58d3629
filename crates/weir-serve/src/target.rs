//! Which file does the target of a request name?
//!
//! Pure, and the first of two walls: a [`Target`] cannot spell a way out of the root. The second wall is the kernel's
//! (`RESOLVE_BENEATH`), which also knows about symbolic links.

use percent_encoding::percent_decode_str;

/// A path below the root: components joined by `/`, none of them empty, `.` or `..`, no NUL byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Without a leading or final slash; empty for the root.
    pub(crate) path: Vec<u8>,
    /// Whether the request ended in a slash, that is, asks for a directory.
    pub(crate) slash: bool,
}

/// Parses the target of a request line (RFC 9112, 3.2): origin form, or absolute form as sent to proxies.
///
/// `None` for a target that names nothing: one with `..` or NUL, or not a path at all. Percent signs are decoded once, so
/// `%252e` is a file called `%2e`; a percent sign without two digits stands for itself; a backslash is a character.
pub(crate) fn parse(raw: &str) -> Option<Target> {
    let path = without_authority(raw)?;
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    if decoded.contains(&0) {
        return None;
    }
    let mut components = Vec::new();
    for component in decoded.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => return None,
            name => components.push(name),
        }
    }
    let slash = decoded.ends_with(b"/") || decoded.ends_with(b"/.");
    Some(Target { path: components.join(&b'/'), slash })
}

/// `/a/b` of both `/a/b` and `http://host/a/b`.
fn without_authority(raw: &str) -> Option<&str> {
    if raw.starts_with('/') {
        return Some(raw);
    }
    let (scheme, rest) = raw.split_once("://")?;
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    is_http.then(|| rest.find('/').map_or("/", |slash| &rest[slash..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(raw: &str) -> Option<String> {
        parse(raw).map(|target| String::from_utf8_lossy(&target.path).into_owned())
    }

    #[test]
    fn targets_name_paths_below_the_root() {
        for (raw, expected) in [
            ("/", ""),
            ("/a/b.txt", "a/b.txt"),
            ("/a%20b?q=/../x", "a b"),
            ("//etc//passwd", "etc/passwd"),
            ("/./a/./b", "a/b"),
            ("/%252e%252e/x", "%2e%2e/x"),
            ("/100%", "100%"),
            ("/a\\..\\b", "a\\..\\b"),
            ("/...", "..."),
            ("http://host:80/a", "a"),
            ("HTTPS://host", ""),
        ] {
            assert_eq!(path(raw).as_deref(), Some(expected), "{raw}");
        }
    }

    #[test]
    fn targets_that_climb_or_name_nothing_are_refused() {
        for raw in [
            "",
            "*",
            "a",
            "/..",
            "/../x",
            "/%2e%2e/x",
            "/a/%2E%2e/%2e./x",
            "/a/..%2fx",
            "/a%00b",
            "ftp://h/x",
        ] {
            assert_eq!(parse(raw), None, "{raw}");
        }
    }

    #[test]
    fn a_final_slash_asks_for_a_directory() {
        for (raw, slash) in
            [("/", true), ("/a", false), ("/a/", true), ("/a/?x", true), ("/a/.", true), ("/a%2f", true)]
        {
            assert_eq!(parse(raw).map(|target| target.slash), Some(slash), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn no_target_climbs(raw in "/([a-z./\\\\%]|%2e|%2f|%00|%5c){0,24}") {
            if let Some(target) = parse(&raw) {
                prop_assert!(!target.path.starts_with(b"/") && !target.path.contains(&0));
                let climbs = target.path.split(|&b| b == b'/').any(|name| name == b"..");
                prop_assert!(!climbs);
            }
        }
    }
}
