//! Which codec does the next block get? Decided block by block, from what the run itself shows.
//!
//! Compressing buys link time with processor time, so the best choice fills both: of all mixtures of two
//! codecs the one whose payload rate min(link / ratio, cores / cost) is greatest. What goes into that law is
//! measured while the transfer runs, and is uncertain in three ways that this module keeps apart:
//!
//! * [`estimate`]: what each codec does to this data on this processor. Codecs not tried yet are judged by
//!   published proportions to those that were; a hundredth of the processors' time tries them, and tries
//!   again what is stale.
//! * [`link`]: what the link carries. A sender whose blocks wait for lanes sees it exactly; one whose lanes
//!   wait for blocks sees only that it carries *at least* so much. Then the estimate grows, codecs get
//!   lighter and more bytes reach the wire until blocks wait again. So the choice cannot lock in at a strong
//!   codec.
//! * [`trial`]: whether it is the link at all. Lanes that starve for a processor, or that a slow receiver
//!   holds, look like a slow link too. A stronger codec is therefore a trial: where the wire carries clearly
//!   less with it, the link was not the limit, and the lighter choice returns and stays for a while.
//!
//! The state takes time and bytes as arguments; one lock around it serves all workers.
//!
//! ```
//! use std::time::Duration;
//! use weir_model::chooser::{CANDIDATES, Chooser, Link, Packed};
//!
//! let mut chooser = Chooser::new(CANDIDATES.to_vec(), 2.0);
//! let choice = chooser.choose(Duration::ZERO);
//! chooser.packed(&Packed {
//!     codec: choice.codec,
//!     level: choice.level,
//!     raw: 1 << 20,
//!     packed: 400_000,
//!     cpu: Duration::from_micros(2500),
//!     now: Duration::from_millis(3),
//! });
//! chooser.link(&Link { now: Duration::from_millis(100), rate: 6.25e6, backlog: true, busy: Some(1.1), own: Some(1.1) });
//! ```

mod estimate;
mod link;
mod mix;
mod others;
mod quick;
mod record;
mod told;
mod trial;

use std::time::Duration;

pub use crate::candidates::{CANDIDATES, Candidate};
pub use quick::{DEAD, quick_estimate};
pub use record::{LONGEST_RUN, Plan};

use crate::candidates::{Prior, Priors};
use estimate::Estimates;
use link::{LinkView, Offered};
use mix::{Law, Mix, Point};
use others::Others;
use told::CodecLog;
use trial::{Held, Trials};

use crate::decision::CodecChange;

/// Share of the processors' time that goes into trying codecs which the law would not choose, and of the
/// link's time that lighter ones may cost.
const PROBE_SHARE: f64 = 0.01;

/// Share of idle processors' time that may go there while blocks wait for lanes: it costs no rate.
const PROBE_IDLE: f64 = 0.2;

/// Processors that idle, from here on.
const IDLE: f64 = 0.5;

/// Probe time that may be saved up, seconds: one block at the slowest level, or on the slowest link.
const PROBE_SAVED: f64 = 0.5;

/// The law is asked for a link faster than the estimate by this much, so that blocks wait for lanes rather
/// than lanes for blocks: an empty queue wastes the link, and hides its rate.
const HEADROOM: f64 = 1.03;

/// Between two looks at blocks while none is compressed: a look takes some 20 us, so this is less than half a
/// percent of a processor, and 16 of them tell within a tenth of a second that the data have changed.
const PROBE_INTERVAL: Duration = Duration::from_millis(5);

/// Share of the processors that other programs take before they count.
const OTHERS: f64 = 0.1;

/// How fast the room that they leave is taken to widen while blocks wait, of what is missing in a window: in
/// two seconds by a fifth. To be wrong costs a few windows of a choice that is too heavy.
const WIDEN: f64 = 0.01;

/// How fast it narrows while lanes wait: single windows are off by a tenth, since processors are accounted in
/// ticks.
const NARROW: f64 = 0.3;

/// Of one machine's processors, the share that is busy where moving bytes within it is what they do.
const MOVING: f64 = 0.75;

/// Reports in a row without that, while blocks wait, that make a slow link within a machine: half a second,
/// since where files are listed, opened and made a single window may be idle.
const IDLE_REPORTS: u32 = 5;

