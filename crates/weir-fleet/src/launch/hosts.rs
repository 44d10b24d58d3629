//! The hosts of a fleet, as people write them: `a,b,user@c:2222`, or a file with one a line.
//!
//! A line of a file is a host, and behind it what is said of this host alone (`workers=4`); what follows a
//! `#` is a remark. `localhost` is this machine, without ssh.

use weir_units::quoted;

/// Bytes of a list of hosts: 10,000 of them, each with a name of 100.
pub const MAX_LIST: u64 = 1 << 20;

/// Hosts of a list. Each has a connection and a process of ssh here.
const MAX_HOSTS: usize = 10_000;

/// Workers of one host: more connections than one ssh server has as its limit (sshd_config(5), MaxSessions,
/// MaxStartups) would be refused at random, and one worker already uses all processors.
pub const MAX_WORKERS: u32 = 64;

/// What this machine is called, where no ssh is needed.
const HERE: &str = "localhost";

/// A host on which workers are started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetHost {
    /// As it was written: for words, and what its workers are called in the ledger.
    pub name: String,
    /// `[user@]host` for ssh; `None`: this machine, without ssh.
    pub login: Option<String>,
    /// Its port, where it has its own.
    pub port: Option<u16>,
    /// Workers there, where it has its own number.
    pub workers: Option<u32>,
}

impl FleetHost {
    /// `[user@]host[:port]`, with an IPv6 address in brackets where a port follows; or ssh's own URL of that.
    fn parse(text: &str) -> Result<FleetHost, String> {
        let bad = |why: &str| Err(format!("invalid host '{}': {why}", quoted(text)));
        let rest = text.strip_prefix("ssh://").unwrap_or(text);
        let rest = if rest.len() < text.len() { rest.strip_suffix('/').unwrap_or(rest) } else { rest };
        let (user, address) = match rest.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, rest),
        };
        let (host, port) = match address.strip_prefix('[').map(|inner| inner.split_once(']')) {
            Some(Some((host, behind))) => match behind.strip_prefix(':') {
                port @ Some(_) => (host, port),
                None if behind.is_empty() => (host, None),
                None => return bad("expected :PORT behind the bracket"),
            },
            Some(None) => return bad("its bracket is not closed"),
            None => match address.split_once(':') {
                // More than one colon: an IPv6 address.
                Some((_, port)) if port.contains(':') => (address, None),
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            },
        };
        let port = match port.map(str::parse::<u16>) {
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => return bad("expected a port from 1 to 65535 behind the colon"),
            None => None,
        };
        let is_word = |word: &str| {
            let odd =
                |char: char| char.is_control() || char.is_whitespace() || "'\"`$\\;&|<>()/".contains(char);
            !word.is_empty() && !word.starts_with('-') && !word.contains(odd)
        };
        // A user of a domain is DOMAIN\user.
        if !is_word(host) || user.is_some_and(|user| !is_word(&user.replace('\\', ""))) {
            return bad("expected [USER@]HOST[:PORT]");
        }
        let login = match (user, port) {
            (None, None) if host == HERE => None,
            (Some(user), _) => Some(format!("{user}@{host}")),
            (None, _) => Some(host.to_owned()),
        };
        Ok(FleetHost { name: text.to_owned(), login, port, workers: None })
    }

    /// A line of a file; `None` where it has no host.
    fn parse_line(line: &str) -> Result<Option<FleetHost>, String> {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { return Ok(None) };
        let mut host = FleetHost::parse(first)?;
        for word in words {
            let number = word.strip_prefix("workers=").map(|number| number.parse().ok());
            host.workers = match number {
                Some(Some(number @ 1..=MAX_WORKERS)) => Some(number),
                Some(_) => return Err(format!("'{}': expected 1 to {MAX_WORKERS}", quoted(word))),
                None => return Err(format!("'{}': expected workers=N behind a host", quoted(word))),
            };
        }
        Ok(Some(host))
    }
}

/// Hosts with commas between them. Of those that are named twice the first counts, and the others come out as
/// words.
pub fn parse_words(text: &str) -> Result<(Vec<FleetHost>, Vec<String>), String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    once_each(words.map(FleetHost::parse), |host| host)
}

/// The same of a file's text; `shown` is what the file is called.
pub fn parse_file(text: &str, shown: &str) -> Result<(Vec<FleetHost>, Vec<String>), String> {
    let line = |(number, line)| {
        FleetHost::parse_line(line).map_err(|why| format!("{shown}, line {}: {why}", number + 1))
    };
    once_each(text.lines().enumerate().map(line).filter_map(Result::transpose), |host| host)
}

/// A host, and the group that it was named in.
pub type Grouped = (Option<String>, FleetHost);

