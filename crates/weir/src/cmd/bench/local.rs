//! `weir bench host --local`: memory, disk, codecs and ciphers of this host, one after another, and kept for
//! other commands.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use weir_bench::corpus::{Corpus, Kind};
use weir_bench::repeat::Limits;
use weir_bench::{disk, mem};
use weir_codec::codec::{Codec, Setting};
use weir_model::chooser::CANDIDATES;
use weir_report::calibration::{self as report, CalibrationRecord, DiskFigures};
use weir_report::ciphers::{self, CiphersRecord};
use weir_report::codecs::{self, CodecsRecord};
use weir_report::memory::{self, MemoryRecord};
use weir_report::schema::{Record, RunOutcome};
use weir_report::storage::{self, DiskRecord};

use super::codec::Sample;
use super::{Progress, WRONG_DATA, cipher, codec, mem as memory_bench, tell};
use crate::args::BenchHost;
use crate::calibration;
use crate::interrupt::INTERRUPTED;
use crate::voice;

/// How long each codec and each of weir's ciphers is measured: a figure is the middle of ten passes and more,
/// but for codecs of which four blocks take longer than that.
const SPAN: Duration = Duration::from_millis(100);

/// How long each of ssh's ciphers is: a pass is 16 MiB, so this is ten passes of a usual one.
const SSH_SPAN: Duration = Duration::from_millis(500);

/// Bytes of generated text: 32 blocks, so that a quick codec finds no block in a cache where the one before
/// left it.
const TEXT: u64 = 32 << 20;

/// Of them so many are packed by every codec: generated text is alike everywhere, and the strongest codec
/// takes a third of a second for a block.
const SAMPLE_BLOCKS: usize = 4;

/// Measures, reports and keeps. Returns the exit code.
pub fn run(bench: &BenchHost) -> anyhow::Result<u8> {
    voice::start_log(bench.voice.quiet, bench.voice.verbose);
    let start = Instant::now();
    if let Some(folder) = &bench.disk {
        // The disk is measured last: nobody should wait for the others to learn of a wrong word.
        disk::check(folder, &disk::Plan::quick())?;
    }
    let folder = bench.disk.clone().unwrap_or_else(|| PathBuf::from("."));
    let progress = Progress::new(&bench.voice)?;
    let mut parts = Parts::measure(&folder, &progress);
    drop(progress);
    let calibration = parts.calibration(&folder);
    if let Some(memory) = &mut parts.memory {
        memory_bench::set_beside(memory, Some(&calibration));
    }
    let code = parts.exit_code();
    let record = parts.record(&calibration, start.elapsed())?;
    // What was cut short, or computed by a machine that computes wrongly, is nothing to go by.
    let keeps = !matches!(code, INTERRUPTED | WRONG_DATA);
    let kept = keeps.then(|| calibration::keep(&record)).transpose();
    tell(&bench.voice, &record, "the figures", |out| {
        parts.render(out)?;
        heading("for other commands", out)?;
        report::render(&calibration, out)?;
        if let Ok(Some(path)) = &kept {
            let path = path.display();
            writeln!(out, "kept as {path}: plan, cp, bench mem and verdicts use it; weir report draws it")?;
        }
        Ok(())
    })?;
    if bench.voice.quiet || bench.voice.json {
        // Who reads the lines reads it there.
        calibration.missing.iter().for_each(|why| voice::warn(why));
    }
    kept?;
    Ok(code)
}

/// What the parts gave, as their own commands have it.
#[derive(Default)]
struct Parts {
    memory: Option<MemoryRecord>,
    codecs: Option<CodecsRecord>,
    ciphers: Option<CiphersRecord>,
    disk: Option<DiskRecord>,
    /// Which could not be measured, and why.
    failed: Vec<String>,
    interrupted: bool,
    wrong_data: bool,
}

impl Parts {
    /// One after another. The disk is last: what it still has to write would disturb the others.
    fn measure(folder: &Path, progress: &Progress) -> Parts {
        let mut parts = Parts::default();
        for part in [Parts::memory, Parts::codecs, Parts::ciphers] {
            if progress.stop.load(Relaxed) {
                break;
            }
            part(&mut parts, progress);
        }
        if !progress.stop.load(Relaxed) {
            parts.disk(folder, progress);
        }
        parts.interrupted |= progress.stop.load(Relaxed);
        parts
    }

    fn memory(&mut self, progress: &Progress) {
        match memory_bench::measure(&mem::Plan::quick(), progress) {
            Ok((memory, interrupted)) => {
                self.memory = Some(memory);
                self.interrupted |= interrupted;
            }
            Err(error) => self.failed.push(format!("memory: {error:#}")),
        }
    }

