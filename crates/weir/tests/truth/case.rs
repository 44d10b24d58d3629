//! One cell run: two plain programs, then `weir get`, each on a bed of its own.

use weir_model::evidence::Evidence;

use crate::captures::{Captures, Tape};
use crate::cell::Cell;
use crate::expect::Side;
use crate::facts::Facts;
use crate::fetch;
use crate::lab::Lab;
use crate::plan::Plan;
use crate::traffic::Traffic;
use crate::watch;

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
    /// What tcpdump has of it.
    pub(crate) captures: Option<Captures>,
}

/// Two plain programs, watched from outside.
pub(crate) fn plain(lab: &Lab, plan: &Plan) -> anyhow::Result<Run> {
    let bed = lab.bed(plan)?;
    let disk = lab.disk(plan)?;
    let output = disk.as_ref().map(|disk| disk.path());
    // From before the first SYN.
    let tape = Tape::start(lab, &bed, plan)?;
    let mut traffic = Traffic::start(&bed, plan, output)?;
    let seen = watch::run(&bed, &mut traffic, plan.cell.rate(), plan.span)?;
    let accounts = traffic.end()?;
    let captures = tape.map(Tape::stop).transpose()?;
    Ok(Run {
        cell: plan.cell,
        programs: Programs::Plain,
        facts: Facts::of(plan, &seen.settled).told(&accounts),
        evidence: vec![(Side::Sender, seen.sender), (Side::Receiver, seen.receiver), (Side::Both, seen.both)],
        captures,
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
        captures: None,
    })
}
