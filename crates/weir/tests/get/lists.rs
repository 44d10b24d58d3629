//! Lists as people write them: names that are equal, lines that are there twice, remarks, one bad line among
//! good ones.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use support::{Sandbox, Server, WEIR, base64, wait_for};

/// Answers each path with itself.
fn echo() -> Server {
    Server::start(|request, wire| wire.answer("200 OK", &[], request.target.as_bytes()))
}

#[test]
fn a_line_that_is_there_twice_is_fetched_once() {
    let server = echo();
    let sandbox = Sandbox::new();
    let (a, b) = (server.url("a"), server.url("b"));
    sandbox.write("list", format!("{a}\n{b}\n{a}\n{a}#part\n{b}\tsecond\n{b}\tsecond\n"));
    let run = sandbox.get(["-i", "list", "-o", "in/", &a]).run();
    run.succeeds().says(&["/a is named twice; it is fetched once"]);
    assert_eq!(sandbox.names(), ["in/", "in/a", "in/b", "in/second", "list"]);
    assert_eq!(server.requests().len(), 3);
}

/// A server that breaks off each third answer of a connection: what was cut comes as the first of a new one.
#[test]
fn what_was_cut_comes_over_a_new_connection() {
    let answers: Mutex<BTreeMap<usize, usize>> = Mutex::default();
    let server = Server::start(move |request, wire| {
        let mut counts = answers.lock().unwrap();
        let count = counts.entry(request.connection).or_default();
        *count += 1;
        let is_third = count.is_multiple_of(3);
        drop(counts);
        if !is_third {
            return wire.answer("200 OK", &[], request.target.as_bytes());
        }
        wire.head("200 OK", &[("Content-Length", request.target.len())])?;
        wire.body(&request.target.as_bytes()[..1])?;
        wire.close()
    });
    let sandbox = Sandbox::new();
    let urls: Vec<String> = (0..60).map(|number| server.url(&format!("f{number}"))).collect();
    sandbox.get(&urls).args(&["-o", "in/", "--retries", "1"]).run().succeeds();
    for number in 0..60 {
        assert_eq!(sandbox.read(&format!("in/f{number}")), format!("/f{number}").as_bytes());
    }
}

#[test]
fn equal_names_get_a_number() {
    let server = echo();
    let sandbox = Sandbox::new();
    let urls = ["1/x.bin", "2/x.bin", "3/x.bin", "4/x.bin.1"].map(|path| server.url(path));
    for _ in 0..2 {
        // The same in each run.
        sandbox.get(&urls).run().succeeds();
        assert_eq!(sandbox.names(), ["x.bin", "x.bin.1", "x.bin.1.1", "x.bin.2"]);
        assert_eq!(sandbox.read("x.bin"), b"/1/x.bin");
        assert_eq!(sandbox.read("x.bin.1"), b"/2/x.bin");
        assert_eq!(sandbox.read("x.bin.2"), b"/3/x.bin");
        assert_eq!(sandbox.read("x.bin.1.1"), b"/4/x.bin.1");
    }
    let list = format!("{}\tsame\n{}\tsame\n", urls[0], urls[1]);
    sandbox.get(["-i", "-", "-o", "in/"]).input(list).run().succeeds();
    assert_eq!(sandbox.read("in/same.1"), b"/2/x.bin");
}

#[test]
fn names_that_the_server_gives_count_too() {
    let server = Server::start(|request, wire| {
        let fields = [("Content-Disposition", "attachment; filename=\"same.bin\"")];
        wire.answer("200 OK", &fields, request.target.as_bytes())
    });
    let sandbox = Sandbox::new();
    // By their URLs they would be called alike as well.
    let urls = ["get?1", "get?2", "other?3"].map(|path| server.url(path));
    sandbox.get(&urls).args(&["-j", "1"]).run().succeeds();
    assert_eq!(sandbox.names(), ["same.bin", "same.bin.1", "same.bin.2"]);
    let mut bodies: Vec<_> = sandbox.names().iter().map(|name| sandbox.read(name)).collect();
    bodies.sort();
    assert_eq!(bodies, [b"/get?1".to_vec(), b"/get?2".to_vec(), b"/other?3".to_vec()]);
}

