//! What of an unfinished file is there: a log in the same file, behind the place of its last block.
//!
//! So there is nothing beside the part that could be lost or be of another one, and the cut to the file's
//! size removes it. Form: at the first multiple of 1 MiB at or after the file's end a head of 128 bytes, then
//! 48 bytes for each block that was written, or for blocks in a row that are zeros, in the order of arrival.
//! Every record carries a CRC-32C that starts from the head's, so that records of an earlier log do not
//! count.
//!
//! Where no file may be as long as that, a file has no log, or one that ends before the last of its blocks:
//! what is not in it comes again after an interruption.
//!
//! A block's record is written after the block, so on the same boot every record holds. After another boot
//! those hold that were written before a sync began that is known to have succeeded.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustix::io::Errno;
use weir_tree::{Entry, destination, source};

use crate::subtrees::{BLOCK, Digest, Subtrees, blocks};

/// What all logs begin with, whatever their form.
const KIND: [u8; 14] = *b"weir-part-log-";

const MAGIC: [u8; 16] = *b"weir-part-log-2\n";

/// The version of the form that this program reads and writes.
pub const VERSION: u8 = MAGIC[KIND.len()] - b'0';

/// Bytes of the head: magic, size, modification time, boot, checksum.
const HEAD: usize = 128;

/// Bytes of a record: block, value, zeros, checksum. Blocks in a row that are zeros have none of a value, and
/// in place of the zeros how many they are.
const RECORD: usize = 48;

/// In place of a block's number: a sync begins.
const SYNC: u64 = u64::MAX - 1;

/// In place of a block's number: the last sync that began has succeeded.
const SYNCED: u64 = u64::MAX;

/// A log that grows.
#[derive(Debug)]
pub(crate) struct Journal {
    at: u64,
    seed: u32,
    next: AtomicU64,
    /// Bytes of it that an earlier run wrote.
    earlier: u64,
    /// It reaches the length of the longest file: nothing more is recorded.
    full: AtomicBool,
}

/// What an earlier run wrote, and where in the log the next of it is.
pub(crate) type Earlier = (Vec<Written>, u64);

/// What a record tells of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    /// A block and its value.
    Block(u64, Digest),
    /// Blocks in a row that are zeros.
    Zeros(Range<u64>),
}

impl Written {
    /// The blocks that it tells of.
    pub(crate) fn run(&self) -> Range<u64> {
        match self {
            Written::Block(index, _) => *index..index.saturating_add(1),
            Written::Zeros(run) => run.clone(),
        }
    }
}

/// What a log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The blocks that are there.
    pub there: Subtrees,
    /// Bytes of the log that hold.
    pub length: u64,
    /// What the checksums of its records start from.
    seed: u32,
    /// It was begun since the system was started.
    of_this_boot: bool,
}

impl Journal {
    /// A log of so many bytes behind byte `at`.
    fn of(at: u64, seed: u32, length: u64) -> Journal {
        let (next, full) = (AtomicU64::new(length), AtomicBool::new(false));
        Journal { at, seed, next, earlier: length, full }
    }

    /// Begins a log in `file` for `entry`.
    pub(crate) fn begin(file: &File, entry: &Entry) -> io::Result<Journal> {
        let at = blocks(entry.size()) * BLOCK;
        let head = head(entry, &boot());
        file.write_all_at(&head, at)?;
        // What an earlier log left behind the head would not check, but may as well go.
        file.set_len(at + HEAD as u64)?;
        Ok(Journal::of(at, crc32c::crc32c(&head), HEAD as u64))
    }

    /// Goes on with the log in `file`, if it is one of `entry` as it is.
    pub(crate) fn resume(file: &File, entry: &Entry) -> io::Result<Option<(Journal, Subtrees)>> {
        let at = blocks(entry.size()) * BLOCK;
        let mut from = file;
        from.seek(SeekFrom::Start(at))?;
        let boot = boot();
        let Some(log) = parse(BufReader::with_capacity(1 << 16, from), entry, &boot)? else {
            return Ok(None);
        };
        let journal = Journal::of(at, log.seed, log.length);
        let journal = if log.of_this_boot { journal } else { journal.renew(file, entry, &boot)? };
        Ok(Some((journal, log.there)))
    }

    /// Writes a log of an earlier boot anew as one of this boot: what holds of it is on the disk, and what
    /// stood behind that starts from another checksum from now on. Should the power fail meanwhile, some of
    /// it or nothing holds, and that is sent again.
    fn renew(self, file: &File, entry: &Entry, boot: &[u8; 36]) -> io::Result<Journal> {
        let (head, end) = (head(entry, boot), self.next.into_inner());
        let seed = crc32c::crc32c(&head);
        let mut records = vec![0; (1 << 16) / RECORD * RECORD];
        file.write_all_at(&head, self.at)?;
        let mut done = HEAD as u64;
        while done < end {
            let piece = records.len().min((end - done) as usize);
            file.read_exact_at(&mut records[..piece], self.at + done)?;
            for record in records[..piece].chunks_exact_mut(RECORD) {
                reseed(record, seed);
            }
            file.write_all_at(&records[..piece], self.at + done)?;
            done += piece as u64;
        }
        file.set_len(self.at + end)?;
        let journal = Journal::of(self.at, seed, end);
        for mark in [SYNC, SYNCED] {
            journal.write(file, mark, &[0; 32], 0)?;
        }
        Ok(journal)
    }

