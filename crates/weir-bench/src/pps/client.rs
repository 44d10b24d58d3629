//! The end that sends: opens a session, runs trials, and puts both ends' counts together.

use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::thread::Builder;
use std::time::Duration;

use super::control::{Channel, Counted, Message};
use super::frame::Mark;
use super::sender::{self, How, Job, Sent};
use super::{Busy, PpsError, raw};

/// How long the far end may take for an answer that costs it nothing.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long for its counts: it waits up to two seconds for stragglers.
const COUNTING: Duration = Duration::from_secs(10);

/// How packets are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// Each on its own.
    Plain,
    /// For the kernel to cut and to join (GSO, GRO).
    Joined,
    /// As whole frames through a packet socket.
    Frames,
}

/// What a session is opened with.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Sending threads, and receiving ones.
    pub threads: usize,
    /// How packets are handed over.
    pub via: Via,
    /// The receiver's buffer, bytes; 0: what its system gives.
    pub buffer: u32,
    /// To connect.
    pub timeout: Duration,
}

/// One trial.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// Bytes of each packet's payload.
    pub payload: usize,
    /// Packets a second, all threads together; `None`: as fast as it goes.
    pub rate: Option<f64>,
    /// For so long.
    pub span: Duration,
}

/// A trial as both ends saw it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TrialOutcome {
    /// Packets handed to this kernel.
    pub sent: u64,
    /// The longest of the sending threads' times.
    pub span: Duration,
    /// Times that this end's device had no room.
    pub full: u64,
    /// The busiest sending thread.
    pub busy: Busy,
    /// The far end's counts.
    pub counted: Counted,
}

impl TrialOutcome {
    /// Packets a second that left.
    pub fn sent_rate(&self) -> f64 {
        self.sent as f64 / self.span.as_secs_f64().max(1e-9)
    }

    /// Packets a second that came: over the time of sending or, where they came for longer, of coming.
    pub fn received_rate(&self) -> f64 {
        let span = self.span.max(self.counted.span);
        self.counted.counts.received as f64 / span.as_secs_f64().max(1e-9)
    }

    /// Packets sent that did not come.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.counted.counts.received)
    }

    /// Lost over sent.
    pub fn loss(&self) -> f64 {
        self.lost() as f64 / self.sent.max(1) as f64
    }
}

/// An open session.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    peer: SocketAddr,
    token: u32,
    ports: Vec<u16>,
    how: How,
    far_joined: bool,
    buffer: u64,
    trials: u16,
}

impl Client {
    /// Connects and opens.
    pub fn open(server: SocketAddr, opening: &Opening, stop: &AtomicBool) -> Result<Client, PpsError> {
        let stream =
            TcpStream::connect_timeout(&server, opening.timeout).map_err(|error| PpsError::Control {
                what: format!("cannot connect to {server} (weir bench pps -s there?)"),
                cause: weir_units::plain(&error),
            })?;
        Client::agree(server, Channel::greet(stream, TIMEOUT, stop)?, opening, stop)
    }

    /// Opens anew over the same connection.
    pub fn reopen(self, opening: &Opening, stop: &AtomicBool) -> Result<Client, PpsError> {
        Client::agree(self.peer, self.channel, opening, stop)
    }

    fn agree(
        server: SocketAddr,
        mut channel: Channel,
        opening: &Opening,
        stop: &AtomicBool,
    ) -> Result<Client, PpsError> {
        // The connection's own words have just gone that way, so the next hop is known.
        let how = match opening.via {
            Via::Plain => How::Plain,
            Via::Joined => How::Joined,
            Via::Frames => How::Frames(raw::way_to(server)?),
        };
        let open = Message::Open {
            threads: u8::try_from(opening.threads).unwrap_or(u8::MAX),
            gro: opening.via == Via::Joined,
            buffer: opening.buffer,
        };
        if let Err(broken) = channel.send(&open, TIMEOUT, stop) {
            // A server that has no place says so and closes, perhaps before it hears this.
            return Err(match channel.receive(TIMEOUT, stop) {
                Ok(Message::Refused(why)) => PpsError::Refused(why),
                _ => broken,
            });
        }
        match channel.receive(TIMEOUT, stop)? {
            Message::Ready { token, gro, buffer, ports } if ports.len() == opening.threads => {
                Ok(Client { channel, peer: server, token, ports, how, far_joined: gro, buffer, trials: 0 })
            }
            Message::Refused(why) => Err(PpsError::Refused(why)),
            _ => Err(unexpected(&channel)),
        }
    }

