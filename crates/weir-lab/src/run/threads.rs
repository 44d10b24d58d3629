//! The thread that does a watched program's work: the one that ran most.

use std::collections::HashMap;
use std::time::Duration;

use weir_model::evidence::{Reading, ThreadWindow};
use weir_observe::cgroup::Quota;
use weir_observe::process::{self, Pid};
use weir_observe::thread_probe::ThreadProbe;

use crate::workload::Watched;

/// All threads of the program at work.
#[derive(Default)]
pub(super) struct Threads {
    probes: HashMap<u32, ThreadProbe>,
    /// Of the process with this number.
    quota: Option<(u32, Quota)>,
}

impl Threads {
    /// Looks at each thread once, also at those that are new.
    pub(super) fn look(&mut self, watched: Option<Watched>) {
        let Some(Watched { process, thread }) = watched else { return };
        let pid = Pid(process);
        let threads = match thread {
            Some(thread) => vec![thread],
            None => process::threads(pid).unwrap_or_default(),
        };
        if thread.is_none() && self.quota.as_ref().is_none_or(|(of, _)| *of != process) {
            self.quota = Quota::open(pid).ok().map(|quota| (process, quota));
        }
        self.probes.retain(|tid, _| threads.contains(tid));
        for tid in threads {
            if !self.probes.contains_key(&tid)
                && let Ok(probe) = ThreadProbe::open(pid, tid, process::described(pid))
            {
                self.probes.insert(tid, probe);
            }
        }
        self.probes.retain(|_, probe| probe.look().is_some());
    }

    /// What the busiest did since the last call.
    pub(super) fn window(&mut self) -> Reading<ThreadWindow> {
        let throttled = self.quota.as_mut().map_or(Duration::ZERO, |(_, quota)| quota.window());
        let windows = self.probes.values_mut().filter_map(|probe| match probe.window(throttled) {
            Reading::Value(window) => Some(window),
            Reading::Missing(_) => None,
        });
        match windows.max_by_key(|window| window.cpu) {
            Some(window) => Reading::Value(window),
            None => Reading::Missing("the program's threads were not seen in this window".to_owned()),
        }
    }
}
