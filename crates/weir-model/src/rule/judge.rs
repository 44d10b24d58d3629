//! What held one window: each rule is asked, and the table decides between those that convict.

use super::{Context, Judgement, RULES, View, sender_or_path, silence};
use crate::evidence::Window;
use crate::limit::Limit;

/// What held one window.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowVerdict {
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

/// What held this window. Live, `context` is [`Context::live`].
pub fn judge_window(window: &Window, context: &Context<'_>) -> WindowVerdict {
    choose(&judgements(window, context), window, context)
}

/// What each rule says, in the table's order; `None` where it has no say.
pub(crate) fn judgements(window: &Window, context: &Context<'_>) -> Vec<Option<Judgement>> {
    let view = View::of(window, context);
    RULES.iter().map(|rule| rule.speaks(view).then(|| (rule.judge)(window, context))).collect()
}

/// What held the window, by what each rule says.
pub(crate) fn choose(
    judgements: &[Option<Judgement>],
    window: &Window,
    context: &Context<'_>,
) -> WindowVerdict {
    let convictions = || {
        let seen = RULES.iter().zip(judgements).filter(|(rule, _)| silence::shows(window.silent, rule));
        seen.filter_map(|(rule, judgement)| match judgement {
            Some(Judgement::Convict { strength, evidence }) => Some((rule.limit, *strength, evidence)),
            _ => None,
        })
    };
    let strongest = convictions().map(|(_, strength, _)| strength).fold(0.0, f64::max);
    match convictions().find(|(_, strength, _)| *strength + CLOSE >= strongest) {
        Some((limit, strength, evidence)) => {
            WindowVerdict { limit, strength, evidence: evidence.clone(), unseen: false }
        }
        None if !window.silent.is_none() => {
            let evidence = silence::words(window.silent);
            WindowVerdict { limit: Limit::SenderOrPath, strength: 0.0, evidence, unseen: true }
        }
        None => match sender_or_path::judge(window, context) {
            Judgement::Convict { strength, evidence } => {
                WindowVerdict { limit: Limit::SenderOrPath, strength, evidence, unseen: false }
            }
            Judgement::Acquit { evidence: why } | Judgement::Unknown { missing: why } => {
                WindowVerdict { limit: Limit::SenderOrPath, strength: 0.0, evidence: why, unseen: false }
            }
        },
    }
}
