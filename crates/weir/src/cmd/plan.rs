//! `weir plan`: what would a transfer bring, by which codec and transport, and what would hold it?
//!
//! Sources and a target are measured for ([`copy`]); for the rest this file only gathers what the law needs:
//! from flags, from a table of figures, from a sample of the data.

mod copy;
mod known;
mod sample;
mod store;

use std::io::{IsTerminal, Write};
use std::path::Path as FilePath;

use anyhow::Context;
use weir_model::pipeline::{self, Figure, Path};
use weir_model::plan::{Inputs, ManyHosts, Means, Needs, Plan};
use weir_observe::sysctl;
use weir_report::json;
use weir_report::plan::{PlanRecord, buffer_note, render};
use weir_report::schema::{Record, RunOutcome};
use weir_units::Bytes;

use crate::args::{self, By};
use crate::live::Live;
use crate::page;
use crate::voice::{self, Printed, Usage};

/// What is planned for where nobody says how much it is.
const SIZE: Bytes = Bytes(1_000_000_000);

/// A loss from which on a sender mostly waits for timeouts: more than one of the three duplicate
/// acknowledgements that would save it is lost in a window of a few segments (Padhye et al., 1998, figure 7).
const TIMEOUTS: f64 = 0.1;

/// A table of codecs is a few lines; more than this is another file.
const TABLE: Bytes = Bytes(1_000_000);

/// Predicts and tells. Returns the exit code.
pub fn run(plan: &args::Plan) -> anyhow::Result<u8> {
    voice::start_log(plan.voice.quiet, plan.voice.verbose);
    if store::is_meant(plan) {
        return store::run(plan);
    }
    if plan.paths.len() > 1 {
        return copy::run(plan);
    }
    if plan.links.is_empty() {
        return Err(
            Usage("expected --link RATE, or SRC and DST to measure the path between them".into()).into()
        );
    }
    let started = std::time::Instant::now();
    let (inputs, mut notes) = gather(plan)?;
    let result = Plan::of(&inputs);
    let settings = buffer_settings();
    notes.extend(machine_notes(&result, &settings));
    let mut told = PlanRecord::new(&inputs, &result, notes);
    if let Some((_, least)) = settings.iter().min_by_key(|(_, allowed)| *allowed) {
        told = told.with_buffers(&result, *least);
    }
    let told = to_hosts(plan, told, &inputs);
    let mut stdout = std::io::stdout().lock();
    let mut record = Record::new("plan", RunOutcome::Complete, 0, started.elapsed().as_secs_f64());
    record.extra.insert("plan".to_owned(), serde_json::to_value(&told)?);
    if plan.voice.json {
        json::render(&record, &mut stdout).printed("the record")?;
    } else if !plan.voice.quiet {
        voice::sheet(&std::io::stdout()).print(&mut stdout, |out| render(&told, out)).printed("the plan")?;
    }
    stdout.flush().printed("the plan")?;
    page::keep(&plan.voice, &record)?;
    Ok(0)
}

/// Whether the user typed `flag`: what the configuration says is for plans of every kind.
fn is_typed(flag: &str) -> bool {
    std::env::args_os().any(|word| word.to_string_lossy().split('=').next() == Some(flag))
}

/// The same for as many hosts as were asked for.
fn to_hosts(plan: &args::Plan, told: PlanRecord, inputs: &Inputs) -> PlanRecord {
    let Some(hosts) = plan.hosts else { return told };
    let many = ManyHosts {
        hosts,
        fanout: plan.fanout.unwrap_or(1),
        block: Bytes(weir_cp::subtrees::BLOCK),
        lanes: weir_cp::chain::LANES,
    };
    told.with_hosts(inputs, &many)
}

