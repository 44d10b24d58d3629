//! How a server, or a proxy, is shown who asks: Basic at once, Digest where it wants that, each by its own
//! challenge.
//!
//! What was agreed with an origin holds for all lanes of a run: they answer one nonce, each request with a
//! count of its own (RFC 7616 section 3.4).

use std::collections::HashMap;

use crate::http::make_room;
use parking_lot::{Mutex, MutexGuard};
use weir_http::challenge::{self, Challenge, challenges};
use weir_http::digest_login::Nonce;
use weir_http::fields::Fields;
use weir_http::netrc::Login;

/// How often one request is sent anew because its server wants another answer: once for the scheme, and then
/// for nonces that ran out under it. Many lanes at a server of short nonces need more than one.
pub(crate) const MAX_ANSWERS: u32 = 5;

/// Which schemes the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schemes {
    /// Basic before the server asks, Digest where it asks for that.
    #[default]
    Usual,
    /// Basic alone.
    Basic,
    /// Digest alone: the password is never sent.
    Digest,
    /// Whatever the server asks for, and nothing before.
    Any,
}

/// Who wants a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asker {
    /// A server: 401, `WWW-Authenticate`.
    Server,
    /// A proxy: 407, `Proxy-Authenticate`.
    Proxy,
}

impl Asker {
    /// The status with which it asks.
    pub fn status(self) -> u16 {
        if self == Asker::Server { 401 } else { 407 }
    }

    fn challenge_field(self) -> &'static str {
        if self == Asker::Server { "www-authenticate" } else { "proxy-authenticate" }
    }

    fn info_field(self) -> &'static str {
        if self == Asker::Server { "authentication-info" } else { "proxy-authentication-info" }
    }
}

/// Whom a login is shown to: an origin or a proxy, and as which user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Space {
    /// Server or proxy.
    pub asker: Asker,
    /// `host:port`, with the scheme of an origin before it.
    pub at: String,
    /// The user's name.
    pub user: String,
}

/// What was sent with a request.
#[derive(Clone, PartialEq, Eq)]
pub struct Sent {
    /// The field's value.
    pub value: String,
    scheme: Scheme,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Scheme {
    Basic,
    Digest {
        nonce: String,
        realm: String,
        /// Which use of the nonce it is.
        uses: u32,
    },
}

/// What was agreed with a [`Space`].
enum Agreed {
    Basic,
    Digest(Nonce),
}

/// The agreements of a run.
#[derive(Default)]
pub struct Logins {
    schemes: Schemes,
    agreed: Mutex<HashMap<Space, Agreed>>,
}

impl Logins {
    /// Where the user wants these schemes.
    pub fn new(schemes: Schemes) -> Logins {
        Logins { schemes, agreed: Mutex::default() }
    }

    /// What to send with a request, before or after the server has asked.
    pub fn authorization(&self, space: &Space, login: &Login, method: &str, target: &str) -> Option<Sent> {
        let at_once = matches!(self.schemes, Schemes::Usual | Schemes::Basic);
        match self.lock().get_mut(space) {
            Some(Agreed::Digest(nonce)) => {
                let value = nonce.authorization(login, method, target);
                let (text, realm) = (nonce.text().to_owned(), nonce.realm().to_owned());
                Some(Sent { value, scheme: Scheme::Digest { nonce: text, realm, uses: nonce.uses() } })
            }
            Some(Agreed::Basic) => Some(basic(login)),
            None if at_once => Some(basic(login)),
            None => None,
        }
    }

