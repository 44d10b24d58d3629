//! The same runs as tcpdump saw them, at both ends: judged as `weir why --pcap` does, and laid beside what
//! was said live.
//!
//! A capture shows neither threads nor buffers, so it may abstain where a live watch names a limit. Where it
//! names one, that must be the same, in the words that packets have for it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;
use weir_capture::{Options, judge, read};
use weir_lab::bed::Bed;
use weir_model::limit::Limit;
use weir_model::verdict::Verdict;

use crate::cell::Cause;
use crate::expect::{Expectation, Side, expected_in};
use crate::lab::Lab;
use crate::plan::Plan;
use crate::score::{Score, Sums, named, word};
use crate::tcpdump::{self, Recorder};

/// Faster links are not captured: at 40 Mbit/s two tcpdumps take 7,000 packets a second, some hundredths of a
/// core, at 400 they would take the processors from the emulator.
const FASTEST: u64 = 40;

/// The ends that are captured.
pub(crate) const ENDS: [Side; 2] = [Side::Sender, Side::Receiver];

/// Both ends of a run on their way into files; gone with them when dropped.
pub(crate) struct Tape {
    folder: TempDir,
    recorders: [Recorder; 2],
}

/// Captures of both ends.
#[derive(Debug)]
pub(crate) struct Captures {
    folder: TempDir,
}

impl Tape {
    /// Starts both; `None` where this run is not captured.
    pub(crate) fn start(lab: &Lab, bed: &Bed, plan: &Plan) -> anyhow::Result<Option<Tape>> {
        if plan.cell.mbit > FASTEST || !tcpdump::is_there() {
            return Ok(None);
        }
        let folder = lab.memory()?;
        let file = |side: Side| folder.path().join(side.name());
        let recorders = [
            Recorder::start(bed.far(), &file(Side::Sender))?,
            Recorder::start(bed.near(), &file(Side::Receiver))?,
        ];
        Ok(Some(Tape { folder, recorders }))
    }

    pub(crate) fn stop(self) -> anyhow::Result<Captures> {
        for recorder in self.recorders {
            recorder.stop()?;
        }
        Ok(Captures { folder: self.folder })
    }
}

impl Captures {
    pub(crate) fn of(&self, side: Side) -> PathBuf {
        self.folder.path().join(side.name())
    }
}

/// The verdict of `weir why --pcap`.
pub(crate) fn judged(file: &Path) -> anyhow::Result<Verdict> {
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let options = Options { scope: "the capture".to_owned(), ..Options::default() };
    let capture = read(opened, &options).with_context(|| format!("cannot judge {}", file.display()))?;
    anyhow::ensure!(capture.connections > 0, "{} has no connection", file.display());
    Ok(judge(&capture.evidence, &capture.notes))
}

/// How a capture's verdict lies beside the live one of the same end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// They name the same, or neither names anything.
    Agrees,
    /// Only the live one names something.
    Abstains,
    /// Only the capture does, and it is right.
    TellsMore,
    /// The capture names what the live one does not.
    Contradicts,
}

impl Agreement {
    fn of(side: Side, live: &Verdict, offline: &Verdict, right: bool) -> Agreement {
        let names = |verdict: &Verdict| -> Vec<Limit> {
            let named = named(verdict).into_iter().filter(|limit| *limit != Limit::SenderOrPath);
            named.map(|limit| on_the_wire(limit, side)).collect()
        };
        let (live, offline) = (names(live), names(offline));
        match (live.is_empty(), offline.is_empty()) {
            (true, true) => Agreement::Agrees,
            (false, true) => Agreement::Abstains,
            (true, false) if right => Agreement::TellsMore,
            _ if offline.iter().all(|limit| live.contains(limit)) => Agreement::Agrees,
            _ => Agreement::Contradicts,
        }
    }
}

/// What packets show of a limit: of a thread, a disk or a buffer only which end it holds.
fn on_the_wire(limit: Limit, side: Side) -> Limit {
    match limit {
        Limit::CpuCore | Limit::Disk | Limit::DirtyThrottle | Limit::Downstream if side == Side::Receiver => {
            Limit::Reader
        }
        Limit::CpuCore | Limit::RateLimit | Limit::Upstream | Limit::ThinkTime => Limit::Application,
        Limit::RequestResponse => Limit::Latency,
        other => other,
    }
}

/// All captures of a set of runs.
#[derive(Default)]
pub(crate) struct Offline {
    rows: BTreeMap<(Cause, Side), [u32; 4]>,
    sums: BTreeMap<Side, Sums>,
    /// Those that contradict, or are wrong.
    weak: Vec<String>,
}

