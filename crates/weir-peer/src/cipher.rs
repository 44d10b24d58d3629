//! The ciphers of a lane, until they come from the codec crate.
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

/// A cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cipher {
    id: u8,
    name: &'static str,
    algorithm: &'static Algorithm,
}

/// A key.
#[derive(Debug)]
pub struct Key(LessSafeKey);

impl Cipher {
    /// By number.
    pub fn by_id(id: u8) -> Option<Cipher> {
        let (name, algorithm) = match id {
            1 => ("aes-128-gcm", &AES_128_GCM),
            2 => ("aes-256-gcm", &AES_256_GCM),
            3 => ("chacha20-poly1305", &CHACHA20_POLY1305),
            _ => return None,
        };
        Some(Cipher { id, name, algorithm })
    }
    /// Number.
    pub fn id(&self) -> u8 {
        self.id
    }
    /// Name.
    pub fn name(&self) -> &'static str {
        self.name
    }
    /// Bytes of a key.
    pub fn key_len(&self) -> usize {
        self.algorithm.key_len()
    }
    /// Key.
    pub fn key(&self, bytes: &[u8]) -> Key {
        Key(LessSafeKey::new(UnboundKey::new(self.algorithm, bytes).expect("length")))
    }
}
impl Key {
    /// Seal.
    pub fn seal(&self, nonce: [u8; 12], aad: &[u8], data: &mut [u8]) -> [u8; 16] {
        let tag = self
            .0
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), data)
            .expect("seal");
        tag.as_ref().try_into().expect("16")
    }
    /// Open.
    pub fn open(&self, nonce: [u8; 12], aad: &[u8], data: &mut [u8], tag: &[u8; 16]) -> Result<(), ()> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.open_in_place_separate_tag(nonce, Aad::from(aad), tag, data).map(|_| ()).map_err(|_| ())
    }
}
