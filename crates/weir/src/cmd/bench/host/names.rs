//! Which figures does each part promise? One that is not there for a reason of another one's is said too,
//! with that reason.

use weir_report::host::FigureRecord;

use crate::args::Part;

/// Name and unit of each, in the order in which they are printed.
pub fn of(part: Part) -> &'static [(&'static str, &'static str)] {
    match part {
        Part::Availability => &[
            ("availability", "share"),
            ("connects-refused", "count"),
            ("connects-reset", "count"),
            ("connects-timed-out", "count"),
            ("connects-failed", "count"),
        ],
        Part::Rtt => &[
            ("rtt-connect-min", "s"),
            ("rtt-connect-median", "s"),
            ("rtt-connect-p99", "s"),
            ("rtt-connect-jitter", "s"),
            ("rtt-handshake-min", "s"),
            ("rtt-handshake-median", "s"),
            ("rtt-handshake-p99", "s"),
            ("rtt-handshake-jitter", "s"),
            ("rtt-echo-min", "s"),
            ("rtt-echo-median", "s"),
            ("rtt-echo-p99", "s"),
            ("rtt-echo-jitter", "s"),
        ],
        Part::Loss => &[("loss", "share"), ("echo-duplicates", "count")],
        Part::Mtu => &[
            ("path-mtu", "bytes"),
            ("first-hop-mtu", "bytes"),
            ("path-mtu-udp", "bytes"),
            ("tcp-path-mtu", "bytes"),
            ("mss", "bytes"),
            ("congestion-control", ""),
        ],
        Part::Tls => &[
            ("tls-full", "s"),
            ("tls-full-cpu", "s"),
            ("tls-resumed", "s"),
            ("tls-resumed-cpu", "s"),
            ("tls-agreed", ""),
            ("tls-certificate", ""),
        ],
        Part::Connections => &[("connections", "count"), ("connections-kept", "count")],
        Part::Load => &[
            ("rtt-idle", "s"),
            ("rtt-loaded", "s"),
            ("rtt-loaded-p99", "s"),
            ("bufferbloat", "s"),
            ("load-rate", "bytes/s"),
        ],
        Part::Throughput => &[
            ("tcp-up", "bytes/s"),
            ("tcp-up-retransmitted", "share"),
            ("tcp-down", "bytes/s"),
            ("tcp-down-retransmitted", "share"),
            ("udp-up", "bytes/s"),
            ("udp-up-lost", "share"),
            ("udp-down", "bytes/s"),
            ("udp-down-lost", "share"),
        ],
        Part::Pps => &[("packets-per-second", "packets/s")],
    }
}

/// The figures in order. One that was not taken lacks what the nearest missing one of its kind lacks, or else
/// the part's first.
pub fn complete(part: Part, mut taken: Vec<FigureRecord>) -> Vec<FigureRecord> {
    let reasons: Vec<_> =
        taken.iter().filter_map(|figure| Some((figure.name.clone(), figure.missing.clone()?))).collect();
    let reason = |name: &str| {
        let alike = |other: &str| other.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        let nearest = reasons.iter().rev().max_by_key(|(other, _)| alike(other));
        nearest.map_or_else(|| "not taken".to_owned(), |(_, why)| why.clone())
    };
    let figure = |(name, unit): &(&str, &str)| match taken.iter().position(|figure| figure.name == *name) {
        Some(place) => taken.swap_remove(place),
        None => FigureRecord::missing(name, unit, reason(name)),
    };
    let mut all: Vec<_> = of(part).iter().map(figure).collect();
    all.extend(taken);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_has_the_reason_of_its_like() {
        let taken = vec![
            FigureRecord::taken("rtt-connect-min", 1.0, "s", "x"),
            FigureRecord::missing("rtt-handshake-median", "s", "the kernel does not tell"),
            FigureRecord::missing("rtt-echo-median", "s", "no echo"),
        ];
        let all = complete(Part::Rtt, taken);
        let names: Vec<_> = all.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, of(Part::Rtt).iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert_eq!(all[0].value, Some(1.0));
        assert_eq!(all[7].missing.as_deref(), Some("the kernel does not tell"));
        assert_eq!(all[8].missing.as_deref(), Some("no echo"));
        assert_eq!(complete(Part::Pps, Vec::new())[0].missing.as_deref(), Some("not taken"));
    }
}
