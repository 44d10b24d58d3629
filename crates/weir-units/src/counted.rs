//! How many of something, in words.

/// A number and its noun, of which most take an s.
///
/// ```
/// assert_eq!(weir_units::counted(1, "connection"), "1 connection");
/// assert_eq!(weir_units::counted(0, "file"), "0 files");
/// ```
pub fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
