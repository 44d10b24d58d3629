//! `weir ls`: what a store holds, line by line as its pages come.

use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Instant, SystemTime};

use serde_json::json;
use url::Url;
use weir_get::GetError;
use weir_observe::stage_clock::StageClock;
use weir_report::escape::escape;
use weir_store::StoreError;
use weir_store::address::StoreUrl;
use weir_store::caller::{Caller, CallerSetup};
use weir_store::glob::Glob;
use weir_store::links::StoreLink;
use weir_store::listing::{self, Listed, Page, PagesSetup};
use weir_units::Bytes;
use weir_units::instant;

use crate::args::Ls;
use crate::cmd::asked_store::{self, StoreWay};
use crate::interrupt::{self, INTERRUPTED};
use crate::schemes;
use crate::voice::{self, Printed, Usage};

/// Lists what `ls` names. Returns the exit code: 1 where a store refuses, or holds nothing of that name.
pub fn run(ls: &Ls) -> anyhow::Result<u8> {
    voice::start_log(false, ls.verbose);
    let urls: Vec<StoreUrl> = ls.urls.iter().map(|text| url(text)).collect::<Result<_, _>>()?;
    let stop = interrupt::stop()?;
    let mut out = Lines::new(ls);
    let mut code = 0;
    for url in &urls {
        match list(ls, url, &stop, &mut out) {
            Ok(()) => {}
            Err(_) if stop.load(Relaxed) => {
                out.flush()?;
                return Ok(INTERRUPTED);
            }
            // What came before is a list, if not all of it.
            Err(error) if error.is::<StoreError>() && voice::code(&error) != voice::USAGE => {
                out.flush()?;
                voice::warn(&escape(&voice::words(&error)));
                let of_this = voice::code(&error);
                code = if code == 0 || code == of_this { of_this } else { 1 };
            }
            Err(error) => return Err(error),
        }
    }
    // Of a list that broke off nobody knows how much there is.
    if ls.summarize && code == 0 {
        out.total()?;
    }
    out.flush()?;
    Ok(code)
}

fn url(text: &str) -> Result<StoreUrl, Usage> {
    if let Some(service) = StoreUrl::service(text) {
        return Ok(service);
    }
    match StoreUrl::parse(text) {
        Some(url) => url.map_err(|bad| Usage(bad.to_string())),
        None => {
            // A link to an object is for downloads; listing wants the address of its store.
            let link = Url::parse(text).ok().and_then(|link| StoreLink::of(&link));
            if let Some(StoreLink { url, .. }) = link {
                let (text, url) = (escape(text), url.to_string());
                return Err(Usage(format!("cannot list '{text}': weir ls takes it as {}", escape(&url))));
            }
            let of_what = "weir ls lists object stores: s3://BUCKET/PREFIX";
            let way_out = match schemes::is_link(text) {
                true => of_what.to_owned(),
                false => format!("{of_what}; ls lists folders of this machine"),
            };
            Err(Usage(format!("cannot list '{}': {way_out}", escape(text))))
        }
    }
}

fn list(ls: &Ls, url: &StoreUrl, stop: &Arc<AtomicBool>, out: &mut Lines<'_>) -> anyhow::Result<()> {
    let way = StoreWay::of(&ls.network, stop)?;
    let store = way.open(&ls.store, url)?;
    let http = way.http(&[&store]);
    let clock = StageClock::new(Instant::now());
    let setup = CallerSetup { max_wait: ls.max_wait, ..asked_store::caller(&http, &clock, stop) };
    if url.bucket.is_empty() {
        let buckets = store.lists().buckets(&mut Caller::new(setup))?;
        return buckets.iter().try_for_each(|bucket| out.bucket(url, &bucket.name, bucket.created));
    }
    let glob = Glob::parse(&url.key);
    let is_letters = glob.is_some() && asked_store::is_an_object(&*store, setup, url)?;
    let glob = glob.filter(|_| !is_letters);
    let is_flat = ls.recursive || glob.as_ref().is_some_and(|glob| !glob.is_of_one_folder());
    let prefix = match &glob {
        Some(glob) => glob.prefix().to_owned(),
        None if is_letters => url.key.clone(),
        None => Glob::plain(&url.key),
    };
    let mut pages = PagesSetup {
        lists: store.lists(),
        prefix: prefix.clone(),
        delimiter: (!is_flat).then_some("/"),
        versions: ls.versions,
        shown: url.with_key("").to_string().trim_end_matches('/').to_owned(),
    };
    let is_named = |page: &Page| page.prefixes == [format!("{prefix}/")] && page.objects.is_empty();
    let mut found = false;
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let mut received = listing::ahead(scope, pages.clone(), setup)?;
        let mut is_first = true;
        while let Ok(page) = received.recv() {
            let page = page?;
            // A folder that is named without its slash, and nothing else that begins so: what is in it.
            if std::mem::take(&mut is_first) && glob.is_none() && page.next.is_none() && is_named(&page) {
                pages.prefix = format!("{prefix}/");
                received = listing::ahead(scope, pages.clone(), setup)?;
                continue;
            }
            found |= out.page(url, &page, glob.as_ref())?;
            // Each page is told as soon as it is here.
            out.flush()?;
        }
        Ok(())
    })?;
    if stop.load(Relaxed) {
        return Err(StoreError::Http(GetError::Interrupted).into());
    }
    // Of an empty bucket the list is empty, and right.
    if !found && !url.key.is_empty() {
        let what = if glob.is_some() { "matches that pattern" } else { "begins so" };
        return Err(
            StoreError::Absent(format!("cannot list {url}: the bucket holds nothing that {what}")).into()
        );
    }
    Ok(())
}

