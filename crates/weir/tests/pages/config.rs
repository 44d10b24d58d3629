//! The configuration file: what it says holds where the command line says nothing, and what is wrong in it is
//! named by its line.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use support::{Object, QUICK, Run, Sandbox, Server, WEIR, pattern, skip};

const CONFIG: &str = ".config/weir/config";
const OLD: &str = ".config/weir/config.toml";
const TABLE: &str = "codec,ratio,compress\nnone,1,300\n";

/// A sandbox with `text` in the usual place, for its owner alone.
fn with(text: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    place(&sandbox, CONFIG, text);
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
fn what_the_file_says_stands_in_front_of_the_command_line() {
    let server = server();
    let sandbox = with(
        "# what is always wanted\n\n[get]\n--output=there/\n--header=X-One: 1\nheader = \"X-Two: 2\"\nquiet\n-c2\n--retries 3\n",
    );
    let run = weir(&sandbox, &["get", &server.url("a")]);
    run.succeeds();
    assert_eq!((run.stderr.as_str(), run.stdout.as_slice()), ("", &b""[..]), "quiet");
    // One target is meant; fields add up, and one of the file's can be taken back.
    weir(&sandbox, &["get", &server.url("b"), "-o", "here", "-H", "X-Three: 3", "-H", "X-One:"]).succeeds();
    weir(&sandbox, &[&server.url("c")]).succeeds();
    assert_eq!(sandbox.read("there/a"), b"the bytes");
    assert_eq!(sandbox.read("here"), b"the bytes");
    assert_eq!(sandbox.read("there/c"), b"the bytes");
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(fields(&server, "x-one"), [text("1"), None, text("1")]);
    assert_eq!(fields(&server, "x-two"), [text("2"), text("2"), text("2")]);
    assert_eq!(fields(&server, "x-three"), [None, text("3"), None]);
}

#[test]
fn how_much_is_said_is_the_command_lines_matter_first() {
    let server = server();
    for quiet in ["quiet", "silent"] {
        let sandbox = with(&format!("[get]\n{quiet}\n"));
        let run = weir(&sandbox, &["get", &server.url("a"), "-v"]);
        run.succeeds();
        assert!(!run.stderr.is_empty() || !run.stdout.is_empty(), "{quiet}: -v is of the command line");
    }
    let run = weir(&with("[get]\n-vv\n"), &["get", &server.url("a"), "-q"]);
    assert_eq!((run.succeeds().stderr.as_str(), run.stdout.as_slice()), ("", &b""[..]));
}

#[test]
fn a_limit_of_the_file_is_lifted_by_0() {
    let sandbox = with("[get]\n--limit-rate=1M\n[cp]\n--bwlimit=1m\n");
    sandbox.write("a", "a");
    let server = server();
    weir(&sandbox, &["get", &server.url("x"), "--limit-rate", "0"]).succeeds();
    weir(&sandbox, &["cp", "-q", "a", "b", "--limit-rate", "0"]).succeeds();
    weir(&sandbox, &["cp", "-q", "a", "c", "--bwlimit", "0"]).succeeds();
    weir(&sandbox, &["get", &server.url("x"), "--limit-rate", "0.5"])
        .fails(2, &["expected 1 B/s or more, or 0 for no limit"]);
}

#[test]
fn curls_names_and_letters_are_taken_as_on_the_command_line() {
    let server = server();
    let sandbox = with("[get]\nsilent\nlocation\n-A \"me\"\nmax-redirect: 3\n-H X-One: 1\n-vv\n");
    let run = weir(&sandbox, &["get", &server.url("a")]);
    assert_eq!(run.succeeds().stderr, "");
    assert_eq!(fields(&server, "user-agent"), [Some("me".to_owned())]);
    assert_eq!(fields(&server, "x-one"), [Some("1".to_owned())]);
    weir(&with("[get]\ntries = 5\n"), &["get", &server.url("a")])
        .fails(2, &["line 2: weir get has no --tries: it is --retries N"]);
}

#[test]
fn nearer_sections_win_and_the_top_holds_for_every_command_that_has_the_flag() {
    let server = server();
    let sandbox = with("--json\n--output=far/\n[get]\n--output=near/\n--retries=1\n--retries=2\n");
    let run = weir(&sandbox, &["get", &server.url("a")]);
    assert_eq!(run.succeeds().json()["command"], "get");
    assert_eq!(sandbox.read("near/a"), b"the bytes");
    // demo has no flags and lab list has none: nothing to hold for.
    weir(&sandbox, &["lab", "list"]).succeeds();
    for section in ["[bench.mem]", "[bench mem]", "['bench mem']", "[bench]", ""] {
        let run = weir(&with(&format!("{section}\n--up-to=nothing\n")), &["bench", "mem", "--quick"]);
        run.fails(2, &[".config/weir/config, line 2: invalid value for --up-to"]);
    }
    // What a letter means is known for one command only.
    let run = weir(&with("-c 4\n"), &["get", &server.url("a")]);
    run.fails(2, &["line 1: unknown flag -c for weir; put a letter below its [COMMAND]"]);
}

#[test]
fn the_command_line_wins_over_an_entry_that_contradicts_it() {
    let sandbox =
        with("[bench net]\n--client=127.0.0.1\n--port=1\n--parallel=4\n[get]\n--no-clobber\n--http2\n");
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
    // Of a contradiction between top and section the section's stays.
    let sandbox = with("--http2\n[get]\n--http1.1\n");
    weir(&sandbox, &["get", &server.url("z"), "--retries", "1"]).succeeds();
}

/// Where values decide, or more flags than two.
#[test]
fn what_only_the_command_can_tell_apart_gives_way_too() {
    let object = Object::new(1000);
    let server = Server::start(move |request, wire| object.serve(request, wire));
    let url = server.url("x");
    let get = |file: &str, args: &[&str]| {
        let sandbox = with(&format!("[get]\n{file}\n"));
        let run = weir(&sandbox, &[&["get", &*url], args].concat());
        (sandbox, run)
    };
    for file in ["-N", "--compressed", "--continue", "-C -", "--checksum-from=none"] {
        let (sandbox, run) = get(file, &["-r", "0-5", "-o", "out"]);
        run.succeeds();
        assert_eq!(sandbox.read("out"), pattern(1000, 1)[..6], "{file}");
    }
    let (sandbox, run) = get("--force-directories", &["-o", "out"]);
    run.succeeds();
    assert_eq!(sandbox.read("out"), pattern(1000, 1));
    for file in ["--force-directories", "--json", "--json-files=-"] {
        let (_, run) = get(file, &["-o", "-"]);
        assert_eq!(run.succeeds().stdout, pattern(1000, 1), "{file}");
    }
    let (_, run) = get("--json-files=-", &["--json"]);
    assert_eq!(run.succeeds().json()["command"], "get");
    for file in ["--no-clobber", "--temp-dir=.", "-P in"] {
        let (_, run) = get(file, &["--to-hosts", "none/such"]);
        run.fails(2, &["there is no file none/such"]);
    }
    // What the user alone contradicts is still refused, and so is what the file alone does.
    let (_, run) = get("--sync", &["-r", "0-5", "-N"]);
    run.fails(2, &["-r 0-5 fetches a part, and -N compares whole files"]);
    let (_, run) = get("-N\n-r 0-5", &[]);
    run.fails(2, &["line 3: -r cannot be used with -N of line 2; remove one of them"]);
}

#[test]
fn a_flag_that_needs_another_waits_for_it() {
    let lossless = plan(&with(""), &["--rtt", "20ms"]).succeeds().json()["plan"].clone();
    let lossy = plan(&with(""), &["--rtt", "20ms", "--loss", "1%"]).succeeds().json()["plan"].clone();
    assert_ne!(lossless, lossy);
    let planned = |file: &str, args: &[&str]| plan(&with(file), args).succeeds().json()["plan"].clone();
    // --loss wants --rtt.
    assert_eq!(planned("[plan]\n--loss=1%\n", &[]), planned("", &[]));
    assert_eq!(planned("[plan]\n--loss=1%\n", &["--rtt", "20ms"]), lossy);
    assert_eq!(planned("[plan]\n--loss=1%\n--rtt=20ms\n--memory=1MB\n", &[]), lossy);
    // Two that want each other, beside one that wants a third.
    let sandbox = with("[serve]\n--cert=none.pem\n--key=none.pem\n--save-cert=x\n");
    weir(&sandbox, &["serve", ".", "--listen", ":0"]).fails(1, &["none.pem"]);
}

#[test]
fn what_is_wrong_is_named_with_its_line_its_flag_and_the_way_out() {
    let no_flag = "a line is a flag, such as --limit-rate=10M, or a [COMMAND]; a comment begins with '#'";
    for (text, texts) in [
        ("[get]\n--lanse=4\n", &["line 2: unknown flag --lanse for weir get; the nearest is --lanes"][..]),
        ("\n\n[gte]\n--lanes=4\n", &["line 3: unknown section [gte]; weir has get, put, cp"]),
        ("[gte]\n", &["line 1: unknown section [gte]; weir has get, put, cp"]),
        ("[bench nte]\n", &["line 1: unknown section [bench nte]; bench has codec"]),
        ("[get.lanes]\n", &["line 1: unknown section [get lanes]; get has no commands"]),
        ("[bench]\n--lanse=1\n", &["line 2: unknown flag --lanse for weir bench; weir bench --help lists"]),
        ("--lanse=1\n", &["line 1: unknown flag --lanse for weir; the nearest is --lanes"]),
        ("lanse = 1\n", &["line 1: unknown flag --lanse for weir; the nearest is --lanes"]),
        (
            "[completions]\n--shell=zsh\n",
            &["line 2: unknown flag --shell for weir completions; weir completions --help"],
        ),
        ("[serve]\n--root=.\n", &["line 2: unknown flag --root"]),
        ("[get]\n--help\n", &["line 2: --help has a meaning on the command line alone"]),
        ("[get]\n--no-config\n", &["line 2: --no-config has a meaning on the command line alone"]),
        ("--version\n", &["line 1: --version has a meaning on the command line alone"]),
        ("[peer]\n", &["line 1: unknown section [peer]"]),
        ("[help]\n", &["line 1: unknown section [help]"]),
        ("[get]\n--a\u{1b}b\n", &["line 2: unknown flag --a\\u{1b}b"]),
        ("[get]\n--lanes\n", &["line 2: --lanes needs a value: --lanes=VALUE"]),
        ("[get]\n-c\n", &["line 2: -c needs a value: -c=VALUE"]),
        ("[get]\n--insecure=1\n", &["line 2: --insecure takes no value; write it alone"]),
        ("[get]\n--insecure # always\n", &["line 2: --insecure takes no value", "a comment on another line"]),
        ("[get]\n-kq\n", &["line 2: -k takes no value"]),
        ("[get]\n--verbose=256\n", &["line 2: --verbose takes no value"]),
        (
            "[get]\n\n--lanes=65\n",
            &["line 3: invalid value for --lanes: expected a number of connections from 1 to 64"],
        ),
        ("[get]\n--limit-rate=10x\n", &["line 2: invalid value for --limit-rate: invalid rate '10x'"]),
        ("[get]\n--limit-rate=1M # cap\n", &["line 2: invalid value for --limit-rate", "on another line"]),
        (
            "[get]\n--http2\n--http1.1\n",
            &["line 3: --http1.1 cannot be used with --http2 of line 2; remove one of them"],
        ),
        ("[get]\nhttp://h/x\n", &["line 2: URLs stay on the command line"]),
        ("[get]\n--user=\"me:XYZ\n", &["line 2: a quoted value ends the line"]),
        ("[get\n", &["line 1: ", no_flag]),
        ("= 4\n", &["line 1: ", no_flag]),
    ] {
        let run = weir(&with(text), &["get", "http://127.0.0.1:9/"]);
        run.fails(2, &["weir: ", ".config/weir/config, "]).says(texts).hides("XYZ");
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
    let run = weir(&with("[lab shell]\n--fidelity=high\n"), &["lab", "shell", "--", "true"]);
    run.fails(2, &["line 2: invalid value for --fidelity: expected one of packet, gso"]);
    // Another command's values are not its business; its names are, else nobody would see that they do
    // nothing.
    weir(&with("[get]\n--lanes=65\n"), &["plan", "--codec-table", "figures.csv", "--link", "1Gbit"])
        .succeeds();
}

#[test]
fn letters_and_optional_values_are_taken_too() {
    // ssh's flags have no long name.
    let sandbox = with("[cp]\n-S ./ssh\n-o Port=1\n-o=-x=y\n-Jgate\n");
    let ssh = place(&sandbox, "ssh", "#!/bin/sh\nexec echo \"$@\" >words\n");
    fs::set_permissions(ssh, fs::Permissions::from_mode(0o700)).unwrap();
    sandbox.write("a", "a");
    weir(&sandbox, &["cp", "a", "far:b", "-o", "User=me"]).exits(1);
    let words = String::from_utf8(sandbox.read("words")).unwrap();
    assert!(words.contains(" -o Port=1 -o -x=y -o User=me -J gate -- far "), "{words}");
    let run = weir(&with("[serve]\n--bench=:x\n"), &["serve", "."]);
    run.fails(2, &["line 2: invalid value for --bench"]);
    let run = weir(&with("[serve]\n--bench\n--listen=:x\n"), &["serve", "."]);
    run.fails(2, &["line 3: invalid value for --listen"]);
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_one_that_is_absent_is_not() {
    let get = ["plan", "--codec-table", "figures.csv", "--link", "1Gbit"];
    let sandbox = with("");
    fs::remove_file(sandbox.path(CONFIG)).unwrap();
    weir(&sandbox, &get).succeeds();
    fs::create_dir(sandbox.path(CONFIG)).unwrap();
    let way_out = "name none by --no-config or WEIR_CONFIG";
    weir(&sandbox, &get).fails(2, &["cannot read ", "config: it is not a regular file", way_out]);
    weir(&with(&"# a comment\n".repeat(6000)), &get).fails(2, &["it is larger than 64 KiB"]);
    weir(&with(&"# a comment\n".repeat(5000)), &get).succeeds();
    let sandbox = with("");
    sandbox.write(CONFIG, b"[get]\n# caf\xe9\n");
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
    let broken = with("?");
    let get = ["plan", "--codec-table", "figures.csv", "--link", "1Gbit"];
    weir(&broken, &get).fails(2, &["line 1"]);
    broken.weir(WEIR, get).env("WEIR_CONFIG", "").run().succeeds();
    for words in
        [["--no-config"].iter().chain(&get).collect::<Vec<_>>(), get.iter().chain(&["--no-config"]).collect()]
    {
        broken.weir(WEIR, words).run().succeeds();
    }
    place(&broken, "x/weir/config", "[plan]\nlink = 1x\n");
    let run = broken.weir(WEIR, &get[..3]).env("XDG_CONFIG_HOME", broken.path("x")).run();
    run.fails(2, &["x/weir/config, line 2: invalid value for --link"]);
    broken.weir(WEIR, get).env("XDG_CONFIG_HOME", broken.path("x")).run().succeeds();
    broken.weir(WEIR, get).env("XDG_CONFIG_HOME", "x").run().fails(2, &[".config/weir/config, line 1"]);
    let other = place(&broken, "weirrc", "[plan]\n--link=2x\n");
    broken.weir(WEIR, &get[..3]).env("WEIR_CONFIG", other).run().fails(2, &["weirrc, line 2"]);
    let server = server();
    weir(&broken, &["--no-config", &server.url("a")]).succeeds();
    assert_eq!(broken.read("a"), b"the bytes");
}

#[test]
fn help_and_what_has_no_flags_do_not_read_it() {
    let sandbox = with("?");
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
    assert!(text.contains("~/.config/weir/config ") && text.contains("--no-config"), "{text}");
    weir(&sandbox, &["man", "pages"]).succeeds();
    let page = String::from_utf8(sandbox.read("pages/weir.1")).unwrap();
    assert!(page.contains("/weir/config ") || page.contains("/weir/config\n"), "{page}");
}

/// What earlier versions wrote keeps its meaning.
#[test]
fn the_old_form_is_read_and_said_to_be_old() {
    let server = server();
    let old = "output = 'far/'\n[get]\noutput = \"there/\"\nheader = ['X-One: 1', # one\n  'X-Two: 2']\n\
               insecure = false\nretries = 3\nverbose = false\n[bench.net]\nparallel = 4\n['bench net']\nomit = 0x1\n";
    let sandbox = Sandbox::new();
    place(&sandbox, OLD, old);
    let note = "config.toml has the old form, which is still read; write its flags into ";
    let run = weir(&sandbox, &["get", &server.url("a")]);
    run.succeeds().says(&["weir: note: ", note]);
    assert_eq!(run.stderr.matches("old form").count(), 1, "{}", run.stderr);
    // A list is replaced as a whole.
    let run = weir(&sandbox, &["get", &server.url("b"), "-o", "here", "-H", "X-One: one", "-q"]);
    assert_eq!(run.succeeds().stderr, "");
    assert_eq!(
        (sandbox.read("there/a"), sandbox.read("here")),
        (b"the bytes".to_vec(), b"the bytes".to_vec())
    );
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(fields(&server, "x-one"), [text("1"), text("one")]);
    assert_eq!(fields(&server, "x-two"), [text("2"), None]);
    for (text, texts) in [
        ("[get]\nlanse = 4\n", &["line 2: unknown flag --lanse for weir get; the nearest is --lanes"][..]),
        ("\n\n[gte]\nlanes = 4\n", &["line 3: unknown section [gte]; weir has get"]),
        ("[get]\nlanes = true\n", &["line 2: --lanes needs a value"]),
        ("[get]\ninsecure = 1\n", &["line 2: --insecure takes no value"]),
        (
            "[get]\nheader = [['a']]\n",
            &["line 2: 'header' is a text, a number, true, false or a list of texts"],
        ),
        ("[get]\nlanes = 65\n", &["line 2: invalid value for --lanes"]),
        ("[get]\nlanes 4\n", &["line 2: "]),
        ("[get]\nlanes = 4\nlanes = 5\n", &["line 3: duplicate key"]),
    ] {
        place(&sandbox, OLD, text);
        weir(&sandbox, &["get", &server.url("a")]).fails(2, &["config/weir/config.toml, "]).says(texts);
    }
    // By the variable too; and the new file takes its place.
    let named = place(&sandbox, "mine.toml", "[get]\noutput = 'named/'\n");
    sandbox
        .weir(WEIR, ["get", &server.url("a")])
        .env("WEIR_CONFIG", named)
        .run()
        .succeeds()
        .says(&["mine.toml has the"]);
    assert_eq!(sandbox.read("named/a"), b"the bytes");
    place(&sandbox, CONFIG, "[get]\n--output=new/\n");
    let run = weir(&sandbox, &["get", &server.url("a")]);
    assert!(!run.succeeds().stderr.contains("old form"), "{}", run.stderr);
    assert_eq!(sandbox.read("new/a"), b"the bytes");
}

/// Each download would fail, if the file were read again for it.
const SPOILT: &str =
    "[get]\n--checksum=sha256:0000000000000000000000000000000000000000000000000000000000000000\n";

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
    let sandbox = with("[get]\n--proxy=http://127.0.0.1:9\n--retries=1\n");
    let get = ["get", "http://host.invalid/a"];
    weir(&sandbox, &get).fails(1, &["127.0.0.1:9"]);
    let proxy = format!("http://{}", server.address());
    sandbox.weir(WEIR, get).env("http_proxy", proxy).run().succeeds();
    let server = Server::start_tls(|_, wire| wire.answer("200 OK", &[], b"the bytes"));
    let sandbox = with("[get]\n--cacert=none.pem\n--retries=1\n");
    let get = ["get", &server.url("b")];
    weir(&sandbox, &get).fails(1, &["none.pem"]);
    let trusted = sandbox.write("trusted.pem", server.certificate());
    sandbox.weir(WEIR, get).env("SSL_CERT_FILE", trusted).run().succeeds();
}

#[test]
fn a_secret_that_others_can_read_is_told() {
    let server = server();
    for (file, secret) in [
        ("[get]\n--header=Authorization: Bearer XYZ\n", "--header"),
        ("[get]\n-H \"Authorization: Bearer XYZ\"\n", "-H"),
        ("[get]\nuser = me:XYZ\n", "--user"),
        ("[get]\n-b a=XYZ\n", "-b"),
        ("[bench http]\n--header=A: XYZ\n", "--header"),
        ("[get]\n--proxy=http://me:XYZ@127.0.0.1:9\n", "--proxy"),
    ] {
        let sandbox = with(file);
        let path = sandbox.path(CONFIG);
        let get = ["get", &server.url("a"), "--proxy", ""];
        let run = weir(&sandbox, &get);
        run.succeeds().hides("XYZ");
        assert!(!run.stderr.contains("read by others"), "{}", run.stderr);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let run = weir(&sandbox, &get);
        let told = format!("holds {secret} and can be read by others: chmod 600 ");
        run.succeeds().says(&[&told]).hides("XYZ");
        let run = weir(&sandbox, &[&get[..], &["-q"]].concat());
        assert_eq!(run.succeeds().stderr, "");
    }
    let sandbox = with("[get]\n--output=there/\n[cp]\n-u\n[bench net]\n-b 10M\n");
    fs::set_permissions(sandbox.path(CONFIG), fs::Permissions::from_mode(0o644)).unwrap();
    let run = weir(&sandbox, &["get", &server.url("a")]);
    assert!(!run.succeeds().stderr.contains("others"), "{}", run.stderr);
}
