//! Advice for another program's transfer, and for its sender: sysctls and calls instead of our own flags.

use super::{Advice, Held, around, buffers, waits};
use crate::congestion::is_bbr;
use crate::limit::Limit;
use crate::path::{MOST_WINDOW, buffer_for};
use crate::rule::sender::application;
use crate::rule::{Context, is_peers};
use crate::sender::SenderInterval;
use crate::words::{bytes, rate, seconds};

/// Payload of a full link: TCP, IP and Ethernet headers take 3.5 % (a bare IP link) to 5.9 % (framing and
/// gaps too).
const PAYLOAD: f64 = 0.95;

/// What to do about this limit of a foreign transfer; `None` where the advice for our own transfers fits as
/// well.
pub(super) fn advise(limit: Limit, held: &Held<'_>) -> Option<Vec<Advice>> {
    Some(match limit {
        Limit::Application => vec![for_application(held)],
        Limit::Reader => vec![Advice::new(
            "change nothing in the network: the receiving program does not read in time, look at what it waits for",
            None,
        )],
        Limit::Latency => for_latency(held),
        Limit::RequestResponse => waits::advise(limit, held),
        Limit::ReceiveWindow => for_receive_window(held),
        Limit::PathLoss => for_path_loss(held),
        Limit::Disk => vec![around::for_sync(&held.together.around)?],
        Limit::PathBandwidth => vec![for_path_bandwidth(held)?],
        Limit::CpuCore => vec![Advice::new(
            "give the thread a processor of its own, split its work over several, or make it cheaper per byte",
            None,
        )],
        Limit::RateLimit => vec![Advice::new("raise or drop the limit that was set", None)],
        Limit::SenderOrPath if is_seen_sending(held) => vec![Advice::new(
            "look from the receiver as well (weir why there): only it sees what lies unread",
            None,
        )],
        Limit::SenderOrPath => vec![Advice::new(
            "look from the sender (weir why there): only it sees its congestion window and what waits unsent",
            None,
        )],
        _ => return None,
    })
}

/// Whoever waits for the answer to what it sent may have more to send.
fn for_application(held: &Held<'_>) -> Advice {
    let context = Context::alone(held.evidence);
    let lanes = held.together.lanes.iter().filter(|lane| !is_peers(lane, held.together, &context));
    let seen = lanes.filter_map(|lane| Some((lane.sender.value()?, lane.thread.value()?)));
    let heaviest = seen.max_by_key(|(seen, _)| seen.acked);
    let awaits =
        heaviest.and_then(|(seen, thread)| application::awaits_answers(seen, thread, &held.together.around));
    let action = match awaits {
        Some(_) => {
            "change nothing in the network: the program waits for answers to what it sent, look at the one at the other end"
        }
        None => {
            "change nothing in the network: the sending program has nothing to send, look at what it waits for"
        }
    };
    Advice::new(action, None)
}

/// Where a shaper of this host hands out the rate that was reached, the link is not what is full; `None`
/// where it is.
fn for_path_bandwidth(held: &Held<'_>) -> Option<Advice> {
    let shaper = held.evidence.facts.shaper.as_ref()?;
    // Headers take up to 6 % of a shaper's rate (see PAYLOAD), and a mean over a run with its start a bit
    // more.
    let reached = held.rate() >= 0.8 * shaper.rate && shaper.rate > 0.0;
    reached.then(|| {
        Advice::new(
            format!(
                "change this host's own queue: {} on {} hands out {} (tc qdisc show dev {}); the path beyond it was not filled",
                shaper.kind,
                shaper.interface,
                rate(shaper.rate),
                shaper.interface
            ),
            None,
        )
    })
}

/// Both ends of the heaviest connection did not agree on window scaling.
pub(super) fn unscaled(held: &Held<'_>) -> Option<Advice> {
    let lanes = held.together.lanes.iter().filter(|lane| lane.waits.value().is_some());
    let heaviest = lanes.max_by_key(|lane| lane.received)?;
    (heaviest.waits.value()?.scaled == Some(false)).then(|| {
        Advice::new(
            "turn on window scaling: net.ipv4.tcp_window_scaling=1 at both ends, or find the middlebox that takes the option \
             out of the SYN; without it no buffer offers more than 65,535 bytes",
            None,
        )
    })
}

