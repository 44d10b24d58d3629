//! The jobs of `weir get`, from the command line and from a list of any length.
//!
//! A list is read twice. Before anything is fetched: what it names at all, and how often ([`Asked`]). Then
//! line by line, as the lanes come to need jobs ([`Source`]); files that an earlier run completed are not
//! asked for again. What is kept in memory does not grow with the list.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Context;
use url::Url;
use weir_codec::digest::Algorithm;
use weir_get::error::GetError;
use weir_get::http::window::Window;
use weir_get::job::{FileReport, Job, JobOutcome, Output};
use weir_get::list::journal::{self, Done, Earlier, ListJournal, Opened};
use weir_get::list::order::{self, Order, Survey, Verdict};
use weir_get::list::text::{Lines, Text};
use weir_get::object;
use weir_get::source::{Bad, JobSource, Next};

use crate::args::Get;
use crate::cmd::get_jobs::{self, OutputOption, Wanted, folders_of, parse_link};
use crate::cmd::get_sums::Sums;
use crate::voice::Usage;

/// Entries that are there twice: so many are named, the others counted.
const NAMED: usize = 100;

/// Link-local addresses with zones in one run: more than a machine has neighbours.
const MOST_ZONES: usize = 10_000;

/// What is asked for, as far as it is known before anything is fetched.
pub struct Asked {
    named: Vec<Wanted>,
    list: Option<List>,
    order: Order,
    count: usize,
    first: Option<Url>,
    zones: HashMap<String, String>,
}

struct List {
    name: String,
    text: Arc<Text>,
    /// Of the text.
    digest: Vec<u8>,
}

impl Asked {
    /// Reads the list once, and refuses what cannot be meant.
    pub fn read(get: &Get) -> anyhow::Result<Asked> {
        let named = get_jobs::named(get)?;
        let text = get.list.as_deref().map(open).transpose()?;
        let mut zones = HashMap::new();
        if let Some((host, zone)) = get.checksum_from.as_deref().and_then(|list| parse_link(list).ok()?.1) {
            zones.insert(host, zone);
        }
        let mut lines = text.as_ref().map(Text::lines);
        let name = get.list.as_deref().unwrap_or_default();
        let base = PathBuf::from(get.output.first().map_or(".", String::as_str));
        let (mut survey, mut first, mut first_bad) = (Survey::default(), None, None);
        let mut at = 0;
        while let Some(entry) = next_entry(&named, &mut at, lines.as_mut(), name)? {
            let one = match entry.as_deref() {
                Ok(one) => one,
                Err(bad) => {
                    first_bad.get_or_insert_with(|| bad.clone());
                    continue;
                }
            };
            get.habits.check_schemes(std::iter::once(&one.url)).map_err(Usage)?;
            add_zone(&mut zones, one)?;
            let target = base.join(name_below(one, get.force_directories));
            survey.add(key_of(one), Some(&target)).with_context(|| cannot_sort(name))?;
            first.get_or_insert_with(|| one.url.clone());
        }
        match (&get.list, first_bad) {
            (Some(_), Some(Bad { place, error })) if survey.is_empty() => {
                return Err(Usage(format!("{place}: {error}")).into());
            }
            (Some(list), None) if survey.is_empty() => {
                return Err(Usage(format!("the list {list} names no url; it takes one a line")).into());
            }
            _ => {}
        }
        let (order, count) = survey.end().with_context(|| cannot_sort(name))?;
        let list =
            text.zip(lines).map(|(text, lines)| List { name: name.to_owned(), text, digest: lines.digest() });
        Ok(Asked { named, list, order, count, first, zones })
    }

    /// The URL that is asked for first.
    pub fn first(&self) -> Option<&Url> {
        self.first.as_ref()
    }

    /// How many files there will be.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The zones that the URLs name.
    pub fn zones(&self) -> HashMap<String, String> {
        self.zones.clone()
    }

