//! The codecs to choose from, and what is known of them before the first block.

/// A codec at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The codec's wire number.
    pub codec: u8,
    /// Its level; 0 where it has none.
    pub level: i32,
}

const LZ4: u8 = 1;
const ZSTD: u8 = 2;

/// What `cp` chooses from: each is somewhere on the edge of what ratio costs, for usual data.
pub const CANDIDATES: [Candidate; 9] = [
    Candidate { codec: 0, level: 0 },
    Candidate { codec: LZ4, level: 1 },
    Candidate { codec: ZSTD, level: 1 },
    Candidate { codec: ZSTD, level: 3 },
    Candidate { codec: ZSTD, level: 6 },
    Candidate { codec: ZSTD, level: 9 },
    Candidate { codec: ZSTD, level: 12 },
    Candidate { codec: ZSTD, level: 15 },
    Candidate { codec: ZSTD, level: 19 },
];

/// What codecs do on average, in proportion to each other. Only the proportions matter, and only until a block was tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prior {
    /// Processor seconds per byte.
    pub(super) cost: f64,
    /// Natural logarithm of the ratio, negative.
    pub(super) log_ratio: f64,
}

impl Prior {
    /// Where a transfer begins.
    pub(super) const START: Candidate = Candidate { codec: ZSTD, level: 1 };

    /// Medians over text, binaries and logs in blocks of 1 MiB on one core of a present server processor.
    pub(super) fn of(candidate: Candidate) -> Prior {
        let (speed, ratio): (f64, f64) = match candidate {
            Candidate { codec: 0, .. } => (8000.0, 1.0),
            Candidate { codec: LZ4, .. } => (600.0, 0.52),
            Candidate { codec: ZSTD, level: ..=1 } => (450.0, 0.39),
            Candidate { codec: ZSTD, level: 2..=3 } => (250.0, 0.36),
            Candidate { codec: ZSTD, level: 4..=6 } => (95.0, 0.34),
            Candidate { codec: ZSTD, level: 7..=9 } => (55.0, 0.33),
            Candidate { codec: ZSTD, level: 10..=12 } => (25.0, 0.325),
            Candidate { codec: ZSTD, level: 13..=15 } => (10.0, 0.32),
            Candidate { codec: ZSTD, .. } => (2.8, 0.29),
            _ => (100.0, 0.45),
        };
        Prior { cost: 1e-6 / speed, log_ratio: ratio.ln() }
    }
}
