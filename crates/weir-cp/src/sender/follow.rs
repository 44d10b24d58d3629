//! What is sent where nothing is walked: what comes to this host, as it comes.
//!
//! Of a file that grows here the blocks that have arrived are sent, in the order of arrival; its end is told
//! once it has its name here, with the digest that the source gave it, if what was sent gives that too.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use weir_tree::{Entry, Kind, Name, Source};

use super::job::Item;
use super::offers::{Offers, Waiting};
use super::shared::Shared;
use super::source::SourceFile;
use super::walk::{Outgoing, REST};
use crate::counts::raise;
use crate::descriptors;
use crate::error::CopyError;
use crate::events::Event;
use crate::feed::{Fed, Feed, FeedOutcome, FeedPlace, Growing};
use crate::subtrees::Digest;
use crate::vouched;
use crate::wire::message::{Failure, FailureKind};
use crate::wire::to_receiver::Offered;

/// Things that are taken from the feed at a time.
const TAKEN: usize = 256;

/// Sends on what a feed has.
pub(super) struct Follower {
    pub(super) shared: Arc<Shared>,
    pub(super) offers: Arc<Offers>,
    pub(super) feed: Arc<Feed>,
}

/// How far it is.
struct Followed {
    /// Things that were taken from the feed.
    seen: usize,
    active: Vec<Active>,
    outgoing: Outgoing,
    /// The folders of files that wait to be read, as in a walk.
    open: HashMap<*const OwnedFd, Weak<OwnedFd>>,
    most_open: usize,
    /// What the sources are called on this host.
    here: Vec<Name>,
    /// And where they go.
    there: Vec<Name>,
}

/// A file that grows here and was offered.
struct Active {
    id: u64,
    growing: Arc<Growing>,
    file: Option<Arc<SourceFile>>,
    /// Runs of blocks that have arrived and were looked at.
    seen: usize,
}

impl Follower {
    /// Until all has come, or it is over.
    pub(super) fn follow(&self, names: &[Name]) {
        let mut version = 0;
        let place = loop {
            if self.shared.is_over() {
                return;
            }
            match self.feed.place() {
                Some(place) => break place,
                None => version = self.feed.wait(version, REST),
            }
        };
        if place.roots.len() != names.len() {
            let error = self.shared.events.out_of_turn("where other sources go");
            return self.shared.events.send(Event::Failed(error));
        }
        let mut followed = Followed {
            seen: 0,
            active: Vec::new(),
            outgoing: Outgoing::default(),
            open: HashMap::new(),
            most_open: descriptors::for_folders(),
            here: place.roots,
            there: names.to_vec(),
        };
        while !self.shared.is_over() {
            if let Some(failure) = self.feed.lacking() {
                return self.shared.events.send(Event::Failed(CopyError::Refused(failure)));
            }
            self.take_items(&mut followed);
            followed.active.retain_mut(|active| self.serve(active));
            followed.outgoing.send(&self.shared);
            if let Some(failed) = self.feed.finished_after(followed.seen)
                && followed.active.is_empty()
            {
                self.shared.failed_before.fetch_or(failed, Relaxed);
                return self.shared.queue.exhausted();
            }
            version = self.feed.wait(version, REST);
        }
    }

    /// The room that is left.
    fn take_items(&self, followed: &mut Followed) {
        let Some(place) = self.feed.place() else { return };
        loop {
            let items = self.feed.items_since(followed.seen, TAKEN);
            if items.is_empty() {
                return;
            }
            for item in items {
                let may_open = self.may_open(followed);
                if !may_open || !self.shared.queue.has_room() || !self.offers.has_place() {
                    return;
                }
                followed.seen += 1;
                if let Err(failure) = self.take(item, &place, followed) {
                    return self.feed.lacks(&failure);
                }
            }
        }
    }

    /// Whether files that wait to be read keep few enough folders open.
    fn may_open(&self, followed: &mut Followed) -> bool {
        if followed.open.len() >= followed.most_open {
            followed.outgoing.send(&self.shared);
            followed.open.retain(|_, open| open.strong_count() > 0);
        }
        followed.open.len() < followed.most_open
    }

