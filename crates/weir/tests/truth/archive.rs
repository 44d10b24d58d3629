//! Runs as files: what was seen is kept, so that it can be judged again when a rule has changed.
//!
//! `runs/CELL.PROGRAMS.json` holds one run's facts and the evidence of its sides; `results.jsonl` one line for each verdict;
//! `wrong/CELL.SIDE.json` the evidence of each that is not right, in the form of `weir get --evidence`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use weir_model::evidence::Evidence;
use weir_model::verdict::Verdict;

use crate::case::Run;
use crate::cell::Cell;
use crate::expect::{Side, Truth};
use crate::fact;
use crate::plan::Plan;
use crate::score::{Score, word};

/// The folder of a set of runs.
pub(crate) struct Archive {
    folder: PathBuf,
}

/// A run read back.
pub(crate) struct Kept {
    pub(crate) cell: Cell,
    pub(crate) programs: String,
    pub(crate) truth: Result<Truth, String>,
    pub(crate) facts: Value,
    pub(crate) evidence: Vec<(Side, Evidence)>,
}

impl Archive {
    /// `target/truth/NAME`.
    pub(crate) fn open(name: &str) -> anyhow::Result<Archive> {
        let target =
            Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("the target folder has no name")?;
        let folder = target.join("truth").join(name);
        fs::create_dir_all(folder.join("runs"))?;
        Ok(Archive { folder })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Removes the runs kept so far.
    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        fs::remove_dir_all(self.path("runs"))?;
        Ok(fs::create_dir_all(self.path("runs"))?)
    }

    /// Keeps a run, in place of an earlier one of the same cell.
    pub(crate) fn keep(&self, plan: &Plan, run: &Run) -> anyhow::Result<()> {
        let evidence: serde_json::Map<String, Value> = run
            .evidence
            .iter()
            .map(|(side, evidence)| Ok((side.name().to_owned(), serde_json::to_value(evidence)?)))
            .collect::<anyhow::Result<_>>()?;
        let kept = json!({
            "cell": run.cell.to_string(),
            "programs": run.programs.name(),
            "truth": run.truth.as_ref().ok().map(Truth::to_string),
            "void": run.truth.as_ref().err(),
            "facts": facts(plan, run),
            "evidence": evidence,
        });
        let name = format!("{}.{}.json", run.cell, run.programs.name());
        Ok(fs::write(self.path("runs").join(name), serde_json::to_vec(&kept)?)?)
    }

    /// Every run kept, in the order of the matrix.
    pub(crate) fn runs(&self) -> anyhow::Result<Vec<Kept>> {
        let mut runs = Vec::new();
        for entry in fs::read_dir(self.path("runs"))? {
            let path = entry?.path();
            runs.push(read(&path).with_context(|| format!("cannot read {}", path.display()))?);
        }
        runs.sort_by_key(|run| (run.cell, run.programs.clone()));
        Ok(runs)
    }

    /// Begins `results.jsonl` and `wrong/` anew.
    pub(crate) fn begin_results(&self) -> anyhow::Result<()> {
        let wrong = self.path("wrong");
        if wrong.exists() {
            fs::remove_dir_all(&wrong)?;
        }
        fs::create_dir_all(&wrong)?;
        Ok(fs::write(self.path("results.jsonl"), "")?)
    }

    /// Adds a line to `results.jsonl`, and the evidence to `wrong/` if the verdict is not what it should be.
    pub(crate) fn result(
        &self,
        run: &Kept,
        side: Side,
        verdict: &Verdict,
        score: Option<Score>,
    ) -> anyhow::Result<()> {
        let line = json!({
            "cell": run.cell.to_string(),
            "side": side.name(),
            "truth": run.truth.as_ref().ok().map(Truth::to_string),
            "void": run.truth.as_ref().err(),
            "said": word(verdict),
            "score": score.map(Score::name),
            "confidence": verdict.confidence,
            "shares": verdict.shares,
            "facts": run.facts,
            "evidence": verdict.evidence,
        });
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        let path = self.path("results.jsonl");
        let mut file = fs::OpenOptions::new().append(true).open(&path)?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        if matches!(score, Some(Score::Missed | Score::Wrong)) {
            let evidence = run.evidence.iter().find(|(of, _)| *of == side).map(|(_, evidence)| evidence);
            let name = format!("{}.{}.json", run.cell, side.name().replace(' ', "-"));
            fs::write(self.path("wrong").join(name), serde_json::to_vec(&evidence)?)?;
        }
        Ok(())
    }
}

fn facts(plan: &Plan, run: &Run) -> Value {
    let settled = &run.settled;
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    json!({
        "used": round(fact::used(plan, settled)),
        "rtt_ms": round(1000.0 * settled.rtt()),
        "lost": settled.lost,
        "policed": settled.policed,
        "overflowed": settled.overflowed,
        "dropped_in_all": settled.dropped_in_all,
        "send_buffer_full": round(settled.share(settled.send_buffer_full)),
        "window_full": round(settled.share(settled.window_full)),
        "unread": round(settled.share(settled.unread)),
        "nothing_unsent": round(settled.share(settled.nothing_unsent)),
        "sender_cpu": round(run.done.sender_cpu),
        "receiver_cpu": round(run.done.receiver_cpu),
        "sender_in_socket": round(run.done.sender_in_socket),
        "receiver_in_disk": round(run.done.receiver_in_disk),
        "answers": run.done.answers,
    })
}

fn read(path: &Path) -> anyhow::Result<Kept> {
    let mut kept: Value = serde_json::from_slice(&fs::read(path)?)?;
    let text = |kept: &Value, name: &str| kept[name].as_str().map(str::to_owned);
    let cell = text(&kept, "cell").context("no cell")?;
    let truth = match text(&kept, "truth") {
        Some(name) => {
            Ok(Truth::ALL.into_iter().find(|truth| truth.to_string() == name).context("unknown truth")?)
        }
        None => Err(text(&kept, "void").unwrap_or_default()),
    };
    let mut evidence = Vec::new();
    for side in Side::ALL {
        if let Some(value) = kept["evidence"].get_mut(side.name()) {
            evidence.push((side, serde_json::from_value(value.take())?));
        }
    }
    Ok(Kept {
        cell: Cell::all().into_iter().find(|known| known.to_string() == cell).context("unknown cell")?,
        programs: text(&kept, "programs").unwrap_or_default(),
        truth,
        facts: kept["facts"].take(),
        evidence,
    })
}
