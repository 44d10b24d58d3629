//! weir under the name of iperf3: its words become those of `weir bench net`.
//!
//! Words are taken apart as getopt_long does: `-uP4`, `-P 4`, `--parallel=4`, `--para 4`. What weir has under
//! the same name stays as it is.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// In the same word or the next one.
    Value,
    /// In the same word.
    Perhaps,
}

use Takes::{Nothing, Perhaps, Value};

/// iperf3's long options (3.21).
const LONG: &[(&str, Takes)] = &[
    ("port", Value),
    ("format", Value),
    ("interval", Value),
    ("daemon", Nothing),
    ("one-off", Nothing),
    ("verbose", Nothing),
    ("json", Nothing),
    ("json-stream", Nothing),
    ("json-stream-full-output", Nothing),
    ("version", Nothing),
    ("server", Nothing),
    ("client", Value),
    ("udp", Nothing),
    ("bitrate", Value),
    ("bandwidth", Value),
    ("server-bitrate-limit", Value),
    ("server-max-duration", Value),
    ("time", Value),
    ("bytes", Value),
    ("blockcount", Value),
    ("length", Value),
    ("parallel", Value),
    ("reverse", Nothing),
    ("bidir", Nothing),
    ("window", Value),
    ("bind", Value),
    ("bind-dev", Value),
    ("cport", Value),
    ("set-mss", Value),
    ("no-delay", Nothing),
    ("version4", Nothing),
    ("version6", Nothing),
    ("tos", Value),
    ("dscp", Value),
    ("extra-data", Value),
    ("flowlabel", Value),
    ("zerocopy", Nothing),
    ("omit", Value),
    ("file", Value),
    ("repeating-payload", Nothing),
    ("timestamps", Perhaps),
    ("affinity", Value),
    ("title", Value),
    ("congestion", Value),
    ("linux-congestion", Value),
    ("sctp", Nothing),
    ("nstreams", Value),
    ("xbind", Value),
    ("pidfile", Value),
    ("logfile", Value),
    ("forceflush", Nothing),
    ("get-server-output", Nothing),
    ("udp-counters-64bit", Nothing),
    ("no-fq-socket-pacing", Nothing),
    ("dont-fragment", Nothing),
    ("skip-rx-copy", Nothing),
    ("username", Value),
    ("rsa-public-key-path", Value),
    ("rsa-private-key-path", Value),
    ("authorized-users-path", Value),
    ("time-skew-threshold", Value),
    ("use-pkcs1-padding", Nothing),
    ("fq-rate", Value),
    ("pacing-timer", Value),
    ("connect-timeout", Value),
    ("idle-timeout", Value),
    ("rcv-timeout", Value),
    ("snd-timeout", Value),
    ("cntl-ka", Perhaps),
    ("mptcp", Nothing),
    ("gsro", Nothing),
    ("debug", Perhaps),
    ("help", Nothing),
];

/// What `-v` stands for.
const VERSION: &str = "--iperf3-version";

/// Letters with a value.
const VALUED: &str = "pfictbnklPwBMSLOFATCIX";

/// Whether the program was started under this name.
pub fn is_meant(program: &OsStr) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == "iperf3")
}

/// The command line of weir that means the same.
pub(super) fn words(given: &[OsString]) -> Vec<OsString> {
    let begin = ["bench", "net", "--as-iperf3"].map(OsString::from);
    let mut words: Vec<OsString> = given.iter().take(1).cloned().chain(begin).collect();
    let mut rest = given.iter().skip(1);
    while let Some(word) = rest.next() {
        let text = word.to_str().unwrap_or_default();
        let waits = match text.strip_prefix("--") {
            Some("") => {
                words.push(word.clone());
                words.extend(rest.by_ref().cloned());
                break;
            }
            Some(long) => of_long(long, &mut words),
            None => match text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                Some(letters) => of_letters(letters, &mut words),
                None => {
                    words.push(word.clone());
                    false
                }
            },
        };
        // The next word is a value, whatever it looks like.
        if waits {
            words.extend(rest.next().cloned());
        }
    }
    // It ends the program, whatever else is asked for.
    match words.iter().any(|word| word == VERSION) {
        true => words
            .into_iter()
            .enumerate()
            .filter(|(at, word)| *at < 4 || word == VERSION)
            .map(|(_, word)| word)
            .collect(),
        false => words,
    }
}

