//! The log at the end of a part, as a crash, a disk or a stranger may have left it.

use weir_cp::receiver::journal;
use weir_tree::entry::Time;
use weir_tree::{Entry, Kind, Name};

use crate::Input;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (size, bytes) = (input.long(), input.rest());
    let size = size % (1 << 50);
    let name = Name::new(&b"x"[..]).expect("a name");
    let mtime = Time::new(0, 0).expect("a time");
    let kind = Kind::File { size, sparse: false };
    let entry = Entry { name, kind, mode: 0, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
    let Ok(Some(log)) = journal::parse(bytes, &entry, &[b'0'; 36]) else { return false };
    assert!(log.length <= bytes.len() as u64);
    true
}
