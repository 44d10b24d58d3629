//! Which connections are open, which of them gives way to a new one, and which have had their time?
//!
//! One register for all kinds: threads and tasks, with TLS and without. It has a hand on each socket, and
//! ends a connection by shutting that down, which its thread or task notices at once. It asks two things of
//! each:
//!
//! * *Idle* is a connection that answers no request: it may be silent, in the middle of a handshake or of a
//!   head, or exchange pings. It has [`IDLE`] of that.
//! * *Busy* is one that answers. While anything waits for its client, bytes in the kernel's queue or a
//!   request for a window, it must take the bytes: at least [`SLOWEST`] over [`TIMEOUT`]. While nothing does,
//!   it is the server that is slow: a disk, the turn of a listing, a rate that was asked for.
//!
//! When all places are taken, the one that has been idle for longest gives way. A busy one whose client has
//! taken nothing worth the name for [`STALLED`], though something waited for it, counts as idle since then.

use std::collections::HashMap;
use std::net::{Shutdown as Half, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use weir_units::Rate;

use crate::acknowledged;
use crate::activity::{Activity, Doing};

/// A client may keep a connection open and silent, or take over a head, for so long.
pub(crate) const IDLE: Duration = Duration::from_secs(60);
/// What threads and tasks have on top to end an idle connection in good form (408, GOAWAY) before it is cut.
const GRACE: Duration = Duration::from_secs(5);
/// A client that takes nothing for so long is gone. A reader stopped by hand or by a slow disk is given that
/// time.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);
/// Less than a modem took; a client that takes less over [`TIMEOUT`] only means to hold the connection.
const SLOWEST: Rate = Rate(1024.0);
/// For so long a client that takes less than [`WORTH`] is still taken for one that reads, when places are
/// short: a few round trips of the longest path. It is what a new client waits for when all others are busy
/// and only pretend to read.
const STALLED: Duration = Duration::from_secs(1);
/// Bytes that count as progress: less than a TLS record, more than a client of a few round trips a second
/// gives away.
const WORTH: u64 = 4 * 1024;
/// A new connection is not idle before its client can have said anything: a round trip within a country.
const FRESH: Duration = Duration::from_millis(50);
/// Of so many connections one is listed to give way at a time, so that a flood does not sort all of them for
/// each.
const LISTED: usize = 16;
/// Connections that gave way, whose threads and tasks have not noticed yet. They hold a descriptor each.
const MOST_LEAVING: usize = 64;
/// What a task that hears of the stop has to send the rest of its last answer, and to say that it ends: less
/// than a megabyte of its buffers. A slower client is waited for as long as something waits in the kernel.
const FLUSH: Duration = Duration::from_secs(1);

/// What is asked of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// The most that are held; beyond that, the longest idle one gives way.
    pub(crate) most: usize,
    /// The most that are served at a time; beyond that, clients wait. To show what a slow server is like.
    pub(crate) at_once: Option<usize>,
    /// What the server itself allows each client.
    pub(crate) limit_rate: Option<Rate>,
    /// What the server itself waits before each answer.
    pub(crate) delay: Duration,
}

/// The open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    terms: Terms,
    open: Mutex<Open>,
    /// Signalled when a connection ends.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    held: HashMap<u64, Held>,
    /// How many gave way and are still there.
    leaving: usize,
    closing: bool,
    next_id: u64,
    /// Who gives way next, the last first, with the time since when they were idle as they were listed.
    listed: Vec<(Instant, u64)>,
}

#[derive(Debug)]
struct Held {
    socket: Arc<TcpStream>,
    activity: Arc<Activity>,
    /// Bytes that the client had taken when it last made progress, and when that was.
    progress: (u64, Instant),
    /// Bytes that it had taken when its pace was last found good, and when that was.
    pace: (u64, Instant),
    /// Something waited for the client when it was last looked at.
    waited: bool,
}

/// The place of one connection; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Permit {
    connections: Arc<Connections>,
    id: u64,
}

impl Connections {
    pub(crate) fn new(terms: Terms) -> Connections {
        Connections { terms, open: Mutex::default(), ended: Condvar::new() }
    }

    pub(crate) fn count(&self) -> usize {
        let open = self.open();
        open.held.len() + open.leaving
    }

    /// Whether one more may be accepted; makes room for it where all places are taken.
    pub(crate) fn make_room(&self) -> bool {
        let mut open = self.open();
        if open.closing || self.terms.at_once.is_some_and(|most| open.held.len() + open.leaving >= most) {
            return false;
        }
        open.held.len() < self.terms.most || self.give_way(&mut open)
    }

