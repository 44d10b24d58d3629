//! The first words: who speaks, and whether both can talk.

use std::os::unix::fs::MetadataExt;

use crate::error::CopyError;
use crate::wire::message::{Hello, PROTOCOL};

/// This end's, with the speeds of its ciphers.
pub fn own(version: &str, ciphers: Vec<(u8, u64)>) -> Hello {
    Hello {
        protocol: PROTOCOL,
        version: version.to_owned(),
        ciphers,
        cpus: weir_observe::cpu::available_cpus().min(u16::MAX.into()) as u16,
        boot: weir_units::boot::id(),
        network: network(),
        addresses: crate::addresses::own(),
    }
}

/// Whether the other end's fit.
pub fn check(host: &str, theirs: &Hello) -> Result<(), CopyError> {
    if theirs.protocol == PROTOCOL {
        return Ok(());
    }
    Err(CopyError::Protocol {
        host: host.to_owned(),
        theirs: theirs.protocol,
        version: theirs.version.clone(),
        ours: PROTOCOL,
    })
}

/// Whether these bytes, which are no message of this protocol, are another one's first words: number and
/// version stand at their beginning in every protocol.
pub fn of_another(host: &str, body: &[u8]) -> Option<CopyError> {
    let (hello, theirs, version) = postcard::take_from_bytes::<(u32, u16, String)>(body).ok()?.0;
    (hello == 0 && theirs != PROTOCOL).then(|| CopyError::Protocol {
        host: host.to_owned(),
        theirs,
        version: version.chars().take(SHOWN).collect(),
        ours: PROTOCOL,
    })
}

/// Of a stranger's version, what an error shows.
const SHOWN: usize = 40;

/// Whether the two ends meet over loopback.
pub(crate) fn share_network(own: &Hello, theirs: &Hello) -> bool {
    own.boot == theirs.boot && own.network == theirs.network
}

/// The number of this process's network namespace (namespaces(7)).
fn network() -> u64 {
    std::fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino())
}
