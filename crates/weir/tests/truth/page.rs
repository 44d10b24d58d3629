//! The matrix in print: what was said of each truth, how each cause did, and every verdict that was not
//! right.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_model::verdict::{Verdict, explain};

use crate::archive::{Archive, Kept};
use crate::captures::Offline;
use crate::case::Programs;
use crate::cell::{Cause, Cell};
use crate::expect::{Side, cannot_know, expected_in};
use crate::label::is_late;
use crate::score::{Score, Sums, Tally, word};

/// All verdicts of a set of runs.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) tally: Tally,
    pub(crate) offline: Offline,
    by_cause: BTreeMap<(Cause, Side), Sums>,
    /// Not right: cell, side, truth, what was said with its shares, the first line of its evidence, the
    /// facts.
    weak: Vec<Weak>,
    /// Abstentions of a side that knows such a truth in other cells, by their reason.
    blind: BTreeMap<(Side, &'static str), Vec<Cell>>,
    /// When the first and the last of the runs were recorded.
    recorded: Option<(SystemTime, SystemTime)>,
    pub(crate) void: Vec<(Cell, Programs, String)>,
    /// Of those, runs in which the emulator did not get its processor in time; a cell may have two.
    pub(crate) late: Vec<Cell>,
    pub(crate) runs: usize,
}

struct Weak {
    cell: Cell,
    side: Side,
    truth: String,
    score: Score,
    shares: String,
    evidence: String,
    facts: String,
}

impl Page {
    /// Judges every run kept of these cells.
    pub(crate) fn judge(archive: &Archive, cells: &[Cell]) -> anyhow::Result<Page> {
        archive.begin_results()?;
        let mut page = Page::default();
        for run in archive.runs()?.into_iter().filter(|run| cells.contains(&run.cell)) {
            page.runs += 1;
            let (first, last) = page.recorded.unwrap_or((run.recorded, run.recorded));
            page.recorded = Some((first.min(run.recorded), last.max(run.recorded)));
            if let Err(why) = &run.truth {
                page.void.push((run.cell, run.programs, why.clone()));
                page.late.extend(is_late(run.cell, &run.facts).then_some(run.cell));
            }
            for (side, evidence) in &run.evidence {
                let verdict = explain(evidence);
                let score = page.add(&run, *side, &verdict);
                archive.result(&run, *side, &verdict, score)?;
                page.offline.add(&run, *side, &verdict)?;
            }
        }
        Ok(page)
    }

    /// Whether this machine kept the emulator's times in less than half of the runs.
    pub(crate) fn is_mostly_late(&self) -> bool {
        self.late.len() * 2 > self.runs
    }

    fn add(&mut self, run: &Kept, side: Side, verdict: &Verdict) -> Option<Score> {
        let truth = *run.truth.as_ref().ok()?;
        let score = Score::of(verdict, expected_in(run.cell, truth, side));
        if let (Score::Abstained, Some(why)) = (score, cannot_know(run.cell, truth, side)) {
            self.blind.entry((side, why)).or_default().push(run.cell);
        }
        self.tally.add(side, truth, word(verdict), score);
        self.by_cause.entry((run.cell.cause, side)).or_default().add(score, 1);
        if matches!(score, Score::Missed | Score::Wrong) {
            self.weak.push(Weak {
                cell: run.cell,
                side,
                truth: truth.to_string(),
                score,
                shares: verdict.shares_in_words(),
                evidence: verdict.evidence.first().cloned().unwrap_or_default(),
                facts: run.facts.to_json().to_string(),
            });
        }
        Some(score)
    }

    /// Every side's sums together.
    pub(crate) fn sums(&self) -> Sums {
        let mut all = Sums::default();
        for side in Side::ALL {
            let sums = self.tally.sums(side);
            for (score, count) in [
                (Score::Right, sums.right),
                (Score::Abstained, sums.abstained),
                (Score::Missed, sums.missed),
                (Score::Wrong, sums.wrong),
            ] {
                all.add(score, count);
            }
        }
        all
    }

