//! Scene: the main job. A sender on a slow path is held by its own small buffer; the verdict says so, the fix
//! is tried.

use std::io;

use anyhow::Context;
use weir_lab::run::{Lab, RunFindings, ScenarioOutcome as Ran};
use weir_lab::scenario::{self, Side};
use weir_report::schema::{Record, RunOutcome as RecordOutcome};
use weir_report::terminal;
use weir_units::Rate;

use super::show::{SceneOutcome, Show, times};
use crate::voice::{self, Printed};

/// A published measurement: SO_SNDBUF of 16 KiB on 100 Mbit/s and 20 ms.
const SCENARIO: &str = "b1";

pub fn play(show: &mut Show) -> anyhow::Result<SceneOutcome> {
    show.title(
        "slow-path: a sender with SO_SNDBUF of 16 KiB, over an emulated 100 Mbit/s and 20 ms round trip",
    )?;
    if let Some(error) = show.no_lab() {
        return Ok(SceneOutcome::Skipped(error.to_string()));
    }
    let weir = std::env::current_exe().context("cannot find this program's own file")?;
    let lab = Lab { weir, stop: show.stop().clone() };
    show.say(&format!("$ weir lab run {SCENARIO}"))?;
    let ran = match lab.run(&scenario::shipped(SCENARIO)?) {
        Ok(ran) => ran,
        Err(error) if error.is_refusal() => {
            return Ok(SceneOutcome::Skipped(voice::words(&anyhow::Error::from(error))));
        }
        Err(error) => return Err(error.into()),
    };
    summary(&ran.seen)?;
    if let Some(then) = &ran.then {
        show.say(&format!("then {}:", then.what))?;
        summary(&then.outcome.seen)?;
    }
    show.see(&findings(&ran))?;
    Ok(SceneOutcome::Shown)
}

/// What the sender's own sockets showed, watched from outside.
fn summary(seen: &RunFindings) -> anyhow::Result<()> {
    let mut record = Record::new("lab", RecordOutcome::Complete, seen.bytes, seen.seconds);
    if let Some((evidence, verdict)) = seen.evidence.get(&Side::Sender).zip(seen.verdicts.get(&Side::Sender))
    {
        record = record.with_verdict(evidence, verdict);
    }
    terminal::render_summary(&record, voice::sheet(&io::stdout()), &mut io::stdout().lock())
        .printed("what it shows")
}

fn findings(ran: &Ran) -> String {
    let before = ran.seen.bytes as f64 / ran.seen.seconds;
    let Some(then) = &ran.then else { return format!("{} before", Rate(before)) };
    let predicted = match (then.predicted, then.error()) {
        (Some(rate), Some(error)) => format!(", {} were predicted ({:+.0} %)", Rate(rate), error * 100.0),
        _ => String::new(),
    };
    format!(
        "one small buffer a round trip is {}; {}, and it is {}, {} as much{predicted}",
        Rate(before),
        then.what,
        Rate(then.achieved),
        times(then.achieved, before)
    )
}
