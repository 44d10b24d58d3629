//! Which packets are in these bytes? pcap and pcapng, plain or gzip, as a stream: nothing is ever sought.
//!
//! `pcap-parser` reads headers and blocks; this file frames them, so that a length that lies can neither make
//! the buffer grow nor take bytes from the record behind it. What is damaged ends the reading with a note:
//! the packets before count.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;
use pcap_parser::pcapng::{self, Block, OptionCode};
use pcap_parser::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header};

use crate::error::CaptureError;

/// The largest record or packet block that is taken: snaplen is 256 KiB at most in libpcap (MAXIMUM_SNAPLEN),
/// and the rest is left to options.
const LARGEST: usize = 1 << 20;

/// Interfaces of a pcapng section that are kept; packets of further ones are counted and not judged. Real
/// captures have a few.
const INTERFACES: usize = 4096;

/// One packet as it lies in the capture.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Nanoseconds, by the capture's own clock.
    pub at: u64,
    /// LINKTYPE_* of its interface.
    pub link: u16,
    /// Its interface's number; 0 in a container that has one interface.
    pub interface: u32,
    /// Length on the wire.
    pub length: u32,
    /// What was kept of it.
    pub data: &'a [u8],
}

/// The container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The classic format of tcpdump.
    Pcap,
    /// Wireshark's format.
    PcapNg,
}

/// What follows in the stream.
#[derive(Debug)]
pub enum Next<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// A record that cannot be read, or belongs to no known interface; the next may be whole.
    Malformed,
    /// The end, and why it came before the file's where it did.
    End(Option<String>),
}

/// A stream of packets.
pub struct Source<R> {
    input: Input<R>,
    format: Format,
    classic: Classic,
    section: Section,
}

/// What the file header of pcap says.
#[derive(Debug, Clone, Copy, Default)]
struct Classic {
    big_endian: bool,
    nanoseconds: bool,
    modified: bool,
    /// Before version 2.3 a record had its two lengths the other way round, and in 2.3 some had.
    swapped: Swapped,
    link: u16,
}

/// Whether a record's lengths are those of the wire first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Swapped {
    #[default]
    Never,
    Always,
    /// Where what was kept would be more than what was there.
    Perhaps,
}

/// The pcapng section that is read.
#[derive(Debug, Default)]
struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: u16,
    clock: Clock,
}

/// Opens a stream: looks at its first bytes, unpacks gzip, reads the file header.
pub fn open<'r>(mut reader: impl Read + 'r) -> Result<Source<Box<dyn Read + 'r>>, CaptureError> {
    let mut first = [0; 4];
    let count = fill(&mut reader, &mut first).map_err(CaptureError::Read)?;
    let whole = Cursor::new(first[..count].to_vec()).chain(reader);
    let packed = first[..count].starts_with(&[0x1f, 0x8b]);
    let reader: Box<dyn Read + 'r> =
        if packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
    Source::new(reader)
}

