//! A far end that lies: it has the keys and speaks the protocol, and still nothing comes to lie where it was
//! not asked for.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Mailbox, channel};
use std::time::Duration;

use weir_codec::cipher::Cipher;
use weir_codec::codec::Codec;
use weir_cp::control::{Control, Outlet};
use weir_cp::end::{End, Post, listen_to};
use weir_cp::events::{Event, Events};
use weir_cp::lane::LaneSender;
use weir_cp::lane::dial::dial;
use weir_cp::lane::listen::Listener;
use weir_cp::receiver::{Receiver, Wanted};
use weir_cp::secret::Secret;
use weir_cp::secure::Keyring;
use weir_cp::subtrees::{digest_of, digest_of_run};
use weir_cp::wire::batch::{self, Keep, Member};
use weir_cp::wire::frame;
use weir_cp::wire::message::{FailureKind, Listening, MAX_UNDER_WAY, Options, Ports, Role, Root};
use weir_cp::wire::record::{Footer, Kind};
use weir_cp::wire::to_receiver::{Offered, ToReceiver};
use weir_cp::wire::to_sender::{Answer, ToSender};
use weir_tree::entry::{Device, LinkTarget, Special, Time};
use weir_tree::source::Identity;
use weir_tree::{Entry, Kind as Is, Name};

const TIMEOUT: Duration = Duration::from_secs(30);
const MIB: usize = 1 << 20;

/// A sender that says what it likes to an honest receiver, which has asked for `wanted`.
struct Liar {
    folder: tempfile::TempDir,
    receiver_hears: Outlet<ToReceiver>,
    answers: io::PipeReader,
    events: Mailbox<Event>,
    lane: LaneSender,
    receiver: End,
    /// Sent so far.
    batches: u64,
    _listener: Listener,
}

impl Liar {
    fn new() -> Liar {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("to")).unwrap();
        std::fs::create_dir(folder.path().join("outside")).unwrap();
        let ring = Keyring::new(&Secret::draw().unwrap(), Some(Cipher::AES_128_GCM));
        let (there, back) = (io::pipe().unwrap(), io::pipe().unwrap());
        let (tell, events) = channel();
        let events_to = Events::new("the liar", tell);
        let to = folder.path().join("to").to_string_lossy().into_owned() + "/";
        let names = Some(vec![Name::new(&b"wanted"[..]).unwrap()]);
        let wanted = Wanted { to: to.into(), names, same_machine: false };
        let receiver = Receiver::new(
            Outlet::new(&Arc::new(Control::new(back.1))),
            events_to.clone(),
            Options::default(),
            wanted,
        );
        let end = End::Receiver(receiver);
        let (reader, accept) = (end.clone(), end.clone());
        std::thread::spawn(move || listen_to(there.0, &reader, Post::Peer, &events_to));
        let ports = Ports { first: 0, last: 0 };
        let listener =
            Listener::start(ports, ring.clone(), Role::Receiver, move |lane| accept.add_lane(lane), |_| {})
                .unwrap();
        let at = Listening { port: listener.port(), addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)] };
        let (lane, _) = dial(&at, 1, &ring, Role::Sender, TIMEOUT).unwrap().into_sender();
        let mut liar = Liar {
            folder,
            receiver_hears: Outlet::new(&Arc::new(Control::new(there.1))),
            answers: back.0,
            events,
            lane,
            receiver: end,
            batches: 0,
            _listener: listener,
        };
        // The name that it says does not count.
        let root = Root {
            name: Name::new(&b".profile"[..]).unwrap(),
            directory: true,
            identity: Identity { device: 0, inode: 0 },
        };
        liar.receiver_hears.send(&ToReceiver::Roots(vec![Some(root)]));
        match liar.answer() {
            ToSender::Placed(names) => assert_eq!(names[0].as_bytes(), b"wanted"),
            other => panic!("{other:?}"),
        }
        liar
    }

    /// What the receiver says next.
    fn answer(&mut self) -> ToSender {
        let mut body = Vec::new();
        loop {
            frame::read(&mut self.answers, &mut body).unwrap().expect("an answer");
            match frame::parse_message(&body).unwrap().expect("what is for a sender") {
                // On a busy machine a lane rests for longer than a second.
                ToSender::Waits(_) => {}
                answer => return answer,
            }
        }
    }

    fn send(&mut self, payload: &[u8], footer: Footer) {
        let mut plain = payload.to_vec();
        footer.push_to(&mut plain);
        let header = self.lane.seal(&mut plain);
        // A lane that the receiver has ended breaks.
        let _ = self.lane.send(&header, &plain);
    }

    fn batch(&mut self, raw: &[u8]) {
        let digest = *blake3::hash(raw).as_bytes();
        let footer = Footer {
            kind: Kind::Batch,
            codec: 0,
            raw: raw.len() as u32,
            file: self.batches,
            offset: 0,
            digest,
        };
        self.batches += 1;
        self.send(raw, footer);
    }

    fn members(&mut self, members: &[Member], contents: &[u8]) {
        let mut raw = Vec::new();
        batch::write(members, contents, &mut raw);
        self.batch(&raw);
    }

    /// The receiver's word on a problem.
    fn problem(&self) -> String {
        loop {
            match self.events.recv_timeout(TIMEOUT).expect("a problem") {
                Event::Problem(problem) => return problem.failure.words,
                Event::LaneLost(_, why) => return format!("lane lost: {why}"),
                Event::Failed(error) => return format!("failed: {error}"),
                _ => {}
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn nothing_in(&self, name: &str) {
        let there: Vec<_> = std::fs::read_dir(self.path(name)).unwrap().flatten().collect();
        assert!(there.is_empty(), "{there:?}");
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.receiver_hears.control().close();
        self.receiver.stop();
    }
}

fn entry(name: &str, kind: Is) -> Entry {
    let name = Name::new(name.as_bytes()).unwrap();
    let mtime = Time::new(1_700_000_000, 0).unwrap();
    Entry { name, kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() }
}

fn member(name: &str, kind: Is) -> Member {
    Member { entry: entry(name, kind), last: false, keep: None }
}

fn file(size: usize) -> Is {
    Is::File { size: size as u64, sparse: false }
}

fn wait_for(done: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < TIMEOUT, "waited in vain");
        std::thread::yield_now();
    }
}

