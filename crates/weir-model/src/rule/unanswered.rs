//! Waits for an answer that never came, or that a lost segment may have delayed: no sign against a server.

use super::Context;
use super::spent::active;
use crate::evidence::{Clocks, Interval, LaneInterval};
use crate::rule::waits;
use crate::waits::Ended;
use crate::words::seconds;
use weir_units::counted;

/// A sender's retransmission timer takes this at least, seconds (TCP_RTO_MIN).
const TIMER: f64 = 0.2;

/// No timer explains a longer wait, seconds: that one, doubled three times (0.2 + 0.4 + 0.8 + 1.6).
const LATEST: f64 = 3.0;

/// Why a client's wait for an answer may be another's doing than the server's; `None` where nothing says so.
pub(crate) fn doubt(interval: &Interval, context: &Context<'_>, wait: f64) -> Option<String> {
    let own = context.facts.clocks == Clocks::Own;
    if own && let Some(why) = sent_again(interval, context) {
        return Some(why);
    }
    let waiting = || interval.lanes.iter().filter(|lane| !lane.first_byte.is_zero());
    // With hindsight: nothing more came on any of these connections. A second is beyond any path.
    let never = |number: u32| {
        let after = context.after.iter().filter_map(|interval| waits::of(number, interval));
        let before = context.before.iter().filter_map(|interval| waits::of(number, interval));
        before.chain(after).all(|lane| lane.received == 0)
    };
    // Of a socket that was not read it is not even known that the question left.
    let is_read = |lane: &LaneInterval| match own {
        true => lane.tcp.value().is_some_and(|tcp| tcp.resent.is_some()),
        false => lane.waits.value().is_some(),
    };
    let told = waiting().all(is_read);
    if told && wait >= 1.0 && waiting().all(|lane| lane.received == 0 && never(lane.lane)) {
        return Some(
            "whether the server is silent or its answer is lost on the way: no byte of it came (the server's end would \
             show retransmissions)"
                .to_owned(),
        );
    }
    if own { late_by_clocks(interval, context) } else { late_among_prompt(interval, context) }
}

/// The question of a lane of our own went out more than once before it was answered: it was lost, or the
/// answer was, with which its acknowledgement comes.
fn sent_again(interval: &Interval, context: &Context<'_>) -> Option<String> {
    let awaits = |lane: &LaneInterval| !lane.first_byte.is_zero();
    let again = |lane: &LaneInterval| {
        let one = waits::stretch(lane, context, awaits, |other| other.requests > 0);
        let resent = one.iter().filter_map(|lane| lane.tcp.value()?.resent);
        resent.fold(0, u64::saturating_add)
    };
    let again = interval.lanes.iter().filter(|lane| awaits(lane)).map(again).max()?;
    (again > 0).then(|| {
        let segments = counted(again, "segment");
        format!("whether the server is slow, or a request or its answer was lost: {segments} went out again")
    })
}

/// As [`late_among_prompt`], of a lane of our own, whose waits are on its clock: such a one takes all of an
/// interval in which no request ended.
fn late_by_clocks(interval: &Interval, context: &Context<'_>) -> Option<String> {
    /// Seconds each way, as for the looks at foreign sockets.
    const NEAR: f64 = 5.0;
    let lane =
        interval.lanes.iter().filter(|lane| !lane.first_byte.is_zero()).max_by_key(|lane| lane.first_byte)?;
    let awaits = |lane: &LaneInterval| !lane.first_byte.is_zero();
    let one = waits::stretch(lane, context, awaits, |other| other.requests > 0);
    let lasted: f64 = one.iter().map(|lane| lane.first_byte.as_secs_f64()).sum();
    if !(0.9 * TIMER..LATEST).contains(&lasted) {
        return None;
    }
    let mut near: Vec<&Interval> = context.recent(NEAR).collect();
    near.reverse();
    near.push(interval);
    near.extend(context.following(NEAR));
    let (mut late, mut answers, mut was_late) = (0_u64, 0_u64, false);
    for (other, same) in near.into_iter().filter_map(|other| Some((other, waits::of(lane.lane, other)?))) {
        let is_late = same.requests == 0 && same.first_byte.as_secs_f64() >= 0.9 * active(same, other);
        late += u64::from(is_late && !was_late);
        answers += u64::from(same.requests);
        was_late = is_late;
    }
    (late > 0 && answers >= 5 * late).then(|| {
        format!(
            "whether the server or a lost segment delayed an answer for {}: {late} of {answers} came late, \
             the others at once",
            seconds(lasted)
        )
    })
}

