//! The journal of a list: which of its files are complete, so that a run that was killed goes on where it was
//! without asking for them again.
//!
//! It lies in the folder that the files go to (or in `--temp-dir`), under a name that follows from the list,
//! and is opened as everything that lies beside a target ([`crate::sink::beside`]): nobody else's is believed
//! or written. A run that finds all of its files complete removes it.
//!
//! Form: lines of text, each with the CRC-32C of what follows it:
//!
//! ```text
//! xxxxxxxx weir-list 1 IDENTITY          first; the identity is of the list and of what is done with it
//! xxxxxxxx boot ID                       what follows was written in this boot
//! xxxxxxxx file NUMBER URL-CRC SIZE      this file got its name, with so many bytes
//! xxxxxxxx file NUMBER URL-CRC SIZE NAME the same under another name than the list gives it, as JSON
//! xxxxxxxx durable OFFSET                a syncfs confirmed what stands before this offset
//! ```
//!
//! As with a file's journal a kill costs nothing that was written, a power cut what was written since the
//! last sync: what another boot wrote behind the last durable offset is cut off. So is a line that a kill
//! cut. The file system that is synced is the folder's; files that a list puts on another one, mounted below
//! that folder, are believed by their sizes alone.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat, syncfs};
use rustix::io::Errno;
use url::Url;
use weir_units::boot;

use super::sort::{RECORD, Record, Sorted, Sorter};
use crate::object;
use crate::sink::beside::{self, For, Found};
use crate::sink::folder::{Folder, Target};
use crate::sink::home::Home;

/// A list of fewer files is asked for again in a moment.
pub const WORTHWHILE: usize = 8;

/// Between two syncs of the whole file system: what a power cut can cost. Ten times as rare as those of a
/// large file, since this one brings other programs' files to the disk as well.
const DURABLE: Duration = Duration::from_secs(100);

/// A line of this program has at most a name of 255 bytes in JSON, each as `\u00xx`.
const MAX_LINE: u64 = 4096;

/// A file that is complete under another name than its list gives it.
const NAMED: u64 = 1 << 63;

/// The journal of a list.
pub struct ListJournal {
    state: Arc<Mutex<JournalState>>,
    /// Ends the thread that syncs.
    syncing: Option<(Sender<()>, JoinHandle<()>)>,
    folder: PathBuf,
}

struct JournalState {
    home: Arc<Folder>,
    name: OsString,
    identity: String,
    /// `None` before the first file.
    file: Option<File>,
    end: u64,
    /// Nothing more is written.
    is_off: bool,
}

/// A file that an earlier run completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// Its size, bytes.
    pub size: u64,
    /// Its name in the folder, if it is not the list's.
    pub name: Option<String>,
}

/// The files that earlier runs completed, by their numbers.
pub struct Done {
    files: Sorted,
    journal: File,
    count: u64,
}

/// What an attempt to open a journal brought.
pub enum Opened {
    /// It is there, or will be with the first file.
    Ready(ListJournal, Option<Done>),
    /// Another weir has it.
    InUse(PathBuf),
    /// There can be none.
    Blocked(String),
}

