//! The configuration file: what it says holds where the command line says nothing, and what is wrong in it is named by its line.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use support::{QUICK, Run, Sandbox, Server, WEIR, skip};

const TABLE: &str = "codec,ratio,compress\nnone,1,300\n";

/// A sandbox with `text` in the usual place, for its owner alone.
fn with(text: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    place(&sandbox, ".config/weir/config.toml", text);
    sandbox.write("figures.csv", TABLE);
    sandbox
}

fn place(sandbox: &Sandbox, name: &str, text: &str) -> PathBuf {
    fs::create_dir_all(sandbox.path(name).parent().unwrap()).unwrap();
    let path = sandbox.write(name, text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn weir(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.weir(WEIR, args).run()
}

/// A plan over one link, whatever else is said.
fn plan(sandbox: &Sandbox, args: &[&str]) -> Run {
    weir(sandbox, &[&["plan", "--json", "--codec-table", "figures.csv", "--link", "100MB/s"], args].concat())
}

fn server() -> Server {
    Server::start(|_, wire| wire.answer("200 OK", &[], b"the bytes"))
}

/// The fields called `name` of each request.
fn fields(server: &Server, name: &str) -> Vec<Option<String>> {
    server.requests_from(0).iter().map(|request| request.field(name).map(str::to_owned)).collect()
}

#[test]
fn what_the_file_says_holds_where_the_command_line_says_nothing() {
    let server = server();
    let sandbox = with(
        "[get]\noutput = \"there/\"\nheader = ['X-One: 1', 'X-Two: 2']\nquiet = true\ninsecure = false\nretries = 3\n",
    );
    let run = weir(&sandbox, &["get", &server.url("a")]);
    run.succeeds();
    assert_eq!((run.stderr.as_str(), run.stdout.as_slice()), ("", &b""[..]), "quiet = true");
    // The flag is there once, and a list is replaced as a whole.
    weir(&sandbox, &["get", &server.url("b"), "-o", "here", "-H", "X-One: one"]).succeeds();
    weir(&sandbox, &[&server.url("c")]).succeeds();
    assert_eq!(sandbox.read("there/a"), b"the bytes");
    assert_eq!(sandbox.read("here"), b"the bytes");
    assert_eq!(sandbox.read("there/c"), b"the bytes");
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(fields(&server, "x-one"), [text("1"), text("one"), text("1")]);
    assert_eq!(fields(&server, "x-two"), [text("2"), None, text("2")]);
}

#[test]
fn nearer_tables_win_and_further_ones_hold_for_whoever_has_the_flag() {
    let server = server();
    let file = "output = 'far/'\nuser-agent = 1\n";
    // A hidden flag has no name there.
    weir(&with(file), &["get", &server.url("a")]).fails(2, &["line 2: unknown name 'user-agent'"]);
    let sandbox = with("json = true\noutput = 'far/'\n[get]\noutput = 'near/'\n");
    let run = weir(&sandbox, &["get", &server.url("a")]);
    assert_eq!(run.succeeds().json()["command"], "get");
    assert_eq!(sandbox.read("near/a"), b"the bytes");
    // demo has no flags and lab list has none: nothing to hold for.
    weir(&sandbox, &["lab", "list"]).succeeds();
    for table in ["[bench.mem]", "['bench mem']", "[bench]", ""] {
        let run = weir(&with(&format!("{table}\nup-to = 'nothing'\n")), &["bench", "mem", "--quick"]);
        run.fails(2, &["config.toml, line 2: invalid value for 'up-to'"]);
    }
}

#[test]
fn the_command_line_wins_over_an_entry_that_contradicts_it() {
    let sandbox = with(
        "[bench.net]\nclient = '127.0.0.1'\nport = 1\nparallel = 4\n[get]\nno-clobber = true\nhttp2 = true\n",
    );
    // -s and -c are one or the other, and one of them is needed.
    let run = weir(&sandbox, &["bench", "net", "-s", "--listen", "0.0.0.0:1", "-B", "127.0.0.1"]);
    run.fails(2, &["cannot be used with"]);
    let run = weir(
        &sandbox,
        &["bench", "net", "-s", "--rsa-private-key-path", "none", "--authorized-users-path", "none"],
    );
    run.fails(1, &["none"]);
    // Here the file says what is missing.
    weir(&sandbox, &["bench", "net", "-t", "1", "--connect-timeout", "1000"]).fails(1, &["127.0.0.1:1"]);
    let server = server();
    sandbox.write("out", "old");
    weir(&sandbox, &["get", &server.url("x"), "-o", "out", "--http1.1"]).succeeds();
    assert_eq!(sandbox.read("out"), b"old", "no-clobber is from the file");
    weir(&sandbox, &["get", &server.url("x"), "-o", "out", "--http1.1", "--force"]).succeeds();
    assert_eq!(sandbox.read("out"), b"the bytes");
    // Without a word on the command line the file's own counts: this server does not speak it.
    weir(&sandbox, &["get", &server.url("y"), "--retries", "1"]).exits(1);
}

#[test]
fn a_flag_that_needs_another_waits_for_it() {
    let lossless = plan(&with(""), &["--rtt", "20ms"]).succeeds().json()["plan"].clone();
    let lossy = plan(&with(""), &["--rtt", "20ms", "--loss", "1%"]).succeeds().json()["plan"].clone();
    assert_ne!(lossless, lossy);
    let planned = |file: &str, args: &[&str]| plan(&with(file), args).succeeds().json()["plan"].clone();
    // --loss wants --rtt.
    assert_eq!(planned("[plan]\nloss = '1%'\n", &[]), planned("", &[]));
    assert_eq!(planned("[plan]\nloss = '1%'\n", &["--rtt", "20ms"]), lossy);
    assert_eq!(planned("[plan]\nloss = '1%'\nrtt = '20ms'\nmemory = '1MB'\n", &[]), lossy);
    // Two that want each other, beside one that wants a third.
    let sandbox = with("[serve]\ncert = 'none.pem'\nkey = 'none.pem'\nsave-cert = 'x'\n");
    weir(&sandbox, &["serve", ".", "--listen", ":0"]).fails(1, &["none.pem"]);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (text, texts) in [
        (
            "[get]\nlanse = 4\n",
            &["line 2: unknown name 'lanse' for weir get; the nearest that it knows are lanes, "][..],
        ),
        ("\n\n[gte]\nlanes = 4\n", &["line 3: unknown table 'gte'; weir has get, cp, serve"]),
        ("[bench.nte]\n", &["line 1: unknown table 'nte'; weir bench has codec"]),
        ("[get.lanes]\n", &["line 1: unknown table 'lanes': weir get has no commands of its own"]),
        (
            "[bench]\nlanse = 1\n",
            &["line 2: unknown name 'lanse' for weir bench: none of its commands has a flag --lanse"],
        ),
        ("lanse = 1\n", &["line 1: unknown name 'lanse' for weir: none"]),
        (
            "[completions]\nshell = 'zsh'\n",
            &["line 2: unknown name 'shell' for weir completions: it has no flags"],
        ),
        ("[serve]\nroot = '.'\n", &["line 2: unknown name 'root'"]),
        ("[get]\nhelp = true\n", &["line 2: unknown name 'help'"]),
        ("[get]\nno-config = true\n", &["line 2: unknown name 'no-config'"]),
        ("[peer]\n", &["line 1: unknown table 'peer'"]),
        ("[self-check]\nprobe = 'x'\n", &["line 2: unknown name 'probe'"]),
        ("[help]\n", &["line 1: unknown table 'help'"]),
        ("[get]\n\"a\\nb\" = 1\n", &["line 2: unknown name 'a\\nb'"]),
        ("[get]\nlanes = true\n", &["line 2: 'lanes' of weir get is a text or a number"]),
        ("[get]\nlanes = [1, 2]\n", &["line 2: 'lanes' of weir get is a text or a number"]),
        ("[get]\nlanes = 1979-05-27\n", &["line 2: 'lanes' of weir get is a text or a number"]),
        (
            "[get]\nheader = [['a']]\n",
            &["line 2: 'header' of weir get is a text, a number or a list of them"],
        ),
        ("[get]\ninsecure = 1\n", &["line 2: 'insecure' of weir get is true or false"]),
        ("[get]\nverbose = 256\n", &["line 2: 'verbose' of weir get is true, false or a number up to 255"]),
        (
            "[get]\n\nlanes = 65\n",
            &["line 3: invalid value for 'lanes': expected a number of connections from 1 to 64"],
        ),
        ("[get]\nlanes = 0x7fffffffffffffffff\n", &["line 2: 'lanes'"]),
        ("[get]\nlimit-rate = '10x'\n", &["line 2: invalid value for 'limit-rate': invalid rate '10x'"]),
        (
            "[get]\nhttp2 = true\n'http1.1' = true\n",
            &["line 3: 'http1.1' cannot be used with 'http2' of line 2"],
        ),
        ("[get]\nlanes 4\n", &["line 2: "]),
        ("[get]\nlanes = 4\nlanes = 5\n", &["line 3: duplicate key"]),
        ("[get\n", &["line 1: "]),
    ] {
        let run = weir(&with(text), &["get", "http://127.0.0.1:9/"]);
        run.fails(2, &["weir: ", ".config/weir/config.toml, "]).says(texts);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
    let run = weir(&with("[lab.shell]\nfidelity = 'high'\n"), &["lab", "shell", "--", "true"]);
    run.fails(2, &["line 2: invalid value for 'fidelity': expected one of packet, gso"]);
    // Another command's values are not its business; its names are, else nobody would see that they do nothing.
    weir(&with("[get]\nlanes = 65\n"), &["plan", "--codec-table", "figures.csv", "--link", "1Gbit"])
        .succeeds();
}

#[test]
fn letters_and_optional_values_have_names_too() {
    // ssh's flags have no long name.
    let sandbox = with("[cp]\nS = './ssh'\no = ['Port=1', '-x=y']\nJ = 'gate'\n");
    let ssh = place(&sandbox, "ssh", "#!/bin/sh\nexec echo \"$@\" >words\n");
    fs::set_permissions(ssh, fs::Permissions::from_mode(0o700)).unwrap();
    sandbox.write("a", "a");
    weir(&sandbox, &["cp", "a", "far:b"]).exits(1);
    let words = String::from_utf8(sandbox.read("words")).unwrap();
    assert!(words.contains(" -o Port=1 -o -x=y -J gate -- far "), "{words}");
    weir(&with("[cp]\nP = 1\n"), &["cp", "a", "far:b"]).fails(2, &["unknown name 'P'", "port"]);
    let run = weir(&with("[serve]\nbench = ':x'\n"), &["serve", "."]);
    run.fails(2, &["line 2: invalid value for 'bench'"]);
    let run = weir(&with("[serve]\nbench = true\nlisten = [':x']\n"), &["serve", "."]);
    run.fails(2, &["line 3: invalid value for 'listen'"]);
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_one_that_is_absent_is_not() {
    let get = ["plan", "--codec-table", "figures.csv", "--link", "1Gbit"];
    let sandbox = with("");
    fs::remove_file(sandbox.path(".config/weir/config.toml")).unwrap();
    weir(&sandbox, &get).succeeds();
    fs::create_dir(sandbox.path(".config/weir/config.toml")).unwrap();
    let way_out = "name none by --no-config or WEIR_CONFIG";
    weir(&sandbox, &get).fails(2, &["cannot read ", "config.toml: it is not a regular file", way_out]);
    weir(&with(&"# a comment\n".repeat(6000)), &get).fails(2, &["it is larger than 64 KiB"]);
    weir(&with(&"# a comment\n".repeat(5000)), &get).succeeds();
    let sandbox = with("");
    sandbox.write(".config/weir/config.toml", b"[get]\n# caf\xe9\n");
    weir(&sandbox, &get).fails(2, &["line 2 is not UTF-8"]);
    // A pipe that nobody writes into.
    sandbox.pipe("fifo");
    sandbox.weir(WEIR, get).env("WEIR_CONFIG", sandbox.path("fifo")).run().fails(2, &["not a regular file"]);
    sandbox.weir(WEIR, get).env("WEIR_CONFIG", "/dev/null").run().succeeds();
    sandbox.weir(WEIR, get).env("WEIR_CONFIG", "/dev/zero").run().fails(2, &["larger than 64 KiB"]);
    let missing = sandbox.weir(WEIR, get).env("WEIR_CONFIG", "absent").run();
    missing.fails(2, &["cannot read absent: no such file", "name another by WEIR_CONFIG"]);
    if !rustix::process::geteuid().is_root() {
        return skip("only root can become a user who may not read the file");
    }
    let others = ["--reuid=54321", "--clear-groups", WEIR, get[0], get[1], get[2], get[3], get[4]];
    let sandbox = with("");
    let open = |path: PathBuf, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(sandbox.path("."), 0o755);
    sandbox.weir("setpriv", others).run().fails(2, &["permission denied"]);
    // Behind a closed door it is root's file, and none of this user's.
    open(sandbox.path(".config/weir"), 0o700);
    sandbox.weir("setpriv", others).run().succeeds();
}

#[test]
fn another_file_or_none_can_be_named() {
    let broken = with("broken");
    let get = ["plan", "--codec-table", "figures.csv", "--link", "1Gbit"];
    weir(&broken, &get).fails(2, &["line 1"]);
    broken.weir(WEIR, get).env("WEIR_CONFIG", "").run().succeeds();
    for words in
        [["--no-config"].iter().chain(&get).collect::<Vec<_>>(), get.iter().chain(&["--no-config"]).collect()]
    {
        broken.weir(WEIR, words).run().succeeds();
    }
    place(&broken, "x/weir/config.toml", "[plan]\nlink = '1x'\n");
    let run = broken.weir(WEIR, &get[..3]).env("XDG_CONFIG_HOME", broken.path("x")).run();
    run.fails(2, &["x/weir/config.toml, line 2: invalid value for 'link'"]);
    broken.weir(WEIR, get).env("XDG_CONFIG_HOME", broken.path("x")).run().succeeds();
    broken.weir(WEIR, get).env("XDG_CONFIG_HOME", "x").run().fails(2, &[".config/weir/config.toml, line 1"]);
    let other = place(&broken, "other.toml", "[plan]\nlink = '2x'\n");
    broken.weir(WEIR, &get[..3]).env("WEIR_CONFIG", other).run().fails(2, &["other.toml, line 2"]);
    let server = server();
    weir(&broken, &["--no-config", &server.url("a")]).succeeds();
    assert_eq!(broken.read("a"), b"the bytes");
}

#[test]
fn help_and_what_has_no_flags_do_not_read_it() {
    let sandbox = with("broken");
    for args in [
        &["--help"][..],
        &["get", "--help"],
        &["help", "get"],
        &["--version"],
        &["completions", "bash"],
        &["lab", "list"],
    ] {
        weir(&sandbox, args).succeeds();
    }
    // The user's own mistake comes first.
    weir(&sandbox, &["get", "--lanse"]).fails(2, &["unexpected argument '--lanse'"]);
    // What a far host's ssh starts.
    let run = weir(&sandbox, &["peer"]);
    assert!(run.stdout.starts_with(b"\x1eweir-peer\n"), "{run:?}");
    let help = weir(&sandbox, &["--help"]);
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(text.contains("~/.config/weir/config.toml") && text.contains("--no-config"), "{text}");
    weir(&sandbox, &["man", "pages"]).succeeds();
    let page = String::from_utf8(sandbox.read("pages/weir.1")).unwrap();
    assert!(page.contains("/weir/config.toml"), "{page}");
}

/// Each download would fail, if the file were read again for it.
const SPOILT: &str =
    "[get]\nchecksum = ['sha256:0000000000000000000000000000000000000000000000000000000000000000']\n";

#[test]
fn what_weir_starts_by_itself_is_not_told_twice() {
    let server = server();
    weir(&with(SPOILT), &["get", &server.url("a")]).fails(3, &["sha256"]);
    let run = weir(&with(SPOILT), &["demo", "small"]);
    run.succeeds();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(!said.contains("failed") && said.contains("files a second"), "{said}");
    let sandbox = with(SPOILT);
    sandbox.write("get.toml", QUICK.replace("[workload.socket]", "[workload.get]"));
    let run = weir(&sandbox, &["lab", "run", "--json", "get.toml"]);
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &run.stderr;
    if said.contains("skipped") || said.contains("cannot make a") {
        return skip(&said);
    }
    let bytes = &run.json()["lab"]["scenarios"][0]["run"]["bytes"];
    assert_eq!(*bytes, 300_000, "{run:?}");
}

#[test]
fn the_environment_stands_above_the_file() {
    let server = server();
    let sandbox = with("[get]\nproxy = 'http://127.0.0.1:9'\nretries = 1\n");
    let get = ["get", "http://host.invalid/a"];
    weir(&sandbox, &get).fails(1, &["127.0.0.1:9"]);
    let proxy = format!("http://{}", server.address());
    sandbox.weir(WEIR, get).env("http_proxy", proxy).run().succeeds();
    let server = Server::start_tls(|_, wire| wire.answer("200 OK", &[], b"the bytes"));
    let sandbox = with("[get]\ncacert = 'none.pem'\nretries = 1\n");
    let get = ["get", &server.url("b")];
    weir(&sandbox, &get).fails(1, &["none.pem"]);
    let trusted = sandbox.write("trusted.pem", server.certificate());
    sandbox.weir(WEIR, get).env("SSL_CERT_FILE", trusted).run().succeeds();
}

#[test]
fn a_secret_that_others_can_read_is_told() {
    let server = server();
    for (file, secret) in [
        ("[get]\nheader = 'Authorization: Bearer XYZ'\n", "header"),
        ("[get]\nuser = 'me:XYZ'\n", "user"),
        ("[bench.http]\nheader = ['A: XYZ']\n", "header"),
        ("[get]\nproxy = 'http://me:XYZ@127.0.0.1:9'\n", "proxy"),
    ] {
        let sandbox = with(file);
        let path = sandbox.path(".config/weir/config.toml");
        let get = ["get", &server.url("a"), "--proxy", ""];
        let run = weir(&sandbox, &get);
        run.succeeds().hides("XYZ");
        assert!(!run.stderr.contains("read by others"), "{}", run.stderr);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let run = weir(&sandbox, &get);
        let told = format!("holds '{secret}' and can be read by others: chmod 600 ");
        run.succeeds().says(&[&told]).hides("XYZ");
        let run = weir(&sandbox, &[&get[..], &["-q"]].concat());
        assert_eq!(run.succeeds().stderr, "");
    }
    let sandbox = with("[get]\noutput = 'there/'\n");
    fs::set_permissions(sandbox.path(".config/weir/config.toml"), fs::Permissions::from_mode(0o644)).unwrap();
    let run = weir(&sandbox, &["get", &server.url("a")]);
    assert!(!run.succeeds().stderr.contains("others"), "{}", run.stderr);
}
