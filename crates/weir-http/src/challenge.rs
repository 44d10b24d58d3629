//! `WWW-Authenticate` and `Proxy-Authenticate`: how a server wants to be shown who asks (RFC 9110 section
//! 11.6.1).
//!
//! One field may hold several challenges, each a scheme with parameters, all parted by commas; several fields
//! add up.
//!
//! ```
//! use weir_http::challenge::challenges;
//!
//! let found = challenges(["Negotiate, Basic realm=\"a, b\", Digest nonce=x, qop=\"auth\""]);
//! let schemes: Vec<&str> = found.iter().map(|one| one.scheme()).collect();
//! assert_eq!(schemes, ["negotiate", "basic", "digest"]);
//! assert_eq!(found[1].parameter("realm"), Some("a, b"));
//! ```

use crate::grammar;

/// The most challenges that are looked at: servers send one to five.
const MAX_CHALLENGES: usize = 16;

/// The most parameters of one: Digest has ten.
const MAX_PARAMETERS: usize = 32;

/// One scheme that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// The scheme in lower case: `basic`, `digest`.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The first parameter called `name`, without its quotes. Names have no case.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// The challenges in the values of one field, in order. What cannot be read is passed over.
pub fn challenges<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<Challenge> {
    let mut found = Vec::new();
    for value in values.into_iter().filter(|value| value.len() <= grammar::MAX_VALUE) {
        Reader { rest: value }.read(&mut found);
    }
    found
}

/// The parameters of a field that has no scheme before them (`Authentication-Info`, RFC 7615 section 3).
pub fn parameters(value: &str) -> Vec<(String, String)> {
    let mut found = vec![Challenge { scheme: String::new(), parameters: Vec::new() }];
    if value.len() <= grammar::MAX_VALUE {
        Reader { rest: value }.read(&mut found);
    }
    found.swap_remove(0).parameters
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn read(&mut self, found: &mut Vec<Challenge>) {
        loop {
            self.skip(&[' ', '\t', ',']);
            let word = self.token();
            if word.is_empty() {
                match self.rest.chars().next() {
                    None => return,
                    // No token begins with this: what follows the next comma may be one.
                    Some(_) => self.skip_to_comma(),
                }
                continue;
            }
            let after = self.rest.trim_start_matches([' ', '\t']);
            let is_full = found.len() >= MAX_CHALLENGES;
            match (after.strip_prefix('='), found.last_mut()) {
                (Some(value), Some(challenge)) => {
                    self.rest = value;
                    self.skip(&[' ', '\t']);
                    let value = self.value();
                    if challenge.parameters.len() < MAX_PARAMETERS {
                        challenge.parameters.push((word.to_ascii_lowercase(), value));
                    }
                }
                (Some(_), None) => self.skip_to_comma(),
                (None, _) if is_full => return,
                (None, _) => {
                    found.push(Challenge { scheme: word.to_ascii_lowercase(), parameters: Vec::new() });
                    self.skip_token68();
                }
            }
        }
    }

    fn skip(&mut self, these: &[char]) {
        self.rest = self.rest.trim_start_matches(these);
    }

    fn skip_to_comma(&mut self) {
        self.rest = self.rest.split_once(',').map_or("", |(_, rest)| rest);
    }

    fn token(&mut self) -> &'a str {
        let is_end = |letter: char| !u8::try_from(letter).is_ok_and(grammar::is_token_byte);
        let (word, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    /// A quoted string without its quotes and escapes, or all up to the next comma or blank.
    fn value(&mut self) -> String {
        let Some(quoted) = self.rest.strip_prefix('"') else {
            let end = self.rest.find([',', ' ', '\t']).unwrap_or(self.rest.len());
            let (value, rest) = self.rest.split_at(end);
            self.rest = rest;
            return value.to_owned();
        };
        let mut value = String::new();
        let mut letters = quoted.chars();
        loop {
            match letters.next() {
                None | Some('"') => break,
                Some('\\') => value.extend(letters.next()),
                Some(letter) => value.push(letter),
            }
        }
        self.rest = letters.as_str();
        value
    }

    /// `Negotiate YII==`: data in place of parameters. What is followed by anything but a comma is none.
    fn skip_token68(&mut self) {
        let is_data = |letter: char| letter.is_ascii_alphanumeric() || "-._~+/".contains(letter);
        let data = self.rest.trim_start_matches([' ', '\t']);
        let rest = data.trim_start_matches(is_data).trim_start_matches('=');
        let rest = rest.trim_start_matches([' ', '\t']);
        if data.len() > rest.len() && (rest.is_empty() || rest.starts_with(',')) {
            self.rest = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(value: &str) -> Vec<(String, Vec<(String, String)>)> {
        challenges([value]).into_iter().map(|one| (one.scheme, one.parameters)).collect()
    }

    fn one(scheme: &str, parameters: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
        let own = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        (scheme.to_owned(), own.collect())
    }

    #[test]
    fn what_servers_send() {
        for (value, expected) in [
            ("Basic realm=\"a\"", vec![one("basic", &[("realm", "a")])]),
            ("BASIC Realm = a", vec![one("basic", &[("realm", "a")])]),
            ("Basic", vec![one("basic", &[])]),
            ("Negotiate, NTLM", vec![one("negotiate", &[]), one("ntlm", &[])]),
            ("NTLM TlRMTVNTUAAC==, Basic realm=x", vec![one("ntlm", &[]), one("basic", &[("realm", "x")])]),
            ("Basic realm=\"a \\\"b\\\", c\"", vec![one("basic", &[("realm", "a \"b\", c")])]),
            (
                "Digest realm=\"r\", qop=\"auth,auth-int\", nonce=n==, stale=FALSE",
                vec![one(
                    "digest",
                    &[("realm", "r"), ("qop", "auth,auth-int"), ("nonce", "n=="), ("stale", "FALSE")],
                )],
            ),
            ("Basic realm=\"open", vec![one("basic", &[("realm", "open")])]),
            (", ,Basic realm=x,,", vec![one("basic", &[("realm", "x")])]),
            ("realm=x", vec![]),
            ("\u{fc}, Basic", vec![one("basic", &[])]),
            ("", vec![]),
        ] {
            assert_eq!(read(value), expected, "{value}");
        }
    }

    #[test]
    fn parameters_without_a_scheme() {
        let found = parameters("nextnonce=\"abc\", qop=auth, rspauth=\"00\"");
        assert_eq!(found[0], ("nextnonce".to_owned(), "abc".to_owned()));
        assert_eq!(found.len(), 3);
    }

    proptest! {
        #[test]
        fn ends_and_is_bounded(value in "(Basic|Digest|[a-z]{1,3}|=|,| |\"|\\\\|\\PC){0,60}") {
            let found = challenges([value.as_str()]);
            prop_assert!(found.len() <= MAX_CHALLENGES);
            for one in found {
                prop_assert!(one.parameters.len() <= MAX_PARAMETERS && grammar::is_token(one.scheme()));
            }
        }
    }
}
