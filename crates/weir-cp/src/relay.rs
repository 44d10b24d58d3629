//! The driver between two far ends: it gives them the same secret and each other's words, and makes their
//! lanes. What they say to each other goes on as it came; of it the driver reads what its own report needs,
//! and says the names of the sources itself.

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, splice};
use weir_tree::Name;

use crate::control::{Control, Outlet};
use crate::error::CopyError;
use crate::events::{Event, Events};
use crate::hello;
use crate::lane::dial::dial;
use crate::lane::way::{TIMEOUT, Way};
use crate::link::Link;
use crate::secure::Keyring;
use crate::subtrees::Digest;
use crate::threads;
use crate::vouched::{self, SourceName, Vouched};
use crate::wire::batch::SMALL;
use crate::wire::driver::{FromDriver, ToDriver};
use crate::wire::frame::Kind;
use crate::wire::message::{Failure, FailureKind, Found, Hello, Listening, Problem, Role, Totals};
use crate::wire::to_receiver::{Offered, ToReceiver};
use crate::wire::to_sender::{Answer, ToSender};

/// What is on its way within this machine, of each lane: a record.
const PIPE: usize = 1 << 20;

/// For messages that an end may not send to the driver or to the other end now.
const NOT_NOW: &str = "what it may not say now";

/// The driver's place between two far ends.
#[derive(Debug)]
pub struct Relay {
    sender: Side,
    receiver: Side,
    keyring: Keyring,
    /// Of a hop of a chain: what its files have to be.
    vouching: Option<Vouching>,
    heard: Mutex<Instant>,
    sent: Mutex<Sent>,
    progress: Mutex<(Totals, Found)>,
    /// Both connections of each lane that goes through here.
    relayed: Mutex<HashMap<u32, [Arc<TcpStream>; 2]>>,
}

/// How a hop of a chain stands to the digests of its sources.
#[derive(Debug, Clone)]
pub enum Vouching {
    /// Its sender has the sources: what it says they are is noted.
    Notes(Arc<Vouched>),
    /// Its sender passes on: a file may only be what was noted.
    Holds(Arc<Vouched>),
}

/// What the sender of a hop has said of files.
#[derive(Debug, Default)]
struct Sent {
    /// What the sources are called at the receiver.
    placed: Vec<Name>,
    /// Files by the number of their offers.
    offered: HashMap<u64, SourceName>,
}

/// One of the two.
#[derive(Debug)]
pub struct Side {
    /// Who it is, for words.
    pub host: String,
    /// To it.
    pub control: Arc<Control>,
    /// Its first words.
    pub hello: Hello,
    /// Where it accepts lanes.
    pub at: Listening,
}

impl Relay {
    /// Between these two.
    pub fn new(sender: Side, receiver: Side, keyring: Keyring, vouching: Option<Vouching>) -> Arc<Relay> {
        let (sent, progress, relayed) = Default::default();
        let heard = Mutex::new(Instant::now());
        Arc::new(Relay { sender, receiver, keyring, vouching, heard, sent, progress, relayed })
    }

    /// When the sender said something last.
    pub(crate) fn sender_heard(&self) -> Instant {
        *self.heard.lock()
    }

    /// Whether a file that the sender says is this may be that.
    fn is_as_vouched(&self, id: u64, digest: &Digest) -> bool {
        let name = self.sent.lock().offered.remove(&id);
        match (&self.vouching, name) {
            (Some(Vouching::Holds(vouched)), Some(name)) => vouched.may_be(&name, digest),
            (Some(Vouching::Notes(vouched)), Some(name)) => {
                vouched.note(name, *digest);
                true
            }
            (_, None) | (None, _) => true,
        }
    }

    /// The sender offers files: what each is, whatever it is called there.
    fn offered(&self, offers: &[Offered]) {
        if self.vouching.is_none() {
            return;
        }
        let mut sent = self.sent.lock();
        for offer in offers.iter().filter(|offer| offer.entry.size() > SMALL) {
            if let Some(name) = vouched::name_of(&sent.placed, &offer.entry.name) {
                sent.offered.insert(offer.id, name);
            }
        }
    }

