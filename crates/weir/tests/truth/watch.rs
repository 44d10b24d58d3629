//! What both ends of a run look like from outside: evidence for the judge, made by the code of `weir why
//! --pid`, and facts that the judge never sees.
//!
//! A watch stands in each namespace, as on the host of either program. Both sample at the same moments, so
//! that their intervals can be laid beside each other. The facts come from raw readings of the sockets: what
//! was in the queue, what the buffer held.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weir_lab::bed::Bed;
use weir_lab::netns::Namespace;
use weir_model::evidence::{Evidence, Interval, LaneInterval};
use weir_observe::pace::Pace;
use weir_observe::process::Pid;
use weir_observe::sock_diag::{Filter, SockDiag};
use weir_observe::watch::{Discovery, Notes, Subject, Watch};
use weir_units::Rate;

use crate::settled::{SETTLED, Settled};
use crate::traffic::Traffic;

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct WatchedRun {
    pub(crate) sender: Evidence,
    pub(crate) receiver: Evidence,
    pub(crate) both: Evidence,
    /// Raw, for the facts.
    pub(crate) settled: Settled,
}

/// Watches both for that long, from before their first byte.
pub(crate) fn run(
    bed: &Bed,
    traffic: &mut Traffic,
    rate: Rate,
    span: Duration,
) -> anyhow::Result<WatchedRun> {
    let mut far = watch(bed.far(), traffic.far.pid())?;
    let mut near = watch(bed.near(), traffic.near.pid())?;
    let mut raw = Raw::new(bed, traffic.port)?;
    far.look();
    near.look();
    traffic.go()?;
    let start = Instant::now();
    let mut pace = Pace::new(start);
    let mut settled = Settled::default();
    while start.elapsed() < span {
        near.rest(&mut pace);
        far.look();
        near.look();
        settled.link.look(bed, rate);
        if start.elapsed() >= span.mul_f64(SETTLED) {
            settled.begin(bed);
            raw.look(&mut settled)?;
        }
    }
    settled.end(bed);
    far.finish();
    near.finish();
    let both = joint(&far, &near);
    Ok(WatchedRun { sender: far.evidence, receiver: near.evidence, both, settled })
}

fn watch(space: &Namespace, pid: Pid) -> anyhow::Result<Watch> {
    let begun = space.run(|| {
        let mut notes = Notes::default();
        let mut discovery = Discovery::new(Subject::Tree(pid), Filter::default(), &mut notes)?;
        discovery.check(&mut notes)?;
        Ok::<_, weir_observe::ObserveError>(Watch::new(
            discovery,
            notes,
            Some("the lab's program".to_owned()),
            false,
        ))
    });
    Ok(begun??)
}

/// The receiver's windows with the sender's view of each connection beside them.
fn joint(far: &Watch, near: &Watch) -> Evidence {
    let ends = |watch: &Watch| -> HashMap<u32, (SocketAddr, SocketAddr)> {
        watch.all_lanes().map(|lane| (lane.number, (lane.id.local, lane.id.remote))).collect()
    };
    let (senders, receivers) = (ends(far), ends(near));
    let intervals = near.evidence.intervals.iter().zip(&far.evidence.intervals).map(|(receives, sends)| {
        let other = |lane: &LaneInterval| {
            let (local, remote) = receivers.get(&lane.lane)?;
            sends.lanes.iter().find(|sender| senders.get(&sender.lane) == Some(&(*remote, *local)))
        };
        let lanes = receives.lanes.iter().map(|lane| match other(lane) {
            Some(sender) => beside(lane, sender),
            None => lane.clone(),
        });
        Interval { lanes: lanes.collect(), ..receives.clone() }
    });
    Evidence { intervals: intervals.collect(), ..near.evidence.clone() }
}

/// Of the two threads the one that ran more: there is one place.
fn beside(receives: &LaneInterval, sends: &LaneInterval) -> LaneInterval {
    let ran = |lane: &LaneInterval| lane.thread.value().map_or(Duration::ZERO, |thread| thread.cpu);
    let thread = if ran(sends) > ran(receives) { &sends.thread } else { &receives.thread };
    LaneInterval { sender: sends.sender.clone(), thread: thread.clone(), ..receives.clone() }
}

/// The sockets of both namespaces, read for the facts.
pub(crate) struct Raw {
    far: SockDiag,
    near: SockDiag,
    filter: Filter,
}

impl Raw {
    pub(crate) fn new(bed: &Bed, port: u16) -> anyhow::Result<Raw> {
        let filter = Filter { port: Some(port), ..Filter::default() };
        Ok(Raw { far: bed.far().run(SockDiag::open)??, near: bed.near().run(SockDiag::open)??, filter })
    }

    pub(crate) fn look(&mut self, settled: &mut Settled) -> anyhow::Result<()> {
        let nears = self.near.tcp(&self.filter)?;
        for far in self.far.tcp(&self.filter)? {
            if let Some(near) = nears.iter().find(|near| near.id.local == far.id.remote) {
                settled.look(&far, near);
            }
        }
        Ok(())
    }
}
