//! What codecs do to several kinds of data: ratio and MB/s on one core, in the order of the candidates.

use weir_model::chooser::{CANDIDATES, Candidate};

/// A kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    /// Prose and source code.
    Text,
    /// Programs and libraries.
    Binary,
    /// Logs: repetitive, strong levels shine.
    Log,
    /// Every other block shrinks.
    Half,
    /// Nothing shrinks.
    Noise,
    /// Where strong levels bring nothing over light ones.
    Flat,
}

impl Data {
    pub(crate) const ALL: [Data; 6] =
        [Data::Text, Data::Binary, Data::Log, Data::Half, Data::Noise, Data::Flat];

    /// (ratio, MB/s) of none, lz4, zstd 1, 3, 6, 9, 12, 15, 19.
    fn table(self) -> [(f64, f64); 9] {
        match self {
            Data::Text | Data::Half => [
                (1.0, 9000.0),
                (0.55, 450.0),
                (0.385, 400.0),
                (0.350, 220.0),
                (0.315, 85.0),
                (0.305, 50.0),
                (0.300, 22.0),
                (0.295, 9.0),
                (0.265, 2.6),
            ],
            Data::Binary => [
                (1.0, 9000.0),
                (0.62, 600.0),
                (0.50, 420.0),
                (0.47, 260.0),
                (0.44, 100.0),
                (0.435, 60.0),
                (0.43, 28.0),
                (0.425, 12.0),
                (0.39, 3.0),
            ],
            Data::Log => [
                (1.0, 9000.0),
                (0.16, 1200.0),
                (0.085, 1000.0),
                (0.08, 700.0),
                (0.065, 230.0),
                (0.06, 120.0),
                (0.058, 60.0),
                (0.055, 18.0),
                (0.045, 3.5),
            ],
            Data::Noise => [
                (1.0, 9000.0),
                (1.0, 3000.0),
                (1.0, 1500.0),
                (1.0, 900.0),
                (1.0, 300.0),
                (1.0, 150.0),
                (1.0, 60.0),
                (1.0, 30.0),
                (1.0, 6.0),
            ],
            Data::Flat => [
                (1.0, 9000.0),
                (0.50, 700.0),
                (0.45, 300.0),
                (0.449, 200.0),
                (0.448, 90.0),
                (0.447, 60.0),
                (0.447, 25.0),
                (0.446, 10.0),
                (0.445, 2.5),
            ],
        }
    }

    /// Ratio and processor seconds per byte for the `index`th block.
    pub(crate) fn figure(self, candidate: Candidate, index: u64) -> (f64, f64) {
        let data = if self == Data::Half && index % 2 == 1 { Data::Noise } else { self };
        let place = CANDIDATES.iter().position(|known| *known == candidate).expect("a candidate");
        let (ratio, speed) = data.table()[place];
        (ratio, 1e-6 / speed)
    }

    /// What a quick look says of the `index`th block.
    pub(crate) fn quick(self, index: u64) -> f64 {
        match self {
            Data::Noise => 1.0,
            Data::Half if index % 2 == 1 => 1.0,
            _ => 0.6,
        }
    }
}

pub(crate) fn name(candidate: Candidate) -> &'static str {
    const NAMES: [&str; 9] =
        ["none", "lz4", "zstd-1", "zstd-3", "zstd-6", "zstd-9", "zstd-12", "zstd-15", "zstd-19"];
    NAMES[CANDIDATES.iter().position(|known| *known == candidate).expect("a candidate")]
}

/// What packing so many blocks as one leaves of what they come to one by one: bench/corpus.py's text by
/// zstd:9.
pub(crate) fn together(run: u32) -> f64 {
    [1.0, 0.973, 0.963, 0.957][run as usize - 1]
}
