//! What held one interval: each rule is asked, and the table decides between those that convict.

use super::silence::{Unseen, hidden};
use super::{Context, Judgement, RULES, View, sender_or_path};
use crate::evidence::Interval;
use crate::limit::Limit;

/// What held one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalVerdict {
    /// The limit.
    pub limit: Limit,
    /// 0 to 1, see [`Judgement::Convict`].
    pub strength: f64,
    /// The numbers that say so.
    pub evidence: String,
    /// Share of the interval, 0 to 1, of which nothing is known: an end of the copy, or the watch, told
    /// nothing of it.
    pub unseen: f64,
}

impl IntervalVerdict {
    /// Nothing is known of any of it.
    pub fn is_unseen(&self) -> bool {
        self.unseen >= 1.0
    }
}

/// Two convictions this close are decided by the table's order, since strengths are no finer than that.
const CLOSE: f64 = 0.1;

/// What held this interval. Live, `context` is [`Context::live`].
pub fn judge_interval(interval: &Interval, context: &Context<'_>) -> IntervalVerdict {
    choose(&judgements(interval, context), interval, context)
}

/// What each rule says, in the table's order; `None` where it has no say.
pub(crate) fn judgements(interval: &Interval, context: &Context<'_>) -> Vec<Option<Judgement>> {
    let view = View::of(interval, context);
    RULES.iter().map(|rule| rule.speaks(view).then(|| (rule.judge)(interval, context))).collect()
}

/// What held the interval, by what each rule says.
pub(crate) fn choose(
    judgements: &[Option<Judgement>],
    interval: &Interval,
    context: &Context<'_>,
) -> IntervalVerdict {
    let nothing = Unseen::of(interval);
    let convictions = || {
        let seen = RULES.iter().zip(judgements).filter(|(rule, _)| nothing.shows(rule));
        seen.filter_map(|(rule, judgement)| match judgement {
            Some(Judgement::Convict { strength, evidence }) => Some((rule, *strength, evidence)),
            _ => None,
        })
    };
    let strongest = convictions().map(|(_, strength, _)| strength).fold(0.0, f64::max);
    if let Some((rule, strength, evidence)) =
        convictions().find(|(_, strength, _)| *strength + CLOSE >= strongest)
    {
        let unseen = hidden(interval, Some(rule));
        return IntervalVerdict { limit: rule.limit, strength, evidence: evidence.clone(), unseen };
    }
    let limit = Limit::SenderOrPath;
    if !nothing.is_none() {
        return IntervalVerdict { limit, strength: 0.0, evidence: nothing.words(), unseen: 1.0 };
    }
    let unseen = hidden(interval, None);
    match sender_or_path::judge(interval, context) {
        Judgement::Convict { strength, evidence } => IntervalVerdict { limit, strength, evidence, unseen },
        Judgement::Acquit { evidence: why } | Judgement::Unknown { missing: why } => {
            IntervalVerdict { limit, strength: 0.0, evidence: why, unseen }
        }
    }
}
