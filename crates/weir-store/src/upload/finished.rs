//! Which files of a run have been stored, so that the same command does not send them again after a kill.
//!
//! A file of state ([`super::state`]) beside the journals of uploads, under the digest of what is sent and
//! where to: a line for each file, appended when the store has it, and taken away when the run has ended with
//! nothing left to do. It is a hint: a file counts as stored only if it is the same still, is to be sent in
//! the same way, and the store says that it has what it had then, by the tag that it gave: in a list of the
//! target, or asked for the one object.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use weir_codec::digest::Algorithm;
use weir_codec::hex;

use super::job::{Check, Job};
use super::proof::same_tag;
use super::source::Identity;
use super::state::{self, JournalError};
use super::{Attributes, Stored};
use crate::caller::Caller;
use crate::error::StoreError;
use crate::listing::{ListAsk, Lists, PAGE};

/// A line: a key has 1024 bytes, each of which takes six letters in JSON at most.
const MAX_LINE: u64 = 16 << 10;

/// Lines for each file of the run, at most: one for each time that it was another one.
const LINES_EACH: usize = 8;

/// From so many files on a list of the target is asked for: a page of it stands for a thousand requests.
const LISTED_FROM: usize = 32;

/// Pages of a list beyond those that the files alone fill: what else is there is read past so far.
const PAGES_BESIDE: usize = 10;

/// A file that was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedFile {
    /// As what.
    pub key: String,
    /// Which file that was, and in which state.
    pub identity: Identity,
    /// How it was to be stored: a digest of its attributes, and of what it was checked by.
    pub manner: String,
    /// The tag that the store gave.
    pub tag: String,
}

/// A file of the run, as an earlier one has stored it.
struct Known {
    file: FinishedFile,
    /// The list of the target has it.
    is_listed: bool,
}

/// What is known of a run's files.
pub struct Finished {
    path: PathBuf,
    file: Mutex<File>,
    known: RwLock<HashMap<String, Known>>,
    recognised: AtomicU64,
}

impl std::fmt::Debug for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finished").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What the store knows of a file that an earlier run has stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    /// Nothing.
    None,
    /// It is there, as the list of the target has it.
    There(Stored),
    /// It was there, and has this tag if it is still.
    Was(String),
}

impl Finished {
    /// What an earlier run from these sources to this target has stored of `jobs`. With `is_fresh` nothing
    /// counts.
    pub fn open(
        folder: &Path,
        (sources, target): (&[PathBuf], &str),
        jobs: &[Job],
        is_fresh: bool,
    ) -> Result<Finished, JournalError> {
        let sources: String = sources.iter().map(|source| format!("\n{}", source.display())).collect();
        let key = format!("run\n{target}{sources}");
        let path = state::path_of(folder, &key, "run");
        let file = state::open(&path)?;
        let io = |error| JournalError::io(&path, error);
        if is_fresh {
            file.set_len(0).map_err(io)?;
        }
        let wanted: HashSet<&str> = jobs.iter().map(|job| job.key.as_str()).collect();
        let (found, is_cut) = read(&file, LINES_EACH * jobs.len()).map_err(io)?;
        if is_cut {
            // What is appended is a line of its own.
            (&file).write_all(b"\n").map_err(io)?;
        }
        let known = found
            .into_iter()
            .filter(|file| wanted.contains(file.key.as_str()))
            .map(|file| (file.key.clone(), Known { file, is_listed: false }))
            .collect();
        Ok(Finished {
            path,
            file: Mutex::new(file),
            known: RwLock::new(known),
            recognised: AtomicU64::new(0),
        })
    }

    /// Files of the run that an earlier one has stored, by its own word.
    pub fn count(&self) -> usize {
        self.known.read().len()
    }

    /// Files that were not sent, since they are at the store.
    pub fn recognised(&self) -> u64 {
        self.recognised.load(Relaxed)
    }

