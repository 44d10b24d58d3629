//! A codec meets blocks once, there and back: what it leaves of each, what each costs, and whether each can
//! be had back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use weir_codec::codec::Setting;
use weir_observe::thread::thread_cpu_now;

use crate::corpus::Corpus;
use crate::error::ErrorError;

/// What a look at one block saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BlockCost {
    /// Its number in the corpus.
    pub(crate) block: usize,
    /// Bytes of it.
    pub(crate) raw: usize,
    /// Bytes that are left of it.
    pub(crate) packed: usize,
    /// Processor time of packing it, once: other programs do not bend that.
    pub(crate) compress: Duration,
    /// And of unpacking it.
    pub(crate) decompress: Duration,
}

/// Looks at the `wanted` blocks on all processors of this process, and tells of them in order. `go_on` is
/// asked before each, and told how many were begun before it; `None` when it says no.
pub(crate) fn at(
    setting: Setting,
    corpus: &Corpus,
    wanted: &[usize],
    go_on: &(dyn Fn(usize) -> bool + Sync),
) -> Result<Option<Vec<BlockCost>>, ErrorError> {
    let work =
        Work { next: AtomicUsize::new(0), over: AtomicBool::new(false), seen: Mutex::new(Ok(Vec::new())) };
    let look = || {
        let mut looker = Looker::default();
        while let Some(block) = work.next(wanted, go_on) {
            work.add(looker.look(setting, corpus, block));
        }
    };
    let others = (weir_observe::cpu::available_cpus() as usize).min(wanted.len()).saturating_sub(1);
    thread::scope(|scope| {
        for _ in 0..others {
            // Fewer threads do the same work; a refused one is no reason to measure nothing.
            let _ = thread::Builder::new().spawn_scoped(scope, look);
        }
        look();
    });
    let mut seen = work.seen.into_inner()?;
    if seen.len() < wanted.len() {
        return Ok(None);
    }
    seen.sort_unstable_by_key(|seen| seen.block);
    Ok(Some(seen))
}

/// What the threads share.
struct Work {
    next: AtomicUsize,
    over: AtomicBool,
    seen: Mutex<Result<Vec<BlockCost>, ErrorError>>,
}

impl Work {
    fn next(&self, wanted: &[usize], go_on: &dyn Fn(usize) -> bool) -> Option<usize> {
        let at = self.next.fetch_add(1, Relaxed);
        let block = wanted.get(at).copied()?;
        if self.over.load(Relaxed) || !go_on(at) {
            self.over.store(true, Relaxed);
            return None;
        }
        Some(block)
    }

    /// The first error is the one that is told.
    fn add(&self, looked: Result<Option<BlockCost>, ErrorError>) {
        let mut all = self.seen.lock();
        let Ok(seen) = &mut *all else { return };
        match looked {
            Ok(looked) => seen.extend(looked),
            Err(error) => {
                *all = Err(error);
                self.over.store(true, Relaxed);
            }
        }
    }
}

/// A first block that is packed quicker than that is packed again: a thread's first call makes the codec's
/// tables, which would be much of its time. With a slower codec they are a few per cent of it.
const WARM: Duration = Duration::from_millis(20);

/// One thread's buffers, kept from block to block.
#[derive(Debug, Default)]
pub(crate) struct Looker {
    packed: Vec<u8>,
    back: Vec<u8>,
    /// The last setting that was called, whose tables are made.
    warm: Option<Setting>,
}

impl Looker {
    /// `None` behind the last block.
    fn look(
        &mut self,
        setting: Setting,
        corpus: &Corpus,
        index: usize,
    ) -> Result<Option<BlockCost>, ErrorError> {
        match corpus.block(index)? {
            Some(block) => self.through(setting, index, &block).map(Some),
            None => Ok(None),
        }
    }

    /// One block there and back, and compared.
    pub(crate) fn through(
        &mut self,
        setting: Setting,
        index: usize,
        block: &[u8],
    ) -> Result<BlockCost, ErrorError> {
        let seen = self.once(setting, index, block)?;
        let is_first = self.warm.replace(setting) != Some(setting);
        if is_first && seen.compress < WARM { self.once(setting, index, block) } else { Ok(seen) }
    }

    fn once(&mut self, setting: Setting, index: usize, block: &[u8]) -> Result<BlockCost, ErrorError> {
        let codec = setting.codec();
        let before = thread_cpu_now();
        codec.compress(setting.level(), block, &mut self.packed)?;
        let between = thread_cpu_now();
        codec.decompress(&self.packed, block.len(), &mut self.back)?;
        let after = thread_cpu_now();
        if self.back != block {
            return Err(ErrorError::RoundTrip { setting, block: index });
        }
        Ok(BlockCost {
            block: index,
            raw: block.len(),
            packed: self.packed.len(),
            compress: between.saturating_sub(before),
            decompress: after.saturating_sub(between),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Kind, Take};
    use weir_codec::codec::Codec;

    #[test]
    fn every_block_is_seen_once_and_in_order() {
        let corpus = Corpus::generate(Kind::Binary, 5 << 20);
        let seen = at(Codec::LZ4.into(), &corpus, &[0, 2, 4], &|_| true).unwrap().unwrap();
        let blocks: Vec<usize> = seen.iter().map(|seen| seen.block).collect();
        assert_eq!(blocks, [0, 2, 4]);
        assert!(
            seen.iter().all(|seen| seen.raw == 1 << 20 && (1..seen.raw).contains(&seen.packed)),
            "{seen:?}"
        );
    }

    #[test]
    fn a_no_ends_it_and_a_file_that_shrank_is_told() {
        let corpus = Corpus::generate(Kind::Text, 3 << 20);
        assert_eq!(at(Codec::LZ4.into(), &corpus, &[0, 1, 2], &|done| done < 2).unwrap(), None);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, [1; 100]).unwrap();
        let corpus = Corpus::read(std::slice::from_ref(&path), Take::Whole).unwrap();
        std::fs::write(&path, [1; 10]).unwrap();
        // What memory holds is there all the same.
        assert!(at(Codec::LZ4.into(), &corpus, &[0], &|_| true).unwrap().is_some());
    }
}
