//! The end that counts, for a few clients at a time, each bounded in threads, time and memory. It sends
//! nothing over UDP.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::control::{self, Channel, Message};
use super::receiver::{self, Before, Stream};
use super::{MOST_THREADS, PpsError};
use crate::wait::ready;

/// What a client may have.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// At a time.
    pub clients: usize,
    /// For its first words, and between two trials.
    pub timeout: Duration,
    /// Of one trial. There is no bound on how many: whoever measures for hours keeps its place, whoever says
    /// nothing loses it.
    pub trial: Duration,
    /// The largest receive buffers that may be asked for, bytes, all threads together.
    pub buffer: u32,
}

impl Default for Bounds {
    /// Four clients, since each fills a core or two; trials of two minutes, twice RFC 2544's.
    fn default() -> Bounds {
        Bounds {
            clients: 4,
            timeout: Duration::from_secs(10),
            trial: Duration::from_secs(120),
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
    Gone(SocketAddr, Option<PpsError>),
    /// A client was sent away, and why.
    SentAway(SocketAddr, String),
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    bounds: Bounds,
}

impl Server {
    /// Listens.
    pub fn bind(listen: SocketAddr, bounds: Bounds) -> Result<Server, PpsError> {
        let failed = |error: io::Error| PpsError::Control {
            what: format!("cannot listen at {listen}"),
            cause: weir_units::plain(&error),
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
                let away = |stream: &TcpStream, why: &str| {
                    turn_away(stream, why);
                    hear(Event::SentAway(peer, why.to_owned()));
                };
                if there.load(Relaxed) >= self.bounds.clients {
                    // Whoever floods with connections gets no thread for each.
                    away(&stream, "enough clients are there already");
                    continue;
                }
                // The session takes the stream with it, even where it never begins.
                let Ok(spare) = stream.try_clone() else { continue };
                there.fetch_add(1, Relaxed);
                let there = &there;
                let session = move || {
                    hear(Event::Came(peer));
                    let end = serve(stream, &self.bounds, stop);
                    there.fetch_sub(1, Relaxed);
                    hear(Event::Gone(peer, end.err()));
                };
                if once {
                    drop(spare);
                    session();
                    return;
                }
                if let Err(error) = Builder::new().spawn_scoped(scope, session) {
                    there.fetch_sub(1, Relaxed);
                    away(&spare, &format!("cannot start a thread: {}", weir_units::plain(&error)));
                }
            }
        });
    }
}

/// Says no to a client that gets no thread: greeting and refusal at once, which a new connection always has
/// room for.
fn turn_away(mut stream: &TcpStream, why: &str) {
    let mut words = control::greeting();
    words.extend(Message::Refused(why.to_owned()).encode());
    let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&words));
}

