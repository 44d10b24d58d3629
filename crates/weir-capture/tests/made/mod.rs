//! Captures made by hand: packets of every link layer, files of both formats, and conversations over a path
//! whose round trip, window and writer are known, captured anywhere between the two ends.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::net::{IpAddr, SocketAddr};

pub const MSS: u32 = 1448;

/// A TCP header and how much payload follows it.
#[derive(Debug, Clone)]
pub struct Tcp {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: u32,
    pub id: u16,
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

impl Tcp {
    /// IP and TCP headers, and the payload's first bytes up to `keep` of all. Extension headers for IPv6
    /// where asked for.
    pub fn ip(&self, keep: usize, extended: bool) -> (Vec<u8>, u32) {
        let mut options = self.options.clone();
        options.resize(options.len().div_ceil(4) * 4, 1);
        let mut tcp = Vec::new();
        tcp.extend(self.from.port().to_be_bytes());
        tcp.extend(self.to.port().to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.push(((20 + options.len()) as u8 / 4) << 4);
        tcp.push(self.flags);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(&options);
        let body = tcp.len() as u32 + self.payload;
        let mut ip = Vec::new();
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                // More than 64 KiB has no length here: offload.
                let total = u16::try_from(20 + body).unwrap_or(0);
                ip.extend([0x45, 0]);
                ip.extend(total.to_be_bytes());
                ip.extend(self.id.to_be_bytes());
                ip.extend([0x40, 0, 64, 6, 0, 0]);
                ip.extend(from.octets());
                ip.extend(to.octets());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let more = if extended { 16 } else { 0 };
                ip.extend([0x60, 0, 0, 0]);
                ip.extend(u16::try_from(more + body).unwrap_or(0).to_be_bytes());
                ip.extend([if extended { 0 } else { 6 }, 64]);
                ip.extend(from.octets());
                ip.extend(to.octets());
                if extended {
                    // Hop-by-hop, then destination options, each eight bytes of padding.
                    ip.extend([60, 0, 1, 4, 0, 0, 0, 0]);
                    ip.extend([6, 0, 1, 4, 0, 0, 0, 0]);
                }
            }
            _ => unreachable!("both ends are of one family"),
        }
        ip.extend(&tcp);
        let whole = ip.len() as u32 + self.payload;
        ip.resize(keep.min(whole as usize).max(keep.min(ip.len())), b'x');
        ip.truncate(keep);
        (ip, whole)
    }
}

/// A packet of a capture.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Nanoseconds.
    pub at: u64,
    pub data: Vec<u8>,
    pub length: u32,
}

/// A link layer in front of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Ethernet,
    Vlan,
    TwoTags,
    Sll,
    Sll2,
    Raw,
    Ipv4,
    Null,
    Loop,
    Ppp,
}

impl Link {
    pub const ALL: [Link; 10] = [
        Link::Ethernet,
        Link::Vlan,
        Link::TwoTags,
        Link::Sll,
        Link::Sll2,
        Link::Raw,
        Link::Ipv4,
        Link::Null,
        Link::Loop,
        Link::Ppp,
    ];

    pub fn number(self) -> u32 {
        match self {
            Link::Ethernet | Link::Vlan | Link::TwoTags => 1,
            Link::Sll => 113,
            Link::Sll2 => 276,
            Link::Raw => 101,
            Link::Ipv4 => 228,
            Link::Null => 0,
            Link::Loop => 108,
            Link::Ppp => 9,
        }
    }

    fn head(self, v6: bool) -> Vec<u8> {
        let kind: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
        let mut head = Vec::new();
        match self {
            Link::Ethernet => head.extend([2; 12]),
            Link::Vlan => head.extend([[2; 12].as_slice(), &[0x81, 0, 0, 7]].concat()),
            Link::TwoTags => head.extend([[2; 12].as_slice(), &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7]].concat()),
            Link::Sll => head.extend([0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0]),
            Link::Sll2 => {
                head.extend(kind);
                head.extend([0; 18]);
                return head;
            }
            Link::Raw | Link::Ipv4 => return head,
            Link::Null => return vec![if v6 { 30 } else { 2 }, 0, 0, 0],
            Link::Loop => return vec![0, 0, 0, if v6 { 24 } else { 2 }],
            Link::Ppp => return vec![0xff, 3, 0, if v6 { 0x57 } else { 0x21 }],
        }
        head.extend(kind);
        head
    }

    pub fn frame(self, at: u64, tcp: &Tcp, snaplen: usize) -> Frame {
        let mut data = self.head(tcp.from.is_ipv6());
        let (ip, length) = tcp.ip(snaplen.saturating_sub(data.len()), false);
        let length = data.len() as u32 + length;
        data.extend(ip);
        Frame { at, data, length }
    }
}

