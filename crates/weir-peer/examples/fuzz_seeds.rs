//! Writes what fuzz targets begin with: one good input of each kind, below the folder that is named.
//!
//!     cargo run -p weir-peer --example fuzz_seeds fuzz/seeds
#![allow(clippy::unwrap_used, reason = "a folder that cannot be written ends it")]

use std::path::PathBuf;

use weir_codec::codec::Codec;
use weir_model::evidence::{LaneWindow, Window};
use weir_peer::hello;
use weir_peer::secret::Secret;
use weir_peer::watch::Sample;
use weir_peer::wire::batch::{self, Keep, Member};
use weir_peer::wire::driver::{FromDriver, ToDriver};
use weir_peer::wire::frame::{self, to_frame};
use weir_peer::wire::message::{
    Deed, Failure, FailureKind, Listening, Options, Ports, Problem, Role, Root, Start, Totals, Transport,
};
use weir_peer::wire::owners::Owners;
use weir_peer::wire::patch::{self, Step};
use weir_peer::wire::record::{Footer, Header, Kind, greeting};
use weir_peer::wire::to_receiver::{Offered, ToReceiver};
use weir_peer::wire::to_sender::{Answer, ToSender};
use weir_tree::entry::{LinkTarget, Time, Xattr};
use weir_tree::source::Identity;
use weir_tree::{Entry, Kind as Is, Name};

fn main() {
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("fuzz/seeds"), PathBuf::from);
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let folder = root.join(target);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), bytes).unwrap();
    };
    for (index, bytes) in frames().iter().enumerate() {
        write("cp_frame", &format!("frame{index}"), bytes);
        write("cp_frame", &format!("body{index}"), &bytes[frame::HEAD..]);
        write("cp_greeting", &format!("body{index}"), &bytes[frame::HEAD..]);
    }
    write(
        "cp_greeting",
        "lines",
        b"Welcome\nweir-absent Linux x86_64\nweir-stored\nweir-failed no room\nweir-peer\n",
    );
    let mut raw = Vec::new();
    batch::write(&members(), b"text", &mut raw);
    write("cp_batch", "all", &raw);
    record(&write, Kind::Batch, &raw);
    patch::write(&[Step::Copy { from: 7, len: 9 }, Step::Literal { len: 4 }], &[7; 13], &mut raw);
    write("cp_patch", "both", &raw);
    record(&write, Kind::Patch, &raw);
    record(&write, Kind::Block, b"bytes of a file");
    for (index, codec) in Codec::all().enumerate() {
        let mut packed = vec![];
        codec.compress(codec.default_level(), &b"over and over ".repeat(9), &mut packed).unwrap();
        // As the target reads it: which codec, and a length of 126.
        let seed = [&[index as u8, 126, 0, 0][..], &packed].concat();
        write("codec", codec.name(), &seed);
    }
    let lanes = vec![LaneWindow::default(); 2];
    let window = Window { lanes, ..Window::default() };
    let sample = serde_json::to_string(&Sample {
        window,
        facts: Some(Default::default()),
        outlook: Default::default(),
    })
    .unwrap();
    write("cp_sample", "one", sample.as_bytes());
    write("cp_sample", "two", format!("{sample}\n{sample}").as_bytes());
}

fn record(write: &impl Fn(&str, &str, &[u8]), kind: Kind, payload: &[u8]) {
    let mut plain = payload.to_vec();
    Footer { kind, codec: 0, raw: payload.len() as u32, file: 1, offset: 0, digest: [7; 32] }
        .push_to(&mut plain);
    write("cp_record", &format!("{kind:?}"), &plain);
    let header = Header { length: plain.len(), sequence: 0 }.to_bytes();
    write("cp_lane", &format!("{kind:?}"), &[&greeting(1, &[7; 16])[..], &header, &plain].concat());
}

fn entry(name: &str, kind: Is) -> Entry {
    let (name, mtime) = (Name::new(name.as_bytes()).unwrap(), Time::new(1_700_000_000, 5).unwrap());
    let xattrs = vec![Xattr::new(&b"user.x"[..], &b"value"[..]).unwrap()];
    Entry { name, kind, mode: 0o644, mtime, uid: 1, gid: 2, xattrs }
}

