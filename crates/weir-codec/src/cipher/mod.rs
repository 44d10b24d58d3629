//! Ciphers: authenticated encryption of records, in place.
//!
//! [`ALL`] is the one table; names, numbers on the wire and the cipher bench walk it. The arithmetic is
//! AWS-LC's. A nonce must never be used twice with one key: whoever holds the key counts.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::aead;

/// Every cipher weir knows, in the order to prefer where all run at the same speed.
pub static ALL: &[Row] = &[AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305];

const AES_128_GCM: Row =
    Row { name: "aes-128-gcm", id: 1, ssh_name: "aes128-gcm@openssh.com", algorithm: &aead::AES_128_GCM };
const AES_256_GCM: Row =
    Row { name: "aes-256-gcm", id: 2, ssh_name: "aes256-gcm@openssh.com", algorithm: &aead::AES_256_GCM };
const CHACHA20_POLY1305: Row = Row {
    name: "chacha20-poly1305",
    id: 3,
    ssh_name: "chacha20-poly1305@openssh.com",
    algorithm: &aead::CHACHA20_POLY1305,
};

/// Length of a nonce; the same for all.
pub const NONCE_LEN: usize = 12;
/// Length of the tag that authenticates a record; the same for all.
pub const TAG_LEN: usize = 16;

/// One line of [`ALL`].
#[derive(Debug)]
pub struct Row {
    /// The name, in lower case.
    pub name: &'static str,
    /// The number on the wire; never given to another cipher.
    pub id: u8,
    /// What ssh calls the same cipher.
    pub ssh_name: &'static str,
    algorithm: &'static aead::Algorithm,
}

/// Why there is no cipher, no key or no plaintext.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    /// No row has this name.
    #[error("unknown cipher '{name}': expected one of {}", names())]
    UnknownName {
        /// What was asked for, shortened.
        name: String,
    },
    /// A key of another length than the cipher's.
    #[error("key of {len} bytes does not fit {cipher}: expected {}", cipher.key_len())]
    KeyLength {
        /// The cipher.
        cipher: Cipher,
        /// Length of the key.
        len: usize,
    },
    /// Key, nonce, associated data, tag and text are not the ones that were sealed. The text is worthless.
    #[error("record is not authentic: its tag does not match")]
    NotAuthentic,
}

/// A cipher of [`ALL`], by reference.
#[derive(Clone, Copy)]
pub struct Cipher(&'static Row);

impl Cipher {
    /// AES-128 in Galois/counter mode (NIST SP 800-38D): the quickest where the processor has AES
    /// instructions.
    pub const AES_128_GCM: Cipher = Cipher(&AES_128_GCM);
    /// ChaCha20 and Poly1305 (RFC 8439): the quickest where it has not.
    pub const CHACHA20_POLY1305: Cipher = Cipher(&CHACHA20_POLY1305);

    /// Every cipher, in the order of [`ALL`].
    pub fn all() -> impl Iterator<Item = Cipher> {
        ALL.iter().map(Cipher)
    }

    /// The cipher with this name, in either case.
    pub fn by_name(name: &str) -> Option<Cipher> {
        Self::all().find(|cipher| cipher.name().eq_ignore_ascii_case(name))
    }

    /// The cipher with this number on the wire.
    pub fn by_id(id: u8) -> Option<Cipher> {
        Self::all().find(|cipher| cipher.id() == id)
    }

    /// The name: `aes-128-gcm`.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The number on the wire.
    pub fn id(self) -> u8 {
        self.0.id
    }

    /// What ssh calls it.
    pub fn ssh_name(self) -> &'static str {
        self.0.ssh_name
    }

    /// Length of its keys in bytes.
    pub fn key_len(self) -> usize {
        self.0.algorithm.key_len()
    }

    /// A key ready for use; fails when the length is another than [`key_len`](Self::key_len).
    pub fn key(self, bytes: &[u8]) -> Result<Key, CipherError> {
        aead::UnboundKey::new(self.0.algorithm, bytes)
            .map(|key| Key(aead::LessSafeKey::new(key)))
            .map_err(|_| CipherError::KeyLength { cipher: self, len: bytes.len() })
    }
}

/// A key with its schedule computed. Sealing and opening allocate nothing.
#[derive(Debug)]
pub struct Key(aead::LessSafeKey);

impl Key {
    /// Encrypts `in_place` and gives the tag that proves it and `aad`.
    ///
    /// # Panics
    /// On records of 64 GiB or more, the most that one GCM nonce covers.
    pub fn seal(&self, nonce: [u8; NONCE_LEN], aad: &[u8], in_place: &mut [u8]) -> [u8; TAG_LEN] {
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, aead::Aad::from(aad), in_place);
        let tag = tag.expect("records are far below 64 GiB");
        tag.as_ref().try_into().expect("every cipher of the table has tags of 16 bytes")
    }

    /// Decrypts `in_place` if tag and `aad` belong to it. After an error what is in `in_place` must not be
    /// used.
    pub fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        in_place: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), CipherError> {
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        self.0
            .open_in_place_separate_tag(nonce, aead::Aad::from(aad), tag, in_place)
            .map(drop)
            .map_err(|_| CipherError::NotAuthentic)
    }
}

