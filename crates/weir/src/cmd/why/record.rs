//! The record of a watch: the verdict as every command tells it, and the connections and threads beside it.

use weir_model::evidence::{Evidence, Interval, LaneInterval};
use weir_model::moved;
use weir_model::verdict::explain;
use weir_observe::process;
use weir_observe::thread::process_cpu_now;
use weir_observe::watch::{Lane, ThreadTotal, Watch};
use weir_report::schema::{Record, RunOutcome};
use weir_report::why::{FlowRecord, ThreadRecord, WhyRecord};

/// Connections that a record lists and judges one by one.
const FLOWS: usize = 16;

/// Threads that a record lists.
const THREADS: usize = 16;

/// A record, and its member `why` once more as it is.
pub(super) struct ReportedRun {
    pub(super) record: Record,
    pub(super) why: WhyRecord,
}

impl ReportedRun {
    /// Sets what the command's end told after the rest.
    pub(super) fn set_exit_code(&mut self, code: u8) {
        self.why.exit_code = Some(code);
        self.store();
    }

    /// Makes a failure of a watch that found no connection and no byte; `true` where it was one.
    pub(super) fn fail_if_empty(&mut self) -> bool {
        let is_empty = self.record.bytes == 0 && self.why.connections == 0;
        if is_empty {
            self.record.outcome = RunOutcome::Failed;
            self.record.error = Some(no_connection(&self.why.subject, self.why.unproven));
        }
        is_empty
    }

    fn store(&mut self) {
        if let Ok(value) = serde_json::to_value(&self.why) {
            self.record.extra.insert("why".to_owned(), value);
        }
    }
}

/// Judges what was seen and puts it into a record.
pub(super) fn tell(watch: &Watch, subject: String, exit_code: Option<u8>) -> ReportedRun {
    // Before the judging, which is done once.
    let own_cpu = process_cpu_now().as_secs_f64() / watch.elapsed().as_secs_f64().max(1e-3);
    let seconds = watch.evidence.intervals.iter().map(|interval| interval.span.as_secs_f64()).sum();
    let bytes = watch.totals.received.max(watch.totals.acked);
    let mut record = Record::new("why", RunOutcome::Complete, bytes, seconds);
    let mut verdict = explain(&watch.evidence);
    verdict.missing.splice(0..0, watch.notes.all().iter().cloned());
    verdict.evidence.extend(watch.losses.iter().cloned());
    if watch.totals.connections == 0 {
        verdict.missing.insert(0, no_connection(&subject, watch.totals.unproven.connections));
        moved::without_connection(&watch.evidence, &mut verdict);
    } else {
        moved::say_if_nothing(&watch.evidence, &mut verdict);
    }
    record = record.with_verdict(&watch.evidence, &verdict);
    record.connections = u32::try_from(watch.totals.at_once).ok().filter(|count| *count > 0);
    record.peak_memory = weir_observe::memory::peak_rss().ok();
    let why = WhyRecord {
        subject,
        received: watch.totals.received,
        acked: watch.totals.acked,
        connections: watch.totals.connections,
        unseen: watch.totals.unseen,
        unproven: watch.totals.unproven.connections,
        unproven_bytes: watch.totals.unproven.bytes,
        flows: flows(watch, true),
        threads: watch.threads.totals().iter().take(THREADS).map(|total| thread(total, seconds)).collect(),
        own_cpu,
        exit_code,
    };
    let mut told = ReportedRun { record, why };
    told.store();
    told
}

fn no_connection(subject: &str, unproven: u64) -> String {
    match unproven {
        0 => format!("{subject} had no TCP connection"),
        _ => format!("{subject} had no TCP connection that is proven its own"),
    }
}

/// The busiest connections; each judged by itself where `judged`.
pub(super) fn flows(watch: &Watch, judged: bool) -> Vec<FlowRecord> {
    let mut lanes: Vec<&Lane> = watch.all_lanes().collect();
    lanes.sort_by_key(|lane| std::cmp::Reverse(lane.total.received.max(lane.total.acked)));
    lanes.truncate(FLOWS);
    lanes.into_iter().map(|lane| flow(watch, lane, judged)).collect()
}

fn flow(watch: &Watch, lane: &Lane, judged: bool) -> FlowRecord {
    let total = &lane.total;
    let own = if judged { alone(&watch.evidence, lane.number) } else { Evidence::default() };
    let views = || own.intervals.iter().flat_map(|interval| &interval.lanes);
    let receives = views().any(|lane| lane.tcp.value().is_some());
    let sends = views().any(|lane| lane.sender.value().is_some());
    let side = match (receives, sends) {
        (true, true) => "both",
        (false, true) => "sender",
        (true, false) => "receiver",
        (false, false) if total.acked > total.received => "sender",
        (false, false) => "receiver",
    };
    let bytes = total.received.max(total.acked);
    FlowRecord {
        local: lane.id.local.to_string(),
        peer: lane.id.remote.to_string(),
        process: lane.owner.map(process::described),
        received: total.received,
        acked: total.acked,
        seconds: total.seconds,
        rate: if total.seconds > 0.0 { bytes as f64 / total.seconds } else { 0.0 },
        side: side.to_owned(),
        congestion_control: total.congestion_control.clone(),
        limit: judged.then(|| explain(&own).limit.map(|limit| limit.name().to_owned())).flatten(),
    }
}

/// The run as if there had been no other connection.
fn alone(evidence: &Evidence, number: u32) -> Evidence {
    let of_lane = |interval: &Interval| {
        let lanes: Vec<LaneInterval> =
            interval.lanes.iter().filter(|lane| lane.lane == number).cloned().collect();
        let received = lanes.iter().map(|lane| lane.received).sum();
        let objects = lanes.iter().map(|lane| lane.objects).sum();
        let without = |interval: &Interval| Interval {
            at: interval.at,
            span: interval.span,
            written: interval.written,
            cpu: interval.cpu.clone(),
            dirty: interval.dirty.clone(),
            disk: interval.disk.clone(),
            ..Interval::default()
        };
        (!lanes.is_empty()).then(|| Interval { lanes, received, objects, ..without(interval) })
    };
    Evidence {
        intervals: evidence.intervals.iter().filter_map(of_lane).collect(),
        trials: Vec::new(),
        facts: evidence.facts.clone(),
    }
}

fn thread(total: &ThreadTotal, seconds: f64) -> ThreadRecord {
    let found = &total.found;
    let looks = f64::from(total.looks.max(1));
    let mut places: Vec<(String, f64)> = [
        ("running", found.running),
        ("receiving", found.receiving),
        ("sending", found.sending),
        ("polling", found.polling),
        ("reading-disk", found.reading_disk),
        ("writing-disk", found.writing_disk),
        ("dirty-throttle", total.in_dirty_throttle),
        ("pipe-full", found.pipe_full),
        ("pipe-empty", found.pipe_empty),
        ("sleeping", found.sleeping),
        ("waiting-for-thread", found.waiting_for_thread),
        ("elsewhere", found.elsewhere),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(name, count)| (name.to_owned(), f64::from(count) / looks))
    .collect();
    places.sort_by(|a, b| b.1.total_cmp(&a.1));
    ThreadRecord {
        name: total.name.clone(),
        cpu: total.cpu.as_secs_f64(),
        busy: if seconds > 0.0 { total.cpu.as_secs_f64() / seconds } else { 0.0 },
        runqueue: total.runqueue.as_secs_f64(),
        throttled: total.throttled.as_secs_f64(),
        found: places,
    }
}
