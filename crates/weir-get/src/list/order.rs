//! What has to be known of a whole list before its first file is fetched: which entries are there twice, and
//! which would become one file.
//!
//! Up to [`EXACT`] entries that is found out as they come: a later file of a name gets the first number
//! behind it that is free. Of more entries 24 bytes each are sorted on the disk, and a later file gets the
//! number of files of its name before it (plus the number of all entries, as often as it takes, where an
//! entry has the numbered name). Both give the same names in each run of the same list.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;

use weir_http::filename::numbered;

use super::sort::{RECORD, Record, Sorted, Sorter};
use crate::filter::Filters;

/// Entries of which everything is kept in memory, 10 MB.
pub const EXACT: usize = 100_000;

/// What stands for an entry or a name: 128 bits, so that no two of a thousand million share one.
pub type Key = u128;

/// The key of `thing`.
pub fn key(thing: &impl Hash) -> Key {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        thing.hash(&mut hasher);
        Key::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

/// How an entry goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was there before.
    Twice,
    /// It keeps its name.
    Own,
    /// Its file gets this number behind its name.
    Numbered(usize),
}

/// Takes the entries of a list, once through.
#[derive(Default)]
pub struct Survey {
    entries: Sorter,
    names: Sorter,
    numbered: Numbered,
    count: usize,
}

/// Names that end with a number already.
type Numbered = Filters<BuildHasherDefault<DefaultHasher>, 16>;

