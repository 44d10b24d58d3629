//! Does the server fail, or do connections break, so that requests wait before they are sent again?
//!
//! Neither is a limit of its own. A server that fails has nothing to send, or takes nothing, as
//! [`super::application`] says of either end: convicts when lanes of our own slept after failures (a 500 and
//! others that are worth another attempt) for a quarter of the interval or more. Where a connection or an
//! answer broke off ([`broken`]), that is the sender or the path; where none came about, [`super::connect`]
//! says it.
//!
//! Can be wrong: of several lanes one alone may wait.

use std::time::Duration;

use super::spent::spent;
use super::{Context, Judgement};
use crate::evidence::Interval;
use crate::limit::QUARTER;
use crate::words::percent;

/// The share of an interval that a pause took, where it is one that a verdict counts; and `: why`.
pub(super) fn large(pause: Duration, interval: &Interval, why: Option<&String>) -> Option<(f64, String)> {
    let span = interval.span.as_secs_f64();
    let share = if span > 0.0 { (pause.as_secs_f64() / span).min(1.0) } else { 0.0 };
    (share >= QUARTER).then(|| (share, why.map(|words| format!(": {words}")).unwrap_or_default()))
}

/// The judgement, where the server failed.
pub(crate) fn judge(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let (share, why) = large(interval.server_failing, interval, context.facts.server_failed.as_ref())?;
    let evidence = format!(
        "the server failed, and requests waited {} of the time to be sent again{why}",
        percent(share)
    );
    Some(Judgement::convict(share, evidence))
}

/// The words for pauses after connections or answers that broke off, and their share of the time: nobody is
/// in the way meanwhile, and whether the sender or the path broke them does not show.
pub(crate) fn broken(interval: &Interval, context: &Context<'_>) -> Option<(f64, String)> {
    let (share, why) = large(interval.broken, interval, context.facts.broke.as_ref())?;
    // Where others carry, one lane that pauses is no matter.
    (spent(interval).socket_wait < 0.5).then(|| {
        let told = format!(
            "connections or answers broke off, and requests waited {} of the time to be sent again{why}",
            percent(share)
        );
        (share, told)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{DiskInterval, Evidence, Facts, LaneInterval, Reading};
    use crate::limit::Limit;
    use crate::verdict::{MainLimit, Verdict, explain};
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

    /// A second at a limit of our own, and four in which a lane paused, while the disk was busy and the
    /// digest caught up.
    fn paused(unreached: bool) -> Verdict {
        let second = Duration::from_secs(1);
        let lane = || LaneInterval { resolving: Some(Duration::ZERO), ..LaneInterval::default() };
        let carries = Interval {
            span: second,
            received: 1_000_000,
            lanes: vec![LaneInterval { received: 1_000_000, limited: second, ..lane() }],
            verify_backlog: 1 << 20,
            ..Interval::default()
        };
        let mut pauses = Interval {
            span: second,
            lanes: vec![lane()],
            left: Some(true),
            verify_busy: second,
            verify_backlog: 1 << 20,
            disk: Reading::Value(DiskInterval { written: 1 << 20, read: 0, busy: 0.9 }),
            ..Interval::default()
        };
        (pauses.unreached, pauses.broken) =
            if unreached { (second, Duration::ZERO) } else { (Duration::ZERO, second) };
        let facts = Facts { broke: Some("it was reset".to_owned()), ..Facts::default() };
        let intervals = [vec![carries], vec![pauses; 4]].concat();
        explain(&Evidence { intervals, facts, ..Evidence::default() })
    }

    #[test]
    fn pauses_before_another_attempt_are_nothing_else() {
        for (unreached, limit) in [(true, Limit::Connect), (false, Limit::SenderOrPath)] {
            let verdict = paused(unreached);
            assert_eq!(verdict.limit, Some(MainLimit::One(limit)), "{verdict:?}");
            let told = "requests waited 100 % of the time to be sent again: it was reset";
            assert!(verdict.evidence.iter().any(|line| line.contains(told)), "{verdict:?}");
        }
    }
}