#[test]
fn equal_names_get_their_folders() {
    let (server, other) = (echo(), echo());
    let sandbox = Sandbox::new();
    let urls =
        [server.url("1/x"), server.url("2/x"), server.url("2/..%2f..%2fx"), other.url("1/x"), server.url("")];
    sandbox.get(&urls).args(&["-x", "-o", "in/"]).run().succeeds();
    let (here, there) = (server.address(), other.address());
    let mut names = vec!["in/".to_owned()];
    for folder in [format!("in/{here}/"), format!("in/{there}/")] {
        names.push(folder.clone());
        names.push(format!("{folder}1/"));
        names.push(format!("{folder}1/x"));
    }
    for name in ["2/", "2/x", "2/x.1", "index.html"] {
        names.push(format!("in/{here}/{name}"));
    }
    names.sort();
    assert_eq!(sandbox.names(), names);
    sandbox.get([&*urls[0], "-x", "-o", "file"]).run().fails(2, &["-x makes folders"]);
    sandbox.get([&*urls[0], "-x", "-o", "-"]).run().fails(2, &["-x makes folders"]);
}

#[test]
fn one_bad_line_costs_that_line() {
    let server = echo();
    let sandbox = Sandbox::new();
    let lines = [
        server.url("a").into_bytes(),
        b"ftp://h/x".to_vec(),
        b"http://h/a name".to_vec(),
        b"  out=x".to_vec(),
        b"http://h/\xff\xfe".to_vec(),
        format!("{}\t../out", server.url("b")).into_bytes(),
        b"http://h/\x01".to_vec(),
        server.url("c").into_bytes(),
    ];
    sandbox.write("list", lines.join(&b'\n'));
    let run = sandbox.get(["-i", "list", "-o", "in/"]).run();
    run.fails(
        1,
        &["list, line 2: ", "weir speaks http and https", "list, line 3: ", "a TAB", "list, line 4: "],
    );
    assert_eq!(sandbox.names(), ["in/", "in/a", "in/c", "list"]);
    let record = sandbox.get(["-i", "list", "-o", "in/", "--json"]).run().json();
    let files = record["files"].as_array().unwrap();
    let failed: Vec<_> = files
        .iter()
        .filter(|file| !file["error"].is_null())
        .filter_map(|file| file["url"].as_str())
        .collect();
    let expected: Vec<String> = (2..=7).map(|number| format!("list, line {number}")).collect();
    assert_eq!(failed, expected);
    assert_eq!(record["outcome"], "failed");
    // Where no line is good there is nothing to do.
    sandbox.write("list", lines[1..7].join(&b'\n'));
    sandbox.get(["-i", "list", "-o", "in/"]).run().fails(2, &["list, line 1: "]);
}

/// A name with a `/` at its end is a folder's: the file in it is called as the server or the URL has it.
#[test]
fn a_folder_for_each_line() {
    let server = echo();
    let sandbox = Sandbox::new();
    let [a, b, c] = ["a", "1/b", "2/b"].map(|path| server.url(path));
    let list = format!("{a}\tone/\n{b}\tone/two/\n  {c}\tone/two/\n{a}\n");
    sandbox.get(["-i", "-", "-o", "in/"]).input(list).run().succeeds();
    let names = ["in/", "in/a", "in/one/", "in/one/a", "in/one/two/", "in/one/two/b", "in/one/two/b.1"];
    assert_eq!(sandbox.names(), names);
    assert_eq!(sandbox.read("in/one/two/b.1"), b"/2/b");
}

#[test]
fn lists_in_the_form_of_others_are_recognised() {
    let server = echo();
    let sandbox = Sandbox::new();
    let url = server.url("a");
    for (line, says) in [
        (format!("{url}\t{url}"), "list, line 1: behind the TAB stands a url"),
        (format!("<a href=\"{url}\">a</a>"), "list, line 1: a web page, XML or a metalink is no list"),
        (format!("\"{url}\""), "list, line 1: a url stands without quotes"),
        (format!("url = \"{url}\""), "list, line 1: it is a line of curl's --config"),
        ("/file".to_owned(), "list, line 1: invalid url '/file': expected https://HOST/FILE"),
    ] {
        sandbox.write("list", line);
        sandbox.get(["-i", "list"]).run().fails(2, &[says]);
    }
    assert_eq!(sandbox.names(), ["list"]);
    assert!(server.requests().is_empty());
}