/// One client, from greeting to end.
fn serve(stream: TcpStream, bounds: &Bounds, stop: &AtomicBool) -> Result<(), PpsError> {
    let mut channel = Channel::greet(stream, bounds.timeout, stop)?;
    let mut next = channel.receive(bounds.timeout, stop)?;
    loop {
        let Message::Open { threads, gro, buffer } = next else {
            return refuse(&mut channel, "a session begins with its opening", stop);
        };
        if !(1..=MOST_THREADS).contains(&usize::from(threads)) {
            return refuse(&mut channel, &format!("threads from 1 to {MOST_THREADS}, not {threads}"), stop);
        }
        let buffer = buffer.min(bounds.buffer / u32::from(threads));
        match session(&mut channel, threads, gro, buffer as usize, bounds, stop)? {
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
    stop: &AtomicBool,
) -> Result<Option<Message>, PpsError> {
    let local = match channel.local() {
        Ok(local) => canonical(local.ip()),
        Err(error) => return refuse(channel, &weir_units::plain(&error), stop),
    };
    let open = |_| Stream::open(local, joined, buffer);
    let streams = match (0..threads).map(open).collect::<Result<Vec<_>, _>>() {
        Ok(streams) => streams,
        Err(error) => return refuse(channel, &error.to_string(), stop),
    };
    let over = AtomicBool::new(false);
    let token = fastrand::u32(..);
    std::thread::scope(|scope| {
        let over = &over;
        let begin =
            |stream| Builder::new().spawn_scoped(scope, move || Stream::run(stream, token, over)).map(drop);
        let next = match streams.iter().try_for_each(begin) {
            Ok(()) => converse(channel, &streams, token, bounds, stop),
            Err(error) => {
                let why = format!("cannot start {threads} receiving threads: {}", weir_units::plain(&error));
                refuse(channel, &why, stop)
            }
        };
        over.store(true, Relaxed);
        next
    })
}

/// An IPv4 client of a socket that listens on both is an IPv4 client.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

fn refuse<T>(channel: &mut Channel, why: &str, stop: &AtomicBool) -> Result<T, PpsError> {
    channel.send(&Message::Refused(why.to_owned()), Duration::from_secs(1), stop)?;
    Err(PpsError::Refused(why.to_owned()))
}

fn converse(
    channel: &mut Channel,
    streams: &[Stream],
    token: u32,
    bounds: &Bounds,
    stop: &AtomicBool,
) -> Result<Option<Message>, PpsError> {
    let ready = Message::Ready {
        token,
        gro: streams.iter().all(Stream::is_joined),
        buffer: streams.first().map_or(0, Stream::buffer),
        ports: streams.iter().map(Stream::port).collect(),
    };
    channel.send(&ready, bounds.timeout, stop)?;
    let mut running: Option<(u16, Before)> = None;
    let mut timeout = bounds.timeout;
    loop {
        let message = match channel.receive(timeout, stop) {
            // Between two trials a client may simply go.
            Err(PpsError::Control { .. }) if running.is_none() => return Ok(None),
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
                timeout = span + bounds.timeout;
                channel.send(&Message::Started, bounds.timeout, stop)?;
            }
            (Message::Done { trial, sent }, Some((own, before))) if trial == *own => {
                let counted = receiver::count(streams, before, sent, stop);
                running = None;
                timeout = bounds.timeout;
                channel.send(&Message::Counted(counted), bounds.timeout, stop)?;
            }
            _ => return refuse(channel, "that is not what comes next", stop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pps::client::{Client, Opening, Trial, Via};
    use std::io::Read;

    /// A server as long as `work` takes, which may say nothing for `timeout`.
    fn with_server(timeout: Duration, work: impl FnOnce(SocketAddr, &AtomicBool)) {
        let bounds = Bounds { timeout, ..Bounds::default() };
        let server = Server::bind(([127, 0, 0, 1], 0).into(), bounds).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| server.run(false, &stop, &|_| {}));
            work(server.address().unwrap(), &stop);
            stop.store(true, Relaxed);
        });
    }

    #[test]
    fn who_measures_may_stay_and_who_says_nothing_may_not() {
        // Beyond what a trial and the words around it take on a busy machine.
        let timeout = Duration::from_millis(1500);
        with_server(timeout, |address, stop| {
            let opening = Opening { threads: 1, via: Via::Plain, buffer: 0, timeout: Duration::from_secs(5) };
            let mut client = Client::open(address, &opening, stop).unwrap();
            let trial = Trial { payload: 64, rate: Some(100.0), span: timeout / 4 };
            let start = Instant::now();
            while start.elapsed() < timeout * 2 {
                assert!(client.trial(&trial, stop).unwrap().sent > 0);
            }
            let mut silent = TcpStream::connect(address).unwrap();
            silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            silent.write_all(&control::greeting()).unwrap();
            silent.write_all(&Message::Open { threads: 1, gro: false, buffer: 0 }.encode()).unwrap();
            // Its greeting, its answer to the opening, and then the end of the connection.
            assert!(silent.read_to_end(&mut Vec::new()).unwrap() > control::greeting().len());
        });
    }
}
