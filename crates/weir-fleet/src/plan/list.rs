//! A list of names below the source, as a plan lists it: a line is a source, and behind a TAB each what it is
//! called at the target, how many bytes it has and its digest, where those are known.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use weir_codec::digest::Expected;
use weir_get::list::text::{Lines, Text};
use weir_tree::Name;
use weir_tree::filter::name_of;

use super::{Found, Listing};
use crate::error::FleetError;
use crate::object::FleetObject;

/// The longest key of S3, GCS and Azure, bytes.
const MAX_KEY: usize = 1024;

/// What a target takes as names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetNames {
    /// Those of files, below a folder.
    Paths,
    /// Keys behind a prefix of so many bytes.
    Keys(usize),
}

impl TargetNames {
    /// Why `name` is none.
    pub fn check(self, name: &[u8]) -> Result<(), String> {
        match self {
            TargetNames::Paths => match Name::new(name) {
                Ok(name) if name.is_root() => Err("cannot be a file: it has no name".to_owned()),
                Ok(_) => Ok(()),
                Err(invalid) => Err(format!("cannot be a file: {invalid}")),
            },
            TargetNames::Keys(before) => match std::str::from_utf8(name) {
                Err(_) => Err("cannot be an object: its name is no UTF-8, which keys are".to_owned()),
                Ok("") => Err("cannot be an object: it has no name".to_owned()),
                Ok(_) if before + name.len() > MAX_KEY => {
                    Err(format!("cannot be an object: its key would be longer than {MAX_KEY} bytes"))
                }
                Ok(_) => Ok(()),
            },
        }
    }
}

/// The lines of a list.
pub struct ListListing {
    shown: String,
    lines: Lines,
    /// The source: a line may repeat it.
    root: String,
    names: TargetNames,
}

impl ListListing {
    /// The list at `path` of names below `root`.
    ///
    /// # Errors
    /// [`FleetError::Manifest`] where it cannot be read.
    pub fn open(path: &Path, root: &str, names: TargetNames) -> Result<ListListing, FleetError> {
        let shown = path.display().to_string();
        let text = Text::open(path).map_err(|error| cannot_read(&shown, &error))?;
        Ok(ListListing::of(text, shown, root, names))
    }

    /// The same of what a pipe gives.
    ///
    /// # Errors
    /// As [`ListListing::open`].
    pub fn read(from: impl Read, root: &str, names: TargetNames) -> Result<ListListing, FleetError> {
        let shown = "-".to_owned();
        let text = Text::read(from).map_err(|error| cannot_read(&shown, &error))?;
        Ok(ListListing::of(text, shown, root, names))
    }

    fn of(text: Text, shown: String, root: &str, names: TargetNames) -> ListListing {
        ListListing { shown, lines: Arc::new(text).lines(), root: root.to_owned(), names }
    }
}

impl Listing for ListListing {
    fn next(&mut self) -> Result<Option<Found>, FleetError> {
        loop {
            let line = self.lines.next().map_err(|error| cannot_read(&self.shown, &error))?;
            let Some(line) = line else { return Ok(None) };
            if line.bytes.is_empty() {
                continue;
            }
            let found = match line.is_too_long {
                true => Err("it is too long".to_owned()),
                false => parse_line(line.bytes, &self.root, self.names),
            };
            let place = format!("{}, line {}", self.shown, line.number);
            return Ok(Some(match found {
                Ok(object) => Found::Object(object),
                Err(why) => Found::Bad(format!("{place}: {why}")),
            }));
        }
    }

    fn has_own_targets(&self) -> bool {
        false
    }
}

fn cannot_read(shown: &str, error: &std::io::Error) -> FleetError {
    FleetError::Manifest(format!("cannot read the list {shown}: {}", weir_units::plain(error)))
}

/// What a line names below `root`.
fn parse_line(line: &[u8], root: &str, names: TargetNames) -> Result<FleetObject, String> {
    let mut fields = line.split(|byte| *byte == b'\t');
    let source = fields.next().unwrap_or_default();
    let source = below(source, root)?;
    // A file has one name, however `find` wrote it; a key and a URL are their letters.
    let source = match root.starts_with('/') {
        true => Cow::Owned(name_of(source).map_err(|error| error.to_string())?.as_bytes().to_vec()),
        false => Cow::Borrowed(source),
    };
    let target = fields.next().filter(|target| !target.is_empty()).unwrap_or(&*source);
    let size = match fields.next() {
        None | Some([]) => None,
        Some(digits) => {
            let size = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            let digits = String::from_utf8_lossy(digits);
            Some(size.ok_or_else(|| format!("'{}' is no number of bytes", weir_units::quoted(&digits)))?)
        }
    };
    let digest = match fields.next() {
        None | Some([]) => None,
        Some(text) => Some(digest(&String::from_utf8_lossy(text))?),
    };
    if fields.next().is_some() {
        return Err("it has more than a source, a target, a size and a digest".to_owned());
    }
    if source.is_empty() || source.contains(&0) {
        return Err("it names no source".to_owned());
    }
    names.check(target)?;
    let (source, target) = (source.to_vec(), target.to_vec());
    Ok(FleetObject { source, target, size, digest, ..FleetObject::default() })
}

