//! A coded body in one piece and cut at a place the input chooses: the same bytes or no file.

use weir_codec::content::{Coding, Decoder, Pull};

use crate::Input;

/// More than a body of this size can unpack to in a fuzzer's time is not looked at.
const MOST: usize = 1 << 20;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (which, cut, bytes) = (input.byte(), input.half(), input.rest());
    let all = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];
    let codings = [all[usize::from(which & 3)], all[usize::from(which >> 2 & 3)]];
    let codings = &codings[..1 + usize::from(which >> 7)];
    let cut = usize::from(cut).min(bytes.len());
    let (whole, parts) = (decode(codings, &[bytes]), decode(codings, &[&bytes[..cut], &bytes[cut..]]));
    assert_eq!(whole, parts);
    whole.is_some()
}

fn decode(codings: &[Coding], pieces: &[&[u8]]) -> Option<Vec<u8>> {
    let (mut decoder, mut out, mut room) = (Decoder::new(codings), Vec::new(), [0; 4096]);
    let mut pieces = pieces.iter();
    loop {
        match decoder.pull(&mut room).ok()? {
            Pull::Bytes(length) => out.extend_from_slice(&room[..length]),
            Pull::Done => return Some(out),
            Pull::Needs => match pieces.next() {
                Some(piece) => decoder.push(piece),
                None => decoder.end(),
            },
        }
        if out.len() > MOST {
            return None;
        }
    }
}
