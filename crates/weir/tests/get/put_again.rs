//! `weir put` of many files that was killed: the same command sends what is not at the store, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::process::Signal;
use support::bucket::{Bucket, Fault};
use support::{MIB, Request, Sandbox, pattern};

/// Small files of the tree, and those of them that are stored before the rest hang.
const FILES: usize = 150;
const STORED: usize = 100;

/// Sent at once.
const AT_ONCE: usize = 16;

/// A run that was killed with some files stored, others on their way, and the rest not begun.
struct Killed {
    bucket: Bucket,
    sandbox: Sandbox,
    /// Keys of what was stored.
    there: BTreeSet<String>,
}

fn is_single(request: &Request) -> bool {
    request.method == "PUT" && !request.target.contains('?')
}

/// `files` below `tree`, the rest of whose names and bytes follow from their numbers.
fn grow(sandbox: &Sandbox, files: usize) {
    std::fs::create_dir_all(sandbox.path("tree/in")).unwrap();
    for number in 0..files {
        let folder = if number % 2 == 0 { "tree" } else { "tree/in" };
        sandbox.write(&format!("{folder}/{number:03}"), pattern(500 + number, number as u64));
    }
}

fn killed(command: &[&str]) -> Killed {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    grow(&sandbox, FILES);
    let passed = AtomicUsize::new(0);
    bucket.hook(move |request| {
        (is_single(request) && passed.fetch_add(1, Relaxed) >= STORED).then_some(Fault::Hang)
    });
    let running = bucket.put(&sandbox, command).spawn();
    bucket.server.wait("files that hang", |_, requests| {
        requests.iter().filter(|seen| is_single(&seen.request)).count() >= STORED + AT_ONCE
    });
    running.signal(Signal::KILL);
    running.wait();
    bucket.heals();
    let there: BTreeSet<String> = bucket.holds().objects.keys().cloned().collect();
    assert_eq!(there.len(), STORED);
    Killed { bucket, sandbox, there }
}

impl Killed {
    /// Runs the command again: the keys that it sent, and what it asked for beside.
    #[track_caller]
    fn again(&self, command: &[&str]) -> (BTreeSet<String>, Vec<Request>) {
        let seen = self.bucket.server.requests().len();
        self.bucket.put(&self.sandbox, command).run().succeeds();
        let (sent, asked): (Vec<Request>, Vec<Request>) =
            self.bucket.server.requests_from(seen).into_iter().partition(is_single);
        let key = |request: &Request| request.path().trim_start_matches("/b/").to_owned();
        let keys: BTreeSet<String> = sent.iter().map(key).collect();
        assert_eq!(keys.len(), sent.len(), "a file was sent twice");
        (keys, asked)
    }

