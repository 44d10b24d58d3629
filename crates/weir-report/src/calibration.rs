//! What `weir bench host --local` adds to a record: the figures of this host that other commands go by, with
//! their date.
//!
//! A record that is kept and read again by later runs may have been changed by anyone:
//! [`CalibrationRecord::is_sound`] says whether its figures can be what was once measured.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_units::Rate;

use crate::ciphers::CiphersRecord;
use crate::codecs::CodecsRecord;
use crate::escape::escape;
use crate::storage::DiskRecord;

/// The record size of ciphers that counts: a block as `weir cp` sends it.
const BLOCK: usize = 1 << 20;

/// Disks that are kept, at most, those measured last; no host has had more of them measured by hand.
const DISKS: usize = 32;

/// Rows of ciphers and of codecs, at most.
const ROWS: usize = 256;

/// The longest name that is believed.
const NAME: usize = 256;

/// The fastest that anything on one host is, and the slowest that anyone waits for, bytes per second.
const SENSIBLE: std::ops::RangeInclusive<f64> = 1.0..=1e15;

/// The end of the year 9999: later dates are not written with four digits.
const LAST: u64 = 253_402_300_799;

/// The member `calibration` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CalibrationRecord {
    /// When it was taken: seconds since 1970, UTC.
    pub taken: u64,
    /// The host's name: of a home folder that several hosts share each has its own figures.
    pub host: String,
    /// The processor, as it calls itself; empty where it does not.
    pub processor: String,
    /// How many processors are online.
    pub processors: u32,
    /// The kernel's release.
    pub kernel: String,
    /// Each device that was measured, this time or before.
    pub disks: Vec<DiskFigures>,
    /// weir's ciphers, on one core.
    pub ciphers: Vec<Figure>,
    /// The cipher that ssh takes unless it is told another, and what ssh and sshd make of it over loopback.
    pub ssh: Option<Figure>,
    /// The one of ssh's that is the fastest.
    pub ssh_fastest: Option<Figure>,
    /// What one core compresses, by setting.
    pub codecs: Vec<Figure>,
    /// What could not be measured, and why.
    pub missing: Vec<String>,
}

/// Bytes per second of something that has a name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figure {
    /// `aes-128-gcm`, `zstd-3`.
    pub name: String,
    /// Bytes per second.
    pub rate: f64,
}

/// A block device, from a folder on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskFigures {
    /// As the kernel calls it: `vda`.
    pub device: String,
    /// When: seconds since 1970, UTC.
    pub taken: u64,
    /// Where it was written to.
    pub folder: String,
    /// Bytes per second that the device took.
    pub write: Option<f64>,
    /// Bytes per second in order that it gave of what was not in memory.
    pub read: Option<f64>,
    /// Bytes per second that memory took for it.
    pub buffered: Option<f64>,
    /// Bytes after which writes were paced; `null` where they were not.
    pub knee: Option<f64>,
}

impl DiskFigures {
    /// What a measurement says; `None` of a folder that has no block device of its own.
    pub fn of(disk: &DiskRecord, taken: u64) -> Option<DiskFigures> {
        // What the device took under writes that were paced lasts longest; else the better of two short looks
        // past memory.
        let paced = disk.buffered.and_then(|buffered| buffered.on_disk_rate);
        let short = [disk.direct_write, disk.synced].into_iter().flatten().reduce(f64::max);
        Some(DiskFigures {
            device: disk.device.clone()?,
            taken,
            folder: disk.folder.clone(),
            write: paced.or(short),
            read: disk.read_cold.or(disk.read_direct),
            buffered: disk.buffered.map(|buffered| buffered.rate),
            knee: disk.buffered.and_then(|buffered| buffered.knee_bytes),
        })
    }

    /// The day on which it was measured.
    pub fn date(&self) -> String {
        date(self.taken)
    }

    fn is_sound(&self) -> bool {
        let rates = [self.write, self.read, self.buffered, self.knee];
        named(&self.device)
            && self.folder.len() <= 1 << 14
            && self.taken <= LAST
            && rates.into_iter().flatten().all(|rate| SENSIBLE.contains(&rate))
    }
}

