//! The driver: from a command's words to a session with a far end, its lanes, and a report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver as Mailbox, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use weir_codec::cipher::Cipher;
use weir_model::evidence::Evidence;
use weir_model::forecast::Forecast;
use weir_model::limit::Limit;
use weir_model::rule::rate_limit::at_own_limit;
use weir_tree::Name;

use crate::control::{Control, Outlet};
use crate::descriptors;
use crate::end::{Context, End, Post, listen_to};
use crate::error::CopyError;
use crate::events::{Event, Events};
use crate::evidence::Joiner;
use crate::far_sources::{self, names_of};
use crate::growth::Written;
use crate::hello;
use crate::idle_timeout::KEEPALIVE;
use crate::lane::way::{LaneOptions, Way};
use crate::lane_manager::LaneManager;
use crate::link::{Link, SourceList};
use crate::list::List;
use crate::opening::{Meeting, cipher, heard, lanes_at_first, meet, next, start_of};
use crate::problems::Problems;
use crate::receiver::{Receiver, Wanted};
use crate::relay::{Relay, Side, Vouching};
use crate::roots;
use crate::secret::Secret;
use crate::secure::Keyring;
use crate::sender::{CodecShare, Sender};
use crate::speeds::Speeds;
use crate::ssh::{Far, Host};
use crate::threads;
use crate::tuning::{HOP_LANES, Tuning};
use crate::wire::driver::{FromDriver, ToDriver};
use crate::wire::message::{Deed, Found, Hello, Listening, Options, Problem, Role, Totals};
use crate::wire::messages::Heard;
use crate::wire::to_receiver::ToReceiver;

/// Between two looks at what happens.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long the other end's last words are waited for once one end is gone. They are on their way; only a
/// busy machine delays them.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A copy between this machine and one other, or between two others.
#[derive(Debug, Clone)]
pub struct Job {
    /// The other machine; of two the one that receives.
    pub host: Host,
    /// Of two others the one that sends.
    pub from: Option<Host>,
    /// The paths of the sources.
    pub sources: Vec<Vec<u8>>,
    /// The path of the target.
    pub target: Vec<u8>,
    /// What this machine does: sends to the other, or receives from it. Between two others it does neither.
    pub role: Role,
    /// Only these are copied of the one source.
    pub list: Option<List>,
    /// How it is to be done.
    pub options: Options,
    /// How lanes are to be made.
    pub lanes: LaneOptions,
    /// What is known beforehand of how quick this machine is.
    pub speeds: Speeds,
    /// As `weir --version` prints it.
    pub version: String,
    /// The session is one hop of several, over which the same goes to many hosts.
    pub link: Option<Link>,
    /// The source, on another host, is one file that a program there writes or has written.
    pub written: Option<Written>,
}

/// How far it is.
#[derive(Debug, Clone)]
pub struct Progress<'a> {
    /// Since the start.
    pub elapsed: Duration,
    /// What was done so far.
    pub totals: Totals,
    /// What the sender has found so far: the least that all can be.
    pub found: Found,
    /// Lanes that stand.
    pub lanes: u32,
    /// What holds the copy.
    pub limit: Option<Limit>,
    /// What a dry run would do, or what was done to one entry.
    pub would: Option<(Deed, Name)>,
    /// What both ends saw so far.
    pub evidence: &'a Evidence,
    /// When the sender was last heard, of a copy between two others.
    pub sender_heard: Option<Instant>,
}

/// What became of it.
#[derive(Debug)]
pub struct Report {
    /// What was done: as the receiver counts it, of a copy that was cut off as this end does.
    pub totals: Totals,
    /// How it ended.
    pub outcome: Result<(), CopyError>,
    /// Paths that could not be read or written.
    pub problems: Problems,
    /// From the first word to the far end to the last.
    pub elapsed: Duration,
    /// From the first lane on.
    pub moving: Duration,
    /// How the lanes were made.
    pub way: Option<Way>,
    /// Why the ways that were tried before did not work.
    pub tried: Vec<String>,
    /// Connections of strangers that came to the port for lanes.
    pub strangers: u64,
    /// The most lanes at one time.
    pub lanes: u32,
    /// The lanes' cipher.
    pub cipher: Option<&'static str>,
    /// What went through which codec, where this end sent.
    pub codecs: Vec<CodecShare>,
    /// What its first moments foretold; `None` of a run that was over before.
    pub forecast: Option<Forecast>,
    /// What congestion control the lanes went by, each with the second from which on.
    pub controls: Vec<(f64, String)>,
    /// What both ends saw.
    pub evidence: Evidence,
}