#[test]
fn remarks_behind_a_url() {
    let server = echo();
    let sandbox = Sandbox::new();
    let url = |name: &str| server.url(name);
    sandbox.write(
        "list",
        format!(
            "{} # one\n{}\t# two\n  # three\n{}\tTrack #3\n{}#part\n",
            url("a"),
            url("b"),
            url("c"),
            url("d")
        ),
    );
    sandbox.get(["-i", "list", "-o", "in/"]).run().succeeds();
    assert_eq!(sandbox.names(), ["in/", "in/Track #3", "in/a", "in/b", "in/d", "list"]);
}

/// An editor's mark in front costs nothing, a line in another coding costs that line, of all files that
/// people write.
#[test]
fn a_mark_in_front_and_a_line_in_another_coding() {
    let server = echo();
    let sandbox = Sandbox::new();
    let list = format!("\u{feff}{}\n{}\n", server.url("a"), server.url("b"));
    let with_odd = |text: &str, odd: &[u8]| [text.as_bytes(), odd].concat();
    sandbox.write("list", with_odd(&list, format!("{}\n", server.url("caf")).as_bytes()));
    sandbox.get(["-i", "list", "-o", "in/"]).run().succeeds();
    sandbox.write("list", with_odd(&list, b"http://h/caf\xe9\n"));
    sandbox.get(["-i", "list", "-o", "in/"]).run().fails(1, &["list, line 3: it is not UTF-8 text"]);
    assert_eq!(sandbox.names(), ["in/", "in/a", "in/b", "in/caf", "list"]);
    let entry = "\u{feff}machine 127.0.0.1 login me password geheim\n";
    let netrc = sandbox.write("netrc", with_odd(entry, b"machine other login caf\xe9 password x\n"));
    sandbox.get([&server.url("a"), "--netrc-file", netrc.to_str().unwrap()]).run().succeeds();
    let asked = server.requests().last().unwrap().request.clone();
    assert_eq!(asked.field("authorization"), Some(&*format!("Basic {}", base64(b"me:geheim"))));
    let cookies = "\u{feff}# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t0\tid\t7\n";
    sandbox.write("cookies", with_odd(cookies, b"127.0.0.1\tFALSE\t/\tFALSE\t0\todd\tcaf\xe9\n"));
    let run = sandbox.get([&server.url("a"), "--load-cookies", "cookies"]).run();
    run.succeeds().says(&["cookies: no cookie in line 3"]);
    assert_eq!(server.requests().last().unwrap().request.field("cookie"), Some("id=7"));
}

/// Entries as people and other programs write them.
#[test]
fn entries_of_netrc_that_are_not_of_the_book() {
    let server = echo();
    let sandbox = Sandbox::new();
    for other in [
        "macdef test\n\tbin\n\tcd default\n\tcd login\n\tput login.bin\n\n",
        "machine api.test\n  login me\n  password x\n  method interactive\n",
        "machine only.test\n  login me\n",
        "machine token.test password x\n",
    ] {
        let netrc = sandbox.write("netrc", format!("{other}machine 127.0.0.1 login me password a#\"b\n"));
        sandbox.get([&server.url("a"), "--netrc-file", netrc.to_str().unwrap()]).run().succeeds();
        let asked = server.requests().last().unwrap().request.clone();
        assert_eq!(asked.field("authorization"), Some(&*format!("Basic {}", base64(b"me:a#\"b"))), "{other}");
    }
}