    /// The target has the tree, and no state of the run is left.
    #[track_caller]
    fn is_complete(&self, prefix: &str) {
        for number in 0..FILES {
            let folder = if number % 2 == 0 { "" } else { "in/" };
            let name = format!("{folder}{number:03}");
            let bytes = self.sandbox.read(&format!("tree/{name}"));
            assert!(self.bucket.bytes(&format!("{prefix}{name}")) == bytes, "{name}");
        }
        let left: Vec<String> = self.sandbox.names();
        let left: Vec<&String> =
            left.iter().filter(|name| name.ends_with(".run") || name.ends_with(".upload")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn what_is_stored_is_not_sent_again() {
    for command in [
        &["tree/", "s3://b/t/"][..],
        // Whose own objects would be in its way.
        &["tree/", "s3://b/t/", "--if-absent"],
    ] {
        let killed = killed(command);
        let (sent, asked) = killed.again(command);
        assert_eq!(sent.len(), FILES - STORED, "{command:?}");
        assert!(sent.is_disjoint(&killed.there), "{command:?}");
        // A list says it of all.
        assert!(asked.iter().filter(|request| request.target.contains("list-type")).count() <= 5);
        let looks = asked.iter().filter(|request| request.method == "HEAD");
        assert!(looks.count() <= if command.len() > 2 { FILES - STORED } else { 0 });
        killed.is_complete("t/");
    }
    // What was complete is sent when it is asked for again: put sends what it is told to.
    let command = ["tree/", "s3://b/t/"];
    let killed = killed(&command);
    killed.again(&command);
    assert_eq!(killed.again(&command).0.len(), FILES);
    killed.is_complete("t/");
}

/// A file of several parts that is stored is one as well.
#[test]
fn a_large_file_that_is_stored() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    sandbox.write("large", pattern(12 * MIB, 1));
    sandbox.write("small", "x");
    bucket.hook(|request| (request.path() == "/b/t/small").then_some(Fault::Hang));
    let command = ["large", "small", "s3://b/t/"];
    let running = bucket.put(&sandbox, &command).spawn();
    support::wait_for("the large one", || {
        let lines = sandbox.names().into_iter().filter(|name| name.ends_with(".run"));
        lines.map(|name| sandbox.read(&name)).any(|text| !text.is_empty())
    });
    running.signal(Signal::KILL);
    running.wait();
    bucket.heals();
    let seen = bucket.server.requests().len();
    let run = bucket.put(&sandbox, &command).run();
    run.succeeds().says(&["1 file that an earlier run stored is at the target"]);
    let sent = bucket.server.requests_from(seen).into_iter().filter(|request| request.method == "PUT");
    let sent: Vec<String> = sent.map(|request| request.path().to_owned()).collect();
    assert_eq!(sent, ["/b/t/small"]);
    assert!(bucket.bytes("t/large") == pattern(12 * MIB, 1));
}

/// Nothing counts as stored by its name: not a file that is another one now, not an object that is, not what was
/// to be stored in another manner.
#[test]
fn what_is_not_the_same_is_sent() {
    let command = ["tree/", "s3://b/t/"];
    let killed = killed(&command);
    let mut chosen = killed.there.iter();
    let mut next = || chosen.next().unwrap().clone();
    let path = |key: &str| key.replacen("t/", "tree/", 1);
    let (edited, touched, replaced, deleted) = (next(), next(), next(), next());
    let mut bytes = killed.sandbox.read(&path(&edited));
    bytes[0] ^= 1;
    killed.sandbox.write(&path(&edited), &bytes);
    let file = std::fs::File::options().write(true).open(killed.sandbox.path(path(&touched))).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let length = killed.bucket.bytes(&replaced).len();
    killed.bucket.hold(&replaced, pattern(length, 77));
    killed.bucket.holds().objects.remove(&deleted);
    let (sent, _) = killed.again(&command);
    for key in [&edited, &touched, &replaced, &deleted] {
        assert!(sent.contains(key), "{key} was not sent");
    }
    assert_eq!(sent.len(), FILES - STORED + 4);
    killed.is_complete("t/");
}

#[test]
fn in_another_manner_all_is_sent() {
    for more in [&["--metadata", "a=b"][..], &["--checksum", "md5"], &["--force"]] {
        let command = ["tree/", "s3://b/t/"];
        let killed = killed(&command);
        assert_eq!(killed.again(&[&command[..], more].concat()).0.len(), FILES, "{more:?}");
        killed.is_complete("t/");
    }
    // To another place, too.
    let killed = killed(&["tree/", "s3://b/t/"]);
    assert_eq!(killed.again(&["tree/", "s3://b/u/"]).0.len(), FILES);
}

/// A target that does not tell what it has: each object is asked for, and what cannot be known is sent.
#[test]
fn a_target_that_does_not_tell() {
    let denied = || {
        let xml = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>".to_owned();
        Fault::Answer("403 Forbidden", xml)
    };
    let command = ["tree/", "s3://b/t/"];
    let unlisted = killed(&command);
    unlisted.bucket.hook(move |request| request.target.contains("list-type").then(denied));
    let (sent, asked) = unlisted.again(&command);
    assert_eq!(sent.len(), FILES - STORED);
    assert_eq!(asked.iter().filter(|request| request.method == "HEAD").count(), STORED);
    let silent = killed(&command);
    silent.bucket.hook(move |request| (!is_single(request)).then(denied));
    assert_eq!(silent.again(&command).0.len(), FILES);
}

/// Attributes are told when an upload is begun: one that was begun with others is of no use.
#[test]
fn a_large_file_in_another_manner_begins_again() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    sandbox.write("large", pattern(20 * MIB, 1));
    bucket.hook(|request| {
        let xml = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>".to_owned();
        let is_third = request.target.contains("partNumber=3&");
        is_third.then_some(Fault::Answer("403 Forbidden", xml))
    });
    let command = ["large", "s3://b/large", "-c", "1"];
    bucket.put(&sandbox, &command).run().exits(4);
    bucket.heals();
    let seen = bucket.server.requests().len();
    let run = bucket.put(&sandbox, &[&command[..], &["--metadata", "a=b"]].concat()).run();
    run.succeeds().says(&["to be stored in another way"]);
    let parts = bucket.server.requests_from(seen);
    assert_eq!(parts.iter().filter(|request| request.method == "PUT").count(), 3);
    let holds = bucket.holds();
    let fields = &holds.objects["large"].fields;
    assert!(
        fields.iter().any(|(name, value)| name.eq_ignore_ascii_case("x-amz-meta-a") && value == "b"),
        "{fields:?}"
    );
    assert!(holds.uploads.is_empty());
}
