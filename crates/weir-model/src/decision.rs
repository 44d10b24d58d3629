//! What a run decides on its way, why, and on which figures: the number of lanes, the congestion control, the
//! codec, and what begins again. One list for all who decide; pure data, told in plain English under `-v`.
//!
//! The words are for users, so a lane is a connection here.

use std::fmt;
use std::time::Duration;

use weir_units::{Rate, human_duration};

use crate::candidates::Candidate;
use crate::limit::Limit;

/// A decision and when it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Since the start of the run; of a codec, since the first block.
    pub at: Duration,
    /// What was decided.
    pub decision: Decision,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// How many lanes: [`crate::tuner`].
    Lanes(LaneChange),
    /// By which congestion control the sender's lanes go: [`crate::congestion`].
    Congestion(ControlChange),
    /// What blocks are packed by: [`crate::chooser`].
    Codec(CodecChange),
    /// What begins again.
    Restart(Restart),
}

/// A number of lanes. As many as before where a trial is over and they stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneChange {
    /// Lanes until now.
    pub from: u32,
    /// Lanes from now on.
    pub to: u32,
    /// Why.
    pub why: LaneReason,
}

/// Why so many lanes. Rates are bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LaneReason {
    /// More may help where this limit holds them at this rate.
    Trial {
        /// What holds them.
        limit: Limit,
        /// What they bring.
        rate: f64,
    },
    /// More lanes brought enough.
    Paid {
        /// By fewer lanes.
        before: f64,
        /// By those that were tried.
        after: f64,
    },
    /// They did not.
    NotPaid {
        /// By fewer lanes.
        before: f64,
        /// By those that were tried.
        after: f64,
    },
    /// The old lanes lost more than the new ones brought, which says nothing of their number.
    Losses {
        /// What all of them bring.
        after: f64,
    },
    /// Another limit came during the trial, so its two rates compare nothing.
    OtherLimit(Limit),
    /// The server serves so many connections at once.
    Served(u32),
    /// No part was left for more.
    NothingToAsk,
    /// The server refused or cut a connection beyond the first.
    Refused,
    /// This side is the limit.
    Local(Limit),
    /// Fewer may carry as much: the path carries no more.
    Spare {
        /// What they bring.
        rate: f64,
    },
    /// Fewer do.
    SpareHolds {
        /// What they bring.
        rate: f64,
        /// The best rate that was seen.
        best: f64,
    },
    /// Fewer do not.
    TooFew {
        /// What they brought.
        rate: f64,
        /// The best rate that was seen.
        best: f64,
    },
    /// The path that was taken for a long one has this round trip.
    ShortPath(Duration),
    /// The path of a hop of a chain is a long one, with this round trip.
    LongPath(Duration),
    /// The lanes' senders go by BBR over a long path, which needs no trials.
    Bbr,
}

/// What the sender's lanes go by. Rates are bytes per second.
#[derive(Debug, Clone, PartialEq)]
pub enum ControlChange {
    /// BBR is tried: losses hold the lanes at this rate, and no queue stands.
    Try(f64),
    /// It brought no less: the rates before and by it.
    Keep(f64, f64),
    /// It brought less: the rates before and by it.
    Back(f64, f64),
    /// It cannot be had.
    Unavailable {
        /// The lane that was to have it.
        lane: u32,
        /// What the lane goes by.
        control: String,
        /// The system's word.
        why: String,
    },
    /// The other end's lanes have changed, so rates from before compare with none after it.
    Seen {
        /// What they went by.
        from: String,
        /// What they go by.
        to: String,
    },
}

/// What most blocks are packed by. Rates are bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CodecChange {
    /// Nothing is packed: the lanes do not leave this machine.
    Plain,
    /// The law has another one.
    To {
        /// What most blocks got.
        from: Candidate,
        /// What most of them get.
        to: Candidate,
        /// Share of the bytes that it leaves, about.
        ratio: f64,
        /// What the link carries, as far as is known.
        link: f64,
        /// Processors that may pack.
        cores: f64,
    },
    /// The wire carried less with a stronger codec, so the link was not the limit; the lighter one returns.
    TooStrong {
        /// On the wire before.
        before: f64,
        /// And with it.
        after: f64,
    },
    /// With the lighter one the wire carries what it did: it stays for so long.
    LighterStays(Duration),
    /// It does not: the link became slower meanwhile.
    LinkSlower {
        /// On the wire before.
        before: f64,
        /// And now.
        after: f64,
    },
}

/// What begins again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restart {
    /// A lane that stood still while others moved is replaced.
    StillLane {
        /// Its number.
        lane: u32,
        /// How long it stood.
        still: Duration,
    },
    /// A lane broke, and another takes its place.
    BrokenLane {
        /// Its number.
        lane: u32,
        /// What broke it.
        why: String,
    },
    /// An object begins at byte 0.
    Object {
        /// Its URL, or the file.
        name: String,
        /// Why what is there does not count.
        why: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s: {}", self.at.as_secs_f64(), self.decision)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::Lanes(change) => change.fmt(f),
            Decision::Congestion(change) => change.fmt(f),
            Decision::Codec(change) => change.fmt(f),
            Decision::Restart(restart) => restart.fmt(f),
        }
    }
}