    /// Where the files go; what there has to be for that is made.
    pub fn places(&self, get: &Get) -> anyhow::Result<Places> {
        let in_folders = get.force_directories;
        let common = match &get.output[..] {
            [] => OutputOption::of(get, None, self.count)?,
            [all] => OutputOption::of(get, Some(all.as_str()), self.count)?,
            _ => {
                let own =
                    |one: &Wanted| OutputOption::of(get, one.output.as_deref(), 1)?.output(one, in_folders);
                let own = self.named.iter().map(own).collect::<anyhow::Result<_>>()?;
                return Ok(Places { common: None, own, in_folders });
            }
        };
        if let (true, OutputOption::File(_) | OutputOption::Stdout) = (in_folders, &common) {
            let why = "-x makes folders; leave -o out, or name a folder by a '/' at its end";
            return Err(Usage(why.to_owned()).into());
        }
        Ok(Places { common: Some(common), own: Vec::new(), in_folders })
    }

    /// The jobs, and the journal of their list where it is worth one.
    pub fn source(
        self,
        get: &Get,
        places: Places,
        sums: Sums,
    ) -> anyhow::Result<(Source, Option<ListJournal>)> {
        if sums.are_listed() {
            self.check_sums(&sums)?;
        }
        let (journal, done) = self.journal(get, places.common.as_ref())?;
        let source = Source {
            lines: self.list.as_ref().map(|list| list.text.lines()),
            named: self.named,
            list: self.list,
            at: 0,
            order: self.order,
            count: self.count,
            places,
            fragment: get.range.as_ref().map(Window::fragment),
            sums,
            done,
            given: 0,
            twice: 0,
        };
        Ok((source, journal))
    }

