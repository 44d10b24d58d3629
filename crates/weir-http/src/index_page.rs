//! Lists of folders as web servers make them: the pages of nginx (`autoindex`), Apache (`mod_autoindex`),
//! lighttpd, Caddy, Python's `http.server` and weir, and the JSON of nginx, Caddy and weir. There is no
//! standard for any of them.
//!
//! A page gives links; which of them lead into the folder is the caller's to say. Bounded by the page itself:
//! one pass, no nesting, and a link is a slice of it until it is given out.

use std::borrow::Cow;

use serde::Deserialize;

/// A link of a page, or an entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexLink<'a> {
    /// As a browser would follow it: relative to the page.
    pub href: Cow<'a, str>,
    /// Bytes, where the page has the exact number.
    pub size: Option<u64>,
    /// It leads to the next page of the same list (`rel="next"`).
    pub is_next: bool,
}

/// What a page is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexPage<'a> {
    /// A list, by its JSON.
    Json(Vec<IndexLink<'a>>),
    /// HTML, whose links [`links`] gives.
    Html {
        /// The text of its title and its first heading, where they are short.
        title: Vec<String>,
    },
    /// Neither.
    Other,
}

/// A name of a list in JSON.
#[derive(Deserialize)]
struct Entry<'a> {
    /// weir.
    #[serde(borrow)]
    href: Option<Cow<'a, str>>,
    /// All of them.
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    size: Option<u64>,
    /// nginx, weir.
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    /// Caddy.
    is_dir: Option<bool>,
}

/// weir's own list has its entries below a name.
#[derive(Deserialize)]
struct OfWeir<'a> {
    #[serde(borrow)]
    schema: Cow<'a, str>,
    #[serde(borrow)]
    entries: Vec<Entry<'a>>,
}

/// Letters of a title.
const TITLE: usize = 1000;

/// What `body` is; `media_type` is its `Content-Type` in lower case.
pub fn parse<'a>(media_type: &str, body: &'a [u8]) -> IndexPage<'a> {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    match media_type {
        "application/json" => json(body).map_or(IndexPage::Other, IndexPage::Json),
        "text/html" | "application/xhtml+xml" => IndexPage::Html { title: titles(body) },
        _ => IndexPage::Other,
    }
}

fn json(body: &[u8]) -> Option<Vec<IndexLink<'_>>> {
    let entries = match body.iter().find(|byte| !byte.is_ascii_whitespace())? {
        b'[' => serde_json::from_slice::<Vec<Entry<'_>>>(body).ok()?,
        _ => {
            let of_weir: OfWeir<'_> = serde_json::from_slice(body).ok()?;
            if of_weir.schema != "weir.listing/1" {
                return None;
            }
            of_weir.entries
        }
    };
    entries.into_iter().map(entry).collect()
}

/// `None`: it is no entry of any of these lists, so the whole is none of them.
fn entry(entry: Entry<'_>) -> Option<IndexLink<'_>> {
    let is_folder = match (entry.is_dir, entry.kind.as_deref()) {
        (Some(is_folder), _) => is_folder,
        (None, Some("directory")) => true,
        (None, Some(_)) => false,
        (None, None) => return None,
    };
    let size = entry.size.filter(|_| !is_folder);
    if let Some(href) = entry.href {
        return Some(IndexLink { href, size, is_next: false });
    }
    // A name as it is, in which Caddy has the slash of a folder already.
    let name = entry.name?;
    let mut href = String::from("./");
    percent_encoded(&mut href, name.strip_suffix('/').unwrap_or(&name).as_bytes());
    if is_folder {
        href.push('/');
    }
    Some(IndexLink { href: href.into(), size, is_next: false })
}

/// Everything but the unreserved characters (RFC 3986, section 2.3), so that no name reads as something else.
fn percent_encoded(into: &mut String, name: &[u8]) {
    for byte in name {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => {
                into.push(char::from(*byte))
            }
            byte => into.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// Begins like this, whatever the case of its letters.
fn begins(text: &[u8], with: &[u8]) -> bool {
    text.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with))
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    (0..text.len()).find(|at| begins(&text[*at..], what))
}

/// The texts of `title` and of the first heading.
fn titles(body: &[u8]) -> Vec<String> {
    let of = |tag: &str| {
        let open = find(body, format!("<{tag}").as_bytes())?;
        let behind = &body[open..];
        let text = &behind[behind.iter().position(|byte| *byte == b'>')? + 1..];
        let text = &text[..find(&text[..text.len().min(TITLE)], format!("</{tag}").as_bytes())?];
        Some(unescaped(&String::from_utf8_lossy(text)).trim().to_owned())
    };
    ["title", "h1"].iter().filter_map(|tag| of(tag)).filter(|text| !text.is_empty()).collect()
}

/// The links of a page, in its order.
pub fn links(body: &[u8]) -> IndexLinks<'_> {
    IndexLinks { rest: body }
}

