//! A chunked body in one piece and cut at a place the input chooses: the same payload or the same error.

use weir_http::chunked::{ChunkError, ChunkedDecoder};

use crate::Input;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (cut, bytes) = (input.half(), input.rest());
    let cut = usize::from(cut).min(bytes.len());
    let whole = decode(&[bytes]);
    assert_eq!(whole, decode(&[&bytes[..cut], &bytes[cut..]]));
    whole.is_ok_and(|(_, done)| done)
}

fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), ChunkError> {
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
