//! What `weir bench` adds: requests, a path, packets, codecs, ciphers, a host, a store.

use serde_json::Value;
use weir_units::counted;

use super::super::chart::bars::{self, Bar};
use super::super::chart::codecs;
use super::super::chart::rate::{Step, join, mean_of, render_steps};
use super::super::chart::spectrum::{self, Spectrum};
use super::super::figure::Table;
use super::super::markup::Markup;
use super::super::scale::sane;
use super::super::words::{bytes, count, percent, rate, short, time};
use super::super::{limits, verdict};
use super::machine::notices;
use super::{ROWS, card, read};
use crate::ciphers::CiphersRecord;
use crate::codecs::CodecsRecord;
use crate::host::HostRecord;
use crate::load::{LoadRecord, failures};
use crate::net::{IntervalRecord, NetRecord};
use crate::object_store::{StoreLoadRecord, StoreRecord};
use crate::packets::{PacketsRecord, PacketsRow};
use crate::schema::Record;
use crate::transactions::TransactionsRecord;

pub(super) fn http(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let load: LoadRecord = read(value)?;
    let name = if load.rate_asked.is_some() { "requests, from their planned time" } else { "requests" };
    let mut spectra = vec![Spectrum { name, of: &load.latency }];
    spectra.extend(load.service.as_ref().map(|of| Spectrum { name: "requests, from the send", of }));
    spectra.extend(load.connect.as_ref().map(|of| Spectrum { name: "connections", of }));
    spectrum::render(page, &spectra);
    let mut table = Table::new(&["", "figure"]);
    table.row(["asked for".to_owned(), short(&load.url, 200)]);
    table.row([
        "connections".to_owned(),
        format!("{} on {}", load.connections, counted(load.threads.into(), "loop")),
    ]);
    table.row([
        "client's processor".to_owned(),
        format!("{}, {} a request", percent(load.client_busy), time(load.client_cpu)),
    ]);
    if let Some(server) = &load.server {
        let words =
            format!("{}, {} a request ({})", percent(server.busy), time(server.cpu), short(&server.name, 60));
        table.row(["server's busiest thread".to_owned(), words]);
    }
    if let Some(capacity) = load.capacity {
        table.row(["that thread could take".to_owned(), format!("{} requests a second", count(capacity))]);
    }
    if load.unanswered > 0 {
        let words = format!("{}: the times from the plan are at least these", load.unanswered);
        table.row(["without an answer at the end".to_owned(), words]);
    }
    // Three digits make no more of them that are in use; a foreign record may hold any number.
    for (status, number) in load.statuses.iter().take(100) {
        table.row([format!("answers with status {}", short(status, 10)), number.to_string()]);
    }
    for (name, number) in failures(&load).into_iter().take(100) {
        table.row([short(&name, 100), number.to_string()]);
    }
    if let Some(strange) = &load.strange {
        table.row(["the first that was not HTTP began with".to_owned(), short(strange, 80)]);
    }
    card(page, "Figures", &table);
    Ok(())
}

