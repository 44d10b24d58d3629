//! What the driver draws and both ends of a session share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// 32 random bytes that both ends share; ssh carries them, nobody prints them.
#[derive(Clone, Serialize, Deserialize)]
pub struct Secret(pub(crate) [u8; 32]);

/// The system gives no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot draw a secret: the system gives no random numbers")]
pub struct NoRandom;

/// From the kernel. The library's own generator first gathers jitter of its own, which takes a tenth of a
/// second of processor time; for 32 bytes a run the kernel's is as good.
pub(crate) fn fill_random(bytes: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl Secret {
    /// A fresh one.
    pub fn draw() -> Result<Secret, NoRandom> {
        let mut bytes = [0; 32];
        fill_random(&mut bytes).map_err(|_| NoRandom)?;
        Ok(Secret(bytes))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
