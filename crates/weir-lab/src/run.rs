//! Carrying out a scenario: the bed and the slow hosts are made, the work is done, each side is judged by
//! what its own sockets showed, and the figures are laid beside what was expected.

mod measure;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_model::evidence::Evidence;
use weir_model::limit::Limit;
use weir_model::verdict::{MainLimit, Verdict, explain};
use weir_units::Rate;

use crate::bed::{Bed, Counters, too_late};
use crate::congestion;
use crate::error::CONGESTION_CONTROL;
use crate::leftovers::Folder;
use crate::netns::Namespace;
use crate::scenario::{Figure, Host, Prediction, Quantity, Scenario, Side, Then};
use crate::slow_core::SlowCore;
use crate::slow_disk::SlowDisk;
pub use crate::workload::WorkError;
use crate::workload::{Done, Stage, Subject};
use measure::measure;
use watch::{Post, Watch};

/// What runs need beside their scenarios.
#[derive(Debug)]
pub struct Lab {
    /// The `weir` binary, for `weir get`, `weir cp` and `weir why`.
    pub weir: PathBuf,
    /// Set when the user wants it to end.
    pub stop: Arc<AtomicBool>,
}

/// What one run showed.
#[derive(Debug)]
pub struct RunFindings {
    /// Payload that arrived.
    pub bytes: u64,
    /// Wall time of the work.
    pub seconds: f64,
    /// By how much the emulated path was late, of a round trip on average, where that was too much for
    /// anything to be shown.
    pub late: Option<Duration>,
    /// What each side's evidence says; `weir` only where weir itself did the work or watched it.
    pub verdicts: BTreeMap<Side, Verdict>,
    /// What was measured.
    pub values: BTreeMap<&'static str, f64>,
    /// The grounds of the verdicts.
    pub evidence: BTreeMap<Side, Evidence>,
}

/// A scenario, carried out.
#[derive(Debug)]
pub struct ScenarioOutcome {
    /// The run.
    pub seen: RunFindings,
    /// The limits expected of each side.
    pub limits: Vec<LimitCheck>,
    /// The figures expected.
    pub figures: Vec<FigureCheck>,
    /// The advised change, tried.
    pub then: Option<ThenOutcome>,
}

/// One side's limit.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitCheck {
    /// Whose.
    pub side: Side,
    /// Any of these will do, and a mixture of them.
    pub expected: Vec<Limit>,
    /// `None` when the run was too short to judge, or this side did not judge.
    pub seen: Option<MainLimit>,
    /// The limits that held more than a quarter of the time.
    pub held: Vec<Limit>,
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureCheck {
    /// What was expected.
    pub figure: Figure,
    /// `None` where it could not be measured.
    pub seen: Option<f64>,
}

/// What the change brought.
#[derive(Debug)]
pub struct ThenOutcome {
    /// The change, in words.
    pub what: String,
    /// The predicted rate, bytes per second.
    pub predicted: Option<f64>,
    /// Who predicted it: the verdict's advice, or the scenario's law.
    pub by: &'static str,
    /// The rate that was reached, bytes per second.
    pub achieved: f64,
    /// How far off the prediction may be.
    pub within: f64,
    /// The run with the change.
    pub outcome: Box<ScenarioOutcome>,
}

impl LimitCheck {
    /// Whether the right one was named.
    pub fn holds(&self) -> bool {
        match self.seen {
            Some(MainLimit::One(limit)) => self.expected.contains(&limit),
            Some(MainLimit::Mixed) => self.held.iter().all(|limit| self.expected.contains(limit)),
            None => false,
        }
    }
}

impl FigureCheck {
    /// Whether it is near enough.
    pub fn holds(&self) -> bool {
        self.seen.is_some_and(|seen| self.figure.holds(seen))
    }
}

impl ThenOutcome {
    /// By how much the achieved rate missed the prediction, as a share of the achieved.
    pub fn error(&self) -> Option<f64> {
        self.predicted.filter(|_| self.achieved > 0.0).map(|predicted| predicted / self.achieved - 1.0)
    }

    /// Whether the prediction was near enough.
    pub fn holds(&self) -> bool {
        self.error().is_some_and(|error| error.abs() <= self.within)
    }
}

impl ScenarioOutcome {
    /// Whether all is as expected.
    pub fn holds(&self) -> bool {
        self.limits.iter().all(LimitCheck::holds)
            && self.figures.iter().all(FigureCheck::holds)
            && self.then.as_ref().is_none_or(|then| then.holds() && then.outcome.holds())
    }

    /// By how much the emulated path was late in one of the runs, where that was too much: what was seen says
    /// nothing then of what was expected.
    pub fn late(&self) -> Option<Duration> {
        self.seen.late.or_else(|| self.then.as_ref()?.outcome.late())
    }
}

