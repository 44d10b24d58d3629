//! Is a resolver silent or slow?
//!
//! Convicts when, in half of the samples or more, the program had a socket open to a resolver (port 53 or
//! 853, or the local socket of systemd-resolved or nscd) with nothing to read in it, while no connection was
//! busy or being made.
//!
//! Acquits: no such socket was found so, and the program's descriptors could be read.
//!
//! Can be wrong: a program that keeps its socket to the resolver open after the answer, and then thinks,
//! looks the same.

use super::{Context, Judgement};
use crate::around::Resolver;
use crate::evidence::Interval;
use crate::words::{percent, seconds};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let around = &interval.around;
    let share = around.share(around.resolving);
    if share < 0.5 {
        return match &around.missing {
            Some(why) => Judgement::unknown(format!("whether a resolver was waited for: {why}")),
            None if around.resolving == 0 => Judgement::acquit("no resolver was waited for"),
            None => Judgement::acquit(format!("a resolver was waited for {} of the time", percent(share))),
        };
    }
    let waited = seconds(share * interval.span.as_secs_f64());
    let who = context.who();
    let evidence =
        format!("{who} waited {waited} for an answer of the resolver {}", named(&around.resolvers));
    Judgement::convict(0.6 + 0.37 * share, evidence)
}

/// `10.0.0.53:53 (UDP)`, the one that was waited for most; others behind it.
pub(crate) fn named(resolvers: &[Resolver]) -> String {
    let mut order: Vec<&Resolver> = resolvers.iter().collect();
    order.sort_by(|a, b| b.samples.cmp(&a.samples).then(a.address.cmp(&b.address)));
    match order.as_slice() {
        [] => "it uses".to_owned(),
        [one] => one.address.clone(),
        [first, others @ ..] => {
            let others: Vec<&str> = others.iter().take(2).map(|it| it.address.as_str()).collect();
            format!("{} (and of {})", first.address, others.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::Around;
    use crate::evidence::Evidence;
    use std::time::Duration;

    fn interval(resolving: u32) -> Interval {
        let resolver = Resolver { address: "10.0.0.53:53 (UDP)".to_owned(), samples: resolving };
        let around = Around { samples: 5, resolving, resolvers: vec![resolver], ..Around::default() };
        Interval { span: Duration::from_millis(100), around, ..Interval::default() }
    }

    #[test]
    fn a_silent_resolver_is_named() {
        let evidence = Evidence::default();
        let judged = judge(&interval(5), &Context::alone(&evidence));
        let Judgement::Convict { strength, evidence } = judged else { panic!("{judged:?}") };
        assert!(strength > 0.9 && evidence.contains("resolver 10.0.0.53:53 (UDP)"), "{evidence}");
    }

    #[test]
    fn a_quick_answer_is_not_and_a_hidden_table_says_nothing() {
        let evidence = Evidence::default();
        assert!(judge(&interval(1), &Context::alone(&evidence)).acquits());
        let mut hidden = interval(0);
        hidden.around.missing = Some("its descriptors are another user's".to_owned());
        assert!(matches!(judge(&hidden, &Context::alone(&evidence)), Judgement::Unknown { .. }));
    }
}
