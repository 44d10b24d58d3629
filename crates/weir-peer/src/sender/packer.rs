//! Compressing blocks, each by the codec that the law chooses for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_codec::codec::Codec;
use weir_model::chooser::{CANDIDATES, Choice, Chooser, Link, Packed, quick_estimate};
use weir_model::stages::Shrunk;

/// What compresses, for all workers.
#[derive(Debug)]
pub(crate) struct Packer {
    start: Instant,
    /// The user's word.
    fixed: Option<(u8, i32)>,
    chooser: Mutex<Chooser>,
    shares: Mutex<BTreeMap<(u8, i32), Share>>,
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
    pub(crate) fn new(fixed: Option<(u8, i32)>, start: Instant) -> Packer {
        let cores = f64::from(weir_observe::cpu::available_cpus());
        Packer {
            start,
            fixed,
            chooser: Mutex::new(Chooser::new(CANDIDATES.to_vec(), cores)),
            shares: Mutex::default(),
        }
    }

    /// Compresses `raw` into `packed` and returns the codec's number; `None` where it goes as it is.
    pub(crate) fn pack(&self, raw: &[u8], packed: &mut Vec<u8>) -> Option<u8> {
        let choice = self.choose(raw);
        let codec = Codec::by_id(choice.codec).filter(|codec| codec.id() != 0);
        let worked = codec.and_then(|codec| {
            let before = weir_observe::thread::thread_cpu_now();
            codec.compress(choice.level, raw, packed).ok()?;
            let shrunk = packed.len() < raw.len();
            self.learn(
                choice,
                raw.len(),
                packed.len(),
                weir_observe::thread::thread_cpu_now().saturating_sub(before),
            );
            shrunk.then_some(codec.id())
        });
        let (id, level, size) = match worked {
            Some(id) => (id, choice.level, packed.len()),
            None => (0, 0, raw.len()),
        };
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let share = shares.entry((id, level)).or_default();
        share.raw += raw.len() as u64;
        share.packed += size as u64;
        worked
    }

    /// What the lanes carried of late.
    pub(crate) fn link(&self, rate: f64, backlog: bool, busy: Option<f64>) {
        let now = self.start.elapsed();
        self.chooser.lock().unwrap_or_else(PoisonError::into_inner).link(&Link { now, rate, backlog, busy });
    }

    /// Payload per second that the law expects of the link as it is; `None` where the codec is not chosen, or nothing is known.
    pub(crate) fn outlook(&self) -> Option<f64> {
        let chooser = self.chooser.lock().unwrap_or_else(PoisonError::into_inner);
        Some(chooser.expected()).filter(|rate| self.fixed.is_none() && rate.is_finite())
    }

    /// What went through which codec and level.
    pub(crate) fn shares(&self) -> BTreeMap<(u8, i32), Share> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

    fn choose(&self, raw: &[u8]) -> Choice {
        if let Some((codec, level)) = self.fixed {
            return Choice { codec, level, probe: false };
        }
        let quick = Some(quick_estimate(raw));
        self.chooser.lock().unwrap_or_else(PoisonError::into_inner).choose_for(self.start.elapsed(), quick)
    }

    fn learn(&self, choice: Choice, raw: usize, packed: usize, cpu: Duration) {
        if self.fixed.is_none() {
            self.chooser.lock().unwrap_or_else(PoisonError::into_inner).packed(&Packed {
                codec: choice.codec,
                level: choice.level,
                raw: raw as u64,
                packed: packed as u64,
                cpu,
                now: self.start.elapsed(),
            });
        }
    }
}

/// As `--codec` takes it.
fn written((codec, level): (u8, i32)) -> String {
    let name = Codec::by_id(codec).map_or("unknown", Codec::name);
    if level == 0 { name.to_owned() } else { format!("{name}:{level}") }
}
