//! ssh's flags, as scp has them: handed on to the ssh that starts the far end.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::builder::TypedValueParser;
use weir_cp::idle_timeout::IDLE_TIMEOUT;
use weir_cp::ssh::Host;

use super::headings::SSH;
use crate::voice::Usage;

/// How ssh is called.
#[derive(Debug, Args)]
#[command(next_help_heading = SSH)]
pub struct Ssh {
    /// Pass the port to ssh.
    #[arg(short = 'P', long = "port", value_name = "PORT")]
    pub port: Option<u16>,
    /// Pass the key file to ssh.
    #[arg(short = 'i', long = "identity", value_name = "KEY")]
    pub identity: Vec<String>,
    /// Pass an option of ssh_config to ssh.
    #[arg(short = 'o', value_name = "OPTION=VALUE")]
    pub ssh_option: Vec<String>,
    /// Let ssh jump through this host.
    #[arg(short = 'J', value_name = "HOST")]
    pub jump: Option<String>,
    /// Let ssh read this configuration file.
    #[arg(short = 'F', value_name = "FILE")]
    pub ssh_config: Option<String>,
    /// Run this program instead of ssh.
    #[arg(short = 'S', value_name = "PROGRAM")]
    pub ssh_program: Option<String>,
    /// Run this command with its flags instead of ssh, as rsync does ('ssh -p 2222').
    #[arg(short = 'e', long = "rsh", value_name = "COMMAND", conflicts_with = "ssh_program")]
    pub rsh: Option<Words>,
    /// Let ssh use IPv4 only.
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Let ssh use IPv6 only.
    #[arg(short = '6')]
    pub ipv6: bool,
    /// Start this weir on the remote host, as its shell would ('sudo weir', /opt/weir), instead of copying
    /// one there.
    #[arg(long, value_name = "PROGRAM")]
    pub far_program: Option<String>,
    /// Copy this static build of weir to remote hosts whose machine it is for, instead of the one beside this
    /// program (weir-aarch64, weir-x86_64).
    #[arg(long, value_name = "FILE", conflicts_with = "far_program")]
    pub far_binary: Vec<PathBuf>,
    /// Give up on a remote end that is silent for SECONDS [default: 60].
    #[arg(long, value_name = "SECONDS", value_parser = silence())]
    pub timeout: Option<u32>,
}

/// Seconds, up to a day; rsync's 0, no limit, is the longest.
fn silence() -> impl TypedValueParser<Value = u32> {
    const LONGEST: u32 = 86_400;
    let seconds = clap::value_parser!(u32).range(0..=i64::from(LONGEST));
    seconds.map(|seconds| if seconds == 0 { LONGEST } else { seconds })
}

/// A command in one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(pub(super) Vec<String>);

impl FromStr for Words {
    type Err = String;

    /// Words between blanks; quotes of either kind hold blanks, as rsync reads them.
    fn from_str(text: &str) -> Result<Words, String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for letter in text.chars() {
            match quote {
                Some(mark) if mark == letter => quote = None,
                None if letter == '\'' || letter == '"' => {
                    quote = Some(letter);
                    word.get_or_insert_default();
                }
                None if letter.is_ascii_whitespace() => words.extend(word.take()),
                _ => word.get_or_insert_default().push(letter),
            }
        }
        if quote.is_some() {
            return Err("a quote is not closed".to_owned());
        }
        words.extend(word);
        match words.first().is_some_and(|program| !program.is_empty()) {
            true => Ok(Words(words)),
            false => Err("expected a command, such as 'ssh -p 2222'".to_owned()),
        }
    }
}

impl Ssh {
    /// What may have been meant as a source, because rsync's -P and -F take no value. `logs_in`: a host is
    /// named.
    fn doubt(&self, logs_in: bool) -> Option<String> {
        if let Some(file) = self.ssh_config.as_ref().filter(|_| !logs_in) {
            return Some(format!(
                "-F {file} is ssh's configuration, and no host is named; rsync's -F is --filter ': /.rsync-filter'"
            ));
        }
        let port = self.port?;
        Path::new(&port.to_string()).exists().then(|| {
            format!("-P {port} is ssh's port, but '{port}' also exists here; leave out rsync's -P, it is always on")
        })
    }

