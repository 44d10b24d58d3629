//! What checks begin with: good inputs of those forms that are easier to write by the program's own types
//! than by hand. They follow the types, so that each is understood whatever the forms become; `corpus/` has
//! what people wrote and fuzzers found.
//!
//! `cargo run -p weir-checks --example fuzz_seeds DIR` writes both for the fuzzer.
#![allow(clippy::unwrap_used, reason = "one that cannot be made fails the test that asks for it")]

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::json;
use weir_bench::pps::Busy;
use weir_bench::pps::control::{Counted, Message as ProbeMessage};
use weir_codec::codec::Codec;
use weir_cp::hello;
use weir_cp::watch::Sample;
use weir_cp::wire::batch::{self, Keep, Member};
use weir_cp::wire::driver::{FromDriver, ToDriver};
use weir_cp::wire::frame::{self, to_frame};
use weir_cp::wire::message::{
    Deed, Failure, FailureKind, Listening, Options, Ports, Problem, Role, Root, Start, Totals, Transport,
};
use weir_cp::wire::owners::Owners;
use weir_cp::wire::patch::{self, Step};
use weir_cp::wire::record::{Footer, Header, Kind, greeting};
use weir_cp::wire::to_receiver::{Offered, ToReceiver};
use weir_cp::wire::to_sender::{Answer, ToSender};
use weir_fleet::FleetError;
use weir_fleet::class::FailureClass;
use weir_fleet::launch::far_command::{
    CommandEnd, CommandFile, CommandLook, CommandOrder, FromCommand, ToCommand,
};
use weir_fleet::launch::wire::{
    self as fleet, Answer as LedgerAnswer, Farewell, Question, ToHub, ToWorker, WorkOrder,
};
use weir_fleet::ledger::{
    BatchClaim, BatchLease, BatchResults, BatchWork, Claimed, FleetSettings, ObjectFailure, Renewed,
    VerdictSpan, WaitReason, WorkerId,
};
use weir_fleet::object::{FleetObject, ObjectRange};
use weir_get::journal::Journal;
use weir_model::evidence::{Interval, LaneInterval};
use weir_store::upload::Bounds;
use weir_store::upload::journal::Intent;
use weir_store::upload::plan::Plan;
use weir_tree::delta::{self, Signature};
use weir_tree::entry::{LinkTarget, Time, Xattr};
use weir_tree::source::Identity;
use weir_tree::{Entry, Kind as Is, Name};

use crate::fleet_rows::COLUMNS;

/// An input for the check `target`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// The check's name.
    pub target: &'static str,
    /// What it is called among those of that check.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// All of them, the same in each run.
pub fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |target, name: &str, bytes: &[u8]| {
        seeds.push(Seed { target, name: name.to_owned(), bytes: bytes.to_vec() });
    };
    of_copies(&mut add);
    of_trees(&mut add);
    of_bodies(&mut add);
    of_machines(&mut add);
    of_stores(&mut add);
    of_fleets(&mut add);
    of_ledgers(&mut add);
    seeds
}

/// What is kept of an upload.
/// A count of changes, and each a column, a row, a kind of value and the value; behind them what becomes of
/// each claim.
fn of_ledgers(add: &mut Add) {
    add("fleet_rows", "untouched", &[0]);
    let column = |table: &str, name: &str| {
        let at = COLUMNS.iter().position(|column| *column == (table, name));
        u8::try_from(at.unwrap()).unwrap()
    };
    let text = |table, name, text: &str| {
        [&[1, column(table, name), 1, 4][..], text.as_bytes(), &[0xff, 3, 1, 3]].concat()
    };
    add("fleet_rows", "state", &text("batch", "state", "odd"));
    add("fleet_rows", "hours", &text("ledger", "hours", "22:00-06:00"));
    let number =
        |table, name, number: i64| [&[1, column(table, name), 0, 1][..], &number.to_le_bytes()].concat();
    add("fleet_rows", "objects", &number("batch", "objects", -1));
    add("fleet_rows", "range", &number("batch", "range_start", i64::MAX));
    add("fleet_rows", "losses", &number("batch", "losses", 9));
    let lines = "9\t\t\t\ta\t\n1152921504606846976\t\t\t\tb\t\n\t7\t\"e\"\t\tc\td\n9\t\t\t\te\t\n";
    let lines = [&[1, column("manifest", "lines"), 1, 6][..], lines.as_bytes(), &[0xff]].concat();
    add("fleet_rows", "lines", &lines);
}

