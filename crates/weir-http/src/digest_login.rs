//! Digest logins (RFC 7616): answers to a server's challenge that prove the password without sending it.
//!
//! A [`Nonce`] is what a server gave; many requests may use it, each with a count of its own. Bodies of
//! requests are empty here, so that `auth-int` costs nothing beside `auth`.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA512_256, digest};
use percent_encoding::utf8_percent_encode;
use weir_codec::digest::Algorithm;

use crate::challenge::Challenge;
use crate::grammar::ESCAPED_ATTRIBUTE;
use crate::netrc::Login;

/// How a password is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hash {
    Md5,
    Sha256,
    Sha512Of256,
}

/// What of a request is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protection {
    /// RFC 2069, from before there was a choice.
    None,
    Auth,
    AuthInt,
}

/// A server's challenge, and how often it has been answered.
#[derive(Clone, PartialEq, Eq)]
pub struct Nonce {
    realm: String,
    nonce: String,
    opaque: Option<String>,
    hash: Hash,
    /// The algorithm as the server wrote it, if it did.
    written: Option<String>,
    /// `-sess`: the password's hash is bound to the nonce.
    session: bool,
    protection: Protection,
    hides_user: bool,
    /// Chosen here, the same for all answers to it.
    cnonce: String,
    count: u32,
}

impl Nonce {
    /// Reads a challenge; `cnonce` is random text of ours. `None` where it is no Digest, or one of an
    /// algorithm that is not known here.
    pub fn of(challenge: &Challenge, cnonce: &str) -> Option<Nonce> {
        if challenge.scheme() != "digest" {
            return None;
        }
        let own = |name: &str| challenge.parameter(name).map(str::to_owned);
        let written = own("algorithm");
        let upper = written.as_deref().unwrap_or("MD5").to_ascii_uppercase();
        let (name, session) = match upper.strip_suffix("-SESS") {
            Some(name) => (name, true),
            None => (upper.as_str(), false),
        };
        let hash = match name {
            "MD5" => Hash::Md5,
            "SHA-256" => Hash::Sha256,
            "SHA-512-256" => Hash::Sha512Of256,
            _ => return None,
        };
        let offered = challenge.parameter("qop");
        let offers = |wanted: &str| {
            offered.is_some_and(|list| list.split(',').any(|one| one.trim().eq_ignore_ascii_case(wanted)))
        };
        let protection = match offered {
            _ if offers("auth") => Protection::Auth,
            _ if offers("auth-int") => Protection::AuthInt,
            None => Protection::None,
            Some(list) if list.trim().is_empty() => Protection::None,
            Some(_) => return None,
        };
        Some(Nonce {
            realm: own("realm").unwrap_or_default(),
            nonce: own("nonce")?,
            opaque: own("opaque"),
            hash,
            written,
            session,
            protection,
            hides_user: challenge.parameter("userhash").is_some_and(|yes| yes.eq_ignore_ascii_case("true")),
            cnonce: cnonce.to_owned(),
            count: 0,
        })
    }

    /// The server's text.
    pub fn text(&self) -> &str {
        &self.nonce
    }

    /// What the login is for, as the server calls it.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// How many requests have used it.
    pub fn uses(&self) -> u32 {
        self.count
    }

    /// Goes on with a nonce that the server wants to see next (`Authentication-Info`, RFC 7616 section 3.5).
    pub fn renew(&mut self, nonce: &str) {
        (self.nonce, self.count) = (nonce.to_owned(), 0);
    }

    /// The value of `Authorization` for one more request.
    pub fn authorization(&mut self, login: &Login, method: &str, target: &str) -> String {
        self.count += 1;
        let count = format!("{:08x}", self.count);
        let secret = self.secret(login);
        let request = match self.protection {
            Protection::AuthInt => format!("{method}:{target}:{}", self.hex("")),
            _ => format!("{method}:{target}"),
        };
        let request = self.hex(&request);
        let response = match self.qop() {
            None => self.hex(&format!("{secret}:{}:{request}", self.nonce)),
            Some(qop) => {
                self.hex(&format!("{secret}:{}:{count}:{}:{qop}:{request}", self.nonce, self.cnonce))
            }
        };
        let mut value = format!("Digest {}", self.user(login));
        let mut add = |name: &str, text: &str| {
            let _ = write!(value, ", {name}={text}");
        };
        add("realm", &quoted(&self.realm));
        add("nonce", &quoted(&self.nonce));
        add("uri", &quoted(target));
        if let Some(written) = &self.written {
            add("algorithm", written);
        }
        if let Some(qop) = self.qop() {
            // RFC 7616 section 3.4: neither is quoted.
            add("qop", qop);
            add("nc", &count);
        }
        if self.qop().is_some() || self.session {
            add("cnonce", &quoted(&self.cnonce));
        }
        add("response", &quoted(&response));
        if let Some(opaque) = &self.opaque {
            add("opaque", &quoted(opaque));
        }
        if self.hides_user {
            add("userhash", "true");
        }
        value
    }

