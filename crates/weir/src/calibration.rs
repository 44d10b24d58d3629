//! This host's calibration: what `weir bench host --local` once measured of it, kept for later runs of other
//! commands.
//!
//! A record of weir's, `host.json` in the cache folder, which `weir report` reads too. Whoever uses a figure
//! of it says so, with its date. It is advice from a file that anything may have happened to: one that is cut
//! off, too long, of another host or with implausible figures counts as none, and never stops a command.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde::Deserialize;
use weir_codec::cipher::Cipher;
use weir_codec::codec::Setting;
use weir_cp::speeds::Speeds;
use weir_model::chooser::Candidate;
use weir_model::evidence::{DiskAlone, Facts};
use weir_observe::cpuinfo;
use weir_observe::disk::{DiskReader, block_device};
use weir_report::calibration::{CalibrationRecord, DiskFigures};
use weir_report::escape::escape;
use weir_report::schema::{Record, SCHEMA};

use crate::cache;

/// A calibration's record is some 20 KB.
const LONGEST: u64 = 1 << 20;

/// The calibration of this host, if there is one. Looked for once in a run.
pub fn of_this_host() -> Option<&'static CalibrationRecord> {
    static KEPT: OnceLock<Option<CalibrationRecord>> = OnceLock::new();
    let find = || {
        let path = path()?;
        let kept = read(&path).inspect_err(|why| tracing::debug!("no calibration: {why}")).ok()?;
        let here = of_this_machine();
        if !kept.is_of(&here) {
            tracing::info!(
                "{} is not used: it is of {}, {} processors {}; weir bench host --local measures this host",
                path.display(),
                escape(&kept.host),
                kept.processors,
                escape(&kept.processor)
            );
            return None;
        }
        Some(kept)
    };
    KEPT.get_or_init(find).as_ref()
}

/// A calibration of this machine that has no figures yet.
pub fn of_this_machine() -> CalibrationRecord {
    let name = rustix::system::uname();
    let processors = cpuinfo::read().unwrap_or_default();
    CalibrationRecord {
        taken: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        host: name.nodename().to_string_lossy().into_owned(),
        processor: processors.model,
        processors: processors.count,
        kernel: name.release().to_string_lossy().into_owned(),
        ..CalibrationRecord::default()
    }
}

/// Keeps the record of one, and says where.
pub fn keep(record: &Record) -> anyhow::Result<PathBuf> {
    let path =
        path().context("the calibration cannot be kept: neither XDG_CACHE_HOME nor HOME names a folder")?;
    let mut text = serde_json::to_vec(record)?;
    text.push(b'\n');
    cache::keep(&path, &text)
        .with_context(|| format!("the calibration cannot be kept as {}", path.display()))?;
    Ok(path)
}

/// `host.json` beside the plans that are kept.
pub fn path() -> Option<PathBuf> {
    cache::folder().map(|folder| folder.join("host.json"))
}

fn read(path: &Path) -> Result<CalibrationRecord, String> {
    let mut text = Vec::new();
    // A pipe in its place would be waited for.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).and_then(|file| {
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("not a regular file")),
        }
    });
    file.and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text))
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if text.len() as u64 > LONGEST {
        return Err(format!("{} is longer than any calibration", path.display()));
    }
    parse(&text).map_err(|why| format!("{}: {why}", path.display()))
}

/// Only what is gone by: the tables beside it are for reports.
fn parse(text: &[u8]) -> Result<CalibrationRecord, String> {
    #[derive(Deserialize)]
    struct Kept {
        schema: String,
        calibration: CalibrationRecord,
    }
    let Kept { schema, calibration } =
        serde_json::from_slice(text).map_err(|error| escape(&error.to_string()).into_owned())?;
    match (schema == SCHEMA, calibration.is_sound()) {
        (false, _) => Err("a record of another version".to_owned()),
        (true, false) => Err("implausible figures".to_owned()),
        (true, true) => Ok(calibration),
    }
}

/// Words for whoever goes by a figure: `this host's calibration of 2026-11-22`.
pub fn origin(date: &str) -> String {
    format!("this host's calibration of {date}")
}

/// What the two ends of a copy are told of this machine.
pub fn speeds() -> Speeds {
    let Some(calibration) = of_this_host() else { return Speeds::default() };
    let cipher = |name: &str| Cipher::by_name(name);
    let candidate = |name: &str| {
        let setting: Setting = name.parse().ok()?;
        Some(Candidate { codec: setting.codec().id(), level: setting.level() })
    };
    let ciphers = calibration.ciphers.iter().filter_map(|one| Some((cipher(&one.name)?, one.rate)));
    let codecs = calibration.codecs.iter().filter_map(|one| Some((candidate(&one.name)?, one.rate)));
    Speeds { ciphers: ciphers.collect(), codecs: codecs.collect() }
}

/// The device that holds `path`, where it was measured.
pub fn disk_of(path: &Path) -> Option<&'static DiskFigures> {
    let calibration = of_this_host().filter(|calibration| !calibration.disks.is_empty())?;
    let device = block_device(path).and_then(DiskReader::open).and_then(|mut reader| reader.read()).ok()?;
    disk_named(calibration, &device.name)
}

fn disk_named<'a>(calibration: &'a CalibrationRecord, device: &str) -> Option<&'a DiskFigures> {
    calibration.disks.iter().find(|disk| disk.device == device)
}

/// Adds what the device under the output took alone. Only for facts whose device is one of this host.
pub fn set_disk_alone(facts: &mut Facts) {
    let disk = facts.disk.as_deref().and_then(|device| disk_named(of_this_host()?, device));
    facts.disk_alone = disk.map(|disk| DiskAlone { write: disk.write, read: disk.read, date: disk.date() });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_calibration() {
        let sound = r#"{"schema":"weir.run/1","calibration":{"taken":1,"ciphers":[{"name":"aes-128-gcm","rate":2e9}]}}"#;
        assert_eq!(parse(sound.as_bytes()).unwrap().ciphers[0].rate, 2e9);
        let deep = format!(r#"{{"schema":"weir.run/1","mem":{}"#, "[".repeat(100_000));
        for text in [
            "",
            "{}",
            "[]",
            &sound[..sound.len() - 9],
            &sound.replace("run/1", "run/2"),
            &sound.replace("2e9", "NaN"),
            &sound.replace("2e9", "-1"),
            &sound.replace("2e9", "1e999"),
            &sound.replace("2e9", "\"fast\""),
            &sound.replace("2e9", "null"),
            &sound.replace("\"taken\":1", "\"taken\":-1"),
            &sound.replace("{\"taken\":1", "{\"taken\":1,\"taken\":1"),
            &sound.replace("calibration", "calibrations"),
            &deep,
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text:.200}");
        }
    }
}
