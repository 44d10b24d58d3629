//! What does a turn of an event loop cost? Level-triggered epoll, edge-triggered epoll, io_uring and plain
//! blocking threads do the same work over loopback: 4 and 64 connections that receive bulk, and 1000 that
//! answer small requests.
//!
//! The loop under test runs on processor 0, what drives it on processor 1. The figure is the processor time
//! of the loop's threads, since a faster loop on loopback is held up by its driver. Rounds are interleaved;
//! medians are printed, one line a figure.
//!
//!     cargo run --release -p weir-bench --example event_loops [ROUNDS]
#![allow(unsafe_code, reason = "io_uring's submissions name memory that the kernel writes later")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::Timespec;
use weir_observe::thread::thread_cpu_now;

/// How long each run is driven: many times what it takes to start.
const SPAN: Duration = Duration::from_millis(700);

/// Of a request, and of its answer.
const SMALL: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// As many as weir's own bulk lanes are.
    Lanes,
    Bulk,
    Requests,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loop {
    Threads,
    Level,
    Edge,
    Uring,
}

impl Work {
    fn connections(self) -> usize {
        match self {
            Work::Lanes => 4,
            Work::Bulk => 64,
            Work::Requests => 1000,
        }
    }

    /// Bytes of a read: 256 KiB as bulk lanes have it at least, or room for a few requests.
    fn buffer(self) -> usize {
        if self == Work::Requests { 4 << 10 } else { 256 << 10 }
    }
}

/// What a run came to.
struct Run {
    /// Gigabytes, or thousands of requests.
    units: f64,
    span: Duration,
    cpu: Duration,
}

fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(5, |text| text.parse().unwrap());
    let (mut hard, wanted) = (rustix::process::getrlimit(rustix::process::Resource::Nofile), 4096);
    hard.current = Some(wanted.min(hard.maximum.unwrap_or(wanted)));
    rustix::process::setrlimit(rustix::process::Resource::Nofile, hard).unwrap();
    let cases: Vec<_> = [Work::Lanes, Work::Bulk, Work::Requests]
        .into_iter()
        .flat_map(|work| [Loop::Threads, Loop::Level, Loop::Edge, Loop::Uring].map(|kind| (work, kind)))
        .collect();
    let mut runs: Vec<Vec<Run>> = cases.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((work, kind), runs) in cases.iter().zip(&mut runs) {
            runs.push(run(*work, *kind));
        }
    }
    for ((work, kind), runs) in cases.iter().zip(&runs) {
        let rate = median(runs.iter().map(|run| run.units / run.span.as_secs_f64()).collect());
        let cost = median(runs.iter().map(|run| run.cpu.as_secs_f64() * 1e3 / run.units).collect());
        let unit = if *work == Work::Requests { "1000 requests" } else { "GB" };
        println!("{work:?} {kind:?}: {rate:.2} {unit}/s, {cost:.2} ms of processor a {unit}");
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // On a machine with one processor both share it.
    let _ = sched_setaffinity(None, &set);
}

fn run(work: Work, kind: Loop) -> Run {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far): (Vec<_>, Vec<_>) = (0..work.connections())
        .map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0))
        .unzip();
    for stream in near.iter().chain(&far) {
        stream.set_nodelay(true).unwrap();
    }
    let (bytes, cpu) = (AtomicU64::new(0), AtomicU64::new(0));
    let span = std::thread::scope(|scope| {
        let (bytes, cpu) = (&bytes, &cpu);
        scope.spawn(move || {
            pin(0);
            match kind {
                Loop::Threads => threads(far, work, bytes, cpu),
                Loop::Level => timed(cpu, || polled(&far, work, false, bytes)),
                Loop::Edge => timed(cpu, || polled(&far, work, true, bytes)),
                Loop::Uring => timed(cpu, || completed(&far, work, bytes)),
            }
        });
        scope
            .spawn(move || {
                pin(1);
                drive(&near, work)
            })
            .join()
            .unwrap()
    });
    let units = match work {
        Work::Lanes | Work::Bulk => bytes.load(Relaxed) as f64 / 1e9,
        Work::Requests => bytes.load(Relaxed) as f64 / SMALL as f64 / 1e3,
    };
    Run { units, span, cpu: Duration::from_nanos(cpu.load(Relaxed)) }
}

