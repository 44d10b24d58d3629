//! `LIST[:PATH]` of `--to-hosts`: the hosts, and where on each.

use std::path::Path;

use weir_fleet::launch::hosts::{self, Grouped};
use weir_report::escape::escape;
use weir_units::quoted;

use crate::cmd::host_list;
use crate::voice::{self, Usage};

/// The value of `--to-hosts`.
pub(in crate::cmd) struct HostList {
    pub(in crate::cmd) hosts: Vec<Grouped>,
    /// Empty: the home folder.
    pub(in crate::cmd) path: String,
}

/// Whether hosts are read from there.
fn is_list(list: &str) -> bool {
    list == "-" || Path::new(list).is_file()
}

impl HostList {
    /// Whether the value `text` says that hosts come through standard input.
    pub(in crate::cmd) fn is_stdin(text: &str) -> bool {
        split(text, is_list).0 == "-"
    }

    /// Reads it.
    pub(in crate::cmd) fn read(text: &str) -> anyhow::Result<HostList> {
        let (list, path) = split(text, is_list);
        let parsed = match list {
            list if is_list(list) => {
                let (text, shown) = host_list::read(list)?;
                hosts::parse_groups(&text, shown)
            }
            file if file.contains('/') => {
                return Err(Usage(format!("cannot use --to-hosts: there is no file {file}")).into());
            }
            words => {
                if let Some(host) = host_in(path) {
                    let why = "one PATH is for all hosts, as in a,b:PATH; if this is part of the path, write \
                               the hosts to a file, FILE:PATH";
                    return Err(Usage(format!("cannot use --to-hosts: '{}': {why}", quoted(host))).into());
                }
                hosts::parse_groups(&words.replace(';', "\n"), "--to-hosts")
            }
        };
        let (hosts, again) = parsed.map_err(|why| Usage(format!("cannot use --to-hosts: {why}")))?;
        for host in again {
            voice::warn(&escape(&format!("{host} is named twice and gets it once")));
        }
        Ok(HostList { hosts, path: path.to_owned() })
    }
}

/// The list and the path behind it. `is_list` says of a text whether it is where hosts are read from. Of
/// hosts that are named here the path begins behind the first colon of the last one that no port follows.
fn split(text: &str, is_list: impl Fn(&str) -> bool) -> (&str, &str) {
    if is_list(text) {
        return (text, "");
    }
    let colons = text.match_indices(':').map(|(at, _)| at);
    if let Some(at) = colons.clone().find(|at| is_list(&text[..*at])) {
        return (&text[..at], &text[at + 1..]);
    }
    // A path may have commas and blanks: it begins at the first colon with which no host and no group goes
    // on.
    let is_path = |at: &usize| {
        let (before, behind) = (&text[..*at], &text[at + 1..]);
        let word = behind.split([',', ' ', ';']).next().unwrap_or_default();
        let port = word.split(':').next().unwrap_or_default();
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let in_brackets = before.rfind('[') > before.rfind(']');
        !(is_port || word.is_empty() && !behind.is_empty() || in_brackets || is_url(behind))
    };
    match colons.clone().find(is_path) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    }
}

/// What looks like another host with a path of its own, behind the first one's.
fn host_in(path: &str) -> Option<&str> {
    let is_host = |text: &str| hosts::parse_words(text).is_ok();
    let names_one = |word: &&str| word.match_indices(':').any(|(at, _)| is_host(&word[..at]));
    // A path may have blanks, and behind one whatever follows.
    path.split([',', ';']).skip(1).map(str::trim_start).find(names_one)
}

/// The rest of `ssh://` behind its colon.
fn is_url(behind: &str) -> bool {
    behind.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_and_its_path() {
        let is_list = |text: &str| ["-", "hosts.txt", "odd:name"].contains(&text);
        for (text, list, path) in [
            ("a,b,c", "a,b,c", ""),
            ("a,b,c:/data", "a,b,c", "/data"),
            ("a,b,c:", "a,b,c", ""),
            ("a:22,me@b:2222:/data/x:y, z", "a:22,me@b:2222", "/data/x:y, z"),
            ("a:22", "a:22", ""),
            ("a:./22", "a", "./22"),
            ("a:data", "a", "data"),
            ("[::1]:22,[fe80::2]:/data", "[::1]:22,[fe80::2]", "/data"),
            ("ssh://a:22,b:/x", "ssh://a:22,b", "/x"),
            ("rack1: a b; rack2: c d:/data", "rack1: a b; rack2: c d", "/data"),
            ("-", "-", ""),
            ("-:/data", "-", "/data"),
            ("hosts.txt", "hosts.txt", ""),
            ("hosts.txt:/data", "hosts.txt", "/data"),
            ("odd:name:/data", "odd:name", "/data"),
        ] {
            assert_eq!(split(text, is_list), (list, path), "{text}");
        }
    }

    #[test]
    fn hosts_behind_a_path() {
        for (path, host) in [
            ("/x,b:/y", Some("b:/y")),
            ("/x; me@b:22:/y", Some("me@b:22:/y")),
            ("/x,[::1]:/y", Some("[::1]:/y")),
            ("/x,ssh://b:/y", Some("ssh://b:/y")),
            ("/data/x:y, z", None),
            ("/x, b:/y", Some("b:/y")),
            ("/data/a,b", None),
            ("/data/My file: notes", None),
            ("/backup/2024-01-01 10:30", None),
            ("", None),
        ] {
            assert_eq!(host_in(path), host, "{path}");
        }
    }
}
