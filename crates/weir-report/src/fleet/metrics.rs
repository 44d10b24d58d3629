//! A fleet as OpenMetrics text (OpenMetrics 1.0.0; RFC-to-be draft-richih-opsawg-openmetrics), for Prometheus
//! and its kin. The number of series is bounded, and so is the length of what others named.

use std::collections::BTreeSet;

use super::{FleetCount, FleetView};
use crate::html::words::short;

/// What the text is, for `Content-Type` (OpenMetrics 1.0.0, Protocol Negotiation).
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Hosts that have series of their own: five each, a page of half a megabyte.
const HOSTS: usize = 1000;

/// Classes of failures and limits that have a series: more than there are.
const KINDS: usize = 64;

/// Letters of a label's value.
const LETTERS: usize = 200;

/// What a family of series is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
}

/// Text that grows, a family after the other.
#[derive(Default)]
struct Exposition {
    text: String,
}

impl Exposition {
    fn family(&mut self, name: &'static str, kind: Kind, help: &'static str) {
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        self.text.push_str(&format!("# TYPE {name} {kind}\n# HELP {name} {help}\n"));
    }

    fn sample(&mut self, name: &str, labels: &[(&'static str, &str)], value: f64) {
        self.text.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            self.text.push_str(if index == 0 { "{" } else { "," });
            self.text.push_str(label);
            self.text.push_str("=\"");
            push_label(&mut self.text, value);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        self.text.push(' ');
        self.text.push_str(&number(value));
        self.text.push('\n');
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.family(name, Kind::Gauge, help);
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.family(name, Kind::Counter, help);
        self.sample(&format!("{name}_total"), &[], value as f64);
    }

    /// A series for each label's value; values that are the same to a reader are one series.
    fn labelled<'a>(
        &mut self,
        (name, kind, help): (&'static str, Kind, &'static str),
        label: &'static str,
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) {
        self.family(name, kind, help);
        let name = if kind == Kind::Counter { format!("{name}_total") } else { name.to_owned() };
        let mut seen = BTreeSet::new();
        for (value, number) in values {
            let value = short(value, LETTERS);
            if seen.insert(value.clone()) {
                self.sample(&name, &[(label, &value)], number);
            }
        }
    }
}

/// OpenMetrics 1.0.0, 4.1: backslash, quote and end of line are escaped. Other control characters would be
/// legal, and are of no use to anybody.
fn push_label(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if c.is_control() => text.push('\u{fffd}'),
            c => text.push(c),
        }
    }
}

/// Whole numbers as such, and what is no number as the format calls it.
fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        value if value.is_infinite() => if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        value if value.fract() == 0.0 && value.abs() < 9e15 => format!("{}", value as i64),
        value => format!("{value:e}"),
    }
}

/// The whole page. `view`: `None` where the ledger did not answer.
pub fn exposition(view: Option<&FleetView>) -> String {
    let mut page = Exposition::default();
    page.gauge("weir_fleet_up", "Whether the ledger answered.", f64::from(u8::from(view.is_some())));
    if let Some(view) = view {
        plan(&mut page, view);
        work(&mut page, view);
        hosts(&mut page, view);
    }
    page.text.push_str("# EOF\n");
    page.text
}

fn plan(page: &mut Exposition, view: &FleetView) {
    let yes = |yes: bool| f64::from(u8::from(yes));
    page.family("weir_fleet_plan", Kind::Gauge, "The plan, by its ends.");
    let ends = [short(&view.source, LETTERS), short(&view.target, LETTERS)];
    page.sample("weir_fleet_plan", &[("source", &ends[0]), ("target", &ends[1])], 1.0);
    page.gauge("weir_fleet_sealed", "Whether the plan is whole.", yes(view.sealed));
    page.gauge("weir_fleet_complete", "Whether no batch of the plan is left.", yes(view.complete));
    page.gauge("weir_fleet_paused", "Whether no batch is given out.", yes(view.paused));
    page.gauge("weir_fleet_draining", "Whether workers leave.", yes(view.draining));
    let asked = view.now as f64 / 1000.0;
    page.gauge("weir_fleet_asked_seconds", "When the ledger was asked, by its clock, since 1970.", asked);
    let count =
        |page: &mut Exposition, names: [&'static str; 2], help: [&'static str; 2], count: FleetCount| {
            page.gauge(names[0], help[0], count.objects as f64);
            page.gauge(names[1], help[1], count.bytes as f64);
        };
    count(
        page,
        ["weir_fleet_planned_objects", "weir_fleet_planned_bytes"],
        ["Objects of the plan.", "Bytes of the plan, as far as sizes are known."],
        view.planned,
    );
    count(
        page,
        ["weir_fleet_left_objects", "weir_fleet_left_bytes"],
        ["Objects that are neither done nor given up.", "Bytes that are not moved."],
        view.left,
    );
}