/// `ALGORITHM:HEX`, as `--checksum` takes it.
fn digest(text: &str) -> Result<String, String> {
    let expected: Expected =
        text.parse().map_err(|error| format!("'{}' is no digest: {error}", weir_units::quoted(text)))?;
    Ok(format!("{}:{}", expected.algorithm().name(), expected.hex()))
}

/// A source as it is called below `root`; a whole address must begin with it.
fn below<'a>(source: &'a [u8], root: &str) -> Result<&'a [u8], String> {
    if let Some(rest) = source.strip_prefix(root.as_bytes()) {
        // A key and a URL may begin with a slash of their own; `name_of` takes it off a file's name.
        let rest = if root.ends_with('/') { Some(rest) } else { rest.strip_prefix(b"/") };
        if let Some(rest) = rest {
            return Ok(rest);
        }
    }
    let shown = || weir_units::quoted(&String::from_utf8_lossy(source));
    let is_whole = source.starts_with(b"/") || source.windows(3).any(|three| three == b"://");
    if is_whole {
        return Err(format!("'{}' is not below {root}", shown()));
    }
    if source.split(|byte| *byte == b'/').any(|part| part == b"..") {
        return Err(format!("'{}' leads out of {root}", shown()));
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_names_a_source_a_target_and_a_size() {
        let parse = |line: &str| {
            parse_line(line.as_bytes(), "s3://b/p/", TargetNames::Paths).map(|object| {
                (object.source_text().into_owned(), object.target_text().into_owned(), object.size)
            })
        };
        let is = |source: &str, target: &str, size| Ok((source.to_owned(), target.to_owned(), size));
        assert_eq!(parse("a/b"), is("a/b", "a/b", None));
        assert_eq!(parse("a/b\t\t7"), is("a/b", "a/b", Some(7)));
        assert_eq!(parse("a\tc d\t0"), is("a", "c d", Some(0)));
        assert_eq!(parse("s3://b/p/x"), is("x", "x", None));
        assert_eq!(parse("s3://b/p//x\tdouble"), is("/x", "double", None));
        let digest = format!("sha256:{}", "Ab".repeat(32));
        let line = format!("a\t\t\t{digest}");
        let object = parse_line(line.as_bytes(), "s3://b/p/", TargetNames::Paths).unwrap();
        assert_eq!((object.size, object.digest), (None, Some(digest.to_lowercase())));
        for bad in [
            "s3://b/q/x",
            "/etc/passwd",
            "../x",
            "a\t../x",
            "a\tb\tc",
            "a\tb\t1\t\t",
            "a\tb\t1\tmd5:12",
            "\tb",
            "a/",
            "a\t/x",
            "s3://b/p//x",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_of_a_folder_has_one_name_however_it_is_written() {
        for names in [TargetNames::Paths, TargetNames::Keys(2)] {
            for line in ["./a/b", "a//b", "/from/a/b", "/from/./a/b"] {
                let object = parse_line(line.as_bytes(), "/from/", names).unwrap();
                assert_eq!((&*object.source, &*object.target), (&b"a/b"[..], &b"a/b"[..]), "{line}");
            }
            for bad in [".", "./", "./../x", "a/../x"] {
                assert!(parse_line(bad.as_bytes(), "/from/", names).is_err(), "{bad}");
            }
        }
        // A store may have such a key.
        let object = parse_line(b"./a\tb", "s3://b/p/", TargetNames::Paths).unwrap();
        assert_eq!(object.source, b"./a");
        for (line, root, source) in [
            ("s3://b//z", "s3://b/", "/z"),
            ("https://h/d//x", "https://h/d/", "/x"),
            ("root/x", "root", "x"),
        ] {
            let object = parse_line(line.as_bytes(), root, TargetNames::Keys(0)).unwrap();
            assert_eq!(object.source, source.as_bytes(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_an_object_or_an_error(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(object) = parse_line(&line, "root", TargetNames::Paths) {
                prop_assert!(Name::new(object.target).is_ok());
            }
        }
    }
}
