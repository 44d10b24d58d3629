//! Patterns of keys: `*` and `?` stop at a slash and `**` does not, `[a-z]` is one letter of a class, `\`
//! takes the next letter as it is. A key without any of them is no pattern.

/// A pattern that names keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    tokens: Vec<Token>,
    /// What all of its keys begin with.
    prefix: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Letter(char),
    /// `?`.
    One,
    /// `*`.
    Star,
    /// `**`.
    Stars,
    Class {
        not: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Glob {
    /// Reads `text`; `None` where it has no wildcard. A `[` that nothing closes is a letter.
    pub fn parse(text: &str) -> Option<Glob> {
        let mut tokens = Vec::new();
        let mut rest = text.chars();
        while let Some(letter) = rest.next() {
            let token = match letter {
                '\\' => Token::Letter(rest.next().unwrap_or('\\')),
                '?' => Token::One,
                '*' => {
                    let stars = rest.as_str().chars().take_while(|letter| *letter == '*').count();
                    rest = rest.as_str()[stars..].chars();
                    if stars > 0 { Token::Stars } else { Token::Star }
                }
                '[' => match class(rest.as_str()) {
                    Some((class, length)) => {
                        rest = rest.as_str()[length..].chars();
                        class
                    }
                    None => Token::Letter('['),
                },
                other => Token::Letter(other),
            };
            tokens.push(token);
        }
        let literal = |token: &Token| match token {
            Token::Letter(letter) => Some(*letter),
            _ => None,
        };
        let prefix: String = tokens.iter().map_while(literal).collect();
        tokens.iter().any(|token| literal(token).is_none()).then_some(Glob { tokens, prefix })
    }

    /// `text` without its backslashes, where it is no pattern.
    pub fn plain(text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text.chars();
        while let Some(letter) = rest.next() {
            out.push(if letter == '\\' { rest.next().unwrap_or('\\') } else { letter });
        }
        out
    }

    /// What all keys begin with that it matches.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// It asks for nothing deeper than the folder of its prefix: keys below a further slash never match.
    pub fn is_of_one_folder(&self) -> bool {
        let behind = &self.tokens[self.prefix.chars().count()..];
        !behind.iter().any(|token| matches!(token, Token::Stars | Token::Letter('/')))
    }

    /// Whether it names `key`. In time of the product of both lengths at most, whatever the pattern.
    pub fn matches(&self, key: &str) -> bool {
        // Which beginnings of the pattern the letters so far can have matched.
        let mut at = vec![false; self.tokens.len() + 1];
        at[0] = true;
        self.pass_stars(&mut at);
        for letter in key.chars() {
            let mut next = vec![false; at.len()];
            for (index, token) in self.tokens.iter().enumerate().filter(|(index, _)| at[*index]) {
                match token {
                    Token::Stars => next[index] = true,
                    Token::Star => next[index] |= letter != '/',
                    Token::One => next[index + 1] |= letter != '/',
                    Token::Letter(own) => next[index + 1] |= letter == *own,
                    Token::Class { not, ranges } => {
                        let is_in = ranges.iter().any(|(from, to)| (*from..=*to).contains(&letter));
                        next[index + 1] |= letter != '/' && is_in != *not;
                    }
                }
            }
            self.pass_stars(&mut next);
            at = next;
        }
        at[self.tokens.len()]
    }

    /// A star is also nothing.
    fn pass_stars(&self, at: &mut [bool]) {
        for (index, token) in self.tokens.iter().enumerate() {
            if at[index] && matches!(token, Token::Star | Token::Stars) {
                at[index + 1] = true;
            }
        }
    }
}

/// The class that begins behind a `[`, and how many bytes of `text` it is.
fn class(text: &str) -> Option<(Token, usize)> {
    let not = text.starts_with(['!', '^']);
    let body = &text[usize::from(not)..];
    // A bracket right at the beginning is a letter of the class.
    let end = body.char_indices().skip(1).find(|(_, letter)| *letter == ']')?.0;
    let letters: Vec<char> = body[..end].chars().collect();
    let mut ranges = Vec::new();
    let mut index = 0;
    while index < letters.len() {
        let to = if letters.get(index + 1) == Some(&'-') { letters.get(index + 2) } else { None };
        ranges.push((letters[index], to.copied().unwrap_or(letters[index])));
        index += if to.is_some() { 3 } else { 1 };
    }
    Some((Token::Class { not, ranges }, usize::from(not) + end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_matched() {
        for (pattern, yes, no) in [
            ("a/*.gz", &["a/.gz", "a/x.gz"][..], &["a/b/x.gz", "a/x.gz2", "b/x.gz"][..]),
            ("a/**.gz", &["a/x.gz", "a/b/c.gz"], &["a/x"]),
            ("**/x", &["/x", "a/b/x"], &["x"]),
            ("a?c", &["abc", "aüc"], &["a/c", "ac", "abbc"]),
            ("[a-c]x[!0-9]", &["axb", "cx-"], &["dxb", "ax5", "ax/"]),
            ("a\\*b*", &["a*bc"], &["axbc"]),
            ("[]]*[", &["][", "]x["], &["x["]),
        ] {
            let glob = Glob::parse(pattern).unwrap();
            assert!(yes.iter().all(|key| glob.matches(key)), "{pattern}");
            assert!(no.iter().all(|key| !glob.matches(key)), "{pattern}");
            assert!(yes.iter().all(|key| key.starts_with(glob.prefix())), "{pattern}");
        }
        assert_eq!(Glob::parse("a/b[c\\*"), None);
        assert_eq!(Glob::plain("a\\*\\\\b"), "a*\\b");
    }

    #[test]
    fn what_is_in_one_folder() {
        for (pattern, is_one) in [("a/b/*", true), ("a/b?c*", true), ("a/*/b", false), ("a/**", false)] {
            assert_eq!(Glob::parse(pattern).unwrap().is_of_one_folder(), is_one, "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let glob = Glob::parse(&"*a".repeat(500)).unwrap();
        assert!(!glob.matches(&"a".repeat(1000).replace("aaaa", "aaab")[..499]));
        assert!(glob.matches(&"a".repeat(1000)));
    }
}
