//! What fingers that know curl and wget type: taken where it means the same, asked back where it means two
//! things.

use std::ffi::OsString;

use clap::Args;
use url::Url;
use weir_get::object;

use super::headings::OPTIONS;
use super::{Get, GivenFields};

/// Flags of curl and wget that weir takes so that a habit is no error.
#[derive(Debug, Args)]
pub struct Habits {
    /// Follow redirects. Always on; accepted for compatibility.
    #[arg(short = 'L', long, hide = true)]
    pub location: bool,
    /// Fail on an HTTP error. Always on; accepted for compatibility.
    #[arg(short = 'f', long, hide = true)]
    pub fail: bool,
    /// Print nothing unless it fails (curl's name for --quiet).
    #[arg(short = 's', long, hide = true)]
    pub silent: bool,
    /// Show errors. Always on; accepted for compatibility.
    #[arg(short = 'S', long, hide = true)]
    pub show_error: bool,
    /// Require TLS 1.2 or newer. Always on; accepted for compatibility.
    #[arg(long = "tlsv1.2", hide = true)]
    pub tls12: bool,
    /// Allow only these schemes (curl), after redirects too: '=https' or '=http,https'.
    #[arg(long, hide = true, value_name = "SCHEMES", allow_hyphen_values = true)]
    pub proto: Option<String>,
    /// Do not expand brackets and braces in URLs. Always on; accepted for compatibility.
    #[arg(short = 'g', long, hide = true)]
    pub globoff: bool,
    /// Fetch files in parallel (curl). Always on; accepted for compatibility.
    #[arg(short = 'Z', long, hide = true)]
    pub parallel: bool,
    /// Show progress on a terminal. Always on; accepted for compatibility.
    #[arg(short = '#', long, hide = true, alias = "show-progress")]
    pub progress_bar: bool,
    /// How progress looks (wget); accepted for compatibility.
    #[arg(long, hide = true, value_name = "LOOK")]
    pub progress: Option<String>,
    /// Retry a refused connection, pass bytes on at once, give no broken file its name. Always on; accepted
    /// for compatibility.
    #[arg(long, hide = true, aliases = ["no-buffer", "remove-on-error"])]
    pub retry_connrefused: bool,
    /// Resume a file that another program left unfinished (weir's own are always resumed).
    #[arg(long = "continue", help_heading = OPTIONS)]
    pub resume: bool,
    /// Resume as --continue (curl); only '-' is supported.
    #[arg(short = 'C', long, value_name = "-", allow_hyphen_values = true, value_parser = parse_place, help_heading = OPTIONS)]
    pub continue_at: Option<String>,
    /// Refused as ambiguous: curl's -O is the default here, wget's -O FILE is -o FILE.
    #[arg(short = 'O', hide = true)]
    pub ambiguous_output: bool,
    /// Save into this folder (wget's name for -o DIR/).
    #[arg(short = 'P', long, hide = true, value_name = "DIR", conflicts_with = "output")]
    pub directory_prefix: Option<String>,
    /// Accept any certificate (wget's name for --insecure).
    #[arg(long, hide = true)]
    pub no_check_certificate: bool,
    /// Read ~/.netrc. Always on; accepted for compatibility.
    #[arg(long, hide = true, alias = "netrc-optional")]
    pub netrc: bool,
    /// Save session cookies too. Always on; accepted for compatibility.
    #[arg(long, hide = true)]
    pub keep_session_cookies: bool,
    /// Send Basic before the server asks. Always on; accepted for compatibility.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, value_name = "on", default_missing_value = "on")]
    pub auth_no_challenge: Option<String>,
    /// Use no proxy (wget's name for --proxy '').
    #[arg(long, hide = true, conflicts_with = "proxy")]
    pub no_proxy: bool,
    /// Name files as the server does (curl). Always on without -o; accepted for compatibility.
    #[arg(short = 'J', long = "remote-header-name", hide = true, aliases = ["remote-name", "remote-name-all",
          "content-disposition", "trust-server-names"])]
    pub remote_name: bool,
    /// Make the folders on the way to -o FILE (curl).
    #[arg(long, hide = true)]
    pub create_dirs: bool,
    /// Send this User-Agent field.
    #[arg(short = 'A', long, hide = true, value_name = "TEXT")]
    pub user_agent: Option<String>,
}

