//! One cell run: two plain programs, then `weir get`, each on a bed of its own.

use std::net::SocketAddr;

use weir_model::evidence::Evidence;

use crate::cell::Cell;
use crate::expect::Side;
use crate::facts::Facts;
use crate::fetch;
use crate::lab::Lab;
use crate::plan::Plan;
use crate::traffic::{self, Traffic};
use crate::watch::{self, Watch};

/// Which programs ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Programs {
    /// A plain sender and a plain receiver.
    Plain,
    /// A server and `weir get`.
    Get,
}

impl Programs {
    pub(crate) const ALL: [Programs; 2] = [Programs::Plain, Programs::Get];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Programs::Plain => "plain",
            Programs::Get => "get",
        }
    }
}

/// What a run of a cell brought.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) cell: Cell,
    pub(crate) programs: Programs,
    pub(crate) facts: Facts,
    pub(crate) evidence: Vec<(Side, Evidence)>,
}

/// Two plain programs, watched from outside.
pub(crate) fn plain(lab: &Lab, plan: &Plan) -> anyhow::Result<Run> {
    let bed = lab.bed(plan)?;
    let disk = lab.disk(plan)?;
    let connections = traffic::open(&bed, plan)?;
    let ends: Vec<(SocketAddr, SocketAddr)> = connections
        .iter()
        .map(|connection| Ok((connection.near.local_addr()?, connection.far.local_addr()?)))
        .collect::<anyhow::Result<_>>()?;
    let output = disk.as_ref().map(|disk| disk.path());
    let traffic = Traffic::start(connections, plan, output)?;
    let flows: Vec<_> = ends
        .iter()
        .zip(&traffic.tids)
        .map(|((near, far), (sends, reads))| (*near, *far, *sends, *reads))
        .collect();
    let seen = Watch::new(&bed, &flows, plan.cell, output).and_then(|watch| watch.run(&bed, plan.span));
    let accounts = traffic.end()?;
    let mut seen = seen?;
    let facts = watch::facts(&bed)?;
    for evidence in [&mut seen.sender, &mut seen.receiver, &mut seen.both] {
        evidence.facts = facts.clone();
    }
    Ok(Run {
        cell: plan.cell,
        programs: Programs::Plain,
        facts: Facts::of(plan, &seen.settled).told(&accounts),
        evidence: vec![(Side::Sender, seen.sender), (Side::Receiver, seen.receiver), (Side::Both, seen.both)],
    })
}

/// A server and `weir get`.
pub(crate) fn get(lab: &Lab, plan: &Plan) -> anyhow::Result<Run> {
    let bed = lab.bed(plan)?;
    let disk = lab.disk(plan)?;
    let folder = lab.memory()?;
    let core = lab.core(plan)?;
    let output = disk.as_ref().map(|disk| disk.path());
    let fetched = fetch::run(&bed, plan, folder.path(), output, core.as_ref())?;
    Ok(Run {
        cell: plan.cell,
        programs: Programs::Get,
        facts: fetched.facts,
        evidence: vec![(Side::Get, fetched.evidence)],
    })
}
