//! The field lines of a response as peers write them (RFC 9112 section 5), and of a chunked body's trailers.
//!
//! A client that is stricter than every other one gets fewer files, not safer ones: what no reader needs may
//! be odd. A line without a colon, with a control character, or with a name that is none is passed over. What
//! is refused is an odd line that names a framing field ([`FRAMING`]): one reader would go by it and another
//! would not, and they would disagree about where the body ends (RFC 9112 section 11.2).
//!
//! Requests are read strictly, by httparse: a server may refuse whatever it likes.

use crate::grammar;

/// The fields that say where a body ends.
pub(crate) const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// One field, unfolded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Where it begins, counted from 1 for the first line of the message.
    pub(crate) number: usize,
    /// A token.
    pub(crate) name: &'a str,
    /// Without control characters.
    pub(crate) value: std::borrow::Cow<'a, [u8]>,
}

impl Line<'_> {
    /// Whether it says where the body ends.
    pub(crate) fn is_framing(&self) -> bool {
        FRAMING.iter().any(|name| name.eq_ignore_ascii_case(self.name))
    }
}

/// An odd line that names a framing field: how it is odd, and which line it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Odd {
    pub(crate) number: usize,
    pub(crate) field: &'static str,
    pub(crate) how: &'static str,
}

/// The fields of `block`, whose first line is number `first`, up to its end or an empty line.
pub(crate) fn read(block: &[u8], first: usize) -> Result<Vec<Line<'_>>, Odd> {
    let mut fields: Vec<Line<'_>> = Vec::new();
    // Whether a folded line continues the last of them; those behind a line that was passed over continue
    // nothing.
    let mut is_open = false;
    for (index, line) in lines(block).enumerate() {
        let number = first + index;
        let Some(start) = line.first() else { break };
        let open = fields.last_mut().filter(|_| is_open && is_blank(start));
        match (open, field(line, number)) {
            // Section 5.2: each fold is read as spaces.
            (Some(field), _) if !has_control(line) => {
                let value = field.value.to_mut();
                value.push(b' ');
                value.extend_from_slice(trim(line));
            }
            (Some(field), Err(how)) if field.is_framing() => {
                let field = FRAMING.into_iter().find(|name| name.eq_ignore_ascii_case(field.name));
                return Err(Odd { number, field: field.unwrap_or_default(), how });
            }
            (None, Ok(field)) => {
                fields.push(field);
                is_open = true;
            }
            (_, odd) => {
                refuse_framing(line, number, odd.err().unwrap_or("it begins with a blank"))?;
                is_open = false;
            }
        }
    }
    Ok(fields)
}

/// `Name: value`, with blanks before the colon forgiven where nothing depends on it; else how it is odd.
fn field(line: &[u8], number: usize) -> Result<Line<'_>, &'static str> {
    if has_control(line) {
        return Err("it holds a control character");
    }
    let colon = line.iter().position(|byte| *byte == b':').ok_or("it has no colon")?;
    let (before, value) = (&line[..colon], &line[colon + 1..]);
    let bare = trim_end(before);
    let name =
        std::str::from_utf8(bare).ok().filter(|name| grammar::is_token(name)).ok_or("its name is none")?;
    let field = Line { number, name, value: std::borrow::Cow::Borrowed(trim(value)) };
    // Section 5.1: some readers take such a line for the field, others for none.
    if bare.len() < before.len() && field.is_framing() {
        return Err("a blank stands before its colon");
    }
    Ok(field)
}

/// An error if a reader could find a framing field in the odd `line`: at its start, or behind a control
/// character that it takes for the end of a line.
fn refuse_framing(line: &[u8], number: usize, how: &'static str) -> Result<(), Odd> {
    for piece in line.split(|byte| is_control(*byte)) {
        let piece = trim(piece);
        let end = piece.iter().position(|byte| !grammar::is_token_byte(*byte)).unwrap_or(piece.len());
        if let Some(field) = FRAMING.iter().find(|name| name.as_bytes().eq_ignore_ascii_case(&piece[..end])) {
            return Err(Odd { number, field, how });
        }
    }
    Ok(())
}

