//! Captures made by hand: what is counted, which view is filled, what is said of damaged ones.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod made;

use std::io::{Read, Write};
use std::time::Duration;

use made::{ACK, FIN, Frame, Link, MSS, Pcap, PcapNg, RST, SYN, Talk, Tcp, pcap};
use proptest::prelude::*;
use weir_capture::{Capture, CaptureError, Cause, Format, Options, Vantage, judge, read};
use weir_model::limit::Limit;
use weir_model::verdict::MainLimit;

fn options() -> Options<'static> {
    Options { scope: "test".to_owned(), ..Options::default() }
}

fn seen(bytes: &[u8]) -> Capture {
    read(bytes, &options()).unwrap()
}

/// 300 segments in a window of 40 KB over 40 ms.
fn transfer(talk: &Talk, link: Link, snaplen: usize) -> Vec<Frame> {
    talk.frames(&talk.held_by_window(300), link, snaplen)
}

fn v6(talk: Talk) -> Talk {
    Talk { client: "[fd00::1]:40000".parse().unwrap(), server: "[fd00::2]:80".parse().unwrap(), ..talk }
}

/// A pcap file of these packets.
fn raw(captured: &[(u64, Tcp)]) -> Vec<u8> {
    let frames: Vec<Frame> = captured.iter().map(|(at, tcp)| Link::Raw.frame(*at, tcp, 96)).collect();
    pcap(Link::Raw, &frames)
}

/// A pcapng file in which each frame goes to one of two interfaces.
fn of_two_interfaces(frames: &[(usize, Frame)]) -> Vec<u8> {
    PcapNg { big_endian: false, interfaces: vec![(Link::Raw.number(), Some(9)); 2] }.file(frames)
}

/// The data segment that has so many before it, and when it was captured.
fn data_segment(captured: &[(u64, Tcp)], number: u32) -> (u64, Tcp) {
    let found = captured.iter().find(|(_, tcp)| tcp.payload == MSS && tcp.seq == 1 + number * MSS);
    found.unwrap().clone()
}

