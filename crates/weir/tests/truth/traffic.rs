//! The two applications of a run: a process each, which write and read as their plan says, over sockets in
//! the bed's namespaces.
//!
//! A process, since whoever watches is to find its sockets, threads and files by its number, as those of any
//! program.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use serde_json::{Value, json};
use weir_lab::bed::Bed;
use weir_lab::netns::Namespace;
use weir_observe::process::Pid;
use weir_units::{Bytes, Rate};

use crate::cell::Cell;
use crate::plan::{Plan, Reader, Writer};

/// Sleeping applications wake so often: a few times in the shortest interval of evidence. Neither a part nor
/// a multiple of 20 ms, the time between two looks and a round trip of the matrix: else all looks of a run
/// fall into one phase.
pub(crate) const SLICE: Duration = Duration::from_millis(13);

/// What a client sends to ask for an answer.
const REQUEST: [u8; 64] = [b'?'; 64];

/// Tells the test's own binary which application it is to be.
const ROLE: &str = "WEIR_TRUTH_APPLICATION";

/// The applications at work.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) far: Application,
    pub(crate) near: Application,
    /// Where the far one listens.
    pub(crate) port: u16,
}

/// One of them, from outside.
#[derive(Debug)]
pub(crate) struct Application {
    child: Child,
    says: BufReader<ChildStdout>,
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

impl Traffic {
    /// Starts both and has them connect: from near to far, as a download does. `disk` is where a reader
    /// stores.
    pub(crate) fn start(bed: &Bed, plan: &Plan, disk: Option<&Path>) -> anyhow::Result<Traffic> {
        let address = bed.far_address();
        let role = |sends: bool, port: u16| {
            json!({
                "cell": plan.cell.to_string(),
                "sends": sends,
                "address": SocketAddrV4::new(address, port).to_string(),
                "disk": disk,
            })
        };
        let mut far = Application::start(bed.far(), &role(true, 0))?;
        let port = far.hear("at")?.parse()?;
        let mut near = Application::start(bed.near(), &role(false, port))?;
        near.hear("connected")?;
        far.hear("connected")?;
        Ok(Traffic { far, near, port })
    }

    /// Lets them begin.
    pub(crate) fn go(&mut self) -> anyhow::Result<()> {
        self.far.say("go")?;
        self.near.say("go")
    }

    /// Hangs up and hears what each thread has to say.
    pub(crate) fn end(mut self) -> anyhow::Result<Vec<Account>> {
        // Both at once: one that still sends would keep the other from its end.
        for end in [&mut self.far, &mut self.near] {
            drop(end.child.stdin.take());
        }
        let mut accounts = self.far.accounts()?;
        accounts.extend(self.near.accounts()?);
        Ok(accounts)
    }
}

impl Application {
    fn start(space: &Namespace, role: &Value) -> anyhow::Result<Application> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", "application", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        space.enter(&mut command)?;
        let mut child = command.spawn().context("cannot start an application")?;
        let says = child.stdout.take().context("its stdout")?;
        Ok(Application { child, says: BufReader::new(says) })
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    fn say(&mut self, word: &str) -> anyhow::Result<()> {
        let stdin = self.child.stdin.as_mut().context("its stdin")?;
        Ok(writeln!(stdin, "{word}")?)
    }

    /// What follows this word in the next line that begins with it.
    fn hear(&mut self, word: &str) -> anyhow::Result<String> {
        let mut line = String::new();
        while self.says.read_line(&mut line)? > 0 {
            if let Some(rest) = line.strip_prefix(word) {
                return Ok(rest.trim().to_owned());
            }
            line.clear();
        }
        bail!("an application ended before it said {word}")
    }

