//! The keys made of a session's secret, and the seals of records.

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use weir_codec::cipher::{Cipher, Key};

use crate::secret::Secret;
use crate::wire::record::{HEADER, Header, Malformed, TAG};

/// Which way a record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// From the sender of the data to their receiver.
    Forward = 1,
    /// The other way.
    Back = 2,
}

/// Makes the keys of lanes.
#[derive(Debug, Clone)]
pub struct Keyring {
    root: Prk,
    cipher: Option<Cipher>,
}

/// Seals the records of one lane and direction, and counts them: it is the only one that has this key and
/// seals.
#[derive(Debug)]
pub struct Sealer {
    key: Option<Key>,
    next: u64,
}

/// Opens the records of one lane and direction.
#[derive(Debug)]
pub struct Opener {
    key: Option<Key>,
}

/// What the next record of a lane must be.
#[derive(Debug, Default)]
pub struct Due {
    next: u64,
}

struct Length(usize);

impl Keyring {
    /// For lanes under `cipher`; `None` leaves records open.
    pub fn new(secret: &Secret, cipher: Option<Cipher>) -> Keyring {
        Keyring { root: Salt::new(HKDF_SHA256, b"weir cp 1").extract(&secret.0), cipher }
    }

    /// The same without a cipher: for records that ssh carries.
    pub fn open(&self) -> Keyring {
        Keyring { root: self.root.clone(), cipher: None }
    }

    /// The seal of what goes out on `lane` in `direction`. Only one may ever be made of each, or nonces
    /// repeat.
    pub(crate) fn sealer(&self, lane: u32, direction: Direction) -> Sealer {
        Sealer { key: self.key(lane, direction), next: 0 }
    }

    /// What opens it.
    pub fn opener(&self, lane: u32, direction: Direction) -> Opener {
        Opener { key: self.key(lane, direction) }
    }

    /// What whoever opens `lane` says in its first record in `direction`: only one who has the secret can,
    /// also where no cipher seals what follows.
    pub fn proof(&self, lane: u32, direction: Direction) -> [u8; 32] {
        self.word(b"hello", lane, direction)
    }

    /// What a connector of `lane` says before that, in the clear: enough to be told from a stranger by, and
    /// used for nothing else.
    pub fn cookie(&self, lane: u32, direction: Direction) -> [u8; 16] {
        self.word(b"door", lane, direction)
    }

    fn word<const N: usize>(&self, what: &[u8], lane: u32, direction: Direction) -> [u8; N] {
        let lane = lane.to_le_bytes();
        let info: [&[u8]; 3] = [what, &lane, &[direction as u8]];
        let mut word = [0; N];
        let filled = self.root.expand(&info, Length(N)).and_then(|okm| okm.fill(&mut word));
        // A word of zeros would prove nothing, so this has to stop the program.
        filled.expect("HKDF gives up to 255 hashes' length, a word is one at most");
        word
    }

    fn key(&self, lane: u32, direction: Direction) -> Option<Key> {
        let cipher = self.cipher?;
        let lane = lane.to_le_bytes();
        let info: [&[u8]; 3] = [b"lane", &lane, &[direction as u8, cipher.id()]];
        let mut bytes = vec![0; cipher.key_len()];
        let filled = self.root.expand(&info, Length(bytes.len())).and_then(|key| key.fill(&mut bytes));
        // A key of zeros must never be used, so this has to stop the program.
        filled.expect("HKDF gives up to 255 hashes' length, a key is shorter than two");
        Some(cipher.key(&bytes).expect("it has the cipher's length"))
    }
}

impl Sealer {
    /// Seals `plain` where it lies and appends the tag. Returns the header that goes before it.
    pub fn seal(&mut self, plain: &mut Vec<u8>) -> [u8; HEADER] {
        let header = Header { length: plain.len(), sequence: self.next }.to_bytes();
        if let Some(key) = &self.key {
            let tag = key.seal(nonce(self.next), &header, plain);
            plain.extend_from_slice(&tag);
        }
        self.next += 1;
        header
    }

    /// The sequence of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }
}

