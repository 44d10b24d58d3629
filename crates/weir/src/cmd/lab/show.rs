//! `weir lab show`: what does a scenario set up, and what must come out?

use std::io::Write;
use std::path::Path as FilePath;

use anyhow::Context;
use weir_lab::path::{Direction, Loss, Path, QueueLimit};
use weir_lab::scenario::{self, Host, Scenario};
use weir_lab::slow_core::SlowCoreConfig;
use weir_report::escape::escape_lines;
use weir_units::{Bytes, human_duration};

use super::scenarios;
use crate::args::LabShow;
use crate::voice::Printed;

/// Prints it, or its file, or tc's words for its path.
pub fn run(show: &LabShow) -> anyhow::Result<u8> {
    let scenario = scenarios::find(&show.name)?;
    let lines = if show.file {
        vec![file(&show.name)?]
    } else if show.tc {
        scenario.path.tc_commands()
    } else {
        describe(&scenario)
    };
    let mut stdout = std::io::stdout().lock();
    for line in lines {
        writeln!(stdout, "{}", escape_lines(line.trim_end())).printed("what it shows")?;
    }
    Ok(0)
}

fn file(name: &str) -> anyhow::Result<String> {
    match scenario::text(name) {
        Some(text) => Ok(text.to_owned()),
        None => weir_units::read_text(FilePath::new(name), scenario::LONGEST)
            .with_context(|| format!("cannot read {name}")),
    }
}

fn describe(scenario: &Scenario) -> Vec<String> {
    let mut lines = vec![
        format!("{}: {}", scenario.name, scenario.title),
        format!("published  {}", scenario.published),
        format!("law        {}", scenario.law),
    ];
    lines.extend(path(&scenario.path));
    lines.extend(host("near", &scenario.near));
    lines.extend(host("far", &scenario.far));
    let (bytes, program) = (Bytes(scenario.workload.bytes()), scenario.workload.program());
    let way = if scenario.workload.goes_up() { "from near to far" } else { "from far to near" };
    lines.push(format!("work       {bytes} by {program}, {way}"));
    for (side, limits) in &scenario.limits {
        let names: Vec<&str> = limits.iter().map(|limit| limit.name()).collect();
        lines.push(format!("limit      {} ({} judges)", names.join(" or "), side.name()));
    }
    for figure in &scenario.figures {
        let (what, value) = (figure.of.name(), figure.of.show(figure.expected));
        lines.push(format!("figure     {what} {value}, within {:.0} %", figure.within * 100.0));
    }
    if let Some(then) = &scenario.then {
        lines.push(format!(
            "then       {}; the prediction holds within {:.0} %",
            then.what,
            then.within * 100.0
        ));
    }
    lines
}

fn path(path: &Path) -> Vec<String> {
    if path.up == path.down {
        return vec![format!("path       {}, both ways", direction(&path.down))];
    }
    vec![
        format!("path       to near: {}", direction(&path.down)),
        format!("           to far: {}", direction(&path.up)),
    ]
}

fn direction(direction: &Direction) -> String {
    let rate = direction
        .rate
        .map_or("as fast as it goes".to_owned(), |rate| format!("{:.0} Mbit/s", rate.bits() / 1e6));
    let mut words = vec![rate, human_duration(direction.delay)];
    match direction.loss {
        Loss::None => {}
        Loss::Random(share) => words.push(format!("{share} lost")),
        Loss::Burst(model) => words.push(format!("{} lost in bursts", model.mean_loss())),
    }
    match direction.queue.limit {
        QueueLimit::Auto => {}
        QueueLimit::Bytes(bytes) => words.push(format!("a queue of {bytes}")),
        QueueLimit::Packets(count) => words.push(format!("a queue of {count} packets")),
    }
    if let Some(policer) = direction.policer {
        words.push(format!("a policer of {} and {}", policer.rate, policer.burst));
    }
    words.join(", ")
}

fn host(name: &str, host: &Host) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(host.congestion_control.clone());
    words.extend(host.sysctl.iter().map(|(name, value)| format!("{name} = {value}")));
    words.extend(host.wmem_max.map(|bytes| format!("net.core.wmem_max = {}", bytes.0)));
    if let Some(disk) = host.disk {
        let dirty = disk.dirty.map(|bytes| format!(" and {bytes} of dirty pages")).unwrap_or_default();
        words.push(format!("a disk of {}{dirty}", disk.rate));
    }
    match host.core {
        Some(SlowCoreConfig::Quota(share)) => words.push(format!("{:.0} % of one core", share * 100.0)),
        Some(SlowCoreConfig::Neighbour) => words.push("one core, shared with a busy thread".to_owned()),
        None => {}
    }
    if words.is_empty() { Vec::new() } else { vec![format!("{name:<10} {}", words.join(", "))] }
}
