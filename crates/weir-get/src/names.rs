//! The names that files of a run have: two jobs must not become one file, nor one the part or the journal of
//! another.
//!
//! The first [`EXACT`] names are remembered with the URLs that have them. Beyond them the names of jobs that
//! have ended are kept as bits of a filter (Bloom, 1970), which never forgets one and now and then takes a
//! name for one of them: a name counts as taken only if a file has it, too. A wrong guess costs a number
//! behind a name that a server chose (one in forty, of those that exist already), never a file.
//!
//! Where a file system takes names that differ by case, or by the spelling of an accent, for one, so are they
//! here. Which letters it takes for the same is not asked: what any of them would is, so that now and then a
//! name is refused that would have gone.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use unicode_normalization::UnicodeNormalization;
use url::Url;
use weir_http::filename::KEPT;

use crate::error::GetError;
use crate::filter::Filters;
use crate::object;
use crate::sink::{home, links};
use crate::source::WINDOW;

/// Names remembered exactly: twice as many as there are jobs at once.
const EXACT: usize = 2 * WINDOW;

/// The names of a run.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<NamesState>);

#[derive(Debug, Default)]
struct NamesState {
    known: HashMap<PathBuf, Owner>,
    /// Jobs that have a name and have not ended.
    live: HashSet<usize>,
    /// The name that such a job had to take in place of the one it wanted.
    numbered: HashMap<usize, (PathBuf, PathBuf)>,
    /// Where the search for a free number goes on.
    numbers: HashMap<PathBuf, usize>,
    /// Of jobs that have ended: names that their list or URL gave.
    own: Filters<RandomState, 8>,
    /// And those that a server chose.
    chosen: Filters<RandomState, 16>,
    /// And those of folders that take several spellings for one, by their hashes: no look tells whether a
    /// file has one of them, so that a guess would not do.
    folded: HashSet<u64>,
    hashes: RandomState,
    /// Names that no job may have, by their places, and what has them.
    reserved: Vec<(PathBuf, &'static str)>,
}

#[derive(Debug)]
struct Owner {
    job: usize,
    url: String,
    chosen: bool,
    folds: bool,
}

/// Who asks for a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimant<'a> {
    /// The job's number.
    pub job: usize,
    /// Its URL.
    pub url: &'a Url,
    /// A server chose the name: one that a list or a URL gives is no other job's by itself.
    pub chosen: bool,
    /// The name's folder takes several spellings for one ([`Folders::fold_names`]).
    ///
    /// [`Folders::fold_names`]: crate::sink::folder::Folders::fold_names
    pub folds: bool,
}

impl Claimant<'_> {
    /// What `name` is remembered as.
    fn known_as<'a>(&self, name: &'a Path) -> Cow<'a, Path> {
        let Some(text) = name.to_str().filter(|_| self.folds) else { return Cow::Borrowed(name) };
        // Capitals first: some letters have one in common with another.
        let letters = text.nfkd().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
        Cow::Owned(letters.nfkd().collect::<String>().into())
    }
}

impl Names {
    /// No job may have `name`, which is that of `what`.
    pub(crate) fn reserve(&self, name: &Path, what: &'static str) {
        self.0.lock().reserved.push((links::place_of(name), what));
    }

    /// `target` is this job's from now on; an error if it is another's.
    pub(crate) fn take(&self, target: &Path, by: Claimant<'_>) -> Result<(), GetError> {
        let mut state = self.0.lock();
        if let Some((name, what)) = state.reserved(target) {
            let name = name.display();
            return Err(GetError::Refused(format!("{name} is already taken by {what}; choose another name")));
        }
        let known_as = by.known_as(target);
        if let Some(owner) = state.owner(&known_as, by, by.chosen) {
            let folds = if by.folds { ", whose name may be the same to this file system" } else { "" };
            return Err(GetError::Refused(format!(
                "{} is already taken by {owner}{folds}; name it in a list, URL<TAB>NAME a line",
                target.display()
            )));
        }
        let is_taken = |name: &Path| state.owner(name, by, true).is_some();
        let whole = home::whole_of(&known_as).filter(|whole| is_taken(whole));
        let part = home::all_names(&known_as).into_iter().find(|name| is_taken(name));
        let pair = whole.map(|whole| (target, whole)).or(part.as_deref().map(|part| (part, target)));
        if let Some((part, whole)) = pair {
            return Err(GetError::Refused(format!(
                "{} is what {} is called while it grows; name one of them in a list, URL<TAB>NAME a line",
                part.display(),
                whole.display()
            )));
        }
        state.add(known_as.into_owned(), by);
        Ok(())
    }

