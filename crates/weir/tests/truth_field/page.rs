//! The matrix in print: how each kind and side did, what confidence and promises were worth, and every
//! verdict not right.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::score::{BELIEVED, Line, Score};

/// All verdicts of a set of runs.
pub(crate) struct Page {
    pub(crate) lines: Vec<Line>,
}

/// Counts of verdicts.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sums {
    pub(crate) counts: [usize; 4],
    pub(crate) misled: usize,
    pub(crate) acquitted: usize,
}

impl Sums {
    fn add(&mut self, line: &Line) {
        self.counts[line.score as usize] += 1;
        self.misled += usize::from(line.misleads());
        self.acquitted += usize::from(line.acquits_the_guilty);
    }

    pub(crate) fn all(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Right, or silent with a reason where this side cannot know.
    pub(crate) fn honest(&self) -> f64 {
        share(self.counts[0] + self.counts[1], self.all())
    }

    pub(crate) fn misleading(&self) -> f64 {
        share(self.misled, self.all())
    }
}

fn share(part: usize, all: usize) -> f64 {
    part as f64 / all.max(1) as f64
}

impl Page {
    fn valid(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.void.is_none())
    }

    pub(crate) fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        self.valid().for_each(|line| sums.add(line));
        sums
    }

    fn by(&self, key: impl Fn(&Line) -> String) -> BTreeMap<String, Sums> {
        let mut groups: BTreeMap<String, Sums> = BTreeMap::new();
        self.valid().for_each(|line| groups.entry(key(line)).or_default().add(line));
        groups
    }

    /// Of convictions said with 90 % and more: how many there are, and the share that is right.
    pub(crate) fn sure(&self) -> (usize, f64) {
        let sure: Vec<&Line> = self.valid().filter(|line| line.convicts && line.confidence >= 0.9).collect();
        let right = sure.iter().filter(|line| line.score == Score::Right).count();
        (sure.len(), share(right, sure.len()))
    }

    /// For each promise of a right verdict whose advice was followed, promised over brought.
    fn promises(&self) -> Vec<f64> {
        let kept = self.valid().filter(|line| line.score == Score::Right && line.carried > 0.0);
        kept.filter_map(|line| Some(line.promised? / line.brought?)).collect()
    }

    /// The median of how far promises were off, as a share of what following them brought.
    pub(crate) fn promise_error(&self) -> Option<f64> {
        let mut errors: Vec<f64> = self.promises().iter().map(|ratio| (ratio - 1.0).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let upper = *errors.get(errors.len() / 2)?;
        // The mean of the two in the middle where their number is even.
        Some((errors[(errors.len() - 1) / 2] + upper) / 2.0)
    }

    /// Promises below what was carried.
    pub(crate) fn below(&self) -> Vec<&Line> {
        // A thousandth for what rounding does to two figures of one run.
        let below = |line: &&Line| line.promised.is_some_and(|promised| promised < 0.999 * line.carried);
        self.valid().filter(below).collect()
    }

    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        let runs: std::collections::BTreeSet<(&String, &String)> =
            self.lines.iter().map(|line| (&line.story, &line.point)).collect();
        let void = self.lines.iter().filter(|line| line.void.is_some()).count();
        let _ =
            writeln!(text, "{} runs, {} verdicts, of which {void} are void.\n", runs.len(), self.lines.len());
        table(&mut text, "kind", &self.by(|line| line.kind.clone()));
        table(&mut text, "side", &self.by(|line| line.side.clone()));
        table(&mut text, "user", &self.by(|line| line.user.clone()));
        let set = |line: &Line| if line.held_out { "held out" } else { "known to the rules" }.to_owned();
        table(&mut text, "stories", &self.by(set));
        table(&mut text, "all", &[("all".to_owned(), self.sums())].into_iter().collect());
        self.calibration(&mut text);
        self.by_grounds(&mut text);
        let promises = self.promises().len();
        let all = self.valid().filter(|line| line.promised.is_some()).count();
        let below = self.below().len();
        let error = self.promise_error().map_or("-".to_owned(), |error| format!("{:.0} %", 100.0 * error));
        let _ = writeln!(
            text,
            "Promises: {all} were made, {below} of them below what was carried. Of {promises} the advice was followed and the \
             limit right: median error {error}.\n"
        );
        let asked: Vec<bool> = self.valid().filter_map(|line| line.advises_well).collect();
        let well = asked.iter().filter(|well| **well).count();
        let _ = writeln!(
            text,
            "Advice: {well} of {} that stories prescribe is that of the cause.\n",
            asked.len()
        );
        self.weak(&mut text);
        text
    }

    /// What confidence is worth.
    fn calibration(&self, text: &mut String) {
        let _ = writeln!(text, "| confidence | convictions | right | wrong |\n| --- | --- | --- | --- |");
        for (least, most, name) in [
            (0.9, 1.01, "90 % and more"),
            (0.75, 0.9, "75 to 90 %"),
            (BELIEVED, 0.75, "50 to 75 %"),
            (0.0, BELIEVED, "below 50 %"),
        ] {
            let within = |line: &&Line| line.convicts && (least..most).contains(&line.confidence);
            let said: Vec<&Line> = self.valid().filter(within).collect();
            let right = said.iter().filter(|line| line.score == Score::Right).count();
            let percent = 100.0 * share(right, said.len());
            let _ = writeln!(
                text,
                "| {name} | {} | {right} ({percent:.0} %) | {} |",
                said.len(),
                said.len() - right
            );
        }
        text.push('\n');
    }

    /// What verdicts are worth by what they rest on, beside what they said: the table of `weir_model::worth`.
    fn by_grounds(&self, text: &mut String) {
        let mut rows: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
        for line in self.valid().filter(|line| line.convicts) {
            if let Some(grounds) = &line.grounds {
                rows.entry(grounds).or_default().push(line);
            }
        }
        let _ = writeln!(
            text,
            "| it rests on | convictions | right | mean confidence |\n| --- | --- | --- | --- |"
        );
        for (grounds, lines) in rows {
            let right = lines.iter().filter(|line| line.score == Score::Right).count();
            let confidence: f64 = lines.iter().map(|line| line.confidence).sum::<f64>() / lines.len() as f64;
            let (all, percent) = (lines.len(), 100.0 * share(right, lines.len()));
            let _ = writeln!(
                text,
                "| {grounds} | {all} | {right} ({percent:.0} %) | {:.0} % |",
                100.0 * confidence
            );
        }
        text.push('\n');
    }

    fn weak(&self, text: &mut String) {
        let _ = writeln!(text, "| not right | truth | said | confidence |\n| --- | --- | --- | --- |");
        for line in self.valid().filter(|line| matches!(line.score, Score::Missed | Score::Wrong)) {
            let _ = writeln!(
                text,
                "| {} | {} | {}: {} | {:.0} % |",
                line.name(),
                line.right.join(" or "),
                line.score.name(),
                line.said,
                100.0 * line.confidence
            );
        }
        text.push('\n');
    }

    /// Runs that say nothing, and why.
    pub(crate) fn void(&self) -> Vec<String> {
        let void =
            self.lines.iter().filter_map(|line| Some(format!("{}: {}", line.name(), line.void.as_ref()?)));
        void.collect()
    }
}

fn table(text: &mut String, head: &str, rows: &BTreeMap<String, Sums>) {
    let names = Score::ALL.map(Score::name).join(" | ");
    let _ = writeln!(
        text,
        "| {head} | judged | {names} | wrong above 50 % | guilty ruled out | right or abstained |"
    );
    let _ = writeln!(text, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (name, sums) in rows {
        let counts = sums.counts.map(|count| count.to_string()).join(" | ");
        let honest = 100.0 * sums.honest();
        let _ = writeln!(
            text,
            "| {name} | {} | {counts} | {} | {} | {honest:.0} % |",
            sums.all(),
            sums.misled,
            sums.acquitted
        );
    }
    text.push('\n');
}
