//! What a walk leaves out and a removal spares: rules as in rsync's `--exclude`, `--include` and `--filter`,
//! and lists of names as in its `--files-from`.

mod pattern;
mod rule;
mod scope;

use std::ffi::OsStr;
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use crate::bad_rule::{BadPattern, BadRule};
use crate::entry::{MAX_NAME, Name};
use crate::error::TreeError;
use rule::{Against, Form, Reading, Rule, What};
pub use scope::Scope;
pub(crate) use scope::{Renamed, whole};

/// Rules in order; the first that matches decides, and what none matches is taken.
///
/// A pattern with a leading `/` is matched from the root of the tree, one with another slash or with `**`
/// against the end of the name, any other against the last component. A trailing `/` matches directories
/// only. `*` stands for any bytes but slashes, `**` for any bytes, `?` for one byte but a slash, `[a-z]`,
/// `[!a-z]` and `[[:alpha:]]` for one of a class; `\` takes the next byte as it is; a leading `**/` is also
/// nothing. `DIR/***` means the directory and all that is in it.
///
/// Each rule holds for what is copied, for what is protected at the target, or for both. A rule may stand for
/// a file of rules in each folder: those of one folder are a [`Scope`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    rules: Vec<Rule>,
    delete_excluded: bool,
    /// What the user leaves out of CVS, in words.
    cvs_own: Vec<u8>,
    /// Of the next rule that stands for files in folders.
    next_id: u32,
}

/// For what the rules are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What is copied.
    Sender,
    /// What is protected at the target.
    Receiver {
        /// It is in a folder that is removed: perishable rules (rsync's `p`) do not protect it.
        doomed: bool,
    },
}

/// Bytes of a file of rules, at most.
pub const MAX_RULE_FILE: u64 = 1 << 20;

impl Filter {
    /// No rules yet. `delete_excluded`: those that say nothing of sides do not protect what is at the target.
    pub fn new(delete_excluded: bool) -> Filter {
        Filter { delete_excluded, ..Filter::default() }
    }

    /// The same where `-C` stands for more than what CVS leaves out by itself: for the words in
    /// `~/.cvsignore` and `$CVSIGNORE`, too.
    pub fn with_cvs_words(self, words: Vec<u8>) -> Result<Filter, BadRule> {
        match words.len() > rule::MAX_BYTES {
            true => Err(BadRule::TooMany),
            false => Ok(Filter { cvs_own: words, ..self }),
        }
    }

    /// Adds a rule that leaves out what `pattern` matches; of `+ PATTERN` one that takes it, and `!` gives up
    /// all before it.
    pub fn exclude(&mut self, pattern: &[u8]) -> Result<(), BadRule> {
        self.read(&mut no_files, |reading| reading.rule(pattern, Form::patterns(false)))
    }

    /// Adds a rule that takes what `pattern` matches, whatever later rules say; of `- PATTERN` one that
    /// leaves it out.
    pub fn include(&mut self, pattern: &[u8]) -> Result<(), BadRule> {
        self.read(&mut no_files, |reading| reading.rule(pattern, Form::patterns(true)))
    }

    /// Adds the patterns of a list, a line each or divided by NUL: to be taken, or left out.
    pub fn patterns(&mut self, list: &[u8], take: bool, nul: bool) -> Result<(), BadRule> {
        self.read(&mut no_files, |reading| reading.file(list, Form::patterns(take), nul))
    }

    /// Adds a rule as `--filter` has them. `open` reads the file that a `merge` names.
    pub fn rule(&mut self, text: &[u8], open: rule::Opening<'_>) -> Result<(), BadRule> {
        self.read(open, |reading| reading.rule(text, Form::default()))
    }