impl fmt::Display for LaneChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LaneChange { from, to, why } = *self;
        let connections = if to == 1 { "connection" } else { "connections" };
        match from == to {
            true => write!(f, "still {to} {connections}: ")?,
            false => write!(f, "{to} {connections} instead of {from}: ")?,
        }
        match why {
            LaneReason::Trial { limit, rate } => {
                write!(f, "{limit} holds {from} at {}, trying whether more help", Rate(rate))
            }
            LaneReason::Paid { before, after } => {
                write!(f, "{from} brought {} after {}", Rate(after), Rate(before))
            }
            LaneReason::NotPaid { before, after } => {
                write!(f, "{from} brought only {} after {}", Rate(after), Rate(before))
            }
            LaneReason::Losses { after } => {
                write!(f, "they bring {} after losses, which say nothing about their number", Rate(after))
            }
            LaneReason::OtherLimit(limit) => write!(f, "{limit} became the limit during the trial"),
            LaneReason::Served(count) => write!(f, "the server serves only {count} at once"),
            LaneReason::NothingToAsk => f.write_str("nothing was left to ask for"),
            LaneReason::Refused => f.write_str("the server refused more"),
            LaneReason::Local(limit) => write!(f, "{limit} is the limit, more connections only disturb it"),
            LaneReason::Spare { rate } => {
                write!(f, "the path carries no more than {}, trying whether fewer bring that", Rate(rate))
            }
            LaneReason::SpareHolds { rate, best } => {
                write!(f, "they bring {} of {}", Rate(rate), Rate(best))
            }
            LaneReason::TooFew { rate, best } => {
                write!(f, "{from} brought only {} of {}", Rate(rate), Rate(best))
            }
            LaneReason::ShortPath(round_trip) => {
                write!(f, "the path is short, its round trip is {}", human_duration(round_trip))
            }
            LaneReason::LongPath(round_trip) => {
                write!(f, "the path is long, its round trip is {}", human_duration(round_trip))
            }
            LaneReason::Bbr => f.write_str("the sender uses BBR over a long path"),
        }
    }
}

impl fmt::Display for ControlChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlChange::Try(rate) => {
                write!(f, "trying BBR: the path loses segments at {} without a queue", Rate(*rate))
            }
            ControlChange::Keep(before, after) => {
                write!(f, "keeping BBR: it brought {} after {}", Rate(*after), Rate(*before))
            }
            ControlChange::Back(before, after) => {
                write!(f, "no BBR: it brought only {} after {}", Rate(*after), Rate(*before))
            }
            ControlChange::Unavailable { lane, control, why } => {
                write!(f, "connection {lane} stays with {control}: BBR cannot be set ({why})")
            }
            ControlChange::Seen { from, to } => {
                write!(f, "the sender uses {to} instead of {from}: rates are compared from now on")
            }
        }
    }
}

impl fmt::Display for CodecChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CodecChange::Plain => f.write_str("no codec: the data stay on this machine"),
            CodecChange::To { from, to, link, cores, .. } if to.codec == 0 => write!(
                f,
                "{to} instead of {from}: the link carries {}, and no codec on {cores:.1} processors keeps up",
                Rate(link)
            ),
            CodecChange::To { from, to, ratio, link, cores } => write!(
                f,
                "{to} instead of {from}: the link carries {}, {cores:.1} processors compress to {:.0} %",
                Rate(link),
                ratio * 100.0
            ),
            CodecChange::TooStrong { before, after } => write!(
                f,
                "a lighter codec: with the stronger one the link carried only {} after {}, so it is no limit",
                Rate(after),
                Rate(before)
            ),
            CodecChange::LighterStays(stay) => {
                write!(
                    f,
                    "the lighter codec stays for {}: the link carries what it did",
                    human_duration(stay)
                )
            }
            CodecChange::LinkSlower { before, after } => write!(
                f,
                "stronger codecs again: the link itself became slower, {} after {}",
                Rate(after),
                Rate(before)
            ),
        }
    }
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Restart::StillLane { lane, still } => write!(
                f,
                "connection {lane} has stood still for {} s while others moved: replacing it",
                still.as_secs()
            ),
            Restart::BrokenLane { lane, why } => write!(f, "connection {lane} broke: {why}"),
            Restart::Object { name, why } => write!(f, "{name}: {why}; starting again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_again_is_told() {
        let told = |restart| Event { at: Duration::from_millis(2500), decision: Decision::Restart(restart) };
        let still = Restart::StillLane { lane: 3, still: Duration::from_millis(4900) };
        let broken = Restart::BrokenLane { lane: 3, why: "connection reset by peer".to_owned() };
        let why = "the object changed on the server".to_owned();
        let object = Restart::Object { name: "image.iso".to_owned(), why };
        for (restart, text) in [
            (still, "connection 3 has stood still for 4 s while others moved: replacing it"),
            (broken, "connection 3 broke: connection reset by peer"),
            (object, "image.iso: the object changed on the server; starting again"),
        ] {
            assert_eq!(told(restart).to_string(), format!("2.5 s: {text}"));
        }
    }
}