/// Seconds from which on a record is a good part of the time between two reports.
const SLOW: f64 = 0.02;

/// A link is full in the law's eyes from this share on.
const FULL: f64 = 0.93;

/// Bytes of a block.
const BLOCK: f64 = (1 << 20) as f64;

/// Seconds that blocks wait for lanes: more than a lane's scheduling may hold it up, less than would delay a
/// change of codec.
const AHEAD: f64 = 0.25;

/// Records ahead at least: one for a lane to begin, one at work, one for the difference of their sizes.
const AHEAD_LEAST: u32 = 3;

/// Records ahead before anything is known of the link: on a slow one each takes a second.
const AHEAD_FIRST: u32 = AHEAD_LEAST;

/// A block that was compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// The codec's wire number.
    pub codec: u8,
    /// Its level.
    pub level: i32,
    /// Bytes before.
    pub raw: u64,
    /// Bytes that go to the lanes. Not below `raw` where it did not shrink and goes as it is.
    pub packed: u64,
    /// Processor time of the thread that compressed it.
    pub cpu: Duration,
    /// Since the start of the transfer.
    pub now: Duration,
}

/// What the lanes did since the last such report, about every 100 ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Since the start of the transfer.
    pub now: Duration,
    /// Bytes per second that the peer acknowledged, all lanes together. Bytes taken by socket buffers come in
    /// bursts on slow links and mislead.
    pub rate: f64,
    /// Blocks waited for lanes: the queue before them was empty for less than a tenth of the time, or the
    /// lanes' sockets never were.
    pub backlog: bool,
    /// Processors of this machine that were busy on average, by whatever program that would not make room for
    /// this one; `None` where that cannot be read.
    pub busy: Option<f64>,
    /// Those of them that were busy with this copy. Without it, lanes that compete with the compressor for
    /// processors are noticed only by a trial; were other programs' work taken for it, nothing would seem
    /// worth compressing beside them.
    pub own: Option<f64>,
}

/// What to do with the next block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The codec's wire number; 0 sends the block as it is.
    pub codec: u8,
    /// Its level.
    pub level: i32,
    /// Tried to learn, not because it is best.
    pub probe: bool,
}

/// See the module's page.
#[derive(Debug, Clone)]
pub struct Chooser {
    estimates: Estimates,
    link: LinkView,
    trials: Trials,
    /// Cores that may compress when nothing else runs.
    cores: f64,
    /// Those of them that other programs leave to this copy.
    room: f64,
    /// What everything but compressing takes.
    others: Others,
    /// Share of recent bytes that a quick look found not worth compressing.
    dead: f64,
    /// When the next look is due.
    look: Duration,
    window: Window,
    mix: Mix,
    /// The link that the law was asked for when it chose so.
    asked: f64,
    /// How many blocks the mixture's second codec is owed.
    owed: f64,
    probes: Probes,
    /// Blocks that a record may carry at most.
    longest: u32,
    ramp: Option<Ramp>,
    /// How much of a block the new choice is owed on the way.
    ramped: f64,
    /// A block that may still be at work takes long.
    slow_until: Duration,
    /// The lanes do not leave this machine.
    near: bool,
    /// Reports in a row by which its processors are not what holds them.
    idled: u32,
    told: CodecLog,
}

/// The way from a quick choice to a slow one. Were all workers to begin slow blocks at once, the lanes would
/// run dry before the first is done.
#[derive(Debug, Clone, Copy)]
struct Ramp {
    from: Mix,
    since: Duration,
    until: Duration,
}

/// What was packed, what the copy's processors did and what the wire carried since what all else costs was
/// last learned.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    raw: f64,
    cpu: f64,
    own: f64,
    wire: f64,
    /// The last report.
    at: Duration,
}

/// What probes may still take.
#[derive(Debug, Clone, Copy, Default)]
struct Probes {
    /// Processor seconds.
    cpu: f64,
    /// Seconds of the link.
    link: f64,
    /// Processors that idled in the last window in which blocks waited.
    idle: f64,
    at: Duration,
}

impl Chooser {
    /// For these codecs, `none` among them or not (it always is one), on a machine with `cores` processors.
    pub fn new(candidates: Vec<Candidate>, cores: f64) -> Chooser {
        Chooser::with_speeds(candidates, cores, &[])
    }

