//! Records of both ends of one transfer: found by their connections' addresses, and read together.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weir_model::ends::{Because, Settled, settle};
use weir_model::limit::Limit;
use weir_model::sight::Vantage;
use weir_model::verdict::MainLimit;

use crate::escape::escape;
use crate::schema::Record;
use crate::why::{FlowRecord, WhyRecord};

/// Two records of one transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined {
    /// Which record is the sender's.
    pub sender: usize,
    /// Which one the receiver's.
    pub receiver: usize,
    /// Connections that both saw.
    pub connections: usize,
    /// What both say together; `None` where an end's verdict could not be read.
    pub settled: Option<Settled>,
    /// The same in words, most important first.
    pub words: Vec<String>,
}

/// Every pair of these records that shows both ends of the same connections.
pub fn join(records: &[&Record]) -> Vec<Joined> {
    let flows: Vec<BTreeMap<(SocketAddr, SocketAddr), FlowRecord>> =
        records.iter().map(|record| flows(record)).collect();
    let mut joined = Vec::new();
    for first in 0..records.len() {
        for second in first + 1..records.len() {
            joined.extend(pair(records, &flows, first, second));
        }
    }
    joined
}

/// A record's connections by this end's address and the peer's.
fn flows(record: &Record) -> BTreeMap<(SocketAddr, SocketAddr), FlowRecord> {
    let why = record.extra.get("why").cloned();
    let why: WhyRecord = why.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
    let keyed = why.flows.into_iter().filter_map(|flow| {
        // What one end calls ::ffff:10.0.0.1 the other calls 10.0.0.1.
        let plain = |text: &str| {
            let address: SocketAddr = text.parse().ok()?;
            Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
        };
        Some(((plain(&flow.local)?, plain(&flow.peer)?), flow))
    });
    keyed.collect()
}

fn pair(
    records: &[&Record],
    flows: &[BTreeMap<(SocketAddr, SocketAddr), FlowRecord>],
    first: usize,
    second: usize,
) -> Option<Joined> {
    let shared: Vec<(&FlowRecord, &FlowRecord)> = flows[first]
        .iter()
        .filter_map(|((local, peer), flow)| Some((flow, flows[second].get(&(*peer, *local))?)))
        .collect();
    if shared.is_empty() {
        return None;
    }
    let sum = |of: &dyn Fn(&FlowRecord) -> u64| -> u64 {
        shared.iter().fold(0, |sum, (flow, _)| sum.saturating_add(of(flow)))
    };
    let first_sends = sum(&|flow| flow.acked) > sum(&|flow| flow.received);
    let (sender, receiver) = if first_sends { (first, second) } else { (second, first) };
    let (settled, first) = match (limit(records[sender]), limit(records[receiver])) {
        (Ok(sender), Ok(receiver)) => {
            let settled = settle(sender, receiver);
            (Some(settled), headline(settled))
        }
        (sender, receiver) => (None, unread(sender.err(), receiver.err())),
    };
    let mut words = vec![first];
    for (end, record) in [("sender", records[sender]), ("receiver", records[receiver])] {
        words.push(format!("the {end} says {}", said(record)));
    }
    words.push(match shared.len() {
        1 => "one connection is in both records".to_owned(),
        count => format!("{count} connections are in both records"),
    });
    Some(Joined { sender, receiver, connections: shared.len(), settled, words })
}

/// The one limit that a record names, if it names a single one; an error says why that is not known.
fn limit(record: &Record) -> Result<Option<Limit>, String> {
    let Some(verdict) = &record.verdict else { return Err("has no verdict".to_owned()) };
    match verdict.limit.as_deref() {
        None => Ok(None),
        Some(name) if name == MainLimit::Mixed.name() => Ok(None),
        Some(name) => Limit::parse(name)
            .map(Some)
            .ok_or_else(|| format!("names {}, which this version does not know", escape(name))),
    }
}

/// What cannot be read is not silence: nothing is settled by it.
fn unread(sender: Option<String>, receiver: Option<String>) -> String {
    let ends = [("sender", sender), ("receiver", receiver)];
    let said = ends.into_iter().filter_map(|(end, why)| Some(format!("the {end}'s record {}", why?)));
    format!("both ends of one transfer cannot be read together: {}", said.collect::<Vec<_>>().join(", "))
}

