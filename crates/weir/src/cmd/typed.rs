//! Places as users of rsync, scp, browsers and other systems type them, which mean something else here, or
//! nothing: what is meant is said before any name is looked up, each with what to write instead.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use crate::schemes;

/// What there is to say of a place; `None` where it means what it says. `is_here` tells whether a path of
/// this machine exists, and `is_target` that the place is one that may yet have to be made.
pub fn doubt(text: &str, is_target: bool, is_here: impl Fn(&Path) -> bool) -> Option<String> {
    let exists = is_here(Path::new(text));
    if let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
        return Some(of_url(&scheme.to_ascii_lowercase(), rest, is_target));
    }
    let colon = colon_of(text);
    if exists {
        let (host, path) = text.split_at(colon.filter(|colon| *colon > 0)?);
        // A name in brackets with a colon behind it is a host to scp and rsync alike, whatever is here.
        return Some(format!(
            "'{text}' exists here and also reads as '{}' on host {host}: write ./{text} for the local file, {host}:./{} for \
             the host",
            &path[1..],
            &path[1..]
        ));
    }
    if let Some(said) = of_windows(text) {
        return Some(said);
    }
    if let Some(said) = of_address(text) {
        return Some(said);
    }
    match colon.filter(|colon| *colon > 0) {
        Some(colon) => of_remote(&text[..colon], &text[colon + 1..]),
        None => of_local(text, is_target),
    }
}

/// The colon that parts host and path: before any slash, and behind the brackets of an IPv6 address.
fn colon_of(text: &str) -> Option<usize> {
    let open = text.find('[').filter(|open| *open == 0 || text[..*open].ends_with('@'));
    let close = open.and_then(|open| text[open..].find(']').map(|at| open + at + 1));
    match close {
        Some(close) => text[close..].starts_with(':').then_some(close),
        None => text.find(':').filter(|colon| !text[..*colon].contains('/')),
    }
}

/// A scheme (RFC 3986, section 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// The parts of what follows `scheme://`: login without a password, host, port, and the path behind its first
/// stroke.
struct Url {
    host: String,
    port: Option<String>,
    path: String,
}

fn parts(rest: &str) -> Url {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    // A password has no place on a command line, and is not repeated.
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (login.split(':').next().map(|user| format!("{user}@")), host),
        None => (None, authority),
    };
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => {
            (host, Some(port))
        }
        _ => (host, None),
    };
    let port = port.filter(|port| !port.is_empty()).map(str::to_owned);
    Url { host: format!("{}{host}", login.unwrap_or_default()), port, path: path.to_owned() }
}

fn of_url(scheme: &str, rest: &str, is_target: bool) -> String {
    let Url { host, port, path } = parts(rest);
    let shown =
        format!("{scheme}://{host}{}/{path}", port.as_ref().map_or(String::new(), |port| format!(":{port}")));
    match scheme {
        "scp" | "ssh" | "sftp" | "fish" => {
            let port = port.map_or(String::new(), |port| format!("-P {port} "));
            let home = path.trim_start_matches('/');
            format!(
                "'{shown}' is a URL: write {port}{host}:{home} for a path in the home folder there, {port}{host}:/{home} for \
                 an absolute one"
            )
        }
        "rsync" => of_module(&shown, &host),
        "http" | "https" if is_target => {
            format!(
                "'{shown}' is for weir put, which sends to it: weir put FILE URL; weir cp copies over ssh"
            )
        }
        "http" | "https" => format!("'{shown}' is for weir get, which fetches it; weir cp copies over ssh"),
        "file" => format!("'{shown}' is a URL: write its path, /{}", path.trim_start_matches('/')),
        _ => {
            let way = schemes::way_out(scheme).map_or_else(String::new, |way| format!("; {way}"));
            format!("weir cp copies over ssh, [USER@]HOST:PATH, and not by {scheme}://{way}")
        }
    }
}

fn of_module(shown: &str, host: &str) -> String {
    format!(
        "'{shown}' names a module of an rsync daemon, and weir uses ssh: write {host}:/PATH, the module's folder there"
    )
}

