//! The file name in `Content-Disposition` (RFC 6266, with the extended values of RFC 8187).
//!
//! The result is what the server wrote, paths and all; [`crate::filename::plain_name`] makes it safe.

use percent_encoding::percent_decode_str;

use crate::fields::latin1;
use crate::grammar::{self, ESCAPED_ATTRIBUTE, MAX_MEMBERS, MAX_VALUE};

/// The file name in the value of the field, if there is one that is not empty.
///
/// `filename*` goes before `filename` (RFC 6266 section 4.3); one in a charset other than UTF-8 and
/// ISO-8859-1, or not decodable, is passed over. Forgiven, because servers do it: a missing disposition type,
/// spaces in a name without quotes, a missing closing quote. Not undone: RFC 2047 and percent signs in
/// `filename`, which section 4.3 and appendix C do not allow.
pub fn filename(value: &str) -> Option<String> {
    if value.len() > MAX_VALUE {
        return None;
    }
    let mut plain = None;
    let mut extended = None;
    for (name, text) in grammar::split(value, ';').take(MAX_MEMBERS).map(grammar::parameter) {
        let Some(text) = text else { continue };
        // The first of each counts; a second one is an error of the server (section 4.1).
        if name.eq_ignore_ascii_case("filename*") && extended.is_none() {
            extended = parse_extended(text);
        } else if name.eq_ignore_ascii_case("filename") && plain.is_none() {
            plain = Some(grammar::unquote(text));
        }
    }
    extended.or(plain).filter(|name| !name.is_empty())
}

/// Whether the server offers the body as a file to be saved, whatever its media type (RFC 6266 section 4.2).
pub fn is_attachment(value: &str) -> bool {
    let kind = value.split(';').next().unwrap_or_default();
    grammar::trim(kind).eq_ignore_ascii_case("attachment")
}

/// `charset'language'percent-encoded` (RFC 8187 section 3.2).
fn parse_extended(text: &str) -> Option<String> {
    // Some servers put quotes around it all the same.
    let text = text.trim_matches('"');
    let mut parts = text.splitn(3, '\'');
    let (charset, _language, encoded) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes: Vec<u8> = percent_decode_str(encoded).collect();
    let name = match charset {
        _ if charset.eq_ignore_ascii_case("utf-8") => String::from_utf8(bytes).ok()?,
        _ if charset.eq_ignore_ascii_case("iso-8859-1") => latin1(&bytes),
        _ => return None,
    };
    (!name.is_empty()).then_some(name)
}

/// A value that makes a browser save the body as `name`: both forms where the name needs it (RFC 6266
/// appendix D).
pub fn attachment(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c == ' ' || (c.is_ascii_graphic() && !"\"\\%".contains(c)) { c } else { '_' })
        .collect();
    if plain == name {
        return format!("attachment; filename=\"{plain}\"");
    }
    let encoded = percent_encoding::utf8_percent_encode(name, ESCAPED_ATTRIBUTE);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_attachment_is_a_file() {
        assert!(is_attachment("attachment") && is_attachment("Attachment ; filename=a.html"));
        assert!(!is_attachment("inline; filename=\"attachment\"") && !is_attachment("filename=attachment"));
    }

    #[test]
    fn names_that_servers_send() {
        for (value, name) in [
            ("attachment; filename=foo.iso", "foo.iso"),
            ("attachment; filename=\"foo bar.iso\"", "foo bar.iso"),
            ("inline;FILENAME = \"a;b\\\"c.iso\"", "a;b\"c.iso"),
            ("attachment; filename=\"x\"; filename*=UTF-8''%e2%82%ac%20rates", "€ rates"),
            ("attachment; filename*=UTF-8'en'%e2%82%ac; filename=x", "€"),
            ("attachment; filename*=ISO-8859-1''caf%E9", "café"),
            ("attachment; filename*=\"utf-8''a%20b\"", "a b"),
            // Charset unknown, or not decodable: the plain one stands.
            ("attachment; filename*=KOI8-R''%c0; filename=x", "x"),
            ("attachment; filename*=UTF-8''%ff; filename=x", "x"),
            ("attachment; filename*=nonsense; filename=x", "x"),
            // Forgiven.
            ("filename=foo.iso", "foo.iso"),
            ("attachment; filename=foo bar.iso", "foo bar.iso"),
            ("attachment; filename=\"foo", "foo"),
            ("attachment; filename=a; filename=b", "a"),
            // Left to plain_name.
            ("attachment; filename=\"../../etc/passwd\"", "../../etc/passwd"),
            ("attachment; filename=\"a%20b\"", "a%20b"),
        ] {
            assert_eq!(filename(value).as_deref(), Some(name), "{value}");
        }
        for value in
            ["", "attachment", "attachment; filename=", "attachment; filename=\"\"", "attachment; name=x"]
        {
            assert_eq!(filename(value), None, "{value}");
        }
        assert_eq!(filename(&format!("attachment; filename={}", "x".repeat(MAX_VALUE))), None);
    }

    proptest! {
        #[test]
        fn never_panics(value in "(attachment; ?)?(filename\\*?=)?[ -~\u{e9}]{0,40}|\\PC*") {
            filename(&value);
        }

        #[test]
        fn print_parse(name in "[^\\p{Cc}]{1,60}") {
            prop_assert_eq!(filename(&attachment(&name)), Some(name));
        }
    }
}