/// The path reorders, and most of what was retransmitted was not needed.
fn reorders(held: &Held<'_>) -> bool {
    sender(held).is_some_and(|seen| {
        let spurious = seen.duplicates.saturating_mul(seen.segment.max(1));
        seen.reordered > 0 && spurious >= seen.retransmitted / 2 && seen.retransmitted > 0
    })
}

/// The sender's view of the heaviest connection while the limit held.
pub(super) fn sender<'a>(held: &'a Held<'_>) -> Option<&'a SenderInterval> {
    held.together.lanes.iter().filter_map(|lane| lane.sender.value()).max_by_key(|seen| seen.acked)
}

/// Half of the run's bytes or more went by connections that are seen from their sender; what a receiver's
/// socket sends are requests.
fn is_seen_sending(held: &Held<'_>) -> bool {
    let lanes = || held.evidence.intervals.iter().flat_map(|interval| &interval.lanes);
    let all = lanes().map(|lane| lane.received).fold(0, u64::saturating_add);
    let sent = lanes().filter_map(|lane| Some(lane.sender.value()?.acked.min(lane.received)));
    sender(held).is_some() && sent.fold(0, u64::saturating_add).saturating_mul(2) >= all
}

/// What the link carries of payload, where its rate is known.
fn link(held: &Held<'_>) -> Option<f64> {
    held.evidence.facts.link_rate.filter(|rate| rate.is_finite() && *rate > 0.0).map(|rate| PAYLOAD * rate)
}

/// No more than the link.
fn capped(held: &Held<'_>, target: f64) -> f64 {
    link(held).map_or(target, |link| target.min(link))
}

/// Dropping SO_SNDBUF gives autotuning back, which goes on until the link or the peer's window is full. Where
/// neither is known, only the step of twice the buffer has a rate: what is in flight turns over once a round
/// trip.
pub(super) fn for_send_buffer(held: &Held<'_>) -> Vec<Advice> {
    let facts = &held.evidence.facts;
    let Some(seen) = sender(held) else { return Vec::new() };
    let buffer = seen.send_buffer.unwrap_or(0) as f64;
    // The kernel doubles what is asked for, to pay for its overhead, after cutting it to wmem_max.
    let cut = facts.wmem_max.filter(|most| *most > 0 && buffer == 2.0 * *most as f64);
    let rtt = seen.rtt.map(|rtt| rtt.as_secs_f64()).filter(|rtt| *rtt > 0.0);
    let target = link(held);
    let needs = target.zip(rtt).map(|(target, rtt)| 2.0 * target * rtt);
    let tuned = facts.tcp_wmem_max.filter(|most| buffer >= 0.9 * *most as f64);
    let first = match (tuned, cut) {
        (Some(most), _) => format!(
            "let autotuning go further: raise the third number of net.ipv4.tcp_wmem above {}",
            bytes(most as f64)
        ),
        (None, Some(most)) => format!(
            "drop the SO_SNDBUF call, which was cut to net.core.wmem_max of {} and switches autotuning off; or raise \
             wmem_max{}",
            bytes(most as f64),
            needs
                .map(|needs| needs / 2.0)
                .filter(|needs| *needs > most as f64)
                .map(|needs| format!(" to {}", bytes(needs)))
                .unwrap_or_default()
        ),
        (None, None) => {
            "drop the SO_SNDBUF call: it switches the kernel's autotuning off (net.ipv4.tcp_wmem)".to_owned()
        }
    };
    let mut advice = vec![Advice::new(first, target)];
    if target.is_none() && buffer > 0.0 {
        let action = format!("or give the socket a send buffer of {}, twice as much", bytes(2.0 * buffer));
        advice.push(Advice::new(action, Some(2.0 * held.rate())));
    }
    advice
}

