//! Which addresses does a name have? As this host's resolver says: its hosts file, DNS, mDNS, whatever
//! nsswitch.conf(5) names.
//!
//! getaddrinfo(3) cannot be interrupted and keeps a time of its own (resolv.conf(5): 5 s, twice, for each
//! server), so each lookup runs on its own thread. Callers wait for as long as they like, and leave it behind
//! when they stop waiting.
//!
//! A [`Names`] is shared by all connections of a run: names asked for at the same time share one lookup.
#![allow(
    unsafe_code,
    reason = "getaddrinfo: the standard library's wrapper does not tell a missing name from a silent server"
)]

mod servers;

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// How long addresses are used before the name is looked up again, in the background. Most records live for a
/// minute or more.
const FRESH: Duration = Duration::from_secs(60);

/// How long "there is no such name" is believed, so that a list of a thousand URLs on a mistyped host asks
/// once.
const MISSING: Duration = Duration::from_secs(10);

/// How long a passing failure is shared: less than the first pause before a retry (0.1 s), so that each retry
/// asks again.
const PASSING: Duration = Duration::from_millis(50);

/// Threads at most, for a list of many hosts whose names are all silent. Each holds about 40 KiB (its stack
/// and the resolver's buffers), 10 MiB together; further lookups wait for one of them.
const MOST_THREADS: usize = 256;

/// A resolver's modules may need much (nss_ldap, nss_sss); pages that are not touched cost nothing.
const STACK: usize = 512 << 10;

/// Between two looks whether the wait is still wanted.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A resolver that says nothing for so long is not waited for by those who have no deadline of their own:
/// twice the 5 s after which glibc asks again (resolv.conf(5)).
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Why a name has no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is no such name, or it has no address. Asking again brings the same.
    #[error("{0}")]
    Missing(String),
    /// The resolver could not say. Asking again may help.
    #[error("{0}")]
    Passing(String),
    /// The resolver did not answer in the time allowed. It repeats its questions itself, so asking again
    /// brings nothing.
    #[error("no answer from the name server in {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// Stopped from outside.
    #[error("interrupted")]
    Stopped,
}

impl NameError {
    /// The next step, to follow the cause.
    pub fn way_out(&self) -> &'static str {
        match self {
            NameError::Missing(_) => "; check the name",
            NameError::Passing(_) | NameError::Silent(_) => "; check the network and /etc/resolv.conf",
            NameError::Stopped => "",
        }
    }
}

impl From<NameError> for io::Error {
    fn from(error: NameError) -> io::Error {
        let kind = match error {
            NameError::Missing(_) => io::ErrorKind::NotFound,
            NameError::Passing(_) => io::ErrorKind::Other,
            NameError::Silent(_) => io::ErrorKind::TimedOut,
            NameError::Stopped => io::ErrorKind::Interrupted,
        };
        io::Error::new(kind, error)
    }
}

/// Names remembered: of more, those that nobody is waiting for are forgotten, and looked up again.
const REMEMBERED: usize = 40_000;

/// What a lookup found: addresses, without a port.
type Found = Result<Arc<[SocketAddr]>, NameError>;

/// The names of a run.
#[derive(Debug, Default)]
pub struct Names {
    known: Mutex<HashMap<String, Arc<Entry>>>,
    /// Whom to ask in place of the system; where that is empty, the system.
    servers: Arc<[SocketAddr]>,
}

/// A lookup that was asked for.
#[derive(Debug, Clone)]
pub struct Lookup {
    entry: Arc<Entry>,
    attempt: u64,
    since: Instant,
    budget: Duration,
}

#[derive(Debug)]
struct Entry {
    host: String,
    servers: Arc<[SocketAddr]>,
    state: Mutex<LookupState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LookupState {
    /// Lookups begun; the last one is at work until `ended` is the same.
    begun: u64,
    ended: u64,
    /// When its thread began with it; `None` while it waits for a thread.
    at_work: Option<Instant>,
    /// How long lookups have taken since the last one that found something.
    spent: Duration,
    /// What the last one came to, and when.
    last: Option<(Instant, Found)>,
    /// The last addresses found, and when. Better than nothing where the name server is down (RFC 8767).
    good: Option<(Instant, Arc<[SocketAddr]>)>,
    /// No connection to any of `good` came about.
    doubted: bool,
}

impl Names {
    /// The names that these name servers know; with none, those that the system knows.
    pub fn of(servers: &[SocketAddr]) -> Names {
        Names { servers: servers.into(), ..Names::default() }
    }

