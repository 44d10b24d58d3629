//! The walk: from entries of a tree to batches and offers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use weir_tree::entry::Special;
use weir_tree::walk::{Root, Wanted};
use weir_tree::{Entry, Kind, Name, Source, Step, TreeError, Walk};

use super::job::Item;
use super::offers::{Offers, Waiting};
use super::removal::Removal;
use super::shared::Shared;
use super::twice::Twice;
use crate::counts::raise;
use crate::descriptors;
use crate::holes::digest_of_file;
use crate::list::Names;
use crate::subtrees::Digest;
use crate::wire::batch::Keep;
use crate::wire::message::{Failure, FailureKind, Options, Problem};
use crate::wire::modes;
use crate::wire::to_receiver::{Offered, ToReceiver};

/// Offers that go into one message: their answers come back while the next are found.
const OFFERS: usize = 256;

/// Bytes of entries from which on a message of offers goes: with one entry more, whose attributes are 512 KiB
/// at most, it fits.
const OFFERED: usize = 256 << 10;

/// Bytes of names in one part of what a folder holds.
const KEEP: usize = 256 << 10;

/// What the owner of a folder needs to put something into it: mode bits.
const OWNERS: u32 = 0o700;

/// The longest that a walk waits without looking whether it is over.
pub(super) const REST: Duration = Duration::from_millis(100);

/// What a note that nothing is deleted says last, where that helps.
const WAY_OUT: &str = "--ignore-errors deletes in spite of it";

/// A folder on the way down, and what is in it.
struct FolderNames {
    name: Name,
    /// Last components.
    names: Vec<Vec<u8>>,
    /// They are all that is in it.
    is_whole: bool,
}

/// What a walk gathers on its way.
#[derive(Default)]
struct Gathered {
    offers: Outgoing,
    /// With `--delete`: the folders on the way down.
    folders: Vec<FolderNames>,
    /// The folders of what was found, as far as files that wait to be read keep them open; each once, however
    /// often the walk comes back to it. Whose allocation a `Weak` holds has an address that no other has.
    open: HashMap<*const OwnedFd, Weak<OwnedFd>>,
    /// What sources are called that were named themselves: one that cannot be copied has failed, in a folder
    /// it is passed over.
    named: Vec<Name>,
    /// A folder may be met more than once: two sources have it, or a list comes back to it.
    revisits: bool,
    /// Then those folders whose own mode lets nothing be put into them, by name: they get it at the end, what
    /// is in them first.
    closed: BTreeMap<Name, Entry>,
    /// Names come from a list, which may have one twice.
    listed: bool,
    /// Why nothing is deleted from here on: something could not be read, and may only be hidden.
    withheld: Option<String>,
    /// That was told.
    is_told: bool,
    /// The file system of the source that the walk is in.
    device: Option<u64>,
    /// Files that were passed over for their size: their second names are, too.
    passed: HashSet<Name>,
}

impl FolderNames {
    /// Of a folder of which nothing has been met.
    fn of(name: &Name) -> FolderNames {
        FolderNames { name: name.clone(), names: Vec::new(), is_whole: true }
    }
}

impl Gathered {
    /// Something was not read. Of a folder it is not known what is in it; anything else is in its folder,
    /// unless it `has_vanished`.
    fn lacks(&mut self, name: &Name, has_vanished: bool) {
        match self.folders.last_mut() {
            Some(folder) if folder.name == *name => folder.is_whole = false,
            Some(folder) if !has_vanished && name.parent().as_ref() == Some(&folder.name) => {
                folder.names.push(name.last().to_vec());
            }
            _ => {}
        }
    }
}

/// What the next message offers.
#[derive(Default)]
pub(super) struct Outgoing {
    files: Vec<Offered>,
    /// Bytes that their entries take.
    size: usize,
}

impl Outgoing {
    pub(super) fn push(&mut self, offer: Offered) {
        self.size += offer.entry.packed_len();
        self.files.push(offer);
    }

    /// Offers what is there.
    pub(super) fn send(&mut self, shared: &Shared) {
        let Outgoing { files, .. } = std::mem::take(self);
        if !files.is_empty() {
            shared.receiver.send(&ToReceiver::Offer(files));
        }
    }