pub(super) fn net(
    page: &mut Markup,
    value: &Value,
    record: &Record,
    level: &'static str,
) -> Result<(), serde_json::Error> {
    let net: NetRecord = read(value)?;
    for sends in [true, false] {
        let of_way = || net.intervals.iter().filter(move |interval| interval.sends == sends);
        // The lines of all streams; where there is only one stream, its own.
        let whose = of_way().map(|interval| interval.id).min().flatten();
        let of_all = of_way().filter(|interval| interval.id == whose);
        // What was omitted is in no mean and no share, and its time begins where that of the others does.
        let steps: Vec<Step> =
            of_all.clone().filter(|interval| !interval.omitted).map(interval_step).collect();
        let name = if sends { "Sent from here, over time" } else { "Received here, over time" };
        let both = net.direction == "both";
        let (mean, over) = mean_of(&steps);
        let mean = if both { mean } else { record.rate };
        render_steps(page, &join(&steps, 500), name, (mean, over));
        let table = intervals(of_all);
        card(page, if sends { "Intervals of sending" } else { "Intervals of receiving" }, &table);
    }
    if let Some(back) = &net.back_verdict {
        page.leaf("p", &[], "The way back, judged on its own:");
        verdict::render(page, back, net.back_received.as_ref().map_or(0.0, |sum| sum.rate), level);
    }
    let mut table = Table::new(&["stream", "from", "to", "sent", "received", "again"]);
    for flow in net.flows.iter().take(ROWS) {
        let (from, to) = if flow.sends { (&flow.local, &flow.remote) } else { (&flow.remote, &flow.local) };
        let sum =
            |sum: &Option<crate::net::SumRecord>| sum.as_ref().map_or("–".to_owned(), |sum| rate(sum.rate));
        let again = flow.sent.as_ref().and_then(|sum| sum.retransmits);
        table.row([
            flow.id.to_string(),
            short(from, 50),
            short(to, 50),
            sum(&flow.sent),
            sum(&flow.received),
            again.map_or("–".to_owned(), |again| again.to_string()),
        ]);
    }
    card(page, "Streams", &table);
    Ok(())
}

pub(super) fn transactions(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let made: TransactionsRecord = read(value)?;
    let mut table = Table::new(&["", "figure"]);
    let each = if made.kind == "crr" { "a connection for each" } else { "over connections that stay" };
    table.row(["transactions".to_owned(), format!("{} a second, {each}", count(made.rate))]);
    table.row(["with".to_owned(), short(&made.peer, 80)]);
    table.row(["connections at once".to_owned(), made.streams.to_string()]);
    let sizes = format!("{} asked, {} answered", bytes(made.request.into()), bytes(made.response.into()));
    table.row(["sizes".to_owned(), sizes]);
    if let Some(sure) = &made.confidence {
        let width = sure.width.map_or("unknown".to_owned(), percent);
        let met = if sure.met { "met" } else { "not met" };
        let words =
            format!("{width} wide, {} sure; {} asked for, {met}", percent(sure.level), percent(sure.asked));
        table.row(["interval of the mean".to_owned(), words]);
    }
    if let Some(latency) = &made.latency {
        for (name, seconds) in [
            ("shortest", latency.min),
            ("median", latency.p50),
            ("90 % within", latency.p90),
            ("99 % within", latency.p99),
            ("99.9 % within", latency.p999),
            ("longest", latency.max),
        ] {
            table.row([name.to_owned(), time(seconds)]);
        }
    }
    for (name, cpu) in [("processor time of each, here", made.cpu), ("and there", made.peer_cpu)] {
        if let Some(cpu) = cpu {
            table.row([name.to_owned(), time(cpu)]);
        }
    }
    card(page, "Figures", &table);
    let mut runs = Table::new(&["run", "transactions a second", "seconds", "median"]);
    for (number, run) in made.runs.iter().take(ROWS).enumerate() {
        runs.row([
            (number + 1).to_string(),
            count(run.rate),
            format!("{:.1}", sane(run.seconds)),
            time(run.median),
        ]);
    }
    card(page, "Runs", &runs);
    Ok(())
}

fn interval_step(interval: &IntervalRecord) -> Step {
    Step {
        from: sane(interval.from),
        to: sane(interval.to).max(sane(interval.from)),
        rate: sane(interval.rate),
        limit: interval.limit.clone(),
        ..Step::default()
    }
}

fn intervals<'a>(of: impl Iterator<Item = &'a IntervalRecord>) -> Table {
    let mut table =
        Table::new(&["from", "to", "goodput", "round trip", "smallest", "window", "again", "held by"]);
    for one in of.take(ROWS) {
        let number = |number: Option<u64>| number.map_or("–".to_owned(), |number| number.to_string());
        let held = one.limit.as_deref().map_or("–".to_owned(), limits::title);
        let omitted = if one.omitted { " (omitted)" } else { "" };
        table.row([
            time(one.from),
            time(one.to),
            crate::net::bits(sane(one.rate)),
            one.rtt.map_or("–".to_owned(), time),
            one.min_rtt.map_or("–".to_owned(), time),
            one.cwnd.map_or("–".to_owned(), bytes),
            number(one.retransmits),
            format!("{held}{omitted}"),
        ]);
    }
    table
}

