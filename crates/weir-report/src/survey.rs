//! What was measured for a copy, and what it predicts: the member `copy` of a plan's record, and its lines
//! for people.
//!
//! ```text
//! data: 1.10 GB in 1 file, 8.39 MB of it looked at
//! path: 12.1 MB/s over 1 connection, round trip 20 ms (24 ms when full), 0.0 % sent again, window 3.1 MB; ssh not slower
//! target: 1.2 GB/s into memory, which takes 2.40 GB; disk 96 MB/s
//! predicted: 30.9 MB/s with zstd-9, held by path-bandwidth; 1.10 GB in 36 s
//! ```

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_model::plan::{Inputs, Plan};
use weir_model::survey::{Burst, Foretold, Setting, Survey};
use weir_units::{Bytes, Rate, human_duration};

use crate::escape::escape;

/// The member `copy` of a plan. Rates are bytes per second, sizes bytes, times seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SurveyRecord {
    /// The other host.
    pub host: String,
    /// What would be copied.
    pub sources: Vec<String>,
    /// Where to.
    pub target: String,
    /// Bytes of all files found.
    pub bytes: u64,
    /// Files found.
    pub files: u64,
    /// All of the tree was listed.
    pub complete: bool,
    /// Bytes that codecs were measured on.
    pub sampled: u64,
    /// What the source's disk gives; `null` where reading did not wait for it.
    pub source_disk: Option<f64>,
    /// Each burst over data connections.
    pub bursts: Vec<BurstRecord>,
    /// The burst inside ssh; `null` where it was not worth one.
    pub ssh: Option<BurstRecord>,
    /// What the target writes into memory with one processor.
    pub write: Option<f64>,
    /// What its memory takes before the disk sets the pace.
    pub memory: u64,
    /// What its disk takes; `null` where there is none.
    pub disk: Option<f64>,
    /// Seconds for a small file.
    pub file: Option<f64>,
    /// Bytes free there.
    pub free: Option<u64>,
    /// Both ends are one machine.
    pub shared: bool,
    /// What `weir cp` would reach.
    pub predicted: PredictedRecord,
}

/// A burst.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BurstRecord {
    /// Connections; 0 inside ssh.
    pub connections: u32,
    /// Bytes that arrived.
    pub bytes: u64,
    /// What arrived once it was under way.
    pub rate: f64,
    /// Smallest round trip.
    pub rtt: Option<f64>,
    /// Round trip at the end of the burst.
    pub loaded_rtt: Option<f64>,
    /// Share of the payload that was sent again.
    pub again: f64,
    /// Largest window of the receiver.
    pub window: Option<u64>,
    /// Share of the time in which that window held the sender.
    pub window_limited: f64,
}

/// What a copy would reach.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PredictedRecord {
    /// Payload over `seconds`.
    pub rate: f64,
    /// From its first data connection to its end.
    pub seconds: f64,
    /// From the command to its end, ssh's login included.
    pub total: f64,
    /// What holds it from its first data connection on.
    pub limit: String,
    /// The codec that carries most.
    pub codec: String,
    /// `weir` or `ssh`.
    pub transport: String,
}

impl From<&Burst> for BurstRecord {
    fn from(burst: &Burst) -> BurstRecord {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        BurstRecord {
            connections: burst.lanes,
            bytes: burst.received.bytes,
            rate: burst.received.rate,
            rtt: seconds(burst.sent.rtt),
            loaded_rtt: seconds(burst.sent.loaded_rtt),
            again: burst.sent.again,
            window: burst.sent.window,
            window_limited: burst.sent.window_limited,
        }
    }
}

impl SurveyRecord {
    /// Of a survey and the plan made from it; names are the caller's.
    pub fn new(survey: &Survey, inputs: &Inputs, plan: &Plan) -> SurveyRecord {
        let Survey { source, target, .. } = survey;
        SurveyRecord {
            bytes: source.bytes,
            files: source.files,
            complete: source.complete,
            sampled: source.sampled,
            source_disk: source.disk,
            bursts: survey.bursts.iter().map(BurstRecord::from).collect(),
            ssh: survey.ssh.as_ref().map(BurstRecord::from),
            write: (target.write > 0.0).then(|| 1.0 / target.write),
            memory: target.memory,
            disk: target.disk,
            file: target.file,
            free: target.free,
            shared: survey.shared,
            predicted: predicted(survey, inputs, plan),
            ..SurveyRecord::default()
        }
    }
}

