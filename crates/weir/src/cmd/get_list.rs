//! The jobs of `weir get`, from the command line and from a list of any length.
//!
//! Lists are read twice. Before anything is fetched: what they name at all, and how often ([`Asked`]). Then
//! line by line, as the lanes come to need jobs ([`Source`]); files that an earlier run completed are not
//! asked for again. What is kept in memory does not grow with a list. What is for hubs to say is looked up
//! between the two, and what they name is kept and comes behind all else.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Context;
use url::Url;
use weir_codec::digest::Algorithm;
use weir_get::error::GetError;
use weir_get::http::exchange::Http;
use weir_get::http::window::Window;
use weir_get::job::{FileReport, Job, JobOutcome, Output, Pinned};
use weir_get::list::journal::{self, Done, Earlier, ListJournal, Opened};
use weir_get::list::order::{self, Order, Survey, Verdict};
use weir_get::object;
use weir_get::source::{Bad, JobSource, Next};
use weir_store::buckets::Buckets;

use crate::args::{Get, MAKES_FOLDERS};
use crate::cmd::get_beside;
use crate::cmd::get_entries::{Entries, Entry, List, OfHub, Pass, key_of};
use crate::cmd::get_hubs::{self, Endings, Found, Group, Hubs, Resolved, Taking, Unknown};
use crate::cmd::get_jobs::{self, OutputOption, Wanted, folders_of, names_folder, parse_link};
use crate::cmd::get_sums::Sums;
use crate::cmd::get_turns::{Turn, Turns};
use crate::voice::{self, Usage};

/// Entries that are there twice: so many are named, the others counted.
const NAMED: usize = 100;

/// Link-local addresses with zones in one run: more than a machine has neighbours.
const MOST_ZONES: usize = 10_000;

/// What is asked for, as far as it is known before anything is fetched: `O` is a [`Survey`] until hubs have
/// been asked, then the [`Order`] of all entries.
pub struct Asked<O> {
    entries: Entries,
    order: O,
    files: usize,
    front: Front,
}

