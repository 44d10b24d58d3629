//! `weir fleet check`: does the ledger say what is true?

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Context;
use serde::Serialize;
use weir_fleet::FleetError;
use weir_fleet::ledger::{FleetLedger, FleetStatus, SqlLedger};
use weir_fleet::object::FleetObject;
use weir_fleet::plan::check::{Compared, Difference, Side, compare};
use weir_fleet::plan::list::TargetNames;
use weir_fleet::plan::{Found, Listing};
use weir_report::escape::escape;

use super::ends::{Asking, Planned, PlannedEnd, listed};
use crate::args::FleetCheck;
use crate::interrupt::{self, INTERRUPTED};
use crate::voice::{Printed, Usage};

/// Read at once of a file that is compared.
const PIECE: usize = 256 << 10;

/// Files that are named.
const NAMED: usize = 1000;

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
    /// Files whose content was compared, and those whose content differs or cannot be read.
    contents: Option<(u64, Vec<String>)>,
}

impl Checked {
    fn is_right(&self) -> bool {
        let contents = self.contents.as_ref().is_none_or(|(_, differ)| differ.is_empty());
        let target = self.target.as_ref().is_none_or(Compared::is_right);
        let source = self.source.as_ref().is_none_or(Compared::is_right);
        let counts = self.counted == self.planned && self.done == self.planned;
        self.complete && self.failed == 0 && counts && target && source && contents
    }
}

/// Checks. Returns the exit code.
pub fn run(check: &FleetCheck) -> anyhow::Result<u8> {
    let stop = interrupt::stop()?;
    let mut ledger = super::open(&check.ledger, &stop)?;
    let planned = Planned::of(&ledger.ends()?)?;
    let asking = Asking { store: &check.store, network: &check.network, stop: &stop };
    let status = ledger.status()?;
    let mut counted = 0;
    ledger.each_object(&mut |_| counted += 1)?;
    let target = match &planned.target {
        // Its names are those of the plan, whichever slash its own has.
        PlannedEnd::Path(path) => &PlannedEnd::Path(path.join("")),
        other => other,
    };
    let names = TargetNames::Keys(0);
    let target = match target {
        _ if planned.target.keeps_nothing() => None,
        // No worker has made it yet.
        PlannedEnd::Path(path) if !path.exists() => Some(compare(&mut ledger, &mut Nothing, Side::Target)?),
        target => {
            Some(listed(target, names, &asking, |listing| Ok(compare(&mut ledger, listing, Side::Target)?))?)
        }
    };
    let source = match check.source {
        true => Some(listed(&planned.source, names, &asking, |listing| {
            Ok(compare(&mut ledger, listing, Side::Source)?)
        })?),
        false => None,
    };
    let contents = match check.digests {
        true => Some(contents(&mut ledger, &planned, &stop)?),
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

/// Compares the content of what is done, file by file.
fn contents(
    ledger: &mut SqlLedger,
    planned: &Planned,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<(u64, Vec<String>)> {
    let (PlannedEnd::Path(from), PlannedEnd::Path(to)) = (&planned.source, &planned.target) else {
        let why = "--digests reads both ends, and takes folders of this host; leave it out to compare sizes";
        return Err(Usage(why.to_owned()).into());
    };
    let (mut count, mut differ) = (0, Vec::new());
    ledger.each_row(&mut |object, row| {
        if row.state == "done" && !stop.load(Relaxed) {
            count += 1;
            if let Some(why) = difference(object, from, to)
                && differ.len() < NAMED
            {
                differ.push(why);
            }
        }
        Ok::<(), FleetError>(())
    })?;
    Ok((count, differ))
}

/// How the content of an object differs, in words.
fn difference(object: &FleetObject, from: &Path, to: &Path) -> Option<String> {
    let path = |root: &Path, name: &[u8]| {
        use std::os::unix::ffi::OsStrExt;
        // A file that was planned by itself has no name below itself.
        if name.is_empty() { root.to_owned() } else { root.join(std::ffi::OsStr::from_bytes(name)) }
    };
    let (from, to) = (path(from, &object.source), path(to, &object.target));
    match is_same(&from, &to) {
        Ok(true) => None,
        Ok(false) => Some(format!("{} differs from {}", to.display(), from.display())),
        Err(error) => Some(format!("{} cannot be compared: {error:#}", to.display())),
    }
}

fn is_same(from: &Path, to: &Path) -> anyhow::Result<bool> {
    let open = |path: &Path| -> anyhow::Result<File> {
        let shown = || format!("cannot read {}", path.display());
        // What is no file any more might not end.
        anyhow::ensure!(path.metadata().with_context(shown)?.is_file(), "{} is no file", path.display());
        File::open(path).with_context(shown)
    };
    let (mut from, mut to) = (open(from)?, open(to)?);
    let (mut one, mut other) = (vec![0; PIECE], vec![0; PIECE]);
    loop {
        let got = fill(&mut from, &mut one)?;
        if got != fill(&mut to, &mut other)? || one[..got] != other[..got] {
            return Ok(false);
        }
        if got < PIECE {
            return Ok(true);
        }
    }
}

/// Reads until it is full or the file ends.
fn fill(file: &mut File, piece: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < piece.len() {
        match file.read(&mut piece[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
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
        let Compared { expected, agree, missing, sizes, others, differ } = compared;
        text.push_str(&format!(
            "{end}: {agree} of {expected} are there, {missing} are missing, {sizes} have another size; {others} others\n"
        ));
        for (name, difference) in differ {
            let word = match difference {
                Difference::Missing => "missing",
                Difference::Size => "another size",
            };
            text.push_str(&format!("  {}: {word}\n", escape(name)));
        }
        let more = missing + sizes - differ.len() as u64;
        if more > 0 {
            text.push_str(&format!("  and {more} more\n"));
        }
    }
    if let Some((count, differ)) = &checked.contents {
        text.push_str(&format!("content: {count} files compared\n"));
        differ.iter().for_each(|why| text.push_str(&format!("  {}\n", escape(why))));
    }
    if checked.target.is_none() {
        text.push_str("target: nothing is kept in /dev/null, so the ledger was counted alone\n");
    }
    let verdict = match (checked.is_right(), checked.complete) {
        (true, _) if checked.target.is_none() => "all is done",
        (true, _) => "all is done, and there",
        (false, true) => "not all is right",
        (false, false) => "the fleet is not at its end",
    };
    writeln!(out, "{text}{verdict}").printed("what was found")
}