/// A drive or a share of Windows.
fn of_windows(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    match bytes {
        [drive, b':', b'\\', ..] if drive.is_ascii_alphabetic() => {
            let drive = drive.to_ascii_lowercase() as char;
            Some(format!(
                "'{text}' is a path of Windows; weir runs on Linux, where WSL has that drive as /mnt/{drive}/{}",
                text[3..].replace('\\', "/")
            ))
        }
        [b'\\', b'\\', ..] => {
            Some(format!("'{text}' is a share of Windows: mount it, then it is a folder of this machine"))
        }
        _ => None,
    }
}

/// An IPv6 address without the brackets, or without the colon behind them.
fn of_address(text: &str) -> Option<String> {
    let (login, rest) = match text.split_once('@') {
        Some((login, rest)) if !login.contains([':', '/']) => (format!("{login}@"), rest),
        _ => (String::new(), text),
    };
    // Without its zone, as in fe80::1%eth0.
    let is_address = |text: &str| {
        let (address, zone) = text.split_once('%').unwrap_or((text, "0"));
        !zone.is_empty() && !zone.contains(':') && address.parse::<Ipv6Addr>().is_ok()
    };
    if let Some((address, path)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let wants = is_address(address) && !path.starts_with(':');
        return wants
            .then(|| format!("'{text}' has no colon behind the address: write {login}[{address}]:{path}"));
    }
    let (before, slash) =
        rest.split_once('/').map_or((rest, ""), |(before, _)| (before, &rest[before.len()..]));
    let (address, first) = match before.rsplit_once(':') {
        _ if is_address(before) => (before, ""),
        Some((address, first)) if is_address(address) => (address, first),
        _ => return None,
    };
    Some(format!("an IPv6 address needs brackets: write {login}[{address}]:{first}{slash}"))
}

/// `host:path`.
fn of_remote(host: &str, path: &str) -> Option<String> {
    let digits = path.split_once(':').filter(|(port, _)| port.parse::<u16>().is_ok());
    if let Some((port, rest)) = digits {
        return Some(format!(
            "give ssh's port with -P: write -P {port} {host}:{rest}, or {host}:./{path} for a name with a colon"
        ));
    }
    if let Some(module) = path.strip_prefix(':') {
        return Some(format!(
            "{}, or {host}:./:{module} for a name with a colon",
            of_module(&format!("{host}::{module}"), host)
        ));
    }
    if let Some((user, rest)) = of_another(path) {
        return Some(format!(
            "only ~ itself is expanded on {host}: write {user}'s home folder, such as {host}:/home/{user}{rest}, or \
             {host}:./{path} for a name that begins with ~"
        ));
    }
    let home = ["$HOME", "${HOME}"].iter().find_map(|home| path.strip_prefix(home));
    home.map(|rest| {
        format!(
            "variables are not expanded on {host}: write {host}:~{rest}, or {host}:./{path} for a name that begins with $"
        )
    })
}

/// A path of this machine that is not there.
fn of_local(text: &str, is_target: bool) -> Option<String> {
    if let Some((user, rest)) = of_another(text) {
        return Some(format!(
            "the shell did not expand '~{user}' (quoted, or no such user): write the home folder, such as \
             /home/{user}{rest}, or ./{text} for a name that begins with ~"
        ));
    }
    let (user, host) = text.split_once('@').filter(|_| is_target && !text.contains('/'))?;
    // A file of systemd, a picture for fine screens or a package has a suffix that no host has.
    let has_suffix =
        Path::new(host).extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known));
    (!user.is_empty() && is_host(host) && !has_suffix)
        .then(|| format!("'{text}' is a local file name: write {text}: for the host, ./{text} for the file"))
}

/// An address, or a name that begins with a letter: `pkg@1.2.3` and `db@2026-01-31` name versions and days.
fn is_host(text: &str) -> bool {
    let is_name = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    is_name || text.parse::<Ipv4Addr>().is_ok()
}

/// Suffixes of names that have an @ in them and are no host's.
const SUFFIXES: [&str; 12] =
    ["service", "socket", "timer", "mount", "target", "png", "jpg", "svg", "webp", "tgz", "gz", "txt"];

