//! Which connections belong to one test?
//!
//! A client draws a cookie and sends it first on its control connection and on each TCP data connection. It
//! is no secret from the network, but nobody who does not see it can guess it.

use std::fmt;

/// 36 letters and digits, and a NUL.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cookie([u8; Cookie::LENGTH]);

/// The 32 symbols of the alphabet, so that five random bits make one.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl Cookie {
    /// Bytes on the wire, the NUL included.
    pub const LENGTH: usize = 37;

    /// A fresh one, from the system's generator.
    pub fn random() -> Cookie {
        let mut random = [0; Cookie::LENGTH - 1];
        // Without randomness of the system's own, the program's will do: the cookie tells tests apart, it
        // guards nothing.
        if aws_lc_rs::rand::fill(&mut random).is_err() {
            random.fill_with(|| fastrand::u8(..));
        }
        let mut bytes = [0; Cookie::LENGTH];
        for (symbol, random) in bytes.iter_mut().zip(random) {
            *symbol = ALPHABET[usize::from(random & 31)];
        }
        Cookie(bytes)
    }

    /// A peer's cookie: printable and ended by NUL. Of foreign alphabets no more is asked, since old clients
    /// use others.
    pub fn parse(bytes: [u8; Cookie::LENGTH]) -> Option<Cookie> {
        let (end, symbols) = bytes.split_last()?;
        (*end == 0 && symbols.iter().all(u8::is_ascii_graphic)).then_some(Cookie(bytes))
    }

    /// As it goes over the wire.
    pub fn bytes(&self) -> &[u8; Cookie::LENGTH] {
        &self.0
    }
}

impl fmt::Display for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0[..Cookie::LENGTH - 1]))
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cookie({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_survives_the_wire_and_no_two_are_alike() {
        let cookie = Cookie::random();
        assert_eq!(Cookie::parse(*cookie.bytes()), Some(cookie));
        assert_eq!(cookie.to_string().len(), 36);
        assert_ne!(cookie, Cookie::random());
    }

    #[test]
    fn what_is_no_cookie_is_refused() {
        assert_eq!(Cookie::parse([b'a'; Cookie::LENGTH]), None, "no NUL");
        let mut request = [b' '; Cookie::LENGTH];
        request[..14].copy_from_slice(b"GET / HTTP/1.1");
        request[36] = 0;
        assert_eq!(Cookie::parse(request), None, "another protocol");
    }
}