#[test]
fn a_name_that_was_not_asked_for_is_refused() {
    let mut liar = Liar::new();
    liar.members(&[member("other", file(4))], b"text");
    assert!(liar.problem().contains("other was not asked for"));
    let offer = Offered { id: 1, entry: entry(".bashrc", file(MIB)), digest: None };
    liar.receiver_hears.send(&ToReceiver::Offer(vec![offer]));
    loop {
        match liar.answer() {
            ToSender::Answer(answers) => {
                assert!(matches!(&answers[..], [(1, Answer::Refused(_))]), "{answers:?}");
                break;
            }
            ToSender::Ack(..) => {}
            other => panic!("{other:?}"),
        }
    }
    liar.nothing_in("to");
}

#[test]
fn a_name_that_leaves_its_tree_ends_the_lane() {
    for (innocent, lie) in [("wanted/xx/file", "wanted/../file"), ("wanted/file", "//nted/file")] {
        let mut liar = Liar::new();
        let mut raw = Vec::new();
        batch::write(&[member(innocent, file(4))], b"text", &mut raw);
        let at = raw.windows(innocent.len()).position(|bytes| bytes == innocent.as_bytes()).unwrap();
        raw[at..at + lie.len()].copy_from_slice(lie.as_bytes());
        liar.batch(&raw);
        assert!(liar.problem().starts_with("lane lost: a record of unknown form"));
        liar.nothing_in("to");
    }
}

#[test]
fn a_link_is_never_followed() {
    let mut liar = Liar::new();
    let outside = liar.path("outside");
    let target = LinkTarget::new(outside.to_string_lossy().as_bytes()).unwrap();
    let link = member("wanted/link", Is::Symlink { target });
    // What is below something that is no folder is left out, and said once at the end.
    let below = [member("wanted/link/file", file(4)), member("wanted/sign", file(0))];
    liar.members(&[member("wanted", Is::Directory), link], b"");
    liar.members(&below, b"text");
    let sign = liar.path("to/wanted/sign");
    wait_for(|| sign.exists());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    let hard = member("wanted/hard", Is::HardLink { to: Name::new(&b"wanted/link/x"[..]).unwrap() });
    std::fs::write(outside.join("x"), "outside").unwrap();
    liar.members(&[hard], b"");
    liar.problem();
    assert!(!liar.path("to/wanted/hard").exists());
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 1);
}

#[test]
fn nothing_is_deleted_that_nobody_asked_to_delete() {
    let mut liar = Liar::new();
    std::fs::create_dir(liar.path("to/wanted")).unwrap();
    std::fs::write(liar.path("to/wanted/precious"), "text").unwrap();
    let keep = Some(Keep { names: Vec::new(), more: false });
    liar.members(&[Member { entry: entry("wanted", Is::Directory), last: true, keep }], b"");
    assert!(liar.problem().contains("was not asked for"));
    assert!(liar.path("to/wanted/precious").exists());
}

