//! The parts of the view, each into its pane.

use std::time::Duration;

use ratatui_core::style::{Modifier, Style};
use weir_units::{Bytes, counted};

use super::fit::Part;
use super::pane::Pane;
use super::{Lane, Look, Snapshot};
use crate::figures::percent_done;
use crate::html::words::{percent, rate as rate_in_words, short};
use crate::progress::{amount, connections, percent as percent_of_all, rounded};
use crate::stages::{Stage, narrowest};

/// Draws one part.
pub(super) fn draw(part: Part, pane: &mut Pane<'_>, snapshot: &Snapshot, look: Look) {
    match part {
        Part::Head => head(pane, snapshot, look),
        Part::Progress => progress(pane, snapshot, look),
        Part::Limit => limit(pane, snapshot, look),
        Part::Reasons => reasons(pane, snapshot, look),
        Part::Pipeline if pane.height() < snapshot.stages.len() => pipeline_in_a_row(pane, snapshot, look),
        Part::Pipeline => pipeline(pane, snapshot, look),
        Part::Rate => rate(pane, snapshot, look),
        Part::Lanes => lanes(pane, snapshot, look),
        Part::Files => files(pane, snapshot, look),
        Part::Log => log(pane, snapshot, look),
        Part::Keys => {
            pane.put(0, 0, &snapshot.keys, look.aside());
        }
    }
}

fn head(pane: &mut Pane<'_>, snapshot: &Snapshot, look: Look) {
    let since = rounded(Duration::from_secs(snapshot.elapsed.as_secs()));
    let room = pane.width().saturating_sub(since.len() + 7);
    let at = pane.put(0, 0, "weir ", look.title());
    let at = pane.put(0, at, &short(&snapshot.title, room), look.title());
    pane.put_right(0, at, &since, look.aside());
}

/// Columns from which a bar of what is done is worth some of them.
const GAUGE: usize = 60;

/// Columns from which `limit: ` is.
const NAMED: usize = 28;

fn progress(pane: &mut Pane<'_>, snapshot: &Snapshot, look: Look) {
    let now = &snapshot.progress;
    let mut at = 0;
    if let Some(total) = now.total.filter(|total| *total > 0 && !now.at_least && pane.width() >= GAUGE) {
        let columns = pane.width() / 4;
        pane.bar(0, 0, columns, now.done as f64 / total as f64, (look, Style::new()));
        at = columns + 1;
    }
    // Its place beside a bar stays the same; without one there may be no room for a space.
    let percent = percent_of_all(now).map(|text| if at > 0 { text } else { text.trim_start().to_owned() });
    let parts = [percent, Some(rate_in_words(now.rate)), amount(now), connections(now.lanes)];
    for (index, text) in parts.into_iter().flatten().enumerate() {
        // What does not fit as a whole would say something else.
        if index > 0 && at + text.chars().count() > pane.width() {
            continue;
        }
        at = pane.put(0, at, &text, if index == 0 { look.title() } else { Style::new() }) + 2;
    }
}

fn limit(pane: &mut Pane<'_>, snapshot: &Snapshot, look: Look) {
    let left = snapshot.progress.left().map(|left| format!("{} left", rounded(left)));
    // The name says more than the word before it.
    let at = if pane.width() < NAMED { 0 } else { pane.put(0, 0, "limit: ", look.title()) };
    let Some((name, share)) = snapshot.shares.first() else {
        let at = pane.put(0, at, "not known yet", Style::new());
        pane.put_right(0, at, &left.unwrap_or_default(), Style::new());
        return;
    };
    let style = look.limit(name).add_modifier(Modifier::BOLD);
    let mut at = pane.put(0, at, &format!("{name} {}", percent(*share)), style);
    let room = pane.width().saturating_sub(left.as_ref().map_or(0, |left| left.chars().count() + 2));
    for (name, share) in snapshot.shares.iter().skip(1).filter(|(_, share)| *share >= 0.05) {
        let text = format!("{name} {}", percent(*share));
        if at + 2 + text.len() <= room {
            at = pane.put(0, at, ", ", Style::new());
            at = pane.put(0, at, &text, look.limit(name));
        }
    }
    let aside = " of the last 2 s";
    if at + aside.len() <= room {
        at = pane.put(0, at, aside, look.aside());
    }
    if let Some(left) = left {
        pane.put_right(0, at, &left, look.title());
    }
}

