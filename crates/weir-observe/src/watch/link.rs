//! The interface through which the subject's packets go: its line rate, and what was dropped at it while it
//! was watched.

use std::net::IpAddr;

use weir_model::evidence::{Reading, Shaper};
use weir_units::Rate;

use crate::nic::softnet::{Softnet, SoftnetReader};
use crate::nic::{Counters, Queue, Routing, link_rate};

/// Watches one interface.
#[derive(Debug)]
pub(super) struct Link {
    routing: Routing,
    index: u32,
    name: String,
    counters: Counters,
    queue: Option<Queue>,
    softnet: Option<(SoftnetReader, Softnet)>,
    line: Reading<Rate>,
}

impl Link {
    /// The interface to `peer` in the network namespace of `routing`; an error says why there is nothing to
    /// watch.
    pub(super) fn to(mut routing: Routing, peer: IpAddr) -> Result<Link, crate::ObserveError> {
        let index = routing.interface_to(peer)?;
        let interface = routing.interface(index)?;
        let queue = routing.queue(index)?;
        let softnet = SoftnetReader::open().ok().and_then(|mut reader| {
            let before = reader.read().ok()?;
            Some((reader, before))
        });
        let line = link_rate(&interface);
        Ok(Link { routing, index, name: interface.name, counters: interface.counters, queue, softnet, line })
    }

    /// The line rate of what leaves here, where `sending`, or comes in: a shaper in front of the interface
    /// holds only what leaves.
    pub(super) fn rate(&self, sending: bool) -> Reading<Rate> {
        let shaped = self.queue.as_ref().and_then(|queue| queue.rate).filter(|_| sending);
        match (shaped, &self.line) {
            (Some(shaped), Reading::Value(line)) => Reading::Value(Rate(shaped.0.min(line.0))),
            (Some(shaped), Reading::Missing(_)) => Reading::Value(shaped),
            (None, line) => line.clone(),
        }
    }

    /// A shaper that stands before this interface.
    pub(super) fn shaper(&self) -> Option<Shaper> {
        let queue = self.queue.as_ref()?;
        let rate = queue.rate?.0;
        Some(Shaper { interface: self.name.clone(), kind: queue.kind.clone(), rate })
    }

    /// What was lost here since the watch began, in sentences; none where nothing was.
    pub(super) fn losses(&mut self) -> Vec<String> {
        let name = &self.name;
        let mut told = Vec::new();
        if let Ok(now) = self.routing.interface(self.index) {
            let passed = now.counters.since(&self.counters);
            for (count, what) in [
                (passed.receive_drops, "packets that came in were dropped for want of room"),
                (passed.send_drops, "packets on their way out were dropped for want of room"),
                (passed.errors, "packets were broken"),
            ] {
                if count > 0 {
                    told.push(format!("{name}: {count} {what}, of all that passed it"));
                }
            }
        }
        if let (Some(before), Ok(Some(now))) = (&self.queue, self.routing.queue(self.index)) {
            let drops = now.drops.wrapping_sub(before.drops);
            if drops > 0 && now.kind == before.kind {
                told.push(format!(
                    "{name}: its queue ({}) dropped {drops} packets, {} bytes wait in it",
                    now.kind, now.backlog
                ));
            }
        }
        if let Some((reader, before)) = &mut self.softnet
            && let Ok(now) = reader.read()
            && now.dropped > before.dropped
        {
            let dropped = now.dropped - before.dropped;
            told.push(format!(
                "the processors dropped {dropped} packets that came faster than they were taken in (/proc/net/softnet_stat)"
            ));
        }
        told
    }
}
