//! The raw bytes of a batch: its entries and their contents, to the byte.

use weir_cp::wire::batch;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let Ok((members, contents)) = batch::parse(bytes) else { return false };
    let sizes: u64 = members.iter().map(|member| member.entry.size()).sum();
    assert!(sizes == contents.len() as u64 && members.len() <= batch::MAX_MEMBERS);
    let mut again = Vec::new();
    batch::write(&members, contents, &mut again);
    assert_eq!(batch::parse(&again), Ok((members, contents)));
    true
}