    /// The same where it was measured how many bytes a second one core of this machine compresses with them,
    /// of whatever data: until a block was tried, proportions of codecs are then this processor's own. Unless
    /// all were measured, and each heavier one is slower, nothing is made of it.
    pub fn with_speeds(candidates: Vec<Candidate>, cores: f64, speeds: &[(Candidate, f64)]) -> Chooser {
        let priors = Priors::of(&candidates, speeds);
        let estimates = Estimates::new(candidates, &priors);
        // The first blocks go before anything is known. A quick codec with a real effect is never far from
        // right: on a slow link it fills the queue with little, on a fast one it costs a tenth of a second.
        let first = estimates.index_of_prior(Prior::START);
        Chooser {
            estimates,
            link: LinkView::default(),
            trials: Trials::default(),
            cores: cores.max(0.1),
            room: cores.max(0.1),
            others: Others::default(),
            dead: 0.0,
            look: Duration::ZERO,
            window: Window::default(),
            mix: Mix::only(first),
            asked: f64::INFINITY,
            owed: 0.0,
            probes: Probes::default(),
            longest: 1,
            ramp: None,
            ramped: 0.0,
            slow_until: Duration::ZERO,
            near: false,
            idled: 0,
            told: CodecLog::new(first),
        }
    }

    /// Whether [`Chooser::with_speeds`] makes anything of these speeds.
    pub fn takes(candidates: &[Candidate], speeds: &[(Candidate, f64)]) -> bool {
        Priors::of(candidates, speeds).are_measured()
    }

    /// The lanes do not leave this machine: what they carry is bound by its processors, so the first blocks
    /// go as they are, and all others while the processors are busy with them. Carrying a byte (cipher and
    /// copies, at both ends) takes them about 0.7 ns, the quickest codec 2 ns at both ends together, so no
    /// ratio makes up for it; only a link that was slowed within the machine leaves processors idle. Only
    /// before anything was packed.
    pub fn begin_plain(&mut self) {
        self.mix = Mix::only(self.estimates.none());
        self.near = true;
        self.told = CodecLog::new(self.estimates.none());
        self.told.add(Duration::ZERO, CodecChange::Plain);
    }

    /// Whether to look at the next block: always where it may be compressed, else now and then, to notice
    /// that the data have changed and to try codecs. Where not, it goes as it is.
    fn wants_look(&mut self, now: Duration) -> bool {
        let due = !self.is_plain() || now >= self.look;
        if due {
            self.look = now + PROBE_INTERVAL;
        }
        due
    }

    /// A block was compressed, or went as it is.
    pub fn packed(&mut self, block: &Packed) {
        let cpu = block.cpu.as_secs_f64();
        self.window.raw += block.raw as f64;
        self.window.cpu += cpu;
        self.estimates.learn(block);
    }

    /// The lanes report.
    pub fn link(&mut self, link: &Link) {
        self.account(link);
        let Some(seen) = self.link.see(link, self.offered()) else { return };
        if self.near && self.is_plain() && !self.idles(link) {
            return;
        }
        let ratio = self.mix_ratio(self.mix);
        let found = self.trials.see(&seen, Held { wire: seen.rate.max(1.0), ratio, asked: self.asked });
        found.into_iter().for_each(|change| self.told.add(seen.now, change));
        self.decide(seen.now);
        self.tell(seen.now);
    }

    /// What the next block gets.
    pub fn choose(&mut self, now: Duration) -> Choice {
        let plan = self.plan(now);
        self.choose_for(now, &plan, &[])
    }

    /// What the next record is to be.
    pub fn plan(&mut self, now: Duration) -> Plan {
        if !self.wants_look(now) {
            return Plan { choice: self.choice(self.estimates.none(), false), run: 1, looks: false };
        }
        let points = self.estimates.points(self.dead);
        let (index, probe) = match self.probe(now, &points) {
            Some(probe) => (probe, true),
            None => (self.next(now, &points), false),
        };
        Plan { choice: self.choice(index, probe), run: self.run(index, &points), looks: true }
    }

