//! What `weir plan`, `cp` and `get` to many hosts, `why` (live or of a capture) and `lab` add.

use serde_json::Value;
use weir_units::counted;

use super::super::chart::bars::{self, Bar};
use super::super::chart::gains;
use super::super::figure::Table;
use super::super::markup::Markup;
use super::super::words::{bytes, has_rate, percent, rate, sentence, short, time};
use super::super::{lab, limits, time_sequence};
use super::{ROWS, card, read};
use crate::capture::CaptureRecord;
use crate::plan::PlanRecord;
use crate::schema::{Record, RunOutcome};
use crate::survey::SurveyRecord;
use crate::why::WhyRecord;

pub(super) fn plan(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let plan: PlanRecord = read(value)?;
    for column in plan.columns.iter().take(12) {
        let bar = |cell: &crate::plan::CellRecord| Bar {
            name: cell.codec.clone(),
            value: cell.rate,
            words: format!("{}, {}", rate(cell.rate), limits::title(&cell.limit)),
            fill: Some(limits::look(&cell.limit).fill),
        };
        let mut table = Table::new(&["codec", "payload", "on the wire", "held by", "whole transfer"]);
        for cell in column.cells.iter().take(ROWS) {
            table.row([
                cell.codec.clone(),
                rate(cell.rate),
                rate(cell.wire),
                limits::title(&cell.limit),
                time(cell.seconds),
            ]);
        }
        let says =
            format!("{} carries most; each bar in the look of what would hold it.", short(&column.best, 40));
        let title =
            format!("{} over {} by {}", bytes(plan.size), rate(column.link), short(&column.transport, 12));
        bars::render(page, &title, &says, &column.cells.iter().map(bar).collect::<Vec<_>>(), table);
    }
    card(page, "What carries most", &best(&plan));
    card(page, "To many hosts, until the last one has all", &many_hosts(&plan));
    for note in plan.notes.iter().take(20) {
        page.leaf("p", &[("class", "notice")], note);
    }
    Ok(())
}

/// For each link the transport and the codec.
fn best(plan: &PlanRecord) -> Table {
    let mut table = Table::new(&["link", "by", "codec", "payload", "held by", "whole transfer", "held by"]);
    for best in plan.best.iter().take(ROWS) {
        table.row([
            rate(best.link),
            short(&best.transport, 12),
            short(&best.codec, 40),
            rate(best.rate),
            limits::title(&best.limit),
            time(best.seconds),
            limits::title(&best.whole_limit),
        ]);
    }
    table
}

fn many_hosts(plan: &PlanRecord) -> Table {
    let heads = [
        "link",
        "hosts",
        "chains",
        "through chains",
        "from here to each at once",
        "one copy",
        "each further host",
    ];
    let mut table = Table::new(&heads);
    for row in plan.hosts.iter().take(ROWS) {
        table.row([
            rate(row.link),
            row.hosts.to_string(),
            row.fanout.to_string(),
            time(row.chain),
            time(row.star),
            time(row.one),
            time(row.fill),
        ]);
    }
    table
}

pub(super) fn survey(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let survey: SurveyRecord = read(value)?;
    let mut bars: Vec<Bar> = (survey.bursts.iter())
        .map(|burst| Bar {
            name: format!("path, {}", counted(burst.connections.into(), "connection")),
            value: burst.rate,
            words: rate(burst.rate),
            fill: None,
        })
        .collect();
    let known = [
        ("path, inside ssh", survey.ssh.as_ref().map(|burst| burst.rate)),
        ("source disk", survey.source_disk),
        ("target, into memory", survey.write),
        ("target disk", survey.disk),
        ("predicted", Some(survey.predicted.rate)),
    ];
    let more = known.into_iter().filter_map(|(name, rate)| Some((name, rate?)));
    bars.extend(more.map(|(name, value)| Bar {
        name: name.to_owned(),
        value,
        words: rate(value),
        fill: None,
    }));
    let says = format!(
        "{} in {}; predicted {} with {}, held by {}.",
        bytes(survey.bytes),
        counted(survey.files, "file"),
        rate(survey.predicted.rate),
        short(&survey.predicted.codec, 20),
        limits::title(&survey.predicted.limit)
    );
    bars::render(page, "What each part carries", &says, &bars, Table::default());
    Ok(())
}

