//! The digest of the digests of an object's parts, as stores keep it of what came in several pieces: S3's
//! composite checksums and the ETags of its multipart uploads.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html>

use std::sync::Arc;

use super::{Algorithm, Digest};

/// Each part of these sizes is digested by itself, and then their digests, one after another.
pub struct OfParts {
    algorithm: Algorithm,
    sizes: Arc<[u64]>,
    part: Box<dyn Digest>,
    /// Which part is next to end, and how many bytes of it are missing.
    next: usize,
    left: u64,
    all: Box<dyn Digest>,
}

impl OfParts {
    /// For parts of these sizes, in their order.
    pub fn new(algorithm: Algorithm, sizes: Arc<[u64]>) -> OfParts {
        let left = sizes.first().copied().unwrap_or(u64::MAX);
        OfParts { algorithm, sizes, part: algorithm.start(), next: 0, left, all: algorithm.start() }
    }

    fn end_part(&mut self) {
        let part = std::mem::replace(&mut self.part, self.algorithm.start());
        self.all.update(&part.finish());
        self.next += 1;
        self.left = self.sizes.get(self.next).copied().unwrap_or(u64::MAX);
    }
}

impl Digest for OfParts {
    fn update(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let own = rest.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.part.update(&rest[..own]);
            self.left -= own as u64;
            rest = &rest[own..];
            if self.left == 0 {
                self.end_part();
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Vec<u8> {
        // What is cut short, and what is longer than its parts, has another digest.
        if self.next < self.sizes.len() || self.left < u64::MAX {
            self.end_part();
        }
        self.all.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_digested_however_they_are_cut() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|number| (number * 7) as u8).collect();
        let sizes: Arc<[u64]> = vec![40_000, 40_000, 20_000].into();
        for algorithm in [Algorithm::MD5, Algorithm::CRC32C, Algorithm::SHA256] {
            let each: Vec<u8> = bytes.chunks(40_000).flat_map(|part| algorithm.of(part)).collect();
            let expected = algorithm.of(&each);
            for cut in [1, 333, 40_000, 99_999, 100_000] {
                let mut digest = OfParts::new(algorithm, Arc::clone(&sizes));
                bytes.chunks(cut).for_each(|piece| digest.update(piece));
                assert_eq!(Box::new(digest).finish(), expected, "{cut}");
            }
            for other in [&bytes[..99_999], &[&bytes[..], b"x"].concat()] {
                let mut digest = OfParts::new(algorithm, Arc::clone(&sizes));
                digest.update(other);
                assert_ne!(Box::new(digest).finish(), expected);
            }
        }
        // An object of no bytes has one part without any.
        let empty = OfParts::new(Algorithm::MD5, vec![0].into());
        assert_eq!(Box::new(empty).finish(), Algorithm::MD5.of(&Algorithm::MD5.of(b"")));
    }
}
