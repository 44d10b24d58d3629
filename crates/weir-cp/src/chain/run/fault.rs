//! Whose fault it is that a hop broke, and what follows where it is the source's.

use std::time::Instant;

use super::{Chain, ChainPlace};
use crate::chain::Standing;
use crate::chain::hop::Hop;
use crate::error::CopyError;

/// Of which end an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Of the one that receives.
    Receivers,
    /// Of the one that sends, or of the way between both.
    Feeders,
    /// The feeder's files are incomplete or wrong.
    FeedersFiles,
    /// Of the machine that has the sources.
    Source,
}

impl Chain<'_> {
    /// Of which end an error of a hop is.
    pub(super) fn fault(&self, hop: &Hop, error: &CopyError) -> Fault {
        let Some(feeder) = hop.feeder else {
            return if self.source.is_at_fault(error) { Fault::Source } else { Fault::Receivers };
        };
        let shown = self.job.hosts[feeder].host.shown();
        match error {
            CopyError::NoLane { .. } => Fault::Feeders,
            _ if !error.is_of(shown) => Fault::Receivers,
            _ if error.refusal().is_some() => Fault::FeedersFiles,
            _ => Fault::Feeders,
        }
    }

    /// Whether a hop from the source is over, since that says nothing any more.
    pub(super) fn lose_source(&mut self, index: usize, now: Instant) -> bool {
        let place = &mut self.places[index];
        let from_source = place.hop.as_ref().filter(|hop| hop.feeder.is_none());
        let Some(at) = from_source.map(Hop::now).filter(|at| at.lanes > 0) else { return false };
        let Some(error) = self.source.silence(at.sender_heard, now) else { return false };
        place.cut_hop();
        self.source.failed(error.to_string(), at.totals.bytes > 0);
        true
    }

    /// The source is lost, and no host can have anything from another one.
    pub(super) fn give_up_source(&mut self) {
        // Those that wait for one another have nothing to give.
        let has_all = |place: &ChainPlace| place.standing == Standing::Complete && place.holder.is_some();
        let from_source = |place: &ChainPlace| place.hop.as_ref().is_some_and(|hop| hop.feeder.is_none());
        let helps = self.places.iter().any(|place| has_all(place) && !place.lacks || from_source(place));
        if !self.source.is_given_up() || helps {
            return;
        }
        for place in self.places.iter_mut().filter(|place| !place.is_settled()) {
            place.standing = Standing::Failed;
            place.report.error = Some(self.source.why().to_owned());
        }
    }
}
