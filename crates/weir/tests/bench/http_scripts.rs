//! `weir bench http -s`: what wrk's scripts send and see, compared with wrk itself on the same recording
//! server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use support::{Run, Sandbox, TIMEOUT, WEIR, skip, wait_for};

/// Requests that a connection gets answers to; the next is recorded and left waiting, so that a run over time
/// is still a run of a known number of requests.
const ANSWERED: usize = 12;

/// Keeps what each connection asked.
struct Recorder {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Recorder {
    fn start() -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&asked);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let all = Arc::clone(&all);
                std::thread::spawn(move || record(socket, &all));
            }
        });
        Recorder { address, asked }
    }

    fn url(&self) -> String {
        format!("http://{}/path?q", self.address)
    }

    /// What each connection with at least one request asked, in an order of their contents.
    fn take(&self) -> Vec<Vec<String>> {
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.retain(|connection| !connection.is_empty());
        asked.sort();
        asked
    }
}

fn record(mut socket: TcpStream, all: &Mutex<Vec<Vec<String>>>) {
    let _ = socket.set_read_timeout(Some(TIMEOUT));
    let index = {
        let mut all = all.lock().unwrap();
        all.push(Vec::new());
        all.len() - 1
    };
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        while let Some((request, length)) = first(&bytes) {
            bytes.drain(..length);
            let asked = {
                let mut all = all.lock().unwrap();
                let Some(own) = all.get_mut(index) else { return };
                own.push(request);
                own.len()
            };
            let answer = "HTTP/1.1 200 OK\r\nX-Token: t0ken\r\nContent-Length: 5\r\n\r\nhello";
            if asked <= ANSWERED && socket.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        match socket.read(&mut piece) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&piece[..count]),
            _ => return,
        }
    }
}

/// The first whole request, its fields sorted: in which order Lua walks a table differs from state to state.
fn first(bytes: &[u8]) -> Option<(String, usize)> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut fields);
    let httparse::Status::Complete(head) = request.parse(bytes).unwrap() else { return None };
    let mut lines: Vec<String> = request
        .headers
        .iter()
        .map(|field| format!("{}: {}", field.name, String::from_utf8_lossy(field.value)))
        .collect();
    lines.sort();
    let length = request.headers.iter().find(|field| field.name == "Content-Length");
    let body = length.map_or(0, |field| String::from_utf8_lossy(field.value).parse().unwrap());
    let content = bytes.get(head..head + body)?.escape_ascii().to_string();
    let line = format!("{} {}", request.method.unwrap(), request.path.unwrap());
    Some((format!("{line} | {} | {content}", lines.join(" | ")), head + body))
}

fn script(name: &str) -> String {
    format!("{}/tests/lua/{name}.lua", env!("CARGO_MANIFEST_DIR"))
}

/// What a program asked, connection by connection, and what its script printed after `== `.
type ScriptCalls = (Vec<Vec<String>>, Vec<String>);

/// Runs wrk and weir with the script.
fn both(name: &str, threads: &str, args: &[&str]) -> Option<[ScriptCalls; 2]> {
    if !has_wrk() {
        return None;
    }
    Some(both_with(&Sandbox::new(), &script(name), threads, args))
}

fn has_wrk() -> bool {
    let is_there = Command::new("wrk").arg("-v").output().is_ok();
    if !is_there {
        skip("wrk is not installed");
    }
    is_there
}

fn both_with(sandbox: &Sandbox, file: &str, threads: &str, args: &[&str]) -> [ScriptCalls; 2] {
    let found = ["wrk", "weir"].map(|program| {
        let recorder = Recorder::start();
        // Patience beyond the run, so that the request without an answer is no failure.
        let common = ["-t", threads, "-c", threads, "-d", "1", "--timeout", "10s", "-s", file];
        let run = match program {
            "wrk" => sandbox.weir("wrk", common),
            _ => sandbox.weir(WEIR, ["bench", "http", "--format", "wrk"]).args(&common),
        };
        let run = run.args(&[&recorder.url(), "--"]).args(args).run();
        run.succeeds();
        (recorder.take(), said(&run))
    });
    // Each recorder has a port of its own.
    found.map(|(mut asked, said)| {
        for request in asked.iter_mut().flatten() {
            *request = without_ports(request);
        }
        (asked, said)
    })
}

