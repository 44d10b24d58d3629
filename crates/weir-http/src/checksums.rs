//! Lists of digests that publishers put beside their files: `SHA256SUMS` and its relatives.
//!
//! Three forms are read, one line a file; all other lines (comments, signatures) are passed over:
//!
//! ```text
//! 15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225  name     sha256sum, text mode
//! 15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225 *name     binary mode: the same digest
//! SHA256 (name) = 15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225     BSD, and --tag
//! ```
//!
//! A file that holds nothing but one digest (`name.iso.sha256`) stands for whatever it lies beside.

use std::borrow::Cow;

use weir_codec::{Algorithm, Expected};

/// The largest list that is read: about 150 000 lines of SHA-256 with a name of 40 characters.
pub(crate) const MAX_SIZE: usize = 16 * 1024 * 1024;

/// A list that is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumsError {
    /// Larger than [`MAX_SIZE`].
    #[error("checksum list has {size} bytes: expected at most {MAX_SIZE}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// In a coding that is not read.
    #[error("checksum list cannot be read: {0}")]
    Coding(#[from] weir_units::CodingError),
    /// No line of it is a digest; it may be an error page.
    #[error("checksum list holds no digest: expected lines such as 'HEX  NAME' or 'SHA256 (NAME) = HEX'")]
    Empty,
    /// No entry for the file.
    #[error("checksum list has no entry for '{name}': it has {entries} for other names")]
    NoEntry {
        /// The file.
        name: String,
        /// How many there are.
        entries: usize,
    },
    /// Several, for files of that name in different directories.
    #[error("checksum list has different entries for '{name}': give the digest with ALGORITHM:HEX")]
    Ambiguous {
        /// The file.
        name: String,
    },
}

/// The entries of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksums(Vec<Entry>);

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name as written, directories included; empty for a digest that stands alone.
    pub name: String,
    /// Its digest.
    pub expected: Expected,
}

/// The algorithm that a list's own name tells: `B3SUMS`, `x.iso.sha256`. Needed only where lengths are equal.
pub fn algorithm_of(list_name: &str) -> Option<Algorithm> {
    let name = list_name.rsplit('/').next()?.to_ascii_lowercase();
    let stem = name.strip_suffix(".txt").unwrap_or(&name);
    let stem = stem.strip_suffix("sums").or(stem.strip_suffix("sum")).unwrap_or(stem);
    stem.rsplit(['.', '-', '_']).next()?.parse().ok()
}

impl Checksums {
    /// Reads a list. Lines without a tag are of the algorithm `hint` where the length fits it, else of the
    /// one that the length tells: 32 digits md5, 40 sha1, 64 sha256, 128 sha512.
    pub fn parse(bytes: &[u8], hint: Option<Algorithm>) -> Result<Checksums, ChecksumsError> {
        if bytes.len() > MAX_SIZE {
            return Err(ChecksumsError::TooLarge { size: bytes.len() });
        }
        let bytes = weir_units::list_bytes(bytes)?;
        // LF, CRLF and CR end a line, and NUL one of `sha256sum --zero`; of CRLF the second leaves an empty
        // line.
        let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r' | 0)).map(String::from_utf8_lossy);
        let entries: Vec<Entry> = lines.filter_map(|line| parse_line(&line, hint)).collect();
        if entries.is_empty() { Err(ChecksumsError::Empty) } else { Ok(Checksums(entries)) }
    }

    /// All entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// The strongest digest for the file `name`.
    ///
    /// An entry whose whole name is `name` goes first, then one whose last component is, then a single digest
    /// that stands alone.
    pub fn find(&self, name: &str) -> Result<&Expected, ChecksumsError> {
        let exact = |entry: &Entry| entry.name.strip_prefix("./").unwrap_or(&entry.name) == name;
        let last = |entry: &Entry| !name.is_empty() && entry.name.rsplit('/').next() == Some(name);
        let alone = |entry: &Entry| self.0.len() == 1 && entry.name.is_empty();
        let rules: [&dyn Fn(&Entry) -> bool; 3] = [&exact, &last, &alone];
        for rule in rules {
            if let Some(expected) = self.strongest(name, rule)? {
                return Ok(expected);
            }
        }
        Err(ChecksumsError::NoEntry { name: weir_units::quoted(name), entries: self.0.len() })
    }

