//! One pattern, as rsync's simple ones are.

use serde::{Deserialize, Serialize};

use super::BadPattern;
use crate::name::quoted;

/// Longer patterns match no name; the limit keeps a far side's filter small.
const MAX_PATTERN: usize = 4096;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pattern {
    tokens: Vec<Token>,
    place: MatchedPart,
    only_directories: bool,
    /// `DIR/***`: the directory itself, and all that is in it.
    with_content: bool,
}

/// What of a name a pattern is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum MatchedPart {
    /// The whole name.
    Whole,
    /// The whole name, and what follows each slash.
    Tail,
    /// What follows the last slash.
    Last,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Token {
    Byte(u8),
    /// `?`: one byte that is no slash.
    One,
    /// `*`: bytes that are no slashes.
    Star,
    /// `**`: bytes.
    Stars,
    /// `[a-z]`, `[[:alpha:]]`: one byte in one of the ranges, or in none of them; never a slash.
    Class {
        not: bool,
        ranges: Vec<(u8, u8)>,
    },
}

impl Pattern {
    pub fn parse(text: &[u8]) -> Result<Pattern, BadPattern> {
        let bad = |why| BadPattern { pattern: quoted(text), why };
        if text.len() > MAX_PATTERN {
            return Err(bad("it is longer than any name"));
        }
        let (text_only, with_content) = match text.strip_suffix(b"/***") {
            Some(directory) if !directory.is_empty() => (directory, true),
            _ => (text, false),
        };
        let (rest, only_directories) = match text_only.strip_suffix(b"/") {
            Some(rest) => (rest, true),
            None => (text_only, false),
        };
        let (rest, anchored) = match rest.strip_prefix(b"/") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let tokens = tokens(rest).map_err(bad)?;
        if tokens.is_empty() {
            return Err(bad("it is empty"));
        }
        let spans = tokens.iter().any(|token| matches!(token, Token::Byte(b'/') | Token::Stars));
        let place = if anchored {
            MatchedPart::Whole
        } else if spans {
            MatchedPart::Tail
        } else {
            MatchedPart::Last
        };
        Ok(Pattern { tokens, place, only_directories, with_content })
    }

    /// It is matched from where its rule is: the root of the tree, or the folder of its file.
    pub(crate) fn is_anchored(&self) -> bool {
        self.place == MatchedPart::Whole
    }

    /// About what it takes in a message.
    pub fn weight(&self) -> usize {
        let ranges =
            |token: &Token| if let Token::Class { ranges, .. } = token { 2 * ranges.len() } else { 0 };
        self.tokens.iter().map(|token| 2 + ranges(token)).sum()
    }

    pub fn matches(&self, name: &[u8], is_directory: bool) -> bool {
        if self.with_content {
            // What is in a directory is matched through the directory that it is in.
            let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let mut above = slashes.map(|(slash, _)| &name[..slash]);
            return above.any(|directory| self.matches_place(directory))
                || is_directory && self.matches_place(name);
        }
        (is_directory || !self.only_directories) && self.matches_place(name)
    }

    fn matches_place(&self, name: &[u8]) -> bool {
        let after = |slash: usize| &name[slash + 1..];
        let mut slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(slash, _)| slash);
        match self.place {
            MatchedPart::Whole => matches(&self.tokens, name),
            MatchedPart::Last => matches(&self.tokens, slashes.next_back().map_or(name, after)),
            MatchedPart::Tail => {
                // rsync's names begin with a slash for patterns that begin with `**`: `**/x` is an `x` at the
                // top too.
                let at_top = match &self.tokens[..] {
                    [Token::Stars, Token::Byte(b'/'), rest @ ..] => matches(rest, name),
                    _ => false,
                };
                at_top
                    || matches(&self.tokens, name)
                    || slashes.any(|slash| matches(&self.tokens, after(slash)))
            }
        }
    }
}

