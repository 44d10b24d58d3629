//! A journal as a crash, a disk or a stranger may have left it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_transfer::journal::Journal;

fuzz_target!(|bytes: &[u8]| {
    // As it is, and past the checksum, where the fuzzer alone would hardly get.
    for text in [bytes.to_vec(), signed(bytes)] {
        if let Ok(journal) = Journal::parse(&text) {
            assert_eq!(Journal::parse(&journal.to_text()).expect("own text"), journal);
            let _ = journal.stored().gap_after(0, journal.size);
        }
    }
});

fn signed(body: &[u8]) -> Vec<u8> {
    let mut text = format!("weir-journal 1 crc32c={:08x}\n", crc32c::crc32c(body)).into_bytes();
    text.extend_from_slice(body);
    text
}
