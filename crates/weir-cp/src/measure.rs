//! A session that measures instead of copying: both ends look at themselves and send a short burst over real
//! lanes.
//!
//! The driver starts the far end as for a copy. It asks one thing after another, of itself and of the
//! peer, so that two measurements on one machine never disturb each other, and makes a survey of the
//! answers.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver as Mailbox, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use weir_model::survey::{Burst, Source, Survey, Target, Waits};
use weir_observe::tcp_info;

use crate::control::{Control, Outlet};
use crate::end::{Context, End, Post, listen_to};
use crate::error::CopyError;
use crate::events::{Event, Events};
use crate::hello;
use crate::lane::way::{LaneOptions, Way};
use crate::lane_manager::LaneManager;
use crate::list::List;
use crate::meter::Meter;
use crate::opening::{cipher, heard, lanes_at_first, next, reach, start_of};
use crate::problems::Problems;
use crate::secret::Secret;
use crate::secure::Keyring;
use crate::speeds::Speeds;
use crate::ssh::{Far, Host};
use crate::wire::driver::{FromDriver, ToDriver};
use crate::wire::measure::{Ask, Bounds, Found};
use crate::wire::message::{Options, Role, Transport};
use crate::wire::messages::Heard;

/// For listing, sampling and nine codecs.
const SOURCE: Bounds = Bounds { bytes: 64 << 20, millis: 1500 };

/// For memory, small files and the disk.
const TARGET: Bounds = Bounds { bytes: 256 << 20, millis: 1200 };

/// For a burst on a path without a round trip: long against the cycles of BBR's probing (8 round trips) and
/// the ticks of the kernel's accounting.
const BURST: Duration = Duration::from_secs(1);

/// Round trips of a burst beside that: slow start to 60 MB in flight.
const ROUNDS: u32 = 12;

/// Bytes of a burst: half a second at 2 GB/s.
const BYTES: u64 = 1 << 30;

/// Lanes of the second burst, where the first did not fill the link.
const MORE: u32 = 4;

/// The slowest link on which ssh's own bounds may show: below it a channel of 2 MiB holds nobody nearer than
/// 80 ms, and what ssh's buffers take would have to drain for seconds.
const SSH_LINK: f64 = 25e6;

/// For a burst inside ssh.
const SSH: Bounds = Bounds { bytes: 256 << 20, millis: 700 };

/// How long an answer may take beyond what was allowed: a disk that syncs, a host that swaps.
const TIMEOUT: Duration = Duration::from_secs(20);

/// For what the target is asked, all files together: a hundred thousand of them, where the round trip is
/// short.
const COMPARING: Duration = Duration::from_secs(2);

/// Between two looks at what happens.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A copy to be measured for.
#[derive(Debug, Clone)]
pub struct Job {
    /// The other machine.
    pub host: Host,
    /// The paths of the sources.
    pub sources: Vec<Vec<u8>>,
    /// The path of the target.
    pub target: Vec<u8>,
    /// What this machine would do in the copy.
    pub role: Role,
    /// How it is to be copied.
    pub options: Options,
    /// What of the source, where a list says that.
    pub list: Option<List>,
    /// How lanes are to be made.
    pub lanes: LaneOptions,
    /// What is known beforehand of how quick this machine is.
    pub speeds: Speeds,
    /// As `weir --version` prints it.
    pub version: String,
}

/// What was measured, and how.
#[derive(Debug, Clone)]
pub struct Surveyed {
    /// The figures.
    pub survey: Survey,
    /// How lanes were made.
    pub way: Option<Way>,
    /// Why the ways that were tried before did not work.
    pub tried: Vec<String>,
    /// From the first word to the far end to the last.
    pub elapsed: Duration,
    /// The target was asked about all files, where a copy would ask it.
    pub compared: bool,
    /// What a copy would not do, path by path, or do otherwise.
    pub problems: Problems,
}