impl ListJournal {
    /// The journal of the list of this identity (hexadecimal digits) whose files go to `folder`; in `temp`,
    /// if that is given. `fresh`: what an earlier run wrote does not count.
    pub fn open(folder: &Path, temp: Option<&Path>, identity: &str, fresh: bool) -> io::Result<Opened> {
        let stem = format!("list-{}", identity.get(..16).unwrap_or(identity));
        let temp = temp.map(Folder::open).transpose()?.map(Arc::new);
        let home = Home::of(&Target::open(&folder.join(stem))?, temp.as_ref())?;
        let (home, name) = home.journal();
        let (home, name, identity) = (Arc::clone(home), name.to_owned(), identity.to_owned());
        let mut state = JournalState { home, name, identity, file: None, end: 0, is_off: false };
        let mut done = None;
        match beside::open(&state.home, &state.name, For::Writing)? {
            Found::Nothing => {}
            Found::Blocked(why) => return Ok(Opened::Blocked(why)),
            Found::Ours(file) => {
                if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
                    return Ok(Opened::InUse(state.shown()));
                }
                done = state.take_over(file, fresh)?;
            }
        }
        let state = Arc::new(Mutex::new(state));
        Ok(Opened::Ready(ListJournal { state, syncing: None, folder: folder.to_owned() }, done))
    }

    /// Its path, to be shown.
    pub fn path(&self) -> PathBuf {
        self.state.lock().shown()
    }

    /// File `number` of the list is complete: of `url`, with so many bytes, under a `name` that its list does
    /// not give it. The first error ends the journal and is returned.
    pub fn add(&self, number: usize, url: &Url, size: u64, name: Option<&str>) -> io::Result<()> {
        let mut text = format!("file {number} {:08x} {size}", url_sum(url));
        if let Some(name) = name {
            text.push(' ');
            text.push_str(&serde_json::to_string(name)?);
        }
        // A line that no reader takes would end the journal; the file is fetched again.
        if text.len() as u64 >= MAX_LINE - 16 {
            return Ok(());
        }
        self.state.lock().write(&text)
    }

    /// From now on syncs the file system of the folder from time to time.
    pub fn keep_durable(&mut self) {
        let (end, ended) = channel();
        let (state, folder) = (Arc::clone(&self.state), self.folder.clone());
        let thread = std::thread::Builder::new().name("list".to_owned()).stack_size(256 << 10);
        let spawned = thread.spawn(move || {
            while ended.recv_timeout(DURABLE) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = make_durable(&state, &folder) {
                    tracing::debug!("cannot sync the journal of the list: {error}");
                }
            }
        });
        self.syncing = spawned.ok().map(|thread| (end, thread));
    }

    /// The run is over; `all` of the list is complete, and the journal goes.
    pub fn end(mut self, all: bool) {
        if let Some((end, thread)) = self.syncing.take() {
            drop(end);
            // A sync that hangs on a slow disk is not waited for.
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
        let mut state = self.state.lock();
        state.is_off = true;
        if let Some(file) = state.file.take().filter(|_| all) {
            beside::remove(&state.home, &state.name, &file);
        }
    }
}

impl JournalState {
    fn shown(&self) -> PathBuf {
        self.home.shown(&self.name)
    }

    /// Goes on with what an earlier run left in `file`.
    fn take_over(&mut self, file: File, fresh: bool) -> io::Result<Option<Done>> {
        let scan = if fresh { None } else { Scan::of(&file, &self.identity)? };
        let done = scan.as_ref().filter(|scan| scan.count > 0).map(|scan| scan.done(&file)).transpose()?;
        let trusted = scan.map_or(0, |scan| scan.trusted);
        file.set_len(trusted)?;
        self.begin(file, trusted)?;
        Ok(done)
    }

    fn begin(&mut self, file: File, at: u64) -> io::Result<()> {
        (self.file, self.end) = (Some(file), at);
        if at == 0 {
            let first = format!("weir-list 1 {}", self.identity);
            self.append(&first)?;
        }
        self.append(&format!("boot {}", boot::id()))
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if self.is_off {
            return Ok(());
        }
        let written = match self.file {
            Some(_) => Ok(()),
            None => beside::create(&self.home, &self.name).and_then(|file| {
                // A file system without locks has none to respect.
                let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                self.begin(file, 0)
            }),
        };
        written.and_then(|()| self.append(text)).inspect_err(|_| self.is_off = true)
    }

    /// A line that is not written whole is cut off again, or found out by its sum.
    fn append(&mut self, text: &str) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let line = format!("{:08x} {text}\n", crc32c::crc32c(text.as_bytes()));
        file.write_all_at(line.as_bytes(), self.end).inspect_err(|_| drop(file.set_len(self.end)))?;
        self.end += line.len() as u64;
        Ok(())
    }
}