    pub(super) fn are_enough(&self) -> bool {
        self.files.len() >= OFFERS || self.size >= OFFERED
    }
}

/// Goes through the sources.
pub(super) struct Walker {
    pub(super) shared: Arc<Shared>,
    pub(super) offers: Arc<Offers>,
    pub(super) removal: Arc<Removal>,
}

impl Walker {
    /// All of the sources, or what a list names in the only one.
    pub(super) fn walk(&self, roots: Vec<Root>, names: Option<Names>) {
        let named = roots.iter().map(|root| root.name.clone()).filter(|name| !name.is_root()).collect();
        let listed = names.is_some();
        let revisits = listed || roots.len() > 1 && roots.iter().any(|root| root.name.is_root());
        let withheld = self.withheld_at_first(&roots);
        let mut gathered = Gathered { named, revisits, listed, withheld, ..Gathered::default() };
        let twice = Twice::of(&roots);
        let folders = descriptors::for_folders();
        let avoid = self.shared.avoid.get().copied();
        let wanted = Wanted { avoid, ..self.shared.options.walks_for() };
        let mut walk = walk_of(&self.shared.options, roots, names, wanted);
        while let Some(mut step) = walk.next() {
            self.dress(&mut step);
            let Some(number) = self.shared.queue.number_or(|| self.offer(&mut gathered.offers)) else {
                return;
            };
            match step {
                Step::Found(entry, source) if !self.may_hold(number, &source, folders, &mut gathered) => {
                    return drop(entry);
                }
                Step::Found(entry, source) => match twice.check(&entry, walk.roots_left()) {
                    Ok(()) => self.found(number, entry, source, &mut gathered),
                    Err(failure) => {
                        self.shared.lose(&entry, number);
                        self.shared.problem(entry.name, failure);
                        self.shared.queue.settle(&[number]);
                    }
                },
                Step::Leave(entry) => self.leave(number, entry, &mut gathered),
                Step::Failed(name, error) => {
                    self.failed(name, &error, &mut gathered);
                    self.shared.queue.settle(&[number]);
                }
            }
        }
        self.offer(&mut gathered.offers);
        for (_, entry) in std::mem::take(&mut gathered.closed).into_iter().rev() {
            let Some(number) = self.shared.queue.number_or(|| ()) else { return };
            self.shared.queue.defer(Item { number, entry, source: None, last: true, keep: None, due: None });
        }
        self.shared.queue.exhausted();
    }

    /// Why nothing is deleted at all. What a missing source has at the target is not to go; where the content
    /// of another goes into the same folder, that would take it away.
    fn withheld_at_first(&self, roots: &[Root]) -> Option<String> {
        let why = "not all sources could be read";
        let is_shared = roots.iter().any(|root| root.name.is_root());
        match self.shared.events.has_failed() {
            true if is_shared => Some(why.to_owned()),
            true if !self.shared.options.selection.ignore_errors => Some(format!("{why}; {WAY_OUT}")),
            _ => None,
        }
    }

    /// Something could not be read. What has vanished is as good as never there.
    fn failed(&self, name: Name, error: &TreeError, gathered: &mut Gathered) {
        let has_vanished = matches!(error, TreeError::Vanished { .. });
        gathered.lacks(&name, has_vanished);
        let failure = Failure::of_source(error);
        if has_vanished {
            return self.shared.vanished(name, failure);
        }
        if gathered.withheld.is_none() && !self.shared.options.selection.ignore_errors {
            gathered.withheld = Some(format!("not all of the source could be read: {error}; {WAY_OUT}"));
        }
        self.shared.unread(name, failure);
    }

    /// Modes as the user wants them to arrive.
    fn dress(&self, step: &mut Step) {
        let changes = &self.shared.options.selection.modes;
        if let Step::Found(entry, _) | Step::Leave(entry) = step
            && !changes.is_empty()
            && !matches!(entry.kind, Kind::Symlink { .. })
        {
            entry.mode = modes::changed(changes, entry.mode, entry.is_directory());
        }
    }

