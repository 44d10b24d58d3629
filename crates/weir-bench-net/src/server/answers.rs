//! A test of transactions, as the server holds it: it answers each request, on threads of their own, and
//! tells at the end what that cost.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use weir_observe::thread::thread_cpu_now;
use weir_observe::watch::SAMPLE_INTERVAL;

use super::Shared;
use super::session::{GRACE, connections};
use crate::asked::{Asked, Kind, Part};
use crate::control::{Control, is_pause};
use crate::cookie::Cookie;
use crate::error::{Limit, NetError, stream_failed};
use crate::frame;
use crate::meter::Meter;
use crate::parameters::Parameters;
use crate::results::stream_id;
use crate::socket;
use crate::state::TestState;
use crate::transactions::{Answered, Broken, Line};

/// Where requests come from.
enum Source {
    Line(Line),
    Door(TcpListener),
}

/// What the threads share.
struct Work {
    asked: Asked,
    client: IpAddr,
    timeout: Duration,
    over: AtomicBool,
    answered: AtomicU64,
    /// Nanoseconds.
    cpu: AtomicU64,
    failure: Mutex<Option<NetError>>,
}

/// Answers the client behind this connection until it says that it is through.
pub(super) fn hold(
    shared: &Shared,
    control: &mut Control<'_>,
    parameters: &Parameters,
    asked: Asked,
    cookie: Cookie,
    local: SocketAddr,
    stop: &AtomicBool,
) -> Result<Answered, NetError> {
    let peer = control.peer();
    let sources = sources(shared, control, parameters, asked, cookie, local, stop)?;
    control.say(TestState::TestStart)?;
    control.say(TestState::TestRunning)?;
    let work = Work {
        asked,
        client: peer.ip().to_canonical(),
        timeout: shared.options.timeout,
        over: AtomicBool::new(false),
        answered: AtomicU64::new(0),
        cpu: AtomicU64::new(0),
        failure: Mutex::new(None),
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (index, source) in sources.into_iter().enumerate() {
            let work = &work;
            let thread = std::thread::Builder::new().name("net answer".to_owned());
            let spawned = thread.spawn_scoped(scope, move || work.serve(stream_id(index), source));
            if let Err(cause) = spawned {
                work.fail(stream_failed(stream_id(index), cause));
            }
        }
        let ended = work.watch(shared, control, parameters, begun, stop);
        work.over.store(true, Relaxed);
        ended
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let part =
        Part { transactions: work.answered.load(Relaxed), cpu: Duration::from_nanos(work.cpu.load(Relaxed)) };
    control.say(TestState::ExchangeResults)?;
    let theirs = control.hear(frame::PARAMETERS, "its results", shared.options.timeout)?;
    Part::parse(&theirs).ok_or(NetError::NoPart { peer })?;
    control.tell(&part.to_json())?;
    control.say(TestState::DisplayResults)?;
    // All is said: a client that closes without its farewell has lost nothing.
    let _ = control.next("its farewell", shared.options.timeout);
    Ok(Answered { peer, asked, streams: parameters.parallel, part, seconds })
}

/// The connections, or where they will be made, as agreed on with the client.
fn sources(
    shared: &Shared,
    control: &mut Control<'_>,
    parameters: &Parameters,
    asked: Asked,
    cookie: Cookie,
    local: SocketAddr,
    stop: &AtomicBool,
) -> Result<Vec<Source>, NetError> {
    let peer = control.peer();
    let lost = |source| NetError::Control { peer, source };
    // Before the word after which the client reads a frame: what fails here is told in its place.
    let door = match asked.kind {
        Kind::Exchange => None,
        Kind::Connect => Some(open_door(local, parameters)?),
    };
    control.say(TestState::Transactions)?;
    let mut sources = Vec::new();
    match door {
        None => {
            control.tell(&json!({}))?;
            for stream in connections(shared, control, parameters, cookie, stop)? {
                socket::set_options(socket2::SockRef::from(&stream), parameters)?;
                sources.push(Source::Line(Line::new(stream, &asked).map_err(lost)?));
            }
        }
        Some(door) => {
            let port = door.local_addr().map_err(lost)?.port();
            for _ in 0..parameters.parallel {
                sources.push(Source::Door(door.try_clone().map_err(lost)?));
            }
            control.tell(&json!({ "port": port }))?;
        }
    }
    Ok(sources)
}

/// A port of its own, so that telling a connection's purpose by a cookie and a thread costs no transaction
/// anything.
fn open_door(local: SocketAddr, parameters: &Parameters) -> Result<TcpListener, NetError> {
    let mut at = local;
    // A listener on `::` calls a client of IPv4 `::ffff:10.0.0.1`, where nobody can listen for IPv6 alone.
    at.set_ip(local.ip().to_canonical());
    at.set_port(0);
    let door = socket::listen_plain(at)?;
    socket::set_options(socket2::SockRef::from(&door), parameters)?;
    Ok(door)
}

impl Work {
    /// Until the client says that it is through, or a bound is reached.
    fn watch(
        &self,
        shared: &Shared,
        control: &mut Control<'_>,
        parameters: &Parameters,
        begun: Instant,
        stop: &AtomicBool,
    ) -> Result<(), NetError> {
        let peer = control.peer();
        let options = &shared.options;
        let planned = Duration::from_secs(parameters.time.into());
        let planned = options.most_time.map_or(planned, |most| planned.min(most));
        let gush = self.asked.bytes() * u64::from(parameters.parallel);
        let mut meter = options.most_rate.map(|most| Meter::new(most, gush, options.rate_span));
        loop {
            match control.poll(SAMPLE_INTERVAL)? {
                None => {}
                Some(TestState::TestEnd) => return Ok(()),
                Some(state) => return Err(control.unexpected(state, "the end of the transactions")),
            }
            if stop.load(Relaxed) {
                return Err(NetError::Interrupted);
            }
            if let Some(error) = self.failure.lock().take() {
                return Err(error);
            }
            let (elapsed, bytes) = (begun.elapsed(), self.answered.load(Relaxed) * self.asked.bytes());
            let bound = |limit, bound| Err(NetError::Bound { peer, limit, bound });
            if elapsed > planned + GRACE {
                return bound(Limit::Time, format!("{} s are over", planned.as_secs()));
            }
            if let Some(most) = options.most_bytes.filter(|most| bytes > *most) {
                return bound(Limit::Bytes, format!("{most} bytes are through"));
            }
            if let Some(words) = meter.as_mut().and_then(|meter| meter.exceeded(elapsed, bytes)) {
                return bound(Limit::Rate, words);
            }
        }
    }

    fn fail(&self, error: NetError) {
        self.failure.lock().get_or_insert(error);
    }

    fn serve(&self, id: u32, source: Source) {
        let begun = thread_cpu_now();
        let ended = match source {
            Source::Line(mut line) => self.answer_all(&mut line),
            Source::Door(door) => self.answer_each(&door),
        };
        if let Err(cause) = ended {
            self.fail(stream_failed(id, cause));
        }
        self.cpu.fetch_add(thread_cpu_now().saturating_sub(begun).as_nanos() as u64, Relaxed);
    }

    /// Requests over one connection, until the client closes it.
    fn answer_all(&self, line: &mut Line) -> io::Result<()> {
        // Between two runs a client may think as long as it likes: the test as a whole is bounded.
        while !self.over.load(Relaxed) {
            match self.answer(line, Duration::MAX) {
                Ok(()) => {}
                Err(Broken::Closed | Broken::Stopped) => break,
                Err(Broken::Failed(cause)) => return Err(cause),
            }
        }
        Ok(())
    }

    /// One request of each connection.
    fn answer_each(&self, door: &TcpListener) -> io::Result<()> {
        while !self.over.load(Relaxed) {
            let Some(stream) = self.admit(door)? else { continue };
            match Line::new(stream, &self.asked)
                .map_err(Broken::Failed)
                .and_then(|mut line| self.answer(&mut line, self.timeout))
            {
                Ok(()) | Err(Broken::Closed | Broken::Stopped) => {}
                // That one's failure: its client tells of it.
                Err(Broken::Failed(cause)) => tracing::debug!("a transaction failed: {cause}"),
            }
        }
        Ok(())
    }

    fn answer(&self, line: &mut Line, timeout: Duration) -> Result<(), Broken> {
        let stopped = || self.over.load(Relaxed);
        line.read(self.asked.request, timeout, stopped)?;
        line.write(self.asked.response, self.timeout, stopped)?;
        self.answered.fetch_add(1, Relaxed);
        Ok(())
    }

    /// The next connection of this test's client.
    fn admit(&self, door: &TcpListener) -> io::Result<Option<TcpStream>> {
        let accepted = match door.accept() {
            Err(cause) if is_pause(&cause) => {
                let timeout = Timespec::try_from(SAMPLE_INTERVAL).ok();
                let mut polled = [PollFd::from_borrowed_fd(door.as_fd(), PollFlags::IN)];
                // An interrupted wait is as good as one that is over.
                let _ = poll(&mut polled, timeout.as_ref());
                return Ok(None);
            }
            // Gone before it was taken.
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionAborted => return Ok(None),
            accepted => accepted?,
        };
        let (stream, from) = accepted;
        Ok((from.ip().to_canonical() == self.client).then_some(stream))
    }
}
