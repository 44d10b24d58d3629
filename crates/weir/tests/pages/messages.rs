//! What weir says to people, word for word: the help of every command, the options of every man page, typical
//! errors and notes with their exit codes. A message that was reworded shows in the difference of its
//! snapshot.
//!
//! `INSTA_UPDATE=always cargo test -p weir --test pages messages::` accepts new words; read the difference
//! before you commit.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::BTreeSet;
use std::path::Path;

use support::{Run, Sandbox, Server, WEIR};

use super::guide::below;

/// Compares without the expression that made the text: it stands in the test.
fn is_as_kept(name: &str, text: &str) {
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, text) });
}

/// A folder with what the cases name.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("file", "text\n");
    sandbox.write("figures.csv", "codec,ratio,compress\nnone,1,300\n");
    sandbox.write("old", "old");
    sandbox.write("bad.pem", "no certificate\n");
    sandbox.write("bad.toml", "title = 1\n");
    sandbox.write("utf16", b"\xff\xfeh\0t\0");
    sandbox.write("bad-list", "http://127.0.0.1:1/a\n/relative\n");
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.write("folder/inside", "text\n");
    sandbox
}

fn run(sandbox: &Sandbox, words: &[&str]) -> Run {
    sandbox.weir(WEIR, words).run()
}

/// The commands of weir, each with the words that lead to it.
fn commands(sandbox: &Sandbox, path: &[&str]) -> Vec<String> {
    let help = String::from_utf8(run(sandbox, &[path, &["--help"]].concat()).stdout).unwrap();
    let mut found = vec![path.join(" ")];
    for name in below(&help) {
        found.extend(commands(sandbox, &[path, &[&*name]].concat()));
    }
    found
}

#[test]
fn the_help_of_every_command() {
    let sandbox = sandbox();
    let mut kept = BTreeSet::new();
    for command in commands(&sandbox, &[]) {
        let words: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let help = run(&sandbox, &words);
        help.succeeds();
        let name = words.join(" ").replace(" --help", "").replace("--help", "weir").replace(' ', "-");
        is_as_kept(&format!("help-{name}"), &String::from_utf8(help.stdout).unwrap());
        kept.insert(format!("pages__messages__help-{name}.snap"));
    }
    // What a command that is gone has left would be compared with nothing.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/snapshots");
    let names =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> =
        names.filter(|name| name.starts_with("pages__messages__help-") && name.ends_with(".snap")).collect();
    assert_eq!(there, kept);
}

#[test]
fn completions_offer_what_the_help_shows() {
    let sandbox = sandbox();
    for shell in ["zsh", "fish", "elvish", "powershell", "bash"] {
        let run = run(&sandbox, &["completions", shell]);
        let text = String::from_utf8(run.succeeds().stdout.clone()).unwrap();
        for (word, is_shown) in [("limit-rate", true), ("globoff", false), ("tlsv1.2", false)] {
            assert_eq!(text.contains(word), is_shown, "{shell}: {word}");
        }
        // Names of commands as bash's functions have them: --peer is another thing.
        if shell == "bash" {
            for (name, is_shown) in [("__serve", true), ("__peer", false), ("__guard", false)] {
                assert_eq!(text.contains(name), is_shown, "{name}");
            }
        }
    }
}

/// What an option does is pinned by the help; man pages have the same options.
#[test]
fn the_options_of_every_man_page() {
    let sandbox = sandbox();
    run(&sandbox, &["man", "pages"]).succeeds();
    let mut text = String::new();
    for page in sandbox.names().iter().filter(|name| name.ends_with(".1")) {
        let roff = String::from_utf8(sandbox.read(page)).unwrap();
        text += page.strip_prefix("pages/").unwrap();
        text.push('\n');
        let mut lines = roff.lines();
        while let Some(line) = lines.next() {
            if line == ".TP" {
                text += &format!("    {}\n", plain(lines.next().unwrap_or_default()));
            }
        }
    }
    is_as_kept("options-of-the-man-pages", &text);
}

/// A line of roff as it is read.
fn plain(line: &str) -> String {
    ["\\fB", "\\fI", "\\fR"]
        .iter()
        .fold(line.to_owned(), |line, mark| line.replace(mark, ""))
        .replace('\\', "")
}