impl Offline {
    /// Judges the captures of a run; `truth` as its page has it.
    pub(crate) fn add(
        &mut self,
        run: &crate::archive::Kept,
        side: Side,
        live: &Verdict,
    ) -> anyhow::Result<()> {
        let Ok(truth) = &run.truth else { return Ok(()) };
        let Some(file) = run.captures.get(&side) else { return Ok(()) };
        let offline = judged(file)?;
        let Expectation { right, .. } = expected_in(run.cell, *truth, side);
        let right: Vec<Limit> = right.iter().flat_map(|limit| [*limit, on_the_wire(*limit, side)]).collect();
        let score = Score::of_names(&named(&offline), &right, true);
        let agreement = Agreement::of(side, live, &offline, score == Score::Right);
        self.rows.entry((run.cell.cause, side)).or_default()[agreement as usize] += 1;
        self.sums.entry(side).or_default().add(score, 1);
        if agreement == Agreement::Contradicts || score == Score::Wrong {
            self.weak.push(format!(
                "{} {} of {}: live {}, of its capture {} ({}), truth {truth}\n    {}",
                run.cell,
                side.name(),
                file.display(),
                word(live),
                word(&offline),
                offline.shares_in_words(),
                offline.evidence.first().cloned().unwrap_or_default()
            ));
        }
        Ok(())
    }

    /// Captures that were judged.
    pub(crate) fn all(&self) -> u32 {
        self.rows.values().flatten().sum()
    }

    /// The share that names what the live verdict does not, or what did not limit.
    pub(crate) fn contradictions(&self) -> f64 {
        f64::from(self.total(Agreement::Contradicts)) / f64::from(self.all().max(1))
    }

    fn total(&self, agreement: Agreement) -> u32 {
        self.rows.values().map(|counts| counts[agreement as usize]).sum()
    }

    pub(crate) fn weak(&self) -> String {
        self.weak.join("\n")
    }

    /// The tables, in Markdown.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        if self.all() == 0 {
            return text;
        }
        let _ =
            writeln!(text, "\nCaptures of {} ends, beside the live verdict of the same end\n", self.all());
        let _ = writeln!(text, "| captured at | cause | agrees | abstains | tells more | contradicts |");
        let _ = writeln!(text, "| --- | --- | --- | --- | --- | --- |");
        for ((cause, side), [agrees, abstains, more, contradicts]) in &self.rows {
            let side = side.name();
            let _ = writeln!(
                text,
                "| {side} | {} | {agrees} | {abstains} | {more} | {contradicts} |",
                cause.name()
            );
        }
        let [agrees, abstains, more, contradicts] =
            [Agreement::Agrees, Agreement::Abstains, Agreement::TellsMore, Agreement::Contradicts]
                .map(|agreement| self.total(agreement));
        let _ = writeln!(text, "| both | all | {agrees} | {abstains} | {more} | {contradicts} |");
        let _ = writeln!(
            text,
            "\n| captured at | judged | right | abstained | wrong |\n| --- | --- | --- | --- | --- |"
        );
        for (side, sums) in &self.sums {
            let abstained = sums.abstained + sums.missed;
            let _ = writeln!(
                text,
                "| {} | {} | {} | {abstained} | {} |",
                side.name(),
                sums.all(),
                sums.right,
                sums.wrong
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::verdict::MainLimit;

    fn verdict(limit: Limit) -> Verdict {
        let empty = weir_model::verdict::explain(&weir_model::evidence::Evidence::default());
        Verdict { limit: Some(MainLimit::One(limit)), ..empty }
    }

    #[test]
    fn a_capture_may_abstain_and_must_not_name_another() {
        let of = |side, live, offline, right| Agreement::of(side, &verdict(live), &verdict(offline), right);
        let blind = Limit::SenderOrPath;
        assert_eq!(of(Side::Sender, Limit::SendBuffer, blind, false), Agreement::Abstains);
        assert_eq!(of(Side::Sender, Limit::SendBuffer, Limit::Application, false), Agreement::Contradicts);
        assert_eq!(of(Side::Receiver, blind, Limit::PathLoss, true), Agreement::TellsMore);
        assert_eq!(of(Side::Receiver, blind, Limit::PathLoss, false), Agreement::Contradicts);
        assert_eq!(of(Side::Receiver, blind, blind, false), Agreement::Agrees);
    }

    #[test]
    fn packets_show_which_end_a_thread_holds() {
        let of = |side, live, offline| Agreement::of(side, &verdict(live), &verdict(offline), true);
        assert_eq!(of(Side::Receiver, Limit::CpuCore, Limit::Reader), Agreement::Agrees);
        assert_eq!(of(Side::Sender, Limit::CpuCore, Limit::Application), Agreement::Agrees);
        assert_eq!(of(Side::Sender, Limit::CpuCore, Limit::Reader), Agreement::Contradicts);
    }
}
