//! The end that counts, for a few clients at a time, each bounded in threads, time and memory. It sends nothing over UDP.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::control::{Channel, Message};
use super::receiver::{self, Before, Stream};
use super::{Error, MOST_THREADS};
use crate::wait::ready;

/// What a client may have.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// At a time.
    pub clients: usize,
    /// For its first words, and between two trials.
    pub patience: Duration,
    /// Of one trial.
    pub trial: Duration,
    /// Of all its trials.
    pub session: Duration,
    /// The largest receive buffers that may be asked for, bytes, all threads together.
    pub buffer: u32,
}

impl Default for Bounds {
    /// Four clients, since each fills a core or two; trials of two minutes, twice RFC 2544's; half an hour a session, which is a
    /// search with such trials.
    fn default() -> Bounds {
        Bounds {
            clients: 4,
            patience: Duration::from_secs(10),
            trial: Duration::from_secs(120),
            session: Duration::from_secs(1800),
            buffer: 64 << 20,
        }
    }
}

/// What happens, for whoever wants to say it.
#[derive(Debug)]
pub enum Event {
    /// A client came.
    Came(SocketAddr),
    /// A client is gone; the error where it did not end in order.
    Gone(SocketAddr, Option<Error>),
    /// A client was sent away, because enough are there.
    SentAway(SocketAddr),
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    bounds: Bounds,
}

impl Server {
    /// Listens.
    pub fn bind(listen: SocketAddr, bounds: Bounds) -> Result<Server, Error> {
        let failed = |error: io::Error| Error::Control {
            what: format!("cannot listen at {listen}"),
            cause: weir_observe::plain(&error),
        };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Server { listener, bounds })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is set or, with `once`, one client has come and gone.
    pub fn run(&self, once: bool, stop: &AtomicBool, hear: &(dyn Fn(Event) + Sync)) {
        let there = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            while !stop.load(Relaxed) {
                let soon = Instant::now() + Duration::from_secs(1);
                if !matches!(ready(&self.listener, PollFlags::IN, soon, stop), Ok(true)) {
                    continue;
                }
                let Ok((stream, peer)) = self.listener.accept() else { continue };
                if there.load(Relaxed) >= self.bounds.clients {
                    hear(Event::SentAway(peer));
                    // Dropped unheard: whoever floods with connections gets no thread for each.
                    continue;
                }
                there.fetch_add(1, Relaxed);
                let there = &there;
                let session = move || {
                    hear(Event::Came(peer));
                    let end = serve(stream, &self.bounds, stop);
                    there.fetch_sub(1, Relaxed);
                    hear(Event::Gone(peer, end.err()));
                };
                if once {
                    session();
                    return;
                }
                scope.spawn(session);
            }
        });
    }
}

/// One client, from greeting to end.
fn serve(stream: TcpStream, bounds: &Bounds, stop: &AtomicBool) -> Result<(), Error> {
    let mut channel = Channel::greet(stream, bounds.patience, stop)?;
    let end = Instant::now() + bounds.session;
    let mut next = channel.receive(bounds.patience, stop)?;
    loop {
        let Message::Open { threads, gro, buffer } = next else {
            return refuse(&mut channel, "a session begins with its opening", stop);
        };
        if !(1..=MOST_THREADS).contains(&usize::from(threads)) {
            return refuse(&mut channel, &format!("threads from 1 to {MOST_THREADS}, not {threads}"), stop);
        }
        let buffer = buffer.min(bounds.buffer / u32::from(threads));
        match session(&mut channel, threads, gro, buffer as usize, bounds, end, stop)? {
            Some(opening) => next = opening,
            None => return Ok(()),
        }
    }
}

/// One opening and its trials. Returns the client's next opening, if it has one.
fn session(
    channel: &mut Channel,
    threads: u8,
    joined: bool,
    buffer: usize,
    bounds: &Bounds,
    end: Instant,
    stop: &AtomicBool,
) -> Result<Option<Message>, Error> {
    let local = match channel.local() {
        Ok(local) => canonical(local.ip()),
        Err(error) => return refuse(channel, &weir_observe::plain(&error), stop),
    };
    let open = |_| Stream::open(local, joined, buffer);
    let streams = match (0..threads).map(open).collect::<Result<Vec<_>, _>>() {
        Ok(streams) => streams,
        Err(error) => return refuse(channel, &error.to_string(), stop),
    };
    let over = AtomicBool::new(false);
    let token = fastrand::u32(..);
    std::thread::scope(|scope| {
        for stream in &streams {
            scope.spawn(|| stream.run(token, &over));
        }
        let next = converse(channel, &streams, token, bounds, end, stop);
        over.store(true, Relaxed);
        next
    })
}

/// An IPv4 client of a socket that listens on both is an IPv4 client.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

fn refuse<T>(channel: &mut Channel, why: &str, stop: &AtomicBool) -> Result<T, Error> {
    channel.send(&Message::Refused(why.to_owned()), Duration::from_secs(1), stop)?;
    Err(Error::Refused(why.to_owned()))
}

fn converse(
    channel: &mut Channel,
    streams: &[Stream],
    token: u32,
    bounds: &Bounds,
    end: Instant,
    stop: &AtomicBool,
) -> Result<Option<Message>, Error> {
    let ready = Message::Ready {
        token,
        gro: streams.iter().all(Stream::is_joined),
        buffer: streams.first().map_or(0, Stream::buffer),
        ports: streams.iter().map(Stream::port).collect(),
    };
    channel.send(&ready, bounds.patience, stop)?;
    let mut running: Option<(u16, Before)> = None;
    let mut patience = bounds.patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return refuse(channel, "the session has lasted long enough", stop);
        }
        let message = match channel.receive(patience.min(left), stop) {
            // Between two trials a client may simply go.
            Err(Error::Control { .. }) if running.is_none() => return Ok(None),
            message => message?,
        };
        match (message, &running) {
            (opening @ Message::Open { .. }, None) => return Ok(Some(opening)),
            (Message::Start { trial, millis }, _) => {
                let span = Duration::from_millis(millis.into());
                if span > bounds.trial {
                    let most = bounds.trial.as_secs();
                    return refuse(channel, &format!("trials of {most} s at most"), stop);
                }
                running = Some((trial, receiver::start(streams, trial)));
                patience = span + bounds.patience;
                channel.send(&Message::Started, bounds.patience, stop)?;
            }
            (Message::Done { trial, sent }, Some((own, before))) if trial == *own => {
                let counted = receiver::count(streams, before, sent, stop);
                running = None;
                patience = bounds.patience;
                channel.send(&Message::Counted(counted), bounds.patience, stop)?;
            }
            _ => return refuse(channel, "that is not what comes next", stop),
        }
    }
}