    /// Of what is not wanted no end is told.
    fn answered(&self, answers: &[(u64, Answer)]) {
        let mut sent = self.sent.lock();
        for (id, answer) in answers {
            if matches!(answer, Answer::Nothing | Answer::Refused(_) | Answer::LeftOut) {
                sent.offered.remove(id);
            }
        }
    }

    /// What was done so far, as the receiver counts it.
    pub fn totals(&self) -> Totals {
        self.progress().0
    }

    /// What the sender's walk has found.
    pub fn found(&self) -> Found {
        self.progress().1
    }

    /// Makes a lane.
    pub fn make(self: &Arc<Self>, way: Way, id: u32, events: &Events) {
        match way {
            Way::There => self.sender.tell(&FromDriver::Dial(self.receiver.seen_from(&self.sender), id)),
            Way::Back => self.receiver.tell(&FromDriver::Dial(self.sender.seen_from(&self.receiver), id)),
            Way::Relay | Way::Ssh => self.relay(id, events.clone()),
        }
    }

    /// A lane is to take no more records.
    pub fn retire(&self, id: u32) {
        self.sender.tell(&FromDriver::Retire(id));
    }

    /// What [`Way::There`] is, for words.
    pub(crate) fn sender_side(&self) -> String {
        format!("from {} to {}", self.sender.host, self.receiver.host)
    }

    /// What [`Way::Back`] is.
    pub(crate) fn receiver_side(&self) -> String {
        format!("from {} to {}", self.receiver.host, self.sender.host)
    }

    /// Ends all lanes that go through here.
    pub fn stop(&self) {
        let all: Vec<u32> = self.relayed().keys().copied().collect();
        all.into_iter().for_each(|id| self.cut(id));
    }

    /// Acts on a frame from the end of this role.
    pub fn hear(&self, from: Role, kind: Kind, body: &[u8], events: &Events) -> Result<(), CopyError> {
        let other = match from {
            Role::Sender => {
                *self.heard.lock() = Instant::now();
                &self.receiver
            }
            Role::Receiver => &self.sender,
        };
        let onwards = match (kind, from) {
            (Kind::Record, Role::Sender) => true,
            (Kind::Record, Role::Receiver) => return Err(events.out_of_turn("a record")),
            (Kind::Message, _) => match (events.read(body)?, from) {
                (Some(said), _) => self.hear_peer(from, said, events)?,
                (None, Role::Sender) => self.hear_sender(events.read(body)?, events)?,
                (None, Role::Receiver) => self.hear_receiver(events.read(body)?, events)?,
            },
        };
        if onwards {
            // A connection that broke is noticed by whoever reads from it.
            if let Err(error) = other.control.forward(kind, body) {
                tracing::debug!("{}: {error}", other.host);
            }
        }
        Ok(())
    }

    /// What the sender has for the receiver: true where it goes on to it.
    fn hear_sender(&self, said: Option<ToReceiver>, events: &Events) -> Result<bool, CopyError> {
        match said {
            Some(ToReceiver::Offer(offers)) => {
                self.offered(&offers);
                Ok(true)
            }
            Some(ToReceiver::End(id, Ok(digest))) if !self.is_as_vouched(id, &digest) => {
                let words = format!("{}: a file is not what was sent to it", self.sender.host);
                Err(CopyError::Far(Failure::new(FailureKind::Verification, words)))
            }
            Some(ToReceiver::End(..) | ToReceiver::Finish(..)) => Ok(true),
            Some(ToReceiver::LaneLost(id, why)) => Ok(self.lane_lost(id, why, events)),
            Some(ToReceiver::Owners(_) | ToReceiver::Roots(_)) | None => Err(events.out_of_turn(NOT_NOW)),
        }
    }

    /// What the receiver has for the sender: true where it goes on to it.
    fn hear_receiver(&self, said: Option<ToSender>, events: &Events) -> Result<bool, CopyError> {
        match said {
            None => Err(events.out_of_turn(NOT_NOW)),
            Some(ToSender::LaneLost(id, why)) => Ok(self.lane_lost(id, why, events)),
            Some(ToSender::Finished(totals)) => {
                self.progress().0 = totals;
                events.send(Event::Finished(totals));
                Ok(false)
            }
            Some(ToSender::Placed(names)) => {
                self.sent.lock().placed = names;
                Ok(true)
            }
            Some(ToSender::Answer(answers)) => {
                self.answered(&answers);
                Ok(true)
            }
            Some(_) => Ok(true),
        }
    }

