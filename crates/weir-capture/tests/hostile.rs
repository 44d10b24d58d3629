//! Captures that mean harm: whatever they claim, reading and judging them ends soon and within a program's
//! memory.
//!
//! The bounds are those of a debug build on a busy machine, an order of magnitude above what was measured; a
//! defect that they are for (a loop that does not move on, a buffer of the size that a length claims, a list
//! that grows with every packet) exceeds them by far.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod made;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use made::{ACK, Frame, Link, MSS, Pcap, PcapNg, RST, SYN, Talk, Tcp, pcap};
use weir_capture::{Capture, CaptureError, Options, judge, read};

/// For a few megabytes of packets.
const LONGEST: Duration = Duration::from_secs(60);

/// What `weir why --pcap` may take of memory in all.
const MOST: u64 = 256 << 20;

/// Reads and judges within the bounds.
fn bounded(what: &str, reader: impl Read) -> Result<Capture, CaptureError> {
    let start = Instant::now();
    let capture = read(reader, &Options { scope: what.to_owned(), ..Options::default() });
    if let Ok(capture) = &capture {
        let verdict = judge(&capture.evidence, &capture.notes);
        assert!((0.0..=1.0).contains(&verdict.confidence), "{what}: {}", verdict.confidence);
    }
    let took = start.elapsed();
    assert!(took < LONGEST, "{what}: {took:?}");
    assert!(peak() < MOST, "{what}: {} MiB", peak() >> 20);
    capture
}

/// The most memory that this process had, bytes.
fn peak() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// The same bytes, so many times.
struct Again {
    piece: Vec<u8>,
    at: usize,
    left: usize,
}

impl Again {
    fn new(piece: Vec<u8>, times: usize) -> Again {
        Again { piece, at: 0, left: times }
    }
}

impl Read for Again {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            return Ok(0);
        }
        let count = room.len().min(self.piece.len() - self.at);
        room[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        if self.at == self.piece.len() {
            (self.at, self.left) = (0, self.left - 1);
        }
        Ok(count)
    }
}

/// A pcap file whose every record is this one.
fn repeated(link: Link, frame: &Frame, times: usize) -> impl Read {
    let record = pcap(link, std::slice::from_ref(frame))[24..].to_vec();
    std::io::Cursor::new(pcap(link, &[])).chain(Again::new(record, times))
}

#[test]
fn packets_of_no_bytes_are_counted_and_nothing_else() {
    let nothing = Frame { at: 1, data: Vec::new(), length: 0 };
    let capture = bounded("empty packets", repeated(Link::Ethernet, &nothing, 1_000_000)).unwrap();
    assert_eq!((capture.packets, capture.segments, capture.connections), (1_000_000, 0, 0));
}

#[test]
fn a_packed_desert_is_read_to_its_end() {
    // 32 MB of zeros in 32 KB: two million records of no bytes at no time.
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(&pcap(Link::Ethernet, &[])).unwrap();
    let desert = vec![0; 1 << 20];
    (0..32).for_each(|_| packer.write_all(&desert).unwrap());
    let packed = packer.finish().unwrap();
    assert!(packed.len() < 100_000, "{}", packed.len());
    let capture = bounded("a packed desert", packed.as_slice()).unwrap();
    assert_eq!((capture.packets, capture.connections), (2 << 20, 0));
}

#[test]
fn a_capture_that_ends_anywhere_is_judged_as_far_as_it_goes() {
    let talk = Talk::default();
    let frames = talk.frames(&talk.held_by_window(60), Link::Ethernet, 96);
    let ng = PcapNg { big_endian: true, interfaces: vec![(1, Some(9))] };
    let all: Vec<(usize, Frame)> = frames.iter().cloned().map(|frame| (0, frame)).collect();
    for whole in [pcap(Link::Ethernet, &frames), ng.file(&all)] {
        let mut before = 0;
        // A prime, so that it falls on every part of a record.
        for end in (0..whole.len()).step_by(37) {
            let Ok(capture) = bounded("cut", &whole[..end]) else {
                assert!(end < 64, "cut at {end}: not even its head was read");
                continue;
            };
            assert!(capture.packets >= before, "cut at {end}: {} packets, {before} of less", capture.packets);
            before = capture.packets;
        }
        assert!(before > 100);
    }
}

