//! `weir fleet plan`: from two ends to a sealed plan in a ledger.

use std::io::Write;
use std::sync::Arc;

use weir_fleet::FleetError;
use weir_fleet::ledger::{LedgerPlace, Patience};
use weir_fleet::plan::list::ListListing;
use weir_fleet::plan::{Plan, PlanReport, PlanRules};
use weir_fleet::shell;
use weir_report::escape::escape;
use weir_store::environment::End;
use weir_units::{Bytes, counted};

use super::ends::{Asking, Planned, PlannedEnd, listed};
use crate::args::FleetPlan;
use crate::interrupt;
use crate::voice::{self, Printed, Usage};

/// Plans. Returns the exit code.
pub fn run(plan: &FleetPlan) -> anyhow::Result<u8> {
    voice::start_log(plan.quiet, plan.verbose);
    let planned = Planned { source: PlannedEnd::of(&plan.source)?, target: PlannedEnd::of(&plan.target)? };
    if let PlannedEnd::Web(url) = &planned.target {
        let why = "a fleet writes into folders and stores, not to web servers";
        return Err(Usage(format!("cannot plan to {url}: {why}")).into());
    }
    if plan.list.is_none() && planned.lies_in_itself() {
        let shown = escape(&plan.target.to_string_lossy()).into_owned();
        let why = "the target lies in the source; choose another, or name files by --list";
        return Err(Usage(format!("cannot plan to {shown}: {why}")).into());
    }
    let stop = interrupt::stop()?;
    let asking = Asking { store: &plan.store, ends: &plan.ends, network: &plan.network, stop: &stop };
    asking.fits(&planned)?;
    let place = LedgerPlace::parse(&plan.ledger).map_err(Usage)?;
    let patience = Patience { longest: super::PATIENCE, stop: Arc::clone(&stop) };
    let mut ledger = place.open_or_create(patience)?;
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let writing = Plan {
        ends: planned.ends(),
        copies_itself: asking.copies_itself(&planned),
        planner: format!("{host}, process {}", std::process::id()),
        rules: PlanRules { attempts: plan.attempts, ..PlanRules::default() },
        skip_bad: plan.skip_bad,
        stop: &stop,
    };
    let names = planned.target.names();
    let report = match &plan.list {
        Some(list) => {
            let root = planned.source.shown();
            let mut lines = match list.as_os_str().to_str() {
                Some("-") => ListListing::read(std::io::stdin().lock(), &root, names)?,
                _ => ListListing::open(list, &root, names)?,
            };
            writing.write(&mut ledger, &mut lines).map_err(anyhow::Error::from)
        }
        None => {
            let source = (&planned.source, End::Source);
            listed(source, names, &asking, |listing| Ok(writing.write(&mut ledger, listing)?))
        }
    };
    match report {
        Ok(report) => say(plan, ledger.place(), &report, planned.target.keeps_nothing()).map(|()| 0),
        Err(error) if matches!(error.downcast_ref(), Some(FleetError::Stopped)) => {
            let place = ledger.place();
            let what = format!("the plan in {place} is not whole; run the same command again to go on");
            Err(error.context(what))
        }
        Err(error) => Err(error),
    }
}

fn say(plan: &FleetPlan, place: &str, report: &PlanReport, keeps_nothing: bool) -> anyhow::Result<()> {
    for bad in report.bad.iter().filter(|_| !plan.quiet) {
        voice::warn(&format!("left out: {}", escape(bad)));
    }
    if report.bad_count > report.bad.len() as u64 && !plan.quiet {
        voice::warn(&format!("left out: {} more", report.bad_count - report.bad.len() as u64));
    }
    let mut out = std::io::stdout().lock();
    if plan.json {
        let line = serde_json::to_string(report)?;
        return writeln!(out, "{line}").printed("the plan");
    }
    if plan.quiet {
        return Ok(());
    }
    let PlanReport { added, before, batches, large, .. } = report;
    let mut text = format!(
        "planned {}, {}, in {}",
        counted(added.objects, "object"),
        Bytes(added.bytes),
        if *batches == 1 { "1 batch".to_owned() } else { format!("{batches} batches") }
    );
    if *before > 0 {
        text.push_str(&format!(", beside {before} of an interrupted plan"));
    }
    if *large > 0 {
        text.push_str(&format!("; {large} of them in ranges"));
    }
    let left = [
        (report.links, "symbolic link", " left out"),
        (report.specials, "special file", " left out"),
        (report.unsized_objects, "object", " without a size in the list"),
    ];
    for (count, what, verb) in left.into_iter().filter(|(count, ..)| *count > 0) {
        text.push_str(&format!("; {}{verb}", counted(count, what)));
    }
    if keeps_nothing {
        text.push_str("\nnothing is kept in /dev/null: objects are fetched and counted alone");
    }
    writeln!(out, "{text}\nmove them: weir fleet work --ledger {}", shell::word(place)).printed("the plan")
}
