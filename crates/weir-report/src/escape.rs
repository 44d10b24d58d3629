//! Text that others chose, made safe for a terminal: a file name must not move the cursor or turn the text
//! around.

use std::borrow::Cow;

/// The text with control characters written as `\n` or `\u{1b}`. Ordinary text is returned as it is.
///
/// Escaped are the control characters of ASCII and Latin-1, line and paragraph separators, and the marks that
/// change the direction of writing (they can make `gpj.exe` read as `exe.jpg`).
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// The same of a text of several lines, which stay lines.
pub fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_written_out_and_letters_stay() {
        assert_eq!(escape("größe 漢字.iso"), "größe 漢字.iso");
        assert_eq!(escape("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(escape_lines("a\n\tb\x1b\n"), "a\n\\tb\\u{1b}");
        assert_eq!(escape("x\u{202e}gpj.exe\u{9b}"), "x\\u{202e}gpj.exe\\u{9b}");
    }
}
