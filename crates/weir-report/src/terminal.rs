//! The summary after a run, for people: about sixteen rows of plain text, none wider than its sheet.
//!
//! ```text
//! received 2.15 GB in 5.73 s: 375 MB/s over 1 connection -> big.iso
//! limit: cpu-core 100 % of the time (confidence 97 %)
//!   lane 0's thread used 97 % of one core: 61 % receive, 33 % write
//!   written 375 MB/s (2.15 GB), on disk 0 B/s (0 B; sda, all its writers)
//! ruled out: rate-limit, application, latency, dirty-throttle, disk, reader, verify
//! advice: use more connections (-c 2): 14 processors idle; would bring about 750 MB/s
//! ```

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use weir_units::{Bytes, Rate, counted};

use crate::escape::escape;
use crate::figures::fine_duration;
use crate::fold::{Sheet, fold};
use crate::schema::{AdviceRecord, FileRecord, Record, RunOutcome, VerdictRecord, of_row};

/// The rows of a summary: two thirds of the smallest terminal. What of the evidence and the advice has no
/// room there is in the record.
const ROWS: usize = 16;

/// Failed files that are named.
const FAILURES: usize = 10;

/// How an error says what is to be done, which then is not said again.
const RESUMES: &str = "run the same command again to resume";

/// The same where what is kept cannot be resumed.
const STARTS_AGAIN: &str = "the same command starts again";

/// Notes that are shown one by one; a list of a thousand odd files has one cause.
const NOTES: usize = 5;

/// Shares of the run below this are not listed.
const SMALL: f64 = 0.005;

/// A run below this that failed in nothing is told in its first lines alone: what held back a quarter of a
/// second is worth asking for (`-v`, `--json`), not five lines after each small file.
const WORTH_A_VERDICT: f64 = 0.25;

/// Writes as much of the summary as people want unasked: the first lines of a short run, and of one that
/// failed (what limits a run that ended in an error is the error), all of it otherwise.
pub fn render_brief(record: &Record, sheet: Sheet, out: &mut dyn Write) -> io::Result<()> {
    if record.outcome != RunOutcome::Failed && record.seconds >= WORTH_A_VERDICT {
        return render_summary(record, sheet, out);
    }
    write(&head(record, Paint(sheet.colour)), sheet, out)
}

/// Writes the summary. Colours mark the limit and errors, nothing else.
pub fn render_summary(record: &Record, sheet: Sheet, out: &mut dyn Write) -> io::Result<()> {
    let paint = Paint(sheet.colour);
    let mut lines = head(record, paint);
    if let Some(verdict) = &record.verdict {
        lines.push(limit_line(verdict, paint));
        let mut tail = tail(verdict);
        let rows = |line: &String| fold(line, sheet.columns).lines().count();
        let first = evidence(verdict).next();
        let least: usize = lines.iter().chain(&first).chain(&tail).map(rows).sum();
        if verdict.advice.len() > 1 && least > ROWS {
            tail.pop();
        }
        let mut room = ROWS.saturating_sub(lines.iter().chain(&tail).map(rows).sum());
        for (at, line) in evidence(verdict).enumerate() {
            let taken = rows(&line);
            // A limit without a number that shows it is only claimed.
            if at > 0 && taken > room {
                break;
            }
            room = room.saturating_sub(taken);
            lines.push(line);
        }
        lines.extend(tail);
    }
    write(&lines, sheet, out)
}

/// Writes a verdict alone: of the way back, where a test went both ways.
pub fn render_verdict(verdict: &VerdictRecord, sheet: Sheet, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = vec![limit_line(verdict, Paint(sheet.colour))];
    lines.extend(evidence(verdict).take(2).chain(tail(verdict)));
    write(&lines, sheet, out)
}

fn evidence(verdict: &VerdictRecord) -> impl Iterator<Item = String> {
    verdict.evidence.iter().map(|line| format!("  {}", escape(line)))
}

