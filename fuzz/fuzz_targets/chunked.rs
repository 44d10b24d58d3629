//! A chunked body in one piece and cut at a place the input chooses: the same payload or the same error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_http::chunked::{ChunkedDecoder, Error};

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let cut = usize::from(cut).min(bytes.len());
    assert_eq!(decode(&[bytes]), decode(&[&bytes[..cut], &bytes[cut..]]));
});

fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), Error> {
    let mut decoder = ChunkedDecoder::new();
    let mut payload = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while !input.is_empty() && !decoder.is_done() {
            let step = decoder.decode(input)?;
            assert!(step.consumed > 0 && step.data.end <= step.consumed);
            payload.extend_from_slice(&input[step.data]);
            input = &input[step.consumed..];
        }
    }
    Ok((payload, decoder.is_done()))
}