fn said(run: &Run) -> Vec<String> {
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    text.lines().filter(|line| line.starts_with("== ")).map(str::to_owned).collect()
}

/// Both must have asked and printed the same, and each connection so many requests.
#[track_caller]
fn agree(name: &str, threads: &str, args: &[&str], requests: usize) -> Vec<String> {
    let Some([wrk, weir]) = both(name, threads, args) else { return Vec::new() };
    assert_eq!(weir, wrk, "weir first, then wrk");
    for asked in &weir.0 {
        assert_eq!(asked.len(), requests, "{asked:#?}");
    }
    weir.0.into_iter().flatten().collect()
}

fn without_ports(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut kept = parts.next().unwrap().to_owned();
    for part in parts {
        kept.push_str("127.0.0.1:PORT");
        kept.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    kept
}

#[test]
fn addr() {
    agree("addr", "1", &[], ANSWERED + 1);
}

#[test]
fn auth() {
    let asked = agree("auth", "1", &[], ANSWERED + 1);
    if let Some(second) = asked.get(1) {
        assert!(second.contains("GET /content/5") && second.contains("X-Token: t0ken"), "{second}");
    }
}

#[test]
fn counter() {
    agree("counter", "1", &[], ANSWERED + 1);
}

#[test]
fn delay() {
    agree("delay", "1", &[], ANSWERED + 1);
}

#[test]
fn pipeline() {
    // Batches of three; the fifth gets no answer.
    agree("pipeline", "1", &[], ANSWERED + 3);
}

#[test]
fn post() {
    agree("post", "1", &[], ANSWERED + 1);
}

#[test]
fn report() {
    agree("report", "1", &[], ANSWERED + 1);
}

#[test]
fn setup() {
    agree("setup", "2", &["first", "second"], ANSWERED + 1);
}

#[test]
fn stop() {
    // The first text is only counted, not sent.
    agree("stop", "1", &[], 9);
}

/// A script of `lua/kinds.lua`.
struct KindOfScript {
    name: String,
    threads: String,
    args: Vec<String>,
    /// A module of Lua that it cannot do without.
    needs: Option<String>,
    text: String,
}

fn kinds() -> Vec<KindOfScript> {
    let all = std::fs::read_to_string(script("kinds")).unwrap();
    let parts = all.split("\n--== ").skip(1);
    let kind = |part: &str| {
        let (head, text) = part.split_once('\n').unwrap();
        let mut words = head.split_whitespace();
        let name = words.next().unwrap().to_owned();
        let set: HashMap<&str, &str> = words.map(|word| word.split_once('=').unwrap()).collect();
        KindOfScript {
            name,
            threads: set.get("threads").copied().unwrap_or("1").to_owned(),
            args: set.get("args").into_iter().flat_map(|args| args.split(',')).map(str::to_owned).collect(),
            needs: set.get("needs").map(|needs| (*needs).to_owned()),
            text: text.to_owned(),
        }
    };
    parts.map(kind).collect()
}

/// Whether this machine has the module, where wrk itself finds it.
fn has_module(name: &str) -> bool {
    let file = format!("{}.so", name.replace('.', "/"));
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/local/lib", "/usr/lib"];
    folders.iter().any(|folder| Path::new(folder).join("lua/5.1").join(&file).exists())
}

/// What people write for wrk: both send the same requests, and their scripts see the same.
#[test]
fn scripts_of_every_kind_send_what_wrk_sends() {
    if !has_wrk() {
        return;
    }
    let kinds: Vec<KindOfScript> = kinds()
        .into_iter()
        .filter(|kind| {
            let missing = kind.needs.as_ref().filter(|needs| !has_module(needs));
            if let Some(needs) = missing {
                skip(&format!(
                    "{}: the Lua module {needs} is not installed (lua-socket, lua-cjson)",
                    kind.name
                ));
            }
            missing.is_none()
        })
        .collect();
    assert!(kinds.len() >= 40);
    // Each run waits most of its second: eight at a time are no load.
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let share = |part: usize| kinds.iter().skip(part).step_by(8);
        let workers: Vec<_> = (0..8)
            .map(|part| scope.spawn(move || share(part).filter_map(compared).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What weir does otherwise than wrk with the script.
fn compared(kind: &KindOfScript) -> Option<String> {
    let sandbox = Sandbox::new();
    sandbox.write("kind.lua", &kind.text);
    let args: Vec<&str> = kind.args.iter().map(String::as_str).collect();
    let [wrk, weir] = both_with(&sandbox, "kind.lua", &kind.threads, &args);
    let is_right = weir == wrk && weir.0.iter().map(Vec::len).sum::<usize>() > 1;
    (!is_right).then(|| format!("{}: weir {weir:#?}\nwrk {wrk:#?}", kind.name))
}

/// Words behind the URL are the script's, with `--` before them and without; flags have wrk's short forms.
#[test]
fn wrks_command_line_is_taken_as_it_is() {
    let (sandbox, recorder) = (Sandbox::new(), Recorder::start());
    sandbox.write("own.lua", "function init(args) wrk.path = '/' .. table.concat(args, '/') end\n");
    let url = recorder.url();
    for words in [&["a", "b"][..], &["--", "a", "b"]] {
        let args = [
            "bench", "http", "-c1", "-t1", "-n", "3", "-T", "5s", "-L", "-D", "exp", "-R", "100", "-s",
            "own.lua", &url,
        ];
        sandbox.weir(WEIR, args).args(words).run().succeeds();
        assert!(recorder.take().concat().iter().all(|asked| asked.starts_with("GET /a/b")), "{words:?}");
    }
    // By its name, too.
    std::os::unix::fs::symlink(WEIR, sandbox.path("wrk")).unwrap();
    let link = sandbox.path("wrk");
    let run = sandbox.weir(link.to_str().unwrap(), ["-c1", "-t1", "-d1s", "--latency", &url]).run();
    let said = String::from_utf8_lossy(&run.succeeds().stdout).into_owned();
    assert!(said.starts_with("Running 1s test @ ") && said.contains("Latency Distribution"), "{said}");
    let version = sandbox.weir(link.to_str().unwrap(), ["-v"]).run();
    assert!(version.succeeds().stdout.starts_with(b"weir "), "scripts ask whether it is there");
}

/// Runs a script of these lines against a server that answers.
fn run_lines(lines: &str, args: &[&str]) -> Run {
    let (sandbox, recorder) = (Sandbox::new(), Recorder::start());
    sandbox.write("own.lua", lines);
    let common = ["bench", "http", "-c", "1", "-n", "5", "-s", "own.lua"];
    sandbox.weir(WEIR, common).args(args).args(&[&recorder.url()]).run()
}

#[test]
fn errors_name_file_and_line() {
    run_lines("local a = 1\nfunction request(\n", &[]).fails(1, &["own.lua:", "expected"]);
    run_lines("x = 1\nx.y.z = 2\n", &[]).fails(1, &["own.lua:2:", "attempt to index"]);
    run_lines("function init() error('no luck') end\n", &[]).fails(1, &["own.lua:1: no luck"]);
    run_lines("local n = 0\nfunction request()\n  n = n + 1\n  if n > 3 then n = nil + 1 end\n  return wrk.format()\nend\n", &[])
        .fails(1, &["own.lua:4:", "arithmetic"]);
    run_lines("function response() nothing() end\n", &[]).fails(1, &["own.lua:1:"]);
    run_lines("function setup(t) t:set('f', print) end\n", &[])
        .fails(1, &["own.lua:1:", "cannot transfer 'function'"]);
    run_lines("function init() wrk.lookup('no.such.host.invalid', 80) end\n", &[])
        .fails(1, &["own.lua:1:", "no.such.host.invalid"]);
    run_lines("function request() return 'nonsense' end\n", &[]).fails(1, &["request at 1:"]);
    run_lines("function request() return nil end\n", &[])
        .fails(1, &["own.lua", "request() returned nil", "wrk.format(", "thread:stop()"]);
    run_lines("function request() return {} end\n", &[]).fails(1, &["request() returned table"]);
    run_lines("function done() error('at last') end\n", &[]).fails(1, &["own.lua:1: at last"]);
    let sandbox = Sandbox::new();
    sandbox
        .weir(WEIR, ["bench", "http", "-s", "none.lua", "http://127.0.0.1:9/"])
        .run()
        .fails(1, &["none.lua"]);
}

#[test]
fn what_a_script_takes_is_no_latency() {
    let slow = "function request()\n  local t = os.clock()\n  while os.clock() - t < 0.05 do end\n  return wrk.format()\nend\n";
    let run = run_lines(slow, &["--json"]);
    let record = run.succeeds().json();
    assert!(record["http"]["latency"]["min"].as_f64().unwrap() < 0.04, "{record}");
    assert!(record["seconds"].as_f64().unwrap() > 0.2, "{record}");
}

#[test]
fn an_endless_loop_is_left_behind() {
    let endless =
        "local n = 0\nfunction request()\n  n = n + 1\n  while n > 3 do end\n  return wrk.format()\nend\n";
    let (sandbox, recorder) = (Sandbox::new(), Recorder::start());
    sandbox.write("own.lua", endless);
    let args = ["bench", "http", "-c", "1", "-d", "2s", "-s", "own.lua", &recorder.url()];
    sandbox.weir(WEIR, args).run().fails(1, &["own.lua", "endless loop"]);
}

#[test]
fn an_endless_loop_ends_a_run_that_is_counted_in_requests() {
    let endless = "local n = 0\nfunction response()\n  n = n + 1\n  while n > 3 do end\nend\n";
    // So many that the fourth response comes, however many others time out.
    run_lines(endless, &["--timeout", "50ms", "-n", "200"]).fails(1, &["own.lua", "endless loop"]);
}

#[test]
fn an_endless_end_can_be_interrupted() {
    let (sandbox, recorder) = (Sandbox::new(), Recorder::start());
    // It says when it is there.
    sandbox.write("own.lua", "function done()\n  io.open('there', 'w'):close()\n  while true do end\nend\n");
    let args = ["bench", "http", "-c", "1", "-n", "5", "-s", "own.lua", &recorder.url()];
    let running = sandbox.weir(WEIR, args).spawn();
    wait_for("the script", || sandbox.path("there").exists());
    running.signal(Signal::INT);
    let run = running.wait();
    run.fails(130, &["own.lua did not return from done()"]);
    // The report came before.
    assert!(String::from_utf8_lossy(&run.stdout).contains("5 requests"));
}

#[test]
fn an_endless_first_line_can_be_interrupted() {
    let (sandbox, recorder) = (Sandbox::new(), Recorder::start());
    // It says when it is there.
    sandbox.write("own.lua", "io.open('there', 'w'):close()\nwhile true do end\n");
    let running = sandbox.weir(WEIR, ["bench", "http", "-s", "own.lua", &recorder.url()]).spawn();
    wait_for("the script", || sandbox.path("there").exists());
    running.signal(Signal::INT);
    running.wait().fails(130, &["did not return"]);
}

#[test]
fn a_script_may_use_all_of_luajit() {
    let lines = "local ffi = require('ffi')\nlocal bit = require('bit')\nffi.cdef('int getpid(void);')\n\
                 assert(ffi.C.getpid() > 0 and bit.band(6, 3) == 2 and io.open and os.time and require('wrk') == wrk)\n";
    run_lines(lines, &[]).succeeds();
}

/// wrk 4.1 itself does not survive tables in tables here.
#[test]
fn tables_go_into_threads_and_come_back() {
    let lines = "local first\n\
                 function setup(t) first = t; t:set('given', { list = { 1, 2, { three = 'x' } }, flag = true }) end\n\
                 function init() given.list[3].three = given.list[3].three .. 'y' end\n\
                 function done() io.write('== ', first:get('given').list[3].three, ' ', tostring(first:get('none')), '\\n') end\n";
    assert_eq!(said(run_lines(lines, &["-t", "1"]).succeeds()), ["== xy nil"]);
}
