//! Who we say we are: user and password from the URL, from `--user` or from ~/.netrc, for one origin only.

use std::io::Read;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::Url;

/// A netrc file larger than this is not one.
const MAX_NETRC: u64 = 1 << 20;

/// `Basic ...` for the user and password of `url` itself.
pub fn from_url(url: &Url) -> Option<String> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decode = |text: &str| percent_encoding_decode(text);
    Some(basic(&decode(url.username()), &decode(url.password().unwrap_or(""))))
}

/// `Basic ...` from a `user:password` text.
pub fn from_pair(pair: &str) -> String {
    let (user, password) = pair.split_once(':').unwrap_or((pair, ""));
    basic(user, password)
}

/// `Basic ...` from the netrc file, where it knows `host`.
pub fn from_netrc(host: &str) -> Option<String> {
    let path = std::env::var_os("NETRC")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".netrc")))?;
    // A pipe could be waited on for ever, a device never ends.
    if !std::fs::metadata(&path).ok()?.is_file() {
        tracing::warn!("{} is not used: it is no file", path.display());
        return None;
    }
    let mut text = Vec::new();
    std::fs::File::open(&path).ok()?.take(MAX_NETRC + 1).read_to_end(&mut text).ok()?;
    if text.len() as u64 > MAX_NETRC {
        tracing::warn!("{} is not used: it is longer than {MAX_NETRC} bytes", path.display());
        return None;
    }
    // A word in another encoding costs the entry that it is in, not the others.
    match weir_http::netrc::parse(&String::from_utf8_lossy(&text)) {
        Ok(entries) => {
            for odd in entries.odd() {
                tracing::warn!("an entry of ~/.netrc is passed over: {odd}");
            }
            entries.lookup(host).map(weir_http::netrc::Login::authorization)
        }
        Err(error) => {
            tracing::warn!("~/.netrc is not used: {error}");
            None
        }
    }
}

/// `url` without user name and password: the only form that is shown, logged or stored.
pub fn without(url: &Url) -> Url {
    let mut bare = url.clone();
    // Both fail only on URLs that cannot have a user, which then have none.
    let _ = bare.set_username("");
    let _ = bare.set_password(None);
    bare.set_fragment(None);
    bare
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn percent_encoding_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_s_user_is_decoded_and_taken_out() {
        let url = Url::parse("http://us%40er:p%3Aw@h/x#part").unwrap();
        assert_eq!(from_url(&url), Some(from_pair("us@er:p:w")));
        assert_eq!(without(&url).as_str(), "http://h/x");
        assert_eq!(from_url(&Url::parse("http://h/").unwrap()), None);
    }
}
