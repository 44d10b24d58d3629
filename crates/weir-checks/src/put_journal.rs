//! The journal of an upload, and that of a run's files, as a kill, a disk or a stranger may have left them.

use std::collections::BTreeSet;

use weir_store::upload::finished;
use weir_store::upload::journal::{Said, read};

/// Lines of a run's files that are looked at.
const LINES: usize = 1000;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut understood = false;
    // As it is, and past the checksums, where the fuzzer alone would hardly get.
    for text in [bytes.to_vec(), signed(bytes)] {
        understood |= holds_files(&text);
        let Some(said) = read(&text) else { continue };
        holds(&said);
        // What a kill has cut off says less, and nothing else.
        for end in [text.len() / 2, text.len().saturating_sub(1)] {
            if let Some(less) = read(&text[..end]) {
                assert_eq!(less.intent, said.intent);
                let is_part = |part: &_| said.parts.contains(part) || said.parts.len() >= less.parts.len();
                assert!(less.parts.iter().all(is_part));
            }
        }
        understood = true;
    }
    understood
}

/// Whether a file was named; each is once.
fn holds_files(text: &[u8]) -> bool {
    let (files, is_cut) = finished::read(text, LINES).expect("bytes in memory are read");
    let keys: BTreeSet<&str> = files.iter().map(|file| file.key.as_str()).collect();
    assert_eq!(keys.len(), files.len());
    assert!(!is_cut || !text.ends_with(b"\n") || text.len() > 1 << 10);
    !files.is_empty()
}

fn holds(said: &Said) {
    assert!(said.parts.windows(2).all(|two| two[0].number < two[1].number));
}

/// Each line with its own checksum before it.
fn signed(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len() * 2);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let body = line.strip_suffix(b"\n").unwrap_or(line);
        let json = body
            .splitn(2, |byte| *byte == b' ')
            .nth(1)
            .filter(|_| body.starts_with(b"crc32c="))
            .unwrap_or(body);
        text.extend_from_slice(format!("crc32c={:08x} ", crc32c::crc32c(json)).as_bytes());
        text.extend_from_slice(json);
        text.push(b'\n');
    }
    text
}
