//! Text that somebody else wrote, made fit to be repeated: in an error, in a page. What goes to a terminal
//! besides is made safe once, where it is printed (`weir-report/escape.rs`).
//!
//! Quoting for a protocol stays with its grammar: fields of HTTP (`weir-http`), a table's cells (RFC 4180,
//! `weir-report`), lists of digests, patterns of rsync's filters. So do two that cut on purpose otherwise:
//! names of files by bytes (`weir-tree/name.rs`), and a server's words within a sentence of weir's
//! (`weir-http/problem.rs`).

/// Characters of a foreign text that an error repeats: enough to recognise it by.
const MOST: usize = 80;

/// At most 80 characters, none that moves the cursor; `…` behind them where there were more.
///
/// ```
/// assert_eq!(weir_units::quoted("a\x1b[2J"), "a\u{fffd}[2J");
/// assert_eq!(weir_units::quoted(&"x".repeat(100)), "x".repeat(80) + "…");
/// ```
pub fn quoted(text: &str) -> String {
    let mut quoted: String =
        text.chars().take(MOST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(MOST).is_some() {
        quoted.push('…');
    }
    quoted
}

/// Appends `text` as HTML that is nothing but this text, between tags and within either kind of quotes. What
/// is to become of control characters was decided before.
///
/// ```
/// let mut page = String::new();
/// weir_units::push_html(&mut page, "<b title='x'>\"&");
/// assert_eq!(page, "&lt;b title=&#39;x&#39;&gt;&quot;&amp;");
/// ```
pub fn push_html(page: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            c => page.push(c),
        }
    }
}