    /// Ends the longest idle connection, whether places are short or something else is: descriptors, threads.
    pub(crate) fn end_longest_idle(&self) -> bool {
        self.give_way(&mut self.open())
    }

    /// Ends the connection that has stalled for longest among those that hold a share of what the one that
    /// asks wants more of. To end any other would bring it nothing.
    pub(crate) fn end_most_stalled(&self, share: Doing, asks: &Arc<Activity>) -> bool {
        let now = Instant::now();
        let mut open = self.open();
        let stalled = |held: &mut Held| {
            let holds = held.activity.does(share) && !Arc::ptr_eq(&held.activity, asks);
            if holds { held.idle_since(now, self) } else { None }
        };
        let found = open.held.iter_mut().filter_map(|(&id, held)| Some((stalled(held)?, id))).min();
        found.is_some_and(|(_, id)| open.end(id))
    }

    /// Takes a place for a connection.
    pub(crate) fn hold(self: &Arc<Self>, socket: &Arc<TcpStream>, activity: &Arc<Activity>) -> Permit {
        let now = Instant::now();
        let mut open = self.open();
        if open.closing {
            let _ = socket.shutdown(Half::Both);
        }
        open.next_id += 1;
        let id = open.next_id;
        open.held.insert(id, Held::new(socket.clone(), activity.clone(), now));
        Permit { connections: self.clone(), id }
    }

    /// Waits until a connection ends, at most for `span`.
    pub(crate) fn wait_for_place(&self, span: Duration) {
        self.ended.wait_for(&mut self.open(), span);
    }

    /// Cuts the connections that were idle, or slow, for longer than they may be.
    pub(crate) fn end_overdue(&self) {
        let now = Instant::now();
        for held in self.open().held.values_mut() {
            if held.is_overdue(now, &self.terms) {
                // An error says that the client was faster.
                let _ = held.socket.shutdown(Half::Both);
            }
        }
    }

    /// Ends the connections that answer nothing, for a server that began to stop when `since` says; returns
    /// how many are still there. Those that hear of it by themselves have a moment for what is in their
    /// buffers.
    pub(crate) fn end_idle(&self, since: Instant) -> usize {
        let open = self.open();
        for held in open.held.values().filter(|held| held.activity.open_count() == 0) {
            let flushed = since.elapsed() >= FLUSH
                && held.activity.turned().elapsed() >= FLUSH
                && acknowledged::queued(&held.socket) == 0;
            if flushed || !held.activity.hears_stop() {
                // What was received is still read, and what was sent still arrives.
                let _ = held.socket.shutdown(Half::Read);
            }
        }
        open.held.len() + open.leaving
    }

    /// How many connections have an answer under way.
    pub(crate) fn answering(&self) -> usize {
        self.open().held.values().filter(|held| held.activity.open_count() > 0).count()
    }

    /// Hangs up on everyone and waits, at most for `span`, until the threads and tasks have noticed.
    pub(crate) fn close_all(&self, span: Duration) {
        let mut open = self.open();
        open.closing = true;
        for held in open.held.values() {
            let _ = held.socket.shutdown(Half::Both);
        }
        let some = |open: &mut Open| !open.held.is_empty() || open.leaving > 0;
        self.ended.wait_while_for(&mut open, some, span);
    }

    fn give_way(&self, open: &mut Open) -> bool {
        if open.leaving >= MOST_LEAVING {
            return false;
        }
        let now = Instant::now();
        for listing in 0..2 {
            while let Some((since, id)) = open.listed.pop() {
                let still = open.held.get_mut(&id).and_then(|held| held.idle_since(now, self));
                if still == Some(since) {
                    return open.end(id);
                }
            }
            if listing == 0 {
                open.list(now, self);
            }
        }
        false
    }

    fn worth(&self) -> u64 {
        // A client cannot take more than the server lets it have: a second's worth is progress then.
        self.terms.limit_rate.map_or(WORTH, |rate| (rate.0 as u64).clamp(1, WORTH))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }
}

impl Open {
    /// Hangs up and gives the place away at once: a thread may take a while to notice.
    fn end(&mut self, id: u64) -> bool {
        let Some(held) = self.held.remove(&id) else { return false };
        let _ = held.socket.shutdown(Half::Both);
        self.leaving += 1;
        true
    }

