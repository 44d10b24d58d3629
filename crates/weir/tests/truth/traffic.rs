//! The two applications of a run: threads that write and read as their plan says, over sockets in the bed's namespaces.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use weir_lab::bed::Bed;
use weir_observe::thread::{Tid, current_tid};
use weir_units::{Bytes, Rate};

use crate::plan::{Plan, Reader, Writer};

/// Sleeping applications wake so often: a few times in the shortest window of evidence. Neither a part nor a multiple of
/// 20 ms, the time between two looks and a round trip of the matrix: else all looks of a run fall into one phase.
pub(crate) const SLICE: Duration = Duration::from_millis(13);

/// What a client sends to ask for an answer.
const REQUEST: [u8; 64] = [b'?'; 64];

/// One connection, its two ends still in this process's hands.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) far: TcpStream,
    pub(crate) near: TcpStream,
}

/// The applications at work.
#[derive(Debug)]
pub(crate) struct Traffic {
    connections: Vec<Connection>,
    threads: Vec<JoinHandle<Account>>,
    /// For each connection, the sending and the receiving thread.
    pub(crate) tids: Vec<(Tid, Tid)>,
}

/// What one thread says of itself at its end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Account {
    /// It receives.
    pub(crate) receives: bool,
    /// In socket calls.
    pub(crate) in_socket: Duration,
    /// In writes to its disk.
    pub(crate) in_disk: Duration,
    /// On its processor.
    pub(crate) cpu: Duration,
    /// From the first call to the last.
    pub(crate) wall: Duration,
    /// Requests answered.
    pub(crate) answers: u32,
}

/// Opens the plan's connections: from near to far, as a download's are.
pub(crate) fn open(bed: &Bed, plan: &Plan) -> anyhow::Result<Vec<Connection>> {
    let far = bed.far_address();
    let listener = bed.far().run(|| listen(far, plan))??;
    let port = listener.local_addr()?.port();
    (0..plan.connections)
        .map(|_| {
            let near = bed.near().run(|| dial(SocketAddrV4::new(far, port), plan.receive_buffer))??;
            let (far, _) = listener.accept()?;
            far.set_nodelay(true)?;
            near.set_nodelay(true)?;
            Ok(Connection { far, near })
        })
        .collect()
}

/// Accepted sockets inherit congestion control and buffer from the listening one.
fn listen(address: Ipv4Addr, plan: &Plan) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((address, 0))?;
    let name = plan.cell.congestion.name();
    sockopt::set_tcp_congestion(&listener, name).with_context(|| format!("cannot select {name}"))?;
    if let Some(size) = plan.send_buffer {
        sockopt::set_socket_send_buffer_size(&listener, size.0 as usize)?;
    }
    Ok(listener)
}

/// The buffer must be set before the handshake, which fixes the window's scale.
fn dial(address: SocketAddrV4, receive_buffer: Option<Bytes>) -> anyhow::Result<TcpStream> {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    if let Some(size) = receive_buffer {
        sockopt::set_socket_recv_buffer_size(&fd, size.0 as usize)?;
    }
    connect(&fd, &SocketAddr::V4(address)).with_context(|| format!("cannot connect to {address}"))?;
    Ok(TcpStream::from(fd))
}

impl Traffic {
    /// Starts both applications on each connection. `disk` is where a reader stores.
    pub(crate) fn start(
        connections: Vec<Connection>,
        plan: &Plan,
        disk: Option<&std::path::Path>,
    ) -> anyhow::Result<Traffic> {
        let (mut threads, mut tids) = (Vec::new(), Vec::new());
        for (number, connection) in connections.iter().enumerate() {
            let (far, near) = (connection.far.try_clone()?, connection.near.try_clone()?);
            let file = match disk {
                Some(folder) => Some(File::create(folder.join(format!("stored-{number}")))?),
                None => None,
            };
            let (writer, reader) = (plan.writer, plan.reader);
            let (sender, tid) = start(move |clock| write(far, writer, clock));
            threads.push(sender);
            let sends = tid.recv()?;
            let (receiver, tid) = start(move |clock| read(near, reader, file, clock));
            threads.push(receiver);
            tids.push((sends, tid.recv()?));
        }
        Ok(Traffic { connections, threads, tids })
    }

    /// Hangs up and hears what each thread has to say.
    pub(crate) fn end(self) -> anyhow::Result<Vec<Account>> {
        for connection in &self.connections {
            // An end that has already gone is no concern.
            let _ = connection.far.shutdown(Shutdown::Both);
            let _ = connection.near.shutdown(Shutdown::Both);
        }
        let accounts = self.threads.into_iter().map(|thread| thread.join());
        accounts
            .map(|account| account.map_err(|_| anyhow::anyhow!("an application's thread panicked")))
            .collect()
    }
}