    /// Waits while files that are not read yet keep too many folders open; false when it is over. Those that
    /// the walk itself is in are not waited for: nothing but `number` is under way then.
    fn may_hold(&self, number: u64, source: &Source, folders: usize, gathered: &mut Gathered) -> bool {
        let folder = source.folder();
        if gathered.open.contains_key(&folder.as_ptr()) {
            return true;
        }
        if gathered.open.len() >= folders {
            self.offer(&mut gathered.offers);
            gathered.open.retain(|_, open| open.strong_count() > 0);
            while gathered.open.len() >= folders && self.shared.queue.rest_beside(number) {
                gathered.open.retain(|_, open| open.strong_count() > 0);
            }
        }
        gathered.open.insert(folder.as_ptr(), folder);
        !self.shared.is_over()
    }

    fn found(&self, number: u64, entry: Entry, source: Source, gathered: &mut Gathered) {
        if gathered.listed && self.shared.options.in_blocks(&entry) && self.offers.is_under_way(&entry.name) {
            return self.shared.queue.settle(&[number]);
        }
        if let Some(folder) = gathered.folders.last_mut()
            && entry.name.parent().as_ref() == Some(&folder.name)
        {
            folder.names.push(entry.name.last().to_vec());
        }
        if self.is_passed_over(&entry, gathered) {
            return self.shared.queue.settle(&[number]);
        }
        raise(&self.shared.found_bytes, entry.size());
        self.shared.found_files.fetch_add(entry.is_file().into(), Relaxed);
        let item = |entry, source| Item { number, entry, source, last: false, keep: None, due: None };
        // What goes once it has arrived is found again by where it was.
        let kept = |source: Source| self.removal.removes().then_some(source);
        match &entry.kind {
            Kind::File { .. }
                if !self.shared.options.in_blocks(&entry) && !self.shared.options.asks_first() =>
            {
                self.shared.queue.push_item(item(entry, Some(source)));
            }
            Kind::File { .. } => self.offer_file(number, entry, source, &mut gathered.offers),
            Kind::Directory | Kind::Symlink { .. } => {
                // Of what is mounted there nothing is read with `-x`: what is to stay of it is not known.
                let is_read = !entry.is_directory() || self.is_read(&entry, &source, gathered);
                if entry.is_directory() && self.shared.options.delete && is_read {
                    gathered.folders.push(FolderNames::of(&entry.name));
                }
                let source = if entry.is_directory() { None } else { kept(source) };
                self.shared.queue.push_item(item(entry, source));
            }
            Kind::HardLink { .. } => self.shared.queue.defer(item(entry, kept(source))),
            Kind::Special(special) if self.shared.options.asks_for(*special) => {
                self.shared.queue.push_item(item(entry, kept(source)));
            }
            Kind::Special(special) => {
                let is_named = gathered.named.contains(&entry.name);
                let way_out = match special {
                    Special::Fifo if is_named => {
                        "; write what comes through it to a file, or 'weir put - URL' sends it to a store"
                    }
                    _ => "",
                };
                let words = format!("{} is {} and is not copied{way_out}", entry.name, special.words());
                let failure = Failure::new(FailureKind::Local, words);
                match is_named {
                    true => self.shared.unread(entry.name, failure),
                    false => {
                        self.shared.events.problem(Problem { name: entry.name, failure, harmless: true })
                    }
                }
                self.shared.queue.settle(&[number]);
            }
        }
    }

    /// Whether an entry is found, and not to be copied: by its size, or a link by where it leads.
    fn is_passed_over(&self, entry: &Entry, gathered: &mut Gathered) -> bool {
        let selection = &self.shared.options.selection;
        let passes = match &entry.kind {
            Kind::HardLink { to } => gathered.passed.contains(to),
            _ => selection.passes_over(entry),
        };
        if passes && entry.is_file() && self.shared.options.archive {
            gathered.passed.insert(entry.name.clone());
        }
        if passes && let Kind::Symlink { .. } = entry.kind {
            let words = format!("{} points outside the copied tree and is skipped", entry.name);
            let failure = Failure::new(FailureKind::Local, words);
            self.shared.events.problem(Problem { name: entry.name.clone(), failure, harmless: true });
        }
        passes
    }

