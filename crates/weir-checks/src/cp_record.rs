//! A lane's greeting, record header and opened record as a far end may send them.

use weir_cp::wire::record::{self, Footer, Header};
use weir_cp::wire::{batch, patch};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut understood = false;
    if let Some((header, _)) = bytes.split_first_chunk() {
        let _ = Header::parse(header);
    }
    if let Some((greeting, _)) = bytes.split_first_chunk() {
        let _ = record::parse_greeting(greeting);
    }
    if let Ok((payload, footer)) = Footer::split(bytes) {
        let fits = u64::from(footer.raw) <= record::LONGEST_RUN << 20 || footer.kind == record::Kind::Hole;
        assert!(payload.len() <= footer.raw as usize && fits);
        understood = true;
    }
    if let Ok((members, contents)) = batch::parse(bytes) {
        let sizes: u64 = members.iter().map(|member| member.entry.size()).sum();
        assert_eq!(sizes, contents.len() as u64);
    }
    if let Ok((_, literals)) = patch::parse(bytes) {
        assert!(literals.len() <= bytes.len());
    }
    understood
}