/// Whether a word behind `-x`, of so many URLs, is rather curl's proxy or aria2c's number of connections.
fn is_of_another_x(url: &str, of: usize) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    url.parse::<u32>().is_ok() || of > 1 && has_port
}

/// What `-i` names. A URL behind it is wget's list from a server, or the URL itself behind curl's `-i`.
pub fn parse_list(text: &str) -> Result<String, String> {
    match is_link(text) {
        false => Ok(text.to_owned()),
        true => Err("expected a list in a file, or '-': 'weir get URL -o - | weir get -i -' fetches one first (curl's -i \
                     saves heads too: leave it out)"
            .to_owned()),
    }
}

/// Where `-C` begins.
fn parse_place(text: &str) -> Result<String, String> {
    match text {
        "-" => Ok(text.to_owned()),
        first => Err(format!(
            "expected '-', behind what is here; -r {first}- fetches what follows as a file of its own"
        )),
    }
}

/// What `-b` names. A URL behind it is the one that wget is to fetch in the background.
pub fn parse_cookie(text: &str) -> Result<String, String> {
    match is_link(text) {
        false => Ok(text.to_owned()),
        true => {
            Err("expected NAME=VALUE or a file of cookies (wget's -b is 'nohup weir get ... &')".to_owned())
        }
    }
}

fn is_link(text: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|own| own.eq_ignore_ascii_case(scheme)))
}

/// Words of wget's, curl's and aria2c's that are no flags here, as weir has them: `-O -` and `-qO-`, `-nc`,
/// `--continue=true`, and `-O` before a URL, which is curl's.
pub(super) fn words(given: Vec<OsString>) -> Vec<OsString> {
    let mut words = Vec::with_capacity(given.len());
    let mut rest = given.into_iter().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            words.push(word);
            words.extend(rest);
            break;
        }
        let next = rest.peek().and_then(|next| next.to_str()).unwrap_or_default();
        let letters = word.to_str().and_then(|word| word.strip_prefix('-')).unwrap_or_default();
        let before = letters.strip_suffix("O-").or_else(|| letters.strip_suffix('O').filter(|_| next == "-"));
        match before.filter(|before| before.chars().all(|letter| SWITCHES.contains(letter))) {
            Some(before) => {
                if !letters.ends_with('-') {
                    rest.next();
                }
                words.extend((!before.is_empty()).then(|| format!("-{before}").into()));
                words.extend(["-o", "-"].map(OsString::from));
            }
            None if letters == "nc" => words.push("--no-clobber".into()),
            // aria2c's switches have a value.
            None if ["-continue=true", "-remote-time=true", "-conditional-get=true"].contains(&letters) => {
                words.push(format!("-{}", letters.trim_end_matches("=true")).into());
            }
            None if letters == "O" && is_link(next) => {}
            None => words.push(word),
        }
    }
    words
}

/// Letters of `weir get` without a value that stand before wget's and curl's `-O`.
const SWITCHES: &str = "qsSfLgkvNJZ#46";

/// `schemes`, as curl's `--proto` has them, name `scheme`.
fn allows(schemes: &str, scheme: &str) -> bool {
    let only = schemes.strip_prefix('=').unwrap_or_default();
    only.split(',').any(|own| own.trim().eq_ignore_ascii_case(scheme))
}

impl Habits {
    /// A redirect may lead to http, as far as curl's `--proto` says.
    pub fn allows_http(&self) -> bool {
        self.proto.as_deref().is_none_or(|schemes| allows(schemes, "http"))
    }

