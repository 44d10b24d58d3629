//! What users of curl and wget type by habit, and what they are told when it means something else here.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::{MIB, Object, Sandbox, Server, pattern};

fn serve() -> Server {
    let object = Object::new(MIB);
    Server::start(move |request, wire| object.serve(request, wire))
}

#[test]
fn a_url_alone_is_fetched() {
    let (server, sandbox) = (serve(), Sandbox::new());
    sandbox.weir(env!("CARGO_BIN_EXE_weir"), [&server.url("x.bin")]).run().succeeds();
    assert!(sandbox.read("x.bin") == pattern(MIB, 1));
}

#[test]
fn flags_of_curl_and_wget_that_change_nothing() {
    let (server, sandbox) = (serve(), Sandbox::new());
    sandbox.get(["-fsSLg", "-C", "-", &server.url("x.bin"), "-P", "into"]).run().succeeds();
    assert_eq!(sandbox.names(), ["into/", "into/x.bin"]);
    // A variable that is not set leaves an empty one: the current folder, and never the root.
    sandbox.get(["-P", "", &server.url("x.bin")]).run().succeeds();
    assert_eq!(sandbox.names(), ["into/", "into/x.bin", "x.bin"]);
    let anyway = ["-Z#", "--parallel", "--progress=dot", "--show-progress", "--retry-connrefused"];
    sandbox.get(anyway).args(&["-o", "x.bin", &server.url("x.bin")]).run().succeeds();
    sandbox.get(["hf://org/model", "--hf-cache", "-P", "into"]).run().exits(2);
    // As scripts that install things have it.
    let server = Server::start_tls(|_, wire| wire.answer("200 OK", &[], b"echo hello"));
    let url = server.url("install.sh");
    let install = ["--proto", "=https", "--tlsv1.2", "-sSfk", &url, "-o", "-"];
    assert_eq!(sandbox.get(install).run().succeeds().stdout, b"echo hello");
    for (schemes, says) in [
        ("=https", "--proto '=https' does not allow http://"),
        ("=http", "weir takes '=https' and '=http,https'"),
        ("-all,https", "cannot be kept to"),
    ] {
        sandbox.get(["--proto", schemes, "http://127.0.0.1:9/x"]).run().exits(2).says(&[says]);
    }
}

/// curl's way: the first -o is of the first URL, wherever they stand.
#[test]
fn an_output_for_each_url() {
    let server = Server::start(|request, wire| wire.answer("200 OK", &[], request.path().as_bytes()));
    let (a, b) = (server.url("a"), server.url("b"));
    let sandbox = Sandbox::new();
    sandbox.get(["-o", "one", &a, "-o", "in/", &b]).run().succeeds();
    assert_eq!((sandbox.read("one"), sandbox.read("in/b")), (b"/a".to_vec(), b"/b".to_vec()));
    let run = sandbox.get([&a, &b, "-o", "two", "-o", "-"]).run();
    assert_eq!((run.succeeds().stdout.as_slice(), sandbox.read("two")), (&b"/b"[..], b"/a".to_vec()));
    // One URL under two names is two files.
    sandbox.get([&a, &a, "-o", "x", "-o", "y"]).run().succeeds();
    assert_eq!(sandbox.read("x"), sandbox.read("y"));
    sandbox.write("list", format!("{a}\n"));
    for (args, says) in [
        (
            &["-o", "x", "-o", "y", &*a][..],
            "-o is given 2 times for 1 urls: give one for each, or one folder",
        ),
        (&["-o", "x", "-o", "y", &*a, &*b, &*b], "-o is given 2 times for 3 urls"),
        (&["-o", "x", "-o", "y", "-i", "list", &*b], "the list list has names of its own"),
    ] {
        sandbox.get(args).run().exits(2).says(&[says]);
    }
}

/// -H wins over -A, as with curl and wget.
#[test]
fn one_name_of_the_client_is_sent() {
    let (server, sandbox) = (serve(), Sandbox::new());
    for (args, sent) in [
        (&["-A", "me"][..], &["me"][..]),
        (&["-H", "user-agent: you", "-A", "me"], &["you"]),
        (&["-A", "me", "-H", "User-Agent:"], &[]),
    ] {
        sandbox.get([&server.url("x.bin"), "-o", "x"]).args(args).run().succeeds();
        let asked = server.requests().last().unwrap().request.clone();
        let names = asked.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
        assert_eq!(names.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), sent, "{args:?}");
    }
    let to_hosts = ["http://h/x", "--to-hosts", "a", "-o", "-"];
    sandbox.get(to_hosts).run().fails(2, &["-o - does not go with --to-hosts; each host gets a file"]);
}

