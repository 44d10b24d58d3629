//! What the driver knows about a host.

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

/// The pause before a host that failed is tried again; it doubles each time.
const REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(10);

/// A host, as the driver sees it.
#[derive(Debug)]
pub(super) struct ChainPlace {
    pub(super) holder: Option<Holder>,
    /// The secret word of its last process, which may still be running even if it is not heard from.
    pub(super) word: Option<Secret>,
    /// Its distance, once that is known.
    pub(super) round_trip: Option<Duration>,
    /// How often its process was started; `starting` ends the current attempt.
    pub(super) life: u32,
    pub(super) starting: Option<Arc<AtomicBool>>,
    pub(super) hop: Option<Hop>,
    pub(super) standing: Standing,
    pub(super) demoted: bool,
    /// Its files are incomplete, or not known to be the source's, so it must not feed others.
    pub(super) lacks: bool,
    pub(super) avoids: Vec<Option<usize>>,
    /// Which feeder its last broken session was from, and how often in a row that one broke.
    pub(super) broke: (Option<usize>, u32),
    pub(super) failures: u32,
    /// How many hosts in a row were slow while this one fed them.
    pub(super) slow_behind: u32,
    /// It is not tried again before this.
    pub(super) due: Instant,
    /// Files that arrived through hops that have ended.
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

    /// Notes another failure; the host is tried again after a pause.
    pub(super) fn failed(&mut self, why: String) {
        self.failures += 1;
        self.demoted = true;
        self.due = Instant::now() + doubled(REST, self.failures - 1, LONGEST_REST);
        self.report.error = Some(why);
        self.hop = None;
        self.standing = Standing::Waiting;
    }

    /// Cuts off its hop, if there is one.
    pub(super) fn cut_hop(&mut self) -> Option<Hop> {
        let hop = self.hop.take()?;
        hop.cut();
        self.gained(&hop.now().totals);
        self.standing = Standing::Waiting;
        Some(hop)
    }

    /// Counts what arrived through a hop that has ended.
    pub(super) fn gained(&mut self, totals: &Totals) {
        self.came += totals.files.saturating_sub(totals.unchanged);
    }

    /// Notes how its last session ended.
    pub(super) fn reported(&mut self, report: Report) {
        self.report.came = self.came;
        self.report.report = Some(report);
    }

    /// Whether it has files that this run did not send, and so, as far as is known, by size and time alone.
    pub(super) fn has_unread(&self) -> bool {
        match &self.hop {
            Some(hop) => hop.now().totals.unchanged > self.came,
            None => self.report.unchanged() > 0,
        }
    }
}
