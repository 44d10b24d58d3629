//! Ends of `weir cp` that are no weir, another weir, or lie: played by the test over the control connection,
//! in both roles.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::time::{Duration, Instant};

use support::strange::{self, Heard, Talk};
use support::{MIB, Run, Sandbox, pattern};
use weir_cp::subtrees::{Digest, digest_of};
use weir_cp::wire::driver::{FromDriver, ToDriver};
use weir_cp::wire::message::{Failure, FailureKind, Hello, PROTOCOL, Problem, Role, Root, Totals, Transport};
use weir_cp::wire::record::{Footer, Kind};
use weir_cp::wire::to_receiver::{Offered, ToReceiver};
use weir_cp::wire::to_sender::{Answer, ToSender};
use weir_tree::entry::Time;
use weir_tree::source::Identity;
use weir_tree::{Entry, Kind as Is, Name};

/// `weir cp` of 3 MiB to a far end that the test plays, inside ssh.
fn to(play: impl FnOnce(&mut Talk) + Send + 'static) -> Run {
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(3 * MIB, 1));
    let ssh = strange::far(&sandbox, play);
    sandbox.weir(support::WEIR, ["cp", "--transport", "ssh", "-S", &ssh, "a", "far:b"]).run()
}

/// The value of the first block of what such a far end is sent.
fn first_block() -> Digest {
    digest_of(&pattern(3 * MIB, 1)[..MIB], 0, 3 * MIB as u64)
}

/// `weir cp` from such a far end; what came is looked at by `check`.
fn from(play: impl FnOnce(&mut Talk) + Send + 'static, check: impl FnOnce(&Sandbox)) -> Run {
    let sandbox = Sandbox::new();
    let ssh = strange::far(&sandbox, play);
    let run = sandbox.weir(support::WEIR, ["cp", "--transport", "ssh", "-S", &ssh, "far:wanted", "."]).run();
    std::fs::remove_dir_all(sandbox.path("ssh.strange")).unwrap();
    check(&sandbox);
    run
}

/// As a receiver up to the offer of the file; returns its number.
fn receives(talk: &mut Talk) -> u64 {
    is_offered(talk).id
}

