//! Answers of a server under load, in pieces of any size: the same however they are cut.

use weir_bench_http::answer::{Answer, Complete, Kept, LastHead, Malformed};

use crate::Input;

fn feed(bytes: &[u8], size: usize, bodyless: bool) -> (Vec<Complete>, Option<Malformed>) {
    let (mut answer, mut last, mut kept) = (Answer::default(), LastHead::default(), Kept::default());
    let mut found = Vec::new();
    for piece in bytes.chunks(size) {
        let mut rest = piece;
        while !rest.is_empty() {
            match answer.feed(rest, &mut last, bodyless, Some(&mut kept)) {
                Ok((used, complete)) => {
                    assert!(used <= rest.len() && (used > 0 || complete.is_some()));
                    found.extend(complete);
                    rest = &rest[used..];
                }
                Err(wrong) => return (found, Some(wrong)),
            }
        }
    }
    found.extend(answer.end());
    (found, None)
}

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (size, bodyless, bytes) = (input.byte(), input.byte() & 1 == 1, input.rest());
    let whole = feed(bytes, bytes.len().max(1), bodyless);
    let pieces = feed(bytes, usize::from(size).max(1), bodyless);
    assert_eq!(whole, pieces);
    !whole.0.is_empty()
}
