//! What was foretold of a copy, beside what it reached: by a plan for the same copy, else by its own first
//! moments.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use weir_cp::session::{Job, Report};
use weir_report::foretold;
use weir_report::schema::{Record, RunOutcome};
use weir_units::{Rate, human_duration};

use crate::cmd::forecast::{self, ForecastKey};

/// A forecast and what it was made of.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Foretold {
    rate: Rate,
    limit: String,
    made_of: Made,
    /// Seconds from the command to its end that were foretold, and that it took.
    total: Option<(f64, f64)>,
}

/// A copy that is over sooner has no rate to speak of: what it takes is its login and its round trips, and
/// that is compared.
const SHORT: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Made {
    /// By `weir plan`, so long ago.
    Plan(Duration),
    /// Of so much of the run, from its first byte on.
    Start(Duration),
}

impl Foretold {
    /// Of this run; `None` where it was too short to foretell anything, or did something else than copy it
    /// all.
    pub(super) fn of(job: &Job, report: &Report) -> Option<Foretold> {
        let options = &job.options;
        let whole = !(options.update || options.checksum || options.dry_run) && report.totals.kept == 0;
        // A plan knows nothing of a rate or a codec that the user set, nor of copies between two others.
        let free = options.rate_cap.is_none() && options.codec.is_none() && job.from.is_none();
        let key = ForecastKey {
            host: &job.host,
            role: job.role,
            sources: &job.sources,
            target: &job.target,
            options,
            list: job.list.as_ref(),
            lanes: &job.lanes,
        };
        let plan = forecast::find(&key).filter(|_| whole && free);
        let by_plan = plan.map(|plan| Foretold {
            rate: Rate(plan.rate),
            limit: plan.limit.clone(),
            made_of: Made::Plan(plan.age()),
            total: plan.total.map(|total| (total, report.elapsed.as_secs_f64())),
        });
        let by_start = || {
            let start = report.forecast?;
            let limit = start.limit.name().to_owned();
            Some(Foretold { rate: start.rate, limit, made_of: Made::Start(start.from), total: None })
        };
        by_plan.or_else(by_start)
    }

    /// The member `prediction` of a record.
    pub(super) fn to_json(&self, achieved: f64) -> Value {
        let (from, seconds) = match self.made_of {
            Made::Plan(age) => ("plan", age),
            Made::Start(of) => ("start", of),
        };
        json!({
            "rate": self.rate.0,
            "limit": self.limit,
            "from": from,
            "seconds": seconds.as_secs_f64(),
            "achieved": achieved,
            "total": self.total.map(|(total, _)| total),
            "took": self.total.map(|(_, took)| took),
        })
    }

    /// In a line.
    pub(super) fn say(&self, record: &Record) -> anyhow::Result<()> {
        // What a run that broke off has reached says nothing of a forecast, and of nothing there is no rate.
        let short = self.total.filter(|(total, _)| *total < SHORT);
        if record.outcome != RunOutcome::Complete
            || short.is_none() && !(record.rate > 0.0 && self.rate.0 > 0.0)
        {
            return Ok(());
        }
        let made = match self.made_of {
            Made::Plan(age) if age < Duration::from_secs(1) => "by the plan made just before".to_owned(),
            Made::Plan(age) => format!("by the plan of {} ago", human_duration(age)),
            Made::Start(of) => format!("from its first {}", human_duration(of)),
        };
        let limit = weir_report::escape::escape(&self.limit);
        if let Some((total, took)) = short {
            let missed = foretold::of_time(total, took);
            let [total, took] = [total, took].map(|seconds| human_duration(Duration::from_secs_f64(seconds)));
            writeln!(
                std::io::stderr(),
                "predicted {total} with the login ({made}, held by {limit}), took {took}: {missed}"
            )?;
            return Ok(());
        }
        let missed = foretold::of_rate(self.rate.0, record.rate);
        writeln!(
            std::io::stderr(),
            "predicted {} ({made}, held by {}), achieved {}: {missed}",
            self.rate,
            limit,
            Rate(record.rate)
        )?;
        Ok(())
    }
}