/// One answer in several is late by a retransmission timer and more, and all others came at once: a lost
/// segment of the answer, which its sender repeats after 0.2 s or more, looks just so.
fn late_among_prompt(interval: &Interval, context: &Context<'_>) -> Option<String> {
    let lane =
        interval.lanes.iter().filter(|lane| !lane.first_byte.is_zero()).max_by_key(|lane| lane.first_byte)?;
    let stall = waits::ending(lane, interval, context).filter(|stall| stall.ended == Ended::Peer)?;
    let (around, _) = waits::around(lane, interval, context, 5.0)?;
    let late = around.stalls.iter().filter(|stall| stall.lasted.as_secs_f64() >= 0.9 * TIMER).count() as u64;
    (stall.lasted.as_secs_f64() >= 0.9 * TIMER && late > 0 && around.sent_segments >= 5 * late).then(|| {
        format!(
            "whether the server or a lost segment delayed an answer: {late} of {} came late, the others at once",
            around.sent_segments
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{Evidence, Reading, TcpInterval};
    use crate::rule::{Judgement, application};

    /// 100 ms of a lane of our own that waits for a first byte, over a round trip of 20 ms: so many requests
    /// end in it, and so many segments are sent again.
    fn awaits(millis: u64, requests: u32, resent: u64) -> Interval {
        let tcp = TcpInterval {
            min_rtt: Some(Duration::from_millis(20)),
            resent: Some(resent),
            ..TcpInterval::default()
        };
        let lane = LaneInterval {
            first_byte: Duration::from_millis(millis),
            received: u64::from(requests) * 1000,
            requests,
            tcp: Reading::Value(tcp),
            ..LaneInterval::default()
        };
        let received = lane.received;
        Interval { span: Duration::from_millis(100), received, lanes: vec![lane], ..Interval::default() }
    }

    fn judged(intervals: &[Interval], at: usize) -> Judgement {
        let evidence = Evidence { intervals: intervals.to_vec(), ..Evidence::default() };
        application::judge(&evidence.intervals[at], &Context::at(&evidence, at))
    }

    fn is_told_apart(judged: &Judgement) -> bool {
        !matches!(judged, Judgement::Unknown { .. })
    }

    #[test]
    fn a_question_that_went_out_twice_says_nothing_of_the_server() {
        let mut wait = vec![awaits(100, 0, 0), awaits(100, 0, 0), awaits(100, 1, 0)];
        assert!(judged(&wait, 0).convicts(), "a server that takes 0.3 s");
        wait[2] = awaits(100, 1, 1);
        for at in 0..3 {
            let judged = judged(&wait, at);
            let Judgement::Unknown { missing } = judged else { panic!("{at}: {judged:?}") };
            assert!(missing.contains("1 segment went out again"), "{missing}");
        }
    }

    #[test]
    fn one_late_answer_of_many_prompt_ones_may_be_a_lost_segments() {
        let prompt = || awaits(60, 3, 0);
        let late = [awaits(60, 0, 0), awaits(100, 0, 0), awaits(100, 1, 0)];
        let run = [vec![prompt(), prompt()], late.to_vec(), vec![prompt()]].concat();
        assert!(!is_told_apart(&judged(&run, 3)), "one of ten");
        let slow = [late.to_vec(), late.to_vec(), late.to_vec()].concat();
        assert!(judged(&slow, 4).convicts(), "all of them");
    }

    #[test]
    fn without_any_byte_a_lost_answer_is_as_likely_as_a_silent_server() {
        let silent = vec![awaits(100, 0, 0); 15];
        assert!(!is_told_apart(&judged(&silent, 14)));
        let answered = [silent, vec![awaits(50, 1, 0)]].concat();
        assert!(judged(&answered, 14).convicts(), "with hindsight");
    }
}
