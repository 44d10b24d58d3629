//! `weir why --pcap`: transfers over an emulated path, captured by tcpdump at both ends, are judged from
//! either capture as what holds them, or not at all; and what is no capture is said with the right exit code.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod story;
use crate::support;
#[path = "../support/tcpdump.rs"]
mod tcpdump;

use std::fs;
use std::io::Write;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use story::{Ends, Story};
use support::{Sandbox, WEIR, skip, wait_for};

/// So often at most a story is played.
const PLAYED: u32 = 4;

/// Both captures of a story, or why this machine makes none. One whose path was late is void, whatever is
/// said of it, and played again.
fn captured(sandbox: &Sandbox, story: &Story) -> Option<Ends> {
    if !tcpdump::is_there() {
        skip("tcpdump is not installed");
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        skip("capturing needs root");
        return None;
    }
    let mut left = PLAYED;
    loop {
        left -= 1;
        match story.play(sandbox.path("").as_path()) {
            Ok(ends) if ends.is_late && left > 0 => println!("{}: the path was late, again", story.name),
            Ok(ends) => return Some(ends),
            Err(why) => {
                skip(&format!("{why:#}"));
                return None;
            }
        }
    }
}

/// The record of a capture.
fn judged(sandbox: &Sandbox, file: &str) -> Value {
    let run = sandbox.weir(WEIR, ["why", "--json", "--pcap"]).args(&[file]).run();
    run.succeeds();
    run.json()
}

fn limit(record: &Value) -> String {
    record["verdict"]["limit"].as_str().unwrap_or("none").to_owned()
}

/// Plays a story and wants these limits from the sender's and from the receiver's capture. An abstention is
/// no conviction: it has to be among those that are wanted to count.
fn tells(story: Story, sender: &[&str], receiver: &[&str]) {
    let sandbox = Sandbox::new();
    let Some(ends) = captured(&sandbox, &story) else { return };
    for (file, side, wanted) in [(ends.sender, "sender", sender), (ends.receiver, "receiver", receiver)] {
        let record = judged(&sandbox, file.to_str().unwrap());
        let verdict = serde_json::to_string_pretty(&record["verdict"]).unwrap();
        assert_eq!(record["capture"]["flows"][0]["vantage"], side, "{verdict}");
        let told = record["capture"]["flows"][0]["bytes"].as_u64().unwrap();
        // What was under way or unread at the end was captured and not read.
        let counted = ends.bytes * 98 / 100..ends.bytes + (2 << 20);
        assert!(counted.contains(&told), "{told} counted, {} read", ends.bytes);
        // A start that takes a quarter is named beside it.
        let share = |limit: &str| record["verdict"]["shares"][limit].as_f64().unwrap_or_default();
        let is_main = limit(&record) == "mixed" && wanted.iter().any(|limit| share(limit) > 0.5);
        assert!(is_main || wanted.contains(&&*limit(&record)), "{} at the {side}: {verdict}", story.name);
        let innocent = record["verdict"]["innocent"].to_string();
        for unseen in ["send-buffer:", "cpu-core:", "disk:", "dirty-throttle:"] {
            assert!(!innocent.contains(unseen), "a capture does not show {unseen} {innocent}");
        }
    }
}

#[test]
fn a_receive_window() {
    tells(story::RECEIVE_WINDOW, &["receive-window"], &["receive-window"]);
}

#[test]
fn a_reader() {
    tells(story::READER, &["reader"], &["reader", "sender-or-path"]);
}

#[test]
fn a_full_link() {
    tells(story::FULL_LINK, &["path-bandwidth"], &["path-bandwidth", "sender-or-path", "mixed"]);
}

#[test]
fn loss() {
    tells(story::LOSS, &["path-loss"], &["path-loss", "sender-or-path", "mixed"]);
}

#[test]
fn an_application_with_little_to_send() {
    tells(story::APPLICATION, &["application"], &["application", "sender-or-path"]);
}