    /// Whether the walk goes into a folder: the first one of a source tells what file system that is on.
    fn is_read(&self, entry: &Entry, source: &Source, gathered: &mut Gathered) -> bool {
        let device = source.identity().device;
        if entry.name.is_root() || gathered.named.contains(&entry.name) {
            gathered.device = Some(device);
        }
        !self.shared.options.selection.one_file_system || gathered.device.is_none_or(|own| own == device)
    }

    fn offer_file(&self, number: u64, entry: Entry, source: Source, offers: &mut Outgoing) {
        let options = &self.shared.options;
        if options.in_blocks(&entry) && !self.offers.take_place(|| self.offer(offers)) {
            return;
        }
        // What is removed once it has arrived is copied anew, whatever is there.
        let is_compared = options.checksum && !options.selection.remove_source_files;
        let digest = if is_compared { digest(&source, &entry) } else { None };
        let offered = entry.clone();
        let id = self.offers.expect(Waiting { number, entry, source, attempt: 1, growing: None, due: None });
        offers.push(Offered { id, entry: offered, digest });
        if offers.are_enough() || !options.asks_first() {
            self.offer(offers);
        }
    }

    /// A folder's attributes come after all that is in it; with `--delete` what else is there goes then.
    fn leave(&self, number: u64, entry: Entry, gathered: &mut Gathered) {
        if gathered.revisits && entry.mode & OWNERS != OWNERS {
            gathered.closed.insert(entry.name.clone(), entry);
            return self.shared.queue.settle(&[number]);
        }
        let folder = match gathered.folders.last() {
            Some(folder) if folder.name == entry.name => gathered.folders.pop(),
            _ => None,
        };
        let Some(names) = folder.and_then(|folder| self.to_keep(folder, gathered)) else {
            return self.shared.queue.defer(Item {
                number,
                entry,
                source: None,
                last: true,
                keep: None,
                due: None,
            });
        };
        let mut parts = parts(names).into_iter().peekable();
        let mut number = Some(number);
        while let Some(names) = parts.next() {
            let more = parts.peek().is_some();
            let Some(this) =
                number.take().or_else(|| self.shared.queue.number_or(|| self.offer(&mut gathered.offers)))
            else {
                return;
            };
            let keep = Some(Keep { names, more });
            self.shared.queue.defer(Item {
                number: this,
                entry: entry.clone(),
                source: None,
                last: true,
                keep,
                due: None,
            });
        }
    }

    /// All that is in a folder, where what else the target has in it may go.
    fn to_keep(&self, folder: FolderNames, gathered: &mut Gathered) -> Option<Vec<Vec<u8>>> {
        let Some(why) = &gathered.withheld else {
            return folder.is_whole.then_some(folder.names);
        };
        if !std::mem::replace(&mut gathered.is_told, true) {
            let words = format!("nothing was deleted from {} on, since {why}", folder.name);
            let failure = Failure::new(FailureKind::Local, words);
            self.shared.events.problem(Problem { name: folder.name, failure, harmless: true });
        }
        None
    }

    fn offer(&self, offers: &mut Outgoing) {
        offers.send(&self.shared);
    }
}

/// Through all of the sources, or through what a list names in the only one.
pub(crate) fn walk_of(options: &Options, roots: Vec<Root>, names: Option<Names>, wanted: Wanted) -> Walk {
    let filter = options.filter.clone();
    match (names, &roots[..]) {
        (Some(names), [root]) => Walk::listed(root.path.clone(), names.map(Ok), filter, wanted),
        _ => Walk::new(roots, filter, wanted),
    }
}

/// Names in parts that fit a batch; one part at least.
fn parts(names: Vec<Vec<u8>>) -> Vec<Vec<Vec<u8>>> {
    let mut parts = vec![Vec::new()];
    let mut size = 0;
    for name in names {
        size += name.len() + 4;
        if size > KEEP {
            parts.push(Vec::new());
            size = 0;
        }
        if let Some(part) = parts.last_mut() {
            part.push(name);
        }
    }
    parts
}