    /// The tables, in Markdown.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("{}\n\n", machine(self.recorded, self.runs, self.void.len()));
        let _ = writeln!(
            text,
            "| side | judged | right | abstained | missed | wrong | right where it can know | wrong |"
        );
        let _ = writeln!(text, "| --- | --- | --- | --- | --- | --- | --- | --- |");
        for (name, sums) in Side::ALL
            .map(|side| (side.name(), self.tally.sums(side)))
            .into_iter()
            .chain([("all", self.sums())])
        {
            let (right, wrong) = (100.0 * sums.right_share(), 100.0 * sums.wrong_share());
            let Sums { right: count, abstained, missed, wrong: convicted } = sums;
            let all = sums.all();
            let _ = writeln!(
                text,
                "| {name} | {all} | {count} | {abstained} | {missed} | {convicted} | {right:.1} % | {wrong:.1} % |"
            );
        }
        for side in Side::ALL {
            let _ = writeln!(
                text,
                "\n{}: what was said of each truth (in brackets what was not right)\n",
                capital(side.name())
            );
            let _ = writeln!(text, "| truth | said |\n| --- | --- |");
            for (truth, said) in self.tally.rows(side) {
                let _ = writeln!(text, "| {truth} | {} |", words(said));
            }
        }
        let _ = writeln!(text, "\nBy what was set up: right + abstained of judged\n");
        let _ = writeln!(
            text,
            "| cause | sender | receiver | both | weir get |\n| --- | --- | --- | --- | --- |"
        );
        for cause in Cause::ALL {
            let cell = |side| match self.by_cause.get(&(cause, side)) {
                Some(sums) => format!("{} of {}", sums.right + sums.abstained, sums.all()),
                None => "-".to_owned(),
            };
            let cells = Side::ALL.map(cell).join(" | ");
            let _ = writeln!(text, "| {} | {cells} |", cause.name());
        }
        for ((side, why), cells) in &self.blind {
            let cells: Vec<String> = cells.iter().map(Cell::to_string).collect();
            let _ = writeln!(text, "\nAbstained, {}, in {}: {why}.", side.name(), cells.join(", "));
        }
        text.push_str(&self.offline.render());
        text
    }

    /// Every verdict that was not right, with the numbers.
    pub(crate) fn weak(&self) -> String {
        let mut text = String::new();
        for weak in &self.weak {
            let Weak { cell, side, truth, score, shares, evidence, facts } = weak;
            let _ = writeln!(
                text,
                "{} {cell} {}: truth {truth}, said {shares}\n    {evidence}\n    {facts}",
                score.name(),
                side.name()
            );
        }
        text.push_str(&self.offline.weak());
        text
    }
}

/// When and on what it was measured.
fn machine(recorded: Option<(SystemTime, SystemTime)>, runs: usize, void: usize) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let memory = read("/proc/meminfo");
    let kilobytes = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    let gib =
        kilobytes.map_or_else(|| "?".to_owned(), |kilobytes: f64| format!("{:.0}", kilobytes / 1048576.0));
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    let when = recorded.map_or_else(
        || "never recorded".to_owned(),
        |(first, last)| format!("recorded from {} to {} UTC", minute(first), minute(last)),
    );
    format!(
        "Linux {}, {cores} cores, {gib} GiB, {when}: {runs} runs, of which {void} are void.",
        kernel.trim()
    )
}

/// `2026-03-14 15:09`
fn minute(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let date =
        std::process::Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%F %R"]).output();
    date.map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned()).unwrap_or_default()
}

fn words(said: &BTreeMap<(String, Score), u32>) -> String {
    let mut counts: Vec<(&(String, Score), &u32)> = said.iter().collect();
    counts.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let words = counts.into_iter().map(|((word, score), count)| match score {
        Score::Right | Score::Abstained => format!("{word} {count}"),
        Score::Missed | Score::Wrong => format!("({word} {count})"),
    });
    words.collect::<Vec<String>>().join(", ")
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
