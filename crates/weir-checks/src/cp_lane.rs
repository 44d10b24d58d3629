//! A lane's bytes from its greeting on, as somebody without the keys may send them: nothing of them opens.

use weir_codec::cipher::Cipher;
use weir_cp::secret::Secret;
use weir_cp::secure::{Direction, Due, Keyring};
use weir_cp::wire::record::{self, Footer, HEADER, MAX_PLAIN};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let Some((greeting, mut rest)) = bytes.split_first_chunk() else { return false };
    let mut understood = false;
    let lane = record::parse_greeting(greeting).map_or(1, |(lane, _)| lane);
    let secret = Secret::draw().expect("random numbers");
    let locked = Keyring::new(&secret, Some(Cipher::AES_128_GCM)).opener(lane, Direction::Forward);
    let open = Keyring::new(&secret, None).opener(lane, Direction::Forward);
    let mut due = Due::default();
    while let Some((header, more)) = rest.split_first_chunk::<HEADER>() {
        let Ok(header) = due.take(header) else { break };
        assert!(header.length <= MAX_PLAIN);
        let Some((record, more)) = more.split_at_checked(open.sealed_len(&header)) else { break };
        if let Some((sealed, _)) = rest[HEADER..].split_at_checked(locked.sealed_len(&header)) {
            assert!(locked.open(&header, &mut sealed.to_vec()).is_err(), "a forged record");
        }
        let mut record = record.to_vec();
        let plain = open.open(&header, &mut record).expect("a record without a seal");
        if let Ok((payload, footer)) = Footer::split(plain) {
            let fits =
                u64::from(footer.raw) <= record::LONGEST_RUN << 20 || footer.kind == record::Kind::Hole;
            assert!(payload.len() <= footer.raw as usize && fits);
            understood = true;
        }
        rest = more;
    }
    understood
}
