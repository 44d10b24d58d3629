//! Flags of other programs that weir does not have: what does the same here. Those that it takes are in
//! [`super::habits`].

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Cli;

/// A command, flags that it does not have, and what is to be done instead.
type Row = (&'static str, &'static [&'static str], &'static str);

/// One row for what has one answer. A command is named by its words below `weir`.
const TABLE: &[Row] = &[
    // curl, wget, aria2c
    ("get", &["--split", "--max-connection-per-server"], "-c N sets how many connections a file gets"),
    (
        "get",
        &["--parallel-max", "--max-concurrent-downloads", "--max-threads"],
        "files are fetched in parallel anyway; -j N sets how many",
    ),
    ("get", &["--tries", "-t", "--max-tries"], "it is --retries N, which does not count the first try"),
    (
        "get",
        &["--waitretry", "--retry-delay", "--retry-wait"],
        "pauses grow by themselves, and a server's own wait is kept to up to --max-wait SECONDS; leave it out",
    ),
    ("get", &["--retry-all-errors"], "temporary failures are retried anyway; leave it out"),
    (
        "get",
        &["-m", "--max-time", "--retry-max-time"],
        "'timeout SECONDS weir get ...' ends it, and the same command resumes",
    ),
    ("get", &["-T", "--read-timeout"], "it is --timeout SECONDS; 'weir put FILE URL' uploads (curl's -T)"),
    ("get", &["--dns-timeout"], "it is --connect-timeout SECONDS, for a name and its connect together"),
    (
        "get",
        &["--lowest-speed-limit"],
        "it is --speed-limit BYTES, and --speed-time SECONDS says for how long",
    ),
    ("get", &["--output-document", "--out"], "it is -o FILE"),
    (
        "get",
        &["--output-dir", "--dir", "-d"],
        "-o DIR/ names a folder (aria2c's -d); weir sends no data (curl's -d)",
    ),
    ("get", &["--input-file"], "it is -i LIST"),
    (
        "get",
        &["-n", "--no-verbose"],
        "wget's -nc is --no-clobber, its -nv -q; ~/.netrc (curl's -n) is always read",
    ),
    (
        "get",
        &[
            "-X",
            "-G",
            "--request",
            "--method",
            "--data",
            "--data-raw",
            "--data-ascii",
            "--data-binary",
            "--data-urlencode",
            "--post-data",
            "--post-file",
            "--body-data",
            "-F",
            "--form",
            "--form-string",
            "--get",
            "--upload-file",
        ],
        "weir get only fetches; curl sends",
    ),
    (
        "get",
        &["-I", "--head", "--spider", "--dry-run"],
        "weir get fetches whole files; 'curl -I URL' shows what a server says of one",
    ),
    (
        "get",
        &[
            "--recursive",
            "--mirror",
            "-p",
            "--page-requisites",
            "-l",
            "--level",
            "--no-parent",
            "--accept",
            "--reject",
            "--accept-regex",
            "--reject-regex",
            "--span-hosts",
            "--domains",
            "--convert-links",
            "--adjust-extension",
            "--delete-after",
        ],
        "weir get fetches whole files, those that it is given: several URLs, or a list by -i",
    ),
    (
        "get",
        &["--password", "--http-user", "--http-password", "--http-passwd"],
        "it is -u USER:PASSWORD; -u USER asks for it",
    ),
    ("get", &["--ask-password", "--use-askpass"], "-u USER asks for the password"),
    ("get", &["--http-auth-challenge"], "it is --anyauth"),
    (
        "get",
        &["--ntlm", "--negotiate", "--aws-sigv4"],
        "weir knows Basic, Digest and client certificates; curl has that login",
    ),
    ("get", &["--oauth2-bearer"], "-H 'Authorization: Bearer TOKEN' sends it"),
    (
        "get",
        &["--junk-session-cookies"],
        "cookies of a session are in the file with the time 0; take their lines out",
    ),
    ("get", &["--netrc-path"], "it is --netrc-file FILE"),
    (
        "get",
        &["--pass", "--key-password"],
        "a password on the command line can be read by others: --pass-file FILE, or weir asks for it",
    ),
    (
        "get",
        &["--cert-type", "--key-type", "--certificate-type", "--private-key-type"],
        "weir sees by itself whether a file is PEM, DER or PKCS#12; leave it out",
    ),
    ("get", &["--capath", "--ca-directory"], "--cacert FILE takes one file of authorities"),
    ("get", &["-e", "--referer"], "-H 'Referer: URL' sends it"),
    ("get", &["--no-progress-meter"], "progress is shown on terminals alone; -q shows none, and no summary"),
    ("get", &["-w", "--write-out"], "--json prints a record of what happened"),
    (
        "get",
        &["-z", "--time-cond", "--etag-compare", "--etag-save", "--if-modified-since"],
        "-N fetches only what is not the same here already, and keeps the ETag with the file",
    ),
    ("get", &["--no-if-modified-since"], "-N asks in one request; leave it out"),
    ("get", &["--start-pos"], "--continue resumes an existing file"),
    ("get", &["--use-server-timestamps"], "it is --remote-time"),
    (
        "get",
        &["--no-use-server-timestamps"],
        "a file gets the server's time only with --remote-time or -N; leave it out",
    ),
    ("get", &["--prefer-family"], "-4 or -6 leaves the other family out"),
    ("get", &["--disable-ipv6"], "it is -4"),
    (
        "get",
        &["--doh-url", "--dns-interface", "--dns-ipv4-addr", "--dns-ipv6-addr"],
        "names are asked of this host's resolver, or of --dns-servers; --resolve HOST:PORT:ADDRESS gives an address",
    ),
    (
        "get",
        &["--haproxy-protocol", "--haproxy-clientip"],
        "weir speaks to servers as a client does; leave it out",
    ),
    ("get", &["--ca-certificate"], "it is --cacert FILE"),
    ("get", &["--check-certificate"], "it is always checked; --check-certificate=false is -k"),
    ("get", &["-E"], "curl's -E FILE is --cert FILE; weir renames no pages (wget's -E)"),
    ("get", &["--socks5-hostname"], "it is --proxy socks5h://HOST:PORT"),
    ("get", &["--socks4", "--socks4a", "--socks5"], "it is --proxy with the scheme: socks5://HOST:PORT"),
    ("get", &["--preproxy", "--proxytunnel"], "only one proxy is supported: --proxy URL"),
    (
        "get",
        &["--all-proxy", "--http-proxy", "--https-proxy"],
        "it is --proxy URL, or the variable of that name",
    ),
    (
        "get",
        &[
            "-U",
            "--proxy-user",
            "--proxy-password",
            "--proxy-passwd",
            "--all-proxy-user",
            "--http-proxy-user",
        ],
        "--proxy http://USER:PASSWORD@HOST:PORT names them (wget's -U is -A)",
    ),
    (
        "get",
        &["--proxy-digest", "--proxy-basic", "--proxy-anyauth"],
        "a proxy gets Basic, and Digest where it asks for it; leave it out",
    ),
    ("get", &["--proxy-cacert", "--proxy-insecure"], "--cacert and -k hold for an https:// proxy too"),
    (
        "get",
        &[
            "--tlsv1",
            "--tlsv1.0",
            "--tlsv1.1",
            "--tlsv1.3",
            "--tls-max",
            "--secure-protocol",
            "--min-tls-version",
        ],
        "weir speaks TLS 1.3, or 1.2 where the server has no newer one; leave it out",
    ),
    ("get", &["--ciphers", "--tls13-ciphers", "--curves"], "weir uses modern ciphers only; leave it out"),
    (
        "get",
        &["--http1.0", "--http2-prior-knowledge", "--http3", "--http3-only"],
        "--http1.1 or --http2 chooses one",
    ),
    (
        "get",
        &["--https-only", "--proto-redir"],
        "https leads to http only with --allow-http-redirect, or --checksum sha256:HEX; leave it out",
    ),
    (
        "get",
        &["--fail-with-body", "--fail-early", "--content-on-error"],
        "an error response is not saved, and its message is shown; leave it out",
    ),
    ("get", &["--url"], "a URL needs no flag"),
    ("get", &["-V", "--version"], "it is 'weir --version'"),
    (
        "get",
        &["--no-keepalive", "--keepalive-time", "--no-http-keep-alive"],
        "connections are reused anyway; leave it out",
    ),
    (
        "get",
        &[
            "--trace",
            "--trace-ascii",
            "--trace-time",
            "--stderr",
            "--output-file",
            "--append-output",
            "--log",
        ],
        "-v prints decisions and reasons to stderr: '2> FILE' keeps them",
    ),
    (
        "get",
        &["--ignore-length", "--ignore-content-length"],
        "a wrong length cannot be distinguished from a truncated body; leave it out",
    ),
    (
        "get",
        &["-K", "--config", "--conf-path"],
        "~/.config/weir/config holds flags, one a line, and WEIR_CONFIG=FILE names another file",
    ),
    (
        "get",
        &["--max-filesize", "-Q", "--quota"],
        "no size is too large: 'curl -I URL' shows what a server says of one; --limit-rate RATE sets the pace",
    ),
    ("get", &["--path-as-is"], "'.' and '..' are taken out of a URL's path; curl sends them as they are"),
    ("get", &["--proto-default"], "a URL without a scheme is http; write https:// before it"),
    ("get", &["-0"], "weir speaks HTTP/1.1 and HTTP/2, and understands answers of HTTP/1.0; leave it out"),
    ("get", &["--pinnedpubkey"], "--cacert FILE trusts one authority, or one certificate, alone"),
    ("get", &["--skip-existing"], "it is --no-clobber"),
    ("get", &["--url-query"], "write the query into the URL, behind a '?'"),
    ("get", &["--xattr"], "-N keeps the ETag in an attribute of the file, and --json prints the URL"),
    ("get", &["--raw"], "bodies are saved as they come without --compressed; leave it out"),
    (
        "get",
        &["-a"],
        "a file is written whole (curl's -a appends), and -v prints decisions to stderr: '2>> FILE' (wget's -a)",
    ),
    ("get", &["--backups"], "an existing file is replaced, or kept by --no-clobber; move it away first"),
    ("get", &["--unlink"], "a file is replaced by a new one as it is complete; leave it out"),
    ("get", &["--no-dns-cache"], "each name is asked of this host's resolver once a run; leave it out"),
    ("get", &["--next"], "all URLs share one set of flags; run weir once for each"),
    (
        "get",
        &["-D", "--include", "--dump-header", "--save-headers", "--server-response"],
        "a file holds the body only; --json reports the rest",
    ),
    ("get", &["--no-trust-server-names"], "without -o a file gets the server's name; leave it out"),
    (
        "get",
        &["--no-cache", "--no-hsts", "--no-cookies"],
        "weir keeps no cache, HSTS list or cookies between runs; leave it out",
    ),
    (
        "get",
        &["--wait", "--random-wait", "--rate"],
        "-j 1 asks for one file after the other, and --limit-rate RATE slows them",
    ),
    (
        "get",
        &["--no-directories", "--no-host-directories", "--cut-dirs", "--protocol-directories"],
        "without -x no folders are made; a list may name each file (URL<TAB>NAME)",
    ),
    (
        "get",
        &["--max-download-limit", "--max-overall-download-limit"],
        "it is --limit-rate RATE, of all files together",
    ),
    (
        "get",
        &[
            "--min-split-size",
            "--piece-length",
            "--stream-piece-selector",
            "--file-allocation",
            "--disk-cache",
        ],
        "weir chooses the size of the pieces, and has their room on the disk before they come; leave it out",
    ),
    (
        "get",
        &["--auto-file-renaming", "--allow-overwrite"],
        "the file of a URL is replaced, --no-clobber leaves it alone; equal names in one run are numbered",
    ),
    (
        "get",
        &["--check-integrity", "--hash-check-only"],
        "--checksum ALG:HEX proves the whole, and with --no-clobber a file that is here",
    ),
    (
        "get",
        &["--summary-interval", "--console-log-level", "--show-console-readout", "--download-result"],
        "progress is shown on every terminal; -q says nothing, -v more",
    ),
    (
        "get",
        &["--enable-rpc", "--daemon", "--background"],
        "weir get ends when its files are here: 'nohup weir get ... &'",
    ),
    // scp, rsync
    (
        "cp",
        &["-l"],
        "--limit-rate RATE is the limit (such as 10MB/s or 8Mbit; scp's -l); links are always copied (rsync's -l), leave it out",
    ),
    ("cp", &["-g"], "-a keeps owners and groups, by their names (--numeric-ids by their numbers)"),
    (
        "cp",
        &["--inplace", "--append", "--append-verify", "--partial-dir"],
        "a file gets its name only when complete, and interrupted ones resume; leave it out",
    ),
    ("cp", &["--sparse"], "holes stay holes; leave it out"),
    (
        "cp",
        &["-I", "--ignore-times"],
        "-u compares size and time, --checksum the content; without either all files are copied",
    ),
    (
        "cp",
        &["-k", "--copy-dirlinks", "--copy-unsafe-links"],
        "-L copies what all links lead to, --safe-links leaves out those that lead out of what is copied",
    ),
    ("cp", &["-R", "--relative"], "the paths that the list of --files-from names are kept"),
    (
        "cp",
        &["--compare-dest", "--copy-dest"],
        "--link-dest DIR compares with an earlier copy, and links to what is the same there",
    ),
    (
        "cp",
        &["--del", "--delete-before", "--delete-during", "--delete-after", "--delete-delay"],
        "it is --delete",
    ),
    (
        "cp",
        &["--out-format", "--log-file", "--debug"],
        "progress is shown on every terminal; --itemize-changes and -v name what is done, -n what would be",
    ),
    (
        "cp",
        &["-O", "-B", "-s"],
        "weir speaks a protocol of its own behind ssh; leave it out (scp's -B is -o BatchMode=yes; folders get their times \
         with -a, which rsync's -O leaves out)",
    ),
    ("cp", &["--transfers", "--checkers"], "files are copied in parallel anyway; leave it out"),
    (
        "cp",
        &["--rsync-path"],
        "weir finds or brings its own program there; --far-program PROGRAM names another one, such as 'sudo weir'",
    ),
    (
        "cp",
        &["--compress-level", "--zl", "--compress-choice", "--zc", "--skip-compress"],
        "weir chooses the codec block by block; --codec zstd:9 fixes codec and level",
    ),
    ("cp", &["--no-compress", "--no-z"], "--codec none sends all as it is"),
    ("cp", &["--checksum-choice", "--cc"], "--checksum compares by BLAKE3; leave it out"),
    ("cp", &["--force"], "--delete also removes folders that are in the way of files; leave it out"),
    ("cp", &["--no-links", "--no-l"], "links are copied as links; -L copies what they lead to"),
    (
        "cp",
        &["--ignore-missing-args", "--delete-missing-args"],
        "a source that is missing costs only itself; leave it out",
    ),
    (
        "cp",
        &["--inc-recursive", "--no-inc-recursive", "--i-r", "--no-i-r"],
        "what is found is copied while the rest is listed; leave it out",
    ),
    ("cp", &["--delay-updates"], "a file gets its name only when complete; leave it out"),
    ("cp", &["--password-file", "--daemon"], "weir uses ssh to log in; leave it out"),
    ("cp", &["--no-perms", "--no-p"], "without -a and -p existing folders keep their modes; leave it out"),
    (
        "cp",
        &["--no-times", "--no-owner", "--no-group", "--no-o", "--no-g", "--no-t"],
        "times are always kept, owners and groups only with -a; leave it out",
    ),
    (
        "cp",
        &["-T", "--temp-dir"],
        "unfinished files are kept beside the target as .NAME.weir-part; leave it out",
    ),
    (
        "cp",
        &["--protect-args", "--secluded-args", "--old-args", "--trust-sender"],
        "names are never expanded there; leave it out",
    ),
    ("cp", &["--list-only"], "-n -v names what would be copied; 'weir ls' lists stores"),
    ("cp", &["-m", "--prune-empty-dirs"], "folders are copied with or without files in them; leave it out"),
    ("cp", &["-y", "--fuzzy"], "a file is compared with the one of its own name alone; leave it out"),
    ("cp", &["--contimeout"], "it is --timeout SECONDS"),
    ("cp", &["--fsync"], "it is --sync"),
    ("cp", &["--preallocate"], "a file's room is reserved before it comes; leave it out"),
    ("cp", &["-8", "--8-bit-output", "--iconv"], "names are copied byte by byte; leave it out"),
    ("cp", &["--super", "--fake-super"], "owners are kept as far as this user may give them; leave it out"),
    (
        "cp",
        &["-d", "--dirs", "--old-dirs", "--no-recursive", "--no-r"],
        "folders are copied with all in them; --exclude '/*/*' leaves out what is deeper",
    ),
    // iperf3
    ("bench net", &["-F", "--file"], "'weir bench disk' measures a disk, 'weir cp' a whole copy"),
    ("bench net", &["-X", "--xbind", "--sctp", "--nstreams"], "only TCP and UDP are supported"),
    // wrk2, hey, oha
    (
        "bench http",
        &["-B", "--batch_latency", "-U", "--u_latency"],
        "with --rate the latency from the send is printed beside the one from the plan; leave it out",
    ),
    ("bench http", &["-z"], "it is -d TIME"),
    // python3 -m http.server, and other servers of folders
    (
        "serve",
        &["-p", "--port", "-b", "--bind", "--host", "--addr", "--address"],
        "it is --listen ADDR:PORT, or -l PORT for this machine alone",
    ),
    ("serve", &["-d", "--directory"], "the folder needs no flag: 'weir serve DIR'"),
    ("serve", &["--ssl", "--https"], "it is --tls"),
    // aws s3, s5cmd, rclone, curl
    ("put", &["-r", "-R", "--recursive"], "a folder is sent with all in it; leave it out"),
    ("put", &["-X", "--request"], "weir put sends what the store or the server takes: PUT; leave it out"),
    ("put", &["-T", "--upload-file"], "the file needs no flag: 'weir put FILE URL'"),
    (
        "put",
        &["-p", "--parallel", "--transfers", "--numworkers"],
        "files are sent in parallel anyway; -j N sets how many",
    ),
    ("put", &["--include", "--exclude", "--delete", "--update"], "'weir cp FOLDER/ s3://BUCKET/' has it"),
    (
        "put",
        &["-i", "--acl"],
        "weir put sends the sources that it is given, as the bucket's owner; leave it out",
    ),
    ("ls", &["-a", "-A", "--all"], "names that begin with a dot are listed anyway; leave it out"),
    ("ls", &["-t", "-S", "--sort"], "lines come in the store's order; 'weir ls -l URL | sort' has another"),
    ("ls", &["-1"], "one name a line is printed anyway; leave it out"),
    ("ls", &["-q", "--quiet"], "it prints what it lists, and nothing else; leave it out"),
    ("ls", &["-d"], "'weir ls URL' without a / at the end lists the folder's own line"),
];

/// What there is to say of the error of a command line with a flag that `command` does not have; `None` where
/// nothing better is known than what the error says by itself.
pub fn answer(command: &str, error: &clap::Error) -> Option<String> {
    if let Some(said) = of_value(command, error) {
        return Some(said);
    }
    if let Some(said) = of_missing(command, error) {
        return Some(said);
    }
    let flag = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => flag,
        _ => return None,
    };
    if command == "why" && !flag.starts_with('-') {
        return Some(format!(
            "weir why watches a process (--pid PID), a port (--port PORT) or a peer (--peer HOST); 'weir why -- {flag} ...' \
             starts a command"
        ));
    }
    let shown = if flag == "--" { "-" } else { flag };
    Some(format!("weir {command} has no {shown}: {}", instead(command, flag)?))
}

