//! Who held the figure, told beside two busy loops: causes that are made, and runs that look like them and
//! are another's.
//!
//! `cargo test` plays a sample once; `make truth-http` all of them five times, or as often as `WEIR_HELD`
//! says, and `WEIR_HELD_ONLY` those whose name has that in it. A verdict is right if it names one of those
//! who hold the run, and abstains where it names nobody or cannot tell the server from the path.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::MACHINE;
use crate::support::http_servers::{self, sandbox_with_www};
use crate::support::net::in_a_network;
use crate::support::{Sandbox, WEIR, skip};

/// Of the runs of the whole table, those whose verdict names somebody: to abstain always would be honest as
/// well.
const NAMED: f64 = 0.7;

/// A cause.
struct Cause {
    name: &'static str,
    made: Made,
    /// weir's flags.
    flags: &'static [&'static str],
    /// Whom the verdict may name.
    holders: &'static [&'static str],
    /// It is a part of the sample.
    sample: bool,
}

/// How it is made.
enum Made {
    /// By `server.py` with these words.
    Server(&'static [&'static str]),
    /// The same, and a script of wrk's.
    Script(&'static str, &'static [&'static str]),
    /// A page of nginx's: `http`, or `https` with HTTP/2 where it is asked for.
    Nginx(&'static str),
    /// nginx before `server.py`.
    Proxy(&'static [&'static str]),
    /// `server.py` behind a cable, at whose far end this qdisc is.
    Cable(&'static str, &'static [&'static str]),
    /// The lab's path and file server, with these flags.
    Lab(&'static [&'static str]),
    /// `server.py` on a machine with few local ports.
    FewPorts(&'static [&'static str]),
}
use Made::{Cable, FewPorts, Lab, Nginx, Proxy, Script, Server};

const SLEEPS: &[&str] = &["sleeps", "30"];
const QUICK: &[&str] = &["quick"];

/// Whom a server may be called that was not seen.
const UNSEEN: &[&str] = &["server", "server-or-path"];

/// Each cause, and below it a run that is like it but for the cause.
const CAUSES: &[Cause] = &[
    // A script that sleeps; one that does not, of a server that does.
    Cause {
        name: "a script sleeps in Lua",
        made: Script(
            "local ffi = require('ffi')\nffi.cdef('int usleep(unsigned)')\n\
             function request() ffi.C.usleep(20000) return wrk.format() end\n",
            QUICK,
        ),
        flags: &["-c", "4"],
        holders: &["script"],
        sample: true,
    },
    Cause {
        name: "a script computes in Lua",
        made: Script(
            "local n = 0\nfunction request() for i = 1, 1e7 do n = n + i % 7 end return wrk.format() end\n",
            QUICK,
        ),
        flags: &["-c", "2"],
        holders: &["script"],
        sample: false,
    },
    Cause {
        name: "not the script, the server sleeps",
        made: Script("function request() return wrk.format() end\nfunction response() end\n", SLEEPS),
        flags: &["-c", "4"],
        holders: &["server"],
        sample: false,
    },
    // Two small writes, Nagle and a delayed acknowledgement; the same pause by the server's own will.
    Cause {
        name: "head and body in two writes",
        made: Server(&["splits"]),
        flags: &["-c", "2"],
        holders: &["nagle"],
        sample: true,
    },
    Cause {
        name: "not the acknowledgement, the server pauses",
        made: Server(&["pauses", "44"]),
        flags: &["-c", "2"],
        holders: &["server"],
        sample: true,
    },
    // Waiting for a processor, of which the two busy loops have most; a server that sleeps beside them.
    Cause {
        name: "busy loops beside",
        made: Server(QUICK),
        flags: &["-c", "1"],
        holders: &["processor"],
        sample: true,
    },
    Cause {
        name: "busy loops beside ten connections",
        made: Nginx("http"),
        flags: &["-c", "10", "-t", "1"],
        holders: &["processor", "server-cpu", "client"],
        sample: false,
    },
    Cause {
        name: "busy loops beside threads under a lock",
        made: Server(QUICK),
        flags: &["-c", "10"],
        holders: &["processor", "server-cpu"],
        sample: false,
    },
    Cause {
        name: "not the busy loops, the server sleeps",
        made: Server(SLEEPS),
        flags: &["-c", "1"],
        holders: &["server"],
        sample: false,
    },
    // Streams of HTTP/2; streams of a server that sleeps.
    Cause {
        name: "twenty streams over two connections",
        made: Nginx("https"),
        flags: &["-k", "--http2", "-c", "2", "--streams", "20"],
        holders: &["client", "processor", "server-cpu"],
        sample: false,
    },
    Cause {
        name: "not the streams, the server sleeps",
        made: Proxy(&["sleeps", "100"]),
        flags: &["-k", "--http2", "-c", "2", "--streams", "4"],
        holders: &["server"],
        sample: false,
    },
    // A connection for each request, plain and over TLS; the same of a server that sleeps.
    Cause {
        name: "a connection for each request",
        made: Nginx("http"),
        flags: &["-c", "2", "--no-keep-alive"],
        holders: &["connecting", "processor", "client", "server-cpu"],
        sample: false,
    },
    Cause {
        name: "a TLS handshake for each request",
        made: Nginx("https"),
        flags: &["-k", "-c", "4", "--no-keep-alive"],
        holders: &["connecting"],
        sample: true,
    },
    Cause {
        name: "not connecting, the server sleeps",
        made: Server(SLEEPS),
        flags: &["-c", "2", "--no-keep-alive"],
        holders: &["server"],
        sample: false,
    },
    // delay(); one of nothing.
    Cause {
        name: "delay()",
        made: Script("function delay() return 30 end\n", QUICK),
        flags: &["-c", "4"],
        holders: &["delay"],
        sample: true,
    },
    Cause {
        name: "not delay(), the server sleeps",
        made: Script("function delay() return 0 end\n", SLEEPS),
        flags: &["-c", "4"],
        holders: &["server"],
        sample: false,
    },
    // A server that dies, stops, or stops for a while; one that is as slow each time.
    Cause {
        name: "the server dies",
        made: Server(&["dies", "200"]),
        flags: &["-c", "4", "-d", "3s"],
        holders: &["stall"],
        sample: false,
    },
    Cause {
        name: "the server is stopped",
        made: Server(&["stops", "200"]),
        flags: &["-c", "4", "-d", "3s"],
        holders: &["stall"],
        sample: true,
    },
    Cause {
        name: "the server is stopped and goes on",
        made: Server(&["stalls", "20"]),
        flags: &["-c", "4", "-d", "2s"],
        holders: &["stall"],
        sample: false,
    },
    Cause {
        name: "not a standstill, the server is slow",
        made: Server(&["sleeps", "600"]),
        flags: &["-c", "2", "-d", "3s"],
        holders: &["server"],
        sample: false,
    },
    // The server's processor; the server's thinking.
    Cause {
        name: "the server computes",
        made: Server(&["computes", "20"]),
        flags: &["-c", "1"],
        holders: &["server-cpu", "processor"],
        sample: false,
    },
    Cause {
        name: "the server computes under a lock",
        made: Server(&["computes", "20"]),
        flags: &["-c", "4"],
        holders: &["server-cpu", "processor"],
        sample: false,
    },
    // It listens, and others answer.
    Cause {
        name: "processes of the server's compute",
        made: Server(&["forks", "20"]),
        flags: &["-c", "2"],
        holders: &["server-cpu", "processor"],
        sample: true,
    },
    Cause {
        name: "the server thinks",
        made: Server(SLEEPS),
        flags: &["-c", "4"],
        holders: &["server"],
        sample: true,
    },
    // A full link; a server that sends at its own pace over an empty one.
    Cause {
        name: "the path's bandwidth",
        made: Cable("tbf rate 20mbit burst 20kb latency 50ms", &["large"]),
        flags: &["-c", "8", "-t", "1"],
        holders: &["path"],
        sample: true,
    },
    Cause {
        name: "not the path, the server drips",
        made: Cable("pfifo", &["drips"]),
        flags: &["-c", "4", "-t", "1"],
        holders: UNSEEN,
        sample: false,
    },
    // Round trips that nobody fills; many connections that fill something.
    Cause {
        name: "the number of connections",
        made: Lab(&["--delay", "30ms"]),
        flags: &["-c", "2", "-t", "1"],
        holders: &["connections"],
        sample: true,
    },
    Cause {
        name: "not the number of connections, the server computes",
        made: Server(&["computes", "5"]),
        flags: &["-c", "16"],
        holders: &["server-cpu", "processor"],
        sample: false,
    },
    // The client's processor: answers that take longer to be taken apart than to be sent.
    Cause {
        name: "the client computes",
        made: Server(&["chunks"]),
        flags: &["-c", "4", "-t", "1"],
        holders: &["client", "processor"],
        sample: false,
    },
    // An open loop whose requests wait for a connection; one that has enough.
    Cause {
        name: "the client's own queue",
        made: Server(SLEEPS),
        flags: &["-c", "2", "--rate", "200"],
        holders: &["queue"],
        sample: true,
    },
    Cause {
        name: "not the queue, the rate",
        made: Server(SLEEPS),
        flags: &["-c", "8", "--rate", "20"],
        holders: &["rate"],
        sample: false,
    },
    // No local ports; enough of them for connections that are kept.
    Cause {
        name: "local ports",
        made: FewPorts(QUICK),
        flags: &["-c", "4", "--no-keep-alive"],
        holders: &["ports"],
        sample: true,
    },
    Cause {
        name: "not ports, the server sleeps",
        made: FewPorts(SLEEPS),
        flags: &["-c", "4"],
        holders: &["server"],
        sample: false,
    },
];

#[test]
fn who_held_the_figure_is_told_beside_a_busy_machine() {
    let _alone = MACHINE.write();
    let wanted = env::var("WEIR_HELD").ok();
    let times: usize = match wanted.as_deref() {
        None => 1,
        Some("all") => 5,
        Some(times) => times.parse().expect("WEIR_HELD: all, or how often"),
    };
    let only = env::var("WEIR_HELD_ONLY").ok();
    let is_wanted = |cause: &&Cause| match &only {
        Some(part) => cause.name.contains(part.as_str()),
        None => wanted.is_some() || cause.sample,
    };
    let _loops = [Ended::busy_loop(), Ended::busy_loop()];
    let mut sums = Sums::default();
    for cause in CAUSES.iter().filter(is_wanted) {
        for _ in 0..times {
            if let Some(record) = cause.play() {
                sums.count(cause, &record);
            }
        }
    }
    println!("{} of {} right, {} abstained", sums.right, sums.all, sums.abstained);
    assert!(sums.wrong.is_empty(), "convicted innocents: {:#?}", sums.wrong);
    if wanted.is_some() && only.is_none() {
        assert!(sums.right as f64 >= NAMED * sums.all as f64, "it abstains too often");
    }
}

#[derive(Default)]
struct Sums {
    all: usize,
    right: usize,
    abstained: usize,
    wrong: Vec<String>,
}

impl Sums {
    fn count(&mut self, cause: &Cause, record: &Value) {
        let said = record["http"]["held_by"].as_str();
        println!("{}: {}: {}", cause.name, said.unwrap_or("nobody"), record["verdict"]["evidence"]);
        self.all += 1;
        match said {
            None => self.abstained += 1,
            Some(holder) if cause.holders.contains(&holder) => self.right += 1,
            Some("server-or-path") => self.abstained += 1,
            Some(holder) => {
                self.wrong.push(format!("{}: {holder}: {} {}", cause.name, record["verdict"], record["http"]))
            }
        }
    }
}

impl Cause {
    /// One run's record; `None` where this machine cannot make the cause.
    fn play(&self) -> Option<Value> {
        let sandbox = sandbox_with_server();
        sandbox.write("www/page", "hello");
        let flags: &[&str] = if self.flags.contains(&"-d") { &[] } else { &["-d", "2s"] };
        let flags = [flags, self.flags].concat();
        let bench = |more: &[&str]| {
            Some(sandbox.weir(WEIR, ["bench", "http", "--json"]).args(&flags).args(more).run().json())
        };
        match &self.made {
            Server(words) => {
                let server = python(&sandbox, words)?;
                bench(&[&server.url])
            }
            Script(text, words) => {
                sandbox.write("script.lua", text);
                let server = python(&sandbox, words)?;
                bench(&["-s", "script.lua", &server.url])
            }
            Nginx(scheme) => {
                let nginx = nginx(&sandbox, "")?;
                let port = if *scheme == "http" { nginx.http } else { nginx.https };
                bench(&[&format!("{scheme}://127.0.0.1:{port}/page")])
            }
            Proxy(words) => {
                let server = python(&sandbox, words)?;
                let nginx = nginx(&sandbox, &format!("location /slow {{ proxy_pass {}; }}", server.url))?;
                bench(&[&format!("https://127.0.0.1:{}/slow", nginx.https)])
            }
            Cable(qdisc, words) => over_a_cable(&sandbox, qdisc, words, &flags),
            FewPorts(words) => with_few_ports(&sandbox, words, &flags),
            Lab(path) => in_a_lab(&sandbox, path, &format!("{} $WEIR_LAB_URL/page", flags.join(" "))),
        }
    }
}

/// A folder with `server.py`, and `www` for servers of files.
pub(super) fn sandbox_with_server() -> Sandbox {
    let sandbox = sandbox_with_www();
    sandbox.write("server.py", include_str!("server.py"));
    sandbox
}

/// `load` over the lab's path with these flags, from a server of `www` at its far end; `None` where no lab
/// can be made.
pub(super) fn in_a_lab(sandbox: &Sandbox, path: &[&str], load: &str) -> Option<Value> {
    let shell = |script: &str| {
        let lab = sandbox.weir(WEIR, ["lab", "shell"]).args(path);
        lab.args(&["--serve", "www", "--", "sh", "-c", script]).run()
    };
    let tried = shell("exit 0");
    if !tried.status.success() {
        skip(&tried.stderr);
        return None;
    }
    Some(shell(&format!("{WEIR} bench http --json {load}")).json())
}

/// `server.py` with these words in a network of its own, at the far end of a cable with this qdisc.
fn over_a_cable(sandbox: &Sandbox, qdisc: &str, words: &[&str], flags: &[&str]) -> Option<Value> {
    let script = format!(
        "unshare -n python3 server.py 0.0.0.0 {words} > port & far=$!
         until [ -s port ]; do sleep 0.05; done
         {{ ip link add near type veth peer name far netns $far
           ip addr add 10.9.0.1/24 dev near && ip link set near up
           nsenter -t $far -n sh -c 'ip addr add 10.9.0.2/24 dev far && ip link set far up &&
             tc qdisc add dev far root {qdisc}'; }} >&2
         $WEIR bench http --json {flags} http://10.9.0.2:$(cat port)/
         kill $far",
        words = words.join(" "),
        flags = flags.join(" ")
    );
    Some(in_a_network(sandbox, &script)?.json())
}

/// The same on a machine that gives away two hundred ports, and keeps those that were used for a minute.
fn with_few_ports(sandbox: &Sandbox, words: &[&str], flags: &[&str]) -> Option<Value> {
    let script = format!(
        "ip link set lo up
         echo 40000 40200 > /proc/sys/net/ipv4/ip_local_port_range
         echo 0 > /proc/sys/net/ipv4/tcp_tw_reuse
         python3 server.py 127.0.0.1 {words} > port & server=$!
         until [ -s port ]; do sleep 0.05; done
         $WEIR bench http --json {flags} http://127.0.0.1:$(cat port)/
         kill $server",
        words = words.join(" "),
        flags = flags.join(" ")
    );
    Some(in_a_network(sandbox, &script)?.json())
}

/// `server.py` on this machine, in a process of its own, so that the tests' threads are not taken for its.
pub(super) struct Python {
    _process: Ended,
    pub(super) url: String,
}

pub(super) fn python(sandbox: &Sandbox, words: &[&str]) -> Option<Python> {
    let mut command = Command::new("python3");
    command.arg(sandbox.path("server.py")).arg("127.0.0.1").args(words).stdout(Stdio::piped());
    let Ok(mut child) = command.stdin(Stdio::null()).spawn() else {
        skip("python3 is not installed");
        return None;
    };
    let mut port = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut port).expect("its port");
    Some(Python { _process: Ended(child), url: format!("http://127.0.0.1:{}/", port.trim()) })
}

fn nginx(sandbox: &Sandbox, directives: &str) -> Option<http_servers::Nginx> {
    let started = http_servers::Nginx::start(sandbox, directives);
    if started.is_none() {
        skip("nginx is not installed");
    }
    started
}

/// A process that ends with this, stopped or not.
struct Ended(Child);

impl Ended {
    fn busy_loop() -> Ended {
        Ended(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell"))
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