    /// The server asked (401 or 407) in spite of what was `sent`: whether another answer may please it, which
    /// [`Logins::authorization`] then gives.
    pub(crate) fn hears_challenge(&self, space: &Space, fields: &Fields, sent: Option<&Sent>) -> bool {
        let offered = challenges(fields.headers_all(space.asker.challenge_field()));
        let allows_digest = self.schemes != Schemes::Basic;
        // The first that is known here is the server's choice (RFC 7616 section 3.7).
        let digest =
            offered.iter().filter(|_| allows_digest).find_map(|one| Some((one, Nonce::of(one, &random())?)));
        let mut agreed = self.lock();
        let mut agree = |now: Agreed| {
            make_room(&mut *agreed);
            agreed.insert(space.clone(), now);
            true
        };
        match (digest, sent.map(|sent| &sent.scheme)) {
            (Some((challenge, new)), Some(Scheme::Digest { nonce, realm, uses })) => {
                let is_stale =
                    challenge.parameter("stale").is_some_and(|yes| yes.eq_ignore_ascii_case("true"));
                // A nonce that has served before may have run out without a word of it, and was perhaps for
                // another part of the server. One that is refused at its first use refuses the password.
                let ran_out = *uses > 1 && new.text() != nonce;
                let elsewhere = new.realm() != realm;
                if is_stale || ran_out || elsewhere { agree(Agreed::Digest(new)) } else { false }
            }
            (Some((_, nonce)), _) => agree(Agreed::Digest(nonce)),
            (None, None) if self.schemes == Schemes::Any && offers_basic(&offered) => agree(Agreed::Basic),
            _ => false,
        }
    }

