//! What may be shown on a terminal.

use std::io::IsTerminal;

/// Colour only for people who did not say no.
pub fn colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
