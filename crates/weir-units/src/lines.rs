//! Lists that people and their editors write: which bytes end a line, which mark the file's coding, which
//! belong in neither.

/// A list that cannot be read as UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    /// It begins with the mark of UTF-16 or UTF-32.
    #[error("it is UTF-16 text; save it as UTF-8")]
    Utf16,
    /// No text in UTF-8.
    #[error("line {0} is not UTF-8 text")]
    NotUtf8(usize),
}

/// The text of a list, without the mark that some editors put in front of UTF-8 (U+FEFF).
pub fn list_text(bytes: &[u8]) -> Result<&str, CodingError> {
    let bytes = list_bytes(bytes)?;
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        CodingError::NotUtf8(lines(std::str::from_utf8(before).unwrap_or_default()).count().max(1))
    })
}

/// The same for a list whose lines may be in any coding that has ASCII in it.
pub fn list_bytes(bytes: &[u8]) -> Result<&[u8], CodingError> {
    // UTF-32's marks begin or end with those of UTF-16, in either order of bytes.
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, 0, 0xfe, 0xff, ..] => Err(CodingError::Utf16),
        _ => Ok(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)),
    }
}

/// The lines of a list and their numbers, from 1. LF, CRLF and CR end a line: lists come from Windows and
/// from old Macs too.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split('\n')
        .flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
        .zip(1..)
        .map(|(line, number)| (number, line))
}

/// The first character of `text` that has no place in a URL or a name, and where it stands: control
/// characters, the separators of lines and paragraphs, the mark of UTF-8. URL parsers drop some of them, and
/// two lines become one.
///
/// ```
/// assert_eq!(weir_units::control("a\tb").unwrap(), "a TAB at position 2");
/// assert_eq!(weir_units::control("a\u{2028}").unwrap(), "the control character U+2028 at position 2");
/// assert_eq!(weir_units::control("a b\u{e9}"), None);
/// ```
pub fn control(text: &str) -> Option<String> {
    let is_one = |c: &char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    let (at, found) = text.chars().enumerate().find(|(_, c)| is_one(c))?;
    let name = match found {
        '\t' => "a TAB".to_owned(),
        '\n' => "a line feed".to_owned(),
        '\r' => "a carriage return".to_owned(),
        '\0' => "a NUL byte".to_owned(),
        other => format!("the control character U+{:04X}", u32::from(other)),
    };
    Some(format!("{name} at position {}", at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_line_is_one() {
        let found: Vec<_> = lines("a\nb\r\nc\rd\r\r\ne").collect();
        assert_eq!(found, [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, ""), (6, "e")]);
        assert_eq!(lines("").collect::<Vec<_>>(), [(1, "")]);
    }

    #[test]
    fn marks_of_a_coding() {
        assert_eq!(list_text(b"\xef\xbb\xbfa"), Ok("a"));
        for marked in [&b"\xff\xfeh\0"[..], b"\xfe\xff\0h", b"\xff\xfe\0\0h\0\0\0", b"\0\0\xfe\xff\0\0\0h"] {
            assert_eq!(list_text(marked), Err(CodingError::Utf16));
        }
        assert_eq!(list_text(b"a\nb\xff"), Err(CodingError::NotUtf8(2)));
        assert_eq!(list_text(b"\xff"), Err(CodingError::NotUtf8(1)));
    }
}