/// The digest of a file's content; `None` where it cannot be read, which sending it will say.
fn digest(source: &Source, entry: &Entry) -> Option<Digest> {
    digest_of_file(source.open(entry).ok()?, |_| ())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver as Mailbox, channel};

    use super::*;
    use crate::control::{Control, Outlet};
    use crate::events::{Event, Events};
    use crate::secret::Secret;
    use crate::secure::Keyring;
    use crate::sender::Sender;
    use crate::speeds::Speeds;
    use crate::wire::selection::Selection;

    /// A walker that deletes, and what it tells.
    fn walker(ignore_errors: bool) -> (Walker, Mailbox<Event>) {
        let (mailbox, told) = channel();
        let receiver = Outlet::new(&Arc::new(Control::new(std::io::sink())));
        let events = Events::new("the receiver", mailbox);
        let selection = Selection { ignore_errors, ..Selection::default() };
        let options = Options { delete: true, selection, ..Options::default() };
        let keyring = Keyring::new(&Secret::draw().unwrap(), None);
        let sender = Sender::new(receiver, events, options, keyring, (Vec::new(), &Speeds::default()));
        let (shared, offers) = (Arc::clone(&sender.shared), Arc::clone(&sender.offers));
        (Walker { shared, offers, removal: Arc::clone(&sender.removal) }, told)
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// In a folder `dir` of the source.
    fn gathered() -> Gathered {
        let folders = [Name::root(), name("dir")].iter().map(FolderNames::of).collect();
        Gathered { folders, ..Gathered::default() }
    }

    /// What is to stay in each of the folders on the way down, the innermost first.
    fn kept(walker: &Walker, gathered: &mut Gathered) -> Vec<Option<Vec<Vec<u8>>>> {
        let folders = std::mem::take(&mut gathered.folders);
        folders.into_iter().rev().map(|folder| walker.to_keep(folder, gathered)).collect()
    }

    /// Words that were told, and whether they are harmless.
    fn told(told: &Mailbox<Event>) -> Vec<(String, bool)> {
        told.try_iter()
            .map(|event| match event {
                Event::Problem(problem) => (problem.failure.words, problem.harmless),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn what_has_vanished_is_noted_and_holds_nothing_back() {
        let (walker, mailbox) = walker(false);
        let fail = |text: &str, gathered: &mut Gathered| {
            walker.failed(name(text), &TreeError::Vanished { name: name(text) }, gathered);
        };
        let mut of_file = gathered();
        fail("dir/x", &mut of_file);
        assert_eq!(kept(&walker, &mut of_file), [Some(Vec::new()), Some(Vec::new())]);
        // Of a folder that could be opened no more it is not known what was in it.
        let mut of_folder = gathered();
        fail("dir", &mut of_folder);
        assert_eq!(kept(&walker, &mut of_folder), [None, Some(Vec::new())]);
        let words = |name: &str| (format!("{name} vanished while the tree was read"), true);
        assert_eq!(told(&mailbox), [words("dir/x"), words("dir")]);
        assert!(!walker.shared.events.has_failed());
    }

    #[test]
    fn what_cannot_be_read_holds_back_all_that_follows_and_is_said_once() {
        let (walker, mailbox) = walker(false);
        let mut gathered = gathered();
        walker.failed(name("dir/x"), &TreeError::LeadsNowhere { name: name("dir/x") }, &mut gathered);
        assert_eq!(kept(&walker, &mut gathered), [None, None]);
        let error = "cannot read dir/x: it is a dangling symbolic link";
        let note = format!(
            "nothing was deleted from dir on, since not all of the source could be read: {error}; \
             --ignore-errors deletes in spite of it"
        );
        assert_eq!(told(&mailbox), [(error.to_owned(), false), (note, true)]);
    }

    /// It is there, whatever else is not known of it: it stays. So does all in a folder that was not read.
    #[test]
    fn what_cannot_be_read_stays_where_errors_are_ignored() {
        let (walker, mailbox) = walker(true);
        for (text, expected) in
            [("dir/x", [Some(vec![b"x".to_vec()]), Some(Vec::new())]), ("dir", [None, Some(Vec::new())])]
        {
            let mut gathered = gathered();
            walker.failed(name(text), &TreeError::LeadsNowhere { name: name(text) }, &mut gathered);
            assert_eq!(kept(&walker, &mut gathered), expected, "{text}");
        }
        assert!(told(&mailbox).iter().all(|(_, harmless)| !harmless));
    }
}
