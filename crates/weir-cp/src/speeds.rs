//! How quick this machine is, as far as its end was told beforehand. Whoever starts an end looks that up;
//! what is not known is measured or learnt while it copies.

use weir_codec::cipher::Cipher;
use weir_model::chooser::{CANDIDATES, Candidate, Chooser};

use crate::ciphers;

/// Of one core.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Speeds {
    /// Bytes per second that it seals.
    pub ciphers: Vec<(Cipher, f64)>,
    /// Bytes per second that it compresses, of whatever data.
    pub codecs: Vec<(Candidate, f64)>,
}

impl Speeds {
    /// What goes into the first words: what was told, where every cipher worth naming was, else measured now.
    pub(crate) fn of_ciphers(&self) -> Vec<(u8, u64)> {
        ciphers::told(&self.ciphers).unwrap_or_else(ciphers::measure)
    }

    /// An end that begins with these has use for some of them: for ciphers, or, where it sends, for codecs.
    pub fn are_used(&self, sends: bool) -> bool {
        ciphers::told(&self.ciphers).is_some() || sends && Chooser::takes(&CANDIDATES, &self.codecs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_stands_for_a_measurement() {
        let (aes, chacha) = (Cipher::AES_128_GCM, Cipher::CHACHA20_POLY1305);
        let told = |speeds: &[(Cipher, f64)]| Speeds { ciphers: speeds.to_vec(), codecs: Vec::new() };
        let both = told(&[(chacha, 1.5e9), (aes, 6e9)]);
        assert_eq!(both.of_ciphers(), [(aes.id(), 6_000_000_000), (chacha.id(), 1_500_000_000)]);
        assert!(both.are_used(false) && !Speeds::default().are_used(true));
        for unsound in [
            told(&[(aes, 6e9)]),
            told(&[(aes, 6e9), (chacha, f64::NAN)]),
            told(&[(aes, -1.0), (chacha, 1e9)]),
        ] {
            assert!(!unsound.are_used(true), "{unsound:?}");
            assert_eq!(unsound.of_ciphers().len(), 2, "measured then");
        }
    }
}
