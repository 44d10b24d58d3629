//! How often is a verdict on another program's transfer right? By what it rests on, as it was measured.
//!
//! The shares are those of real programs whose causes were made and proven (docs/truth-field.md, whose tables
//! name the runs): every verdict that named something, held-out stories included, counted by [`Grounds`]. A
//! table of few rows: limits have rules of their own, and a rule that is often wrong is mended, not
//! discounted here.

use std::fmt;

use crate::limit::Limit;
use crate::sight::Sight;

/// What a verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grounds {
    /// Both ends of the connections were watched.
    BothEnds,
    /// The end that shows such a limit, or the program itself.
    OneEnd,
    /// The other end, which infers it.
    Inferred,
    /// One limit, and a part of the time of which nothing can be told.
    InPart,
    /// Two limits or more: one of them may be what the other does to the rest of the time.
    Several,
}

impl Grounds {
    /// Of a verdict that names these as its main limits.
    pub(crate) fn of(main: &[Limit], sight: Sight) -> Grounds {
        match main {
            [_, _, ..] => Grounds::of_several(main),
            [limit] if *limit != Limit::SenderOrPath && sight.hidden(*limit).is_some() => Grounds::Inferred,
            _ if sight.both_ends() => Grounds::BothEnds,
            _ => Grounds::OneEnd,
        }
    }

    /// Of two main limits or more.
    pub(crate) fn of_several(main: &[Limit]) -> Grounds {
        let named = main.iter().filter(|limit| **limit != Limit::SenderOrPath).count();
        if named < 2 { Grounds::InPart } else { Grounds::Several }
    }

    /// Right of so many, as docs/truth-field.md has them.
    fn measured(self) -> (u32, u32) {
        match self {
            // Turns, whose ends both send, and relays.
            Grounds::BothEnds => (42, 49),
            Grounds::OneEnd => (153, 164),
            Grounds::Inferred => (5, 7),
            Grounds::InPart => (15, 25),
            Grounds::Several => (3, 32),
        }
    }

    /// The chance that the next one is right, by the rule of succession.
    pub(crate) fn worth(self) -> f64 {
        let (right, said) = self.measured();
        f64::from(right + 1) / f64::from(said + 2)
    }
}

/// What the word of an end on itself is worth where the judge's own strength was not passed on. That nothing
/// explains it the judge never says with more than three fifths ([`crate::rule::sender_or_path`]).
pub(crate) fn of_own_word(limit: Limit) -> f64 {
    let worth = Grounds::OneEnd.worth();
    if limit == Limit::SenderOrPath { worth.min(0.6) } else { worth }
}

/// What a limit's share of the time takes from that. Measured beside it: of single limits that held four
/// fifths and more 93 % were right, of those with three to four fifths 78 % (18 of 23), below that one of
/// two. So it is in a run of our own: its clocks are exact for each interval, and a limit of half of them is
/// the run's no more surely for that.
pub(crate) fn of_share(held: f64) -> f64 {
    (held / 0.8).clamp(0.0, 1.0)
}

/// What few intervals take from it, by the rule of succession. Those measured had eight and more, and were no
/// better for having more.
pub(crate) fn of_intervals(count: usize) -> f64 {
    if count >= 8 { 1.0 } else { (count as f64 + 1.0) / (count as f64 + 2.0) }
}

/// What few peers take from the word that a host differs from them, by the rule of succession: of two, one
/// may be odd itself. Of 400 made-up fleets whose hosts' rates vary by up to three fifths every such word was
/// right (136 of 136; `fleet/tests.rs`).
pub(crate) fn of_peers(count: usize) -> f64 {
    (count as f64 + 1.0) / (count as f64 + 2.0) * (137.0 / 138.0)
}

/// What a trial of hosts is worth: of the same fleets 357 of 362 words on whether something shared held were
/// right.
pub(crate) fn of_trial() -> f64 {
    358.0 / 364.0
}

impl fmt::Display for Grounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Grounds::BothEnds => "both ends",
            Grounds::OneEnd => "the end that shows it",
            Grounds::Inferred => "inferred from the other end",
            Grounds::InPart => "one limit in part of the time",
            Grounds::Several => "several limits",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_more_is_worth_less() {
        let order =
            [Grounds::OneEnd, Grounds::BothEnds, Grounds::Inferred, Grounds::InPart, Grounds::Several];
        assert!(order.windows(2).all(|pair| pair[0].worth() > pair[1].worth()));
        assert!(Grounds::OneEnd.worth() > 0.9 && Grounds::Several.worth() < 0.5);
    }

    #[test]
    fn a_small_share_and_few_intervals_leave_room_for_doubt() {
        assert_eq!((of_share(0.8), of_share(1.0), of_share(0.4)), (1.0, 1.0, 0.5));
        assert_eq!((of_intervals(0), of_intervals(8)), (0.5, 1.0));
        assert!(of_intervals(7) < 1.0);
    }
}
