//! What was counted: requests, bytes, errors, and latency in histograms of three digits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::reason::{Kind, Reason, Reasons};
use crate::spent::Spent;

/// The longest latency that a histogram tells from a longer one, nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds, exact to a thousandth.
pub fn histogram() -> Histogram<u64> {
    // Both bounds and the digits are legal by the crate's own rules (low >= 1, high >= 2 low, digits <= 5).
    Histogram::new_with_bounds(1, LONGEST, 3).unwrap_or_else(|_| unreachable!("legal bounds"))
}

/// Requests that did not come to an answer, by what failed, and answers that say no.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Errors {
    /// No connection, or no TLS session over it.
    pub connect: u64,
    /// The connection broke, ended or carried no HTTP before the answer was whole.
    pub read: u64,
    /// The request could not be written.
    pub write: u64,
    /// No whole answer in time.
    pub timeout: u64,
    /// Whole answers with a status of 400 or above.
    pub status: u64,
}

/// The most bytes that are kept of an answer that was no HTTP: a line of a terminal.
const STRANGE: usize = 60;

impl Errors {
    /// Requests without a whole answer, and what [`Tally::attempts`] counts.
    pub fn broken(&self) -> u64 {
        self.connect + self.read + self.write + self.timeout
    }

    fn add(&mut self, other: &Errors) {
        self.connect += other.connect;
        self.read += other.read;
        self.write += other.write;
        self.timeout += other.timeout;
        self.status += other.status;
    }
}

/// One request's times, as ab's `-g` lists them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    /// When its connection was asked for, or the request begun on a kept one; since the run's start.
    pub start: Duration,
    /// Until the connection stood; zero on a kept one.
    pub connect: Duration,
    /// From the request written to the first byte of the answer.
    pub wait: Duration,
    /// From `start` to the end of the answer.
    pub total: Duration,
}

/// When what happened to a request, in nanoseconds since the run's start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// When it should have been sent.
    pub(crate) planned: u64,
    /// When it was.
    pub(crate) begun: u64,
    /// When it was written whole; only needed where rows are kept.
    pub(crate) written: u64,
    /// When the answer's first bytes came, if they were not its last ones too.
    pub(crate) first_byte: Option<u64>,
    /// When the answer was whole.
    pub(crate) ended: u64,
    /// When its connection was asked for, and when it stood, where it is the first request over it.
    pub(crate) connect: Option<(u64, u64)>,
}

/// What the answers looked like, as ab tells it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Bytes of the first answer's body.
    pub first: Option<u64>,
    /// Answers whose body had another length.
    pub other: u64,
    /// Answers with a status outside 200 to 299.
    pub not_2xx: u64,
    /// Answers that left the connection open.
    pub kept: u64,
    /// Bytes of all bodies.
    pub bodies: u64,
}

/// What one loop counted; several add up.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Whole answers.
    pub requests: u64,
    /// Bytes read from sockets, TLS's own not among them.
    pub received: u64,
    /// Bytes of requests written.
    pub sent: u64,
    /// What failed.
    pub errors: Errors,
    /// The same, but for statuses, by reason.
    pub reasons: Reasons,
    /// How many whole answers had each status: the index is the status.
    pub statuses: Vec<u64>,
    /// The first bytes of the first answer that was no HTTP.
    pub strange: Option<Vec<u8>>,
    /// Why the first connection, or the first TLS session, that did not come about or broke did so.
    pub refusal: Option<Arc<io::Error>>,
    /// What the answers looked like.
    pub lengths: Lengths,
    /// Nanoseconds from the request's begin, or with `--rate` from the time it was planned for, to the whole
    /// answer, or of those without one to the end of the run. One value for a pipelined batch.
    pub latency: Histogram<u64>,
    /// How many of `latency` had no answer at the end of the run: it took them so long or longer (`--rate`).
    pub unanswered: u64,
    /// The same from the request's begin; only where that differs (`--rate`).
    pub service: Option<Histogram<u64>>,
    /// Nanoseconds to make a connection, TLS included.
    pub connect: Histogram<u64>,
    /// Time between the request's begin and the answer's first bytes, all requests together.
    pub first_byte: Duration,
    /// Time inside answers that came in several pieces.
    pub inside: Duration,
    /// Whole answers per second, of each loop in each tenth of a second.
    pub rates: Vec<u64>,
    /// Bytes received in each tenth of a second.
    pub byte_samples: Vec<u64>,
    /// Planned requests whose time had come but that no connection was free for, at the end (`--rate`).
    pub unsent: u64,
    /// Errors of connections that had no request yet: the request is still to be sent, or `unsent` (`--rate`
    /// without `-n`).
    pub attempts: u64,
    /// Requests that were under way at the end.
    pub under_way: u64,
    /// Each request's times, where asked for.
    pub rows: Vec<Row>,
    /// The first answer's head.
    pub first_head: Vec<u8>,
    /// Where the time went.
    pub spent: Spent,
}

