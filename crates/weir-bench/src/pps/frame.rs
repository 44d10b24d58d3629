//! What does a size count, and what does each packet carry? Pure.
//!
//! RFC 2544 and those who sell switches count an Ethernet frame with its checksum: 64 to 1518 bytes. iperf3's
//! `-l` counts the UDP payload. Both can be asked for; the report says both. Preamble and gap (20 bytes more
//! on the wire) are in neither.

use super::PpsError;

/// Ethernet header, checksum, UDP header.
const AROUND: usize = 14 + 4 + 8;

/// The IP header.
fn ip_header(v6: bool) -> usize {
    if v6 { 40 } else { 20 }
}

/// The payload of a frame of 1518 bytes over IPv4; the largest that Ethernet carries.
pub(crate) const LARGEST_PAYLOAD: usize = 1472;

/// Bytes of the mark at the start of each payload.
pub const MARK: usize = 16;

/// A size that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Of the Ethernet frame with its checksum, without preamble and gap.
    Frame(usize),
    /// Of the UDP payload.
    Payload(usize),
}

impl Size {
    /// The UDP payload, in bytes.
    pub fn payload(self, v6: bool) -> Result<usize, PpsError> {
        let around = AROUND + ip_header(v6);
        let (payload, asked) = match self {
            Size::Frame(frame) => (frame.checked_sub(around), format!("a frame of {frame} bytes")),
            Size::Payload(payload) => (Some(payload), format!("a payload of {payload} bytes")),
        };
        let ip = if v6 { "IPv6" } else { "IPv4" };
        match payload {
            Some(payload) if (MARK..=LARGEST_PAYLOAD).contains(&payload) => Ok(payload),
            _ => Err(PpsError::Size(format!(
                "{asked} cannot be sent over {ip}: frames from {} to {} bytes can (payloads from {MARK} to {LARGEST_PAYLOAD})",
                MARK + around,
                LARGEST_PAYLOAD + around,
            ))),
        }
    }
}

/// The Ethernet frame, checksum included, around a payload.
pub fn frame_of(payload: usize, v6: bool) -> usize {
    payload + AROUND + ip_header(v6)
}

/// What stands at the start of each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The session's, so that strangers' packets do not count.
    pub token: u32,
    /// Which trial of the session: the last trial's stragglers are not this one's.
    pub trial: u16,
    /// Which of the sending threads.
    pub stream: u16,
    /// From 0, in the order of sending.
    pub number: u64,
}

impl Mark {
    /// Puts it at the start of a packet, which is at least [`MARK`] bytes long.
    pub fn put(&self, packet: &mut [u8]) {
        packet[..4].copy_from_slice(&self.token.to_be_bytes());
        packet[4..6].copy_from_slice(&self.trial.to_be_bytes());
        packet[6..8].copy_from_slice(&self.stream.to_be_bytes());
        packet[8..16].copy_from_slice(&self.number.to_be_bytes());
    }

    /// The mark of a packet; `None` where it is too short for one.
    pub fn parse(packet: &[u8]) -> Option<Mark> {
        let mark: &[u8; MARK] = packet.first_chunk()?;
        let [a, b, c, d, e, f, g, h, number @ ..] = *mark;
        Some(Mark {
            token: u32::from_be_bytes([a, b, c, d]),
            trial: u16::from_be_bytes([e, f]),
            stream: u16::from_be_bytes([g, h]),
            number: u64::from_be_bytes(number),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_of_the_field() {
        assert_eq!(Size::Frame(64).payload(false).unwrap(), 18);
        assert_eq!(Size::Frame(1518).payload(false).unwrap(), 1472);
        assert_eq!(Size::Payload(64).payload(true).unwrap(), 64);
        assert_eq!((frame_of(64, false), frame_of(18, false)), (110, 64));
        let error = Size::Frame(64).payload(true).unwrap_err().to_string();
        assert!(error.contains("a frame of 64 bytes cannot be sent over IPv6: frames from 82"), "{error}");
        for size in [Size::Frame(0), Size::Frame(1519), Size::Payload(15), Size::Payload(1473)] {
            assert!(size.payload(false).is_err(), "{size:?}");
        }
    }

    proptest! {
        #[test]
        fn marks_come_back(token: u32, trial: u16, stream: u16, number: u64, spare in 0_usize..40) {
            let mark = Mark { token, trial, stream, number };
            let mut packet = vec![0xff; MARK + spare];
            mark.put(&mut packet);
            prop_assert_eq!(Mark::parse(&packet), Some(mark));
            prop_assert_eq!(Mark::parse(&packet[..MARK - 1]), None);
        }
    }
}