fn write(lines: &[String], sheet: Sheet, out: &mut dyn Write) -> io::Result<()> {
    lines.iter().try_for_each(|line| writeln!(out, "{}", fold(line, sheet.columns)))
}

/// What is said in place of a rate: nothing was to do, or it was only asked what would be done.
pub(crate) fn instead_of_rate(record: &Record) -> Option<String> {
    let left = left_alone(record).or_else(|| hosts_have_it(record));
    left.or_else(|| dry_run(record).filter(|_| is_worth_a_rate(record)))
}

/// A failure that brought nothing is told by its error alone.
fn is_worth_a_rate(record: &Record) -> bool {
    record.bytes > 0 || record.outcome != RunOutcome::Failed
}

/// What happened to the bytes. Another program's may have gone either way.
pub(crate) fn verb(record: &Record) -> &'static str {
    match record.command.as_str() {
        "why" => "carried",
        "cp" => "copied",
        "put" => "sent",
        "bench" if has_sent_alone(record) => "sent",
        "fleet" | "fleet run" | "fleet work" => "moved",
        _ => "received",
    }
}

/// A test whose receiver did not tell what came.
fn has_sent_alone(record: &Record) -> bool {
    record.extra.get("net").is_some_and(|net| net.get("received").is_none_or(Value::is_null))
}

/// What was moved, and what failed.
fn head(record: &Record, paint: Paint) -> Vec<String> {
    let told = instead_of_rate(record).or_else(|| is_worth_a_rate(record).then(|| rate_line(record)));
    let mut lines: Vec<String> = told.into_iter().collect();
    lines.extend(unproven(record));
    lines.extend(notes(&record.files));
    if let Some(error) = &record.error {
        lines.push(format!("{} {}", paint.error("weir:"), escape(error)));
    }
    let failed: Vec<&FileRecord> = record.files.iter().filter(|file| file.error.is_some()).collect();
    for file in failed.iter().take(FAILURES) {
        let error = file.error.as_deref().unwrap_or_default();
        lines.push(format!("{} {}: {}", paint.error("failed:"), escape(&file.url), escape(error)));
    }
    if record.failed() > FAILURES as u64 {
        let way = if record.command == "get" { "; --json-files FILE lists all" } else { "" };
        lines.push(format!("{} {} more{way}", paint.error("failed:"), record.failed() - FAILURES as u64));
    }
    let not_begun = record.counts.as_ref().map_or(0, |counts| counts.not_begun);
    if not_begun > 0 {
        lines.push(format!("not begun: {not_begun} files"));
    }
    let is_said = |error: &String| error.contains(RESUMES) || error.contains(STARTS_AGAIN);
    let says_it = |error: &Option<String>| error.as_ref().is_some_and(is_said);
    let all_say_it = record.failed() as usize == failed.len()
        && failed.len() <= FAILURES
        && (says_it(&record.error) || !failed.is_empty() && failed.iter().all(|file| says_it(&file.error)));
    // A measurement has nothing to resume; of many hosts each has a line of its own.
    let resumes = record.command != "bench" && record.hosts().is_empty();
    if record.outcome == RunOutcome::Partial && resumes && !all_say_it {
        let earlier = record.files.iter().map(|file| file.resumed_from).chain(record.resumed).sum::<u64>();
        let words = match record.bytes + earlier {
            0 => "nothing has arrived yet: the same command starts again",
            _ => "incomplete: run the same command again to resume",
        };
        lines.push(words.to_owned());
    }
    lines
}

/// What was passed over, left out or overridden: one line a note, those of many files counted.
fn notes(files: &[FileRecord]) -> Vec<String> {
    let all = || files.iter().flat_map(|file| file.notes.iter().map(move |note| (file, note)));
    let mut lines: Vec<String> = all()
        .take(NOTES)
        .map(|(file, note)| match files {
            [_] => format!("note: {}", escape(note)),
            _ if file.path.is_empty() => format!("note: {}: {}", escape(&file.url), escape(note)),
            _ => format!("note: {}: {}", escape(&file.path), escape(note)),
        })
        .collect();
    if all().count() > NOTES {
        lines.push(format!("note: {} more", all().count() - NOTES));
    }
    lines
}