/// What a server on this machine answers to the paths of the cases.
fn server() -> Server {
    Server::start(|request, wire| match request.path() {
        "/400" => wire.answer("400 Bad Request", &[], b""),
        "/401" => wire.answer("401 Unauthorized", &[("WWW-Authenticate", "Basic realm=\"x\"")], b""),
        "/403" => wire.answer("403 Forbidden", &[], b""),
        "/404" => wire.answer("404 Not Found", &[], b""),
        "/410" => wire.answer("410 Gone", &[], b""),
        "/416" => wire.answer("416 Range Not Satisfiable", &[("Content-Range", "bytes */4")], b""),
        "/429" => wire.answer("429 Too Many Requests", &[("Retry-After", "3600")], b""),
        "/500" => wire.answer("500 Internal Server Error", &[], b""),
        "/503" => wire.answer("503 Service Unavailable", &[], b""),
        "/explained" => {
            let body = b"{\"title\":\"no quota\",\"detail\":\"the account is over its quota\"}";
            wire.answer("403 Forbidden", &[("Content-Type", "application/problem+json")], body)
        }
        "/page.iso" => wire.answer("200 OK", &[("Content-Type", "text/html")], b"<html>log in</html>"),
        "/loop" => wire.redirect("302 Found", "/loop"),
        "/nowhere" => wire.redirect("302 Found", "ftp://h/x"),
        "/short" => {
            wire.head("200 OK", &[("Content-Length", "10")])?;
            wire.body(b"four")?;
            wire.close()
        }
        "/reset" => wire.reset(),
        "/nonsense" => {
            wire.raw(b"hello\r\n\r\n")?;
            wire.close()
        }
        _ => wire.answer("200 OK", &[], b"data"),
    })
}

/// What weir says to each line: as typed after `weir`, `SERVER` for the one above, `CLOSED` for a port where
/// nobody listens.
fn said(lines: &[&str]) -> String {
    let server = server();
    let at = server.url("");
    let at = at.trim_end_matches('/');
    let mut text = String::new();
    for line in lines {
        // A folder for each: none finds what another has left.
        let sandbox = sandbox();
        let typed = line.replace("SERVER", at).replace("CLOSED", "http://127.0.0.1:1");
        let run = run(&sandbox, &typed.split_whitespace().collect::<Vec<_>>());
        assert!(!run.stderr.contains("panicked"), "{line}: {}", run.stderr);
        let told = format!("{}{}", String::from_utf8_lossy(&run.stdout), run.stderr);
        let told: String = told.lines().map(|line| timeless(line) + "\n").collect();
        let folder = sandbox.path("").display().to_string();
        let told = told.replace(at, "SERVER").replace(at.trim_start_matches("http://"), "SERVER");
        let told = told.replace("http://127.0.0.1:1/", "CLOSED/").replace("127.0.0.1:1:", "CLOSED:");
        let code = run.status.code().map_or("a signal".to_owned(), |code| code.to_string());
        text += &format!(
            "$ weir {line}\n{}[exit {code}]\n\n",
            told.replace(folder.trim_end_matches('/'), "FOLDER")
        );
    }
    text
}

/// A line without what differs from run to run and from machine to machine: how long it took and over how
/// many connections, and when a server may be asked again.
fn timeless(line: &str) -> String {
    let moved = line.starts_with("received ") || line.starts_with("copied ");
    match (line.split_once(" in ").filter(|_| moved), line.split_once("again after ")) {
        (Some((what, _)), _) => format!("{what} in TIME ..."),
        (_, Some((before, _))) => format!("{before}again after THEN"),
        _ => line.to_owned(),
    }
}

#[test]
fn what_get_refuses() {
    let usage = [
        "get",
        "gett SERVER/x",
        "get ftp://h/x",
        "get s3://bucket/key",
        "get http://",
        "get /relative",
        "get SERVER/x --limit-rate 10x",
        "get SERVER/x -c 0",
        "get SERVER/x -j many",
        "get SERVER/x --recv-buffer little",
        "get SERVER/x --checksum sha256:zz",
        "get SERVER/x --checksum foo:00",
        "get SERVER/x --timeout soon",
        "get SERVER/x --max-wait soon",
        "get SERVER/x --speed-limit",
        "get SERVER/x --max-redirs x",
        "get SERVER/x -r 9-3",
        "get SERVER/x -H broken",
        "get SERVER/x --resolve h",
        "get SERVER/x --no-clobber --force",
        "get SERVER/x --http1.1 --http2",
        "get SERVER/x --tui --quiet",
        "get SERVER/x --no-such",
        "get SERVER/x SERVER/y -o z",
        "get SERVER/x -o nowhere/file",
    ];
    is_as_kept("get-usage", &said(&usage));
}

