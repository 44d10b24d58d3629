//! Where the connections' time went, beside what was counted: what the judge needs to know who held the
//! figure.

use std::io;
use std::time::Duration;

use weir_model::load::{Acks, Connects, PlaceTime};

/// For so long an acknowledgement that TCP delays may be on its way: TCP_DELACK_MIN, 40 ms less a clock tick
/// or two, to TCP_DELACK_MAX, 200 ms, and a wait for a processor (include/net/tcp.h).
const DELAYED: std::ops::Range<Duration> = Duration::from_millis(35)..Duration::from_millis(250);

/// Late answers that make it worth trying whether an acknowledgement at once hurries them.
const SUSPICION: u32 = 3;

/// Tries of a loop: enough for a mean, and too few to change the figure of a run of seconds.
const TRIES: u32 = 32;

/// Nothing for less than this is no standstill: servers collect garbage, and hosts lend processors ...
const STILL: u64 = 500_000_000;

/// ... nor is less than this many times what the median answer takes: a server that is slow each time does
/// not stand still.
const USUAL: u64 = 10;

/// What a loop's time and that of its connections was spent on.
#[derive(Debug, Clone, Default)]
pub struct Spent {
    /// The connections' time; over HTTP/2 that of the streams.
    pub time: PlaceTime,
    /// Time in the script's functions.
    pub script: Duration,
    /// Whether acknowledgements at once hurry answers.
    pub acks: Acks,
    /// Attempts to connect that failed, by the reasons that the judge knows.
    pub connects: Connects,
}

impl Spent {
    /// Adds what another loop spent.
    pub(crate) fn add(&mut self, other: &Spent) {
        self.time += other.time;
        self.script += other.script;
        self.acks += other.acks;
        self.connects += other.connects;
    }

    /// Counts an attempt to connect that failed.
    pub(crate) fn refused(&mut self, why: &io::Error) {
        match why.kind() {
            io::ErrorKind::AddrNotAvailable => self.connects.no_port += 1,
            io::ErrorKind::ConnectionRefused => self.connects.refused += 1,
            _ => {}
        }
    }

    /// Whether the pieces of the answer that begins now are to be acknowledged at once.
    pub(crate) fn hastens(&self) -> bool {
        let (plain, hastened) = (self.acks.plain.count, self.acks.hastened.count);
        plain >= SUSPICION && hastened < TRIES && hastened < plain
    }

    /// An answer that came in pieces took so long from its first to its last one.
    pub(crate) fn came_in_pieces(&mut self, inside: Duration, hastened: bool) {
        if hastened {
            self.acks.hastened.add(inside);
        } else if DELAYED.contains(&inside) {
            self.acks.plain.add(inside);
        }
    }
}

/// Finds standstills, by looks from time to time: pure. Times are nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    looked: u64,
    received: u64,
    /// For so long nothing has come although somebody waited.
    quiet: u64,
    waiting: u64,
}

impl Silence {
    /// By `now` so much had been received, and so many connections wait for more. Returns the connections'
    /// time of a standstill that ends with this; `usual` is the median answer's time, if there was one.
    pub(crate) fn look(
        &mut self,
        now: u64,
        received: u64,
        waiting: usize,
        longest: u64,
        usual: impl FnOnce() -> Option<u64>,
    ) -> Duration {
        // What a loop slept through itself, as on a machine that was stopped, is not the server's.
        let elapsed = now.saturating_sub(self.looked).min(longest);
        self.looked = now;
        if received != self.received || waiting == 0 {
            self.received = received;
            return self.end(usual);
        }
        self.quiet += elapsed;
        self.waiting = waiting as u64;
        Duration::ZERO
    }

    /// The time of the standstill that lasts until now.
    pub(crate) fn end(&mut self, usual: impl FnOnce() -> Option<u64>) -> Duration {
        let quiet = std::mem::take(&mut self.quiet);
        let still = quiet >= STILL && usual().is_some_and(|usual| quiet >= usual.saturating_mul(USUAL));
        Duration::from_nanos(if still { quiet.saturating_mul(self.waiting) } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const LATE: Duration = Duration::from_millis(43);

    #[test]
    fn only_late_pieces_are_a_reason_to_try_and_only_for_a_while() {
        let mut spent = Spent::default();
        (0..100).for_each(|_| spent.came_in_pieces(Duration::from_millis(2), false));
        (0..100).for_each(|_| spent.came_in_pieces(Duration::from_secs(1), false));
        assert!(!spent.hastens() && spent.acks == Acks::default());
        let mut hastened = 0;
        for _ in 0..1000 {
            let hastens = spent.hastens();
            hastened += u32::from(hastens);
            spent.came_in_pieces(if hastens { Duration::ZERO } else { LATE }, hastens);
        }
        assert_eq!((hastened, spent.acks.hastened.count), (TRIES, TRIES));
        assert_eq!(spent.acks.plain.count, 1000 - TRIES);
    }

    /// Looks each tenth of a second, at which so much had come in all; the standstill that they show, with
    /// ten that wait.
    fn still(usual: Option<u64>, received: &[u64]) -> Duration {
        let mut silence = Silence::default();
        let mut sum = Duration::ZERO;
        for (tick, received) in received.iter().enumerate() {
            sum += silence.look((tick as u64 + 1) * 100 * MS, *received, 10, 200 * MS, || usual);
        }
        sum + silence.end(|| usual)
    }

    #[test]
    fn a_standstill_is_long_beside_an_answer() {
        let stops = [1, 2, 3, 3, 3, 3, 3, 3, 3, 4, 5];
        assert_eq!(still(Some(MS), &stops), Duration::from_millis(6000));
        assert_eq!(still(Some(100 * MS), &stops), Duration::ZERO);
        assert_eq!(still(None, &stops), Duration::ZERO);
        // Until the end as well; a shorter one is none.
        assert_eq!(still(Some(MS), &stops[..9]), Duration::from_millis(6000));
        assert_eq!(still(Some(MS), &stops[..7]), Duration::ZERO);
    }

    #[test]
    fn what_the_loop_slept_through_is_not_the_servers() {
        let mut silence = Silence::default();
        silence.look(100 * MS, 1, 10, 200 * MS, || Some(MS));
        silence.look(5000 * MS, 1, 10, 200 * MS, || Some(MS));
        assert_eq!(silence.look(5100 * MS, 2, 10, 200 * MS, || Some(MS)), Duration::ZERO);
        // Nobody waits: nothing is missed.
        for tick in 51..90 {
            silence.look(tick * 100 * MS, 2, 0, 200 * MS, || Some(MS));
        }
        assert_eq!(silence.end(|| Some(MS)), Duration::ZERO);
    }
}
