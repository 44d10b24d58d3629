//! Whether a file of a hub is here already: a hub says before what its files must be, so that a run that was
//! ended after twenty of thirty files asks for ten.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use weir_codec::digest::{Algorithm, Expected};
use weir_codec::hex;

use super::HubFile;

/// Enough to hash at full speed, small enough to stay in the L2 cache.
const BLOCK: usize = 256 << 10;

/// Whether the file at `path` is `file` as the hub has it; false if nothing proves it.
pub fn is_here(file: &HubFile, path: &Path, stop: &AtomicBool) -> io::Result<bool> {
    let there = match std::fs::metadata(path) {
        Ok(there) if there.is_file() => there,
        _ => return Ok(false),
    };
    if file.size.is_some_and(|size| size != there.len()) {
        return Ok(false);
    }
    let Some((wanted, before)) = file.proof(Some(there.len())) else { return Ok(false) };
    Ok(digest(wanted.algorithm(), &before, File::open(path)?, stop)? == Some(wanted))
}

fn digest(
    algorithm: Algorithm,
    before: &[u8],
    mut file: File,
    stop: &AtomicBool,
) -> io::Result<Option<Expected>> {
    let mut digest = algorithm.start();
    digest.update(before);
    let mut block = vec![0; BLOCK];
    loop {
        if stop.load(Relaxed) {
            return Ok(None);
        }
        match file.read(&mut block)? {
            0 => break,
            length => digest.update(&block[..length]),
        }
    }
    Ok(Expected::new(algorithm, digest.finish()).ok())
}

/// The digest `sha256:HEX` that a hub writes, where weir knows the algorithm.
pub fn tagged(text: &str) -> Option<Expected> {
    let (algorithm, digits) = text.split_once(':')?;
    Expected::from_hex(algorithm.parse().ok()?, digits).ok()
}

/// Whether `text` is the id of a commit or of a blob: 40 hexadecimal digits of SHA-1, or 64 of SHA-256.
pub fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && hex::decode(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use url::Url;
    use weir_tree::Name;

    #[test]
    fn a_file_is_known_by_its_digest_or_by_git_s() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "hello\n").unwrap();
        let sha256 = Expected::new(Algorithm::SHA256, Algorithm::SHA256.of(b"hello\n")).unwrap();
        let file = |size, digest: Option<&Expected>, id: &str| HubFile {
            url: Url::parse("http://h/").unwrap(),
            name: Name::new(*b"x").unwrap(),
            size,
            digest: digest.cloned(),
            id: id.to_owned(),
        };
        // git hash-object of "hello\n".
        const GIT: &str = "ce013625030ba8dba906f756967f9e9ca394464a";
        let stop = AtomicBool::new(false);
        for (file, is) in [
            (file(Some(6), Some(&sha256), ""), true),
            (file(None, None, GIT), true),
            (file(Some(7), Some(&sha256), ""), false),
            (file(Some(6), None, &GIT.replace('c', "d")), false),
            (file(Some(6), None, ""), false),
        ] {
            assert_eq!(is_here(&file, &path, &stop).unwrap(), is, "{file:?}");
        }
        assert!(!is_here(&file(None, None, GIT), &folder.path().join("y"), &stop).unwrap());
    }
}
