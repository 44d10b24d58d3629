//! Does the server fail, so that requests wait before they are sent again?
//!
//! Not a limit of its own: the far program has nothing to send, or takes nothing, as [`super::application`]
//! says of either end. Convicts when lanes of our own slept after failures (a 500 and others that are worth
//! another attempt) for a quarter of the interval or more.
//!
//! Can be wrong: of several lanes one alone may wait.

use super::{Context, Judgement};
use crate::evidence::Interval;
use crate::words::percent;

/// The share from which a verdict counts a limit.
const LARGE: f64 = 0.25;

/// The judgement, where the server failed.
pub(crate) fn judge(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let span = interval.span.as_secs_f64();
    let share = if span > 0.0 { interval.server_failing.as_secs_f64() / span } else { 0.0 };
    let words = context.facts.server_failed.as_ref().map(|words| format!(": {words}")).unwrap_or_default();
    (share >= LARGE).then(|| {
        let evidence = format!(
            "the server failed, and requests waited {} of the time to be sent again{words}",
            percent(share)
        );
        Judgement::convict(share, evidence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, Facts};
    use std::time::Duration;

    #[test]
    fn a_server_that_fails_is_told_with_its_words() {
        let facts = Facts { server_failed: Some("500 Oops".to_owned()), ..Facts::default() };
        let evidence = Evidence { facts, ..Evidence::default() };
        let judged = |millis| {
            let (span, server_failing) = (Duration::from_millis(100), Duration::from_millis(millis));
            judge(&Interval { span, server_failing, ..Interval::default() }, &Context::alone(&evidence))
        };
        assert_eq!(judged(20), None);
        let Some(Judgement::Convict { strength, evidence }) = judged(80) else { panic!("it failed") };
        assert!(
            (strength - 0.8).abs() < 1e-9 && evidence.contains("80 % of the time to be sent again: 500 Oops")
        );
    }
}
