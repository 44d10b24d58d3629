//! Staying on one processor, or noticing that one did not.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The processors that this process may use, by number.
pub fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return vec![sched_getcpu()] };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Keeps this thread on `cpu`; false where that is not allowed.
pub fn pin(cpu: usize) -> bool {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return false;
    }
    set.set(cpu);
    sched_setaffinity(None, &set).is_ok()
}

/// Where a thread measures.
#[derive(Debug)]
pub struct MeasuringCpu {
    /// The processor it began on.
    pub cpu: usize,
    /// It is kept there.
    pub pinned: bool,
    /// How often it was found on another one.
    pub moved: u64,
    last: usize,
}

impl MeasuringCpu {
    /// Where this thread is now, and there to stay.
    pub fn take() -> MeasuringCpu {
        let cpu = sched_getcpu();
        MeasuringCpu { cpu, pinned: pin(cpu), moved: 0, last: cpu }
    }

    /// Whether this thread is still where it was at the last call: what was measured between is of one
    /// processor.
    pub(crate) fn stayed(&mut self) -> bool {
        let now = sched_getcpu();
        let stayed = now == self.last;
        self.last = now;
        self.moved += u64::from(!stayed);
        stayed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_noticed_once() {
        let thread = std::thread::spawn(|| {
            let allowed = allowed();
            let mut place = MeasuringCpu::take();
            assert!(allowed.contains(&place.cpu));
            assert!(place.stayed());
            let Some(other) = allowed.iter().find(|cpu| **cpu != place.cpu) else { return };
            if pin(*other) {
                assert!(!place.stayed());
                assert!(place.stayed());
                assert_eq!(place.moved, 1);
            }
            assert!(!pin(usize::MAX));
        });
        thread.join().unwrap();
    }
}