#[test]
fn one_odd_entry_of_netrc_costs_that_entry() {
    let server = echo();
    let sandbox = Sandbox::new();
    for odd in
        ["machine other login me password one two\n", "machine other password \"open\n", "login early\n"]
    {
        let netrc = sandbox.write("netrc", format!("{odd}machine 127.0.0.1 login me password geheim\n"));
        let run = sandbox.get([&server.url("a")]).env("NETRC", netrc.to_str().unwrap()).run();
        run.succeeds().says(&["an entry of ", "/netrc is passed over: netrc line 1"]).hides("geheim");
        let asked = server.requests().last().unwrap().request.clone();
        assert_eq!(asked.field("authorization"), Some(&*format!("Basic {}", base64(b"me:geheim"))), "{odd}");
    }
}

/// The journal of a list in `in/`, where there is one.
fn journal_in(sandbox: &Sandbox) -> Option<String> {
    let is_one = |name: &String| name.starts_with("in/list-") && name.ends_with(".weir");
    sandbox.names().into_iter().find(is_one)
}

/// How many files the journal names.
fn journalled(sandbox: &Sandbox) -> usize {
    let text = journal_in(sandbox).map(|name| sandbox.read(&name)).unwrap_or_default();
    // The last line may be there in part.
    let is_file = |line: &&str| line.get(8..).is_some_and(|rest| rest.starts_with(" file "));
    String::from_utf8_lossy(&text).lines().filter(is_file).count()
}

/// Answers each path with itself, but only so many of them until it is told to go on.
fn pausing(most: usize) -> (Server, Arc<AtomicBool>) {
    let (go_on, answered) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
    let told = Arc::clone(&go_on);
    let server = Server::start(move |request, wire| {
        if answered.fetch_add(1, Relaxed) >= most && !told.load(Relaxed) {
            return wire.wait_for_close();
        }
        wire.answer("200 OK", &[], request.target.as_bytes())
    });
    (server, go_on)
}

fn list_of(server: &Server, count: usize) -> String {
    (0..count).map(|number| server.url(&format!("{number}")) + "\n").collect()
}

/// Every request is for a file that was not there, and all files are right in the end.
#[test]
fn a_killed_list_goes_on_where_it_was() {
    const ALL: usize = 300;
    const FIRST: usize = 120;
    let (server, go_on) = pausing(FIRST);
    let sandbox = Sandbox::new();
    sandbox.write("list", list_of(&server, ALL));
    let running = sandbox.get(["-i", "list", "-o", "in/"]).spawn();
    wait_for("the files that the server gives", || journalled(&sandbox) == FIRST);
    running.signal(Signal::KILL);
    running.wait();
    let here: Vec<String> = sandbox.names().into_iter().filter(|name| name != "list").collect();
    assert_eq!(here.len(), FIRST + 2, "the folder, its files and the journal");
    // One that is gone and one that is not what it was are asked for again.
    let complete: Vec<String> =
        here.iter().filter(|name| name.len() > 3 && !name.ends_with(".weir")).cloned().collect();
    std::fs::remove_file(sandbox.path(&complete[0])).unwrap();
    sandbox.write(&complete[1], "another size");
    let (asked, kept) = (server.requests().len(), &complete[2..]);
    go_on.store(true, Relaxed);
    let run = sandbox.get(["-i", "list", "-o", "in/", "--json"]).run();
    run.succeeds().says(&["120 of 300 files are complete since an earlier run", "--force fetches all"]);
    let record = run.json();
    assert_eq!(record["counts"]["complete"], ALL);
    assert_eq!(record["counts"]["earlier"], FIRST - 2);
    assert!(record["resumed"].as_u64().unwrap() > 0);
    let again: HashSet<String> =
        server.requests_from(asked).iter().map(|request| format!("in{}", request.path())).collect();
    assert_eq!(again.len(), ALL - (FIRST - 2));
    assert!(kept.iter().all(|name| !again.contains(name)));
    for number in 0..ALL {
        assert_eq!(sandbox.read(&format!("in/{number}")), format!("/{number}").as_bytes());
    }
    assert_eq!(journal_in(&sandbox), None, "nothing is left of a list that is complete");
    // Another run is a run of its own. What the killed one had asked for last may have been counted late.
    let before = server.requests().len();
    sandbox.get(["-i", "list", "-o", "in/"]).run().succeeds();
    assert_eq!(server.requests().len(), before + ALL);
}