/// What a watch did not count, beside what it did.
fn unproven(record: &Record) -> Option<String> {
    let why = record.extra.get("why")?;
    crate::why::unproven_line(&serde_json::from_value(why.clone()).ok()?)
}

/// How the files of a run ended, in numbers.
struct Tally {
    all: u64,
    skipped: u64,
    unchanged: u64,
    failed: u64,
}

impl Tally {
    fn of(record: &Record) -> Tally {
        if let Some(counts) = &record.counts {
            // A foreign record may count any number.
            let sum = |of: &[u64]| of.iter().fold(0_u64, |sum, next| sum.saturating_add(*next));
            return Tally {
                all: sum(&[counts.files, counts.bad_lines]),
                skipped: counts.skipped,
                unchanged: counts.unchanged,
                failed: sum(&[counts.failed, counts.partial, counts.bad_lines, counts.not_begun]),
            };
        }
        let count =
            |is_so: fn(&FileRecord) -> bool| record.files.iter().filter(|file| is_so(file)).count() as u64;
        Tally {
            all: record.files.len() as u64,
            skipped: count(|file| file.skipped),
            unchanged: count(|file| file.unchanged),
            failed: count(|file| file.error.is_some()),
        }
    }
}

/// `left alone: DIR/NAME exists`, where nothing else was to do.
fn left_alone(record: &Record) -> Option<String> {
    let Tally { all, skipped, unchanged, .. } = Tally::of(record);
    match record.files.as_slice() {
        [only] if all == 1 && only.skipped => Some(format!("left alone: {} exists", escape(&only.path))),
        [only] if all == 1 && only.unchanged => {
            Some(format!("left alone: {} is the same on the server", escape(&only.path)))
        }
        _ if all == 0 => None,
        _ if skipped == all => Some(format!("left alone: all {skipped} files exist")),
        _ if unchanged == all => {
            Some(format!("left alone: all {unchanged} files are the same on the server"))
        }
        _ => None,
    }
}

/// `2 deleted, `; nothing of none.
fn deleted(count: u64) -> String {
    if count == 0 { String::new() } else { format!("{count} deleted, ") }
}

/// `left alone: all 3 hosts have it`, if there was nothing to send to the hosts that were reached.
fn hosts_have_it(record: &Record) -> Option<String> {
    let rows = record.hosts();
    let is_complete = |row: &&Value| row.get("outcome").and_then(Value::as_str) == Some("complete");
    let has_it = |row: &&Value| {
        let [files, unchanged, deleted] = ["files", "unchanged", "deleted"].map(|name| of_row(row, name));
        files > 0 && files == unchanged && deleted == 0
    };
    let complete: Vec<&Value> = rows.iter().filter(is_complete).collect();
    if record.bytes > 0 || complete.is_empty() || !complete.iter().all(has_it) {
        return None;
    }
    Some(match (complete.len(), rows.len()) {
        (1, 1) => "left alone: the host has it".to_owned(),
        (have, all) if have == all => format!("left alone: all {all} hosts have it"),
        (have, all) => format!("left alone: {have} of {all} hosts have it"),
    })
}

/// `nothing was copied or deleted (-n): 2 files would be copied`, of a run that was only asked for it.
fn dry_run(record: &Record) -> Option<String> {
    if !record.is_dry_run() {
        return None;
    }
    let Some(put) = record.extra.get("put") else {
        return Some(format!("nothing was copied or deleted (-n){}", would(record)));
    };
    let bytes = put.get("would_send").and_then(Value::as_u64).unwrap_or(0);
    Some(format!("nothing was sent (-n): {}, {}", counted(record.files.len() as u64, "file"), Bytes(bytes)))
}