#[test]
fn every_length_that_lies_is_refused_or_passed_over() {
    let talk = Talk::default();
    let frames = talk.frames(&talk.held_by_window(20), Link::Ethernet, 96);
    let whole = pcap(Link::Ethernet, &frames);
    let ng = PcapNg { big_endian: false, interfaces: vec![(1, None)] };
    let all: Vec<(usize, Frame)> = frames.iter().cloned().map(|frame| (0, frame)).collect();
    let blocks = ng.file(&all);
    for (file, start) in [(&whole, 24), (&blocks, 28)] {
        for at in (start..start + 800).step_by(4) {
            for lie in [0_u32, 1, 3, 11, 0x7fff_ffff, 0xffff_fff0, u32::MAX] {
                let mut lying = file.clone();
                lying[at..at + 4].copy_from_slice(&lie.to_le_bytes());
                // A head that is refused is as good.
                let Ok(capture) = bounded("lying lengths", lying.as_slice()) else { continue };
                assert!(capture.packets <= file.len() as u64 / 12, "at {at}, {lie}: {}", capture.packets);
            }
        }
    }
}

#[test]
fn a_block_that_claims_gigabytes_takes_no_memory_for_them() {
    let mut file = PcapNg { big_endian: false, interfaces: vec![(1, None)] }.file(&[]);
    file.extend(0x0bad_u32.to_le_bytes());
    file.extend(0xffff_fffc_u32.to_le_bytes());
    // As many bytes as there are: 16 MB of four billion.
    let tail = Again::new(vec![0; 1 << 16], 256);
    let capture = bounded("a block of gigabytes", file.as_slice().chain(tail)).unwrap();
    assert_eq!(capture.packets, 0);
    assert!(capture.notes[0].contains("its last packet is not whole"), "{:?}", capture.notes);
}

#[test]
fn a_clock_that_leaps_costs_no_memory() {
    let talk = Talk::default();
    let syn = |number: u64| {
        let tcp = Tcp {
            from: talk.client,
            to: talk.server,
            seq: number as u32,
            ack: 0,
            flags: if number == 0 { SYN } else { ACK },
            window: 1000,
            options: Vec::new(),
            payload: 1,
            id: number as u16,
        };
        // Decades forth and back.
        let at =
            if number.is_multiple_of(2) { number * 1_000_000_000_000 } else { 4_000_000_000_000_000_000 };
        Link::Raw.frame(at, &tcp, 96)
    };
    let frames: Vec<Frame> = (0..20_000).map(syn).collect();
    let capture = bounded(
        "a clock that leaps",
        Pcap { big_endian: false, nanoseconds: true }.file(101, &frames).as_slice(),
    )
    .unwrap();
    assert_eq!(capture.packets, 20_000);
    assert!(capture.notes.iter().any(|note| note.contains("its clock jumped")), "{:?}", capture.notes);
}

#[test]
fn one_connection_full_of_holes_is_bounded() {
    // Each a hole away from the one before, so that nothing is ever acknowledged in order.
    let talk = Talk::default();
    let mut file = pcap(Link::Raw, &[]);
    for number in 0..300_000_u32 {
        let by_client = number % 3 == 0;
        let (from, to) = if by_client { (talk.client, talk.server) } else { (talk.server, talk.client) };
        let tcp = Tcp {
            from,
            to,
            seq: number.wrapping_mul(2 * MSS + 7),
            ack: number.wrapping_mul(31),
            flags: ACK,
            window: number as u16,
            options: vec![1, 1, 5, 10, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
            payload: 1 + number % MSS,
            id: number as u16,
        };
        let frame = Link::Raw.frame(talk.begins + u64::from(number) * 1000, &tcp, 96);
        file.extend(&pcap(Link::Raw, &[frame])[24..]);
    }
    let capture = bounded("holes", file.as_slice()).unwrap();
    assert_eq!((capture.packets, capture.connections), (300_000, 1));
}

/// A server that still knows an older connection of the same ends answers a SYN with an acknowledgment of
/// that one (RFC 5961, section 4.2), and the client resets it.
#[test]
fn an_acknowledgment_of_an_older_connection_is_no_data() {
    let talk = Talk::default();
    let older = 900_000_000;
    let mut sent = talk.handshake();
    sent.truncate(1);
    sent.push(talk.leaves(false, talk.rtt / 2, |tcp| (tcp.seq, tcp.ack) = (77_777, older)));
    sent.push(talk.leaves(true, talk.rtt, |tcp| (tcp.flags, tcp.seq, tcp.ack) = (RST, older, 0)));
    let file = pcap(Link::Raw, &talk.frames(&sent, Link::Raw, 96));
    let capture = bounded("an older acknowledgment", file.as_slice()).unwrap();
    assert_eq!((capture.connections, capture.bytes), (1, 0));
    assert!(!capture.notes.iter().any(|note| note.contains("misses segments")), "{:?}", capture.notes);
}