    /// Lists those who have been idle for longest.
    fn list(&mut self, now: Instant, connections: &Connections) {
        let idle =
            self.held.iter_mut().filter_map(|(&id, held)| Some((held.idle_since(now, connections)?, id)));
        let mut idle: Vec<_> = idle.collect();
        idle.sort_unstable();
        idle.truncate(self.held.len().div_ceil(LISTED));
        idle.reverse();
        self.listed = idle;
    }
}

impl Held {
    fn new(socket: Arc<TcpStream>, activity: Arc<Activity>, now: Instant) -> Held {
        Held { socket, activity, progress: (0, now), pace: (0, now), waited: false }
    }

    /// Since when it is idle, or as good as idle; `None` while it is fresh or makes progress.
    fn idle_since(&mut self, now: Instant, connections: &Connections) -> Option<Instant> {
        let turned = self.activity.turned();
        if self.activity.open_count() == 0 {
            return (now.saturating_duration_since(turned) >= FRESH).then_some(turned);
        }
        self.look(now, connections.worth());
        let since = self.progress.1.max(turned);
        let timeout = STALLED + connections.terms.delay;
        (now.saturating_duration_since(since) >= timeout).then_some(since)
    }

    fn is_overdue(&mut self, now: Instant, terms: &Terms) -> bool {
        let turned = self.activity.turned();
        let taken = self.look(now, WORTH);
        if self.activity.open_count() == 0 {
            self.pace = (taken, now);
            return now.saturating_duration_since(turned) >= IDLE + GRACE;
        }
        let slowest = terms.limit_rate.map_or(SLOWEST.0, |rate| SLOWEST.0.min(rate.0 / 2.0));
        if taken.saturating_sub(self.pace.0) as f64 >= slowest * TIMEOUT.as_secs_f64() {
            self.pace = (taken, now);
        }
        now.saturating_duration_since(self.pace.1.max(turned)) >= TIMEOUT + terms.delay
    }