fn timed(cpu: &AtomicU64, work: impl FnOnce()) {
    let before = thread_cpu_now();
    work();
    cpu.fetch_add((thread_cpu_now() - before).as_nanos() as u64, Relaxed);
}

/// Writes what each connection takes, or a request and then one for each answer, until the time is over; then
/// hangs up.
fn drive(streams: &[TcpStream], work: Work) -> Duration {
    let block = vec![7; 256 << 10];
    let poll = epoll::create(CreateFlags::CLOEXEC).unwrap();
    let flags = if work == Work::Requests { EventFlags::IN } else { EventFlags::OUT };
    for (index, stream) in streams.iter().enumerate() {
        stream.set_nonblocking(true).unwrap();
        epoll::add(&poll, stream, EventData::new_u64(index as u64), flags).unwrap();
        if work == Work::Requests {
            (&mut &*stream).write_all(&block[..SMALL]).unwrap();
        }
    }
    let (start, mut events) = (Instant::now(), Vec::with_capacity(256));
    while start.elapsed() < SPAN {
        for event in wait(&poll, &mut events, true) {
            let mut stream = &streams[event.data.u64() as usize];
            match work {
                Work::Lanes | Work::Bulk => drop(stream.write(&block)),
                // An answer is one segment here and never torn.
                Work::Requests => {
                    if stream.read(&mut [0; SMALL]).is_ok_and(|count| count > 0) {
                        stream.write_all(&block[..SMALL]).unwrap();
                    }
                }
            }
        }
    }
    let span = start.elapsed();
    streams.iter().for_each(|stream| stream.shutdown(Shutdown::Write).unwrap());
    span
}

/// What is ready, at once or, with `sleep`, when something is.
fn wait(poll: impl AsFd, events: &mut Vec<Event>, sleep: bool) -> std::slice::Iter<'_, Event> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    events.clear();
    let _ = epoll::wait(poll, spare_capacity(events), if sleep { None } else { Some(&now) });
    events.iter()
}

/// A thread for each connection, blocking.
fn threads(streams: Vec<TcpStream>, work: Work, bytes: &AtomicU64, cpu: &AtomicU64) {
    std::thread::scope(|scope| {
        for mut stream in streams {
            let worker = std::thread::Builder::new().stack_size(64 << 10);
            let body = move || {
                timed(cpu, || {
                    let mut buffer = vec![0; work.buffer()];
                    while let Ok(count @ 1..) = stream.read(&mut buffer) {
                        answer(&mut stream, work, &buffer[..count]);
                        bytes.fetch_add(count as u64, Relaxed);
                    }
                });
            };
            worker.spawn_scoped(scope, body).unwrap();
        }
    });
}

fn answer(mut stream: impl Write, work: Work, request: &[u8]) {
    if work == Work::Requests {
        let _ = stream.write_all(request);
    }
}