fn tokens(mut text: &[u8]) -> Result<Vec<Token>, &'static str> {
    // rsync(1): a backslash is literal where the pattern has no wildcards.
    let wild = text.iter().any(|byte| b"*?[".contains(byte));
    let mut tokens = Vec::new();
    while let [first, rest @ ..] = text {
        text = rest;
        match first {
            b'*' => {
                let more = text.iter().take_while(|byte| **byte == b'*').count();
                text = &text[more..];
                tokens.push(if more > 0 { Token::Stars } else { Token::Star });
            }
            b'?' => tokens.push(Token::One),
            b'[' => {
                let (class, rest) = class(text)?;
                tokens.push(class);
                text = rest;
            }
            b'\\' if wild => match text {
                [escaped, rest @ ..] => {
                    tokens.push(Token::Byte(*escaped));
                    text = rest;
                }
                [] => return Err("it ends with a '\\' that escapes nothing"),
            },
            byte => tokens.push(Token::Byte(*byte)),
        }
    }
    Ok(tokens)
}

/// What follows a `[`, and what follows its `]`.
fn class(text: &[u8]) -> Result<(Token, &[u8]), &'static str> {
    const OPEN: &str = "a '[' without its ']'";
    let (not, mut text) = match text {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut ranges = Vec::new();
    // A `]` in the first place is one of the class.
    while let [first, rest @ ..] = text {
        if *first == b']' && !ranges.is_empty() {
            return Ok((Token::Class { not, ranges }, rest));
        }
        if *first == b'['
            && let Some((named, after)) = named_class(rest)
        {
            ranges.extend_from_slice(of_class(named).ok_or("an unknown class within '[:' and ':]'")?);
            text = after;
            continue;
        }
        let (low, rest) = member(*first, rest).ok_or(OPEN)?;
        match rest {
            [b'-', high, rest @ ..] if *high != b']' => {
                let (high, rest) = member(*high, rest).ok_or(OPEN)?;
                ranges.push((low, high));
                text = rest;
            }
            _ => {
                ranges.push((low, low));
                text = rest;
            }
        }
    }
    Err(OPEN)
}

/// What is between `:` and `:]`, before any other `]`, and what follows.
fn named_class(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b":")?;
    let close = text.iter().position(|byte| *byte == b']')?;
    Some((text[..close].strip_suffix(b":")?, &text[close + 1..]))
}

/// The bytes of a class by name, in ASCII: what POSIX says of its own locale (XBD 7.3.1).
fn of_class(name: &[u8]) -> Option<&'static [(u8, u8)]> {
    Some(match name {
        b"alnum" => &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')],
        b"alpha" => &[(b'A', b'Z'), (b'a', b'z')],
        b"blank" => &[(b'\t', b'\t'), (b' ', b' ')],
        b"cntrl" => &[(0, 0x1f), (0x7f, 0x7f)],
        b"digit" => &[(b'0', b'9')],
        b"graph" => &[(b'!', b'~')],
        b"lower" => &[(b'a', b'z')],
        b"print" => &[(b' ', b'~')],
        b"punct" => &[(b'!', b'/'), (b':', b'@'), (b'[', b'`'), (b'{', b'~')],
        b"space" => &[(b'\t', b'\r'), (b' ', b' ')],
        b"upper" => &[(b'A', b'Z')],
        b"xdigit" => &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')],
        _ => return None,
    })
}

/// A byte of a class, perhaps escaped.
fn member(first: u8, rest: &[u8]) -> Option<(u8, &[u8])> {
    match (first, rest) {
        (b'\\', [escaped, rest @ ..]) => Some((*escaped, rest)),
        (b'\\', []) => None,
        _ => Some((first, rest)),
    }
}

/// Does the pattern match all of `name`?
///
/// Backtracks to the last `*` and the last `**` only. That is enough: what came before a wildcard was matched
/// as short as it can be, which leaves the wildcard everything it could have otherwise; and a `*` that has
/// reached a slash cannot go on, so only the `**` before it can.
fn matches(tokens: &[Token], name: &[u8]) -> bool {
    let (mut token, mut byte) = (0, 0);
    let (mut star, mut stars) = (None, None);
    loop {
        match tokens.get(token) {
            None if byte == name.len() => return true,
            Some(Token::Star) => {
                token += 1;
                star = Some((token, byte));
                continue;
            }
            Some(Token::Stars) => {
                token += 1;
                (star, stars) = (None, Some((token, byte)));
                continue;
            }
            Some(one) if name.get(byte).is_some_and(|byte| one.takes(*byte)) => {
                token += 1;
                byte += 1;
                continue;
            }
            _ => {}
        }
        (token, byte) = match (star, stars) {
            (Some((after, from)), _) if name.get(from).is_some_and(|byte| *byte != b'/') => {
                star = Some((after, from + 1));
                (after, from + 1)
            }
            (_, Some((after, from))) if from < name.len() => {
                (star, stars) = (None, Some((after, from + 1)));
                (after, from + 1)
            }
            _ => return false,
        };
    }
}