fn fill(reader: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < room.len() {
        match reader.read(&mut room[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

impl<R: Read> Source<R> {
    fn new(reader: R) -> Result<Source<R>, CaptureError> {
        let mut input = Input::new(reader);
        let known = input.need(4).map_err(CaptureError::Read)?;
        if !known {
            return Err(if input.data().is_empty() { CaptureError::Empty } else { unknown(input.data()) });
        }
        let mut source =
            Source { input, format: Format::Pcap, classic: Classic::default(), section: Section::default() };
        match source.input.data()[..4] {
            // A section header block, the same in both byte orders.
            [0x0a, 0x0d, 0x0d, 0x0a] => source.format = Format::PcapNg,
            [0xd4 | 0x4d, 0xc3 | 0x3c, 0xb2, 0xa1]
            | [0xa1, 0xb2, 0xc3 | 0x3c, 0xd4 | 0x4d]
            | [0x34, 0xcd, 0xb2, 0xa1] => {
                source.classic_header()?;
            }
            _ => return Err(unknown(source.input.data())),
        }
        Ok(source)
    }

    /// The container.
    pub fn format(&self) -> Format {
        self.format
    }

    fn classic_header(&mut self) -> Result<(), CaptureError> {
        // 24 bytes: magic, version, zone, sigfigs, snaplen, link type.
        if !self.input.need(24).map_err(CaptureError::Read)? {
            return Err(CaptureError::Header("it is cut"));
        }
        let Ok((_, header)) = parse_pcap_header(self.input.data()) else {
            return Err(CaptureError::Header("its first bytes are unknown"));
        };
        self.classic = Classic {
            big_endian: header.is_bigendian(),
            nanoseconds: header.is_nanosecond_precision(),
            modified: header.is_modified_format(),
            swapped: match (header.version_major, header.version_minor) {
                (2, 3) => Swapped::Perhaps,
                (2, 0..3) => Swapped::Always,
                _ => Swapped::Never,
            },
            // The upper half has flags (FCS length).
            link: (header.network.0 as u32 & 0xffff) as u16,
        };
        self.input.consume(24);
        Ok(())
    }

    /// The next packet. After [`Next::End`] there is nothing more.
    pub fn next(&mut self) -> Next<'_> {
        match self.format {
            Format::Pcap => self.next_record(),
            Format::PcapNg => self.next_block(),
        }
    }

    fn next_record(&mut self) -> Next<'_> {
        let head = if self.classic.modified { 24 } else { 16 };
        match self.input.need(head) {
            Err(error) => return Next::End(Some(failed(&error))),
            Ok(false) if self.input.data().is_empty() => return Next::End(None),
            Ok(false) => return Next::End(Some(CUT.to_owned())),
            Ok(true) => {}
        }
        let lengths = [8, 12].map(|at| word(self.input.data(), at, self.classic.big_endian));
        let swap = match self.classic.swapped {
            Swapped::Never => false,
            Swapped::Always => true,
            Swapped::Perhaps => lengths[0] > lengths[1],
        };
        if swap {
            let at = self.input.start;
            self.input.buffer[at + 8..at + 16].rotate_left(4);
        }
        let kept = lengths[usize::from(swap)] as usize;
        if kept > LARGEST {
            return Next::End(Some(format!("it is damaged: a packet claims {kept} bytes")));
        }
        match self.input.need(head + kept) {
            Err(error) => return Next::End(Some(failed(&error))),
            Ok(false) => return Next::End(Some(CUT.to_owned())),
            Ok(true) => {}
        }
        let parse = match (self.classic.modified, self.classic.big_endian) {
            (true, _) => parse_pcap_frame_modified,
            (_, true) => parse_pcap_frame_be,
            _ => parse_pcap_frame,
        };
        let Classic { nanoseconds, link, .. } = self.classic;
        match parse(self.input.take(head + kept)) {
            Ok((_, frame)) => {
                let part = u64::from(frame.ts_usec) * if nanoseconds { 1 } else { 1000 };
                let at = (u64::from(frame.ts_sec) * 1_000_000_000).saturating_add(part);
                let length = frame.origlen.max(frame.caplen);
                Next::Packet(Packet { at, link, interface: 0, length, data: frame.data })
            }
            Err(_) => Next::Malformed,
        }
    }

    fn next_block(&mut self) -> Next<'_> {
        let length = loop {
            let length = match self.frame() {
                Ok(length) => length,
                Err(end) => return Next::End(end),
            };
            let kind = word(self.input.data(), 0, self.section.big_endian);
            match kind {
                pcapng::EPB_MAGIC | pcapng::SPB_MAGIC if length > LARGEST => {
                    return Next::End(Some(format!("it is damaged: a packet claims {length} bytes")));
                }
                pcapng::EPB_MAGIC | pcapng::SPB_MAGIC => match self.input.need(length) {
                    Err(error) => return Next::End(Some(failed(&error))),
                    Ok(false) => return Next::End(Some(CUT.to_owned())),
                    Ok(true) => break length,
                },
                _ => {
                    if let Err(end) = self.other_block(kind, length) {
                        return Next::End(end);
                    }
                }
            }
        };
        let Source { input, section, .. } = self;
        let block = parse_block(input.take(length), section.big_endian);
        let packet = match &block {
            Some(Block::EnhancedPacket(packet)) => {
                section.interfaces.get(packet.if_id as usize).map(|interface| {
                    let stamp = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                    let kept = (packet.caplen as usize).min(packet.data.len());
                    let length = packet.origlen.max(packet.caplen);
                    Packet {
                        at: interface.clock.nanoseconds(stamp),
                        link: interface.link,
                        interface: packet.if_id,
                        length,
                        data: &packet.data[..kept],
                    }
                })
            }
            // It has no time, so it cannot be judged.
            Some(Block::SimplePacket(_)) | Some(_) | None => None,
        };
        packet.map_or(Next::Malformed, Next::Packet)
    }

    /// The length of the block that begins here, which is then whole in the buffer unless it is large and no
    /// packet.
    fn frame(&mut self) -> Result<usize, Option<String>> {
        match self.input.need(12) {
            Err(error) => return Err(Some(failed(&error))),
            Ok(false) if self.input.data().is_empty() => return Err(None),
            Ok(false) => return Err(Some(CUT.to_owned())),
            Ok(true) => {}
        }
        let data = self.input.data();
        if data[..4] == [0x0a, 0x0d, 0x0d, 0x0a] {
            // The byte order of a section is told by its first block.
            self.section = match data[8..12] {
                [0x1a, 0x2b, 0x3c, 0x4d] => Section { big_endian: true, ..Section::default() },
                [0x4d, 0x3c, 0x2b, 0x1a] => Section::default(),
                _ => return Err(Some("it is damaged: a section without a byte order".to_owned())),
            };
        }
        let length = word(data, 4, self.section.big_endian) as usize;
        if length < 12 || !length.is_multiple_of(4) {
            return Err(Some(format!("it is damaged: a block claims {length} bytes")));
        }
        Ok(length)
    }

    /// A block without packets: a section, an interface, or anything else, which is passed over.
    fn other_block(&mut self, kind: u32, length: usize) -> Result<(), Option<String>> {
        if length > LARGEST {
            return self
                .input
                .skip(length)
                .map_err(|error| Some(failed(&error)))
                .and_then(|whole| if whole { Ok(()) } else { Err(Some(CUT.to_owned())) });
        }
        match self.input.need(length) {
            Err(error) => return Err(Some(failed(&error))),
            Ok(false) => return Err(Some(CUT.to_owned())),
            Ok(true) => {}
        }
        let big_endian = self.section.big_endian;
        let block = self.input.take(length);
        if kind == pcapng::IDB_MAGIC && self.section.interfaces.len() < INTERFACES {
            let interface = match parse_block(block, big_endian) {
                Some(Block::InterfaceDescription(it)) => {
                    let option = |code: OptionCode| it.options.iter().find(|option| option.code == code);
                    let resolution = option(OptionCode::IfTsresol).and_then(|it| it.value.first().copied());
                    let offset = option(OptionCode::IfTsoffset).and_then(|it| it.value.first_chunk::<8>());
                    let offset = offset.map_or(0, |bytes| match big_endian {
                        true => i64::from_be_bytes(*bytes),
                        false => i64::from_le_bytes(*bytes),
                    });
                    Interface {
                        link: (it.linktype.0 as u32 & 0xffff) as u16,
                        clock: Clock::new(resolution.unwrap_or(6), offset),
                    }
                }
                // A place is kept for it, since packets name interfaces by their number.
                _ => Interface { link: u16::MAX, clock: Clock::new(6, 0) },
            };
            self.section.interfaces.push(interface);
        }
        Ok(())
    }
}

/// What is said of a capture that ends inside a record.
const CUT: &str = "it is cut: its last packet is not whole";

fn failed(error: &io::Error) -> String {
    format!("reading it failed: {}", weir_units::plain(error))
}

fn unknown(data: &[u8]) -> CaptureError {
    let shown: Vec<String> = data.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    CaptureError::Unknown(shown.join(" "))
}

fn parse_block(data: &[u8], big_endian: bool) -> Option<Block<'_>> {
    let parse = if big_endian { pcapng::parse_block_be } else { pcapng::parse_block_le };
    parse(data).ok().map(|(_, block)| block)
}

