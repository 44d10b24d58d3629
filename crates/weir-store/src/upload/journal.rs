//! What an upload has got so far, kept where its user's programs keep their state, so that the same command
//! resumes it after any end.
//!
//! The source may be read-only, so the journal lies in a folder of the user's, under the digest of what is
//! sent and where to. Form: lines `crc32c=xxxxxxxx {JSON}`, appended as things happen, and what a kill has
//! cut is passed over: what is about to be begun, the store's name for it, each part that the store has
//! taken. It is a hint: the store's own list of parts decides. Nothing in it is secret.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use weir_codec::digest::Algorithm;
use weir_codec::hex;

use super::plan::Plan;
use super::source::Identity;

/// 10,000 parts of 200 bytes, and the same once more for those that were sent again.
const MOST: u64 = 4 << 20;

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
    /// The file, for people who look into it.
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
}

impl Intent {
    /// One of this version.
    pub fn new(source: String, identity: Identity, target: String, plan: Plan) -> Intent {
        Intent { version: VERSION, source, identity, target, others: None, plan, algorithm: None }
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
}

/// What it names in place of a file.
pub const STDIN: &str = "-";

/// The journal of one source and one target, locked for this process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process has it.
    #[error("another weir sends this file there now; wait for it, or stop it")]
    Busy,
    /// The folder does not take it.
    #[error("cannot keep the state of the upload in {}: {source}", path.display())]
    Io {
        /// The journal, or its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
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
        let path =
            folder.join(format!("{}.upload", hex::encode(&Algorithm::SHA256.of(key.as_bytes())[..16])));
        let io = |path: &Path, source: io::Error| JournalError::Io { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| io(folder, error))?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(libc_nofollow());
        loop {
            let mut file = options.open(&path).map_err(|error| io(&path, error))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(JournalError::Busy),
                Err(error) => return Err(io(&path, error.into())),
            }
            // Whoever had it may have taken its name away meanwhile.
            let (own, named) = (file.metadata(), std::fs::symlink_metadata(&path));
            let is_same = |own: &std::fs::Metadata, named: &std::fs::Metadata| {
                (own.dev(), own.ino()) == (named.dev(), named.ino())
            };
            match (own, named) {
                (Ok(own), Ok(named)) if is_same(&own, &named) && own.is_file() => {}
                (Err(error), _) => return Err(io(&path, error)),
                _ => continue,
            }
            let mut text = Vec::new();
            (&mut file).take(MOST).read_to_end(&mut text).map_err(|error| io(&path, error))?;
            let said = read(&text).filter(|said| said.intent.target == target);
            return Ok((Journal { path, file }, said));
        }
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
        let json = serde_json::to_string(line)?;
        let sum = crc32c::crc32c(json.as_bytes());
        self.file.write_all(format!("crc32c={sum:08x} {json}\n").as_bytes())
    }

    /// The upload has ended.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for Journal {
    /// One in which nothing was ever written says nothing, and whoever looks into the folder need not wonder.
    fn drop(&mut self) {
        if self.file.metadata().is_ok_and(|file| file.len() == 0 && file.nlink() > 0) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// O_NOFOLLOW: a link in the place of a journal is somebody's bait.
fn libc_nofollow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default()
}

/// What the journal with this text says; of a part that was sent twice the later word counts.
pub fn read(text: &[u8]) -> Option<Said> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').map_while(parse);
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

fn parse(line: &[u8]) -> Option<Line> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, json) = line.strip_prefix("crc32c=")?.split_once(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (crc32c::crc32c(json.as_bytes()) == sum).then(|| serde_json::from_str(json).ok()).flatten()
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
        KeptPart { number, tag: tag.to_owned(), sum: None }
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