    /// `target` for this job, or with a number behind its name where another job of the run has that name, or
    /// where a server chose a reserved one.
    pub(crate) fn free(&self, target: PathBuf, by: Claimant<'_>) -> PathBuf {
        let mut state = self.0.lock();
        if let Some((_, numbered)) = state.numbered.get(&by.job).filter(|(wanted, _)| *wanted == target) {
            return numbered.clone();
        }
        let known_as = by.known_as(&target);
        let is_reserved = by.chosen && state.reserved(&target).is_some();
        if !is_reserved && state.owner(&known_as, by, by.chosen).is_none() {
            state.add(known_as.into_owned(), by);
            return target;
        }
        let mut number = state.numbers.get(&target).copied().unwrap_or(1);
        let mut numbered = weir_http::filename::numbered(&target, number);
        while state.owner(&by.known_as(&numbered), by, true).is_some() || state.reserved(&numbered).is_some()
        {
            number += 1;
            numbered = weir_http::filename::numbered(&target, number);
        }
        state.add(by.known_as(&numbered).into_owned(), Claimant { chosen: true, ..by });
        if state.numbers.len() >= EXACT {
            state.numbers.clear();
        }
        state.numbers.insert(target.clone(), number);
        state.numbered.insert(by.job, (target, numbered.clone()));
        numbered
    }

    /// An earlier run gave `name` to this job, which is not begun again.
    pub(crate) fn keep(&self, name: PathBuf, by: Claimant<'_>) {
        let mut state = self.0.lock();
        state.add(by.known_as(&name).into_owned(), by);
        state.live.remove(&by.job);
    }

    /// `job` has ended. Its names stay taken.
    pub(crate) fn ended(&self, job: usize) {
        let mut state = self.0.lock();
        state.live.remove(&job);
        state.numbered.remove(&job);
    }
}

impl NamesState {
    /// Which of the names that `target` has, or would have while it grows, is reserved, and for what.
    fn reserved(&self, target: &Path) -> Option<(PathBuf, &'static str)> {
        let own = target.file_name()?.as_bytes();
        self.reserved.iter().find_map(|(place, what)| {
            // Only what is called alike costs a look at its folder.
            let called = place.file_name()?;
            let ending = called.as_bytes().strip_prefix(own)?;
            let is_alike = ending.is_empty() || KEPT.iter().any(|kept| kept.as_bytes() == ending);
            let name = is_alike.then(|| target.with_file_name(called))?;
            (links::place_of(&name) == *place).then_some((name, *what))
        })
    }

    /// Who else than `by` has `name`, in words.
    fn owner(&self, name: &Path, by: Claimant<'_>, chosen: bool) -> Option<&str> {
        if let Some(owner) = self.known.get(name) {
            return (owner.job != by.job).then_some(owner.url.as_str());
        }
        if by.folds {
            return self.folded.contains(&self.hashes.hash_one(name)).then_some("another file of this run");
        }
        let may_be = self.chosen.may_have(&name) || chosen && self.own.may_have(&name);
        (may_be && name.symlink_metadata().is_ok()).then_some("another file of this run")
    }

    fn add(&mut self, name: PathBuf, by: Claimant<'_>) {
        if self.known.len() >= EXACT && !self.known.contains_key(&name) {
            self.fold();
        }
        self.live.insert(by.job);
        let Claimant { job, url, chosen, folds } = by;
        let owner = Owner { job, url: object::shown(url), chosen, folds };
        self.known.insert(name, owner);
    }

