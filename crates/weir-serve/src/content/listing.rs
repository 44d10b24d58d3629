//! What does a directory look like: to people as a page, to programs as JSON?

use std::fmt::Write;
use std::time::SystemTime;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde::Serialize;
use weir_units::{Bytes, push_html};

use super::Item;

/// Everything but the unreserved characters of RFC 3986, so that no name reads as a scheme, a query or a way
/// up.
const PATH_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.25rem;overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}\
th{text-align:left;font-weight:600;border-bottom:1px solid #8886}\
th,td{padding:.25rem .5rem}\
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
tr:hover td{background:#8881}\
a{text-decoration:none;overflow-wrap:anywhere}a:hover{text-decoration:underline}";

/// `/a%20b/` for the path `a b`: how a browser must write it. Never starts with two slashes, which would name
/// a host.
pub(crate) fn directory_url(path: &[u8]) -> String {
    let mut url = String::from("/");
    for component in path.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
        url.extend(percent_encode(component, PATH_SEGMENT));
        url.push('/');
    }
    url
}

/// A page without scripts, images or anything else to fetch.
pub(crate) fn html(path: &[u8], items: &[Item]) -> String {
    let title = escape(&format!("/{}", String::from_utf8_lossy(path)));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<h1>{title}</h1>\n<table>\n\
         <thead><tr><th>Name</th><th class=\"n\">Size</th><th class=\"n\">Modified (UTC)</th></tr></thead>\n<tbody>\n"
    );
    if !path.is_empty() {
        page.push_str(
            "<tr><td><a href=\"../\">../</a></td><td class=\"n\"></td><td class=\"n\"></td></tr>\n",
        );
    }
    for item in items {
        let name = escape(&String::from_utf8_lossy(&item.name));
        let (slash, size) =
            if item.is_directory { ("/", String::new()) } else { ("", Bytes(item.size).to_string()) };
        let modified = item.modified.map(human_time).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "<tr><td><a href=\"{}\">{name}{slash}</a></td><td class=\"n\">{size}</td><td class=\"n\">{modified}</td></tr>",
            href(item),
        );
    }
    page.push_str("</tbody>\n</table>\n</body>\n</html>\n");
    page
}

/// The listing that `Accept: application/json` asks for.
#[derive(Serialize)]
struct Listing<'a> {
    schema: &'static str,
    path: String,
    entries: Vec<ListedItem<'a>>,
}

#[derive(Serialize)]
struct ListedItem<'a> {
    /// For people; not exact where the name is not UTF-8. `href` always is.
    name: std::borrow::Cow<'a, str>,
    /// Relative to the listing.
    href: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// Bytes; absent for directories.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Seconds since 1970, or null.
    modified: Option<u64>,
}

/// The same as [`html`], for programs.
pub(crate) fn json(path: &[u8], items: &[Item]) -> String {
    let entries = items.iter().map(|item| ListedItem {
        name: String::from_utf8_lossy(&item.name),
        href: href(item),
        kind: if item.is_directory { "directory" } else { "file" },
        size: (!item.is_directory).then_some(item.size),
        modified: item
            .modified
            .and_then(|time| Some(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())),
    });
    let listing = Listing { schema: "weir.listing/1", path: directory_url(path), entries: entries.collect() };
    // Strings, numbers and sequences of them always serialize.
    serde_json::to_string(&listing).unwrap_or_default() + "\n"
}

fn href(item: &Item) -> String {
    let slash = if item.is_directory { "/" } else { "" };
    format!("{}{slash}", percent_encode(&item.name, PATH_SEGMENT))
}

/// `06 Nov 1994 08:49`, out of `Sun, 06 Nov 1994 08:49:37 GMT`.
fn human_time(time: SystemTime) -> String {
    httpdate::fmt_http_date(time)[5..22].to_owned()
}

/// Escapes text for element content and quoted attributes; control characters become visible symbols.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    push_html(&mut escaped, &text.replace(char::is_control, "\u{fffd}"));
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &[u8], is_directory: bool) -> Item {
        let modified = super::super::http_time(784_111_777);
        Item { name: name.to_vec(), is_directory, size: 1500, modified }
    }

    #[test]
    fn names_cannot_leave_their_place_in_the_page() {
        let page = html(
            b"a<b",
            &[item(b"<script>\"'&\n", false), item(b"javascript:alert(1)", false), item(b"\xff", true)],
        );
        assert!(page.contains("<h1>/a&lt;b</h1>"));
        assert!(page.contains(">&lt;script&gt;&quot;&#39;&amp;\u{fffd}</a>"));
        assert!(page.contains("href=\"javascript%3Aalert%281%29\""));
        assert!(page.contains("href=\"%FF/\""));
        assert!(!page.contains("<script"));
        assert!(page.contains("1.50 KB") && page.contains("06 Nov 1994 08:49<"));
    }

    #[test]
    fn json_keeps_names_exact_in_href() {
        let text = json(b"a b", &[item(b"\xff", false), item(b"d", true)]);
        let listing: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(listing["path"], "/a%20b/");
        assert_eq!(listing["entries"][0]["href"], "%FF");
        assert_eq!(listing["entries"][0]["size"], 1500);
        assert_eq!(listing["entries"][0]["modified"], 784_111_777);
        assert_eq!(listing["entries"][1]["type"], "directory");
        assert_eq!(listing["entries"][1].get("size"), None);
    }

    #[test]
    fn urls_of_directories_stay_on_this_host() {
        assert_eq!(directory_url(b""), "/");
        assert_eq!(directory_url(b"evil.example"), "/evil.example/");
        assert_eq!(directory_url(b"a b/c?d"), "/a%20b/c%3Fd/");
    }
}
