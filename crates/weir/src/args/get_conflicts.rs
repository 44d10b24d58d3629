//! Flags of `weir get` that exclude each other where their values decide, or where the error says more than
//! clap's. clap refuses all others.

use std::path::Path;

use weir_store::hub::hugging_face::HfUrl;
use weir_store::hub::oci::OciUrl;

use super::{Get, HubArgs};

/// `-x` beside a file.
pub const MAKES_FOLDERS: &str = "-x makes folders; leave -o out, or name a folder by a '/' at its end";

/// For options that name a file of this machine.
const HERE: &str = "it is a file of this machine, and is not sent to another";

/// An option that cannot be passed on to another host: whether it is given, its name, and a way out.
type Refused = (bool, &'static str, &'static str);

/// Whether this names stdout, whatever that is: even a regular file opened for appending is not replaced.
pub fn is_stdout(output: &str) -> bool {
    matches!(output, "-" | "/dev/stdout")
}

impl Get {
    /// Why these flags exclude each other, if they do. Flags of the configuration file give way then.
    pub fn contradicts(&self) -> Option<String> {
        let hosts = || self.to_hosts.to_hosts.as_ref().and_then(|_| self.beside_many_hosts());
        (self.beside_a_range())
            .or_else(|| self.beside_stdout())
            .or_else(|| self.beside_folders())
            .or_else(|| self.beside_schemes())
            .or_else(hosts)
    }

    /// Options for whole files do not go with a range.
    fn beside_a_range(&self) -> Option<String> {
        let range = self.range.as_ref()?;
        let others = [
            (
                !self.checksum_from.is_empty(),
                "--checksum-from is of whole files; --checksum ALG:HEX is of the part",
            ),
            (self.compressed, "--compressed changes the bytes that it counts; leave one of them out"),
            (self.timestamping, "-N compares whole files; leave it out (-R gives a part the server's time)"),
            (
                self.resumes(),
                "-C - goes on with a whole file; leave it out, since a part that weir began is gone on with anyway",
            ),
        ];
        let (_, why) = others.iter().find(|(is_given, _)| *is_given)?;
        Some(format!("-r {range} fetches a part, and {why}"))
    }

    /// Stdout takes one thing.
    fn beside_stdout(&self) -> Option<String> {
        let each = self.json_files.as_ref().is_some_and(|path| path.as_os_str() == "-");
        let wants = [
            (each, "--json-files -"),
            (self.voice.json, "--json"),
            (self.output.iter().any(|output| is_stdout(output)), "-o -"),
        ];
        let mut wants = wants.into_iter().filter_map(|(is_given, name)| is_given.then_some(name));
        let (one, other) = (wants.next()?, wants.next()?);
        let way = if each { "; give --json-files a file" } else { "" };
        Some(format!("{one} and {other} both want stdout{way}"))
    }

    /// `-x` and `-o FILE`. With a list or a hub, FILE may become a folder.
    fn beside_folders(&self) -> Option<String> {
        let is_hub = |url: &String| HfUrl::parse(url).is_some() || OciUrl::parse(url).is_some();
        let may_be_folder = !self.list.is_empty() || self.hubs.lfs.is_some() || self.urls.iter().any(is_hub);
        let is_file = |output: &String| !output.ends_with('/') && !Path::new(output).is_dir();
        let is_refused = self.force_directories && !may_be_folder && self.output.iter().any(is_file);
        is_refused.then(|| MAKES_FOLDERS.to_owned())
    }

    fn beside_schemes(&self) -> Option<String> {
        let why = "--proto leaves http out, and --allow-http-redirect leads to it; leave one of them out";
        (self.allow_http_redirect && !self.habits.allows_http()).then(|| why.to_owned())
    }

    /// What does not go with `--to-hosts`.
    pub fn beside_many_hosts(&self) -> Option<String> {
        let mut rows = self.of_files().into_iter().chain(self.of_manner()).chain(self.of_network());
        let (_, flag, way_out) = rows.find(|(is_given, ..)| *is_given)?;
        Some(format!("{flag} does not go with --to-hosts; {way_out}"))
    }

    /// Where what is fetched goes, and what else is written.
    fn of_files(&self) -> [Refused; 10] {
        let is_name =
            |name: &String| !name.is_empty() && !name.contains('/') && !matches!(&name[..], "." | "..");
        let one = "one file is fetched";
        let has_other_output = self.output.len() > 1 || !self.output.iter().all(is_name);
        let has_folder = has_other_output || self.habits.directory_prefix.is_some();
        let way = "-o names the file alone, and PATH of --to-hosts its folder";
        [
            (self.output.iter().any(|output| is_stdout(output)), "-o -", "each host gets a file"),
            (has_folder, "-o with a folder", way),
            (!self.list.is_empty(), "-i", one),
            (self.json_files.is_some(), "--json-files", one),
            (self.force_directories, "-x", "PATH of --to-hosts is the folder"),
            (self.temp_dir.is_some(), "--temp-dir", "unfinished files lie beside the target"),
            (self.login.save_cookies.is_some(), "--save-cookies", "leave it out"),
            (self.evidence.is_some(), "--evidence", "leave it out"),
            (self.tui, "--tui", "leave it out"),
            (is_of_hubs(&self.hubs), "a flag of hubs", one),
        ]
    }

    /// How it is fetched.
    fn of_manner(&self) -> [Refused; 5] {
        let from_file = self.checksum_from.iter().any(|from| !from.contains("://"));
        let range = "fetch the range on one host, then weir cp HOST:FILE --to-hosts LIST";
        let no_file = "give the digest by --checksum, or the list by its URL";
        [
            (self.no_clobber, "--no-clobber", "leave it out: what is there and the same is not fetched"),
            (self.resumes(), "--continue", "leave it out: weir's own parts are always resumed"),
            (self.range.is_some(), "-r", range),
            (from_file, "--checksum-from with a file", no_file),
            (self.store.sse_c_key.is_some(), "--sse-c-key", HERE),
        ]
    }

    /// Logins, and how servers are reached.
    fn of_network(&self) -> [Refused; 7] {
        let (login, reach, certificate) = (&self.login, &self.reach, &self.login.certificate);
        let has_cookies =
            login.cookies.iter().any(|cookie| !cookie.contains('=')) || !login.load_cookies.is_empty();
        let has_certificate =
            certificate.cert.is_some() || certificate.key.is_some() || certificate.pass_file.is_some();
        let has_socket = reach.unix_socket.is_some() || reach.abstract_unix_socket.is_some();
        let names = reach.resolve.len() + reach.connect_to.len() > 0;
        let netrc = "~/.netrc of the host that fetches is read; or give -u";
        [
            (login.netrc_file.is_some(), "--netrc-file", netrc),
            (has_cookies, "a file of cookies", "give --cookie NAME=VALUE"),
            (has_certificate, "--cert", HERE),
            (self.cacert.is_some(), "--cacert", "set SSL_CERT_FILE on the hosts"),
            (names, "--resolve or --connect-to", "set it up on the hosts (/etc/hosts)"),
            (
                reach.interface.is_some() || !reach.dns_servers.is_empty(),
                "--interface or --dns-servers",
                "they are of one host",
            ),
            (has_socket, "a Unix socket", "it is one of this machine"),
        ]
    }

    /// Whether a file that another program left unfinished is resumed.
    pub fn resumes(&self) -> bool {
        self.habits.resume || self.habits.continue_at.is_some()
    }
}

fn is_of_hubs(hubs: &HubArgs) -> bool {
    hubs.hf_cache || hubs.platform.is_some() || hubs.lfs.is_some()
}
