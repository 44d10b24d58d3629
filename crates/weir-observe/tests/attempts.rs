//! Attempts to connect, as the watch of a program sees them.
#![allow(clippy::unwrap_used, reason = "clippy takes a test's helper functions for library code")]

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use weir_observe::pace::Pace;
use weir_observe::process::Pid;
use weir_observe::sock_diag::Filter;
use weir_observe::watch::{Discovery, Notes, Subject, Watch};

/// Looks until a condition holds.
fn look_until(watch: &mut Watch, what: &str, holds: impl Fn(&Watch) -> bool) {
    let start = Instant::now();
    let mut pace = Pace::new(start);
    while !holds(watch) {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        watch.look();
        watch.rest(&mut pace);
    }
}

#[test]
fn an_attempt_is_seen_beside_more_idle_connections_than_are_looked_at() {
    let idle = TcpListener::bind("127.0.0.1:0").unwrap();
    let keep = |_| (TcpStream::connect(idle.local_addr().unwrap()).unwrap(), idle.accept().unwrap());
    let kept: Vec<_> = (0..70).map(keep).collect();
    // Its queue holds one, which nobody accepts.
    let full = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&full, 0).unwrap();
    let address = full.local_addr().unwrap();
    let first = TcpStream::connect(address).unwrap();

    let mut notes = Notes::default();
    let subject = Subject::Tree(Pid(std::process::id()));
    let discovery = Discovery::new(subject, Filter::default(), &mut notes).unwrap();
    let mut watch = Watch::new(discovery, notes, None, false);
    look_until(&mut watch, "all places are taken", |watch| watch.all_lanes().count() >= 64);
    // It ends with the test's process.
    std::thread::spawn(move || TcpStream::connect_timeout(&address, Duration::from_secs(60)));
    let sees = |watch: &Watch| watch.evidence.intervals.iter().any(|it| it.around.connecting > 0);
    look_until(&mut watch, "the attempt is seen", sees);
    drop((kept, first));
}
