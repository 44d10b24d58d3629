//! The live view of a fleet: how far it is, how fast, what failed, and its hosts, those that differ first.

use std::time::Duration;

use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::terminal::Frame;
use weir_units::Bytes;

use super::pane::Pane;
use super::{Look, Scene};
use crate::figures::{percent, percent_done};
use crate::fleet::{FleetHostRow, FleetView};
use crate::html::words::{count, short};
use crate::progress::rounded;

/// What is told between two pictures.
#[derive(Debug, Default)]
pub struct FleetNews {
    /// Where the fleet stands now.
    pub view: Option<FleetView>,
    /// That its ledger does not answer, or that it does again.
    pub away: Option<Option<String>>,
}

/// A fleet on a terminal.
#[derive(Debug, Default)]
pub struct FleetScene {
    /// What keys do.
    keys: String,
    view: Option<FleetView>,
    away: Option<String>,
    /// Since the view began.
    elapsed: Duration,
    /// When the ledger answered last.
    heard: Duration,
    log: Option<String>,
}

impl FleetScene {
    /// Nothing is known yet but what keys do.
    pub fn new(keys: &str) -> FleetScene {
        FleetScene { keys: keys.to_owned(), ..FleetScene::default() }
    }
}

impl Scene for FleetScene {
    type News = FleetNews;

    fn hear(&mut self, news: FleetNews, log: Vec<String>, elapsed: Duration) {
        self.elapsed = elapsed;
        if let Some(view) = news.view {
            (self.view, self.heard) = (Some(view), elapsed);
        }
        if let Some(away) = news.away {
            self.away = away;
        }
        self.log = log.into_iter().next_back().or(self.log.take());
    }

    fn draw(&self, frame: &mut Frame<'_>, look: Look) {
        let area = frame.area();
        let buffer = frame.buffer_mut();
        self.picture(&mut Pane::new(buffer, Rect { ..area }), look);
        look.spell(buffer);
    }
}

/// A row: pieces of text with their styles.
type Row = Vec<(String, Style)>;

fn plain(text: String) -> Row {
    vec![(text, Style::new())]
}

impl FleetScene {
    fn picture(&self, pane: &mut Pane<'_>, look: Look) {
        let mut rows = match &self.view {
            Some(view) => head(view, pane, look),
            None => vec![plain("asking the ledger".to_owned())],
        };
        let warning = match look.colour {
            true => Style::new().fg(Color::LightRed).add_modifier(Modifier::BOLD),
            false => Style::new().add_modifier(Modifier::BOLD),
        };
        if let Some(why) = &self.away {
            let since = rounded(self.elapsed.saturating_sub(self.heard));
            let words = format!("the ledger does not answer since {since}, it is asked again: {why}");
            // What is below is older than this.
            rows.insert(rows.len().min(1), vec![(words, warning)]);
        }
        if let Some(view) = &self.view {
            rows.extend(causes(view));
        }
        rows.extend(self.log.iter().map(|line| vec![(line.clone(), look.aside())]));
        let last = pane.height().saturating_sub(1);
        rows.truncate(last.max(1));
        for (row, pieces) in rows.iter().enumerate() {
            let mut at = 0;
            for (text, style) in pieces {
                at = pane.put(row, at, text, *style);
            }
        }
        if let Some(view) = &self.view {
            hosts(pane, (rows.len() + 1, last), view, look);
        }
        if last > 0 {
            pane.put(last, 0, &self.keys, look.aside());
        }
    }
}

/// How far and how fast.
fn head(view: &FleetView, pane: &Pane<'_>, look: Look) -> Vec<Row> {
    let columns = (pane.width() / 4).clamp(4, 40);
    let (done, all) = view.done();
    let filled = (done as f64 / all as f64 * columns as f64) as usize;
    let (full, empty) = if look.blocks { ("█", "░") } else { ("#", ".") };
    let done = format!(" {:3} %  ", percent_done(done, all));
    let done = if pane.width() < 40 { done.trim().to_owned() + " " } else { done };
    let mut bar = vec![(full.repeat(filled), Style::new()), (empty.repeat(columns - filled), look.aside())];
    if pane.width() < 40 {
        bar.clear();
    }
    bar.push((done, look.title()));
    bar.push((view.rate_words(), Style::new()));
    let moved = Bytes(view.planned.bytes.saturating_sub(view.left.bytes));
    let of = view.knows_bytes().then(|| format!("{moved} of {}; ", Bytes(view.planned.bytes)));
    let FleetView { moved, same, left, failed, .. } = view;
    let objects =
        [(moved.objects, "moved"), (same.objects, "were there"), (left.objects, "left"), (*failed, "failed")];
    let objects: Vec<String> =
        objects.iter().map(|(number, what)| format!("{} {what}", count(*number as f64))).collect();
    vec![
        vec![
            ("weir fleet ".to_owned(), look.title()),
            (short(&view.source, pane.width() / 2), look.title()),
            (" to ".to_owned(), look.aside()),
            (short(&view.target, pane.width() / 2), look.title()),
        ],
        bar,
        vec![(view.end_words(), look.title())],
        plain(format!("{}objects: {}", of.unwrap_or_default(), objects.join(", "))),
        plain(format!("{}; {}", view.state, view.settings)),
        plain(view.batch_words()),
    ]
}

/// Classes of failures that are named.
const CLASSES: usize = 4;

/// Sentences of the verdict.
const SENTENCES: usize = 4;