/// Lines without their ends: LF, or CRLF (RFC 9112 section 2.2 lets a reader take LF alone).
pub(crate) fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    block.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

fn has_control(line: &[u8]) -> bool {
    line.iter().copied().any(is_control)
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trim_end(text: &[u8]) -> &[u8] {
    let blanks = text.iter().rev().take_while(|byte| is_blank(byte)).count();
    &text[..text.len() - blanks]
}

fn trim(text: &[u8]) -> &[u8] {
    let text = trim_end(text);
    &text[text.iter().take_while(|byte| is_blank(byte)).count()..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As `NAME=VALUE`, joined by `|`.
    fn shown(block: &[u8]) -> Result<String, Odd> {
        let fields = read(block, 2)?;
        let one = |line: &Line<'_>| format!("{}={}", line.name, String::from_utf8_lossy(&line.value));
        Ok(fields.iter().map(one).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn what_no_reader_needs_may_be_odd() {
        for (block, fields) in [
            (&b"A: b\r\nC:d\n\r\nE: f"[..], "A=b|C=d"),
            (b"A: b\r\n  c\r\n\td \r\nE: f\r\n", "A=b c d|E=f"),
            (b"A:\r\n b\r\n", "A= b"),
            (b"A : b\r\nC\t: d\r\n", "A=b|C=d"),
            (b"no colon\r\nA: b\r\n", "A=b"),
            (b"A: b\x01c\r\nC: d\r\n", "C=d"),
            (b"A: b\0\r\n folded\r\nC: d\r\n", "C=d"),
            (b" first\r\nA: b\r\n", "A=b"),
            (b"A(: b\r\n: c\r\nD: e\r\n", "D=e"),
            (b"A: caf\xe9\r\n", "A=caf\u{fffd}"),
            (b"A: b\rc\r\nD: e\r\n", "D=e"),
        ] {
            let found = shown(block).unwrap();
            assert_eq!(found.replace("= ", "="), fields.replace("= ", "="), "{}", block.escape_ascii());
        }
    }

    #[test]
    fn an_odd_line_that_some_reader_takes_for_framing_is_refused() {
        for line in [
            &b"Content-Length : 5"[..],
            b"content-length\t: 5",
            b"Transfer-Encoding : chunked",
            b" Content-Length: 5",
            b"Content-Length 5",
            b"Content-Length: 5\x01",
            b"Content-Length\0: 5",
            b"A: b\rContent-Length: 5",
            b"A: b\x0bTransfer-Encoding: chunked",
            b"Transfer-Encoding: \x0bchunked",
        ] {
            let odd = shown(&[line, b"\r\nA: b\r\n"].concat()).unwrap_err();
            assert_eq!(odd.number, 2, "{}", line.escape_ascii());
        }
        assert_eq!(shown(b"Content-Length: 5\r\n \x01\r\n").unwrap_err().number, 3);
        // A name that only begins so is another name.
        assert_eq!(shown(b"Content-Lengthy 5\r\nA: b\r\n").unwrap(), "A=b");
    }

    #[test]
    fn lines_keep_their_numbers() {
        let fields = read(b"A: b\r\n c\r\nodd\r\nD: e\r\n", 2).unwrap();
        assert_eq!(fields.iter().map(|line| line.number).collect::<Vec<_>>(), [2, 5]);
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            let _ = read(&bytes, 2);
        }

        #[test]
        fn what_is_read_is_clean(block in "([A-Za-z :\t\u{1}\r-]{0,12}\n){0,8}") {
            for line in read(block.as_bytes(), 2).unwrap_or_default() {
                prop_assert!(grammar::is_token(line.name));
                prop_assert!(!has_control(&line.value));
            }
        }
    }
}
