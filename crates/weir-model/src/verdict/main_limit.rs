//! The limit that a verdict names: one, or `mixed`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limit::Limit;

/// One limit, or the statement that no single one holds. `"receive-window"` or `"mixed"` in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainLimit {
    /// This one.
    One(Limit),
    /// Two or more hold more than a quarter of the time each.
    Mixed,
}

impl MainLimit {
    /// The limit's name, or `mixed`.
    pub fn name(self) -> &'static str {
        match self {
            MainLimit::One(limit) => limit.name(),
            MainLimit::Mixed => "mixed",
        }
    }
}

impl fmt::Display for MainLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for MainLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for MainLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MainLimit, D::Error> {
        let name = String::deserialize(deserializer)?;
        match name.as_str() {
            "mixed" => Ok(MainLimit::Mixed),
            name => Limit::parse(name)
                .map(MainLimit::One)
                .ok_or_else(|| serde::de::Error::custom(format!("unknown limit '{name}'"))),
        }
    }
}