    fn read(
        &mut self,
        open: rule::Opening<'_>,
        add: impl FnOnce(&mut Reading<'_>) -> Result<(), BadRule>,
    ) -> Result<(), BadRule> {
        let read_as = (self.delete_excluded, &self.cvs_own[..]);
        let mut reading = Reading::new(read_as, &mut self.next_id, open);
        add(&mut reading)?;
        if reading.cleared {
            self.rules.clear();
        }
        self.rules.append(&mut reading.rules);
        rule::check_size(&self.rules)
    }

    /// No rules: everything is taken.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Is `name` copied? What is in a directory that is not taken is not asked for. Rules of files in folders
    /// are those of a [`Scope`].
    pub fn takes(&self, name: &Name, is_directory: bool) -> bool {
        self.decides(&Scope::default(), name, is_directory, Side::Sender)
    }

    /// Whether the rules and those of the folder that it is in take `name`: it is copied, or not protected.
    pub fn decides(&self, scope: &Scope, name: &Name, is_directory: bool, side: Side) -> bool {
        let called = scope.called(name);
        let asked = Asked { name: name.as_bytes(), called: &called, is_directory, side, is_xattr: false };
        scope.decide(&self.rules, &asked, Some(&called)).unwrap_or(true)
    }

    /// Whether an extended attribute of this name is copied, or goes from what is at the target.
    pub(crate) fn takes_xattr(&self, scope: &Scope, name: &[u8], side: Side) -> bool {
        let asked = Asked { name, called: name, is_directory: false, side, is_xattr: true };
        scope.decide(&self.rules, &asked, Some(name)).unwrap_or(true)
    }

    /// How the rules of files are read.
    fn read_as(&self) -> (bool, &[u8]) {
        (self.delete_excluded, &self.cvs_own)
    }

    /// Whether a file of this name may hold rules of its folder.
    pub(crate) fn has_rules_in(&self, last: &[u8]) -> bool {
        self.rules.iter().any(|rule| matches!(&rule.what, What::Merge(merge) if *merge.file == *last))
    }

    /// Whether folders around the tree have rules for it, too.
    pub(crate) fn reaches_up(&self) -> bool {
        let reaches = |rule: &Rule| matches!(&rule.what, What::Merge(merge) if merge.parents.is_some());
        self.rules.iter().any(reaches)
    }

    /// Whether there are rules of extended attributes.
    pub(crate) fn has_xattr_rules(&self) -> bool {
        let is_one = |rule: &Rule| matches!(&rule.what, What::Match { against: Against::Xattr, .. });
        self.rules.iter().any(is_one)
    }

    /// Whether where the tree is makes a difference.
    pub(crate) fn asks_where(&self) -> bool {
        let asks = |rule: &Rule| match &rule.what {
            What::Match { against, .. } => *against == Against::Path,
            What::Merge(_) => true,
        };
        self.rules.iter().any(asks)
    }

    /// Whether folders have rules of their own.
    pub fn has_scopes(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.what, What::Merge(_)))
    }
}

/// What is asked about.
struct Asked<'a> {
    /// In the tree.
    name: &'a [u8],
    /// The same where a source has its own name.
    called: &'a [u8],
    is_directory: bool,
    side: Side,
    /// It is an extended attribute.
    is_xattr: bool,
}

/// A list of patterns names no files.
fn no_files(_: &[u8]) -> Result<Vec<u8>, String> {
    Err("a list of patterns names no files".to_owned())
}

/// The names in a list (`--files-from`): one a line, or divided by NUL. Leading `/` and `./` and trailing
/// slashes go; empty lines are skipped, and in lists by line also those that begin with `#` or `;`. `path` is
/// for errors.
pub fn names<R: BufRead>(list: R, path: PathBuf, nul: bool) -> impl Iterator<Item = Result<Name, TreeError>> {
    let mut list = list;
    std::iter::from_fn(move || {
        let mut empty = 0;
        loop {
            match read_line(&mut list, if nul { 0 } else { b'\n' }) {
                Ok(None) => return None,
                Ok(Some(line)) if !nul && (line.starts_with(b"#") || line.starts_with(b";")) => {}
                Ok(Some(line)) => {
                    // A list that was written elsewhere, where lines end with both; a name that ends so goes
                    // with NUL.
                    let line = if nul { &line[..] } else { line.strip_suffix(b"\r").unwrap_or(&line) };
                    if !line.is_empty() {
                        return Some(name_of(line));
                    }
                    empty += 1;
                    if empty > LONGEST {
                        return Some(Err(TreeError::Path {
                            action: "read",
                            path: path.clone(),
                            source: no_list(),
                        }));
                    }
                }
                Err(source) => {
                    return Some(Err(TreeError::Path { action: "read", path: path.clone(), source }));
                }
            }
        }
    })
}

/// More of a line, or more empty ones in a row, have no list of names: /dev/zero has, and it never ends.
const LONGEST: usize = 64 << 20;

fn no_list() -> std::io::Error {
    let why = format!("it is not a list of names: none within its first {LONGEST} bytes");
    std::io::Error::new(std::io::ErrorKind::InvalidData, why)
}

/// A line without its end. Of one that is far too long only the beginning is kept: enough to be refused as a
/// name.
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

/// The name below a root that a line of a list means: `./a`, `/a` and `a/` are `a`.
///
/// # Errors
/// [`TreeError`] where it is none, as one that has `..` in it.
pub fn name_of(line: &[u8]) -> Result<Name, TreeError> {
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
            assert!(matches!(first, Some(Err(TreeError::Path { .. }))), "{byte} {nul}");
        }
    }
}