    fn strongest(
        &self,
        name: &str,
        rule: &dyn Fn(&Entry) -> bool,
    ) -> Result<Option<&Expected>, ChecksumsError> {
        let mut best: Option<&Expected> = None;
        for entry in self.0.iter().filter(|entry| rule(entry)) {
            let Some(old) = best else {
                best = Some(&entry.expected);
                continue;
            };
            let (old_algorithm, algorithm) = (old.algorithm(), entry.expected.algorithm());
            if old_algorithm == algorithm && *old != entry.expected {
                return Err(ChecksumsError::Ambiguous { name: weir_units::quoted(name) });
            }
            if algorithm.strength() > old_algorithm.strength() {
                best = Some(&entry.expected);
            }
        }
        Ok(best)
    }
}

fn parse_line(line: &str, hint: Option<Algorithm>) -> Option<Entry> {
    // GNU marks a line whose name has a backslash, LF or CR in it with a leading backslash.
    let (line, escaped) = match line.strip_prefix('\\') {
        Some(rest) => (rest, true),
        None => (line, false),
    };
    let (name, expected) = parse_tagged(line).or_else(|| parse_plain(line, hint))?;
    let name = if escaped { unescape(name) } else { Cow::Borrowed(name) };
    Some(Entry { name: name.into_owned(), expected })
}

/// `ALGORITHM (NAME) = HEX`; openssl leaves out the blanks.
fn parse_tagged(line: &str) -> Option<(&str, Expected)> {
    let (tag, rest) = line.split_once('(')?;
    // From the right, since a name may hold a parenthesis.
    let (name, digits) = rest.rsplit_once(')')?;
    let digits = digits.trim_start().strip_prefix('=')?;
    let algorithm: Algorithm = tag.trim().parse().ok()?;
    Some((name, Expected::from_hex(algorithm, digits.trim()).ok()?))
}

/// `HEX  NAME`, `HEX *NAME`, or `HEX` alone.
fn parse_plain(line: &str, hint: Option<Algorithm>) -> Option<(&str, Expected)> {
    let line = line.trim_start();
    let end = line.find([' ', '\t']).unwrap_or(line.len());
    let (digits, rest) = line.split_at(end);
    let by_length = || match digits.len() {
        32 => Some(Algorithm::MD5),
        40 => Some(Algorithm::SHA1),
        64 => Some(Algorithm::SHA256),
        128 => Some(Algorithm::SHA512),
        _ => None,
    };
    let algorithm = hint.filter(|algorithm| algorithm.len() * 2 == digits.len()).or_else(by_length)?;
    let expected = Expected::from_hex(algorithm, digits).ok()?;
    // One separator and one mode character; hand-written lists have any number of blanks.
    let name = rest.trim_start_matches([' ', '\t']);
    Some((name.strip_prefix('*').unwrap_or(name), expected))
}