    /// Both ends and the driver are told.
    fn lane_lost(&self, id: u32, why: String, events: &Events) -> bool {
        self.cut(id);
        events.send(Event::LaneLost(id, why));
        true
    }

    /// What ends at the driver.
    fn hear_peer(&self, from: Role, said: ToDriver, events: &Events) -> Result<bool, CopyError> {
        let problem_at = |host: &str, problem: Problem| {
            let words = format!("{host}: {}", problem.failure.words);
            Event::Problem(Problem { failure: Failure { words, ..problem.failure }, ..problem })
        };
        let event = match (from, said) {
            // What was compared the sender knows of both.
            (Role::Sender, ToDriver::Tally(totals, found)) => {
                let mut progress = self.progress();
                progress.0.compared = totals.compared;
                progress.1 = found;
                return Ok(false);
            }
            (Role::Receiver, ToDriver::Tally(totals, _)) => {
                let mut progress = self.progress();
                progress.0 = Totals { compared: progress.0.compared, ..totals };
                return Ok(false);
            }
            (Role::Receiver, ToDriver::Would(deed, name)) => Event::Would(deed, name),
            (Role::Sender, ToDriver::MoreNames) => Event::MoreNames,
            (_, ToDriver::Dialled(id, None)) => Event::LaneUp(id),
            (_, ToDriver::Dialled(id, why)) => Event::Dialled(id, why),
            (_, ToDriver::Sample(json)) => Event::Sample(from, json),
            (_, ToDriver::Strangers(count)) => Event::Strangers(count),
            (_, ToDriver::Problem(problem)) => problem_at(events.host(), problem),
            (Role::Sender, ToDriver::ProblemThere(problem)) => problem_at(&self.receiver.host, problem),
            (_, ToDriver::Abort(failure)) => Event::Failed(CopyError::aborted(failure).of(events.host())),
            _ => return Err(events.out_of_turn(NOT_NOW)),
        };
        events.send(event);
        Ok(false)
    }

    /// A lane through here: connects to both ends and hands on what comes, sealed as it is.
    fn relay(self: &Arc<Self>, id: u32, events: Events) {
        let relay = Arc::clone(self);
        let (to_tell, relayed) = (events.clone(), id);
        let started = threads::start("relay", move || {
            let [from, to] = match relay.dial_both(id) {
                Ok(streams) => streams.map(Arc::new),
                Err(why) => return events.send(Event::Dialled(id, Some(why))),
            };
            relay.relayed().insert(id, [Arc::clone(&from), Arc::clone(&to)]);
            events.send(Event::LaneUp(id));
            if let Err(error) = carry(&from, &to)
                && relay.relayed().contains_key(&id)
            {
                let why = weir_units::plain(&error);
                Outlet::new(&relay.sender.control).send(&ToSender::LaneLost(id, why.clone()));
                Outlet::new(&relay.receiver.control).send(&ToReceiver::LaneLost(id, why.clone()));
                events.send(Event::LaneLost(id, why));
            }
            relay.cut(id);
        });
        if let Err(why) = started {
            let why = threads::words(&why);
            to_tell.send(Event::Dialled(relayed, Some(why)));
        }
    }

    /// To each end this one is the other. Its hello is the one that the other sends too, byte for byte: the
    /// same words under the same key and nonce. After it nothing is sealed here.
    fn dial_both(&self, id: u32) -> Result<[TcpStream; 2], String> {
        let to = |side: &Side, role: Role| {
            let made = dial(&side.at, id, &self.keyring, role, TIMEOUT);
            made.map(|lane| lane.stream).map_err(|why| format!("to {}: {why}", side.host))
        };
        // The receiver first: the sender may send at once.
        let receiver = to(&self.receiver, Role::Sender)?;
        Ok([to(&self.sender, Role::Receiver)?, receiver])
    }