impl Report {
    /// Of a session that has not begun.
    pub fn nothing() -> Report {
        Report {
            totals: Totals::default(),
            outcome: Ok(()),
            problems: Problems::default(),
            elapsed: Duration::ZERO,
            moving: Duration::ZERO,
            way: None,
            tried: Vec::new(),
            strangers: 0,
            lanes: 0,
            cipher: None,
            codecs: Vec::new(),
            forecast: None,
            controls: Vec::new(),
            evidence: Evidence::default(),
        }
    }
}

/// Copies. `stop` is the user's wish to end.
pub fn run(job: &Job, stop: &Arc<AtomicBool>, progress: &mut dyn FnMut(&Progress<'_>)) -> Report {
    let start = Instant::now();
    let mut report = Report::nothing();
    descriptors::raise();
    let opened = match &job.from {
        Some(from) => Session::between(job, from, stop, &mut report),
        None => Session::open(job, stop, &mut report),
    };
    let opened = opened.map_err(|error| as_wished(error, stop));
    report.outcome = opened.and_then(|session| session.run(stop, start, progress, &mut report));
    report.elapsed = start.elapsed();
    report
}

/// Ctrl-C reaches ssh as well, which may be gone before the wish to end is looked at.
fn as_wished(error: CopyError, stop: &AtomicBool) -> CopyError {
    match error {
        CopyError::Lost { .. } | CopyError::Unreachable { .. } if stop.load(Relaxed) => {
            CopyError::Interrupted
        }
        error => error,
    }
}

/// A session that has begun.
struct Session<'a> {
    job: &'a Job,
    fars: Vec<Reached>,
    control: Arc<Control>,
    end: End,
    events: Mailbox<Event>,
    lane_manager: LaneManager,
    joiner: Joiner,
    /// How many lanes; none where the user said, or set a rate.
    tuning: Option<Tuning>,
    /// Tells the sender the next names of the list.
    names: Option<std::sync::mpsc::Sender<()>>,
}

/// A far end, and who hears it.
struct Reached {
    far: Far,
    end: End,
    events: Events,
}

/// What a session begins with.
struct Opened {
    fars: Vec<Reached>,
    control: Arc<Control>,
    end: End,
    events: Mailbox<Event>,
    context: Context,
    listening: Listening,
    /// Both ends of its lanes are on one machine: they share processors and files.
    same: bool,
    /// In one network of it.
    near: bool,
    /// How long the far end took to answer its first message; the path's round trip and what its machine
    /// needed.
    answered: Duration,
    names: Option<std::sync::mpsc::Sender<()>>,
}

