//! `weir fleet check`: does the ledger say what is true?

use std::borrow::Cow;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use weir_fleet::FleetError;
use weir_fleet::ledger::{FleetLedger, FleetStatus, SqlLedger};
use weir_fleet::plan::check::{Compared, Difference, Side, compare};
use weir_fleet::plan::content::{ContentTarget, Contents};
use weir_fleet::plan::list::TargetNames;
use weir_fleet::plan::{Found, Listing};
use weir_observe::stage_clock::StageClock;
use weir_report::escape::escape;
use weir_store::caller::Caller;
use weir_store::environment::End;

use super::ends::{Asking, Planned, PlannedEnd, listed};
use super::work::below;
use crate::args::FleetCheck;
use crate::cmd::asked_store;
use crate::cmd::store_ends::{EndWords, StoreEnd};
use crate::interrupt::{self, INTERRUPTED};
use crate::voice::{Printed, Usage};

/// What was found.
#[derive(Debug, Serialize)]
struct Checked {
    complete: bool,
    planned: u64,
    done: u64,
    failed: u64,
    /// Objects of the plan that are in the ledger, counted one by one.
    counted: u64,
    /// Nothing is kept at a target of `/dev/null`.
    target: Option<Compared>,
    source: Option<Compared>,
    contents: Option<Contents>,
}

impl Checked {
    fn is_right(&self) -> bool {
        let contents = self.contents.as_ref().is_none_or(Contents::is_right);
        let target = self.target.as_ref().is_none_or(Compared::is_right);
        let source = self.source.as_ref().is_none_or(Compared::is_right);
        let counts = self.counted == self.planned && self.done == self.planned;
        self.complete && self.failed == 0 && counts && target && source && contents
    }
}

impl Checked {
    /// In one line, with the way out.
    fn conclusion(&self) -> Cow<'static, str> {
        Cow::Borrowed(match (self.is_right(), self.complete, &self.target) {
            (true, _, None) => "all is done",
            (true, _, Some(target)) if self.contents.is_none() && target.unsized_objects > 0 => {
                let count = target.unsized_objects;
                return Cow::Owned(format!("all is done, and there; the sizes of {count} are not known"));
            }
            (true, _, Some(_)) => "all is done, and there",
            (false, false, _) => "the fleet is not at its end",
            (false, true, _) if self.failed > 0 => {
                "not all is right; what failed: weir fleet export --state failed, then weir fleet retry"
            }
            (false, true, Some(target)) if target.missing + target.sizes > 0 => {
                "not all is right; remove what has another size, plan it again with another ledger, and \
                 what is right is left as it is"
            }
            (false, true, _) if self.has_unknown() => {
                "not all could be looked at; let this user read it and check again, or plan again with \
                 another ledger, and what is right is left as it is"
            }
            (false, true, _) => "not all is right",
        })
    }

    fn has_unknown(&self) -> bool {
        [&self.target, &self.source].into_iter().flatten().any(|compared| compared.unknown > 0)
    }
}

/// Checks. Returns the exit code.
pub fn run(check: &FleetCheck) -> anyhow::Result<u8> {
    let stop = interrupt::stop()?;
    let mut ledger = super::open(&check.ledger, &stop)?;
    let planned = Planned::of(&ledger.ends()?)?;
    let (store, ends, network) = (&check.store, &check.ends, &check.network);
    let asking = Asking { store, ends, network, stop: &stop };
    asking.fits(&planned)?;
    let status = ledger.status()?;
    let mut counted = 0;
    ledger.each_object(&mut |_| counted += 1)?;
    let target = match planned.target.keeps_nothing() {
        true => None,
        false => Some(at_target(&mut ledger, &planned.target, &asking)?),
    };
    let source = match check.source {
        true => Some(listed((&planned.source, End::Source), NAMES, &asking, |listing| {
            Ok(compare(&mut ledger, listing, Side::Source)?)
        })?),
        false => None,
    };
    let contents = match check.digests {
        true => Some(contents(&mut ledger, &planned, &asking)?),
        false => None,
    };
    if stop.load(Relaxed) {
        return Ok(INTERRUPTED);
    }
    let FleetStatus { complete, failed, .. } = status;
    let done = status.moved.objects + status.same.objects;
    let checked = Checked {
        complete,
        planned: status.planned.objects,
        done,
        failed,
        counted,
        target,
        source,
        contents,
    };
    say(check, &checked)?;
    Ok(u8::from(!checked.is_right()))
}

/// What either end takes as names: all that the other one has.
const NAMES: TargetNames = TargetNames::Keys(0);

/// Compares with what is at the target.
fn at_target(ledger: &mut SqlLedger, target: &PlannedEnd, asking: &Asking<'_>) -> anyhow::Result<Compared> {
    let target = match target {
        // Its names are those of the plan, whichever slash its own has.
        PlannedEnd::Path(path) => &PlannedEnd::Path(path.join("")),
        other => other,
    };
    if let PlannedEnd::Path(path) = target {
        let is_there = path.try_exists().with_context(|| format!("cannot read {}", path.display()))?;
        // No worker has made it yet.
        if !is_there {
            return Ok(compare(ledger, &mut Nothing, Side::Target)?);
        }
    }
    listed((target, End::Target), NAMES, asking, |listing| Ok(compare(ledger, listing, Side::Target)?))
}

