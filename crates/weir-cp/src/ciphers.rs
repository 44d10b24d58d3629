//! Which cipher is the fastest? Measured at both ends, since a processor's name does not say: instructions
//! may be missing, or be hidden from a guest, and ChaCha20 is then several times faster than AES.

use std::time::{Duration, Instant};

use weir_codec::cipher::Cipher;

/// Those that are worth a measurement: of the two lengths of AES keys the shorter is never the slower one.
const CANDIDATES: [Cipher; 2] = [Cipher::AES_128_GCM, Cipher::CHACHA20_POLY1305];

/// Bytes sealed at once: what fits the nearest cache, and is long against a record's fixed cost.
const PIECE: usize = 16 << 10;

/// Pieces that each is tried with, of which the fastest counts: at 5 GB/s they take 50 us, so that of a small
/// copy's time the trial is none.
const PIECES: usize = 16;

/// How long each is tried at most: even at 100 MB/s ten pieces.
const TRIAL: Duration = Duration::from_micros(1500);

/// Ciphers that an end may name.
pub(crate) const MAX_CIPHERS: usize = 16;

/// What seals without AES instructions, where nothing was measured at one of the ends.
const USUAL: Cipher = Cipher::CHACHA20_POLY1305;

/// The number of each and its bytes per second on one core of this machine. Takes 3 ms at most, 0.2 ms with
/// AES instructions.
pub fn measure() -> Vec<(u8, u64)> {
    CANDIDATES.iter().filter_map(|cipher| Some((cipher.id(), speed(*cipher)?))).collect()
}

/// The same from speeds that are known already; `None` unless each of those worth naming has one.
pub(crate) fn told(speeds: &[(Cipher, f64)]) -> Option<Vec<(u8, u64)>> {
    let speed = |cipher: &Cipher| {
        let (_, speed) = speeds.iter().find(|(known, _)| known == cipher)?;
        (speed.is_finite() && *speed >= 1.0).then_some((cipher.id(), *speed as u64))
    };
    CANDIDATES.iter().map(speed).collect()
}

/// The one whose slower end is the fastest.
pub fn fastest(own: &[(u8, u64)], theirs: &[(u8, u64)]) -> Cipher {
    let both = own.iter().filter_map(|(id, here)| {
        let (_, there) = theirs.iter().find(|(other, _)| other == id)?;
        Some((Cipher::by_id(*id)?, here.min(there)))
    });
    both.max_by_key(|(_, speed)| **speed).map_or(USUAL, |(cipher, _)| cipher)
}

fn speed(cipher: Cipher) -> Option<u64> {
    // Nothing is ever sent under this key.
    let key = cipher.key(&vec![0x5a; cipher.key_len()]).ok()?;
    let mut piece = vec![0; PIECE];
    let start = Instant::now();
    let mut best = Duration::MAX;
    for _ in 0..PIECES {
        if start.elapsed() >= TRIAL {
            break;
        }
        let before = Instant::now();
        key.seal([0; 12], &[], &mut piece);
        best = best.min(before.elapsed());
    }
    Some((PIECE as f64 / best.as_secs_f64().max(1e-9)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_end_decides() {
        let (aes, chacha) = (Cipher::AES_128_GCM.id(), Cipher::CHACHA20_POLY1305.id());
        let quick = [(aes, 9_000_000_000), (chacha, 2_000_000_000)];
        let old = [(aes, 200_000_000), (chacha, 600_000_000)];
        assert_eq!(fastest(&quick, &quick), Cipher::AES_128_GCM);
        assert_eq!(fastest(&quick, &old), Cipher::CHACHA20_POLY1305);
        assert_eq!(fastest(&old, &quick), Cipher::CHACHA20_POLY1305);
        assert_eq!(fastest(&quick, &[(aes, 1)]), Cipher::AES_128_GCM);
        assert_eq!(fastest(&quick, &[(77, 1)]), Cipher::CHACHA20_POLY1305);
    }

    #[test]
    fn every_candidate_has_a_speed() {
        let measured = measure();
        assert_eq!(measured.len(), CANDIDATES.len());
        assert!(measured.iter().all(|(_, speed)| *speed > 0));
    }
}