impl<'a> Session<'a> {
    fn open(job: &'a Job, stop: &Arc<AtomicBool>, report: &mut Report) -> Result<Session<'a>, CopyError> {
        // What cannot be read here needs no far end.
        let local = match job.role {
            Role::Sender => Some(roots::look(&job.sources, &job.options).map_err(CopyError::Refused)?),
            Role::Receiver => None,
        };
        // While ssh connects nothing else is to be done here.
        let known = job.speeds.clone();
        let (tell, speeds) = channel();
        let of_ciphers = move || drop(tell.send(known.of_ciphers()));
        threads::start("ciphers", of_ciphers).map_err(|source| CopyError::Threads { source })?;
        let (mailbox, events) = channel();
        let to = Events::new(job.host.shown(), mailbox);
        let names = job.list.as_ref().map(|list| list.open(&to)).transpose()?;
        let way = job.link.as_ref().map_or(Meeting::Plain, |link| Meeting::Holder(&link.to));
        let (mut far, control, joined) = meet(&job.host, &job.version, way, stop, &to)?;
        let own = hello::own(&job.version, speeds.recv().unwrap_or_default());
        let peer = Outlet::new(&control);
        peer.send(&FromDriver::Hello(own.clone()));
        let theirs = joined.map_or_else(|| heard(&mut far, &to), Ok)?;
        let asked = Instant::now();
        let (keyring, cipher) = begin(job, &own, &theirs, &peer)?;
        report.cipher = cipher;
        let context = Context { keyring, role: job.role, events: to.clone() };
        let end = make_end(job, &context, &control, local, (&own, &theirs))?;
        if let (Some(link), End::Sender(sender)) = (&job.link, &end) {
            sender.vouch(&link.vouched);
        }
        let (same, near) = (own.boot == theirs.boot, hello::share_network(&own, &theirs));
        let names = match (&end, names) {
            (End::Sender(sender), Some(names)) => {
                sender.take_names(names, None);
                None
            }
            (_, names) => names.map(|names| names.tell(peer.clone())).transpose()?,
        };
        let listening = loop {
            match (next(&mut far, &to)?, &end) {
                (Some(Heard::Driver(ToDriver::Listening(listening))), _) => break listening,
                // The peer looks at its sources while it starts to listen.
                (
                    Some(Heard::Partner(said @ (ToReceiver::Owners(_) | ToReceiver::Roots(_)))),
                    End::Receiver(receiver),
                ) => receiver.handle(said)?,
                _ => return Err(to.out_of_turn("something before where it listens")),
            }
        };
        let answered = asked.elapsed();
        let fars = vec![Reached { far, end: end.clone(), events: to }];
        let opened = Opened { fars, control, end, events, context, listening, same, near, answered, names };
        Ok(Session::new(job, opened))
    }

    /// Between two far ends: each hears the other's hello as if it were the driver's.
    fn between(
        job: &'a Job,
        from: &Host,
        stop: &Arc<AtomicBool>,
        report: &mut Report,
    ) -> Result<Session<'a>, CopyError> {
        let (mailbox, events) = channel();
        let to_sender = Events::new(from.shown(), mailbox);
        let to_receiver = to_sender.named(job.host.shown());
        let list = job.list.as_ref().map(|list| list.open(&to_sender)).transpose()?;
        let [of_sender, of_receiver] = meetings(job.link.as_ref());
        let (mut sender, sending, sends) = meet(from, &job.version, of_sender, stop, &to_sender)?;
        let (mut receiver, receiving, receives) =
            meet(&job.host, &job.version, of_receiver, stop, &to_receiver)?;
        let sends = sends.map_or_else(|| heard(&mut sender, &to_sender), Ok)?;
        let receives = receives.map_or_else(|| heard(&mut receiver, &to_receiver), Ok)?;
        let (to_sending, to_receiving) = (Outlet::new(&sending), Outlet::new(&receiving));
        to_sending.send(&FromDriver::Hello(receives.clone()));
        to_receiving.send(&FromDriver::Hello(sends.clone()));
        let cipher = cipher(&job.lanes, &sends, &receives);
        let secret = Secret::draw()?;
        let keyring = Keyring::new(&secret, cipher);
        report.cipher = cipher.map(|cipher| cipher.name());
        tell_start(job, Role::Sender, (&secret, cipher), &to_sending);
        tell_start(job, Role::Receiver, (&secret, cipher), &to_receiving);
        if job.link.as_ref().is_some_and(|link| link.from.is_none()) {
            to_sending.send(&FromDriver::PassedOn);
        }
        let (same, near) = (sends.boot == receives.boot, hello::share_network(&sends, &receives));
        let asked = (job.link.as_ref(), &job.sources[..]);
        let (SourceList { owners, roots, .. }, at) =
            far_sources::offered(asked, &mut sender, &to_sender, [&sends, &receives])
                .map_err(|error| error.of(from.shown()))?;
        let receiving_at =
            match next(&mut receiver, &to_receiver).map_err(|error| error.of(job.host.shown()))? {
                Some(Heard::Driver(ToDriver::Listening(listening))) => listening,
                _ => return Err(to_receiver.out_of_turn("something before where it listens")),
            };
        let receiver_hears = Outlet::new(&receiving);
        owners.into_iter().for_each(|owners| receiver_hears.send(&ToReceiver::Owners(owners)));
        receiver_hears.send(&ToReceiver::Roots(roots));
        let relay = Relay::new(
            Side::new(&to_sender, &sending, sends, at),
            Side::new(&to_receiver, &receiving, receives, receiving_at.clone()),
            keyring.clone(),
            job.link.as_ref().map(Vouching::of),
        );
        // Whoever is told of a lane first has to be the one to whom its records come.
        let control = Arc::new(Control::both(receiving, Arc::clone(&sending)));
        let both = to_sender.named(&format!("{} and {}", from.shown(), job.host.shown()));
        let context = Context { keyring, role: job.role, events: both };
        let [from_sender, from_receiver] =
            [Role::Sender, Role::Receiver].map(|role| End::Relay(Arc::clone(&relay), role));
        let end = from_sender.clone();
        let fars = vec![
            Reached { far: sender, end: from_sender, events: to_sender },
            Reached { far: receiver, end: from_receiver, events: to_receiver },
        ];
        let names = list.map(|names| names.tell(to_sending)).transpose()?;
        let (listening, answered) = (receiving_at, Duration::ZERO);
        let opened = Opened { fars, control, end, events, context, listening, same, near, answered, names };
        Ok(Session::new(job, opened))
    }