/// As a receiver up to the offer of the file.
fn is_offered(talk: &mut Talk) -> Offered {
    assert_eq!(talk.begin().role, Role::Receiver);
    talk.listens_nowhere();
    loop {
        match talk.hear().expect("roots and an offer") {
            Heard::ToReceiver(ToReceiver::Roots(roots)) => {
                talk.say(&ToSender::Placed(roots.into_iter().flatten().map(|root| root.name).collect()));
            }
            Heard::ToReceiver(ToReceiver::Offer(mut offers)) => return offers.remove(0),
            Heard::FromDriver(FromDriver::Open(0, Transport::Ssh)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// As a sender up to where the driver has a place for `wanted`.
fn sends(talk: &mut Talk) {
    assert_eq!(talk.begin().role, Role::Sender);
    let identity = Identity { device: 0, inode: 0 };
    talk.say(&ToReceiver::Roots(vec![Some(Root { name: name("wanted"), directory: true, identity })]));
    talk.listens_nowhere();
    let (mut open, mut placed) = (false, false);
    while !(open && placed) {
        match talk.hear().expect("a lane and a place") {
            Heard::FromDriver(FromDriver::Open(..)) => open = true,
            Heard::ToSender(ToSender::Placed(names)) => placed = names == [name("wanted")],
            other => panic!("{other:?}"),
        }
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn offer(id: u64, path: &str, size: u64) -> Offered {
    let mtime = Time::new(1_700_000_000, 0).unwrap();
    let kind = Is::File { size, sparse: false };
    let entry = Entry { name: name(path), kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
    Offered { id, entry, digest: None }
}

#[test]
fn a_far_end_of_another_protocol_is_named() {
    let said =
        ["weir on far speaks protocol 9 (version 7.7.7)", "this weir speaks", "use the same version on both"];
    let run = to(|talk| {
        talk.bytes(b"\x1eweir-peer\n");
        let theirs = Hello { protocol: 9, version: "7.7.7".into(), ..strange::hello() };
        talk.say(&ToDriver::Hello(theirs));
        talk.hear_out();
    });
    run.fails(1, &said);
    // One whose hello has another form, but number and version where they always are.
    let run = to(|talk| {
        talk.bytes(b"\x1eweir-peer\n");
        talk.bytes(&[11, 0, 0, 0, 0, 0, 9, 5, b'7', b'.', b'7', b'.', b'7', 1, 2, 3]);
        talk.hear_out();
    });
    run.fails(1, &said);
}

#[test]
fn a_driver_of_another_protocol_is_left() {
    let (mut child, mut talk) = strange::peer();
    let Some(Heard::ToDriver(ToDriver::Hello(hello))) = talk.hear() else { panic!("no hello") };
    assert_eq!(hello.protocol, PROTOCOL, "so that the other end can say it");
    talk.say(&FromDriver::Hello(Hello { protocol: 9, ..strange::hello() }));
    assert!(talk.hear().is_none(), "it ends");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_driver_that_breaks_off_or_talks_nonsense_leaves_no_peer() {
    let long = [255, 255, 255, 255, 0];
    for nonsense in
        [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &long, &[3, 0, 0, 0, 1, 1, 1, 1], &[2, 0, 0, 0, 0, 9]]
    {
        let (mut child, mut talk) = strange::peer();
        talk.hear();
        talk.bytes(nonsense);
        drop(talk);
        assert_eq!(child.wait().unwrap().code(), Some(1), "{nonsense:?}");
    }
}

#[test]
fn what_is_no_weir_is_said_to_be_none() {
    let refused = |play: fn(&mut Talk), texts: &[&str]| {
        to(play).fails(1, texts);
    };
    refused(|_| {}, &["cannot reach far", "before weir ran there"]);
    refused(
        |talk| {
            talk.bytes(b"Welcome!\nThis account is closed \x1b[2J.\n");
        },
        &["cannot reach far", "and said: This account is closed", "must be allowed to run programs"],
    );
    refused(|talk| while talk.bytes(b"chatter chatter chatter\n") {}, &["more than 64 KiB", "login scripts"]);
    refused(|talk| while talk.bytes(&[b'x'; 4096]) {}, &["more than 64 KiB"]);
    refused(
        |talk| {
            talk.bytes(b"\x1eweir-failed the disk is \x1b]0;full\x07\n");
        },
        &["weir could not be copied there: the disk is"],
    );
    let run = to(|talk| {
        talk.bytes(b"\x1eweir-peer\nSSH-2.0-OpenSSH_9.2p1\r\n");
        talk.hear_out();
    });
    run.fails(1, &["far sent a frame of", "it is faulty, or not weir"]);
    assert!(!run.stderr.contains('\x1b'), "a far end must not steer the terminal: {:?}", run.stderr);
}

#[test]
fn far_words_do_not_steer_the_terminal() {
    let words = "gone \x1b]0;title\x07\x1b[2J\r";
    let run = from(
        move |talk| {
            sends(talk);
            let failure = Failure::new(FailureKind::Local, words);
            talk.say(&ToDriver::Problem(Problem { name: name("wanted/\x1b[31m"), failure, harmless: false }));
            talk.say(&ToDriver::Abort(Failure::new(FailureKind::Local, words)));
            talk.hear_out();
        },
        |sandbox| assert_eq!(sandbox.names(), [""; 0]),
    );
    run.fails(1, &["gone"]);
    assert!(!run.stderr.contains(['\x1b', '\x07', '\r']), "{:?}", run.stderr);
}

#[test]
fn a_receiver_that_lies_ends_the_copy() {
    let refused = |lie: fn(&mut Talk, u64) -> bool, texts: &[&str]| {
        let run = to(move |talk| {
            let id = receives(talk);
            lie(talk, id);
            talk.take_all();
        });
        run.fails(1, texts);
    };
    let lies = "it is faulty, or not weir";
    refused(
        |talk, _| talk.say(&ToSender::Finished(Totals::default())),
        &["that all is stored before all was sent", lies],
    );
    refused(
        |talk, id| talk.say(&ToSender::Answer(vec![(id + 7, Answer::All)])),
        &["an answer to no offer", lies],
    );
    refused(
        |talk, id| talk.say(&ToSender::Signature(id + 7, vec![0; 100])),
        &["a signature of no file", lies],
    );
    refused(
        |talk, _| talk.say(&ToSender::Placed(vec![name("x"), name("y")])),
        &["where other sources go", lies],
    );
    refused(
        |talk, _| talk.say(&ToSender::Avoid(Identity { device: 1, inode: 2 })),
        &["its target twice, or too late", lies],
    );
    let wants = |blocks: &[u64]| {
        let blocks = blocks.to_vec();
        let run = to(move |talk| {
            let id = receives(talk);
            talk.say(&ToSender::Answer(vec![(id, Answer::Rest(vec![(0, 0, first_block())]))]));
            talk.say(&ToSender::Wanted(id, blocks));
            talk.take_all();
        });
        run.fails(1, &["blocks that it did not have, or twice", lies]);
    };
    wants(&[1]);
    wants(&[0, 0]);
    wants(&[u64::MAX]);
    refused(|talk, _| talk.say(&ToReceiver::Roots(Vec::new())), &["what only a sender says", lies]);
    refused(|talk, _| talk.say(&ToDriver::Hello(strange::hello())), &["what is said at the start", lies]);
    // Only a driver says that, and only a sender the other: neither is for whoever drives and sends.
    refused(|talk, _| talk.say(&FromDriver::Retire(9)), &["what only a sender says", lies]);
    refused(|talk, _| talk.say(&ToDriver::MoreNames), &["what only its other role says", lies]);
    refused(
        |talk, id| talk.say(&ToSender::Answer(vec![(id, Answer::Refused(Failure::local("no thanks")))])),
        &["no thanks"],
    );
}

/// What goes once it has arrived is copied whatever is there, and not read for its digest.
#[test]
fn what_is_to_be_removed_is_offered_without_a_digest() {
    for (flags, has_digest) in
        [(&["--checksum"][..], true), (&["--checksum", "--remove-source-files"], false)]
    {
        let sandbox = Sandbox::new();
        sandbox.write("a", pattern(3 * MIB, 1));
        let (tell, told) = std::sync::mpsc::channel();
        let ssh = strange::far(&sandbox, move |talk| {
            tell.send(is_offered(talk).digest.is_some()).unwrap();
            talk.say(&ToDriver::Abort(Failure::new(FailureKind::Session, "enough")));
            talk.hear_out();
        });
        let cp = sandbox.weir(support::WEIR, ["cp", "--transport", "ssh", "-S", &ssh]);
        cp.args(flags).args(&["a", "far:b"]).run().fails(1, &["enough"]);
        assert_eq!(told.recv_timeout(support::TIMEOUT), Ok(has_digest), "{flags:?}");
    }
}

/// What it claims to have is not believed: the file is not taken for stored.
#[test]
fn a_receiver_that_claims_to_have_it_is_not_believed() {
    let run = to(|talk| {
        let id = receives(talk);
        // One that is the file's, and one that cannot be.
        let nodes = vec![(0, 0, first_block()), (63, 1 << 60, [2; 32])];
        talk.say(&ToSender::Answer(vec![(id, Answer::Rest(nodes))]));
        talk.say(&ToSender::Stored(id, Ok([3; 32])));
        talk.take_all();
    });
    run.fails(3, &["a was stored as another file: the digests differ"]);
    let run = to(|talk| {
        let id = receives(talk);
        talk.say(&ToSender::Answer(vec![(id, Answer::All)]));
        talk.say(&ToSender::Stored(id, Ok([3; 32])));
        // Whatever it says of lanes that never were.
        for _ in 0..1000 {
            talk.say(&ToSender::Ack(7, u64::MAX));
            talk.say(&ToSender::Again(7, 3, "what?".into()));
            talk.say(&ToSender::LaneLost(9, "gone".into()));
        }
        talk.take_all();
    });
    run.fails(3, &["a was stored as another file: the digests differ"]);
}

#[test]
fn a_signature_without_end_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(3 * MIB, 1));
    let ssh = strange::far(&sandbox, |talk| {
        let id = receives(talk);
        while talk.say(&ToSender::Signature(id, vec![7; 512 << 10])) {}
    });
    let run = sandbox.weir(support::WEIR, ["cp", "-u", "--transport", "ssh", "-S", &ssh, "a", "far:b"]).run();
    run.fails(1, &["a signature of no file"]);
}

#[test]
fn what_a_sender_leaves_out_is_told() {
    let run = from(
        |talk| {
            sends(talk);
            talk.say(&ToReceiver::Offer(vec![offer(1, "wanted/file", 5 * MIB as u64)]));
            talk.hear();
            talk.say(&ToReceiver::Finish(Totals::default(), false));
            talk.hear_out();
        },
        |sandbox| assert!(!sandbox.path("wanted/file").exists()),
    );
    run.fails(1, &["wanted/file was not sent to its end"]);
}

/// Sizes that no disk has, and sizes that only say so: neither memory nor disk is taken for them.
#[test]
fn sizes_that_explode_take_nothing() {
    for (size, sparse) in
        [(i64::MAX as u64, false), (1 << 50, false), (i64::MAX as u64, true), (1 << 42, true)]
    {
        let run = from(
            move |talk| {
                sends(talk);
                let mut one = offer(1, "wanted/file", size);
                one.entry.kind = Is::File { size, sparse };
                talk.say(&ToReceiver::Offer(vec![one]));
                // The last block of them all, and one beyond; then all that a record can say.
                let last = size.saturating_sub(1) / MIB as u64 * MIB as u64;
                for (offset, raw) in [(last, 1), (1 << 62, 1), (0, u32::MAX)] {
                    let footer = Footer { kind: Kind::Hole, codec: 0, raw, file: 1, offset, digest: [0; 32] };
                    talk.record(b"", footer);
                }
                talk.say(&ToDriver::Abort(Failure::new(FailureKind::Session, "enough")));
                talk.hear_out();
            },
            |sandbox| {
                use std::os::unix::fs::MetadataExt;
                let taken: u64 = (sandbox.names().iter())
                    .map(|name| sandbox.path(name).metadata().unwrap().blocks() * 512)
                    .sum();
                assert!(taken < 1 << 20, "{taken} bytes of disk for {size}");
            },
        );
        run.fails(1, &["enough"]);
    }
}

/// Millions of offers, problems and samples: the memory of the near end stays where it was.
#[test]
fn endless_messages_fill_no_memory() {
    let sandbox = Sandbox::new();
    let ssh = strange::far(&sandbox, |talk| {
        sends(talk);
        let words = "w".repeat(2000);
        let sample = "[".repeat(60_000);
        for round in 0..40u64 {
            let offers =
                (0..1000).map(|at| offer(round * 1000 + at, &format!("wanted/{round}-{at}"), 300_000));
            talk.say(&ToReceiver::Offer(offers.collect()));
            while !matches!(talk.hear(), Some(Heard::ToSender(ToSender::Answer(_))) | None) {}
            for _ in 0..200 {
                let failure = Failure::new(FailureKind::Local, words.clone());
                talk.say(&ToDriver::Problem(Problem { name: name("wanted/x"), failure, harmless: false }));
                talk.say(&ToDriver::Sample(sample.clone()));
            }
        }
        talk.say(&ToDriver::Abort(Failure::new(FailureKind::Session, "enough")));
        talk.hear_out();
    });
    let args = ["cp", "-q", "--json", "--transport", "ssh", "-S", &ssh, "far:wanted", "."];
    let run = sandbox.weir(support::WEIR, args).run();
    run.fails(1, &["enough"]);
    let peak = run.json()["peak_memory"].as_u64().unwrap();
    assert!(peak < 100 << 20, "{} MiB", peak >> 20);
}

/// An end that falls silent is left after a minute, whatever state it is in; the user may leave it at once.
#[test]
fn silence_ends_and_an_interrupt_ends_it_sooner() {
    let states: [fn(&mut Talk); 7] = [
        |_| {},
        |talk| {
            talk.bytes(b"a title without an end");
        },
        |talk| {
            talk.bytes(b"\x1eweir-peer\n");
        },
        |talk| drop(talk.begin()),
        |talk| {
            receives(talk);
        },
        |talk| {
            let id = receives(talk);
            talk.say(&ToSender::Answer(vec![(id, Answer::All)]));
        },
        |talk| {
            let id = receives(talk);
            talk.say(&ToSender::Answer(vec![(id, Answer::All)]));
            talk.say(&ToSender::Ack(0, 2));
        },
    ];
    let soak = std::env::var_os("WEIR_SOAK").is_some();
    std::thread::scope(|scope| {
        for (index, state) in states.into_iter().enumerate() {
            scope.spawn(move || one_silence(index, state, false));
            // Before weir runs there a person may be asked for a password: no limit.
            if soak && index > 1 {
                scope.spawn(move || one_silence(index, state, true));
            }
        }
    });
}

fn one_silence(index: usize, state: fn(&mut Talk), wait: bool) {
    let sandbox = Sandbox::new();
    // More than all the pipes between them hold.
    sandbox.write("a", pattern(12 * MIB, 1));
    let (tell, told) = std::sync::mpsc::channel();
    let (keep, kept) = std::sync::mpsc::channel::<()>();
    let ssh = strange::far(&sandbox, move |talk| {
        state(talk);
        tell.send(()).unwrap();
        let _ = kept.recv();
    });
    let args = ["cp", "-q", "--codec", "none", "--transport", "ssh", "-S", &ssh, "a", "far:b"];
    let running = sandbox.weir(support::WEIR, args).spawn();
    told.recv_timeout(support::TIMEOUT).unwrap();
    let start = Instant::now();
    if wait {
        let run = running.wait_for(Duration::from_secs(90));
        // It said nothing and took nothing: which of the two is noticed first, both within a look, is chance.
        run.fails(run.status.code().unwrap_or(0), &["lost the connection to far: it ", " nothing for "]);
        assert!(matches!(run.status.code(), Some(1 | 4)), "state {index}: {run:?}");
    } else {
        running.signal(rustix::process::Signal::INT);
        running.wait().exits(130);
        assert!(start.elapsed() < Duration::from_secs(20), "state {index} took {:?}", start.elapsed());
    }
    drop(keep);
}