#[test]
fn small_requests() {
    tells(story::SMALL_REQUESTS, &["latency", "request-response"], &["latency", "request-response"]);
}

#[test]
fn a_send_buffer_is_not_visible_and_nobody_else_is_convicted() {
    tells(story::SEND_BUFFER, &["sender-or-path"], &["sender-or-path"]);
}

#[test]
fn stdin_gzip_and_a_page() {
    let sandbox = Sandbox::new();
    let Some(ends) = captured(&sandbox, &story::RECEIVE_WINDOW) else { return };
    let run = sandbox
        .weir(WEIR, ["why", "--pcap", "-", "--report", "page.html"])
        .input(fs::read(&ends.sender).unwrap())
        .run();
    run.succeeds();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(text.contains("limit: receive-window") && text.contains("capture: - (pcap)"), "{text}");
    let page = fs::read_to_string(sandbox.path("page.html")).unwrap();
    assert!(page.contains("Time and sequence") && page.contains("the receiver"), "no picture");
    let packed = Command::new("gzip").arg("-k").arg(&ends.sender).status();
    if packed.is_ok_and(|status| status.success()) {
        let file = format!("{}.gz", ends.sender.display());
        assert_eq!(limit(&judged(&sandbox, &file)), "receive-window");
    }
}

/// A capture of Ethernet before its first packet.
const HEAD: [u8; 24] = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];

/// A live one, whose writer stops in the middle of a packet: that is no damage.
#[test]
fn a_capture_in_which_no_packet_comes_ends_when_the_user_wants_or_its_time_is_over() {
    let sandbox = Sandbox::new();
    sandbox.pipe("live");
    for (args, interrupts) in [(&["live"][..], true), (&["live", "--for", "200ms"], false)] {
        let running = sandbox.weir(WEIR, ["why", "--json", "--pcap"]).args(args).spawn();
        let mut writer = fs::File::options().write(true).open(sandbox.path("live")).unwrap();
        writer.write_all(&[&HEAD[..], &[0; 4]].concat()).unwrap();
        if interrupts {
            wait_for("its handler", || running.catches(Signal::INT));
            running.signal(Signal::INT);
        }
        let run = running.wait();
        run.exits(1);
        assert!(!String::from_utf8_lossy(&run.stdout).contains("it is cut"), "{:?}", run.stdout);
        drop(writer);
    }
}

#[test]
fn a_capture_that_the_user_ends_before_it_begins_is_not_called_empty() {
    let sandbox = Sandbox::new();
    sandbox.pipe("live");
    let running = sandbox.weir(WEIR, ["why", "--pcap", "live"]).spawn();
    let writer = fs::File::options().write(true).open(sandbox.path("live")).unwrap();
    wait_for("its handler", || running.catches(Signal::INT));
    running.signal(Signal::INT);
    running.wait().fails(1, &["cannot judge capture live: interrupted before its file header"]);
    drop(writer);
}

#[test]
fn what_is_no_capture_fails_and_what_has_no_connection_says_so() {
    let sandbox = Sandbox::new();
    let of = |file: &str| sandbox.weir(WEIR, ["why", "--pcap"]).args(&[file]).run();
    of("nowhere.pcap").fails(1, &["cannot open capture nowhere.pcap"]);
    sandbox.write("text", b"this is no capture");
    of("text").fails(1, &["cannot judge capture text", "neither pcap nor pcapng"]);
    sandbox.write("empty", b"");
    of("empty").fails(1, &["it is empty"]);
    of(".").fails(1, &["it is a folder"]);
    sandbox.write("head.pcap", HEAD);
    let run = of("head.pcap");
    run.exits(1);
    assert!(String::from_utf8_lossy(&run.stdout).contains("no TCP connection"), "{:?}", run.stdout);
    sandbox.weir(WEIR, ["why", "--pcap", "head.pcap", "--pid", "1"]).run().exits(2);
    sandbox.weir(WEIR, ["why", "--pcap", "head.pcap", "--", "true"]).run().exits(2);
}