    /// Each file has to be in the list of checksums, or nothing is fetched.
    fn check_sums(&self, sums: &Sums) -> anyhow::Result<()> {
        let mut lines = self.list.as_ref().map(|list| list.text.lines());
        let mut at = 0;
        while let Some(entry) = next_entry(&self.named, &mut at, lines.as_mut(), "")? {
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
        let (Some(list), Some(OutputOption::Folder(folder))) = (&self.list, common) else {
            return Ok((None, None));
        };
        if get.timestamping || self.count < journal::WORTHWHILE {
            return Ok((None, None));
        }
        let identity = self.identity(get, list, folder);
        match ListJournal::open(folder, get.temp_dir.as_deref(), &identity, get.force) {
            Ok(Opened::Ready(mut journal, done)) => {
                if let Some(done) = &done {
                    tracing::warn!(
                        "{} of {} files are complete since an earlier run ({}) and are not asked for again; \
                         --force fetches all",
                        done.count(),
                        self.count,
                        journal.path().display()
                    );
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

    /// What makes a run the same as an earlier one: the list, the URLs beside it, the folder, and the options
    /// that decide what a file is called, or what it must be.
    fn identity(&self, get: &Get, list: &List, folder: &Path) -> String {
        let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let mut digest = Algorithm::SHA256.start();
        let mut add = |text: &[u8]| {
            digest.update(&(text.len() as u64).to_be_bytes());
            digest.update(text);
        };
        add(&list.digest);
        add(folder.as_os_str().as_encoded_bytes());
        let range = get.range.as_ref().map(ToString::to_string).unwrap_or_default();
        add(format!("{} {} {range}", get.force_directories, get.compressed).as_bytes());
        add(get.checksum_from.as_deref().unwrap_or_default().as_bytes());
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

fn open(list: &str) -> anyhow::Result<Arc<Text>> {
    let text = match list {
        "-" => Text::read(std::io::stdin().lock()),
        path => Text::open(Path::new(path)),
    };
    Ok(Arc::new(text.with_context(|| format!("cannot read the list {list}"))?))
}

fn cannot_sort(list: &str) -> String {
    format!("cannot sort the names of the list {list} in a temporary file (TMPDIR names its folder)")
}

/// An entry that is lent by the command line, or was read from a line.
enum Entry<'a> {
    Named(&'a Wanted),
    Line(Box<Wanted>),
}

impl std::ops::Deref for Entry<'_> {
    type Target = Wanted;

    fn deref(&self) -> &Wanted {
        match self {
            Entry::Named(one) => one,
            Entry::Line(one) => one,
        }
    }
}

/// The next entry: of those named, then of the lines of `list`. `at`: how many were taken of the former.
fn next_entry<'a>(
    named: &'a [Wanted],
    at: &mut usize,
    lines: Option<&mut Lines>,
    list: &str,
) -> anyhow::Result<Option<Result<Entry<'a>, Bad>>> {
    if let Some(one) = named.get(*at) {
        *at += 1;
        return Ok(Some(Ok(Entry::Named(one))));
    }
    let Some(lines) = lines else { return Ok(None) };
    loop {
        let line = lines.next().with_context(|| format!("cannot read the list {list}"))?;
        let Some(line) = line else { return Ok(None) };
        let Some(parsed) = get_jobs::parse_entry(&line) else { continue };
        let bad = |Usage(error)| Bad { place: format!("{list}, line {}", line.number), error };
        return Ok(Some(parsed.map(|one| Entry::Line(Box::new(one))).map_err(bad)));
    }
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

/// What makes two entries one: the same URL, but for its fragment, and the same name.
fn key_of(one: &Wanted) -> order::Key {
    let url = one.url.as_str();
    order::key(&(url.split('#').next().unwrap_or(url), &one.name, &one.output))
}

/// The file's path in its folder, unless the server names it otherwise.
fn name_below(one: &Wanted, in_folders: bool) -> PathBuf {
    match &one.name {
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
    named: Vec<Wanted>,
    list: Option<List>,
    lines: Option<Lines>,
    at: usize,
    order: Order,
    count: usize,
    places: Places,
    /// Of each URL: no server sees it, and here it names a window.
    fragment: Option<String>,
    sums: Sums,
    done: Option<Done>,
    given: usize,
    twice: usize,
}

impl JobSource for Source {
    fn next(&mut self, over: &AtomicBool) -> Next {
        while !over.load(Relaxed) {
            match self.step() {
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

    fn is_at_hand(&self) -> bool {
        true
    }
}

impl Source {
    /// One entry. `None`: it was there before.
    fn step(&mut self) -> anyhow::Result<Option<Next>> {
        let index = self.at;
        let name = self.list.as_ref().map_or("", |list| &list.name);
        let one = match next_entry(&self.named, &mut self.at, self.lines.as_mut(), name)? {
            None => return self.end().map(Some),
            Some(Err(bad)) => return Ok(Some(Next::Bad(bad))),
            Some(Ok(one)) => one,
        };
        let (job, begun) = job_of(&one, self.places.of(&one, index), self.fragment.as_deref());
        let path = naming_path(&job);
        let verdict = self.order.next(key_of(&one), path.as_deref());
        drop(one);
        let verdict = verdict.with_context(|| format!("cannot read the list {name}"))?;
        if verdict == Verdict::Twice {
            self.say_twice(&job.url);
            return Ok(None);
        }
        let number = self.given;
        self.given += 1;
        Ok(Some(match begun.and_then(|()| self.settle(job.clone(), verdict)) {
            Err(error) => {
                let outcome = JobOutcome::Failed(GetError::Refused(format!("{error:#}")));
                let report = FileReport { outcome, ..job.blank_report() };
                Next::Ended(Box::new(job), Box::new(report))
            }
            Ok(job) => match self.earlier(number, &job)? {
                Some(report) => Next::Ended(Box::new(job), Box::new(report)),
                None => Next::Job(Box::new(job)),
            },
        }))
    }

    /// The job with its number and its digests.
    fn settle(&self, mut job: Job, verdict: Verdict) -> anyhow::Result<Job> {
        job.expectations = self.sums.of(&job.url)?;
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
        if let (Some(list), Some(lines)) = (&self.list, self.lines.take())
            && lines.digest() != list.digest
        {
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
    (Job { url, home: None, output, name: None, expectations: Vec::new() }, begun)
}

/// The path that no two jobs may share.
fn naming_path(job: &Job) -> Option<PathBuf> {
    match &job.output {
        Output::Pipe(path) => Some(path.clone()),
        _ => job.target(),
    }
}