pub(super) fn packets(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let packets: PacketsRecord = read(value)?;
    let limit = |row: &PacketsRow| row.verdict.as_ref().and_then(|verdict| verdict.limit.clone());
    let name = |row: &PacketsRow| format!("{} bytes, {}", row.frame, short(&row.method, 12));
    let measured = || packets.rows.iter().filter(|row| row.missing.is_none());
    let bar = |row: &PacketsRow| Bar {
        name: name(row),
        value: row.received_rate,
        words: format!("{}/s, {} lost", count(row.received_rate), percent(row.loss)),
        fill: limit(row).filter(|limit| limit != "mixed").map(|limit| limits::look(&limit).fill),
    };
    let heads = [
        "frame",
        "sent a second",
        "received a second",
        "lost",
        "reordered",
        "sender ran",
        "receiver ran",
        "held by",
    ];
    let mut table = Table::new(&heads);
    for row in packets.rows.iter().take(ROWS) {
        table.row(packets_row(name(row), row, limit(row)));
    }
    let says = "Packets a second that came, by frame size and method, in the look of what held them.";
    bars::render(page, "Packets a second", says, &measured().map(bar).collect::<Vec<_>>(), table);
    let searched = |row: &PacketsRow| Some((name(row), row.zero_loss.as_ref()?.rate?));
    let lossless: Vec<Bar> = (measured().filter_map(searched))
        .map(|(name, rate)| Bar { name, value: rate, words: format!("{}/s", count(rate)), fill: None })
        .collect();
    bars::render(
        page,
        "Without loss",
        "The highest rate at which all packets came.",
        &lossless,
        Table::default(),
    );
    for row in measured().take(20) {
        if let Some(judged) = row.verdict.as_ref().filter(|verdict| !verdict.evidence.is_empty()) {
            page.within("div", &[("class", "card")], |page| {
                page.leaf(
                    "h3",
                    &[],
                    &format!(
                        "{}: {}",
                        name(row),
                        limits::title(judged.limit.as_deref().unwrap_or("not judged"))
                    ),
                );
                page.leaf("p", &[], &judged.evidence.join("; "));
                judged
                    .advice
                    .iter()
                    .take(5)
                    .for_each(|advice| page.leaf("p", &[], &format!("To go faster: {}", advice.action)));
            });
        }
    }
    Ok(())
}

/// A row of the table; of what was not measured there is no figure.
fn packets_row(name: String, row: &PacketsRow, limit: Option<String>) -> [String; 8] {
    let none = || "–".to_owned();
    if let Some(why) = &row.missing {
        let why = format!("not measured: {why}");
        return [name, why, none(), none(), none(), none(), none(), none()];
    }
    [
        name,
        count(row.sent_rate),
        count(row.received_rate),
        format!("{:.3} %", sane(row.loss).min(1.0) * 100.0),
        row.reordered.to_string(),
        percent(row.sender_busy),
        percent(row.receiver_busy),
        limit.as_deref().map_or_else(none, limits::title),
    ]
}

pub(super) fn codec_table(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let table: CodecsRecord = read(value)?;
    codecs::render(page, &table);
    for link in table.links.iter().take(8) {
        let bar = |one: &crate::codecs::PredictionRecord| Bar {
            name: if one.threads > 1 { format!("{} x{}", one.codec, one.threads) } else { one.codec.clone() },
            value: one.rate,
            words: format!("{}, {}", rate(one.rate), limits::title(&one.limit)),
            fill: Some(limits::look(&one.limit).fill),
        };
        let says =
            format!("{} carries most; each bar in the look of what would hold it.", short(&link.best, 40));
        let bars: Vec<Bar> = link.predictions.iter().map(bar).collect();
        bars::render(page, &format!("Over a link of {}", rate(link.link)), &says, &bars, Table::default());
    }
    Ok(())
}

