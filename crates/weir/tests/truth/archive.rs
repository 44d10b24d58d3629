//! Runs as files: what was seen is kept, so that it can be judged again when a rule has changed.
//!
//! `runs/CELL.PROGRAMS.json` holds one run's facts and the evidence of its sides;
//! `captures/CELL.SIDE.pcap.gz` what tcpdump saw at either end; `results.jsonl` one line for each verdict;
//! `wrong/CELL.SIDE.json` the evidence of each that is not right, in the form of `weir get --evidence`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use weir_model::evidence::Evidence;
use weir_model::verdict::Verdict;

use crate::captures::ENDS;
use crate::case::{Programs, Run};
use crate::cell::Cell;
use crate::expect::{Side, Truth};
use crate::facts::Facts;
use crate::label;
use crate::plan::Plan;
use crate::score::{Score, word};

/// What [`Archive::clear`] empties.
const FOLDERS: [&str; 2] = ["runs", "captures"];

/// All captures of a folder: those of the whole matrix take half of it.
const CAPTURES: u64 = 512 << 20;

/// The folder of a set of runs.
pub(crate) struct Archive {
    folder: PathBuf,
}

/// A run read back.
pub(crate) struct Kept {
    pub(crate) cell: Cell,
    pub(crate) programs: Programs,
    /// What limited, by the facts; or why the run is void.
    pub(crate) truth: Result<Truth, String>,
    pub(crate) facts: Facts,
    pub(crate) evidence: Vec<(Side, Evidence)>,
    /// What tcpdump saw at either end.
    pub(crate) captures: BTreeMap<Side, PathBuf>,
    /// When it was recorded.
    pub(crate) recorded: SystemTime,
}

impl Archive {
    /// `target/truth/NAME`.
    pub(crate) fn open(name: &str) -> anyhow::Result<Archive> {
        let target =
            Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("the target folder has no name")?;
        let folder = target.join("truth").join(name);
        for name in FOLDERS {
            fs::create_dir_all(folder.join(name))?;
        }
        Ok(Archive { folder })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Removes the runs kept so far.
    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        for name in FOLDERS {
            fs::remove_dir_all(self.path(name))?;
            fs::create_dir_all(self.path(name))?;
        }
        Ok(())
    }

    /// Keeps a run, in place of an earlier one of the same cell.
    pub(crate) fn keep(&self, run: &Run) -> anyhow::Result<()> {
        let evidence: serde_json::Map<String, Value> = run
            .evidence
            .iter()
            .map(|(side, evidence)| Ok((side.name().to_owned(), serde_json::to_value(evidence)?)))
            .collect::<anyhow::Result<_>>()?;
        let kept = json!({
            "cell": run.cell.to_string(),
            "programs": run.programs.name(),
            "facts": run.facts.to_json(),
            "evidence": evidence,
        });
        if run.programs == Programs::Plain {
            self.keep_captures(run)?;
        }
        let path = self.of(run.cell, run.programs);
        // Whole or not at all: a recording may be cut off at any time.
        let unfinished = path.with_extension("part");
        fs::write(&unfinished, serde_json::to_vec(&kept)?)?;
        Ok(fs::rename(unfinished, path)?)
    }

    /// In place of earlier ones, as far as there is room for them.
    fn keep_captures(&self, run: &Run) -> anyhow::Result<()> {
        let held = |entry: fs::DirEntry| entry.metadata().map_or(0, |data| data.len());
        for side in ENDS {
            let path = self.capture(run.cell, side);
            let _ = fs::remove_file(&path);
            let Some(captures) = &run.captures else { continue };
            let all: u64 = fs::read_dir(self.path("captures"))?.flatten().map(held).sum();
            if all > CAPTURES {
                println!("{} is not kept: captures take {all} bytes", path.display());
                continue;
            }
            let mut packer = GzEncoder::new(File::create(&path)?, Compression::fast());
            std::io::copy(&mut File::open(captures.of(side))?, &mut packer)?;
            packer.finish()?;
        }
        Ok(())
    }

    fn capture(&self, cell: Cell, side: Side) -> PathBuf {
        self.path("captures").join(format!("{cell}.{}.pcap.gz", side.name()))
    }

    fn of(&self, cell: Cell, programs: Programs) -> PathBuf {
        self.path("runs").join(format!("{cell}.{}.json", programs.name()))
    }

    /// Whether a run of this cell is kept that today's programs recorded: newer than this one and than
    /// `weir`.
    pub(crate) fn is_current(&self, cell: Cell, programs: Programs) -> bool {
        let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
        let own = std::env::current_exe().ok();
        let programs_changed =
            own.iter().map(PathBuf::as_path).chain([Path::new(env!("CARGO_BIN_EXE_weir"))]);
        let Some(newest) = programs_changed.filter_map(changed).max() else { return false };
        changed(&self.of(cell, programs)).is_some_and(|kept| kept > newest)
    }

    /// Every run kept, in the order of the matrix.
    pub(crate) fn runs(&self) -> anyhow::Result<Vec<Kept>> {
        let mut runs = Vec::new();
        for entry in fs::read_dir(self.path("runs"))? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let mut run = read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            if run.programs == Programs::Plain {
                let captures = ENDS.map(|side| (side, self.capture(run.cell, side)));
                run.captures = captures.into_iter().filter(|(_, path)| path.exists()).collect();
            }
            runs.push(run);
        }
        runs.sort_by_key(|run| (run.cell, run.programs));
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
            "facts": run.facts.to_json(),
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

fn read(path: &Path) -> anyhow::Result<Kept> {
    let mut kept: Value = serde_json::from_slice(&fs::read(path)?)?;
    let text = |name: &str| kept[name].as_str().map(str::to_owned);
    let cell = text("cell").context("no cell")?;
    let cell = Cell::all().into_iter().find(|known| known.to_string() == cell).context("unknown cell")?;
    let programs = text("programs").context("no programs")?;
    let programs =
        Programs::ALL.into_iter().find(|known| known.name() == programs).context("unknown programs")?;
    let facts = Facts::from_json(&kept["facts"]).context("facts are missing")?;
    let plan = Plan::of(cell).map_err(|why| anyhow::anyhow!(why))?;
    let mut evidence = Vec::new();
    for side in Side::ALL {
        if let Some(value) = kept["evidence"].get_mut(side.name()) {
            evidence.push((side, serde_json::from_value(value.take())?));
        }
    }
    let recorded = fs::metadata(path)?.modified()?;
    let truth = label::truth(&plan, programs, &facts);
    Ok(Kept { cell, programs, truth, facts, evidence, captures: BTreeMap::new(), recorded })
}