/// Brings what is complete to the disk, and says so in the journal.
fn make_durable(state: &Mutex<JournalState>, folder: &Path) -> io::Result<()> {
    let (end, journal) = {
        let state = state.lock();
        let Some(file) = state.file.as_ref().filter(|_| !state.is_off) else { return Ok(()) };
        (state.end, file.try_clone()?)
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    syncfs(openat(rustix::fs::CWD, folder, flags, Mode::empty())?)?;
    journal.sync_data()?;
    state.lock().write(&format!("durable {end}"))?;
    journal.sync_data()
}

/// What stands in a journal, read once through.
struct Scan {
    /// The offset up to which it counts in this boot.
    trusted: u64,
    /// Files named before that.
    count: u64,
}

impl Scan {
    /// `None` of another list's, or of what is no journal.
    fn of(file: &File, identity: &str) -> io::Result<Option<Scan>> {
        let mut lines = Entries::new(file);
        let first = lines.next()?;
        if !matches!(first, Some((_, Entry::First(own))) if own == identity) {
            return Ok(None);
        }
        let (mut durable, mut is_this_boot) = (lines.at, false);
        // Files, each with its offset, are counted when it is known which of them are trusted.
        let (mut before, mut count) = (0, 0);
        while let Some((_, entry)) = lines.next()? {
            match entry {
                Entry::First(_) => break,
                Entry::Boot(id) => is_this_boot = id == boot::id(),
                Entry::File { .. } => count += 1,
                Entry::Durable(offset) if offset <= lines.at => {
                    (durable, before) = (offset.max(durable), count)
                }
                Entry::Durable(_) => break,
            }
        }
        let (trusted, count) = if is_this_boot { (lines.at, count) } else { (durable, before) };
        Ok(Some(Scan { trusted, count }))
    }

    /// The files before the trusted offset, by their numbers.
    fn done(&self, file: &File) -> io::Result<Done> {
        let (mut lines, mut files, mut count) = (Entries::new(file), Sorter::default(), 0);
        while let Some((at, entry)) = lines.next()?.filter(|(at, _)| *at < self.trusted) {
            if let Entry::File { number, sum, size, name } = entry {
                let named = if name.is_some() { NAMED } else { 0 };
                files.push(record(number, at, size & !NAMED | named, sum))?;
                count += 1;
            }
        }
        Ok(Done { files: files.sorted()?, journal: file.try_clone()?, count })
    }
}

impl Done {
    /// How many files earlier runs completed.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What became of file `number`, of `url`. Asked for in the order of numbers.
    pub fn take(&mut self, number: usize, url: &Url) -> io::Result<Option<Earlier>> {
        let mut found = None;
        while let Some((of, at, size, sum)) =
            self.files.peek().map(fields).filter(|(of, ..)| *of <= number as u64)
        {
            self.files.next()?;
            // The later entry is of the file that is there now.
            found = (of == number as u64 && sum == url_sum(url)).then_some((at, size));
        }
        let Some((at, size)) = found else { return Ok(None) };
        if size & NAMED == 0 {
            return Ok(Some(Earlier { size, name: None }));
        }
        match Entries::from(&self.journal, at).next()? {
            Some((_, Entry::File { size, name, .. })) => Ok(Some(Earlier { size, name })),
            _ => Ok(None),
        }
    }
}

/// A check that a number still is that of the same URL.
fn url_sum(url: &Url) -> u32 {
    crc32c::crc32c(object::identity(url).as_bytes())
}

/// Six bytes each for number and offset: 280 million million.
fn record(number: u64, at: u64, size: u64, sum: u32) -> Record {
    let mut record = [0; RECORD];
    record[..6].copy_from_slice(&number.to_be_bytes()[2..]);
    record[6..12].copy_from_slice(&at.to_be_bytes()[2..]);
    record[12..20].copy_from_slice(&size.to_be_bytes());
    record[20..].copy_from_slice(&sum.to_be_bytes());
    record
}

fn fields(record: &Record) -> (u64, u64, u64, u32) {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let sum = number(&record[20..]) as u32;
    (number(&record[..6]), number(&record[6..12]), number(&record[12..20]), sum)
}

#[derive(Debug, PartialEq, Eq)]
enum Entry {
    First(String),
    Boot(String),
    Durable(u64),
    File { number: u64, sum: u32, size: u64, name: Option<String> },
}

/// The entries of a journal up to its end, or to the first line that is not whole.
struct Entries<'a> {
    from: BufReader<At<'a>>,
    at: u64,
    line: Vec<u8>,
}

struct At<'a>(&'a File, u64);

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.0.read_at(buffer, self.1)?;
        self.1 += got as u64;
        Ok(got)
    }
}

