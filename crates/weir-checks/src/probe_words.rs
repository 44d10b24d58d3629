//! What a peer or a stranger may send to `weir bench pps` and to a probe: messages, packets' marks, echoes.

use weir_bench::pps::control::{LONGEST, Message};
use weir_bench::pps::frame::Mark;
use weir_bench::pps::ledger::Ledger;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let Some((kind, body)) = bytes.split_first() else { return false };
    let message = Message::parse(*kind, body);
    if let Some(message) = &message {
        let encoded = message.encode();
        assert!(encoded.len() <= 3 + LONGEST);
        let again = Message::parse(encoded[0], &encoded[3..]);
        // Characters that are no text come back as others.
        assert!(again.as_ref() == Some(message) || matches!(message, Message::Refused(_)));
    }
    if let Some(mark) = Mark::parse(bytes) {
        let mut packet = [0; 16];
        mark.put(&mut packet);
        assert_eq!(packet, bytes[..16]);
    }
    let mut ledger = Ledger::default();
    for (at, number) in bytes.chunks_exact(9).enumerate() {
        let (small, number) = number.split_first().expect("nine bytes");
        let number = u64::from_be_bytes(number.try_into().expect("eight bytes"));
        // Half of them near one another, as packets are.
        ledger.book(if small % 2 == 0 { number } else { u64::from(*small) });
        let counts = ledger.counts();
        assert!(counts.received + counts.duplicates + counts.late == at as u64 + 1);
        assert!(counts.reordered <= counts.received);
    }
    message.is_some()
}