fn of_stores(add: &mut Add) {
    let bounds = Bounds {
        parts: 10_000,
        least_part: 5 << 20,
        most_part: 5 << 30,
        most_single: 5 << 30,
        most: 5 << 40,
    };
    let plan = Plan::of_size(100 << 20, &bounds, None).unwrap();
    let identity = weir_store::upload::source::Identity::default();
    let mut intent = Intent::new("/data/x".to_owned(), identity, "s3://bucket/key".to_owned(), plan);
    intent.others = Some(vec!["another".to_owned()]);
    intent.algorithm = Some("crc64nvme".to_owned());
    let part = |number: u32| json!({"part": {"number": number, "tag": "\"a\"", "sum": "00ff"}});
    let lines = [json!({ "upload": intent }), json!({"id": "upload-1"}), part(2), part(1), part(2)];
    let mut text = String::new();
    for line in lines.map(|line| line.to_string()) {
        text += &format!("crc32c={:08x} {line}\n", crc32c::crc32c(line.as_bytes()));
    }
    add("put_journal", "begun", text.as_bytes());
    add("put_journal", "cut", &text.as_bytes()[..text.len() - 9]);
}

/// What `weir fleet run` and a worker say to each other.
fn of_fleets(add: &mut Add) {
    let object = || FleetObject {
        source: b"a/\xff".to_vec(),
        target: b"b".to_vec(),
        size: Some(7),
        mtime: Some(-1),
        etag: Some("\"e\"".to_owned()),
        digest: Some("md5:00".to_owned()),
    };
    let lease = BatchLease { batch: 300, fence: 2 };
    let range = ObjectRange { large: 1, part: 2, range: 5..9, token: Some("t".to_owned()) };
    let settings =
        FleetSettings { workers: Some(3), window: Some("22:00-06:00".to_owned()), ..Default::default() };
    let claim = |work| BatchClaim {
        lease,
        work,
        given_before: 1,
        is_final: true,
        is_last: true,
        length: Duration::from_secs(30),
        settings: settings.clone(),
    };
    let works = [
        BatchWork::Objects(vec![object(), object()]),
        BatchWork::Range(object(), range.clone()),
        BatchWork::Join(object(), range, vec!["n".to_owned()]),
        BatchWork::Abort(object(), "u".to_owned()),
    ];
    let order = WorkOrder { words: vec!["--lanes=2".to_owned()], host: "h".to_owned(), ledger: None };
    let away =
        FleetError::Away { place: "p".to_owned(), waited: Duration::from_secs(5), why: "w".to_owned() };
    let mut to_worker = vec![ToWorker::Begin(order), ToWorker::Drain, ToWorker::Alive];
    to_worker.extend(
        works.map(|work| ToWorker::Answer(1, LedgerAnswer::Claimed(Claimed::Batch(Box::new(claim(work)))))),
    );
    to_worker
        .push(ToWorker::Answer(2, LedgerAnswer::Claimed(Claimed::Wait(WaitReason::Held, Duration::ZERO))));
    to_worker.push(ToWorker::Answer(3, LedgerAnswer::Failed(away)));
    to_worker.push(ToWorker::Answer(4, LedgerAnswer::Renewed(Renewed::Held { objects: 9, settings })));
    let failure = ObjectFailure { position: 1, class: FailureClass::Denied, reason: "no".to_owned() };
    let results = BatchResults {
        covered: 2,
        failures: vec![failure],
        note: Some("n".to_owned()),
        ..Default::default()
    };
    let span = VerdictSpan { start: 1, length: 1000, limit: "disk".to_owned(), share: 0.5, bytes: 9 };
    let farewell = Farewell::unable("no credentials".to_owned());
    let to_hub = [
        ToHub::Ask(1, Question::Claim(WorkerId(4), Duration::from_secs(30))),
        ToHub::Ask(2, Question::Finish(lease, results)),
        ToHub::Ask(3, Question::Tell(WorkerId(4), vec![span])),
        ToHub::Ended(farewell),
        ToHub::Alive,
    ];
    let (mut all_to_worker, mut all_to_hub) = (Vec::new(), Vec::new());
    to_worker.iter().for_each(|message| all_to_worker.extend(fleet::to_frame(message).unwrap()));
    to_hub.iter().for_each(|message| all_to_hub.extend(fleet::to_frame(message).unwrap()));
    add("fleet_frame", "to_worker", &all_to_worker);
    add("fleet_frame", "to_hub", &all_to_hub);
    for (number, message) in to_worker.iter().enumerate() {
        add("fleet_frame", &format!("to_worker{number}"), &fleet::to_frame(message).unwrap()[4..]);
    }
    of_commands(add);
}

