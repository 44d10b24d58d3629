//! The first words: who speaks, and whether both can talk.

use crate::error::Error;
use crate::wire::message::{Hello, PROTOCOL};

/// This end's, with the speeds of its ciphers.
pub fn own(version: &str, ciphers: Vec<(u8, u64)>) -> Hello {
    Hello {
        protocol: PROTOCOL,
        version: version.to_owned(),
        ciphers,
        cpus: weir_observe::cpu::available_cpus().min(u16::MAX.into()) as u16,
        boot: weir_transfer::journal::boot_id(),
        addresses: Vec::new(),
    }
}

/// Whether the other end's fit.
pub fn check(host: &str, theirs: &Hello) -> Result<(), Error> {
    if theirs.protocol == PROTOCOL {
        return Ok(());
    }
    Err(Error::Protocol {
        host: host.to_owned(),
        theirs: theirs.protocol,
        version: theirs.version.clone(),
        ours: PROTOCOL,
    })
}