    /// Hears which nonce a server wants to see next.
    pub(crate) fn hears_answer(&self, space: &Space, fields: &Fields) {
        let Some(info) = fields.header(space.asker.info_field()) else { return };
        let next = challenge::parameters(info).into_iter().find(|(name, _)| name == "nextnonce");
        if let (Some((_, next)), Some(Agreed::Digest(nonce))) = (next, self.lock().get_mut(space))
            && nonce.text() != next
        {
            nonce.renew(&next);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Space, Agreed>> {
        self.agreed.lock()
    }
}

fn basic(login: &Login) -> Sent {
    Sent { value: login.authorization(), scheme: Scheme::Basic }
}

fn offers_basic(offered: &[Challenge]) -> bool {
    offered.iter().any(|one| one.scheme() == "basic")
}

/// A server that asks for Basic and for nothing better.
pub(crate) fn offers_only_basic(fields: &Fields) -> bool {
    let offered = challenges(fields.headers_all(Asker::Server.challenge_field()));
    offers_basic(&offered) && offered.iter().all(|one| Nonce::of(one, "").is_none())
}

/// 128 bits in hexadecimal digits: nobody guesses the other half of what is hashed.
fn random() -> String {
    let mut bytes = [0; 16];
    // Without the system's randomness there is no TLS either; the server's nonce alone still protects the
    // password.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What may help where a server wants to know who asks, and no login was found for it; `None` for what the
/// usual words say.
pub(crate) fn unmet(asker: Asker, fields: &Fields) -> Option<&'static str> {
    let offered = challenges(fields.headers_all(asker.challenge_field()));
    let schemes: Vec<&str> = offered.iter().map(Challenge::scheme).collect();
    let has = |scheme: &str| schemes.contains(&scheme);
    let digest_is_known = offered.iter().any(|one| Nonce::of(one, "").is_some());
    match () {
        () if has("basic") || digest_is_known || schemes.is_empty() => None,
        () if asker == Asker::Proxy => Some(
            "; it requires a login other than Basic and Digest, which weir does not support; try curl --proxy-negotiate or --proxy-ntlm",
        ),
        () if has("bearer") => Some("; it requires a token: -H 'Authorization: Bearer TOKEN' sends one"),
        () if has("negotiate") || has("ntlm") => Some(
            "; it requires Kerberos or NTLM (Negotiate), which weir does not support; curl --negotiate -u : or curl --ntlm -u USER can fetch it",
        ),
        () if has("digest") => Some("; it requires a Digest algorithm that weir does not support"),
        () => {
            Some("; it requires a login scheme that weir does not support: -H 'Authorization: ...' sends any")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        Space { asker: Asker::Server, at: "http://h:80".to_owned(), user: "u".to_owned() }
    }

    fn login() -> Login {
        Login { login: "u".to_owned(), password: "p".to_owned() }
    }

    fn asks(text: &str) -> Fields {
        let mut fields = Fields::new();
        fields.push("WWW-Authenticate", text).unwrap();
        fields
    }

    fn send(logins: &Logins) -> Option<String> {
        logins.authorization(&space(), &login(), "GET", "/").map(|sent| sent.value)
    }

    #[test]
    fn what_is_sent_before_and_after_a_challenge() {
        let digest = asks("Basic realm=r, Digest realm=r, nonce=n, qop=auth");
        let basic = asks("Basic realm=r");
        for (schemes, before, digest_then, basic_then) in [
            (Schemes::Usual, Some("Basic"), Some("Digest"), None),
            (Schemes::Basic, Some("Basic"), None, None),
            (Schemes::Digest, None, Some("Digest"), None),
            (Schemes::Any, None, Some("Digest"), Some("Basic")),
        ] {
            for (fields, then) in [(&digest, digest_then), (&basic, basic_then)] {
                let logins = Logins::new(schemes);
                let sent = logins.authorization(&space(), &login(), "GET", "/");
                let word =
                    |value: Option<&str>| value.and_then(|value| value.split(' ').next()).map(str::to_owned);
                assert_eq!(
                    word(sent.as_ref().map(|sent| sent.value.as_str())).as_deref(),
                    before,
                    "{schemes:?}"
                );
                assert_eq!(
                    logins.hears_challenge(&space(), fields, sent.as_ref()),
                    then.is_some(),
                    "{schemes:?}"
                );
                if then.is_some() {
                    assert_eq!(word(send(&logins).as_deref()).as_deref(), then, "{schemes:?}");
                }
            }
        }
    }

    #[test]
    fn a_nonce_that_ran_out_is_replaced_and_a_password_that_is_wrong_is_not_tried_again() {
        let logins = Logins::new(Schemes::Usual);
        assert!(logins.hears_challenge(&space(), &asks("Digest realm=r, nonce=a, qop=auth"), None));
        let first = logins.authorization(&space(), &login(), "GET", "/");
        assert!(!logins.hears_challenge(
            &space(),
            &asks("Digest realm=r, nonce=b, qop=auth"),
            first.as_ref()
        ));
        assert!(!logins.hears_challenge(
            &space(),
            &asks("Digest realm=r, nonce=a, qop=auth"),
            first.as_ref()
        ));
        let stale = asks("Digest realm=r, nonce=c, qop=auth, stale=true");
        assert!(logins.hears_challenge(&space(), &stale, first.as_ref()));
        assert!(send(&logins).unwrap().contains("nonce=\"c\", uri=\"/\", qop=auth, nc=00000001"));
        let used = logins.authorization(&space(), &login(), "GET", "/");
        assert!(logins.hears_challenge(&space(), &asks("Digest realm=r, nonce=d, qop=auth"), used.as_ref()));
    }

    #[test]
    fn the_next_nonce_is_taken() {
        let logins = Logins::new(Schemes::Usual);
        logins.hears_challenge(&space(), &asks("Digest realm=r, nonce=a, qop=auth"), None);
        let mut answer = Fields::new();
        answer.push("Authentication-Info", "qop=auth, nextnonce=\"z\"").unwrap();
        logins.hears_answer(&space(), &answer);
        assert!(send(&logins).unwrap().contains("nonce=\"z\""));
    }

    #[test]
    fn schemes_that_are_not_known_have_a_way_out() {
        for (text, says) in [
            ("Negotiate", Some("curl --negotiate")),
            ("NTLM", Some("curl --ntlm")),
            ("Bearer realm=x", Some("Bearer TOKEN")),
            ("Digest nonce=x, algorithm=X", Some("algorithm")),
            ("Hoba", Some("scheme")),
            ("Negotiate, Basic realm=x", None),
            ("Digest nonce=x", None),
        ] {
            let said = unmet(Asker::Server, &asks(text));
            assert_eq!(said.is_some(), says.is_some(), "{text}");
            assert!(says.is_none_or(|word| said.unwrap().contains(word)), "{text}: {said:?}");
        }
    }
}