/// The member `cp` has no type of its own: each of its figures may be there or not.
pub(super) fn copy(
    page: &mut Markup,
    value: &Value,
    record: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(|text| short(text, 200));
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let mut table = Table::new(&["", "figure"]);
    let sources =
        value.get("sources").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for source in sources.take(10) {
        table.row(["source".to_owned(), short(source, 200)]);
    }
    for (name, member) in
        [("from", "from"), ("host", "host"), ("target", "target"), ("by", "transport"), ("cipher", "cipher")]
    {
        if let Some(text) = text(member) {
            table.row([name.to_owned(), text]);
        }
    }
    for (name, member) in
        [("files", "files"), ("unchanged", "unchanged"), ("deleted", "deleted"), ("lanes", "lanes")]
    {
        if let Some(number) = number(member).filter(|number| *number > 0) {
            table.row([name.to_owned(), number.to_string()]);
        }
    }
    if let Some(packed) = number("packed").filter(|packed| *packed > 0 && record.bytes > 0) {
        let share = packed as f64 / record.bytes as f64;
        table.row(["on the wire".to_owned(), format!("{}, {} of the data", bytes(packed), percent(share))]);
    }
    let codecs = value.get("codecs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let bars: Vec<Bar> = codecs.iter().filter_map(codec_bar).collect();
    bars::render(
        page,
        "Codecs",
        "How much of the data went through which codec, and what was left of it.",
        &bars,
        Table::default(),
    );
    card(page, "How", &table);
    card(page, "Hosts", &hosts(value));
    Ok(())
}

/// The rows of a copy to many hosts.
fn hosts(cp: &Value) -> Table {
    let mut table = Table::of_words(&["host", "from", "ended", "took", "carried", "held by", "error"]);
    let rows = cp.get("hosts").and_then(Value::as_array).into_iter().flatten();
    for row in rows.take(ROWS) {
        let text = |name: &str| match row.get(name).and_then(Value::as_str) {
            None | Some("") => "–".to_owned(),
            Some(text) => short(text, 200),
        };
        let limit = row.get("limit").and_then(Value::as_str).map_or("–".to_owned(), limits::title);
        table.row([
            text("host"),
            text("from"),
            text("outcome"),
            row.get("seconds").and_then(Value::as_f64).map_or("–".to_owned(), time),
            row.get("bytes").and_then(Value::as_u64).map_or("–".to_owned(), bytes),
            short(&limit, 40),
            text("error"),
        ]);
    }
    table
}

/// Which of many hosts fetched what the others got from it, and which could not.
pub(super) fn fetch(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(|text| short(text, 200));
    let mut table = Table::of_words(&["host", "what it did"]);
    let attempts = value.get("attempts").and_then(Value::as_array).into_iter().flatten();
    for attempt in attempts.take(ROWS) {
        let host = text(attempt, "host").unwrap_or_else(|| "–".to_owned());
        table.row([host, format!("could not: {}", text(attempt, "error").unwrap_or_default())]);
    }
    if let Some(host) = text(value, "host") {
        let own = value.get("record").and_then(|own| read::<Record>(own).ok());
        table.row([host, own.map_or("fetched it".to_owned(), |own| sentence(&own))]);
    }
    card(page, "Hosts that were asked to fetch", &table);
    Ok(())
}

fn codec_bar(codec: &Value) -> Option<Bar> {
    let (raw, packed) = (codec.get("bytes")?.as_u64()?, codec.get("packed")?.as_u64()?);
    let level = codec.get("level").and_then(Value::as_i64).unwrap_or(0);
    let name = codec.get("codec")?.as_str()?;
    let name = if level == 0 { name.to_owned() } else { format!("{name}:{level}") };
    Some(Bar { name, value: raw as f64, words: format!("{} as {}", bytes(raw), bytes(packed)), fill: None })
}

pub(super) fn prediction(
    page: &mut Markup,
    value: &Value,
    record: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    // What a run that broke off has reached says nothing of a forecast.
    let is_told = has_rate(record) && record.outcome == RunOutcome::Complete;
    let predicted = value.get("rate").and_then(Value::as_f64).filter(|_| is_told);
    let Some(predicted) = predicted else { return Ok(()) };
    let limit = value.get("limit").and_then(Value::as_str).unwrap_or("unknown");
    let bars = [
        Bar {
            name: "foretold".to_owned(),
            value: predicted,
            words: format!("{}, {}", rate(predicted), limits::title(limit)),
            fill: None,
        },
        Bar { name: "reached".to_owned(), value: record.rate, words: rate(record.rate), fill: None },
    ];
    let says = format!("The run reached {} of what was foretold.", gains::times(record.rate, predicted));
    bars::render(page, "Foretold and reached", &says, &bars, Table::default());
    Ok(())
}

pub(super) fn why(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let why: WhyRecord = read(value)?;
    let bar = |flow: &crate::why::FlowRecord| Bar {
        name: format!(
            "{} {} {}",
            flow.local,
            if flow.acked > flow.received { "to" } else { "from" },
            flow.peer
        ),
        value: flow.rate,
        words: match &flow.limit {
            Some(limit) => format!("{}, {}", rate(flow.rate), limits::title(limit)),
            None => rate(flow.rate),
        },
        fill: flow.limit.as_deref().filter(|limit| *limit != "mixed").map(|limit| limits::look(limit).fill),
    };
    let mut table =
        Table::new(&["connection", "process", "rate", "carried", "watched", "side", "control", "held by"]);
    for flow in why.flows.iter().take(ROWS) {
        table.row([
            format!("{} – {}", flow.local, flow.peer),
            flow.process.clone().unwrap_or_else(|| "–".to_owned()),
            rate(flow.rate),
            bytes(flow.received.saturating_add(flow.acked)),
            time(flow.seconds),
            flow.side.clone(),
            flow.congestion_control.clone().unwrap_or_else(|| "–".to_owned()),
            flow.limit.as_deref().map_or("–".to_owned(), limits::title),
        ]);
    }
    let says =
        format!("The busiest of {}, in the look of what held each.", counted(why.connections, "connection"));
    if let Some(line) = crate::why::unproven_line(&why) {
        page.leaf("p", &[("class", "notice")], &line);
    }
    bars::render(page, "Connections", &says, &why.flows.iter().take(20).map(bar).collect::<Vec<_>>(), table);
    let mut table = Table::new(&["thread", "of a core", "waited to run", "found"]);
    for thread in why.threads.iter().take(ROWS) {
        let found: Vec<String> = (thread.found.iter().take(4))
            .map(|(name, share)| format!("{} {}", name.replace('-', " "), percent(*share)))
            .collect();
        table.row([thread.name.clone(), percent(thread.busy), time(thread.runqueue), found.join(", ")]);
    }
    card(page, "Threads", &table);
    // A capture is not looked at while it runs.
    if why.own_cpu > 0.0 {
        page.leaf(
            "p",
            &[("class", "notice")],
            &format!("Looking took {} of one core.", percent(why.own_cpu)),
        );
    }
    Ok(())
}

pub(super) fn capture(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let capture: CaptureRecord = read(value)?;
    time_sequence::render(page, &capture);
    Ok(())
}

pub(super) fn scenarios(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    lab::render(page, value)
}