#[test]
fn what_get_fails_with() {
    let failures = [
        "get CLOSED/x --retries 0",
        "get SERVER/400 --retries 0",
        "get SERVER/401 --retries 0",
        "get SERVER/401 --retries 0 -u me:wrong",
        "get SERVER/403 --retries 0",
        "get SERVER/404 --retries 0",
        "get SERVER/410 --retries 0",
        "get SERVER/416 --retries 0",
        "get SERVER/429 --retries 0 --max-wait 1",
        "get SERVER/500 --retries 0",
        "get SERVER/503 --retries 0",
        "get SERVER/explained --retries 0",
        "get SERVER/page.iso --retries 0",
        "get SERVER/loop --retries 0 --max-redirs 2",
        "get SERVER/nowhere --retries 0",
        "get SERVER/short --retries 0",
        "get SERVER/reset --retries 0",
        "get SERVER/nonsense --retries 0",
        "get SERVER/x -o old --retries 0",
        "get SERVER/x -o old --no-clobber",
        "get SERVER/x -o folder",
        "get SERVER/x -o file/x",
        "get SERVER/x --checksum md5:00000000000000000000000000000000 --retries 0",
        "get SERVER/x --checksum-from file",
        "get SERVER/x --proxy ftp://p/",
        "get SERVER/x --proxy 127.0.0.1:1 --retries 0",
        "get SERVER/x --temp-dir nothing",
        "get SERVER/x --load-cookies nothing",
        "get SERVER/x --netrc-file nothing",
        "get https://127.0.0.1:1/x --cacert nothing.pem --retries 0",
        "get https://127.0.0.1:1/x --cacert bad.pem --retries 0",
        "get https://127.0.0.1:1/x --cert nothing.pem --retries 0",
        "get -i nothing",
        "get -i utf16",
        "get -i bad-list --retries 0",
        "get SERVER/404 SERVER/403 SERVER/410 --retries 0",
    ];
    is_as_kept("get-failures", &said(&failures));
}

#[test]
fn what_cp_says() {
    let lines = [
        "cp",
        "cp file",
        "cp h:there",
        "cp nothing there",
        "cp file file",
        "cp folder file",
        "cp folder folder/inside",
        "cp folder/ folder/in",
        "cp file nowhere/deep/file",
        "cp file old nowhere/",
        "cp file old",
        "cp rsync://h/m there",
        "cp h::m there",
        "cp file there --codec foo",
        "cp file there --codec zstd:99",
        "cp file there --limit-rate fast",
        "cp file there --exclude",
        "cp file there --files-from nothing",
        "cp file old there --files-from figures.csv",
        "cp file there -e",
        "cp file there --no-such",
        "cp file there --cipher aes",
        "cp file there --dry-run",
        "cp -3 file there --dry-run",
        "cp -C file there --dry-run",
        "cp -a folder there --dry-run",
    ];
    is_as_kept("cp", &said(&lines));
}

