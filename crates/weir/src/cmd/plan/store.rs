//! `weir plan SRC... DST` with a store: how many parts and requests a copy is, what those cost, and how long
//! it takes over a link that is named.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use weir_observe::stage_clock::StageClock;
use weir_report::escape::escape;
use weir_report::json as records;
use weir_report::schema::{Record, RunOutcome};
use weir_store::address::StoreUrl;
use weir_store::cost::{Direction, Price, Requests, list_price};
use weir_store::glob::Glob;
use weir_store::listing::{self, PagesSetup};
use weir_tree::walk::{Root, Step, Walk, Wanted};
use weir_tree::{Filter, Kind};
use weir_units::{Bytes, Rate, counted, human_duration};

use crate::args;
use crate::cmd::asked_store;
use crate::cmd::store_ends::{EndWords, Kinship, StoreEnd, StoreEnds};
use crate::interrupt;
use crate::page;
use crate::voice::{Printed, Usage};

/// Requests at once for small objects, as copies have it.
const AT_ONCE: f64 = 16.0;

/// Whether a store is on either side.
pub fn is_meant(plan: &args::Plan) -> bool {
    plan.paths.iter().any(|path| path.to_str().is_some_and(|text| StoreUrl::parse(text).is_some()))
}

/// The ends of the copy, and what it is.
struct Planned {
    requests: Requests,
    price: Option<Price>,
    target: String,
    notes: Vec<String>,
}

/// Counts and tells. Returns the exit code.
pub fn run(plan: &args::Plan) -> anyhow::Result<u8> {
    let started = Instant::now();
    let stop = interrupt::stop()?;
    let planned = planned(plan, &stop)?;
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
    let texts: Vec<String> = plan.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let Some((target, sources)) = texts.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(Usage("expected SRC and DST, one of them a store, as for weir cp".to_owned()).into());
    };
    if plan.hosts.is_some() {
        return Err(Usage(
            "--hosts is for copies between hosts; plan the store's part without it".to_owned(),
        )
        .into());
    }
    let url = |text: &String| StoreUrl::parse(text).transpose().map_err(|bad| Usage(bad.to_string()));
    let (to, from) = (url(target)?, url(&sources[0])?);
    let words = EndWords { both: &plan.store, ends: &plan.ends, network: &plan.network };
    let ends = StoreEnds::open(words, from.as_ref(), to.as_ref(), stop)?;
    let direction = match &ends {
        StoreEnds::Target(_) => Direction::Up,
        StoreEnds::Source(_) => Direction::Down,
        StoreEnds::Both { kinship: Kinship::One, .. } => Direction::Within,
        StoreEnds::Both { .. } => Direction::Through,
    };
    let kind = to.as_ref().or(from.as_ref()).map(|url| url.kind);
    let bounds = ends.main().store.uploads().bounds();
    let mut requests = Requests::default();
    let mut notes = Vec::new();
    let add = |requests: &mut Requests, size: u64| {
        requests.add(direction, size, &bounds).map_err(|error| Usage(error.to_string()))
    };
    match (plan.size, from.as_ref().zip(ends.source())) {
        (Some(size), _) => {
            add(&mut requests, size.0)?;
            notes.push("one object of --size; without it the source is looked at".to_owned());
        }
        (None, Some((from, end))) => {
            if sources.len() > 1 {
                return Err(Usage("one source from a store goes in a command".to_owned()).into());
            }
            list(end, from, stop, &mut |size| Ok(add(&mut requests, size)?))?;
            notes.push(
                "the source was listed for this, which is asked for once more when it is copied".to_owned(),
            );
        }
        (None, None) => {
            for source in sources {
                files(source, &mut |size| Ok(add(&mut requests, size)?))?;
            }
        }
    }
    if from.is_some() {
        requests.add_list(requests.objects);
    }
    if to.is_some() {
        // What is there is listed beside the copy; how much that is is not looked at.
        requests.add_list(0);
    }
    if direction == Direction::Down {
        notes.push("each further connection on a large object is a request more".to_owned());
    }
    let price = price(plan, kind.and_then(list_price), &mut notes);
    Ok(Planned { requests, price, target: target.clone(), notes })
}