/// Where the records of a pcap file begin.
fn heads(file: &[u8]) -> Vec<usize> {
    let mut heads = Vec::new();
    let mut at = 24;
    while at < file.len() {
        heads.push(at);
        at += 16 + u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    heads
}

fn limit(capture: &Capture) -> Option<MainLimit> {
    judge(&capture.evidence, &[]).limit
}

#[test]
fn every_link_type_counts_the_same_bytes() {
    for link in Link::ALL {
        for talk in [Talk::default(), v6(Talk::default())] {
            if link == Link::Ipv4 && talk.client.is_ipv6() {
                continue;
            }
            let capture = seen(&pcap(link, &transfer(&talk, link, 2000)));
            let flow = &capture.flows[0];
            let told = (capture.connections, flow.bytes, flow.answered, flow.segment, flow.from);
            assert_eq!(told, (1, 300 * u64::from(MSS), 100, MSS, talk.server), "{link:?} {}", talk.client);
            assert_eq!(capture.segments, capture.packets, "{link:?}");
            assert!(capture.notes.is_empty(), "{:?}", capture.notes);
        }
    }
}

#[test]
fn a_capture_of_96_bytes_counts_as_a_whole_one() {
    for talk in [Talk::default(), v6(Talk::default())] {
        let whole = seen(&pcap(Link::Ethernet, &transfer(&talk, Link::Ethernet, 2000)));
        let part = seen(&pcap(Link::Ethernet, &transfer(&talk, Link::Ethernet, 96)));
        assert_eq!(whole.flows[0].bytes, part.flows[0].bytes);
        let json = |capture: &Capture| format!("{:?}", capture.evidence);
        assert_eq!(json(&whole), json(&part));
    }
}

#[test]
fn old_versions_and_records_that_tell_only_what_was_kept_count_as_well() {
    let mut frames = transfer(&Talk::default(), Link::Ethernet, 96);
    let mut old = pcap(Link::Ethernet, &frames);
    old[6] = 2;
    heads(&old).into_iter().for_each(|at| old[at + 8..at + 16].rotate_left(4));
    assert_eq!(seen(&old).flows[0].bytes, 300 * u64::from(MSS));
    frames.iter_mut().for_each(|frame| frame.length = frame.data.len() as u32);
    assert_eq!(seen(&pcap(Link::Ethernet, &frames)).flows[0].bytes, 300 * u64::from(MSS));
}

#[test]
fn extension_headers_are_passed() {
    let talk = v6(Talk::default());
    let frames: Vec<Frame> = talk
        .captured(&talk.held_by_window(20))
        .iter()
        .map(|(at, tcp)| {
            let (data, length) = tcp.ip(2000, true);
            Frame { at: *at, data, length }
        })
        .collect();
    assert_eq!(seen(&pcap(Link::Raw, &frames)).flows[0].bytes, 20 * u64::from(MSS));
}

#[test]
fn both_byte_orders_and_both_clocks_tell_the_same() {
    let frames = transfer(&Talk::default(), Link::Ethernet, 96);
    for big_endian in [false, true] {
        for nanoseconds in [false, true] {
            let capture = seen(&Pcap { big_endian, nanoseconds }.file(1, &frames));
            assert_eq!((capture.format, capture.flows[0].bytes), (Format::Pcap, 300 * u64::from(MSS)));
            let rtt = capture.flows[0].round_trip.unwrap();
            let off = rtt.abs_diff(Duration::from_millis(40));
            assert!(off < Duration::from_micros(200), "{big_endian} {nanoseconds}: {rtt:?}");
        }
    }
}

#[test]
fn pcapng_has_interfaces_with_clocks_of_their_own() {
    let talk = Talk::default();
    let frames = transfer(&talk, Link::Ethernet, 96);
    let other = Talk { client: "10.9.9.9:1".parse().unwrap(), ..talk };
    let second = transfer(&other, Link::Sll2, 96);
    for big_endian in [false, true] {
        let interfaces = vec![(1, None), (276, Some(9)), (1, Some(0x80 | 20))];
        let file = PcapNg { big_endian, interfaces };
        let mut all: Vec<(usize, Frame)> = frames.iter().cloned().map(|frame| (0, frame)).collect();
        all.extend(second.iter().cloned().map(|frame| (1, frame)));
        all.sort_by_key(|(_, frame)| frame.at);
        // The clock of a power of two carries packets as well as the first one does.
        all.iter_mut().skip(300).filter(|it| it.0 == 0).for_each(|it| it.0 = 2);
        // A packet of an interface that is not there.
        all.push((77, frames[0].clone()));
        let capture = seen(&file.file(&all));
        assert_eq!((capture.format, capture.connections), (Format::PcapNg, 2));
        for flow in &capture.flows {
            assert_eq!(flow.bytes, 300 * u64::from(MSS));
            assert!(
                flow.round_trip.unwrap().abs_diff(Duration::from_millis(40)) < Duration::from_micros(200)
            );
        }
        assert!(
            capture.notes.iter().any(|note| note.starts_with("1 packets are damaged")),
            "{:?}",
            capture.notes
        );
    }
}

#[test]
fn gzip_is_unpacked_and_what_is_cut_in_it_is_said() {
    let file = pcap(Link::Ethernet, &transfer(&Talk::default(), Link::Ethernet, 96));
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&file).unwrap();
    let packed = packer.finish().unwrap();
    assert_eq!(seen(&packed).flows[0].bytes, 300 * u64::from(MSS));
    let cut = seen(&packed[..packed.len() / 2]);
    assert!(
        cut.packets > 0 && cut.notes.iter().any(|note| note.contains("reading it failed")),
        "{:?}",
        cut.notes
    );
}

#[test]
fn a_stream_that_comes_byte_by_byte_is_read_as_well() {
    struct Drops<'a>(&'a [u8]);
    impl Read for Drops<'_> {
        fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
            let count = room.len().min(7).min(self.0.len());
            room[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }
    let file = pcap(Link::Ethernet, &transfer(&Talk::default(), Link::Ethernet, 2000));
    let capture = read(Drops(&file), &options()).unwrap();
    assert_eq!(capture.flows[0].bytes, 300 * u64::from(MSS));
}

