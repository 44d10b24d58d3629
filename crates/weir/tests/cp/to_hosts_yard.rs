//! `weir cp --to-hosts` between hosts in networks of their own, each on a narrow wire: what goes over which
//! wire, and with `WEIR_SOAK` (`make soak-hosts`) how long it takes, also where a host is killed, stopped or
//! slowed in the middle.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;
use crate::to_hosts::{Site, are_chains, blames_nobody, is_one_chain, row};

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{MIB, Sandbox, WEIR, Weir, pattern, skip, wait_for};

/// In ssh's place: `h3` is the third host. Its peer believes that ssh came over its wire.
const SSH: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do [ "$1" = -V ] && exit 0; shift; done
host=$2; number=${host#h}
shift 2
cd "$YARD/hosts/$host" || exit 255
exec nsenter -t "$(cat "$YARD/$number.pid")" -n env HOME="$PWD" \
    SSH_CONNECTION="10.91.0.100 1 10.91.0.$number 22" sh -c "$*"
"#;

/// Wires from every host to one of two switches, between which there is one more; then what is to be run
/// where the source is, and last how many bytes each sent: 0 is the source, `across` what went from one
/// switch to the other.
const YARD: &str = r#"
set -e
PATH=$PATH:/usr/sbin:/sbin
trap 'kill $ends 2>/dev/null' EXIT
shape() { tc qdisc add dev $1 root tbf rate ${MBIT}mbit burst 60000 latency 50ms; }
for hub in left right; do ip link add $hub type bridge; ip link set $hub up; done
ip link add across type veth peer name back
ip link set across master left up; ip link set back master right up
for n in $(seq 0 $COUNT); do
    unshare -n sleep 600 &
    end=$!
    ends="$ends $end"
    while [ "$(readlink /proc/$end/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do :; done
    echo $end > "$YARD/$n.pid"
    hub=left; [ $n -le $((COUNT / 2)) ] || hub=right
    address=$n; [ $n = 0 ] && address=100
    ip link add port$n type veth peer name wire netns $end
    ip link set port$n master $hub up
    nsenter -t $end -n ip link set lo up
    nsenter -t $end -n ip addr add 10.91.0.$address/24 dev wire
    nsenter -t $end -n ip link set wire up
    shape port$n
    nsenter -t $end -n sh -c "tc qdisc add dev wire root tbf rate ${MBIT}mbit burst 60000 latency 50ms"
done
sent() { awk -v name="$1:" '$1 == name { print $2 }' /proc/net/dev; }
set +e
nsenter -t "$(cat "$YARD/0.pid")" -n "$@"
code=$?
for n in $(seq 0 $COUNT); do echo "$n $(sent port$n)"; done > "$YARD/sent"
echo "across $(sent back)" >> "$YARD/sent"
exit $code
"#;

/// Mbit/s of each wire, either way: the figures of the guide are of 100, and a busy machine carries 40.
fn mbit() -> &'static str {
    if std::env::var_os("WEIR_SOAK").is_some() { "100" } else { "40" }
}

/// Hosts on wires.
struct Yard {
    sandbox: Sandbox,
    count: usize,
}

impl Yard {
    fn new(count: usize) -> Option<Yard> {
        if !rustix::process::geteuid().is_root() {
            skip("only root makes networks");
            return None;
        }
        // In memory: no disk is to take a part.
        let sandbox = Sandbox::new_in(std::path::Path::new("/dev/shm"));
        let ssh = sandbox.write("ssh", SSH);
        std::fs::set_permissions(ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
        for host in 1..=count {
            std::fs::create_dir_all(sandbox.path(format!("hosts/h{host}"))).unwrap();
        }
        Some(Yard { sandbox, count })
    }

    fn cp(&self, args: &[&str]) -> Weir {
        let ssh = self.sandbox.path("ssh").display().to_string();
        let words = ["-n", "bash", "-c", YARD, "bash", WEIR, "cp", "-S", &ssh, "--far-program", WEIR];
        let yard = self.sandbox.weir("unshare", words).env("YARD", self.sandbox.path(""));
        yard.env("COUNT", self.count.to_string()).env("MBIT", mbit()).args(args)
    }

    /// Bytes that each has sent over its wire.
    fn sent(&self) -> BTreeMap<String, f64> {
        let text = String::from_utf8(self.sandbox.read("sent")).unwrap();
        let line = |line: &str| {
            let (name, bytes) = line.split_once(' ')?;
            Some((name.to_owned(), bytes.parse().ok()?))
        };
        text.lines().filter_map(line).collect()
    }

    /// Each host had it from one before it, and each wire carried it once. Who comes after whom is in the
    /// record: on a busy machine a host may come up late, and one that was taken out as slow has some of it
    /// twice.
    #[track_caller]
    fn is_carried_once(&self, record: &Value, source: &Value, hosts: &[&str], size: usize) {
        blames_nobody(record, hosts);
        if hosts.iter().any(|host| row(record, host)["taken_out"] != Value::Array(Vec::new())) {
            // A host that was slow, on a busy machine, is fed once more by another.
            let most = 2.5 * (hosts.len() * size) as f64;
            assert!(self.sent().values().all(|bytes| *bytes < most), "{record}");
            return;
        }
        is_one_chain(record, source, hosts);
        for host in hosts {
            assert_eq!(row(record, host)["sessions"], 1, "{record}");
        }
        // `h3` is behind the wire 3; the machine that drives, which has no name, behind 0.
        let wire = |name: &str| name[1..].parse::<usize>().unwrap();
        let from = |host: &str| row(record, host)["from"].as_str().map_or(0, wire);
        let is_right = |wire: usize| wire > self.count / 2;
        let crosses = hosts.iter().filter(|host| !is_right(from(host)) && is_right(wire(host))).count();
        let feeds = |wire: usize| hosts.iter().filter(|host| from(host) == wire).count();
        let expected = (0..=self.count).map(|wire| (wire.to_string(), feeds(wire)));
        let sent = self.sent();
        for (name, expected) in expected.chain([("across".to_owned(), crosses)]) {
            let (times, expected) = (sent[&name] / size as f64, expected as f64);
            // What TCP and IP take is 3 %; a queue that overflows costs some segments twice.
            let most = (1.25 * expected).max(0.1);
            assert!(
                (expected..most).contains(&times),
                "{name} sent {times:.2} times the file: {sent:?}, {record}"
            );
        }
    }

    fn hosts(&self) -> String {
        (1..=self.count).map(|host| format!("h{host}")).collect::<Vec<_>>().join(",")
    }

    #[track_caller]
    fn all_have(&self, name: &str) {
        (1..=self.count).for_each(|host| self.has(&format!("h{host}"), name));
    }

    #[track_caller]
    fn has(&self, host: &str, name: &str) {
        assert!(self.sandbox.read(&format!("hosts/{host}/{name}")) == self.sandbox.read("data"), "{host}");
    }
}

#[test]
fn each_wire_carries_it_once() {
    let Some(yard) = Yard::new(4) else { return };
    let size = 20 * MIB;
    yard.sandbox.write("data", pattern(size, 1));
    let run = yard.cp(&["--json", "data", "--to-hosts", "one: h1 h2; two: h3 h4"]).run();
    let record = run.succeeds().json();
    yard.all_have("data");
    assert_eq!(record["cp"]["complete"], 4, "{record}");
    for row in record["cp"]["hosts"].as_array().unwrap() {
        assert_eq!(row["transport"], "tcp", "{row}");
    }
    yard.is_carried_once(&record, &Value::Null, &["h1", "h2", "h3", "h4"], size);
}

/// A network of its own, and all that goes through it in a file.
const HEARD: &str = r#"
PATH=$PATH:/usr/sbin:/sbin
ip link set lo up && rm -f said || exit
tcpdump -i lo -s 0 -B 65536 --immediate-mode -Z root -w heard tcp 2>said &
until grep -qs 'listening on' said; do kill -0 $! || exit; sleep 0.01; done
"$@"
code=$?
kill -INT $!
wait $!
exit $code
"#;

#[test]
fn each_hop_is_sealed() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root makes networks");
    }
    if std::process::Command::new("tcpdump").arg("--version").output().is_err() {
        return skip("no tcpdump here");
    }
    let site = Site::new(&["a", "b"]);
    let (secret, count) = (&b"read by nobody but the two ends of a hop"[..], 20_000);
    site.sandbox.write("data", secret.repeat(count));
    let heard = |args: &[&str]| {
        let ssh = site.sandbox.path("ssh").display().to_string();
        let words = ["-n", "bash", "-c", HEARD, "bash", WEIR, "cp", "-S", &ssh, "--far-program", WEIR];
        let cp = site.sandbox.weir("unshare", words).env("HOSTS", site.sandbox.path("hosts"));
        let run = cp.args(&["--json", "--codec", "none", "data", "--to-hosts"]).args(args).run();
        let record = run.succeeds().json();
        for host in ["a", "b"] {
            assert_eq!(row(&record, host)["transport"], "tcp", "{record}");
        }
        site.sandbox.read("heard").windows(secret.len()).filter(|bytes| *bytes == secret).count()
    };
    assert_eq!(heard(&["a,b:sealed"]), 0);
    // Of both hops, but for what lies across two segments.
    let plain = heard(&["a,b:plain", "--plain"]);
    assert!(plain > count * 3 / 2, "{plain} of 2 times {count} were heard");
}

