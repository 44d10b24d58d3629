//! A journal as a crash, a disk or a stranger may have left it.

use weir_get::journal::{Journal, VERSION};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut understood = false;
    // As it is, and past the checksum, where the fuzzer alone would hardly get.
    for text in [bytes.to_vec(), signed(bytes)] {
        if let Ok(journal) = Journal::parse(&text) {
            assert_eq!(Journal::parse(&journal.to_text()).expect("own text"), journal);
            let _ = journal.stored().gap_after(0, journal.size);
            understood = true;
        }
    }
    understood
}

fn signed(body: &[u8]) -> Vec<u8> {
    let mut text = format!("weir-journal {VERSION} crc32c={:08x}\n", crc32c::crc32c(body)).into_bytes();
    text.extend_from_slice(body);
    text
}