#[test]
fn the_handshakes_halves_tell_where_it_was_captured() {
    let places = [(0.0, Vantage::Sender), (0.5, Vantage::Middle), (1.0, Vantage::Receiver)];
    for (place, vantage) in places {
        for stamps in [true, false] {
            let talk = Talk { place, stamps, ..Talk::default() };
            let capture = seen(&pcap(Link::Ethernet, &transfer(&talk, Link::Ethernet, 96)));
            assert_eq!(capture.flows[0].vantage, vantage, "{place} {stamps}");
        }
    }
}

#[test]
fn without_a_handshake_timestamps_tell_and_without_them_nothing_does() {
    for (place, vantage) in [(0.0, Vantage::Sender), (1.0, Vantage::Receiver)] {
        let talk = Talk { place, ..Talk::default() };
        let frames = transfer(&talk, Link::Ethernet, 96);
        let capture = seen(&pcap(Link::Ethernet, &frames[4..]));
        assert_eq!(capture.flows[0].vantage, vantage, "{place}");
        assert!(!capture.flows[0].window_known);
    }
    let talk = Talk { place: 1.0, stamps: false, ..Talk::default() };
    let capture = seen(&pcap(Link::Ethernet, &transfer(&talk, Link::Ethernet, 96)[4..]));
    assert_eq!(capture.flows[0].vantage, Vantage::Unknown);
    assert_eq!(limit(&capture), None, "nobody is convicted of what cannot be seen");
}

#[test]
fn a_filled_window_is_convicted_from_everywhere() {
    for place in [0.0, 0.5, 1.0] {
        let talk = Talk { place, ..Talk::default() };
        let capture =
            seen(&pcap(Link::Ethernet, &talk.frames(&talk.held_by_window(2000), Link::Ethernet, 96)));
        let verdict = judge(&capture.evidence, &[]);
        assert_eq!(verdict.limit, Some(MainLimit::One(Limit::ReceiveWindow)), "{place}: {verdict:#?}");
    }
}

#[test]
fn without_the_syn_no_window_is_judged() {
    for place in [0.0, 1.0] {
        let talk = Talk { place, ..Talk::default() };
        let frames = talk.frames(&talk.held_by_window(2000), Link::Ethernet, 96);
        let capture = seen(&pcap(Link::Ethernet, &frames[4..]));
        let verdict = judge(&capture.evidence, &capture.notes);
        let of_window = |limit: &Limit| matches!(limit, Limit::ReceiveWindow | Limit::Reader);
        assert!(!verdict.shares.keys().any(of_window), "{place}: {verdict:#?}");
        assert!(!verdict.innocent.iter().any(|line| line.starts_with("receive-window")), "{verdict:#?}");
        assert!(verdict.missing.iter().any(|line| line.starts_with("receive windows of 1")), "{verdict:#?}");
        assert!(!verdict.missing.iter().any(|line| line.contains("kernel")), "{place}: {verdict:#?}");
        // The receiver's rule has the words of an old kernel too.
        let why = "receive-window: the receive window: its scale was not captured";
        assert!(place < 1.0 || verdict.missing.iter().any(|line| line == why), "{verdict:#?}");
    }
}

#[test]
fn a_syn_that_the_snaplen_cut_tells_no_window() {
    let talk = Talk::default();
    let sent = talk.held_by_window(2000);
    // Six bytes of options: the largest segment, and no scale.
    let capture = seen(&pcap(Link::Ethernet, &talk.frames(&sent, Link::Ethernet, 60)));
    assert!(!capture.flows[0].window_known);
    let verdict = judge(&capture.evidence, &capture.notes);
    let of_window = |limit: &Limit| matches!(limit, Limit::ReceiveWindow | Limit::Reader);
    assert!(!verdict.shares.keys().any(of_window), "{verdict:#?}");
    let note = "receive windows of 1 connections: the capture's snaplen cut their SYN";
    assert!(capture.notes.iter().any(|line| line.starts_with(note)), "{:?}", capture.notes);
    // An option that is not known is passed over, and hides none behind it.
    let mut strange = talk.captured(&sent);
    let syns = strange.iter_mut().filter(|(_, tcp)| tcp.flags & SYN != 0);
    syns.for_each(|(_, tcp)| drop(tcp.options.splice(0..0, [254, 4, 1, 2])));
    let frames: Vec<Frame> = strange.iter().map(|(at, tcp)| Link::Ethernet.frame(*at, tcp, 128)).collect();
    assert!(seen(&pcap(Link::Ethernet, &frames)).flows[0].window_known);
}

