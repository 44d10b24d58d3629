//! The far end: what `weir peer` does between the first word on its stdin and the last on its stdout.

use std::fs::File;
use std::io::{BufReader, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver as Mailbox, channel};
use std::time::Duration;

use crate::addresses;
use crate::control::{Control, Outlet};
use crate::descriptors;
use crate::end::{Context, End, Post, listen_to};
use crate::error::CopyError;
use crate::events::{Event, Events, lost};
use crate::feed::Feed;
use crate::growth::{FindGrowing, GrowingSource};
use crate::hand_over::Purpose;
use crate::hello;
use crate::hold;
use crate::idle_timeout::{IDLE_TIMEOUT, IdleTimeout, TimedStream};
use crate::lane::dial::dial;
use crate::lane::listen::Listener;
use crate::list::Names;
use crate::meter::Meter;
use crate::opening::next_of;
use crate::receiver::{Receiver, Wanted};
use crate::roots;
use crate::secret::Secret;
use crate::secure::Keyring;
use crate::sender::Sender;
use crate::speeds::Speeds;
use crate::threads;
use crate::wire::driver::{FromDriver, ToDriver};
use crate::wire::frame;
use crate::wire::message::{Failure, FailureKind, Hello, Listening, MAX_SAMPLE, Options, Role, Start};
use crate::wire::to_receiver::ToReceiver;
use crate::wire::to_sender::ToSender;
use weir_codec::cipher::Cipher;

/// How long the driver may take to its first words: of two far ends the first waits while somebody types the
/// second one's password, or while weir is copied there (30 MB over 500 kbit/s take eight minutes).
const LOGIN: Duration = Duration::from_secs(600);

/// How long the addresses of the other end are tried.
const TIMEOUT: Duration = Duration::from_millis(2500);

/// A connection to a driver that has been greeted.
struct Opened {
    input: BufReader<TimedStream<File>>,
    control: Arc<Control>,
    own: Hello,
}

/// What a driver wants.
enum Wish {
    /// A copy, or what the second says.
    Copy(Box<Start>, Manner),
    /// The connection is for something else.
    Other(Purpose),
    /// To keep what comes here, for the sessions that come with this word.
    Hold(Secret),
    /// The session is of the process that holds under this word.
    Join(Secret),
}

/// What is done with the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// They are copied.
    Copies,
    /// Only what a copy would take is measured.
    Measures,
    /// The one file is copied, which may still grow unless it is whole.
    Grows { is_whole: bool },
}

/// A connection that is for something else than copies from here on.
#[derive(Debug)]
pub struct HandedOver {
    /// For what.
    pub purpose: Purpose,
    /// From the driver.
    pub input: BufReader<TimedStream<File>>,
    /// To it.
    pub output: TimedStream<File>,
}

/// What a process that serves sessions knows beforehand.
#[derive(Debug, Clone)]
pub(crate) struct PeerSetup {
    /// As `weir --version` prints it.
    pub(crate) version: String,
    /// How quick this machine is.
    pub(crate) speeds: Speeds,
    /// Where what comes is kept for those who pass it on, in a process that holds.
    pub(crate) feed: Option<Arc<Feed>>,
    /// Finds files that other programs write.
    pub(crate) find_growing: FindGrowing,
}

/// Says the first words.
fn open(
    (input, output): (File, File),
    idle_timeout: &IdleTimeout,
    setup: &PeerSetup,
    events: &Events,
) -> Result<Opened, CopyError> {
    let io = |error: std::io::Error| lost(events, &error);
    let exemption = idle_timeout.while_it_talks(input.as_fd()).map_err(io)?;
    let (mut input, mut output) =
        (idle_timeout.with(input).map_err(io)?, idle_timeout.with(output).map_err(io)?);
    (input.limit, output.limit, output.exemption) = (Some(LOGIN), Some(IDLE_TIMEOUT), Some(exemption));
    let input = BufReader::with_capacity(1 << 16, input);
    // One that was handed over has been greeted.
    if setup.feed.is_none() {
        output.write_all(format!("{}\n", crate::ssh::READY).as_bytes()).map_err(io)?;
    }
    let control = Arc::new(Control::new(output));
    let own = hello::own(&setup.version, setup.speeds.of_ciphers());
    Outlet::new(&control).try_send(&ToDriver::Hello(own.clone())).map_err(io)?;
    Ok(Opened { input, control, own })
}

/// Serves one session over these streams, on a machine of which `speeds` are known and where `find_growing`
/// finds files that other programs write. `Some`: the session is no copy, and for whoever called to go on
/// with.
pub fn serve(
    input: File,
    output: File,
    version: &str,
    speeds: &Speeds,
    find_growing: FindGrowing,
) -> Result<Option<HandedOver>, CopyError> {
    descriptors::raise();
    let setup = PeerSetup { version: version.to_owned(), speeds: speeds.clone(), feed: None, find_growing };
    serve_at(&setup, (input, output), &Arc::default())
}

