//! Was a verdict right, and how often is each side?

use std::collections::BTreeMap;
use std::fmt;

use weir_model::limit::Limit;
use weir_model::verdict::{MainLimit, Verdict};

use crate::expect::{Expectation, Side, Truth};
use crate::scores::QUARTER;
pub(crate) use crate::scores::Score;

impl Score {
    pub(crate) fn of(verdict: &Verdict, expectation: Expectation) -> Score {
        Score::of_names(&named(verdict), expectation.right, expectation.may_abstain)
    }

    /// What is named, beside the names that are right.
    pub(crate) fn of_names(named: &[Limit], right: &[Limit], may_abstain: bool) -> Score {
        let guilty = |limit: &Limit| right.contains(limit);
        if named.iter().any(|limit| !guilty(limit) && *limit != Limit::SenderOrPath) {
            return Score::Wrong;
        }
        let abstains = named.contains(&Limit::SenderOrPath) || named.is_empty();
        match (named.iter().any(guilty), abstains) {
            (true, false) => Score::Right,
            (true, true) if may_abstain => Score::Right,
            (false, true) if may_abstain && !named.is_empty() => Score::Abstained,
            _ => Score::Missed,
        }
    }
}

/// The limits that a verdict names: one, those above a quarter of a mixture, or none.
pub(crate) fn named(verdict: &Verdict) -> Vec<Limit> {
    match verdict.limit {
        None => Vec::new(),
        Some(MainLimit::One(limit)) => vec![limit],
        Some(MainLimit::Mixed) => {
            let main = verdict.shares.iter().filter(|(_, share)| **share > QUARTER);
            main.map(|(limit, _)| *limit).collect()
        }
    }
}

/// One verdict in a word: `path-loss`, `path-loss+reader`, `none`.
pub(crate) fn word(verdict: &Verdict) -> String {
    let names: Vec<&str> = named(verdict).into_iter().map(Limit::name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join("+") }
}

/// Counts of verdicts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// For each side, what the truth was and what was said of it, and how that scored.
    said: BTreeMap<(Side, Truth), BTreeMap<(String, Score), u32>>,
}

impl Tally {
    pub(crate) fn add(&mut self, side: Side, truth: Truth, word: String, score: Score) {
        *self.said.entry((side, truth)).or_default().entry((word, score)).or_insert(0) += 1;
    }

    /// What was said of each truth on this side.
    pub(crate) fn rows(&self, side: Side) -> impl Iterator<Item = (Truth, &BTreeMap<(String, Score), u32>)> {
        self.said.iter().filter(move |((of, _), _)| *of == side).map(|((_, truth), said)| (*truth, said))
    }

    pub(crate) fn sums(&self, side: Side) -> Sums {
        let mut sums = Sums::default();
        for ((_, score), count) in self.rows(side).flat_map(|(_, said)| said) {
            sums.add(*score, *count);
        }
        sums
    }
}

/// How often a side was right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) right: u32,
    pub(crate) abstained: u32,
    pub(crate) missed: u32,
    pub(crate) wrong: u32,
}

impl Sums {
    pub(crate) fn add(&mut self, score: Score, count: u32) {
        *match score {
            Score::Right => &mut self.right,
            Score::Abstained => &mut self.abstained,
            Score::Missed => &mut self.missed,
            Score::Wrong => &mut self.wrong,
        } += count;
    }

    pub(crate) fn all(self) -> u32 {
        self.right + self.abstained + self.missed + self.wrong
    }

    /// Of the verdicts that could know, the share that is right. An honest abstention is no such verdict.
    pub(crate) fn right_share(self) -> f64 {
        share(self.right, self.all() - self.abstained)
    }

    /// Of all verdicts, the share that convicts an innocent stage.
    pub(crate) fn wrong_share(self) -> f64 {
        if self.all() == 0 { 0.0 } else { f64::from(self.wrong) / f64::from(self.all()) }
    }
}

fn share(part: u32, whole: u32) -> f64 {
    if whole == 0 { 1.0 } else { f64::from(part) / f64::from(whole) }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} judged: {} right, {} abstained, {} missed, {} wrong; {:.1} % right where it can know, {:.1} % wrong",
            self.all(),
            self.right,
            self.abstained,
            self.missed,
            self.wrong,
            100.0 * self.right_share(),
            100.0 * self.wrong_share()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::expected;

    fn verdict(shares: &[(Limit, f64)]) -> Verdict {
        let main = shares.iter().filter(|(_, share)| *share > QUARTER).count();
        let limit = match (shares, main) {
            ([], _) => None,
            (_, 2..) => Some(MainLimit::Mixed),
            ([(limit, _), ..], _) => Some(MainLimit::One(*limit)),
        };
        let empty = weir_model::verdict::explain(&weir_model::evidence::Evidence::default());
        Verdict { limit, shares: shares.iter().copied().collect(), ..empty }
    }

    #[test]
    fn the_guilty_alone_is_right() {
        let loss = expected(Truth::LossBound, Side::Sender);
        assert_eq!(Score::of(&verdict(&[(Limit::PathLoss, 0.9), (Limit::Latency, 0.1)]), loss), Score::Right);
    }

    #[test]
    fn an_innocent_with_more_than_a_quarter_is_a_wrong_conviction() {
        let loss = expected(Truth::LossBound, Side::Sender);
        assert_eq!(Score::of(&verdict(&[(Limit::PathLoss, 0.6), (Limit::Reader, 0.4)]), loss), Score::Wrong);
        assert_eq!(Score::of(&verdict(&[(Limit::Reader, 1.0)]), loss), Score::Wrong);
    }

    #[test]
    fn abstaining_is_fine_only_where_the_side_cannot_know() {
        let abstains = verdict(&[(Limit::SenderOrPath, 1.0)]);
        assert_eq!(Score::of(&abstains, expected(Truth::SendBuffer, Side::Sender)), Score::Missed);
        assert_eq!(Score::of(&abstains, expected(Truth::SendBuffer, Side::Receiver)), Score::Abstained);
    }

    #[test]
    fn half_abstaining_is_right_only_where_the_side_cannot_know() {
        let half = verdict(&[(Limit::PathBandwidth, 0.5), (Limit::SenderOrPath, 0.5)]);
        assert_eq!(Score::of(&half, expected(Truth::FullLink, Side::Receiver)), Score::Right);
        assert_eq!(Score::of(&half, expected(Truth::FullLink, Side::Sender)), Score::Missed);
    }

    #[test]
    fn no_verdict_is_a_miss() {
        for side in Side::ALL {
            assert_eq!(Score::of(&verdict(&[]), expected(Truth::SendBuffer, side)), Score::Missed);
        }
    }

    #[test]
    fn shares_count_abstentions_apart() {
        let mut sums = Sums::default();
        for (score, count) in
            [(Score::Right, 6), (Score::Abstained, 2), (Score::Missed, 1), (Score::Wrong, 1)]
        {
            sums.add(score, count);
        }
        assert_eq!((sums.right_share(), sums.wrong_share()), (0.75, 0.1));
        assert_eq!((Sums::default().right_share(), Sums::default().wrong_share()), (1.0, 0.0));
    }

    #[test]
    fn a_tally_keeps_sides_apart() {
        let mut tally = Tally::default();
        tally.add(Side::Sender, Truth::FullLink, "path-bandwidth".into(), Score::Right);
        tally.add(Side::Get, Truth::FullLink, "reader".into(), Score::Wrong);
        assert_eq!((tally.sums(Side::Sender).right, tally.sums(Side::Sender).wrong), (1, 0));
        assert_eq!(tally.rows(Side::Get).count(), 1);
    }
}
