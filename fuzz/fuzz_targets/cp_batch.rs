//! The raw bytes of a batch: its entries and their contents, to the byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_peer::wire::batch;

fuzz_target!(|bytes: &[u8]| {
    let Ok((members, contents)) = batch::parse(bytes) else { return };
    let sizes: u64 = members.iter().map(|member| member.entry.size()).sum();
    assert!(sizes == contents.len() as u64 && members.len() <= batch::MAX_MEMBERS);
    let mut again = Vec::new();
    batch::write(&members, contents, &mut again);
    assert_eq!(batch::parse(&again), Ok((members, contents)));
});
