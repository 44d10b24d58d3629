//! Which words of the command line hold a secret? Everybody on the machine can read those (ps,
//! /proc/PID/cmdline), so they are overwritten as soon as they are parsed: the value of -u, the user and
//! password of a URL or a proxy, what signs a link, the values of header fields, cookies, the password of a
//! certificate.
//!
//! Looked for is what was parsed, not what was typed: whichever way a flag was written, its value stands at
//! the end of a word.

use std::ffi::OsString;
use std::ops::Range;

use weir_http::signed_link::{self, Kind};

use crate::args::{BenchCommand, Command};
use crate::cmd::get_who::split_password;

/// A word's end, and what of it is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Secret {
    text: String,
    hidden: Range<usize>,
}

/// Overwrites them. Where the system does not allow that they stay as they are; nothing else depends on it.
pub fn hide(command: &Command) {
    let secrets = secrets(command);
    let has_secret = |word: OsString| word.to_str().is_some_and(|word| !of_any(word).is_empty());
    if secrets.is_empty() && !std::env::args_os().any(has_secret) {
        return;
    }
    let find = |word: &[u8]| {
        let hits = secrets.iter().filter(|secret| {
            let is_whole = word == secret.text.as_bytes();
            is_whole || word.starts_with(b"-") && word.ends_with(secret.text.as_bytes())
        });
        let at = |secret: &Secret| {
            let before = word.len() - secret.text.len();
            before + secret.hidden.start..before + secret.hidden.end
        };
        hits.map(at).chain(std::str::from_utf8(word).map(of_any).unwrap_or_default()).collect()
    };
    if let Err(error) = weir_observe::arguments::blank(find) {
        tracing::debug!("secrets on the command line stay readable: {error}");
    }
}

/// Of any word, whichever command it is for or hands it on: the user and the password of a URL in it, and
/// what signs it.
fn of_any(word: &str) -> Vec<Range<usize>> {
    if !word.contains("://") {
        return Vec::new();
    }
    let login = of_url(word).map(|secret| secret.hidden);
    login.into_iter().chain(signatures(word)).filter(|hidden| !hidden.is_empty()).collect()
}

/// The values in the query of a URL that are for no log either.
fn signatures(word: &str) -> Vec<Range<usize>> {
    let Some(start) = word.find('?').map(|at| at + 1) else { return Vec::new() };
    let end = word[start..].find('#').map_or(word.len(), |at| start + at);
    let mut at = start;
    let mut pairs = Vec::new();
    for pair in word[start..end].split('&') {
        let name = pair.split('=').next().unwrap_or_default();
        let value = at + (name.len() + 1).min(pair.len());
        pairs.push((name, value..at + pair.len()));
        at += pair.len() + 1;
    }
    let decoded = |name: &str| {
        let mut pairs = url::form_urlencoded::parse(name.as_bytes());
        pairs.next().map_or_else(String::new, |(name, _)| name.into_owned())
    };
    let names: Vec<String> = pairs.iter().map(|(name, _)| decoded(name)).collect();
    let kinds = signed_link::kinds(names.iter().map(String::as_str));
    let hidden = pairs.into_iter().zip(kinds).filter(|(_, kind)| *kind != Kind::Plain);
    hidden.map(|((_, value), _)| value).collect()
}