#[test]
fn a_journal_is_of_one_list_and_of_this_user() {
    const FIRST: usize = 20;
    let (server, go_on) = pausing(FIRST);
    let sandbox = Sandbox::new();
    let list = list_of(&server, 40);
    sandbox.write("list", &list);
    let running = sandbox.get(["-i", "list", "-o", "in/"]).spawn();
    wait_for("the files that the server gives", || journalled(&sandbox) == FIRST);
    running.signal(Signal::KILL);
    running.wait();
    go_on.store(true, Relaxed);
    let journal = journal_in(&sandbox).unwrap();
    let text = sandbox.read(&journal);
    let asked = |args: &[&str]| {
        let before = server.requests().len();
        sandbox.get(["-i", "list", "-o", "in/"]).args(args).run().succeeds();
        server.requests().len() - before
    };
    // Another list, and the same one with a range: nothing of it counts.
    sandbox.write("list", format!("{list}\n# a remark\n"));
    assert_eq!(asked(&[]), 40);
    assert_eq!(sandbox.read(&journal), text, "it is not theirs");
    sandbox.write("list", &list);
    let before = server.requests().len();
    sandbox.get(["-i", "list", "-o", "in/", "-r", "0-0"]).run().exits(1);
    assert_eq!(server.requests().len() - before, 40);
    // What the options say of all files holds for those too.
    assert_eq!(asked(&["--force"]), 40);
    assert_eq!(journal_in(&sandbox), None);
    // One that others could have written is put aside.
    sandbox.write(&journal, &text);
    std::fs::set_permissions(sandbox.path(&journal), PermissionsExt::from_mode(0o666)).unwrap();
    assert_eq!(asked(&[]), 40);
    assert_eq!(sandbox.read(&format!("{journal}.aside-1")), text);
    sandbox.write(&journal, &text);
    std::fs::set_permissions(sandbox.path(&journal), PermissionsExt::from_mode(0o600)).unwrap();
    // -N asks for each; --no-clobber needs to ask for none.
    sandbox.get(["-i", "list", "-o", "in/", "--no-clobber"]).run().succeeds();
    assert_eq!(asked(&["-N"]), 40);
}

/// What failed is asked for again, nothing else; and a line of the list cannot take the journal's name.
#[test]
fn a_list_that_failed_in_part_is_completed() {
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let server = Server::start(move |request, wire| match request.path() {
        "/3" | "/7" if is_broken.load(Relaxed) => wire.answer("404 Not Found", &[], b""),
        _ => wire.answer(
            "200 OK",
            &[("Content-Disposition", "attachment; filename=same")],
            request.target.as_bytes(),
        ),
    });
    let sandbox = Sandbox::new();
    sandbox.write("list", list_of(&server, 20) + "ftp://h/x\n");
    let run = sandbox.get(["-i", "list", "-o", "in/", "--json"]).run();
    run.exits(1);
    let counts = run.json()["counts"].clone();
    for (name, count) in [("files", 20), ("complete", 18), ("failed", 2), ("bad_lines", 1), ("not_begun", 0)]
    {
        assert_eq!(counts[name], count, "{counts}");
    }
    let before = server.requests().len();
    broken.store(false, Relaxed);
    sandbox.get(["-i", "list", "-o", "in/"]).run().exits(1).says(&["list, line 21: "]);
    assert_eq!(server.requests().len(), before + 2);
    let mut bodies: Vec<_> = sandbox
        .names()
        .iter()
        .filter(|name| name.starts_with("in/same"))
        .map(|name| sandbox.read(name))
        .collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 20, "no file became another's, under names that the server chose");
    assert_eq!(journal_in(&sandbox), None, "a bad line would stay bad");
}