/// What is printed.
struct Lines<'a> {
    ls: &'a Ls,
    to: BufWriter<std::io::Stdout>,
    objects: u64,
    bytes: u64,
}

/// What stands before a name with `-l`: size, time, class.
const COLUMNS: (usize, usize, usize) = (14, 19, 12);

impl<'a> Lines<'a> {
    fn new(ls: &'a Ls) -> Lines<'a> {
        Lines { ls, to: BufWriter::new(std::io::stdout()), objects: 0, bytes: 0 }
    }

    fn bucket(&mut self, of: &StoreUrl, name: &str, created: Option<SystemTime>) -> anyhow::Result<()> {
        let url = format!("{}://{name}", of.kind.scheme());
        if self.ls.json {
            let line =
                json!({ "url": url, "type": "bucket", "bucket": name, "created": created.map(rfc3339) });
            return self.line(&line.to_string());
        }
        let time = created.map(instant::shown);
        self.columns(None, time.filter(|_| self.ls.long).as_deref(), None, &url)
    }

    /// What of a page matches; whether anything does.
    fn page(&mut self, of: &StoreUrl, page: &Page, glob: Option<&Glob>) -> anyhow::Result<bool> {
        let takes = |key: &str| glob.is_none_or(|glob| glob.matches(key));
        let folders = page.prefixes.iter().filter(|prefix| takes(prefix.trim_end_matches('/')));
        let objects = page.objects.iter().filter(|object| takes(&object.key));
        let mut lines: Vec<(&str, Option<&Listed>)> = folders.map(|prefix| (prefix.as_str(), None)).collect();
        lines.extend(objects.map(|object| (object.key.as_str(), Some(object))));
        // A page has folders and objects apart; to the reader they are one list. Versions stay as they came.
        lines.sort_by_key(|(key, _)| *key);
        for (key, object) in &lines {
            match object {
                Some(object) => self.object(of, object)?,
                None => self.folder(of, key)?,
            }
        }
        Ok(!lines.is_empty())
    }

    fn folder(&mut self, of: &StoreUrl, prefix: &str) -> anyhow::Result<()> {
        let url = of.with_key(prefix).to_string();
        if self.ls.json {
            return self.line(&json!({ "url": url, "type": "prefix", "key": prefix }).to_string());
        }
        self.columns(None, None, None, &url)
    }

    fn object(&mut self, of: &StoreUrl, object: &Listed) -> anyhow::Result<()> {
        let version = object.version.as_ref();
        let is_mark = version.is_some_and(|version| version.is_delete_marker);
        if !is_mark {
            self.objects += 1;
            self.bytes = self.bytes.saturating_add(object.size);
        }
        let id = version.map(|version| version.id.clone()).filter(|id| !id.is_empty());
        let url = StoreUrl { version: id.clone(), ..of.with_key(&*object.key) }.to_string();
        if self.ls.json {
            let mut line = json!({
                "url": url,
                "type": if is_mark { "delete-marker" } else { "object" },
                "key": object.key,
                "size": object.size,
                "modified": object.modified.map(rfc3339),
                "etag": object.etag,
                "storage_class": object.class,
                "checksums": object.checksums,
            });
            if let Some(version) = version {
                line["version"] = id.into();
                line["is_latest"] = version.is_latest.into();
            }
            return self.line(&line.to_string());
        }
        let time = object.modified.map(instant::shown);
        let class = if is_mark { Some("deleted") } else { object.class.as_deref() };
        self.columns((!is_mark).then_some(object.size), time.as_deref(), class, &url)
    }

    fn columns(
        &mut self,
        size: Option<u64>,
        time: Option<&str>,
        class: Option<&str>,
        url: &str,
    ) -> anyhow::Result<()> {
        let url = escape(url).into_owned();
        if !self.ls.long {
            return self.line(&url);
        }
        let (sizes, times, classes) = COLUMNS;
        let size = size.map_or_else(|| "-".to_owned(), |size| self.size(size));
        let (time, class) = (time.unwrap_or("-"), escape(class.unwrap_or("-")));
        self.line(&format!("{size:>sizes$}  {time:<times$}  {class:<classes$}  {url}"))
    }

    fn size(&self, bytes: u64) -> String {
        if self.ls.human { Bytes(bytes).to_string() } else { bytes.to_string() }
    }

    fn total(&mut self) -> anyhow::Result<()> {
        if self.ls.json {
            let line = json!({ "type": "summary", "objects": self.objects, "bytes": self.bytes });
            return self.line(&line.to_string());
        }
        let bytes = if self.ls.human { self.size(self.bytes) } else { format!("{} bytes", self.bytes) };
        let objects = if self.objects == 1 { "object" } else { "objects" };
        self.line(&format!("total: {} {objects}, {bytes}", self.objects))
    }

    fn line(&mut self, text: &str) -> anyhow::Result<()> {
        writeln!(self.to, "{text}").printed("the list")
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.to.flush().printed("the list")
    }
}

/// `2009-10-12T17:50:30Z`.
fn rfc3339(time: SystemTime) -> String {
    format!("{}Z", instant::shown(time).replace(' ', "T"))
}
