//! From where to where: which way a copy with a store goes, and what its ends are called there.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use parking_lot::Mutex;
use weir_get::engine::{self, Task};
use weir_get::http::exchange::Http;
use weir_get::http::speed::SpeedLimit;
use weir_get::job::{Options, RunReport};
use weir_observe::stage_clock::StageClock;
use weir_store::StoreError;
use weir_store::address::StoreUrl;
use weir_store::caller::CallerSetup;
use weir_store::condition::Condition;
use weir_store::environment::End;
use weir_store::listing::Chosen;
use weir_store::store::Store;
use weir_store::tree::seen::SeenNames;
use weir_store::tree::{self, Copy, StorePlace, across, down, prune, up};
use weir_store::upload::elsewhere::Sides;
use weir_store::upload::{self, Attributes};
use weir_tree::compare::Keep;
use weir_tree::destination::NewFolders;
use weir_tree::walk::Root;
use weir_tree::{Target, destination};

use super::Choice;
use super::meant::{Meant, folder_of, glob_of, key_of_one, meant, nothing, place_of_one};
use super::told::{CopyListener, Held, WayEnd};
use crate::args::Cp;
use crate::cmd::asked_store;
use crate::cmd::store_ends::{self, EndWords, Kinship, StoreEnd, StoreEnds};
use crate::live::Live;
use crate::voice::{self, Usage};

/// Requests at once for lists, looks and small objects: with 20 ms for each it is 800 a second.
const AT_ONCE: usize = 16;

/// The two ends.
pub enum StoreRoute {
    Down { from: StoreUrl, to: PathBuf },
    Up { from: Vec<PathBuf>, to: StoreUrl },
    Across { from: StoreUrl, to: StoreUrl },
}

/// Whether a path is in a store.
pub fn is_store(path: &OsString) -> bool {
    path.to_str().is_some_and(|text| StoreUrl::parse(text).is_some())
}

fn store_url(path: &OsString) -> Result<Option<StoreUrl>, Usage> {
    let url = path.to_str().and_then(StoreUrl::parse).transpose();
    url.map_err(|bad| Usage(bad.to_string()))
}

impl StoreRoute {
    /// From arguments: sources, then the target.
    pub fn of(paths: &[OsString]) -> Result<StoreRoute, Usage> {
        let (Some((target, sources)), true) = (paths.split_last(), paths.len() > 1) else {
            return Err(Usage(
                "nothing to copy: weir cp SRC... DST, each a path or s3://BUCKET/PREFIX".to_owned(),
            ));
        };
        let to = store_url(target)?;
        let from: Vec<Option<StoreUrl>> = sources.iter().map(store_url).collect::<Result<_, _>>()?;
        for path in paths {
            if !is_store(path) && is_of_a_host(path) {
                return Err(Usage(format!(
                    "cannot copy between a store and '{}': a host is reached over ssh, a store from here; copy to this \
                     machine first",
                    path.to_string_lossy()
                )));
            }
        }
        match (&from[..], to) {
            ([Some(from)], None) => Ok(StoreRoute::Down { from: from.clone(), to: PathBuf::from(target) }),
            ([Some(from)], Some(to)) => Ok(StoreRoute::Across { from: from.clone(), to }),
            (all, Some(to)) if all.iter().all(Option::is_none) => {
                Ok(StoreRoute::Up { from: sources.iter().map(PathBuf::from).collect(), to })
            }
            _ => Err(Usage(
                "one source from a store goes in a command; a pattern names several objects, as in 's3://BUCKET/*.gz'"
                    .to_owned(),
            )),
        }
    }

    /// How many sources were named.
    pub fn sources(&self) -> usize {
        match self {
            StoreRoute::Up { from, .. } => from.len(),
            StoreRoute::Down { .. } | StoreRoute::Across { .. } => 1,
        }
    }

    /// The ends that are stores: where it is from, and where it goes.
    pub fn stores(&self) -> (Option<&StoreUrl>, Option<&StoreUrl>) {
        match self {
            StoreRoute::Down { from, .. } => (Some(from), None),
            StoreRoute::Up { to, .. } => (None, Some(to)),
            StoreRoute::Across { from, to } => (Some(from), Some(to)),
        }
    }