/// What is said of stores and hubs before any of them is asked.
#[test]
fn what_is_said_of_stores() {
    let lines = [
        "put",
        "put file",
        "put file nowhere",
        "put file ftp://h/x",
        "put file http://",
        "put file s3://",
        "put nothing s3://bucket/x",
        "put - s3://bucket/",
        "put file folder s3://bucket/x",
        "put folder s3://bucket",
        "put file CLOSED/x --retries 0",
        "put file s3://bucket/x --part-size 1",
        "put file s3://bucket/x --part-size many",
        "put file s3://bucket/x --if-absent --if-match x",
        "put file s3://bucket/x --metadata broken",
        "put file s3://bucket/x --sse-c-key nothing",
        "put file s3://bucket/x --sse-c-key file",
        "put file s3://bucket/x --profile nobody",
        "put file s3://bucket/x --acl nonsense",
        "ls",
        "ls nothing",
        "ls http://h/x",
        "ls hf://org/model",
        "ls s3://bucket",
        "ls gs://bucket",
        "ls az://container",
        "ls s3://bucket --profile nobody",
        "ls s3://bucket --sign --no-sign",
        "ls s3://bucket --path-style --virtual-host",
        "ls s3://bucket --max-wait soon",
        "get s3://",
        "get s3://bucket/x --profile nobody",
        "get s3://bucket/",
        "get az://container/x",
        "get hf://",
        "get oci://h",
        "get oci://h/x:",
        "get ollama://",
        "cp file s3://",
        "cp s3://bucket/x",
        "cp s3://bucket/x h:there",
        "cp s3://bucket/x hf://org/model",
        "cp s3://a/x s3://b/y there",
        "cp folder s3://bucket/x --codec lz4",
        "cp folder s3://bucket/x -H",
        "cp s3://bucket/x there --to-hosts a",
        "bench store",
        "bench store nothing",
        "bench store hf://org/model",
        "bench store s3://bucket --connections 0",
        "bench store s3://bucket --for soon",
    ];
    is_as_kept("stores", &said(&lines));
}

#[test]
fn what_is_said_of_many_hosts() {
    let lines = [
        "fleet nonsense",
        "fleet plan",
        "fleet plan folder there",
        "fleet plan --ledger plan.db nothing there",
        "fleet plan --ledger file folder there",
        "fleet plan --ledger nowhere/plan.db folder there",
        "fleet plan --ledger mysql://h/d folder there",
        "fleet plan --ledger plan.db folder folder",
        "fleet plan --ledger plan.db folder there --attempts 0",
        "fleet plan --ledger plan.db folder there --list nothing",
        "fleet work",
        "fleet work --ledger nothing",
        "fleet work --ledger file",
        "fleet work --ledger nothing --lease soon",
        "fleet run --ledger nothing",
        "fleet run --ledger nothing --hosts a,b",
        "fleet run --ledger nothing --hosts a --slurm 2",
        "fleet run --ledger nothing --slurm 0",
        "fleet status --ledger nothing",
        "fleet status --ledger nothing --watch --once",
        "fleet status --ledger nothing -i soon",
        "fleet set --ledger nothing",
        "fleet pause --ledger nothing",
        "fleet check --ledger file",
        "fleet export --ledger nothing",
        "cp file --to-hosts",
        "cp file h:there --to-hosts a",
    ];
    is_as_kept("many-hosts", &said(&lines));
}

#[test]
fn what_other_commands_say() {
    let lines = [
        "nonsense",
        "--no-such",
        "serve",
        "serve nothing",
        "serve file",
        "serve . --listen nonsense",
        "serve . --listen 256.0.0.1:1",
        "serve . --cert bad.pem",
        "serve . --tls --cert bad.pem --key bad.pem --listen 127.0.0.1:0",
        "serve . --limit-rate fast",
        "serve . --delay soon",
        "demo x",
        "why",
        "why --pid 0",
        "why --pid 999999999",
        "why --port x",
        "why --pcap nothing",
        "why --pcap file",
        "why -- no-such-command",
        "plan",
        "plan --link fast",
        "plan --link 100MB/s --codec-table nothing",
        "plan --link 100MB/s --codec-table file",
        "plan nothing --link 10MB/s",
        "lab run nothing",
        "lab run bad.toml",
        "lab show nothing",
        "lab shell --rate fast -- true",
        "lab shell --loss 200% -- true",
        "report",
        "report nothing.json",
        "report file",
        "report file -o nowhere/page.html",
        "bench net",
        "bench net -s -c x",
        "bench net -c 127.0.0.1 -p 1",
        "bench net -c 127.0.0.1 -p many",
        "bench http",
        "bench http file",
        "bench http CLOSED/ -d 1",
        "bench http CLOSED/ -s nothing.lua",
        "bench http CLOSED/ -c 0",
        "bench host",
        "bench host h:x",
        "bench pps --method foo",
        "bench disk nothing",
        "bench mem --up-to x",
        "bench codec nothing",
        "bench codec --codec foo",
        "bench cipher x",
        "self-check x",
        "completions tcsh",
        "man file",
        "man file/x",
    ];
    is_as_kept("other-commands", &said(&lines));
}