fn names() -> String {
    ALL.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

impl PartialEq for Cipher {
    fn eq(&self, other: &Cipher) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Cipher {}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Cipher {
    type Err = CipherError;

    /// Understands the name in either case.
    fn from_str(text: &str) -> Result<Cipher, CipherError> {
        Self::by_name(text).ok_or_else(|| CipherError::UnknownName { name: text.chars().take(40).collect() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::hex;

    #[test]
    fn table_is_sound() {
        let mut seen = HashSet::new();
        for cipher in Cipher::all() {
            assert!(seen.insert(cipher.name()) && seen.insert(cipher.ssh_name()));
            assert_eq!(cipher.name().to_uppercase().parse::<Cipher>().unwrap(), cipher);
            assert_eq!(Cipher::by_id(cipher.id()), Some(cipher));
            let algorithm = cipher.0.algorithm;
            assert_eq!((algorithm.nonce_len(), algorithm.tag_len()), (NONCE_LEN, TAG_LEN));
        }
        let written: Vec<_> = Cipher::all().map(|cipher| (cipher.name(), cipher.id())).collect();
        assert_eq!(written, [("aes-128-gcm", 1), ("aes-256-gcm", 2), ("chacha20-poly1305", 3)]);
    }

    /// Cases 3 and 4 of the GCM specification's appendix use longer texts; case 2 and 14 are one block of
    /// zeros with a zero key.
    #[test]
    fn published_answers() {
        let zero_block = |cipher: Cipher| {
            let mut text = [0; 16];
            let tag = cipher.key(&vec![0; cipher.key_len()]).unwrap().seal([0; 12], b"", &mut text);
            (hex::encode(&text), hex::encode(&tag))
        };
        assert_eq!(
            zero_block(Cipher::AES_128_GCM),
            ("0388dace60b6a392f328c2b971b2fe78".into(), "ab6e47d42cec13bdf53a67b21257bddf".into())
        );
        assert_eq!(
            zero_block(Cipher(&AES_256_GCM)),
            ("cea7403d4d606b6e074ec5d3baf39d18".into(), "d0d1c8a799996bf0265b98b5d48ab919".into())
        );
        // RFC 8439, section 2.8.2.
        let key: Vec<u8> = (0x80..0xA0).collect();
        let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
        let aad = [0x50, 0x51, 0x52, 0x53, 0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xC7];
        let mut text = *b"Ladies and Gentlemen of the class of '99: \
If I could offer you only one tip for the future, sunscreen would be it.";
        let tag = Cipher::CHACHA20_POLY1305.key(&key).unwrap().seal(nonce, &aad, &mut text);
        assert_eq!(hex::encode(&tag), "1ae10b594f09e26a7e902ecbd0600691");
        assert!(hex::encode(&text).starts_with("d31a8d34648e60db7b86afbc53ef7ec2"));
    }

    #[test]
    fn opens_what_was_sealed_and_nothing_else() {
        for cipher in Cipher::all() {
            let key = cipher.key(&vec![7; cipher.key_len()]).unwrap();
            for len in [0_usize, 1, 15, 16, 17, 1000, 1 << 20] {
                let plain: Vec<u8> = (0..len).map(|i| ((i * 7) >> 2) as u8).collect();
                let mut text = plain.clone();
                let tag = key.seal([3; 12], b"head", &mut text);
                assert!(len < 16 || text != plain);
                let sealed = text.clone();
                key.open([3; 12], b"head", &mut text, &tag).unwrap();
                assert_eq!(text, plain, "{cipher} {len}");

                let refused = |nonce, aad: &[u8], mut text: Vec<u8>, tag: [u8; 16]| {
                    assert_eq!(
                        key.open(nonce, aad, &mut text, &tag),
                        Err(CipherError::NotAuthentic),
                        "{cipher} {len}"
                    );
                };
                refused([4; 12], b"head", sealed.clone(), tag);
                refused([3; 12], b"heat", sealed.clone(), tag);
                refused(
                    [3; 12],
                    b"head",
                    sealed.clone(),
                    std::array::from_fn(|i| tag[i] ^ u8::from(i == 15)),
                );
                if let Some(cut) = len.checked_sub(1) {
                    refused([3; 12], b"head", sealed[..cut].to_vec(), tag);
                    let mut flipped = sealed.clone();
                    flipped[cut] ^= 1;
                    refused([3; 12], b"head", flipped, tag);
                }
            }
        }
    }

    #[test]
    fn words() {
        assert_eq!(
            "des".parse::<Cipher>().unwrap_err().to_string(),
            "unknown cipher 'des': expected one of aes-128-gcm, aes-256-gcm, chacha20-poly1305"
        );
        assert_eq!(
            Cipher(&AES_256_GCM).key(&[0; 16]).unwrap_err().to_string(),
            "key of 16 bytes does not fit aes-256-gcm: expected 32"
        );
    }
}