/// One word alone is what is sent: clap takes it for the target, which comes last.
fn of_missing(command: &str, error: &clap::Error) -> Option<String> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_target = command == "put" && missing.len() == 1;
    (is_target && error.kind() == ErrorKind::MissingRequiredArgument).then(|| {
        "no TARGET is given: 'weir put FILE s3://BUCKET/PREFIX/', or an http or https URL in its place"
            .to_owned()
    })
}

/// What does the same as a flag that `command` does not have, where another program's is known by it.
pub fn instead(command: &str, flag: &str) -> Option<&'static str> {
    // A plan is asked for with the flags of the copy.
    let is_of = |of: &str| of == command || command == "plan" && of == "cp";
    let (_, _, way) = TABLE.iter().find(|(of, flags, _)| is_of(of) && flags.contains(&flag))?;
    Some(way)
}

/// Mends what clap says of words that the command at `path` refuses: its whole usage, where clap shows that
/// of some options alone, and the option that was meant, where it shows another or none.
pub fn mend(path: &[String], error: &mut clap::Error) {
    let mut whole = Cli::command();
    whole.build();
    let named = path.iter().try_fold(&mut whole, |above, word| above.find_subcommand_mut(word));
    let Some(leaf) = named else { return };
    if error.get(ContextKind::Usage).is_some() {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(leaf.render_usage()));
    }
    drop_a_far_value(error);
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    error.remove(ContextKind::SuggestedArg);
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg)
        && let Some(meant) = meant(leaf, given)
    {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(meant));
    }
    // A source may begin with a dash, but no URL, folder to serve or record does.
    if path != ["cp"] {
        error.remove(ContextKind::Suggested);
    }
}

