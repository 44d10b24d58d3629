//! The same sources to many hosts: a chain of sessions, each host sending on what comes to it while it comes.
//!
//! Every hop is a copy of its own ([`crate::session`]), between the processes that hold on two hosts
//! ([`crate::hold`]); the first one begins where the sources are. Which host has which before it is decided
//! as they come, by [`order`], zone after zone: of groups, or else by how far hosts are ([`distance`]). A
//! host that is lost, stands still or is slow is taken out, those behind it go on from the nearest that has
//! what they lack, and it comes back at the end of the chain.

mod distance;
mod holder;
mod hop;
mod order;
mod pace;
mod run;
mod source;

use std::time::Duration;

use weir_model::evidence::Evidence;

use crate::growth::Written;
use crate::lane::way::LaneOptions;
use crate::list::List;
use crate::session::Report;
use crate::speeds::Speeds;
use crate::ssh::Host;
use crate::wire::message::{Found, Options, Totals};

pub use hop::LANES;
pub use run::run;

/// A copy to many hosts.
#[derive(Debug, Clone)]
pub struct ChainJob {
    /// Where to, in the order of the chain.
    pub hosts: Vec<ChainHost>,
    /// The host that has the sources; none for this machine.
    pub from: Option<Host>,
    /// The paths of the sources there.
    pub sources: Vec<Vec<u8>>,
    /// The path of the target, the same on every host.
    pub target: Vec<u8>,
    /// Only these are copied of the one source.
    pub list: Option<List>,
    /// How it is to be done.
    pub options: Options,
    /// How lanes are to be made.
    pub lanes: LaneOptions,
    /// Calibrated speeds of this machine.
    pub speeds: Speeds,
    /// As `weir --version` prints it.
    pub version: String,
    /// Chains that begin at the source: how often it sends each block.
    pub fanout: usize,
    /// The source is one file that a program there writes or has written.
    pub written: Option<Written>,
}

/// A host of a chain.
#[derive(Debug, Clone)]
pub struct ChainHost {
    /// As it was written, for words.
    pub name: String,
    /// The group that it was written in.
    pub group: Option<String>,
    /// How to reach it.
    pub host: Host,
}

/// The state of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing comes to it: it is started, or waits for its turn.
    Waiting,
    /// It receives.
    Receiving,
    /// It has all.
    Complete,
    /// It was given up.
    Failed,
}

/// How far a host is.
#[derive(Debug, Clone)]
pub struct HostProgress {
    /// Its state.
    pub standing: Standing,
    /// Totals of its last session so far.
    pub totals: Totals,
}

/// How far all are.
#[derive(Debug, Clone)]
pub struct ChainProgress<'a> {
    /// Since the start.
    pub elapsed: Duration,
    /// In the order of the job.
    pub hosts: &'a [HostProgress],
    /// Totals that the walk of the sources has found.
    pub found: Found,
}

/// The result of one host.
#[derive(Debug)]
pub struct HostReport {
    /// Its last session; none where none began.
    pub report: Option<Report>,
    /// Its final state: complete or failed.
    pub standing: Standing,
    /// From whom it had the last of it; none: from the source.
    pub fed_by: Option<usize>,
    /// Why it was taken out of the chain, each time.
    pub taken_out: Vec<String>,
    /// Why it was given up.
    pub error: Option<String>,
    /// From the start until it had all.
    pub elapsed: Option<Duration>,
    /// How often a session to it was begun.
    pub sessions: u32,
    /// The share of its time, 0 to 1, in which it was behind its feeder.
    pub behind: f64,
    /// Files that came to it in earlier sessions of this run.
    pub came: u64,
    /// Something failed on the way to it, at it or before it.
    pub lacks: bool,
}

/// The result of the whole chain.
#[derive(Debug, Default)]
pub struct ChainReport {
    /// In the order of the job.
    pub hosts: Vec<HostReport>,
    /// From the first word to the last.
    pub elapsed: Duration,
    /// An error before the first session, or the user's interrupt.
    pub error: Option<crate::CopyError>,
    /// Totals that the walk of the sources has found.
    pub found: Found,
}

impl ChainReport {
    /// The hop that held the chain: the last one that was behind for most of its time, since those after it
    /// wait for it.
    pub fn held_by(&self) -> Option<usize> {
        let is_behind = |host: &HostReport| host.behind > 0.5 && host.report.is_some();
        self.hosts.iter().rposition(|host| is_behind(host) && host.taken_out.is_empty())
    }

    /// The evidence from both ends of the hop that held the chain.
    pub fn evidence(&self) -> Option<&Evidence> {
        let host = self.held_by().and_then(|index| self.hosts.get(index));
        let first = || self.hosts.iter().find(|host| host.report.is_some());
        host.or_else(first)?.report.as_ref().map(|report| &report.evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that was behind for that share of its time.
    fn host(behind: f64) -> HostReport {
        HostReport {
            report: Some(Report::nothing()),
            standing: Standing::Complete,
            fed_by: None,
            taken_out: Vec::new(),
            error: None,
            elapsed: None,
            sessions: 1,
            behind,
            came: 0,
            lacks: false,
        }
    }

    #[test]
    fn the_last_hop_that_was_behind_held_the_chain() {
        let held_by = |hosts: Vec<HostReport>| ChainReport { hosts, ..ChainReport::default() }.held_by();
        assert_eq!(held_by(vec![host(0.9), host(0.8), host(0.1)]), Some(1));
        // Those behind one that was taken out went on without it; where no session began nothing was held.
        let out = || HostReport { taken_out: vec!["it took nothing".to_owned()], ..host(0.8) };
        assert_eq!(held_by(vec![host(0.9), out(), host(0.1)]), Some(0));
        assert_eq!(held_by(vec![host(0.9), HostReport { report: None, ..host(0.8) }]), Some(0));
        assert_eq!(held_by(vec![host(0.4), host(0.5), out()]), None);
    }
}
