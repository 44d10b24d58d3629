//! How a verdict did where the cause is known: of the truth matrix and of the field's stories alike. Each
//! says by its own rule which.

use serde::{Deserialize, Serialize};

/// A limit that holds more than this share of a run is a main one, as in `weir_model::verdict`.
pub(crate) const QUARTER: f64 = 0.25;

/// How one verdict did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Score {
    /// It names what limited.
    Right,
    /// It convicts nobody and says why, and this side cannot know.
    Abstained,
    /// It convicts nobody although this side could know, or does not say why.
    Missed,
    /// It convicts an innocent limit, alone or as a main one of a mixture.
    Wrong,
}

impl Score {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Score::Right => "right",
            Score::Abstained => "abstained",
            Score::Missed => "missed",
            Score::Wrong => "wrong",
        }
    }
}

/// What chance does to a share that is counted in so many independent runs: three standard deviations, which
/// one run of a thousand exceeds.
pub(crate) fn margin(share: f64, runs: usize) -> f64 {
    3.0 * (share * (1.0 - share) / runs.max(1) as f64).sqrt()
}

/// Whether README claims just these words.
pub(crate) fn claims(words: &str) -> bool {
    let readme = include_str!("../../../../README.md");
    readme.split_whitespace().collect::<Vec<_>>().join(" ").contains(words)
}
