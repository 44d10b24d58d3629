//! What an upload has got so far, kept where its user's programs keep their state, so that the same command
//! resumes it after any end.
//!
//! The source may be read-only, so the journal lies in a folder of the user's, under the digest of what is
//! sent and where to. Form: lines `crc32c=xxxxxxxx {JSON}`, appended as things happen, and what a kill has
//! cut is passed over: what is about to be begun, the store's name for it, each part that the store has
//! taken. It is a hint: the store's own list of parts decides. Nothing in it is secret.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::source::Identity;
use super::state;
pub use super::state::JournalError;
use super::{Attributes, Object, Upload, Uploads};
use crate::caller::Caller;
use crate::condition::Condition;

/// 10,000 parts of 300 bytes, and the same once more for those that were sent again.
const MOST: u64 = 8 << 20;

/// The version of the form.
const VERSION: u32 = 1;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Upload(Intent),
    Id(String),
    Part(KeptPart),
}

/// The upload that a journal is of, from before it is begun: a kill right after must not leave one that
/// nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The version of the form.
    version: u32,
    /// The file or the object, for people who look into it.
    pub source: String,
    /// Which file that was, and in which state.
    pub identity: Identity,
    /// The object.
    pub target: String,
    /// Uploads of this object that were there before, by the store's names; `None` where it does not tell.
    pub others: Option<Vec<String>>,
    /// How it is cut.
    pub plan: Plan,
    /// What its parts are checked by.
    pub algorithm: Option<String>,
    /// How the object is to be stored ([`super::finished::manner`]): that was said when the upload was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manner: Option<String>,
    /// Of an object of another store, the validator of what was begun with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// The digest that its store keeps of it, by which parts are known as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Intent {
    /// One of this version.
    pub fn new(source: String, identity: Identity, target: String, plan: Plan) -> Intent {
        let (others, algorithm, manner, pin, kept) = (None, None, None, None, None);
        Intent { version: VERSION, source, identity, target, others, plan, algorithm, manner, pin, kept }
    }
}

/// What a journal says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// What was to be begun.
    pub intent: Intent,
    /// The store's name for it, if that was heard.
    pub id: Option<String>,
    /// What the store has taken, in order.
    pub parts: Vec<KeptPart>,
}

/// A part that the store has taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPart {
    /// From 1 on.
    pub number: u32,
    /// The store's name for it.
    pub tag: String,
    /// Its digest, in hexadecimal.
    pub sum: Option<String>,
    /// The same by [`Intent::kept`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// What it names in place of a file.
pub const STDIN: &str = "-";

/// The journal of one source and one target, locked for this process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// Where journals lie, by the XDG Base Directory Specification: `$XDG_STATE_HOME/weir/put`, or below
/// `~/.local/state`. `None` where the environment names neither.
pub fn folder(environment: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    // The specification has relative paths ignored.
    let absolute = |text: String| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
    let state = environment("XDG_STATE_HOME").and_then(absolute);
    let home = || environment("HOME").and_then(absolute).map(|home| home.join(".local/state"));
    Some(state.or_else(home)?.join("weir/put"))
}

impl Journal {
    /// The journal of what goes from `source` to `target`, there or new, and what it says. One that cannot be
    /// read, or that is of another state of the file, says nothing.
    pub fn open(folder: &Path, source: &Path, target: &str) -> Result<(Journal, Option<Said>), JournalError> {
        let key = format!("{}\n{target}", source.display());
        let path = state::path_of(folder, &key, "upload");
        let mut file = state::open(&path)?;
        let mut text = Vec::new();
        (&mut file).take(MOST).read_to_end(&mut text).map_err(|error| JournalError::io(&path, error))?;
        let said = read(&text).filter(|said| said.intent.target == target);
        Ok((Journal { path, file }, said))
    }

    /// The same where there is one, and nobody else has it.
    fn left(folder: &Path, source: &Path, target: &str) -> Option<(Journal, Option<Said>)> {
        let key = format!("{}\n{target}", source.display());
        let is_there = state::path_of(folder, &key, "upload").exists();
        is_there.then(|| Journal::open(folder, source, target).ok()).flatten()
    }

    /// Begins anew: an upload is about to be begun.
    pub fn intend(&mut self, intent: &Intent) -> io::Result<()> {
        self.file.set_len(0)?;
        self.add(&Line::Upload(intent.clone()))
    }

