//! Whether a file has the content of an object, by a digest that the store keeps of it (`--checksum`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use weir_codec::digest::Algorithm;
use weir_codec::hex;

use crate::listing::Looked;

/// What is read at once.
const PIECE: usize = 256 << 10;

/// The checksums that S3 keeps, the cheapest to compute first.
const KEPT: [(&str, Algorithm); 5] = [
    ("x-amz-checksum-crc64nvme", Algorithm::CRC64NVME),
    ("x-amz-checksum-crc32c", Algorithm::CRC32C),
    ("x-amz-checksum-crc32", Algorithm::CRC32),
    ("x-amz-checksum-sha256", Algorithm::SHA256),
    ("x-amz-checksum-sha1", Algorithm::SHA1),
];

/// A digest of all of the object; `None` where the store keeps none: of an object of parts it may keep
/// digests of digests alone.
pub fn digest_of(looked: &Looked) -> Option<(Algorithm, Vec<u8>)> {
    let header =
        |name: &str| looked.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    let is_composite =
        header("x-amz-checksum-type").is_some_and(|kind| kind.eq_ignore_ascii_case("COMPOSITE"));
    let kept = KEPT.iter().filter(|_| !is_composite).find_map(|(name, algorithm)| {
        let value = STANDARD.decode(header(name)?).ok()?;
        (value.len() == algorithm.len()).then_some((*algorithm, value))
    });
    // Google's crc32c, which parts can be put together by, and Azure's digest of all of a blob.
    let of_google = || {
        let value = header("x-goog-hash")?.strip_prefix("crc32c=")?;
        let value = STANDARD.decode(value).ok().filter(|value| value.len() == Algorithm::CRC32C.len())?;
        Some((Algorithm::CRC32C, value))
    };
    let of_azure = || {
        let value = STANDARD.decode(header("content-md5")?).ok()?;
        (value.len() == Algorithm::MD5.len()).then_some((Algorithm::MD5, value))
    };
    kept.or_else(of_google).or_else(of_azure).or_else(|| {
        // The tag of what came in one piece is its MD5, unless the store encrypts it with a key of its own,
        // or makes its tags otherwise.
        let is_plain = !looked.is_opaque
            && header("x-amz-server-side-encryption").is_none_or(|how| how == "AES256")
            && header("x-amz-server-side-encryption-customer-algorithm").is_none();
        let tag = looked.listed.etag.as_deref()?.trim_matches('"');
        let value = hex::decode(tag).ok().filter(|value| is_plain && value.len() == Algorithm::MD5.len())?;
        Some((Algorithm::MD5, value))
    })
}

/// The digest of the first `length` bytes of a file. `hears` gets them as they come; `None`: it wants no
/// more.
pub fn digest(
    file: &File,
    algorithm: Algorithm,
    length: u64,
    hears: &mut dyn FnMut(&[u8]) -> bool,
) -> io::Result<Option<Vec<u8>>> {
    let mut digest = algorithm.start();
    let mut buffer = vec![0; PIECE.min(usize::try_from(length).unwrap_or(PIECE).max(1))];
    let mut at = 0;
    while at < length {
        let piece = buffer.len().min(usize::try_from(length - at).unwrap_or(usize::MAX));
        match file.read_at(&mut buffer[..piece], at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) if !hears(&buffer[..got]) => return Ok(None),
            Ok(got) => {
                digest.update(&buffer[..got]);
                at += got as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(digest.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Listed;

    #[test]
    fn a_tag_is_a_digest_only_where_its_store_makes_it_one() {
        let etag = Some(format!("\"{}\"", "0f".repeat(16)));
        let looked = Looked { listed: Listed { etag, ..Listed::default() }, ..Looked::default() };
        assert!(digest_of(&looked).is_some());
        assert!(digest_of(&Looked { is_opaque: true, ..looked }).is_none());
    }

    #[test]
    fn the_reading_for_a_digest_is_heard_of_and_can_be_ended() {
        let size = 3 << 20;
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &vec![7; size]).unwrap();
        let (mut heard, mut calls) = (0, 0);
        let mut hears = |bytes: &[u8]| {
            heard += bytes.len();
            true
        };
        let found = digest(&file, Algorithm::SHA256, size as u64, &mut hears).unwrap();
        assert_eq!(found, Some(Algorithm::SHA256.of(&vec![7; size])));
        assert_eq!(heard, size, "each of its bytes");
        let mut ends = |_: &[u8]| {
            calls += 1;
            calls % 2 == 1
        };
        assert!(matches!(digest(&file, Algorithm::SHA256, size as u64, &mut ends), Ok(None)));
        assert_eq!(calls, 2, "and no byte after that");
        let more = digest(&file, Algorithm::SHA256, size as u64 + 1, &mut |_| true);
        assert_eq!(more.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
