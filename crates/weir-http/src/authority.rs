//! Whom a request is for: the value of `Host`, and the authority in a request target (RFC 3986 section 3.2).

use std::net::Ipv6Addr;

/// The longest authority that is read: a DNS name has at most 253 characters, and a port 6 with its colon.
const MAX_AUTHORITY: usize = 512;

/// Whether `text` is `host` or `host:port` (RFC 9110 section 7.2).
///
/// The host must not be empty: `http` and `https` have no URI without one (section 4.2.1). User information
/// is refused, since a recipient of `user@host` cannot tell a login from a trick (section 4.2.4). The port
/// may be empty (RFC 3986, 3.2.3).
pub fn is_valid(text: &str) -> bool {
    if text.len() > MAX_AUTHORITY {
        return false;
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((literal, rest)) if is_ip_literal(literal) => match rest.strip_prefix(':') {
                Some(port) => return is_port(port),
                None => return rest.is_empty(),
            },
            _ => return false,
        },
        None => match text.split_once(':') {
            Some((host, port)) => (host, port),
            None => (text, ""),
        },
    };
    is_reg_name(host) && is_port(port)
}

/// What stands between `[` and `]`. Zone identifiers are for one machine only, and no part of the grammar any
/// more.
fn is_ip_literal(text: &str) -> bool {
    let is_future = || {
        let rest = text.strip_prefix(['v', 'V'])?;
        let (version, address) = rest.split_once('.')?;
        let is_address = |byte: u8| is_unreserved(byte) || is_sub_delim(byte) || byte == b':';
        let hex = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(hex && !address.is_empty() && address.bytes().all(is_address))
    };
    text.parse::<Ipv6Addr>().is_ok() || is_future().unwrap_or(false)
}

/// A name or an IPv4 address: both are made of the same characters.
fn is_reg_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'%' => {
                let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
                if !(is_hex(at + 1) && is_hex(at + 2)) {
                    return false;
                }
                3
            }
            byte if is_unreserved(byte) || is_sub_delim(byte) => 1,
            _ => return false,
        };
    }
    !bytes.is_empty()
}

/// Digits that fit a port, or nothing.
fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && (text.is_empty() || text.parse::<u16>().is_ok())
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn is_sub_delim(byte: u8) -> bool {
    b"!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts_and_ports() {
        for text in [
            "example.org",
            "example.org:80",
            "example.org:",
            "127.0.0.1:8000",
            "[::1]",
            "[::1]:443",
            "[v1.x:y]",
            "a_b",
            "x%41",
            "localhost:65535",
        ] {
            assert!(is_valid(text), "{text}");
        }
        for text in [
            "",
            ":80",
            "a b",
            "a,b c",
            "a/b",
            "a?b",
            "a#b",
            "user@host",
            "a:b",
            "a:1:2",
            "a:65536",
            "a:+80",
            "::1",
            "[::1",
            "[::1]x",
            "[]",
            "[fe80::1%25eth0]",
            "x%4",
            "x%zz",
            "höst",
            "a\tb",
            "a\"b",
            "a\\b",
            "<a>",
        ] {
            assert!(!is_valid(text), "{text}");
        }
        assert!(!is_valid(&"x".repeat(MAX_AUTHORITY + 1)));
    }

    proptest! {
        #[test]
        fn what_is_valid_is_one_plain_word(text in "\\PC{0,20}|[a-z0-9.:@%/\\[\\] -]{0,20}") {
            if is_valid(&text) {
                prop_assert!(text.is_ascii() && !text.contains([' ', '/', '@', '?', '#', '\\']));
            }
        }
    }
}
