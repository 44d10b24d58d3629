//! The byte path: a part is asked for, judged, and carried from the socket to its place.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use weir_observe::thread::thread_cpu_now;

use super::{Lane, decode, refuse_unfit};
use crate::download::{Carried, Carry};
use crate::error::GetError;
use crate::http::connection::BLOCK;
use crate::http::exchange::Answer;
use crate::job::Job;
use crate::object;
use crate::sink::{Sink, stream};
use crate::transfer::Transfer;
use weir_observe::stage_clock::Stage;

impl Lane<'_> {
    pub(super) fn part(&mut self, transfer: &Arc<Transfer>) {
        self.expects(&transfer.task, &transfer.file_name());
        let result = self.try_part(transfer);
        self.count();
        self.after_part(transfer, result);
    }

    /// Asks for this lane's claim and carries the answer.
    pub(super) fn try_part(&mut self, transfer: &Arc<Transfer>) -> Result<(), GetError> {
        let Some(claim) = transfer.ledger().claim(self.state.id) else { return Ok(()) };
        self.began = Instant::now();
        self.state.started.store(false, Relaxed);
        self.state.bulk.store(true, Relaxed);
        let (others, host) = (transfer.ledger().carrying(), object::host_of(&transfer.url));
        let ranged = transfer.download().on_claim(claim.start, others, &host)?;
        let range = ranged.then(|| range_of(&claim));
        let location = transfer.location.lock().clone();
        let mut answer = self.client.get(
            transfer.task.home(),
            &location,
            range,
            transfer.version.if_range().filter(|_| ranged),
            false,
        )?;
        let judged = answer.judge(range.map(|range| range.0));
        let host = object::host_of(&answer.url);
        let carry = transfer.download().on_part(judged, ranged, location != transfer.url, &host)?;
        match carry {
            Carry::Part(holds_to) => self.follow(transfer, answer, holds_to),
            Carry::Whole(object) => {
                let name = transfer.file_name();
                refuse_unfit(&name, &answer, self.run.options.any_type)?;
                let (answer, object, notes) = decode(self.run.http, &transfer.task, &name, answer, object);
                notes.into_iter().for_each(|note| transfer.note(note));
                transfer.download().on_whole(&object, &host)?;
                self.follow(transfer, answer, object.holds_to)
            }
            Carry::NoParts => {
                tracing::info!("{host} gives no parts on further connections; continuing with one");
                Err(GetError::Dropped)
            }
            Carry::Resolve => {
                tracing::info!("the link to {} expired, resolving it again", object::shown(&location));
                *transfer.location.lock() = transfer.url.clone();
                self.client.close();
                self.try_part(transfer)
            }
        }
    }

    /// The byte path: from the socket to its place, until the claim or the answer ends.
    pub(super) fn follow(
        &mut self,
        transfer: &Transfer,
        mut answer: Answer,
        holds_to: Option<u64>,
    ) -> Result<(), GetError> {
        let lane = self.state.id;
        self.state.ranged.store(transfer.download().is_ranged(), Relaxed);
        let host = object::host_of(&answer.url);
        let mut brought = 0;
        self.state.bulk.store(true, Relaxed);
        transfer.carriers.lock().insert(lane);
        transfer.ledger().accept(lane);
        let (stage, block) = match &transfer.sink {
            Sink::Part(_) => (Stage::Write, block_of(self.run.pool.wanted())),
            Sink::Stream(_) => (Stage::Output, stream::PIECE),
        };
        loop {
            let at = transfer.ledger().claim(lane).map_or(0, |claim| claim.start);
            let wanted = self.piece().min(to_boundary(at, block));
            let got = answer.body.fill(wanted, &self.state.clock, self.client.dial())? as u64;
            if got == 0 {
                break self.at_end(transfer, answer, holds_to, brought);
            }
            if let Some(end) = holds_to.filter(|end| at + got > *end) {
                return Err(beyond(&transfer.task, end, host));
            }
            self.state.started.store(true, Relaxed);
            let cpu = thread_cpu_now();
            self.state.clock.enter(stage);
            let taken = transfer.take(lane, got, answer.body.pieces());
            self.state.clock.enter(Stage::Other);
            let cpu = thread_cpu_now().saturating_sub(cpu);
            if stage == Stage::Write {
                self.state.clock.add_write_cpu(cpu);
            }
            let taken = taken?;
            brought += taken;
            self.state.written.fetch_add(taken, Relaxed);
            self.received(taken, answer.body.on_the_wire(taken));
            if taken < got {
                // The claim ends here; the rest of the answer belongs to another lane.
                self.client.close();
                return Ok(());
            }
            if self.run.is_stopped() || transfer.download().is_over() {
                return Err(GetError::Interrupted);
            }
            if answer.body.is_end() {
                break self.at_end(transfer, answer, holds_to, brought);
            }
        }
    }

    /// The answer, of which so many bytes were `brought`, is read to its end.
    fn at_end(
        &mut self,
        transfer: &Transfer,
        answer: Answer,
        holds_to: Option<u64>,
        brought: u64,
    ) -> Result<(), GetError> {
        let Answer { url, body, ranged, .. } = answer;
        if let Some(unclean) = body.unclean() {
            transfer.note(unclean.to_owned());
        }
        if let Some(coding) = body.decoded_from() {
            transfer.note(format!("decoded from {coding}"));
        }
        self.client.keep(&url, body);
        let carried = Carried { holds_to, brought, ranged };
        let mut ledger = transfer.ledger();
        transfer.download().on_end(&mut ledger, self.state.id, carried, &object::host_of(&url))
    }

    /// How much to ask of the socket at once.
    pub(super) fn piece(&self) -> usize {
        self.run.limiter.as_ref().map_or(BLOCK, |limiter| limiter.piece(BLOCK))
    }

    /// Counts `bytes`, and keeps those that came over the `wire` for them to `--limit-rate`.
    pub(super) fn received(&mut self, bytes: u64, wire: u64) {
        self.state.received.fetch_add(bytes, Relaxed);
        if let Some(limiter) = &self.run.limiter {
            limiter.hold(wire, |span| self.sleep(span, Stage::Limited));
        }
    }
}

/// Bytes came behind the `end` that the answer has. Where only the job's manifest knows that end, no other
/// answer has it either.
fn beyond(job: &Job, end: u64, host: String) -> GetError {
    match job.pinned.as_ref().and_then(|pinned| pinned.size) {
        Some(size) if size == end => {
            GetError::NotPinned { host, detail: format!("it has more than {end} bytes") }
        }
        _ => GetError::WrongPart { host, detail: "more bytes than announced".to_owned() },
    }
}

/// What to ask for to fetch a claim: its end is `u64::MAX` while the size is unknown.
pub(super) fn range_of(claim: &Range<u64>) -> (u64, Option<u64>) {
    (claim.start, Some(claim.end).filter(|end| *end != u64::MAX))
}

/// What each of `lanes` lanes receives before it writes: all their buffers together stay at a quarter of the
/// 64 MiB that a run may have. Lanes that came when there were few keep their larger ones, and connections
/// cost memory of their own.
fn block_of(lanes: u32) -> usize {
    let share = (16 << 20) / lanes.max(1) as usize;
    (1 << share.ilog2()).clamp(256 << 10, BLOCK)
}

/// Bytes from `at` to the next multiple of `block`, so that every further write begins at one.
fn to_boundary(at: u64, block: usize) -> usize {
    block - (at % block as u64) as usize
}