    /// Bytes of bodies that the client has taken: no more than were offered, so that pings and settings,
    /// which are acknowledged like any bytes, are no progress. Progress was made when the client last
    /// acknowledged something, however late that is seen. Where the kernel does not count, what has left its
    /// queue was taken.
    ///
    /// The client's time runs from the first look that finds something waiting for it: what was before may
    /// have been the server's own slowness.
    fn look(&mut self, now: Instant, worth: u64) -> u64 {
        let offered = self.activity.offered();
        let queued = acknowledged::queued(&self.socket);
        let (taken, age) = match acknowledged::by_client(&self.socket) {
            Some(client) => (client.bytes.min(offered), client.age),
            None => (offered.saturating_sub(queued), Duration::ZERO),
        };
        let waits = queued > 0 || self.activity.waits_for_client();
        if !(waits && self.waited) {
            self.progress = (taken, now);
            self.pace = (taken, now);
        } else if taken >= self.progress.0 + worth {
            self.progress = (taken, now.checked_sub(age).unwrap_or(now).max(self.progress.1));
        }
        self.waited = waits;
        taken
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        if open.held.remove(&self.id).is_none() {
            open.leaving -= 1;
        }
        drop(open);
        self.connections.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    const TERMS: Terms = Terms { most: 2, at_once: None, limit_rate: None, delay: Duration::ZERO };

    /// A connection: what the register holds of it, and the client's end.
    fn pair(activity: &Arc<Activity>, now: Instant) -> (Held, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // Fixed, so that it does not grow with what is read.
        socket2::SockRef::from(&client).set_recv_buffer_size(32 * 1024).unwrap();
        let mut socket = listener.accept().unwrap().0;
        // A request, by which a kernel that counts is known.
        client.write_all(b"?").unwrap();
        socket.read_exact(&mut [0]).unwrap();
        (Held::new(Arc::new(socket), activity.clone(), now), client)
    }

    /// The client takes so many bytes of a body without an end; afterwards as much of it waits as the kernel
    /// holds.
    fn take(held: &Held, client: &mut TcpStream, mut count: usize) {
        held.socket.set_nonblocking(true).unwrap();
        let mut piece = [0; 16 * 1024];
        loop {
            while let Ok(sent) = (&*held.socket).write(&[0; 64 * 1024]) {
                held.activity.offer(sent as u64);
            }
            if count == 0 {
                return;
            }
            let most = count.min(piece.len());
            count -= client.read(&mut piece[..most]).unwrap();
        }
    }

    #[test]
    fn idle_connections_have_a_minute_and_busy_ones_must_read() {
        let activity = Arc::new(Activity::new());
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let (mut held, _client) = pair(&activity, start);
        assert!(!held.is_overdue(at(60), &TERMS) && held.is_overdue(at(66), &TERMS));
        let (mut held, mut client) = pair(&activity, start);
        let _open = activity.open();
        assert!(!held.is_overdue(at(1000), &TERMS), "nothing waits for the client: the server is slow");
        take(&held, &mut client, 0);
        assert!(!held.is_overdue(at(1010), &TERMS), "something waits since now");
        assert!(!held.is_overdue(at(1309), &TERMS) && held.is_overdue(at(1311), &TERMS));
        // Bytes that the client takes are what counts, and a few of them are not enough.
        take(&held, &mut client, 100_000);
        assert!(held.is_overdue(at(1311), &TERMS), "a third of a kilobyte a second");
        take(&held, &mut client, 1_000_000);
        assert!(!held.is_overdue(at(1311), &TERMS) && held.is_overdue(at(1620), &TERMS));
    }

    #[test]
    fn a_client_stalls_only_while_something_waits_for_it() {
        let connections = Connections::new(TERMS);
        let activity = Arc::new(Activity::new());
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let (mut held, mut client) = pair(&activity, start);
        let _open = activity.open();
        assert_eq!(held.idle_since(at(100), &connections), None, "the server has nothing for it");
        let awaited = activity.during(Doing::AwaitsClient);
        assert_eq!(held.idle_since(at(110), &connections), None);
        assert_eq!(held.idle_since(at(112), &connections), Some(at(110)), "its window is shut");
        let disk = activity.during(Doing::AwaitsDisk);
        assert_eq!(held.idle_since(at(120), &connections), None, "the disk is slow");
        drop((awaited, disk));
        take(&held, &mut client, 0);
        assert_eq!(held.idle_since(at(130), &connections), None);
        // Its kernel may still acknowledge a little that it has room for.
        let stalled = (66..1000).find_map(|look| held.idle_since(at(2 * look), &connections));
        assert!(stalled.is_some(), "it does not read");
    }

    #[test]
    fn a_client_that_is_served_slowly_on_purpose_is_not_slow() {
        let terms = Terms { limit_rate: Some(Rate(10.0)), delay: Duration::from_secs(100), ..TERMS };
        let connections = Connections::new(terms);
        let activity = Arc::new(Activity::new());
        let start = Instant::now();
        let (mut held, mut client) = pair(&activity, start);
        let _open = activity.open();
        take(&held, &mut client, 0);
        assert!(!held.is_overdue(start, &terms), "something waits since now");
        assert_eq!(held.idle_since(start + Duration::from_secs(100), &connections), None);
        assert!(!held.is_overdue(start + Duration::from_secs(390), &terms));
        assert_eq!(connections.worth(), 10);
    }

    #[test]
    fn the_longest_idle_gives_way_unless_it_is_busy() {
        let connections = Arc::new(Connections::new(TERMS));
        let hold = || {
            let activity = Arc::new(Activity::new());
            let (held, client) = pair(&activity, Instant::now());
            (connections.hold(&held.socket, &activity), activity, client)
        };
        assert!(connections.make_room());
        let (_first, busy, _client) = hold();
        let _open = busy.open();
        let (_second, idle, mut client) = hold();
        assert!(!connections.make_room() || idle.turned().elapsed() >= FRESH, "it has just come");
        while idle.turned().elapsed() <= FRESH {
            std::thread::yield_now();
        }
        assert!(connections.make_room());
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the idle one");
        assert_eq!(connections.count(), 2, "until its thread has noticed");
    }

    #[test]
    fn only_who_holds_a_share_gives_way_for_it() {
        let connections = Arc::new(Connections::new(TERMS));
        let hold = || {
            let activity = Arc::new(Activity::new());
            let (held, mut client) = pair(&activity, Instant::now());
            take(&held, &mut client, 0);
            (connections.hold(&held.socket, &activity), activity.open(), activity, client)
        };
        let (download, listing) = (hold(), hold());
        let _share = listing.2.during(Doing::HoldsListing);
        let asks = Arc::new(Activity::new());
        let started = Instant::now();
        assert!(!connections.end_most_stalled(Doing::HoldsStream, &asks));
        while !connections.end_most_stalled(Doing::HoldsListing, &asks) {
            assert!(started.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
        assert!(started.elapsed() >= STALLED, "not before it has stalled");
        // The other has stalled for as long, and stays.
        assert!(!connections.end_most_stalled(Doing::HoldsListing, &asks));
        assert_eq!(connections.open().held.len(), 1);
        drop((download, listing));
        assert_eq!(connections.count(), 0);
    }
}
