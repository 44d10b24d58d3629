//! The ledger of one object: which bytes are done, which lane is at work on which.
//!
//! Pure: no file, no socket, no clock. Every byte is handed to one lane at a time, and a byte that is done is
//! never handed out again. What is done is only what a lane has *committed*, after the sink took it.
//!
//! A lane's claim is the half-open range from its next byte to its end. Claims never overlap. They shrink
//! when an idle lane takes part of the largest one, and grow when a lane whose answer runs on reaches its end
//! and the next bytes belong to nobody, or to a lane that has not seen its first byte yet (a server that
//! serves one connection at a time must not cost more than one lane would).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::ranges::RangeSet;

/// A lane's number.
pub type LaneId = u32;

/// What is done of an object and who works on the rest.
#[derive(Debug, Clone)]
pub struct Ledger {
    size: Option<u64>,
    done: RangeSet,
    claims: BTreeMap<LaneId, Claim>,
    /// A claim that grows takes no more than it needs, so that the next lane finds the bytes after it.
    in_order: bool,
}

#[derive(Debug, Clone)]
struct Claim {
    /// Next byte to commit.
    at: u64,
    /// Bytes from `at` that the lane is writing now and nobody may take.
    reserved: u64,
    /// First byte that is not the lane's; `u64::MAX` while the size is unknown.
    end: u64,
    /// The answer to the lane's request was accepted.
    accepted: bool,
    /// The lane has seen a byte of it.
    started: bool,
}

impl Claim {
    fn of(range: Range<u64>) -> Claim {
        Claim { at: range.start, reserved: 0, end: range.end, accepted: false, started: false }
    }

    fn free(&self) -> u64 {
        self.end - (self.at + self.reserved)
    }
}

/// How an idle lane may take work from a busy one.
#[derive(Debug, Clone, Copy)]
pub struct SplitRule {
    /// Neither part of a split is smaller than this, bytes.
    pub min_part: u64,
    /// Lanes about to join, this one included: claims are shared so that all end up with equal parts.
    pub joining: u64,
}

impl Ledger {
    /// A ledger for an object of `size` bytes (`None`: not known before its end), of which `done` are already
    /// safe.
    pub fn new(size: Option<u64>, done: RangeSet) -> Ledger {
        Ledger { size, done, claims: BTreeMap::new(), in_order: false }
    }

    /// A ledger for an object that leaves in order through a window: lanes take block after block.
    pub fn in_order(size: Option<u64>) -> Ledger {
        Ledger { in_order: true, ..Ledger::new(size, RangeSet::default()) }
    }

    /// The object's size, once known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// What has been committed.
    pub fn done(&self) -> &RangeSet {
        &self.done
    }

    /// Every byte is committed.
    pub fn is_complete(&self) -> bool {
        self.size.is_some_and(|size| self.done.prefix() >= size)
    }

    /// Lanes at work.
    pub fn lanes(&self) -> usize {
        self.claims.len()
    }

    /// Lanes at work whose answer was accepted, whether a byte of it has come or not.
    pub fn carrying(&self) -> usize {
        self.claims.values().filter(|claim| claim.accepted).count()
    }

    /// Those of them that have had a byte of it.
    pub fn bringing(&self) -> usize {
        self.claims.values().filter(|claim| claim.started).count()
    }

    /// The answer to the request of `lane` was accepted.
    pub fn accept(&mut self, lane: LaneId) {
        if let Some(claim) = self.claims.get_mut(&lane) {
            claim.accepted = true;
        }
    }

    /// Hands the first bytes that belong to nobody to `lane`; at most `longest` bytes, all of them below
    /// `horizon`.
    pub(crate) fn claim_gap(&mut self, lane: LaneId, longest: u64, horizon: u64) -> Option<Range<u64>> {
        debug_assert!(!self.claims.contains_key(&lane), "a lane holds one claim at a time");
        let gap = self.first_gap(0, self.size.unwrap_or(u64::MAX).min(horizon))?;
        let range = gap.start..gap.end.min(gap.start.saturating_add(longest));
        let end = if self.size.is_none() && range.end == horizon { u64::MAX } else { range.end };
        self.claims.insert(lane, Claim::of(range.start..end));
        Some(range.start..end)
    }

