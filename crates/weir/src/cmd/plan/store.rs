//! `weir plan SRC... DST` with a store: how many parts and requests a copy is, what those cost, and how long
//! it takes over a link that is named. What is counted is what `weir cp` would choose; the target is not
//! asked.

mod tally;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_report::escape::escape;
use weir_report::json as records;
use weir_report::schema::{Record, RunOutcome};
use weir_store::address::StoreUrl;
use weir_store::cost::{ClassPrice, Direction, Price, Requests, list_price};
use weir_units::{Bytes, Rate, counted, human_duration};

use self::tally::Tally;
use crate::args;
use crate::cmd::cp_store::between::{self, StoreRoute};
use crate::cmd::cp_store::{self, HostWords};
use crate::cmd::store_ends::{EndWords, Kinship, StoreEnd, StoreEnds};
use crate::interrupt::{self, INTERRUPTED};
use crate::page;
use crate::voice::{Printed, Usage};

/// Requests at once for small objects, as copies have it.
const AT_ONCE: f64 = 16.0;

/// Whether a store is on either side.
pub fn is_meant(plan: &args::Plan) -> bool {
    plan.paths.iter().any(between::is_store)
}

/// What a copy asks for.
struct Planned {
    requests: Requests,
    price: Price,
    target: String,
    notes: Vec<String>,
}

/// Counts and tells. Returns the exit code.
pub fn run(plan: &args::Plan) -> anyhow::Result<u8> {
    let started = Instant::now();
    let stop = interrupt::stop()?;
    let planned = match planned(plan, &stop) {
        Err(_) if stop.load(Relaxed) => return Ok(INTERRUPTED),
        planned => planned?,
    };
    let forecasts: Vec<(Rate, Duration, &str)> =
        plan.links.iter().map(|link| forecast(plan, &planned, *link)).collect();
    let mut record = Record::new("plan", RunOutcome::Complete, 0, started.elapsed().as_secs_f64());
    record.extra.insert("store_plan".to_owned(), member(&planned, &forecasts));
    let mut stdout = std::io::stdout().lock();
    if plan.voice.json {
        records::render(&record, &mut stdout).printed("the record")?;
    } else if !plan.voice.quiet {
        tell(&planned, &forecasts, &mut stdout).printed("the plan")?;
    }
    stdout.flush().printed("the plan")?;
    page::keep(&plan.voice, &record)?;
    Ok(0)
}

fn planned(plan: &args::Plan, stop: &Arc<AtomicBool>) -> anyhow::Result<Planned> {
    let Some(target) = plan.paths.last().filter(|_| plan.paths.len() > 1) else {
        return Err(Usage("expected SRC and DST, one of them a store, as for weir cp".to_owned()).into());
    };
    if plan.hosts.is_some() {
        return Err(Usage(
            "--hosts is for copies between hosts; plan the store's part without it".to_owned(),
        )
        .into());
    }
    let hosts = HostWords {
        codec: false,
        transport: !plan.transports.is_empty() && super::is_typed("--transport"),
        port_range: plan.port_range.is_some() && super::is_typed("--port-range"),
        plain: plan.plain && super::is_typed("--plain"),
    };
    cp_store::refuse(&plan.what, hosts)?;
    let between = StoreRoute::of(&plan.paths)?;
    let choice = cp_store::choice(&plan.what, between.sources())?;
    between.refuse_delete(choice.delete)?;
    let (from, to) = between.stores();
    let words = EndWords { both: &plan.store, ends: &plan.ends, network: &plan.network };
    let ends = StoreEnds::open(words, from, to, stop)?;
    let direction = direction(&ends);
    let bounds = ends.main().store.uploads().bounds();
    let mut tally = Tally::new(direction, bounds, &choice, plan.max_wait);
    let mut notes = count(plan.size, &between, &ends, &mut tally, stop)?;
    notes.extend(tally.notes());
    let mut requests = tally.requests;
    if to.is_some() {
        // What is there is listed beside the copy; how much that is is not looked at.
        requests.add_list(0);
    }
    if direction == Direction::Down {
        notes.push("each further connection on a large object is a request more".to_owned());
    }
    let price = price(plan, from.zip(ends.source()), to.zip(ends.target()));
    notes.extend(unpriced(&price, &requests));
    Ok(Planned { requests, price, target: target.to_string_lossy().into_owned(), notes })
}

