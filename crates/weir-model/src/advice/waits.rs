//! Advice where a transfer waits for a turn, a timer, a neighbour or memory: no rate of a link or a buffer
//! helps.
//!
//! A promised rate needs to know what would follow once the wait is gone, which the waits themselves do not
//! show.

use super::{Advice, Held, far};
use crate::limit::Limit;
use crate::waits::Ended;
use crate::words::{bytes, seconds};

/// What to do about a limit of this kind.
pub(super) fn advise(limit: Limit, held: &Held<'_>) -> Vec<Advice> {
    match limit {
        Limit::RequestResponse => for_turns(held),
        Limit::ProtocolWindow => for_protocol_window(held),
        Limit::Nagle => vec![Advice::new(
            "set TCP_NODELAY on the sending socket, or hand over each message with one call (writev, MSG_MORE): its last \
             piece then waits for no acknowledgement",
            None,
        )],
        Limit::PathMtu => vec![
            Advice::new(
                "let the sender find the path's MTU: net.ipv4.tcp_mtu_probing=1 there (its sysctl, at once)",
                None,
            ),
            Advice::new(
                "or mend the path: let ICMP \"fragmentation needed\" through, lower the interface's MTU, or clamp the MSS \
                 at the tunnel",
                None,
            ),
        ],
        Limit::Timeouts => vec![for_timeouts(held)],
        Limit::Memory => {
            vec![
                Advice::new(
                    "let this machine keep its memory: switch free page reporting off (virtio-balloon's free-page-reporting), or \
                     give the host more memory",
                    None,
                ),
                Advice::new(
                    "write pieces of 64 to 128 KiB instead of larger ones: they take pages that were in use a moment ago",
                    None,
                ),
            ]
        }
        _ => Vec::new(),
    }
}

/// The rate of several turns at once is not promised: what each turn carries may then meet another limit.
fn for_turns(held: &Held<'_>) -> Vec<Advice> {
    let rtt = far::sender(held).and_then(|seen| seen.min_rtt).map(|rtt| rtt.as_secs_f64()).or(held.rtt());
    let turn =
        rtt.map(|rtt| format!(": each turn costs a round trip of {}", seconds(rtt))).unwrap_or_default();
    let action = format!(
        "ask before the last answer has come (several connections or streams at once, pipelining), or for more in one \
         request{turn}"
    );
    vec![Advice::new(action, None)]
}

/// Which timer it was that nothing moved for.
fn for_timeouts(held: &Held<'_>) -> Advice {
    let stalls =
        || held.together.lanes.iter().filter_map(|lane| lane.waits.value()).flat_map(|waits| &waits.stalls);
    let spent = |what: Ended| -> f64 {
        stalls().filter(|stall| stall.ended == what).map(|stall| stall.lasted.as_secs_f64()).sum()
    };
    if spent(Ended::Itself) > spent(Ended::Timeout) {
        return Advice::new(
            "look at the program's own timer: it waited for a word that never came and then went on (curl waits a second for \
             100 Continue: -H 'Expect:' leaves that out)",
            None,
        );
    }
    Advice::new(
        "find where the path loses segments: what is lost last of a short answer is only repeated when a timer of 0.2 s and \
         more fires, which no bandwidth and no congestion control shortens; fewer, larger exchanges meet it less often",
        None,
    )
}

fn for_protocol_window(held: &Held<'_>) -> Vec<Advice> {
    let window = far::sender(held).map(|seen| seen.in_flight).filter(|window| *window > 0);
    let size = window.map(|window| format!(" (about {} now)", bytes(window as f64))).unwrap_or_default();
    vec![
        Advice::new(
            format!(
                "enlarge the window of the protocol{size}: in HTTP/2 SETTINGS_INITIAL_WINDOW_SIZE and the connection's \
                 window, both at the receiver; SSH's is fixed in its program"
            ),
            None,
        ),
        Advice::new("or use several connections: each has its own window", None),
    ]
}
