//! What a walk leaves out: rules as in rsync's `--exclude` and `--include`, and lists of names as in its `--files-from`.

mod pattern;

use std::ffi::OsStr;
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::entry::{MAX_NAME, Name};
use crate::error::Error;
use pattern::Pattern;

/// Rules in order; the first that matches decides, and what none matches is taken.
///
/// A pattern with a leading `/` is matched from the root of the tree, one with another slash or with `**` against the end
/// of the name, any other against the last component. A trailing `/` matches directories only. `*` stands for any bytes
/// but slashes, `**` for any bytes, `?` for one byte but a slash, `[a-z]`, `[!a-z]` and `[[:alpha:]]` for one of a class; `\` takes the
/// next byte as it is; a leading `**/` is also nothing. `DIR/***` means the directory and all that is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Rule {
    take: bool,
    pattern: Pattern,
}

impl Filter {
    /// Adds a rule that leaves out what `pattern` matches.
    pub fn exclude(&mut self, pattern: &[u8]) -> Result<(), BadPattern> {
        self.add(false, pattern)
    }

    /// Adds a rule that takes what `pattern` matches, whatever later rules say.
    pub fn include(&mut self, pattern: &[u8]) -> Result<(), BadPattern> {
        self.add(true, pattern)
    }

    fn add(&mut self, take: bool, pattern: &[u8]) -> Result<(), BadPattern> {
        self.rules.push(Rule { take, pattern: Pattern::parse(pattern)? });
        Ok(())
    }

    /// No rules: everything is taken.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Is `name` taken? What is in a directory that is not taken is not asked for.
    pub fn takes(&self, name: &Name, is_directory: bool) -> bool {
        let decides = self.rules.iter().find(|rule| rule.pattern.matches(name.as_bytes(), is_directory));
        decides.is_none_or(|rule| rule.take)
    }
}

/// A pattern that cannot match anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern '{pattern}': {why}")]
pub struct BadPattern {
    pattern: String,
    why: &'static str,
}

/// The names in a list (`--files-from`): one a line, or divided by NUL. Leading `/` and `./` and trailing slashes go;
/// empty lines are skipped, and in lists by line also those that begin with `#` or `;`. `path` is for errors.
pub fn names<R: BufRead>(list: R, path: PathBuf, nul: bool) -> impl Iterator<Item = Result<Name, Error>> {
    let mut list = list;
    std::iter::from_fn(move || {
        let mut empty = 0;
        loop {
            match read_line(&mut list, if nul { 0 } else { b'\n' }) {
                Ok(None) => return None,
                Ok(Some(line)) if !nul && (line.starts_with(b"#") || line.starts_with(b";")) => {}
                Ok(Some(line)) => {
                    // A list that was written elsewhere, where lines end with both; a name that ends so goes with NUL.
                    let line = if nul { &line[..] } else { line.strip_suffix(b"\r").unwrap_or(&line) };
                    if !line.is_empty() {
                        return Some(name_of(line));
                    }
                    empty += 1;
                    if empty > LONGEST {
                        return Some(Err(Error::Path {
                            action: "read",
                            path: path.clone(),
                            source: no_list(),
                        }));
                    }
                }
                Err(source) => return Some(Err(Error::Path { action: "read", path: path.clone(), source })),
            }
        }
    })
}

/// More of a line, or more empty ones in a row, have no list of names: /dev/zero has, and it never ends.
const LONGEST: usize = 64 << 20;

fn no_list() -> std::io::Error {
    let why = format!("it is no list of names: {LONGEST} bytes of it hold none");
    std::io::Error::new(std::io::ErrorKind::InvalidData, why)
}