    /// With `--delete` all goes that the source lacks. What a pattern leaves out is at the source all the
    /// same, and would go; and of several sources in one folder each lacks what the others have.
    pub fn refuse_delete(&self, deletes: bool) -> Result<(), Usage> {
        if !deletes {
            return Ok(());
        }
        let mut names = HashSet::new();
        let mut is_shared = |root: Root| root.name.is_root() || !names.insert(root.name);
        let why = match self {
            StoreRoute::Down { from, .. } | StoreRoute::Across { from, .. } if glob_of(from).is_some() => {
                "--delete would remove all that the pattern does not name; name the prefix and use --include and \
                 --exclude instead"
            }
            // The shell has expanded patterns of files: each is a source.
            StoreRoute::Up { from, .. }
                if from.len() > 1
                    && from.iter().flat_map(|path| Root::from_argument(path)).any(&mut is_shared) =>
            {
                "--delete with several sources into one folder would delete of each what the others lack; copy one after \
                 the other without it"
            }
            _ => return Ok(()),
        };
        Err(Usage(why.to_owned()))
    }

    /// Copies.
    pub fn copy(
        &self,
        cp: &Cp,
        choice: &Choice,
        told: &CopyListener<'_>,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<WayEnd> {
        let (from, to) = self.stores();
        let words = EndWords { both: &cp.store, ends: &cp.ends, network: &cp.network };
        let opened = StoreEnds::open(words, from, to, stop)?;
        let clock = StageClock::new(Instant::now());
        let seconds = cp.ssh.timeout.map(|seconds| Duration::from_secs(seconds.into()));
        let timeout = seconds.unwrap_or(asked_store::TIMEOUT);
        let caller = asked_store::caller(&opened.main().http, &clock, stop);
        let copy = Copy {
            rules: &choice.rules,
            filter: &choice.filter,
            is_dry: cp.dry_run,
            caller: CallerSetup { timeout, connect_timeout: timeout, max_wait: cp.max_wait, ..caller },
            at_once: cp.lanes.map_or(AT_ONCE, |lanes| lanes as usize),
            hears: told,
        };
        let journals = upload::journal::folder(&asked_store::own_variable);
        let way = Way { cp, choice, told, stop, copy, journals, began: Instant::now() };
        let ended = match (self, &opened) {
            (StoreRoute::Down { from, to }, StoreEnds::Source(source)) => way.down(from, to, source),
            (StoreRoute::Up { from, to }, StoreEnds::Target(target)) => way.up(from, to, &*target.store),
            (StoreRoute::Across { from, to }, StoreEnds::Both { source, target, kinship }) => {
                if cp.ignore_digest {
                    way.hears(IGNORES.to_owned());
                }
                way.across((from, source), (to, target), *kinship)
            }
            _ => Err(Usage("neither end is a store".to_owned()).into()),
        };
        match ended {
            Err(_) if stop.load(Relaxed) => Ok(WayEnd { is_interrupted: true, ..WayEnd::default() }),
            other => other,
        }
    }
}

/// Why a store does not copy by itself.
const ESTRANGED: &str = "the objects come through here: both ends are of one service, and are asked by two \
                         credentials or with two keys";

/// What `--ignore-digest` means between two stores.
const IGNORES: &str =
    "what comes through here is held against no digest that its store keeps (--ignore-digest)";