    /// Asks for the addresses of `host`, or joins who asks already. `budget` is for all lookups of the name
    /// together until one of them finds something.
    pub fn look_up(&self, host: &str, budget: Duration) -> Lookup {
        let bare = bare(host);
        if let Some(addresses) = by_itself(bare) {
            return Lookup::known(bare, addresses, budget);
        }
        let entry = {
            let mut known = self.known.lock();
            if known.len() >= REMEMBERED {
                known.retain(|_, entry| Arc::strong_count(entry) > 1);
            }
            // Names are compared without regard to case (RFC 4343).
            let entry = known.entry(bare.to_ascii_lowercase());
            Arc::clone(entry.or_insert_with(|| Arc::new(Entry::new(bare, &self.servers))))
        };
        let mut state = entry.lock();
        let wanted = state.wants_lookup(budget, Instant::now());
        if wanted {
            state.begun += 1;
        }
        let attempt = state.begun;
        drop(state);
        if wanted {
            hand_over(&entry);
        }
        Lookup { entry, attempt, since: Instant::now(), budget }
    }

    /// No connection to the addresses of `host` came about: they are looked up again before the next attempt.
    pub fn doubt(&self, host: &str) {
        let known = self.known.lock();
        if let Some(entry) = known.get(&bare(host).to_ascii_lowercase()) {
            entry.lock().doubted = true;
        }
    }
}

/// The addresses of `host` with `port`, waited for as long as `timeout` and until `is_stopped`.
pub fn resolve(
    host: &str,
    port: u16,
    timeout: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Vec<SocketAddr>, NameError> {
    let found = Names::default().look_up(host, timeout).wait(None, is_stopped);
    found.unwrap_or(Err(NameError::Silent(timeout))).map(|addresses| with_port(&addresses, port))
}

/// The same addresses with `port`.
pub fn with_port(addresses: &[SocketAddr], port: u16) -> Vec<SocketAddr> {
    let mut addresses = addresses.to_vec();
    addresses.iter_mut().for_each(|address| address.set_port(port));
    addresses
}

impl Lookup {
    fn known(host: &str, addresses: Vec<SocketAddr>, budget: Duration) -> Lookup {
        let entry = Entry::new(host, &Arc::default());
        entry.lock().good = Some((Instant::now(), addresses.into()));
        Lookup { entry: Arc::new(entry), attempt: 0, since: Instant::now(), budget }
    }

    /// The name.
    pub fn host(&self) -> &str {
        &self.entry.host
    }

    /// Whether there is an answer, or will be none.
    pub fn is_over(&self) -> bool {
        self.peek(&self.entry.lock()).is_some()
    }

    /// How long the lookup of this name has been at work.
    pub fn age(&self) -> Duration {
        let state = self.entry.lock();
        state.at_work.map_or_else(|| self.since.elapsed(), |began| began.elapsed())
    }

    /// Waits for the answer: until `until`, where `None` comes back, or until the budget is used up. Hears
    /// `is_stopped`.
    pub fn wait(&self, until: Option<Instant>, is_stopped: &dyn Fn() -> bool) -> Option<Found> {
        let mut state = self.entry.lock();
        loop {
            if let Some(found) = self.peek(&state) {
                return Some(found);
            }
            if is_stopped() {
                return Some(Err(NameError::Stopped));
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return None;
            }
            // The budget may end before the next look is due.
            let left = state.left(self.budget, now).unwrap_or(POLL_INTERVAL).max(Duration::from_millis(1));
            let span = until.map_or(POLL_INTERVAL, |until| until - now).min(POLL_INTERVAL).min(left);
            self.entry.changed.wait_for(&mut state, span);
        }
    }

    fn peek(&self, state: &LookupState) -> Option<Found> {
        let good = state.good.as_ref().map(|(_, addresses)| Arc::clone(addresses));
        if let Some(addresses) = good.clone().filter(|_| !state.doubted) {
            return Some(Ok(addresses));
        }
        // Old addresses are better than no answer; not better than the answer that there are none.
        let instead = |error: NameError| match good.clone() {
            Some(addresses) if !matches!(error, NameError::Missing(_)) => Ok(addresses),
            _ => Err(error),
        };
        if state.ended >= self.attempt {
            return state.last.as_ref().map(|(_, found)| found.clone().or_else(instead));
        }
        let left = state.left(self.budget, Instant::now())?;
        left.is_zero().then(|| instead(NameError::Silent(self.budget)))
    }
}

impl Entry {
    fn new(host: &str, servers: &Arc<[SocketAddr]>) -> Entry {
        let (host, servers) = (host.to_owned(), Arc::clone(servers));
        Entry { host, servers, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, LookupState> {
        self.state.lock()
    }

    fn begin(&self) {
        self.lock().at_work = Some(Instant::now());
    }

    fn end(&self, found: Found) {
        let mut state = self.lock();
        let now = Instant::now();
        let took = state.at_work.take().map_or(Duration::ZERO, |began| now - began);
        state.ended = state.begun;
        match &found {
            Ok(addresses) => {
                (state.spent, state.doubted) = (Duration::ZERO, false);
                state.good = Some((now, Arc::clone(addresses)));
            }
            Err(_) => state.spent += took,
        }
        state.last = Some((now, found));
        self.changed.notify_all();
    }
}

impl LookupState {
    fn wants_lookup(&self, budget: Duration, now: Instant) -> bool {
        if self.begun > self.ended {
            return false;
        }
        if self.good.as_ref().is_some_and(|(at, _)| !self.doubted && now - *at < FRESH) {
            return false;
        }
        match &self.last {
            None | Some((_, Ok(_))) => true,
            Some((at, Err(error))) => {
                let shared = if matches!(error, NameError::Missing(_)) { MISSING } else { PASSING };
                now - *at >= shared && (self.spent < budget || self.good.is_some())
            }
        }
    }

    /// What is left of `budget` for the lookup at work; `None` before its thread has begun.
    fn left(&self, budget: Duration, now: Instant) -> Option<Duration> {
        self.at_work.map(|began| budget.saturating_sub(self.spent + (now - began)))
    }
}

/// The lookups that have a thread, and those that wait for one.
struct LookupQueue {
    /// Whose threads these are.
    process: u32,
    threads: usize,
    waiting: VecDeque<Arc<Entry>>,
}

static LOOKUPS: Mutex<LookupQueue> = Mutex::new(LookupQueue::of(0));

impl LookupQueue {
    const fn of(process: u32) -> LookupQueue {
        LookupQueue { process, threads: 0, waiting: VecDeque::new() }
    }

    /// Threads stay behind when a process forks (fork(2)): what they were at in its parent nobody does here.
    fn enter(&mut self, process: u32) {
        if self.process != process {
            *self = LookupQueue::of(process);
        }
    }
}

fn lookups() -> MutexGuard<'static, LookupQueue> {
    let mut lookups = LOOKUPS.lock();
    lookups.enter(std::process::id());
    lookups
}

fn hand_over(entry: &Arc<Entry>) {
    let mut lookups = lookups();
    if lookups.threads >= MOST_THREADS {
        return lookups.waiting.push_back(Arc::clone(entry));
    }
    lookups.threads += 1;
    drop(lookups);
    let first = Arc::clone(entry);
    let stack = if entry.servers.is_empty() { STACK } else { servers::STACK };
    let thread = std::thread::Builder::new().name("name".to_owned()).stack_size(stack);
    if let Err(error) = thread.spawn(move || work_off(first)) {
        let mut lookups = self::lookups();
        lookups.threads -= 1;
        if lookups.threads > 0 {
            // One of those that are there takes it.
            return lookups.waiting.push_back(Arc::clone(entry));
        }
        drop(lookups);
        entry.end(Err(NameError::Passing(format!("cannot start a thread: {}", weir_units::plain(&error)))));
    }
}

fn work_off(first: Arc<Entry>) {
    let mut next = Some(first);
    while let Some(entry) = next {
        entry.begin();
        entry.end(match &*entry.servers {
            [] => ask(&entry.host),
            servers => servers::ask(&entry.host, servers),
        });
        let mut lookups = lookups();
        next = lookups.waiting.pop_front();
        lookups.threads -= usize::from(next.is_none());
    }
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// Addresses that nobody needs to be asked for: those of a literal address, and of `localhost` and the names
/// below it, which are the loopback whatever a resolver says (RFC 6761 section 6.3).
fn by_itself(host: &str) -> Option<Vec<SocketAddr>> {
    let with = |address: IpAddr| SocketAddr::new(address, 0);
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(vec![with(address)]);
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_loopback = name == "localhost" || name.ends_with(".localhost");
    // In the order of RFC 6724, as most hosts files have it.
    is_loopback.then(|| vec![with(Ipv6Addr::LOCALHOST.into()), with(Ipv4Addr::LOCALHOST.into())])
}

/// Asks the system; blocks for as long as that takes.
fn ask(host: &str) -> Found {
    let missing = |why: &str| Err(NameError::Missing(why.to_owned()));
    let Ok(name) = CString::new(host) else { return missing("it holds a NUL byte") };
    // SAFETY: addrinfo is made of integers and pointers, for which zero means "not set".
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    // One entry an address, not one for each kind of socket.
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut list = std::ptr::null_mut();
    // SAFETY: a C string, no service, hints and a place for the list, all alive during the call.
    let code = unsafe { libc::getaddrinfo(name.as_ptr(), std::ptr::null(), &raw const hints, &raw mut list) };
    if code != 0 {
        return Err(refused(code));
    }
    let mut found: Vec<SocketAddr> = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: `at` is an entry of the list that getaddrinfo returned and that is freed only below.
        let entry = unsafe { &*at };
        // SAFETY: ai_addr of an entry points to an address of its family, of ai_addrlen bytes.
        let address = unsafe { address_of(entry) };
        found.extend(address.filter(|address| !found.contains(address)));
        at = entry.ai_next;
    }
    // SAFETY: the list that getaddrinfo returned, freed once; no reference into it is left.
    unsafe { libc::freeaddrinfo(list) };
    if found.is_empty() { missing("it has no address") } else { Ok(found.into()) }
}

/// # Safety
///
/// `entry.ai_addr` is null or points to `ai_addrlen` bytes of an address of the family `ai_family`.
unsafe fn address_of(entry: &libc::addrinfo) -> Option<SocketAddr> {
    let length = entry.ai_addrlen as usize;
    match entry.ai_family {
        _ if entry.ai_addr.is_null() => None,
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: that much of such an address is there; it may lie anywhere.
            let own = unsafe { entry.ai_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            let address = Ipv4Addr::from(u32::from_be(own.sin_addr.s_addr));
            Some(SocketAddrV4::new(address, 0).into())
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let own = unsafe { entry.ai_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            let address = Ipv6Addr::from(own.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(address, 0, own.sin6_flowinfo, own.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn refused(code: i32) -> NameError {
    let cause = match code {
        libc::EAI_SYSTEM => weir_units::plain(&io::Error::last_os_error()),
        code => {
            // SAFETY: gai_strerror returns a C string that lives for ever.
            let text = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
            weir_units::plain(&io::Error::other(text.to_string_lossy().into_owned()))
        }
    };
    match code {
        libc::EAI_AGAIN | libc::EAI_SYSTEM | libc::EAI_MEMORY => NameError::Passing(cause),
        _ => NameError::Missing(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn addresses_and_loopback_names_ask_nobody() {
        let names = Names::default();
        let found = |host: &str| {
            let found = names.look_up(host, LONG).wait(Some(Instant::now()), &|| false);
            found.map(|found| {
                found.unwrap().iter().map(|address| address.ip().to_string()).collect::<Vec<_>>()
            })
        };
        for host in ["localhost", "LocalHost.", "a.b.localhost", "x.LOCALHOST"] {
            assert_eq!(found(host), Some(vec!["::1".to_owned(), "127.0.0.1".to_owned()]), "{host}");
        }
        assert_eq!(found("[2001:db8::1]"), Some(vec!["2001:db8::1".to_owned()]));
        assert_eq!(found("192.0.2.1"), Some(vec!["192.0.2.1".to_owned()]));
        assert!(names.known.lock().is_empty());
    }

    /// A state in which a lookup began `ago` and is still at work.
    fn at_work(ago: Duration) -> LookupState {
        LookupState { begun: 1, at_work: Instant::now().checked_sub(ago), ..LookupState::default() }
    }

    fn lookup(state: LookupState, budget: Duration) -> Lookup {
        let entry = Entry::new("h", &Arc::default());
        *entry.lock() = state;
        Lookup { entry: Arc::new(entry), attempt: 1, since: Instant::now(), budget }
    }

    #[test]
    fn a_silent_resolver_is_waited_for_as_long_as_the_budget_lasts() {
        let budget = Duration::from_secs(3);
        assert!(!lookup(at_work(Duration::from_secs(2)), budget).is_over());
        let silent = lookup(at_work(budget), budget);
        assert_eq!(silent.wait(None, &|| false), Some(Err(NameError::Silent(budget))));
        // What earlier lookups took counts.
        let spent = LookupState { spent: Duration::from_secs(2), ..at_work(Duration::from_secs(1)) };
        assert!(lookup(spent, budget).is_over());
        let stopped = lookup(at_work(Duration::ZERO), budget);
        assert_eq!(stopped.wait(None, &|| true), Some(Err(NameError::Stopped)));
    }

    #[test]
    fn old_addresses_are_used_until_there_is_another_answer() {
        let old: Arc<[SocketAddr]> = vec![SocketAddr::from(([192, 0, 2, 1], 0))].into();
        let good = Instant::now().checked_sub(FRESH).map(|at| (at, Arc::clone(&old)));
        let state = || LookupState { good: good.clone(), ..at_work(Duration::ZERO) };
        assert_eq!(lookup(state(), LONG).wait(None, &|| false), Some(Ok(Arc::clone(&old))));
        // Those that nobody answers at are not, unless nothing better comes.
        let doubted = lookup(LookupState { doubted: true, ..state() }, LONG);
        assert!(!doubted.is_over());
        doubted.entry.end(Err(NameError::Passing("later".to_owned())));
        assert_eq!(doubted.wait(None, &|| false), Some(Ok(old)));
        let gone = lookup(LookupState { doubted: true, ..state() }, LONG);
        gone.entry.end(Err(NameError::Missing("none".to_owned())));
        assert!(matches!(gone.wait(None, &|| false), Some(Err(NameError::Missing(_)))));
    }

    #[test]
    fn a_child_begins_without_the_threads_of_its_parent() {
        let waiting = VecDeque::from([Arc::new(Entry::new("h", &Arc::default()))]);
        let mut queue = LookupQueue { process: 1, threads: MOST_THREADS, waiting };
        queue.enter(1);
        assert_eq!((queue.threads, queue.waiting.len()), (MOST_THREADS, 1));
        queue.enter(2);
        assert_eq!((queue.threads, queue.waiting.len()), (0, 0));
    }

    #[test]
    fn what_was_said_a_moment_ago_is_not_asked_again() {
        let now = Instant::now();
        let said = |error: NameError, ago: Duration| LookupState {
            begun: 1,
            ended: 1,
            last: now.checked_sub(ago).map(|at| (at, Err(error))),
            ..LookupState::default()
        };
        let missing = NameError::Missing(String::new());
        let passing = NameError::Passing(String::new());
        assert!(!said(missing.clone(), Duration::from_secs(1)).wants_lookup(LONG, now));
        assert!(said(missing, MISSING).wants_lookup(LONG, now));
        assert!(!said(passing.clone(), Duration::ZERO).wants_lookup(LONG, now));
        assert!(said(passing.clone(), PASSING).wants_lookup(LONG, now));
        let spent = LookupState { spent: LONG, ..said(passing, PASSING) };
        assert!(!spent.wants_lookup(LONG, now), "the budget is used up");
        assert!(!at_work(Duration::ZERO).wants_lookup(LONG, now), "somebody asks already");
    }
}