fn direction(ends: &StoreEnds) -> Direction {
    match ends {
        StoreEnds::Target(_) => Direction::Up,
        StoreEnds::Source(_) => Direction::Down,
        StoreEnds::Both { kinship: Kinship::One, .. } => Direction::Within,
        StoreEnds::Both { .. } => Direction::Through,
    }
}

/// Counts what the source has. Returns what is worth knowing of that.
fn count(
    size: Option<Bytes>,
    between: &StoreRoute,
    ends: &StoreEnds,
    tally: &mut Tally<'_>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Vec<String>> {
    if let Some(size) = size {
        tally.add(size.0)?;
        if ends.source().is_some() {
            tally.requests.add_list(1);
        }
        return Ok(vec!["one object of --size; without it the source is looked at".to_owned()]);
    }
    let mut notes = vec!["what the target has already is counted as well; weir cp -n compares".to_owned()];
    let listed = "the source was listed for this, which is asked for once more when it is copied";
    match (between, ends) {
        (StoreRoute::Up { from, to }, _) => tally.walk(from, to, stop)?,
        (StoreRoute::Down { from, .. }, StoreEnds::Source(source)) => {
            tally.list(source, from, None, stop)?;
            notes.push(listed.to_owned());
        }
        (StoreRoute::Across { from, to }, StoreEnds::Both { source, kinship, .. }) => {
            tally.list(source, from, Some((to, *kinship)), stop)?;
            notes.push(listed.to_owned());
        }
        _ => return Err(Usage("neither end is a store".to_owned()).into()),
    }
    Ok(notes)
}

/// Of each class the user's price, or the list's of the store that is asked for it: the target is written to
/// and the source is read, and a store alone is both.
fn price(
    plan: &args::Plan,
    source: Option<(&StoreUrl, &StoreEnd)>,
    target: Option<(&StoreUrl, &StoreEnd)>,
) -> Price {
    let listed = |(url, end): (&StoreUrl, &StoreEnd)| list_price(url.kind, &end.store.service());
    let (source, target) = (source.map(listed), target.map(listed));
    let listed_write = target.as_ref().or(source.as_ref()).and_then(|price| price.write.clone());
    let listed_read = source.as_ref().or(target.as_ref()).and_then(|price| price.read.clone());
    let own = |usd: Option<f64>, flag: &str| usd.map(|usd| ClassPrice { usd, origin: flag.to_owned() });
    Price {
        write: own(plan.price_write, "--price-write").or(listed_write),
        read: own(plan.price_read, "--price-read").or(listed_read),
    }
}

/// The flags that would make the cost known.
fn unpriced(price: &Price, requests: &Requests) -> Option<String> {
    let classes = [
        ("--price-write", requests.writes, price.write.is_some()),
        ("--price-read", requests.reads, price.read.is_some()),
    ];
    let missing = classes.iter().filter(|(_, count, is_known)| *count > 0 && !is_known);
    let missing = missing.map(|(flag, ..)| *flag).collect::<Vec<_>>().join(" and ");
    let said = |flags: String| format!("what requests cost at this store is not known; set it by {flags}");
    Some(missing).filter(|missing| !missing.is_empty()).map(said)
}