/// A talk in which the client has an answer after a moment, asks again after a second, and has that answer
/// after another forty.
fn asked_twice(talk: &Talk) -> Vec<Frame> {
    const SECOND: u64 = 1_000_000_000;
    let mut sent = talk.answer(&[MSS; 20], |_, last, _| last + 100_000);
    let half = 1 + 20 * MSS;
    sent.push(talk.leaves(true, SECOND, |tcp| (tcp.seq, tcp.ack, tcp.payload) = (101, half, 100)));
    sent.push(talk.leaves(false, SECOND + talk.rtt, |tcp| (tcp.seq, tcp.ack) = (half, 201)));
    for number in 0..20 {
        let (at, seq) = (41 * SECOND + u64::from(number) * 100_000, half + number * MSS);
        sent.push(talk.leaves(false, at, |tcp| (tcp.seq, tcp.ack, tcp.payload) = (seq, 201, MSS)));
        sent.push(talk.leaves(true, at + talk.rtt, |tcp| (tcp.seq, tcp.ack) = (201, seq + MSS)));
    }
    talk.frames(&sent, Link::Raw, 128)
}

#[test]
fn a_long_wait_for_an_answer_counts_and_a_long_rest_does_not() {
    let talk = Talk { place: 1.0, ..Talk::default() };
    let waited = |capture: &Capture| -> f64 {
        let lanes = capture.evidence.intervals.iter().flat_map(|interval| &interval.lanes);
        lanes.map(|lane| lane.first_byte.as_secs_f64()).sum()
    };
    let frames = asked_twice(&talk);
    let capture = seen(&pcap(Link::Raw, &frames));
    assert!((39.5..41.0).contains(&waited(&capture)), "{}", waited(&capture));
    // Without the second question it is the client that rests.
    let asks = talk.begins + 900_000_000..talk.begins + 2_000_000_000;
    let rests: Vec<Frame> = frames.iter().filter(|frame| !asks.contains(&frame.at)).cloned().collect();
    let capture = seen(&pcap(Link::Raw, &rests));
    assert!(waited(&capture) < 2.0, "{}", waited(&capture));
    let there = capture.evidence.intervals.iter().filter(|interval| !interval.lanes.is_empty()).count();
    assert!(there < 60, "{there} intervals of a connection at rest");
}

#[test]
fn what_is_not_judged_is_named() {
    let talk = Talk::default();
    let packet = |number: u64, protocol: u8, port: u16| {
        let mut data = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        data.extend([40_000_u16, port, 8, 0].map(u16::to_be_bytes).concat());
        Frame { at: talk.begins + number * 1_000_000, length: data.len() as u32, data }
    };
    let frames: Vec<Frame> = [(17, 443), (17, 443), (17, 53), (17, 4789), (47, 0), (1, 0)]
        .into_iter()
        .zip(1..)
        .map(|((protocol, port), number)| packet(number, protocol, port))
        .collect();
    let capture = seen(&pcap(Link::Raw, &frames));
    assert_eq!(capture.connections, 0);
    let told = "6 of 6 packets are not TCP, which alone is judged: 2 UDP at port 443 (QUIC), 1 other UDP, \
                2 inside tunnels (VXLAN, GENEVE, GRE, IPsec), 1 other protocols";
    assert_eq!(capture.notes, [told]);
    let mut most = transfer(&talk, Link::Raw, 96);
    most.extend(frames);
    most.sort_by_key(|frame| frame.at);
    assert_eq!(seen(&pcap(Link::Raw, &most)).notes, [""; 0], "a little beside the connections");
}

#[test]
fn an_application_that_writes_now_and_then_is_convicted_at_the_sender() {
    let talk = Talk { window: 4_000_000, scale: 7, ..Talk::default() };
    let capture =
        seen(&pcap(Link::Ethernet, &talk.frames(&talk.held_by_application(100), Link::Ethernet, 96)));
    let verdict = judge(&capture.evidence, &[]);
    assert_eq!(verdict.limit, Some(MainLimit::One(Limit::Application)), "{verdict:#?}");
    let said = |name: &str| verdict.innocent.iter().any(|line| line.starts_with(name));
    assert!(!said("send-buffer") && !said("disk") && !said("cpu-core"), "never looked at: {verdict:#?}");
    assert!(verdict.missing.iter().any(|line| line.contains("send buffer")), "{verdict:#?}");
}

