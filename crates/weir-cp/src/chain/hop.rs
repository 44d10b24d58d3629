//! One hop: a session from this machine, or from the process that holds on one host, to the one on another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::Instant;

use parking_lot::Mutex;
use weir_model::limit::Limit;

use super::ChainJob;
use super::pace::Pace;
use super::run::News;
use crate::link::{ChainSources, Link};
use crate::secret::Secret;
use crate::session::{self, Job};
use crate::ssh::Host;
use crate::threads;
use crate::tuning::HOP_LANES;
use crate::vouched::Vouched;
use crate::wire::message::{Found, Role, Totals};

/// Connections of a hop over a short path, where the user does not say.
pub const LANES: u32 = HOP_LANES;

/// A hop that runs.
#[derive(Debug)]
pub(super) struct Hop {
    /// Tells it from earlier ones to the same host.
    pub(super) number: u64,
    /// From whom: none, from the source.
    pub(super) feeder: Option<usize>,
    pub(super) pace: Pace,
    now: Arc<Mutex<HopNow>>,
    stop: Arc<AtomicBool>,
}

/// How far it is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HopNow {
    pub(super) totals: Totals,
    pub(super) found: Found,
    pub(super) lanes: u32,
    /// When the sender was last heard, where it is another host.
    pub(super) sender_heard: Option<Instant>,
    /// What limits the hop.
    pub(super) limit: Option<Limit>,
}

/// The ends and options of a hop.
pub(super) struct Ends {
    pub(super) number: u64,
    pub(super) feeder: Option<(usize, Host, Secret)>,
    pub(super) index: usize,
    pub(super) host: Host,
    pub(super) word: Secret,
}

impl HopNow {
    /// Bytes of content that are there.
    pub(super) fn there(&self) -> u64 {
        self.totals.there()
    }

    /// The sender limits the hop, and not the path or the receiver: its disk, its processors, or the rate
    /// limit that the user set.
    pub(super) fn is_held_by_sender(&self) -> bool {
        let own = [Limit::SourceDisk, Limit::Compress, Limit::Encrypt, Limit::RateLimit];
        self.limit.is_some_and(|limit| own.contains(&limit))
    }

    /// Bytes that are known to be wanted, and are not there.
    pub(super) fn lag(&self) -> u64 {
        self.found.bytes.saturating_sub(self.there())
    }
}

impl Hop {
    /// Begins one; its end is told.
    pub(super) fn begin(
        job: &ChainJob,
        (sources, vouched): (&ChainSources, &Arc<Vouched>),
        ends: Ends,
        tell: &Sender<News>,
    ) -> Hop {
        let Ends { number, feeder, index, host, word } = ends;
        let (from, of) = match feeder {
            Some((of, from, word)) => (Some((from, word)), Some(of)),
            None => (None, None),
        };
        let (from, from_word) =
            from.map_or((job.from.clone(), None), |(from, word)| (Some(from), Some(word)));
        // A list is known on the source's machine alone; a host that passes on has what arrived.
        let list = if of.is_none() { job.list.clone() } else { None };
        let mut options = job.options.clone();
        options.listed = list.is_some();
        let (sources, vouched) = (sources.clone(), Arc::clone(vouched));
        let link = Some(Link { from: from_word, to: word, sources, vouched });
        let job = Job {
            host,
            from,
            sources: job.sources.clone(),
            target: job.target.clone(),
            role: Role::Sender,
            list,
            options,
            lanes: job.lanes.clone(),
            speeds: job.speeds.clone(),
            version: job.version.clone(),
            link,
            // A host that passes on has a feed of its own.
            written: job.written.filter(|_| of.is_none()),
        };
        let (now, stop): (Arc<Mutex<HopNow>>, Arc<AtomicBool>) = Default::default();
        let (seen, stops, told) = (Arc::clone(&now), Arc::clone(&stop), tell.clone());
        let started = threads::start("hop", move || {
            let report = session::run(&job, &stops, &mut |at| {
                let HopNow { totals, found, lanes, sender_heard, limit } = &mut *seen.lock();
                (*totals, *found, *lanes) = (at.totals, at.found, at.lanes);
                (*sender_heard, *limit) = (at.sender_heard, at.limit);
            });
            let _ = told.send(News::Ended(index, number, Box::new(report)));
        });
        if let Err(why) = started {
            let _ = tell.send(News::NoThread(index, number, threads::words(&why)));
        }
        Hop { number, feeder: of, pace: Pace::new(Instant::now()), now, stop }
    }

    /// How far it is.
    pub(super) fn now(&self) -> HopNow {
        *self.now.lock()
    }

    /// Ends it without waiting.
    pub(super) fn cut(&self) {
        self.stop.store(true, Relaxed);
    }
}
