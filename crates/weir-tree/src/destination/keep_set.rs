//! The names in a folder that are to stay, in a few bytes each: folders of millions of files exist.

use super::aside;
use super::pending::PART;

/// Names (last components) of one folder. Of each the first eight bytes of its BLAKE3 digest: two names that
/// share them, which takes some 2^32 tries to find, keep each other, which loses nothing.
#[derive(Debug, Default)]
pub struct KeepSet {
    digests: Vec<u64>,
    sorted: bool,
}

impl KeepSet {
    /// One more.
    pub fn insert(&mut self, last: &[u8]) {
        self.digests.push(of(last));
        self.sorted = false;
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.digests.len()
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// Whether it is one of them.
    pub fn contains(&mut self, last: &[u8]) -> bool {
        self.has(of(last))
    }

    /// Whether it is the name of the part of one of them, in either form (see `pending::part_names`), or what
    /// had that name before.
    pub(super) fn has_part(&mut self, last: &[u8]) -> bool {
        let last = aside::was(last);
        let middle = last.strip_prefix(b".").and_then(|rest| rest.strip_suffix(PART));
        let Some(middle) = middle else { return false };
        // What `entry::stand_in` ends with.
        let digits = middle.split_last_chunk::<16>().filter(|(before, _)| before.ends_with(b"."));
        let digits = digits.and_then(|(_, digits)| std::str::from_utf8(digits).ok());
        let short = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        self.contains(middle) || short.is_some_and(|digest| self.has(digest))
    }

    fn has(&mut self, digest: u64) -> bool {
        if !self.sorted {
            self.digests.sort_unstable();
            self.sorted = true;
        }
        self.digests.binary_search(&digest).is_ok()
    }
}

impl<'a> Extend<&'a [u8]> for KeepSet {
    fn extend<T: IntoIterator<Item = &'a [u8]>>(&mut self, names: T) {
        names.into_iter().for_each(|name| self.insert(name));
    }
}

/// The first bytes of a digest, big-endian as hexadecimal digits are written.
pub(super) fn of(last: &[u8]) -> u64 {
    let digest = blake3::hash(last);
    digest.as_bytes().first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::super::pending;
    use super::*;

    #[test]
    fn names_and_their_parts_are_known_again() {
        let mut keep_set = KeepSet::default();
        let long = vec![b'x'; 250];
        keep_set.extend([&b"one"[..], &long[..]]);
        for name in [&b"one"[..], &long] {
            assert!(keep_set.contains(name));
            for part in pending::part_names(name) {
                assert!(keep_set.has_part(&part), "{}", part.escape_ascii());
                assert!(keep_set.has_part(&[&part[..], b".aside-7"].concat()));
                assert!(!keep_set.contains(&part));
            }
        }
        for other in [&b"two"[..], b".two.weir-part", b".weir-part", b"."] {
            assert!(!keep_set.contains(other) && !keep_set.has_part(other), "{}", other.escape_ascii());
        }
    }
}
