//! The decoder of each codec: the first byte names it, the next three the length that was announced.

use weir_codec::codec::{ALL, Codec};

/// Whether the input was understood.
pub fn check(data: &[u8]) -> bool {
    let [which, low, middle, high, packed @ ..] = data else { return false };
    let codec = Codec::all().nth(usize::from(*which) % ALL.len()).expect("one of the table");
    // Mostly short, so that lengths that fit are met often; up to 512 KiB.
    let len = usize::from(*low)
        | usize::from(*middle & 15) << 8
        | usize::from(*high & if middle & 16 == 0 { 0 } else { 127 }) << 12;
    let mut out = Vec::new();
    match codec.decompress(packed, len, &mut out) {
        Ok(()) => {
            assert_eq!(out.len(), len);
            // What came out can be packed, and comes out again.
            let mut again = Vec::new();
            codec.compress(codec.default_level(), &out, &mut again).expect("any bytes can be packed");
            let mut back = Vec::new();
            codec.decompress(&again, len, &mut back).expect("what was packed can be unpacked");
            assert!(back == out);
            true
        }
        Err(_) => {
            assert!(out.is_empty());
            false
        }
    }
}