/// Nothing comes through the machine that drives.
#[test]
fn a_source_on_another_host_sends_it_once() {
    let Some(yard) = Yard::new(4) else { return };
    let size = 20 * MIB;
    yard.sandbox.write("hosts/h1/data", pattern(size, 1));
    let record = yard.cp(&["--json", "h1:data", "--to-hosts", "h2,h3,h4"]).run().succeeds().json();
    assert_eq!(record["cp"]["complete"], 3);
    let source = yard.sandbox.read("hosts/h1/data");
    for host in 2..=4 {
        assert!(yard.sandbox.read(&format!("hosts/h{host}/data")) == source, "h{host}");
    }
    let sent = yard.sent();
    assert!(sent["0"] < 0.1 * size as f64, "{sent:?}");
    yard.is_carried_once(&record, &"h1".into(), &["h2", "h3", "h4"], size);
}

/// What happens to a host in the middle of a copy.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mishap {
    Killed,
    Stopped,
    /// To a tenth: it is taken out.
    Slowed,
    /// Not slow enough for that.
    Halved,
}

impl Yard {
    fn strike(&self, host: usize, mishap: Mishap) {
        let pid = String::from_utf8(self.sandbox.read(&format!("{host}.pid"))).unwrap();
        let home = self.sandbox.path(format!("hosts/h{host}"));
        let script = match mishap {
            Mishap::Slowed | Mishap::Halved => {
                // Both ways of its wire, of which the switch has one end.
                let mbit = if mishap == Mishap::Slowed { 10 } else { 50 };
                let tc = format!("qdisc change dev $name root tbf rate {mbit}mbit burst 60000 latency 50ms");
                let hub = "$(awk '/^PPid/ { print $2 }' /proc/$pid/status)";
                format!(
                    "pid={}; for at in $pid:wire {hub}:port{host}; do name=${{at#*:}}; nsenter -t ${{at%:*}} -n tc {tc}; done",
                    pid.trim()
                )
            }
            Mishap::Killed | Mishap::Stopped => {
                let signal = if mishap == Mishap::Killed { "KILL" } else { "STOP" };
                format!(
                    "for p in /proc/[0-9]*; do [ \"$(readlink $p/cwd)\" = {} ] && kill -{signal} ${{p#/proc/}}; done; true",
                    home.display()
                )
            }
        };
        let done = std::process::Command::new("bash").args(["-c", &script]).status().unwrap();
        assert!(done.success());
    }
}