/// What a command on another host is told, and tells.
fn of_commands(add: &mut Add) {
    let words = ["get", "--user=me:secret", "--", "https://host/x"].map(str::to_owned).to_vec();
    let order = CommandOrder { words, path: "data/".to_owned(), name: None, makes_folders: true };
    let look = CommandLook { bytes: 7, total: Some(9), rate: 1.5, connections: 2 };
    let record = Some("{}".to_owned());
    let end = CommandEnd { code: 3, record, error: Some("no".to_owned()), is_folder: true };
    let grows = FromCommand::Grows(CommandFile { name: "x".to_owned(), is_folder: true });
    let told = [ToCommand::Begin(order), ToCommand::Alive, ToCommand::Stop];
    let tells = [FromCommand::Look(None), FromCommand::Look(Some(look)), grows, FromCommand::Ended(end)];
    let (mut all_told, mut all_tells) = (Vec::new(), Vec::new());
    told.iter().for_each(|message| all_told.extend(fleet::to_frame(message).unwrap()));
    tells.iter().for_each(|message| all_tells.extend(fleet::to_frame(message).unwrap()));
    add("fleet_frame", "to_command", &all_told);
    add("fleet_frame", "from_command", &all_tells);
}

/// Where a seed goes: check, name, bytes.
type Add<'a> = dyn FnMut(&'static str, &str, &[u8]) + 'a;

/// What the two ends of a copy send each other.
fn of_copies(add: &mut Add) {
    for (index, bytes) in frames().iter().enumerate() {
        add("cp_frame", &format!("frame{index}"), bytes);
        add("cp_frame", &format!("body{index}"), &bytes[frame::HEAD..]);
        add("cp_greeting", &format!("body{index}"), &bytes[frame::HEAD..]);
    }
    add(
        "cp_greeting",
        "lines",
        b"Welcome\n\x1eweir-machine Linux aarch64\n\x1eweir-absent Linux x86_64\n\x1eweir-stored\nname? \x1eweir-failed no room\n\
          \x1eweir-peer\n",
    );
    let sums = [("5b", "  weir-aarch64"), ("A0", " *./weir.deb"), ("5b", "  weir-aarch64")];
    let sums: String = sums.iter().map(|(two, name)| format!("{}{name}\n", two.repeat(32))).collect();
    add("release_manifest", "sums", sums.as_bytes());
    let mut raw = Vec::new();
    batch::write(&members(), b"text", &mut raw);
    add("cp_batch", "all", &raw);
    record(add, Kind::Batch, &raw);
    patch::write(&[Step::Copy { from: 7, len: 9 }, Step::Literal { len: 4 }], &[7; 13], &mut raw);
    add("cp_patch", "both", &raw);
    record(add, Kind::Patch, &raw);
    record(add, Kind::Block, b"bytes of a file");
    let lanes = vec![LaneInterval::default(); 2];
    let interval = Interval { lanes, ..Interval::default() };
    let sample = serde_json::to_string(&Sample {
        interval,
        facts: Some(Default::default()),
        outlook: Default::default(),
    })
    .unwrap();
    add("cp_sample", "one", sample.as_bytes());
    add("cp_sample", "two", format!("{sample}\n{sample}").as_bytes());
    add("cp_part_log", "two-blocks", &part_log(8 << 20));
    // A subtree of four blocks, a block, and a place beyond the end, of 9 MiB and a byte.
    let nodes = [(2, 0), (0, 5), (0, 99)]
        .iter()
        .flat_map(|(level, first): &(u8, u64)| [&[*level][..], &first.to_le_bytes()].concat());
    let size = (9_u64 << 20 | 1) << 1;
    add("cp_subtrees", "nodes", &size.to_le_bytes().into_iter().chain(nodes).collect::<Vec<u8>>());
}

fn record(add: &mut Add, kind: Kind, payload: &[u8]) {
    let mut plain = payload.to_vec();
    Footer { kind, codec: 0, raw: payload.len() as u32, file: 1, offset: 0, digest: [7; 32] }
        .push_to(&mut plain);
    add("cp_record", &format!("{kind:?}"), &plain);
    let header = Header { length: plain.len(), sequence: 0 }.to_bytes();
    add("cp_lane", &format!("{kind:?}"), &[&greeting(1, &[7; 16])[..], &header, &plain].concat());
}

