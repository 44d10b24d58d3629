//! What a record is: the envelope that `--json` prints and `weir report` reads.
//!
//! Bytes, seconds and bytes per second everywhere. These structs are apart from the model's, so that the
//! model may change without the format. Limits are names, so that a record with a limit of a later weir still
//! loads. Members that this version does not know are kept in [`Record::extra`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_model::evidence::{Evidence, Interval};
use weir_model::limit::Limit;
use weir_model::loads::loads;
use weir_model::merge::merged;
use weir_model::verdict::Verdict;
use weir_units::Rate;

/// The format's name and version.
pub const SCHEMA: &str = "weir.run/1";

/// The samples of a record, at most: enough for any plot's width, and about 100 KB of JSON.
pub const SAMPLES: usize = 1000;

/// Lanes whose stretches are kept, those that carried most.
pub const LANES: usize = 64;

/// Stretches of all lanes together, at most.
const STRETCHES: usize = 1000;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// The command: `get`.
    pub command: String,
    /// How it ended.
    pub outcome: RunOutcome,
    /// Payload bytes that this run received; what an earlier run had is in `resumed`.
    #[serde(default)]
    pub bytes: u64,
    /// Wall time of the run.
    #[serde(default)]
    pub seconds: f64,
    /// Bytes per second over the whole run.
    #[serde(default)]
    pub rate: f64,
    /// Each file, in the order asked for; of more than ten thousand those that failed or have a note, a
    /// thousand at most.
    #[serde(default)]
    pub files: Vec<FileRecord>,
    /// How the files of a list ended, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<CountsRecord>,
    /// What held the run; `null` when nothing was judged.
    #[serde(default)]
    pub verdict: Option<VerdictRecord>,
    /// The run over time, oldest first.
    #[serde(default)]
    pub samples: Vec<Sample>,
    /// How near each stage was to its ceiling, in the order in which bytes pass them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<LoadRecord>,
    /// When each connection worked; empty where there was only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneRecord>,
    /// Bytes that an earlier run had left and this one did not ask for again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<u64>,
    /// The most connections at one time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Bytes per second handed to the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_rate: Option<f64>,
    /// Bytes per second that the device took, all its writers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_rate: Option<f64>,
    /// The most memory this process had, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Why the run as a whole failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Members beside these: another command's own, or a later version's.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Value>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunOutcome {
    /// Every byte is there and verified.
    Complete,
    /// Not all is there; what is there can be resumed.
    Partial,
    /// Nothing that could be kept.
    Failed,
}

/// One file of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileRecord {
    /// Where it came from.
    pub url: String,
    /// Where it lies; `-` for stdout.
    pub path: String,
    /// Its bytes, those of an earlier run included.
    pub bytes: u64,
    /// The byte at which this run went on; 0 for a fresh file.
    pub resumed_from: u64,
    /// The most connections that worked on it at one time.
    pub connections: u32,
    /// The digest of the whole file; `null` when none was computed.
    pub digest: Option<DigestRecord>,
    /// Why it failed; `null` when it did not.
    pub error: Option<String>,
    /// Not fetched because the file exists (`--no-clobber`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// Not fetched because it is here already, the same as on the server (`-N`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    /// What was passed over, left out of the request or overridden to get it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How the files of a list ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CountsRecord {
    /// Files that it names.
    pub files: u64,
    /// Complete, those of an earlier run included.
    pub complete: u64,
    /// Complete since an earlier run of the same list, and not asked for again.
    pub earlier: u64,
    /// Not fetched because the file exists (`--no-clobber`).
    pub skipped: u64,
    /// Not fetched because it is the same on the server (`-N`).
    pub unchanged: u64,
    /// Incomplete; what is here can be resumed.
    pub partial: u64,
    /// Failed, with nothing kept.
    pub failed: u64,
    /// Lines that name nothing to fetch.
    pub bad_lines: u64,
    /// Not asked for, because the run ended early.
    pub not_begun: u64,
    /// The folder that all of them lie in; empty where there are several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub folder: String,
}

/// A digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestRecord {
    /// The algorithm: `sha256`.
    pub alg: String,
    /// Lower-case hexadecimal.
    pub hex: String,
}

/// What held a run, see [`Verdict`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerdictRecord {
    /// A limit's name or `mixed`; `null` where none can be named, which `missing` says.
    pub limit: Option<String>,
    /// 0 to 1.
    pub confidence: f64,
    /// Share of the run's time for each limit.
    pub shares: BTreeMap<String, f64>,
    /// The shares in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseRecord>,
    /// Numbers with units.
    pub evidence: Vec<String>,
    /// `LIMIT: numbers` for each limit that could have been seen and did not hold.
    pub innocent: Vec<String>,
    /// `LIMIT, LIMIT: why`: what could not be seen from here, neither named nor ruled out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_visible: Vec<String>,
    /// What could not be read or told.
    pub missing: Vec<String>,
    /// What to change.
    pub advice: Vec<AdviceRecord>,
}

