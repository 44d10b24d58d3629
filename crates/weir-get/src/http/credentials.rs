//! Who we say we are: user and password from the URL, from `--user` or from ~/.netrc, each for its own host.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use url::Url;
use weir_http::netrc::{Login, Netrc};

/// A netrc file larger than this is not one.
const MAX_NETRC: u64 = 1 << 20;

/// The user and password of `url` itself.
pub fn from_url(url: &Url) -> Option<Login> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decode = |text: &str| percent_encoding_decode(text);
    Some(Login { login: decode(url.username()), password: decode(url.password().unwrap_or("")) })
}

/// From a `user:password` text.
pub fn from_pair(pair: &str) -> Login {
    let (user, password) = pair.split_once(':').unwrap_or((pair, ""));
    Login { login: user.to_owned(), password: password.to_owned() }
}

/// Whose netrc file is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NetrcFile {
    /// `$NETRC`, or `~/.netrc`.
    #[default]
    Usual,
    /// `--netrc-file`.
    At(PathBuf),
    /// `--no-netrc`.
    None,
}

/// The logins that the user has given, by host.
#[derive(Debug, Default)]
pub struct Credentials {
    /// `--user`.
    pub user: Option<Login>,
    /// Whose netrc file.
    pub netrc: NetrcFile,
    /// `--location-trusted`: what was given for the first URL's origin goes wherever a redirect leads.
    pub everywhere: bool,
    read: OnceLock<Option<Netrc>>,
}

impl Credentials {
    /// With these sources.
    pub fn new(user: Option<Login>, netrc: NetrcFile, everywhere: bool) -> Credentials {
        Credentials { user, netrc, everywhere, read: OnceLock::new() }
    }

    /// Who to be at `url`; `home` is the URL that the user gave, `None` where a redirect led to another
    /// origin.
    pub fn of(&self, url: &Url, home: Option<&Url>) -> Option<Login> {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let at_home = home.is_some();
        // A user in the URL of a redirect is the server's word; at the same origin it is heeded all the same.
        let (here, at_first) = (from_url(url), home.and_then(from_url));
        let is_led = here.is_some() && here != at_first;
        if let Some(user) = self.user.as_ref().filter(|_| at_home && !is_led) {
            return Some(user.clone());
        }
        let named = if here.is_some() { Some(url) } else { home };
        let mut own = here.or(at_first);
        if let Some(login) = &mut own
            && named.is_some_and(|url| url.password().is_none())
            && let Some(known) = self.netrc().and_then(|netrc| netrc.lookup_user(host, &login.login))
        {
            // As curl has it: a name in the URL, its password in the netrc file.
            login.password.clone_from(&known.password);
        }
        own.or_else(|| {
            // `default` is for hosts that the user named: where a redirect leads is somebody else's choice.
            let found = if at_home { self.netrc()?.lookup(host) } else { self.netrc()?.lookup_named(host) };
            found.cloned()
        })
    }

    /// The password that the netrc file has for `user` at `url`.
    pub fn password_of(&self, url: &Url, user: &str) -> Option<String> {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        Some(self.netrc()?.lookup_user(host, user)?.password.clone())
    }

    fn netrc(&self) -> Option<&Netrc> {
        let read = || match &self.netrc {
            NetrcFile::None => None,
            NetrcFile::At(path) => read_netrc(path, true),
            NetrcFile::Usual => {
                let own = std::env::var_os("NETRC").map(PathBuf::from);
                read_netrc(
                    &own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".netrc")))?,
                    false,
                )
            }
        };
        self.read.get_or_init(read).as_ref()
    }
}

/// The entries of the file at `path`; one that was asked for is missed in words.
fn read_netrc(path: &Path, is_asked_for: bool) -> Option<Netrc> {
    let unused = |why: String| {
        tracing::warn!("{} is not used: {why}", path.display());
        None
    };
    // A pipe could be waited on for ever, a device never ends.
    match std::fs::metadata(path) {
        Err(error) if is_asked_for => return unused(weir_units::plain(&error)),
        Err(_) => return None,
        Ok(there) if !there.is_file() => return unused("it is no file".to_owned()),
        Ok(_) => {}
    }
    let mut text = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_NETRC + 1).read_to_end(&mut text));
    if let Err(error) = read {
        return if is_asked_for { unused(weir_units::plain(&error)) } else { None };
    }
    if text.len() as u64 > MAX_NETRC {
        return unused(format!("it is longer than {MAX_NETRC} bytes"));
    }
    // A word in another encoding costs the entry that it is in, not the others.
    let text = match weir_units::list_bytes(&text) {
        Ok(text) => String::from_utf8_lossy(text),
        Err(error) => return unused(error.to_string()),
    };
    match weir_http::netrc::parse(&text) {
        Ok(entries) => {
            for odd in entries.odd() {
                tracing::warn!("an entry of {} is passed over: {odd}", path.display());
            }
            Some(entries)
        }
        Err(error) => unused(error.to_string()),
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

fn percent_encoding_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn the_url_s_user_is_decoded_and_taken_out() {
        let secret = url("http://us%40er:p%3Aw@h/x#part");
        assert_eq!(from_url(&secret), Some(from_pair("us@er:p:w")));
        assert_eq!(without(&secret).as_str(), "http://h/x");
        assert_eq!(from_url(&url("http://h/")), None);
    }

    #[test]
    fn each_host_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("netrc");
        let text = "machine a login ann password 1\nmachine a login bob password 2\nmachine b login cat password 3\n\
                    default login dan password 4\n";
        std::fs::write(&file, text).unwrap();
        let user =
            |user: Option<&str>| Credentials::new(user.map(from_pair), NetrcFile::At(file.clone()), false);
        let who = |credentials: &Credentials, text: &str, at_home: bool| {
            credentials
                .of(&url(text), at_home.then_some(&url("http://home/")))
                .map(|login| format!("{}:{}", login.login, login.password))
        };
        for (given, at, at_home, expected) in [
            (None, "http://a/", true, Some("ann:1")),
            (None, "http://a:81/", true, Some("ann:1")),
            (None, "http://bob@a/", true, Some("bob:2")),
            (None, "http://bob:x@a/", true, Some("bob:x")),
            (None, "http://nobody@a/", true, Some("nobody:")),
            (Some("me:x"), "http://a/", true, Some("me:x")),
            (Some("me:x"), "http://a/", false, Some("ann:1")),
            (Some("me:x"), "http://b/", false, Some("cat:3")),
            (Some("me:x"), "http://c/", false, None),
            (None, "http://c/", true, Some("dan:4")),
            (None, "http://c/", false, None),
            (None, "http://u:p@c/", false, Some("u:p")),
        ] {
            assert_eq!(who(&user(given), at, at_home).as_deref(), expected, "{at} {given:?} {at_home}");
        }
        let none = Credentials::new(None, NetrcFile::None, false);
        assert_eq!(who(&none, "http://a/", true), None);
        // Where a redirect stays at home, the user in the first URL stays too.
        let home = url("http://ann:1@a/");
        assert_eq!(none.of(&url("http://a/x"), Some(&home)), Some(from_pair("ann:1")));
        // A user that was given beside the URL is meant, but where a redirect names another.
        let given = user(Some("me:x"));
        assert_eq!(given.of(&home, Some(&home)), Some(from_pair("me:x")));
        assert_eq!(given.of(&url("http://a/x"), Some(&home)), Some(from_pair("me:x")));
        assert_eq!(given.of(&url("http://bob:2@a/x"), Some(&home)), Some(from_pair("bob:2")));
    }
}
