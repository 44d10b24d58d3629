//! A capture of 1 GB: under 10 s, within 256 MiB. Ignored by default: it writes that gigabyte, and a debug
//! build is no measure.
//!
//!     cargo test --release -p weir-capture --test large -- --ignored --nocapture
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod made;

use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::time::{Duration, Instant};

use made::{ACK, Link, MSS, Tcp, pcap};
use weir_capture::{Options, judge, read};

/// Writes packets of 64 connections in turn until the file has so many bytes; returns how many there are.
fn write(file: &mut impl Write, bytes: u64, keep: usize) -> u64 {
    file.write_all(&pcap(Link::Ethernet, &[])).unwrap();
    let stamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1].to_vec();
    let (mut written, mut packets, mut at) = (24, 0_u64, 1_700_000_000_000_000_000);
    let mut seqs = [1_u32; 64];
    while written < bytes {
        let flow = (packets / 3 % 64) as usize;
        let (server, client) = (([10, 0, 0, 2], 80).into(), ([10, 0, 1, flow as u8], 40000).into());
        let data = packets % 3 != 2;
        let (from, to) = if data { (server, client) } else { (client, server) };
        let tcp = Tcp {
            from,
            to,
            seq: if data { seqs[flow] } else { 1 },
            ack: if data { 1 } else { seqs[flow] },
            flags: ACK,
            window: 5000,
            options: stamps.clone(),
            payload: if data { MSS } else { 0 },
            id: packets as u16,
        };
        if data {
            seqs[flow] = seqs[flow].wrapping_add(MSS);
        }
        // 10 Gbit/s of full segments.
        at += 800;
        let record = &pcap(Link::Ethernet, &[Link::Ethernet.frame(at, &tcp, keep)])[24..];
        file.write_all(record).unwrap();
        written += record.len() as u64;
        packets += 1;
    }
    packets
}

#[test]
#[ignore = "writes 1 GB"]
fn a_gigabyte_takes_seconds() {
    for keep in [96, 2000] {
        let mut file = BufWriter::with_capacity(1 << 20, tempfile::tempfile().unwrap());
        let packets = write(&mut file, 1_000_000_000, keep);
        let mut file: File = file.into_inner().unwrap();
        file.rewind().unwrap();
        let start = Instant::now();
        let capture = read(&file, &Options::default()).unwrap();
        let took = start.elapsed();
        let verdict = judge(&capture.evidence, &capture.notes);
        let all = start.elapsed();
        assert_eq!(capture.packets, packets);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap().to_owned();
        println!(
            "snaplen {keep}: {packets} packets read in {took:.2?} ({:.0} ns each), judged after {all:.2?}; {peak}; {:?}",
            took.as_nanos() as f64 / packets as f64,
            verdict.limit
        );
        assert!(all < Duration::from_secs(10), "{all:?}");
        let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(kib < 256 << 10, "{peak}");
    }
}