/// Everything that the law needs, and what was assumed for it.
fn gather(plan: &args::Plan) -> anyhow::Result<(Inputs, Vec<String>)> {
    let mut notes = Vec::new();
    // Before its blocks are read, which brings them into memory.
    let cold = plan
        .paths
        .first()
        .filter(|_| plan.source.is_none())
        .and_then(|file| known::cold(FilePath::new(file)));
    let (figures, size, measured) = match (&plan.codec_table, plan.paths.first()) {
        (Some(table), _) => (figures_of(table)?, None, false),
        (None, Some(file)) => {
            let mut live = Live::new(!plan.voice.quiet && std::io::stderr().is_terminal(), 0);
            live.say(&format!("measuring the codecs, for about {} s", sample::span().as_secs().max(1)));
            let sampled = sample::measure(FilePath::new(file));
            live.clear();
            let sampled = sampled?;
            notes.push(sampled.note());
            (sampled.figures, Some(sampled.size), true)
        }
        (None, None) => (Vec::new(), None, false),
    };
    let source = plan.source.or_else(|| known::source(cold?, &mut notes));
    let cores = plan.cores.unwrap_or(if measured { processors() } else { 1.0 });
    let means = means(plan, measured);
    let path = Path {
        rtt: plan.rtt.filter(|rtt| !rtt.is_zero()),
        loss: plan.loss.map_or(0.0, |share| share.0),
        window: plan.window,
        send_buffer: plan.send_buffer,
        source,
        disk: plan.disk,
        memory: plan.memory.unwrap_or_default(),
        cores,
        ..Path::of(plan.links[0])
    };
    let ssh = plan.ssh_rate.unwrap_or_else(|| known::ssh(means.contains(&Means::Ssh), &mut notes));
    let cipher = plan.cipher_rate.or_else(|| measured.then(|| known::cipher(&means, &mut notes)));
    let inputs = Inputs {
        figures,
        path,
        links: plan.links.clone(),
        means,
        ssh,
        cipher,
        lanes: plan.lanes,
        size: plan.size.or(size).unwrap_or(SIZE),
    };
    if let Some(loss) = plan.loss.filter(|loss| loss.0 >= TIMEOUTS) {
        notes.push(format!(
            "at {loss} loss a sender mostly waits for retransmission timeouts, which this model leaves out: expect less"
        ));
    }
    Ok((inputs, notes))
}

/// What was asked for; otherwise the bare law where nothing is known that tells transports apart.
fn means(plan: &args::Plan, measured: bool) -> Vec<Means> {
    if !plan.transports.is_empty() {
        let mut means: Vec<Means> = Vec::new();
        for by in plan.transports.iter().map(|by| by.means()) {
            // One that was named twice is one column.
            if !means.contains(&by) {
                means.push(by);
            }
        }
        return means;
    }
    let told_apart = measured
        || plan.rtt.is_some()
        || plan.window.is_some()
        || plan.lanes.is_some()
        || plan.ssh_rate.is_some()
        || plan.cipher_rate.is_some();
    if told_apart { By::ALL.iter().map(|by| by.means()).collect() } else { vec![Means::Tcp] }
}

fn processors() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

fn figures_of(table: &FilePath) -> anyhow::Result<Vec<Figure>> {
    let shown = table.display();
    let read = match table.as_os_str() == "-" {
        true => weir_units::read_up_to(std::io::stdin().lock(), TABLE),
        false => weir_units::read_file(table, TABLE),
    };
    let text = match read {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            return Err(Usage(format!("{shown} is not a codec table: {error}")).into());
        }
        read => read.with_context(|| format!("cannot read {shown}"))?,
    };
    let text = String::from_utf8(text)
        .map_err(|_| Usage(format!("{shown} is not a codec table: it is not text")))?;
    pipeline::table::parse(&text).map_err(|error| Usage(format!("{shown}: {error}")).into())
}

/// Where this machine's buffers end, as far as that can be read.
fn buffer_settings() -> Vec<(&'static str, Bytes)> {
    let settings = [
        ("net.ipv4.tcp_rmem", sysctl::tcp_rmem().ok().map(|rmem| rmem.max)),
        ("net.ipv4.tcp_wmem", sysctl::tcp_wmem_max().ok()),
    ];
    settings.into_iter().filter_map(|(name, allowed)| Some((name, Bytes(allowed?)))).collect()
}

/// Where this machine's buffers end below what a link needs.
fn machine_notes(plan: &Plan, settings: &[(&str, Bytes)]) -> Vec<String> {
    // The largest need stands for all: what suffices there suffices everywhere.
    let largest = (plan.columns.iter())
        .filter_map(|column| Some((column, column.needs?)))
        .max_by_key(|(_, needs)| needs.buffer);
    let Some((column, needs)) = largest else { return Vec::new() };
    let Some(rtt) = column.path.rtt else { return Vec::new() };
    let note = |(name, allowed): &(&str, Bytes)| {
        let now = Needs::rate_with(*allowed, rtt)?;
        buffer_note(name, *allowed, needs.buffer, now, column.path.most_of_one())
    };
    settings.iter().filter_map(note).collect()
}

impl By {
    fn means(self) -> Means {
        match self {
            By::Tcp => Means::Tcp,
            By::Ssh => Means::Ssh,
            By::Weir => Means::Weir,
        }
    }
}
