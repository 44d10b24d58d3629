//! Hexadecimal text: lower case when written, either case when read.

/// Text that is not hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HexError {
    /// Half a byte is left over.
    #[error("{digits} hexadecimal digits do not make whole bytes: expected an even number")]
    Odd {
        /// How many digits there were.
        digits: usize,
    },
    /// A character that is no digit.
    #[error("'{}' at position {position} is not a hexadecimal digit: expected 0-9 or a-f", found.escape_default())]
    Digit {
        /// The character found.
        found: char,
        /// Where, counted in bytes from 0.
        position: usize,
    },
}

/// `bytes` as lower-case digits, two a byte.
pub fn encode(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes that `text` spells. Allocates half the length of `text`; callers cap foreign text.
pub fn decode(text: &str) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for (position, found) in text.char_indices() {
        // A base-16 digit is below 16, so the narrowing loses nothing.
        let digit = found.to_digit(16).ok_or(HexError::Digit { found, position })? as u8;
        match high.take() {
            None => high = Some(digit << 4),
            Some(high) => bytes.push(high | digit),
        }
    }
    match high {
        None => Ok(bytes),
        Some(_) => Err(HexError::Odd { digits: text.len() }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(decode("abc"), Err(HexError::Odd { digits: 3 }));
        assert_eq!(
            decode("0g").unwrap_err().to_string(),
            "'g' at position 1 is not a hexadecimal digit: expected 0-9 or a-f"
        );
        assert_eq!(decode("DEadBEef").unwrap(), [0xde, 0xad, 0xbe, 0xef]);
    }

    proptest! {
        #[test]
        fn round_trip(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }

        #[test]
        fn never_panics(text: String) {
            let _ = decode(&text);
        }
    }
}