impl VerdictRecord {
    /// The shares of the limits; `None` if the verdict names no limit: then they are too little to go by, or
    /// a guess.
    pub(crate) fn held(&self) -> Option<&BTreeMap<String, f64>> {
        self.limit.as_ref().map(|_| &self.shares)
    }
}

/// One thing to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdviceRecord {
    /// What to do.
    pub action: String,
    /// The rate it would bring, bytes per second; `null` when nothing supports a number.
    pub predicted_rate: Option<f64>,
}

/// A stretch of time under one limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseRecord {
    /// Seconds from the start.
    pub from: f64,
    /// Seconds from the start.
    pub to: f64,
    /// The limit's name.
    pub limit: String,
}

/// How near a stage was to its ceiling, see [`weir_model::loads`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadRecord {
    /// The limit that the stage would be.
    pub limit: String,
    /// Share of its capacity in use, 0 to 1.
    pub load: f64,
    /// Bytes per second that it would carry alone; `null` where that could not be told.
    pub ceiling: Option<f64>,
    /// What the load is the share of.
    pub basis: String,
}

/// One connection's work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneRecord {
    /// Its number.
    pub lane: u32,
    /// Payload bytes in all.
    pub bytes: u64,
    /// When it worked, in order.
    pub stretches: Vec<StretchRecord>,
}

/// A time in which a connection worked without a rest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StretchRecord {
    /// Seconds from the start of the run.
    pub from: f64,
    /// Seconds from the start of the run.
    pub to: f64,
    /// Payload bytes in that time.
    pub bytes: u64,
}

/// One stretch of the run, up to the next sample.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Seconds from the start of the run to the start of this stretch.
    pub t: f64,
    /// Bytes per second received.
    pub rate: f64,
    /// What held it for most of its time.
    pub limit: Option<String>,
    /// Bytes per second handed to the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_rate: Option<f64>,
    /// Bytes per second that the device took, all its writers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_rate: Option<f64>,
    /// Connections open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Of a copy: the codec that took most of its bytes, with its level (`zstd:3`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    /// Bytes after compression over bytes before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// A count in the row of a host.
pub(crate) fn of_row(row: &Value, name: &str) -> u64 {
    row.get(name).and_then(Value::as_u64).unwrap_or(0)
}

impl Record {
    /// What a copy counted under this name; 0 of what is no copy, or did not count it.
    pub fn of_copy(&self, name: &str) -> u64 {
        self.extra.get("cp").and_then(|cp| cp.get(name)?.as_u64()).unwrap_or(0)
    }

    /// The rows of a copy to many hosts; none of another run.
    pub(crate) fn hosts(&self) -> &[Value] {
        let rows = self.extra.get("cp").and_then(|cp| cp.get("hosts")?.as_array());
        rows.map(Vec::as_slice).unwrap_or_default()
    }

    /// A count of those rows, added up.
    pub(crate) fn of_hosts(&self, name: &str) -> u64 {
        // A foreign record may count any number.
        self.hosts().iter().fold(0, |sum: u64, row| sum.saturating_add(of_row(row, name)))
    }

    /// Paths that a copy counts as failed; of one to many hosts at each.
    fn failed_of_copy(&self) -> u64 {
        if self.hosts().is_empty() { self.of_copy("failed") } else { self.of_hosts("failed") }
    }

    /// Files that failed: those in `files`, of which a copy or a long list names the first and counts all.
    pub fn failed(&self) -> u64 {
        let named = self.files.iter().filter(|file| file.error.is_some()).count() as u64;
        // A foreign record may count any number.
        let counted = self.counts.as_ref().map_or(0, |counts| {
            counts.failed.saturating_add(counts.partial).saturating_add(counts.bad_lines)
        });
        named.max(counted).max(self.failed_of_copy())
    }

    /// Whether `files` has every file of a download or upload: of a long list it names some.
    pub(crate) fn lists_all(&self) -> bool {
        let listed = self.files.len() as u64;
        let is_all = |counts: &CountsRecord| counts.files.saturating_add(counts.bad_lines) == listed;
        self.counts.as_ref().is_none_or(is_all)
    }

    /// Whether it was only asked what would be done (`-n`).
    pub(crate) fn is_dry_run(&self) -> bool {
        let says_so = |name: &str| self.extra.get(name).and_then(|own| own.get("dry_run")?.as_bool());
        ["cp", "put"].into_iter().any(|name| says_so(name) == Some(true))
    }

