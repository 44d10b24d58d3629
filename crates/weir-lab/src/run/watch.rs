//! One end of a bed, watched from outside its programs by the engine of `weir why`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Instant;

use weir_model::evidence::{Clocks, Evidence, Facts};
use weir_observe::pace::Pace;
use weir_observe::process::Pid;
use weir_observe::sock_diag::Filter;
use weir_observe::watch::{self, Discovery, Notes, Worker};

use crate::netns::Namespace;
use crate::scenario::{Scenario, Side};
use crate::workload::{PORT, Subject, WorkError};

/// A watcher at work.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Evidence, weir_observe::ObserveError>>,
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

fn watch(facts: Facts, post: &Post, stop: &AtomicBool) -> Result<Evidence, weir_observe::ObserveError> {
    let mut notes = Notes::default();
    let filter = Filter { port: Some(PORT), ..Filter::default() };
    let discovery = Discovery::new(watch::Subject::Served, filter, &mut notes)?;
    let mut watch = watch::Watch::new(discovery, notes, facts.scope.clone(), true);
    if let Some(output) = &post.output {
        watch = watch.with_output(output);
    }
    let mut pace = Pace::new(Instant::now());
    while !stop.load(Relaxed) {
        let worker =
            |watched: crate::workload::Watched| Worker { pid: Pid(watched.process), thread: watched.thread };
        watch.set_worker(post.subject.now().map(worker));
        watch.look();
        watch.rest(&mut pace);
    }
    watch.finish();
    let mut intervals = watch.evidence.intervals;
    // Before the first connection and after the last there is nothing to judge.
    intervals.retain(|interval| !interval.lanes.is_empty());
    Ok(Evidence { intervals, trials: Vec::new(), facts })
}
