//! Scene: a server that caps each connection; lanes multiply the rate.

use super::show::{Got, SceneOutcome, Show, limit, seconds, times};
use weir_model::limit::Limit;
use weir_units::Rate;

const SIZE: u64 = 96_000_000;

const CAP: Rate = Rate(8e6);

const NAME: &str = "capped.iso";

pub fn play(show: &mut Show) -> anyhow::Result<SceneOutcome> {
    show.title(&format!("capped: 96 MB from a server that gives each connection {CAP}"))?;
    let server = show.serve(vec![(NAME.to_owned(), SIZE)], Some(CAP))?;
    let url = format!("{}{NAME}", server.url());
    let single = show.get(&["-c", "1", &url, "-o", "single.iso"])?;
    let many = show.get(&[&url])?;
    show.see(&findings(&single, &many))?;
    Ok(SceneOutcome::Shown)
}

fn findings(single: &Got, many: &Got) -> String {
    let lanes = many.record.connections.unwrap_or(1);
    // Rightly so: a link of this rate looks the same.
    let blind = if limit(single) == Limit::RateLimit.name() { "" } else { " (one alone cannot show a cap)" };
    format!(
        "one connection: {} and the verdict {}{blind}; left to itself weir opened {lanes} and took {}, {} the rate",
        Rate(single.record.rate),
        limit(single),
        seconds(many.wall),
        times(many.record.rate, single.record.rate)
    )
}
