//! Who asks for a test: a user and password, encrypted for the server's key.
//!
//! The client sends base64(RSA("user: U\npwd: P\nts: T")), T in unix seconds. Clients and servers of 3.17 and
//! later pad by OAEP (SHA-1), earlier ones by PKCS#1 v1.5 (RFC 8017, 7.1 and 7.2); the two do not understand
//! each other. The server keeps lines `user,hash` with hash = hex(SHA-256("{user}password")), the braces
//! included.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey, Pkcs1PrivateDecryptingKey,
    Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What is wrong with a key, or with who asks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No PEM of this kind.
    #[error("no PEM block '{0}' in the key file")]
    NoPem(&'static str),
    /// Not a key, or one of a size that is not taken.
    #[error("the key is not usable: expected RSA of 2048 to 8192 bits")]
    Key,
    /// The text does not fit one RSA block.
    #[error("user and password are too long for the server's key")]
    TooLong,
    /// The server asks who it is.
    #[error("no user and password came, which this server asks for")]
    NoToken,
    /// Not decipherable: another key or another padding.
    #[error(
        "the user and password cannot be deciphered: another key, or another padding (--use-pkcs1-padding)"
    )]
    Undecipherable,
    /// The clocks differ.
    #[error("the client's clock is off by {0} s")]
    Skew(u64),
    /// Unknown, or another password.
    #[error("user or password is wrong")]
    Wrong,
    /// A line of the list of users.
    #[error("line {0} of the users' file is not 'user,sha256'")]
    Users(usize),
}

/// How the text is padded before RSA.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Padding {
    /// Of 3.17 and later.
    #[default]
    Oaep,
    /// Of earlier versions.
    Pkcs1,
}

/// A user with password. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(..)")
    }
}

/// Whom a server lets in.
pub struct Guard {
    key: PrivateDecryptingKey,
    padding: Padding,
    users: Vec<(String, [u8; 32])>,
    skew: Duration,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({} users)", self.users.len())
    }
}

/// The token that tells the server who asks. `pem` is the server's public key.
pub fn token(login: &Login, pem: &str, padding: Padding, now: SystemTime) -> Result<String, AuthError> {
    let key = parse_pem(pem, "PUBLIC KEY")?;
    let key = PublicEncryptingKey::from_der(&key).map_err(|_| AuthError::Key)?;
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let text = format!("user: {}\npwd:  {}\nts:   {seconds}", login.user, login.password);
    let mut room = vec![0; key.key_size_bytes()];
    let sealed = match padding {
        Padding::Oaep => OaepPublicEncryptingKey::new(key)
            .and_then(|key| key.encrypt(&OAEP_SHA1_MGF1SHA1, text.as_bytes(), &mut room, None)),
        Padding::Pkcs1 => {
            Pkcs1PublicEncryptingKey::new(key).and_then(|key| key.encrypt(text.as_bytes(), &mut room))
        }
    };
    Ok(STANDARD.encode(sealed.map_err(|_| AuthError::TooLong)?))
}

impl Guard {
    /// With the server's private key and its list of users.
    pub fn new(pem: &str, users: &str, padding: Padding, skew: Duration) -> Result<Guard, AuthError> {
        let der = match parse_pem(pem, "PRIVATE KEY") {
            Ok(der) => der,
            Err(_) => wrap_pkcs1(&parse_pem(pem, "RSA PRIVATE KEY")?),
        };
        let key = PrivateDecryptingKey::from_pkcs8(&der).map_err(|_| AuthError::Key)?;
        Ok(Guard { key, padding, users: parse_users(users)?, skew })
    }

    /// Lets in whoever has one of the users' passwords; returns the name.
    pub fn admit(&self, token: Option<&str>, now: SystemTime) -> Result<String, AuthError> {
        let sealed =
            STANDARD.decode(token.ok_or(AuthError::NoToken)?).map_err(|_| AuthError::Undecipherable)?;
        let text = self.open(&sealed).ok_or(AuthError::Undecipherable)?;
        let mut parts = text.split('\n');
        let mut part = |name: &str| parts.next().and_then(|line| line.strip_prefix(name));
        let (Some(user), Some(password), Some(seconds)) = (part("user: "), part("pwd:  "), part("ts:   "))
        else {
            return Err(AuthError::Undecipherable);
        };
        let seconds: u64 = seconds.trim().parse().map_err(|_| AuthError::Undecipherable)?;
        let off = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().abs_diff(seconds);
        if off > self.skew.as_secs() {
            return Err(AuthError::Skew(off));
        }
        let hash = digest(&SHA256, format!("{{{user}}}{password}").as_bytes());
        // Each line is compared, so that the time taken tells nothing of who is in the list.
        let known = self.users.iter().filter(|(name, kept)| {
            let same = verify_slices_are_equal(kept, hash.as_ref()).is_ok();
            same & (name == user)
        });
        if known.count() > 0 { Ok(user.to_owned()) } else { Err(AuthError::Wrong) }
    }

    fn open(&self, sealed: &[u8]) -> Option<String> {
        let mut room = vec![0; self.key.key_size_bytes()];
        let text = match self.padding {
            Padding::Oaep => OaepPrivateDecryptingKey::new(self.key.clone())
                .ok()?
                .decrypt(&OAEP_SHA1_MGF1SHA1, sealed, &mut room, None)
                .ok()?,
            Padding::Pkcs1 => {
                Pkcs1PrivateDecryptingKey::new(self.key.clone()).ok()?.decrypt(sealed, &mut room).ok()?
            }
        };
        // Old clients count the NUL in.
        String::from_utf8(text.strip_suffix(b"\0").unwrap_or(text).to_vec()).ok()
    }
}

