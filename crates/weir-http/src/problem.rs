//! What a server says of its error, in its own words: for a person, on one line, cleaned and cut.
//!
//! | form | from | words |
//! | --- | --- | --- |
//! | `X-Error-Message`, `X-Error-Code`; `x-ms-error-code` | hubs of models; Azure | as they stand |
//! | XML with `<Code>` and `<Message>` | S3 and what speaks as it does, GCS, Azure | `CODE: MESSAGE` |
//! | JSON | GitHub, GCS, registries, RFC 9457 (`application/problem+json`) | what is called `message`, `detail`, ... |
//! | HTML | nginx, Apache, CDNs | the title |
//! | plain text | anybody | the first line |
//!
//! Words that only repeat the status are none. They are foreign and prove nothing: nothing is decided by
//! them.

use serde_json::Value;

use crate::fields::Fields;

/// As much of a body as is looked at, bytes: errors of stores take under 2 KiB, and a page has its title at
/// its start.
pub const MAX_BODY: usize = 16 << 10;

/// The most characters that are repeated: three lines of a terminal.
const MOST: usize = 240;

/// How deep messages are looked for in JSON: `error.errors[0].message` is as deep as they are.
const DEPTH: usize = 4;

/// What the answer with these fields and this (beginning of a) body says, beside its `reason`. `None` where
/// it says no more.
pub fn words(fields: &Fields, reason: &str, body: &[u8]) -> Option<String> {
    let said = of_fields(fields).or_else(|| {
        let text = String::from_utf8_lossy(body.get(..MAX_BODY).unwrap_or(body));
        of_body(fields.header("content-type").unwrap_or_default(), text.trim_start_matches('\u{feff}'))
    })?;
    let said = cleaned(&said);
    (!said.is_empty() && !only_repeats(&said, reason)).then_some(said)
}

fn of_fields(fields: &Fields) -> Option<String> {
    let message = fields.header("x-error-message").map(str::to_owned);
    message.or_else(|| fields.header("x-error-code").or(fields.header("x-ms-error-code")).map(str::to_owned))
}

fn of_body(kind: &str, text: &str) -> Option<String> {
    let kind = kind.to_ascii_lowercase();
    let text = text.trim();
    // By what it looks like: servers call their errors all kinds of things.
    if text.starts_with('{') || text.starts_with('[') {
        return serde_json::from_str(text).ok().and_then(|value| of_json(&value, DEPTH));
    }
    if text.starts_with('<') || kind.contains("html") || kind.contains("xml") {
        return of_markup(text);
    }
    let is_text = kind.is_empty() || kind.starts_with("text/");
    is_text.then(|| text.lines().next().unwrap_or_default().to_owned())
}

/// `CODE: MESSAGE` of the elements of an S3 error, else the title of a page.
fn of_markup(text: &str) -> Option<String> {
    let one = |name: &str| element(text, name).map(|text| first_line(&text)).filter(|text| !text.is_empty());
    let message = one("Message").or_else(|| one("message"));
    match (one("Code").or_else(|| one("code")), message) {
        (Some(code), Some(message)) if code != message => Some(format!("{code}: {message}")),
        (code, message) => message.or(code).or_else(|| one("title")).or_else(|| one("h1")),
    }
}

/// What stands between `<name>` and `</name>`, its references resolved.
fn element(text: &str, name: &str) -> Option<String> {
    let mut at = 0;
    loop {
        let start = at + text[at..].find('<')? + 1;
        let rest = text[start..].strip_prefix(name);
        match rest.filter(|rest| rest.starts_with(['>', ' ', '\n', '\t', '\r'])) {
            Some(rest) => {
                let inner = rest.split_once('>')?.1;
                return Some(resolved(inner.split('<').next().unwrap_or_default()));
            }
            None => at = start,
        }
    }
}

/// The references that errors use.
fn resolved(text: &str) -> String {
    let named =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&#x27;", "'")];
    let mut text = text.to_owned();
    for (reference, letter) in named {
        text = text.replace(reference, letter);
    }
    text.replace("&amp;", "&")
}

/// The words under the names that APIs give them, the more telling first.
fn of_json(value: &Value, depth: usize) -> Option<String> {
    const NAMES: [&str; 12] = [
        "message",
        "Message",
        "detail",
        "error_description",
        "error_message",
        "errorMessage",
        "error",
        "errors",
        "msg",
        "description",
        "title",
        "reason",
    ];
    match value {
        Value::String(text) => Some(first_line(text)).filter(|text| !text.is_empty()),
        _ if depth == 0 => None,
        Value::Array(members) => members.first().and_then(|first| of_json(first, depth - 1)),
        Value::Object(fields) => {
            NAMES.iter().find_map(|name| fields.get(*name).and_then(|value| of_json(value, depth - 1)))
        }
        _ => None,
    }
}

fn first_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().trim().to_owned()
}