#[test]
fn a_line_of_json_for_each_file() {
    let server = Server::start(|request, wire| match request.path() {
        "/2" => wire.answer("404 Not Found", &[], b""),
        _ => wire.answer("200 OK", &[], request.target.as_bytes()),
    });
    let sandbox = Sandbox::new();
    sandbox.write("list", list_of(&server, 5) + "ftp://h/x\n");
    let told = |text: &[u8]| -> BTreeMap<String, String> {
        let lines = String::from_utf8_lossy(text);
        let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.map(|line| (line["url"].to_string(), line["outcome"].as_str().unwrap().to_owned())).collect()
    };
    let run = sandbox.get(["-i", "list", "-o", "in/", "--json-files", "-"]).run();
    run.exits(1);
    let mut expected: BTreeMap<String, String> = (0..5)
        .map(|number| (format!("{:?}", server.url(&format!("{number}"))), "complete".to_owned()))
        .collect();
    expected.insert(format!("{:?}", server.url("2")), "failed".to_owned());
    expected.insert("\"list, line 6\"".to_owned(), "bad-line".to_owned());
    assert_eq!(told(&run.stdout), expected);
    let run = sandbox.get(["-i", "list", "-o", "in/", "--json-files", "lines", "--json"]).run();
    assert_eq!(run.json()["counts"]["files"], 5);
    assert_eq!(told(&sandbox.read("lines")), expected);
    for (args, says) in [
        (&["--json-files", "-", "--json"][..], "--json-files - and --json both want stdout"),
        (&["--json-files", "-", "-o", "-"], "--json-files - and -o - both want stdout"),
    ] {
        sandbox.get([&server.url("0")]).args(args).run().fails(2, &[says]);
    }
    let run = sandbox.get([&server.url("0"), "-o", "x", "--json-files", "none/lines"]).run();
    run.fails(1, &["cannot write none/lines"]);
    let run = sandbox.get([&server.url("0"), "-o", "x", "--json-files", "/dev/full"]).run();
    run.fails(1, &["cannot write /dev/full: no space left on device; the files are fetched"]);
    assert!(!run.stderr.contains("os error") && !run.stderr.contains("full: cannot"), "{}", run.stderr);
}

/// Fewer connections are enough; a file for which there is no descriptor would be lost.
#[test]
fn a_list_is_fetched_with_few_descriptors() {
    let (server, sandbox) = (echo(), Sandbox::new());
    sandbox.write("list", list_of(&server, 200));
    for (limit, most, jobs) in [(48, 3, ""), (48, 3, "-j 32"), (32, 1, "-j 32")] {
        let script = format!("ulimit -n {limit} && exec {WEIR} get -i list -o in/ --force {jobs}");
        let run = sandbox.weir("sh", ["-c", &script]).run();
        run.succeeds();
        assert_eq!(std::fs::read_dir(sandbox.path("in")).unwrap().count(), 200);
        let says =
            format!("{most} connections instead of 32: this process may open no more than {limit} files");
        assert_eq!(run.stderr.contains(&says), !jobs.is_empty(), "{}", run.stderr);
    }
}