    /// Takes the tail of the largest claim for `lane`.
    pub(crate) fn claim_split(&mut self, lane: LaneId, rule: SplitRule) -> Option<Range<u64>> {
        debug_assert!(!self.claims.contains_key(&lane), "a lane holds one claim at a time");
        self.size?;
        let all: u64 = self.claims.values().map(Claim::free).sum();
        let fair = (all / (self.claims.len() as u64 + rule.joining)).max(1);
        let victim = self.claims.values_mut().max_by_key(|claim| claim.free())?;
        // Among as many lanes as the largest claim has work for, of which one stays with it.
        let shares = ((victim.free() + fair / 2) / fair).max(2);
        let part = (victim.free() / shares).max(rule.min_part);
        if victim.free().saturating_sub(part) < rule.min_part {
            return None;
        }
        let range = victim.end - part..victim.end;
        victim.end = range.start;
        self.claims.insert(lane, Claim::of(range.clone()));
        Some(range)
    }

    /// Of `wanted` bytes that `lane` has received at its position, how many it may write; they are its own
    /// until [`Ledger::commit`]. Fewer than wanted means that its claim ends there.
    pub fn reserve(&mut self, lane: LaneId, wanted: u64) -> u64 {
        self.extend(lane, wanted);
        let Some(claim) = self.claims.get_mut(&lane) else { return 0 };
        claim.started = true;
        claim.reserved = wanted.min(claim.end - claim.at);
        claim.reserved
    }

    /// The reserved bytes are in the sink. Returns the lane's new position.
    pub fn commit(&mut self, lane: LaneId) -> u64 {
        let Some(claim) = self.claims.get_mut(&lane) else { return 0 };
        let range = claim.at..claim.at + claim.reserved;
        claim.at = range.end;
        claim.reserved = 0;
        self.done.insert(range.clone());
        range.end
    }

    /// The bytes that are still `lane`'s.
    pub fn claim(&self, lane: LaneId) -> Option<Range<u64>> {
        self.claims.get(&lane).map(|claim| claim.at..claim.end)
    }

    /// `lane` stops; what it has not committed belongs to nobody again.
    pub fn release(&mut self, lane: LaneId) {
        self.claims.remove(&lane);
    }

    /// The object ended at `size`, which was not known before. False when bytes beyond it are already done.
    pub(crate) fn ends_at(&mut self, size: u64) -> bool {
        if self.size.is_some_and(|known| known != size) || self.done.iter().any(|range| range.end > size) {
            return false;
        }
        self.size = Some(size);
        for claim in self.claims.values_mut() {
            claim.end = claim.end.min(size).max(claim.at);
        }
        true
    }

    /// Lets a lane whose answer runs on past its claim keep going where that disturbs nobody.
    fn extend(&mut self, lane: LaneId, wanted: u64) {
        loop {
            let Some(claim) = self.claims.get(&lane).cloned() else { return };
            let end = claim.end;
            if claim.at + wanted <= end || self.size.is_some_and(|size| end >= size) {
                return;
            }
            let idle =
                self.claims.iter().find(|(_, other)| other.at == end && !other.started && other.end > end);
            if let Some((&other, _)) = idle {
                let taken = self.claims.remove(&other).map_or(end, |other| other.end);
                self.set_end(lane, taken);
                continue;
            }
            match self.first_gap(end, self.size.unwrap_or(u64::MAX)) {
                Some(gap) if gap.start == end => {
                    let needed = if self.in_order { claim.at + wanted } else { u64::MAX };
                    self.set_end(lane, gap.end.min(needed));
                }
                _ => return,
            }
        }
    }

    fn set_end(&mut self, lane: LaneId, end: u64) {
        if let Some(claim) = self.claims.get_mut(&lane) {
            claim.end = end;
        }
    }