/// The same, until `stop` says that it is over.
pub(crate) fn serve_at(
    setup: &PeerSetup,
    (input, output): (File, File),
    stop: &Arc<AtomicBool>,
) -> Result<Option<HandedOver>, CopyError> {
    let (mailbox, events) = channel();
    let events_to = Events::new("the other end", mailbox);
    let idle_timeout = IdleTimeout::new(Arc::clone(stop));
    let io = |error: std::io::Error| lost(&events_to, &error);
    let raw = (input.try_clone().map_err(io)?, output.try_clone().map_err(io)?);
    let Opened { mut input, control, own } = open((input, output), &idle_timeout, setup, &events_to)?;
    let driver = Outlet::new(&control);
    let begun = greet(&mut input, &events_to).and_then(|(theirs, wish)| match wish {
        Wish::Copy(start, manner) => {
            begin(*start, manner, (&own, &theirs), (&control, setup), &events_to).map(Ok)
        }
        Wish::Other(_) | Wish::Hold(_) | Wish::Join(_) if setup.feed.is_some() => {
            Err(events_to.out_of_turn("what is not for one that holds"))
        }
        other => Ok(Err(other)),
    });
    let (end, context, _listener) = match begun {
        Ok(Ok(begun)) => begun,
        Ok(Err(Wish::Hold(word))) => {
            let feed: Arc<Feed> = Arc::default();
            let setup = PeerSetup { feed: Some(Arc::clone(&feed)), ..setup.clone() };
            let serve = Arc::new(move |streams: (File, File), stop: &Arc<AtomicBool>| {
                serve_at(&setup, streams, stop).map(drop)
            });
            let all_have = || feed.end_marks();
            return hold::hold(&word, serve, input, &control, (&events_to, &all_have)).map(|()| None);
        }
        Ok(Err(Wish::Join(word))) => return hold::join(&word, &input, raw, &events_to).map(|()| None),
        Ok(Err(Wish::Copy(..))) => return Err(events_to.out_of_turn("two wishes")),
        Ok(Err(Wish::Other(purpose))) => {
            let mut output = idle_timeout.with(raw.1).map_err(|error| lost(&events_to, &error))?;
            output.limit = Some(IDLE_TIMEOUT);
            return Ok(Some(HandedOver { purpose, input, output }));
        }
        // Both ends have seen the other's number; in another protocol a message of this one may mean
        // anything.
        Err(error @ CopyError::Protocol { .. }) => return Err(error),
        Err(error) => {
            driver.send(&ToDriver::Abort(error.to_failure()));
            // The driver reads that and closes.
            input.get_mut().limit = Some(IDLE_TIMEOUT);
            while let Ok(Some(_)) = frame::read(&mut input, &mut Vec::new()) {}
            return Err(error);
        }
    };
    let (reader, reader_events) = (end.clone(), events_to.clone());
    events_to.spawn("control", move || {
        listen_to(input, &reader, Post::Peer, &reader_events);
        // However the control connection ended, nobody is left to serve.
        reader_events.send(Event::Closed);
    });
    converse(&end, (&context, setup.feed.is_some()), &control, (&events, &events_to));
    end.stop();
    Ok(None)
}

/// Tells what an end tells, until its session is over.
fn converse(
    end: &End,
    (context, holds): (&Context, bool),
    control: &Arc<Control>,
    (events, to): (&Mailbox<Event>, &Events),
) {
    let driver = Outlet::new(control);
    loop {
        let event = events.recv();
        event.iter().for_each(|event| to.taken(event));
        match event {
            // After the last word of all the other end waits for nothing but this one's end.
            Ok(Event::Closed | Event::Finished(_)) | Err(_) => return,
            Ok(Event::Dial(at, lane)) => dial_there(context, end, &driver, at, lane),
            // Only who holds serves sessions that another process can end.
            Ok(Event::Failed(CopyError::Interrupted)) if holds => {
                let failure =
                    Failure::new(FailureKind::Session, "the process of the session was ended there");
                tell(control, context.role, Event::Failed(CopyError::Refused(failure)));
                end.stop();
            }
            Ok(event) => {
                if let Event::Window(_) = event {
                    driver.send(&ToDriver::Tally(end.totals(), end.found()));
                }
                let over = matches!(event, Event::Failed(_));
                tell(control, context.role, event);
                if over {
                    end.stop();
                }
            }
        }
    }
}

