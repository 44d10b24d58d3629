//! Scene: a download is killed half-way; the same command resumes.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use weir_get::journal::Journal;
use weir_get::sink::home;
use weir_lab::child::{Running, Woken};
use weir_serve::{PATTERN_PERIOD, fill_pattern};
use weir_units::{Bytes, Rate};

use super::show::{SceneOutcome, Show, seconds, weir};

const SIZE: u64 = 256 << 20;

/// Slow enough that several journals are written before the middle.
const CAP: Rate = Rate(8e6);

const NAME: &str = "big.iso";

pub fn play(show: &mut Show) -> anyhow::Result<SceneOutcome> {
    show.title("resume: 256 MiB, killed by SIGKILL when about half is written, then the same command again")?;
    let files = || vec![(NAME.to_owned(), SIZE)];
    let server = show.serve(files(), Some(CAP))?;
    let (address, url) = (server.addresses()[0], format!("{}{NAME}", server.url()));
    let target = show.folder().join(NAME);
    let journals = watch(show.folder())?;
    let mut running = show.start_get(weir()?, &[&url])?;
    wait_for_half(&mut running, &journals, &target)?;
    running.kill();
    show.leave_live_line();
    let kept = say_what_is_kept(show, &target)?;
    server.stop();
    // The same address and the same file, only faster: how the second run goes on is what is to be seen.
    let server = show.serve_at(address, files(), None)?;
    let got = show.get(&[&url])?;
    drop(server);
    check_bytes(&target)?;
    let fetched = got.record.bytes;
    anyhow::ensure!(
        kept + fetched == SIZE,
        "{kept} bytes were kept and {fetched} fetched, the file has {SIZE}"
    );
    anyhow::ensure!(
        got.record.resumed == Some(kept),
        "{:?} bytes were resumed, {kept} were kept",
        got.record.resumed
    );
    show.see(&format!(
        "{} were kept, {} more fetched in {}; all {SIZE} bytes of {NAME} are compared and right",
        Bytes(kept),
        Bytes(fetched),
        seconds(got.wall)
    ))?;
    Ok(SceneOutcome::Shown)
}

/// Readable whenever a file in `folder` gets its name by a rename, as each journal does.
fn watch(folder: &Path) -> anyhow::Result<OwnedFd> {
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&events, folder, WatchFlags::MOVED_TO)?;
    Ok(events)
}

fn wait_for_half(running: &mut Running, journals: &OwnedFd, target: &Path) -> anyhow::Result<()> {
    let (_, journal) = home::names(target);
    let mut events = [0; 4096];
    while stored(&journal)? < SIZE / 2 {
        let woken = running.wait_or(journals.as_fd())?;
        anyhow::ensure!(woken == Woken::Ready, "the download ended before it could be killed");
        // What happened does not matter, the journal tells; the events only have to go.
        rustix::io::read(journals, &mut events).context("cannot watch the folder")?;
    }
    Ok(())
}

/// Bytes that the journal vouches for.
fn stored(journal: &Path) -> anyhow::Result<u64> {
    Ok(Journal::read(journal)?.map_or(0, |journal| journal.stored().len()))
}

fn say_what_is_kept(show: &Show, target: &Path) -> anyhow::Result<u64> {
    let (part, journal) = home::names(target);
    anyhow::ensure!(!target.exists(), "{NAME} has its name though it is not complete");
    let kept = stored(&journal)?;
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().display().to_string();
    show.say(&format!(
        "(killed) kept: {} with {} of {} according to {}; no {NAME} yet",
        name(&part),
        Bytes(kept),
        Bytes(SIZE),
        name(&journal)
    ))?;
    Ok(kept)
}

/// Compares every byte with what the server generates.
fn check_bytes(path: &Path) -> anyhow::Result<()> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut expected = vec![0; PATTERN_PERIOD as usize];
    fill_pattern(0, &mut expected);
    let mut found = expected.clone();
    let mut at = 0;
    while at < SIZE {
        let length = PATTERN_PERIOD.min(SIZE - at) as usize;
        file.read_exact(&mut found[..length]).context("the file is too short")?;
        anyhow::ensure!(
            found[..length] == expected[..length],
            "bytes differ from the server's after byte {at}"
        );
        at += length as u64;
    }
    anyhow::ensure!(file.metadata()?.len() == SIZE, "the file is too long");
    Ok(())
}
