//! `~/.netrc`: who to log in as, by host. The format is that of ftp(1), with curl's quotes and comments.
//!
//! An odd entry costs that entry ([`Netrc::odd`]), not the logins of other hosts.
//!
//! ```
//! let netrc = weir_http::netrc::parse("machine a.example login me password \"my secret\"").unwrap();
//! assert_eq!(netrc.lookup("a.example").unwrap().password, "my secret");
//! assert!(netrc.lookup("b.example").is_none());
//! ```

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

use base64::Engine as _;

/// The largest file that is read.
pub(crate) const MAX_SIZE: usize = 1024 * 1024;

/// A file that cannot be used. The text never repeats what could be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetrcError {
    /// Larger than [`MAX_SIZE`].
    #[error("netrc has {size} bytes: expected at most {MAX_SIZE}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// A keyword at the end.
    #[error("netrc line {line}: a value is missing after '{keyword}'")]
    MissingValue {
        /// Counted from 1.
        line: usize,
        /// The keyword.
        keyword: &'static str,
    },
    /// A word where a keyword belongs.
    #[error(
        "netrc line {line}: expected machine, default, login, password, account or macdef; put a value with spaces in quotes"
    )]
    NotAKeyword {
        /// Counted from 1.
        line: usize,
    },
    /// Login or password before any machine.
    #[error("netrc line {line}: '{keyword}' stands before the first machine")]
    NoMachine {
        /// Counted from 1.
        line: usize,
        /// The keyword.
        keyword: &'static str,
    },
    /// A quote without its end.
    #[error("netrc line {line}: a quote is not closed")]
    OpenQuote {
        /// Counted from 1.
        line: usize,
    },
}

/// A login. `Debug` does not show the password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// The user; may be empty.
    pub login: String,
    /// The password; may be empty.
    pub password: String,
}

impl Login {
    /// The value of `Authorization` for the Basic scheme (RFC 7617 section 2). To be sent to that host only,
    /// never along a redirect to another.
    pub fn authorization(&self) -> String {
        let pair = format!("{}:{}", self.login, self.password);
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("login", &self.login).finish_non_exhaustive()
    }
}

/// The most odd entries that are told of.
const MAX_ODD: usize = 16;

/// The entries of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Netrc {
    /// Host in lower case, or `None` for `default`.
    entries: Vec<(Option<String>, Login)>,
    odd: Vec<NetrcError>,
}

impl Netrc {
    /// What is wrong with the entries that were passed over, the first 16 of them.
    pub fn odd(&self) -> &[NetrcError] {
        &self.odd
    }

    /// The first entry for `host`, else the `default` one. Host names have no case.
    pub fn lookup(&self, host: &str) -> Option<&Login> {
        self.lookup_user(host, "")
    }

    /// The first entry that names `host`; `default` does not count. For hosts that nobody here has named: a
    /// redirect chose them.
    pub fn lookup_named(&self, host: &str) -> Option<&Login> {
        let is_it =
            |machine: &Option<String>| machine.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(host));
        self.entries.iter().find(|(machine, _)| is_it(machine)).map(|(_, login)| login)
    }

    /// Like [`Netrc::lookup`], for a URL that names its user already; an empty user is any.
    pub fn lookup_user(&self, host: &str, user: &str) -> Option<&Login> {
        let fits = |login: &Login| user.is_empty() || login.login == user;
        let find = |wanted: Option<&str>| {
            let same = |machine: Option<&str>| match (machine, wanted) {
                (Some(machine), Some(wanted)) => machine.eq_ignore_ascii_case(wanted),
                (machine, wanted) => machine.is_none() && wanted.is_none(),
            };
            self.entries
                .iter()
                .find(|(machine, login)| same(machine.as_deref()) && fits(login))
                .map(|(_, login)| login)
        };
        find(Some(host)).or_else(|| find(None))
    }
}

