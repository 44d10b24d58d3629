//! The digests that `weir get` is told to require: `--checksum`, and all lists of `--checksum-from`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use url::Url;
use weir_codec::digest::Expected;
use weir_get::engine::{self, Task};
use weir_get::http::exchange::Http;
use weir_get::http::window::Window;
use weir_get::job::{Job, JobOutcome, Options, Output};
use weir_get::object;
use weir_get::source::{Given, Kept};
use weir_get::verify::{Expectation, GIVEN, Whose};
use weir_http::checksums::{Checksums, algorithm_of};
use weir_units::Bytes;

use crate::args::Get;
use crate::cmd::get_jobs::parse_url;
use crate::voice::Usage;

/// Two hundred thousand names with their digests.
const MAX_CHECKSUMS: Bytes = Bytes(16_000_000);

/// What files must be.
pub struct Sums {
    /// Of the only file.
    given: Vec<Expected>,
    /// Of each list, with its name.
    listed: Vec<(Checksums, String)>,
}

impl Sums {
    /// What `get` requires of `count` files, the first of which is at `first`.
    pub fn read(
        get: &Get,
        count: usize,
        first: Option<&Url>,
        http: &Http,
        options: &Options,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Sums> {
        if !get.checksum.is_empty() && count != 1 {
            let why = "--checksum is of one file; for several use --checksum-from";
            return Err(Usage(why.to_owned()).into());
        }
        if !get.checksum.is_empty() && get.range.as_ref().is_some_and(Window::is_several) {
            let why = "--checksum is of bytes that are always the same, and a server divides the parts of \
                       several ranges by another line each time; ask for one range (-r) at a time";
            return Err(Usage(why.to_owned()).into());
        }
        let parse = |text: &String| text.parse().map_err(|error| Usage(format!("{error}")));
        let given = get.checksum.iter().map(parse).collect::<Result<_, Usage>>()?;
        let listed = get.checksum_from.iter().map(|list| {
            let checksums = fetch(list, first, http, options, stop)?;
            let shown = match parse_url(list) {
                Ok(url) if list.contains("://") => object::shown(&url),
                _ => list.clone(),
            };
            anyhow::Ok((checksums, shown))
        });
        Ok(Sums { given, listed: listed.collect::<anyhow::Result<_>>()? })
    }

    /// They come from lists, each of which has to name every file.
    pub fn are_listed(&self) -> bool {
        !self.listed.is_empty()
    }

    /// What the file at `url` must be. A list names it as it lies on the server, whatever it is called here.
    pub fn of(&self, url: &Url) -> anyhow::Result<Vec<Expectation>> {
        let expect = |expected: &Expected, origin: &str| Expectation {
            expected: expected.clone(),
            origin: origin.to_owned(),
            whose: Whose::User,
            parts: None,
            before: Vec::new(),
        };
        let mut expectations: Vec<Expectation> = self.given.iter().map(|one| expect(one, GIVEN)).collect();
        for (checksums, list) in &self.listed {
            let name = object::name_from_url(url);
            let expected =
                checksums.find(&name).with_context(|| format!("cannot verify {name} by {list}"))?;
            expectations.push(expect(expected, list));
        }
        Ok(expectations)
    }
}

/// The list as a file of this machine, if that is what was named.
fn read_checksums(list: &str) -> anyhow::Result<Option<Vec<u8>>> {
    if list.contains("://") || !Path::new(list).is_file() {
        return Ok(None);
    }
    let text = weir_units::read_file(Path::new(list), MAX_CHECKSUMS);
    Ok(Some(text.with_context(|| format!("cannot read the checksums {list}"))?))
}

fn fetch(
    list: &str,
    of: Option<&Url>,
    http: &Http,
    options: &Options,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Checksums> {
    if let Some(text) = read_checksums(list)? {
        let name = Path::new(list).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        return Checksums::parse(&text, algorithm_of(name))
            .with_context(|| format!("cannot read the checksums {list}"));
    }
    let url = parse_url(list)?;
    let hint = algorithm_of(&object::name_from_url(&url));
    // -u and -H were given for the files; a list that lies elsewhere gets them only if it has a user of its
    // own.
    let own_user = !url.username().is_empty() || url.password().is_some();
    let home = of.filter(|_| !own_user).cloned();
    let output = Output::Memory(MAX_CHECKSUMS.0 as usize);
    let job = Job { url, home, output, name: None, expectations: Vec::new(), pinned: None, piece: None };
    let options = Options { rate_cap: None, ..options.clone() };
    let kept = Kept::default();
    let task = Task { source: &mut Given::new(vec![job]), results: &kept, reserved: Vec::new() };
    engine::run(task, &options, http, stop, &mut ());
    let Some(file) = kept.into_reports().pop() else { anyhow::bail!("cannot fetch the checksums {list}") };
    match file.outcome {
        JobOutcome::Failed(error) | JobOutcome::Partial(error) => {
            Err(anyhow::Error::new(error).context(format!("cannot fetch the checksums {}", file.url)))
        }
        _ => Checksums::parse(&file.body.unwrap_or_default(), hint)
            .with_context(|| format!("cannot read the checksums {}", file.url)),
    }
}