/// Measures. `stop` is the user's wish to end; `progress` is told what comes next.
pub fn survey(
    job: &Job,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(&'static str),
) -> Result<Surveyed, CopyError> {
    let start = Instant::now();
    progress("starting the far end");
    let mut session = Session::open(job, stop)?;
    let outcome = session.run(stop, progress);
    if let Err(error) = &outcome {
        session.peer().send(&FromDriver::Abort(error.to_failure()));
    }
    session.meter.stop();
    session.control.close();
    session.far.end();
    let survey = outcome?;
    // What was told last.
    while let Ok(event) = session.events.try_recv() {
        session.note(event);
    }
    let (way, tried) = (session.lane_manager.way(), session.lane_manager.tried().to_vec());
    let Session { compared, problems, .. } = session;
    Ok(Surveyed { survey, way, tried, elapsed: start.elapsed(), compared, problems })
}

/// A session that has begun.
struct Session<'a> {
    job: &'a Job,
    far: Far,
    control: Arc<Control>,
    meter: Arc<Meter>,
    events: Mailbox<Event>,
    lane_manager: LaneManager,
    shared: bool,
    waits: Waits,
    /// Where a far end's wish for more names of the list goes.
    names: Option<std::sync::mpsc::Sender<()>>,
    compared: bool,
    problems: Problems,
}

