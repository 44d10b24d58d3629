//! How much a write call is handed, and whether a second processor finds the pages. Pure: it is told what was
//! spent.
//!
//! **The cost of a byte** is the lesser of two: the writers' processor time, and the wall time while at least
//! one of them writes. Processor time alone overstates it with several lanes: writes to one file exclude one
//! another (i_rwsem), and those that wait spin, so four lanes seem to pay four times what a write takes. Wall
//! time alone would include waits for the disk.
//!
//! **The piece.** Which size costs less depends on the memory: pieces of 2 MiB take huge pages, which are
//! cheap where the machine has its memory (0.15 ns a byte for 0.23), and the first that a host took away (2.3
//! ns). So the other size is tried, over 4 MiB at first and ever less often where it costs more, and the
//! cheaper one is kept.
//!
//! **The thread.** Where both sizes are slow, it begins. From then on it is the thread that pays, so the
//! thread's end it.

use std::time::Duration;

/// What one write call hands to the page cache at first, at a multiple of it. Of 4 KiB to 2 MiB, 64 and 128
/// KiB took least time on memory as found (docs/decisions/0005-writes-of-128-kib.md).
pub const SMALL: u64 = 128 << 10;

/// The other size: a huge page of x86-64, and the block that `get` receives.
pub const LARGE: u64 = 2 << 20;

/// A writer is slow from here on, ns a byte. Measured, with its copy: 0.15 to 0.25 where the page is there,
/// 2.2 where a host has to lend it (Linux 6.18, Xeon of 2.1 GHz).
const SLOW: f64 = 0.7;

/// A thread that pays less finds pages that were there, and wins nothing. Measured: 0.36 with clearing them,
/// 2.3 where a host has to lend them.
const QUICK: f64 = 0.5;

/// Bytes over which a writer's cost is taken: 9 ms of slow memory, long against the clock, short against the
/// file.
const WRITER_SPAN: u64 = 4 << 20;

/// Bytes over which the thread's is: 23 ms of memory that was there, so little is lost by it, and a stretch
/// of good memory among slow does not end it.
const THREAD_SPAN: u64 = 64 << 20;

/// The other size has to cost less than this share of the present one: two spans of the same size differ by a
/// tenth.
const GAIN: f64 = 0.87;

/// A trial is given up where its first write costs so many times what the present size does: it is lent
/// memory then, and the rest of the trial would cost 5 ms more.
const HOPELESS: f64 = 2.0;

/// Bytes from a trial to the next: so that trials on lent memory, 5 ms each, take less than a fiftieth of the
/// time. Each trial that fails doubles it, up to [`FARTHEST`].
const DISTANCE: u64 = 128 << 20;
const FARTHEST: u64 = 2 << 30;

/// A size that has become slow is compared with the other one at once, unless that was done so few bytes ago.
const AGAIN: u64 = 32 << 20;

/// Whether pages are slow to come, and what a write call is handed.
#[derive(Debug, Default)]
pub struct Policy {
    on: bool,
    writers: Writers,
    thread: Cost,
    choice: Choice,
}

/// A write that has begun.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// What its calls hand over, bytes: a power of two.
    pub piece: u64,
    /// Costs of an earlier choice do not count for the present one, nor those beside a trial: `None`.
    generation: Option<u64>,
}

impl Policy {
    /// A writer begins, at `now` by any clock that does not go back.
    pub fn began(&mut self, now: Duration) -> Begun {
        self.writers.enter(now);
        self.choice.hand_out()
    }

    /// That write of `bytes` is over at `now` and took `cpu` of a processor; `true` when the thread is wanted
    /// from now on.
    pub fn wrote(&mut self, begun: Begun, now: Duration, bytes: u64, cpu: Duration) -> bool {
        let wall = self.writers.leave(now);
        if self.on || !self.choice.takes_back(begun) {
            return false;
        }
        let Some(cost) = self.writers.cost(self.choice.hopeless(), bytes, cpu, wall) else { return false };
        let both_are_slow = self.choice.measured(cost);
        if both_are_slow {
            self.switch(true);
        }
        both_are_slow
    }

    /// What the thread's step cost.
    pub fn prepared(&mut self, bytes: u64, cpu: Duration) {
        if self.thread.over(THREAD_SPAN, bytes, cpu).is_some_and(|cost| cost < QUICK) {
            self.switch(false);
        }
    }

    /// The thread is wanted.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    fn switch(&mut self, on: bool) {
        self.on = on;
        self.thread = Cost::default();
        self.choice.restart();
        self.writers.forget();
    }
}