#[test]
fn a_wrong_digest_leaves_no_file() {
    let mut liar = Liar::new();
    let bytes = vec![7; MIB + 5];
    let offer = Offered { id: 9, entry: entry("wanted", file(bytes.len())), digest: None };
    liar.receiver_hears.send(&ToReceiver::Offer(vec![offer]));
    assert!(matches!(liar.answer(), ToSender::Answer(answers) if answers == [(9, Answer::All)]));
    for (index, block) in bytes.chunks(MIB).enumerate() {
        let digest = digest_of(block, index as u64, bytes.len() as u64);
        let offset = (index * MIB) as u64;
        let footer = Footer { kind: Kind::Block, codec: 0, raw: block.len() as u32, file: 9, offset, digest };
        liar.send(block, footer);
    }
    liar.receiver_hears.send(&ToReceiver::End(9, Ok([0; 32])));
    loop {
        match liar.answer() {
            ToSender::Stored(9, Err(failure)) => {
                assert_eq!(failure.kind, FailureKind::Verification);
                break;
            }
            ToSender::Ack(..) => {}
            other => panic!("{other:?}"),
        }
    }
    liar.nothing_in("to");
}

/// A block that unpacks to more or less than it says, one of another digest, one beyond the file: none is
/// written, and a block whose content does not fit is asked for again.
#[test]
fn blocks_that_are_not_what_they_say_are_not_written() {
    let mut liar = Liar::new();
    let offer = Offered { id: 1, entry: entry("wanted", file(3 * MIB)), digest: None };
    liar.receiver_hears.send(&ToReceiver::Offer(vec![offer]));
    liar.answer();
    let mut packed = Vec::new();
    Codec::ZSTD.compress(1, &vec![0; 2 * MIB], &mut packed).unwrap();
    let zeros = vec![0; MIB];
    let digest = digest_of(&zeros, 0, 3 * MIB as u64);
    let honest = Footer { kind: Kind::Block, codec: 0, raw: MIB as u32, file: 1, offset: 0, digest };
    liar.send(&packed, Footer { codec: Codec::ZSTD.id(), ..honest });
    liar.send(&zeros, Footer { codec: 77, ..honest });
    liar.send(&zeros, Footer { digest: [1; 32], ..honest });
    liar.send(&zeros, Footer { offset: 64 * MIB as u64, ..honest });
    liar.send(&zeros, Footer { kind: Kind::Patch, ..honest });
    // Several at once: beyond the end, and with the digest of the first alone.
    let two = vec![0; 2 * MIB];
    let (raw, values) =
        (two.len() as u32, [0, 1, 2, 3].map(|index| digest_of(&zeros, index, 3 * MIB as u64)));
    let beyond = Footer { raw, offset: 2 * MIB as u64, digest: digest_of_run(&values[2..]), ..honest };
    liar.send(&two, beyond);
    liar.send(&two, Footer { raw, ..honest });
    let mut again = 0;
    while again < 7 {
        match liar.answer() {
            ToSender::Again(1, ..) => again += 1,
            ToSender::Ack(..) => {}
            other => panic!("{other:?}"),
        }
    }
    liar.nothing_in("outside");
    assert!(!liar.path("to/wanted").exists());
}

#[test]
fn a_broken_control_connection_ends_the_session() {
    for bytes in
        [&[0, 0, 0, 0, 0][..], &[1, 0, 0, 0, 9, 0], &[255, 255, 255, 255, 0], &[3, 0, 0, 0, 0, 255, 255, 255]]
    {
        let (there, mut liar) = io::pipe().unwrap();
        let (tell, events) = channel();
        let events_to = Events::new("the liar", tell);
        let wanted = Wanted { to: b"/nonexistent/".to_vec(), names: None, same_machine: false };
        let sender = Outlet::new(&Arc::new(Control::new(io::sink())));
        let end = End::Receiver(Receiver::new(sender, events_to.clone(), Options::default(), wanted));
        liar.write_all(bytes).unwrap();
        drop(liar);
        listen_to(there, &end, Post::Peer, &events_to);
        let said = events.recv_timeout(TIMEOUT).unwrap();
        assert!(
            matches!(&said, Event::Failed(error) if error.to_string().contains("it is faulty, or not weir")),
            "{said:?}"
        );
    }
}