    /// A record of a run so far without files, verdict and samples.
    pub fn new(command: impl Into<String>, outcome: RunOutcome, bytes: u64, seconds: f64) -> Record {
        let seconds = if seconds.is_finite() { seconds.max(0.0) } else { 0.0 };
        Record {
            schema: SCHEMA.to_owned(),
            command: command.into(),
            outcome,
            bytes,
            seconds,
            rate: if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 },
            files: Vec::new(),
            counts: None,
            verdict: None,
            samples: Vec::new(),
            loads: Vec::new(),
            lanes: Vec::new(),
            resumed: None,
            connections: None,
            written_rate: None,
            disk_rate: None,
            peak_memory: None,
            error: None,
            extra: BTreeMap::new(),
        }
    }

    /// Adds what was judged: the verdict, the samples, and the rates of writing and of the device.
    pub fn with_verdict(mut self, evidence: &Evidence, verdict: &Verdict) -> Record {
        let whole = merged(&evidence.intervals);
        self.written_rate = (whole.written > 0).then(|| Rate::of(whole.written, whole.span).0);
        self.disk_rate = whole.disk.value().map(|disk| Rate::of(disk.written, whole.span).0);
        self.connections = self.connections.or(evidence.intervals.iter().map(connections).max());
        self.samples = samples(evidence, verdict, SAMPLES);
        self.loads = load_records(evidence);
        self.lanes = lanes(evidence, LANES, STRETCHES);
        self.verdict = Some(VerdictRecord::from(verdict));
        self
    }
}

impl From<&Verdict> for VerdictRecord {
    fn from(verdict: &Verdict) -> VerdictRecord {
        VerdictRecord {
            limit: verdict.limit.map(|limit| limit.name().to_owned()),
            confidence: tidy(verdict.confidence),
            shares: verdict
                .shares
                .iter()
                .map(|(limit, share)| (limit.name().to_owned(), tidy(*share)))
                .collect(),
            phases: (verdict.phases.iter())
                .map(|phase| PhaseRecord {
                    from: tidy(phase.from),
                    to: tidy(phase.to),
                    limit: phase.limit.name().to_owned(),
                })
                .collect(),
            evidence: verdict.evidence.clone(),
            innocent: verdict.innocent.clone(),
            not_visible: verdict.not_visible.clone(),
            missing: verdict.missing.clone(),
            advice: (verdict.advice.iter())
                .map(|advice| AdviceRecord {
                    action: advice.action.clone(),
                    predicted_rate: advice.predicted_rate,
                })
                .collect(),
        }
    }
}

/// The run over time in at most `most` samples: neighbouring intervals are joined where there are more.
pub fn samples(evidence: &Evidence, verdict: &Verdict, most: usize) -> Vec<Sample> {
    let each = evidence.intervals.len().div_ceil(most.max(1)).max(1);
    evidence
        .intervals
        .chunks(each)
        .enumerate()
        .map(|(index, intervals)| {
            sample(intervals, verdict.intervals.get(index * each..).unwrap_or_default())
        })
        .collect()
}

fn sample(intervals: &[Interval], limits: &[Option<Limit>]) -> Sample {
    let joined = merged(intervals);
    let mut held: BTreeMap<Option<Limit>, f64> = BTreeMap::new();
    for (interval, limit) in intervals.iter().zip(limits) {
        *held.entry(*limit).or_insert(0.0) += interval.span.as_secs_f64();
    }
    let longest = held.iter().max_by(|a, b| a.1.total_cmp(b.1)).and_then(|(limit, _)| *limit);
    let codecs = joined.sending.value().map(|stages| &stages.codecs);
    let most = codecs.and_then(|codecs| codecs.iter().max_by_key(|(_, shrunk)| shrunk.raw));
    let sums = codecs.map(|codecs| {
        codecs.values().fold((0_u64, 0_u64), |(raw, packed), shrunk| {
            (raw.saturating_add(shrunk.raw), packed.saturating_add(shrunk.packed))
        })
    });
    Sample {
        t: tidy(joined.at),
        rate: Rate::of(joined.received, joined.span).0,
        limit: longest.map(|limit| limit.name().to_owned()),
        written_rate: Some(Rate::of(joined.written, joined.span).0),
        disk_rate: joined.disk.value().map(|disk| Rate::of(disk.written, joined.span).0),
        connections: intervals.iter().map(connections).max(),
        codec: most.map(|(codec, _)| codec.clone()),
        ratio: sums.filter(|(raw, _)| *raw > 0).map(|(raw, packed)| packed as f64 / raw as f64),
    }
}

