//! The driver: from a command's words to a session with a far end, its lanes, and a report.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver as Mailbox, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use weir_model::evidence::Evidence;
use weir_model::limit::Limit;
use weir_tree::Name;

use crate::addresses;
use crate::ciphers;
use crate::control::Control;
use crate::end::{Context, End, Event, Events, listen_to, lost, read_message};
use crate::error::Error;
use crate::evidence::Joiner;
use crate::hello;
use crate::maker::{LaneMaker, Way};
use crate::receiver::{Receiver, Wanted};
use crate::roots;
use crate::secure::{Keyring, Secret};
use crate::sender::{CodecShare, Sender, spawn};
use crate::ssh::{Far, Host};
use crate::tuning::Tuning;
use crate::wire::frame::{self, Kind};
use crate::wire::message::{
    Deed, Failure, FailureKind, Hello, Message, Options, Ports, Problem, Role, Start, Totals, Transport,
};

/// Between two looks at what happens.
const LOOK: Duration = Duration::from_millis(20);

/// A copy between this machine and one other.
#[derive(Debug, Clone)]
pub struct Job {
    /// The other machine.
    pub host: Host,
    /// The paths of the sources.
    pub sources: Vec<Vec<u8>>,
    /// The path of the target.
    pub target: Vec<u8>,
    /// What this machine does: sends to the other, or receives from it.
    pub role: Role,
    /// How it is to be done.
    pub options: Options,
    /// How lanes are to be made.
    pub lanes: LaneOptions,
    /// As `weir --version` prints it.
    pub version: String,
}

/// How lanes are to be made.
#[derive(Debug, Clone, Default)]
pub struct LaneOptions {
    /// Only so.
    pub transport: Option<Transport>,
    /// On these ports.
    pub ports: Option<Ports>,
    /// Under no cipher.
    pub plain: bool,
    /// This many.
    pub count: Option<u32>,
}

/// How far it is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Duration,
    /// What was done so far.
    pub totals: Totals,
    /// Bytes of all files, once they are known.
    pub total: Option<u64>,
    /// Lanes that stand.
    pub lanes: u32,
    /// What holds the copy.
    pub limit: Option<Limit>,
    /// What a dry run would do.
    pub would: Option<(Deed, Name)>,
}

/// What became of it.
#[derive(Debug)]
pub struct Report {
    /// What was done, as this end counts it.
    pub totals: Totals,
    /// How it ended.
    pub outcome: Result<(), Error>,
    /// Paths that could not be read or written.
    pub problems: Vec<Problem>,
    /// Problems beyond those that are kept.
    pub more_problems: u64,
    /// From the first word to the far end to the last.
    pub elapsed: Duration,
    /// From the first lane on.
    pub moving: Duration,
    /// How the lanes were made.
    pub way: Option<Way>,
    /// Why the ways that were tried before did not work.
    pub tried: Vec<String>,
    /// The most lanes at one time.
    pub lanes: u32,
    /// The lanes' cipher.
    pub cipher: Option<&'static str>,
    /// What went through which codec, where this end sent.
    pub codecs: Vec<CodecShare>,
    /// What both ends saw.
    pub evidence: Evidence,
}

/// Problems that are kept in words; a million of them would say no more.
const PROBLEMS: usize = 100;

/// Copies. `stop` is the user's wish to end.
pub fn run(job: &Job, stop: &AtomicBool, progress: &mut dyn FnMut(&Progress)) -> Report {
    let start = Instant::now();
    let mut report = Report {
        totals: Totals::default(),
        outcome: Ok(()),
        problems: Vec::new(),
        more_problems: 0,
        elapsed: Duration::ZERO,
        moving: Duration::ZERO,
        way: None,
        tried: Vec::new(),
        lanes: 0,
        cipher: None,
        codecs: Vec::new(),
        evidence: Evidence::default(),
    };
    report.outcome =
        Session::open(job, &mut report).and_then(|session| session.run(stop, start, progress, &mut report));
    report.elapsed = start.elapsed();
    report
}

/// A session that has begun.
struct Session<'a> {
    job: &'a Job,
    far: Far,
    control: Arc<Control>,
    end: End,
    events: Mailbox<Event>,
    maker: LaneMaker,
    joiner: Joiner,
    /// How many lanes; none where the user said, or set a rate.
    tuning: Option<Tuning>,
}