/// The size of a file, and the log of a part of it: its head, two blocks, and a sync between them (see
/// `weir_cp::receiver::journal`).
fn part_log(size: u64) -> Vec<u8> {
    let mut head = [0; 128];
    head[..16].copy_from_slice(b"weir-part-log-2\n");
    head[16..24].copy_from_slice(&size.to_le_bytes());
    head[48..84].copy_from_slice(&[b'0'; 36]);
    let sum = crc32c::crc32c(&head[..124]);
    head[124..].copy_from_slice(&sum.to_le_bytes());
    let seed = crc32c::crc32c(&head);
    let mut bytes = [&size.to_le_bytes()[..], &head].concat();
    for index in [0, u64::MAX - 1, u64::MAX, 3] {
        let record = [&index.to_le_bytes()[..], &[7; 32], &[0; 4]].concat();
        bytes.extend(&record);
        bytes.extend(crc32c::crc32c_append(seed, &record).to_le_bytes());
    }
    bytes
}

/// Entries, and what two versions of a file have in common.
fn of_trees(add: &mut Add) {
    for (index, member) in members().iter().enumerate() {
        add("entry", &format!("entry{index}"), &postcard::to_allocvec(&member.entry).unwrap());
    }
    // The seed of the digests is drawn.
    fastrand::seed(7);
    let mut random = fastrand::Rng::with_seed(7);
    let old: Vec<u8> = (0..40_000).map(|_| random.u8(..)).collect();
    let new = [&old[..20_000], b"something else", &old[20_000..]].concat();
    let signature = Signature::of(&file(&old), &Name::root(), &|_| ()).unwrap();
    let recipe = delta::missing(&file(&new), &Name::root(), &signature, &|_| ()).unwrap();
    let signature = postcard::to_allocvec(&signature).unwrap();
    let length = u16::try_from(signature.len()).unwrap();
    add("delta_signature", "changed", &[&length.to_le_bytes()[..], &signature, &new].concat());
    let recipe = postcard::to_allocvec(&recipe).unwrap();
    add("delta_recipe", "changed", &[&(old.len() as u64).to_le_bytes()[..], &recipe].concat());
}

fn file(bytes: &[u8]) -> std::fs::File {
    let memory = rustix::fs::memfd_create("seed", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(memory);
    file.write_all(bytes).unwrap();
    file
}

/// Blocks and bodies as codecs pack them, and a journal.
fn of_bodies(add: &mut Add) {
    for (index, codec) in Codec::all().enumerate() {
        let mut packed = vec![];
        codec.compress(codec.default_level(), &b"over and over ".repeat(9), &mut packed).unwrap();
        // As the check reads it: which codec, and a length of 126.
        add("codec", codec.name(), &[&[index as u8, 126, 0, 0][..], &packed].concat());
    }
    let plain = b"over and over ".repeat(20);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(&plain).unwrap();
    let zlib = zlib.finish().unwrap();
    let mut both = GzEncoder::new(Vec::new(), Compression::best());
    both.write_all(&zlib).unwrap();
    // "the bytes" as brotli without and zstd without compression.
    let brotli = [&[0x0b, 0x04, 0x80][..], b"the bytes", &[0x03]].concat();
    let zstd = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 9, 0x49, 0, 0][..], b"the bytes"].concat();
    let bodies = [
        ("gzip", 0, gzip),
        ("deflate", 1, zlib),
        ("brotli", 2, brotli),
        ("zstd", 3, zstd),
        ("deflate-in-gzip", 0x84, both.finish().unwrap()),
    ];
    for (name, which, body) in bodies {
        add("content_coding", name, &[&[which, 9, 0][..], &body].concat());
    }
    let journal = Journal {
        url: "http://host/big.iso".to_owned(),
        etag: Some("\"v1\"".to_owned()),
        last_modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
        place: "http://host:80/big.iso".to_owned(),
        coding: None,
        size: 1000,
        boot: "00000000-0000-0000-0000-000000000000".to_owned(),
        written: vec![(0, 100), (500, 700)],
        durable: vec![(0, 50)],
    };
    let text = journal.to_text();
    let body = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    add("journal", "whole", &text);
    add("journal", "body", &text[body..]);
}