/// Where in `to` goes what is `chosen` of `from`: what its keys begin with, and the key of one object alone.
/// Nothing is copied into itself.
pub fn place_across(
    (from, chosen): (&StoreUrl, &Meant<'_>),
    to: &StoreUrl,
    kinship: Kinship,
) -> Result<(String, Option<String>), Usage> {
    let only = chosen.is_one.then(|| match to.is_prefix() {
        true => format!("{}{}", to.key, chosen.name()),
        false => to.key.clone(),
    });
    let mut prefix = folder_of(&to.key);
    if !chosen.base.is_root() {
        prefix.push_str(&format!("{}/", chosen.base.as_path().display()));
    }
    refuse_overlap((from, chosen), (to, &prefix), only.as_deref(), kinship)?;
    Ok((prefix, only))
}

fn refuse_overlap(
    (from, chosen): (&StoreUrl, &Meant<'_>),
    (to, prefix): (&StoreUrl, &str),
    only: Option<&str>,
    kinship: Kinship,
) -> Result<(), Usage> {
    let overlaps = match only {
        Some(key) => key == chosen.key,
        None => prefix.starts_with(&chosen.prefix) || chosen.prefix.starts_with(prefix),
    };
    let refuses = match kinship {
        Kinship::One => overlaps,
        // Two askers may each mean a bucket of their own by one name: the same keys of it are told apart by
        // what is in them.
        Kinship::Estranged => overlaps && only.is_none() && prefix != chosen.prefix,
        Kinship::None => false,
    };
    match from.bucket == to.bucket && refuses {
        true => {
            Err(Usage(format!("cannot copy {from} to {to}: one lies in the other; copy to another prefix")))
        }
        false => Ok(()),
    }
}

/// `host:path`, as scp reads it.
fn is_of_a_host(path: &OsString) -> bool {
    let bytes = path.as_bytes();
    let end = bytes.iter().position(|byte| *byte == b'/' || *byte == b':');
    end.is_some_and(|end| end > 0 && bytes[end] == b':')
}

struct Way<'a> {
    cp: &'a Cp,
    choice: &'a Choice,
    told: &'a CopyListener<'a>,
    stop: &'a Arc<AtomicBool>,
    copy: Copy<'a>,
    /// Where those of uploads lie.
    journals: Option<PathBuf>,
    began: Instant,
}

impl Way<'_> {
    fn down(&self, from: &StoreUrl, to: &Path, source: &StoreEnd) -> anyhow::Result<WayEnd> {
        let shown = from.with_key("").to_string();
        self.told.is_from(&source.store, from.with_key(""));
        let chosen = meant(&*source.store, self.copy.caller, from, &shown)?;
        let (root, only) = match chosen.is_one {
            true => {
                let (root, name) = place_of_one((from, chosen.name()), to)?;
                (root, Some(name))
            }
            false => (to.to_owned(), None),
        };
        let made = if self.copy.is_dry { NewFolders::default() } else { NewFolders::of(&root) };
        let target = self.target(&root).inspect_err(|_| made.undo())?;
        let seen = (self.choice.delete && only.is_none()).then(|| Mutex::new(SeenNames::default()));
        let down = down::Down {
            copy: self.copy,
            from: StorePlace { store: &*source.store, prefix: &chosen.prefix, shown: &shown },
            glob: chosen.glob.as_ref(),
            base: chosen.base.clone(),
            only,
            target: &target,
            root: &root,
            seen: seen.as_ref(),
            folders: Mutex::default(),
        };
        let (ended, report) = self.fetch(&down, chosen.chosen).inspect_err(|_| made.undo())?;
        let mut end = WayEnd { is_interrupted: report.interrupted, ..WayEnd::default() };
        if let Some(error) = report.broken {
            end.error = Some(error.to_string());
            end.code = Some(voice::code(&error.into()));
        }
        let is_empty = ended.found.load(Relaxed) == 0 && !from.key.is_empty();
        if is_empty && end.error.is_none() && !end.is_interrupted {
            end.error = Some(nothing(from));
        }
        end.add(report.evidence, 0.0);
        let is_whole = ended.is_whole() && end.error.is_none() && !end.is_interrupted;
        if !is_whole {
            made.undo();
        }
        match &seen {
            Some(seen) if is_whole => {
                let most = self.choice.max_delete;
                self.pruned(&mut end, prune::here(&self.copy, &target, &chosen.base, seen, most));
            }
            Some(_) => self.not_deleted("not all of the source could be listed"),
            None => {}
        }
        Ok(end)
    }

    fn fetch<'b>(
        &'b self,
        down: &'b down::Down<'b>,
        chosen: Chosen<'b>,
    ) -> anyhow::Result<(Arc<down::Ended>, RunReport)> {
        let timeout = self.copy.caller.timeout;
        let options = Options {
            timeout,
            connect_timeout: timeout,
            max_wait: self.copy.caller.max_wait,
            speed: SpeedLimit::usual(timeout),
            lanes: self.cp.lanes,
            rate_cap: self.cp.rate_cap(),
            sync: self.cp.sync,
            ignore_digest: self.cp.ignore_digest,
            remote_time: true,
            any_type: true,
            ..Options::default()
        };
        let mut live = self.live(2);
        let fetched = std::thread::scope(|scope| {
            let pages = chosen.pages(scope, self.copy.caller)?;
            let mut jobs = down::start(scope, down, pages)?;
            let task = Task { source: &mut jobs, results: self.told, reserved: Vec::new() };
            let report = engine::run(task, &options, self.copy.caller.http, self.stop, &mut live);
            Ok((jobs.ended(), report))
        });
        live.clear();
        fetched
    }

    fn hears(&self, note: String) {
        tree::Hears::notes(self.told, note);
    }

    fn not_deleted(&self, why: &str) {
        self.hears(format!("nothing was deleted, since {why}"));
    }

    /// What a deletion at the end came to.
    fn pruned(&self, end: &mut WayEnd, pruned: Result<prune::Pruned, StoreError>) {
        match pruned {
            Ok(pruned) => end.pruned(pruned, self.choice.max_delete),
            Err(error) => self.breaks(end, error),
        }
    }

    /// It ended early. What came before is told all the same, with the code that this error alone would have.
    fn breaks(&self, end: &mut WayEnd, error: StoreError) {
        if self.stop.load(Relaxed) {
            end.is_interrupted = true;
            return;
        }
        let error = anyhow::Error::from(error);
        end.code = Some(voice::code(&error));
        end.error = Some(voice::words(&error));
    }

    /// The tree that is written. In a dry run it may not be there, and stays so.
    fn target(&self, root: &Path) -> anyhow::Result<Target> {
        // Times come with the objects, modes are those of any program here.
        let keep = Keep { modes: false, times: false, users: false, groups: false, xattrs: false };
        let options = destination::Options { keep, ..destination::Options::default() };
        if self.copy.is_dry && !root.exists() {
            return Ok(Target::to_be(options));
        }
        if self.choice.mkpath && !self.copy.is_dry {
            std::fs::create_dir_all(root).with_context(|| format!("cannot make {}", root.display()))?;
        }
        Ok(Target::open(root, options)?)
    }

    fn up(&self, from: &[PathBuf], to: &StoreUrl, target: &dyn Store) -> anyhow::Result<WayEnd> {
        let only = key_of_one(from, to);
        let prefix = folder_of(&to.key);
        let roots: Vec<Root> = from.iter().map(|path| Root::from_argument(path)).collect::<Result<_, _>>()?;
        let shown = to.with_key("").to_string();
        let place = StorePlace { store: target, prefix: &prefix, shown: &shown };
        let wanted = self.choice.wanted();
        let up = up::Up {
            copy: self.copy,
            to: place,
            roots: roots.clone(),
            wanted,
            only: only.clone(),
            journals: self.journals.as_deref(),
            attributes: Attributes::default(),
        };
        let mut end = WayEnd::default();
        let walked = up::run(&up, self.stop, &mut |lot| self.send(lot, (target, to), None, &mut end));
        let walked = match walked {
            Ok(walked) => walked,
            Err(error) => {
                self.breaks(&mut end, error);
                return Ok(end);
            }
        };
        end.is_interrupted = self.stop.load(Relaxed);
        if walked.empty_folders > 0 {
            self.hears(format!(
                "{} empty folders are not in the store, which has none",
                walked.empty_folders
            ));
        }
        if walked.specials > 0 {
            self.hears(format!("{} named pipes, sockets and devices were left out", walked.specials));
        }
        if self.choice.delete && only.is_none() && !end.is_interrupted {
            self.prune_of(&mut end, &roots, &place, walked.is_partial);
        }
        Ok(end)
    }

    /// Deletes of `place` what the folders lack, if all that they hold is known.
    fn prune_of(&self, end: &mut WayEnd, roots: &[Root], place: &StorePlace<'_>, is_partial: bool) {
        for root in roots.iter().filter(|root| root.path.is_dir()) {
            if is_partial {
                return self.not_deleted("not all of the source could be listed");
            }
            let source = prune::Source::Folder { path: &root.path, base: &root.name };
            let left = self.choice.max_delete.map(|most| most.saturating_sub(end.deleted));
            self.pruned(end, prune::there(&self.copy, place, &source, left));
            if end.error.is_some() || end.is_interrupted {
                return;
            }
        }
    }

    /// Sends one lot of files.
    fn send(
        &self,
        lot: Vec<upload::job::Job>,
        (store, to): (&dyn Store, &StoreUrl),
        source: Option<&Http>,
        end: &mut WayEnd,
    ) {
        let options = upload::job::Options {
            lanes: self.cp.lanes,
            files_at_once: self.cp.lanes,
            rate_cap: self.cp.rate_cap(),
            limiter: None,
            timeout: self.copy.caller.timeout,
            connect_timeout: self.copy.caller.connect_timeout,
            max_wait: self.copy.caller.max_wait,
            retries: asked_store::RETRIES,
            part_size: None,
            check: upload::job::Check::Preferred,
            condition: Condition::None,
            journals: self.journals.clone(),
            keeps: true,
            fresh: false,
            finished: None,
            clears: upload::job::CLEARS,
        };
        let name = |key: &str| store.address(key);
        let shown = |key: &str| to.with_key(key).to_string();
        let uploads = store.uploads();
        let target = upload::engine::Target { uploads, name: &name, shown: &shown, source };
        let began = self.began.elapsed().as_secs_f64();
        let mut live = self.live(lot.len());
        let http = self.copy.caller.http;
        let report = upload::engine::run(target, &lot, &options, http, self.stop, &mut live);
        live.clear();
        for (job, report) in lot.iter().zip(report.jobs) {
            self.told.sent(&shown(&job.key), report);
        }
        end.add(report.evidence, began);
    }

    fn live(&self, files: usize) -> Live {
        let is_shown = !self.cp.voice.quiet && std::io::IsTerminal::is_terminal(&std::io::stderr());
        Live::new(is_shown && !self.cp.dry_run, files)
    }

    fn across(
        &self,
        (from, source): (&StoreUrl, &StoreEnd),
        (to, target): (&StoreUrl, &StoreEnd),
        kinship: Kinship,
    ) -> anyhow::Result<WayEnd> {
        let shown = from.with_key("").to_string();
        let from_caller = CallerSetup { http: &source.http, ..self.copy.caller };
        let chosen = meant(&*source.store, from_caller, from, &shown)
            .map_err(|error| store_ends::of_end(error, End::Source))?;
        let (prefix, only) = place_across((from, &chosen), to, kinship)?;
        let to_shown = to.with_key("").to_string();
        let place = StorePlace { store: &*target.store, prefix: &prefix, shown: &to_shown };
        let seen = (self.choice.delete && only.is_none()).then(|| Mutex::new(SeenNames::default()));
        let sides = Arc::new(Sides::default());
        let within = across::Within::new(kinship == Kinship::One);
        if kinship == Kinship::Estranged {
            self.hears(ESTRANGED.to_owned());
        }
        let across = across::Across {
            copy: self.copy,
            from: StorePlace { store: &*source.store, prefix: &chosen.prefix, shown: &shown },
            from_caller,
            within: &within,
            sides: Arc::clone(&sides),
            ignores_digest: self.cp.ignore_digest,
            bucket: &from.bucket,
            glob: chosen.glob.as_ref(),
            to: place,
            only,
            journals: self.journals.as_deref(),
            seen: seen.as_ref(),
        };
        let mut end = WayEnd::default();
        let mut sends = |lot| self.send(lot, (&*target.store, to), Some(&source.http), &mut end);
        let found = across::run(&across, chosen.chosen, self.stop, &mut sends);
        end.is_server_side = within.is_all() && end.evidence.is_none();
        end.is_interrupted = self.stop.load(Relaxed);
        end.sides = Held::of(&sides);
        if let Some(words) = source.http.waits().words() {
            self.hears(format!("the source asked for fewer requests: {words}"));
        }
        match (found, &seen) {
            _ if end.is_interrupted => {}
            (Err(error), seen) => {
                self.breaks(&mut end, error);
                seen.iter().for_each(|_| self.not_deleted("the copy ended early"));
            }
            (Ok(0), _) if !from.key.is_empty() => end.error = Some(nothing(from)),
            (Ok(_), Some(seen)) => {
                let source = prune::Source::List(seen);
                self.pruned(&mut end, prune::there(&self.copy, &place, &source, self.choice.max_delete));
            }
            (Ok(_), None) => {}
        }
        Ok(end)
    }
}

impl WayEnd {
    /// `most`: entries that may go of all sources together.
    fn pruned(&mut self, pruned: prune::Pruned, most: Option<u64>) {
        self.deleted += pruned.deleted;
        if let (true, Some(most)) = (pruned.is_at_limit, most) {
            self.error =
                Some(format!("more than {most} entries are to be deleted, and --max-delete allows no more"));
        }
    }
}