/// `tcsh` is not `zsh`.
fn drop_a_far_value(error: &mut clap::Error) {
    let value = |kind| match error.get(kind) {
        Some(ContextValue::String(value)) => Some(value.as_str()),
        _ => None,
    };
    let pair = value(ContextKind::InvalidValue).zip(value(ContextKind::SuggestedValue));
    if pair.is_some_and(|(given, near)| strsim::osa_distance(given, near) > (near.len() / 4).clamp(1, 2)) {
        error.remove(ContextKind::SuggestedValue);
    }
}

/// The option that `given` is a slip of the finger of (a letter too many, one that is missing, two that
/// changed places), or the only one that it begins. `--list-only` is not `--inet6-only`.
pub fn meant(command: &clap::Command, given: &str) -> Option<String> {
    // Of a word of three letters any other is two slips away, and so is `--port` of `--report`.
    let slips = |name: &str| (name.len().saturating_sub("--".len()) / 4).min(2);
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let names = shown.flat_map(|arg| arg.get_long_and_visible_aliases().unwrap_or_default());
    let names: Vec<String> = names.map(|name| format!("--{name}")).collect();
    let distance = |name: &&String| strsim::osa_distance(given, name);
    let near = names.iter().filter(|name| distance(name) <= slips(name)).min_by_key(distance);
    let mut begun = names.iter().filter(|name| given.len() > "--".len() && name.starts_with(given));
    near.or_else(|| begun.next().filter(|_| begun.next().is_none())).cloned()
}

