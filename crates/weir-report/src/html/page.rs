//! The whole page: head, what happened, one part after the other, foot.

use super::markup::Markup;
use super::style::{POLICY, STYLE};
use super::words::{bytes, has_rate, kind, percent, rate, sentence, short, subject, time};
use super::{Run, chart, compare, limits, members, verdict};
use crate::schema::{FileRecord, Record, RunOutcome};
use weir_units::counted;

/// What the page says made it: by this a page is known as one that may be replaced.
pub const GENERATOR: &str = "weir report";

/// Files that are listed, at most; failed ones come first.
const FILES: usize = 200;

/// The page of these runs, at least one.
pub fn render(runs: &[Run]) -> String {
    let mut page = Markup::default();
    page.fixed("<!doctype html>\n");
    page.within("html", &[("lang", "en")], |page| {
        page.within("head", &[], |page| head(page, runs));
        page.within("body", &[], |page| {
            limits::patterns(page);
            match runs {
                [only] => one(page, only),
                more => compare::render(page, more),
            }
            page.within("footer", &[("class", "end")], |page| {
                page.leaf(
                    "p",
                    &[],
                    &format!(
                        "Made by weir {} from its records. This page loads nothing and runs nothing.",
                        env!("CARGO_PKG_VERSION")
                    ),
                );
            });
        });
    });
    page.into_text()
}

fn head(page: &mut Markup, runs: &[Run]) {
    page.empty("meta", &[("charset", "utf-8")]);
    page.empty("meta", &[("http-equiv", "Content-Security-Policy"), ("content", POLICY)]);
    page.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    page.empty("meta", &[("name", "generator"), ("content", GENERATOR)]);
    page.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    let title = match runs {
        [only] => format!("weir {}: {}", kind(&only.record), sentence(&only.record)),
        more => format!("weir: {} compared", counted(more.len() as u64, "run")),
    };
    page.leaf("title", &[], &short(&title, 200));
    page.within("style", &[], |page| page.fixed(STYLE));
}

fn one(page: &mut Markup, run: &Run) {
    let record = &run.record;
    page.within("header", &[("class", "top")], |page| {
        page.leaf("p", &[("class", "eyebrow")], &eyebrow(record));
        page.leaf("h1", &[], &short(&heading(record), 160));
        lead(page, record);
        notices(page, run);
        facts(page, record);
    });
    page.within("main", &[], |page| parts(page, record, "h2"));
}

/// `weir get, complete`.
pub(crate) fn eyebrow(record: &Record) -> String {
    let outcome = match record.outcome {
        RunOutcome::Complete => "complete",
        RunOutcome::Partial => "incomplete",
        RunOutcome::Failed => "failed",
    };
    format!("weir {}, {outcome}", short(&kind(record), 40))
}

/// What the run was of.
pub fn heading(record: &Record) -> String {
    match subject(record) {
        none if none.is_empty() => format!("A run of weir {}", kind(record)),
        subject => subject,
    }
}

/// What happened and what held it, in two sentences.
pub(crate) fn lead(page: &mut Markup, record: &Record) {
    page.within("p", &[("class", "lead")], |page| {
        page.text(&sentence(record));
        let Some(verdict) = &record.verdict else { return };
        let sure = percent(verdict.confidence.min(1.0));
        match verdict.limit.as_deref() {
            Some("mixed") => {
                page.text(" It was held by several limits in turn: ");
                let shares = chart::shares::ordered(verdict);
                let names: Vec<String> = shares
                    .iter()
                    .take(3)
                    .map(|(limit, share)| format!("{} {}", limits::title(limit), percent(*share)))
                    .collect();
                page.leaf("strong", &[], &names.join(", "));
                page.text(".");
            }
            Some(limit) => {
                page.text(" It was held by ");
                page.leaf("strong", &[], &limits::title(limit));
                page.text(&format!(" (confidence {sure}): {}.", limits::look(limit).meaning));
            }
            None => {
                let why = verdict.missing.first().map(|why| format!(" ({})", short(why, 200)));
                page.text(&format!(" What held it is not known{}.", why.unwrap_or_default()));
            }
        }
    });
}

/// What went wrong, in the run and in the reading of its record.
pub(crate) fn notices(page: &mut Markup, run: &Run) {
    let (failed, hosts) = (run.record.failed(), run.record.hosts().len());
    if let Some(error) = &run.record.error {
        page.within("p", &[("class", "failed")], |page| {
            page.leaf("strong", &[], "Error: ");
            page.text(error);
        });
    }
    if failed > 0 {
        page.within("p", &[("class", "failed")], |page| {
            page.leaf("strong", &[], &format!("{} failed", counted(failed, "file")));
            let all = failed <= run.record.files.len().min(FILES) as u64;
            page.text(if all { "; they are listed below." } else { "; the first of them are listed below." });
        });
    }
    let lacking = run.record.of_copy("failed");
    if hosts > 0 && lacking > 0 {
        page.within("p", &[("class", "failed")], |page| {
            page.leaf("strong", &[], &format!("{lacking} of {} failed", counted(hosts as u64, "host")));
            page.text("; all are listed below.");
        });
    }
    for note in run.notes.iter().take(10) {
        page.leaf("p", &[("class", "notice")], &format!("Of {}: {note}", run.name));
    }
}

