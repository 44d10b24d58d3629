//! What the system says of a failure, as part of a sentence of ours.

use std::io;

/// `permission denied` for the standard library's `Permission denied (os error 13)`.
///
/// ```
/// let refused = std::io::Error::from_raw_os_error(13);
/// assert_eq!(weir_units::plain(&refused), "permission denied");
/// ```
pub fn plain(cause: &io::Error) -> String {
    let text = cause.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    let mut letters = text.chars();
    // Only a capital before a small letter: "RPC version wrong" keeps its own.
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_capital_before_a_small_letter_is_lowered() {
        assert_eq!(plain(&io::Error::from_raw_os_error(5)), "input/output error");
        assert_eq!(plain(&io::Error::other("RPC version wrong")), "RPC version wrong");
        assert_eq!(plain(&io::Error::other("")), "");
    }
}
