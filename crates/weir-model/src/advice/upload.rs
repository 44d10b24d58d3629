//! Advice for an upload of our own: what this end can do beside the store that takes it.

use super::{Advice, Held};
use crate::limit::Limit;
use crate::rule::rate_limit;
use crate::words::{rate, seconds};

/// What to do about this limit of an upload; `None` where the advice for a download fits as well.
pub(super) fn advise(limit: Limit, held: &Held<'_>) -> Option<Vec<Advice>> {
    Some(match limit {
        Limit::Reader => or_ask(
            more(held, "the store may take as much of each"),
            format!("ask who runs the store why it takes no more than {} here", rate(held.rate())),
        ),
        Limit::Application => or_ask(
            more(held, "answers are then waited for side by side"),
            "ask who runs the store why its answers take that long".to_owned(),
        ),
        Limit::Latency | Limit::RequestResponse => for_latency(held),
        Limit::ReceiveWindow => or_ask(
            more(held, "each has a window of its own"),
            "ask who runs the store for larger receive buffers (net.ipv4.tcp_rmem there)".to_owned(),
        ),
        Limit::PathLoss => {
            if let Some(advice) = super::far::for_loss_alone(held) {
                return Some(vec![advice]);
            }
            let mut advice = more(held, "a loss slows only its own");
            advice.push(Advice::new(
                "send with BBR (net.ipv4.tcp_congestion_control=bbr on this machine): it does not slow for loss",
                None,
            ));
            advice
        }
        Limit::Upstream => vec![Advice::new(
            "make the program that writes standard input faster: weir why --pid names what holds it",
            None,
        )],
        Limit::SenderOrPath => vec![Advice::new(
            "ask who runs the store what its own figures say of these requests: this end saw nothing that holds them",
            None,
        )],
        _ => return None,
    })
}

/// Small objects wait for round trips side by side.
fn for_latency(held: &Held<'_>) -> Vec<Advice> {
    let rtt = sender_rtt(held).map(|rtt| format!(" of {}", seconds(rtt))).unwrap_or_default();
    let nearer = format!(
        "send several objects in one run, which keeps connections open, or to a store that is nearer: round trips{rtt} remain"
    );
    if !has_several(held) {
        return vec![Advice::new(nearer, None)];
    }
    let advice = more(held, &format!("round trips{rtt} then pass side by side"));
    if advice.is_empty() { vec![Advice::new(nearer, None)] } else { advice }
}

fn or_ask(mut advice: Vec<Advice>, ask: String) -> Vec<Advice> {
    advice.push(Advice::new(ask, None));
    advice
}

/// More requests at once and what they would carry; nothing where a trial with more brought no more, or the
/// command makes no more.
fn more(held: &Held<'_>, why: &str) -> Vec<Advice> {
    if !has_several(held) {
        return held.more_connections(why);
    }
    if held.evidence.trials.iter().any(rate_limit::flat) {
        return Vec::new();
    }
    let now = held.evidence.facts.lanes_fixed.unwrap_or(0).max(held.lanes());
    let Some(more) = held.allowed(now.saturating_mul(2), now) else { return Vec::new() };
    let flag = if held.evidence.facts.command.takes_jobs() { "-j" } else { "-c" };
    // On one machine the store's work takes the place of ours, so no rate follows from ours.
    let times = f64::from(more) / f64::from(now.max(1));
    let predicted = held.times(times).filter(|_| !held.evidence.facts.peer_is_local);
    vec![Advice::new(format!("send more at once ({flag} {more}): {why}"), predicted)]
}

/// There are objects enough for more lanes to have one each: as of a download.
fn has_several(held: &Held<'_>) -> bool {
    held.evidence.facts.objects >= 4 * u64::from(held.lanes())
}

fn sender_rtt(held: &Held<'_>) -> Option<f64> {
    let known = held.together.lanes.iter().filter_map(|lane| lane.sender.value()?.min_rtt);
    known.min().map(|rtt| rtt.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, Facts, Interval, LaneInterval, Reading, Trial};
    use crate::sender::SenderInterval;
    use std::time::Duration;

    fn actions(limit: Limit, objects: u64, trials: Vec<Trial>) -> Vec<Advice> {
        actions_of(limit, Facts { objects, ..Facts::default() }, trials)
    }

    fn actions_of(limit: Limit, facts: Facts, trials: Vec<Trial>) -> Vec<Advice> {
        let lane = LaneInterval {
            received: 1_000_000,
            sender: Reading::Value(SenderInterval { acked: 1_000_000, ..SenderInterval::default() }),
            ..LaneInterval::default()
        };
        let span = Duration::from_secs(1);
        let together = Interval { span, received: 1_000_000, lanes: vec![lane], ..Interval::default() };
        let facts = Facts { uploads: true, ..facts };
        let evidence = Evidence { facts, trials, intervals: vec![together.clone()] };
        super::super::advise(
            limit,
            &Held { evidence: &evidence, together: &together, knee: None, written: 0 },
        )
    }

    #[test]
    fn a_store_that_holds_each_connection_gets_more_of_them() {
        for limit in [Limit::Reader, Limit::Application, Limit::ReceiveWindow] {
            let large = actions(limit, 1, Vec::new());
            assert!(large[0].action.starts_with("use more connections (-c 2)"), "{large:?}");
            assert_eq!(large[0].predicted_rate, Some(2e6));
            let small = actions(limit, 9, Vec::new());
            assert!(small[0].action.starts_with("send more at once (-j 2)"), "{small:?}");
        }
    }

    #[test]
    fn no_more_requests_are_advised_than_there_is_work_for() {
        let advised = |lanes_fixed, most_at_once| {
            let facts = Facts { objects: 1, lanes_fixed, most_at_once, ..Facts::default() };
            actions_of(Limit::Reader, facts, Vec::new())
        };
        // Of a body that goes whole, also where the user asked for two.
        for whole in [advised(None, Some(1)), advised(Some(2), Some(1)), advised(Some(2), None)] {
            assert!(whole.len() == 1 && whole[0].action.starts_with("ask who runs the store"), "{whole:?}");
        }
        assert!(advised(None, Some(9))[0].action.contains("(-c 2)"));
    }

    #[test]
    fn what_more_of_them_did_not_help_is_asked_of_the_store() {
        let flat = Trial {
            at: 1.0,
            lanes_before: 1,
            lanes_after: 2,
            rate_before: 1e6,
            rate_after: 1e6,
            kept: false,
        };
        let asked = actions(Limit::Reader, 1, vec![flat]);
        assert!(asked.len() == 1 && asked[0].action.starts_with("ask who runs the store"), "{asked:?}");
    }

    #[test]
    fn nobody_who_uploads_is_told_to_fetch() {
        for limit in Limit::ALL {
            for objects in [1, 9] {
                let advice = actions(limit, objects, Vec::new());
                let of_downloads = ["fetch", "consumer of the output", "--recv-buffer", "ss -ti there"];
                let told = |text: &str| advice.iter().any(|one| one.action.contains(text));
                assert!(!of_downloads.into_iter().any(told), "{limit}: {advice:?}");
            }
        }
    }
}