    fn accounts(&mut self) -> anyhow::Result<Vec<Account>> {
        let all: Value = serde_json::from_str(&self.hear("accounts")?)?;
        self.child.wait()?;
        let of = |value: &Value| Account::from_json(value).context("an account");
        all.as_array().context("accounts")?.iter().map(of).collect()
    }
}

impl Drop for Application {
    /// Nothing is left behind where a run failed half way.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What one of the applications does, in its own process. Without a role it is nothing.
pub(crate) fn application() -> anyhow::Result<()> {
    let Ok(role) = std::env::var(ROLE) else { return Ok(()) };
    let role: Value = serde_json::from_str(&role)?;
    let cell = role["cell"].as_str().context("a cell")?;
    let cell = Cell::all().into_iter().find(|known| known.to_string() == cell).context("a known cell")?;
    let plan = Plan::of(cell).map_err(anyhow::Error::msg)?;
    let address: SocketAddrV4 = role["address"].as_str().context("an address")?.parse()?;
    let sends = role["sends"].as_bool().context("a side")?;
    let sockets = if sends { accept(*address.ip(), &plan)? } else { dial_all(address, &plan)? };
    tell("connected", "")?;
    io::stdin().read_line(&mut String::new())?;
    let mut threads = Vec::new();
    for (number, socket) in sockets.iter().enumerate() {
        let socket = socket.try_clone()?;
        let folder = role["disk"].as_str().filter(|_| !sends).map(Path::new);
        let file = folder.map(|folder| File::create(folder.join(format!("stored-{number}")))).transpose()?;
        let (writer, reader) = (plan.writer, plan.reader);
        threads.push(spawn(move || match sends {
            true => account(|clock| write(socket, writer, clock)),
            false => account(|clock| read(socket, reader, file, clock)),
        }));
    }
    io::stdin().read_to_end(&mut Vec::new())?;
    for socket in &sockets {
        // A peer that has already gone is no concern.
        let _ = socket.shutdown(Shutdown::Both);
    }
    let accounts = threads.into_iter().map(|thread| thread.join());
    let accounts: Result<Vec<Value>, _> = accounts.map(|it| it.map(Account::to_json)).collect();
    let accounts = accounts.map_err(|_| anyhow::anyhow!("an application's thread panicked"))?;
    tell("accounts", &Value::Array(accounts).to_string())
}

/// The test harness has begun a line of its own.
fn tell(word: &str, rest: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "\n{word} {rest}")?;
    Ok(stdout.flush()?)
}

/// Waits for the plan's connections.
fn accept(address: Ipv4Addr, plan: &Plan) -> anyhow::Result<Vec<TcpStream>> {
    let listener = listen(address, plan)?;
    tell("at", &listener.local_addr()?.port().to_string())?;
    let accept = |_| {
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        Ok(socket)
    };
    (0..plan.connections).map(accept).collect()
}

fn dial_all(address: SocketAddrV4, plan: &Plan) -> anyhow::Result<Vec<TcpStream>> {
    let dial = |_| {
        let socket = dial(address, plan.receive_buffer)?;
        socket.set_nodelay(true)?;
        Ok(socket)
    };
    (0..plan.connections).map(dial).collect()
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

/// Does the work; its end is when its socket is gone.
fn account(work: impl FnOnce(&mut Clock) -> io::Result<()>) -> Account {
    let mut clock = Clock { start: Instant::now(), account: Account::default() };
    let _ = work(&mut clock);
    clock.account.cpu = weir_observe::thread::thread_cpu_now();
    clock.account.wall = clock.start.elapsed();
    clock.account
}

impl Account {
    fn to_json(self) -> Value {
        let seconds = [self.in_socket, self.in_disk, self.cpu, self.wall].map(|span| span.as_secs_f64());
        json!({ "receives": self.receives, "seconds": seconds, "answers": self.answers })
    }

    fn from_json(value: &Value) -> Option<Account> {
        let seconds = |at: usize| Duration::try_from_secs_f64(value["seconds"].get(at)?.as_f64()?).ok();
        Some(Account {
            receives: value["receives"].as_bool()?,
            in_socket: seconds(0)?,
            in_disk: seconds(1)?,
            cpu: seconds(2)?,
            wall: seconds(3)?,
            answers: u32::try_from(value["answers"].as_u64()?).ok()?,
        })
    }
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
