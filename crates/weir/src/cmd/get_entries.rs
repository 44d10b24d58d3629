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
    /// `-i`.
    pub list: Option<List>,
    /// By hubs.
    pub found: Vec<Wanted>,
    buckets: Arc<Buckets>,
    /// Each line is a pointer of git-lfs.
    pointers: bool,
}

/// The list of a run.
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
    /// What is left of the list.
    pub lines: Option<Lines>,
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
        let list = get.list.as_deref().map(List::open).transpose()?;
        Ok(Entries { named, list, found: Vec::new(), buckets, pointers: get.hubs.lfs.is_some() })
    }

    /// From the first.
    pub fn pass(&self) -> Pass {
        Pass { named: 0, lines: self.list.as_ref().map(|list| list.text.lines()), found: 0 }
    }

    /// The list has been read to its end.
    pub fn is_read(&mut self, pass: Pass) {
        if let (Some(list), Some(lines)) = (&mut self.list, pass.lines) {
            list.digest = lines.digest();
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
        let list = self.list.as_ref().map_or("", |list| &list.name);
        while let Some(lines) = &mut pass.lines {
            let line = lines.next().with_context(|| format!("cannot read the list {list}"))?;
            let Some(line) = line else { break };
            let Some(parsed) = get_jobs::parse_entry(&line, &self.buckets, self.pointers) else { continue };
            let place = || format!("{list}, line {}", line.number);
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