/// The first column: the way that `weir cp` goes.
fn predicted(survey: &Survey, inputs: &Inputs, plan: &Plan) -> PredictedRecord {
    let Some(column) = plan.columns.first() else { return PredictedRecord::default() };
    let cell = &column.cells[column.best];
    let Foretold { moving, total, limit } = survey.foretell(&cell.whole);
    let seconds = moving.as_secs_f64();
    let rate = if seconds > 0.0 { inputs.size.0 as f64 / seconds } else { cell.steady.rate.0 };
    PredictedRecord {
        rate,
        seconds,
        total: total.as_secs_f64(),
        limit: limit.name().to_owned(),
        codec: inputs.figures.get(column.best).map_or("none", |figure| &figure.name).to_owned(),
        transport: column.path.transport.name.to_owned(),
    }
}

/// Writes what was measured and what it predicts.
pub fn render(copy: &SurveyRecord, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", data_line(copy))?;
    for burst in &copy.bursts {
        writeln!(out, "{}", path_line(burst))?;
    }
    if let Some(ssh) = &copy.ssh {
        writeln!(out, "inside ssh: {}", Rate(ssh.rate))?;
    }
    writeln!(out, "{}", target_line(copy))?;
    let PredictedRecord { rate, seconds, total, limit, codec, .. } = &copy.predicted;
    let time =
        |seconds: f64| Duration::try_from_secs_f64(seconds).map_or("a lifetime".to_owned(), human_duration);
    // A rate of nothing is none, and the login is worth a word where it is much of the time.
    let what =
        if copy.bytes > 0 { format!("{} with {}, ", Rate(*rate), escape(codec)) } else { String::new() };
    let login =
        if *total > 1.1 * seconds { format!(", {} with the login", time(*total)) } else { String::new() };
    let (size, seconds) = (Bytes(copy.bytes), time(*seconds));
    writeln!(out, "predicted: {what}held by {}; {size} in {seconds}{login}", escape(limit))?;
    if let Some(free) = copy.free.filter(|free| *free < copy.bytes) {
        writeln!(out, "note: the target has room for {} only", Bytes(free))?;
    }
    Ok(())
}

fn data_line(copy: &SurveyRecord) -> String {
    let files = if copy.files == 1 { "1 file".to_owned() } else { format!("{} files", copy.files) };
    let part = if copy.complete { "" } else { " so far (listing them all takes longer)" };
    let disk = copy.source_disk.map(|rate| format!("; its disk gives {}", Rate(rate))).unwrap_or_default();
    format!("data: {} in {files}{part}, {} of it looked at{disk}", Bytes(copy.bytes), Bytes(copy.sampled))
}

fn path_line(burst: &BurstRecord) -> String {
    let connections = match burst.connections {
        1 => "1 connection".to_owned(),
        more => format!("{more} connections"),
    };
    let time = |seconds: f64| Duration::try_from_secs_f64(seconds).map(human_duration).unwrap_or_default();
    let trip = match (burst.rtt, burst.loaded_rtt) {
        (Some(least), Some(full)) => format!(", round trip {} ({} when full)", time(least), time(full)),
        (Some(least), None) => format!(", round trip {}", time(least)),
        _ => String::new(),
    };
    let window = burst.window.map(|window| format!(", window {}", Bytes(window))).unwrap_or_default();
    format!(
        "path: {} over {connections}{trip}, {:.2} % sent again{window}",
        Rate(burst.rate),
        100.0 * burst.again
    )
}

fn target_line(copy: &SurveyRecord) -> String {
    let write = copy.write.map_or("not measured".to_owned(), |rate| format!("{} into memory", Rate(rate)));
    let disk = match copy.disk {
        Some(rate) => format!(", which takes {}; disk {}", Bytes(copy.memory), Rate(rate)),
        None => "; no disk that could be measured".to_owned(),
    };
    let file = copy.file.filter(|_| copy.files > 1);
    let file = file.map(|seconds| format!("; {:.0} small files a second", 1.0 / seconds)).unwrap_or_default();
    format!("target: {write}{disk}{file}")
}

/// Where a kernel's setting holds one connection below what the path carries, and at which end.
pub fn buffer_notes(survey: &Survey, (sender, receiver): (&str, &str)) -> Vec<String> {
    let note = |narrow: &weir_model::survey::Narrow| {
        let (name, first, at) = match narrow.setting {
            Setting::Receive => ("net.ipv4.tcp_rmem", "4096 131072", receiver),
            Setting::Send => ("net.ipv4.tcp_wmem", "4096 16384", sender),
        };
        format!(
            "{name} ends at {} on {at}, which holds one connection to about {}; with sysctl -w {name}=\"{first} {}\" \
             there it would carry {}",
            narrow.allowed, narrow.now, narrow.needed.0, narrow.then
        )
    };
    survey.buffers().iter().map(note).collect()
}
