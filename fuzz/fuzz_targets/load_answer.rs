//! Answers of a server under load, in pieces of any size: the same however they are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_load::answer::{Answer, Complete, Kept, LastHead, Malformed};

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

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (size, bodyless, bytes) = input;
    let whole = feed(bytes, bytes.len().max(1), bodyless);
    let pieces = feed(bytes, usize::from(size).max(1), bodyless);
    assert_eq!(whole, pieces);
});