impl<'a> Session<'a> {
    fn open(job: &'a Job, report: &mut Report) -> Result<Session<'a>, Error> {
        // What cannot be read here needs no far end.
        let local = match job.role {
            Role::Sender => Some(roots::look(&job.sources).map_err(Error::Refused)?),
            Role::Receiver => None,
        };
        // While ssh connects nothing else is to be done here.
        let speeds = std::thread::spawn(ciphers::measure);
        let mut far = job.host.start(&job.version)?;
        let (mailbox, events) = channel();
        let to = Events::new(job.host.shown(), mailbox);
        let gone = || Error::Lost { host: job.host.shown().to_owned(), why: None };
        let input = far.input.take().ok_or_else(gone)?;
        let output = far.output.as_mut().ok_or_else(gone)?;
        let control = Arc::new(Control::new(input));
        let own = hello::own(&job.version, speeds.join().unwrap_or_default());
        control.send(&Message::Hello(own.clone()));
        let theirs = match next(output, &to)? {
            Message::Hello(theirs) => theirs,
            _ => return Err(to.out_of_turn("something before hello")),
        };
        hello::check(job.host.shown(), &theirs)?;
        let (keyring, cipher) = begin(job, &own, &theirs, &control)?;
        report.cipher = cipher;
        let context = Context { keyring, role: job.role, events: to.clone() };
        let end = make_end(job, &context, &control, local, own.boot == theirs.boot)?;
        let listening = loop {
            match next(output, &to)? {
                Message::Listening(listening) => break listening,
                // The peer looks at its sources while it starts to listen.
                message => end.handle(message, &to)?,
            }
        };
        let same = own.boot == theirs.boot;
        let near = same && listening.addresses.iter().copied().all(addresses::is_own);
        let two = near && weir_observe::cpu::available_cpus() > 1 && job.options.rate_cap.is_none();
        let count = job.lanes.count.or(two.then_some(2));
        let maker = LaneMaker::new(
            LaneOptions { count, ..job.lanes.clone() },
            context,
            end.clone(),
            Arc::clone(&control),
            listening,
            &job.host,
        );
        let joiner = Joiner::new(job.role, same, job.lanes.count, job.sources.len() as u64);
        // Within one host there is no round trip to win by more lanes, but two let a second processor take part.
        let fixed = near || job.lanes.count.is_some() || job.options.rate_cap.is_some();
        let tuning = (!fixed).then(Tuning::new);
        Ok(Session { job, far, control, end, events, maker, joiner, tuning })
    }

    fn run(
        mut self,
        stop: &AtomicBool,
        start: Instant,
        progress: &mut dyn FnMut(&Progress),
        report: &mut Report,
    ) -> Result<(), Error> {
        let (reader, events) = (self.end.clone(), self.maker.events().clone());
        if let Some(output) = self.far.output.take() {
            spawn("control", move || listen_to(output, &reader, &events));
        }
        self.maker.begin();
        let outcome = self.watch(stop, start, progress, report);
        if let Err(error) = &outcome {
            self.control.send(&Message::Abort(error.to_failure()));
        }
        report.totals = self.end.totals();
        report.tried = self.maker.tried().to_vec();
        if let End::Sender(sender) = &self.end {
            report.codecs = sender.codecs();
        }
        report.moving = self.maker.since_first().unwrap_or_default();
        self.end.stop();
        self.control.close();
        self.far.end();
        let trials = self.tuning.as_ref().map(Tuning::trials).unwrap_or_default();
        report.evidence = self.joiner.into_evidence(trials);
        report.evidence.facts.codec_fixed = self.job.options.codec.is_some();
        outcome
    }

    fn watch(
        &mut self,
        stop: &AtomicBool,
        start: Instant,
        progress: &mut dyn FnMut(&Progress),
        report: &mut Report,
    ) -> Result<(), Error> {
        loop {
            if stop.load(Relaxed) {
                return Err(Error::Interrupted);
            }
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Finished(_)) => return Ok(()),
                Ok(Event::Failed(error)) => return Err(error),
                Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Lost { host: self.job.host.shown().to_owned(), why: None });
                }
                Ok(Event::Problem(problem)) if report.problems.len() < PROBLEMS => {
                    report.problems.push(problem)
                }
                Ok(Event::Problem(_)) => report.more_problems += 1,
                Ok(Event::Would(deed, name)) => {
                    progress(&Progress { would: Some((deed, name)), ..self.progress(start) })
                }
                Ok(Event::Window(sample)) => self.joiner.own(*sample),
                Ok(Event::Sample(json)) => self.joiner.far(&json),
                Ok(Event::Dial(..)) => {}
                Ok(lane) => self.maker.handle(lane)?,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.tune();
            report.way = self.maker.way();
            report.lanes = report.lanes.max(self.maker.standing());
            progress(&self.progress(start));
        }
    }

    /// Asks the tuner once a window.
    fn tune(&mut self) {
        let lanes = self.maker.standing();
        let left = self.end.total().map(|total| total.saturating_sub(self.end.totals().bytes));
        let limit = self.joiner.limit();
        let (Some(tuning), Some(limit), Some(window)) = (&mut self.tuning, limit, self.joiner.latest())
        else {
            return;
        };
        if lanes == 0 || self.maker.way() == Some(Way::Ssh) {
            return;
        }
        if let Some(lanes) = tuning.observe(window, limit, lanes, left) {
            self.maker.want(lanes);
        }
    }

    fn progress(&self, start: Instant) -> Progress {
        Progress {
            elapsed: start.elapsed(),
            totals: self.end.totals(),
            total: self.end.total(),
            lanes: self.maker.standing(),
            limit: self.joiner.limit(),
            would: None,
        }
    }
}