    /// The names of jobs that have ended become bits.
    fn fold(&mut self) {
        let NamesState { known, live, own, chosen, folded, hashes, .. } = self;
        known.retain(|name, owner| {
            let is_live = live.contains(&owner.job);
            match owner {
                _ if is_live => {}
                Owner { folds: true, .. } => drop(folded.insert(hashes.hash_one(name))),
                Owner { chosen: true, .. } => chosen.add(name),
                Owner { .. } => own.add(name),
            }
            is_live
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(url: &Url, job: usize, chosen: bool) -> Claimant<'_> {
        Claimant { job, url, chosen, folds: false }
    }

    #[test]
    fn names_that_a_file_system_takes_for_one_are_one() {
        let (url, names) = (Url::parse("http://h/x").unwrap(), Names::default());
        let folding = |job| Claimant { folds: true, ..by(&url, job, false) };
        let taken =
            [("d/Read.me", true), ("d/READ.ME", false), ("d/caf\u{e9}", true), ("d/Cafe\u{301}", false)];
        for (job, (name, is_free)) in taken.into_iter().enumerate() {
            assert_eq!(names.take(Path::new(name), folding(job)).is_ok(), is_free, "{name}");
        }
        let said = names.take(Path::new("d/READ.me"), folding(7)).unwrap_err().to_string();
        assert!(
            said.starts_with("d/READ.me is already taken by http://h/x, whose name may be the same"),
            "{said}"
        );
        assert!(names.take(Path::new("d/rEAD.me.part"), folding(8)).is_err(), "its part");
        let numbered = names.free("d/read.ME".into(), Claimant { chosen: true, ..folding(9) });
        assert_eq!(numbered, Path::new("d/read.ME.1"));
        assert!(names.take(Path::new("D/read.me"), folding(10)).is_err(), "its folder is the same");
        names.ended(0);
        names.0.lock().fold();
        assert!(names.take(Path::new("d/read.mE"), folding(11)).is_err(), "once it has ended");
        for (job, name) in ["e/a", "e/A"].into_iter().enumerate() {
            names.take(Path::new(name), by(&url, 20 + job, false)).unwrap();
        }
    }

    #[test]
    fn a_reserved_name_is_no_job_s_by_whatever_way() {
        let dir = tempfile::tempdir().unwrap();
        let (url, names) = (Url::parse("http://h/x").unwrap(), Names::default());
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("in")).unwrap();
        names.reserve(&at("list"), "-i");
        names.reserve(&at("in/page.part"), "--report");
        for (job, (name, what)) in [
            ("list", Some("-i")),
            ("in/../list", Some("-i")),
            ("in/page", Some("--report")),
            ("in/list", None),
            ("page", None),
        ]
        .into_iter()
        .enumerate()
        {
            let said = names.take(&at(name), by(&url, job, false)).err().map(|error| error.to_string());
            assert_eq!(said.is_some(), what.is_some(), "{name}: {said:?}");
            let taken = format!("is already taken by {}; choose", what.unwrap_or_default());
            assert!(said.is_none_or(|said| said.contains(&taken)), "{name}");
            // Where a server chose it, a number makes it another.
            let free = names.free(at(name), by(&url, job, true));
            assert_eq!(free, at(&format!("{name}{}", what.map_or("", |_| ".1"))));
            names.take(&free, by(&url, job, true)).unwrap();
        }
    }

    #[test]
    fn a_name_stays_taken_when_only_its_bits_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (url, names) = (Url::parse("http://h/x").unwrap(), Names::default());
        let at = |name: String| dir.path().join(name);
        std::fs::write(at("first".into()), "").unwrap();
        names.take(&at("first".into()), by(&url, 0, true)).unwrap();
        names.ended(0);
        let said = names.take(&at("first".into()), by(&url, 1, false)).unwrap_err().to_string();
        assert!(said.contains("is already taken by http://h/x"), "{said}");
        for job in 1..=EXACT {
            names.take(&at(format!("{job}")), by(&url, job, false)).unwrap();
            names.ended(job);
        }
        assert!(names.0.lock().known.len() < EXACT);
        let said = names.take(&at("first".into()), by(&url, EXACT + 1, false)).unwrap_err().to_string();
        assert!(said.contains("is already taken by another file of this run"), "{said}");
        assert_eq!(names.free(at("first".into()), by(&url, EXACT + 1, true)), at("first.1".into()));
        assert_eq!(names.free(at("first".into()), by(&url, EXACT + 1, true)), at("first.1".into()));
        assert_eq!(names.free(at("first".into()), by(&url, EXACT + 2, true)), at("first.2".into()));
        // No file has it: it was taken by one that failed, or by none at all.
        names.take(&at("1".into()), by(&url, EXACT + 3, true)).unwrap();
    }
}