impl Token {
    /// One byte. Wildcards for several are not asked.
    fn takes(&self, byte: u8) -> bool {
        match self {
            Token::Byte(wanted) => byte == *wanted,
            Token::One => byte != b'/',
            Token::Class { not, ranges } => {
                byte != b'/' && *not != ranges.iter().any(|(low, high)| (*low..=*high).contains(&byte))
            }
            Token::Star | Token::Stars => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_and_wildcards() {
        for (pattern, name, is_directory, expected) in [
            ("foo", "a/foo", false, true),
            ("foo", "a/foobar", false, false),
            ("/foo", "a/foo", false, false),
            ("/foo", "foo", false, true),
            ("foo/", "foo", false, false),
            ("foo/", "a/foo", true, true),
            ("a/b", "x/a/b", false, true),
            ("a/b", "xa/b", false, false),
            ("/a/*.c", "a/x.c", false, true),
            ("/a/*.c", "a/b/x.c", false, false),
            ("/a/**.c", "a/b/x.c", false, true),
            ("**/x", "a/b/x", false, true),
            ("**/x", "x", false, true),
            ("**/x", "ax", false, false),
            ("**/*.pyc", "x.pyc", false, true),
            ("[[:alpha:]]*", "a1", false, true),
            ("[[:alpha:]]*", "1a", false, false),
            ("[![:space:]_]x", "_x", false, false),
            ("[![:space:]_]x", "-x", false, true),
            ("x[[:digit:]a-c]", "xb", false, true),
            ("[[:]x", ":x", false, true),
            ("a**z", "q/a/b/z", false, true),
            ("a?c", "a/c", false, false),
            ("[a-c]x", "bx", false, true),
            ("[!a-c]x", "bx", false, false),
            ("[]x]", "]", false, true),
            ("a[!b]c", "a/c", false, false),
            (r"a\*b", "a*b", false, true),
            (r"a\*b", "axb", false, false),
            (r"a\b", r"a\b", false, true),
            ("d/***", "d", true, true),
            ("d/***", "x/d/e/f", false, true),
            ("d/***", "d", false, false),
        ] {
            let parsed = Pattern::parse(pattern.as_bytes()).unwrap();
            assert_eq!(parsed.matches(name.as_bytes(), is_directory), expected, "{pattern} on {name}");
        }
        for bad in ["", "/", "[a", r"*\", "[[:alpha:]", "[[:alpha", "[[:word:]]"] {
            assert!(Pattern::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    /// The meaning of a pattern in its plainest form.
    fn model(tokens: &[Token], name: &[u8]) -> bool {
        match tokens {
            [] => name.is_empty(),
            [Token::Star, rest @ ..] => {
                model(rest, name)
                    || name.first().is_some_and(|byte| *byte != b'/') && model(tokens, &name[1..])
            }
            [Token::Stars, rest @ ..] => model(rest, name) || !name.is_empty() && model(tokens, &name[1..]),
            [one, rest @ ..] => name.first().is_some_and(|byte| one.takes(*byte)) && model(rest, &name[1..]),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn as_the_model_says(pattern in "[ab/*?]{1,9}|[ab/]{0,3}\\[!?[ab]-?b?\\][ab*/]{0,4}", name in "[ab]{1,3}(/[ab]{1,3}){0,3}") {
            if let Ok(parsed) = Pattern::parse(pattern.as_bytes()) {
                prop_assert_eq!(matches(&parsed.tokens, name.as_bytes()), model(&parsed.tokens, name.as_bytes()));
            }
        }
    }
}