    /// The blocks that an earlier run had written, in the order of arrival: those whose records begin at byte
    /// `from` of the log, and where the next ones do. None at the end.
    pub(crate) fn earlier(&self, file: &File, from: u64) -> io::Result<Option<Earlier>> {
        let from = from.max(HEAD as u64);
        let left = self.earlier.saturating_sub(from) as usize / RECORD * RECORD;
        let mut bytes = vec![0; left.min((1 << 16) / RECORD * RECORD)];
        if bytes.is_empty() {
            return Ok(None);
        }
        file.read_exact_at(&mut bytes, self.at + from)?;
        let mut blocks = Vec::with_capacity(bytes.len() / RECORD);
        for bytes in bytes.chunks_exact(RECORD) {
            let read = read_record(self.seed, bytes);
            let (index, digest, zeros) =
                read.ok_or_else(|| io::Error::other("its log changed while it was read"))?;
            blocks.extend(written(index, digest, zeros));
        }
        Ok(Some((blocks, from + bytes.len() as u64)))
    }

    /// A block was written.
    pub(crate) fn add(&self, file: &File, index: u64, digest: &Digest) -> io::Result<()> {
        self.write(file, index, digest, 0)
    }

    /// Blocks in a row are zeros.
    pub(crate) fn add_zeros(&self, file: &File, mut run: Range<u64>) -> io::Result<()> {
        while !run.is_empty() {
            let count = u32::try_from(run.end - run.start).unwrap_or(u32::MAX);
            self.write(file, run.start, &[0; 32], count)?;
            run.start += u64::from(count);
        }
        Ok(())
    }

    fn write(&self, file: &File, index: u64, digest: &Digest, zeros: u32) -> io::Result<()> {
        if self.full.load(Relaxed) {
            return Ok(());
        }
        let place = self.next.fetch_add(RECORD as u64, Relaxed);
        match file.write_all_at(&record(self.seed, index, digest, zeros), self.at + place) {
            Err(error) if is_beyond_longest(&error) => {
                self.full.store(true, Relaxed);
                Ok(())
            }
            written => written,
        }
    }

    /// Waits until what is recorded is on the disk, and records that.
    pub(crate) fn sync(&self, file: &File) -> io::Result<()> {
        self.write(file, SYNC, &[0; 32], 0)?;
        file.sync_data()?;
        self.write(file, SYNCED, &[0; 32], 0)
    }
}

/// Whether no file may reach to where this failed: by its file system or a limit of this process (`ulimit
/// -f`), or by what any offset may be, which is another error.
pub(crate) fn is_beyond_longest(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::FBIG | Errno::INVAL))
}

/// Whether a file may be what weir left: it has a log, of whatever form and version, or nothing was written
/// into it yet, or it is the mark of a folder. Anything else is somebody's file that happens to have the
/// name.
pub(crate) fn is_weirs(file: &File) -> bool {
    // A log has 48 bytes for a block, and as many for the syncs of ten seconds each: it begins in the last
    // thousandth of a file.
    const PLACES: usize = 4096;
    let Ok(length) = file.metadata().map(|there| there.len()) else { return false };
    // Before anything is read: what was read of reserved space counts as data from then on.
    if matches!(source::next_data(file, 0, length), Ok(None)) || destination::is_mark(file) {
        return true;
    }
    let mut start = [0; KIND.len()];
    let mut places = (0..=length / BLOCK).rev().take(PLACES).map(|block| block * BLOCK);
    places.any(|at| file.read_exact_at(&mut start, at).is_ok() && start == KIND)
}

/// Reads a log of `entry` as far as it checks; `None` where it is no log of this file as it is.
pub fn parse(mut from: impl Read, entry: &Entry, boot: &[u8; 36]) -> io::Result<Option<Log>> {
    let mut start = [0; HEAD];
    if !fill(&mut from, &mut start)? {
        return Ok(None);
    }
    let mut theirs = [0; 36];
    theirs.copy_from_slice(&start[48..84]);
    if start != head(entry, &theirs) {
        return Ok(None);
    }
    let seed = crc32c::crc32c(&start);
    let of_this_boot = theirs == *boot;
    let mut log = Log { there: Subtrees::new(entry.size()), length: HEAD as u64, seed, of_this_boot };
    let (mut syncing, mut synced) = (log.clone(), log.clone());
    let mut bytes = [0; RECORD];
    while fill(&mut from, &mut bytes)? {
        let Some((index, digest, zeros)) = read_record(seed, &bytes) else { break };
        log.length += RECORD as u64;
        match written(index, digest, zeros) {
            Some(Written::Block(index, digest)) => drop(log.there.insert(index, digest)),
            Some(Written::Zeros(run)) => log.there.insert_zeros(run),
            None if index == SYNC => syncing = log.clone(),
            None => synced = syncing.clone(),
        }
    }
    Ok(Some(if of_this_boot { log } else { synced }))
}