fn rate_line(record: &Record) -> String {
    let Tally { all, skipped, unchanged, failed } = Tally::of(record);
    let here = all.saturating_sub(failed + skipped + unchanged);
    let mut files = match (all, failed + skipped + unchanged) {
        // A copy lists only those that failed.
        _ if record.command == "cp" => copied(record),
        (0 | 1, _) => String::new(),
        (all, 0) => format!("{all} files, "),
        (all, _) => format!("{here} of {all} files, "),
    };
    if skipped > 0 {
        files.push_str(&format!("{skipped} left alone because they exist, "));
    }
    if unchanged > 0 {
        files.push_str(&format!("{unchanged} left alone because they are the same on the server, "));
    }
    let connections = record.connections.or(record.files.iter().map(|file| file.connections).max());
    let over = match connections {
        None | Some(0) => String::new(),
        Some(1) => " over 1 connection".to_owned(),
        Some(connections) => format!(" over {connections} connections"),
    };
    if let Some(earlier) = record.counts.as_ref().map(|counts| counts.earlier).filter(|earlier| *earlier > 0)
    {
        files.push_str(&format!("{earlier} complete since an earlier run, "));
    }
    let resumed = match record.resumed.filter(|resumed| *resumed > 0) {
        Some(resumed) => format!(" after the {} of an earlier run", Bytes(resumed)),
        None => String::new(),
    };
    format!(
        "{} {files}{} in {}: {}{over}{resumed}{}",
        verb(record),
        Bytes(record.bytes),
        duration(record.seconds),
        Rate(record.rate),
        destination(record)
    )
}

/// `: 2 files would be copied, 1 entry deleted`, where a dry run saw all of it.
fn would(record: &Record) -> String {
    let whole = record.outcome == RunOutcome::Complete;
    let Some(would) = record.extra.get("would").filter(|_| whole) else { return String::new() };
    let of = |what: &str| would.get(what).and_then(Value::as_u64).unwrap_or(0);
    let deleted = match of("delete") {
        0 => String::new(),
        1 => ", 1 entry deleted".to_owned(),
        count => format!(", {count} entries deleted"),
    };
    match of("copy") {
        0 if deleted.is_empty() => ": all is there".to_owned(),
        1 => format!(": 1 file would be copied{deleted}"),
        count => format!(": {count} files would be copied{deleted}"),
    }
}

/// `3 files to 7 of 8 hosts, `, `3 files to 8 hosts, 16 deleted, `.
fn copied_to(record: &Record, rows: &[Value]) -> String {
    let hosts = counted(rows.len() as u64, "host");
    let deleted = deleted(record.of_hosts("deleted"));
    let files = match record.of_copy("files") {
        0 => String::new(),
        files => format!("{} ", counted(files, "file")),
    };
    match record.of_copy("failed") {
        0 => format!("{files}to {hosts}, {deleted}"),
        _ => format!("{files}to {} of {hosts}, {deleted}", record.of_copy("complete")),
    }
}

/// `100000 files, `, `3 of 100000 files (the others are there), `; nothing of a single file that was copied.
fn copied(record: &Record) -> String {
    let rows = record.hosts();
    if !rows.is_empty() {
        return copied_to(record, rows);
    }
    let (files, unchanged) = (record.of_copy("files"), record.of_copy("unchanged"));
    let deleted = deleted(record.of_copy("deleted"));
    let failed = record.of_copy("failed");
    match (files, unchanged.min(files)) {
        (files, 0) if failed > 0 => format!("{files} of {} files, {deleted}", files + failed),
        (0 | 1, 0) if deleted.is_empty() => deleted,
        (1, 0) => format!("1 file, {deleted}"),
        (files, 0) => format!("{files} files, {deleted}"),
        (1, _) => format!("0 of 1 file (it is there), {deleted}"),
        (files, same) if same == files => format!("0 of {files} files (all are there), {deleted}"),
        (files, same) => format!("{} of {files} files (the others are there), {deleted}", files - same),
    }
}

