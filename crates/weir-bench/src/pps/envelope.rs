//! The headers around a payload where weir writes whole Ethernet frames itself (packet sockets). Pure.
//!
//! All but the mark and the UDP checksum is the same for each packet of a run, so it is written once. The
//! checksum is a true one: the sum of what stays the same is kept, and the mark's words are added to it for
//! each packet.

use std::net::SocketAddr;

use super::frame::MARK;
use crate::host::echo::wire::{add_words, fold};

/// UDP: two ports, length, checksum.
const UDP: usize = 8;

/// UDP's number (RFC 768).
const UDP_PROTOCOL: u8 = 17;

/// Routers until a packet is given up: what Linux takes too (net.ipv4.ip_default_ttl).
const HOPS: u8 = 64;

/// Hardware addresses of the two ends of the first link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// This interface's.
    pub from: [u8; 6],
    /// The next hop's.
    pub to: [u8; 6],
}

/// The headers of one run's packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    headers: Vec<u8>,
    /// The UDP checksum's sum without the mark: pseudo header, UDP header, and a payload of zeros.
    sum: u64,
}

impl Envelope {
    /// Around payloads of so many bytes. Both addresses are of one family; `None` where they are not, or the
    /// payload is too long.
    pub fn new(link: Link, from: SocketAddr, to: SocketAddr, payload: usize) -> Option<Envelope> {
        let datagram = u16::try_from(UDP + payload).ok()?;
        let mut headers = [link.to, link.from].concat();
        let mut sum = u64::from(UDP_PROTOCOL) + u64::from(datagram);
        match (from, to) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                headers.extend([0x08, 0x00]);
                headers.extend(ipv4(from.ip().octets(), to.ip().octets(), datagram)?);
                sum += add_words(&from.ip().octets()) + add_words(&to.ip().octets());
            }
            (SocketAddr::V6(from), SocketAddr::V6(to)) => {
                headers.extend([0x86, 0xdd]);
                headers.extend(ipv6(from.ip().octets(), to.ip().octets(), datagram));
                sum += add_words(&from.ip().octets()) + add_words(&to.ip().octets());
            }
            _ => return None,
        }
        let udp = [from.port(), to.port(), datagram, 0].map(u16::to_be_bytes).concat();
        sum += add_words(&udp);
        headers.extend(udp);
        Some(Envelope { headers, sum })
    }

    /// Bytes before the payload.
    pub fn length(&self) -> usize {
        self.headers.len()
    }

    /// Writes the headers into a frame, which has room for them and a mark at least.
    pub fn put(&self, frame: &mut [u8]) {
        frame[..self.headers.len()].copy_from_slice(&self.headers);
    }

    /// Sets the checksum for the mark that now stands in the frame; the rest of the payload is zeros.
    pub fn seal(&self, frame: &mut [u8]) {
        let length = self.headers.len();
        let sum = fold(self.sum + add_words(&frame[length..length + MARK]));
        // A sum of zero is written as its other form: zero means that there is none (RFC 768).
        let sum = if sum == u16::MAX { u16::MAX } else { !sum };
        frame[length - 2..length].copy_from_slice(&sum.to_be_bytes());
    }
}

/// RFC 791 section 3.1, never to be fragmented: then the identification may be the same in each (RFC 6864
/// section 4.1).
fn ipv4(from: [u8; 4], to: [u8; 4], datagram: u16) -> Option<Vec<u8>> {
    const LENGTH: u16 = 20;
    const NO_FRAGMENTS: [u8; 2] = [0x40, 0];
    let mut header = vec![0x45, 0];
    header.extend(datagram.checked_add(LENGTH)?.to_be_bytes());
    header.extend([0, 0]);
    header.extend(NO_FRAGMENTS);
    header.extend([HOPS, UDP_PROTOCOL, 0, 0]);
    header.extend([from, to].concat());
    let sum = !fold(add_words(&header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(header)
}

/// RFC 8200 section 3.
fn ipv6(from: [u8; 16], to: [u8; 16], datagram: u16) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend(datagram.to_be_bytes());
    header.extend([UDP_PROTOCOL, HOPS]);
    header.extend([from, to].concat());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::echo::wire::checksum;
    use crate::pps::frame::Mark;
    use proptest::prelude::*;

    const LINK: Link = Link { from: [2, 0, 0, 0, 0, 1], to: [2, 0, 0, 0, 0, 2] };

    /// A sealed frame and, apart from it, what the UDP checksum covers.
    fn sealed(from: &str, to: &str, payload: usize, mark: Mark) -> (Vec<u8>, Vec<u8>) {
        let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let envelope = Envelope::new(LINK, from, to, payload).unwrap();
        let mut frame = vec![0; envelope.length() + payload];
        envelope.put(&mut frame);
        mark.put(&mut frame[envelope.length()..]);
        envelope.seal(&mut frame);
        let addresses = if from.is_ipv4() { &frame[26..34] } else { &frame[22..54] };
        let mut covered = addresses.to_vec();
        covered.extend(((UDP + payload) as u32).to_be_bytes());
        covered.extend([0, 0, 0, UDP_PROTOCOL]);
        covered.extend(&frame[envelope.length() - UDP..]);
        (frame, covered)
    }

    #[test]
    fn the_smallest_frame_of_ethernet() {
        let mark = Mark { token: 1, trial: 2, stream: 3, number: 4 };
        let (frame, _) = sealed("10.0.0.1:7", "10.0.0.2:9", 18, mark);
        // 64 with the checksum that the device adds.
        assert_eq!(frame.len(), 60);
        assert_eq!((&frame[..6], &frame[12..14]), (&LINK.to[..], &[8, 0][..]));
        assert_eq!(checksum(&frame[14..34]), 0, "of the IPv4 header");
        assert_eq!(frame[34..42][..6], [0, 7, 0, 9, 0, 26]);
        let mixed = Envelope::new(LINK, "10.0.0.1:7".parse().unwrap(), "[::1]:9".parse().unwrap(), 18);
        assert_eq!(mixed, None);
    }

    proptest! {
        #[test]
        fn checksums_are_true(token: u32, trial: u16, stream: u16, number: u64, payload in MARK..1473, six: bool) {
            let (from, to) = if six { ("[fd00::1]:7", "[fd00::2]:9") } else { ("10.0.0.1:7", "10.0.0.2:9") };
            let mark = Mark { token, trial, stream, number };
            let (frame, covered) = sealed(from, to, payload, mark);
            prop_assert_eq!(checksum(&covered), 0);
            let head = frame.len() - payload;
            prop_assert_ne!(&frame[head - 2..head], &[0, 0]);
            prop_assert_eq!(Mark::parse(&frame[head..]), Some(mark));
        }
    }
}
