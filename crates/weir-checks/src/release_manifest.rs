//! `SHA256SUMS` of a release: what is read is what it says, and each name has one digest or none.

use weir_cp::ssh::Manifest;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Some(manifest) = Manifest::parse(text) else { return false };
    for line in text.lines() {
        let (digest, name) = line.split_at(64);
        let name = &name[2..];
        let name = name.strip_prefix("./").unwrap_or(name);
        assert!(!name.is_empty());
        // `None` only where the list contradicts itself.
        let same = |other: &str| other.to_ascii_lowercase().starts_with(&digest.to_ascii_lowercase());
        match manifest.digest(name) {
            Some(found) => assert_eq!(found, digest.to_ascii_lowercase()),
            None => assert!(text.lines().any(|other| !same(other))),
        }
    }
    true
}