    /// It has begun, and this is the store's name for it.
    pub fn begun(&mut self, id: &str) -> io::Result<()> {
        self.add(&Line::Id(id.to_owned()))
    }

    /// The store has taken this part. Not synced: what a power cut costs is sent again.
    pub fn part(&mut self, part: KeptPart) -> io::Result<()> {
        self.add(&Line::Part(part))
    }

    fn add(&mut self, line: &Line) -> io::Result<()> {
        state::add(&self.file, line)
    }

    /// The upload has ended.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The object at the target is what is to be there: what a run has left that was killed before it could say
/// so goes, and with it an upload that became nothing.
pub fn forget(
    folder: &Path,
    (source, target): (&Path, &str),
    (uploads, key): (&dyn Uploads, &str),
    caller: &mut Caller<'_>,
) {
    let Some((journal, said)) = Journal::left(folder, source, target) else { return };
    if let Some(id) = said.and_then(|said| said.id) {
        let (attributes, condition) = (Attributes::default(), Condition::None);
        let object = Object { key, attributes: &attributes, condition: &condition };
        if let Err(error) = uploads.abort(caller, &Upload { object, id: &id }) {
            tracing::info!("{error}");
            return;
        }
    }
    journal.remove();
}

impl Drop for Journal {
    fn drop(&mut self) {
        state::remove_empty(&self.file, &self.path);
    }
}

/// What the journal with this text says; of a part that was sent twice the later word counts.
pub fn read(text: &[u8]) -> Option<Said> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').map_while(state::parse);
    let Some(Line::Upload(intent)) = lines.next() else { return None };
    let mut said = Said { intent, id: None, parts: Vec::new() };
    let mut parts = BTreeMap::new();
    for line in lines {
        match line {
            Line::Id(id) => said.id = Some(id),
            Line::Part(part) => drop(parts.insert(part.number, part)),
            Line::Upload(_) => return None,
        }
    }
    said.parts = parts.into_values().collect();
    (said.intent.version == VERSION).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upload::Bounds;

    fn intent() -> Intent {
        let bounds = Bounds { parts: 10, least_part: 1, most_part: 1 << 30, most_single: 1, most: 1 << 40 };
        let plan = Plan::of_size(100 << 20, &bounds, None).unwrap();
        Intent::new("/x".to_owned(), Identity::default(), "s3://b/k".to_owned(), plan)
    }

    fn part(number: u32, tag: &str) -> KeptPart {
        KeptPart { number, tag: tag.to_owned(), sum: None, kept: None }
    }

    #[test]
    fn it_says_what_it_was_told_wherever_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Journal::open(folder.path(), Path::new("/x"), "s3://b/k");
        let (mut journal, said) = open().unwrap();
        assert_eq!(said, None);
        journal.intend(&intent()).unwrap();
        journal.begun("an id").unwrap();
        let parts = [part(2, "a"), part(1, "b"), part(2, "c")];
        parts.into_iter().for_each(|part| journal.part(part).unwrap());
        assert!(matches!(open(), Err(JournalError::Busy)));
        drop(journal);
        let text = std::fs::read(std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path());
        let text = text.unwrap();
        for cut in 0..text.len() {
            if let Some(said) = read(&text[..cut]) {
                assert_eq!(said.intent, intent());
                assert!(said.parts.is_empty() || said.id.is_some());
            }
        }
        let (journal, said) = open().unwrap();
        let parts = vec![part(1, "b"), part(2, "c")];
        assert_eq!(said, Some(Said { intent: intent(), id: Some("an id".to_owned()), parts }));
        journal.remove();
        assert_eq!(open().unwrap().1, None);
        // Another target has another one.
        assert_eq!(Journal::open(folder.path(), Path::new("/x"), "s3://b/l").unwrap().1, None);
    }

    #[test]
    fn its_folder_is_the_users_state() {
        let of = |state: &str, home: &str| {
            let value = |name: &str| match name {
                "XDG_STATE_HOME" => Some(state.to_owned()).filter(|text| !text.is_empty()),
                _ => Some(home.to_owned()),
            };
            folder(&value).map(|path| path.display().to_string()).unwrap_or_default()
        };
        assert_eq!(of("", "/home/me"), "/home/me/.local/state/weir/put");
        assert_eq!(of("/s", "/home/me"), "/s/weir/put");
        assert_eq!(of("s", "/home/me"), "/home/me/.local/state/weir/put");
        assert_eq!(of("", ""), "");
    }
}