    fn qop(&self) -> Option<&'static str> {
        match self.protection {
            Protection::None => None,
            Protection::Auth => Some("auth"),
            Protection::AuthInt => Some("auth-int"),
        }
    }

    /// RFC 7616 section 3.4.2.
    fn secret(&self, login: &Login) -> String {
        let plain = self.hex(&format!("{}:{}:{}", login.login, self.realm, login.password));
        match self.session {
            true => self.hex(&format!("{plain}:{}:{}", self.nonce, self.cnonce)),
            false => plain,
        }
    }

    /// Section 3.4.4 for hashed names; section 3.4 for those that a quoted string cannot hold.
    fn user(&self, login: &Login) -> String {
        if self.hides_user {
            return format!("username={}", quoted(&self.hex(&format!("{}:{}", login.login, self.realm))));
        }
        if login.login.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return format!("username={}", quoted(&login.login));
        }
        format!("username*=UTF-8''{}", utf8_percent_encode(&login.login, ESCAPED_ATTRIBUTE))
    }

    fn hex(&self, text: &str) -> String {
        let hashed = match self.hash {
            Hash::Md5 => Algorithm::MD5.of(text.as_bytes()),
            Hash::Sha256 => Algorithm::SHA256.of(text.as_bytes()),
            Hash::Sha512Of256 => digest(&SHA512_256, text.as_bytes()).as_ref().to_vec(),
        };
        hashed.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

impl std::fmt::Debug for Nonce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nonce")
            .field("realm", &self.realm)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// A quoted string (RFC 9110 section 5.6.4). Control characters cannot be in one, and would end the field.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars().filter(|letter| !letter.is_control()) {
        if matches!(letter, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::challenge::challenges;

    const CNONCE: &str = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";

    fn nonce(text: &str, cnonce: &str) -> Option<Nonce> {
        Nonce::of(&challenges([text])[0], cnonce)
    }

    fn login(user: &str, password: &str) -> Login {
        Login { login: user.to_owned(), password: password.to_owned() }
    }

    /// RFC 7616 section 3.9.1.
    #[test]
    fn the_examples_of_the_rfc() {
        for (algorithm, response) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let text = format!(
                "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm={algorithm}, \
                 nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
                 opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
            );
            let mut nonce = nonce(&text, CNONCE).unwrap();
            let value = nonce.authorization(&login("Mufasa", "Circle of Life"), "GET", "/dir/index.html");
            assert!(value.contains(&format!("response=\"{response}\"")), "{value}");
            assert!(value.contains("qop=auth, nc=00000001, ") && value.contains("uri=\"/dir/index.html\""));
            assert!(nonce.authorization(&login("a", "b"), "GET", "/").contains("nc=00000002"));
        }
    }

    /// RFC 7616 section 3.9.2: SHA-512-256, a name beyond ASCII, hashed. The response there is that of a
    /// draft's other digest (errata 4897); the name's hash is what is compared.
    #[test]
    fn a_name_that_is_hashed() {
        let text = "Digest realm=\"api@example.org\", qop=\"auth\", algorithm=SHA-512-256, charset=UTF-8, \
                    nonce=\"5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK\", \
                    opaque=\"HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDssOS\", userhash=true";
        let value = nonce(text, "NTg6RKcb9boFIAS3KrFK9BGeh+niz/sm").unwrap().authorization(
            &login("J\u{e4}s\u{f8}n Doe", "Secret, or not?"),
            "GET",
            "/doe.json",
        );
        assert!(value.contains("userhash=true"), "{value}");
        assert!(!value.contains("Doe"), "{value}");
        let plain = text.replace(", userhash=true", "");
        let value = nonce(&plain, "c").unwrap().authorization(&login("J\u{e4}s\u{f8}n Doe", "x"), "GET", "/");
        assert!(value.starts_with("Digest username*=UTF-8''J%C3%A4s%C3%B8n%20Doe, "), "{value}");
    }

    /// RFC 2069's form, with the example of RFC 2617's errata: no qop, no count.
    #[test]
    fn without_a_quality_of_protection() {
        let text = "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"";
        let value = nonce(text, "c").unwrap().authorization(
            &login("Mufasa", "CircleOfLife"),
            "GET",
            "/dir/index.html",
        );
        assert!(value.contains("response=\"1949323746fe6a43ef61f9606e7febea\""), "{value}");
        assert!(
            !value.contains("nc=") && !value.contains("cnonce") && !value.contains("algorithm"),
            "{value}"
        );
    }

    #[test]
    fn what_cannot_be_answered() {
        for text in
            ["Basic realm=x", "Digest realm=x", "Digest nonce=n, algorithm=X", "Digest nonce=n, qop=other"]
        {
            assert_eq!(nonce(text, "c"), None, "{text}");
        }
        for text in
            ["Digest nonce=n", "Digest nonce=n, qop=\"\"", "digest nonce=n, QOP=AUTH-INT, algorithm=md5-sess"]
        {
            assert!(nonce(text, "c").is_some(), "{text}");
        }
    }

    #[test]
    fn nothing_breaks_out_of_its_quotes() {
        let mut nonce = nonce("Digest nonce=\"a\\\"b\", realm=\"\\\\\"", "c").unwrap();
        let value = nonce.authorization(&login("a\"b\r\nX: y", "p"), "GET", "/\"");
        assert!(value.contains("nonce=\"a\\\"b\"") && value.contains("realm=\"\\\\\""), "{value}");
        assert!(!value.contains(['\r', '\n']), "{value}");
        assert!(!format!("{nonce:?}").contains("a\\\"b"));
    }

    #[test]
    fn a_nonce_is_renewed() {
        let mut nonce = nonce("Digest nonce=a, qop=auth", "c").unwrap();
        nonce.authorization(&login("u", "p"), "GET", "/");
        assert_eq!((nonce.text(), nonce.uses()), ("a", 1));
        nonce.renew("b");
        assert_eq!((nonce.text(), nonce.uses()), ("b", 0));
    }
}
