//! `--rr` and `--crr`: transactions with another weir, and how sure their rate is.

use std::io::{self, Write};

use hdrhistogram::Histogram;
use weir_bench_net::asked::{Asked, Kind, Part};
use weir_bench_net::client::Options;
use weir_bench_net::outcome::Ending;
use weir_bench_net::transactions::Answered;
use weir_bench_net::transactions::client::{Repeats, Repetition, TransactionsOutcome, run as make};
use weir_report::escape::escape;
use weir_report::json;
use weir_report::schema::{Record, RunOutcome as Ended};
use weir_report::transactions::{self, ConfidenceRecord, LatencyRecord, RunRecord, TransactionsRecord};

use super::{Form, client, form};
use crate::args::BenchNet;
use crate::interrupt::{self, INTERRUPTED};
use crate::page;
use crate::voice::{self, Printed, Usage};

/// Makes the transactions and reports. Returns the exit code.
pub(super) fn run(bench: &BenchNet, options: &Options, kind: Kind) -> anyhow::Result<u8> {
    if options.parameters.time == 0 {
        return Err(Usage("-t: a run of transactions takes at least a second".to_owned()).into());
    }
    let stop = interrupt::stop()?;
    let wanted = &bench.transactions;
    let asked = Asked { kind, request: wanted.sizes.request, response: wanted.sizes.response };
    let (least, most) = match (wanted.repeats, wanted.ci) {
        (Some(repeats), _) => (repeats.least, repeats.most),
        // netperf's own bounds.
        (None, Some(_)) => (3, 30),
        (None, None) => (1, 1),
    };
    let repeats = Repeats { least, most, goal: wanted.ci };
    let form = form(bench);
    let mut count = 0;
    let mut tell = |run: &Repetition| {
        count += 1;
        if form == Form::Lines && most > 1 {
            // A reader that went away ends the program by the report's own error.
            let _ = transactions::render_run(count, &run_record(run), &mut io::stdout().lock());
        }
    };
    let outcome = match make(options, asked, repeats, &mut tell, &stop) {
        Ok(outcome) => outcome,
        Err(weir_bench_net::NetError::Interrupted) => return Ok(INTERRUPTED),
        Err(error) => return Err(error.into()),
    };
    let member = member(&outcome);
    let record = record(&outcome, &member)?;
    report(&record, &member, form).printed("the report")?;
    if let Ending::Broken(why) = &outcome.ending {
        voice::warn(&escape(why));
    }
    page::keep(&bench.voice, &record)?;
    Ok(client::code(&outcome.ending))
}

fn report(record: &Record, member: &TransactionsRecord, form: Form) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match form {
        Form::Quiet => Ok(()),
        Form::Lines | Form::Iperf3Lines => {
            voice::sheet(&io::stdout()).print(&mut out, |out| transactions::render(member, out))
        }
        Form::Record | Form::Iperf3 | Form::Events { .. } => json::render(record, &mut out),
    }
}

fn record(outcome: &TransactionsOutcome, member: &TransactionsRecord) -> serde_json::Result<Record> {
    let ended = match outcome.ending {
        Ending::Complete => Ended::Complete,
        Ending::Interrupted => Ended::Partial,
        Ending::Broken(_) => Ended::Failed,
    };
    let seconds = outcome.repetitions.iter().map(|run| run.seconds).sum();
    let mut record = Record::new("bench", ended, outcome.part.transactions * outcome.asked.bytes(), seconds);
    if let Ending::Broken(why) = &outcome.ending {
        record.error = Some(why.clone());
    }
    record.extra.insert("transactions".to_owned(), serde_json::to_value(member)?);
    Ok(record)
}

fn member(outcome: &TransactionsOutcome) -> TransactionsRecord {
    TransactionsRecord {
        kind: outcome.asked.kind.name().to_owned(),
        role: "client".to_owned(),
        peer: outcome.peer.to_string(),
        request: outcome.asked.request,
        response: outcome.asked.response,
        streams: outcome.streams,
        count: outcome.part.transactions,
        rate: outcome.rate(),
        runs: outcome.repetitions.iter().map(run_record).collect(),
        confidence: outcome.goal.map(|goal| ConfidenceRecord {
            level: goal.level,
            asked: goal.width,
            width: outcome.width,
            met: outcome.is_sure() == Some(true),
        }),
        latency: latency(&outcome.latency),
        cpu: each(&outcome.part),
        peer_cpu: outcome.peer_part.as_ref().and_then(each),
        congestion_control: outcome.congestion.clone(),
    }
}

fn run_record(run: &Repetition) -> RunRecord {
    RunRecord {
        count: run.transactions,
        seconds: run.seconds,
        rate: run.rate(),
        median: run.median.as_secs_f64(),
    }
}

fn each(part: &Part) -> Option<f64> {
    (part.transactions > 0).then(|| part.cpu.as_secs_f64() / part.transactions as f64)
}

fn latency(times: &Histogram<u64>) -> Option<LatencyRecord> {
    if times.is_empty() {
        return None;
    }
    let at = |share: f64| times.value_at_quantile(share) as f64 / 1e9;
    Some(LatencyRecord {
        min: times.min() as f64 / 1e9,
        mean: times.mean() / 1e9,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: times.max() as f64 / 1e9,
    })
}

/// A test that this end answered, as a server prints it.
pub(super) fn say(number: u64, answered: &Answered, form: Form, out: &mut dyn Write) -> anyhow::Result<()> {
    let member = TransactionsRecord {
        kind: answered.asked.kind.name().to_owned(),
        role: "server".to_owned(),
        peer: answered.peer.to_string(),
        request: answered.asked.request,
        response: answered.asked.response,
        streams: answered.streams,
        count: answered.part.transactions,
        rate: answered.part.transactions as f64 / answered.seconds.max(f64::MIN_POSITIVE),
        cpu: each(&answered.part),
        ..TransactionsRecord::default()
    };
    match form {
        Form::Quiet => {}
        Form::Lines | Form::Iperf3Lines => {
            voice::sheet(&io::stdout()).print(out, |out| {
                write!(out, "test {number}: {}: ", answered.peer)?;
                transactions::render(&member, out)
            })?;
        }
        Form::Record | Form::Iperf3 | Form::Events { .. } => {
            let bytes = answered.part.transactions * answered.asked.bytes();
            let mut record = Record::new("bench", Ended::Complete, bytes, answered.seconds);
            record.extra.insert("transactions".to_owned(), serde_json::to_value(&member)?);
            json::render(&record, out)?;
        }
    }
    Ok(())
}