/// What holds the fleet, and what failed.
fn causes(view: &FleetView) -> Vec<Row> {
    let verdict = view.verdict.iter().take(SENTENCES).cloned().map(plain);
    let mut rows: Vec<Row> = verdict.collect();
    for row in view.failures.iter().take(CLASSES) {
        rows.push(plain(format!("{} failed by class {}, as: {}", row.objects, row.class, row.example)));
    }
    if view.failures.len() > CLASSES {
        rows.push(plain(format!("{} more classes of failures", view.failures.len() - CLASSES)));
    }
    rows
}

/// Hosts in the rows from `first` to before `end`: as many as there is room for.
fn hosts(pane: &mut Pane<'_>, (first, end): (usize, usize), view: &FleetView, look: Look) {
    let rows = end.saturating_sub(first + 1);
    if rows == 0 {
        return;
    }
    let names = (pane.width() / 4).clamp(6, 32);
    let workers: u64 = view.hosts.iter().map(|host| host.workers).sum();
    let gone = if view.gone > 0 { format!(", {} gone without a word", view.gone) } else { String::new() };
    let title = match view.hosts.len() {
        0 => format!("no worker is here{gone}"),
        count => format!("{count} hosts, {workers} workers{gone}; those that differ first"),
    };
    pane.put(first, 0, &title, look.title());
    let shown = if view.hosts.len() > rows { rows.saturating_sub(1) } else { view.hosts.len() };
    for (index, host) in view.hosts.iter().take(shown).enumerate() {
        host_row(pane, first + 1 + index, host, names, look);
    }
    if shown < view.hosts.len() {
        pane.put(first + 1 + shown, 2, &format!("{} more", view.hosts.len() - shown), look.aside());
    }
}

fn host_row(pane: &mut Pane<'_>, row: usize, host: &FleetHostRow, names: usize, look: Look) {
    let mark = if host.differs.is_some() { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
    pane.put(row, 0, if host.differs.is_some() { ">" } else { " " }, mark);
    pane.put(row, 2, &short(&host.host, names), mark);
    let mut at = pane.put(row, 3 + names, &format!("{:>11}", host.rate_words()), Style::new()) + 2;
    let style = host.limit.as_ref().map_or(Style::new(), |(limit, _)| look.limit(limit));
    let limit = host
        .limit
        .as_ref()
        .map_or_else(|| "-".to_owned(), |(limit, share)| format!("{} {}", short(limit, 18), percent(*share)));
    at = pane.put(row, at, &format!("{limit:<24}"), style) + 1;
    let workers = if host.workers > 1 { format!("{} workers, ", host.workers) } else { String::new() };
    let heard = rounded(Duration::from_secs(host.silent.as_secs()));
    let held = format!("{workers}holds {}, heard of {heard} ago", host.leased);
    // How it differs is what one looks for: the end of the row may be cut.
    if let Some(differs) = &host.differs {
        at = pane.put(row, at, differs, mark) + 2;
    }
    pane.put(row, at, &held, look.aside());
}

#[cfg(test)]
mod tests {
    use ratatui_core::backend::TestBackend;
    use ratatui_core::terminal::Terminal;

    use super::*;
    use crate::fleet::FleetCount;
    use crate::fleet::tests::view;

    fn drawn(scene: &FleetScene, columns: u16, rows: u16, blocks: bool) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        let look = Look { colour: true, blocks };
        terminal.draw(|frame| scene.draw(frame, look)).unwrap();
        let cells = &terminal.backend().buffer().content;
        let row =
            |row: &[ratatui_core::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
        cells.chunks(columns.into()).map(row).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_thousand_hosts_fit_any_terminal_and_those_that_differ_are_seen() {
        let mut many = view();
        let fast = many.hosts[1].clone();
        many.hosts.extend((0..1000).map(|_| fast.clone()));
        let mut scene = FleetScene::new("q ends it");
        let early = drawn(&scene, 80, 24, true);
        assert!(early.contains("asking the ledger") && early.contains("q ends it"), "{early}");
        scene.hear(FleetNews { view: Some(many), away: None }, Vec::new(), Duration::from_secs(5));
        let text = drawn(&scene, 120, 30, false);
        for words in ["20 %", "1.10 GB/s", "about 72 s left", "10 % of the usual rate", "more", "q ends it"] {
            assert!(text.contains(words), "{words} is not in:\n{text}");
        }
        assert!(text.is_ascii() && !text.contains('\x1b'), "{text}");
        let mut unsized_plan = view();
        unsized_plan.planned.bytes = 1000;
        unsized_plan.left = FleetCount { objects: 1, bytes: 0 };
        scene.hear(FleetNews { view: Some(unsized_plan), away: None }, Vec::new(), Duration::from_secs(5));
        let text = drawn(&scene, 120, 30, false);
        assert!(text.contains(" 99 %") && !text.contains(" of 1.00 KB"), "{text}");
        let why = Some(Some("connection refused".to_owned()));
        scene.hear(FleetNews { view: None, away: why }, Vec::new(), Duration::from_secs(17));
        let text = drawn(&scene, 120, 30, true);
        assert!(text.contains("does not answer since 12 s, it is asked again: connection refused"), "{text}");
        for (columns, rows) in [(1, 1), (2, 3), (20, 4), (39, 10), (1000, 500)] {
            drawn(&scene, columns, rows, true);
        }
    }
}
