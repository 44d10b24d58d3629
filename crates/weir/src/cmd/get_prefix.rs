//! `weir get` of all that a store has below a prefix, or that matches a pattern: listed while it is fetched.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Context;
use parking_lot::Mutex;
use weir_get::http::exchange::Http;
use weir_observe::stage_clock::StageClock;
use weir_store::address::StoreUrl;
use weir_store::buckets::Buckets;
use weir_store::caller::CallerSetup;
use weir_store::glob::Glob;
use weir_store::listing::{Chosen, PagesSetup};
use weir_store::tree::{Copy, Hears, Rules, StorePlace, down};
use weir_tree::compare::Keep;
use weir_tree::{Filter, Name, Target, destination};

use crate::args::Get;
use crate::cmd::asked_store;
use crate::cmd::get_results::Gathered;
use crate::voice::Usage;

/// Requests at once for what a list does not say.
const AT_ONCE: usize = 4;

/// What `get` names, if that is more than one object.
pub fn meant(get: &Get) -> Result<Option<StoreUrl>, Usage> {
    let mut found = None;
    for text in &get.urls {
        let Some(Ok(url)) = StoreUrl::parse(text) else { continue };
        let is_pattern = url.version.is_none() && Glob::parse(&url.key).is_some();
        if url.is_prefix() || is_pattern {
            found = Some(url);
        }
    }
    let Some(url) = found else { return Ok(None) };
    let refuse = |why: &str| Err(Usage(format!("{url} names several objects: {why}")));
    if get.urls.len() > 1 || !get.list.is_empty() {
        return refuse("fetch them by a command of their own, or list them: weir ls -r URL | weir get -i -");
    }
    let takes_one = [
        (!get.checksum.is_empty(), "--checksum is of one file"),
        (!get.checksum_from.is_empty(), "--checksum-from is of files of one folder"),
        (get.range.is_some(), "-r is of one file"),
        (get.force_directories, "they keep their folders; leave -x out"),
    ];
    if let Some((_, why)) = takes_one.iter().find(|(given, _)| *given) {
        return refuse(why);
    }
    Ok(Some(url))
}

/// The keys that are meant, and the folder that they go to.
pub struct Prefix<'a> {
    buckets: &'a Buckets,
    url: &'a StoreUrl,
    root: PathBuf,
    /// What all keys begin with that goes from their names.
    prefix: String,
    glob: Option<Glob>,
    rules: Rules,
    filter: Filter,
    max_wait: Duration,
}

impl<'a> Prefix<'a> {
    /// Of `url`, into the folder that `get` names.
    pub fn new(get: &Get, buckets: &'a Buckets, url: &'a StoreUrl) -> Prefix<'a> {
        let glob = Glob::parse(&url.key).filter(|_| !url.is_prefix() || url.key.contains(['*', '?', '[']));
        let prefix = match &glob {
            Some(glob) => glob.prefix()[..glob.prefix().rfind('/').map_or(0, |slash| slash + 1)].to_owned(),
            None => Glob::plain(&url.key),
        };
        // What is here with the size and the time of its object is not fetched again. With --force it is, and
        // what --no-clobber keeps the engine tells, as of other runs.
        let rules = Rules { anew: get.force || get.no_clobber, ..Rules::default() };
        let root = PathBuf::from(get.output.first().map_or(".", String::as_str));
        let (filter, max_wait) = (Filter::default(), get.max_wait);
        Prefix { buckets, url, root, prefix, glob, rules, filter, max_wait }
    }

    /// Several files go into a folder.
    pub fn check_output(&self, get: &Get) -> Result<(), Usage> {
        match get.output.as_slice() {
            [] => Ok(()),
            [folder] if folder.ends_with('/') || Path::new(folder).is_dir() => Ok(()),
            _ => {
                let why = "-o takes a folder, with a '/' at its end";
                Err(Usage(format!("{} names several objects: {why}", self.url)))
            }
        }
    }

    /// The pattern is the key of an object, letter by letter: that one is meant.
    pub fn is_an_object(&self, http: &Http, stop: &AtomicBool) -> anyhow::Result<bool> {
        let clock = StageClock::new(Instant::now());
        let store = self.buckets.store(self.url)?;
        Ok(asked_store::is_an_object(&*store, self.caller(http, &clock, stop), self.url)?)
    }

    fn caller<'c>(&self, http: &'c Http, clock: &'c StageClock, stop: &'c AtomicBool) -> CallerSetup<'c> {
        CallerSetup { max_wait: self.max_wait, ..asked_store::caller(http, clock, stop) }
    }

    /// Lists, and hands the jobs to `work`; what needs none is told to `results`. Returns what `work` does,
    /// and whether there was any object.
    pub fn each<T>(
        &self,
        (http, results): (&Http, &Gathered),
        stop: &Arc<AtomicBool>,
        work: impl FnOnce(&mut down::DownJobs) -> T,
    ) -> anyhow::Result<(T, bool)> {
        std::fs::create_dir_all(&self.root)
            .with_context(|| format!("cannot create the folder {}", self.root.display()))?;
        let keep = Keep { modes: false, times: false, users: false, groups: false, xattrs: false };
        let target =
            Target::open(&self.root, destination::Options { keep, ..destination::Options::default() })?;
        let store = self.buckets.store(self.url)?;
        let shown = self.url.with_key("").to_string();
        let clock = StageClock::new(Instant::now());
        let caller = self.caller(http, &clock, stop);
        let copy = Copy {
            rules: &self.rules,
            filter: &self.filter,
            is_dry: false,
            caller,
            at_once: AT_ONCE,
            hears: &Jobless { results, prefix: self },
        };
        let down = down::Down {
            copy,
            from: StorePlace { store: &*store, prefix: &self.prefix, shown: &shown },
            glob: self.glob.as_ref(),
            base: Name::root(),
            only: None,
            target: &target,
            root: &self.root,
            seen: None,
            folders: Mutex::default(),
        };
        let listed = self.glob.as_ref().map_or(self.prefix.as_str(), Glob::prefix);
        let chosen = Chosen::List(PagesSetup {
            lists: store.lists(),
            prefix: listed.to_owned(),
            delimiter: None,
            versions: false,
            shown: shown.trim_end_matches('/').to_owned(),
        });
        std::thread::scope(|scope| {
            let pages = chosen.pages(scope, caller)?;
            let mut jobs = down::start(scope, &down, pages)?;
            let done = work(&mut jobs);
            Ok((done, jobs.ended().found.load(Relaxed) > 0))
        })
    }
}

/// Hears of what has no job. What becomes of the jobs, the engine tells.
struct Jobless<'a> {
    results: &'a Gathered,
    prefix: &'a Prefix<'a>,
}

impl Hears for Jobless<'_> {
    fn moves(&self, _: &str, _: u64) {}

    fn moved(&self, _: &str, _: u64) {}

    fn unchanged(&self, name: &str, bytes: u64) {
        let Prefix { url, root, prefix, .. } = self.prefix;
        let url = url.with_key(format!("{prefix}{name}")).to_string();
        self.results.unchanged(url, &root.join(name), bytes);
    }

    fn deletes(&self, _: &str) {}

    fn fails(&self, name: &str, error: String) {
        tracing::warn!("{name}: {error}");
    }

    fn notes(&self, note: String) {
        tracing::warn!("{note}");
    }
}
