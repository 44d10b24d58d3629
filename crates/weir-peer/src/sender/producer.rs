//! The walk: from entries of a tree to batches and offers.

use std::sync::atomic::Ordering::Relaxed;

use weir_tree::walk::{Root, Wanted};
use weir_tree::{Entry, Kind, Source, Step, Walk};

use super::queue::Item;
use super::{SMALL, Sender, Waiting};
use crate::wire::message::{Failure, FailureKind, Message, Offered, Problem};

/// Offers that go into one message: their answers come back while the next are found.
const OFFERS: usize = 256;

impl Sender {
    pub(super) fn walk(&self, roots: Vec<Root>) {
        let archive = self.options.archive;
        let wanted = Wanted { xattrs: archive, hard_links: archive, one_file_system: false, avoid: None };
        let mut offers = Vec::new();
        for step in Walk::new(roots, self.options.filter.clone(), wanted) {
            let Some(number) = self.queue.number_or(|| self.offer(&mut offers)) else { return };
            match step {
                Step::Found(entry, source) => self.found(number, entry, source, &mut offers),
                Step::Leave(entry) => self.queue.defer(Item { number, entry, source: None, last: true }),
                Step::Failed(name, error) => {
                    let kind = if error.is_gone() { FailureKind::Changed } else { FailureKind::Local };
                    self.problem(name, Failure::new(kind, error.to_string()));
                    self.queue.settle(number);
                }
            }
        }
        self.offer(&mut offers);
        self.queue.exhausted();
    }

    fn found(&self, number: u64, entry: Entry, source: Source, offers: &mut Vec<Offered>) {
        self.found.fetch_add(entry.size(), Relaxed);
        match &entry.kind {
            Kind::File { size, .. } if *size <= SMALL && !self.asks_first() => {
                self.queue.push_item(Item { number, entry, source: Some(source), last: false });
            }
            Kind::File { .. } => {
                let id = self.next_id();
                offers.push(Offered { id, entry: entry.clone(), digest: None });
                self.files().offered.insert(id, Waiting { number, entry, source, attempt: 1 });
                if offers.len() >= OFFERS || !self.asks_first() {
                    self.offer(offers);
                }
            }
            Kind::Directory | Kind::Symlink { .. } => {
                self.queue.push_item(Item { number, entry, source: None, last: false });
            }
            Kind::HardLink { .. } => self.queue.defer(Item { number, entry, source: None, last: false }),
            Kind::Special(special) => {
                let words = format!("{} is {} and is not copied", entry.name, special.words());
                let failure = Failure::new(FailureKind::Local, words);
                self.events.problem(Problem { name: entry.name, failure, harmless: true });
                self.queue.settle(number);
            }
        }
    }

    /// Whether the receiver decides about each file.
    fn asks_first(&self) -> bool {
        self.options.update || self.options.checksum || self.options.dry_run
    }

    fn offer(&self, offers: &mut Vec<Offered>) {
        if !offers.is_empty() {
            self.control.send(&Message::Offer(std::mem::take(offers)));
        }
    }
}