fn word(data: &[u8], at: usize, big_endian: bool) -> u32 {
    let bytes = data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

/// How an interface counts time (if_tsresol, if_tsoffset).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Clock {
    /// Nanoseconds a unit, as a fraction.
    numerator: u64,
    denominator: u64,
    /// Seconds to be added.
    offset: i64,
}

impl Clock {
    /// The upper bit says that the resolution is a power of two, else it is one of ten.
    fn new(resolution: u8, offset: i64) -> Clock {
        let power = u32::from(resolution & 0x7f);
        let units = if resolution & 0x80 != 0 { 1_u64.checked_shl(power) } else { 10_u64.checked_pow(power) };
        // Units too fine for 64 bits say nothing that can be used; they count as they are, in nanoseconds.
        match units.filter(|units| *units > 0) {
            Some(units @ 1_000_000_000..) if resolution & 0x80 == 0 => {
                Clock { numerator: 1, denominator: units / 1_000_000_000, offset }
            }
            Some(units @ 1..1_000_000_000) if resolution & 0x80 == 0 => {
                Clock { numerator: 1_000_000_000 / units, denominator: 1, offset }
            }
            Some(units) => Clock { numerator: 1_000_000_000, denominator: units, offset },
            None => Clock { numerator: 1, denominator: 1, offset },
        }
    }

