//! The fleets: their links, server and disks, and what may be said.

/// A fleet.
#[derive(Debug)]
pub(crate) struct FleetCase {
    /// Its name.
    pub(crate) name: &'static str,
    /// Mbit/s of each host's own link.
    pub(crate) links: &'static [u32],
    /// Mbit/s of the link that all share.
    pub(crate) shared: u32,
    /// Bytes a second that the server gives all hosts together: each answer waits for its turn.
    pub(crate) source: Option<u64>,
    /// The host whose disk takes so many bytes a second.
    pub(crate) disk: Option<(usize, f64)>,
    /// Hosts that begin together; the others come later.
    pub(crate) first: usize,
    /// Intervals that they tell before others come.
    pub(crate) told: u64,
    /// Objects; what is asked for is over when they are, or much earlier.
    pub(crate) objects: usize,
    /// What is to be said.
    pub(crate) says: Says,
}

/// What a verdict is to say.
#[derive(Debug)]
pub(crate) enum Says {
    /// Nothing, since too little was told.
    Nothing,
    /// This host is slow, and one of these holds it.
    Slow(&'static str, &'static [&'static str]),
    /// One of these is shared and holds all; more hosts bring nothing.
    Shared(&'static [&'static str]),
    /// Each is limited by itself, and the next brings what is predicted.
    Own,
}

/// More than anybody moves in the time of a test.
const ENDLESS: usize = 20_000;

/// Mbit/s of a link that nobody fills.
const WIDE: u32 = 1000;

const PLAIN: FleetCase = FleetCase {
    name: "",
    links: &[16; 4],
    shared: WIDE,
    source: None,
    disk: None,
    first: 4,
    told: 3,
    objects: ENDLESS,
    says: Says::Nothing,
};

pub(crate) const CASES: &[FleetCase] = &[
    FleetCase {
        name: "each limited by its own link",
        links: &[8; 5],
        first: 3,
        told: 6,
        says: Says::Own,
        ..PLAIN
    },
    FleetCase {
        name: "a shared link",
        links: &[200; 4],
        shared: 64,
        first: 2,
        told: 6,
        says: Says::Shared(&["link", "source-or-link"]),
        ..PLAIN
    },
    FleetCase {
        name: "a slow link of one host",
        links: &[16, 16, 3, 16],
        says: Says::Slow("h2", &["sender-or-path", "path-bandwidth"]),
        ..PLAIN
    },
    FleetCase {
        name: "a slow source",
        links: &[200; 4],
        source: Some(6_000_000),
        first: 2,
        told: 6,
        says: Says::Shared(&["source"]),
        ..PLAIN
    },
    FleetCase {
        name: "a slow disk of one host",
        links: &[40; 4],
        disk: Some((1, 5e5)),
        says: Says::Slow("h1", &["disk", "dirty-throttle"]),
        ..PLAIN
    },
    FleetCase { name: "too short", told: 0, objects: 8, ..PLAIN },
];