fn unescape(name: &str) -> Cow<'_, str> {
    let mut plain = String::with_capacity(name.len());
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => plain.push('\n'),
                Some('r') => plain.push('\r'),
                other => plain.extend(other),
            },
            (c, false) => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(algorithm: Algorithm, content: &str) -> String {
        weir_codec::hex::encode(&algorithm.of(content.as_bytes()))
    }

    fn parse(text: &str) -> Checksums {
        Checksums::parse(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn every_end_of_a_line_and_the_mark_of_utf_8() {
        let (one, two) = (hex(Algorithm::SHA256, "1"), hex(Algorithm::SHA256, "2"));
        for end in ["\n", "\r\n", "\r", "\0"] {
            let list = parse(&format!("\u{feff}{one}  a{end}{two}  b{end}"));
            assert_eq!(list.find("a").unwrap().hex(), one, "{end:?}");
            assert_eq!(list.find("b").unwrap().hex(), two, "{end:?}");
        }
        let utf16 = Checksums::parse(b"\xff\xfe1\x002\x00", None).unwrap_err().to_string();
        assert_eq!(utf16, "checksum list cannot be read: it is UTF-16 text; save it as UTF-8");
    }

    #[test]
    fn every_form() {
        let digest = hex(Algorithm::SHA256, "x");
        for text in [
            format!("{digest}  a.iso\n"),
            format!("{digest} *a.iso\r\n"),
            format!("{}\ta.iso", digest.to_uppercase()),
            format!("SHA256 (a.iso) = {digest}\n"),
            format!("SHA2-256(a.iso)= {digest}\n"),
            format!("# a comment\n\n{digest}  ./a.iso\n{digest}  b.iso\n"),
            format!(
                "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{digest}  pub/a.iso\n-----BEGIN PGP SIGNATURE-----\niQIz\n"
            ),
            digest.clone(),
        ] {
            assert_eq!(parse(&text).find("a.iso").unwrap().to_string(), format!("sha256:{digest}"), "{text}");
        }
    }

    #[test]
    fn algorithm_by_length_tag_or_hint() {
        for algorithm in [Algorithm::MD5, Algorithm::SHA1, Algorithm::SHA256, Algorithm::SHA512] {
            let digest = hex(algorithm, "x");
            assert_eq!(parse(&format!("{digest}  a")).find("a").unwrap().algorithm(), algorithm);
        }
        let digest = hex(Algorithm::BLAKE3, "x");
        assert_eq!(
            parse(&format!("BLAKE3 (a) = {digest}")).find("a").unwrap().algorithm(),
            Algorithm::BLAKE3
        );
        let hinted = Checksums::parse(format!("{digest}  a").as_bytes(), algorithm_of("dir/B3SUMS")).unwrap();
        assert_eq!(hinted.find("a").unwrap().algorithm(), Algorithm::BLAKE3);
        for (name, algorithm) in [
            ("SHA256SUMS", Some(Algorithm::SHA256)),
            ("sha512sum.txt", Some(Algorithm::SHA512)),
            ("a.iso.md5", Some(Algorithm::MD5)),
            ("x-SHA1SUMS.txt", Some(Algorithm::SHA1)),
            ("CHECKSUMS", None),
        ] {
            assert_eq!(algorithm_of(name), algorithm, "{name}");
        }
    }

    #[test]
    fn several_entries() {
        let (strong, weak) = (hex(Algorithm::SHA512, "x"), hex(Algorithm::MD5, "x"));
        let list = parse(&format!("{weak}  a\n{strong}  a\n"));
        assert_eq!(list.find("a").unwrap().algorithm(), Algorithm::SHA512);
        let other = hex(Algorithm::MD5, "y");
        let list = parse(&format!("{weak}  v1/a\n{other}  v2/a\n"));
        assert!(matches!(list.find("a"), Err(ChecksumsError::Ambiguous { .. })));
        assert!(list.find("v2/a").is_ok());
        assert_eq!(
            list.find("b").unwrap_err().to_string(),
            "checksum list has no entry for 'b': it has 2 for other names"
        );
    }

    #[test]
    fn names_with_odd_characters() {
        let digest = hex(Algorithm::MD5, "x");
        assert!(parse(&format!("\\{digest}  a\\\\b\\nc")).find("a\\b\nc").is_ok());
        assert!(parse(&format!("MD5 (a (1).iso) = {digest}")).find("a (1).iso").is_ok());
        assert!(parse(&format!("{digest}  a b.iso")).find("a b.iso").is_ok());
    }

    #[test]
    fn what_is_no_list() {
        assert_eq!(Checksums::parse(b"<html>not found</html>", None), Err(ChecksumsError::Empty));
        assert!(matches!(
            Checksums::parse(&vec![b'\n'; MAX_SIZE + 1], None),
            Err(ChecksumsError::TooLarge { .. })
        ));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(\\\\?([0-9a-f]{32}|MD5 ?\\()[ *a)=\\\\]{0,5}[0-9a-f]{0,33}\n?){0,4}|\\PC*", name: String) {
            if let Ok(list) = Checksums::parse(text.as_bytes(), Some(Algorithm::MD5)) {
                let _ = list.find(&name);
            }
        }

        #[test]
        fn print_parse(names in proptest::collection::hash_set("[A-Za-z0-9._()-][A-Za-z0-9._() -]{0,20}", 1..8), tagged: bool) {
            let line = |name: &String| match tagged {
                true => format!("SHA1 ({name}) = {}\n", hex(Algorithm::SHA1, name)),
                false => format!("{}  {name}\n", hex(Algorithm::SHA1, name)),
            };
            let list = parse(&names.iter().map(line).collect::<String>());
            for name in &names {
                prop_assert_eq!(list.find(name).unwrap().hex(), hex(Algorithm::SHA1, name));
            }
        }
    }
}