/// See [`links`].
#[derive(Debug, Clone)]
pub struct IndexLinks<'a> {
    rest: &'a [u8],
}

/// Parts of a page whose text is no markup.
const SKIPPED: [(&[u8], &[u8]); 3] = [(b"<!--", b"-->"), (b"<script", b"</script"), (b"<style", b"</style")];

impl IndexLinks<'_> {
    /// Bytes of the page that have not been looked at: [`links`] of these go on.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for IndexLinks<'a> {
    type Item = IndexLink<'a>;

    fn next(&mut self) -> Option<IndexLink<'a>> {
        loop {
            let open = self.rest.iter().position(|byte| *byte == b'<')?;
            self.rest = &self.rest[open..];
            if let Some((begin, end)) = SKIPPED.iter().find(|(begin, _)| begins(self.rest, begin)) {
                let inside = &self.rest[begin.len()..];
                self.rest = match find(inside, end) {
                    Some(at) => &inside[at..],
                    None => &[],
                };
                self.rest = self.rest.get(1..).unwrap_or_default();
                continue;
            }
            let is_link = ["<a", "<link"].iter().any(|tag| {
                begins(self.rest, tag.as_bytes())
                    && self.rest.get(tag.len()).is_some_and(u8::is_ascii_whitespace)
            });
            let is_anchor = begins(self.rest, b"<a");
            self.rest = &self.rest[1..];
            if !is_link {
                continue;
            }
            let (tag, behind) = tag(self.rest);
            self.rest = behind;
            let Some(href) = attribute(tag, "href") else { continue };
            let is_next = attribute(tag, "rel").is_some_and(|rel| {
                rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("next"))
            });
            // What a head links to (a style sheet, an icon) is no entry.
            if is_anchor || is_next {
                return Some(IndexLink { href, size: size(behind), is_next });
            }
        }
    }
}

/// The inside of a tag up to its end, and what is behind it; a `>` within quotes is none.
fn tag(text: &[u8]) -> (&[u8], &[u8]) {
    let mut quote = None;
    for (at, byte) in text.iter().enumerate() {
        match (quote, byte) {
            (None, b'>') => return (&text[..at], &text[at + 1..]),
            (None, b'"' | b'\'') => quote = Some(*byte),
            (Some(open), byte) if open == *byte => quote = None,
            _ => {}
        }
    }
    (text, &[])
}

/// The value of an attribute, unescaped.
fn attribute<'a>(tag: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    let mut rest = tag;
    loop {
        let gap = rest.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'/')?;
        rest = &rest[gap..];
        let start = rest.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b'/')?;
        rest = &rest[start..];
        let end =
            rest.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'=').unwrap_or(rest.len());
        let is_it = rest[..end].eq_ignore_ascii_case(name.as_bytes());
        rest = &rest[end..];
        let equals = rest.iter().position(|byte| !byte.is_ascii_whitespace());
        let Some(equals) = equals.filter(|at| rest[*at] == b'=') else { continue };
        rest = &rest[equals + 1..];
        let value = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        rest = &rest[value..];
        let (text, behind) = match rest[0] {
            quote @ (b'"' | b'\'') => {
                let end = rest[1..].iter().position(|byte| *byte == quote)? + 1;
                (&rest[1..end], &rest[end + 1..])
            }
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                (&rest[..end], &rest[end..])
            }
        };
        if is_it {
            // Links are ASCII by RFC 3986; servers send names as they are.
            return Some(match std::str::from_utf8(text) {
                Ok(text) => unescaped(text),
                Err(_) => as_percent(text).into(),
            });
        }
        // Behind a value there may be no gap.
        rest = behind;
        if !rest.first().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'/') {
            return None;
        }
    }
}

/// Bytes that are no UTF-8 as a link must have them.
fn as_percent(text: &[u8]) -> String {
    let mut ascii = String::with_capacity(text.len());
    for byte in text {
        match byte {
            0x80.. => ascii.push_str(&format!("%{byte:02X}")),
            byte => ascii.push(char::from(*byte)),
        }
    }
    unescaped(&ascii).into_owned()
}

/// The references that servers write; others stay as they are.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        // `&#x10FFFF;` is the longest.
        let end = rest.bytes().take(10).position(|byte| byte == b';');
        match end.and_then(|end| Some((end, reference(&rest[1..end])?))) {
            Some((end, letter)) => {
                plain.push(letter);
                rest = &rest[end + 1..];
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

fn reference(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        name => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    })
}