/// A line without its end. Of one that is far too long only the beginning is kept: enough to be refused as a name.
fn read_line(list: &mut impl BufRead, end: u8) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut seen = false;
    let mut length = 0;
    loop {
        if length > LONGEST {
            return Err(no_list());
        }
        let buffer = list.fill_buf()?;
        if buffer.is_empty() {
            return Ok(seen.then_some(line));
        }
        seen = true;
        let stop = buffer.iter().position(|byte| *byte == end);
        let piece = &buffer[..stop.unwrap_or(buffer.len())];
        line.extend_from_slice(&piece[..piece.len().min(2 * MAX_NAME - line.len().min(2 * MAX_NAME))]);
        let used = stop.map_or(buffer.len(), |stop| stop + 1);
        list.consume(used);
        length += used;
        if stop.is_some() {
            return Ok(Some(line));
        }
    }
}

fn name_of(line: &[u8]) -> Result<Name, Error> {
    // Path drops repeated and trailing slashes; `..` stays and is refused.
    let components = Path::new(OsStr::from_bytes(line)).components();
    let relative: PathBuf =
        components.filter(|component| !matches!(component, Component::RootDir | Component::CurDir)).collect();
    Ok(Name::new(relative.as_os_str().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rules: &str) -> Filter {
        let mut filter = Filter::default();
        for rule in rules.split(' ') {
            match rule.split_at(1) {
                ("-", pattern) => filter.exclude(pattern.as_bytes()).unwrap(),
                (_, pattern) => filter.include(pattern.as_bytes()).unwrap(),
            }
        }
        filter
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let filter = filter("+keep.o -*.o -/build/ +*.c -secret/***");
        for (name, is_directory, taken) in [
            ("a/keep.o", false, true),
            ("a/x.o", false, false),
            ("build", true, false),
            ("build", false, true),
            ("a/build", true, true),
            ("secret/x.c", false, true),
            ("secret/x", false, false),
            ("a/secret", true, false),
            ("other", false, true),
        ] {
            assert_eq!(filter.takes(&name.parse().unwrap(), is_directory), taken, "{name}");
        }
    }

    #[test]
    fn a_list_of_names() {
        let list = "# comment\n/a/b\n\n./c//d/\n;x\n../up\n.\n\u{e9}\nlast";
        let names: Vec<_> = names(list.as_bytes(), "list".into(), false).collect();
        let shown: Vec<_> = names.iter().map(|name| name.as_ref().map(ToString::to_string)).collect();
        let good = |text: &str| text.to_owned();
        assert_eq!(shown[0].as_ref().unwrap(), &good("a/b"));
        assert_eq!(shown[1].as_ref().unwrap(), &good("c/d"));
        assert!(shown[2].as_ref().is_err_and(|error| error.to_string().contains("leaves its tree")));
        assert_eq!(shown[3].as_ref().unwrap(), &good("."));
        assert_eq!(shown[5].as_ref().unwrap(), &good("last"));
        assert_eq!(shown.len(), 6);
    }

    #[test]
    fn a_list_divided_by_nul_takes_any_byte() {
        let list = b"#a\nb\0\xff\0";
        let names: Vec<_> = names(&list[..], "list".into(), true).map(Result::unwrap).collect();
        assert_eq!(names[0].as_bytes(), b"#a\nb");
        assert_eq!(names[1].as_bytes(), b"\xff");
    }

    #[test]
    fn an_endless_line_costs_no_memory() {
        let list = vec![b'x'; 10 << 20];
        let mut names = names(&list[..], "list".into(), false);
        assert!(names.next().unwrap().unwrap_err().to_string().contains("too long"));
        assert!(names.next().is_none());
    }

    #[test]
    fn a_list_that_holds_no_name_comes_to_an_end() {
        for (byte, nul) in [(b'x', false), (b'x', true), (0, false), (0, true), (b'\n', false)] {
            let endless = std::io::BufReader::new(std::io::repeat(byte));
            let first = names(endless, PathBuf::from("/dev/zero"), nul).next();
            assert!(matches!(first, Some(Err(Error::Path { .. }))), "{byte} {nul}");
        }
    }
}