impl Tally {
    /// Becomes a copy of `other`, whose rows only grow, unless it began anew: of them those are copied that
    /// are new.
    pub(crate) fn follow(&mut self, other: &mut Tally) {
        let rows = std::mem::take(&mut other.rows);
        let mut mine = std::mem::take(&mut self.rows);
        if mine.first() != rows.first() {
            mine.clear();
        }
        mine.extend_from_slice(rows.get(mine.len()..).unwrap_or_default());
        *self = Tally { rows: mine, ..other.clone() };
        other.rows = rows;
    }

    /// Nothing yet. `planned`: requests have a time they are planned for.
    pub fn new(planned: bool) -> Tally {
        Tally {
            requests: 0,
            received: 0,
            sent: 0,
            errors: Errors::default(),
            reasons: Reasons::default(),
            statuses: Vec::new(),
            strange: None,
            refusal: None,
            lengths: Lengths::default(),
            latency: histogram(),
            unanswered: 0,
            service: planned.then(histogram),
            connect: histogram(),
            first_byte: Duration::ZERO,
            inside: Duration::ZERO,
            rates: Vec::new(),
            byte_samples: Vec::new(),
            unsent: 0,
            attempts: 0,
            under_way: 0,
            rows: Vec::new(),
            first_head: Vec::new(),
            spent: Spent::default(),
        }
    }

    /// What the median answer took from its request's begin, nanoseconds; `None` before the first.
    pub(crate) fn usual(&self) -> Option<u64> {
        let times = self.service.as_ref().unwrap_or(&self.latency);
        (!times.is_empty()).then(|| times.value_at_quantile(0.5))
    }

    /// How many requests, or batches of them, `latency` has the answered times of.
    pub fn timed_answers(&self) -> u64 {
        self.latency.len().saturating_sub(self.unanswered)
    }

    /// Counts a connection that did not come about, which so many requests were for.
    pub(crate) fn refused(&mut self, why: io::Error, requests: u64) {
        self.spent.refused(&why);
        self.failed(Reason::of_connect(&why), requests);
        self.refusal.get_or_insert_with(|| Arc::new(why));
    }

    /// Counts requests that came to no whole answer.
    pub(crate) fn failed(&mut self, reason: Reason, times: u64) {
        self.reasons.count(reason, times);
        let errors = &mut self.errors;
        *match reason.row().kind {
            Kind::Connect => &mut errors.connect,
            Kind::Read => &mut errors.read,
            Kind::Write => &mut errors.write,
            Kind::Timeout => &mut errors.timeout,
        } += times;
    }

    /// Counts so many requests whose answers' reading failed; `begun`: a byte of the first had come.
    pub(crate) fn broke(&mut self, why: io::Error, begun: bool, requests: u64) {
        let reason = Reason::of_read(&why, begun);
        self.failed(reason, requests);
        // A server that wants a certificate says so within its answer's session (RFC 8446 section 4.4.2.4).
        if reason == Reason::TlsBroken {
            self.refusal.get_or_insert_with(|| Arc::new(why));
        }
    }

    /// Keeps the beginning of an answer that was no HTTP, if it is the first.
    pub(crate) fn found_strange(&mut self, bytes: &[u8]) {
        self.strange.get_or_insert_with(|| bytes[..bytes.len().min(STRANGE)].to_vec());
    }