impl Survey {
    /// The next entry: what makes it the same as another, and the file that it becomes, unless that is for
    /// the server to say.
    pub fn add(&mut self, entry: Key, target: Option<&Path>) -> io::Result<()> {
        self.entries.push(record(entry, self.count as u64))?;
        if let Some(target) = target {
            self.names.push(record(key(&target), self.count as u64))?;
            if looks_numbered(target) {
                self.numbered.add(&target);
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Entries so far.
    pub fn len(&self) -> usize {
        self.count
    }

    /// None so far.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All have been added. Returns how to take them, and how many there are, each counted once.
    pub fn end(self) -> io::Result<(Order, usize)> {
        let mut twice = Bits::new(self.count);
        let mut entries = self.entries.sorted()?;
        let mut last = None;
        while let Some(record) = entries.next()? {
            let (entry, index) = parts(&record);
            if last.replace(entry) == Some(entry) {
                twice.set(index);
            }
        }
        let once = self.count - twice.count;
        if self.count <= EXACT {
            return Ok((Order(Way::Exact(Exact::default())), once));
        }
        let mut names = self.names.sorted()?;
        let mut ranks = Sorter::default();
        let (mut last, mut rank) = (None, 0_u64);
        while let Some(record) = names.next()? {
            let (name, index) = parts(&record);
            if twice.has(index) {
                continue;
            }
            rank = if last.replace(name) == Some(name) { rank + 1 } else { 0 };
            if rank > 0 {
                ranks.push(self::record(Key::from(index) << 64 | Key::from(rank), 0))?;
            }
        }
        let (ranks, numbered) = (ranks.sorted()?, self.numbered);
        let long = Long { twice, ranks, numbered, count: self.count, at: 0 };
        Ok((Order(Way::Long(Box::new(long))), once))
    }
}

/// What becomes of each entry, in their order.
pub struct Order(Way);

enum Way {
    Exact(Exact),
    Long(Box<Long>),
}

#[derive(Default)]
struct Exact {
    seen: HashSet<Key>,
    taken: HashSet<Key>,
    numbers: HashMap<Key, usize>,
}

struct Long {
    twice: Bits,
    /// For each entry whose name was there before: its index, and how often.
    ranks: Sorted,
    numbered: Numbered,
    count: usize,
    at: usize,
}

impl Order {
    /// What becomes of the next entry, which has to be the one that [`Survey::add`] was told of in its turn.
    pub fn next(&mut self, entry: Key, target: Option<&Path>) -> io::Result<Verdict> {
        match &mut self.0 {
            Way::Exact(exact) => Ok(exact.next(entry, target)),
            Way::Long(long) => long.next(target),
        }
    }
}

impl Exact {
    fn next(&mut self, entry: Key, target: Option<&Path>) -> Verdict {
        if !self.seen.insert(entry) {
            return Verdict::Twice;
        }
        let Some(target) = target else { return Verdict::Own };
        let name = key(&target);
        if self.taken.insert(name) {
            return Verdict::Own;
        }
        let number = self.numbers.entry(name).or_default();
        loop {
            *number += 1;
            if self.taken.insert(key(&&*numbered(target, *number))) {
                return Verdict::Numbered(*number);
            }
        }
    }
}

impl Long {
    fn next(&mut self, target: Option<&Path>) -> io::Result<Verdict> {
        let index = self.at as u64;
        if self.at >= self.count {
            return Err(io::Error::other("it grew while it was read"));
        }
        self.at += 1;
        if self.twice.has(index) {
            return Ok(Verdict::Twice);
        }
        let rank = |record: &Record| {
            let (both, _) = parts(record);
            ((both >> 64) as u64, both as u64 as usize)
        };
        let Some((_, rank)) = self.ranks.peek().map(rank).filter(|(of, _)| *of == index) else {
            return Ok(Verdict::Own);
        };
        self.ranks.next()?;
        let mut number = rank;
        if let Some(target) = target {
            while self.numbered.may_have(&&*numbered(target, number)) {
                number += self.count;
            }
        }
        Ok(Verdict::Numbered(number))
    }
}

fn record(key: Key, index: u64) -> Record {
    let mut record = [0; RECORD];
    record[..16].copy_from_slice(&key.to_be_bytes());
    record[16..].copy_from_slice(&index.to_be_bytes());
    record
}

fn parts(record: &Record) -> (Key, u64) {
    let (mut key, mut index) = ([0; 16], [0; 8]);
    key.copy_from_slice(&record[..16]);
    index.copy_from_slice(&record[16..]);
    (Key::from_be_bytes(key), u64::from_be_bytes(index))
}

/// `NAME.7`, which a number behind NAME would give as well.
fn looks_numbered(target: &Path) -> bool {
    let digits = target.extension().map(|extension| extension.as_encoded_bytes());
    digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

/// A bit for each entry.
struct Bits {
    words: Vec<u64>,
    count: usize,
}

impl Bits {
    fn new(bits: usize) -> Bits {
        Bits { words: vec![0; bits.div_ceil(64)], count: 0 }
    }

    /// Not called twice for a bit.
    fn set(&mut self, bit: u64) {
        if let Some(word) = self.words.get_mut((bit / 64) as usize) {
            *word |= 1 << (bit % 64);
            self.count += 1;
        }
    }

    fn has(&self, bit: u64) -> bool {
        self.words.get((bit / 64) as usize).is_some_and(|word| word & 1 << (bit % 64) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of these entries, each of a URL and a name.
    fn order_of(entries: &[(String, String)]) -> (Vec<Verdict>, usize) {
        let mut survey = Survey::default();
        for (url, name) in entries {
            survey.add(key(url), Some(Path::new(name))).unwrap();
        }
        let (mut order, once) = survey.end().unwrap();
        let next = |(url, name): &(String, String)| order.next(key(url), Some(Path::new(name))).unwrap();
        (entries.iter().map(next).collect(), once)
    }

    fn entries(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(url, name)| ((*url).to_owned(), (*name).to_owned())).collect()
    }

    const ODD: &[(&str, &str)] = &[
        ("1", "x.bin"),
        ("2", "x.bin"),
        ("1", "x.bin"),
        ("3", "x.bin"),
        ("4", "x.bin.1"),
        ("5", "y"),
        ("5", "y"),
        ("6", "x.bin"),
    ];

    #[test]
    fn few_entries_get_the_first_free_number() {
        use Verdict::{Numbered, Own, Twice};
        let found = order_of(&entries(ODD));
        let expected = vec![Own, Numbered(1), Twice, Numbered(2), Numbered(1), Own, Twice, Numbered(3)];
        assert_eq!(found, (expected, 6));
    }

    #[test]
    fn of_many_entries_none_becomes_anothers_file() {
        let mut all = entries(ODD);
        all.extend((0..EXACT).map(|number| (format!("u{number}"), format!("n.{}", number / 2))));
        all.extend((0..1000).map(|number| (format!("v{number}"), "n".to_owned())));
        let (verdicts, once) = order_of(&all);
        assert_eq!((once, verdicts[2], verdicts[6]), (all.len() - 2, Verdict::Twice, Verdict::Twice));
        let mut names = HashSet::new();
        for ((_, name), verdict) in all.iter().zip(&verdicts) {
            let path = match verdict {
                Verdict::Twice => continue,
                Verdict::Own => name.into(),
                Verdict::Numbered(number) => numbered(Path::new(name), *number),
            };
            assert!(names.insert(path), "{name} {verdict:?}");
        }
        assert_eq!(verdicts[4], Verdict::Own, "a name in the list is its own line's");
        assert_eq!(order_of(&all).0, verdicts, "the same in each run");
    }
}
