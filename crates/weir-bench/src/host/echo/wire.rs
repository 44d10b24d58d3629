//! ICMP echo on the wire (RFC 792, RFC 4443 section 4). Pure.

/// Bytes of an echo's header: type, code, checksum, identifier, sequence number.
pub const HEADER: usize = 8;

/// What ping sends after the header, so that the figures can be compared.
pub const USUAL: usize = 56;

/// The smallest payload: the token that makes an answer ours.
pub const TOKEN: usize = 8;

/// Which IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// As in the request.
    pub sequence: u16,
    /// As in the request.
    pub token: u64,
    /// Bytes after the ICMP header.
    pub length: usize,
}

impl Family {
    fn types(self) -> (u8, u8) {
        match self {
            Family::V4 => (8, 0),
            Family::V6 => (128, 129),
        }
    }
}

/// A request; `payload` is at least [`TOKEN`] bytes.
pub fn request(family: Family, id: u16, sequence: u16, token: u64, payload: usize) -> Vec<u8> {
    let mut packet = vec![0; HEADER + payload.max(TOKEN)];
    packet[0] = family.types().0;
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[6..8].copy_from_slice(&sequence.to_be_bytes());
    packet[HEADER..HEADER + TOKEN].copy_from_slice(&token.to_be_bytes());
    // The kernel puts the sum into ICMPv6, whose sum covers addresses, and into ping sockets' packets.
    if family == Family::V4 {
        let sum = checksum(&packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

/// The internet checksum (RFC 1071).
pub fn checksum(bytes: &[u8]) -> u16 {
    !fold(add_words(bytes))
}

/// The sum of the 16-bit words, carries not yet folded in.
pub(crate) fn add_words(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]);
    bytes.chunks(2).map(|pair| u64::from(word(pair))).sum()
}

/// The carries folded in: the sum in ones' complement.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// An echo reply in what a socket received; `None` for anything else. A raw IPv4 socket hands over the IP
/// header too.
pub(crate) fn parse_reply(family: Family, raw: bool, bytes: &[u8]) -> Option<Reply> {
    let icmp = if raw && family == Family::V4 {
        // The header's length in words of four bytes (RFC 791 section 3.1); 5 at least.
        let words = usize::from(bytes.first()? & 15).max(5);
        bytes.get(words * 4..)?
    } else {
        bytes
    };
    let token = icmp.get(HEADER..HEADER + TOKEN)?;
    (icmp[0] == family.types().1 && icmp[1] == 0).then_some(())?;
    Some(Reply {
        sequence: u16::from_be_bytes([icmp[6], icmp[7]]),
        token: u64::from_be_bytes(token.try_into().ok()?),
        length: icmp.len() - HEADER,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_of_rfc_1071() {
        // Section 3 of the RFC: 0001 f203 f4f5 f6f7 adds up to ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[0xff]), 0x00ff);
    }

    #[test]
    fn a_request_is_no_reply_but_its_answer_is() {
        let mut packet = request(Family::V4, 9, 7, 0xfeed, USUAL);
        assert_eq!(checksum(&packet), 0);
        assert_eq!(parse_reply(Family::V4, false, &packet), None);
        packet[0] = 0;
        let reply = Reply { sequence: 7, token: 0xfeed, length: USUAL };
        assert_eq!(parse_reply(Family::V4, false, &packet), Some(reply));
        let mut with_header = vec![0x46; 24];
        with_header.extend(&packet);
        assert_eq!(parse_reply(Family::V4, true, &with_header), Some(reply));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_reply_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..80), raw: bool, six: bool) {
            let family = if six { Family::V6 } else { Family::V4 };
            if let Some(reply) = parse_reply(family, raw, &bytes) {
                prop_assert!(reply.length >= TOKEN && reply.length <= bytes.len());
            }
        }
    }
}
