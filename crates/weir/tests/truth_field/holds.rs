//! Counters that a case's cause must show: of both hosts' kernels and of the link between them.
//!
//! A claim is `near|far GROUP NAME OP NUMBER` (a counter of /proc/net/snmp or netstat), `link up|down
//! lost|use OP NUMBER` (packets lost, or the share of the rate that was carried), or `wall OP SECONDS`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;
use weir_lab::bed::Counters;
use weir_units::Rate;

use crate::stage::Stage;
use crate::story::{End, Variables};

/// What both hosts and the link have counted.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    counters: BTreeMap<(&'static str, String), f64>,
    pub(crate) link: Counters,
}

/// Between two readings.
pub(crate) struct Passed {
    counters: BTreeMap<(&'static str, String), f64>,
    up: Way,
    down: Way,
}

#[derive(Clone, Copy)]
struct Way {
    bytes: u64,
    lost: u64,
}

impl Hosts {
    pub(crate) fn read(stage: &Stage<'_>) -> anyhow::Result<Hosts> {
        let mut counters = BTreeMap::new();
        for end in [End::Near, End::Far] {
            let texts = stage.host(end).run(|| {
                ["snmp", "netstat"].map(|name| {
                    fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
                })
            })?;
            for text in texts {
                counters.extend(parse(&text).into_iter().map(|(name, value)| ((end.name(), name), value)));
            }
        }
        Ok(Hosts { counters, link: stage.bed.counters() })
    }

    pub(crate) fn since(&self, before: &Hosts) -> Passed {
        let change = |(name, value): (&(&'static str, String), &f64)| {
            (name.clone(), value - before.counters.get(name).copied().unwrap_or(0.0))
        };
        let way = |now: &weir_lab::link::Counters, then: &weir_lab::link::Counters| Way {
            bytes: now.bytes_out - then.bytes_out,
            lost: now.dropped() - then.dropped(),
        };
        Passed {
            counters: self.counters.iter().map(change).collect(),
            up: way(&self.link.up.link, &before.link.up.link),
            down: way(&self.link.down.link, &before.link.down.link),
        }
    }
}

impl Passed {
    /// Bytes of the busier direction.
    pub(crate) fn carried(&self) -> u64 {
        self.up.bytes.max(self.down.bytes)
    }

    /// Why the claim does not hold, or what is wrong with it.
    pub(crate) fn refutes(
        &self,
        claim: &str,
        wall: f64,
        variables: &Variables,
    ) -> Option<anyhow::Result<String>> {
        match self.value(claim, wall, variables) {
            Ok((value, op, bound)) => {
                let holds = if op == ">=" { value >= bound } else { value <= bound };
                (!holds).then(|| Ok(format!("it must hold that {claim}, and it was {value:.3}")))
            }
            Err(why) => Some(Err(why)),
        }
    }

    fn value<'c>(
        &self,
        claim: &'c str,
        wall: f64,
        variables: &Variables,
    ) -> anyhow::Result<(f64, &'c str, f64)> {
        let words: Vec<&str> = claim.split_whitespace().collect();
        let (value, op, bound) = match words.as_slice() {
            ["wall", op, bound] => (wall, op, bound),
            ["link", way, what, op, bound] => {
                let way = if *way == "up" { self.up } else { self.down };
                let value = match *what {
                    "lost" => way.lost as f64,
                    "use" => {
                        let rate = variables.get("rate").context("a share of no rate")?;
                        let rate: Rate = rate.parse().map_err(anyhow::Error::msg)?;
                        way.bytes as f64 / wall / rate.0
                    }
                    _ => anyhow::bail!("unknown claim '{claim}'"),
                };
                (value, op, bound)
            }
            [end, group, name, op, bound] => {
                let end = if *end == "near" { "near" } else { "far" };
                let value = self.counters.get(&(end, format!("{group} {name}")));
                (*value.with_context(|| format!("no counter of '{claim}'"))?, op, bound)
            }
            _ => anyhow::bail!("unknown claim '{claim}'"),
        };
        anyhow::ensure!(*op == ">=" || *op == "<=", "unknown comparison in '{claim}'");
        Ok((value, op, bound.parse()?))
    }
}

/// Two lines a group: names, then values.
fn parse(text: &str) -> Vec<(String, f64)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for pair in lines.chunks(2) {
        let [names, values] = pair else { continue };
        let Some((group, names)) = names.split_once(": ") else { continue };
        let values = values.split_once(": ").map_or("", |(_, values)| values);
        for (name, value) in names.split(' ').zip(values.split(' ')) {
            if let Ok(value) = value.parse() {
                found.push((format!("{group} {name}"), value));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_group_and_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 0 7\nIpExt: InOctets\nIpExt: 12\n";
        let found = parse(text);
        assert!(found.contains(&("TcpExt ListenOverflows".to_owned(), 7.0)), "{found:?}");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_claim_is_refuted_by_what_was_counted() {
        let counters = [(("far", "TcpExt ListenOverflows".to_owned()), 2.0)].into_iter().collect();
        let way = Way { bytes: 500_000, lost: 3 };
        let passed = Passed { counters, up: way, down: way };
        let variables = [("rate".to_owned(), "8Mbit".to_owned())].into_iter().collect();
        let refuted = |claim: &str| passed.refutes(claim, 1.0, &variables).map(|why| why.is_ok());
        assert_eq!(refuted("far TcpExt ListenOverflows >= 1"), None);
        assert_eq!(refuted("far TcpExt ListenOverflows >= 3"), Some(true));
        assert_eq!(refuted("link down use <= 0.6"), None);
        assert_eq!(refuted("link down lost >= 4"), Some(true));
        assert_eq!(refuted("wall >= 2"), Some(true));
        assert_eq!(refuted("far TcpExt NoSuch >= 1"), Some(false));
    }
}
