//! A machine and a link in steps of a millisecond: workers compress, a bounded queue, lanes send; all share
//! the processors.

use std::collections::VecDeque;
use std::time::Duration;

use weir_model::chooser::{CANDIDATES, Candidate, Choice, Chooser, Link, Packed, Plan};
use weir_model::decision::Event;

use crate::data::{self, Data};

/// Seconds of a step.
const STEP: f64 = 1e-3;

/// Blocks that all workers together may hold where a record carries several, as a sender bounds its memory.
const HELD: usize = 16;

/// Bytes of a block.
const BLOCK: f64 = (1 << 20) as f64;

/// Everything that the chooser does not know.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) data: Data,
    /// Another kind of data from this second on.
    pub(crate) then: Option<(f64, Data)>,
    pub(crate) cores: u32,
    /// How fast its processors are.
    pub(crate) speed: f64,
    /// (from second, Mbit/s).
    pub(crate) changes: Vec<(f64, f64)>,
    /// Payload that the receiver takes, bytes per second.
    pub(crate) receiver: f64,
    /// Processor seconds per byte on the wire (cipher, sockets), and per byte of payload (read, digest), on
    /// this machine.
    pub(crate) wire_cost: f64,
    pub(crate) raw_cost: f64,
    /// Threads of other programs that would fill a processor each.
    pub(crate) others: f64,
    /// Blocks that wait for lanes, at most, besides one for each worker.
    pub(crate) queue: usize,
    /// Blocks that one record may carry, at most.
    pub(crate) longest_run: u32,
    /// How far ratios and speeds of blocks are off, and link rates of reports.
    pub(crate) noise: f64,
    pub(crate) jitter: f64,
    /// Whether the chooser is told how busy the machine is, and what a quick look says.
    pub(crate) told_busy: bool,
    pub(crate) looks: bool,
    /// How much quicker each candidate is here than on a usual processor.
    pub(crate) processor: [f64; CANDIDATES.len()],
    /// The chooser is told beforehand how many bytes of text each of them compresses here.
    pub(crate) calibrated: bool,
    pub(crate) seed: u64,
    pub(crate) span: f64,
}

/// Who decides.
pub(crate) trait Decider {
    fn plan(&mut self, now: Duration) -> Plan;
    /// Of the record's blocks, what a quick look says of each; nothing where nobody looks.
    fn choose(&mut self, _: Duration, plan: &Plan, _quick: &[f64]) -> Choice {
        plan.choice
    }
    fn longest(&self) -> u32;
    fn allow(&mut self, _longest: u32) {}
    fn ahead(&self, _longest: u32) -> usize {
        usize::MAX
    }
    fn packed(&mut self, _: &Packed) {}
    fn link(&mut self, _: &Link) {}
}

/// Always the same.
pub(crate) struct Fixed {
    candidate: Candidate,
    /// Blocks of a record.
    run: u32,
}

impl Decider for Fixed {
    fn plan(&mut self, _: Duration) -> Plan {
        let Candidate { codec, level } = self.candidate;
        Plan { choice: Choice { codec, level, probe: false }, run: self.run, looks: false }
    }

    fn longest(&self) -> u32 {
        self.run
    }
}

impl Decider for Chooser {
    fn plan(&mut self, now: Duration) -> Plan {
        Chooser::plan(self, now)
    }

    fn choose(&mut self, now: Duration, plan: &Plan, quick: &[f64]) -> Choice {
        self.choose_for(now, plan, quick)
    }

    fn longest(&self) -> u32 {
        self.longest_in_use()
    }

    fn allow(&mut self, longest: u32) {
        Chooser::allow(self, longest);
    }

    fn ahead(&self, longest: u32) -> usize {
        Chooser::ahead(self, longest) as usize
    }

    fn packed(&mut self, block: &Packed) {
        Chooser::packed(self, block);
    }

    fn link(&mut self, link: &Link) {
        Chooser::link(self, link);
    }
}

/// A tenth of a second.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moment {
    pub(crate) at: f64,
    /// Payload that arrived.
    pub(crate) payload: f64,
    /// Blocks for each candidate.
    pub(crate) chosen: [u32; CANDIDATES.len()],
}

impl Moment {
    pub(crate) fn level_of_most(&self) -> &'static str {
        let most = (0..CANDIDATES.len()).max_by_key(|index| self.chosen[*index]).unwrap();
        data::name(CANDIDATES[most])
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) moments: Vec<Moment>,
    /// Processor seconds of compressing, and of probes among it.
    pub(crate) cpu: f64,
    pub(crate) probe_cpu: f64,
}

impl Run {
    pub(crate) fn payload(&self) -> f64 {
        self.moments.iter().map(|moment| moment.payload).sum()
    }
}

