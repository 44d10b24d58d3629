//! Whom a run asks: the URLs of the command line, and those of a list.

use std::path::Path;

use anyhow::Context;
use weir_bench_http::target::Target;
use weir_units::Bytes;

use crate::args::BenchHttp;
use crate::voice::Usage;

/// A hundred thousand URLs of a hundred bytes: each is a run of its own.
const LONGEST_LIST: Bytes = Bytes(10_000_000);

/// All of them, in their order. What cannot be asked is said before anything is.
pub fn read(bench: &BenchHttp) -> anyhow::Result<Vec<String>> {
    let mut urls: Vec<String> = bench.url.iter().cloned().collect();
    // With a script the words behind the URL are its.
    if bench.script.is_none() {
        urls.extend(bench.more.iter().cloned());
    }
    for url in &urls {
        Target::parse(url).map_err(|error| Usage(error.to_string()))?;
    }
    if let Some(list) = &bench.list {
        urls.extend(listed(list)?);
        if urls.is_empty() {
            return Err(Usage(format!("the list {list} names no URL: expected one a line")).into());
        }
    }
    Ok(urls)
}

fn listed(list: &str) -> anyhow::Result<Vec<String>> {
    let cannot = || format!("cannot read the list {list}");
    let bytes = match list {
        "-" => weir_units::read_up_to(std::io::stdin().lock(), LONGEST_LIST),
        path => weir_units::read_file(Path::new(path), LONGEST_LIST),
    };
    let bytes = bytes.with_context(cannot)?;
    let text = weir_units::list_text(&bytes).with_context(cannot)?;
    let mut urls = Vec::new();
    for (number, line) in weir_units::lines(text) {
        // Within a URL a # begins a fragment.
        let url = line.split_once(" #").map_or(line, |(url, _)| url).trim();
        if url.is_empty() || url.starts_with('#') {
            continue;
        }
        Target::parse(url).map_err(|error| Usage(format!("{list}, line {number}: {error}")))?;
        urls.push(url.to_owned());
    }
    Ok(urls)
}