/// Small records that would become large: each codec stops at the length that was announced.
#[test]
fn bombs_do_not_unpack() {
    let mut liar = Liar::new();
    let offer = Offered { id: 1, entry: entry("wanted", file(64 * MIB)), digest: None };
    liar.receiver_hears.send(&ToReceiver::Offer(vec![offer]));
    liar.answer();
    let bomb = vec![0; 16 * MIB];
    let (mut packed, mut sent) = (Vec::new(), 0);
    for codec in Codec::all().filter(|codec| codec.id() != 0) {
        codec.compress(codec.default_level(), &bomb, &mut packed).unwrap();
        if packed.len() > MIB {
            continue;
        }
        for kind in [Kind::Block, Kind::Batch, Kind::Patch] {
            let raw = MIB as u32;
            liar.send(&packed, Footer { kind, codec: codec.id(), raw, file: 1, offset: 0, digest: [0; 32] });
            sent += 1;
        }
    }
    assert!(sent >= 9, "{sent} bombs are too few");
    let mut again = 0;
    while again < sent {
        match liar.answer() {
            ToSender::Again(1, ..) => again += 1,
            ToSender::Ack(..) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(!liar.path("to/wanted").exists());
}

#[test]
fn what_is_no_data_is_not_made() {
    let mut liar = Liar::new();
    let device = Device { major: 1, minor: 3 };
    let specials =
        [Special::Fifo, Special::Socket, Special::BlockDevice(device), Special::CharacterDevice(device)];
    for special in specials {
        liar.members(&[member("wanted/x", Is::Special(special))], b"");
        assert!(liar.problem().contains("is not written"));
    }
    assert!(!liar.path("to/wanted").exists());
}

/// A link is made first, then files are to be written through it: small, in blocks, and as second names.
#[test]
fn a_link_made_first_leads_nowhere() {
    let mut liar = Liar::new();
    let outside = liar.path("outside");
    let target = LinkTarget::new(outside.to_string_lossy().as_bytes()).unwrap();
    liar.members(&[member("wanted", Is::Directory), member("wanted/link", Is::Symlink { target })], b"");
    let link = liar.path("to/wanted/link");
    wait_for(|| link.is_symlink());
    for (id, size) in [(1, MIB), (2, 5 * MIB)] {
        let offer = Offered { id, entry: entry("wanted/link/file", file(size)), digest: None };
        liar.receiver_hears.send(&ToReceiver::Offer(vec![offer]));
        loop {
            match liar.answer() {
                ToSender::Answer(answers) => {
                    let is_refused = matches!(&answers[..], [(_, Answer::Refused(_) | Answer::LeftOut)]);
                    assert!(is_refused, "{answers:?}");
                    break;
                }
                ToSender::Ack(..) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    // A file in the link's place replaces the link, not what it leads to.
    std::fs::write(outside.join("precious"), "text").unwrap();
    let target = LinkTarget::new(outside.join("precious").to_string_lossy().as_bytes()).unwrap();
    liar.members(
        &[
            member("wanted/other", Is::Symlink { target }),
            member("wanted/other", file(4)),
            member("wanted/sign", file(0)),
        ],
        b"evil",
    );
    let sign = liar.path("to/wanted/sign");
    wait_for(|| sign.exists());
    assert_eq!(std::fs::read(outside.join("precious")).unwrap(), b"text");
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 1);
    assert_eq!(std::fs::read(liar.path("to/wanted/other")).unwrap(), b"evil");
}

/// More files than an honest sender ever has under way take no descriptors.
#[test]
fn too_many_offers_are_refused() {
    let mut liar = Liar::new();
    let offers = |first: u64| -> Vec<Offered> {
        let one = |id: u64| Offered { id, entry: entry(&format!("wanted/{id}"), file(MIB)), digest: None };
        (first..first + 1000).map(one).collect()
    };
    let (mut taken, mut refused) = (0, 0);
    for round in 0..5 {
        liar.receiver_hears.send(&ToReceiver::Offer(offers(round * 1000)));
        let ToSender::Answer(answers) = liar.answer() else { panic!("no answer") };
        taken += answers.iter().filter(|(_, answer)| *answer == Answer::All).count();
        refused += answers.iter().filter(|(_, answer)| matches!(answer, Answer::Refused(_))).count();
    }
    assert_eq!((taken, refused), (MAX_UNDER_WAY, 5000 - MAX_UNDER_WAY));
}

/// Names of a folder, part by part, without end and without having been asked: none of them is kept.
#[test]
fn names_to_keep_are_heard_only_where_asked_for() {
    let mut liar = Liar::new();
    for _ in 0..3 {
        let keep =
            Some(Keep { names: (0..1000u32).map(|at| at.to_le_bytes().to_vec()).collect(), more: true });
        liar.members(&[Member { entry: entry("wanted", Is::Directory), last: true, keep }], b"");
        assert!(liar.problem().contains("was not asked for"));
    }
}
