//! Quoting for sh(1): in commands that are printed for people to copy, and in scripts that are run elsewhere.

use std::borrow::Cow;

/// A word as people would write it: quoted only if the shell would interpret it.
///
/// ```
/// assert_eq!(weir_fleet::shell::word("a/b.db"), "a/b.db");
/// assert_eq!(weir_fleet::shell::word("it's"), r"'it'\''s'");
/// ```
pub fn word(text: &str) -> Cow<'_, str> {
    let is_plain =
        |byte: u8| !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"/.:@%_+,-".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', r"'\''"))),
    }
}

/// Appends a word, always quoted.
pub(crate) fn push_word(into: &mut Vec<u8>, word: &[u8]) {
    into.push(b'\'');
    for byte in word {
        match byte {
            b'\'' => into.extend(br"'\''"),
            byte => into.push(*byte),
        }
    }
    into.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn a_command_that_is_shown_means_the_same_ledger() {
        for (place, wanted) in [
            ("/a/plan.db", "/a/plan.db"),
            ("", "''"),
            ("my plan's.db", r"'my plan'\''s.db'"),
            ("postgres://me@h/d?schema=a&host=b", "'postgres://me@h/d?schema=a&host=b'"),
        ] {
            assert_eq!(word(place), wanted);
        }
    }
}
