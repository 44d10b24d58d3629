//! An entry off the wire: its name stays in its tree, and what was understood is written as the same bytes
//! mean.

use weir_tree::{Entry, Kind, Name};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    if let Ok(name) = Name::new(bytes) {
        stays(&name);
    }
    let Ok(entry) = postcard::from_bytes::<Entry>(bytes) else { return false };
    stays(&entry.name);
    match &entry.kind {
        Kind::HardLink { to } => stays(to),
        Kind::Symlink { target } => assert!(!target.as_bytes().is_empty() && !target.as_bytes().contains(&0)),
        _ => {}
    }
    assert!(entry.mode <= 0o7777 && entry.mtime.nanos() < 1_000_000_000);
    assert!(!entry.name.is_root() || entry.is_directory());
    let again = postcard::to_allocvec(&entry).expect("what was read can be written");
    assert_eq!(postcard::from_bytes::<Entry>(&again), Ok(entry));
    true
}

fn stays(name: &Name) {
    let bytes = name.as_bytes();
    assert!(bytes.len() < 4096 && !bytes.starts_with(b"/") && !bytes.contains(&0));
    assert!(name.components().all(|part| part != b".." && part != b"." && part.len() <= 255));
    assert_eq!(
        name.components().count(),
        bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).count()
    );
}
