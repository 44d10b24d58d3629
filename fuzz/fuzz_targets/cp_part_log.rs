//! The log at the end of a part, as a crash, a disk or a stranger may have left it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_peer::receiver::journal;
use weir_tree::entry::Time;
use weir_tree::{Entry, Kind, Name};

fuzz_target!(|input: (u64, Vec<u8>)| {
    let (size, bytes) = input;
    let size = size % (1 << 50);
    let name = Name::new(&b"x"[..]).expect("a name");
    let mtime = Time::new(0, 0).expect("a time");
    let kind = Kind::File { size, sparse: false };
    let entry = Entry { name, kind, mode: 0, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
    if let Ok(Some(log)) = journal::parse(&bytes[..], &entry, &[b'0'; 36]) {
        assert!(log.length <= bytes.len() as u64);
    }
});
