//! Scene: one large file, and the same by curl.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::show::{Got, SceneOutcome, Show, cost, seconds, times};
use weir_units::Bytes;

const SIZE: u64 = 1 << 30;

/// Beyond the file: file systems slow down when they are nearly full.
const SPARE: u64 = 256 << 20;

const NAME: &str = "large.iso";

pub fn play(show: &mut Show) -> anyhow::Result<SceneOutcome> {
    show.title("large: one file of 1 GiB from a server that is as fast as it can be")?;
    let free = free(show.folder())?;
    if free < SIZE + SPARE {
        return Ok(SceneOutcome::Skipped(format!(
            "{} has only {} free",
            show.folder().display(),
            Bytes(free)
        )));
    }
    warm_up(show)?;
    let server = show.serve(vec![(NAME.to_owned(), SIZE)], None)?;
    let url = format!("{}{NAME}", server.url());
    let got = show.get(&[&url])?;
    // Removed first, so that both write a new file and the kernel has no bytes of the other to store
    // meanwhile.
    fs::remove_file(show.folder().join(NAME))?;
    let by_curl = by_curl(show, &url)?;
    show.see(&format!("{}{}", findings(&got, by_curl), where_it_lies(show.folder())?))?;
    Ok(SceneOutcome::Shown)
}

/// Writes and removes as much as will be fetched, so that all find the same memory in use: pages that a
/// virtual machine never touched before are several times slower, and the first to run would pay for all of
/// them.
fn warm_up(show: &Show) -> anyhow::Result<()> {
    show.say(
        "(first 1 GiB is written and removed, so that neither client pays for memory that was never used)",
    )?;
    let path = show.folder().join("warm-up");
    let mut file = fs::File::create(&path)?;
    let piece = vec![1; 1 << 20];
    let mut left = SIZE;
    while left > 0 {
        anyhow::ensure!(!show.is_stopped(), "interrupted");
        file.write_all(&piece)?;
        left -= piece.len() as u64;
    }
    Ok(fs::remove_file(path)?)
}

fn by_curl(show: &Show, url: &str) -> anyhow::Result<Option<Duration>> {
    let there = Command::new("curl")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let wall = show.run("curl", &["-sSf", "-O", url])?;
    let size = fs::metadata(show.folder().join(NAME))?.len();
    anyhow::ensure!(size == SIZE, "curl left {} of {}", Bytes(size), Bytes(SIZE));
    Ok(Some(wall))
}

fn findings(weir: &Got, curl: Option<Duration>) -> String {
    let own = format!("weir took {}", cost(weir));
    let Some(curl) = curl else { return format!("{own}; curl is not installed") };
    let (fast, slow) = (weir.wall.as_secs_f64(), curl.as_secs_f64());
    let ratio = match fast / slow {
        near if (0.95..1.05).contains(&near) => "about the same".to_owned(),
        less if less < 1.0 => format!("{} as long", times(slow, fast)),
        _ => format!("so weir took {} as long", times(fast, slow)),
    };
    format!("{own}; curl {}, {ratio} (one run each)", seconds(curl))
}

/// Bytes that this user can still store.
fn free(folder: &Path) -> anyhow::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// A remark where no disk is involved.
fn where_it_lies(folder: &Path) -> anyhow::Result<&'static str> {
    /// TMPFS_MAGIC of linux/magic.h.
    const TMPFS: u64 = 0x0102_1994;
    let in_memory = rustix::fs::statfs(folder)?.f_type as u64 == TMPFS;
    Ok(if in_memory { "; the files lay in memory (tmpfs)" } else { "" })
}