/// An alias gives a flag, and the command line gives it again: the last one counts, as with curl, wget and
/// aria2c.
#[test]
fn a_flag_that_is_given_twice() {
    let server = Server::start(|_, wire| wire.answer("503 Busy", &[], b""));
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "--retries", "3", "-q", "--retries", "0", "-q"]).run().exits(1);
    assert_eq!(server.requests().len(), 2, "one, and one without a range");
}

#[test]
fn what_means_two_things_is_asked_back() {
    let (server, sandbox) = (serve(), Sandbox::new());
    sandbox.get(["-O", "name", &server.url("x.bin")]).run().exits(2).says(&["-o FILE"]);
    sandbox.get(["-c", &server.url("x.bin")]).run().exits(2).says(&["the same command again"]);
    assert!(sandbox.names().is_empty());
}

/// What curl and wget mean by it is done.
#[test]
fn lines_of_curl_and_wget_work() {
    let server = Server::start(|request, wire| wire.answer("200 OK", &[], request.path().as_bytes()));
    let (url, sandbox) = (server.url("name"), Sandbox::new());
    for args in [&["-qO-", &*url][..], &["-O", "-", &url], &["-sLO-", &url]] {
        assert_eq!(sandbox.get(args).run().succeeds().stdout, b"/name", "{args:?}");
    }
    assert!(sandbox.names().is_empty());
    for args in [&["-O", &*url][..], &["-fsSLO", &url], &["-OJ", &url], &["-nc", "--retry", "2", &url]] {
        sandbox.get(args).run().succeeds();
        assert_eq!(sandbox.read("name"), b"/name", "{args:?}");
    }
    sandbox.get(["-#O", &*url]).run().succeeds();
    sandbox.get(["--create-dirs", "-o", "deep/er/x", &url]).run().succeeds();
    assert_eq!(sandbox.read("deep/er/x"), b"/name");
    // A host with its port is none of weir's commands.
    let bare = url.trim_start_matches("http://");
    sandbox.weir(env!("CARGO_BIN_EXE_weir"), [bare, "-o", "bare"]).run().succeeds();
    assert_eq!(sandbox.read("bare"), b"/name");
}

/// Values of flags that take none here are no hosts.
#[test]
fn a_number_is_no_url() {
    let (server, sandbox) = (serve(), Sandbox::new());
    let url = server.url("x.bin");
    for (flag, number) in [("-s", "4"), ("-k", "1M")] {
        let says = format!("invalid url '{number}': a number names no host");
        sandbox.get([flag, number, &*url]).run().fails(2, &[&says, "-c N sets how many"]);
    }
    assert!(server.requests().is_empty() && sandbox.names().is_empty());
    sandbox.get(["--continue=true", "--conditional-get=true", "--remote-time=true", &url]).run().succeeds();
}

/// N more than the first, as with curl; each time without a range too, which a server may not know.
#[test]
fn retries_are_what_follows_the_first_attempt() {
    let server = Server::start(|_, wire| wire.answer("500 Down", &[], b""));
    let sandbox = Sandbox::new();
    let mut counts = [0, 1].map(|retries| {
        let before = server.requests().len();
        sandbox.get([&server.url("x"), "-q", "--retries", &retries.to_string()]).run().exits(1);
        server.requests().len() - before
    });
    counts.sort_unstable();
    assert_eq!(counts[1] - counts[0], 1, "{counts:?}");
}

