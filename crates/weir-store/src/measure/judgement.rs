//! What holds a store's figures: pure, by what was measured.

use weir_model::limit::Limit;

use super::{Load, Measured, Operation};

/// What holds one figure, and on what grounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// Of `throughput` or of `requests`.
    pub figure: &'static str,
    /// By what; `None`: the measurement does not tell.
    pub limit: Option<Limit>,
    /// In words, with the figures.
    pub why: String,
}

/// Twice the connections carry at least so much more where each is held by itself; two thirds of twice.
const GROWS: f64 = 1.33;

/// So much of all processors is all of them: the store's answers have to be waited for at times.
const BUSY: f64 = 0.85;

/// What holds the throughput and the requests a second, `cpus` processors being this host's. Loads are in
/// the order of their connections, none twice.
pub fn held(measured: &Measured, cpus: f64) -> Vec<Held> {
    let held = [Figure::Throughput, Figure::Requests].into_iter().filter_map(|figure| {
        let (limit, why) = of_loads(figure, measured, cpus)?;
        Some(Held { figure: figure.name(), limit, why })
    });
    held.collect()
}

/// What is measured over connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Throughput,
    Requests,
}

impl Figure {
    fn name(self) -> &'static str {
        match self {
            Figure::Throughput => "throughput",
            Figure::Requests => "requests",
        }
    }

    fn loads(self, measured: &Measured) -> &[Load] {
        match self {
            Figure::Throughput => &measured.throughput,
            Figure::Requests => &measured.requests,
        }
    }

    /// What it counts, a second: of large objects few are whole in the time.
    fn per_second(self, load: &Load) -> f64 {
        match self {
            Figure::Throughput => rate(load, |load| load.bytes),
            Figure::Requests => rate(load, |load| load.answered),
        }
    }
}

fn of_loads(figure: Figure, measured: &Measured, cpus: f64) -> Option<(Option<Limit>, String)> {
    let loads = figure.loads(measured);
    let per_second = |load: &Load| figure.per_second(load);
    if let Some(load) = loads.iter().find(|load| load.throttled > 0) {
        let words = measured.throttle_words.as_deref().map_or(String::new(), |words| format!(" ({words})"));
        let why = format!(
            "the store asked for fewer requests{words} at {} connections, after {:.0} requests a second",
            load.connections,
            rate(load, |load| load.answered)
        );
        return Some((Some(Limit::RateLimit), why));
    }
    let best = loads.iter().max_by(|a, b| per_second(a).total_cmp(&per_second(b)))?;
    let busy = best.cpu / best.seconds / cpus;
    if busy >= BUSY {
        let why = format!(
            "this host: weir kept {:.0} % of its {cpus:.0} processors busy at {} connections",
            busy * 100.0,
            best.connections
        );
        return Some((Some(Limit::CpuCore), why));
    }
    let last = loads.last()?;
    let before = loads.iter().rev().nth(1);
    let grows = before.is_some_and(|before| {
        let doubled = (f64::from(last.connections) / f64::from(before.connections)).log2();
        per_second(last) >= per_second(before) * GROWS.powf(doubled)
    });
    match grows && last.connections == best.connections {
        // A request that fits into one round trip is held by nothing but its time.
        true if figure == Figure::Requests => {
            let each = median_of(measured, Operation::Get).map_or(0.0, |median| median * 1000.0);
            let why = format!(
                "the {each:.2} ms that each request takes, up to the {} connections that were tried; more \
                 connections would be answered more",
                last.connections
            );
            Some((Some(Limit::Latency), why))
        }
        true => {
            let why = format!(
                "each connection by itself, up to the {} that were tried: by its round trips or a cap that the \
                 store puts on each, which one end cannot tell apart; more connections would carry more",
                last.connections
            );
            Some((None, why))
        }
        _ if loads.len() == 1 => {
            Some((None, "one number of connections tells nothing; try several".to_owned()))
        }
        _ => {
            let came = match before.filter(|_| last.connections == best.connections) {
                Some(before) => little(figure, before, last),
                None => format!("beyond {} connections no more came", best.connections),
            };
            let why =
                format!("the store or the path to it: {came}, and this host was {:.0} % busy", busy * 100.0);
            Some((Some(Limit::SenderOrPath), why))
        }
    }
}

