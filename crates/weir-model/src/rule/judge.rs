//! What held one interval: each rule is asked, and the table decides between those that convict.

use super::{Context, Judgement, RULES, View, sender_or_path, silence};
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
    /// Nothing says so: an end of the copy told nothing of this time.
    pub unseen: bool,
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
    let convictions = || {
        let seen = RULES.iter().zip(judgements).filter(|(rule, _)| silence::shows(interval.silent, rule));
        seen.filter_map(|(rule, judgement)| match judgement {
            Some(Judgement::Convict { strength, evidence }) => Some((rule.limit, *strength, evidence)),
            _ => None,
        })
    };
    let strongest = convictions().map(|(_, strength, _)| strength).fold(0.0, f64::max);
    match convictions().find(|(_, strength, _)| *strength + CLOSE >= strongest) {
        Some((limit, strength, evidence)) => {
            IntervalVerdict { limit, strength, evidence: evidence.clone(), unseen: false }
        }
        None if !interval.silent.is_none() => {
            let evidence = silence::words(interval.silent);
            IntervalVerdict { limit: Limit::SenderOrPath, strength: 0.0, evidence, unseen: true }
        }
        None => match sender_or_path::judge(interval, context) {
            Judgement::Convict { strength, evidence } => {
                IntervalVerdict { limit: Limit::SenderOrPath, strength, evidence, unseen: false }
            }
            Judgement::Acquit { evidence: why } | Judgement::Unknown { missing: why } => {
                IntervalVerdict { limit: Limit::SenderOrPath, strength: 0.0, evidence: why, unseen: false }
            }
        },
    }
}
