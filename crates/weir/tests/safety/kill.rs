//! SIGKILL at any moment: the same command completes the file, and asks for no byte that the journal covered.
//!
//! 20 runs by default; `WEIR_SOAK=1000` for more, `WEIR_SEED=N` for a run again.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::process::Signal;
use support::{Dice, MIB, Object, Request, Sandbox, Server};
use weir_get::journal::Journal;
use weir_get::ranges::RangeSet;

/// The first attempt would take about this long if nobody killed it: a few journals' worth.
const SECONDS: f64 = 2.0;

/// What one run was.
#[derive(Debug, Default)]
struct Tally {
    killed: usize,
    journalled: u64,
    sizes: u64,
}

#[test]
fn killed_at_any_moment_and_resumed() {
    let (mut dice, runs) = Dice::for_runs();
    let mut tally = Tally::default();
    for run in 0..runs {
        let lanes = [&["-c", "1"][..], &["-c", "4"], &[]][(run % 3) as usize];
        kill_and_resume(run, lanes, &mut dice, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.killed as u64 * 10 >= runs * 8, "too few were killed before they were complete: {tally:?}");
    assert!(
        tally.journalled * 5 >= tally.sizes,
        "the journals covered too little to prove anything: {tally:?}"
    );
}

fn kill_and_resume(run: u64, lanes: &[&str], dice: &mut Dice, tally: &mut Tally) {
    let size = dice.roll(16 * MIB as u64..48 * MIB as u64);
    let kills = dice.roll(1..3);
    let context = format!("run {run}: {size} bytes, {lanes:?}, {kills} kills");
    let connections = if lanes == ["-c", "1"] { 1 } else { 4 };
    let object = Object::new(size as usize).rate((size as f64 / SECONDS) as u64 / connections);
    let bytes = object.bytes.clone();
    let fast = Arc::new(AtomicBool::new(false));
    let flag = fast.clone();
    let server = Server::start(move |request, wire| match flag.load(Relaxed) {
        false => object.serve(request, wire),
        true => Object { rate: None, ..object.clone() }.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    let get = || sandbox.get([&server.url("x"), "-o", "out", "-q"]).args(lanes);
    let mut covered = RangeSet::default();
    for _ in 0..kills {
        let left = size - covered.len();
        // Not in the last fifth, where a busy machine may kill too late: its journals are as those before.
        let kill_at = server.sent() + dice.roll(left / 50..left * 4 / 5);
        let before = server.requests().len();
        let running = get().spawn();
        server.wait_sent(kill_at);
        running.signal(Signal::KILL);
        // A kill may come between the rename and the end of the process: then the name is there, and what it
        // names is whole.
        if running.wait().status.code() == Some(0) || sandbox.path("out").exists() {
            assert!(sandbox.read("out") == *bytes, "{context}: the final name before the end");
            return;
        }
        asks_for_nothing_twice(&server.requests_from(before), &covered, size, &context);
        covered = journalled(&sandbox, &bytes, &context);
    }
    let before = server.requests().len();
    fast.store(true, Relaxed);
    let resumed = get().run();
    assert_eq!(resumed.status.code(), Some(0), "{context}\n{}", resumed.stderr);
    assert!(sandbox.read("out") == *bytes, "{context}: wrong bytes");
    assert_eq!(sandbox.names(), ["out"], "{context}");
    asks_for_nothing_twice(&server.requests_from(before), &covered, size, &context);
    tally.killed += 1;
    tally.journalled += covered.len();
    tally.sizes += size;
}

/// What the journal says is there; it has to be.
fn journalled(sandbox: &Sandbox, bytes: &[u8], context: &str) -> RangeSet {
    let journal =
        Journal::read(&sandbox.path("out.weir")).unwrap_or_else(|error| panic!("{context}: {error}"));
    let covered = journal.map(|journal| journal.stored()).unwrap_or_default();
    let part = std::fs::read(sandbox.path("out.part")).unwrap_or_default();
    for range in covered.iter() {
        let place = range.start as usize..range.end as usize;
        assert!(part[place.clone()] == bytes[place], "{context}: {range:?} is journalled and not there");
    }
    covered
}

/// No request reaches into what was covered before it, but for the last byte, which proves the version where
/// all was.
fn asks_for_nothing_twice(requests: &[Request], covered: &RangeSet, size: u64, context: &str) {
    let is_whole = covered.prefix() == size;
    for request in requests {
        let (start, end) = request.range().expect("a range");
        let asked = start..end.unwrap_or(size);
        let again = covered.iter().map(|range| asked.start.max(range.start)..asked.end.min(range.end));
        let is_proof = |range: &std::ops::Range<u64>| is_whole && *range == (size - 1..size);
        let again: Vec<_> = again.filter(|range| !range.is_empty() && !is_proof(range)).collect();
        assert!(again.is_empty(), "{context}: {asked:?} asks again for {again:?}; journalled {covered:?}");
    }
}