/// A pcap file.
#[derive(Debug, Clone, Copy)]
pub struct Pcap {
    pub big_endian: bool,
    pub nanoseconds: bool,
}

impl Pcap {
    fn word(&self, word: u32) -> [u8; 4] {
        if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    pub fn file(&self, link: u32, frames: &[Frame]) -> Vec<u8> {
        let half = |half: u16| if self.big_endian { half.to_be_bytes() } else { half.to_le_bytes() };
        let mut file = Vec::new();
        file.extend(self.word(if self.nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }));
        file.extend(half(2));
        file.extend(half(4));
        for word in [0, 0, 262_144, link] {
            file.extend(self.word(word));
        }
        for frame in frames {
            let part = frame.at % 1_000_000_000;
            file.extend(self.word((frame.at / 1_000_000_000) as u32));
            file.extend(self.word(if self.nanoseconds { part } else { part / 1000 } as u32));
            file.extend(self.word(frame.data.len() as u32));
            file.extend(self.word(frame.length));
            file.extend(&frame.data);
        }
        file
    }
}

/// A plain pcap file with nanoseconds.
pub fn pcap(link: Link, frames: &[Frame]) -> Vec<u8> {
    Pcap { big_endian: false, nanoseconds: true }.file(link.number(), frames)
}

/// A pcapng file of one section; each frame goes to the interface given with it.
#[derive(Debug, Clone)]
pub struct PcapNg {
    pub big_endian: bool,
    /// Link type and if_tsresol of each interface.
    pub interfaces: Vec<(u32, Option<u8>)>,
}

impl PcapNg {
    fn word(&self, word: u32) -> [u8; 4] {
        if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    fn half(&self, half: u16) -> [u8; 2] {
        if self.big_endian { half.to_be_bytes() } else { half.to_le_bytes() }
    }

    fn block(&self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().div_ceil(4) * 4, 0);
        let length = self.word(12 + body.len() as u32);
        [self.word(kind).as_slice(), &length, &body, &length].concat()
    }

    pub fn file(&self, frames: &[(usize, Frame)]) -> Vec<u8> {
        let mut section = self.word(0x1a2b_3c4d).to_vec();
        section.extend(self.half(1));
        section.extend(self.half(0));
        section.extend([0xff; 8]);
        let mut file = self.block(0x0a0d_0d0a, &section);
        for (link, resolution) in &self.interfaces {
            let mut body = [self.half(*link as u16).as_slice(), &[0, 0], &self.word(0)].concat();
            if let Some(resolution) = resolution {
                body.extend(
                    [self.half(9).as_slice(), &self.half(1), &[*resolution, 0, 0, 0], &[0; 4]].concat(),
                );
            }
            file.extend(self.block(1, &body));
        }
        // A block that nobody knows is passed over.
        file.extend(self.block(0x0bad, b"strange"));
        for (interface, frame) in frames {
            let units = match self.interfaces.get(*interface).and_then(|it| it.1).unwrap_or(6) {
                power if power & 0x80 != 0 => 1_u128 << (power & 0x7f),
                power => 10_u128.pow(power.into()),
            };
            let stamp = (u128::from(frame.at) * units / 1_000_000_000) as u64;
            let mut body = self.word(*interface as u32).to_vec();
            body.extend(self.word((stamp >> 32) as u32));
            body.extend(self.word(stamp as u32));
            body.extend(self.word(frame.data.len() as u32));
            body.extend(self.word(frame.length));
            body.extend(&frame.data);
            file.extend(self.block(6, &body));
        }
        file
    }
}

/// A conversation: a client asks with 100 bytes, a server sends.
#[derive(Debug, Clone, Copy)]
pub struct Talk {
    pub client: SocketAddr,
    pub server: SocketAddr,
    /// Nanoseconds there and back.
    pub rtt: u64,
    /// Where the capture is made: 0 at the server, which sends, 1 at the client.
    pub place: f64,
    /// The client's window, bytes.
    pub window: u32,
    pub stamps: bool,
    /// Scale in the SYNs.
    pub scale: u8,
    /// When it begins, nanoseconds.
    pub begins: u64,
}

impl Default for Talk {
    fn default() -> Talk {
        Talk {
            client: "10.0.0.1:40000".parse().unwrap(),
            server: "10.0.0.2:80".parse().unwrap(),
            rtt: 40_000_000,
            place: 0.0,
            window: 40_000,
            stamps: true,
            scale: 2,
            begins: 1_700_000_000_000_000_000,
        }
    }
}

/// A segment as it leaves its end.
#[derive(Debug, Clone)]
pub struct Sent {
    /// When the server's end has it, nanoseconds from the beginning.
    at_server: u64,
    /// When the client's end has it.
    at_client: u64,
    tcp: Tcp,
}