struct Work {
    choice: Choice,
    /// Bytes before.
    raw: f64,
    /// Processor seconds left, and in all.
    left: f64,
    cpu: f64,
    packed: f64,
}

/// A block that waits: its bytes on the wire that are left, and its payload per such byte.
struct Waiting {
    wire: f64,
    worth: f64,
}

impl World {
    pub(crate) fn of(data: Data, mbit: f64) -> World {
        World {
            data,
            then: None,
            cores: 2,
            speed: 1.0,
            changes: vec![(0.0, mbit)],
            receiver: f64::INFINITY,
            wire_cost: 0.3e-9,
            raw_cost: 0.2e-9,
            others: 0.0,
            queue: 6,
            longest_run: 1,
            noise: 0.1,
            jitter: 0.05,
            told_busy: true,
            looks: true,
            processor: [1.0; CANDIDATES.len()],
            calibrated: false,
            seed: 1,
            // A block takes a second of the slowest links.
            span: if mbit < 20.0 { 60.0 } else { 30.0 },
        }
    }

    pub(crate) fn run_chooser(&self) -> Run {
        self.decided().0
    }

    /// How it went, and what the chooser decided.
    pub(crate) fn decided(&self) -> (Run, Vec<Event>) {
        let told = CANDIDATES.into_iter().zip(self.processor).filter(|_| self.calibrated);
        let speeds: Vec<_> =
            told.map(|(candidate, factor)| (candidate, factor / Data::Text.figure(candidate, 0).1)).collect();
        assert_eq!(Chooser::takes(&CANDIDATES, &speeds), self.calibrated);
        let mut chooser = Chooser::with_speeds(CANDIDATES.to_vec(), f64::from(self.cores), &speeds);
        let run = self.run(&mut chooser);
        (run, chooser.take_decisions())
    }

    /// One that takes always the same, in records as a sender makes them that was told so.
    pub(crate) fn always(&self, candidate: Candidate) -> Fixed {
        let mut told = Chooser::new(CANDIDATES.to_vec(), f64::from(self.cores));
        let (now, rate) = (Duration::from_secs(1), self.link_at(0.0));
        told.allow(self.longest_run);
        told.link(&Link { now, rate, backlog: true, busy: None, own: None });
        Fixed { candidate, run: told.run_with(candidate, self.data.figure(candidate, 0).0) }
    }

    pub(crate) fn run(&self, decider: &mut dyn Decider) -> Run {
        let mut state = WorldState::new(self);
        let steps = (self.span / STEP) as u64;
        for step in 0..steps {
            state.step(step as f64 * STEP, decider);
        }
        state.run
    }

    fn link_at(&self, at: f64) -> f64 {
        let (_, mbit) = self.changes.iter().rev().find(|(from, _)| *from <= at).unwrap();
        mbit * 125e3
    }
}

struct WorldState<'a> {
    world: &'a World,
    run: Run,
    workers: Vec<Option<Work>>,
    queue: VecDeque<Waiting>,
    blocks: u64,
    random: u64,
    /// Since the last report.
    wire: f64,
    busy: f64,
    others: f64,
    empties: u32,
    report: f64,
}

