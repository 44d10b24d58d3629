//! What the target of a request names (RFC 9112 section 3.2).
//!
//! Of a server's two walls around its folder this is the first: a [`Path`] cannot spell a way out. The second
//! is the kernel's, which also knows about symbolic links.

use percent_encoding::percent_decode_str;

use crate::authority;

/// A target by its form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestTarget {
    /// A path: `/a%20b?c`, or `http://host/a%20b?c` as sent to proxies, whose authority is checked and then
    /// goes. `None` where it names nothing: it climbs with `..`, or holds a NUL byte.
    Path(Option<Path>),
    /// `*`, for OPTIONS.
    Server,
    /// `host:port`, for CONNECT.
    Authority,
}

/// A path below a root: components joined by `/`, none of them empty, `.` or `..`, and no NUL byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Decoded, without a leading or final slash; empty for the root.
    pub bytes: Vec<u8>,
    /// Whether the target ended in a slash, that is, asks for a directory. Not in an encoded one: a link in
    /// its listing would lead beside it.
    pub slash: bool,
    /// What stood behind `?`, as it came: it names no file.
    pub query: Option<String>,
}

/// Reads a target; `None` where it has none of the four forms.
pub fn parse(raw: &str) -> Option<RequestTarget> {
    if raw.is_empty() || raw.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return None;
    }
    if raw == "*" {
        return Some(RequestTarget::Server);
    }
    if raw.starts_with('/') {
        return Some(RequestTarget::Path(parse_path(raw)));
    }
    match raw.split_once("://") {
        Some((scheme, rest)) => {
            let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (host, path) = rest.split_at(end);
            (is_http && authority::is_valid(host)).then(|| RequestTarget::Path(parse_path(path)))
        }
        None => authority::is_valid(raw).then_some(RequestTarget::Authority),
    }
}

/// Percent signs are decoded once, so `%252e` is a file called `%2e`; a percent sign without two digits
/// stands for itself; a backslash is a character. What follows `?` or `#` names no file.
fn parse_path(raw: &str) -> Option<Path> {
    let raw = raw.split('#').next().unwrap_or_default();
    let (path, query) = match raw.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (raw, None),
    };
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
    // `http://host` asks for the root, like `http://host/`.
    let slash = path.is_empty() || path.ends_with('/') || path.ends_with("/.");
    Some(Path { bytes: components.join(&b'/'), slash, query: query.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(raw: &str) -> Option<Path> {
        match parse(raw) {
            Some(RequestTarget::Path(path)) => path,
            _ => None,
        }
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
            ("http://host?x=/y", ""),
            ("http://[::1]:80/a", "a"),
        ] {
            let found = path(raw).map(|path| String::from_utf8_lossy(&path.bytes).into_owned());
            assert_eq!(found.as_deref(), Some(expected), "{raw}");
        }
    }

    #[test]
    fn targets_that_climb_name_nothing() {
        for raw in ["/..", "/../x", "/%2e%2e/x", "/a/%2E%2e/%2e./x", "/a/..%2fx", "/a%00b", "http://h/../x"] {
            assert_eq!(parse(raw), Some(RequestTarget::Path(None)), "{raw}");
        }
    }

    #[test]
    fn other_forms() {
        assert_eq!(parse("*"), Some(RequestTarget::Server));
        for raw in ["host:443", "[::1]:443", "a"] {
            assert_eq!(parse(raw), Some(RequestTarget::Authority), "{raw}");
        }
        for raw in [
            "",
            "a/b",
            "?x",
            "*/",
            "ftp://h/x",
            "http:///x",
            "http://",
            "http:/x",
            "http://user@h/x",
            "http://a:b/x",
            "/a b",
            "/a\tb",
            "/a\x7f",
        ] {
            assert_eq!(parse(raw), None, "{raw}");
        }
    }

    #[test]
    fn a_final_slash_asks_for_a_directory() {
        for (raw, slash) in [
            ("/", true),
            ("/a", false),
            ("/a/", true),
            ("/a/?x", true),
            ("/a/.", true),
            ("/a%2f", false),
            ("/a/%2E", false),
            ("/%2F", false),
            ("http://h", true),
        ] {
            assert_eq!(path(raw).map(|path| path.slash), Some(slash), "{raw}");
        }
    }

    #[test]
    fn a_query_is_kept_as_it_came() {
        for (raw, query) in [
            ("/a", None),
            ("/a?", Some("")),
            ("/a?x=%2e&y=?#z", Some("x=%2e&y=?")),
            ("/a#b?c", None),
            ("http://h?x", Some("x")),
        ] {
            assert_eq!(path(raw).unwrap().query.as_deref(), query, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn no_target_climbs(raw in "(http://h)?/([a-z./\\\\%]|%2e|%2f|%00|%5c){0,24}") {
            if let Some(path) = path(&raw) {
                prop_assert!(!path.bytes.starts_with(b"/") && !path.bytes.contains(&0));
                let climbs = path.bytes.split(|&b| b == b'/').any(|name| name == b"..");
                prop_assert!(!climbs);
            }
        }

        #[test]
        fn never_panics(raw: String) {
            let _ = parse(&raw);
        }
    }
}