pub(super) fn cipher_table(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let ciphers: CiphersRecord = read(value)?;
    let mut table = Table::new(&["cipher", "record", "seal", "open"]);
    let mut bars = Vec::new();
    for row in ciphers.rows.iter().take(ROWS) {
        let name = format!("{}, {} KiB", short(&row.cipher, 40), row.record / 1024);
        table.row([
            short(&row.cipher, 40),
            format!("{} KiB", row.record / 1024),
            rate(row.seal.rate),
            rate(row.open.rate),
        ]);
        let slower = row.seal.rate.min(row.open.rate);
        bars.push(Bar { name, value: slower, words: rate(slower), fill: None });
    }
    bars::render(page, "Ciphers on one core", "Sealing or opening, whichever is slower.", &bars, table);
    let ssh: Vec<Bar> = (ciphers.ssh.iter())
        .map(|row| Bar {
            name: row.cipher.clone(),
            value: row.speed.rate,
            words: rate(row.speed.rate),
            fill: None,
        })
        .collect();
    bars::render(page, "ssh's ciphers", "Through a real sshd over loopback.", &ssh, Table::default());
    if let Some(why) = &ciphers.ssh_missing {
        page.leaf("p", &[("class", "notice")], &format!("ssh was not measured: {why}"));
    }
    Ok(())
}

pub(super) fn host(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let host: HostRecord = read(value)?;
    let mut table = Table::new(&["figure", "value", "from"]);
    for figure in host.figures.iter().take(ROWS) {
        let value = match (&figure.missing, &figure.text, figure.value) {
            (Some(_), ..) | (None, None, None) => "–".to_owned(),
            (None, Some(text), _) => short(text, 80),
            (None, None, Some(value)) => crate::host::amount(value.clamp(-1e18, 1e18), &figure.unit),
        };
        let from =
            figure.missing.as_ref().map_or(figure.origin.clone(), |why| format!("not measured: {why}"));
        table.row([figure.name.replace('-', " "), value, from]);
    }
    card(page, "Figures and where they come from", &table);
    if !host.left_out.is_empty() {
        let words = format!("Interrupted; not measured: {}.", host.left_out.join(", "));
        page.leaf("p", &[("class", "notice")], &words);
    }
    Ok(())
}

pub(super) fn store(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let store: StoreRecord = read(value)?;
    let mut single = Table::new(&["one at a time", "size", "median", "shortest", "longest", "requests"]);
    for row in store.latency.iter().take(ROWS) {
        let size = if row.operation == "LIST" { "–".to_owned() } else { bytes(row.bytes) };
        single.row([
            short(&row.operation, 20),
            size,
            time(row.median),
            time(row.shortest),
            time(row.longest),
            row.count.to_string(),
        ]);
    }
    card(page, "Single requests", &single);
    card(page, "Large objects, over connections at once", &store_loads(&store.throughput));
    card(page, "Small objects, over connections at once", &store_loads(&store.requests));
    let mut held = Table::of_words(&["figure", "held by", "why"]);
    for row in store.held.iter().take(ROWS) {
        let limit = row.limit.as_deref().map_or("not told".to_owned(), limits::title);
        held.row([short(&row.figure, 40), short(&limit, 40), short(&row.why, 300)]);
    }
    card(page, "What holds it", &held);
    notices(page, &store.missing);
    Ok(())
}

fn store_loads(loads: &[StoreLoadRecord]) -> Table {
    let mut table = Table::new(&["connections", "requests a second", "rate", "put off", "processors here"]);
    for load in loads.iter().take(ROWS) {
        table.row([
            load.connections.to_string(),
            count(load.requests),
            rate(load.rate),
            load.throttled.to_string(),
            count(load.cpus),
        ]);
    }
    table
}