    /// Holds what is known against a list of the target, where there is enough of it. What the list does not
    /// have as it was stored is asked for by itself.
    pub fn look(&self, lists: &dyn Lists, caller: &mut Caller<'_>) -> Result<(), StoreError> {
        let count = self.count();
        if count < LISTED_FROM {
            return Ok(());
        }
        let prefix = self.prefix();
        let ask = ListAsk { prefix: &prefix, delimiter: None, versions: false, most: PAGE };
        let mut token: Option<String> = None;
        for _ in 0..PAGES_BESIDE + count.div_ceil(PAGE as usize) {
            let page = lists.page(caller, &ask, token.as_deref())?;
            let mut known = self.known.write();
            for object in page.objects {
                if let Some(known) = known.get_mut(&object.key) {
                    let has_tag = object.etag.as_deref().is_some_and(|tag| same_tag(tag, &known.file.tag));
                    known.is_listed = has_tag && object.size == known.file.identity.size;
                }
            }
            drop(known);
            match page.next {
                Some(next) if token.as_ref() != Some(&next) => token = Some(next),
                _ => break,
            }
        }
        Ok(())
    }

    /// What all keys that are known begin with.
    fn prefix(&self) -> String {
        let known = self.known.read();
        let mut keys = known.keys();
        let Some(first) = keys.next() else { return String::new() };
        let common = keys.fold(first.as_str(), |common, key| {
            let same = common.bytes().zip(key.bytes()).take_while(|(one, other)| one == other).count();
            let end = (0..=same).rev().find(|at| common.is_char_boundary(*at)).unwrap_or_default();
            &common[..end]
        });
        common.to_owned()
    }

    /// What is known of the file that is in this state now, and is to be sent in this `manner`.
    pub(super) fn claim(&self, key: &str, identity: Identity, manner: &str) -> Claim {
        let known = self.known.read();
        let is_it = |known: &&Known| known.file.identity == identity && known.file.manner == manner;
        match known.get(key).filter(is_it) {
            None => Claim::None,
            Some(Known { file, is_listed: true }) => Claim::There(Stored {
                tag: Some(file.tag.clone()),
                size: Some(file.identity.size),
                ..Stored::default()
            }),
            Some(Known { file, .. }) => Claim::Was(file.tag.clone()),
        }
    }

    /// A file was at the store already.
    pub(super) fn recognises(&self) {
        self.recognised.fetch_add(1, Relaxed);
    }

    /// A file has been stored. One that got no tag, or one that others may have as well, is known by nothing.
    pub(super) fn stored(&self, key: &str, identity: Identity, manner: String, stored: &Stored) {
        let Some(tag) = stored.tag.as_deref().filter(|tag| !tag.starts_with("W/")) else { return };
        let line = FinishedFile { key: key.to_owned(), identity, manner, tag: tag.to_owned() };
        if let Err(error) = state::add(&self.file.lock(), &line) {
            tracing::debug!("what a run has stored: {error}");
        }
    }

    /// Nothing is left to do.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        state::remove_empty(&self.file.lock(), &self.path);
    }
}

/// How an object is to be stored.
pub(super) fn manner(attributes: &Attributes, check: Check) -> String {
    let Attributes { content_type, content_encoding, content_disposition, cache_control, .. } = attributes;
    let Attributes { metadata, storage_class, encryption, encryption_key, tags, .. } = attributes;
    // As the first version of this put it. What came later counts where it is there: uploads and runs of an
    // earlier version are gone on with.
    let mut text = format!(
        "Attributes {{ content_type: {content_type:?}, content_encoding: {content_encoding:?}, \
         content_disposition: {content_disposition:?}, cache_control: {cache_control:?}, \
         metadata: {metadata:?}, storage_class: {storage_class:?}, encryption: {encryption:?}, \
         encryption_key: {encryption_key:?}, tags: {tags:?} }} {check:?}"
    );
    for (name, value) in [("language", &attributes.content_language), ("expires", &attributes.expires)] {
        value.iter().for_each(|value| text.push_str(&format!(" {name}: {value:?}")));
    }
    hex::encode(&Algorithm::SHA256.of(text.as_bytes())[..8])
}