/// Reads the text of a netrc file.
pub fn parse(text: &str) -> Result<Netrc, NetrcError> {
    if text.len() > MAX_SIZE {
        return Err(NetrcError::TooLarge { size: text.len() });
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut words = Words { chars: text.chars().peekable(), line: 1, ahead: None, of_machine: false };
    let mut netrc = Netrc::default();
    loop {
        let begun = netrc.entries.len();
        match netrc.take(&mut words) {
            Ok(true) => {}
            Ok(false) => return Ok(netrc),
            Err(error) => {
                // The entry whose word it is: the last one, unless it is the word by which another would
                // begin.
                if !std::mem::take(&mut words.of_machine) {
                    netrc.entries.truncate(begun.saturating_sub(1));
                }
                if netrc.odd.len() < MAX_ODD {
                    netrc.odd.push(error);
                }
                words.skip_entry();
            }
        }
    }
}

impl Netrc {
    /// The next keyword and its value; false at the end.
    fn take(&mut self, words: &mut Words<'_>) -> Result<bool, NetrcError> {
        let Some(word) = words.next()? else { return Ok(false) };
        let line = words.line;
        let keyword =
            KEYWORDS.into_iter().find(|keyword| *keyword == word).ok_or(NetrcError::NotAKeyword { line })?;
        if keyword == "default" {
            self.entries.push((None, Login::default()));
            return Ok(true);
        }
        words.of_machine = keyword == "machine";
        let value = words.next()?.ok_or(NetrcError::MissingValue { line, keyword })?;
        words.of_machine = false;
        let current = self.entries.last_mut().map(|(_, login)| login);
        match (keyword, current) {
            ("machine", _) => self.entries.push((Some(value), Login::default())),
            ("macdef", _) => words.skip_macro(),
            ("login", Some(current)) => current.login = value,
            ("password", Some(current)) => current.password = value,
            ("account", Some(_)) => {}
            (keyword, _) => return Err(NetrcError::NoMachine { line, keyword }),
        }
        Ok(true)
    }
}

const KEYWORDS: [&str; 6] = ["machine", "default", "login", "password", "account", "macdef"];

/// The words of the file, and the line that the last one ended on.
struct Words<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
    /// A word that was looked at and not taken.
    ahead: Option<String>,
    /// The word that comes is a machine's name: what is odd about it costs no entry before.
    of_machine: bool,
}