#[test]
fn offloaded_segments_count_as_those_on_the_wire() {
    let talk = Talk { window: 4_000_000, scale: 7, ..Talk::default() };
    let sizes = vec![44 * MSS; 20];
    let frames = talk.frames(&talk.answer(&sizes, |_, last, _| last + 5_000_000), Link::Ethernet, 96);
    let capture = seen(&pcap(Link::Ethernet, &frames));
    let sent: u64 = (capture.evidence.intervals.iter())
        .flat_map(|interval| &interval.lanes)
        .filter_map(|lane| lane.sender.value())
        .map(|sender| sender.sent)
        .sum();
    assert_eq!(sent, 20 * 44 * u64::from(MSS));
    let at_client = Talk { place: 1.0, ..talk };
    let frames = at_client.frames(&talk.answer(&sizes, |_, last, _| last + 5_000_000), Link::Ethernet, 96);
    let capture = seen(&pcap(Link::Ethernet, &frames));
    let lanes = capture.evidence.intervals.iter().flat_map(|interval| &interval.lanes);
    let segments: u64 = lanes.filter_map(|lane| lane.tcp.value()).map(|tcp| tcp.segments).sum();
    assert_eq!(segments, 20 * 44);
}

#[test]
fn repetitions_reorderings_and_copies_are_told_apart() {
    let talk = Talk::default();
    let mut captured = talk.captured(&talk.held_by_window(200));
    // The 40th data segment again, a round trip later.
    let (at, tcp) = data_segment(&captured, 40);
    captured.push((at + 45_000_000, Tcp { id: 9, ..tcp }));
    // The 50th on a second interface as well.
    let (at, tcp) = data_segment(&captured, 50);
    captured.push((at + 20_000, tcp));
    captured.sort_by_key(|(at, _)| *at);
    let flow = &seen(&raw(&captured)).flows[0];
    assert_eq!((flow.bytes, flow.again), (200 * u64::from(MSS), u64::from(MSS)));
}

/// A router shows each packet as it comes and, after a queue that is longer than any fingerprint is kept, as
/// it goes.
#[test]
fn what_a_router_passes_on_is_no_repetition() {
    let talk = Talk::default();
    let mut captured = talk.captured(&talk.held_by_window(200));
    let (at, tcp) = data_segment(&captured, 40);
    captured.push((at + 45_000_000, Tcp { id: 9, ..tcp }));
    let mut frames: Vec<(usize, Frame)> = Vec::new();
    for (at, tcp) in &captured {
        for (interface, later) in [(0, 0), (1, 15_000_000)] {
            let mut frame = Link::Sll2.frame(at + later, tcp, 128);
            // The interface's number in the cooked header.
            frame.data[7] = 1 + interface as u8;
            frames.push((interface, frame));
        }
    }
    frames.sort_by_key(|(_, frame)| frame.at);
    let cooked: Vec<Frame> = frames.iter().map(|(_, frame)| frame.clone()).collect();
    let apart = |(interface, frame): &(usize, Frame)| {
        let data = frame.data[20..].to_vec();
        (*interface, Frame { data, length: frame.length - 20, ..frame.clone() })
    };
    let apart: Vec<(usize, Frame)> = frames.iter().map(apart).collect();
    for file in [pcap(Link::Sll2, &cooked), of_two_interfaces(&apart)] {
        let flow = &seen(&file).flows[0];
        assert_eq!((flow.bytes, flow.again), (200 * u64::from(MSS), u64::from(MSS)));
    }
}

