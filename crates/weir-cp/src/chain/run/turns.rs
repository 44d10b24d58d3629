//! Which host has its turn, and from whom it is to have it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::{Chain, ChainPlace, News};
use crate::chain::holder;
use crate::chain::order::{self, Choice, Stand};
use crate::chain::{ChainJob, Standing};
use crate::threads;

/// A host that is not up so long after the first one was is not waited for by those behind it; nor after so
/// long in all.
const GRACE: Duration = Duration::from_secs(4);
const LONGEST_GRACE: Duration = Duration::from_secs(25);

/// How long a host waits for others than those from whom its session broke.
const FORGIVES: Duration = Duration::from_secs(2);

/// How it is known which hosts are near each other.
pub(super) enum Zones {
    /// The user wrote them in groups.
    Groups(Vec<Option<usize>>),
    /// How far they are from here, and the source: `None` while that is being found.
    RoundTrips(Option<Duration>),
}

impl Zones {
    pub(super) fn of(job: &ChainJob, groups: &[Option<String>]) -> Zones {
        // Of one host nothing is to be found.
        let here = (job.from.is_none() || job.hosts.len() < 2).then_some(Duration::ZERO);
        order::zones_of_groups(groups).map_or(Zones::RoundTrips(here), Zones::Groups)
    }
}

impl Chain<'_> {
    /// Finds how far the machine with the sources is, where that matters. What is returned ends it.
    pub(super) fn find_source(&self) -> Arc<AtomicBool> {
        let cut: Arc<AtomicBool> = Arc::default();
        if let (Zones::RoundTrips(None), Some(host)) = (&self.zones, self.job.from.clone()) {
            let (version, tell, cut) = (self.job.version.clone(), self.tell.clone(), Arc::clone(&cut));
            let find = move || drop(tell.send(News::SourceAt(holder::distance(&host, &version, &cut))));
            if threads::start("distance", find).is_err() {
                let _ = self.tell.send(News::SourceAt(None));
            }
        }
        cut
    }

    /// Begins hops to those that wait.
    pub(super) fn begin_hops(&mut self) {
        let now = Instant::now();
        if matches!(self.zones, Zones::RoundTrips(None)) && self.start.elapsed() < LONGEST_GRACE {
            return;
        }
        // Those that were taken out come after all others.
        for demoted in [false, true] {
            for index in 0..self.places.len() {
                let place = &self.places[index];
                let waits = place.standing == Standing::Waiting && place.hop.is_none() && place.due <= now;
                if !waits || place.demoted != demoted || !self.is_placed(place) {
                    continue;
                }
                match order::feeder_of(&self.stands(), index) {
                    // Nobody else can: perhaps those can by now that could not.
                    Choice::Wait if now.duration_since(place.due) > FORGIVES => {
                        self.places[index].avoids.clear();
                    }
                    Choice::Wait => {}
                    Choice::Here if !self.source.is_ready(now) => {}
                    Choice::Here => self.begin_hop(index, None),
                    Choice::Host(feeder) => self.begin_hop(index, Some(feeder)),
                }
            }
        }
    }

    /// It is up, and where it is in the chain can be told.
    fn is_placed(&self, place: &ChainPlace) -> bool {
        let in_groups = matches!(self.zones, Zones::Groups(_));
        place.holder.as_ref().is_some_and(|holder| in_groups || holder.is_placed())
    }

    /// In which zone each host is, as far as that is known.
    fn zones(&self) -> Vec<Option<usize>> {
        match &self.zones {
            Zones::Groups(zones) => zones.clone(),
            Zones::RoundTrips(_) => self.distances(),
        }
    }

    /// The same by round trips, also of hosts that were written in groups.
    pub(super) fn distances(&self) -> Vec<Option<usize>> {
        let source = match self.zones {
            Zones::RoundTrips(source) => source.unwrap_or_default(),
            Zones::Groups(_) => Duration::ZERO,
        };
        let round_trips: Vec<_> = self.places.iter().map(|place| place.round_trip).collect();
        order::zones_by_round_trip(&round_trips, source)
    }

    fn stands(&self) -> Vec<Stand> {
        let is_early =
            self.first_up.is_none_or(|up| up.elapsed() < GRACE) && self.start.elapsed() < LONGEST_GRACE;
        // One that is up and had nothing yet has its turn before those behind it, however late the first one
        // has.
        let comes = |place: &ChainPlace| {
            let has_no_turn_yet = place.holder.is_some() && place.report.sessions == 0;
            place.failures == 0 && place.standing == Standing::Waiting && (is_early || has_no_turn_yet)
        };
        let stand = |((place, chain), zone): ((&ChainPlace, &usize), Option<usize>)| Stand {
            chain: *chain,
            zone,
            comes: comes(place),
            feeds: place.holder.is_some()
                && !place.lacks
                && self.sources.get().is_some()
                && match place.standing {
                    Standing::Receiving => !place.demoted,
                    Standing::Complete => true,
                    Standing::Waiting | Standing::Failed => false,
                },
            demoted: place.demoted,
            fed_by: place.hop.as_ref().map(|hop| hop.feeder),
            avoids: place.avoids.clone(),
            has_no_source: self.source.is_given_up(),
        };
        self.places.iter().zip(&self.chains).zip(self.zones()).map(stand).collect()
    }
}
