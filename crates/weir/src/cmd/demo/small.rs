//! Scene: many small files; round trips that overlap.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::show::{Got, SceneOutcome, Show, cost, seconds, times};

const COUNT: usize = 1000;

const SIZE: u64 = 1024;

pub fn play(show: &mut Show) -> anyhow::Result<SceneOutcome> {
    show.title("small: 1000 files of 1 KiB, several at once and one after another")?;
    let names: Vec<String> = (0..COUNT).map(|number| format!("{number:03}.bin")).collect();
    let server = show.serve(names.iter().map(|name| (name.clone(), SIZE)).collect(), None)?;
    write_list(&show.folder().join("urls.txt"), &server.url(), &names)?;
    let together = show.get(&["-i", "urls.txt", "-o", "together/"])?;
    let in_turn = show.get(&["-i", "urls.txt", "-o", "in-turn/", "-j", "1"])?;
    for folder in ["together", "in-turn"] {
        all_there(&show.folder().join(folder), &names)?;
    }
    show.see(&findings(&together, &in_turn))?;
    Ok(SceneOutcome::Shown)
}

fn write_list(path: &Path, root: &str, names: &[String]) -> anyhow::Result<()> {
    let mut list = String::new();
    for name in names {
        writeln!(list, "{root}{name}")?;
    }
    Ok(fs::write(path, list)?)
}

fn all_there(folder: &Path, names: &[String]) -> anyhow::Result<()> {
    for name in names {
        let size = fs::metadata(folder.join(name))?.len();
        anyhow::ensure!(size == SIZE, "{name} has {size} bytes, {SIZE} were sent");
    }
    Ok(())
}

fn findings(together: &Got, in_turn: &Got) -> String {
    let (fast, slow) = (together.wall.as_secs_f64(), in_turn.wall.as_secs_f64());
    let ratio = if fast <= slow {
        format!("{} as long", times(slow, fast))
    } else {
        format!("and at once {} as long", times(fast, slow))
    };
    format!(
        "at once {}, {:.0} files a second; one after another {}, {ratio}",
        cost(together),
        COUNT as f64 / fast,
        seconds(in_turn.wall)
    )
}
