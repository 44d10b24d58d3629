//! The codecs to choose from, and what is known of them before the first block.

use std::fmt;

/// A codec at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The codec's wire number.
    pub codec: u8,
    /// Its level; 0 where it has none.
    pub level: i32,
}

/// As `--codec` takes it: `none`, `zstd:3`.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.codec {
            0 => f.write_str("none"),
            LZ4 => write!(f, "lz4:{}", self.level),
            ZSTD => write!(f, "zstd:{}", self.level),
            other => write!(f, "codec {other}:{}", self.level),
        }
    }
}

const LZ4: u8 = 1;
pub(super) const ZSTD: u8 = 2;

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

/// What codecs do on average, in proportion to each other. Only the proportions matter, and only until a
/// block was tried.
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

/// What is known of each codec beforehand: its cost from this machine's own measurement where there is one,
/// else as usual.
#[derive(Debug, Clone, Default)]
pub(super) struct Priors {
    measured: Vec<(Candidate, f64)>,
}

impl Priors {
    /// `measured` are bytes per second that one core of this machine compresses. They count together or not
    /// at all, since proportions do: each of `candidates` that compresses needs one, heavier ones lower ones,
    /// and none may be quicker than not to compress.
    pub(super) fn of(candidates: &[Candidate], measured: &[(Candidate, f64)]) -> Priors {
        let speed_of = |candidate: &Candidate| {
            let (_, speed) = measured.iter().find(|(known, _)| known == candidate)?;
            (speed.is_finite() && *speed > 0.0).then_some((*candidate, *speed))
        };
        let mut compress: Vec<Candidate> = candidates.iter().copied().filter(|one| one.codec != 0).collect();
        compress.sort_by(|a, b| Prior::of(*a).cost.total_cmp(&Prior::of(*b).cost));
        let known: Option<Vec<(Candidate, f64)>> = compress.iter().map(speed_of).collect();
        let nothing = Prior::of(Candidate { codec: 0, level: 0 }).cost;
        let sound = |known: &Vec<(Candidate, f64)>| {
            known.windows(2).all(|two| two[0].1 > two[1].1)
                && known.first().is_none_or(|(_, quickest)| 1.0 / quickest > nothing)
        };
        Priors { measured: known.filter(sound).unwrap_or_default() }
    }

    /// Of this one.
    pub(super) fn prior(&self, candidate: Candidate) -> Prior {
        let usual = Prior::of(candidate);
        let own = self.measured.iter().find(|(known, _)| *known == candidate);
        Prior { cost: own.map_or(usual.cost, |(_, speed)| 1.0 / speed), ..usual }
    }

    /// Costs are this machine's own.
    pub(super) fn are_measured(&self) -> bool {
        !self.measured.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(speeds: [f64; 8]) -> Vec<(Candidate, f64)> {
        CANDIDATES.into_iter().skip(1).zip(speeds).collect()
    }

    const SOUND: [f64; 8] = [700e6, 500e6, 200e6, 90e6, 50e6, 20e6, 8e6, 2e6];

    #[test]
    fn measured_costs_count_together_or_not_at_all() {
        let start = Prior::START;
        let priors = Priors::of(&CANDIDATES, &measured(SOUND));
        assert!(priors.are_measured());
        assert_eq!(priors.prior(start).cost, 1.0 / 500e6);
        assert_eq!(priors.prior(start).log_ratio, Prior::of(start).log_ratio);
        assert_eq!(priors.prior(CANDIDATES[0]), Prior::of(CANDIDATES[0]));
        let changed = |index: usize, speed: f64| {
            let mut speeds = SOUND;
            speeds[index] = speed;
            measured(speeds)
        };
        let mut one_missing = measured(SOUND);
        one_missing.remove(5);
        for unsound in [
            one_missing,
            Vec::new(),
            changed(0, f64::NAN),
            changed(0, f64::INFINITY),
            // Quicker than copying.
            changed(0, 1e12),
            changed(7, 0.0),
            changed(7, -1.0),
            // A heavier one that is the quicker one: something else ran.
            changed(3, 300e6),
        ] {
            let priors = Priors::of(&CANDIDATES, &unsound);
            assert!(!priors.are_measured(), "{unsound:?}");
            assert_eq!(priors.prior(start), Prior::of(start));
        }
    }
}