impl Opener {
    /// Bytes that follow the header of such a record.
    pub fn sealed_len(&self, header: &Header) -> usize {
        header.length + if self.key.is_some() { TAG } else { 0 }
    }

    /// Opens the record whose bytes after the header are in `sealed`, where they lie. Returns the plaintext.
    pub fn open<'a>(&self, header: &Header, sealed: &'a mut [u8]) -> Result<&'a [u8], Malformed> {
        let Some(key) = &self.key else { return Ok(sealed) };
        let (plain, tag) = sealed.split_last_chunk_mut::<TAG>().ok_or(Malformed::Tag)?;
        key.open(nonce(header.sequence), &header.to_bytes(), plain, tag).map_err(|_| Malformed::Tag)?;
        Ok(plain)
    }
}

impl Due {
    /// Takes a header in: its bounds and its place are checked, its tag is not yet.
    pub fn take(&mut self, bytes: &[u8; HEADER]) -> Result<Header, Malformed> {
        let header = Header::parse(bytes)?;
        if header.sequence != self.next {
            return Err(Malformed::Sequence { found: header.sequence, expected: self.next });
        }
        self.next += 1;
        Ok(header)
    }
}

fn nonce(sequence: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&sequence.to_le_bytes());
    nonce
}

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ring(cipher: u8) -> Keyring {
        Keyring::new(&Secret([7; 32]), Cipher::by_id(cipher))
    }

    #[test]
    fn keys_differ_by_lane_direction_cipher_and_secret() {
        let other = Keyring::new(&Secret([8; 32]), Cipher::by_id(1));
        let sealed = |ring: &Keyring, lane, direction| {
            let mut plain = vec![0; 100];
            ring.sealer(lane, direction).seal(&mut plain);
            plain
        };
        let all = [
            sealed(&ring(1), 0, Direction::Forward),
            sealed(&ring(1), 1, Direction::Forward),
            sealed(&ring(1), 0, Direction::Back),
            sealed(&ring(2), 0, Direction::Forward),
            sealed(&ring(3), 0, Direction::Forward),
            sealed(&other, 0, Direction::Forward),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other != one));
        }
    }

    #[test]
    fn proofs_differ_by_lane_direction_and_secret() {
        let other = Keyring::new(&Secret([8; 32]), None);
        let all = [
            ring(0).proof(0, Direction::Forward),
            ring(0).proof(1, Direction::Forward),
            ring(0).proof(0, Direction::Back),
            other.proof(0, Direction::Forward),
            [0; 32],
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other != one));
        }
        assert_eq!(ring(0).proof(0, Direction::Back), ring(1).proof(0, Direction::Back));
    }

    proptest! {
        #[test]
        fn what_was_changed_repeated_or_moved_does_not_open(
            cipher in 1u8..4, size in 64usize..300, at in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let ring = ring(cipher);
            let (mut sealer, opener) = (ring.sealer(4, Direction::Forward), ring.opener(4, Direction::Forward));
            let records: Vec<_> = (0..2u8).map(|value| {
                let mut plain = vec![value; size];
                (sealer.seal(&mut plain), plain)
            }).collect();
            let opens = |header: &Header, sealed: &[u8]| opener.open(header, &mut sealed.to_vec()).map(<[u8]>::to_vec);
            let mut due = Due::default();
            let header = due.take(&records[0].0).unwrap();
            prop_assert_eq!(opener.sealed_len(&header), records[0].1.len());
            prop_assert_eq!(opens(&header, &records[0].1), Ok(vec![0; size]));
            let mut bent = records[0].1.clone();
            let at = at.index(bent.len());
            bent[at] ^= 1 << bit;
            prop_assert_eq!(opens(&header, &bent), Err(Malformed::Tag));
            let twice = Err(Malformed::Sequence { found: 0, expected: 1 });
            prop_assert_eq!(due.take(&records[0].0), twice);
            // The second record under the first one's header: its tag covers the sequence.
            prop_assert_eq!(opens(&header, &records[1].1), Err(Malformed::Tag));
            let skipped = Err(Malformed::Sequence { found: 1, expected: 0 });
            prop_assert_eq!(Due::default().take(&records[1].0), skipped);
        }
    }
}