impl Words<'_> {
    fn next(&mut self) -> Result<Option<String>, NetrcError> {
        if let Some(word) = self.ahead.take() {
            return Ok(Some(word));
        }
        loop {
            match self.chars.peek() {
                None => return Ok(None),
                Some('#') => self.skip_line(),
                Some('"') => return self.quoted().map(Some),
                Some(c) if c.is_whitespace() => {
                    self.bump();
                }
                Some(_) => return Ok(Some(self.bare())),
            }
        }
    }

    /// A word as it stands. A `#` or a quote within it is part of it.
    fn bare(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.chars.next_if(|c| !c.is_whitespace()) {
            word.push(c);
        }
        word
    }

    /// Goes on to the next entry. Words within a macro begin none.
    fn skip_entry(&mut self) {
        loop {
            match self.next() {
                Ok(None) => return,
                Ok(Some(word)) if word == "machine" || word == "default" => {
                    self.ahead = Some(word);
                    return;
                }
                Ok(Some(word)) if word == "macdef" => self.skip_macro(),
                Ok(Some(_)) | Err(_) => {}
            }
        }
    }

    /// `"a \"b\" \n"`, with curl's escapes; it ends on its line.
    fn quoted(&mut self) -> Result<String, NetrcError> {
        let line = self.line;
        self.bump();
        let mut word = String::new();
        loop {
            if matches!(self.chars.peek(), None | Some('\n')) {
                return Err(NetrcError::OpenQuote { line });
            }
            match self.bump() {
                Some('"') => return Ok(word),
                Some('\\') if self.chars.peek() == Some(&'\n') => return Err(NetrcError::OpenQuote { line }),
                Some('\\') => word.push(match self.bump() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some(c) => c,
                    None => return Err(NetrcError::OpenQuote { line }),
                }),
                Some(c) => word.push(c),
                None => return Err(NetrcError::OpenQuote { line }),
            }
        }
    }

    /// A macro ends at the first empty line, or with the file.
    fn skip_macro(&mut self) {
        self.skip_line();
        while self.chars.peek().is_some_and(|c| *c != '\n') {
            self.skip_line();
        }
    }

    fn skip_line(&mut self) {
        while let Some(c) = self.bump() {
            if c == '\n' {
                break;
            }
        }
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.chars.next()?;
        self.line += usize::from(c == '\n');
        Some(c)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_entries() {
        let text = "# mine\nmachine A.example\n  login me\n  password s#cret\n  account x\n\
                    machine b.example login \"a b\" password \"q\\\"\\n\"\n\
                    macdef init\ncd /\nmachine evil login x password y\n\n\
                    machine a.example login other password two\n\
                    default login anonymous password guest\n";
        let netrc = parse(text).unwrap();
        let login =
            |host: &str| netrc.lookup(host).map(|login| (login.login.as_str(), login.password.as_str()));
        assert_eq!(login("a.EXAMPLE"), Some(("me", "s#cret")));
        assert_eq!(login("b.example"), Some(("a b", "q\"\n")));
        assert_eq!(login("evil"), Some(("anonymous", "guest")));
        assert_eq!(netrc.lookup_user("a.example", "other").unwrap().password, "two");
        assert_eq!(netrc.lookup_user("a.example", "nobody"), None);
    }

    #[test]
    fn nothing_secret_in_debug_or_errors() {
        let netrc = parse("machine a login me password hunter2").unwrap();
        assert!(!format!("{netrc:?}").contains("hunter2"));
        assert_eq!(netrc.lookup("a").unwrap().authorization(), "Basic bWU6aHVudGVyMg==");
        let netrc = parse("machine a\nlogin me password hunter2 hunter3").unwrap();
        assert_eq!(netrc.odd(), [NetrcError::NotAKeyword { line: 2 }]);
        assert!(!format!("{} {netrc:?}", netrc.odd()[0]).contains("hunter"));
    }

    #[test]
    fn an_odd_entry_costs_that_entry() {
        let good = "machine b login me password secret\n";
        for (odd, error) in [
            ("machine a login x password y z\n", NetrcError::NotAKeyword { line: 2 }),
            ("machine a login x password \"y\n", NetrcError::OpenQuote { line: 2 }),
            ("machine a login x password \"y\\\n", NetrcError::OpenQuote { line: 2 }),
            ("machine \"a\n login x password y\n", NetrcError::OpenQuote { line: 2 }),
            ("machine a nonsense macdef init\nmachine c login evil\n\n", NetrcError::NotAKeyword { line: 2 }),
        ] {
            let netrc = parse(&format!("machine c login me\n{odd}{good}")).unwrap();
            assert_eq!(netrc.odd(), [error], "{odd}");
            assert_eq!(netrc.lookup("a"), None, "{odd}");
            assert_eq!(netrc.lookup("b").unwrap().password, "secret", "{odd}");
            assert_eq!(netrc.lookup("c").unwrap().login, "me", "{odd}");
        }
        let early = parse(&format!("login x password y\n{good}")).unwrap();
        assert_eq!(early.odd(), [NetrcError::NoMachine { line: 1, keyword: "login" }]);
        assert!(early.lookup("b").is_some());
    }

    #[test]
    fn says_what_is_wrong() {
        let odd = |text| parse(text).unwrap().odd().to_vec();
        assert_eq!(odd("machine"), [NetrcError::MissingValue { line: 1, keyword: "machine" }]);
        assert_eq!(odd("\nlogin x"), [NetrcError::NoMachine { line: 2, keyword: "login" }]);
        assert_eq!(odd("machine a password \"x\n"), [NetrcError::OpenQuote { line: 1 }]);
        assert!(matches!(parse(&" ".repeat(MAX_SIZE + 1)), Err(NetrcError::TooLarge { .. })));
        assert_eq!(parse("").unwrap().lookup("a"), None);
    }

    proptest! {
        #[test]
        fn never_panics(text in "((machine|default|login|password|macdef|#|\"|\\\\|[a-z]{1,3})[ \n]{0,2}){0,20}|\\PC*") {
            if let Ok(netrc) = parse(&text) {
                netrc.lookup("a");
            }
        }

        #[test]
        fn print_parse(host in "[a-z.]{1,20}", login in "[^\\p{Cc}]{0,20}", password in "[^\\p{Cc}]{0,20}") {
            let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let netrc = parse(&format!("machine {host} login {} password {}", quote(&login), quote(&password))).unwrap();
            prop_assert_eq!(netrc.lookup(&host), Some(&Login { login, password }));
        }
    }
}