/// The hosts of a chain: as many as one likes in a line, with blanks or commas between them; `NAME:` before
/// them, or alone in a line before theirs, names a group. `shown` is what the list is called. Of those that
/// are named twice the first counts, and the others come out as words.
pub fn parse_groups(text: &str, shown: &str) -> Result<(Vec<Grouped>, Vec<String>), String> {
    let mut all = Vec::new();
    let mut heading: Option<String> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (group, rest) = match group_of(line) {
            Some((group, "")) => {
                heading = Some(group.to_owned());
                continue;
            }
            Some((group, rest)) => (Some(group.to_owned()), rest),
            None => (heading.clone(), line),
        };
        let words = rest.split(|char: char| char.is_whitespace() || char == ',');
        for word in words.filter(|word| !word.is_empty()) {
            let host = FleetHost::parse(word);
            let host = host.map_err(|why| format!("{shown}, line {}: {why}", number + 1))?;
            all.push((group.clone(), host));
        }
    }
    once_each(all.into_iter().map(Ok), |(_, host)| host)
}

/// The name of a group and what follows it: a colon with nothing or a blank behind it.
fn group_of(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(':')?;
    let is_name =
        !name.is_empty() && !name.contains(|char: char| char.is_whitespace() || ",@[/".contains(char));
    let is_group = rest.is_empty() || rest.starts_with(char::is_whitespace);
    (is_name && is_group).then(|| (name, rest.trim()))
}

/// Hosts without those that were named before, whose names come out apart. `host_of` finds the host in an
/// item.
fn once_each<T>(
    all: impl Iterator<Item = Result<T, String>>,
    host_of: impl Fn(&T) -> &FleetHost,
) -> Result<(Vec<T>, Vec<String>), String> {
    let (mut hosts, mut again) = (Vec::new(), Vec::new());
    let mut seen = std::collections::HashSet::new();
    for item in all {
        let item = item?;
        let host = host_of(&item);
        if !seen.insert((host.login.clone(), host.port)) {
            again.push(host.name.clone());
        } else if hosts.len() == MAX_HOSTS {
            return Err(format!(
                "more than {MAX_HOSTS} hosts; start a part of them by another weir fleet run"
            ));
        } else {
            hosts.push(item);
        }
    }
    match hosts.is_empty() {
        true => Err("no host is named".to_owned()),
        false => Ok((hosts, again)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_as_people_write_them() {
        let of = |text: &str| parse_words(text).map(|(hosts, _)| hosts);
        for (text, login, port) in [
            ("a", Some("a"), None),
            ("me@a:2222", Some("me@a"), Some(2222)),
            ("[fe80::1%eth0]:22", Some("fe80::1%eth0"), Some(22)),
            ("me@[::1]", Some("me@::1"), None),
            ("::1", Some("::1"), None),
            ("ssh://me@a:22/", Some("me@a"), Some(22)),
            ("localhost", None, None),
            ("me@localhost", Some("me@localhost"), None),
            ("CORP\\me@a:22", Some("CORP\\me@a"), Some(22)),
            ("localhost:22", Some("localhost"), Some(22)),
        ] {
            let [host] = &of(text).unwrap()[..] else { panic!("{text}") };
            assert_eq!((host.login.as_deref(), host.port), (login, port), "{text}");
        }
        for text in
            ["-oProxyCommand=x", "a:0", "a:b", "a b", "", ",", "@a", "a@-b", "[::1", "[::1]x", "a:/dir"]
        {
            assert!(of(text).is_err(), "{text}");
        }
        assert!(of("me@a\\b").is_err() && of("\\@a").is_err(), "only users have domains");
        let (hosts, again) = parse_words("a, b,a,").unwrap();
        assert_eq!((hosts.len(), &again[..]), (2, &["a".to_owned()][..]));
    }

    #[test]
    fn groups_of_hosts() {
        let named = |text: &str| {
            let (hosts, again) = parse_groups(text, "f")?;
            let group = |(group, host): Grouped| format!("{}/{}", group.unwrap_or_default(), host.name);
            Ok::<_, String>((hosts.into_iter().map(group).collect::<Vec<_>>().join(" "), again))
        };
        for (text, hosts) in [
            ("a,b, c", "/a /b /c"),
            ("a b:22\n# no\nme@c", "/a /b:22 /me@c"),
            ("rack1: a b\nrack2: c,d:22 # two\n", "rack1/a rack1/b rack2/c rack2/d:22"),
            ("rack1:\n a\n b\nrack2:\nc", "rack1/a rack1/b rack2/c"),
        ] {
            assert_eq!(named(text), Ok((hosts.to_owned(), Vec::new())), "{text}");
        }
        assert_eq!(named("x: a b\ny: b"), Ok(("x/a x/b".to_owned(), vec!["b".to_owned()])));
        for text in ["", "rack:", "a\nb -o", "a: b:0"] {
            assert!(named(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lines_of_a_file() {
        let (hosts, again) =
            parse_file("# the rack\na workers=3\n\n  me@b:22   # the old one\na\n", "f").unwrap();
        let workers: Vec<_> = hosts.iter().map(|host| (host.name.as_str(), host.workers)).collect();
        assert_eq!((&workers[..], again.len()), (&[("a", Some(3)), ("me@b:22", None)][..], 1));
        for (text, words) in [
            ("a\nb slots=2\n", "f, line 2: 'slots=2': expected workers=N behind a host"),
            ("a workers=0", "f, line 1: 'workers=0': expected 1 to 64"),
            ("#\n", "no host is named"),
        ] {
            assert_eq!(parse_file(text, "f").unwrap_err(), words);
        }
    }
}
