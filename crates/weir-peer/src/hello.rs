//! The first words: who speaks, and whether both can talk.

use std::os::unix::fs::MetadataExt;

use crate::error::Error;
use crate::wire::message::{Hello, PROTOCOL};

/// This end's.
pub fn own(version: &str) -> Hello {
    Hello {
        protocol: PROTOCOL,
        version: version.to_owned(),
        aes: has_aes(),
        cpus: weir_observe::cpu::available_cpus().min(u16::MAX.into()) as u16,
        boot: weir_transfer::journal::boot_id(),
        network: network(),
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

/// Whether the two ends meet over loopback.
pub fn share_network(own: &Hello, theirs: &Hello) -> bool {
    own.boot == theirs.boot && own.network == theirs.network
}

/// The number of this process's network namespace (namespaces(7)).
fn network() -> u64 {
    std::fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino())
}

/// Whether the processor has instructions for AES and for GCM's multiplication. Without them ChaCha20 is several times
/// faster.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}
