//! Names: where in a tree an entry is. Checked when made and when read off the wire, so that whoever holds
//! one need not check.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Longest component, Linux's NAME_MAX.
pub const MAX_COMPONENT: usize = 255;
/// Longest name: Linux's PATH_MAX is 4096 with the final NUL.
pub const MAX_NAME: usize = 4095;

/// A relative path of bytes: components divided by single slashes, none of them empty, `.` or `..`, no NUL.
///
/// Not UTF-8 in general. The empty name is the root of the tree itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

/// Why bytes are no [`Name`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It starts with a slash.
    #[error("name {0:?} is absolute; names in a tree are relative to its root")]
    Absolute(String),
    /// A component is `..` or `.`.
    #[error("name {0:?} leaves its tree")]
    Escapes(String),
    /// Two slashes in a row, or one at the end.
    #[error("name {0:?} has an empty component")]
    Empty(String),
    /// A NUL byte.
    #[error("name {0:?} holds a NUL byte")]
    Nul(String),
    /// A component of more than 255 bytes, or more than 4095 in all.
    #[error("name {0:?} is too long: a component takes {MAX_COMPONENT} bytes, the whole {MAX_NAME}")]
    TooLong(String),
    /// A link's target of no bytes, of too many, or with a NUL.
    #[error("link target {0:?} is empty, longer than {MAX_NAME} bytes or holds a NUL byte")]
    Target(String),
    /// An entry whose parts contradict each other.
    #[error("entry {0:?} contradicts itself: {1}")]
    Entry(String, &'static str),
}

impl Name {
    /// The root of the tree.
    pub fn root() -> Name {
        Name(Box::default())
    }

    /// Checks `bytes`; the empty name is the root.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Name, Invalid> {
        let bytes = bytes.into();
        check(&bytes)?;
        Ok(Name(bytes))
    }

    /// `component` in the directory that this is.
    pub fn join(&self, component: &[u8]) -> Result<Name, Invalid> {
        if component.contains(&b'/') {
            return Err(Invalid::Escapes(quoted(component)));
        }
        check_component(component, component)?;
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + component.len());
        if !self.is_root() {
            bytes.extend_from_slice(&self.0);
            bytes.push(b'/');
        }
        bytes.extend_from_slice(component);
        if bytes.len() > MAX_NAME {
            return Err(Invalid::TooLong(quoted(&bytes)));
        }
        Ok(Name(bytes.into()))
    }

    /// Is it the root of the tree?
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes, without a slash at either end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a path, relative to the tree's root; empty for the root.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The components from the root down.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|component| !component.is_empty())
    }

    /// The directory it is in, and the last component; `None` for the root.
    pub fn split(&self) -> Option<(Name, &[u8])> {
        let (parent, last) = self.split_bytes()?;
        Some((Name(parent.into()), last))
    }

    /// The same without a new name for the directory.
    pub(crate) fn split_bytes(&self) -> Option<(&[u8], &[u8])> {
        if self.is_root() {
            return None;
        }
        Some(match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[], &self.0),
        })
    }

    /// The directory it is in; `None` for the root.
    pub fn parent(&self) -> Option<Name> {
        self.split().map(|(parent, _)| parent)
    }

    /// The last component; empty for the root.
    pub fn last(&self) -> &[u8] {
        self.split_bytes().map_or(&[], |(_, last)| last)
    }

    /// Is it `other` or somewhere beneath it?
    pub fn is_within(&self, other: &Name) -> bool {
        match self.0.strip_prefix(&*other.0) {
            Some(rest) => other.is_root() || rest.is_empty() || rest[0] == b'/',
            None => false,
        }
    }
}

fn check(bytes: &[u8]) -> Result<(), Invalid> {
    if bytes.is_empty() {
        return Ok(());
    }
    if bytes.len() > MAX_NAME {
        return Err(Invalid::TooLong(quoted(bytes)));
    }
    if bytes[0] == b'/' {
        return Err(Invalid::Absolute(quoted(bytes)));
    }
    bytes.split(|byte| *byte == b'/').try_for_each(|component| check_component(component, bytes))
}

fn check_component(component: &[u8], whole: &[u8]) -> Result<(), Invalid> {
    match component {
        b"" => Err(Invalid::Empty(quoted(whole))),
        b"." | b".." => Err(Invalid::Escapes(quoted(whole))),
        _ if component.contains(&0) => Err(Invalid::Nul(quoted(whole))),
        _ if component.len() > MAX_COMPONENT => Err(Invalid::TooLong(quoted(whole))),
        _ => Ok(()),
    }
}

