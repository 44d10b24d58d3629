//! What the processors of both ends do for each byte, all stages together: the ceiling that no single stage
//! shows.
//!
//! Each stage of a copy may have time to spare while the processors have none, since they share them; where
//! both ends are one machine, they share them with each other too.

use serde::{Deserialize, Serialize};
use weir_units::Rate;

use super::{Ceiling, Figure};
use crate::limit::Limit;

/// A stage is named, rather than the processors, when it takes this share of their time: as the rule for a
/// running copy.
const LARGE: f64 = 0.4;

/// Processor time at one end, apart from the codec's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Seconds for a byte of payload: reading, digesting, writing, and what files and folders take, spread
    /// over their bytes.
    pub payload: f64,
    /// Seconds for a byte on the wire: ciphers and the kernel's sending and receiving.
    pub wire: f64,
}

/// Both ends'.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// The end that sends.
    pub sender: Cost,
    /// Its processors.
    pub sender_cores: f64,
    /// The end that receives.
    pub receiver: Cost,
    /// Its processors.
    pub receiver_cores: f64,
    /// Both ends are one machine.
    pub shared: bool,
}

impl Cost {
    fn of(&self, figure: &Figure, codec: Option<Rate>) -> f64 {
        let codec = codec.filter(|rate| rate.0 > 0.0).map_or(0.0, |rate| 1.0 / rate.0);
        self.payload + self.wire * figure.ratio + codec
    }
}

impl Work {
    /// The payload rate at which processors are full, and what says so.
    pub(super) fn ceiling(&self, figure: &Figure) -> Ceiling {
        let compress = Some(figure.compress).filter(|rate| rate.0.is_finite());
        let sender = self.sender.of(figure, compress);
        let receiver = self.receiver.of(figure, figure.decompress);
        let (cost, cores) = if self.shared {
            (sender + receiver, self.sender_cores)
        } else if sender * self.receiver_cores >= receiver * self.sender_cores {
            (sender, self.sender_cores)
        } else {
            (receiver, self.receiver_cores)
        };
        // A cost of nothing is one that nobody measured.
        let rate = if cost > 0.0 { cores / cost } else { f64::INFINITY };
        let share = |stage: Option<Rate>| stage.map_or(0.0, |rate| 1.0 / rate.0 / cost);
        let here = self.shared || cost == sender;
        let limit = if here && share(compress) >= LARGE {
            Limit::Compress
        } else if (self.shared || !here) && share(figure.decompress) >= LARGE {
            Limit::Decompress
        } else {
            Limit::CpuCore
        };
        Ceiling { limit, rate: Rate(rate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{Path, predict};

    fn work(shared: bool) -> Work {
        let cost = Cost { payload: 1e-9, wire: 1e-9 };
        Work { sender: cost, sender_cores: 2.0, receiver: cost, receiver_cores: 2.0, shared }
    }

    fn figure(compress: f64) -> Figure {
        Figure { name: "x".into(), ratio: 0.5, compress: Rate(compress), decompress: Some(Rate(0.8e9)) }
    }

    #[test]
    fn ends_that_share_processors_are_half_as_fast() {
        let path = |shared| Path { work: Some(work(shared)), ..Path::of(Rate(1e12)) };
        let none = Figure::none();
        assert!((predict(&none, &path(false)).rate.0 - 1e9).abs() < 1.0);
        assert!((predict(&none, &path(true)).rate.0 - 5e8).abs() < 1.0);
        assert_eq!(predict(&none, &path(true)).limit, Limit::CpuCore);
    }

    #[test]
    fn the_stage_that_takes_most_of_their_time_is_named() {
        assert_eq!(work(true).ceiling(&figure(300e6)).limit, Limit::Compress);
        assert_eq!(work(true).ceiling(&figure(4e9)).limit, Limit::CpuCore);
        // Apart, the end that unpacks is the slower one.
        assert_eq!(work(false).ceiling(&figure(4e9)).limit, Limit::Decompress);
    }

    #[test]
    fn a_slow_link_is_still_the_limit() {
        let path = Path { work: Some(work(true)), ..Path::of(Rate(10e6)) };
        assert_eq!(predict(&figure(400e6), &path).limit, Limit::PathBandwidth);
    }
}