    /// The statuses that came, with how often each did.
    pub fn by_status(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.statuses.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// The share of the requests that came to no whole answer, or to one with a status of 400 or above; 0 of
    /// none.
    pub fn error_share(&self) -> f64 {
        share(self.failed_of_asked())
    }

    /// As [`Tally::error_share`], with the planned requests that were never sent among those that failed.
    pub fn error_share_of_plan(&self) -> f64 {
        share(self.failed_with(self.unsent))
    }

    /// The two numbers of [`Tally::error_share`]. However often connections failed, no more requests have
    /// than were planned.
    pub fn failed_of_asked(&self) -> (u64, u64) {
        self.failed_with(self.attempts.min(self.unsent))
    }

    /// Requests without a whole answer.
    pub(crate) fn broken(&self) -> u64 {
        self.errors.broken().saturating_sub(self.attempts)
    }

    fn failed_with(&self, unsent: u64) -> (u64, u64) {
        let broken = self.broken() + unsent;
        (broken + self.errors.status, broken + self.requests)
    }

    /// Counts a whole answer; true of the first one.
    pub(crate) fn answered(&mut self, status: u16, body: u64, kept: bool) -> bool {
        self.requests += 1;
        self.errors.status += u64::from(status > 399);
        let place = usize::from(status);
        if self.statuses.len() <= place {
            self.statuses.resize(place + 1, 0);
        }
        self.statuses[place] += 1;
        let lengths = &mut self.lengths;
        lengths.bodies += body;
        lengths.kept += u64::from(kept);
        lengths.not_2xx += u64::from(!(200..300).contains(&status));
        match lengths.first {
            None => lengths.first = Some(body),
            Some(first) => {
                lengths.other += u64::from(first != body);
                return false;
            }
        }
        true
    }

    /// Counts the times of a request, or of a batch of them; keeps at most `rows` one by one.
    pub(crate) fn timed(&mut self, times: &Times, rows: usize) {
        let until = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
        self.latency.saturating_record(times.ended.saturating_sub(times.planned));
        if let Some(service) = &mut self.service {
            service.saturating_record(times.ended.saturating_sub(times.begun));
        }
        let first = times.first_byte.unwrap_or(times.ended);
        self.first_byte += until(times.begun, first);
        self.inside += until(first, times.ended);
        if self.rows.len() < rows {
            // A kept connection has no connect time; a new one counts from where it was asked for.
            let start = times.connect.map_or(times.begun, |(begun, _)| begun);
            self.rows.push(Row {
                start: Duration::from_nanos(start),
                connect: times.connect.map_or(Duration::ZERO, |(begun, connected)| until(begun, connected)),
                wait: until(times.written, first),
                total: until(start, times.ended),
            });
        }
    }

    /// Counts planned requests that had waited so long, nanoseconds, when the run ended without their answer.
    pub(crate) fn waited(&mut self, waited: u64, requests: u64) {
        self.latency.saturating_record_n(waited, requests);
        self.unanswered += requests;
    }

    /// Adds what another loop counted over the same time.
    pub fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.received += other.received;
        self.sent += other.sent;
        self.errors.add(&other.errors);
        self.reasons.add(&other.reasons);
        if self.statuses.len() < other.statuses.len() {
            self.statuses.resize(other.statuses.len(), 0);
        }
        self.statuses.iter_mut().zip(&other.statuses).for_each(|(own, other)| *own += other);
        self.strange = self.strange.take().or_else(|| other.strange.clone());
        self.refusal = self.refusal.take().or_else(|| other.refusal.clone());
        self.lengths.first = self.lengths.first.or(other.lengths.first);
        self.lengths.other += other.lengths.other;
        self.lengths.not_2xx += other.lengths.not_2xx;
        self.lengths.kept += other.lengths.kept;
        self.lengths.bodies += other.lengths.bodies;
        // Histograms of equal bounds always add.
        let _ = self.latency.add(&other.latency);
        if let (Some(own), Some(other)) = (&mut self.service, &other.service) {
            let _ = own.add(other);
        }
        let _ = self.connect.add(&other.connect);
        self.first_byte += other.first_byte;
        self.inside += other.inside;
        self.rates.extend_from_slice(&other.rates);
        for (index, bytes) in other.byte_samples.iter().enumerate() {
            match self.byte_samples.get_mut(index) {
                Some(sum) => *sum += bytes,
                None => self.byte_samples.push(*bytes),
            }
        }
        self.unanswered += other.unanswered;
        self.unsent += other.unsent;
        self.attempts += other.attempts;
        self.under_way += other.under_way;
        self.spent.add(&other.spent);
        self.rows.extend_from_slice(&other.rows);
        if self.first_head.is_empty() {
            self.first_head.clone_from(&other.first_head);
        }
    }
}

fn share((failed, asked): (u64, u64)) -> f64 {
    if asked == 0 { 0.0 } else { failed as f64 / asked as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up() {
        let mut one = Tally::new(true);
        let mut other = Tally::new(true);
        for tally in [&mut one, &mut other] {
            tally.requests = 2;
            tally.failed(Reason::Slow, 1);
            tally.answered(503, 7, true);
            tally.latency.saturating_record(5_000);
            tally.byte_samples = vec![3];
        }
        // A time-out and an answer of 503, of four.
        assert!((other.error_share() - 0.5).abs() < 1e-9);
        other.answered(404, 7, true);
        other.latency.saturating_record(u64::MAX);
        other.byte_samples.push(4);
        one.add(&other);
        assert_eq!((one.requests, one.errors.broken(), one.latency.len()), (7, 2, 3));
        assert_eq!(
            one.reasons.counted().map(|(row, count)| (row.name, count)).collect::<Vec<_>>(),
            [("slow-answer", 2)]
        );
        assert_eq!(one.by_status().collect::<Vec<_>>(), [(404, 1), (503, 2)]);
        assert_eq!(one.byte_samples, [6, 4]);
        assert_eq!(one.lengths.first, Some(7));
    }
}