/// Lines `user,sha256`, with remarks from `#` on and empty lines between.
fn parse_users(text: &str) -> Result<Vec<(String, [u8; 32])>, AuthError> {
    let mut users = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = AuthError::Users(number + 1);
        let (user, hash) = line.split_once(',').ok_or(wrong.clone())?;
        users.push((user.trim().to_owned(), parse_hash(hash.trim()).ok_or(wrong)?));
    }
    Ok(users)
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}

/// The bytes of the first PEM block of this kind (RFC 7468).
fn parse_pem(text: &str, kind: &'static str) -> Result<Vec<u8>, AuthError> {
    let none = || AuthError::NoPem(kind);
    let (_, rest) = text.split_once(&format!("-----BEGIN {kind}-----")).ok_or_else(none)?;
    let (body, _) = rest.split_once(&format!("-----END {kind}-----")).ok_or_else(none)?;
    let letters: String = body.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
    STANDARD.decode(letters).map_err(|_| none())
}

/// A PKCS#1 key as PKCS#8 holds it (RFC 5958): SEQUENCE { 0, SEQUENCE { rsaEncryption, NULL }, OCTET STRING {
/// key } }.
fn wrap_pkcs1(key: &[u8]) -> Vec<u8> {
    const HEAD: [u8; 18] = [2, 1, 0, 0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
    let body = [HEAD.as_slice(), &der(4, key)].concat();
    der(0x30, &body)
}

/// One DER element: tag, length in its shortest form, content.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u64).to_be_bytes();
    let short = &length[length.iter().position(|byte| *byte != 0).unwrap_or(7)..];
    let mut element = vec![tag];
    if content.len() >= 128 {
        element.push(0x80 | short.len() as u8);
    }
    element.extend(short);
    element.extend(content);
    element
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How far a client's clock may be off.
    const SKEW: Duration = Duration::from_secs(10);
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
    use aws_lc_rs::rsa::KeySize;

    fn pem(kind: &str, der: &[u8]) -> String {
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
    }

    fn keys() -> (String, String) {
        let key = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
        let private: Pkcs8V1Der<'_> = key.as_der().unwrap();
        let public: PublicKeyX509Der<'_> = key.public_key().as_der().unwrap();
        (pem("PRIVATE KEY", private.as_ref()), pem("PUBLIC KEY", public.as_ref()))
    }

    /// `echo -n '{ann}secret' | sha256sum`.
    const USERS: &str = "# people\nbob,9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n\n\
        ann,cb4be9e74ba29a3cfa63a1fa34b3d35d31aacc8a1ab1e2eeefd8e22cf7ee6a4c # me\n";

    fn users() -> String {
        let hash = digest(&SHA256, b"{ann}secret");
        let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{USERS}ann,{hex}\n")
    }

    #[test]
    fn who_has_the_password_is_let_in_by_either_padding() {
        let (private, public) = keys();
        let ann = Login { user: "ann".to_owned(), password: "secret".to_owned() };
        let now = SystemTime::now();
        for padding in [Padding::Oaep, Padding::Pkcs1] {
            let guard = Guard::new(&private, &users(), padding, SKEW).unwrap();
            let sealed = token(&ann, &public, padding, now).unwrap();
            assert_eq!(guard.admit(Some(&sealed), now), Ok("ann".to_owned()));
            assert_eq!(
                guard.admit(Some(&sealed), now + Duration::from_secs(60)),
                Err(AuthError::Skew(60)),
                "an old token"
            );
            let wrong = Login { password: "Secret".to_owned(), ..ann.clone() };
            let sealed = token(&wrong, &public, padding, now).unwrap();
            assert_eq!(guard.admit(Some(&sealed), now), Err(AuthError::Wrong));
            for token in ["", "!", "AAAA", &sealed[..20]] {
                assert_eq!(guard.admit(Some(token), now), Err(AuthError::Undecipherable), "{token}");
            }
            assert_eq!(guard.admit(None, now), Err(AuthError::NoToken));
        }
    }

    #[test]
    fn keys_of_the_older_form_are_read() {
        let (private, public) = keys();
        // PKCS#8 of this length: 26 bytes, then the PKCS#1 key.
        let inner = parse_pem(&private, "PRIVATE KEY").unwrap()[26..].to_vec();
        let guard = Guard::new(&pem("RSA PRIVATE KEY", &inner), &users(), Padding::Oaep, SKEW).unwrap();
        let ann = Login { user: "ann".to_owned(), password: "secret".to_owned() };
        let sealed = token(&ann, &public, Padding::Oaep, SystemTime::now()).unwrap();
        assert!(guard.admit(Some(&sealed), SystemTime::now()).is_ok());
        let long = Login { password: "x".repeat(300), ..ann };
        assert_eq!(token(&long, &public, Padding::Oaep, SystemTime::now()), Err(AuthError::TooLong));
    }

    #[test]
    fn wrong_files_are_told() {
        let (private, public) = keys();
        assert_eq!(
            Guard::new(&public, "", Padding::Oaep, SKEW).unwrap_err(),
            AuthError::NoPem("RSA PRIVATE KEY")
        );
        assert_eq!(Guard::new(&private, "ann\n", Padding::Oaep, SKEW).unwrap_err(), AuthError::Users(1));
        assert_eq!(
            Guard::new(&private, "\nann,abc\n", Padding::Oaep, SKEW).unwrap_err(),
            AuthError::Users(2)
        );
        let none = Login { user: String::new(), password: String::new() };
        assert_eq!(
            token(&none, &pem("PUBLIC KEY", b"x"), Padding::Oaep, SystemTime::now()),
            Err(AuthError::Key)
        );
        assert_eq!(format!("{none:?}"), "Login(..)");
    }
}