/// The figures of the guide. In release mode on a machine that rests: nothing else is asserted by time in a
/// test.
#[test]
fn eight_hosts_in_the_time_of_one() {
    if std::env::var_os("WEIR_SOAK").is_none() {
        return;
    }
    let Some(yard) = Yard::new(8) else { return };
    yard.sandbox.write("data", pattern(200_000_000, 1));
    let seconds = |row: &Value| row["seconds"].as_f64().unwrap_or(f64::MAX);
    let last =
        |record: &Value| record["cp"]["hosts"].as_array().unwrap().iter().map(seconds).fold(0.0, f64::max);
    let copied = |to: &str| yard.cp(&["--json", "data", "--to-hosts", to]).run().succeeds().json();
    let one = last(&copied("h1:alone"));
    let hosts = yard.hosts();
    let record = copied(&hosts);
    yard.all_have("data");
    let all = last(&record);
    println!("one host {one:.1} s, eight {all:.1} s; held by {}", record["cp"]["held_by"]);
    for row in record["cp"]["hosts"].as_array().unwrap() {
        println!("{} from {}: {} s, {}", row["host"], row["from"], row["seconds"], row["taken_out"]);
    }
    assert!(all < one * 1.25, "{all} s are more than 1.25 of {one} s");
    for mishap in [Mishap::Killed, Mishap::Slowed, Mishap::Stopped] {
        let to = format!("{hosts}:{mishap:?}");
        let start = Instant::now();
        let running = yard.cp(&["--json", "data", "--to-hosts", &to]).spawn();
        let part = yard.sandbox.path(format!("hosts/h4/.{mishap:?}.weir-part"));
        wait_for("the middle", || part.metadata().is_ok_and(|part| part.len() > 200_278_016 + 48 * 80));
        yard.strike(4, mishap);
        let record = running.wait_for(Duration::from_secs(300)).json();
        let rows = record["cp"]["hosts"].as_array().unwrap();
        let others = rows.iter().filter(|row| row["host"] != "h4").map(seconds).fold(0.0, f64::max);
        let own = &rows[3];
        println!(
            "{mishap:?}: the others {others:.1} s, it {:.1} s of {:.1?}; {}; {}",
            seconds(own),
            start.elapsed(),
            own["taken_out"],
            own["error"]
        );
        assert!(!own["taken_out"].as_array().unwrap().is_empty(), "{own}");
        blames_nobody(&record, &["h1", "h2", "h3", "h5", "h6", "h7", "h8"]);
        for row in rows {
            assert!(row["outcome"] == "complete" || row["host"] == "h4", "{row}");
            assert!(row["from"] != "h4", "it comes back behind all others: {row}");
            if row["outcome"] == "complete" {
                yard.has(row["host"].as_str().unwrap(), &format!("{mishap:?}"));
            }
        }
        assert!(others < all * 1.1, "{mishap:?} delays the others: {others} s after {all:?}");
    }
}