/// `1.08 s`.
fn duration(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "unknown time".to_owned(), fine_duration)
}

/// ` -> PATH` of the one file, or of the folder that all share; nothing for a file that did not get there.
fn destination(record: &Record) -> String {
    let files = &record.files;
    if let Some(counts) = record.counts.as_ref().filter(|_| !record.lists_all()) {
        return if counts.folder.is_empty() {
            String::new()
        } else {
            format!(" -> {}", escape(&counts.folder))
        };
    }
    let [first, rest @ ..] = files.as_slice() else { return String::new() };
    if rest.is_empty() && first.error.is_some() {
        return String::new();
    }
    let path = if rest.is_empty() {
        first.path.clone()
    } else {
        match Path::new(&first.path).parent() {
            Some(folder) if rest.iter().all(|file| Path::new(&file.path).parent() == Some(folder)) => {
                format!("{}/", folder.display())
            }
            _ => return String::new(),
        }
    };
    match path.as_str() {
        "" | "/" => String::new(),
        "-" => " -> standard output".to_owned(),
        path => format!(" -> {}", escape(path)),
    }
}

fn limit_line(verdict: &VerdictRecord, paint: Paint) -> String {
    let Some(limit) = &verdict.limit else {
        let why = verdict.missing.first().map(|why| format!(" ({})", escape(why))).unwrap_or_default();
        return format!("limit: {}{why}", paint.limit("not known"));
    };
    let mut shares: Vec<(&String, f64)> =
        verdict.shares.iter().map(|(limit, share)| (limit, *share)).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let listed: Vec<String> = shares
        .iter()
        .filter(|(_, share)| *share >= SMALL)
        .map(|(name, share)| {
            let name = escape(name);
            let word = if **limit == name { paint.limit(&name) } else { name.into_owned() };
            format!("{word} {:.0} %", share * 100.0)
        })
        .collect();
    let sure = format!("(confidence {:.0} %)", verdict.confidence * 100.0);
    if verdict.shares.contains_key(limit) {
        format!("limit: {} of the time {sure}", listed.join(", "))
    } else {
        format!("limit: {}: {} of the time {sure}", paint.limit(&escape(limit)), listed.join(", "))
    }
}

/// What was ruled out, what was not seen, what to do.
fn tail(verdict: &VerdictRecord) -> Vec<String> {
    let mut lines = Vec::new();
    if !verdict.innocent.is_empty() {
        // Each text begins with its limit's name; the numbers are in the record.
        let names: Vec<&str> = verdict
            .innocent
            .iter()
            .map(|text| text.split_once(':').map_or(text.as_str(), |(name, _)| name))
            .collect();
        lines.push(format!("ruled out: {}", escape(&names.join(", "))));
    }
    for line in &verdict.not_visible {
        lines.push(format!("not visible from here: {}", escape(line)));
    }
    // Without a limit its line has told the first of them.
    let missing = verdict.missing.get(usize::from(verdict.limit.is_none())..).unwrap_or_default();
    if !missing.is_empty() {
        lines.push(format!("not seen: {}", escape(&missing.join("; "))));
    }
    lines.extend(verdict.advice.iter().take(2).map(advice_line));
    lines
}

fn advice_line(advice: &AdviceRecord) -> String {
    match advice.predicted_rate {
        Some(rate) => format!("advice: {}; would bring about {}", escape(&advice.action), Rate(rate)),
        None => format!("advice: {}", escape(&advice.action)),
    }
}

/// Colour, or none.
#[derive(Debug, Clone, Copy)]
struct Paint(bool);

impl Paint {
    /// Bold yellow.
    fn limit(self, text: &str) -> String {
        if self.0 { format!("\x1b[1;33m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Bold red.
    fn error(self, text: &str) -> String {
        if self.0 { format!("\x1b[1;31m{text}\x1b[0m") } else { text.to_owned() }
    }
}
