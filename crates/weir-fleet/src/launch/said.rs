//! What another program complained, in a line of an error.

/// The most letters of it: some lines, of which the first or the last says why.
const MOST: usize = 600;

/// Its lines as one, without what moves a terminal's cursor.
pub(super) fn one_line(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes)
        .chars()
        .filter(|letter| *letter == '\n' || !letter.is_control())
        .collect();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").chars().take(MOST).collect()
}