/// The figures one looks for first.
fn facts(page: &mut Markup, record: &Record) {
    let mut facts: Vec<(&str, String, String)> = Vec::new();
    // Of a path that was measured the member has the figures.
    if has_rate(record) && record.command != "bench" {
        facts.push(("Rate", rate(record.rate), String::new()));
        let resumed = record.resumed.map(|resumed| format!("after {} of an earlier run", bytes(resumed)));
        facts.push(("Moved", bytes(record.bytes), resumed.unwrap_or_default()));
        facts.push(("Time", time(record.seconds), String::new()));
        if let Some(connections) = record.connections.filter(|connections| *connections > 0) {
            facts.push(("Connections", connections.to_string(), "at one time".to_owned()));
        }
        if let Some(rate) = record.written_rate {
            let disk = record.disk_rate.map(|disk| format!("the device took {}", self::rate(disk)));
            facts.push(("Written", self::rate(rate), disk.unwrap_or_default()));
        }
        if let Some(memory) = record.peak_memory {
            facts.push(("Memory", bytes(memory), "at the most".to_owned()));
        }
    }
    facts.extend(members::facts(record));
    if facts.is_empty() {
        return;
    }
    page.within("dl", &[("class", "facts")], |page| {
        for (name, value, note) in &facts {
            page.within("div", &[], |page| {
                page.leaf("dt", &[], name);
                page.within("dd", &[], |page| {
                    page.text(value);
                    if !note.is_empty() {
                        page.leaf("small", &[], note);
                    }
                });
            });
        }
    });
}

/// All parts of a run, under headings of this level.
pub fn parts(page: &mut Markup, record: &Record, level: &'static str) {
    let held = |page: &mut Markup| {
        chart::pipeline::render(page, record);
        chart::rate::render(page, record);
    };
    section(page, level, "What happened", held);
    if let Some(verdict) = &record.verdict {
        verdict::render(page, verdict, record.rate, level);
    }
    section(page, level, "Lanes", |page| chart::lanes::render(page, record));
    members::render(page, record, level);
    section(page, level, "Files", |page| files(page, &record.files));
}

/// A part with its heading; nothing where it is empty.
pub fn section(page: &mut Markup, level: &'static str, title: &str, inside: impl FnOnce(&mut Markup)) {
    let mut content = page.nested();
    inside(&mut content);
    if content.is_empty() {
        return page.rejoin(content);
    }
    page.within("section", &[], |page| {
        page.leaf(level, &[], title);
        page.rejoin(content);
    });
}

fn files(page: &mut Markup, files: &[FileRecord]) {
    if files.is_empty() {
        return;
    }
    // First what failed, then what has to be said of files that came.
    let mut ordered: Vec<&FileRecord> = files.iter().collect();
    ordered.sort_by_key(|file| (file.error.is_none(), file.notes.is_empty()));
    page.within("ul", &[("class", "plain card")], |page| {
        ordered.into_iter().take(FILES).for_each(|file| one_file(page, file));
        if files.len() > FILES {
            page.leaf("li", &[], &format!("{} more", files.len() - FILES));
        }
    });
}

fn one_file(page: &mut Markup, file: &FileRecord) {
    page.within("li", &[], |page| {
        page.leaf("strong", &[], if file.path.is_empty() { &file.url } else { &file.path });
        if file.bytes > 0 {
            page.text(&format!(" {}", bytes(file.bytes)));
        }
        if !file.path.is_empty() {
            page.leaf("small", &[], &file.url);
        }
        if let Some(error) = &file.error {
            page.leaf("small", &[], &format!("failed: {error}"));
        }
        for note in &file.notes {
            page.leaf("small", &[], &format!("note: {note}"));
        }
        if file.skipped {
            page.leaf("small", &[], "left alone: it exists");
        }
        if file.unchanged {
            page.leaf("small", &[], "left alone: it is the same on the server");
        }
        if file.resumed_from > 0 {
            page.leaf("small", &[], &format!("went on from {}", bytes(file.resumed_from)));
        }
        if let Some(digest) = &file.digest {
            page.leaf("small", &[], &format!("{} {}", digest.alg, digest.hex));
        }
    });
}
