//! Random moments that can be had again: what a test that kills programs is made of.

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers from a seed (xorshift64*).
pub(crate) struct Dice(u64);

impl Dice {
    /// For as many runs as `WEIR_SOAK` says, 20 without it; from `WEIR_SEED`, or from the clock. Returns
    /// both.
    pub(crate) fn for_runs() -> (Dice, u64) {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        let runs = number("WEIR_SOAK").unwrap_or(20);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos() as u64;
        let seed = number("WEIR_SEED").unwrap_or(now) | 1;
        println!("WEIR_SEED={seed} repeats these {runs} runs");
        (Dice::of(seed), runs)
    }

    /// Enough of what was meant to happen has: in a soak all of it, else some.
    pub(crate) fn is_enough(happened: u64, meant: u64) -> bool {
        let is_soak = std::env::var_os("WEIR_SOAK").is_some();
        if is_soak { happened >= meant } else { happened > 0 && happened * 4 >= meant }
    }

    /// The numbers that `seed` gives.
    pub(crate) fn of(seed: u64) -> Dice {
        Dice(seed | 1)
    }

    /// The next one, within `range`.
    pub(crate) fn roll(&mut self, range: Range<u64>) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        range.start + self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % (range.end - range.start)
    }
}