/// The files that a text of this form names, the last word on each, and whether its end is cut off. No more
/// than `most` lines are looked at.
pub fn read(text: impl Read, most: usize) -> io::Result<(Vec<FinishedFile>, bool)> {
    let mut text = BufReader::new(text);
    let mut found: HashMap<String, FinishedFile> = HashMap::new();
    let (mut line, mut is_cut) = (Vec::new(), false);
    for _ in 0..most {
        line.clear();
        if (&mut text).take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        is_cut = !line.ends_with(b"\n");
        if let Some(file) = state::parse::<FinishedFile>(&line) {
            found.insert(file.key.clone(), file);
        }
    }
    Ok((found.into_values().collect(), is_cut))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upload::job::Source;

    fn file(key: &str, tag: &str) -> FinishedFile {
        let (identity, manner) = (Identity::of_size(5), "m".to_owned());
        FinishedFile { key: key.to_owned(), identity, manner, tag: tag.to_owned() }
    }

    fn job(key: &str) -> Job {
        let source = Source::File(PathBuf::from("/x"));
        Job { source, key: key.to_owned(), size: Some(5), attributes: Attributes::default(), share: None }
    }

    /// What an earlier version has stored, or half of it, is known by this.
    #[test]
    fn how_an_object_is_stored_is_written_as_it_was() {
        let text = "Attributes { content_type: Some(\"a\"), content_encoding: None, content_disposition: None, \
                    cache_control: None, metadata: [], storage_class: None, encryption: None, \
                    encryption_key: None, tags: [] } Preferred";
        let attributes = Attributes { content_type: Some("a".to_owned()), ..Attributes::default() };
        let expected = hex::encode(&Algorithm::SHA256.of(text.as_bytes())[..8]);
        assert_eq!(manner(&attributes, Check::Preferred), expected);
        let other = Attributes { expires: Some("x".to_owned()), ..attributes };
        assert_ne!(manner(&other, Check::Preferred), expected);
    }

    #[test]
    fn it_says_what_it_was_told_wherever_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = [job("a"), job("b")];
        let open = |fresh| Finished::open(folder.path(), (&[], "t"), &jobs, fresh).unwrap();
        let of_tag = |tag: &str| Stored { tag: Some(tag.to_owned()), ..Stored::default() };
        let tell = |finished: &Finished, key: &str, tag: &str| {
            finished.stored(key, Identity::of_size(5), "m".to_owned(), &of_tag(tag));
        };
        let finished = open(false);
        tell(&finished, "a", "1");
        tell(&finished, "b", "W/2");
        tell(&finished, "other", "3");
        tell(&finished, "a", "4");
        let path = finished.path.clone();
        drop(finished);
        let text = std::fs::read(&path).unwrap();
        for cut in 0..=text.len() {
            let (found, is_cut) = read(&text[..cut], 100).unwrap();
            assert!(found.iter().all(|one| ["1", "3", "4"].contains(&one.tag.as_str())));
            assert_eq!(is_cut, cut > 0 && text[cut - 1] != b'\n');
        }
        // What was cut off takes nothing else with it.
        std::fs::write(&path, &text[..text.len() - 3]).unwrap();
        let finished = open(false);
        assert_eq!(finished.claim("a", Identity::of_size(5), "m"), Claim::Was("1".to_owned()));
        assert_eq!(finished.claim("a", Identity::of_size(6), "m"), Claim::None);
        assert_eq!(finished.claim("a", Identity::of_size(5), "n"), Claim::None);
        assert_eq!(finished.count(), 1);
        tell(&finished, "b", "5");
        drop(finished);
        let finished = open(false);
        assert_eq!(finished.claim("b", Identity::of_size(5), "m"), Claim::Was("5".to_owned()));
        finished.remove();
        drop(finished);
        assert_eq!(open(false).count(), 0);
        tell(&open(false), "a", "1");
        assert_eq!(open(true).count(), 0);
        // Nothing was written since.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn keys_have_one_beginning() {
        let known = ["p/\u{e4}b", "p/\u{e5}c"].map(|key| (key.to_owned(), file(key, "1")));
        let known = known.map(|(key, file)| (key, Known { file, is_listed: false })).into();
        let (path, file) = (PathBuf::from("/nowhere"), Mutex::new(tempfile::tempfile().unwrap()));
        let finished = Finished { path, file, known: RwLock::new(known), recognised: AtomicU64::new(0) };
        assert_eq!(finished.prefix(), "p/");
    }
}