/// Chooses the cipher and tells the peer what to do.
fn begin(
    job: &Job,
    own: &Hello,
    theirs: &Hello,
    control: &Control,
) -> Result<(Keyring, Option<&'static str>), Error> {
    let cipher = (!job.lanes.plain).then(|| ciphers::fastest(&own.ciphers, &theirs.ciphers));
    let secret = Secret::draw()?;
    let keyring = Keyring::new(&secret, cipher);
    let (role, paths) = match job.role {
        Role::Sender => (Role::Receiver, vec![job.target.clone()]),
        Role::Receiver => (Role::Sender, job.sources.clone()),
    };
    let listens = job.lanes.transport != Some(Transport::Ssh);
    control.send(&Message::Start(Box::new(Start {
        secret,
        cipher: cipher.map_or(0, |cipher| cipher.id()),
        role,
        listen: listens.then_some(job.lanes.ports.unwrap_or(Ports { first: 0, last: 0 })),
        options: job.options.clone(),
        paths,
    })));
    Ok((keyring, cipher.map(|cipher| cipher.name())))
}

type Sources = (Vec<weir_tree::walk::Root>, Vec<crate::wire::message::Root>);

fn make_end(
    job: &Job,
    context: &Context,
    control: &Arc<Control>,
    local: Option<Sources>,
    same_machine: bool,
) -> Result<End, Error> {
    let (control, events, options) = (Arc::clone(control), context.events.clone(), job.options.clone());
    Ok(match local {
        Some((walks, roots)) => {
            let sender = Sender::new(Arc::clone(&control), events, options, context.keyring.clone(), walks);
            control.send(&Message::Roots(roots));
            End::Sender(sender)
        }
        None => {
            let names: Result<Vec<Name>, Failure> =
                job.sources.iter().map(|path| roots::name_of(path)).collect();
            let names = Some(names.map_err(Error::Refused)?);
            let wanted = Wanted { to: job.target.clone(), names, same_machine };
            End::Receiver(Receiver::new(control, events, options, wanted))
        }
    })
}

fn next(from: &mut impl Read, events: &Events) -> Result<Message, Error> {
    let mut body = Vec::new();
    let kind = frame::read(from, &mut body).map_err(|error| lost(events, &error))?;
    match kind {
        Some(Kind::Message) => match read_message(&body, events)? {
            Message::Abort(failure) if failure.kind == FailureKind::Interrupted => Err(Error::Interrupted),
            Message::Abort(failure) => Err(Error::Far(failure)),
            message => Ok(message),
        },
        Some(Kind::Record) => Err(events.out_of_turn("a record before the start")),
        None => Err(Error::Lost { host: events.host().to_owned(), why: None }),
    }
}
