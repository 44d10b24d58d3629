//! What `weir get` is asked for, entry by entry and as often as it is needed: what the command line names,
//! the lines of the list, what hubs have named.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use weir_get::list::order;
use weir_get::list::text::{Lines, Text};
use weir_get::source::Bad;
use weir_store::buckets::Buckets;

use crate::args::Get;
use crate::cmd::get_jobs::{self, Wanted};
use crate::voice::Usage;

/// All that becomes files: what the command line names, the lines of the list, what hubs have named.
pub struct Entries {
    /// By the command line.
    pub named: Vec<Wanted>,
    /// Of each `-i`, in their order.
    pub lists: Vec<List>,
    /// By hubs.
    pub found: Vec<Wanted>,
    buckets: Arc<Buckets>,
    /// Each line is a pointer of git-lfs.
    pointers: bool,
}

/// A list of a run.
pub struct List {
    /// As the user names it.
    pub name: String,
    text: Arc<Text>,
    /// Of the text, once it has been read.
    pub digest: Vec<u8>,
}

impl List {
    fn open(list: &str) -> anyhow::Result<List> {
        let text = match list {
            "-" => Text::read(std::io::stdin().lock()),
            path => Text::open(Path::new(path)),
        };
        let text = text.with_context(|| format!("cannot read the list {list}"))?;
        Ok(List { name: list.to_owned(), text: Arc::new(text), digest: Vec::new() })
    }
}

/// An entry that is lent, or was read from a line.
pub enum Entry<'a> {
    /// By the command line.
    Named(&'a Wanted),
    /// By a line of the list.
    Line(Box<Wanted>),
    /// By a hub; the number among those.
    Found(usize, &'a Wanted),
}

impl Entry<'_> {
    /// What makes two entries one; no two of hubs are.
    pub fn key(&self) -> order::Key {
        match self {
            Entry::Found(index, _) => order::key(&("of a hub", index)),
            Entry::Named(one) => key_of(one),
            Entry::Line(one) => key_of(one),
        }
    }

    /// Of what a hub has named: its number.
    pub fn found_index(&self) -> Option<usize> {
        match self {
            Entry::Found(index, _) => Some(*index),
            Entry::Named(_) | Entry::Line(_) => None,
        }
    }
}

impl std::ops::Deref for Entry<'_> {
    type Target = Wanted;

    fn deref(&self) -> &Wanted {
        match self {
            Entry::Named(one) | Entry::Found(_, one) => one,
            Entry::Line(one) => one,
        }
    }
}

/// How far all entries have been read.
pub struct Pass {
    /// So many of those that the command line names.
    pub named: usize,
    /// What is left of the list at hand.
    lines: Option<Lines>,
    /// Of the lists that have been read to their ends.
    pub digests: Vec<Vec<u8>>,
    /// So many of those that hubs have named.
    pub found: usize,
}

/// A line that is for a hub to say.
pub struct OfHub {
    /// The text.
    pub text: String,
    /// What is to be called so.
    pub name: Option<String>,
    /// `LIST, line 3`.
    pub place: String,
}

impl Entries {
    /// Those of `get`, where `named` is what its command line names; hubs have named nothing yet.
    pub fn new(get: &Get, named: Vec<Wanted>, buckets: Arc<Buckets>) -> anyhow::Result<Entries> {
        let lists = get.list.iter().map(|list| List::open(list)).collect::<anyhow::Result<_>>()?;
        Ok(Entries { named, lists, found: Vec::new(), buckets, pointers: get.hubs.lfs.is_some() })
    }

    /// From the first.
    pub fn pass(&self) -> Pass {
        Pass { named: 0, lines: None, digests: Vec::new(), found: 0 }
    }

    /// The lists have been read to their ends.
    pub fn is_read(&mut self, pass: Pass) {
        for (list, digest) in self.lists.iter_mut().zip(pass.digests) {
            list.digest = digest;
        }
    }

    /// The next entry. `of_hub` is told of the lines on the way that are for a hub to say.
    pub fn next(
        &self,
        pass: &mut Pass,
        of_hub: &mut dyn FnMut(OfHub),
    ) -> anyhow::Result<Option<Result<Entry<'_>, Bad>>> {
        if let Some(one) = self.named.get(pass.named) {
            pass.named += 1;
            return Ok(Some(Ok(Entry::Named(one))));
        }
        while let Some(list) = self.lists.get(pass.digests.len()) {
            let lines = pass.lines.get_or_insert_with(|| list.text.lines());
            let line = lines.next().with_context(|| format!("cannot read the list {}", list.name))?;
            let Some(line) = line else {
                pass.digests.extend(pass.lines.take().map(Lines::digest));
                continue;
            };
            let Some(parsed) = get_jobs::parse_entry(&line, &self.buckets, self.pointers) else { continue };
            let place = || format!("{}, line {}", list.name, line.number);
            match parsed {
                Ok(get_jobs::Parsed::File(one)) => return Ok(Some(Ok(Entry::Line(one)))),
                Ok(get_jobs::Parsed::OfHub(text, name)) => of_hub(OfHub { text, name, place: place() }),
                Err(Usage(error)) => return Ok(Some(Err(Bad { place: place(), error }))),
            }
        }
        let one = self.found.get(pass.found).map(|one| Ok(Entry::Found(pass.found, one)));
        pass.found += 1;
        Ok(one)
    }
}

/// What makes two entries one: the same URL, but for its fragment, and the same name.
pub fn key_of(one: &Wanted) -> order::Key {
    let url = one.url.as_str();
    order::key(&(url.split('#').next().unwrap_or(url), &one.name, &one.output))
}