fn members() -> Vec<Member> {
    let target = LinkTarget::new(&b"../there"[..]).unwrap();
    let to = Name::new(&b"a/file"[..]).unwrap();
    let kinds = [
        ("a", Is::Directory),
        ("a/file", Is::File { size: 4, sparse: false }),
        ("a/link", Is::Symlink { target }),
        ("a/second", Is::HardLink { to }),
    ];
    let mut members: Vec<Member> = kinds
        .into_iter()
        .map(|(name, kind)| Member { entry: entry(name, kind), last: false, keep: None })
        .collect();
    let keep = Some(Keep { names: vec![b"file".to_vec(), b"link".to_vec()], more: false });
    members.push(Member { entry: entry("a", Is::Directory), last: true, keep });
    members
}

fn frames() -> Vec<Vec<u8>> {
    let name = |text: &str| Name::new(text.as_bytes()).unwrap();
    let failure = || Failure::new(FailureKind::Local, "no room");
    let listening = || Listening { port: 5000, addresses: vec![[127, 0, 0, 1].into(), [0u16; 8].into()] };
    let mut options = Options { rate_cap: Some(7), codec: Some((2, 3)), update: true, ..Options::default() };
    options.filter.exclude(b"*.o").unwrap();
    let start = Start {
        secret: Secret::draw().unwrap(),
        cipher: 1,
        role: Role::Sender,
        listen: Some(Ports { first: 1, last: 2 }),
        options,
        paths: vec![b"/a".to_vec(), b"b".to_vec()],
    };
    let root = Root { name: name("a"), directory: true, identity: Identity { device: 1, inode: 2 } };
    let file = entry("a/file", Is::File { size: 5 << 20, sparse: true });
    let answers = [
        Answer::All,
        Answer::Rest(vec![(0, 1, [1; 32]), (3, 8, [2; 32])]),
        Answer::Nothing,
        Answer::Differing,
        Answer::Refused(failure()),
        Answer::LeftOut,
    ];
    vec![
        to_frame(&FromDriver::Hello(hello::own("0.1.0", vec![(1, 1_000_000_000)]))),
        to_frame(&FromDriver::Start(Box::new(start))),
        to_frame(&ToDriver::Listening(listening())),
        to_frame(&FromDriver::Dial(listening(), 3)),
        to_frame(&ToDriver::Dialled(3, Some("refused".into()))),
        to_frame(&FromDriver::Open(1, Transport::Ssh)),
        to_frame(&ToReceiver::Owners(Owners { users: vec![(0, "root".into())], groups: Vec::new() })),
        to_frame(&ToReceiver::Roots(vec![Some(root), None])),
        to_frame(&ToSender::Placed(vec![name("a")])),
        to_frame(&ToReceiver::Offer(vec![Offered { id: 1, entry: file, digest: Some([3; 32]) }])),
        to_frame(&ToSender::Answer(answers.into_iter().zip(1..).map(|(answer, id)| (id, answer)).collect())),
        to_frame(&ToSender::Signature(1, vec![1, 2, 3])),
        to_frame(&ToDriver::Would(Deed::Delete, name("a/b"))),
        to_frame(&ToReceiver::End(1, Ok([4; 32]))),
        to_frame(&ToSender::Stored(1, Err(failure()))),
        to_frame(&ToSender::Landed(1, 2)),
        to_frame(&ToSender::Again(1, 2, "why".into())),
        to_frame(&ToSender::LaneLost(1, "cut".into())),
        to_frame(&FromDriver::Retire(1)),
        to_frame(&ToDriver::Problem(Problem { name: name("a"), failure: failure(), harmless: false })),
        to_frame(&ToDriver::Sample("{}".into())),
        to_frame(&ToReceiver::Finish(Totals::default(), true)),
        to_frame(&ToSender::Finished(Totals::default())),
        to_frame(&ToDriver::Abort(failure())),
        to_frame(&FromDriver::Alive),
    ]
}
