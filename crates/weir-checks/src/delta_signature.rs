//! A signature off the wire: bounded, and harmless to hold against any file.

use std::io::Write;

use weir_tree::Name;
use weir_tree::delta::{self, Signature};

use crate::Input;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let length = usize::from(input.half());
    let (bytes, content) = input.0.split_at(length.min(input.0.len()));
    let Ok(signature) = postcard::from_bytes::<Signature>(bytes) else { return false };
    let again = postcard::to_allocvec(&signature).expect("what was read can be written");
    assert_eq!(postcard::from_bytes::<Signature>(&again), Ok(signature.clone()));
    let memory = rustix::fs::memfd_create("new", rustix::fs::MemfdFlags::CLOEXEC).expect("memory for a file");
    let mut file = std::fs::File::from(memory);
    file.write_all(content).expect("room for the file");
    let recipe = delta::missing(&file, &Name::root(), &signature, &|_| ()).expect("a file that can be read");
    assert!(recipe.size() == content.len() as u64 && recipe.fits(signature.size()));
    true
}