/// Whether its value is the next word.
fn of_long(long: &str, words: &mut Vec<OsString>) -> bool {
    let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
    let mut meant = LONG.iter().filter(|(known, _)| known.starts_with(name));
    let exact = LONG.iter().find(|(known, _)| *known == name);
    let found = exact.or_else(|| meant.next().filter(|_| meant.next().is_none()));
    let Some((name, takes)) = found else {
        // Nothing of iperf3's, or not clear what: weir's own options, and its own words on that.
        words.push(format!("--{long}").into());
        return false;
    };
    let word = match *name {
        "json" => "--iperf3-json".to_owned(),
        "verbose" => "-V".to_owned(),
        "version" => VERSION.to_owned(),
        name => format!("--{name}"),
    };
    words.push(value.map_or_else(|| word.clone(), |value| format!("{word}={value}")).into());
    *takes == Value && value.is_none()
}

/// Letters in one word. Whether the last one's value is the next word.
fn of_letters(letters: &str, words: &mut Vec<OsString>) -> bool {
    for (at, letter) in letters.char_indices() {
        let value = &letters[at + letter.len_utf8()..];
        if VALUED.contains(letter) {
            words.push(format!("-{letter}{value}").into());
            return value.is_empty();
        }
        words.push(if letter == 'v' { VERSION.into() } else { format!("-{letter}").into() });
    }
    false
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;
    use crate::args::foreign;

    fn translated(line: &str) -> String {
        let given: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let words = words(&given);
        let text: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(text[..4], [given[0].to_str().unwrap(), "bench", "net", "--as-iperf3"]);
        text[4..].join(" ")
    }

    #[test]
    fn words_are_taken_apart_as_getopt_does() {
        for (line, meant) in [
            ("iperf3 -c host -t 5 -J", "-c host -t 5 -J"),
            ("iperf3 -uRP4 -b10M -c host", "-u -R -P4 -b10M -c host"),
            ("iperf3 -T -v --json", "-T -v --iperf3-json"),
            ("iperf3 --client host --par 4 --rev", "--client host --parallel 4 --reverse"),
            ("iperf3 --time=5 --verbose -d", "--time=5 -V -d"),
            ("iperf3 -c host -v -t 5", "--iperf3-version"),
            ("iperf3 --timestamps -c host", "--timestamps -c host"),
            ("iperf3 --vers", "--vers"),
            ("iperf3 --version", "--iperf3-version"),
            ("iperf3 -s -1V", "-s -1 -V"),
            ("iperf3 --listen 0.0.0.0", "--listen 0.0.0.0"),
        ] {
            assert_eq!(translated(line), meant, "{line}");
        }
        assert!(is_meant(OsStr::new("/usr/local/bin/iperf3")) && !is_meant(OsStr::new("weir")));
    }

    /// Each option of iperf3's is one of `weir bench net`, or there is a word on what to do instead.
    #[test]
    fn every_option_is_taken_or_answered() {
        let mut whole = Cli::command();
        whole.build();
        let net = whole.find_subcommand("bench").and_then(|bench| bench.find_subcommand("net")).unwrap();
        for (name, _) in LONG {
            let own = |arg: &clap::Arg| {
                arg.get_long() == Some(name) || arg.get_all_aliases().unwrap_or_default().contains(name)
            };
            let known = net.get_arguments().any(own) || ["verbose", "version", "help"].contains(name);
            assert!(known || foreign::has_answer("bench net", &format!("--{name}")), "--{name}");
        }
        for letter in VALUED.chars().chain("D1VJsuRN46Zdmh".chars()) {
            let known = net.get_arguments().any(|arg| arg.get_short() == Some(letter));
            assert!(known || foreign::has_answer("bench net", &format!("-{letter}")), "-{letter}");
        }
    }
}