    /// Whether curl's `--proto` can be kept to for `urls`. weir leads from http to https, and back only where
    /// [`Habits::allows_http`].
    pub fn check_schemes<'a>(&self, mut urls: impl Iterator<Item = &'a Url>) -> Result<(), String> {
        let Some(schemes) = &self.proto else { return Ok(()) };
        if !allows(schemes, "https") {
            return Err(format!(
                "--proto '{schemes}' cannot be kept to: weir takes '=https' and '=http,https'"
            ));
        }
        match urls.find(|url| !allows(schemes, url.scheme())) {
            Some(url) => Err(format!("--proto '{schemes}' does not allow {}", object::shown(url))),
            None => Ok(()),
        }
    }
}

impl Get {
    /// The same with the flags of other programs turned into weir's own; says which one must be told apart.
    pub fn with_habits(mut self) -> Result<Get, String> {
        // wget has no such flags, or has not with its own -O.
        let habits = &self.habits;
        let of_curl = [habits.location, habits.fail, habits.show_error, habits.remote_name, habits.parallel];
        let is_curls = of_curl.contains(&true) || habits.progress_bar;
        if habits.ambiguous_output && !(is_curls && self.urls.iter().all(|url| is_link(url))) {
            return Err("-O has two meanings: for curl's, leave it out (the server's name is the default); \
                        for wget's -O FILE say -o FILE"
                .to_owned());
        }
        if self.force_directories && self.urls.iter().any(|url| is_of_another_x(url, self.urls.len())) {
            return Err("-x has three meanings: here it is wget's, --force-directories; curl's -x URL is --proxy URL, \
                        aria2c's -x N is -c N"
                .to_owned());
        }
        if let Some(why) = self.contradicts() {
            return Err(why);
        }
        self.voice.quiet |= self.habits.silent;
        self.insecure |= self.habits.no_check_certificate;
        if self.habits.no_proxy {
            self.proxy = Some(String::new());
        }
        if let Some(folder) = &self.habits.directory_prefix {
            // An empty one is the current folder, as wget has it; the root is `/` alone.
            let folder = if folder.is_empty() { "." } else { folder.trim_end_matches('/') };
            self.output = vec![format!("{folder}/")];
        }
        Ok(self)
    }

    /// The fields of requests: those of `-H`, and the name of `-A` where they say nothing of it, as curl and
    /// wget have it.
    pub fn fields(&self) -> Result<GivenFields, String> {
        let mut given = GivenFields::read(&self.headers)?;
        let mut names = given.sent.iter().map(|(name, _)| name).chain(&given.removed);
        let has_name = names.any(|name| name.eq_ignore_ascii_case("user-agent"));
        if let Some(name) = self.habits.user_agent.as_ref().filter(|_| !has_name) {
            let own = GivenFields::read(&[format!("User-Agent: {name}")])?;
            given.sent.extend(own.sent);
            given.removed.extend(own.removed);
        }
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_wget_and_curl_are_weirs() {
        for (given, expected) in [
            ("get -O - http://h/x", "get -o - http://h/x"),
            ("get -O- http://h/x", "get -o - http://h/x"),
            ("get -qO- http://h/x", "get -q -o - http://h/x"),
            ("get -qO - http://h/x", "get -q -o - http://h/x"),
            ("get -nc http://h/x", "get --no-clobber http://h/x"),
            ("get -O http://h/x", "get http://h/x"),
            ("get -O name http://h/x", "get -O name http://h/x"),
            ("get -LO http://h/x", "get -LO http://h/x"),
            ("get --continue=true --remote-time=true http://h/x", "get --continue --remote-time http://h/x"),
            ("get --conditional-get=true --continue=false", "get --conditional-get --continue=false"),
            ("get -H O- http://h/x", "get -H O- http://h/x"),
            ("get -- -O-", "get -- -O-"),
        ] {
            let said = words(given.split(' ').map(OsString::from).collect());
            let said: Vec<&str> = said.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!(said.join(" "), expected);
        }
    }
}
