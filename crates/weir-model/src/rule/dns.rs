//! Is a resolver silent or slow?
//!
//! Convicts when, in half of the samples or more, the program had a socket open to a resolver (port 53 or
//! 853, or the local socket of systemd-resolved or nscd) with nothing to read in it, while no connection was
//! busy or being made. Of our own lanes, whose clocks tell it: when they waited half of their time or more
//! for the addresses of names.
//!
//! Acquits: no such socket was found so, and the program's descriptors could be read; our own lanes waited
//! less than a tenth of the time.
//!
//! Can be wrong: a program that keeps its socket to the resolver open after the answer, and then thinks,
//! looks the same for the half minute in which the socket counts as new.

use super::connect::tells_steps;
use super::spent::spent;
use super::{Context, Judgement};
use crate::around::Resolver;
use crate::evidence::Interval;
use crate::words::{percent, seconds};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let around = &interval.around;
    if tells_steps(interval) {
        return of_own_lanes(interval, context);
    }
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

fn of_own_lanes(interval: &Interval, context: &Context<'_>) -> Judgement {
    let share = spent(interval).resolving;
    let (who, part) = (context.who(), percent(share));
    let waited = format!("{who} waited {part} of the time for the addresses of names");
    // Of one interval it is no matter: the others may have none.
    let whole = context.before.is_empty() && context.after.is_empty();
    match share {
        0.5.. => Judgement::convict(0.6 + 0.37 * share, waited),
        0.1.. if whole => Judgement::unknown(format!("whether a resolver is slow: {waited}")),
        _ => Judgement::acquit(waited),
    }
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
    use crate::evidence::{Evidence, LaneInterval};
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
    fn names_that_our_own_lanes_wait_for_are_told_by_their_clocks() {
        let evidence = Evidence::default();
        let judged = |millis: u64| {
            let resolving = Some(Duration::from_millis(millis));
            let connecting = Duration::from_millis(95);
            let lane = LaneInterval { connecting, resolving, ..LaneInterval::default() };
            let span = Duration::from_millis(100);
            let interval = Interval { span, lanes: vec![lane], ..Interval::default() };
            judge(&interval, &Context::alone(&evidence))
        };
        let Judgement::Convict { evidence: words, .. } = judged(90) else { panic!("it takes the time") };
        assert!(words.contains("waited 90 % of the time for the addresses of names"), "{words}");
        assert!(matches!(judged(30), Judgement::Unknown { .. }));
        assert!(judged(2).acquits());
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
