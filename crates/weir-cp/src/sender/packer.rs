//! Compressing blocks, each by the codec that the law chooses for it.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use weir_codec::codec::Codec;
use weir_model::chooser::{
    CANDIDATES, Candidate, Choice, Chooser, LONGEST_RUN, Link, Packed, Plan, quick_estimate,
};
use weir_model::stages::Shrunk;
use weir_observe::thread::thread_cpu_now;

use super::unpacking::Unpacking;
use crate::speeds::Speeds;
use crate::subtrees::BLOCK;
use crate::watch::Closed;

/// What compresses, for all workers.
#[derive(Debug)]
pub(crate) struct Packer {
    /// The first block: what the chooser's times count from.
    start: OnceLock<Instant>,
    /// The user's word.
    fixed: Option<(u8, i32)>,
    chooser: Mutex<Chooser>,
    shares: Mutex<BTreeMap<(u8, i32), Share>>,
    /// The lanes stay in one network: unpacking costs what packing could use.
    near: AtomicBool,
    /// Both ends work on one machine.
    shared: AtomicBool,
    unpacking: Mutex<Unpacking>,
}

/// What went through a codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Bytes before.
    pub(crate) raw: u64,
    /// Bytes after.
    pub(crate) packed: u64,
}

impl Packer {
    /// For one codec and level, or for the one that the chooser takes.
    pub(crate) fn new(fixed: Option<(u8, i32)>, speeds: &Speeds) -> Packer {
        let cores = f64::from(weir_observe::cpu::available_cpus());
        Packer {
            start: OnceLock::new(),
            fixed,
            chooser: Mutex::new(Chooser::with_speeds(CANDIDATES.to_vec(), cores, &speeds.codecs)),
            shares: Mutex::default(),
            near: AtomicBool::new(false),
            shared: AtomicBool::new(false),
            unpacking: Mutex::default(),
        }
    }

    /// The other end works on this machine too.
    pub(crate) fn set_shared(&self) {
        self.shared.store(true, Relaxed);
    }

    /// The lanes do not leave this machine.
    pub(crate) fn set_near(&self) {
        if !self.near.swap(true, Relaxed) && self.start.get().is_none() {
            self.chooser().begin_plain();
        }
    }

    /// What the next record is to be, before it is known what there is to send.
    pub(crate) fn plan(&self) -> Plan {
        let Some((codec, level)) = self.fixed else { return self.chooser().plan(self.passed()) };
        let share = self.shares().get(&(codec, level)).copied().unwrap_or_default();
        let ratio = share.packed as f64 / share.raw.max(1) as f64;
        let run = self.chooser().run_with(Candidate { codec, level }, ratio);
        Plan { choice: Choice { codec, level, probe: false }, run, looks: false }
    }

    /// Compresses `raw` into `packed` as it was planned and returns the codec's number; `None` where it goes
    /// as it is.
    pub(crate) fn pack(&self, plan: &Plan, raw: &[u8], packed: &mut Vec<u8>) -> Option<u8> {
        let choice = self.choose(plan, raw);
        let codec = Codec::by_id(choice.codec).filter(|codec| codec.id() != 0);
        let worked = codec.and_then(|codec| {
            let before = thread_cpu_now();
            codec.compress(choice.level, raw, packed).ok()?;
            let spent = thread_cpu_now().saturating_sub(before);
            self.learn(choice, raw.len(), packed.len(), spent + self.unpacking(codec, choice, raw, packed));
            (packed.len() < raw.len()).then_some(codec.id())
        });
        if codec.is_none() {
            // What all else costs is seen best while nothing is compressed.
            self.learn(choice, raw.len(), raw.len(), Duration::ZERO);
        }
        let (id, level, size) = match worked {
            Some(id) => (id, choice.level, packed.len()),
            None => (0, 0, raw.len()),
        };
        self.count((id, level), raw.len(), size);
        worked
    }

    /// A block goes on as it was compressed elsewhere: nothing was chosen here.
    pub(crate) fn passed_on(&self, codec: u8, raw: usize, packed: usize) {
        self.count((codec, 0), raw, packed);
    }

    fn count(&self, key: (u8, i32), raw: usize, packed: usize) {
        let mut shares = self.shares.lock();
        let share = shares.entry(key).or_default();
        share.raw += raw as u64;
        share.packed += packed as u64;
    }