impl<'a> Entries<'a> {
    fn new(file: &'a File) -> Entries<'a> {
        Entries { from: BufReader::with_capacity(1 << 16, At(file, 0)), at: 0, line: Vec::new() }
    }

    /// Those from `at` on: of one entry.
    fn from(file: &'a File, at: u64) -> Entries<'a> {
        Entries { from: BufReader::with_capacity(MAX_LINE as usize, At(file, at)), at, line: Vec::new() }
    }

    /// The next entry and its offset.
    fn next(&mut self) -> io::Result<Option<(u64, Entry)>> {
        self.line.clear();
        self.from.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line)?;
        let Some(entry) = parse(&self.line) else { return Ok(None) };
        let at = self.at;
        self.at += self.line.len() as u64;
        Ok(Some((at, entry)))
    }
}

fn parse(line: &[u8]) -> Option<Entry> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, text) = line.split_once(' ')?;
    if sum.len() != 8 || u32::from_str_radix(sum, 16).ok()? != crc32c::crc32c(text.as_bytes()) {
        return None;
    }
    let (kind, rest) = text.split_once(' ')?;
    match kind {
        "weir-list" => Some(Entry::First(rest.strip_prefix("1 ")?.to_owned())),
        "boot" => Some(Entry::Boot(rest.to_owned())),
        "durable" => Some(Entry::Durable(rest.parse().ok()?)),
        "file" => {
            let mut words = rest.splitn(4, ' ');
            let number = words.next()?.parse().ok()?;
            let sum = u32::from_str_radix(words.next()?, 16).ok()?;
            let size = words.next()?.parse().ok()?;
            let name = words.next().map(serde_json::from_str).transpose().ok()?;
            Some(Entry::File { number, sum, size, name })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDENTITY: &str = "0123456789abcdef0123456789abcdef";

    fn url(number: usize) -> Url {
        Url::parse(&format!("http://h/{number}")).unwrap()
    }

    fn open(folder: &Path) -> (ListJournal, Option<Done>) {
        match ListJournal::open(folder, None, IDENTITY, false).unwrap() {
            Opened::Ready(journal, done) => (journal, done),
            _ => panic!("not ready"),
        }
    }

    /// What is known of the first files, after their URLs.
    fn known(done: Option<Done>, count: usize) -> Vec<Option<u64>> {
        let Some(mut done) = done else { return vec![None; count] };
        (0..count).map(|number| Some(done.take(number, &url(number)).unwrap()?.size)).collect()
    }

    fn journal_of(dir: &Path) -> PathBuf {
        dir.join("list-0123456789abcdef.weir")
    }

    #[test]
    fn what_was_added_is_known_to_the_next_run_in_any_order() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, done) = open(dir.path());
        assert!(done.is_none() && !journal_of(dir.path()).exists(), "only with the first file");
        for number in [3, 0, 2] {
            journal.add(number, &url(number), number as u64 * 10, None).unwrap();
        }
        journal.add(5, &url(5), 7, Some("a \"name\"\n")).unwrap();
        journal.add(2, &url(2), 21, None).unwrap();
        assert!(matches!(
            ListJournal::open(dir.path(), None, IDENTITY, false).unwrap(),
            Opened::InUse(path) if path == journal_of(dir.path())
        ));
        journal.end(false);
        let (journal, done) = open(dir.path());
        let mut done = done.unwrap();
        assert_eq!(done.count(), 5);
        let mut take = |number, url: &Url| done.take(number, url).unwrap();
        assert_eq!(take(0, &url(0)).unwrap().size, 0);
        assert_eq!(take(1, &url(1)), None);
        assert_eq!(take(2, &url(2)).unwrap().size, 21, "the later one");
        assert_eq!(take(3, &url(4)), None, "of another URL");
        assert_eq!(take(5, &url(5)), Some(Earlier { size: 7, name: Some("a \"name\"\n".into()) }));
        journal.end(true);
        assert!(!journal_of(dir.path()).exists());
    }

    #[test]
    fn what_is_cut_or_of_another_boot_or_list_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let fill = |boot: &str| {
            let (journal, _) = open(dir.path());
            {
                let mut state = journal.state.lock();
                for text in ["file 0 {0} 10", "durable {end}", "file 1 {1} 11"] {
                    let text = text.replace("{0}", &format!("{:08x}", url_sum(&url(0))));
                    let text = text.replace("{1}", &format!("{:08x}", url_sum(&url(1))));
                    let text = text.replace("{end}", &state.end.to_string());
                    state.write(&text).unwrap();
                }
                state.append(&format!("boot {boot}")).unwrap();
            }
            journal.end(false);
        };
        let again = |fresh| {
            let opened = ListJournal::open(dir.path(), None, IDENTITY, fresh).unwrap();
            let Opened::Ready(journal, done) = opened else { panic!("not ready") };
            journal.end(false);
            known(done, 2)
        };
        fill(boot::id().as_str());
        assert_eq!(again(false), [Some(10), Some(11)]);
        let path = journal_of(dir.path());
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        assert_eq!(again(false), [Some(10), Some(11)], "only the cut line is lost");
        assert_eq!(again(true), [None, None], "a fresh run begins another");
        assert_eq!(again(false), [None, None]);
        fill("another");
        assert_eq!(again(false), [Some(10), None], "what was not durable may be lost");
        assert_eq!(again(false), [Some(10), None], "and is not believed later");
        std::fs::write(&path, "something else\n").unwrap();
        assert_eq!(again(false), [None, None]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_entries_or_none(line in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&line);
            let sum = format!("{:08x} ", crc32c::crc32c(&line));
            let _ = parse(&[sum.as_bytes(), &line, b"\n"].concat());
        }
    }
}