/// As in a bond whose first link fails.
#[test]
fn what_comes_on_another_interface_once_the_first_is_silent_was_sent_again() {
    let talk = Talk::default();
    let captured = talk.captured(&talk.held_by_window(200));
    let (last, tcp) = captured.iter().rfind(|(_, tcp)| tcp.payload == MSS).unwrap();
    let frame = |at: u64, tcp: &Tcp| Link::Raw.frame(at, tcp, 96);
    let mut frames: Vec<(usize, Frame)> = captured.iter().map(|(at, tcp)| (0, frame(*at, tcp))).collect();
    frames.push((1, frame(last + 250_000_000, &Tcp { id: 9, ..tcp.clone() })));
    let flow = &seen(&of_two_interfaces(&frames)).flows[0];
    assert_eq!((flow.bytes, flow.again), (200 * u64::from(MSS), u64::from(MSS)));
}

#[test]
fn a_reset_that_overtakes_the_last_data_ends_the_connection() {
    let talk = Talk::default();
    let captured = talk.captured(&talk.held_by_window(300));
    let (last, tcp) = captured.iter().rfind(|(_, tcp)| tcp.payload == MSS).unwrap();
    let reset = Tcp { flags: RST, seq: tcp.seq + MSS, payload: 0, ..tcp.clone() };
    // The capture goes on long after.
    let client = "10.0.0.3:40000".parse().unwrap();
    let other = Talk { client, begins: talk.begins + 3_000_000_000, ..talk };
    let told = |at: u64| {
        let mut all = captured.clone();
        all.push((at, reset.clone()));
        all.extend(other.captured(&other.held_by_window(10)));
        all.sort_by_key(|(at, _)| *at);
        let flow = &seen(&raw(&all)).flows[0];
        (flow.bytes, flow.evidence.intervals.len())
    };
    assert_eq!(told(last - 5_000), told(last + 5_000));
    assert_eq!(told(last - 5_000).0, 300 * u64::from(MSS));
}

#[test]
fn a_reset_that_the_peer_does_not_take_ends_nothing() {
    let talk = Talk::default();
    let first_data = talk.rtt + talk.rtt / 2 + 100_000;
    // Far from all that was sent; and where data could be, though more of them come.
    for (at, seq) in [(200_000_000, 1 + (1 << 30)), (first_data - 20_000, 5000)] {
        let mut sent = talk.held_by_window(300);
        sent.push(talk.leaves(false, at, |tcp| (tcp.flags, tcp.seq) = (RST, seq)));
        let capture = seen(&pcap(Link::Raw, &talk.frames(&sent, Link::Raw, 96)));
        let flow = &capture.flows[0];
        let told = (capture.connections, flow.bytes, flow.answered);
        assert_eq!(told, (1, 300 * u64::from(MSS), 100), "{seq}");
    }
}

#[test]
fn stalls_say_what_ended_them() {
    let talk = Talk { window: 400_000, scale: 5, ..Talk::default() };
    let mut captured = talk.captured(&talk.held_by_window(100));
    // Nothing for 400 ms, then the last data segment once more.
    let last = captured.iter().rev().find(|(_, tcp)| tcp.payload > 0).unwrap().clone();
    captured.retain(|(_, tcp)| tcp.ack < 1 + 100 * MSS);
    let end = captured.last().unwrap().0;
    captured.push((end + 400_000_000, Tcp { id: 7, ..last.1 }));
    let flow = &seen(&raw(&captured)).flows[0];
    let longest = flow.stalls.iter().max_by(|a, b| (a.to - a.from).total_cmp(&(b.to - b.from))).unwrap();
    assert_eq!(longest.cause, Cause::Retransmission);
    assert!((longest.to - longest.from - 0.4).abs() < 0.01, "{longest:?}");
    let timeout: f64 = (flow.evidence.intervals.iter().flat_map(|interval| &interval.lanes))
        .filter_map(|lane| lane.sender.value())
        .map(|sender| sender.timeout.as_secs_f64())
        .sum();
    assert!((timeout - 0.4).abs() < 0.01, "{timeout}");
}