/// How long it takes over `link`, and what holds it.
fn forecast(plan: &args::Plan, planned: &Planned, link: Rate) -> (Rate, Duration, &'static str) {
    let by_bytes = planned.requests.bytes as f64 / link.0;
    let by_requests = plan.rtt.map_or(0.0, |rtt| planned.requests.all() as f64 * rtt.as_secs_f64() / AT_ONCE);
    let held = if by_requests > by_bytes { "request-response" } else { "path-bandwidth" };
    (link, Duration::from_secs_f64(by_bytes.max(by_requests).min(1e12)), held)
}

fn member(planned: &Planned, forecasts: &[(Rate, Duration, &str)]) -> Value {
    let Requests { objects, bytes, in_parts, parts, part_sizes, writes, reads } = planned.requests;
    let forecasts: Vec<Value> = forecasts
        .iter()
        .map(|(link, span, held)| json!({"link": link.0, "seconds": span.as_secs_f64(), "limit": held}))
        .collect();
    let Price { write, read } = &planned.price;
    let (usd_of, origin_of) = (|class: &ClassPrice| class.usd, |class: &ClassPrice| class.origin.clone());
    let cost = (write.is_some() || read.is_some()).then(|| {
        json!({
            "usd": planned.price.of(&planned.requests),
            "write_per_1000": write.as_ref().map(usd_of), "write_origin": write.as_ref().map(origin_of),
            "read_per_1000": read.as_ref().map(usd_of), "read_origin": read.as_ref().map(origin_of),
        })
    });
    json!({
        "target": planned.target, "objects": objects, "bytes": bytes,
        "in_parts": in_parts, "parts": parts, "least_part": part_sizes.0, "most_part": part_sizes.1,
        "writes": writes, "reads": reads,
        "cost": cost,
        "forecast": forecasts, "notes": planned.notes,
    })
}

fn tell(planned: &Planned, forecasts: &[(Rate, Duration, &str)], out: &mut dyn Write) -> std::io::Result<()> {
    let Requests { objects, bytes, in_parts, parts, part_sizes, writes, reads } = planned.requests;
    writeln!(out, "{}, {}, to {}", counted(objects, "object"), Bytes(bytes), escape(&planned.target))?;
    if in_parts > 0 {
        let (least, most) = (Bytes(part_sizes.0), Bytes(part_sizes.1));
        let each = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        writeln!(out, "parts: {parts} of {each}, of {}", counted(in_parts, "object"))?;
    }
    writeln!(out, "requests: {writes} that write or list, {reads} that read")?;
    if let Some(cost) = cost_in_words(planned) {
        writeln!(out, "{cost}")?;
    }
    for (link, span, held) in forecasts {
        writeln!(out, "over {link}: {}, held by {held}", human_duration(*span))?;
    }
    if forecasts.is_empty() {
        writeln!(
            out,
            "how long it takes: name the link (--link RATE, --rtt TIME), or measure with weir bench store"
        )?;
    }
    planned.notes.iter().try_for_each(|note| writeln!(out, "note: {}", escape(note)))
}

/// What the requests cost, by the prices of those classes that there are requests of.
fn cost_in_words(planned: &Planned) -> Option<String> {
    let Planned { requests, price, .. } = planned;
    let cost = price.of(requests)?;
    let of = |class: &ClassPrice, what: &str| format!("${} a thousand that {what}", class.usd);
    let write = price.write.as_ref().filter(|_| requests.writes > 0);
    let read = price.read.as_ref().filter(|_| requests.reads > 0);
    let grounds = match (write, read) {
        (Some(write), Some(read)) if write.origin == read.origin => {
            format!("{} and {} ({})", of(write, "write or list"), of(read, "read"), read.origin)
        }
        _ => {
            let told = |(class, what): (Option<&ClassPrice>, &str)| {
                let class = class?;
                Some(format!("{} ({})", of(class, what), class.origin))
            };
            let each = [(write, "write or list"), (read, "read")].into_iter();
            each.filter_map(told).collect::<Vec<_>>().join(", ")
        }
    };
    Some(format!("they cost ${cost:.4}: {grounds}; bytes that leave a store are not in it"))
}
