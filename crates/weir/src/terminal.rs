//! What may be shown on a terminal.

use std::io::IsTerminal;

/// Whether `stream` is a terminal that can move its cursor and change its colours: the windows of some
/// editors and builds cannot, and say so (terminfo(5), `dumb`).
pub fn can_move(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && is_named()
}

/// The same of whatever terminal there is.
pub fn is_named() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Colour only for people who did not say no.
pub fn colours(stream: &impl IsTerminal) -> bool {
    can_move(stream) && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
