//! The head of a datagram: when it was sent, by the sender's clock, and its number from 1. All big-endian;
//! padding follows.

use std::time::Duration;

/// The first words of a UDP stream, client to server: four bytes that read `9876`.
pub(crate) const HELLO: [u8; 4] = 0x3637_3839_u32.to_le_bytes();

/// The server's answer: four bytes that read `6789`.
pub(crate) const WELCOME: [u8; 4] = 0x3938_3736_u32.to_le_bytes();

/// What clients before 3.10 say, in their own byte order.
const OLD_HELLO: u32 = 123_456_789;

/// What servers before 3.10 say.
const OLD_WELCOME: u32 = 987_654_321;

/// Whether a datagram opens a stream.
pub fn is_hello(bytes: &[u8]) -> bool {
    bytes == HELLO || is_word(bytes, OLD_HELLO)
}

/// Whether a datagram answers a hello.
pub fn is_welcome(bytes: &[u8]) -> bool {
    bytes == WELCOME || is_word(bytes, OLD_WELCOME)
}

fn is_word(bytes: &[u8], word: u32) -> bool {
    bytes == word.to_le_bytes() || bytes == word.to_be_bytes()
}

/// A datagram's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Since an instant of the sender's own.
    pub sent: Duration,
    /// From 1.
    pub number: u64,
}

impl Head {
    /// Bytes of a head with numbers of 32 bits, or of 64.
    pub fn length(wide: bool) -> usize {
        if wide { 16 } else { 12 }
    }

    /// Writes the head into a datagram's first bytes; nothing where it does not fit.
    pub fn write(self, wide: bool, datagram: &mut [u8]) {
        let Some(room) = datagram.get_mut(..Head::length(wide)) else { return };
        room[..4].copy_from_slice(&(self.sent.as_secs() as u32).to_be_bytes());
        room[4..8].copy_from_slice(&self.sent.subsec_micros().to_be_bytes());
        if wide {
            room[8..].copy_from_slice(&self.number.to_be_bytes());
        } else {
            room[8..].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
    }

    /// Reads a datagram's head; `None` of one that is too short.
    pub fn parse(wide: bool, datagram: &[u8]) -> Option<Head> {
        let word = |at: usize| datagram.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        let sent = Duration::new(word(0)?.into(), 0) + Duration::from_micros(word(4)?.into());
        let number = match wide {
            true => datagram.get(8..16)?.try_into().ok().map(u64::from_be_bytes)?,
            false => word(8)?.into(),
        };
        Some(Head { sent, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_words_read_as_told() {
        assert_eq!((&HELLO, &WELCOME), (b"9876", b"6789"));
        assert!(is_hello(b"9876") && is_welcome(b"6789") && !is_hello(b"6789") && !is_welcome(b"9876"));
        assert!(is_hello(&OLD_HELLO.to_le_bytes()) && is_welcome(&OLD_WELCOME.to_le_bytes()));
        assert!(!is_hello(b"") && !is_hello(b"98765") && !is_welcome(&[0; 1460]));
    }

    proptest! {
        #[test]
        fn a_head_survives_the_wire(seconds: u32, micros in 0..1_000_000_u32, number: u64, wide: bool) {
            let number = if wide { number } else { number & u64::from(u32::MAX) };
            let head = Head { sent: Duration::new(seconds.into(), micros * 1000), number };
            let mut datagram = [0xaa; 64];
            head.write(wide, &mut datagram);
            prop_assert_eq!(Head::parse(wide, &datagram), Some(head));
            prop_assert!(datagram[Head::length(wide)..].iter().all(|byte| *byte == 0xaa));
        }

        #[test]
        fn no_datagram_breaks_it(bytes: Vec<u8>, wide: bool) {
            let read = Head::parse(wide, &bytes);
            prop_assert_eq!(read.is_some(), bytes.len() >= Head::length(wide));
        }
    }
}
