//! Keys as names in a tree of files, and the other way round; and what the one can hold and the other cannot.

use weir_tree::Name;
use weir_tree::entry::Invalid;

use crate::key;

/// Why a file system has no name for a key, or a store no key for a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unholdable {
    /// `a//b`, `/a`, `a/`.
    #[error(
        "cannot be a file: its key has an empty part, which no path can hold; weir get URL -o FILE fetches it"
    )]
    Empty,
    /// `a/../b`.
    #[error("cannot be a file: its key has a part '.' or '..', which would lead out of its folder")]
    Escapes,
    /// A part of more than 255 bytes.
    #[error(
        "cannot be a file: a part of its key is longer than the 255 bytes of a file's name; weir get URL -o FILE fetches it"
    )]
    Long,
    /// A NUL byte.
    #[error("cannot be a file: its key holds a NUL byte")]
    Nul,
    /// A folder with content.
    #[error(
        "cannot be a file: its key ends with a slash, and it has content; weir get URL -o FILE fetches it"
    )]
    Folder,
    /// `a`, where there is `a/b`.
    #[error(
        "cannot be a file: a folder has its name here; keys like it and its name with a slash behind it cannot both be files"
    )]
    HasFolder,
    /// `a/b`, where there is `a`.
    #[error(
        "cannot be a file: a file has the name of its folder here; keys like that name and with a slash behind it cannot both be files"
    )]
    InFile,
    /// A name that is no UTF-8.
    #[error("cannot be an object: its name is no UTF-8, which keys are; rename it")]
    Text,
    /// A key of more than 1024 bytes.
    #[error("cannot be an object: its key would be longer than 1024 bytes; shorten its path")]
    LongKey,
}

/// The name of a key behind the prefix, `rest`; without the slash at its end.
pub(super) fn name_of(rest: &str) -> Result<Name, Unholdable> {
    Name::new(rest.as_bytes()).map_err(|invalid| match invalid {
        Invalid::Escapes(_) => Unholdable::Escapes,
        Invalid::TooLong(_) => Unholdable::Long,
        Invalid::Nul(_) => Unholdable::Nul,
        _ => Unholdable::Empty,
    })
}

/// What a key is called in a folder, by what of it is behind the prefix, `rest`; `base` is what the prefix is
/// called there.
///
/// # Errors
/// No file can have that name.
pub fn name_below(base: &Name, rest: &str) -> Result<Name, Unholdable> {
    let rest = name_of(rest)?;
    if base.is_root() {
        return Ok(rest);
    }
    Name::new([base.as_bytes(), rest.as_bytes()].join(&b'/')).map_err(|_| Unholdable::Long)
}

/// The key of a name behind `prefix`.
///
/// # Errors
/// No key can be so.
pub fn key_of(prefix: &str, name: &Name) -> Result<String, Unholdable> {
    let name = std::str::from_utf8(name.as_bytes()).map_err(|_| Unholdable::Text)?;
    match prefix.len() + name.len() > key::MOST {
        true => Err(Unholdable::LongKey),
        false => Ok(format!("{prefix}{name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_either_cannot_hold_is_told() {
        for (key, why) in [
            ("a//b", Unholdable::Empty),
            ("/a", Unholdable::Empty),
            ("a/../b", Unholdable::Escapes),
            ("..", Unholdable::Escapes),
            ("./a", Unholdable::Escapes),
            ("a\0", Unholdable::Nul),
        ] {
            assert_eq!(name_of(key), Err(why), "{key}");
        }
        assert_eq!(name_of(&"x".repeat(256)), Err(Unholdable::Long));
        assert_eq!(name_of("a\n%2F/b").unwrap().as_bytes(), b"a\n%2F/b");
        let name = |bytes: &[u8]| Name::new(bytes).unwrap();
        assert_eq!(key_of("p/", &name(b"a/b")).unwrap(), "p/a/b");
        assert_eq!(key_of("p/", &name(b"\xff")), Err(Unholdable::Text));
        assert_eq!(key_of(&"p".repeat(1000), &name(&[b'x'; 25])), Err(Unholdable::LongKey));
    }
}