fn said(record: &Record) -> String {
    let Some(verdict) = &record.verdict else { return "nothing".to_owned() };
    match &verdict.limit {
        Some(limit) => format!("{} (confidence {:.0} %)", escape(limit), 100.0 * verdict.confidence),
        None => "nothing".to_owned(),
    }
}

fn name(end: Vantage) -> &'static str {
    match end {
        Vantage::Sender => "sender",
        Vantage::Receiver => "receiver",
        Vantage::Either => "either end",
    }
}

fn headline(settled: Settled) -> String {
    match settled {
        Settled::Unknown => "both ends of one transfer: neither names a single limit".to_owned(),
        Settled::Agreed(limit) => format!("both ends of one transfer agree: {limit}"),
        Settled::By { end, limit, because } => {
            let why = match because {
                Because::OtherSilent => "the other end names no single limit",
                Because::OtherInfers => "it sees that directly, and the other end infers",
                Because::OtherWaits => "the other end only says that it waits for this one",
            };
            format!("both ends of one transfer: {limit}, by the {}: {why}", name(end))
        }
        Settled::Apart { sender, receiver } => format!(
            "both ends of one transfer contradict each other: {sender} by the sender, {receiver} by the receiver; each sees its \
             own, so record both at the same time, or one after the other with that limit lifted"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{RunOutcome, VerdictRecord};

    fn record(local: &str, peer: &str, sends: bool, limit: &str) -> Record {
        let (received, acked) = if sends { (10, 1000) } else { (1000, 10) };
        let flow = FlowRecord {
            local: local.to_owned(),
            peer: peer.to_owned(),
            received,
            acked,
            ..FlowRecord::default()
        };
        let why = WhyRecord { flows: vec![flow], ..WhyRecord::default() };
        let mut record = Record::new("why", RunOutcome::Complete, 1000, 1.0);
        record.extra.insert("why".to_owned(), serde_json::to_value(why).unwrap());
        let verdict =
            VerdictRecord { limit: Some(limit.to_owned()), confidence: 0.9, ..VerdictRecord::default() };
        record.verdict = Some(verdict);
        record
    }

    #[test]
    fn two_ends_are_found_by_their_addresses_and_read_together() {
        let near = record("10.0.0.1:4000", "10.0.0.2:80", false, "sender-or-path");
        let far = record("[::ffff:10.0.0.2]:80", "[::ffff:10.0.0.1]:4000", true, "path-loss");
        let joined = join(&[&near, &far]);
        assert_eq!(joined.len(), 1);
        assert_eq!((joined[0].sender, joined[0].receiver, joined[0].connections), (1, 0, 1));
        assert!(joined[0].words[0].contains("path-loss, by the sender"), "{:?}", joined[0].words);
        assert_eq!(joined, join(&[&near, &far]));
    }

    #[test]
    fn a_contradiction_is_told() {
        let near = record("10.0.0.1:4000", "10.0.0.2:80", false, "disk");
        let far = record("10.0.0.2:80", "10.0.0.1:4000", true, "path-loss");
        assert!(join(&[&far, &near])[0].words[0].contains("contradict"), "{:?}", join(&[&far, &near]));
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_silence() {
        let near = record("10.0.0.1:4000", "10.0.0.2:80", false, "disk");
        let mut far = record("10.0.0.2:80", "10.0.0.1:4000", true, "of-tomorrow");
        let told = |far: &Record| {
            let joined = join(&[&near, far]).remove(0);
            assert_eq!(joined.settled, None);
            joined.words[0].clone()
        };
        let why = "the sender's record names of-tomorrow, which this version does not know";
        assert!(told(&far).ends_with(why), "{}", told(&far));
        far.verdict = None;
        assert!(told(&far).ends_with("the sender's record has no verdict"), "{}", told(&far));
        // Several limits at once are a verdict that names no single one.
        let mixed = record("10.0.0.2:80", "10.0.0.1:4000", true, "mixed");
        assert!(join(&[&near, &mixed])[0].words[0].contains("disk, by the receiver"));
    }

    #[test]
    fn runs_of_other_connections_are_not_joined() {
        let near = record("10.0.0.1:4000", "10.0.0.2:80", false, "disk");
        let other = record("10.0.0.2:80", "10.0.0.1:4001", true, "path-loss");
        assert!(join(&[&near, &other]).is_empty());
        assert!(join(&[&near, &near]).is_empty());
        assert!(join(&[&Record::new("get", RunOutcome::Complete, 1, 1.0)]).is_empty());
    }
}
