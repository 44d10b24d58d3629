//! One end of a bed, watched from outside its programs: sockets by netlink, the client's threads by /proc.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_model::evidence::{Evidence, Facts, LaneWindow, Reading, ThreadWindow, Window};
use weir_observe::Sampler;
use weir_observe::flow::FlowProbe;
use weir_observe::sock_diag::{Destroyed, Filter, SockDiag, TcpSocket};

use crate::netns::Namespace;
use crate::workload::{PORT, WorkError};

/// Between two looks: a round trip of the lab's paths.
const LOOK: Duration = Duration::from_millis(20);

/// Looks in a window: 200 ms, within the 100 to 250 ms over which verdicts are formed.
const LOOKS: u32 = 10;

/// A watcher at work.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Evidence, weir_observe::Error>>,
}

/// The client's process, once it runs, and where it writes.
type Client = (Arc<AtomicU32>, PathBuf);

impl Watch {
    /// Starts watching what goes to or from the lab's port in `namespace`.
    pub(super) fn start(namespace: &Namespace, client: Option<Client>) -> Result<Watch, WorkError> {
        let tcp_rmem = namespace.sysctl("net.ipv4.tcp_rmem").ok();
        let facts = Facts {
            tcp_rmem_max: tcp_rmem.and_then(|text| text.split_ascii_whitespace().nth(2)?.parse().ok()),
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
            objects: 1,
            ..Facts::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = namespace.spawn(move || watch(facts, client, &stopped))?;
        Ok(Watch { stop, thread })
    }

    /// Everything seen.
    pub(super) fn finish(self) -> Result<Evidence, WorkError> {
        self.stop.store(true, Relaxed);
        let seen = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        seen.map_err(|error| WorkError::Failed(format!("cannot watch the sockets: {error}")))
    }
}

fn watch(facts: Facts, client: Option<Client>, stop: &AtomicBool) -> Result<Evidence, weir_observe::Error> {
    let mut sockets = SockDiag::open()?;
    let mut ended = Destroyed::open()?;
    let (process, output) = client.unzip();
    let mut host = Sampler::new(output.as_deref());
    let mut threads = Threads::default();
    let mut lanes = Lanes::default();
    let mut windows = Vec::new();
    let start = Instant::now();
    let mut begun = start;
    let mut last = false;
    while !last {
        for _ in 0..LOOKS {
            lanes.look(sockets.tcp(&Filter { port: Some(PORT), ..Filter::default() })?);
            last = stop.load(Relaxed);
            if last {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let mut over = Vec::new();
        ended.read(&mut over)?;
        lanes.look_back(over);
        let now = Instant::now();
        let span = now.duration_since(begun);
        let thread = match process.as_ref().map(|process| process.load(Relaxed)) {
            Some(pid) if pid > 0 => threads.busiest(pid),
            _ => Reading::Missing("no program of the lab's is watched".to_owned()),
        };
        let seen = host.host_window();
        let mut window = lanes.window(span, thread);
        // Before the first connection and after the last there is nothing to judge.
        if !window.lanes.is_empty() {
            window.at = begun.duration_since(start).as_secs_f64();
            (window.cpu, window.dirty, window.disk) = (seen.cpu, seen.dirty, seen.disk);
            windows.push(window);
        }
        begun = now;
    }
    Ok(Evidence { windows, trials: Vec::new(), facts })
}

/// Each connection, with the number that its lane has.
#[derive(Default)]
struct Lanes {
    flows: HashMap<u64, Flow>,
    count: u32,
    /// In this window so far.
    looks: u32,
}

struct Flow {
    lane: u32,
    probe: FlowProbe,
    looks: u32,
    /// Its counters are in since it closed.
    over: bool,
    fresh: bool,
}

impl Lanes {
    fn look(&mut self, sockets: Vec<TcpSocket>) {
        self.looks += 1;
        for socket in sockets.iter().filter(|socket| socket.id.remote.port() != 0) {
            self.flow(socket).look(socket);
        }
    }

    /// Takes in what is said of connections as they close.
    fn look_back(&mut self, over: Vec<TcpSocket>) {
        let ours = |socket: &&TcpSocket| socket.id.local.port() == PORT || socket.id.remote.port() == PORT;
        for socket in over.iter().filter(ours) {
            let flow = self.flow(socket);
            flow.look(socket);
            flow.over = true;
        }
    }

    fn flow(&mut self, socket: &TcpSocket) -> &mut Flow {
        let count = &mut self.count;
        self.flows.entry(socket.id.cookie).or_insert_with(|| {
            let lane = *count;
            *count += 1;
            Flow { lane, probe: FlowProbe::from_its_start(), looks: 0, over: false, fresh: true }
        })
    }

    fn window(&mut self, span: Duration, thread: Reading<ThreadWindow>) -> Window {
        let mut thread = Some(thread);
        let all = self.looks.max(1);
        let mut lanes: Vec<LaneWindow> = self
            .flows
            .values_mut()
            .filter(|flow| flow.looks > 0)
            .map(|flow| {
                let alive = span.mul_f64(f64::from(flow.looks.min(all)) / f64::from(all));
                flow.lane(span, alive)
            })
            .collect();
        lanes.sort_by_key(|lane| lane.lane);
        if let (Some(lane), Some(thread)) = (lanes.first_mut(), thread.take()) {
            lane.thread = thread;
        }
        self.flows.retain(|_, flow| !flow.over);
        self.looks = 0;
        let received = lanes.iter().map(|lane| lane.received).sum();
        Window { span, received, lanes, ..Window::default() }
    }
}

impl Flow {
    fn look(&mut self, socket: &TcpSocket) {
        self.looks += 1;
        self.probe.look(socket);
    }

    fn lane(&mut self, span: Duration, alive: Duration) -> LaneWindow {
        let seen = self.probe.window();
        self.looks = 0;
        let first = u32::from(std::mem::take(&mut self.fresh));
        let awaiting = seen.awaiting_answer.min(seen.waiting);
        LaneWindow {
            lane: self.lane,
            received: if seen.sender.value().is_some() { seen.acked } else { seen.received },
            first_byte: alive.mul_f64(awaiting),
            socket_wait: alive.mul_f64(seen.waiting - awaiting),
            idle: span.saturating_sub(alive),
            connects: first,
            requests: first,
            tcp: seen.receiver,
            sender: seen.sender,
            ..LaneWindow::default()
        }
    }
}

/// The processor time of a process's threads.
#[derive(Default)]
struct Threads {
    before: HashMap<u32, (Duration, Duration)>,
}

impl Threads {
    /// What the busiest did since the last call.
    fn busiest(&mut self, pid: u32) -> Reading<ThreadWindow> {
        let mut now = HashMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let tid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let text = fs::read_to_string(entry.path().join("schedstat")).ok();
            if let (Some(tid), Some(times)) = (tid, text.and_then(|text| weir_observe::thread::parse(&text).ok())) {
                now.insert(tid, (times.run, times.wait));
            }
        }
        let before = std::mem::replace(&mut self.before, now);
        let used = self.before.iter().map(|(tid, (run, wait))| {
            let (run_then, wait_then) = before.get(tid).copied().unwrap_or_default();
            (run.saturating_sub(run_then), wait.saturating_sub(wait_then))
        });
        match used.max() {
            Some((cpu, runqueue)) => Reading::Value(ThreadWindow { cpu, runqueue, ..ThreadWindow::default() }),
            None => Reading::Missing(format!("process {pid} has ended")),
        }
    }
}