/// The window turns over once a round trip, so a buffer of twice the size carries twice as much, until the
/// link is full.
fn for_receive_window(held: &Held<'_>) -> Vec<Advice> {
    if let Some(advice) = unscaled(held) {
        return vec![advice];
    }
    let rtt = sender(held).and_then(|seen| seen.rtt).map(|rtt| rtt.as_secs_f64()).or(held.rtt());
    let each = held.each();
    let target = link(held).unwrap_or(2.0 * held.rate());
    let most = rtt.map_or(f64::INFINITY, |rtt| MOST_WINDOW as f64 / rtt * f64::from(held.lanes()));
    let target = target.min(most.max(held.rate()));
    let window = rtt.map(|rtt| each * rtt * target / held.rate().max(1.0));
    // No less than every socket begins with (tcp_rmem's second number).
    let needed = window.map(|window| buffer_for(window as u64).max(131_072));
    let action = match (needed, held.receive_most()) {
        (Some(needed), Some(most)) if needed <= most => format!(
            "allow the receiver a larger receive buffer: drop its SO_RCVBUF call (net.ipv4.tcp_rmem is not what holds it, it \
             ends at {})",
            bytes(most as f64)
        ),
        (Some(needed), most) => format!(
            "allow the receiver a larger receive buffer: drop its SO_RCVBUF call, or {} there",
            buffers::receive_setting(needed, most)
        ),
        (None, _) => {
            "allow the receiver a larger receive buffer (net.ipv4.tcp_rmem, or drop its SO_RCVBUF call)"
                .to_owned()
        }
    };
    vec![
        Advice::new(action, Some(target)),
        Advice::new(
            "or use twice the connections: each has its own window",
            Some(capped(held, 2.0 * held.rate())),
        ),
    ]
}

fn for_path_loss(held: &Held<'_>) -> Vec<Advice> {
    if reorders(held) {
        return vec![Advice::new(
            "find what reorders the path (a bonded link, packets spread over several ways): hardly anything is lost, and most \
             that was sent again had arrived; or use RACK's wider window (net.ipv4.tcp_max_reordering, TCP timestamps on)",
            None,
        )];
    }
    if let Some(advice) = for_loss_alone(held) {
        return vec![advice];
    }
    vec![
        Advice::new(
            "send with BBR (net.ipv4.tcp_congestion_control=bbr on the sender): it does not slow for loss",
            link(held),
        ),
        Advice::new(
            "use more connections, twice as many at first: a loss slows only its own",
            Some(capped(held, 2.0 * held.rate())),
        ),
    ]
}

/// Where the sender goes by BBR already only the loss itself is left to change.
pub(super) fn for_loss_alone(held: &Held<'_>) -> Option<Advice> {
    let name = sender(held)?.congestion_control.as_deref().filter(|name| is_bbr(name))?;
    let action = format!(
        "find where the path loses segments (a cable, Wi-Fi, a policer): the sender uses {name} already, which tolerates a few per cent of loss"
    );
    Some(Advice::new(action, None))
}