impl Lab {
    /// Carries out `scenario`, and its change where it has one.
    pub fn run(&self, scenario: &Scenario) -> Result<ScenarioOutcome, WorkError> {
        let seen = self.once(scenario)?;
        let then = scenario.then.as_ref().map(|then| self.run_then(then, &seen)).transpose()?;
        let gain = then.as_ref().map(|then| then.achieved * seen.seconds / seen.bytes.max(1) as f64);
        let figures = scenario.figures.iter().map(|figure| FigureCheck {
            figure: figure.clone(),
            seen: if figure.of == Quantity::Gain { gain } else { seen.values.get(figure.of.name()).copied() },
        });
        let figures = figures.collect();
        Ok(ScenarioOutcome { limits: limits(scenario, &seen), figures, then, seen })
    }

    fn run_then(&self, then: &Then, before: &RunFindings) -> Result<ThenOutcome, WorkError> {
        let (predicted, by) = match then.predicted {
            Prediction::Gain(gain) => (Some(gain * rate_of(before).0), "law"),
            Prediction::Advice(side) => (advised(before, side), "advice"),
        };
        let outcome = self.run(&then.changed)?;
        Ok(ThenOutcome {
            what: then.what.clone(),
            predicted,
            by,
            achieved: rate_of(&outcome.seen).0,
            within: then.within,
            outcome: Box::new(outcome),
        })
    }

    /// One run, with everything set up for it and undone after it.
    fn once(&self, scenario: &Scenario) -> Result<RunFindings, WorkError> {
        let folder = Folder::new()?;
        // Where it may not be changed, what the namespaces may choose already does for most scenarios.
        let _allowed = congestion::allow().inspect_err(|error| tracing::info!("{error}")).ok();
        let bed = Bed::new(&scenario.path)?;
        prepare(bed.near(), &scenario.near)?;
        prepare(bed.far(), &scenario.far)?;
        let disk = scenario.near.disk.map(|disk| SlowDisk::make(&folder, "slow-disk", &disk)).transpose()?;
        let core = scenario.near.core.map(|core| SlowCore::make(&folder, core)).transpose()?;
        let output = disk.as_ref().map_or(folder.path(), SlowDisk::path).to_owned();
        let (reader, sender) = (Arc::new(Subject::default()), Arc::new(Subject::default()));
        let near = Post { side: Side::Receiver, subject: Arc::clone(&reader), output: Some(output.clone()) };
        let near = Watch::start(bed.near(), scenario, near)?;
        let far = Post { side: Side::Sender, subject: Arc::clone(&sender), output: None };
        let far = Watch::start(bed.far(), scenario, far)?;
        let stage = Stage {
            scenario,
            bed: &bed,
            output,
            notes: folder.path().to_owned(),
            disk: disk.as_ref(),
            core: core.as_ref(),
            weir: &self.weir,
            stop: &self.stop,
            reader: &reader,
            sender: &sender,
        };
        let done = stage.play();
        let (near, far) = (near.finish(), far.finish());
        let done = done?;
        let late = bed.counters().late_since(&Counters::default());
        let late = too_late(late, scenario.path.round_trip()).then_some(late);
        Ok(judge(done, late, near?, far?))
    }
}

/// Gives a namespace what a scenario asks of that host.
fn prepare(namespace: &Namespace, host: &Host) -> Result<(), WorkError> {
    for (name, value) in &host.sysctl {
        namespace.set_sysctl(name, value)?;
    }
    if let Some(name) = &host.congestion_control {
        namespace.set_sysctl(CONGESTION_CONTROL, name)?;
    }
    Ok(())
}

fn judge(done: Done, late: Option<Duration>, near: Evidence, far: Evidence) -> RunFindings {
    let values = measure(&done, &near, &far);
    let mut evidence = BTreeMap::from([(Side::Receiver, near), (Side::Sender, far)]);
    if let Some(own) = done.evidence {
        evidence.insert(Side::Weir, own);
    }
    let verdicts = evidence.iter().map(|(side, evidence)| (*side, explain(evidence))).collect();
    RunFindings { bytes: done.bytes, seconds: done.wall.as_secs_f64(), late, verdicts, values, evidence }
}

fn limits(scenario: &Scenario, seen: &RunFindings) -> Vec<LimitCheck> {
    let checks = scenario.limits.iter().map(|(side, expected)| {
        let verdict = seen.verdicts.get(side);
        let shares = verdict.map(|verdict| verdict.shares.iter()).into_iter().flatten();
        LimitCheck {
            side: *side,
            expected: expected.clone(),
            seen: verdict.and_then(|verdict| verdict.limit),
            // The share from which a verdict says `mixed`.
            held: shares.filter(|(_, share)| **share > 0.25).map(|(limit, _)| *limit).collect(),
        }
    });
    checks.collect()
}

/// The first number in the advice of a side, most useful first.
fn advised(seen: &RunFindings, side: Side) -> Option<f64> {
    seen.verdicts.get(&side)?.advice.iter().find_map(|advice| advice.predicted_rate)
}

fn rate_of(seen: &RunFindings) -> Rate {
    Rate(if seen.seconds > 0.0 { seen.bytes as f64 / seen.seconds } else { 0.0 })
}