#[test]
fn flags_of_other_programs_are_answered() {
    let sandbox = Sandbox::new();
    for (words, way) in [
        (&["http://h/x", "-x", "4"][..], "curl's -x URL is --proxy URL, aria2c's -x N is -c N"),
        (&["get", "--tries=3", "http://h/x"], "it is --retries N"),
        (&["get", "-m", "9", "http://h/x"], "'timeout SECONDS weir get ...' ends it"),
        (&["get", "--tlsv1.3", "http://h/x"], "weir speaks TLS 1.3"),
        (&["get", "--url", "http://h/x"], "a URL needs no flag"),
        (&["get", "--max-download-limit=1M", "http://h/x"], "it is --limit-rate RATE"),
        (&["get", "--skip-existing", "http://h/x"], "it is --no-clobber"),
        (&["get", "-p", "http://h/x"], "those that it is given"),
        (&["get", "-V"], "it is 'weir --version'"),
        (&["get", "-i", "http://h/x"], "curl's -i"),
        (&["get", "-c", "jar.txt", "http://h/x"], "--save-cookies FILE"),
        (&["get", "-b", "http://h/x"], "nohup"),
        (&["cp", "a"], "weir cp SRC... DST"),
        (&["why", "curl", "http://h/x"], "'weir why -- curl ...' starts a command"),
        (&["cp", "--port", "a", "h:b"], "rsync's -P (--partial --progress) is always on, leave it out"),
        (&["cp", "-H", "a", "b"], "-H (hard links) is part of -a here"),
        (&["cp", "--owner", "a", "b"], "--owner is part of -a here"),
        (&["plan", "-X", "a", "b"], "-X (extended attributes) is part of -a here"),
        (&["cp", "-g", "a", "b"], "-a keeps owners and groups"),
        (&["cp", "--inplace", "a", "b"], "a file gets its name only when complete"),
        (&["cp", "--info=name", "a", "b"], "--itemize-changes and -v name what is done"),
        (&["put", "big.bin"], "no TARGET is given: 'weir put FILE s3://BUCKET/PREFIX/'"),
        (&["put", "-r", "a", "s3://b/"], "weir put has no -r: a folder is sent with all in it"),
        (&["serve", "--port", "8123", "."], "weir serve has no --port: it is --listen ADDR:PORT"),
        (&["serve", "-p", "8123", "."], "it is --listen ADDR:PORT"),
        (&["ls", "-a", "s3://b/"], "names that begin with a dot are listed anyway"),
        (&["gte", "http://h/x"], "similar subcommand exists: 'get'"),
        (&["help", "gte"], "similar subcommand exists: 'get'"),
        (&["help", "bench", "nte"], "similar subcommand exists: 'net'"),
        (&["sync", "a", "b"], "there is no 'weir sync': 'weir cp --update SRC/ DST/'"),
        (&["rm", "s3://b/x"], "weir deletes only by 'weir cp --delete"),
        (&["help", "mb"], "as 'aws s3 mb' does"),
        (&["-v"], "'weir --version' prints the version"),
        (&["cp", "-e", "ssh 'x", "a", "h:b"], "a quote is not closed"),
        (&["cp", "-l", "800", "a", "h:b"], "--limit-rate RATE"),
        (&["plan", "-R", "a", "h:b"], "weir plan has no -R"),
        (&["cp", "-avc", "a", "b"], "rsync's -c is --checksum"),
        (&["cp", "-avS", "a", "b"], "take the word behind them"),
        (
            &["--no-config", "bench", "net", "-c", "h", "-F", "x"],
            "weir bench net has no -F: 'weir bench disk' measures a disk, 'weir cp' a whole copy",
        ),
    ] {
        let weir = sandbox.weir(env!("CARGO_BIN_EXE_weir"), words).run();
        weir.exits(2).says(&[way]);
    }
    // What is no slip of a finger is not guessed at.
    for (flag, guess) in [("--list-only", None), ("--egd-file", None), ("--limit-rat", Some("--limit-rate"))]
    {
        let unknown = sandbox.weir(env!("CARGO_BIN_EXE_weir"), ["get", flag, "http://h/x"]).run();
        unknown.exits(2).says(&[&format!("unexpected argument '{flag}'")]);
        assert_eq!(unknown.stderr.contains("tip:"), guess.is_some(), "{}", unknown.stderr);
        unknown.says(&[guess.unwrap_or_default()]);
    }
    let unknown = sandbox.weir(env!("CARGO_BIN_EXE_weir"), ["cp", "--nonsense", "a", "b"]).run();
    unknown.exits(2).says(&["unexpected argument '--nonsense'", "Usage"]);
}