/// The driver's first words: who the other end is, and what to do.
fn greet(input: &mut BufReader<TimedStream<File>>, events: &Events) -> Result<(Hello, Wish), CopyError> {
    let theirs = match next_of(input, events)? {
        Some(FromDriver::Hello(theirs)) => theirs,
        Some(FromDriver::Join(word)) => return Ok((hello::own("", Vec::new()), Wish::Join(word))),
        _ => return Err(events.out_of_turn("something before hello")),
    };
    input.get_mut().limit = Some(IDLE_TIMEOUT);
    hello::check("the driver", &theirs)?;
    let mut wish = next_of(input, events)?;
    if let Some(FromDriver::Evict(word)) = &wish {
        hold::evict(word);
        wish = next_of(input, events)?;
    }
    let ignores_errors = matches!(wish, Some(FromDriver::IgnoreErrors));
    if ignores_errors {
        wish = next_of(input, events)?;
    }
    let (mut start, manner) = match wish {
        Some(FromDriver::Start(start)) => (start, Manner::Copies),
        Some(FromDriver::Measure(start)) => (start, Manner::Measures),
        Some(FromDriver::Grows(start, is_whole)) => (start, Manner::Grows { is_whole }),
        Some(FromDriver::Fleet) => return Ok((theirs, Wish::Other(Purpose::Fleet))),
        Some(FromDriver::Command) => return Ok((theirs, Wish::Other(Purpose::Command))),
        Some(FromDriver::Hold(word)) => return Ok((theirs, Wish::Hold(word))),
        _ => return Err(events.out_of_turn("something before the start")),
    };
    start.options.selection.ignore_errors = ignores_errors;
    // No shorter than its own: the driver gives up by itself, and says so.
    let asked = start.options.selection.silence.map(|seconds| Duration::from_secs(seconds.into()));
    input.get_mut().limit = Some(asked.map_or(IDLE_TIMEOUT, |asked| asked.max(IDLE_TIMEOUT)));
    Ok((theirs, Wish::Copy(start, manner)))
}

/// Makes the end that the driver asked for, and what accepts its lanes.
fn begin(
    start: Start,
    manner: Manner,
    (own, theirs): (&Hello, &Hello),
    (control, setup): (&Arc<Control>, &PeerSetup),
    events: &Events,
) -> Result<(End, Context, Option<Listener>), CopyError> {
    let cipher = match start.cipher {
        0 => None,
        id => Some(Cipher::by_id(id).ok_or_else(|| events.out_of_turn("a cipher that does not exist"))?),
    };
    let keyring = Keyring::new(&start.secret, cipher);
    let context = Context { keyring: keyring.clone(), role: start.role, events: events.clone() };
    let end = match start.role {
        role if manner == Manner::Measures => {
            let (listed, events) = (start.options.listed, events.clone());
            let of_copy = (start.paths, start.options);
            let meter = Meter::new(Arc::clone(control), events, keyring.clone(), role, of_copy);
            if listed && role == Role::Sender {
                let (names, pieces) = Names::asked_of(Outlet::new(control));
                meter.take_names(names, Some(pieces));
            }
            End::Meter(meter)
        }
        Role::Sender => {
            let of_copy = (start.paths, start.options);
            let sender = match manner {
                Manner::Grows { is_whole } => {
                    begin_growing(of_copy, is_whole, &keyring, (control, setup), events)?
                }
                _ => begin_sender(of_copy.0, of_copy.1, &keyring, (control, setup), events)?,
            };
            sender.know_ends(own, theirs);
            End::Sender(sender)
        }
        Role::Receiver => {
            let [to] = &start.paths[..] else { return Err(events.out_of_turn("more than one target")) };
            let wanted = Wanted { to: to.clone(), names: None, same_machine: own.boot == theirs.boot };
            let receiver = Receiver::new(Outlet::new(control), events.clone(), start.options, wanted);
            setup.feed.iter().for_each(|feed| receiver.pass_on(feed));
            End::Receiver(receiver)
        }
    };
    let listener = start.listen.and_then(|ports| {
        let (end, tell, events) = (end.clone(), events.clone(), events.clone());
        let up = move |lane: crate::lane::Lane| {
            let id = lane.id;
            end.add_lane(lane);
            events.send(Event::LaneUp(id));
        };
        let strangers = move |count| tell.send(Event::Strangers(count));
        Listener::start(ports, keyring, start.role, up, strangers).ok()
    });
    let port = listener.as_ref().map_or(0, Listener::port);
    let connection = std::env::var("SSH_CONNECTION").ok();
    let addresses = match addresses::of_ssh(connection.as_deref()) {
        Some((_, own)) => vec![own],
        None => addresses::HERE.to_vec(),
    };
    Outlet::new(control).send(&ToDriver::Listening(Listening { port, addresses }));
    Ok((end, context, listener))
}