/// epoll. Level-triggered: one read an event, the rest comes again. Edge-triggered: reads until one comes
/// back short, which says that the socket is empty (epoll(7)); a bulk connection that never is gives way
/// after 16 reads and has its turn after the others. An end that came together with data makes no edge of its
/// own: so EPOLLRDHUP is asked for, and reads then go on to the end.
fn polled(streams: &[TcpStream], work: Work, edge: bool, bytes: &AtomicU64) {
    const TURN: usize = 16;
    let poll = epoll::create(CreateFlags::CLOEXEC).unwrap();
    let flags = EventFlags::IN | if edge { EventFlags::ET | EventFlags::RDHUP } else { EventFlags::empty() };
    for (index, stream) in streams.iter().enumerate() {
        stream.set_nonblocking(true).unwrap();
        epoll::add(&poll, stream, EventData::new_u64(index as u64), flags).unwrap();
    }
    let mut buffer = vec![0; work.buffer()];
    let mut events = Vec::with_capacity(256);
    let (mut open, mut again) = (streams.len(), Vec::new());
    let over = AtomicBool::new(false);
    // Whether there is more to read.
    let mut read = |index: usize| {
        let mut stream = &streams[index];
        over.store(false, Relaxed);
        match stream.read(&mut buffer) {
            Ok(0) => over.store(true, Relaxed),
            Ok(count) => {
                answer(stream, work, &buffer[..count]);
                bytes.fetch_add(count as u64, Relaxed);
                return count == buffer.len();
            }
            Err(error) => assert!(error.kind() == ErrorKind::WouldBlock, "{error}"),
        }
        false
    };
    while open > 0 {
        let mut ready: Vec<(usize, bool)> = std::mem::take(&mut again);
        // Those that had their turn and have more do not keep the others from theirs.
        let waiting = ready.len();
        let found = wait(&poll, &mut events, waiting == 0);
        ready.extend(found.map(|event| {
            let flags = event.flags;
            (event.data.u64() as usize, edge && flags.contains(EventFlags::RDHUP))
        }));
        if waiting > 0 {
            // One of them may be found ready once more.
            ready.sort_unstable();
            ready.dedup_by(|later, first| {
                first.1 |= first.0 == later.0 && later.1;
                first.0 == later.0
            });
        }
        for (index, ending) in ready {
            let mut more = true;
            for _ in 0..if edge { TURN } else { 1 } {
                if !more {
                    break;
                }
                more = read(index) || ending;
                if over.load(Relaxed) {
                    open -= 1;
                    epoll::delete(&poll, &streams[index]).unwrap();
                    over.store(false, Relaxed);
                    more = false;
                }
            }
            if edge && more {
                again.push((index, ending));
            }
        }
    }
}

/// io_uring: a receive under way on each connection, and an answer beside the next receive. One system call
/// submits all that a batch of completions led to and waits for the next.
fn completed(streams: &[TcpStream], work: Work, bytes: &AtomicU64) {
    const SENT: u64 = u64::MAX;
    let mut ring = IoUring::new(4096).unwrap();
    let mut buffers: Vec<Vec<u8>> = streams.iter().map(|_| vec![0; work.buffer()]).collect();
    let reply = [7_u8; SMALL];
    let mut next: Vec<io_uring::squeue::Entry> = Vec::new();
    let mut receive = |index: usize| {
        let buffer = &mut buffers[index];
        let fd = types::Fd(streams[index].as_raw_fd());
        opcode::Recv::new(fd, buffer.as_mut_ptr(), buffer.len() as u32).build().user_data(index as u64)
    };
    next.extend((0..streams.len()).map(&mut receive));
    let (mut open, mut under_way) = (streams.len(), 0_usize);
    while open > 0 || under_way > 0 {
        for entry in next.drain(..) {
            under_way += 1;
            // SAFETY: receives name buffers that live to the end of this function and have one receive each
            // at a time; answers name `reply`. The function does not end before all of them have completed.
            while unsafe { ring.submission().push(&entry) }.is_err() {
                ring.submit().unwrap();
            }
        }
        ring.submit_and_wait(1).unwrap();
        let done: Vec<(u64, i32)> = ring.completion().map(|done| (done.user_data(), done.result())).collect();
        for (data, result) in done {
            under_way -= 1;
            match (data, result) {
                (SENT, _) => {}
                (_, ..=0) => open -= 1,
                (index, count) => {
                    bytes.fetch_add(count as u64, Relaxed);
                    if work == Work::Requests {
                        let fd = types::Fd(streams[index as usize].as_raw_fd());
                        let send = opcode::Send::new(fd, reply.as_ptr(), SMALL as u32).build();
                        next.push(send.user_data(SENT));
                    }
                    next.push(receive(index as usize));
                }
            }
        }
    }
}