/// Whatever else is on the line, and whichever option is missing or contradicted.
#[test]
fn the_usage_of_an_error_is_the_whole_of_the_command() {
    let sandbox = Sandbox::new();
    for (words, usage) in [
        (&["get", "--nonsense", "http://h/x"][..], "Usage: weir get [OPTIONS] <URL>..."),
        (&["get", "--no-clobber", "--force", "http://h/x"], "Usage: weir get [OPTIONS] <URL>..."),
        (&["get"], "Usage: weir get [OPTIONS] <URL>..."),
        (&["cp", "--nonsense", "a", "b"], "Usage: weir cp [OPTIONS] <SRC... DST>..."),
        (&["serve", "--nonsense", "--key", "k", "."], "Usage: weir serve [OPTIONS] <DIR>"),
        (&["serve", "--key", "k", "."], "Usage: weir serve [OPTIONS] <DIR>"),
        (&["why", "--nonsense", "--pid", "1"], "Usage: weir why [OPTIONS] [-- <COMMAND>...]"),
        (&["bench", "http", "--nonsense", "-c", "1", "http://h/"], "Usage: weir bench http [OPTIONS]"),
        (&["bench", "net", "--nonsense", "-c", "h"], "Usage: weir bench net [OPTIONS]"),
        (&["bench", "nte"], "Usage: weir bench [OPTIONS] <COMMAND>"),
        (&["lab", "shell", "--nonsense"], "Usage: weir lab shell [OPTIONS]"),
        (&["report"], "Usage: weir report [OPTIONS] <RECORD>..."),
    ] {
        sandbox.weir(env!("CARGO_BIN_EXE_weir"), words).run().exits(2).says(&[usage]);
    }
}

#[test]
fn places_of_other_programs_are_answered_by_cp_and_plan_alike() {
    let sandbox = Sandbox::new();
    for name in ["co:lon", "a"] {
        sandbox.write(name, "text");
    }
    for (source, target, says) in [
        ("co:lon", "b", "write ./co:lon for the local file, co:./lon for the host"),
        ("a", "co:lon", "write ./co:lon for the local file"),
        ("scp://me@h:2222/x", "b", "write -P 2222 me@h:x"),
        ("a", "ssh://h/srv/x", "h:/srv/x"),
        ("rsync://h/mod/x", "b", "names a module of an rsync daemon"),
        ("a", "h::mod", "write h:/PATH"),
        ("h:~bob/x", "b", "h:/home/bob/x"),
        ("~bob/x", "b", "the shell did not expand '~bob'"),
        ("C:\\x", "b", "/mnt/c/x"),
        ("2001:db8::1:/x", "b", "write [2001:db8::1]:/x"),
        ("a", "me@host", "write me@host: for the host"),
        ("http://h/x", "b", "weir get"),
    ] {
        let said = ["cp", "plan"].map(|command| {
            let run = sandbox.weir(env!("CARGO_BIN_EXE_weir"), [command, source, target]).run();
            run.exits(2).says(&[says]);
            run.stderr
        });
        assert_eq!(said[0], said[1], "{source} {target}");
    }
    // The way out is one.
    sandbox.weir(env!("CARGO_BIN_EXE_weir"), ["cp", "-q", "./co:lon", "./me@host"]).run().succeeds();
    assert_eq!(sandbox.read("me@host"), b"text");
}

#[test]
fn lists_that_name_nothing_or_have_no_tab() {
    let sandbox = Sandbox::new();
    sandbox.write("list", "# nothing\n\n");
    sandbox.get(["-i", "list"]).run().exits(2).says(&["names no url"]);
    sandbox.write("list", "http://127.0.0.1:9/x name\n");
    sandbox.get(["-i", "list"]).run().exits(2).says(&["line 1", "TAB"]);
}

#[test]
fn a_missing_folder_is_named() {
    let (server, sandbox) = (serve(), Sandbox::new());
    sandbox.get([&server.url("x"), "-o", "no/where/x"]).run().exits(2).says(&["no folder no/where"]);
    sandbox.write("file", "");
    sandbox.get([&server.url("x"), "-o", "file/"]).run().exits(2).says(&["a file is there"]);
}

#[test]
fn a_link_that_is_named_is_followed() {
    let (server, sandbox) = (serve(), Sandbox::new());
    sandbox.write("there", "old");
    std::os::unix::fs::symlink("there", sandbox.path("link")).unwrap();
    sandbox.get([&server.url("x"), "-o", "link"]).run().succeeds();
    assert!(sandbox.path("link").is_symlink());
    assert!(sandbox.read("there") == pattern(MIB, 1));
}

#[test]
fn checksums_from_a_file() {
    let (server, sandbox) = (serve(), Sandbox::new());
    sandbox.write("SHA256SUMS", format!("{}  x.bin\n", "00".repeat(32)));
    sandbox.get([&server.url("x.bin"), "--checksum-from", "SHA256SUMS"]).run().exits(3);
    sandbox.has_nothing_of("x.bin");
}