impl<'a> WorldState<'a> {
    fn new(world: &'a World) -> WorldState<'a> {
        WorldState {
            world,
            run: Run::default(),
            workers: (0..world.cores).map(|_| None).collect(),
            queue: VecDeque::new(),
            blocks: 0,
            random: world.seed | 1,
            wire: 0.0,
            busy: 0.0,
            others: 0.0,
            empties: 0,
            report: 0.1,
        }
    }

    fn step(&mut self, at: f64, decider: &mut dyn Decider) {
        if self.run.moments.len() as f64 * 0.1 <= at + 1e-9 {
            self.run.moments.push(Moment { at, ..Moment::default() });
        }
        let now = Duration::from_secs_f64(at);
        // Threads that want a processor share them evenly.
        let room = self.queue.len() < self.world.queue + self.workers.len();
        let at_work = self.workers.iter().filter(|work| work.is_some() || room).count() as f64;
        let link = self.world.link_at(at);
        let sending = if self.queue.is_empty() { 0.0 } else { (link * self.world.wire_cost).min(4.0) };
        let share =
            (f64::from(self.world.cores) / (at_work + sending + self.world.others).max(1e-9)).min(1.0);
        self.others += self.world.others * share * STEP;
        self.pack(at, now, share, decider);
        self.send(link, share);
        if at + STEP >= self.report {
            self.tell(at + STEP, decider);
            self.report += 0.1;
        }
    }

    fn pack(&mut self, at: f64, now: Duration, share: f64, decider: &mut dyn Decider) {
        for worker in 0..self.workers.len() {
            let mut time = STEP * share;
            while time > 0.0 {
                let Some(mut work) = self.workers[worker].take().or_else(|| self.start(at, now, decider))
                else {
                    break;
                };
                let done = work.left.min(time);
                work.left -= done;
                time -= done;
                self.busy += done;
                self.run.cpu += done;
                if work.left > 0.0 || self.queue.len() >= self.world.queue + self.workers.len() {
                    self.workers[worker] = Some(work);
                    break;
                }
                self.finish(&work, now, decider);
            }
        }
    }

    fn start(&mut self, at: f64, now: Duration, decider: &mut dyn Decider) -> Option<Work> {
        let at_work = self.workers.iter().flatten().count();
        let fits = |longest: &u32| {
            let workers = decider.ahead(*longest).min(self.workers.len() + 1);
            workers * decider.longest().min(*longest) as usize + *longest as usize <= HELD
        };
        let longest = (1..=self.world.longest_run).rev().find(fits).unwrap_or(1);
        decider.allow(longest);
        if self.queue.len() >= self.world.queue + self.workers.len()
            || self.queue.len() + at_work >= decider.ahead(longest)
        {
            return None;
        }
        let plan = decider.plan(now);
        let run = plan.run.min(longest);
        let data = self.world.then.filter(|(from, _)| at >= *from).map_or(self.world.data, |(_, data)| data);
        let blocks = self.blocks..self.blocks + u64::from(run);
        self.blocks = blocks.end;
        let mean = |of: &dyn Fn(u64) -> f64| blocks.clone().map(of).sum::<f64>() / f64::from(run);
        let looked = if self.world.looks && plan.looks { blocks.clone() } else { 0..0 };
        let choice = decider.choose(now, &plan, &looked.map(|block| data.quick(block)).collect::<Vec<_>>());
        let candidate = Candidate { codec: choice.codec, level: choice.level };
        let together = if candidate.level >= 3 { data::together(run) } else { 1.0 };
        let ratio = mean(&|block| match data.figure(candidate, block) {
            (ratio, _) if ratio < 1.0 => ratio * together,
            _ => 1.0,
        });
        let cost = mean(&|block| data.figure(candidate, block).1);
        let raw = BLOCK * f64::from(run);
        let ratio = if ratio < 1.0 { (ratio * self.off(self.world.noise)).min(1.0) } else { 1.0 };
        let place = CANDIDATES.iter().position(|known| *known == candidate).unwrap();
        let speed = self.world.speed * self.world.processor[place];
        let cpu = cost * raw / speed * self.off(self.world.noise);
        self.run.moments.last_mut().unwrap().chosen[place] += run;
        if choice.probe {
            self.run.probe_cpu += cpu;
        }
        // Reading and digesting are the worker's too.
        Some(Work { choice, raw, left: cpu + self.world.raw_cost * raw, cpu, packed: ratio * raw })
    }

    fn finish(&mut self, work: &Work, now: Duration, decider: &mut dyn Decider) {
        self.queue.push_back(Waiting { wire: work.packed, worth: work.raw / work.packed });
        decider.packed(&Packed {
            codec: work.choice.codec,
            level: work.choice.level,
            raw: work.raw as u64,
            packed: work.packed as u64,
            cpu: Duration::from_secs_f64(work.cpu),
            now,
        });
    }

    fn send(&mut self, link: f64, share: f64) {
        let mut payload = self.world.receiver * STEP;
        let mut room = link * STEP;
        if self.world.wire_cost > 0.0 {
            // Up to four lanes, each a thread.
            room = room.min(4.0 * share * STEP / self.world.wire_cost);
        }
        while room > 1e-3 && payload > 1e-3 {
            let Some(block) = self.queue.front_mut() else {
                self.empties += 1;
                break;
            };
            let bytes = block.wire.min(room).min(payload / block.worth);
            block.wire -= bytes;
            room -= bytes;
            payload -= bytes * block.worth;
            self.wire += bytes;
            self.busy += bytes * self.world.wire_cost;
            self.run.moments.last_mut().unwrap().payload += bytes * block.worth;
            if block.wire <= 1e-6 {
                self.queue.pop_front();
            }
        }
    }

    fn tell(&mut self, at: f64, decider: &mut dyn Decider) {
        let rate = self.wire / 0.1 * self.off(self.world.jitter);
        let own = self.world.told_busy.then_some(self.busy / 0.1);
        let busy = own.map(|own| own + self.others / 0.1);
        decider.link(&Link { now: Duration::from_secs_f64(at), rate, backlog: self.empties < 10, busy, own });
        (self.wire, self.busy, self.others, self.empties) = (0.0, 0.0, 0.0, 0);
    }

    /// 1, give or take `by` at most.
    fn off(&mut self, by: f64) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1.0 + by * ((self.random >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0)
    }
}
