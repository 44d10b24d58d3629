//! JSON on the control connection: four bytes of length, big-endian, then the text without a NUL.

use serde_json::Value;

use crate::ordered::Json;

/// Parameters are no longer than this: iperf3 itself takes no more, and weir's own are a tenth of it.
pub const PARAMETERS: usize = 8192;

/// Results are no longer than this. Of 128 streams each way they are 60 KB; a server's own output beside them
/// (`-J` and a line for each stream and tenth of a second) fills the rest.
pub(crate) const RESULTS: usize = 8 << 20;

/// A client's are no longer than this: it has no output of a server to tell. Values of JSON take a hundred
/// times their text.
pub(crate) const RESULTS_OF_CLIENT: usize = 256 << 10;

/// A frame that cannot be one.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// Longer than what is read.
    #[error("announced {length} bytes of JSON, more than {most}")]
    TooLong {
        /// As announced.
        length: u32,
        /// What is read at most.
        most: usize,
    },
    /// Not JSON.
    #[error("sent malformed JSON")]
    NotJson(#[source] serde_json::Error),
}

/// A value as a frame; `None` for one of 4 GiB and more.
pub fn encode(value: &Value) -> Option<Vec<u8>> {
    encode_text(&value.to_string())
}

/// The same of JSON that is text already.
pub(crate) fn encode_text(text: &str) -> Option<Vec<u8>> {
    let mut frame = u32::try_from(text.len()).ok()?.to_be_bytes().to_vec();
    frame.extend(text.as_bytes());
    Some(frame)
}

/// The length that a frame's head announces, if it is at most `most`.
pub fn parse_length(head: [u8; 4], most: usize) -> Result<usize, Malformed> {
    let length = u32::from_be_bytes(head);
    match usize::try_from(length) {
        Ok(bytes) if bytes <= most => Ok(bytes),
        _ => Err(Malformed::TooLong { length, most }),
    }
}

/// The frame's text as a value. serde_json bounds the depth (128).
pub fn parse_text(text: &[u8]) -> Result<Value, Malformed> {
    // Some versions count a NUL that ends the text.
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    serde_json::from_slice(text).map_err(Malformed::NotJson)
}

/// The same with its members in the order in which they came.
pub(crate) fn parse_in_order(text: &[u8]) -> Result<Json, Malformed> {
    Json::parse(text.strip_suffix(b"\0").unwrap_or(text)).map_err(Malformed::NotJson)
}

/// A number of a peer's JSON that must not be negative. Of 2^63 and more it is what 3.12 makes of -1, so it
/// is none either.
pub(crate) fn count(value: &Value) -> Option<u64> {
    let number = value.as_f64()?;
    // 2^63 as a double.
    (0.0..9_223_372_036_854_775_808.0).contains(&number).then(|| value.as_u64().unwrap_or(number as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_frame_has_its_length_before_it() {
        let frame = encode(&json!({ "tcp": true })).unwrap();
        assert_eq!(frame[..4], [0, 0, 0, 12]);
        let length = parse_length(frame[..4].try_into().unwrap(), PARAMETERS).unwrap();
        assert_eq!(parse_text(&frame[4..4 + length]).unwrap(), json!({ "tcp": true }));
        assert!(parse_text(b"{}\0").is_ok());
    }

    #[test]
    fn lengths_are_capped() {
        assert!(matches!(
            parse_length([0xff; 4], RESULTS),
            Err(Malformed::TooLong { length: u32::MAX, most: RESULTS })
        ));
        assert!(parse_length([0, 0, 32, 1], PARAMETERS).is_err());
        assert_eq!(parse_length([0, 0, 32, 0], PARAMETERS).unwrap(), PARAMETERS);
        assert!(parse_text(&[b'['; 8192]).is_err(), "depth is bounded");
    }

    #[test]
    fn minus_one_is_no_count_however_it_is_written() {
        assert_eq!(count(&json!(-1)), None);
        assert_eq!(count(&json!(1.8446744073709552e19)), None);
        assert_eq!(count(&json!(u64::MAX)), None);
        assert_eq!(count(&json!("7")), None);
        assert_eq!(count(&json!(7.0)), Some(7));
        assert_eq!(count(&json!(9_007_199_254_740_993_u64)), Some(9_007_199_254_740_993));
    }
}
