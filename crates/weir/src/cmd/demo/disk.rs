//! Scene: the network is fast, the disk is slow; the page cache hides it at first.

use super::show::{Got, SceneOutcome, Show, limit, weir};
use crate::voice;
use weir_lab::slow_disk::{SlowDisk, SlowDiskConfig};
use weir_model::limit::Limit;
use weir_units::{Bytes, Rate};

const SIZE: u64 = 150_000_000;

const NAME: &str = "image.iso";

/// What the disk takes, and what may wait in memory for it: with the default limits, gigabytes would have to
/// be fetched to see anything. At 117 MB/s 32 MiB last for three intervals of evidence, so that the knee is
/// seen, and for a tenth of the run. The file system holds the file and its own tables.
const DISK: SlowDiskConfig =
    SlowDiskConfig { rate: Rate(30e6), dirty: Some(Bytes(32 << 20)), size: Bytes(400 << 20) };

/// Where it is mounted in the scene's folder.
const MOUNT: &str = "slow-disk";

/// A link of 1 Gbit/s, less its framing: slow enough that memory is not full at once.
const LINK: Rate = Rate(117e6);

pub fn play(show: &mut Show) -> anyhow::Result<SceneOutcome> {
    show.title(&format!(
        "disk: 150 MB at {LINK} onto a disk of {}, for which the kernel keeps at most {} waiting in memory",
        DISK.rate,
        DISK.dirty.unwrap_or_default()
    ))?;
    let disk = match SlowDisk::make(show.whole_folder(), &format!("disk/{MOUNT}"), &DISK) {
        Ok(disk) => disk,
        Err(error) if error.is_refusal() => {
            return Ok(SceneOutcome::Skipped(voice::words(&anyhow::Error::from(error))));
        }
        Err(error) => return Err(error.into()),
    };
    let server = show.serve(vec![(NAME.to_owned(), SIZE)], Some(LINK))?;
    let url = format!("{}{NAME}", server.url());
    let mut program = weir()?;
    disk.join(&mut program)?;
    let got = show.get_by(program, &[&url, "-o", &format!("{MOUNT}/")])?;
    show.see(&findings(&got))?;
    Ok(SceneOutcome::Shown)
}

fn findings(got: &Got) -> String {
    let throttled = Limit::DirtyThrottle.name();
    let phases = got.record.verdict.as_ref().map(|verdict| &verdict.phases[..]).unwrap_or_default();
    match phases.iter().find(|phase| phase.limit == throttled) {
        None => format!("{throttled} was expected, the verdict is {}: see its evidence", limit(got)),
        Some(knee) if knee.from > 0.0 => format!(
            "{} for the first {:.1} s, while memory took it all; after that knee {}, the pace of the disk",
            Rate(average(got, 0.0, knee.from)),
            knee.from,
            Rate(average(got, knee.from, knee.to))
        ),
        Some(_) => format!("{}: the disk set the pace from the start", Rate(got.record.rate)),
    }
}

/// The mean rate between two times of the run.
fn average(got: &Got, from: f64, to: f64) -> f64 {
    let samples = &got.record.samples;
    let ends = samples.iter().skip(1).map(|sample| sample.t).chain([got.record.seconds]);
    let bytes: f64 = (samples.iter().zip(ends))
        .map(|(sample, end)| sample.rate * (end.min(to) - sample.t.max(from)).max(0.0))
        .sum();
    if to > from { bytes / (to - from) } else { 0.0 }
}
