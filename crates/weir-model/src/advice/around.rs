//! Advice where the wait lies around the connections: at a listener, a resolver, in the program itself, or at
//! a neighbour of it.
//!
//! None of it has a rate: what the transfer would carry without the wait is not shown by the wait.

use super::{Advice, Held};
use crate::around::{Around, Attempt, Crowded, Listener, Neighbour, Step};
use crate::limit::Limit;
use crate::rule::{connect, dns, think_time};
use weir_units::counted;

/// What to do about a limit of this kind.
pub(super) fn advise(limit: Limit, held: &Held<'_>) -> Vec<Advice> {
    let around = &held.together.around;
    let action = match limit {
        Limit::Connect => return for_connect(around),
        Limit::Dns => return for_dns(around),
        Limit::ThinkTime => for_think_time(around),
        Limit::Upstream => for_upstream(around),
        Limit::Downstream => for_downstream(around),
        _ => return Vec::new(),
    };
    vec![Advice::new(action, None)]
}

const RAISE_BACKLOG: &str = "or let more wait: raise the backlog that the server gives to listen(), and net.core.somaxconn, which cuts it";

fn for_connect(around: &Around) -> Vec<Advice> {
    let full = |attempt: &&Attempt| attempt.listener.is_some_and(Listener::is_full);
    if let Some(attempt) = around.attempts.iter().find(full) {
        let backlog = attempt.listener.unwrap_or_default().backlog;
        return vec![
            Advice::new(
                format!(
                    "have the server accept sooner (more workers): {} may wait at {}, and more are dropped",
                    counted(u64::from(backlog) + 1, "connection"),
                    attempt.peer
                ),
                None,
            ),
            Advice::new(RAISE_BACKLOG, None),
        ];
    }
    if let Some(Crowded { port, listener }) = around.crowded {
        let backlog = u64::from(listener.backlog) + 1;
        return vec![
            Advice::new(
                format!(
                    "accept sooner (more workers): {} may wait at port {port}, and more are dropped",
                    counted(backlog, "connection")
                ),
                None,
            ),
            Advice::new(RAISE_BACKLOG, None),
        ];
    }
    // Attempts that fail at once over a path are seen for their round trip, and wait for nothing else.
    let waits = |attempt: &&Attempt| around.failed_attempts == 0 || connect::is_hard(attempt);
    let waiting = around.attempts.iter().filter(waits);
    let Some(worst) = waiting.max_by_key(|attempt| (attempt.retransmits, attempt.age)) else {
        return vec![Advice::new(
            "start the server, or ask the right address and port: attempts to connect fail at once",
            None,
        )];
    };
    let peer = &worst.peer;
    let action = match (worst.step, worst.listener) {
        (Step::Tls, _) => format!(
            "look at {peer}: it takes the connection and is slow with the TLS handshake (its processors, its key, \
             a proxy before it)"
        ),
        (_, Some(_)) => format!(
            "look for what drops SYNs to {peer} on this machine: its firewall (nft list ruleset), since the listener had room"
        ),
        (_, None) => format!(
            "find where SYNs to {peer} get lost: a firewall that drops, a route or host that is down, a full listen queue there \
             (ss -ltn and nstat -az TcpExtListenOverflows on that host)"
        ),
    };
    vec![Advice::new(action, None)]
}

fn for_dns(around: &Around) -> Vec<Advice> {
    let address = dns::named(&around.resolvers);
    vec![
        Advice::new(
            format!(
                "ask the resolver {address} by hand (dig @ADDRESS NAME, resolvectl query NAME): it is silent or slow"
            ),
            None,
        ),
        Advice::new(
            "or put one that answers first in /etc/resolv.conf (resolvectl dns); 'options timeout:1' there tries the next sooner",
            None,
        ),
    ]
}

fn for_think_time(around: &Around) -> String {
    let who = around.rest.who.as_deref().unwrap_or("the program");
    format!(
        "change nothing in the network: {who} is {} between its transfers; do that beside them, or less of it",
        think_time::doing(&around.rest)
    )
}

fn for_upstream(around: &Around) -> String {
    let writer = around.at_pipe(false).map(|(writer, _)| writer).filter(|writer| !writer.inside);
    let chained = around.flows.iter().find(|flow| Some(flow.lane) == around.chained_to);
    match (chained, writer, around.flows.iter().find(|flow| !flow.sends)) {
        (Some(flow), ..) | (None, None, Some(flow)) => format!(
            "look at {}: this program waits for what comes from there (weir why --peer of its address, or on that host)",
            flow.peer
        ),
        (None, Some(writer), _) => look_at(writer),
        (None, None, None) => "look at what feeds this program: it waits for its data".to_owned(),
    }
}