    /// What the lanes carried in the last `span`. One in which the first block was packed tells more of the
    /// start than of them.
    pub(crate) fn link(&self, span: Duration, rate: f64, closed: &Closed) {
        let Some(now) = self.start.get().map(Instant::elapsed).filter(|now| *now >= span) else { return };
        let Closed { backlog, busy, own, .. } = *closed;
        // The other end's work counts where it takes processors from this one, and is not told from that of
        // others.
        let own = if self.shared.load(Relaxed) { busy } else { own };
        let mut chooser = self.chooser();
        chooser.link(&Link { now, rate, backlog, busy, own });
        let decided = chooser.take_decisions();
        drop(chooser);
        decided.iter().for_each(|event| tracing::info!("{event}"));
    }

    /// Records of at most `longest` blocks that may be at work or wait for lanes, where the chooser decides.
    pub(crate) fn ahead(&self, longest: u32) -> Option<u32> {
        self.fixed.is_none().then(|| self.chooser().ahead(longest))
    }

    /// Blocks that records would carry now, were all allowed.
    pub(crate) fn longest_in_use(&self) -> u32 {
        if self.fixed.is_some() { LONGEST_RUN } else { self.chooser().longest_in_use() }
    }

    /// Records may carry so many blocks at most.
    pub(crate) fn allow(&self, longest: u32) {
        self.chooser().allow(longest);
    }

    /// Payload per second that the law expects of the link as it is; `None` where the codec is not chosen, or
    /// nothing is known.
    pub(crate) fn outlook(&self) -> Option<f64> {
        Some(self.chooser().expected()).filter(|rate| self.fixed.is_none() && rate.is_finite())
    }

    /// What went through which codec and level.
    pub(crate) fn shares(&self) -> BTreeMap<(u8, i32), Share> {
        self.shares.lock().clone()
    }

    /// What went through each since `before`, by name; `before` becomes now.
    pub(crate) fn shrunk_since(&self, before: &mut BTreeMap<(u8, i32), Share>) -> BTreeMap<String, Shrunk> {
        let now = self.shares();
        let differences = now.iter().filter_map(|(key, share)| {
            let earlier = before.get(key).copied().unwrap_or_default();
            let shrunk = Shrunk { raw: share.raw - earlier.raw, packed: share.packed - earlier.packed };
            (shrunk.raw > 0).then(|| (written(*key), shrunk))
        });
        let differences = differences.collect();
        *before = now;
        differences
    }

    fn choose(&self, plan: &Plan, raw: &[u8]) -> Choice {
        let now = self.now();
        if !plan.looks {
            return plan.choice;
        }
        let quick: Vec<f64> = raw.chunks(BLOCK as usize).map(quick_estimate).collect();
        self.chooser().choose_for(now, plan, &quick)
    }

    fn learn(&self, choice: Choice, raw: usize, packed: usize, cpu: Duration) {
        if self.fixed.is_none() {
            self.chooser().packed(&Packed {
                codec: choice.codec,
                level: choice.level,
                raw: raw as u64,
                packed: packed as u64,
                cpu,
                now: self.now(),
            });
        }
    }

    /// Processor time that the other end takes from this one to unpack the block.
    fn unpacking(&self, codec: Codec, choice: Choice, raw: &[u8], packed: &[u8]) -> Duration {
        if self.fixed.is_some() || !self.near.load(Relaxed) || packed.len() >= raw.len() {
            return Duration::ZERO;
        }
        let mut unpacking = self.unpacking.lock();
        unpacking.cost(codec, choice.level, packed, raw.len())
    }

    /// Since the first block; none before it.
    fn passed(&self) -> Duration {
        self.start.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    fn now(&self) -> Duration {
        self.start.get_or_init(Instant::now).elapsed()
    }

    fn chooser(&self) -> MutexGuard<'_, Chooser> {
        self.chooser.lock()
    }
}

/// As `--codec` takes it.
fn written((codec, level): (u8, i32)) -> String {
    let name = Codec::by_id(codec).map_or("unknown", Codec::name);
    if level == 0 { name.to_owned() } else { format!("{name}:{level}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The judge knows codecs by number; its words for them are those that `--codec` takes.
    #[test]
    fn decisions_name_codecs_as_the_command_line_does() {
        for candidate in CANDIDATES {
            assert_eq!(candidate.to_string(), written((candidate.codec, candidate.level)));
        }
    }
}
