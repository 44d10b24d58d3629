//! A lane that swallows what it is given while all of its connections stand: the copy goes on over another.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use support::{MIB, Relay, Sandbox, Sshd, pattern, skip};

/// The kernel's shortest retransmission timeout is 200 ms (TCP_RTO_MIN). Fifteen of both ends are 6 s, two
/// looks one each; the rest is for a machine with other work.
const BOUND: Duration = Duration::from_secs(30);

fn copies_past_a_stuck_middle(there: bool, lanes: &str, size: usize) {
    let Some(sshd) = Sshd::seen_at(IpAddr::V6(Ipv6Addr::LOCALHOST)) else { return };
    let Some(relay) = Relay::swallow_after(MIB / 2) else { return skip("no IPv6 here") };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(size, 1));
    let far = |name: &str| format!("far:{}", sandbox.path(name).display());
    let (from, to) = if there { ("a".to_owned(), far("b")) } else { (far("a"), "b".to_owned()) };
    let ports = format!("{0}-{0}", relay.address.port());
    let start = Instant::now();
    let how = [
        "--port-range",
        &ports,
        "--transport",
        "tcp",
        "--codec",
        "none",
        "--limit-rate",
        "16Mi",
        "-c",
        lanes,
    ];
    let run = sshd.cp(&sandbox, &how).args(&["-v", &from, &to]).run();
    run.succeeds().says(&["none of the data sent has arrived"]);
    assert!(sandbox.read("a") == sandbox.read("b"));
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    let lanes: usize = lanes.parse().unwrap();
    // The far end's listener wakes itself through the relay when it ends.
    assert!(relay.connections() > lanes, "one more takes its place");
}

#[test]
fn the_only_lane_there_hangs() {
    copies_past_a_stuck_middle(true, "1", 6 * MIB);
}

#[test]
fn the_only_lane_back_hangs() {
    copies_past_a_stuck_middle(false, "1", 6 * MIB);
}

#[test]
fn one_of_two_lanes_hangs() {
    // Three seconds: each has its share before all is sent, though one may come late.
    copies_past_a_stuck_middle(true, "2", 48 * MIB);
}