/// Fills `bytes`; false at the end.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// This boot's id: 36 characters. Of a system that tells none, one that equals no other.
fn boot() -> [u8; 36] {
    let known = weir_units::boot::id();
    known.as_bytes().try_into().unwrap_or_else(|_| {
        let mut id = [0; 36];
        crate::secret::fill_random(&mut id).unwrap_or_default();
        id
    })
}

fn head(entry: &Entry, boot: &[u8; 36]) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    bytes[..16].copy_from_slice(&MAGIC);
    bytes[16..24].copy_from_slice(&entry.size().to_le_bytes());
    bytes[24..32].copy_from_slice(&entry.mtime.secs().to_le_bytes());
    bytes[32..36].copy_from_slice(&entry.mtime.nanos().to_le_bytes());
    bytes[48..84].copy_from_slice(boot);
    let sum = crc32c::crc32c(&bytes[..124]);
    bytes[124..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn record(seed: u32, index: u64, digest: &Digest, zeros: u32) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..8].copy_from_slice(&index.to_le_bytes());
    bytes[8..40].copy_from_slice(digest);
    bytes[40..44].copy_from_slice(&zeros.to_le_bytes());
    reseed(&mut bytes, seed);
    bytes
}

/// The numbers of a record of [`RECORD`] bytes: block, value, how many zeros; `None` where it does not check.
fn read_record(seed: u32, bytes: &[u8]) -> Option<(u64, Digest, u32)> {
    let (mut index, mut digest, mut zeros) = ([0; 8], [0; 32], [0; 4]);
    index.copy_from_slice(&bytes[..8]);
    digest.copy_from_slice(&bytes[8..40]);
    zeros.copy_from_slice(&bytes[40..44]);
    let (index, zeros) = (u64::from_le_bytes(index), u32::from_le_bytes(zeros));
    (bytes == record(seed, index, &digest, zeros)).then_some((index, digest, zeros))
}

/// What such numbers tell of the file; `None` of the marks of a sync.
fn written(index: u64, digest: Digest, zeros: u32) -> Option<Written> {
    match zeros {
        _ if index >= SYNC => None,
        0 => Some(Written::Block(index, digest)),
        count => Some(Written::Zeros(index..index.saturating_add(count.into()))),
    }
}

/// Gives a record the checksum that starts from this seed.
fn reseed(record: &mut [u8], seed: u32) {
    let sum = crc32c::crc32c_append(seed, &record[..44]);
    record[44..].copy_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use weir_tree::Kind;
    use weir_tree::entry::Time;

    use super::*;

    #[test]
    fn a_log_of_an_earlier_boot_goes_on_as_one_of_this() {
        let file = tempfile::tempfile().unwrap();
        let (name, mtime) = ("x".parse().unwrap(), Time::new(0, 0).unwrap());
        let kind = Kind::File { size: 8 * BLOCK, sparse: false };
        let entry = Entry { name, kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
        let there = |blocks: &Subtrees| (0..8).filter(|block| blocks.contains(*block)).collect::<Vec<u64>>();
        let before = head(&entry, &[b'0'; 36]);
        let seed = crc32c::crc32c(&before);
        file.write_all_at(&before, 8 * BLOCK).unwrap();
        let earlier = Journal::of(8 * BLOCK, seed, HEAD as u64);
        earlier.add(&file, 0, &[7; 32]).unwrap();
        earlier.add_zeros(&file, 1..3).unwrap();
        for index in [SYNC, 4, SYNCED, 5] {
            earlier.add(&file, index, &[7; 32]).unwrap();
        }
        let (journal, blocks) = Journal::resume(&file, &entry).unwrap().unwrap();
        assert_eq!(there(&blocks), [0, 1, 2], "what was on the disk when the last sync began that ended");
        let (listed, end) = journal.earlier(&file, 0).unwrap().unwrap();
        assert_eq!(listed, [Written::Block(0, [7; 32]), Written::Zeros(1..3)]);
        assert_eq!(journal.earlier(&file, end).unwrap(), None);
        journal.add(&file, 6, &[7; 32]).unwrap();
        let (_, blocks) = Journal::resume(&file, &entry).unwrap().unwrap();
        assert_eq!(there(&blocks), [0, 1, 2, 6], "after a kill on this boot");
        let mut from = &file;
        from.seek(SeekFrom::Start(8 * BLOCK)).unwrap();
        let log = parse(from, &entry, &[b'2'; 36]).unwrap().unwrap();
        assert_eq!(there(&log.there), [0, 1, 2], "after another power cut");
        assert_eq!(parse(&before[..], &entry, &[b'0'; 36]).unwrap().unwrap().length, HEAD as u64);
    }
}