/// Handshakes are saved by keeping connections; the rest of an exchange only passes beside others.
fn for_latency(held: &Held<'_>) -> Vec<Advice> {
    let lanes = &held.together.lanes;
    let span = held.together.span.as_secs_f64();
    let active: f64 = lanes.iter().map(|lane| crate::rule::spent::active(lane, held.together)).sum();
    let connecting: f64 = lanes.iter().map(|lane| lane.connecting.as_secs_f64()).sum();
    let share = if active > 0.0 { (connecting / active).clamp(0.0, 0.95) } else { 0.0 };
    let rtt = sender(held).and_then(|seen| seen.min_rtt).map(|rtt| rtt.as_secs_f64()).or(held.rtt());
    let rtt = rtt.map(|rtt| format!(" of {}", seconds(rtt))).unwrap_or_default();
    let mut advice = Vec::new();
    if share >= 0.1 && span > 0.0 {
        let kept = held.rate() / (1.0 - share);
        let action =
            format!("keep connections open: handshakes then cost nothing, which brings {}", rate(kept));
        advice.push(Advice::new(action, Some(capped(held, kept))));
    }
    advice.push(Advice::new(
        format!("ask for several at once: round trips{rtt} then pass side by side, two at once bring twice as much"),
        Some(capped(held, 2.0 * held.rate())),
    ));
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::Around;
    use crate::evidence::{
        Clocks, CpuInterval, Evidence, Facts, Found, Interval, LaneInterval, Reading, Shaper, ThreadInterval,
    };
    use crate::waits::Waits;
    use std::time::Duration;

    fn actions(limit: Limit, facts: Facts, lane: LaneInterval) -> Vec<String> {
        actions_of(limit, facts, vec![lane])
    }

    fn actions_of(limit: Limit, facts: Facts, lanes: Vec<LaneInterval>) -> Vec<String> {
        let span = Duration::from_secs(1);
        let received = lanes.iter().map(|lane| lane.received).sum();
        let together = Interval { span, received, lanes, ..Interval::default() };
        let facts = Facts { clocks: Clocks::Sampled, ..facts };
        let evidence = Evidence { facts, intervals: vec![together.clone()], ..Evidence::default() };
        let held = Held { evidence: &evidence, together: &together, knee: None, written: 0 };
        super::super::advise(limit, &held).into_iter().map(|advice| advice.action).collect()
    }

    #[test]
    fn a_quota_is_raised_and_a_full_thread_is_split() {
        let thread = |throttled| {
            let thread =
                ThreadInterval { throttled: Duration::from_millis(throttled), ..ThreadInterval::default() };
            LaneInterval { thread: Reading::Value(thread), ..LaneInterval::default() }
        };
        let under_quota = actions(Limit::CpuCore, Facts::default(), thread(700));
        assert!(under_quota[0].contains("raise the CPU quota"), "{under_quota:?}");
        let full = actions(Limit::CpuCore, Facts::default(), thread(0));
        assert!(full[0].contains("split its work"), "{full:?}");
    }

    #[test]
    fn a_shaper_of_this_host_is_changed_where_it_is_what_is_full() {
        let shaper = |rate| Facts {
            shaper: Some(Shaper { interface: "eth0".into(), kind: "tbf".into(), rate }),
            ..Facts::default()
        };
        let lane = || LaneInterval { received: 950_000, ..LaneInterval::default() };
        let own = actions(Limit::PathBandwidth, shaper(1e6), lane());
        assert!(own[0].contains("tbf on eth0"), "{own:?}");
        let other = actions(Limit::PathBandwidth, shaper(1e7), lane());
        assert!(other[0].contains("the link is full"), "{other:?}");
    }

    #[test]
    fn it_is_looked_from_the_end_that_most_bytes_were_not_seen_from() {
        let came = |received| LaneInterval { received, ..LaneInterval::default() };
        let seen = |received, acked| {
            let sender = Reading::Value(SenderInterval { acked, ..SenderInterval::default() });
            LaneInterval { received, sender, ..LaneInterval::default() }
        };
        for (lanes, end) in [
            (vec![seen(1000, 1000)], "receiver"),
            (vec![came(1000), seen(2000, 2000)], "receiver"),
            (vec![came(1_000_000), seen(2000, 2000), seen(1000, 1000)], "sender"),
            // A receiver's own socket, which sends its requests.
            (vec![seen(1_000_000, 200)], "sender"),
            (vec![came(1000)], "sender"),
        ] {
            let advised = actions_of(Limit::SenderOrPath, Facts::default(), lanes);
            assert!(advised[0].starts_with(&format!("look from the {end} ")), "{advised:?}, not the {end}");
        }
    }

    #[test]
    fn without_scaling_no_buffer_helps() {
        let lane = |scaled| LaneInterval {
            received: 1,
            waits: Reading::Value(Waits { scaled, ..Waits::default() }),
            ..LaneInterval::default()
        };
        let unscaled = actions(Limit::ReceiveWindow, Facts::default(), lane(Some(false)));
        assert!(unscaled[0].contains("tcp_window_scaling"), "{unscaled:?}");
        for other in [Some(true), None] {
            let scaled = actions(Limit::ReceiveWindow, Facts::default(), lane(other));
            assert!(scaled[0].contains("receive buffer"), "{scaled:?}");
        }
    }

    #[test]
    fn a_path_that_reorders_gets_no_advice_against_loss() {
        let lane = |duplicates| {
            let seen = SenderInterval {
                segment: 1448,
                retransmitted: 144_800,
                reordered: 5,
                duplicates,
                ..SenderInterval::default()
            };
            LaneInterval { sender: Reading::Value(seen), ..LaneInterval::default() }
        };
        let reordered = actions(Limit::PathLoss, Facts::default(), lane(100));
        assert!(reordered[0].contains("what reorders the path"), "{reordered:?}");
        let lost = actions(Limit::PathLoss, Facts::default(), lane(3));
        assert!(lost[0].contains("BBR"), "{lost:?}");
    }

    #[test]
    fn pages_that_are_read_back_are_a_matter_of_memory() {
        let lane = |paging_in| {
            let found = Found { reading_disk: 5, paging_in, ..Found::default() };
            let thread = ThreadInterval { looks: 5, found, ..ThreadInterval::default() };
            LaneInterval { thread: Reading::Value(thread), ..LaneInterval::default() }
        };
        let pages = actions(Limit::SourceDisk, Facts::default(), lane(4));
        assert!(pages[0].contains("memory is short") && !pages[0].contains("larger reads"), "{pages:?}");
        let calls = actions(Limit::SourceDisk, Facts::default(), lane(1));
        assert!(calls[0].contains("larger reads"), "{calls:?}");
    }

    #[test]
    fn a_core_that_the_hypervisor_gives_to_others_is_asked_for_there() {
        let evidence =
            Evidence { facts: Facts { clocks: Clocks::Sampled, ..Facts::default() }, ..Evidence::default() };
        let advised = |steal| {
            let cpu = Reading::Value(CpuInterval { steal, ..CpuInterval::default() });
            let together = Interval { span: Duration::from_secs(1), cpu, ..Interval::default() };
            let held = Held { evidence: &evidence, together: &together, knee: None, written: 0 };
            let all = super::super::advise(Limit::CpuCore, &held).into_iter().map(|advice| advice.action);
            all.collect::<Vec<_>>().join("; ")
        };
        assert!(advised(0.25).contains("gave 25 % of a processor to others"), "{}", advised(0.25));
        assert!(advised(0.1).contains("split its work"), "{}", advised(0.1));
        assert!(!advised(0.1).contains("hypervisor"), "{}", advised(0.1));
    }

    #[test]
    fn who_waits_for_answers_is_not_told_that_it_has_nothing_to_send() {
        let advised = |served| {
            let seen = SenderInterval { looks: 5, awaiting: 5, asked: 9, acked: 9, ..Default::default() };
            let found = Found { receiving: 5, ..Found::default() };
            let thread = ThreadInterval { looks: 5, found, ..ThreadInterval::default() };
            let (sender, thread) = (Reading::Value(seen), Reading::Value(thread));
            let lanes = vec![LaneInterval { sender, thread, ..LaneInterval::default() }];
            let around = Around { samples: 5, served, ..Around::default() };
            let together = Interval { span: Duration::from_secs(1), lanes, around, ..Interval::default() };
            let facts = Facts { clocks: Clocks::Sampled, ..Facts::default() };
            let evidence = Evidence { facts, ..Evidence::default() };
            let held = Held { evidence: &evidence, together: &together, knee: None, written: 0 };
            super::super::advise(Limit::Application, &held).remove(0).action
        };
        assert!(advised(false).contains("the one at the other end"), "{}", advised(false));
        assert!(advised(true).contains("has nothing to send"), "{}", advised(true));
    }

    #[test]
    fn a_black_hole_never_gets_another_congestion_control() {
        let advice = actions(Limit::PathMtu, Facts::default(), LaneInterval::default());
        assert!(
            advice[0].contains("tcp_mtu_probing") && advice.iter().all(|it| !it.contains("BBR")),
            "{advice:?}"
        );
    }
}
