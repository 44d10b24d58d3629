//! The small pieces of RFC 9110 section 5.6 that several fields share: tokens, lists, quoted strings,
//! parameters.

use std::time::SystemTime;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// The longest field value that is looked at. A longer one is treated as if the field were absent or
/// malformed.
pub(crate) const MAX_VALUE: usize = 8 * 1024;

/// The most members of a list that are looked at.
pub(crate) const MAX_MEMBERS: usize = 64;

/// The largest length or offset: files end at 2^63 - 1 (`off_t`), so larger numbers are nonsense and could
/// overflow.
pub(crate) const MAX_OFFSET: u64 = i64::MAX as u64;

/// What is escaped in extended parameters such as `filename*`: all but the attr-char of RFC 8187 section
/// 3.2.1.
pub(crate) const ESCAPED_ATTRIBUTE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Whether `byte` may be part of a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether `text` is a token.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

/// Trims optional whitespace: space and tab only (RFC 9110 section 5.6.3).
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Digits only, no sign, no space, at most [`MAX_OFFSET`].
pub(crate) fn parse_offset(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|&offset| offset <= MAX_OFFSET)
}

/// Digits only; a number that does not fit becomes `u64::MAX`.
pub(crate) fn parse_saturating(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

/// A date (RFC 9110 section 5.6.7). The day of the week says nothing that the rest does not, and some servers
/// make one up: it has to be a day, and not the right one.
pub(crate) fn parse_date(text: &str) -> Option<SystemTime> {
    const SHORT: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const LONG: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    httpdate::parse_http_date(text).ok().or_else(|| {
        let text = trim(text);
        let (day, rest) = text.split_at(text.find([',', ' '])?);
        let days = [SHORT, LONG].into_iter().find(|days| days.contains(&day))?;
        days.iter().find_map(|day| httpdate::parse_http_date(&format!("{day}{rest}")).ok())
    })
}

/// Splits at `separator` outside of quoted strings, trims, and drops empty members (RFC 9110 section 5.6.1).
pub(crate) fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    text.split(move |c| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => return c == separator && !quoted,
        }
        false
    })
    .map(trim)
    .filter(|member| !member.is_empty())
}

/// `name=value` with optional whitespace around both; a member without `=` has no value.
pub(crate) fn parameter(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((name, value)) => (trim(name), Some(trim(value))),
        None => (trim(text), None),
    }
}

/// A quoted string without its quotes and escapes, anything else as it stands. A missing closing quote is
/// forgiven.
pub(crate) fn unquote(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"') else { return text.to_owned() };
    let mut plain = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => plain.extend(chars.next()),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn splits_outside_quotes() {
        let parts: Vec<&str> = split(r#" a, "b,c" ,, d="x\",y" "#, ',').collect();
        assert_eq!(parts, ["a", r#""b,c""#, r#"d="x\",y""#]);
        assert_eq!(unquote(r#""a\"b\\c""#), r#"a"b\c"#);
        assert_eq!(unquote(r#""open"#), "open");
        assert_eq!(parameter("a = 1"), ("a", Some("1")));
    }

    #[test]
    fn offsets_are_digits_that_fit_a_file() {
        assert_eq!(parse_offset("9223372036854775807"), Some(MAX_OFFSET));
        for text in
            ["9223372036854775808", "", "+1", "-1", " 1", "1 ", "0x1", "99999999999999999999999999", "१"]
        {
            assert_eq!(parse_offset(text), None, "{text}");
        }
        assert_eq!(parse_saturating("99999999999999999999999999"), Some(u64::MAX));
    }

    #[test]
    fn dates_have_any_day() {
        let then = parse_date("Tue, 13 Nov 2007 13:41:09 GMT");
        assert!(then.is_some());
        for text in [
            "Mon, 13 Nov 2007 13:41:09 GMT",
            "Tuesday, 13-Nov-07 13:41:09 GMT",
            "Sunday, 13-Nov-07 13:41:09 GMT",
            "Sat Nov 13 13:41:09 2007",
        ] {
            assert_eq!(parse_date(text), then, "{text}");
        }
        for bad in
            ["", "Mon", "Xyz, 13 Nov 2007 13:41:09 GMT", "Mon, 31 Feb 2007 13:41:09 GMT", "13 Nov 2007"]
        {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text: String) {
            let _ = parse_date(&text);
            for member in split(&text, ',') {
                let (_, value) = parameter(member);
                unquote(value.unwrap_or_default());
            }
        }
    }
}