    /// What a planned record gets of whose blocks each one's [`quick_estimate`] is known: where all would
    /// hardly shrink they go as they are, at once.
    pub fn choose_for(&mut self, now: Duration, plan: &Plan, quick: &[f64]) -> Choice {
        for estimate in quick {
            // About the last 16 blocks.
            self.dead += (f64::from(*estimate >= DEAD) - self.dead) / 16.0;
        }
        let Choice { codec, level, probe } = plan.choice;
        let planned = self.estimates.index_of(Candidate { codec, level });
        let is_dead = !quick.is_empty() && quick.iter().all(|estimate| *estimate >= DEAD);
        let Some(index) = planned.filter(|_| !is_dead) else {
            return self.choice(self.estimates.none(), false);
        };
        let busy = self.estimates.points(0.0)[index].cost * BLOCK * quick.len().max(1) as f64;
        if busy > SLOW {
            // It may begin late, and take twice as long.
            self.slow_until = self.slow_until.max(now + Duration::from_secs_f64(0.2 + 2.0 * busy.min(10.0)));
        }
        self.choice(index, probe)
    }

    /// What the link carries, as far as is known: exact while blocks wait for lanes. `None` before the first
    /// report.
    pub fn link_rate(&self) -> Option<f64> {
        self.link.rate()
    }

    /// Records of at most `longest` blocks that may be at work or wait for lanes: enough that the lanes never
    /// wait, and no more than a quarter of a second of them, so that a block is compressed for the link as it
    /// is when it goes. 3 before the first report.
    pub fn ahead(&self, longest: u32) -> u32 {
        let Some(link) = self.link.rate() else { return AHEAD_FIRST };
        let points = self.estimates.points(self.dead);
        let (ratio, cost) = (self.mix.ratio(&points), self.mix.cost(&points));
        let record = self.record(longest, &points);
        // What leaves while a record is compressed, and while it waits.
        let records = link / (ratio * record) * (cost * record + AHEAD);
        records.ceil().clamp(f64::from(AHEAD_LEAST), 1e6) as u32
    }

    /// Payload rate that the law expects of what is chosen; infinite while nothing is known to bound it.
    pub fn expected(&self) -> f64 {
        self.mix.rate
    }

    fn choice(&self, index: usize, probe: bool) -> Choice {
        let Candidate { codec, level } = self.estimates.candidate(index);
        Choice { codec, level, probe }
    }

    /// Nothing is compressed, probes apart.
    fn is_plain(&self) -> bool {
        self.ramp.is_none() && self.mix.first == self.estimates.none() && self.mix.share <= 0.0
    }

    /// Whether lanes within this machine are held by something else than its processors; that they are not is
    /// not known where no processor could be read.
    fn idles(&mut self, link: &Link) -> bool {
        let Some(busy) = link.busy else { return true };
        let idle = link.backlog && busy < MOVING * self.cores;
        self.idled = if idle { self.idled + 1 } else { 0 };
        self.idled >= IDLE_REPORTS
    }

    /// What the machine does beside compressing, per byte of payload.
    fn account(&mut self, link: &Link) {
        let span = link.now.saturating_sub(self.window.at).as_secs_f64();
        self.window.at = self.window.at.max(link.now);
        if let Some(busy) = link.busy.filter(|busy| busy.is_finite()) {
            self.probes.idle = if link.backlog { (self.cores - busy).max(0.0) } else { 0.0 };
        }
        let fresh = Window { at: self.window.at, ..Window::default() };
        let Some(own) = link.own.filter(|own| own.is_finite() && span > 0.0) else {
            self.window = fresh;
            return;
        };
        self.make_room(own, link);
        self.window.own += own * span;
        self.window.wire += if link.rate.is_finite() { link.rate.max(0.0) * span } else { 0.0 };
        // A block's time is told when it is done, and lies partly before: reports are joined until they hold
        // several. Beside slow blocks the rest cannot be seen, nor does it matter there.
        if link.now <= self.slow_until {
            self.window = fresh;
        } else if self.window.raw >= 4.0 * BLOCK {
            let Window { raw, cpu, own, wire, .. } = std::mem::replace(&mut self.window, fresh);
            if cpu < 0.75 * own {
                self.others.learn(raw, wire, own - cpu);
            }
        }
    }