/// What more connections brought.
fn little(figure: Figure, before: &Load, last: &Load) -> String {
    let more = (figure.per_second(last) / figure.per_second(before) - 1.0) * 100.0;
    format!("{} connections brought only {more:.0} % more than {}", last.connections, before.connections)
}

fn rate(load: &Load, of: impl Fn(&Load) -> u64) -> f64 {
    if load.seconds > 0.0 { of(load) as f64 / load.seconds } else { 0.0 }
}

/// The median time of the smallest object's requests, seconds.
pub fn median_of(measured: &Measured, operation: Operation) -> Option<f64> {
    let timed = measured.timed.iter().find(|timed| timed.operation == operation)?;
    timed.seconds.get(timed.seconds.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(connections: u32, answered: u64, cpu: f64) -> Load {
        Load { connections, answered, throttled: 0, failed: 0, bytes: 0, seconds: 1.0, cpu }
    }

    fn limit(requests: Vec<Load>) -> Option<Limit> {
        held(&Measured { requests, ..Measured::default() }, 2.0)[0].limit
    }

    #[test]
    fn a_figure_has_the_name_of_what_holds_it() {
        let rises = vec![load(1, 100, 0.1), load(2, 200, 0.2), load(4, 390, 0.3)];
        assert_eq!(limit(rises), Some(Limit::Latency));
        // 16 after 1: four times twice.
        assert_eq!(limit(vec![load(1, 100, 0.1), load(16, 1500, 0.3)]), Some(Limit::Latency));
        assert_eq!(limit(vec![load(1, 100, 0.1), load(16, 220, 0.3)]), Some(Limit::SenderOrPath));
        // From 4 to 6 is less than a doubling.
        assert_eq!(limit(vec![load(4, 400, 0.1), load(6, 500, 0.3)]), Some(Limit::Latency));
        let flat = vec![load(1, 100, 0.1), load(2, 190, 0.2), load(4, 195, 0.3)];
        assert_eq!(limit(flat), Some(Limit::SenderOrPath));
        assert_eq!(limit(vec![load(1, 100, 0.9), load(2, 190, 1.9)]), Some(Limit::CpuCore));
        let refused = Load { throttled: 1, ..load(8, 50, 0.1) };
        assert_eq!(limit(vec![load(1, 100, 0.1), refused]), Some(Limit::RateLimit));
        assert_eq!(limit(vec![load(1, 100, 0.1)]), None);
    }

    #[test]
    fn throughput_is_of_bytes_however_few_objects_were_whole() {
        let of = |connections, bytes| Load { bytes, ..load(connections, 0, 0.1) };
        let held = |throughput: Vec<Load>| {
            let held = held(&Measured { throughput, ..Measured::default() }, 2.0);
            (held[0].figure, held[0].limit, held[0].why.clone())
        };
        let (figure, limit, why) = held(vec![of(1, 100), of(2, 200), of(4, 390)]);
        assert_eq!((figure, limit), ("throughput", None));
        assert!(why.starts_with("each connection by itself, up to the 4"), "{why}");
        let (_, limit, why) = held(vec![of(1, 100), of(2, 200), of(4, 206)]);
        assert_eq!(limit, Some(Limit::SenderOrPath));
        assert!(why.contains(": 4 connections brought only 3 % more than 2, "), "{why}");
        let (_, limit, why) = held(vec![of(1, 100), of(2, 190), of(4, 180)]);
        assert_eq!(limit, Some(Limit::SenderOrPath));
        assert!(why.contains(": beyond 2 connections no more came, "), "{why}");
    }
}