fn work(page: &mut Exposition, view: &FleetView) {
    let carried = view.carried;
    page.counter("weir_fleet_moved_objects", "Objects brought to their targets.", carried.objects);
    page.counter("weir_fleet_moved_bytes", "Bytes of objects brought to their targets.", carried.bytes);
    // A retry takes its objects out of these again, and a counter must not decrease.
    let found = "Objects of the plan that were at their targets.";
    page.gauge("weir_fleet_found_objects", found, view.same.objects as f64);
    let found = "Bytes of objects of the plan that were at their targets.";
    page.gauge("weir_fleet_found_bytes", found, view.same.bytes as f64);
    let under_way = "Bytes moved of batches that are not done.";
    page.gauge("weir_fleet_under_way_bytes", under_way, view.under_way as f64);
    let failed = ("weir_fleet_failed_objects", Kind::Gauge, "Objects that are given up, by class.");
    let failures = view.failures.iter().take(KINDS).map(|row| (&*row.class, row.objects as f64));
    page.labelled(failed, "class", failures);
    let batches = ("weir_fleet_batches", Kind::Gauge, "Batches, by state.");
    let [waiting, leased, done] = view.batches.map(|count| count as f64);
    page.labelled(batches, "state", [("waiting", waiting), ("leased", leased), ("done", done)]);
    let lost = view.lost_leases.saturating_sub(view.overdue) as f64;
    page.gauge("weir_fleet_lost_leases", "Leases that ended without a word and were taken over.", lost);
    let overdue = "Batches whose leases ended and that nobody has taken over.";
    page.gauge("weir_fleet_overdue_batches", overdue, view.overdue as f64);
    if let Some(rate) = view.rate {
        let help = "Bytes a second over the last ten seconds or more.";
        page.gauge("weir_fleet_bytes_per_second", help, rate.bytes);
    }
    if let Some(seconds) = view.end.seconds {
        page.gauge("weir_fleet_left_seconds", "Until all is done, at the rate of the last minute.", seconds);
    }
}

fn hosts(page: &mut Exposition, view: &FleetView) {
    // In the order of names, so that the same ones have series each time.
    let mut hosts: Vec<_> = view.hosts.iter().collect();
    hosts.sort_by(|a, b| a.host.cmp(&b.host));
    let workers: u64 = hosts.iter().map(|host| host.workers).sum();
    page.gauge("weir_fleet_hosts", "Hosts with workers.", hosts.len() as f64);
    page.gauge("weir_fleet_workers", "Workers that are heard of.", workers as f64);
    let gone = "Workers that are heard of no more and have not left.";
    page.gauge("weir_fleet_workers_gone", gone, view.gone as f64);
    let mut limits = std::collections::BTreeMap::<&str, f64>::new();
    for (limit, _) in hosts.iter().filter_map(|host| host.limit.as_ref()) {
        *limits.entry(limit).or_default() += 1.0;
    }
    let family = ("weir_fleet_limit_hosts", Kind::Gauge, "Hosts, by the limit that holds them most of late.");
    page.labelled(family, "limit", limits.into_iter().take(KINDS));
    let left_out = hosts.len().saturating_sub(HOSTS);
    page.gauge("weir_fleet_hosts_left_out", "Hosts without series of their own.", left_out as f64);
    hosts.truncate(HOSTS);
    let mut each = |name, help, of: &dyn Fn(&super::FleetHostRow) -> Option<f64>| {
        let values = hosts.iter().filter_map(|host| Some((&*host.host, of(host)?)));
        page.labelled((name, Kind::Gauge, help), "host", values);
    };
    each("weir_fleet_host_workers", "Workers of a host.", &|host| Some(host.workers as f64));
    each("weir_fleet_host_batches", "Batches that a host has.", &|host| Some(host.leased as f64));
    each("weir_fleet_host_moved_bytes", "Bytes that the workers there now have moved.", &|host| {
        Some(host.bytes as f64)
    });
    each("weir_fleet_host_bytes_per_second", "Bytes a second of a host, of late.", &|host| host.rate);
    each("weir_fleet_host_silent_seconds", "Seconds since a host was heard of.", &|host| {
        Some(host.silent.as_secs_f64())
    });
    page.family(
        "weir_fleet_host_limit_ratio",
        Kind::Gauge,
        "The limit that holds a host most, and its share.",
    );
    let mut seen = BTreeSet::new();
    for host in hosts {
        let Some((limit, share)) = &host.limit else { continue };
        let name = short(&host.host, LETTERS);
        if seen.insert(name.clone()) {
            let labels = [("host", &*name), ("limit", &*short(limit, LETTERS))];
            page.sample("weir_fleet_host_limit_ratio", &labels, *share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::*;

    #[test]
    fn labels_are_escaped_and_counters_end_as_they_must() {
        let page = exposition(Some(&view()));
        for line in [
            "weir_fleet_up 1",
            "# TYPE weir_fleet_moved_bytes counter",
            "weir_fleet_moved_bytes_total 20500000000",
            "# TYPE weir_fleet_found_bytes gauge",
            "weir_fleet_failed_objects{class=\"denied\"} 10",
            "weir_fleet_host_workers{host=\"slow\\\"\\n\\\\\u{fffd}[31m\"} 2",
            "weir_fleet_host_limit_ratio{host=\"fast\",limit=\"disk\"} 8e-1",
            "weir_fleet_asked_seconds 1.780000000123e9",
        ] {
            assert!(page.lines().any(|known| known == line), "{line} is not in:\n{page}");
        }
        assert!(page.ends_with("\n# EOF\n"));
        assert_eq!(exposition(None).lines().count(), 4);
    }

    #[test]
    fn many_hosts_are_a_bounded_page_without_doubles() {
        let mut view = view();
        let host = view.hosts[1].clone();
        let long = "x".repeat(10_000);
        let name = |number: u32| format!("{long}{}{long}", if number < 5 { 0 } else { number });
        view.hosts = (0..5000)
            .map(|number| super::super::FleetHostRow { host: name(number), ..host.clone() })
            .collect();
        view.hosts.extend(
            (0..5000).map(|number| super::super::FleetHostRow { host: format!("h{number}"), ..host.clone() }),
        );
        let page = exposition(Some(&view));
        assert!(page.len() < 2_000_000, "{}", page.len());
        let samples: Vec<&str> = page
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(samples.iter().collect::<BTreeSet<_>>().len(), samples.len());
    }
}