    /// A source that a flag has taken as its value, because the flag that rsync has under this letter takes
    /// none: without it the copy would lack that source, and `--delete` its files. `logs_in`: a host is
    /// named.
    pub fn taken(&self, logs_in: bool) -> Option<String> {
        let is_folder = |value: &str| value.ends_with('/') || Path::new(value).is_dir();
        let is_hop = |hop: &str| !hop.contains('/') || hop.starts_with("ssh://");
        let is_wrong = |flag: &str, value: &str| match flag {
            "-o" => !value.contains(['=', ' ', '\t']),
            "-J" => !value.split(',').all(is_hop),
            "-i" => is_folder(value),
            // The program, whatever has its name here.
            _ => value != "ssh" && is_folder(value),
        };
        let is_path =
            |value: &str| !logs_in && value != "ssh" && is_typed(value) && Path::new(value).exists();
        let rsh = self.rsh.as_ref().map(|Words(words)| words.join(" "));
        let of = |flag, values: &[String]| -> Vec<(&str, String)> {
            values.iter().map(|value| (flag, value.clone())).collect()
        };
        let all = [
            of("-i", &self.identity),
            of("-o", &self.ssh_option),
            of("-J", self.jump.as_slice()),
            of("-S", self.ssh_program.as_slice()),
            of("-e", rsh.as_slice()),
        ];
        let is_taken = |(flag, value): &(&str, String)| is_wrong(flag, value) || is_path(value);
        let (flag, value) = all.into_iter().flatten().find(is_taken)?;
        Some(format!(
            "{flag} takes '{value}' as its value, for ssh; rsync's -i is --itemize-changes, its -S, -J, -o and -e \
             need not be said: if '{value}' is a source, leave out {flag}"
        ))
    }

    /// Refuses a source that a flag has taken, and warns of what may be one.
    pub fn check(&self, logs_in: bool) -> Result<(), Usage> {
        if let Some(said) = self.taken(logs_in) {
            return Err(Usage(said));
        }
        if let Some(said) = self.doubt(logs_in) {
            tracing::warn!("{said}");
        }
        Ok(())
    }

    /// How to reach a host by it; none is this machine.
    pub fn host(&self, name: Option<String>) -> Host {
        let silence = self.timeout.map_or(IDLE_TIMEOUT, |seconds| Duration::from_secs(seconds.into()));
        let (program, builds) = (self.far_program.clone(), self.far_binary.clone());
        Host { name, words: None, ssh: self.words(), program, builds, silence }
    }

    /// The ssh program and its flags.
    pub fn words(&self) -> Vec<String> {
        let mut ssh = match &self.rsh {
            Some(Words(words)) => words.clone(),
            None => vec![self.ssh_program.clone().unwrap_or_else(|| "ssh".to_owned())],
        };
        ssh.extend(self.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]));
        ssh.extend(self.identity.iter().flat_map(|key| ["-i".to_owned(), key.clone()]));
        ssh.extend(self.ssh_option.iter().flat_map(|option| ["-o".to_owned(), option.clone()]));
        ssh.extend(self.jump.iter().flat_map(|host| ["-J".to_owned(), host.clone()]));
        ssh.extend(self.ssh_config.iter().flat_map(|file| ["-F".to_owned(), file.clone()]));
        ssh.extend(self.ipv4.then(|| "-4".to_owned()));
        ssh.extend(self.ipv6.then(|| "-6".to_owned()));
        ssh
    }
}

/// Whether the user typed it, at the end of some word: what the configuration says is for copies of every
/// kind.
fn is_typed(value: &str) -> bool {
    std::env::args_os().any(|word| word.to_string_lossy().ends_with(value))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn no_limit_is_the_longest() {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            ssh: Ssh,
        }
        for (text, seconds) in [("0", 86_400), ("7", 7)] {
            let line = Line::try_parse_from(["cp", "--timeout", text]).unwrap();
            assert_eq!(line.ssh.timeout, Some(seconds));
        }
        assert!(Line::try_parse_from(["cp", "--timeout", "86401"]).is_err());
    }

    #[test]
    fn a_command_is_cut_as_rsync_cuts_it() {
        let words = |text: &str| text.parse::<Words>().map(|words| words.0);
        for (text, expected) in [
            ("ssh", &["ssh"][..]),
            (" ssh  -p 2222 ", &["ssh", "-p", "2222"]),
            ("ssh -o 'ProxyCommand=nc %h %p'", &["ssh", "-o", "ProxyCommand=nc %h %p"]),
            ("ssh -i \"my key\" -F ''", &["ssh", "-i", "my key", "-F", ""]),
            ("ssh -o\"a 'b'\"c", &["ssh", "-oa 'b'c"]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
        for text in ["", "  ", "''", "ssh 'x"] {
            assert!(words(text).is_err(), "{text}");
        }
    }
}