    /// Beside other programs this copy has the processors that it gets while lanes wait for blocks. While
    /// blocks wait it has at least what it uses and what idles, and perhaps more.
    fn make_room(&mut self, own: f64, link: &Link) {
        let busy = link.busy.filter(|busy| busy.is_finite()).unwrap_or(own);
        let had = (own + (self.cores - busy).max(0.0)).clamp(0.0, self.cores);
        let room = if busy - own < OTHERS * self.cores {
            self.cores
        } else if link.backlog {
            had.max(self.room + WIDEN * (self.cores - self.room))
        } else {
            self.room + NARROW * (had - self.room)
        };
        self.room = room.clamp(0.1_f64.min(self.cores), self.cores);
    }

    fn offered(&self) -> Offered {
        let ratio = self.mix_ratio(self.mix);
        Offered { ratio, full: self.mix.rate * ratio >= FULL * self.asked }
    }

    fn decide(&mut self, now: Duration) {
        let link = self.link.rate().map_or(f64::INFINITY, |rate| rate * HEADROOM);
        self.asked = self.trials.floor(link);
        let Others { payload, wire, .. } = self.others;
        let law = Law { link: self.asked, cores: self.room, payload, wire };
        let points = self.estimates.doubted(self.dead, [self.mix.first, self.mix.second]);
        let mix = Mix::best(&points, law, self.longest() / BLOCK, self.mix);
        let block = mix.cost(&points) * BLOCK;
        if block > AHEAD && mix.cost(&points) > 4.0 * self.mix.cost(&points) {
            let until = now + Duration::from_secs_f64(block.min(10.0));
            self.ramp = Some(Ramp { from: self.mix, since: now, until });
        }
        self.mix = mix;
    }

    /// The mixture's codec whose turn it is.
    fn next(&mut self, now: Duration, points: &[Point]) -> usize {
        let Mix { first, second, share, .. } = self.mix_for(now);
        let blocks = [first, second].map(|index| f64::from(self.run(index, points)));
        if self.owed + share * blocks[1] >= blocks[1] {
            self.owed -= (1.0 - share) * blocks[1];
            return second;
        }
        self.owed += share * blocks[0];
        first
    }

    /// The law's mixture, or still the one before: more of the new as time goes.
    fn mix_for(&mut self, now: Duration) -> Mix {
        let Some(Ramp { from, since, until }) = self.ramp.filter(|ramp| now < ramp.until) else {
            self.ramp = None;
            return self.mix;
        };
        let passed = now.saturating_sub(since).as_secs_f64() / (until - since).as_secs_f64();
        self.ramped += passed;
        if self.ramped < 1.0 {
            return from;
        }
        self.ramped -= 1.0;
        self.mix
    }

    /// Seconds that a block may take without the lanes running out of others meanwhile.
    fn longest(&self) -> f64 {
        AHEAD * self.cores
    }

    fn mix_ratio(&self, mix: Mix) -> f64 {
        mix.ratio(&self.estimates.points(self.dead))
    }

    /// A codec to try now, if one is worth it and its time is saved up.
    fn probe(&mut self, now: Duration, points: &[Point]) -> Option<usize> {
        let span = now.saturating_sub(self.probes.at).as_secs_f64();
        let Probes { cpu, link, idle, at } = self.probes;
        let share = self.cores * PROBE_SHARE + idle * PROBE_IDLE;
        let cpu = (cpu + span * share).min(PROBE_SAVED);
        let link = (link + span * PROBE_SHARE).min(PROBE_SAVED);
        self.probes = Probes { cpu, link, idle, at: at.max(now) };

        let due = self.estimates.due(now, [self.mix.first, self.mix.second], idle > IDLE);
        let live = self.estimates.points(0.0);
        let ratio = self.mix_ratio(self.mix);
        let full = self.link.rate().filter(|_| self.offered().full);
        for index in due {
            let record = BLOCK * f64::from(self.run(index, points));
            let busy = live[index].cost * record;
            // More bytes than the choice of the law would put on a link that is full.
            let wire = full.map_or(0.0, |rate| (live[index].ratio - ratio).max(0.0) * record / rate);
            if busy <= cpu && busy <= self.longest() && wire <= link {
                (self.probes.cpu, self.probes.link) = (cpu - busy, link - wire);
                self.estimates.asked(index, now);
                return Some(index);
            }
        }
        None
    }
}