fn reasons(pane: &mut Pane<'_>, snapshot: &Snapshot, look: Look) {
    for (row, reason) in snapshot.reasons.iter().take(pane.height()).enumerate() {
        pane.put(row, 2, reason, look.aside());
    }
}

/// A row for each stage: the pipe, the name, the load as a bar, and what it is.
fn pipeline(pane: &mut Pane<'_>, snapshot: &Snapshot, look: Look) {
    let narrowest = narrowest(&snapshot.stages);
    let columns = (pane.width() / 3).saturating_sub(5).clamp(4, 40);
    for (row, stage) in snapshot.stages.iter().enumerate() {
        let holds = narrowest == Some(row);
        let style =
            if holds || stage.held >= crate::stages::HELD { look.limit(&stage.limit) } else { Style::new() };
        let (pipe, marked) = if look.blocks { ("│", "▶") } else { ("|", ">") };
        pane.put(row, 0, if holds { marked } else { pipe }, style.add_modifier(Modifier::BOLD));
        let name = if holds { style.add_modifier(Modifier::BOLD | Modifier::REVERSED) } else { Style::new() };
        pane.put(row, 2, stage.name, name);
        let at = 10;
        match stage.narrowness() {
            Some(load) => {
                pane.bar(row, at, columns, load, (look, style));
                pane.put(row, at + columns, &format!("{:>6}", percent(load)), style);
            }
            None => {
                let nothing = if look.blocks { "·" } else { "-" };
                pane.put(row, at, &nothing.repeat(columns), look.aside());
                pane.put(row, at + columns, "     -", look.aside());
            }
        }
        pane.put(row, at + columns + 8, &words(stage, holds), if holds { style } else { look.aside() });
    }
}

/// `receive-window, held 82 %, at most 1.80 MB/s (rate x round trip filled the receive window to 98 %)`.
fn words(stage: &Stage, holds: bool) -> String {
    let mut text = stage.limit.clone();
    if holds {
        text.push_str(&format!(", {}", stage.words()));
    }
    if let Some(ceiling) = stage.ceiling {
        text.push_str(&format!(", at most {}", rate_in_words(ceiling)));
    }
    text.push_str(&format!(" ({})", stage.basis));
    text
}

/// All stages in one row: `Source 3 % Path 61 % >Receive 98 %< Core 4 %`, from the one that holds on where
/// not all fit.
fn pipeline_in_a_row(pane: &mut Pane<'_>, snapshot: &Snapshot, look: Look) {
    let narrowest = narrowest(&snapshot.stages);
    let text = |index: usize, stage: &Stage| {
        let load = stage.narrowness().map_or("-".to_owned(), percent);
        if narrowest == Some(index) {
            format!(">{} {load}<", stage.name)
        } else {
            format!("{} {load}", stage.name)
        }
    };
    let texts: Vec<String> =
        snapshot.stages.iter().enumerate().map(|(index, stage)| text(index, stage)).collect();
    let whole: usize = texts.iter().map(|text| text.chars().count() + 2).sum();
    let first = if whole > pane.width() + 2 { narrowest.unwrap_or(0) } else { 0 };
    let mut at = 0;
    for (index, text) in texts.iter().enumerate().skip(first) {
        let style = match narrowest == Some(index) {
            true => look.limit(&snapshot.stages[index].limit).add_modifier(Modifier::BOLD),
            false => Style::new(),
        };
        at = pane.put(0, at, text, style) + 2;
    }
}

fn rate(pane: &mut Pane<'_>, snapshot: &Snapshot, look: Look) {
    let most = snapshot.history.iter().map(|beat| beat.rate).fold(0.0, f64::max);
    let titled = pane.height() > 1;
    let room = match titled {
        true => {
            let at = pane.put(0, 0, "rate", look.title());
            let aside = format!(" up to {}, half a second a column", rate_in_words(most));
            pane.put(0, at, &aside, look.aside());
            pane.width()
        }
        false => {
            let at = pane.put(0, 0, "rate ", look.title());
            pane.width().saturating_sub(at)
        }
    };
    let rows = pane.height() - usize::from(titled);
    let shown = snapshot.history.len().min(room);
    for (index, beat) in snapshot.history[snapshot.history.len() - shown..].iter().enumerate() {
        let style = beat.limit.map_or(Style::new(), |limit| look.limit(limit.name()));
        let share = if most > 0.0 { beat.rate / most } else { 0.0 };
        pane.column(pane.width() - shown + index, rows, share, (look, style));
    }
}