/// The loads of a run as a record has them.
pub(crate) fn load_records(evidence: &Evidence) -> Vec<LoadRecord> {
    let record = |load: weir_model::loads::Load| LoadRecord {
        limit: load.limit.name().to_owned(),
        load: tidy(load.load),
        ceiling: load.ceiling.map(f64::round),
        basis: load.basis,
    };
    loads(evidence).into_iter().map(record).collect()
}

/// When each lane worked: the `most` lanes that carried most, in order of their numbers, and at most so many
/// stretches of them all, for which short rests are joined over. Nothing where only one lane was.
fn lanes(evidence: &Evidence, most: usize, stretches: usize) -> Vec<LaneRecord> {
    // As many intervals at a time as leave no more stretches than that, even of lanes that rest in every
    // second one.
    let seen = evidence.intervals.iter().flat_map(|interval| interval.lanes.iter().map(|lane| lane.lane));
    let shown = seen.collect::<std::collections::BTreeSet<_>>().len().min(most);
    let each = (evidence.intervals.len() * shown).div_ceil(stretches.max(1) * 2).max(1);
    let mut lanes: BTreeMap<u32, LaneRecord> = BTreeMap::new();
    for intervals in evidence.intervals.chunks(each) {
        let joined = merged(intervals);
        let (from, to) = (tidy(joined.at), tidy(joined.at + joined.span.as_secs_f64()));
        for lane in joined.lanes.iter().filter(|lane| lane.idle < joined.span) {
            let record = lanes
                .entry(lane.lane)
                .or_insert_with(|| LaneRecord { lane: lane.lane, ..LaneRecord::default() });
            record.bytes = record.bytes.saturating_add(lane.received);
            match record.stretches.last_mut().filter(|last| from - last.to < 1e-6) {
                Some(last) => (last.to, last.bytes) = (to, last.bytes.saturating_add(lane.received)),
                None => record.stretches.push(StretchRecord { from, to, bytes: lane.received }),
            }
        }
    }
    if lanes.len() < 2 {
        return Vec::new();
    }
    let mut lanes: Vec<LaneRecord> = lanes.into_values().collect();
    lanes.sort_by_key(|lane| std::cmp::Reverse(lane.bytes));
    lanes.truncate(most);
    lanes.sort_by_key(|lane| lane.lane);
    lanes
}

/// Without the noise behind the ninth decimal that adding up leaves (0.30000000000000004), nor a sign of
/// nothing: a sum of no numbers is -0.
fn tidy(value: f64) -> f64 {
    (value * 1e9).round() / 1e9 + 0.0
}

fn connections(interval: &Interval) -> u32 {
    interval.lanes.iter().filter(|lane| lane.idle < interval.span).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weir_model::verdict::explain;

    #[test]
    fn lanes_are_told_by_their_stretches() {
        use weir_model::evidence::LaneInterval;
        let second = Duration::from_secs(1);
        let interval = |at: u32, lanes: &[u32]| Interval {
            at: f64::from(at),
            span: second,
            lanes: (lanes.iter())
                .map(|lane| LaneInterval { lane: *lane, received: 5, ..LaneInterval::default() })
                .collect(),
            ..Interval::default()
        };
        let intervals = vec![interval(0, &[0]), interval(1, &[0, 1]), interval(2, &[1]), interval(3, &[0])];
        let evidence = Evidence { intervals, ..Evidence::default() };
        let told = lanes(&evidence, LANES, STRETCHES);
        let stretch = |from, to, bytes| StretchRecord { from, to, bytes };
        assert_eq!(told[0].stretches, [stretch(0.0, 2.0, 10), stretch(3.0, 4.0, 5)]);
        assert_eq!((told[1].bytes, &told[1].stretches[..]), (10, &[stretch(1.0, 3.0, 10)][..]));
        assert_eq!(lanes(&evidence, 1, STRETCHES).len(), 1, "the one that carried most");
        assert!(lanes(&evidence, LANES, 2).iter().map(|lane| lane.stretches.len()).sum::<usize>() <= 2);
    }

    #[test]
    fn many_windows_become_few_samples_with_the_same_bytes() {
        let interval = |at: u32| Interval {
            at: f64::from(at) * 0.5,
            span: Duration::from_millis(500),
            received: 1_000_000,
            ..Interval::default()
        };
        let evidence = Evidence { intervals: (0..2501).map(interval).collect(), ..Evidence::default() };
        let samples = samples(&evidence, &explain(&evidence), SAMPLES);
        assert_eq!(samples.len(), 834);
        assert!(samples.iter().all(|sample| (sample.rate - 2e6).abs() < 1.0));
        assert_eq!(samples[1].t, 1.5);
    }
}