/// Answers without a log: `/good/` with two bytes, the rest with 404.
fn quick_server() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, answered) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&answered);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), count) = (stream, Arc::clone(&count)) else { return };
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let mut is_good = false;
                while let Some(Ok(line)) = lines.next() {
                    is_good |= line.starts_with("GET /good/");
                    if line.is_empty() {
                        let answer = match std::mem::take(&mut is_good) {
                            true => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                            false => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                        };
                        count.fetch_add(1, Relaxed);
                        if stream.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (address, answered)
}

/// Lines of the long list. `WEIR_SOAK=34` makes ten millions of it, and takes minutes.
fn many_lines() -> usize {
    let soak = std::env::var("WEIR_SOAK").map_or(1, |text| text.parse().expect("a number"));
    300_000 * soak
}

/// Three hundred thousand lines out of a pipe: as much memory as its window, names as they must be, and a
/// record that stays small.
#[test]
fn a_long_list_takes_no_more_memory_than_a_short_one() {
    const ANSWERED: usize = 30_000;
    let lines = many_lines();
    let (address, answered) = quick_server();
    let sandbox = Sandbox::new();
    let good = ["a/x.bin", "b/x.bin", "a/x.bin", "c/x.bin.1", "d/x.bin"];
    let mut list = String::new();
    for path in good {
        writeln!(list, "http://{address}/good/{path}").unwrap();
    }
    list.push_str("no:url\n");
    let (read, write) = std::io::pipe().unwrap();
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut write = BufWriter::new(write);
        write.write_all(list.as_bytes())?;
        (0..lines).try_for_each(|number| writeln!(write, "http://{address}/{}/{number}.bin", number % 1000))
    });
    let mut weir = sandbox.get(["-i", "-", "-o", "in/", "--json", "-q"]);
    weir.command.stdin(read);
    let running = weir.spawn();
    wait_for("most of the first answers", || answered.load(Relaxed) >= ANSWERED);
    running.signal(Signal::INT);
    let run = running.wait();
    let record = run.exits(130).json();
    let (counts, number) =
        (&record["counts"], |name: &str| record["counts"][name].as_u64().unwrap() as usize);
    assert_eq!(number("files"), lines + good.len() - 1, "{counts}");
    assert_eq!((number("complete"), number("bad_lines")), (4, 1), "{counts}");
    // Each of what is not there is asked for twice, the second time without a range.
    assert!(number("failed") > ANSWERED / 3 && number("not_begun") > lines / 2, "{counts}");
    let ended = number("complete") + number("failed") + number("not_begun");
    assert_eq!(ended, number("files"), "{counts}");
    let told = record["files"].as_array().unwrap().iter();
    assert!(told.filter(|file| file["error"] == "interrupted").count() <= 64);
    assert!(record["files"].as_array().unwrap().len() <= 1200);
    // A name that a line has is that line's; the others get the number of files of theirs before them.
    let names: Vec<String> = sandbox.names().into_iter().filter(|name| name.starts_with("in/x")).collect();
    assert_eq!(
        names,
        ["in/x.bin", "in/x.bin.1", "in/x.bin.2", &format!("in/x.bin.{}", 1 + lines + good.len())]
    );
    let peak = record["peak_memory"].as_u64().unwrap();
    println!("{lines} lines, {peak} bytes of memory");
    assert!(peak < 96 << 20, "{peak} bytes");
}

/// As if one stood behind the other; a line is named by its own list.
#[test]
fn several_lists_are_fetched() {
    let (server, sandbox) = (echo(), Sandbox::new());
    let [a, b, c] = ["a", "b", "c"].map(|name| server.url(name));
    sandbox.write("one", format!("{a}\n{b}\n"));
    sandbox.write("two", format!("{b}\nno:url\n{c}"));
    let run = sandbox.get(["-i", "one", "-i", "two", "-o", "in/"]).run();
    run.fails(1, &["two, line 2: ", "/b is named twice; it is fetched once"]);
    assert_eq!(sandbox.names(), ["in/", "in/a", "in/b", "in/c", "one", "two"]);
    assert_eq!(server.requests().len(), 3);
    sandbox.get(["-i", "one", "-i", "none"]).run().fails(1, &["cannot read the list none"]);
    sandbox.write("empty", "# none\n");
    sandbox.get(["-i", "empty", "-i", "empty"]).run().fails(2, &["names no url"]);
}

/// It is of all of them.
#[test]
fn several_lists_have_one_journal() {
    const FIRST: usize = 20;
    let (server, go_on) = pausing(FIRST);
    let sandbox = Sandbox::new();
    let list = list_of(&server, 40);
    let half: usize = list.lines().take(20).map(|line| line.len() + 1).sum();
    let (one, two) = list.split_at(half);
    sandbox.write("one", one);
    sandbox.write("two", two);
    let lists = ["-i", "one", "-i", "two", "-o", "in/"];
    let running = sandbox.get(lists).spawn();
    wait_for("the files that the server gives", || journalled(&sandbox) == FIRST);
    running.signal(Signal::KILL);
    running.wait();
    go_on.store(true, Relaxed);
    let run = sandbox.get(lists).run();
    run.succeeds().says(&["20 of 40 files are complete since an earlier run"]);
    assert_eq!(journal_in(&sandbox), None);
}