/// Whether there is something to say of this flag.
#[cfg(test)]
pub(super) fn has_answer(command: &str, flag: &str) -> bool {
    TABLE.iter().any(|(of, flags, _)| *of == command && flags.contains(&flag))
}

/// Flags of commands that take a number here and none, or another thing, in rsync and scp: what fingers meant
/// where what is behind one is no number.
const VALUES: &[(&[&str], &str, &str)] = &[
    (
        &["cp", "plan"],
        "--port",
        "-P takes ssh's port here, and {} is not one; rsync's -P (--partial --progress) is always on, leave it out",
    ),
    (
        &["cp"],
        "--lanes",
        "-c takes the number of connections here, and {} is not one; rsync's -c is --checksum, scp's -c CIPHER is \
         -o Ciphers=CIPHER",
    ),
];

fn of_value(command: &str, error: &clap::Error) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let (Some(ContextValue::String(argument)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return None;
    };
    // `--port <PORT>`.
    let flag = argument.split_whitespace().next()?;
    let (_, _, words) = VALUES.iter().find(|(of, long, _)| of.contains(&command) && *long == flag)?;
    let shown = if value.is_empty() { "nothing".to_owned() } else { format!("'{value}'") };
    // A number is one that cannot be, and told as that.
    value.parse::<i64>().is_err().then(|| words.replace("{}", &shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row for a flag that the command has would never be read.
    #[test]
    fn every_row_is_of_a_flag_that_there_is_not() {
        let mut whole = Cli::command();
        whole.build();
        for (command, flags, way) in TABLE {
            let leaf =
                command.split(' ').try_fold(&whole, |above, word| above.find_subcommand(word)).unwrap();
            for flag in *flags {
                let taken = leaf.get_arguments().any(|arg| match flag.strip_prefix("--") {
                    Some(long) => {
                        let aliases = arg.get_all_aliases().unwrap_or_default();
                        arg.get_long() == Some(long) && !long.is_empty() || aliases.contains(&long)
                    }
                    None => {
                        let aliases = arg.get_all_short_aliases().unwrap_or_default();
                        let short = flag.chars().nth(1).unwrap();
                        arg.get_short() == Some(short) || aliases.contains(&short)
                    }
                });
                assert!(!taken, "weir {command} has {flag}");
                let before = TABLE.iter().take_while(|(of, _, other)| (of, other) != (command, way));
                let twice = before.filter(|(of, flags, _)| of == command && flags.contains(flag)).count();
                assert_eq!(twice, 0, "weir {command} {flag} has two rows");
            }
        }
    }

    #[test]
    fn slips_and_beginnings_are_understood() {
        let mut whole = Cli::command();
        whole.build();
        let get = whole.find_subcommand("get").unwrap();
        for (given, expected) in [
            ("--retires", Some("--retries")),
            ("--outptu", Some("--output")),
            ("--jbos", Some("--jobs")),
            ("--limit-rat", Some("--limit-rate")),
            ("--timeo", Some("--timeout")),
            ("--connect-t", Some("--connect-to")),
            ("--list-only", None),
            ("--", None),
            ("-Q", None),
        ] {
            assert_eq!(meant(get, given).as_deref(), expected, "{given}");
        }
    }

    /// What weir is said to have instead it has.
    #[test]
    fn every_way_is_there() {
        let mut whole = Cli::command();
        whole.build();
        for (command, flags, way) in TABLE {
            let leaf =
                command.split(' ').try_fold(&whole, |above, word| above.find_subcommand(word)).unwrap();
            let own = |long: &str| leaf.get_arguments().any(|arg| arg.get_long() == Some(long));
            let words = way.split([' ', ',', ';', ':', '(', ')', '\'']);
            for long in words.filter_map(|word| word.strip_prefix("--")) {
                assert!(
                    own(long) || flags.iter().any(|flag| flag.strip_prefix("--") == long.split('=').next()),
                    "{command}: --{long}"
                );
            }
        }
    }
}