/// What the first reading brings, apart from files.
#[derive(Default)]
struct Front {
    /// For hubs to say, each once.
    hubs: Vec<Wanted>,
    seen: HashSet<order::Key>,
    /// For hubs as well, and naming nothing.
    unknown: Vec<Unknown>,
    first: Option<Url>,
    zones: HashMap<String, String>,
    /// Files beside the downloads, each with its option.
    reserved: Vec<(PathBuf, &'static str)>,
}

impl Asked<Survey> {
    /// Reads the lists once, and refuses what cannot be meant. No file of the run becomes one of `reserved`.
    pub fn read(
        get: &Get,
        buckets: Arc<Buckets>,
        reserved: &[(PathBuf, &'static str)],
    ) -> anyhow::Result<Asked<Survey>> {
        let named = get_jobs::named(get, &buckets)?.into_iter();
        let (hubs, named): (Vec<_>, Vec<_>) = named.partition(|one| one.hub.is_some());
        let mut entries = Entries::new(get, named, buckets)?;
        let mut front = Front { reserved: reserved.to_vec(), ..Front::default() };
        let mut survey = Survey::default();
        front.zones.extend(get.checksum_from.iter().filter_map(|list| parse_link(list).ok()?.1));
        hubs.into_iter().try_for_each(|one| front.add_hub(get, one))?;
        let mut pass = entries.pass();
        let first_bad = front.read(get, &entries, &mut pass, &mut survey)?;
        entries.is_read(pass);
        let first_bad = first_bad.or_else(|| front.unknown.first().map(|one| one.bad.clone()));
        let is_empty = !get.list.is_empty() && survey.is_empty() && front.hubs.is_empty();
        match first_bad {
            Some(Bad { place, error }) if is_empty => Err(Usage(format!("{place}: {error}")).into()),
            None if is_empty => {
                let lists = get.list.join(", ");
                Err(Usage(format!("the list {lists} names no url; it takes one a line")).into())
            }
            _ => Ok(Asked { entries, order: survey, files: 0, front }),
        }
    }

    /// What hubs are to be asked for, each once.
    pub fn hubs(&self) -> &[Wanted] {
        &self.front.hubs
    }

    /// How many entries are for no hub.
    pub fn others(&self) -> usize {
        self.order.len()
    }

    /// Asks the hubs. Returns the groups of files that they have named as well.
    pub fn look_up(self, get: &Get, hubs: &Hubs, http: &Http) -> anyhow::Result<(Asked<Order>, Vec<Group>)> {
        let Asked { mut entries, order: mut survey, mut front, .. } = self;
        let Resolved { found, unknown, groups, .. } = hubs.resolve(get, &front.hubs, http)?;
        front.unknown.extend(unknown);
        for (index, one) in found.iter().enumerate() {
            front.add(&mut survey, get, &Entry::Found(index, one))?;
        }
        entries.found = found;
        let (order, files) = survey.end().with_context(|| cannot_sort(get))?;
        Ok((Asked { entries, order, files, front }, groups))
    }
}

impl Front {
    /// What is for a hub to say.
    fn add_hub(&mut self, get: &Get, one: Wanted) -> Result<(), Usage> {
        get.habits.check_schemes(std::iter::once(&one.url)).map_err(Usage)?;
        self.first.get_or_insert_with(|| one.url.clone());
        match self.seen.insert(key_of(&one)) {
            true => self.hubs.push(one),
            false => tracing::warn!("{} is named twice; it is fetched once", object::shown(&one.url)),
        }
        Ok(())
    }

    /// All else, and the lines that are for a hub. Returns the first line that names nothing.
    fn read(
        &mut self,
        get: &Get,
        entries: &Entries,
        pass: &mut Pass,
        survey: &mut Survey,
    ) -> anyhow::Result<Option<Bad>> {
        let (mut first_bad, mut of_hubs) = (None, Vec::new());
        loop {
            let entry = entries.next(pass, &mut |of_hub| of_hubs.push(of_hub))?;
            for OfHub { text, name, place } in of_hubs.drain(..) {
                match get_hubs::parse(&text, get) {
                    Ok(one) => self.add_hub(get, Wanted { name, ..one })?,
                    Err(Usage(error)) => self.unknown.push(Unknown { bad: Bad { place, error }, code: 1 }),
                }
            }
            let entry = match entry {
                None => return Ok(first_bad),
                Some(Ok(entry)) => entry,
                Some(Err(bad)) => {
                    first_bad.get_or_insert(bad);
                    continue;
                }
            };
            get.habits.check_schemes(std::iter::once(&entry.url)).map_err(Usage)?;
            add_zone(&mut self.zones, &entry)?;
            self.add(survey, get, &entry)?;
            self.first.get_or_insert_with(|| entry.url.clone());
        }
    }

    /// Tells `survey` of an entry.
    fn add(&self, survey: &mut Survey, get: &Get, entry: &Entry<'_>) -> anyhow::Result<()> {
        let place = entry.found().and_then(Found::place).map(Path::to_owned);
        let base = entry.output.as_ref().or(get.output.first()).map_or(".", String::as_str);
        let target = place.unwrap_or_else(|| Path::new(base).join(name_below(entry, get.force_directories)));
        get_beside::refuse(&self.reserved, &target, || object::shown(&entry.url))?;
        survey.add(entry.key(), Some(&target)).with_context(|| cannot_sort(get))
    }
}

impl<O> Asked<O> {
    /// The URL that is asked for first.
    pub fn first(&self) -> Option<&Url> {
        self.front.first.as_ref()
    }

    /// The zones that the URLs name.
    pub fn zones(&self) -> HashMap<String, String> {
        self.front.zones.clone()
    }
}

impl Asked<Order> {
    /// How many files there will be.
    pub fn files(&self) -> usize {
        self.files
    }

    /// How many there would be if all that hubs were asked for was there.
    pub fn count(&self) -> usize {
        self.files + self.front.unknown.len()
    }

    /// What hubs have named.
    pub fn found(&self) -> &[Wanted] {
        &self.entries.found
    }

    /// What hubs do not have, and lines for them that name nothing.
    pub fn unknown(&self) -> Vec<Unknown> {
        self.front.unknown.clone()
    }

    /// Where the files go; what there has to be for that is made.
    pub fn places(&self, get: &Get) -> anyhow::Result<Places> {
        let in_folders = get.force_directories;
        let common = match &get.output[..] {
            [] => OutputOption::of(get, None, self.count())?,
            [all] => {
                let all = get_hubs::common_output(all, &self.entries.found);
                OutputOption::of(get, Some(&all), self.count())?
            }
            _ => {
                let own =
                    |one: &Wanted| OutputOption::of(get, one.output.as_deref(), 1)?.output(one, in_folders);
                let all = self.entries.named.iter().chain(&self.entries.found);
                let own = all.map(own).collect::<anyhow::Result<_>>()?;
                return Ok(Places { common: None, own, in_folders });
            }
        };
        if let (true, OutputOption::File(_) | OutputOption::Stdout) = (in_folders, &common) {
            return Err(Usage(MAKES_FOLDERS.to_owned()).into());
        }
        let is_tree = self.count() > 1 && !self.entries.found.is_empty();
        if let (true, OutputOption::Stdout) = (is_tree, &common) {
            let why = format!("-o - takes one file of a hub, {} were given", self.count());
            return Err(Usage(why).into());
        }
        Ok(Places { common: Some(common), own: Vec::new(), in_folders })
    }

    /// The jobs, and the journal of their list where it is worth one.
    pub fn source(
        self,
        get: &Get,
        places: Places,
        sums: Sums,
        endings: Arc<Endings>,
    ) -> anyhow::Result<(Source, Option<ListJournal>)> {
        if sums.are_listed() {
            self.check_sums(&sums)?;
        }
        let (journal, done) = self.journal(get, places.common.as_ref())?;
        let source = Source {
            turns: places.are_streamed(self.files).then(Arc::default),
            pass: self.entries.pass(),
            entries: self.entries,
            order: self.order,
            count: self.files,
            places,
            taking: Taking::new(get),
            endings,
            fragment: get.range.as_ref().map(Window::fragment),
            pinned: get.pinned.clone(),
            sums,
            done,
            given: 0,
            twice: 0,
        };
        Ok((source, journal))
    }

    /// Each file has to be in the lists of checksums, or nothing is fetched.
    fn check_sums(&self, sums: &Sums) -> anyhow::Result<()> {
        let mut pass = self.entries.pass();
        while let Some(entry) = self.entries.next(&mut pass, &mut drop)? {
            if let Ok(one) = entry.as_deref() {
                sums.of(&one.url)?;
            }
        }
        Ok(())
    }

    /// Where there is a list of some length, and its files go into one folder. With -N each file is asked for
    /// in each run, which is what the option is for.
    fn journal(
        &self,
        get: &Get,
        common: Option<&OutputOption>,
    ) -> anyhow::Result<(Option<ListJournal>, Option<Done>)> {
        let Some(OutputOption::Folder(folder)) = common else { return Ok((None, None)) };
        let is_listed = !self.entries.lists.is_empty() && !get.timestamping;
        // Of what hubs have named is known what it must be.
        if !is_listed || self.files.saturating_sub(self.entries.found.len()) < journal::WORTHWHILE {
            return Ok((None, None));
        }
        let identity = self.identity(get, folder);
        match ListJournal::open(folder, get.temp_dir.as_deref(), &identity, get.force) {
            Ok(Opened::Ready(mut journal, done)) => {
                if let Some(done) = done.as_ref().filter(|_| !get.voice.quiet) {
                    voice::warn(&format!(
                        "note: {} of {} files are complete since an earlier run ({}) and are not asked for again; \
                         --force fetches all",
                        done.count(),
                        self.files,
                        journal.path().display()
                    ));
                }
                journal.keep_durable();
                Ok((Some(journal), done))
            }
            Ok(Opened::InUse(path)) => {
                tracing::warn!("{} is in use by another weir; this run keeps no journal", path.display());
                Ok((None, None))
            }
            Ok(Opened::Blocked(why)) => {
                tracing::warn!("{why}; this run keeps no journal of its list");
                Ok((None, None))
            }
            Err(error) => {
                tracing::warn!(
                    "cannot keep a journal of the list in {}: {}",
                    folder.display(),
                    weir_units::plain(&error)
                );
                Ok((None, None))
            }
        }
    }

    /// What makes a run the same as an earlier one: the lists, the URLs beside them, the folder, and the
    /// options that decide what a file is called, or what it must be.
    fn identity(&self, get: &Get, folder: &Path) -> String {
        let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let mut digest = Algorithm::SHA256.start();
        let mut add = |text: &[u8]| {
            digest.update(&(text.len() as u64).to_be_bytes());
            digest.update(text);
        };
        add(&self.entries.lists.iter().flat_map(|list| list.digest.clone()).collect::<Vec<u8>>());
        add(folder.as_os_str().as_encoded_bytes());
        let range = get.range.as_ref().map(ToString::to_string).unwrap_or_default();
        add(format!("{} {} {range}", get.force_directories, get.compressed).as_bytes());
        add(get.checksum_from.join("\n").as_bytes());
        get.urls.iter().for_each(|url| add(url.as_bytes()));
        digest.finish().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The name that no file may have: the journal's, where it lies beside them.
pub fn reserved(get: &Get, journal: &ListJournal) -> Option<(PathBuf, &'static str)> {
    let folder = Path::new(get.output.first().map_or(".", String::as_str));
    let name = journal.path().file_name()?.to_owned();
    get.temp_dir.is_none().then(|| (folder.join(name), "the journal of this list"))
}

fn cannot_sort(get: &Get) -> String {
    let lists = get.list.join(", ");
    format!("cannot sort the names of the list {lists} in a temporary file (TMPDIR names its folder)")
}

fn cannot_read(lists: &[List]) -> String {
    let names: Vec<&str> = lists.iter().map(|list| list.name.as_str()).collect();
    format!("cannot read the list {}", names.join(", "))
}

/// One address of two interfaces cannot be told apart by what a URL says of it later.
fn add_zone(zones: &mut HashMap<String, String>, one: &Wanted) -> Result<(), Usage> {
    let Some((host, zone)) = &one.zone else { return Ok(()) };
    match zones.get(host) {
        Some(other) if other != zone => {
            Err(Usage(format!("{host} is asked for over {other} and over {zone}; run weir once for each")))
        }
        Some(_) => Ok(()),
        None if zones.len() >= MOST_ZONES => Err(Usage(format!(
            "more than {MOST_ZONES} addresses with zones; run weir once for each interface"
        ))),
        None => {
            zones.insert(host.clone(), zone.clone());
            Ok(())
        }
    }
}

/// The file's path in its folder, unless the server names it otherwise.
fn name_below(one: &Wanted, in_folders: bool) -> PathBuf {
    match &one.name {
        Some(name) if names_folder(name) => Path::new(name).join(object::name_from_url(&one.url)),
        Some(name) => PathBuf::from(name),
        None if in_folders => folders_of(&one.url).join(object::name_from_url(&one.url)),
        None => PathBuf::from(object::name_from_url(&one.url)),
    }
}

/// Where files go.
pub struct Places {
    /// `None`: each has an output of its own.
    common: Option<OutputOption>,
    own: Vec<Output>,
    in_folders: bool,
}

impl Places {
    /// More than one of so many `files` goes to stdout.
    fn are_streamed(&self, files: usize) -> bool {
        let is_stdout = |output: &&Output| matches!(output, Output::Stdout);
        match &self.common {
            Some(common) => files > 1 && matches!(common, OutputOption::Stdout),
            None => self.own.iter().filter(is_stdout).count() > 1,
        }
    }

    /// Where that of `one` goes, which is named at `index`.
    fn of(&self, one: &Wanted, index: usize) -> anyhow::Result<Output> {
        match (&self.common, self.own.get(index)) {
            (Some(place), _) => place.output(one, self.in_folders),
            (None, Some(own)) => Ok(own.clone()),
            (None, None) => anyhow::bail!("it has no -o of its own"),
        }
    }
}

/// The jobs, one after the other.
pub struct Source {
    entries: Entries,
    pass: Pass,
    order: Order,
    count: usize,
    places: Places,
    /// Of each URL: no server sees it, and here it names a window.
    fragment: Option<String>,
    /// What the caller of a library knows of them.
    pinned: Option<Pinned>,
    sums: Sums,
    taking: Taking,
    endings: Arc<Endings>,
    done: Option<Done>,
    given: usize,
    twice: usize,
    /// Where several go to stdout.
    turns: Option<Arc<Turns>>,
}

impl JobSource for Source {
    fn next(&mut self, over: &AtomicBool) -> Next {
        while !over.load(Relaxed) {
            match self.turns.as_ref().map(|turns| turns.turn(self.given)) {
                Some(Turn::Former) => return Next::NotYet,
                Some(Turn::Nobody) if self.given < self.count => {
                    return Next::Failed(GetError::Refused(format!(
                        "stdout gets nothing behind the first failure; files not begun: {}; the same command starts again",
                        self.count - self.given
                    )));
                }
                _ => {}
            }
            match self.step(over) {
                Ok(Some(next)) => return next,
                Ok(None) => {}
                Err(error) => return Next::Failed(GetError::Refused(format!("{error:#}"))),
            }
        }
        Next::NotYet
    }

    fn count(&self) -> Option<usize> {
        Some(self.count)
    }

    /// What hubs have named may be here, which takes a while to be known of large files; and where jobs wait
    /// for one another, the first is not to wait as well.
    fn is_at_hand(&self) -> bool {
        self.entries.found.is_empty() && self.turns.is_none()
    }

    fn folder(&self) -> Option<&Path> {
        match &self.places.common {
            Some(OutputOption::Folder(folder)) => Some(folder),
            _ => None,
        }
    }
}

impl Source {
    /// What its jobs wait for one another by, where they do.
    pub fn turns(&self) -> Option<Arc<Turns>> {
        self.turns.clone()
    }

    /// One entry. `None`: it was there before.
    fn step(&mut self, over: &AtomicBool) -> anyhow::Result<Option<Next>> {
        let index = self.pass.named + self.pass.found;
        let one = match self.entries.next(&mut self.pass, &mut drop)? {
            None => return self.end().map(Some),
            Some(Err(bad)) => return Ok(Some(Next::Bad(bad))),
            Some(Ok(one)) => one,
        };
        let (job, begun) = job_of(&one, self.places.of(&one, index), self.fragment.as_deref());
        let path = naming_path(&job);
        let verdict = self.order.next(one.key(), path.as_deref());
        let hub = one.found_index();
        drop(one);
        let verdict = verdict.with_context(|| cannot_read(&self.entries.lists))?;
        if verdict == Verdict::Twice {
            self.say_twice(&job.url);
            return Ok(None);
        }
        let number = self.given;
        self.given += 1;
        Ok(Some(match begun.and_then(|()| self.settle(job.clone(), verdict, hub)) {
            Err(error) => {
                let outcome = JobOutcome::Failed(GetError::Refused(format!("{error:#}")));
                let report = FileReport { outcome, ..job.blank_report() };
                Next::Ended(Box::new(job), Box::new(report))
            }
            Ok(job) => match self.here(number, &job, hub, over)? {
                Some(report) => Next::Ended(Box::new(job), Box::new(report)),
                None => Next::Job(Box::new(job)),
            },
        }))
    }

    /// The job with its number and its digests.
    fn settle(&self, mut job: Job, verdict: Verdict, hub: Option<usize>) -> anyhow::Result<Job> {
        let found = self.found(hub);
        job.pinned = self.pinned.clone().or_else(|| self.taking.pinned(found?));
        let of_hub = found.map(|found| self.taking.expectations(found)).unwrap_or_default();
        job.expectations = of_hub.into_iter().chain(self.sums.of(&job.url)?).collect();
        let (Verdict::Numbered(number), Some(path)) = (verdict, naming_path(&job)) else { return Ok(job) };
        let free = weir_http::filename::numbered(&path, number);
        match &mut job.output {
            Output::Folder(_) => job.name = free.file_name().map(|name| name.to_string_lossy().into_owned()),
            Output::File(own) => own.clone_from(&free),
            _ => anyhow::bail!("another url goes to {} as well", path.display()),
        }
        tracing::info!(
            "{} is saved as {}, since another has its name",
            object::shown(&job.url),
            free.display()
        );
        Ok(job)
    }

    fn found(&self, hub: Option<usize>) -> Option<&Found> {
        self.entries.found.get(hub?)?.found()
    }

    /// The report of a job whose file is here: as its hub has it, or since an earlier run.
    fn here(
        &mut self,
        number: usize,
        job: &Job,
        hub: Option<usize>,
        over: &AtomicBool,
    ) -> anyhow::Result<Option<FileReport>> {
        let Some(found) = self.found(hub) else { return self.earlier(number, job) };
        self.endings.begun(number, found, job);
        Ok(self.taking.here(found, job, over))
    }

    /// The report of a job whose file an earlier run completed, if that is still there.
    fn earlier(&mut self, number: usize, job: &Job) -> anyhow::Result<Option<FileReport>> {
        let Some(done) = &mut self.done else { return Ok(None) };
        let earlier = done.take(number, &job.url).context("cannot read the journal of the list")?;
        let (Some(Earlier { size, name }), Some(own)) = (earlier, job.target()) else { return Ok(None) };
        let path = name.map_or(own.clone(), |name| own.with_file_name(name));
        let is_whole = path.symlink_metadata().is_ok_and(|there| there.is_file() && there.len() == size);
        Ok(is_whole.then(|| FileReport {
            path: Some(path),
            bytes: size,
            resumed_from: size,
            ..job.blank_report()
        }))
    }

    fn say_twice(&mut self, url: &Url) {
        self.twice += 1;
        if self.twice <= NAMED {
            tracing::warn!("{} is named twice; it is fetched once", object::shown(url));
        }
    }

    fn end(&mut self) -> anyhow::Result<Next> {
        if self.twice > NAMED {
            tracing::warn!("{} more urls are named twice; each is fetched once", self.twice - NAMED);
        }
        let mut read = self.entries.lists.iter().zip(&self.pass.digests);
        if let Some((list, _)) = read.find(|(list, digest)| list.digest != **digest) {
            anyhow::bail!("the list {} changed while it was read; run the same command again", list.name);
        }
        Ok(Next::End)
    }
}

/// What is to be done for an entry; with the reason why it cannot be, if so.
fn job_of(one: &Wanted, output: anyhow::Result<Output>, fragment: Option<&str>) -> (Job, anyhow::Result<()>) {
    let mut url = one.url.clone();
    url.set_fragment(fragment);
    let (output, begun) = match output {
        Ok(output) => (output, Ok(())),
        Err(error) => (Output::Stdout, Err(error)),
    };
    (Job { url, home: None, output, name: None, expectations: Vec::new(), pinned: None, piece: None }, begun)
}

/// The path that no two jobs may share.
fn naming_path(job: &Job) -> Option<PathBuf> {
    match &job.output {
        Output::Pipe(path) => Some(path.clone()),
        _ => job.target(),
    }
}
