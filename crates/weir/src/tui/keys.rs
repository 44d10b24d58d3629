//! The keys in what a terminal sends: neither the names of arrows nor what is pasted, however the bytes are
//! cut into reads.

const ESCAPE: u8 = 0x1b;

/// Where the terminal is in what it sends.
#[derive(Default)]
pub(super) struct Keys {
    within: Within,
    /// Between the marks of a paste.
    pasted: bool,
}

#[derive(Default)]
enum Within {
    #[default]
    Plain,
    /// After an escape.
    Escape,
    /// A control sequence (ECMA-48 5.4); its parameter as far as it is a number.
    Sequence(u32),
    /// The one byte that ends `ESC O`, by which terminals name F1 to F4 and, in their application mode,
    /// arrows.
    Last,
}

impl Keys {
    /// The keys pressed by these bytes.
    pub(super) fn of(&mut self, bytes: &[u8]) -> Vec<u8> {
        bytes.iter().copied().filter(|&byte| self.is_key(byte)).collect()
    }

    fn is_key(&mut self, byte: u8) -> bool {
        let (next, is_key) = match (&self.within, byte) {
            (_, ESCAPE) => (Within::Escape, false),
            (Within::Escape, b'[') => (Within::Sequence(0), false),
            (Within::Escape, b'O') => (Within::Last, false),
            (Within::Sequence(number), b'0'..=b'9') => {
                let digit = u32::from(byte - b'0');
                (Within::Sequence(number.saturating_mul(10).saturating_add(digit)), false)
            }
            (Within::Sequence(number), b' '..=b'?') => (Within::Sequence(*number), false),
            (Within::Sequence(number), _) => {
                match (number, byte) {
                    (200, b'~') => self.pasted = true,
                    (201, b'~') => self.pasted = false,
                    _ => {}
                }
                (Within::Plain, false)
            }
            (Within::Last, _) => (Within::Plain, false),
            (Within::Plain | Within::Escape, _) => (Within::Plain, !self.pasted),
        };
        self.within = next;
        is_key
    }
}

#[cfg(test)]
mod tests {
    use super::Keys;

    const TYPED: &[u8] = b"x\x1b[Aq\x1bOBy\x1b[1;5Cz\x1b[200~qQ\x1b[Aq\x1b[201~\x0c\x1bq";

    #[test]
    fn arrows_and_pastes_are_no_keys_wherever_they_are_cut() {
        let keys = b"xqyz\x0cq";
        assert_eq!(Keys::default().of(TYPED), keys);
        for cut in 0..TYPED.len() {
            let mut state = Keys::default();
            let mut cut_in_two = state.of(&TYPED[..cut]);
            cut_in_two.extend(state.of(&TYPED[cut..]));
            assert_eq!(cut_in_two, keys, "cut at {cut}");
        }
        let mut state = Keys::default();
        let one_by_one: Vec<u8> = TYPED.iter().flat_map(|&byte| state.of(&[byte])).collect();
        assert_eq!(one_by_one, keys);
    }
}