/// A sender of these paths, whose sources the receiver is told.
fn begin_sender(
    paths: Vec<Vec<u8>>,
    options: Options,
    keyring: &Keyring,
    (control, setup): (&Arc<Control>, &PeerSetup),
    events: &Events,
) -> Result<Arc<Sender>, CopyError> {
    if let Some(feed) = &setup.feed {
        // The driver knows what the sources are, and tells the receiver.
        let sources = (Vec::new(), &setup.speeds);
        let sender = Sender::new(Outlet::new(control), events.clone(), options, keyring.clone(), sources);
        sender.follow(feed);
        return Ok(sender);
    }
    let speeds = &setup.speeds;
    let found = roots::look(&paths, &options).map_err(CopyError::Refused)?;
    let roots::Sources { walks, roots, missing } = found;
    missing.into_iter().for_each(|problem| events.problem(problem));
    let (owners, listed, receiver) = (options.owners_here(), options.listed, Outlet::new(control));
    let sender = Sender::new(receiver.clone(), events.clone(), options, keyring.clone(), (walks, speeds));
    if listed {
        let (names, pieces) = Names::asked_of(Outlet::new(control));
        sender.take_names(names, Some(pieces));
    }
    owners.into_iter().for_each(|owners| receiver.send(&ToReceiver::Owners(owners)));
    receiver.send(&ToReceiver::Roots(roots));
    Ok(sender)
}

/// A sender of one file that may still grow.
fn begin_growing(
    (paths, options): (Vec<Vec<u8>>, Options),
    is_whole: bool,
    keyring: &Keyring,
    (control, setup): (&Arc<Control>, &PeerSetup),
    events: &Events,
) -> Result<Arc<Sender>, CopyError> {
    let [path] = &paths[..] else { return Err(events.out_of_turn("more than one file that grows")) };
    let found = GrowingSource::find(setup.find_growing, path, is_whole, &options);
    let source = found.map_err(CopyError::Refused)?;
    let (owners, receiver) = (options.owners_here(), Outlet::new(control));
    let of_none = (Vec::new(), &setup.speeds);
    let sender = Sender::new(receiver.clone(), events.clone(), options, keyring.clone(), of_none);
    sender.follow(&source.feed);
    owners.into_iter().for_each(|owners| receiver.send(&ToReceiver::Owners(owners)));
    receiver.send(&ToReceiver::Roots(vec![Some(source.root.clone())]));
    let sends = Arc::clone(&sender);
    events.spawn("grows", move || source.follow(&sends));
    Ok(sender)
}

/// Connects to the driver or the other far end, beside all else.
fn dial_there(context: &Context, end: &End, driver: &Outlet<ToDriver>, mut at: Listening, lane: u32) {
    let (context, end) = (context.clone(), end.clone());
    if at.addresses.contains(&addresses::WHERE_SSH_CAME_FROM) {
        // The driver does not know how it is seen from here; ssh's server does.
        at.addresses.retain(|address| *address != addresses::WHERE_SSH_CAME_FROM);
        let connection = std::env::var("SSH_CONNECTION").ok();
        at.addresses.extend(addresses::of_ssh(connection.as_deref()).map(|(client, _)| client));
    }
    let answer = driver.clone();
    let started = threads::start("dial", move || {
        let made = dial(&at, lane, &context.keyring, context.role, TIMEOUT);
        let why = made.as_ref().err().cloned();
        if let Ok(lane) = made {
            end.add_lane(lane);
        }
        answer.send(&ToDriver::Dialled(lane, why));
    });
    if let Err(why) = started {
        let why = threads::words(&why);
        driver.send(&ToDriver::Dialled(lane, Some(why)));
    }
}

/// What the other processes of the session are told of an event here: the driver, and the other end of
/// the copy.
fn tell(control: &Arc<Control>, role: Role, event: Event) {
    let driver = |said: &ToDriver| Outlet::new(control).send(said);
    match event {
        Event::Problem(problem) => driver(&ToDriver::Problem(problem)),
        Event::ProblemThere(problem) => driver(&ToDriver::ProblemThere(problem)),
        Event::ToReceiver(message) => Outlet::new(control).send(&message),
        Event::ToSender(message) => Outlet::new(control).send(&message),
        Event::Would(deed, name) => driver(&ToDriver::Would(deed, name)),
        Event::LaneLost(lane, why) => match role {
            Role::Sender => Outlet::new(control).send(&ToReceiver::LaneLost(lane, why)),
            Role::Receiver => Outlet::new(control).send(&ToSender::LaneLost(lane, why)),
        },
        Event::Strangers(count) => driver(&ToDriver::Strangers(count)),
        Event::Failed(error) => driver(&ToDriver::Abort(error.to_failure())),
        Event::Window(sample) => match serde_json::to_string(&sample) {
            Ok(json) if json.len() <= MAX_SAMPLE => driver(&ToDriver::Sample(json)),
            Ok(json) => tracing::debug!("a window of evidence of {} bytes is not told", json.len()),
            Err(error) => tracing::debug!("a window of evidence: {error}"),
        },
        _ => {}
    }
}