impl<'a> Session<'a> {
    fn open(job: &'a Job, stop: &Arc<AtomicBool>) -> Result<Session<'a>, CopyError> {
        let start_of_all = Instant::now();
        let (mailbox, events) = channel();
        let to = Events::new(job.host.shown(), mailbox);
        let names = job.list.as_ref().map(|list| list.open(&to)).transpose()?;
        let (mut far, control) = reach(&job.host, &job.version, stop, &to)?;
        let own = hello::own(&job.version, job.speeds.of_ciphers());
        let peer = Outlet::new(&control);
        peer.send(&FromDriver::Hello(own.clone()));
        let theirs = heard(&mut far, &to)?;
        let login = start_of_all.elapsed();
        let (paths, own_paths) = match job.role {
            Role::Sender => (vec![job.target.clone()], job.sources.clone()),
            Role::Receiver => (job.sources.clone(), vec![job.target.clone()]),
        };
        let cipher = cipher(&job.lanes, &own, &theirs);
        let secret = Secret::draw()?;
        let keyring = Keyring::new(&secret, cipher);
        let start = start_of(job.role.other(), paths, &job.lanes, &job.options, (&secret, cipher));
        peer.send(&FromDriver::Measure(Box::new(start)));
        let context = Context { keyring: keyring.clone(), role: job.role, events: to.clone() };
        let of_copy = (own_paths, job.options.clone());
        let meter = Meter::new(Arc::clone(&control), to.clone(), keyring, job.role, of_copy);
        let names = match (job.role, names) {
            (Role::Sender, Some(names)) => {
                meter.take_names(names, None);
                None
            }
            (_, names) => names.map(|names| names.tell(peer.clone())).transpose()?,
        };
        let end = End::Meter(Arc::clone(&meter));
        let Some(Heard::Driver(ToDriver::Listening(listening))) = next(&mut far, &to)? else {
            return Err(to.out_of_turn("something else than where it listens"));
        };
        // What it took to listen is a copy's wait for lanes too.
        let waits =
            Waits { login, lanes: start_of_all.elapsed().saturating_sub(login), turn: Duration::ZERO };
        let shared = own.boot == theirs.boot;
        let count = lanes_at_first(&job.lanes, hello::share_network(&own, &theirs));
        let lanes = LaneOptions { count, ..job.lanes.clone() };
        let lane_manager = LaneManager::new(lanes, context, end.clone(), peer, listening, &job.host);
        let output = far.output.take().ok_or_else(|| to.gone(None))?;
        let teller = to.clone();
        teller.spawn("control", move || listen_to(output, &end, Post::Driver, &to));
        let (compared, problems) = (true, Problems::default());
        Ok(Session {
            job,
            far,
            control,
            meter,
            events,
            lane_manager,
            shared,
            waits,
            names,
            compared,
            problems,
        })
    }

    fn peer(&self) -> Outlet<FromDriver> {
        Outlet::new(&self.control)
    }

    fn run(
        &mut self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&'static str),
    ) -> Result<Survey, CopyError> {
        progress("the sources and their place");
        self.place(stop)?;
        if self.job.options.asks_first() {
            progress("what of it is at the target");
            self.compare(stop)?;
        }
        progress("the data: reading, codecs");
        let source = self.source(stop)?;
        progress("the target: memory, disk");
        let target = self.target(stop)?;
        progress("the path: data connections");
        let begun = Instant::now();
        self.lane_manager.begin();
        self.until_lanes_stand(stop)?;
        self.waits.lanes += begun.elapsed();
        let mut survey =
            Survey { source, target, shared: self.shared, waits: self.waits, ..Survey::default() };
        if self.lane_manager.way() == Some(Way::Ssh) {
            progress("the path: a burst inside ssh");
            survey.ssh = Some(self.burst(0, SSH, stop)?);
            return Ok(survey);
        }
        progress("the path: a burst");
        let first = self.burst(self.lane_manager.standing(), self.bounds(), stop)?;
        let fixed = self.shared || self.job.lanes.count.is_some() || first.fills_the_link();
        survey.bursts.push(first);
        if !fixed {
            progress("the path: a burst over more connections");
            self.lane_manager.want(MORE);
            self.until_lanes_stand(stop)?;
            let more = self.burst(self.lane_manager.standing(), self.bounds(), stop)?;
            survey.bursts.push(more);
        }
        if survey.best().is_some_and(|best| best.received.rate > SSH_LINK) {
            progress("the path: a burst inside ssh");
            self.lane_manager.want(0);
            self.peer().send(&FromDriver::Open(0, Transport::Ssh));
            self.meter.add_ssh_lane(0);
            survey.ssh = Some(self.burst(0, SSH, stop)?);
        }
        Ok(survey)
    }

    /// What a copy would refuse is refused before anything is measured, and in a copy's words. One of the two
    /// questions goes to the far end and takes it no time: that is a turn.
    fn place(&mut self, stop: &AtomicBool) -> Result<(), CopyError> {
        let mut asked = Instant::now();
        let roots = match self.ask(Role::Sender, Ask::Roots, Duration::ZERO, stop)? {
            Found::Roots(roots) => roots,
            other => return Err(self.unfit(other)),
        };
        let count = roots.iter().flatten().count();
        if self.job.role == Role::Sender {
            asked = Instant::now();
        }
        let place = Ask::Place(roots, self.shared);
        let placed = self.ask(Role::Receiver, place, Duration::ZERO, stop)?;
        self.waits.turn = asked.elapsed();
        let (names, avoid) = match placed {
            Found::Placed(names, avoid) if names.len() == count => (names, avoid),
            other => return Err(self.unfit(other)),
        };
        if avoid.is_none() && !self.job.options.asks_first() {
            return Ok(());
        }
        match self.ask(Role::Sender, Ask::Called(names, avoid), Duration::ZERO, stop)? {
            Found::Known => Ok(()),
            other => Err(self.unfit(other)),
        }
    }

    /// Asks the target about file after file, as a copy does, for as long as that is worth the while.
    fn compare(&mut self, stop: &AtomicBool) -> Result<(), CopyError> {
        let until = Instant::now() + COMPARING;
        loop {
            let offers = match self.ask(Role::Sender, Ask::Offers(SOURCE), SOURCE.most_time(), stop)? {
                Found::Offers(offers) => offers,
                other => return Err(self.unfit(other)),
            };
            if offers.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                self.compared = false;
                return Ok(());
            }
            let count = offers.len();
            let wants = match self.ask(Role::Receiver, Ask::Wanted(offers), COMPARING, stop)? {
                Found::Wanted(wants) if wants.len() == count => wants,
                other => return Err(self.unfit(other)),
            };
            match self.ask(Role::Sender, Ask::Take(wants), Duration::ZERO, stop)? {
                Found::Known => {}
                other => return Err(self.unfit(other)),
            }
        }
    }

    fn source(&mut self, stop: &AtomicBool) -> Result<Source, CopyError> {
        match self.ask(Role::Sender, Ask::Source(SOURCE), SOURCE.most_time(), stop)? {
            Found::Source(source) => Ok(source),
            other => Err(self.unfit(other)),
        }
    }

