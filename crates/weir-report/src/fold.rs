//! How wide is what people read? As wide as their terminal, and never wider than [`COLUMNS`]: longer lines
//! are folded between words, and what follows stands four columns deeper than the line's own beginning.
//!
//! ```
//! use weir_report::fold::fold;
//! assert_eq!(fold("advice: use more connections: 14 processors idle", 31), "\
//! advice: use more connections:
//!     14 processors idle");
//! ```

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// The widest line. Two terminals of it stand side by side on a screen of 1920 pixels.
pub(crate) const COLUMNS: usize = 100;

/// The narrowest: on fewer columns the terminal's own folding reads no worse.
pub(crate) const NARROWEST: usize = 40;

/// How much deeper the rest of a line stands.
const DEEPER: usize = 4;

/// Units stay with the number before them.
const UNITS: [&str; 21] = [
    "%", "B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "B/s", "KB/s", "MB/s", "GB/s", "Mbit/s", "Gbit/s",
    "s", "ms", "µs", "ns", "min", "h",
];

/// What a text is printed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sheet {
    /// Whether colours mark what matters most.
    pub colour: bool,
    /// Columns of a line.
    pub columns: usize,
}

impl Default for Sheet {
    /// A file or a pipe.
    fn default() -> Sheet {
        Sheet { colour: false, columns: COLUMNS }
    }
}

impl Sheet {
    /// On a terminal of so many columns; `None`: on something else.
    pub fn new(colour: bool, terminal: Option<u16>) -> Sheet {
        let columns = terminal.map_or(COLUMNS, |columns| usize::from(columns).clamp(NARROWEST, COLUMNS));
        Sheet { colour, columns }
    }

    /// Writes what `render` writes, folded.
    pub fn print(
        &self,
        out: &mut dyn Write,
        render: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        // What was rendered before a failure is printed too.
        let rendered = render(&mut text);
        let text = String::from_utf8_lossy(&text);
        text.lines().try_for_each(|line| writeln!(out, "{}", fold(line, self.columns)))?;
        rendered
    }
}

/// The line in pieces of at most `columns`, as far as its words allow. Colours count for nothing.
pub fn fold(line: &str, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let words = line.trim_start_matches(' ');
    let own = line.len() - words.len();
    let indent = " ".repeat(own + DEEPER);
    let mut folded = " ".repeat(own);
    let (mut at, mut is_first) = (own, true);
    for piece in pieces(words, columns.saturating_sub(indent.len())) {
        let wide = width(&piece);
        if is_first {
            is_first = false;
        } else if at + 1 + wide <= columns {
            folded.push(' ');
            at += 1;
        } else {
            folded = folded.trim_end_matches(' ').to_owned() + "\n" + &indent;
            at = indent.len();
        }
        folded.push_str(&piece);
        at += wide;
    }
    folded
}

/// Words; numbers with their units; what stands between quotation marks, as commands have it: where they have
/// `room`.
fn pieces(words: &str, room: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut quoted = None;
    for word in words.split(' ') {
        let is_unit = UNITS.contains(&word.trim_end_matches([',', ';', ':', '.', ')']));
        let goes_on = |last: &&mut String| {
            let belongs = is_unit && last.ends_with(|char: char| char.is_ascii_digit()) || quoted.is_some();
            belongs && width(last) + width(word) < room
        };
        match pieces.last_mut().filter(goes_on) {
            Some(last) => *last = format!("{last} {word}"),
            None => pieces.push(word.to_owned()),
        }
        quoted = mark_after(quoted, word);
    }
    pieces
}

/// The quotation mark that is open behind `word`, where `mark` was before it. An apostrophe is none.
fn mark_after(mark: Option<char>, word: &str) -> Option<char> {
    let mut before = ' ';
    word.chars().fold(mark, |mark, char| {
        let begins = char == '"' || char == '\'' && before == '=';
        before = char;
        match mark {
            None => begins.then_some(char),
            Some(open) => (open != char).then_some(open),
        }
    })
}

/// Columns that it takes: characters of foreign scripts take two, colours none.
fn width(text: &str) -> usize {
    let mut rest = text;
    let mut wide = 0;
    while let Some((before, colour)) = rest.split_once('\x1b') {
        wide += before.width();
        rest = colour.split_once('m').map_or("", |(_, after)| after);
    }
    wide + rest.width()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_folded_between_words_and_keeps_its_place() {
        assert_eq!(fold("short", 10), "short");
        assert_eq!(fold("  a line that is long", 12), "  a line\n      that\n      is\n      long");
        assert_eq!(
            fold("it brings 12.5 MB/s, or 92 % more", 14),
            "it brings\n    12.5 MB/s,\n    or 92 %\n    more"
        );
        let command = "as root: sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456' and more";
        assert_eq!(
            fold(command, 57),
            "as root: sysctl -w\n    net.ipv4.tcp_rmem='4096 131072 6291456' and more"
        );
        // A URL stays whole, so that it can be copied.
        assert_eq!(fold("see http://host/a/long/path now", 12), "see\n    http://host/a/long/path\n    now");
        // Two columns each; colours none.
        assert_eq!(fold("漢字 漢字 漢字", 10), "漢字 漢字\n    漢字");
        assert_eq!(fold("\x1b[1;33mlimit\x1b[0m cpu", 9), "\x1b[1;33mlimit\x1b[0m cpu");
        assert_eq!(fold("", 10), "");
    }

    #[test]
    fn a_sheet_is_no_wider_than_its_terminal() {
        let columns = |terminal| Sheet::new(false, terminal).columns;
        assert_eq!([None, Some(200), Some(80), Some(3)].map(columns), [100, 100, 80, 40]);
        let mut text = Vec::new();
        let sheet = Sheet { colour: false, columns: 10 };
        sheet.print(&mut text, |out| writeln!(out, "one two three\nfour")).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "one two\n    three\nfour\n");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_too_wide(line in "( {0,4}[a-z0-9%/é漢]{0,12}){0,20}", columns in 40usize..110) {
            let folded = fold(&line, columns);
            prop_assert!(folded.split_whitespace().eq(line.split_whitespace()), "{folded:?}");
            // A word that is wider stands alone.
            let fits = |row: &str| width(row) <= columns || !row.trim().contains(' ');
            prop_assert!(folded.lines().all(fits), "{folded:?}");
        }
    }
}