/// A thread that says its number first, and its account at its end, which is when its socket is gone.
fn start(
    work: impl FnOnce(&mut Clock) -> io::Result<()> + Send + 'static,
) -> (JoinHandle<Account>, Receiver<Tid>) {
    let (say, tid): (Sender<Tid>, _) = channel();
    let thread = spawn(move || {
        let _ = say.send(current_tid());
        let mut clock = Clock { start: Instant::now(), account: Account::default() };
        let _ = work(&mut clock);
        clock.account.cpu = weir_observe::thread::thread_cpu_now();
        clock.account.wall = clock.start.elapsed();
        clock.account
    });
    (thread, tid)
}

struct Clock {
    start: Instant,
    account: Account,
}

impl Clock {
    fn on_socket<T>(&mut self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let start = Instant::now();
        let result = call();
        self.account.in_socket += start.elapsed();
        result
    }

    fn on_disk<T>(&mut self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let start = Instant::now();
        let result = call();
        self.account.in_disk += start.elapsed();
        result
    }
}

/// When the next piece is due at a rate. What was missed is not made up for.
struct Schedule {
    rate: Rate,
    due: Instant,
}

impl Schedule {
    fn new(rate: Rate) -> Schedule {
        Schedule { rate, due: Instant::now() }
    }

    /// A slice's worth of bytes.
    fn piece(&self) -> usize {
        ((self.rate.0 * SLICE.as_secs_f64()) as usize).max(1)
    }

    fn after(&mut self, bytes: usize) -> Instant {
        self.due = self.due.max(Instant::now()) + self.rate.time_for(bytes as u64).unwrap_or_default();
        self.due
    }

    /// Asleep until then.
    fn sleep(&mut self, bytes: usize) {
        let due = self.after(bytes);
        sleep(due.saturating_duration_since(Instant::now()));
    }

    /// On the processor until then.
    fn compute(&mut self, bytes: usize) {
        let due = self.after(bytes);
        while Instant::now() < due {
            std::hint::spin_loop();
        }
    }
}

fn write(mut socket: TcpStream, writer: Writer, clock: &mut Clock) -> io::Result<()> {
    match writer {
        Writer::Bulk { piece } => {
            let bytes = vec![7; piece];
            loop {
                clock.on_socket(|| socket.write_all(&bytes))?;
            }
        }
        Writer::Paced { rate } => {
            let mut schedule = Schedule::new(rate);
            let bytes = vec![7; schedule.piece()];
            loop {
                clock.on_socket(|| socket.write_all(&bytes))?;
                schedule.sleep(bytes.len());
            }
        }
        Writer::Computes { rate } => {
            let mut schedule = Schedule::new(rate);
            let bytes = vec![7; (schedule.piece() / 4).max(1)];
            loop {
                schedule.compute(bytes.len());
                clock.on_socket(|| socket.write_all(&bytes))?;
            }
        }
        Writer::Answers { pause, size } => {
            let bytes = vec![7; size];
            loop {
                clock.on_socket(|| socket.read_exact(&mut [0; REQUEST.len()]))?;
                if !pause.is_zero() {
                    sleep(pause);
                }
                clock.on_socket(|| socket.write_all(&bytes))?;
            }
        }
    }
}

fn read(mut socket: TcpStream, reader: Reader, mut file: Option<File>, clock: &mut Clock) -> io::Result<()> {
    clock.account.receives = true;
    match reader {
        Reader::Eager => {
            let mut bytes = vec![0; 1 << 20];
            loop {
                take(&mut socket, clock, &mut bytes)?;
            }
        }
        Reader::Sleeps { rate } => {
            let mut schedule = Schedule::new(rate);
            let mut bytes = vec![0; schedule.piece()];
            loop {
                let count = take(&mut socket, clock, &mut bytes)?;
                schedule.sleep(count);
            }
        }
        Reader::Computes { rate } => {
            let mut schedule = Schedule::new(rate);
            let mut bytes = vec![0; schedule.piece()];
            loop {
                let count = take(&mut socket, clock, &mut bytes)?;
                schedule.compute(count);
            }
        }
        Reader::Stores { .. } => {
            let mut bytes = vec![0; 64 << 10];
            loop {
                let count = take(&mut socket, clock, &mut bytes)?;
                if let Some(file) = &mut file {
                    clock.on_disk(|| file.write_all(&bytes[..count]))?;
                }
            }
        }
        Reader::Asks { size } => {
            let mut bytes = vec![0; size];
            loop {
                socket.write_all(&REQUEST)?;
                clock.on_socket(|| socket.read_exact(&mut bytes))?;
                clock.account.answers += 1;
            }
        }
    }
}

/// Some bytes; the end of the stream is the end of the application.
fn take(socket: &mut TcpStream, clock: &mut Clock, bytes: &mut [u8]) -> io::Result<usize> {
    match clock.on_socket(|| socket.read(bytes))? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => Ok(count),
    }
}