#[test]
fn ports_and_peers_choose() {
    let first = Talk::default();
    let second = Talk { server: "10.0.0.3:443".parse().unwrap(), ..first };
    let mut frames = transfer(&first, Link::Raw, 96);
    frames.extend(transfer(&second, Link::Raw, 96));
    frames.sort_by_key(|frame| frame.at);
    let file = pcap(Link::Raw, &frames);
    let of = |options: Options<'_>| {
        let capture = read(file.as_slice(), &options).unwrap();
        (capture.connections, capture.flows.first().map(|flow| flow.from))
    };
    assert_eq!(of(Options { port: Some(443), ..options() }), (1, Some(second.server)));
    let peers = vec![first.server.ip()];
    assert_eq!(of(Options { peers, ..options() }), (1, Some(first.server)));
    let peers = vec!["10.0.0.9".parse().unwrap(), first.server.ip(), second.server.ip()];
    assert_eq!(of(Options { peers, ..options() }).0, 2, "all addresses of a name");
    assert_eq!(of(Options { port: Some(1), ..options() }), (0, None));
    let short = Options { span: Some(Duration::from_millis(100)), ..options() };
    let capture = read(file.as_slice(), &short).unwrap();
    assert!(capture.seconds <= 0.1 && capture.flows[0].bytes < 300 * u64::from(MSS));
}

#[test]
fn a_port_that_is_used_again_is_another_connection() {
    let talk = Talk::default();
    let later = Talk { begins: talk.begins + 20_000_000_000, ..talk };
    let mut frames = transfer(&talk, Link::Raw, 96);
    frames.extend(transfer(&later, Link::Raw, 96));
    let capture = seen(&pcap(Link::Raw, &frames));
    assert_eq!(capture.connections, 2);
    assert_eq!(capture.bytes, 2 * (300 * u64::from(MSS) + 100));
}

#[test]
fn what_is_no_capture_is_said() {
    assert!(matches!(read([].as_slice(), &options()), Err(CaptureError::Empty)));
    let error = read(b"GET / HTTP/1.1".as_slice(), &options()).unwrap_err();
    assert!(error.to_string().contains("neither pcap nor pcapng"), "{error}");
    assert!(matches!(read([0xd4, 0xc3, 0xb2, 0xa1, 2].as_slice(), &options()), Err(CaptureError::Header(_))));
    let empty = seen(&pcap(Link::Raw, &[]));
    assert_eq!((empty.packets, empty.connections, empty.flows.len()), (0, 0, 0));
    assert_eq!(limit(&empty), None);
}

#[test]
fn damage_ends_the_reading_and_what_came_before_counts() {
    let frames = transfer(&Talk::default(), Link::Raw, 96);
    let whole = pcap(Link::Raw, &frames);
    let cut = seen(&whole[..whole.len() - 50]);
    assert!(cut.notes[0].contains("its last packet is not whole"), "{:?}", cut.notes);
    let mut lying = whole.clone();
    let at = heads(&whole)[100] + 8;
    lying[at..at + 4].copy_from_slice(&[0xff; 4]);
    let capture = seen(&lying);
    assert_eq!(capture.packets, 100);
    assert!(capture.notes[0].contains("a packet claims 4294967295 bytes"), "{:?}", capture.notes);
    let ng = PcapNg { big_endian: false, interfaces: vec![(101, None)] };
    let all: Vec<(usize, Frame)> = frames.into_iter().map(|frame| (0, frame)).collect();
    let file = ng.file(&all);
    let cut = seen(&file[..file.len() - 50]);
    assert!(cut.notes[0].contains("its last packet is not whole"), "{:?}", cut.notes);
}

#[test]
fn empty_packets_and_strange_links_are_counted() {
    let nothing = Frame { at: 1, data: Vec::new(), length: 0 };
    let capture = seen(&pcap(Link::Ethernet, &[nothing.clone(), nothing.clone()]));
    assert_eq!((capture.packets, capture.connections), (2, 0));
    let strange = Pcap { big_endian: false, nanoseconds: false }.file(9999, &[nothing]);
    assert!(seen(&strange).notes[0].contains("link type"));
}