impl CalibrationRecord {
    /// Takes what the ciphers' table says.
    pub fn set_ciphers(&mut self, ciphers: &CiphersRecord) {
        let rows = ciphers.rows.iter().filter(|row| row.record == BLOCK);
        self.ciphers = rows.map(|row| Figure { name: row.cipher.clone(), rate: row.seal.rate }).collect();
        let ssh = || ciphers.ssh.iter().map(|row| Figure { name: row.cipher.clone(), rate: row.speed.rate });
        self.ssh = ssh().find(|row| Some(&row.name) == ciphers.ssh_usual.as_ref());
        self.ssh_fastest = ssh().max_by(|a, b| a.rate.total_cmp(&b.rate));
    }

    /// Takes what the codecs' table says of one thread.
    pub fn set_codecs(&mut self, codecs: &CodecsRecord) {
        let rows = codecs.rows.iter().filter(|row| row.threads == 1 && row.codec != "none");
        self.codecs = rows.map(|row| Figure { name: row.codec.clone(), rate: row.compress.rate }).collect();
    }

    /// Takes over the devices that only `earlier` has, the latest first.
    pub fn keep_disks(&mut self, earlier: &CalibrationRecord) {
        let known = |device: &str| self.disks.iter().any(|disk| disk.device == device);
        let mut others: Vec<DiskFigures> =
            earlier.disks.iter().filter(|disk| !known(&disk.device)).cloned().collect();
        others.sort_by_key(|disk| std::cmp::Reverse(disk.taken));
        self.disks.extend(others);
        self.disks.truncate(DISKS);
    }

    /// Whether this was taken on a host like that: name, processor and their number.
    pub fn is_of(&self, other: &CalibrationRecord) -> bool {
        (&self.host, &self.processor, self.processors) == (&other.host, &other.processor, other.processors)
    }

    /// Whether all its figures are ones that a measurement can have.
    pub fn is_sound(&self) -> bool {
        let rows = [&self.ciphers, &self.codecs];
        let single = [&self.ssh, &self.ssh_fastest];
        let figures = rows.into_iter().flatten().chain(single.into_iter().flatten());
        let sizes = rows.iter().all(|rows| rows.len() <= ROWS) && self.disks.len() <= DISKS;
        sizes
            && self.taken <= LAST
            && figures.into_iter().all(|figure| named(&figure.name) && SENSIBLE.contains(&figure.rate))
            && self.disks.iter().all(DiskFigures::is_sound)
    }

    /// The day on which it was taken.
    pub fn date(&self) -> String {
        date(self.taken)
    }

    /// The fastest of weir's ciphers.
    pub fn fastest_cipher(&self) -> Option<&Figure> {
        self.ciphers.iter().max_by(|a, b| a.rate.total_cmp(&b.rate))
    }
}

fn named(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME
}

/// `2026-11-22`: the day, in UTC, of a moment in seconds since 1970.
pub fn date(seconds: u64) -> String {
    let mut days = seconds.min(LAST) / 86_400;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    // At most eight thousand steps, up to LAST.
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    format!("{year:04}-{:02}-{:02}", month + 1, days + 1)
}

/// What others go by, for people, after the tables that it was taken from.
pub fn render(calibration: &CalibrationRecord, out: &mut dyn Write) -> io::Result<()> {
    calibration.disks.iter().try_for_each(|disk| render_disk(disk, out))?;
    let mut figure = |what: &str, figure: Option<&Figure>| match figure {
        Some(Figure { name, rate }) => writeln!(out, "{what} {} by {}", Rate(*rate), escape(name)),
        None => Ok(()),
    };
    figure("one of weir's threads encrypts", calibration.fastest_cipher())?;
    figure("ssh encrypts", calibration.ssh.as_ref())?;
    figure("ssh -c encrypts", calibration.ssh_fastest.as_ref())?;
    calibration.missing.iter().try_for_each(|why| writeln!(out, "not measured: {}", escape(why)))
}