impl Talk {
    fn tcp(&self, by_client: bool, at: u64) -> Tcp {
        let (from, to) = if by_client { (self.client, self.server) } else { (self.server, self.client) };
        let options = match self.stamps {
            true => {
                // Clocks of a millisecond; the echo is of the moment half a round trip ago.
                let own = (at / 1_000_000) as u32;
                let echo = (at.saturating_sub(self.rtt / 2) / 1_000_000) as u32;
                [&[1, 1, 8, 10], own.to_be_bytes().as_slice(), &echo.to_be_bytes()].concat()
            }
            false => Vec::new(),
        };
        let window = (self.window >> self.scale) as u16;
        Tcp { from, to, seq: 1, ack: 1, flags: ACK, window, options, payload: 0, id: 0 }
    }

    /// A segment that leaves its end at a time.
    pub fn leaves(&self, by_client: bool, at: u64, change: impl FnOnce(&mut Tcp)) -> Sent {
        let mut tcp = self.tcp(by_client, at);
        change(&mut tcp);
        let later = at + self.rtt / 2;
        let (at_server, at_client) = if by_client { (later, at) } else { (at, later) };
        Sent { at_server, at_client, tcp }
    }

    /// SYN, SYN-ACK, ACK; the third leaves after a round trip.
    pub fn handshake(&self) -> Vec<Sent> {
        let offer = |tcp: &mut Tcp, flags: u8| {
            (tcp.flags, tcp.seq, tcp.window) = (flags, 0, 65_535);
            let mut options = vec![2, 4, 5, 180, 1, 3, 3, self.scale];
            options.extend(&tcp.options);
            tcp.options = options;
        };
        vec![
            self.leaves(true, 0, |tcp| {
                offer(tcp, SYN);
                tcp.ack = 0;
            }),
            self.leaves(false, self.rtt / 2, |tcp| offer(tcp, SYN | ACK)),
            self.leaves(true, self.rtt, |_| {}),
        ]
    }

    /// The request and all that the server sends, in segments of these sizes that leave when `when` says: it
    /// gets a segment's number, the time of the one before and that at which the acknowledgment of a segment
    /// is back.
    pub fn answer(&self, sizes: &[u32], when: impl Fn(usize, u64, &[u64]) -> u64) -> Vec<Sent> {
        let mut sent = self.handshake();
        let ask = self.rtt + 50_000;
        sent.push(self.leaves(true, ask, |tcp| tcp.payload = 100));
        let mut last = ask + self.rtt / 2 + 50_000;
        let mut back: Vec<u64> = Vec::new();
        let mut seq = 1;
        for (number, size) in sizes.iter().enumerate() {
            last = when(number, last, &back).max(last);
            let here = seq;
            sent.push(self.leaves(false, last, |tcp| (tcp.seq, tcp.ack, tcp.payload) = (here, 101, *size)));
            seq += size;
            let acks = last + self.rtt / 2 + 20_000;
            sent.push(self.leaves(true, acks, |tcp| (tcp.seq, tcp.ack) = (101, seq)));
            back.push(acks + self.rtt / 2);
        }
        sent
    }

    /// What a capture at this talk's place holds of them.
    pub fn captured(&self, sent: &[Sent]) -> Vec<(u64, Tcp)> {
        let at = |sent: &Sent| {
            let (server, client) = (sent.at_server as f64, sent.at_client as f64);
            self.begins + (server + (client - server) * self.place) as u64
        };
        let mut all: Vec<(u64, Tcp)> = sent.iter().map(|sent| (at(sent), sent.tcp.clone())).collect();
        all.sort_by_key(|(at, _)| *at);
        all
    }

    pub fn frames(&self, sent: &[Sent], link: Link, snaplen: usize) -> Vec<Frame> {
        self.captured(sent).iter().map(|(at, tcp)| link.frame(*at, tcp, snaplen)).collect()
    }

    /// A sender that fills the window: a segment leaves when the one a window ahead is acknowledged.
    pub fn held_by_window(&self, segments: usize) -> Vec<Sent> {
        let most = (self.window / MSS) as usize;
        let gap = 12_000;
        self.answer(&vec![MSS; segments], move |number, last, back| {
            let free = number.checked_sub(most).map_or(0, |before| back[before] + 30_000);
            (last + gap).max(free)
        })
    }

    /// A sender whose application writes 20,000 bytes each 23 ms.
    pub fn held_by_application(&self, writes: usize) -> Vec<Sent> {
        let tail = 20_000 % MSS;
        let each = (20_000 / MSS) as usize;
        let sizes: Vec<u32> =
            (0..writes).flat_map(|_| std::iter::repeat_n(MSS, each).chain([tail])).collect();
        let begins = 2 * self.rtt;
        self.answer(&sizes, move |number, last, _| {
            (last + 10_000).max(begins + (number / (each + 1)) as u64 * 23_000_000)
        })
    }
}
