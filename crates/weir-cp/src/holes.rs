//! Where the blocks of a file are holes (SEEK_DATA and SEEK_HOLE, lseek(2)): nobody reads those, and nobody
//! hashes them.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use weir_tree::source;

use crate::subtrees::{BLOCK, Digest, Subtrees, blocks, digest_of, extent};

/// Blocks of a file in runs, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// In holes from their first byte to their last.
    pub(crate) holes: Vec<Range<u64>>,
    /// The others.
    pub(crate) data: Vec<Range<u64>>,
}

/// Where the blocks of `runs` lie in a file of `size` bytes; all are data where that cannot be told. Uses the
/// position of `file`.
pub(crate) fn survey(file: &File, size: u64, runs: &[Range<u64>]) -> Survey {
    let mut survey = Survey::default();
    for run in runs {
        let mut at = run.start;
        while at < run.end {
            let next = source::next_data(file, extent(at, size).start, size).unwrap_or(Some(0..u64::MAX));
            let (first, end) = match next {
                // What is behind the run may be data or not.
                Some(data) => (data.start / BLOCK, data.end.div_ceil(BLOCK)),
                None => (run.end, run.end),
            };
            let first = first.clamp(at, run.end);
            push(&mut survey.holes, at..first);
            at = end.clamp(first, run.end);
            push(&mut survey.data, first..at);
        }
    }
    survey
}

/// The digest of all of a file, holes unread; `None` where it cannot be read. A file that says it is empty
/// (/proc) is read all the same. `reads` hears of bytes as they are read.
pub(crate) fn digest_of_file(mut file: File, reads: impl Fn(u64)) -> Option<Digest> {
    let size = file.metadata().ok()?.len();
    let mut block = vec![0; BLOCK as usize];
    if size == 0 {
        let mut hasher = blake3::Hasher::new();
        loop {
            match file.read(&mut block).ok()? {
                0 => return Some(*hasher.finalize().as_bytes()),
                read => drop(hasher.update(&block[..read])),
            }
        }
    }
    let mut subtrees = Subtrees::new(size);
    let whole = 0..blocks(size);
    let Survey { holes, data } = survey(&file, size, std::slice::from_ref(&whole));
    holes.into_iter().for_each(|run| subtrees.insert_zeros(run));
    for index in data.into_iter().flatten() {
        let Range { start, end } = extent(index, size);
        let bytes = &mut block[..(end - start) as usize];
        file.read_exact_at(bytes, start).ok()?;
        reads(bytes.len() as u64);
        subtrees.insert(index, digest_of(bytes, index, size));
    }
    subtrees.root()
}

/// Appends a run, to the last where it follows that.
fn push(runs: &mut Vec<Range<u64>>, run: Range<u64>) {
    match runs.last_mut() {
        _ if run.is_empty() => {}
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a run of blocks is a range")]
mod tests {
    use std::io::{Seek, SeekFrom};

    use super::*;
    use crate::subtrees::values_of;

    /// A file of so many bytes with one at each of these places.
    fn file(size: u64, bytes: &[u64]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        bytes.iter().for_each(|at| file.write_all_at(b"x", *at).unwrap());
        file
    }

    #[test]
    fn blocks_in_holes_are_told_from_others() {
        let size = 9 * BLOCK + 5;
        let all = 0..blocks(size);
        // A byte takes a block of the file system, so those beside it may be data there too; not a mebibyte
        // away.
        let one = file(size, &[4 * BLOCK + 7]);
        assert_eq!(
            survey(&one, size, std::slice::from_ref(&all)),
            Survey { holes: vec![0..4, 5..10], data: vec![4..5] }
        );
        assert_eq!(survey(&one, size, &[1..3, 4..6]), Survey { holes: vec![1..3, 5..6], data: vec![4..5] });
        let ends = file(size, &[0, size - 1]);
        assert_eq!(survey(&ends, size, std::slice::from_ref(&all)).holes, [1..9]);
        let none = file(size, &[]);
        assert_eq!(survey(&none, size, std::slice::from_ref(&all)).holes, std::slice::from_ref(&all));
        // What cannot be asked is data.
        let (pipe, _writer) = std::io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        assert_eq!(survey(&pipe, size, std::slice::from_ref(&all)).data, [all]);
    }

    #[test]
    fn a_digest_is_of_the_bytes_whether_zeros_are_holes_or_not() {
        for (size, places) in [(9 * BLOCK + 5, vec![3 * BLOCK]), (BLOCK, vec![]), (5, vec![1]), (0, vec![])] {
            let holed = file(size, &places);
            let mut bytes = vec![0; size as usize];
            (&holed).seek(SeekFrom::Start(0)).unwrap();
            (&holed).read_exact(&mut bytes).unwrap();
            let full = tempfile::tempfile().unwrap();
            full.write_all_at(&bytes, 0).unwrap();
            let mut subtrees = Subtrees::new(size);
            for (value, index) in values_of(&bytes, 0, size).into_iter().zip(0..) {
                subtrees.insert(index, value);
            }
            (&holed).seek(SeekFrom::Start(0)).unwrap();
            let digests = [holed, full].map(|file| digest_of_file(file, |_| ()));
            assert_eq!(digests, [subtrees.root(); 2], "{size}");
        }
    }
}