    /// Ends a lane that goes through here. What has come through is on its way already.
    fn cut(&self, id: u32) {
        if let Some(streams) = self.relayed().remove(&id) {
            for stream in streams {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    fn progress(&self) -> MutexGuard<'_, (Totals, Found)> {
        self.progress.lock()
    }

    fn relayed(&self) -> MutexGuard<'_, HashMap<u32, [Arc<TcpStream>; 2]>> {
        self.relayed.lock()
    }
}

impl Vouching {
    /// Of a hop with this link, between two others.
    pub(crate) fn of(link: &Link) -> Vouching {
        let vouched = Arc::clone(&link.vouched);
        if link.from.is_some() { Vouching::Holds(vouched) } else { Vouching::Notes(vouched) }
    }
}

impl Side {
    /// The one whose events these are.
    pub(crate) fn new(events: &Events, control: &Arc<Control>, hello: Hello, at: Listening) -> Side {
        Side { host: events.host().to_owned(), control: Arc::clone(control), hello, at }
    }

    /// As its driver.
    fn tell(&self, message: &FromDriver) {
        Outlet::new(&self.control).send(message);
    }

    /// Where the other end may reach it: as ssh does from here, then as it reaches the world.
    fn seen_from(&self, other: &Side) -> Listening {
        let same = hello::share_network(&self.hello, &other.hello);
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in self.at.addresses.iter().chain(&self.hello.addresses) {
            // On another machine, or in another network of this one, these lead elsewhere.
            let reaches = same || !address.is_loopback();
            if reaches && !addresses.contains(address) {
                addresses.push(*address);
            }
        }
        Listening { port: self.at.port, addresses }
    }
}

/// Hands on bytes until the first stream ends, without copying them to this program.
fn carry(from: &TcpStream, to: &TcpStream) -> std::io::Result<()> {
    let (out, into) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // Smaller where the user may have no more.
    let _ = fcntl_setpipe_size(&into, PIPE);
    loop {
        let mut came = splice(from, None, &into, None, PIPE, SpliceFlags::MOVE)?;
        if came == 0 {
            return to.shutdown(Shutdown::Write);
        }
        while came > 0 {
            came -= splice(&out, None, to, None, came, SpliceFlags::MOVE)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_tree::Entry;

    use super::*;
    use crate::secret::Secret;
    use crate::wire::frame::{HEAD, to_frame};

    /// A hop from this host.
    fn hop(host: &str, vouching: Vouching) -> Arc<Relay> {
        let side = |host: &str| Side {
            host: host.to_owned(),
            control: Arc::new(Control::new(std::io::sink())),
            hello: hello::own("1", Vec::new()),
            at: Listening { port: 0, addresses: Vec::new() },
        };
        let keyring = Keyring::new(&Secret::draw().unwrap(), None);
        Relay::new(side(host), side("the next"), keyring, Some(vouching))
    }

    /// The sender says that its only file, which has this name at the receiver, is that.
    fn says(hop: &Relay, name: &str, digest: Digest) -> Result<(), CopyError> {
        let events = Events::new("the sender", std::sync::mpsc::channel().0);
        let name: Name = name.parse().unwrap();
        let mtime = weir_tree::entry::Time::new(0, 0).unwrap();
        let kind = weir_tree::Kind::File { size: SMALL + 1, sparse: false };
        let entry =
            Entry { name: name.clone(), kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
        let hear = |from, frame: Vec<u8>| hop.hear(from, Kind::Message, &frame[HEAD..], &events);
        hear(Role::Receiver, to_frame(&ToSender::Placed(vec![name])))?;
        hear(Role::Sender, to_frame(&ToReceiver::Offer(vec![Offered { id: 1, entry, digest: None }])))?;
        hear(Role::Sender, to_frame(&ToReceiver::End(1, Ok(digest))))
    }

    #[test]
    fn a_host_passes_on_nothing_but_what_was_sent_to_it() {
        let vouched: Arc<Vouched> = Arc::default();
        says(&hop("the source", Vouching::Notes(Arc::clone(&vouched))), "data", [1; 32]).unwrap();
        let passes_on = |digest| says(&hop("a", Vouching::Holds(Arc::clone(&vouched))), "copy", digest);
        passes_on([1; 32]).unwrap();
        match passes_on([2; 32]) {
            Err(CopyError::Far(Failure { kind: FailureKind::Verification, words })) => {
                assert_eq!(words, "a: a file is not what was sent to it");
            }
            other => panic!("{other:?}"),
        }
    }
}