    fn target(&mut self, stop: &AtomicBool) -> Result<Target, CopyError> {
        match self.ask(Role::Receiver, Ask::Target(TARGET), TARGET.most_time(), stop)? {
            Found::Target(target) => Ok(target),
            other => Err(self.unfit(other)),
        }
    }

    /// One burst over the lanes that stand.
    fn burst(&mut self, lanes: u32, bounds: Bounds, stop: &AtomicBool) -> Result<Burst, CopyError> {
        let sent = match self.ask(Role::Sender, Ask::Send(bounds), bounds.most_time(), stop)? {
            Found::Sent(sent) => sent,
            other => return Err(self.unfit(other)),
        };
        let received = match self.ask(Role::Receiver, Ask::Received(sent.bytes), TIMEOUT, stop)? {
            Found::Received(received) => received,
            other => return Err(self.unfit(other)),
        };
        if received.rate <= 0.0 {
            return Err(Context::failure("too little of the burst arrived to tell a rate"));
        }
        Ok(Burst { lanes, sent, received })
    }

    /// As long as slow start on this path takes, and then some.
    fn bounds(&self) -> Bounds {
        let sockets = self.meter.sockets();
        let trips = sockets.iter().filter_map(|socket| tcp_info::read(socket.as_fd()).ok()?.rtt);
        let time = BURST + trips.min().unwrap_or_default() * ROUNDS;
        Bounds { bytes: BYTES, millis: time.as_millis().min(3000) as u32 }
    }

    /// Asks whichever end has this role.
    fn ask(&mut self, role: Role, ask: Ask, time: Duration, stop: &AtomicBool) -> Result<Found, CopyError> {
        if self.job.role == role {
            let meter = Arc::clone(&self.meter);
            self.lane_manager.events().spawn("measure", move || meter.hears(meter.answer(ask)));
        } else {
            self.meter.ask(ask);
        }
        self.wait(time, stop)
    }

    /// Waits for an answer, with an eye on what else happens.
    fn wait(&mut self, time: Duration, stop: &AtomicBool) -> Result<Found, CopyError> {
        let until = Instant::now() + time + TIMEOUT;
        loop {
            if let Some(found) = self.meter.heard(POLL_INTERVAL) {
                return Ok(found);
            }
            self.look(stop, Duration::ZERO)?;
            if Instant::now() > until {
                return Err(self.lane_manager.events().gone(Some("it does not answer".to_owned())));
            }
        }
    }

    fn until_lanes_stand(&mut self, stop: &AtomicBool) -> Result<(), CopyError> {
        let start = Instant::now();
        while !self.lane_manager.is_settled() {
            self.look(stop, POLL_INTERVAL)?;
            if start.elapsed() > TIMEOUT {
                return Err(Context::failure("no data connection stood in time"));
            }
        }
        Ok(())
    }

    /// Takes in one event.
    fn look(&mut self, stop: &AtomicBool, timeout: Duration) -> Result<(), CopyError> {
        if stop.load(Relaxed) {
            return Err(CopyError::Interrupted);
        }
        match self.events.recv_timeout(timeout) {
            Ok(Event::Failed(error)) => Err(error),
            Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => {
                let why = self.far.how_it_ended();
                Err(self.lane_manager.events().gone(why))
            }
            Ok(event @ (Event::Problem(_) | Event::ProblemThere(_) | Event::MoreNames)) => {
                self.note(event);
                Ok(())
            }
            Ok(event) => self.lane_manager.handle(event),
            Err(RecvTimeoutError::Timeout) => Ok(()),
        }
    }

    /// What is no matter of lanes.
    fn note(&mut self, event: Event) {
        self.lane_manager.events().taken(&event);
        match event {
            Event::Problem(problem) | Event::ProblemThere(problem) => self.problems.add(problem),
            // A far end that asks for a list that there is not gets none.
            Event::MoreNames => drop(self.names.as_ref().map(|names| names.send(()))),
            _ => {}
        }
    }

    fn unfit(&self, found: Found) -> CopyError {
        match found {
            Found::Refused(failure) => CopyError::Far(failure),
            _ => self.lane_manager.events().out_of_turn("an answer to another question"),
        }
    }
}
