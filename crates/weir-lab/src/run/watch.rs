//! One end of a bed, watched from outside its programs as `weir why` does: sockets by netlink, threads by /proc.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_model::evidence::{Clocks, Evidence, Facts, Window};
use weir_observe::Sampler;
use weir_observe::sock_diag::{Destroyed, Filter, SockDiag};

use super::lanes::Lanes;
use super::threads::Threads;
use crate::netns::Namespace;
use crate::scenario::{Scenario, Side};
use crate::workload::{PORT, Subject, WorkError};

/// Between two looks: a round trip of the lab's paths.
const LOOK: Duration = Duration::from_millis(20);

/// Looks in a window: 200 ms, within the 100 to 250 ms over which verdicts are formed.
const LOOKS: u32 = 10;

/// Ends are asked for more often, every 4 ms: a short connection's time is counted up to its end.
const NAPS: u32 = 5;

/// A watcher at work.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Evidence, weir_observe::Error>>,
}

/// What is watched.
pub(super) struct Post {
    pub(super) side: Side,
    /// The program at this end, once it runs.
    pub(super) subject: Arc<Subject>,
    /// Where it writes.
    pub(super) output: Option<PathBuf>,
}

impl Watch {
    /// Starts watching what goes to or from the lab's port in `namespace`.
    pub(super) fn start(namespace: &Namespace, scenario: &Scenario, post: Post) -> Result<Watch, WorkError> {
        let facts = facts(namespace, scenario, &post);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = namespace.spawn(move || watch(facts, &post, &stopped))?;
        Ok(Watch { stop, thread })
    }

    /// Everything seen.
    pub(super) fn finish(self) -> Result<Evidence, WorkError> {
        self.stop.store(true, Relaxed);
        let seen = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        seen.map_err(|error| WorkError::Failed(format!("cannot watch the sockets: {error}")))
    }
}

fn facts(namespace: &Namespace, scenario: &Scenario, post: &Post) -> Facts {
    let last_number = |name: &str| {
        let text = namespace.sysctl(name).ok()?;
        text.split_ascii_whitespace().next_back()?.parse().ok()
    };
    let program = if post.side == Side::Sender { "the server" } else { scenario.workload.program() };
    Facts {
        tcp_rmem_max: last_number("net.ipv4.tcp_rmem"),
        tcp_wmem_max: last_number("net.ipv4.tcp_wmem"),
        wmem_max: scenario.far.wmem_max.map(|bytes| bytes.0).or_else(|| last_number("net.core.wmem_max")),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        objects: scenario.workload.objects(),
        clocks: Clocks::Sampled,
        scope: Some(program.to_owned()),
        // On real hosts the interface's speed says it; here the scenario does.
        link_rate: scenario.path.down.rate.map(|rate| rate.0),
        ..Facts::default()
    }
}

fn watch(facts: Facts, post: &Post, stop: &AtomicBool) -> Result<Evidence, weir_observe::Error> {
    let mut sockets = SockDiag::open()?;
    let mut ended = Destroyed::open()?;
    let mut host = Sampler::new(post.output.as_deref());
    let mut threads = Threads::default();
    let mut lanes = Lanes::new(post.side);
    let mut windows = Vec::new();
    let start = Instant::now();
    let mut begun = start;
    let mut last = false;
    while !last {
        for _ in 0..LOOKS {
            lanes.look(&sockets.tcp(&Filter { port: Some(PORT), ..Filter::default() })?);
            threads.look(post.subject.now());
            last = stop.load(Relaxed);
            if last {
                break;
            }
            for _ in 0..NAPS {
                std::thread::sleep(LOOK / NAPS);
                note_ends(&mut ended, &mut lanes)?;
            }
        }
        note_ends(&mut ended, &mut lanes)?;
        let now = Instant::now();
        let seen = host.host_window();
        let lanes = lanes.window(begun, now, threads.window());
        // Before the first connection and after the last there is nothing to judge.
        if !lanes.is_empty() {
            windows.push(Window {
                at: begun.duration_since(start).as_secs_f64(),
                span: now.duration_since(begun),
                received: lanes.iter().map(|lane| lane.received).sum(),
                objects: lanes.iter().map(|lane| lane.objects).sum(),
                lanes,
                cpu: seen.cpu,
                dirty: seen.dirty,
                disk: seen.disk,
                ..Window::default()
            });
        }
        begun = now;
    }
    Ok(Evidence { windows, trials: Vec::new(), facts })
}

fn note_ends(ended: &mut Destroyed, lanes: &mut Lanes) -> Result<(), weir_observe::Error> {
    let mut over = Vec::new();
    ended.read(&mut over)?;
    lanes.end(over.iter().filter(|socket| [socket.id.local.port(), socket.id.remote.port()].contains(&PORT)));
    Ok(())
}