    fn codecs(&mut self, progress: &Progress) {
        let text = Corpus::generate(Kind::Text, TEXT);
        let sample = Sample::of(&text, SAMPLE_BLOCKS);
        match codec::measure(&settings(), &[1], &sample, (&Limits::within(SPAN), progress)) {
            Ok((rows, interrupted)) => {
                self.codecs = Some(codec::member(&sample, &rows, &[]));
                self.interrupted |= interrupted;
            }
            Err(error) => self.wrong("codecs", &error.to_string()),
        }
    }

    fn ciphers(&mut self, progress: &Progress) {
        match cipher::measure(&Limits::within(SPAN), Some(&Limits::within(SSH_SPAN)), progress) {
            Ok((ciphers, interrupted)) => {
                self.ciphers = Some(ciphers);
                self.interrupted |= interrupted;
            }
            Err(error) => self.wrong("ciphers", &error.to_string()),
        }
    }

    fn disk(&mut self, folder: &Path, progress: &Progress) {
        match super::disk::measure(folder, &disk::Plan::quick(), progress) {
            Ok((disk, interrupted)) => {
                self.disk = Some(disk);
                self.interrupted |= interrupted;
            }
            Err(error) => self.failed.push(format!("disk: {error:#}")),
        }
    }

    fn wrong(&mut self, part: &str, why: &str) {
        self.wrong_data = true;
        self.failed.push(format!("{part}: {why}"));
    }

    fn exit_code(&self) -> u8 {
        match (self.interrupted, self.wrong_data, self.failed.is_empty()) {
            (true, _, _) => INTERRUPTED,
            (false, true, _) => WRONG_DATA,
            (false, false, false) => 1,
            (false, false, true) => 0,
        }
    }

    /// What others go by, with the devices that were measured before on this host.
    fn calibration(&self, folder: &Path) -> CalibrationRecord {
        let mut found = CalibrationRecord { missing: self.failed.clone(), ..calibration::of_this_machine() };
        if let Some(disk) = &self.disk {
            found.disks.extend(DiskFigures::of(disk, found.taken));
            if found.disks.is_empty() {
                let folder = folder.display();
                found.missing.push(format!(
                    "a device: {folder} has none of its own, so its disk's figures are for nobody else"
                ));
            }
        }
        self.ciphers.iter().for_each(|ciphers| found.set_ciphers(ciphers));
        self.codecs.iter().for_each(|codecs| found.set_codecs(codecs));
        calibration::of_this_host().into_iter().for_each(|earlier| found.keep_disks(earlier));
        found
    }

    fn record(&self, calibration: &CalibrationRecord, span: Duration) -> serde_json::Result<Record> {
        let outcome = if self.exit_code() == 0 { RunOutcome::Complete } else { RunOutcome::Partial };
        let mut record = Record::new("bench", outcome, 0, span.as_secs_f64());
        let mut add = |name: &str, member: serde_json::Value| record.extra.insert(name.to_owned(), member);
        add("calibration", serde_json::to_value(calibration)?);
        for (name, member) in [
            ("mem", self.memory.as_ref().map(serde_json::to_value)),
            ("codecs", self.codecs.as_ref().map(serde_json::to_value)),
            ("ciphers", self.ciphers.as_ref().map(serde_json::to_value)),
            ("disk", self.disk.as_ref().map(serde_json::to_value)),
        ] {
            if let Some(member) = member.transpose()? {
                add(name, member);
            }
        }
        Ok(record)
    }

    fn render(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if let Some(memory) = &self.memory {
            writeln!(out, "memory")?;
            memory::render_levels(memory, out)?;
        }
        if let Some(codecs) = &self.codecs {
            heading("codecs", out)?;
            codecs::render_data(codecs, out)?;
            codecs::render_table(codecs, out)?;
        }
        if let Some(ciphers) = &self.ciphers {
            heading("ciphers", out)?;
            ciphers::render_table(ciphers, out)?;
        }
        if let Some(disk) = &self.disk {
            heading("disk", out)?;
            storage::render(disk, out)?;
        }
        Ok(())
    }
}

fn heading(text: &str, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "\n{text}")
}

/// All that a copy chooses from, since its chooser needs each of them or none, and of the other codecs the
/// usual level. More levels are `weir bench codec`'s: the slow ones alone would take as long again as all
/// else.
fn settings() -> Vec<Setting> {
    let of_copies =
        |codec: Codec| CANDIDATES.iter().filter(move |one| one.codec == codec.id()).map(|one| one.level);
    let all = Codec::all().flat_map(|codec| {
        let levels: Vec<i32> = of_copies(codec).collect();
        let levels = if levels.is_empty() { vec![codec.default_level()] } else { levels };
        levels.into_iter().filter_map(move |level| Setting::new(codec, level).ok())
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_of_a_copy_is_measured_once() {
        let names: Vec<String> = settings().iter().map(Setting::to_string).collect();
        for name in ["none", "lz4-1", "zstd-1", "zstd-12", "zstd-19", "zlib-6", "snappy"] {
            assert_eq!(names.iter().filter(|there| *there == name).count(), 1, "{name} in {names:?}");
        }
    }
}