/// The listing of a folder that is not there.
struct Nothing;

impl Listing for Nothing {
    fn next(&mut self) -> Result<Option<Found>, FleetError> {
        Ok(None)
    }

    fn has_own_targets(&self) -> bool {
        true
    }
}

/// Compares the content of what is done, object by object.
fn contents(ledger: &mut SqlLedger, planned: &Planned, asking: &Asking<'_>) -> anyhow::Result<Contents> {
    let url = match &planned.target {
        end if end.keeps_nothing() => {
            let why = "--digests reads the target, and /dev/null keeps nothing; leave it out";
            return Err(Usage(why.to_owned()).into());
        }
        PlannedEnd::Path(to) => {
            return each_content(ledger, planned, ContentTarget::Folder(to), asking.stop);
        }
        PlannedEnd::Store(url) => url,
        PlannedEnd::Web(_) => {
            let why = "--digests reads the target, a folder or a store; leave it out to compare sizes";
            return Err(Usage(why.to_owned()).into());
        }
    };
    let words = EndWords { both: asking.store, ends: asking.ends, network: asking.network };
    let end = StoreEnd::open(words, End::Target, url, asking.stop)?;
    let clock = StageClock::new(Instant::now());
    let caller = Box::new(Caller::new(asked_store::caller(&end.http, &clock, asking.stop)));
    each_content(ledger, planned, ContentTarget::Store(below(&end, url), caller), asking.stop)
}

fn each_content(
    ledger: &mut SqlLedger,
    planned: &Planned,
    mut to: ContentTarget<'_>,
    stop: &AtomicBool,
) -> anyhow::Result<Contents> {
    let from = match &planned.source {
        PlannedEnd::Path(from) => Some(from.as_path()),
        PlannedEnd::Store(_) | PlannedEnd::Web(_) => None,
    };
    let mut contents = Contents::default();
    ledger.each_row(&mut |object, row| {
        if row.state == "done" && !stop.load(Relaxed) {
            contents.compare(object, from, &mut to, stop);
        }
        Ok::<(), FleetError>(())
    })?;
    Ok(contents)
}

/// What was found at an end, in lines.
fn push_end(text: &mut String, end: &str, compared: &Compared) {
    let Compared { expected, agree, missing, sizes, others, .. } = compared;
    text.push_str(&format!(
        "{end}: {agree} of {expected} are there, {missing} are missing, {sizes} have another size; {others} others\n"
    ));
    if compared.unsized_objects > 0 {
        let count = compared.unsized_objects;
        text.push_str(&format!("  {count} have no known size: only their names were compared\n"));
    }
    if compared.unread > 0 {
        let (unread, unknown) = (compared.unread, compared.unknown);
        text.push_str(&format!(
            "  not all could be read ({unread} errors); {unknown} were not found, and are missing or in what \
             could not be read:\n"
        ));
        compared.reasons.iter().for_each(|why| text.push_str(&format!("  {}\n", escape(why))));
    }
    for (name, difference) in &compared.differ {
        let word = match difference {
            Difference::Missing => "missing",
            Difference::Size => "another size",
            Difference::Unknown => "not found",
        };
        text.push_str(&format!("  {}: {word}\n", escape(name)));
    }
    let more = compared.differing().saturating_sub(compared.differ.len() as u64);
    if more > 0 {
        text.push_str(&format!("  and {more} more\n"));
    }
}

fn say(check: &FleetCheck, checked: &Checked) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if check.json {
        return writeln!(out, "{}", serde_json::to_string(checked)?).printed("what was found");
    }
    let mut text = String::new();
    let Checked { planned, done, failed, counted, .. } = checked;
    text.push_str(&format!(
        "ledger: {planned} planned, {counted} in batches, {done} done, {failed} failed\n"
    ));
    let ends = [("target", checked.target.as_ref()), ("source", checked.source.as_ref())];
    for (end, compared) in ends.into_iter().filter_map(|(end, compared)| Some((end, compared?))) {
        push_end(&mut text, end, compared);
    }
    if let Some(Contents { compared, differ, unknown, named }) = &checked.contents {
        let compared = weir_units::counted(*compared, "object");
        text.push_str(&format!("content: {compared} compared, {differ} differ\n"));
        named.iter().for_each(|why| text.push_str(&format!("  {}\n", escape(why))));
        if *differ > named.len() as u64 {
            text.push_str(&format!("  and {} more\n", differ - named.len() as u64));
        }
        if *unknown > 0 {
            text.push_str(&format!(
                "  {unknown} were not compared: the manifest has no digest of them, and their source is no folder here\n"
            ));
        }
    }
    if checked.target.is_none() {
        text.push_str("target: nothing is kept in /dev/null, so the ledger was counted alone\n");
    }
    writeln!(out, "{text}{}", checked.conclusion()).printed("what was found")
}