#[test]
fn a_million_connections_cost_bounded_memory() {
    // A SYN, an answer and a byte each: enough to be connections, and no two alike.
    let frames = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        let talk = Talk { client: ([10, a, b, c], 40000).into(), ..Talk::default() };
        let at = 1_700_000_000_000_000_000 + u64::from(number) * 20_000;
        let syn = Tcp {
            from: talk.client,
            to: talk.server,
            seq: 0,
            ack: 0,
            flags: SYN,
            window: 1000,
            options: Vec::new(),
            payload: 0,
            id: 0,
        };
        let data = Tcp { seq: 1, flags: ACK | FIN, payload: 500, ..syn.clone() };
        [Link::Raw.frame(at, &syn, 96), Link::Raw.frame(at + 10_000, &data, 96)]
    };
    // A stream, so that the test's own memory does not count.
    struct Stream<F> {
        make: F,
        next: u32,
        ready: Vec<u8>,
        at: usize,
    }
    impl<F: Fn(u32) -> [Frame; 2]> Read for Stream<F> {
        fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
            if self.at == self.ready.len() && self.next < 1_000_000 {
                let head = if self.next == 0 { 0 } else { 24 };
                self.ready = pcap(Link::Raw, &(self.make)(self.next))[head..].to_vec();
                self.at = 0;
                self.next += 1;
            }
            let count = room.len().min(self.ready.len() - self.at);
            room[..count].copy_from_slice(&self.ready[self.at..self.at + count]);
            self.at += count;
            Ok(count)
        }
    }
    let before = peak();
    let capture = read(Stream { make: frames, next: 0, ready: Vec::new(), at: 0 }, &options()).unwrap();
    assert_eq!(capture.connections, 1_000_000);
    assert_eq!(capture.bytes, 500_000_000);
    let verdict = judge(&capture.evidence, &capture.notes);
    assert!(
        verdict.missing.iter().any(|line| line.contains("counted and not judged")),
        "{:?}",
        verdict.missing
    );
    // 256 MiB is the bound of the whole program.
    assert!(peak() - before < 200 << 20, "{} MiB", (peak() - before) >> 20);
}

/// The most memory that this process had, bytes.
fn peak() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000), format in 0..3_u8) {
        let head: &[u8] = match format {
            0 => &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0],
            1 => &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 28, 0, 0, 0, 1, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0],
            _ => &[],
        };
        if let Ok(capture) = read([head, &bytes].concat().as_slice(), &options()) {
            let _ = judge(&capture.evidence, &capture.notes);
        }
    }

    #[test]
    fn whatever_ends_claim_nothing_is_counted_beyond_what_came(
        segments in proptest::collection::vec((any::<bool>(), any::<u32>(), any::<u32>(), any::<u8>(), any::<u16>(), 0..70_000_u32, 0..3_000_000_000_u64, any::<u8>()), 1..200)
    ) {
        let talk = Talk::default();
        let mut at = talk.begins;
        let mut frames = Vec::new();
        let mut payload = 0;
        for (by_client, seq, ack, flags, window, size, later, near) in segments {
            at += if near > 200 { later * 100 } else { later / 1000 };
            // Most numbers near each other, as in a connection; some anywhere.
            let near_by = |number: u32| if near < 240 { number % 200_000 } else { number };
            let (from, to) = if by_client { (talk.client, talk.server) } else { (talk.server, talk.client) };
            let flags = if near % 8 == 0 { flags } else { flags & !(made::RST | SYN) };
            let tcp = Tcp { from, to, seq: near_by(seq), ack: near_by(ack), flags, window, options: Vec::new(), payload: size, id: near.into() };
            payload += u64::from(size);
            frames.push(Link::Raw.frame(at, &tcp, 60));
        }
        let capture = seen(&pcap(Link::Raw, &frames));
        let intervals = &capture.evidence.intervals;
        let lanes = || intervals.iter().flat_map(|interval| &interval.lanes);
        let sent: u64 = lanes().filter_map(|lane| lane.sender.value()).map(|sender| sender.sent).sum();
        prop_assert!(sent <= payload, "{sent} of {payload}");
        for interval in intervals {
            for lane in &interval.lanes {
                prop_assert!(lane.idle <= interval.span);
                if let Some(sender) = lane.sender.value() {
                    prop_assert!(sender.busy <= interval.span);
                    let counts = [sender.app_limited, sender.nothing_unsent, sender.nothing_in_flight, sender.window_filled, sender.recovering, sender.owing, sender.awaiting];
                    prop_assert!(counts.iter().all(|count| *count <= sender.looks), "{sender:?}");
                }
            }
        }
        let verdict = judge(&capture.evidence, &capture.notes);
        prop_assert!((0.0..=1.0).contains(&verdict.confidence));
        prop_assert!(capture.flows.iter().all(|flow| flow.points.len() <= weir_capture::POINTS));
    }
}
