//! The scenarios that come with weir, so that they are there wherever it is installed.

use super::{Scenario, ScenarioError};

/// Name and text of each file in `scenarios/`, in the order in which they are listed and run.
macro_rules! table {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../scenarios/", $name, ".toml")))),*]
    };
}

const ALL: &[(&str, &str)] = table![
    "w1",
    "w2",
    "w3",
    "w4",
    "w5",
    "w6",
    "b1",
    "b2",
    "b3",
    "b4",
    "b5",
    "b6",
    "b7",
    "p1",
    "p2",
    "p3",
    "p4",
    "p5",
    "c1",
    "c2",
    "c3",
    "c4",
    "iperf3",
    "reader",
    "policer",
    "bufferbloat",
];

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// The file of that name.
pub fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, text)| *text)
}

/// The scenario of that name.
pub fn shipped(name: &str) -> Result<Scenario, ScenarioError> {
    match text(name) {
        Some(text) => Scenario::parse(&format!("scenarios/{}.toml", name.to_ascii_lowercase()), text),
        None => Err(ScenarioError::Unknown { name: name.to_owned() }),
    }
}