/// Twice by the source's wire, once by those of the hosts that pass it on.
#[test]
fn two_chains_take_it_from_the_source_twice() {
    if std::env::var_os("WEIR_SOAK").is_none() {
        return;
    }
    let Some(yard) = Yard::new(4) else { return };
    let size = 40 * MIB;
    yard.sandbox.write("data", pattern(size, 1));
    let args = ["--json", "--fanout", "2", "data", "--to-hosts", "one: h1 h2; two: h3 h4"];
    let record = yard.cp(&args).run().succeeds().json();
    yard.all_have("data");
    are_chains(&record, &Value::Null, [["h1", "h2"], ["h3", "h4"]]);
    let times = yard.sent()["0"] / size as f64;
    assert!((2.0..2.5).contains(&times), "the source sent it {times:.2} times: {record}");
}

#[test]
fn the_hop_that_holds_the_chain_is_named() {
    if std::env::var_os("WEIR_SOAK").is_none() {
        return;
    }
    let Some(yard) = Yard::new(3) else { return };
    let size = 80 * MIB;
    yard.sandbox.write("data", pattern(size, 1));
    let running = yard.cp(&["--json", "data", "--to-hosts", "h1,h2,h3"]).spawn();
    let part = yard.sandbox.path("hosts/h2/.data.weir-part");
    wait_for("blocks", || part.metadata().is_ok_and(|part| part.len() > size as u64));
    yard.strike(2, Mishap::Halved);
    let record = running.wait_for(Duration::from_secs(300)).succeeds().json();
    yard.all_have("data");
    blames_nobody(&record, &["h1", "h2", "h3"]);
    let held = &record["cp"]["held_by"];
    assert_eq!((&held["from"], &held["to"]), (&row(&record, "h2")["from"], &"h2".into()), "{record}");
}

/// Each gets the program by its own ssh, into its cache.
#[test]
fn hosts_without_weir_get_it_first() {
    if std::env::var_os("WEIR_SOAK").is_none() {
        return;
    }
    let site = Site::new(&["a", "b"]);
    let ssh = String::from_utf8(site.sandbox.read("ssh")).unwrap();
    assert!(ssh.contains("$HOSTS/../cache"), "{ssh}");
    site.sandbox.write("ssh", ssh.replace("$HOSTS/../cache", "$home/cache"));
    site.sandbox.write("data", pattern(3 * MIB, 1));
    let ssh = site.sandbox.path("ssh").display().to_string();
    let cp = site.sandbox.weir(WEIR, ["cp", "-S", &ssh, "data", "--to-hosts", "a,b"]);
    cp.env("HOSTS", site.sandbox.path("hosts")).run().succeeds();
    for host in ["a", "b"] {
        assert!(site.on(host, "data") == site.sandbox.read("data"), "{host}");
        let is_program = |name: &String| name.starts_with("cache/weir/") && name.ends_with("/weir");
        assert!(site.names_on(host).iter().any(is_program), "{host}: {:?}", site.names_on(host));
    }
}