/// `disk vda  written 430 MB/s, read 1.2 GB/s (2026-11-22)`.
pub(crate) fn render_disk(disk: &DiskFigures, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "disk {}  {}", escape(&disk.device), disk_words(disk))
}

/// `written 430 MB/s, read 1.2 GB/s (2026-11-22)`.
fn disk_words(disk: &DiskFigures) -> String {
    let part = |word: &str, rate: Option<f64>| rate.map(|rate| format!("{word} {}", Rate(rate)));
    let parts: Vec<String> =
        [part("written", disk.write), part("read", disk.read)].into_iter().flatten().collect();
    format!("{} ({})", if parts.is_empty() { "no rates".to_owned() } else { parts.join(", ") }, disk.date())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (86_400, "1970-01-02"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_767_225_599, "2025-12-31"),
            (1_795_305_600, "2026-11-22"),
            (4_107_542_400, "2100-03-01"),
            (LAST, "9999-12-31"),
            (u64::MAX, "9999-12-31"),
        ] {
            assert_eq!(date(seconds), day, "{seconds}");
        }
    }

    fn disk(device: &str, taken: u64) -> DiskFigures {
        DiskFigures {
            device: device.into(),
            taken,
            write: Some(4e8),
            read: Some(1.2e9),
            ..DiskFigures::default()
        }
    }

    #[test]
    fn devices_that_were_not_measured_again_stay() {
        let mut now = CalibrationRecord { disks: vec![disk("vda", 200)], ..CalibrationRecord::default() };
        let others = (0..40).map(|index| disk(&format!("sd{index}"), index));
        let before = CalibrationRecord {
            disks: others.chain([disk("vda", 100)]).collect(),
            ..CalibrationRecord::default()
        };
        now.keep_disks(&before);
        assert_eq!(now.disks.len(), DISKS);
        assert_eq!(now.disks[..2], [disk("vda", 200), disk("sd39", 39)]);
    }

    #[test]
    fn figures_that_no_measurement_has() {
        let sound = CalibrationRecord {
            disks: vec![disk("vda", 1)],
            ciphers: vec![Figure { name: "aes".into(), rate: 2e9 }],
            ..CalibrationRecord::default()
        };
        assert!(sound.is_sound() && CalibrationRecord::default().is_sound());
        let changed = |change: fn(&mut CalibrationRecord)| {
            let mut record = sound.clone();
            change(&mut record);
            record
        };
        for unsound in [
            changed(|record| record.ciphers[0].rate = f64::NAN),
            changed(|record| record.ciphers[0].rate = -1.0),
            changed(|record| record.ciphers[0].rate = 0.0),
            changed(|record| record.ciphers[0].name = "x".repeat(999)),
            changed(|record| record.ssh = Some(Figure { name: String::new(), rate: 1e9 })),
            changed(|record| record.disks[0].read = Some(f64::INFINITY)),
            changed(|record| record.disks[0].device = String::new()),
            changed(|record| record.disks[0].taken = u64::MAX),
            changed(|record| record.disks = vec![disk("vda", 1); 99]),
            changed(|record| record.taken = u64::MAX),
        ] {
            assert!(!unsound.is_sound(), "{unsound:?}");
        }
    }

    #[test]
    fn names_from_a_file_are_escaped() {
        let mut record = CalibrationRecord {
            disks: vec![disk("v\u{1b}[2Jda", 1_795_305_600)],
            ..CalibrationRecord::default()
        };
        record.ssh = Some(Figure { name: "aes".into(), rate: 2.1e9 });
        let mut out = Vec::new();
        render(&record, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "disk v\\u{1b}[2Jda  written 400 MB/s, read 1.20 GB/s (2026-11-22)\nssh encrypts 2.10 GB/s by aes\n";
        assert_eq!(text, expected);
        assert!(disk_words(&DiskFigures::default()).starts_with("no rates"));
    }
}