/// Those that write now, and what they spent since the last answer.
#[derive(Debug, Default)]
struct Writers {
    inside: u32,
    since: Duration,
    cpu: Cost,
    wall: Duration,
}

impl Writers {
    fn enter(&mut self, now: Duration) {
        if self.inside == 0 {
            self.since = now;
        }
        self.inside += 1;
    }

    /// The time that passed with a writer inside since one entered an empty file or left.
    fn leave(&mut self, now: Duration) -> Duration {
        self.inside = self.inside.saturating_sub(1);
        let wall = now.saturating_sub(self.since);
        self.since = now;
        wall
    }

    /// Nanoseconds a byte each time that [`WRITER_SPAN`] is full, or as soon as it is above `hopeless`.
    fn cost(&mut self, hopeless: Option<f64>, bytes: u64, cpu: Duration, wall: Duration) -> Option<f64> {
        self.wall = self.wall.saturating_add(wall);
        self.cpu.add(bytes, cpu);
        let cost = self.cpu.per_byte().min(per_byte(self.wall, self.cpu.bytes));
        let full = self.cpu.bytes >= WRITER_SPAN || hopeless.is_some_and(|bound| cost > bound);
        full.then(|| {
            self.forget();
            cost
        })
    }

    fn forget(&mut self) {
        self.cpu = Cost::default();
        self.wall = Duration::ZERO;
    }
}

/// Which of the two sizes is used, and when the other is tried.
#[derive(Debug, Default)]
struct Choice {
    large: bool,
    /// What the present size costs, ns a byte; of the other one during a trial.
    known: Option<f64>,
    trial: bool,
    /// A writer is at it: the others go on as before, so that a trial costs no more where many write.
    tried: bool,
    /// Bytes to the next trial, the distance from the one after, and what was written since the last.
    left: u64,
    distance: u64,
    since: u64,
    generation: u64,
}

impl Choice {
    fn hand_out(&mut self) -> Begun {
        let beside = self.trial && std::mem::replace(&mut self.tried, true);
        let piece = if self.large != beside { LARGE } else { SMALL };
        Begun { piece, generation: Some(self.generation).filter(|_| !beside) }
    }

    /// Whether this write's costs are those of the present choice.
    fn takes_back(&mut self, begun: Begun) -> bool {
        let counts = begun.generation == Some(self.generation);
        self.tried &= !counts;
        counts
    }

    /// Above this a trial is given up.
    fn hopeless(&self) -> Option<f64> {
        self.known.filter(|_| self.trial).map(|known| HOPELESS * known)
    }

    /// What the size in use cost over the last span; `true` where both sizes are slow.
    fn measured(&mut self, cost: f64) -> bool {
        if self.trial {
            self.end_trial(cost);
            return false;
        }
        self.known = Some(cost);
        self.left = self.left.saturating_sub(WRITER_SPAN);
        self.since = self.since.saturating_add(WRITER_SPAN);
        if self.left == 0 || cost >= SLOW && self.since >= AGAIN {
            self.trial = true;
            self.turn();
            return false;
        }
        cost >= SLOW
    }

    /// A trial is over: the other size is kept where it costs clearly less.
    fn end_trial(&mut self, cost: f64) {
        self.trial = false;
        self.since = 0;
        let succeeded = self.known.is_none_or(|known| cost < GAIN * known);
        self.distance = if succeeded { DISTANCE } else { (2 * self.distance).clamp(DISTANCE, FARTHEST) };
        self.left = self.distance;
        if succeeded {
            self.known = Some(cost);
        } else {
            self.turn();
        }
    }

    /// From here on the other size.
    fn turn(&mut self) {
        self.large = !self.large;
        self.tried = false;
        self.generation += 1;
    }

    fn restart(&mut self) {
        *self = Choice { generation: self.generation + 1, ..Choice::default() };
    }
}

/// What bytes took of a processor since the last answer.
#[derive(Debug, Default)]
struct Cost {
    bytes: u64,
    cpu: Duration,
}

impl Cost {
    fn add(&mut self, bytes: u64, cpu: Duration) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.cpu = self.cpu.saturating_add(cpu);
    }

    fn per_byte(&self) -> f64 {
        per_byte(self.cpu, self.bytes)
    }

    /// Nanoseconds a byte, each time that `span` bytes are full.
    fn over(&mut self, span: u64, bytes: u64, cpu: Duration) -> Option<f64> {
        self.add(bytes, cpu);
        if self.bytes < span {
            return None;
        }
        Some(std::mem::take(self).per_byte())
    }
}

fn per_byte(time: Duration, bytes: u64) -> f64 {
    time.as_nanos() as f64 / bytes.max(1) as f64
}