fn secrets(command: &Command) -> Vec<Secret> {
    let mut found = Vec::new();
    match command {
        Command::Get(get) => {
            found.extend(get.user.iter().map(|user| Secret { text: user.clone(), hidden: 0..user.len() }));
            found.extend(get.headers.iter().filter_map(|line| of_field(line)));
            let cookies = get.login.cookies.iter().filter(|given| given.contains('='));
            found.extend(cookies.map(|given| Secret { text: given.clone(), hidden: 0..given.len() }));
            found.extend(get.login.certificate.cert.iter().filter_map(|cert| of_certificate(cert)));
            let urls = get.urls.iter().chain(&get.hubs.lfs).chain(&get.proxy).chain(&get.checksum_from);
            found.extend(urls.filter_map(|url| of_url(url)));
        }
        Command::Put(put) => {
            found.extend(put.user.iter().map(|user| Secret { text: user.clone(), hidden: 0..user.len() }));
            found.extend(put.headers.iter().filter_map(|line| of_field(line)));
            let cookies = put.login.cookies.iter().filter(|given| given.contains('='));
            found.extend(cookies.map(|given| Secret { text: given.clone(), hidden: 0..given.len() }));
            found.extend(put.login.certificate.cert.iter().filter_map(|cert| of_certificate(cert)));
            found.extend(put.proxy.iter().chain([&put.target]).filter_map(|url| of_url(url)));
        }
        Command::Bench(bench) => {
            if let BenchCommand::Http(http) = &bench.command {
                found.extend(http.headers.iter().filter_map(|line| of_field(line)));
                found.extend(http.certificate.cert.iter().filter_map(|cert| of_certificate(cert)));
                found.extend(http.proxy.iter().filter_map(|url| of_url(url)));
                // ab's -A and -P: user and password for the server and for a proxy.
                for two in http.ab.iter().flat_map(|words| words.windows(2)) {
                    if matches!(two[0].as_str(), "-A" | "-P") {
                        found.push(Secret { text: two[1].clone(), hidden: 0..two[1].len() });
                    }
                }
            }
        }
        _ => {}
    }
    found
}

/// The user and the password of a URL: either may be a token.
fn of_url(text: &str) -> Option<Secret> {
    let start = text.find("://").map_or(0, |at| at + 3);
    let authority = text[start..].split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let end = start + authority.rfind('@')?;
    Some(Secret { text: text.to_owned(), hidden: start..end })
}

/// The password behind a certificate's file.
fn of_certificate(cert: &str) -> Option<Secret> {
    let password = split_password(cert).1?;
    Some(Secret { text: cert.to_owned(), hidden: cert.len() - password.len()..cert.len() })
}

/// A field's value. Any may hold a secret (`PRIVATE-TOKEN`, `Cookie`), but for those that say what is wanted
/// or who asks.
fn of_field(line: &str) -> Option<Secret> {
    let (name, value) = line.split_once(':')?;
    let harmless = ["accept", "accept-language", "accept-encoding", "user-agent", "host", "referer", "range"];
    if harmless.contains(&name.trim().to_ascii_lowercase().as_str()) {
        return None;
    }
    let start = line.len() - value.trim_start().len();
    Some(Secret { text: line.to_owned(), hidden: start..line.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_of_a_word() {
        let hidden = |secret: Option<Secret>| secret.map(|secret| secret.text[secret.hidden].to_owned());
        for (url, expected) in [
            ("https://me:pw@h/x", Some("me:pw")),
            ("https://token@h", Some("token")),
            ("me:p@ss@h:80/x@y", Some("me:p@ss")),
            ("http://h/a@b", None),
            ("http://h?x=a@b", None),
            ("h", None),
        ] {
            assert_eq!(hidden(of_url(url)).as_deref(), expected, "{url}");
        }
        for (word, expected) in [
            ("https://me:pw@h/x?X-Amz-Date=1&part=2&X-Amz-Signature=abc#f", &["me:pw", "1", "abc"][..]),
            ("https://h/x?sig=a%2Bb&se=1&versionId=3", &["a%2Bb", "1"]),
            ("https://h/x?access%5Ftoken=t&q", &["t"]),
            ("https://h/x?token", &[]),
            ("s3://b/k?versionId=3", &[]),
            ("no?token=link", &[]),
        ] {
            let hidden: Vec<&str> = of_any(word).into_iter().map(|range| &word[range]).collect();
            assert_eq!(hidden, expected, "{word}");
        }
        for (line, expected) in [
            ("Authorization: Bearer x", Some("Bearer x")),
            ("PRIVATE-TOKEN:x", Some("x")),
            ("User-Agent: me", None),
            ("no colon", None),
        ] {
            assert_eq!(hidden(of_field(line)).as_deref(), expected, "{line}");
        }
        assert_eq!(hidden(of_certificate("no/such.p12:pw")).as_deref(), Some("pw"));
        assert_eq!(hidden(of_certificate("no/such.p12")), None);
    }
}