fn lanes(pane: &mut Pane<'_>, snapshot: &Snapshot, look: Look) {
    let lanes = &snapshot.lanes;
    let title = counted(lanes.len() as u64, "connection");
    let at = pane.put(0, 0, &title, look.title());
    if pane.height() == 1 {
        let rates: Vec<String> = lanes.iter().map(|lane| rate_in_words(lane.rate)).collect();
        pane.put(0, at, &format!(": {}", rates.join(", ")), Style::new());
        return;
    }
    let most = lanes.iter().map(|lane| lane.rate).fold(0.0, f64::max);
    let names =
        lanes.iter().map(|lane| lane.name.chars().count()).max().unwrap_or(0).min(pane.width() / 3).max(6);
    list(pane, lanes, look, |pane, row, lane| lane_row(pane, row, lane, (names, most), look));
}

fn lane_row(pane: &mut Pane<'_>, row: usize, lane: &Lane, (names, most): (usize, f64), look: Look) {
    pane.put(row, 2, &short(&lane.name, names), Style::new());
    let mut at = 3 + names;
    if pane.width() >= GAUGE {
        let columns = pane.width() / 8;
        pane.bar(row, at, columns, if most > 0.0 { lane.rate / most } else { 0.0 }, (look, Style::new()));
        at += columns + 1;
    }
    let at = pane.put(row, at, &format!("{:>10}", rate_in_words(lane.rate)), Style::new());
    pane.put(row, at + 2, &lane.deed, look.aside());
}

/// The rows below a title; the last one says how many found no room.
fn list<T>(pane: &mut Pane<'_>, items: &[T], look: Look, mut draw: impl FnMut(&mut Pane<'_>, usize, &T)) {
    let rows = pane.height() - 1;
    let shown = if items.len() > rows { rows.saturating_sub(1) } else { items.len() };
    for (index, item) in items.iter().take(shown).enumerate() {
        draw(pane, 1 + index, item);
    }
    if shown < items.len() {
        pane.put(1 + shown, 2, &format!("{} more", items.len() - shown), look.aside());
    }
}

fn files(pane: &mut Pane<'_>, snapshot: &Snapshot, look: Look) {
    let at = pane.put(0, 0, "files", look.title());
    let under_way = snapshot.files.len();
    let counts = match snapshot.progress.files {
        Some((done, all)) => {
            let least = if snapshot.progress.at_least { "at least " } else { "" };
            format!(": {done} of {least}{all} done, {under_way} under way")
        }
        None => format!(": {under_way} under way"),
    };
    if pane.height() == 1 && snapshot.progress.files.is_none() {
        let first = snapshot.files.first();
        if let Some((file, total)) = first.and_then(|file| Some((file, file.total?)))
            && total > 0
        {
            let name = short(&file.name, pane.width() / 2);
            pane.put(0, at, &format!(": {name} {} %", percent_done(file.done, total)), Style::new());
            return;
        }
    }
    pane.put(0, at, &counts, Style::new());
    let names = pane.width() / 3;
    list(pane, &snapshot.files, look, |pane, row, file| {
        pane.put(row, 2, &short(&file.name, names), Style::new());
        let mut at = 3 + names;
        if let Some(total) = file.total.filter(|total| *total > 0) {
            let columns = pane.width() / 8;
            let share = (file.done as f64 / total as f64).min(1.0);
            pane.bar(row, at, columns, share, (look, Style::new()));
            let done = format!("{:>4} %", percent_done(file.done, total));
            at = pane.put(row, at + columns, &done, Style::new()) + 2;
        }
        let of = file.total.map(|total| format!(" of {}", Bytes(total))).unwrap_or_default();
        pane.put(row, at, &format!("{}{of}", Bytes(file.done)), look.aside());
    });
}

fn log(pane: &mut Pane<'_>, snapshot: &Snapshot, look: Look) {
    let titled = usize::from(pane.height() > 1);
    if titled == 1 {
        pane.put(0, 0, "log", look.title());
    }
    let rows = pane.height() - titled;
    let first = snapshot.log.len().saturating_sub(rows);
    for (row, line) in snapshot.log[first..].iter().enumerate() {
        pane.put(titled + row, 2 * titled, line, Style::new());
    }
}