    fn nanoseconds(&self, stamp: u64) -> u64 {
        let time = u128::from(stamp) * u128::from(self.numerator) / u128::from(self.denominator);
        let time = i128::try_from(time).unwrap_or(i128::MAX) + i128::from(self.offset) * 1_000_000_000;
        u64::try_from(time.max(0)).unwrap_or(u64::MAX)
    }
}

/// A buffer in front of a reader.
struct Input<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    over: bool,
}

impl<R: Read> Input<R> {
    fn new(reader: R) -> Input<R> {
        Input { reader, buffer: vec![0; LARGEST + 4096], start: 0, end: 0, over: false }
    }

    fn data(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether so many bytes, no more than the buffer holds, lie ready. Reads no more than one piece at a
    /// time, so that a live capture is not waited for longer than it must.
    fn need(&mut self, count: usize) -> io::Result<bool> {
        while self.end - self.start < count {
            if self.over || count > self.buffer.len() {
                return Ok(false);
            }
            if self.start + count > self.buffer.len() || self.start == self.end {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.over = true,
                Ok(more) => self.end += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.over = true;
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// The next bytes, which [`Input::need`] has made sure of.
    fn take(&mut self, count: usize) -> &[u8] {
        let from = self.start;
        self.consume(count);
        &self.buffer[from..self.start]
    }

    /// Passes over bytes; `false` where the stream ends before.
    fn skip(&mut self, mut count: usize) -> io::Result<bool> {
        while count > 0 {
            if !self.need(1)? {
                return Ok(false);
            }
            let step = count.min(self.end - self.start);
            self.consume(step);
            count -= step;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_count_in_any_unit() {
        assert_eq!(Clock::new(6, 0).nanoseconds(1_500_000), 1_500_000_000);
        assert_eq!(Clock::new(9, 0).nanoseconds(1_500_000_000), 1_500_000_000);
        assert_eq!(Clock::new(3, 0).nanoseconds(1_500), 1_500_000_000);
        assert_eq!(Clock::new(12, 0).nanoseconds(1_500_000_000_000), 1_500_000_000);
        assert_eq!(Clock::new(0x80 | 10, 0).nanoseconds(1536), 1_500_000_000);
        assert_eq!(Clock::new(6, 2).nanoseconds(1_500_000), 3_500_000_000);
        assert_eq!(Clock::new(6, -9).nanoseconds(1_500_000), 0);
        for resolution in 0..=255 {
            Clock::new(resolution, i64::MAX).nanoseconds(u64::MAX);
        }
    }
}