fn for_downstream(around: &Around) -> String {
    if let Some(advice) = for_sync(around) {
        return advice.action;
    }
    match (around.at_pipe(true), around.flows.iter().find(|flow| flow.sends)) {
        (_, Some(flow)) if around.flows.iter().any(|other| !other.sends) => {
            format!("look at the connection to {}: this program waits until that takes its data", flow.peer)
        }
        (Some((reader, _)), _) => look_at(reader),
        _ => "look at what this program feeds: it waits for its data to be taken".to_owned(),
    }
}

/// Where a file was waited for to be on its disk in half of the samples or more.
pub(super) fn for_sync(around: &Around) -> Option<Advice> {
    let sync = around.syncs.as_ref().filter(|sync| sync.samples >= around.samples.div_ceil(2))?;
    let file = sync.path.as_deref().unwrap_or("the file");
    let action = format!(
        "sync less often (several writes for one fsync), or put {file} on a faster device: {} waits for it",
        sync.who
    );
    Some(Advice::new(action, None))
}

/// `look at gzip (pid 7), which takes its output (top -H -p 7, weir why --pid 7): …`.
fn look_at(neighbour: &Neighbour) -> String {
    let does = if neighbour.reads { "takes its output" } else { "feeds it" };
    let Some(name) = neighbour.thread.value().and_then(|thread| thread.name.as_deref()) else {
        return format!("look at the process that {does}");
    };
    let pid: String = match name.rsplit_once("(pid ") {
        Some((_, rest)) => rest.chars().take_while(char::is_ascii_digit).collect(),
        None => String::new(),
    };
    let how =
        if pid.is_empty() { String::new() } else { format!(" (top -H -p {pid}, weir why --pid {pid})") };
    if neighbour.waits_on() >= 0.5 {
        return format!("look past {name}, which {does}{how}: it waits itself for the process that {does}");
    }
    format!("look at {name}, which {does}{how}: it is the slower of the two")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::{FlowName, Rest};
    use crate::evidence::{Evidence, Interval, Reading, ThreadInterval};

    fn first(limit: Limit, around: Around) -> String {
        let together = Interval { around, ..Interval::default() };
        let evidence = Evidence::default();
        let held = Held { evidence: &evidence, together: &together, knee: None, written: 0 };
        let advice = advise(limit, &held);
        assert!(advice.iter().all(|advice| advice.predicted_rate.is_none()));
        advice[0].action.clone()
    }

    #[test]
    fn a_backlog_is_advised_only_where_its_queue_was_seen_full() {
        let with = |listener| {
            let attempt =
                Attempt { peer: "127.0.0.1:80".to_owned(), retransmits: 2, listener, ..Attempt::default() };
            first(Limit::Connect, Around { attempts: vec![attempt], ..Around::default() })
        };
        let full = with(Some(Listener { queued: 2, backlog: 1 }));
        assert!(full.contains("2 connections may wait at 127.0.0.1:80"), "{full}");
        assert!(with(Some(Listener { queued: 0, backlog: 1 })).contains("firewall"));
        assert!(with(None).contains("a firewall that drops, a route or host"));
        let refused = Attempt { age: std::time::Duration::from_millis(40), ..Attempt::default() };
        let over_a_path = Around { attempts: vec![refused], failed_attempts: 1, ..Around::default() };
        assert!(first(Limit::Connect, over_a_path).contains("start the server"));
        assert!(first(Limit::Connect, Around::default()).contains("start the server"));
    }

    #[test]
    fn whoever_is_waited_for_is_named() {
        let thread = ThreadInterval { name: Some("gzip (pid 7)".to_owned()), ..ThreadInterval::default() };
        let reader = Neighbour { reads: true, thread: Reading::Value(thread), ..Neighbour::default() };
        let pipe = first(Limit::Downstream, Around { pipes: vec![reader.clone()], ..Around::default() });
        assert!(
            pipe.contains("look at gzip (pid 7), which takes its output (top -H -p 7, weir why --pid 7)"),
            "{pipe}"
        );
        let mut link = reader;
        if let Reading::Value(thread) = &mut link.thread {
            (thread.looks, thread.found.pipe_full) = (5, 5);
        }
        let chain = first(Limit::Downstream, Around { pipes: vec![link], ..Around::default() });
        assert!(chain.starts_with("look past gzip (pid 7)"), "{chain}");
        let flow = |sends, peer: &str| FlowName { sends, peer: peer.to_owned(), ..FlowName::default() };
        let flows = vec![flow(false, "10.0.0.1:80"), flow(true, "10.0.0.2:4000")];
        let relay = || Around { flows: flows.clone(), ..Around::default() };
        assert!(first(Limit::Downstream, relay()).contains("10.0.0.2:4000"));
        assert!(first(Limit::Upstream, relay()).contains("10.0.0.1:80"));
        let rest = Rest { sleeping: 9, who: Some("python3 (pid 7)".to_owned()), ..Rest::default() };
        let think = first(Limit::ThinkTime, Around { rest, ..Around::default() });
        assert!(think.contains("python3 (pid 7) is asleep by its own will between its transfers"), "{think}");
    }
}