    /// The first bytes at or after `from` that are neither done nor claimed.
    fn first_gap(&self, from: u64, size: u64) -> Option<Range<u64>> {
        let mut start = from;
        loop {
            let gap = self.done.gap_after(start, size)?;
            match self.claims.values().find(|claim| claim.at <= gap.start && gap.start < claim.end) {
                Some(claim) => start = claim.end,
                None => {
                    let next = self.claims.values().map(|claim| claim.at).filter(|at| *at > gap.start).min();
                    return Some(gap.start..next.map_or(gap.end, |next| next.min(gap.end)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANY: SplitRule = SplitRule { min_part: 1, joining: 1 };

    #[test]
    fn lanes_that_join_together_get_equal_parts() {
        let mut ledger = Ledger::new(Some(1600), RangeSet::default());
        assert_eq!(ledger.claim_gap(0, u64::MAX, u64::MAX), Some(0..1600));
        for lane in 1..16 {
            let joining = 16 - u64::from(lane);
            let range = ledger.claim_split(lane, SplitRule { min_part: 1, joining }).expect("a part");
            assert_eq!(range.end - range.start, 100);
        }
        assert_eq!(ledger.claim(0), Some(0..100));
    }

    #[test]
    fn as_many_lanes_again_take_half_of_each() {
        let mut ledger = Ledger::new(Some(3200), RangeSet::default());
        ledger.claim_gap(0, u64::MAX, u64::MAX);
        for lane in 1..32 {
            ledger.claim_split(lane, SplitRule { min_part: 1, joining: 32 - u64::from(lane) });
        }
        for lane in 32..64 {
            let joining = 64 - u64::from(lane);
            let range = ledger.claim_split(lane, SplitRule { min_part: 40, joining }).expect("a part");
            assert_eq!(range.end - range.start, 50);
        }
    }

    #[test]
    fn what_is_left_is_shared_by_as_many_as_have_worthwhile_parts() {
        let mut ledger = Ledger::new(Some(100), RangeSet::default());
        ledger.claim_gap(0, u64::MAX, u64::MAX);
        let rule = SplitRule { min_part: 30, joining: 31 };
        assert_eq!(ledger.claim_split(1, rule), Some(70..100));
        assert_eq!(ledger.claim_split(2, rule), Some(40..70));
        assert_eq!(ledger.claim_split(3, rule), None, "the last two would have less");
    }

    #[test]
    fn a_lane_runs_on_into_bytes_of_a_lane_that_never_started() {
        let mut ledger = Ledger::new(Some(100), RangeSet::default());
        ledger.claim_gap(0, u64::MAX, u64::MAX);
        assert_eq!(ledger.claim_split(1, ANY), Some(50..100));
        assert_eq!(ledger.reserve(0, 50), 50);
        ledger.commit(0);
        assert_eq!(ledger.reserve(0, 10), 10, "lane 1 has not started, so lane 0 goes on");
        assert_eq!(ledger.claim(1), None);
        assert_eq!(ledger.reserve(1, 10), 0, "lane 1 learns that its bytes are gone");
    }

    #[test]
    fn a_lane_carries_once_its_answer_was_accepted() {
        let mut ledger = Ledger::new(Some(100), RangeSet::default());
        ledger.claim_gap(0, u64::MAX, u64::MAX);
        ledger.claim_split(1, ANY);
        assert_eq!(ledger.carrying(), 0, "they have asked");
        ledger.accept(0);
        assert_eq!((ledger.carrying(), ledger.bringing()), (1, 0), "before its first byte");
        ledger.reserve(0, 1);
        assert_eq!((ledger.carrying(), ledger.bringing()), (1, 1));
        ledger.release(0);
        ledger.accept(0);
        assert_eq!((ledger.carrying(), ledger.bringing()), (0, 0));
    }

    #[test]
    fn a_lane_that_started_keeps_its_bytes() {
        let mut ledger = Ledger::new(Some(100), RangeSet::default());
        ledger.claim_gap(0, u64::MAX, u64::MAX);
        ledger.claim_split(1, ANY);
        assert_eq!(ledger.reserve(1, 1), 1);
        assert_eq!(ledger.reserve(0, 60), 50);
    }

    #[test]
    fn an_unknown_size_is_learnt_at_the_end() {
        let mut ledger = Ledger::new(None, RangeSet::default());
        assert_eq!(ledger.claim_gap(0, u64::MAX, u64::MAX), Some(0..u64::MAX));
        assert_eq!(ledger.claim_split(1, ANY), None, "nothing to split while the size is unknown");
        assert_eq!(ledger.reserve(0, 7), 7);
        ledger.commit(0);
        assert!(!ledger.is_complete());
        assert!(ledger.ends_at(7));
        assert!(ledger.is_complete());
    }

    #[test]
    fn a_horizon_bounds_what_is_claimed() {
        let mut ledger = Ledger::new(Some(100), RangeSet::default());
        assert_eq!(ledger.claim_gap(0, 10, 25), Some(0..10));
        assert_eq!(ledger.claim_gap(1, 10, 25), Some(10..20));
        assert_eq!(ledger.claim_gap(2, 10, 25), Some(20..25));
        assert_eq!(ledger.claim_gap(3, 10, 25), None);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Gap(u32, u64),
        Split(u32, u64, u64),
        Receive(u32, u64),
        Fail(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0u32..5, 1u64..400).prop_map(|(lane, longest)| Step::Gap(lane, longest)),
            (0u32..5, 1u64..40, 1u64..5).prop_map(|(lane, min, joining)| Step::Split(lane, min, joining)),
            (0u32..5, 1u64..64).prop_map(|(lane, bytes)| Step::Receive(lane, bytes)),
            (0u32..5).prop_map(Step::Fail),
        ];
        prop::collection::vec(step, 0..300)
    }

    proptest! {
        /// Any order of claims, splits, failures and receipts: no byte is written twice, none is forgotten.
        #[test]
        fn every_byte_once(size in 0u64..1000, kept in prop::collection::vec((0u64..1000, 0u64..200), 0..4), steps in steps()) {
            let kept: RangeSet = kept.into_iter().map(|(start, len)| start.min(size)..(start + len).min(size)).collect();
            let mut written = vec![0u32; size as usize];
            kept.iter().for_each(|range| written[range.start as usize..range.end as usize].fill(1));
            let mut ledger = Ledger::new(Some(size), kept);
            let receive = |ledger: &mut Ledger, written: &mut Vec<u32>, lane: u32, bytes: u64| {
                let Some(claim) = ledger.claim(lane) else { return 0 };
                let granted = ledger.reserve(lane, bytes);
                for at in claim.start..claim.start + granted {
                    written[at as usize] += 1;
                }
                if granted > 0 { ledger.commit(lane); }
                if ledger.claim(lane).is_some_and(|claim| claim.is_empty()) { ledger.release(lane); }
                granted
            };
            for step in steps {
                match step {
                    Step::Gap(lane, longest) if ledger.claim(lane).is_none() => { ledger.claim_gap(lane, longest, u64::MAX); }
                    Step::Split(lane, min_part, joining) if ledger.claim(lane).is_none() => {
                        if let Some(range) = ledger.claim_split(lane, SplitRule { min_part, joining }) {
                            prop_assert!(range.end - range.start >= min_part);
                        }
                    }
                    Step::Receive(lane, bytes) => { receive(&mut ledger, &mut written, lane, bytes); }
                    Step::Fail(lane) => ledger.release(lane),
                    _ => {}
                }
                let mut claims: Vec<_> = (0..5).filter_map(|lane| ledger.claim(lane)).collect();
                claims.sort_by_key(|claim| claim.start);
                prop_assert!(claims.windows(2).all(|pair| pair[0].end <= pair[1].start), "claims overlap: {claims:?}");
                prop_assert!(written.iter().all(|count| *count <= 1));
            }
            (0..5).for_each(|lane| ledger.release(lane));
            while ledger.claim_gap(9, u64::MAX, u64::MAX).is_some() {
                while receive(&mut ledger, &mut written, 9, 64) > 0 {}
                ledger.release(9);
            }
            prop_assert!(ledger.is_complete());
            prop_assert!(written.iter().all(|count| *count == 1));
        }
    }
}