/// What the kernel, a capture and the peer of a measurement hold.
fn of_machines(add: &mut Add) {
    add("sock_diag", "6.18", include_bytes!("../../weir-observe/tests/data/6.18/inet_diag.bin"));
    add("capture", "microseconds", &capture(false));
    add("capture", "nanoseconds", &capture(true));
    let messages = [
        ProbeMessage::Open { threads: 2, gro: true, buffer: 4096 },
        ProbeMessage::Ready { token: 1, gro: false, buffer: 2, ports: vec![1, 2, 3] },
        ProbeMessage::Refused("no room".to_owned()),
        ProbeMessage::Start { trial: 1, millis: 2 },
        ProbeMessage::Started,
        ProbeMessage::Done { trial: 1, sent: u64::MAX },
        ProbeMessage::Counted(Counted::default()),
        // A fuzzer's find: many a millionth is a little less than itself as a binary fraction.
        ProbeMessage::Counted(Counted { busy: Busy { run: 0.290_003, wait: 1.0 }, ..Counted::default() }),
    ];
    for (index, message) in messages.iter().enumerate() {
        let bytes = message.encode();
        // Without the length, which the connection's reader takes.
        add("probe_words", &format!("message{index}"), &[&bytes[..1], &bytes[3..]].concat());
    }
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
        secret: postcard::from_bytes(&[7; 32]).unwrap(),
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
        to_frame(&ToSender::Avoid(Identity { device: 1, inode: 2 })),
        to_frame(&ToSender::Placed(vec![name("a")])),
        to_frame(&ToReceiver::Offer(vec![Offered { id: 1, entry: file, digest: Some([3; 32]) }])),
        to_frame(&ToSender::Answer(answers.into_iter().zip(1..).map(|(answer, id)| (id, answer)).collect())),
        to_frame(&ToSender::Signature(1, vec![1, 2, 3])),
        to_frame(&ToDriver::Would(Deed::Delete, name("a/b"))),
        to_frame(&ToReceiver::End(1, Ok([4; 32]))),
        to_frame(&ToSender::Stored(1, Err(failure()))),
        to_frame(&ToSender::Ack(1, 2)),
        to_frame(&ToSender::Again(1, 2, "why".into())),
        to_frame(&ToSender::LaneLost(1, "cut".into())),
        to_frame(&FromDriver::Retire(1)),
        to_frame(&ToDriver::Problem(Problem { name: name("a"), failure: failure(), harmless: false })),
        to_frame(&ToDriver::Sample("{}".into())),
        to_frame(&ToReceiver::Finish(Totals::default(), true)),
        to_frame(&ToSender::Finished(Totals::default())),
        to_frame(&ToDriver::Abort(failure())),
        to_frame(&FromDriver::Alive),
        to_frame(&FromDriver::Echo(3)),
        to_frame(&ToDriver::Echo(3)),
        to_frame(&FromDriver::Evict(postcard::from_bytes(&[7; 32]).unwrap())),
        to_frame(&FromDriver::PassedOn),
        to_frame(&FromDriver::Command),
    ]
}

/// A handshake and some segments over Ethernet, as tcpdump keeps them; `nanos`: in nanoseconds.
fn capture(nanos: bool) -> Vec<u8> {
    let magic: u32 = if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let head: [u32; 5] = [0x0004_0002, 0, 0, 65_535, 1];
    let mut bytes = magic.to_le_bytes().to_vec();
    head.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    let mut sequence = [1000_u32, 5000];
    for number in 0..40_u32 {
        let from_server = number % 2 == 1;
        let (flags, length) = match number {
            0 => (0x02, 0),
            1 => (0x12, 0),
            38 | 39 => (0x11, 0),
            _ => (0x10, if from_server { 1000 } else { 0 }),
        };
        let own = usize::from(from_server);
        let frame = segment(from_server, sequence[own], sequence[1 - own], flags, length);
        sequence[own] += length as u32 + u32::from(flags & 0x03 != 0);
        let fraction = number * if nanos { 10_000_000 } else { 10_000 };
        for word in [1_700_000_000, fraction, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}

fn segment(from_server: bool, sequence: u32, acknowledged: u32, flags: u8, length: usize) -> Vec<u8> {
    let (client, server) = (([10, 0, 0, 1], 40_000_u16), ([10, 0, 0, 2], 443_u16));
    let (from, to) = if from_server { (server, client) } else { (client, server) };
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00]);
    frame.extend([0x45, 0]);
    frame.extend((40 + length as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend(from.0);
    frame.extend(to.0);
    frame.extend(from.1.to_be_bytes());
    frame.extend(to.1.to_be_bytes());
    frame.extend(sequence.to_be_bytes());
    frame.extend(acknowledged.to_be_bytes());
    frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(vec![0; length]);
    frame
}