/// `~user` and what follows it.
fn of_another(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix('~')?;
    let user = rest.split('/').next().filter(|user| !user.is_empty())?;
    // Names of users (useradd(8)); `~$x.docx` and `~lock` files of office programs have others, or an
    // extension.
    let is_user = user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    is_user.then_some((user, &rest[user.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a source where nothing is here.
    fn said(text: &str) -> String {
        doubt(text, false, |_| false).unwrap_or_default()
    }

    #[test]
    fn what_other_programs_mean_is_said_with_what_to_write() {
        for (text, instead) in [
            ("scp://me@h:2222/x/y", "-P 2222 me@h:x/y "),
            ("scp://h/x", "h:x "),
            ("ssh://h//x", "h:/x "),
            ("sftp://h", "h: "),
            ("SSH://h/x", "h:/x "),
            ("rsync://h/mod/x", "write h:/PATH"),
            ("rsync://me@h:873/mod", "write me@h:/PATH"),
            ("h::mod/x", "write h:/PATH"),
            ("me@h::mod", "write me@h:/PATH"),
            ("h::mod", "h:./:mod for a name"),
            ("https://h/x", "weir get"),
            ("file:///srv/x", "write its path, /srv/x"),
            ("s3://bucket/x", "not by s3://; weir get URL fetches it"),
            ("oss://bucket/x", "not by oss://; the store's own tool"),
            ("what://x", "not by what://"),
            ("C:\\Users\\me", "/mnt/c/Users/me"),
            ("\\\\server\\share", "mount it"),
            ("2001:db8::1:/srv", "write [2001:db8::1]:/srv"),
            ("me@::1:x", "write me@[::1]:x"),
            ("fe80::1%eth0:/x", "write [fe80::1%eth0]:/x"),
            ("::1", "write [::1]:"),
            ("[::1]/srv", "write [::1]:/srv"),
            ("h:2222:/srv", "write -P 2222 h:/srv"),
            ("h:~bob/x", "h:/home/bob/x"),
            ("h:~bob", "h:/home/bob,"),
            ("h:$HOME/x", "write h:~/x"),
            ("~bob/x", "/home/bob/x"),
        ] {
            assert!(said(text).contains(instead), "{text}: {}", said(text));
        }
        // A password is not repeated.
        assert!(!said("scp://me:secret@h/x").contains("secret"));
    }

    #[test]
    fn what_means_what_it_says_is_left_alone() {
        for text in [
            "h:x",
            "me@h:",
            "h:",
            "[::1]:/x",
            "me@[fe80::1%eth0]:x",
            "./a:b",
            "/a:b",
            "a",
            "h:~/x",
            "h:~",
            "h:~$x.docx",
            "h:a:b",
            "h:80",
            "h:80/x",
            "~",
            "~/x",
            "~lock.odt#",
            "x/~bob",
            "a@b",
            "c:/x",
            "a/scp://x",
            ":x",
        ] {
            assert_eq!(said(text), "", "{text}");
        }
    }

    #[test]
    fn what_is_here_counts_as_here_or_is_asked_about() {
        let here = |text: &str| doubt(text, false, |_| true);
        let words = here("co:lon").unwrap();
        assert!(words.contains("./co:lon") && words.contains("co:./lon"), "{words}");
        for text in ["a", "~bob", "a/b:c", ":x", "::1", "\\\\x"] {
            assert_eq!(here(text), None, "{text}");
        }
    }

    #[test]
    fn a_host_without_its_colon_is_told_as_a_target_alone() {
        let target = |text: &str| doubt(text, true, |_| false).unwrap_or_default();
        assert!(target("me@host").contains("write me@host: for the host"), "{}", target("me@host"));
        assert!(target("me@host.example.org").contains("./me@host.example.org"));
        assert!(target("root@10.0.0.5").contains("write root@10.0.0.5: for"));
        for text in
            ["getty@tty2.service", "icon@2x.png", "pkg@1.2.3", "db@2026-01-31", "@x", "x@", "a/b@c", "host"]
        {
            assert_eq!(target(text), "", "{text}");
        }
        assert_eq!(doubt("me@host", true, |_| true), None);
    }
}
