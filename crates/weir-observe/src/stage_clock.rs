//! Where a lane's time goes: one clock a lane, one stage at a time.
//!
//! The lane says `enter(stage)`; any other thread may read the totals at any moment, the running stage
//! included, so that a lane that sleeps for seconds in one call is seen to do so while it does.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a lane is doing. `Receive` and `Write` hold both work and waiting; the CPU times tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Nothing to do.
    Idle,
    /// On the way to a connection, other than by the steps below: waiting for a proxy's answer, or for a
    /// connection that another lane is opening for both.
    Connecting,
    /// Waiting for the addresses of a name.
    Resolving,
    /// TCP's handshake.
    Dialling,
    /// TLS's handshake.
    Securing,
    /// Request sent, no byte of the answer yet.
    FirstByte,
    /// In recv for a body.
    Receive,
    /// Decrypting.
    Decrypt,
    /// In a write call.
    Write,
    /// Asleep for `--limit-rate`.
    Limited,
    /// Asleep because the server asked for it.
    Backoff,
    /// Asleep because the server failed, before it is asked again.
    Failed,
    /// Asleep because no connection came about, before the next attempt.
    Unreached,
    /// Asleep because a connection or an answer broke off, before it is asked for again.
    Broken,
    /// Waiting for the consumer of stdout.
    Output,
    /// Reading the source.
    Read,
    /// Waiting for whoever writes what is sent, as on standard input.
    Input,
    /// Computing a digest.
    Verify,
    /// Compressing.
    Compress,
    /// Encrypting.
    Encrypt,
    /// Waiting for a lane that others send on.
    Turn,
    /// In send.
    Send,
    /// Decompressing.
    Decompress,
    /// Everything else: bookkeeping, renames, waiting for a digest.
    Other,
}

const STAGES: usize = Stage::Other as usize + 1;

const ALL: [Stage; STAGES] = [
    Stage::Idle,
    Stage::Connecting,
    Stage::Resolving,
    Stage::Dialling,
    Stage::Securing,
    Stage::FirstByte,
    Stage::Receive,
    Stage::Decrypt,
    Stage::Write,
    Stage::Limited,
    Stage::Backoff,
    Stage::Failed,
    Stage::Unreached,
    Stage::Broken,
    Stage::Output,
    Stage::Read,
    Stage::Input,
    Stage::Verify,
    Stage::Compress,
    Stage::Encrypt,
    Stage::Turn,
    Stage::Send,
    Stage::Decompress,
    Stage::Other,
];

impl Stage {
    /// A step on the way to a connection.
    pub fn connects(self) -> bool {
        matches!(self, Stage::Connecting | Stage::Resolving | Stage::Dialling | Stage::Securing)
    }
}

/// A lane's clock. All times in nanoseconds since `origin`.
#[derive(Debug)]
pub struct StageClock {
    origin: Instant,
    totals: [AtomicU64; STAGES],
    stage: AtomicU8,
    since: AtomicU64,
    receive_cpu: AtomicU64,
    write_cpu: AtomicU64,
}

/// The totals of a clock at an instant.
#[derive(Debug, Clone, Copy, Default)]
pub struct StageTimes {
    wall: [Duration; STAGES],
    /// CPU time inside [`Stage::Receive`].
    pub receive_cpu: Duration,
    /// CPU time inside [`Stage::Write`].
    pub write_cpu: Duration,
}

impl StageClock {
    /// A clock that stands at [`Stage::Idle`].
    pub fn new(now: Instant) -> StageClock {
        StageClock {
            origin: now,
            totals: Default::default(),
            stage: AtomicU8::new(Stage::Idle as u8),
            since: AtomicU64::new(0),
            receive_cpu: AtomicU64::new(0),
            write_cpu: AtomicU64::new(0),
        }
    }

    /// The lane passes from its stage to `stage`. For the lane's own thread only.
    pub fn enter(&self, stage: Stage) {
        let now = nanos(self.origin.elapsed());
        let last = self.stage.load(Relaxed) as usize;
        let spent = now.saturating_sub(self.since.load(Relaxed));
        self.since.store(now, Relaxed);
        self.totals[last].store(self.totals[last].load(Relaxed) + spent, Relaxed);
        self.stage.store(stage as u8, Relaxed);
    }

    /// Does `work`, which is one step on the way to a connection.
    pub fn step<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        self.enter(stage);
        let done = work();
        self.enter(Stage::Connecting);
        done
    }

    /// CPU time that a receive took.
    pub fn add_receive_cpu(&self, cpu: Duration) {
        self.receive_cpu.fetch_add(nanos(cpu), Relaxed);
    }

    /// CPU time that a write took.
    pub fn add_write_cpu(&self, cpu: Duration) {
        self.write_cpu.fetch_add(nanos(cpu), Relaxed);
    }

    /// The stage the lane is in and since when.
    pub fn current(&self) -> (Stage, Duration) {
        let since = Duration::from_nanos(self.since.load(Relaxed));
        (ALL[self.stage.load(Relaxed) as usize], self.origin.elapsed().saturating_sub(since))
    }

    /// The totals now, the running stage included. A reader that meets a change of stage may be off by that
    /// one stage's time; the next reading is right again.
    pub fn read(&self) -> StageTimes {
        let (stage, running) = self.current();
        let mut wall: [Duration; STAGES] =
            std::array::from_fn(|stage| Duration::from_nanos(self.totals[stage].load(Relaxed)));
        wall[stage as usize] += running;
        StageTimes {
            wall,
            receive_cpu: Duration::from_nanos(self.receive_cpu.load(Relaxed)),
            write_cpu: Duration::from_nanos(self.write_cpu.load(Relaxed)),
        }
    }
}

impl StageTimes {
    /// Time spent in `stage`.
    pub fn wall(&self, stage: Stage) -> Duration {
        self.wall[stage as usize]
    }

    /// Time on the way to a connection, all its steps together.
    pub fn connecting(&self) -> Duration {
        ALL.into_iter().filter(|stage| stage.connects()).map(|stage| self.wall(stage)).sum()
    }

    /// Time in all stages.
    pub fn total(&self) -> Duration {
        self.wall.iter().sum()
    }

    /// What passed between `earlier` and this reading.
    pub fn since(&self, earlier: &StageTimes) -> StageTimes {
        StageTimes {
            wall: std::array::from_fn(|stage| self.wall[stage].saturating_sub(earlier.wall[stage])),
            receive_cpu: self.receive_cpu.saturating_sub(earlier.receive_cpu),
            write_cpu: self.write_cpu.saturating_sub(earlier.write_cpu),
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_time_is_in_some_stage() {
        let start = Instant::now();
        let clock = StageClock::new(start);
        for stage in ALL {
            clock.enter(stage);
        }
        let times = clock.read();
        let sum: Duration = ALL.iter().map(|stage| times.wall(*stage)).sum();
        assert!(sum <= start.elapsed());
        assert_eq!(clock.current().0, Stage::Other);
        let steps = [Stage::Connecting, Stage::Resolving, Stage::Dialling, Stage::Securing];
        assert_eq!(times.connecting(), steps.iter().map(|step| times.wall(*step)).sum::<Duration>());
    }

    #[test]
    fn a_running_stage_counts_while_it_runs() {
        let clock = StageClock::new(Instant::now());
        clock.enter(Stage::Write);
        let first = clock.read().wall(Stage::Write);
        while clock.read().wall(Stage::Write) <= first {}
    }
}