/// The size behind a link, where the line has the form of nginx's or Apache's: the end of the link, a time,
/// and a whole number at the end of the line. Both write a whole number only where it is exact
/// (ngx_http_autoindex_module.c; `apr_strfsize`), and round to `1.2K` else.
fn size(behind: &[u8]) -> Option<u64> {
    let line = &behind[..behind.iter().take(1024).position(|byte| *byte == b'\n')?];
    let end = find(line, b"</a>")?;
    let text = std::str::from_utf8(&line[end + 4..]).ok()?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [day, time, size] = words[..] else { return None };
    let is_time = time.len() >= 4
        && time.contains(':')
        && time.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let is_day =
        day.matches('-').count() == 2 && day.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_day && is_time && size.bytes().all(|byte| byte.is_ascii_digit()) { size.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(page: &str) -> Vec<(String, Option<u64>)> {
        links(page.as_bytes()).map(|link| (link.href.into_owned(), link.size)).collect()
    }

    fn is(href: &str, size: Option<u64>) -> (String, Option<u64>) {
        (href.to_owned(), size)
    }

    #[test]
    fn pages_of_servers_give_their_links_and_exact_sizes_alone() {
        let nginx = "<html>\r\n<head><title>Index of /d/</title></head>\r\n<body>\r\n<h1>Index of /d/</h1><hr>\
            <pre><a href=\"../\">../</a>\r\n<a href=\"sub/\">sub/</a>    01-Jan-2026 00:00      -\r\n\
            <a href=\"a%20b&amp;c\">a b&amp;c</a>   01-Jan-2026 00:00    1234\r\n\
            <a href=\"big\">big</a>    01-Jan-2026 00:00     20M\r\n</pre></body></html>";
        assert_eq!(
            all(nginx),
            [is("../", None), is("sub/", None), is("a%20b&c", Some(1234)), is("big", None)]
        );
        assert_eq!(
            parse("text/html; charset=utf-8", nginx.as_bytes()),
            IndexPage::Html { title: vec!["Index of /d/".to_owned(); 2] }
        );
        let apache = "<tr><td valign=\"top\"><a href=\"?C=N;O=D\">Name</a></td></tr>\n\
            <tr><td><a href=\"x.iso\">x.iso</a></td><td align=\"right\">2026-01-01 00:00  </td><td>1.2K</td></tr>\n\
            <img src=\"/icons/a.gif\"> <a href='y'>y</a>   2026-01-01 00:00  512  \n";
        assert_eq!(all(apache), [is("?C=N;O=D", None), is("x.iso", None), is("y", Some(512))]);
        let odd = "<!-- <a href=no> --><script>'<a href=no>'</script><A CLASS=x HREF=plain>p</A><a name=q>q</a>\
            <a title='>' href=\"quoted\"><link rel=stylesheet href=s.css><link rel=\"prefetch next\" href=\"?p=2\">\
            <abbr href=no><a href=\"&#x2f;&#47;&bogus;\">";
        assert_eq!(
            all(odd),
            [is("plain", None), is("quoted", None), is("?p=2", None), is("//&bogus;", None)]
        );
        assert!(links(odd.as_bytes()).any(|link| link.is_next && link.href == "?p=2"));
    }

    #[test]
    fn lists_in_json_are_known_by_their_form() {
        let of = |text: &'static str| match parse("application/json", text.as_bytes()) {
            IndexPage::Json(links) => {
                Some(links.into_iter().map(|link| (link.href.into_owned(), link.size)).collect::<Vec<_>>())
            }
            _ => None,
        };
        let nginx =
            r#"[{"name":"sub","type":"directory","mtime":"x"},{"name":"a b:c","type":"file","size":7}]"#;
        assert_eq!(of(nginx), Some(vec![is("./sub/", None), is("./a%20b%3Ac", Some(7))]));
        let caddy = r#"[{"name":"sub/","size":4096,"url":"./sub/","is_dir":true},{"name":"f","size":9,"is_dir":false}]"#;
        assert_eq!(of(caddy), Some(vec![is("./sub/", None), is("./f", Some(9))]));
        let weir = r#"{"schema":"weir.listing/1","path":"/","entries":[{"name":"?","href":"%FF","type":"file","size":3}]}"#;
        assert_eq!(of(weir), Some(vec![is("%FF", Some(3))]));
        assert_eq!(of("[]"), Some(Vec::new()));
        for other in ["{}", "[1]", r#"[{"name":"x"}]"#, r#"{"schema":"weir.run/1","entries":[]}"#, "", "nul"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_page(bytes in proptest::collection::vec(any::<u8>(), 0..300), tags in "[<>a href='\"=/&#x;!\n-]{0,200}") {
            for bytes in [&bytes[..], tags.as_bytes()] {
                let count = links(bytes).count();
                prop_assert!(count <= bytes.len() / 3);
                let _ = (parse("text/html", bytes), parse("application/json", bytes));
            }
        }
    }
}