    /// The far end's kernel joins packets.
    pub fn is_joined_there(&self) -> bool {
        self.far_joined
    }

    /// The far end's receive buffer for each thread, bytes as its kernel counts them.
    pub fn buffer(&self) -> u64 {
        self.buffer
    }

    /// Runs one trial.
    pub fn trial(&mut self, trial: &Trial, stop: &AtomicBool) -> Result<TrialOutcome, PpsError> {
        self.trials = self.trials.wrapping_add(1);
        let millis = u32::try_from(trial.span.as_millis()).unwrap_or(u32::MAX);
        self.channel.send(&Message::Start { trial: self.trials, millis }, TIMEOUT, stop)?;
        match self.channel.receive(TIMEOUT, stop)? {
            Message::Started => {}
            Message::Refused(why) => return Err(PpsError::Refused(why)),
            _ => return Err(unexpected(&self.channel)),
        }
        let sent = self.send(trial, stop)?;
        let packets = sent.iter().map(|sent| sent.packets).sum();
        self.channel.send(&Message::Done { trial: self.trials, sent: packets }, TIMEOUT, stop)?;
        let mut counted = match self.channel.receive(COUNTING, stop)? {
            Message::Counted(counted) => counted,
            Message::Refused(why) => return Err(PpsError::Refused(why)),
            _ => return Err(unexpected(&self.channel)),
        };
        if counted.counts.received > packets {
            return Err(PpsError::Protocol(format!(
                "{} counted {} packets of {packets} that were sent",
                self.channel.peer(),
                counted.counts.received
            )));
        }
        counted.buffer_drops = counted.buffer_drops.min(packets - counted.counts.received);
        let busiest = sent.iter().max_by(|a, b| a.busy.run.total_cmp(&b.busy.run));
        Ok(TrialOutcome {
            sent: packets,
            span: sent.iter().map(|sent| sent.span).max().unwrap_or_default(),
            full: sent.iter().map(|sent| sent.full).sum(),
            busy: busiest.map(|sent| sent.busy).unwrap_or_default(),
            counted,
        })
    }

    fn send(&self, trial: &Trial, stop: &AtomicBool) -> Result<Vec<Sent>, PpsError> {
        let rate = trial.rate.map(|rate| rate / self.ports.len() as f64);
        let job = |(stream, port): (usize, &u16)| Job {
            to: SocketAddr::new(self.peer.ip(), *port),
            mark: Mark { token: self.token, trial: self.trials, stream: stream as u16, number: 0 },
            payload: trial.payload,
            how: self.how.clone(),
            rate,
            span: trial.span,
        };
        let jobs: Vec<Job> = self.ports.iter().enumerate().map(job).collect();
        // All begin together, and none where one cannot.
        let begin = OnceLock::new();
        let work = |job| if *begin.wait() { sender::run(job, stop) } else { Err(PpsError::Interrupted) };
        std::thread::scope(|scope| {
            let spawn = |job| Builder::new().spawn_scoped(scope, move || work(job));
            let workers = jobs.iter().map(spawn).collect::<Result<Vec<_>, _>>();
            let _ = begin.set(workers.is_ok());
            let broke = |_| Err(PpsError::Protocol("a sending thread broke".to_owned()));
            workers
                .map_err(PpsError::socket("cannot start the sending threads"))?
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(broke))
                .collect()
        })
    }
}

fn unexpected(channel: &Channel) -> PpsError {
    PpsError::Protocol(format!("{} said something that does not come next", channel.peer()))
}
