//! What the driver knows of a host.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_units::backoff::doubled;

use crate::chain::holder::Holder;
use crate::chain::hop::Hop;
use crate::chain::{HostReport, Standing};
use crate::secret::Secret;
use crate::session::Report;
use crate::wire::message::Totals;

/// Before a host that failed is tried again; each further time twice as long.
const REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(10);

/// A host, as the driver sees it.
#[derive(Debug)]
pub(super) struct ChainPlace {
    pub(super) holder: Option<Holder>,
    /// Under which word its last process held, which may be there still where nothing is heard of it.
    pub(super) word: Option<Secret>,
    /// How far it is, once that is known.
    pub(super) round_trip: Option<Duration>,
    /// How often its process was started, and what ends the attempt.
    pub(super) life: u32,
    pub(super) starting: Option<Arc<AtomicBool>>,
    pub(super) hop: Option<Hop>,
    pub(super) standing: Standing,
    pub(super) demoted: bool,
    /// Its files are incomplete, or not known to be the source's, so it must not feed others.
    pub(super) lacks: bool,
    pub(super) avoids: Vec<Option<usize>>,
    /// From whom its session broke last, and how often in a row.
    pub(super) broke: (Option<usize>, u32),
    pub(super) failures: u32,
    /// How many hosts in a row were slow while this one fed them.
    pub(super) slow_behind: u32,
    /// Not before.
    pub(super) due: Instant,
    /// Files that came by its hops that are over: they are there.
    came: u64,
    pub(super) report: HostReport,
}

impl ChainPlace {
    pub(super) fn new(now: Instant) -> ChainPlace {
        let report = HostReport {
            report: None,
            standing: Standing::Waiting,
            fed_by: None,
            taken_out: Vec::new(),
            error: None,
            elapsed: None,
            sessions: 0,
            behind: 0.0,
            came: 0,
            lacks: false,
        };
        ChainPlace {
            holder: None,
            word: None,
            round_trip: None,
            life: 0,
            starting: None,
            hop: None,
            standing: Standing::Waiting,
            demoted: false,
            lacks: false,
            avoids: Vec::new(),
            broke: (None, 0),
            failures: 0,
            slow_behind: 0,
            due: now,
            came: 0,
            report,
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        matches!(self.standing, Standing::Complete | Standing::Failed)
    }

    /// It failed once more, and is tried again after a rest.
    pub(super) fn failed(&mut self, why: String) {
        self.failures += 1;
        self.demoted = true;
        self.due = Instant::now() + doubled(REST, self.failures - 1, LONGEST_REST);
        self.report.error = Some(why);
        self.hop = None;
        self.standing = Standing::Waiting;
    }

    /// Its hop, if one runs, is cut off.
    pub(super) fn cut_hop(&mut self) -> Option<Hop> {
        let hop = self.hop.take()?;
        hop.cut();
        self.gained(&hop.now().totals);
        self.standing = Standing::Waiting;
        Some(hop)
    }

    /// Notes what came by a hop that is over.
    pub(super) fn gained(&mut self, totals: &Totals) {
        self.came += totals.files.saturating_sub(totals.unchanged);
    }

    /// Its last session ended so.
    pub(super) fn reported(&mut self, report: Report) {
        self.report.came = self.came;
        self.report.report = Some(report);
    }

    /// It has files that it was not sent in this run, and so, as far as is known, by size and time alone.
    pub(super) fn has_unread(&self) -> bool {
        match &self.hop {
            Some(hop) => hop.now().totals.unchanged > self.came,
            None => self.report.unchanged() > 0,
        }
    }
}