/// What stands for a component that is too long with what is put behind it: its beginning, and a digest of
/// all of it.
pub fn stand_in(component: &[u8]) -> Vec<u8> {
    // File systems that hold names shorter than Linux's leave room for 143 bytes (eCryptfs).
    const KEPT: usize = 100;
    const DIGITS: usize = 16;
    let cut = component.len().min(KEPT);
    // Some take no name that is not UTF-8.
    let cut = std::str::from_utf8(component).map_or(cut, |text| text.floor_char_boundary(cut));
    let digest = blake3::hash(component).to_hex();
    [&component[..cut], b".", &digest.as_bytes()[..DIGITS]].concat()
}

/// Enough of foreign bytes to recognise them by: an error must not be as long as what it complains of.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const SHOWN: usize = 80;
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
    if bytes.len() > SHOWN {
        text.push('…');
    }
    text
}

/// As people see it: what is no UTF-8 becomes the replacement character, and control characters are escaped,
/// so that a hostile name cannot steer a terminal. The root is `.`.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for char in String::from_utf8_lossy(&self.0).chars() {
            if char.is_control() { write!(f, "{}", char.escape_default())? } else { write!(f, "{char}")? }
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl std::str::FromStr for Name {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Name, Invalid> {
        Name::new(text.as_bytes())
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let bytes = Bytes::deserialize(deserializer)?;
        Name::new(bytes.0).map_err(de::Error::custom)
    }
}

/// Plain bytes on the wire, in one piece where serde's `Vec<u8>` would be a list of numbers.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Bytes(pub(crate) Box<[u8]>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.into()))
            }
            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
                Ok(Bytes(bytes.into()))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        let long = "x".repeat(256);
        for (bytes, why) in [
            ("/etc/passwd", "absolute"),
            ("..", "leaves"),
            ("a/../b", "leaves"),
            ("./a", "leaves"),
            ("a/.", "leaves"),
            ("a//b", "empty"),
            ("a/", "empty"),
            ("a\0b", "NUL"),
            (&long, "too long"),
            (&"x/".repeat(3000), "too long"),
        ] {
            let error = Name::new(bytes.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why) && error.len() < 300, "{error}");
        }
    }

    #[test]
    fn what_stands_for_a_name_is_short_and_no_other_name_s() {
        let [one, two] =
            ["\u{f6}1", "\u{f6}2"].map(|end| stand_in(format!("a{}{end}", "\u{f6}".repeat(120)).as_bytes()));
        assert!(one != two && one.len() < 120 && one.starts_with("a\u{f6}\u{f6}".as_bytes()));
        assert!(std::str::from_utf8(&one).is_ok());
        assert!(stand_in(&[0xff; 255]).starts_with(&[0xff; 100]));
    }

    #[test]
    fn parts() {
        let name: Name = "a/b/c".parse().unwrap();
        assert_eq!(name.split(), Some(("a/b".parse().unwrap(), &b"c"[..])));
        assert_eq!(name.components().collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert!(name.is_within(&"a/b".parse().unwrap()) && name.is_within(&Name::root()));
        assert!(
            !name.is_within(&"a/b/c/d".parse().unwrap())
                && !name.is_within(
                    &"a/b/"
                        .trim_end_matches("b/")
                        .trim_end_matches('/')
                        .parse::<Name>()
                        .unwrap()
                        .join(b"bc")
                        .unwrap()
                )
        );
        assert_eq!(Name::root().split(), None);
        assert_eq!(Name::root().components().count(), 0);
        assert_eq!(Name::new(&b"\x1b[2J\xff"[..]).unwrap().to_string(), "\\u{1b}[2J\u{fffd}");
    }

    /// The rules once more, in the most literal way.
    fn plain(bytes: &[u8]) -> bool {
        bytes.is_empty()
            || bytes.len() <= 4095
                && !bytes.contains(&0)
                && bytes
                    .split(|byte| *byte == b'/')
                    .all(|part| !part.is_empty() && part.len() <= 255 && part != b"." && part != b"..")
    }

    proptest! {
        #[test]
        fn exactly_the_plain_ones_pass(bytes in proptest::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), Just(b'a'), any::<u8>()], 0..12)) {
            let name = Name::new(bytes.clone());
            prop_assert_eq!(name.is_ok(), plain(&bytes));
            let wire = postcard::to_allocvec(&Bytes(bytes.clone().into())).unwrap();
            prop_assert_eq!(postcard::from_bytes::<Name>(&wire).ok(), name.clone().ok());
            if let Ok(name) = name {
                prop_assert_eq!(postcard::to_allocvec(&name).unwrap(), wire);
                if let Some((parent, last)) = name.split() {
                    prop_assert!(name.is_within(&parent));
                    prop_assert_eq!(parent.join(last).unwrap(), name);
                }
            }
        }
    }
}