    fn take(&self, item: Fed, place: &FeedPlace, followed: &mut Followed) -> Result<(), Failure> {
        // Only this thread takes numbers, and has looked whether there is one.
        let Some(number) = self.shared.queue.number_or(|| ()) else { return Ok(()) };
        match item {
            Fed::Leave(entry, keep) => {
                let entry = followed.renamed(entry)?;
                self.shared.queue.defer(Item { number, entry, source: None, last: true, keep, due: None });
            }
            Fed::There { entry, digest, offered } if entry.is_file() => {
                let source = place.target.source_of(&entry.name, None).map_err(Failure::local)?;
                let entry = followed.renamed(entry)?;
                self.found(&entry);
                followed.holds(&source);
                if self.shared.options.in_blocks(&entry) || self.shared.options.asks_first() {
                    let attempt = 1;
                    let waiting = Waiting { number, entry, source, attempt, growing: None, due: digest };
                    self.offer(waiting, offered, followed);
                } else {
                    let source = Some(source);
                    let item = Item { number, entry, source, last: false, keep: None, due: digest };
                    self.shared.queue.push_item(item);
                }
            }
            Fed::There { entry, .. } => {
                let entry = followed.renamed(entry)?;
                let is_link = matches!(entry.kind, Kind::HardLink { .. });
                let item = Item { number, entry, source: None, last: false, keep: None, due: None };
                match is_link {
                    true => self.shared.queue.defer(item),
                    false => self.shared.queue.push_item(item),
                }
            }
            Fed::Growing(growing) if growing.outcome() == Some(FeedOutcome::Gone) => {
                self.shared.queue.settle(&[number]);
            }
            Fed::Growing(growing) => {
                let open = growing.open();
                let source = place.target.source_of(&growing.entry.name, open.as_ref());
                let source = source.map_err(Failure::local)?;
                let entry = followed.renamed(growing.entry.clone())?;
                self.found(&entry);
                followed.holds(&source);
                let of_source = growing.offered;
                let again = Some(Arc::clone(&growing));
                let waiting = Waiting { number, entry, source, attempt: 1, growing: again, due: None };
                let id = self.offer(waiting, of_source, followed);
                followed.active.push(Active { id, growing, file: None, seen: 0 });
            }
        }
        Ok(())
    }

    fn found(&self, entry: &Entry) {
        raise(&self.shared.found_bytes, entry.size());
        self.shared.found_files.fetch_add(1, Relaxed);
    }

    fn offer(&self, waiting: Waiting, digest: Option<Digest>, followed: &mut Followed) -> u64 {
        let entry = waiting.entry.clone();
        if self.shared.options.in_blocks(&entry) {
            self.offers.count_place();
        }
        let id = self.offers.expect(waiting);
        followed.outgoing.push(Offered { id, entry, digest });
        if followed.outgoing.are_enough() {
            followed.outgoing.send(&self.shared);
        }
        id
    }

    /// Sends what has arrived of a file; false where there is nothing more to do for it.
    fn serve(&self, active: &mut Active) -> bool {
        let file = match self.offers.under_way(active.id) {
            Ok(file) => active.file.get_or_insert(file),
            // Not wanted, refused or done, unless the answer has not come.
            Err(is_offered) => return is_offered,
        };
        let outcome = active.growing.outcome();
        if file.goes_whole() {
            if active.seen == 0 && matches!(outcome, Some(FeedOutcome::Stored(_))) {
                active.seen = 1;
                self.shared.queue.push_file(Arc::clone(file), file.missing());
            }
        } else {
            let arrived = active.growing.arrived_since(active.seen);
            active.seen += arrived.len();
            for index in arrived.into_iter().flatten().filter(|index| file.is_wanted(*index)) {
                self.shared.queue.push_more(file, index..index + 1);
            }
        }
        if outcome.is_some() {
            self.offers.conclude(file);
        }
        !file.has_ended()
    }
}

impl Followed {
    /// The entry as it is to be called where it goes.
    fn renamed(&self, mut entry: Entry) -> Result<Entry, Failure> {
        entry.name = self.name_there(&entry.name)?;
        if let Kind::HardLink { to } = &mut entry.kind {
            *to = self.name_there(to)?;
        }
        Ok(entry)
    }

    fn name_there(&self, name: &Name) -> Result<Name, Failure> {
        let found = vouched::name_of(&self.here, name);
        let there = found.and_then(|found| vouched::named(&self.there, &found));
        there.ok_or_else(|| Failure::new(FailureKind::Session, format!("{name} is of no source")))
    }

    /// A file that waits keeps its folder open.
    fn holds(&mut self, source: &Source) {
        let folder = source.folder();
        self.open.insert(folder.as_ptr(), folder);
    }
}