    /// A session whose ends know each other.
    fn new(job: &'a Job, opened: Opened) -> Session<'a> {
        let Opened { fars, control, end, events, context, listening, same, near, answered, names } = opened;
        // Within one host there is no round trip to win by more lanes, but two let a second processor take
        // part.
        let fixed = near || job.lanes.count.is_some();
        let is_hop = job.link.is_some();
        let begin = || if is_hop { Tuning::of_hop() } else { Tuning::new(answered) };
        let tuning = (!fixed).then(begin);
        let own = if is_hop { Some(HOP_LANES) } else { tuning.as_ref().map(Tuning::lanes) };
        let count = lanes_at_first(&job.lanes, near && !is_hop && job.options.rate_cap.is_none()).or(own);
        let lane_manager = LaneManager::new(
            LaneOptions { count, ..job.lanes.clone() },
            context,
            end.clone(),
            Outlet::new(&control),
            listening,
            &job.host,
        );
        let joiner = Joiner::new(job.role, same, job.lanes.count, job.sources.len() as u64);
        Session { job, fars, control, end, events, lane_manager, joiner, tuning, names }
    }

    fn run(
        mut self,
        stop: &AtomicBool,
        start: Instant,
        progress: &mut dyn FnMut(&Progress<'_>),
        report: &mut Report,
    ) -> Result<(), CopyError> {
        for Reached { far, end, events } in &mut self.fars {
            let (end, events) = (end.clone(), events.clone());
            if let Some(output) = far.output.take() {
                let to = events.clone();
                to.spawn("control", move || listen_to(output, &end, Post::Driver, &events));
            }
        }
        let alive = Arc::downgrade(&self.control);
        self.lane_manager.events().spawn("alive", move || {
            let is_told = |control| Outlet::new(&control).try_send(&FromDriver::Alive).is_ok();
            while alive.upgrade().is_some_and(is_told) {
                std::thread::sleep(KEEPALIVE);
            }
        });
        self.lane_manager.begin();
        let outcome = self.watch(stop, start, progress, report).map_err(|error| self.cause_of(error, stop));
        self.part(outcome.as_ref().err());
        // A receiver's are of what is in its place; of a copy that was cut off this end's are all there are.
        if outcome.is_err() {
            report.totals = self.end.totals();
        }
        report.tried = self.lane_manager.tried().to_vec();
        report.strangers = self.lane_manager.strangers();
        if let End::Sender(sender) = &self.end {
            report.codecs = sender.codecs();
        }
        report.moving = self.lane_manager.since_first().unwrap_or_default();
        self.end.stop();
        self.fars.iter_mut().for_each(|reached| reached.far.end());
        let trials = self.tuning.as_ref().map(Tuning::trials).unwrap_or_default();
        report.forecast = self.joiner.forecast();
        report.controls = self.joiner.controls().to_vec();
        report.evidence = self.joiner.into_evidence(trials);
        report.evidence.facts.codec_fixed = self.job.options.codec.is_some();
        if self.lane_manager.way() == Some(Way::Ssh) {
            let why = "the data went inside ssh, whose connection is not weir's; weir why -- weir cp ... looks at it";
            report.evidence.facts.unseen = Some(why.to_owned());
        }
        outcome
    }

    /// Why the session ended. An end that is gone says little: the other end's error may come right behind
    /// that on another connection, and otherwise the exit of the far end's process tells.
    fn cause_of(&mut self, error: CopyError, stop: &AtomicBool) -> CopyError {
        let (host, why) = match as_wished(error, stop) {
            CopyError::Lost { host, why } => (host, why),
            other => return other,
        };
        let since = Instant::now();
        while let Some(left) = LAST_WORDS.checked_sub(since.elapsed()) {
            match self.events.recv_timeout(left) {
                Ok(Event::Failed(CopyError::Lost { .. })) => {}
                Ok(Event::Failed(said)) => return said,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        let gone = self.fars.iter_mut().find(|reached| reached.events.host() == host);
        let why = why.or_else(|| gone.and_then(|reached| reached.far.how_it_ended()));
        as_wished(CopyError::Lost { host, why }, stop)
    }

    /// The last word to the far end, and the end of its input. On a thread of its own: a far end that does
    /// not read would hold it, until ssh is ended.
    fn part(&self, error: Option<&CopyError>) {
        let (control, last) = (Arc::clone(&self.control), error.map(CopyError::to_failure));
        let started = threads::start("part", move || {
            if let Some(failure) = last {
                Outlet::new(&control).send(&FromDriver::Abort(failure));
            }
            control.close();
        });
        if let Err(why) = started {
            // The end of ssh, which follows, is a last word too.
            tracing::debug!("no thread for the last word: {why}");
        }
    }

    fn watch(
        &mut self,
        stop: &AtomicBool,
        start: Instant,
        progress: &mut dyn FnMut(&Progress<'_>),
        report: &mut Report,
    ) -> Result<(), CopyError> {
        loop {
            if stop.load(Relaxed) {
                return Err(CopyError::Interrupted);
            }
            let event = self.events.recv_timeout(POLL_INTERVAL);
            event.iter().for_each(|event| self.lane_manager.events().taken(event));
            match event {
                Ok(Event::ToReceiver(message)) => Outlet::new(&self.control).send(&message),
                Ok(Event::ToSender(message)) => Outlet::new(&self.control).send(&message),
                Ok(Event::Finished(totals)) => {
                    report.totals = totals;
                    return Ok(());
                }
                Ok(Event::Failed(error)) => return Err(error),
                Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(CopyError::Lost { host: self.job.host.shown().to_owned(), why: None });
                }
                Ok(Event::Problem(problem)) => report.problems.add(problem),
                Ok(Event::ProblemThere(problem)) => report.problems.add(self.of_receiver(problem)),
                Ok(Event::Would(deed, name)) => {
                    progress(&Progress { would: Some((deed, name)), ..self.progress(start) })
                }
                Ok(Event::Window(sample)) => self.joiner.own(*sample),
                Ok(Event::Sample(role, json)) => self.joiner.far(role, &json, self.lane_manager.made()),
                Ok(Event::MoreNames) => {
                    // A far end that asks for a list that there is not gets none.
                    let _ = self.names.as_ref().map(|names| names.send(()));
                }
                Ok(Event::Dial(..)) => {}
                Ok(lane) => self.lane_manager.handle(lane)?,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.lane_manager.look()?;
            self.tune();
            report.way = self.lane_manager.way();
            report.lanes = report.lanes.max(self.lane_manager.standing());
            progress(&self.progress(start));
        }
    }

    /// What the receiver told. Of one of many hosts a note begins with its name, as it does between two
    /// others: it is read among those of the source. What failed is told with its host anyway.
    fn of_receiver(&self, mut problem: Problem) -> Problem {
        if self.job.link.is_some() && problem.harmless {
            problem.failure.words = format!("{}: {}", self.job.host.shown(), problem.failure.words);
        }
        problem
    }

    /// Asks the tuner once an interval.
    fn tune(&mut self) {
        let lanes = self.lane_manager.standing();
        let found = self.end.found();
        // A hop has found all only once all has come to its sender; until then it is the least that is left.
        let is_known = found.all || self.job.link.is_some();
        let left = is_known.then(|| found.bytes.saturating_sub(self.end.totals().bytes));
        let limit = self.joiner.limit();
        let (Some(tuning), Some(limit), Some(interval)) = (&mut self.tuning, limit, self.joiner.latest())
        else {
            return;
        };
        if lanes == 0 || self.lane_manager.way() == Some(Way::Ssh) {
            return;
        }
        let cap = self.job.options.rate_cap.map(|cap| cap as f64);
        if cap.is_some_and(|cap| limit == Limit::RateLimit || at_own_limit(interval, cap)) {
            return tuning.pass(interval);
        }
        if let Some(lanes) = tuning.observe(interval, limit, lanes, left) {
            self.lane_manager.want(lanes);
        }
    }

    fn progress(&self, start: Instant) -> Progress<'_> {
        Progress {
            elapsed: start.elapsed(),
            totals: self.end.totals(),
            found: self.end.found(),
            lanes: self.lane_manager.standing(),
            limit: self.joiner.limit(),
            would: None,
            evidence: self.joiner.evidence(),
            sender_heard: self.end.sender_heard(),
        }
    }
}

/// How the sender and the receiver of a session between two others are started.
fn meetings(link: Option<&Link>) -> [Meeting<'_>; 2] {
    let Some(link) = link else { return [Meeting::Plain, Meeting::Plain] };
    [link.from.as_ref().map_or(Meeting::Unattended, Meeting::Holder), Meeting::Holder(&link.to)]
}

/// Tells an end of this role what to copy.
fn tell_start(job: &Job, role: Role, key: (&Secret, Option<Cipher>), to: &Outlet<FromDriver>) {
    let paths = match role {
        Role::Receiver => vec![job.target.clone()],
        Role::Sender => job.sources.clone(),
    };
    // A peer that does not know this ends the session: it is said only where it makes a difference.
    if role == Role::Sender && job.options.delete && job.options.selection.ignore_errors {
        to.send(&FromDriver::IgnoreErrors);
    }
    let start = Box::new(start_of(role, paths, &job.lanes, &job.options, key));
    to.send(&match job.written.filter(|_| role == Role::Sender) {
        Some(written) => FromDriver::Grows(start, written == Written::All),
        None => FromDriver::Start(start),
    });
}

/// Chooses the cipher and tells the peer what to do.
fn begin(
    job: &Job,
    own: &Hello,
    theirs: &Hello,
    peer: &Outlet<FromDriver>,
) -> Result<(Keyring, Option<&'static str>), CopyError> {
    let cipher = cipher(&job.lanes, own, theirs);
    let secret = Secret::draw()?;
    let keyring = Keyring::new(&secret, cipher);
    tell_start(job, job.role.other(), (&secret, cipher), peer);
    Ok((keyring, cipher.map(|cipher| cipher.name())))
}

fn make_end(
    job: &Job,
    context: &Context,
    control: &Arc<Control>,
    local: Option<roots::Sources>,
    (own, theirs): (&Hello, &Hello),
) -> Result<End, CopyError> {
    let (events, options) = (context.events.clone(), job.options.clone());
    Ok(match local {
        Some(roots::Sources { walks, roots, missing }) => {
            missing.into_iter().for_each(|problem| events.problem(problem));
            let (owners, receiver) = (options.owners_here(), Outlet::new(control));
            let sender =
                Sender::new(receiver.clone(), events, options, context.keyring.clone(), (walks, &job.speeds));
            sender.know_ends(own, theirs);
            owners.into_iter().for_each(|owners| receiver.send(&ToReceiver::Owners(owners)));
            receiver.send(&ToReceiver::Roots(roots));
            End::Sender(sender)
        }
        None => {
            let names = Some(names_of(&job.sources)?);
            let same_machine = own.boot == theirs.boot;
            let wanted = Wanted { to: job.target.clone(), names, same_machine };
            End::Receiver(Receiver::new(Outlet::new(control), events, options, wanted))
        }
    })
}