/// On one line, without what moves a cursor or turns the direction of the text, and not too long.
fn cleaned(text: &str) -> String {
    let is_odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let plain: String = text.chars().map(|c| if is_odd(c) { ' ' } else { c }).collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut cut: String = plain.chars().take(MOST).collect();
    if cut.len() < plain.len() {
        cut.push('…');
    }
    // It stands within a sentence.
    let end = cut.trim_end_matches(['.', ' ']).len();
    cut.truncate(end);
    cut
}

/// `404 Not Found`, `Forbidden`, `Error 403`: nothing that the status line has not said.
fn only_repeats(said: &str, reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    said.to_ascii_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).all(
        |word| {
            word == "error"
                || word == "http"
                || word.parse::<u16>().is_ok()
                || reason.split(' ').any(|own| own == word)
        },
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(kind: &str, reason: &str, body: &str) -> Option<String> {
        words(&Fields::from([("Content-Type", kind)]), reason, body.as_bytes())
    }

    #[test]
    fn what_stores_and_services_say() {
        for (kind, body, words) in [
            (
                "application/xml",
                "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>Request has expired</Message>\
                 <Expires>2026</Expires></Error>",
                "AccessDenied: Request has expired",
            ),
            (
                "application/xml",
                "<Error><Code>AuthenticationFailed</Code><Message>Server failed to authenticate the request.\n\
                 RequestId:1\nTime:2</Message><AuthenticationErrorDetail>Signature did not match: geheim\
                 </AuthenticationErrorDetail></Error>",
                "AuthenticationFailed: Server failed to authenticate the request",
            ),
            (
                "application/json; charset=utf-8",
                "{\"message\":\"API rate limit exceeded for 1.2.3.4.\",\"documentation_url\":\"https://d\"}",
                "API rate limit exceeded for 1.2.3.4",
            ),
            (
                "application/json",
                "{\"error\":{\"code\":403,\"message\":\"The caller has no access\",\"errors\":[{\"reason\":\"x\"}]}}",
                "The caller has no access",
            ),
            (
                "application/json",
                "{\"errors\":[{\"code\":\"BLOB_UNKNOWN\",\"message\":\"blob unknown to registry\"}]}",
                "blob unknown to registry",
            ),
            (
                "application/problem+json",
                "{\"type\":\"about:blank\",\"title\":\"Out of credit\",\"detail\":\"Your balance is 30\"}",
                "Your balance is 30",
            ),
            ("application/json", "{\"error\":\"Repository not found\"}", "Repository not found"),
            ("text/plain", "No such build\nat line 5\n", "No such build"),
            ("text/html", "<html><head><title>Just a moment...</title></head>", "Just a moment"),
            ("", "quota used up", "quota used up"),
            ("text/html", "<TITLE x>no</TITLE><title>Tom &amp; &lt;b&gt; &#39;s</title>", "Tom & <b> 's"),
        ] {
            assert_eq!(said(kind, "Forbidden", body).as_deref(), Some(words), "{body}");
        }
    }

    #[test]
    fn what_says_no_more_than_the_status() {
        for (kind, reason, body) in [
            (
                "text/html",
                "Not Found",
                "<html><head><title>404 Not Found</title></head><center>nginx</center>",
            ),
            ("text/plain", "Forbidden", "Forbidden\n"),
            ("application/json", "Not Found", "{\"status\":404,\"error\":\"Not Found\"}"),
            ("application/json", "Not Found", "{"),
            ("application/json", "Not Found", "{\"a\":1}"),
            ("application/octet-stream", "Not Found", "binary"),
            ("", "Not Found", ""),
        ] {
            assert_eq!(said(kind, reason, body), None, "{body}");
        }
    }

    #[test]
    fn fields_come_first_and_all_is_one_short_line() {
        let fields = Fields::from([
            ("X-Error-Message", "Access to model m is restricted."),
            ("X-Error-Code", "Gated"),
        ]);
        assert_eq!(words(&fields, "Forbidden", b"{}").as_deref(), Some("Access to model m is restricted"));
        let odd = said("text/plain", "", "a\u{1b}[31m b\u{202e}c \u{7}  d");
        assert_eq!(odd.as_deref(), Some("a [31m b c d"));
        let long = said("text/plain", "", &"é".repeat(5000)).unwrap();
        assert_eq!(long.chars().count(), MOST + 1);
    }

    proptest! {
        #[test]
        fn never_panics(kind in "(text/(html|plain)|application/(json|xml))?", body in "((<|</)(Code|Message|title)[> ]?|[{\\[\"]|message\":|&(lt|amp);|\\PC){0,30}", bytes: Vec<u8>) {
            for body in [body.as_bytes(), &bytes] {
                if let Some(said) = words(&Fields::from([("Content-Type", kind.as_str())]), "OK", body) {
                    prop_assert!(said.chars().count() <= MOST + 1 && !said.contains(char::is_control));
                }
            }
        }
    }
}