/// The user's price, or the list's.
fn price(plan: &args::Plan, listed: Option<Price>, notes: &mut Vec<String>) -> Option<Price> {
    match (plan.price_write, plan.price_read, listed) {
        (None, None, listed) => {
            if listed.is_none() {
                notes.push(
                    "what requests cost is not known of this store: --price-write and --price-read set it"
                        .to_owned(),
                );
            }
            listed
        }
        (write, read, listed) => {
            let of = |own: Option<f64>, listed: fn(&Price) -> f64, price: &Option<Price>| {
                own.or_else(|| price.as_ref().map(listed)).unwrap_or_default()
            };
            Some(Price {
                write: of(write, |price| price.write, &listed),
                read: of(read, |price| price.read, &listed),
                origin: "--price-write, --price-read".to_owned(),
            })
        }
    }
}

/// The sizes of what a folder or a file has.
fn files(source: &str, add: &mut dyn FnMut(u64) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let path = Path::new(source);
    let root = Root::from_argument(path).with_context(|| format!("cannot read {source}"))?;
    if !path.exists() {
        anyhow::bail!("cannot read {source}: no such file or directory");
    }
    for step in Walk::new(vec![Root { follow: true, ..root }], Filter::default(), Wanted::default()) {
        match step {
            Step::Found(entry, _) if matches!(entry.kind, Kind::File { .. }) => add(entry.size())?,
            Step::Found(..) | Step::Leave(_) => {}
            Step::Failed(name, error) => anyhow::bail!("cannot read {name}: {error}"),
        }
    }
    Ok(())
}

/// The sizes of what `from` names.
fn list(
    end: &StoreEnd,
    from: &StoreUrl,
    stop: &Arc<AtomicBool>,
    add: &mut dyn FnMut(u64) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let clock = StageClock::new(Instant::now());
    let glob = Glob::parse(&from.key);
    let prefix = glob.as_ref().map_or_else(|| Glob::plain(&from.key), |glob| glob.prefix().to_owned());
    let is_meant = |key: &str| match &glob {
        Some(glob) => glob.matches(key),
        None => from.is_prefix() || key == prefix || key[prefix.len()..].starts_with('/'),
    };
    let setup = PagesSetup {
        lists: end.store.lists(),
        prefix: prefix.clone(),
        delimiter: None,
        versions: false,
        shown: from.with_key("").to_string().trim_end_matches('/').to_owned(),
    };
    let mut found = false;
    std::thread::scope(|scope| -> anyhow::Result<()> {
        for page in listing::ahead(scope, setup, asked_store::caller(&end.http, &clock, stop))? {
            for object in page?.objects.iter().filter(|object| is_meant(&object.key)) {
                found = true;
                add(object.size)?;
            }
        }
        Ok(())
    })?;
    if !found && !from.key.is_empty() {
        anyhow::bail!("cannot plan for {from}: the bucket holds nothing of that name");
    }
    Ok(())
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
    json!({
        "target": planned.target, "objects": objects, "bytes": bytes,
        "in_parts": in_parts, "parts": parts, "least_part": part_sizes.0, "most_part": part_sizes.1,
        "writes": writes, "reads": reads,
        "cost": planned.price.as_ref().map(|price| json!({
            "usd": price.of(&planned.requests), "write_per_1000": price.write, "read_per_1000": price.read,
            "origin": price.origin,
        })),
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
    if let Some(price) = &planned.price {
        let (cost, Price { write, read, origin }) = (price.of(&planned.requests), price);
        writeln!(
            out,
            "they cost ${cost:.4}: ${write} and ${read} a thousand ({origin}); bytes that leave a store are not in it"
        )?;
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
