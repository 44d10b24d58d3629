//! Verdicts as files: what was seen is kept, so that it can be judged again when a rule has changed.
//!
//! `results.jsonl` holds one line a verdict. `kept/` has the record and the evidence of each, packed;
//! `wrong/` the same, as it is, of those that are not right.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use weir_model::evidence::Evidence;
use weir_model::limit::Limit;
use weir_model::moved;
use weir_model::verdict::explain;

use crate::score::{Line, Score};
use crate::story::Case;

/// The evidence of one verdict may take that much, as text: a minute of a few connections is 1 MB.
const LARGEST: usize = 16 << 20;

/// All packed evidence of a folder: 600 verdicts of 100 KB take 6 MB.
const FOLDER: u64 = 256 << 20;

/// The folder of a set of runs.
pub(crate) struct Archive {
    folder: PathBuf,
}

impl Archive {
    /// `target/truth/NAME`, empty.
    pub(crate) fn begin(name: &str) -> anyhow::Result<Archive> {
        let target =
            Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("the target folder has no name")?;
        let folder = target.join("truth").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("wrong"))?;
        fs::create_dir_all(folder.join("kept"))?;
        Ok(Archive { folder })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Keeps a verdict. An error says what could not be kept.
    pub(crate) fn add(&self, line: &Line, record: &Value, evidence: &Value) -> anyhow::Result<()> {
        let mut file = File::options().create(true).append(true).open(self.path("results.jsonl"))?;
        file.write_all(&text_of(line)?)?;
        // A run that failed has none.
        if record.is_null() || evidence.is_null() {
            return Ok(());
        }
        let name = file_name(line);
        let (record, evidence) = (record.to_string(), evidence.to_string());
        if matches!(line.score, Score::Missed | Score::Wrong) {
            fs::write(self.path("wrong").join(format!("{name}.json")), &evidence)?;
            fs::write(self.path("wrong").join(format!("{name}.record.json")), &record)?;
        }
        anyhow::ensure!(
            evidence.len() <= LARGEST,
            "{name}: {} bytes of evidence are not kept",
            evidence.len()
        );
        let held: u64 = fs::read_dir(self.path("kept"))?.flatten().map(|entry| size(&entry.path())).sum();
        anyhow::ensure!(held <= FOLDER, "{name}: not kept, the folder holds {held} bytes");
        pack(&self.path("kept").join(format!("{name}.record.json.gz")), record.as_bytes())?;
        Ok(pack(&self.path("kept").join(format!("{name}.json.gz")), evidence.as_bytes())?)
    }

    /// Writes `results.jsonl` anew: of runs that were played twice only the last counts.
    pub(crate) fn settle(&self, lines: &[Line]) -> anyhow::Result<()> {
        let mut all = Vec::new();
        for line in lines {
            all.extend(text_of(line)?);
        }
        Ok(fs::write(self.path("results.jsonl"), all)?)
    }
}

/// What a verdict on this evidence rests on.
pub(crate) fn grounds(evidence: &Value) -> Option<String> {
    let evidence: Evidence = serde_json::from_value(evidence.clone()).ok()?;
    explain(&evidence).grounds.map(|grounds| grounds.to_string())
}

fn text_of(line: &Line) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(text)
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |data| data.len())
}

fn file_name(line: &Line) -> String {
    line.name().replace([' ', '/', ','], "-")
}

fn pack(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut packer = GzEncoder::new(File::create(path)?, Compression::fast());
    packer.write_all(text)?;
    packer.finish()?;
    Ok(())
}

/// A verdict of an earlier run, judged by the rules as they are now.
pub(crate) struct Anew {
    pub(crate) before: Line,
    pub(crate) line: Line,
    /// Its evidence was there; else it stands as it was said.
    pub(crate) judged: bool,
}

/// Judges what a folder keeps: evidence in `kept/`, else in `wrong/`. Stories that are no more are left out.
pub(crate) fn judge_anew(folder: &Path, cases: &[Case]) -> anyhow::Result<Vec<Anew>> {
    let path = folder.join("results.jsonl");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut all = Vec::new();
    for line in text.lines() {
        let before: Line = serde_json::from_str(line).with_context(|| format!("cannot read '{line}'"))?;
        let case = cases.iter().find(|case| case.story == before.story && case.point == before.point);
        let views = case.map_or(&[][..], |case| &case.views);
        let view = views.iter().find(|view| view.side == before.side && view.how == before.how);
        let (Some(case), Some(view)) = (case, view) else { continue };
        all.push(match judged(folder, &before)? {
            Some((record, grounds)) => {
                let line = Line { grounds, ..Line::of(case, view, &before.ran(), &record) };
                Anew { line, before, judged: true }
            }
            None => Anew { line: before.clone(), before, judged: false },
        });
    }
    Ok(all)
}

/// The record with today's verdict in it, and what that rests on.
fn judged(folder: &Path, line: &Line) -> anyhow::Result<Option<(Value, Option<String>)>> {
    let name = file_name(line);
    let Some(evidence) = kept(folder, &format!("{name}.json"))? else { return Ok(None) };
    let Some(record) = kept(folder, &format!("{name}.record.json"))? else { return Ok(None) };
    let mut record: Value = serde_json::from_slice(&record)?;
    let evidence: Evidence =
        serde_json::from_slice(&evidence).with_context(|| format!("cannot read the evidence of {name}"))?;
    // As `weir why` does.
    let mut verdict = explain(&evidence);
    match record["why"]["connections"].as_u64() {
        Some(0) => moved::without_connection(&evidence, &mut verdict),
        _ => drop(moved::say_if_nothing(&evidence, &mut verdict)),
    }
    // What the watch itself had to say is not in the evidence.
    let of_a_rule = |line: &&str| line.split_once(':').is_some_and(|(name, _)| Limit::parse(name).is_some());
    let said = record["verdict"]["missing"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let notes = said.filter(|line| !of_a_rule(line)).map(str::to_owned);
    let new: Vec<String> = notes.filter(|note| !verdict.missing.contains(note)).collect();
    verdict.missing.extend(new);
    record["verdict"] = serde_json::to_value(&verdict)?;
    Ok(Some((record, verdict.grounds.map(|grounds| grounds.to_string()))))
}

fn kept(folder: &Path, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let packed = folder.join("kept").join(format!("{name}.gz"));
    if packed.exists() {
        let mut text = Vec::new();
        GzDecoder::new(File::open(&packed)?)
            .take(LARGEST as u64)
            .read_to_end(&mut text)
            .with_context(|| format!("cannot read {}", packed.display()))?;
        return Ok(Some(text));
    }
    let plain = folder.join("wrong").join(name);
    if !plain.exists() {
        return Ok(None);
    }
    Ok(Some(fs::read(&plain).with_context(|| format!("cannot read {}", plain.display()))?))
}
