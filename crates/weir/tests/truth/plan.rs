//! How is a cause made to bind in its cell: the path, the buffers, and how both applications behave?
//!
//! All causes that are not the path's hold the transfer at about [`BIND`] of the link, so that the link is
//! innocent beyond doubt and the rate is still one of its order. Where a cause cannot bind, the cell is
//! skipped with its reason.

use std::time::Duration;

use weir_lab::path::{Direction, GilbertElliott, Loss, Path, Policer, Queue, QueueLimit, Share};
use weir_model::path::{INITIAL_WINDOW, loss_bound};
use weir_units::{Bytes, Rate};

use crate::cell::{Cause, Cell, Congestion, SEGMENT};

/// The part of the link at which a cause other than the path holds a transfer.
pub(crate) const BIND: f64 = 0.4;

/// A server's cap holds each of this many connections...
pub(crate) const CAPPED: usize = 3;

/// ...to this part of the link: together a bit more than half.
pub(crate) const CAP: f64 = 0.18;

/// Everything that a run of a cell needs.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) cell: Cell,
    pub(crate) path: Path,
    pub(crate) writer: Writer,
    pub(crate) reader: Reader,
    /// SO_SNDBUF as asked for; the kernel doubles it.
    pub(crate) send_buffer: Option<Bytes>,
    /// SO_RCVBUF as asked for; the kernel doubles it.
    pub(crate) receive_buffer: Option<Bytes>,
    /// Where autotuning of the receive buffer ends (`tcp_rmem`), if earlier than on this machine.
    pub(crate) autotuning: Option<Bytes>,
    pub(crate) connections: usize,
    /// From the first connection to the last byte that counts.
    pub(crate) span: Duration,
}

/// What the sending application does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Writer {
    /// Writes pieces of this size as fast as the socket takes them.
    Bulk { piece: usize },
    /// Sleeps between writes so that it sends this much.
    Paced { rate: Rate },
    /// Computes each piece on its core, and does not get beyond this rate.
    Computes { rate: Rate },
    /// Answers each request after a pause with this many bytes.
    Answers { pause: Duration, size: usize },
}

/// What the receiving application does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reader {
    /// Reads at once.
    Eager,
    /// Sleeps between reads so that it takes this much.
    Sleeps { rate: Rate },
    /// Writes to a disk of this rate.
    Stores { rate: Rate },
    /// Computes on its core over what it read, and does not get beyond this rate.
    Computes { rate: Rate },
    /// Asks for an answer of this size, reads it, asks again.
    Asks { size: usize },
}

impl Plan {
    /// The plan, or why the cause cannot bind in this cell.
    pub(crate) fn of(cell: Cell) -> Result<Plan, String> {
        let part = Rate(cell.rate().0 * BIND);
        let mut plan = Plan {
            cell,
            path: path(cell),
            writer: Writer::Bulk { piece: 64 << 10 },
            reader: Reader::Eager,
            send_buffer: None,
            receive_buffer: None,
            autotuning: None,
            connections: 1,
            span: span(cell),
        };
        match cell.cause {
            Cause::HealthyLink | Cause::ShallowQueue => {}
            Cause::Policer if cell.segments() < 1.0 && cell.congestion == Congestion::Bbr => {
                return Err(
                    "bbr finds no rate behind a policer on a path of less than a segment: it uses 10 %"
                        .into(),
                );
            }
            Cause::Policer => {}
            Cause::RandomLoss | Cause::BurstLoss => can_lose(cell)?,
            Cause::SendBuffer => {
                holds_segments(cell, 4.0)?;
                // Twice this is what the kernel counts, overhead included: of 4 KiB pieces about 1.3 times
                // their payload.
                plan.send_buffer = Some(part_of_bdp(cell, 0.65 * BIND));
                // In small pieces, since the kernel takes a whole piece of up to 64 KiB as soon as there is
                // any room.
                plan.writer = Writer::Bulk { piece: 4096.min(plan.span_of_buffer()) };
            }
            Cause::ReceiveBuffer => {
                holds_segments(cell, 2.0)?;
                // Twice this is what the kernel counts; it advertises about half of it.
                plan.receive_buffer = Some(part_of_bdp(cell, BIND));
            }
            Cause::SleepingReader => plan.reader = Reader::Sleeps { rate: part },
            Cause::DiskReader => {
                if cell.mbit < 40 {
                    return Err(
                        "no disk is as slow as 250 KB/s: one piece of writeback (4 MiB) would take 16 s"
                            .into(),
                    );
                }
                plan.reader = Reader::Stores { rate: part };
            }
            Cause::ApplicationLimited => plan.writer = Writer::Paced { rate: part },
            Cause::SlowFirstByte => {
                // Well above what a judge may take for the path's: three round trips and 5 ms.
                let pause = 5 * cell.rtt() + Duration::from_millis(40);
                // Two flights of a sender whose window begins anew after the pause: 10 segments, then 20.
                let most = 3.0 * INITIAL_WINDOW as f64;
                let size = (0.1 * pause.as_secs_f64() * cell.rate().0).min(most) as usize;
                plan.writer = Writer::Answers { pause, size };
                plan.reader = Reader::Asks { size };
            }
            Cause::SmallRequests => {
                let size = (0.15 * cell.bdp().0 as f64).clamp(100.0, 8000.0) as usize;
                plan.writer = Writer::Answers { pause: Duration::ZERO, size };
                plan.reader = Reader::Asks { size };
            }
            Cause::LargeAnswers => {
                let size = large_answer(cell)?;
                plan.writer = Writer::Answers { pause: Duration::ZERO, size };
                plan.reader = Reader::Asks { size };
            }
            Cause::FullCoreReceiver => plan.reader = Reader::Computes { rate: part },
            Cause::FullCoreSender => plan.writer = Writer::Computes { rate: part },
            Cause::ConnectionCap => {
                plan.writer = Writer::Paced { rate: Rate(cell.rate().0 * CAP) };
                plan.connections = CAPPED;
            }
        }
        if matches!(plan.reader, Reader::Sleeps { .. } | Reader::Stores { .. } | Reader::Computes { .. }) {
            plan.autotuning = Some(soon_full(cell));
        }
        Ok(plan)
    }

    fn span_of_buffer(&self) -> usize {
        self.send_buffer.map_or(usize::MAX, |buffer| (buffer.0 as usize / 2).max(1024))
    }

    /// Whether it would disturb others that run at the same time, or be disturbed by them.
    pub(crate) fn alone(&self) -> bool {
        let core = matches!(self.cell.cause, Cause::FullCoreReceiver | Cause::FullCoreSender);
        core || self.cell.mbit > 100
    }
}

/// Long enough for some twenty round trips after slow start, and for a few dozen windows.
fn span(cell: Cell) -> Duration {
    let seconds = match (cell.cause, cell.round_trip, cell.mbit) {
        // Slow start and what it lost take two to three seconds, which must stay the smaller part; where loss
        // ends it early it takes one and a half.
        (Cause::HealthyLink | Cause::ShallowQueue | Cause::Policer, 100.., 400..) => 12.0,
        (Cause::RandomLoss | Cause::BurstLoss, 100.., 400..) => 8.0,
        (Cause::DiskReader, ..) => 6.0,
        (_, 100.., _) => 5.0,
        _ => 3.5,
    };
    Duration::from_secs_f64(seconds)
}

fn path(cell: Cell) -> Path {
    let one_way = cell.rtt() / 2;
    let mut down = Direction { rate: Some(cell.rate()), delay: one_way, ..Direction::default() };
    match cell.cause {
        Cause::RandomLoss => down.loss = Loss::Random(Share(loss(cell))),
        Cause::BurstLoss => down.loss = Loss::Burst(GilbertElliott::bursts(Share(loss(cell)), 3.0)),
        Cause::Policer => {
            down.rate = Some(Rate(4.0 * cell.rate().0));
            // 6 ms of the rate, as a policer of 40 Mbit/s with 30 KB has, six packets at least.
            let burst = Bytes(((0.006 * cell.rate().0) as u64).max(9000));
            down.policer = Some(Policer { rate: cell.rate(), burst });
        }
        Cause::ShallowQueue => {
            let bytes = (0.05 * cell.bdp().0 as f64).max(4.0 * 1500.0) as u64;
            down.queue = Queue { limit: QueueLimit::Bytes(Bytes(bytes)), ..Queue::default() };
        }
        // Room for a whole answer and its headers, twice: a sender that grows between answers loses none of
        // it.
        Cause::LargeAnswers => {
            if let Ok(size) = large_answer(cell) {
                let bytes = (2 * size as u64).max(cell.bdp().0).max(64 << 10);
                down.queue = Queue { limit: QueueLimit::Bytes(Bytes(bytes)), ..Queue::default() };
            }
        }
        _ => {}
    }
    // The way back has no rate: acknowledgements are never what limits here.
    let up = Direction { delay: one_way, ..Direction::default() };
    // One seed a cell, so that a wrong verdict can be seen again.
    let seed = u64::from(cell.congestion as u8) * 1000 + cell.round_trip + cell.mbit * 7;
    Path { up, down, seed, ..Path::default() }
}

/// A receive buffer that a slow reader soon lets fill: this machine's 32 MB would take in all that a slow
/// link brings in seconds, and the sender would not be held at all. The window, half of it, is still two
/// bandwidth-delay products.
fn soon_full(cell: Cell) -> Bytes {
    Bytes((4.0 * cell.bdp().0 as f64).clamp(256e3, 32e6) as u64)
}

/// The share of packets lost that holds a loss-driven sender at [`BIND`] of the link, but so much at least
/// that several losses fall into a run (Reno's rate at loss p is 1.22/(RTT sqrt p) segments a second, so p x
/// rate x 4 s >= 10 needs sqrt p >= 2.05 RTT), and 5 % at most: beyond, it is timeouts and no longer a
/// window.
pub(crate) fn loss(cell: Cell) -> f64 {
    let target = BIND * cell.rate().0;
    let (mut low, mut high) = (1e-7_f64, 0.05_f64);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        let bound = loss_bound(SEGMENT, cell.rtt(), middle).map_or(f64::INFINITY, |rate| rate.0);
        if bound > target { low = middle } else { high = middle }
    }
    let several = (2.05 * cell.rtt().as_secs_f64()).powi(2);
    high.max(several).clamp(1e-4, 0.05)
}

fn can_lose(cell: Cell) -> Result<(), String> {
    if cell.segments() >= 8.0 {
        return Ok(());
    }
    Err(format!("the path holds {:.1} segments: no congestion window is smaller", cell.segments()))
}

/// The largest answer of the matrix.
const LARGEST: f64 = 20e6;

/// In bandwidth-delay products: the link is idle for more than half of a turn, for nearly half, and for a
/// fifth at least. Of a sender that grows until it loses, all of an answer fits into the path and its queue.
/// More than a first flight, so that the window matters too.
fn large_answer(cell: Cell) -> Result<usize, String> {
    let products = match cell.congestion {
        Congestion::Cubic => 0.8,
        Congestion::Reno => 1.2,
        Congestion::Bbr => 4.0,
    };
    let size = (products * cell.bdp().0 as f64).min(LARGEST);
    if size < 2.0 * INITIAL_WINDOW as f64 {
        return Err(format!("an answer of {} is a first flight", Bytes(size as u64)));
    }
    Ok(size as usize)
}

/// A buffer below so many segments is held by the kernel's rounding rather than by its size.
fn holds_segments(cell: Cell, least: f64) -> Result<(), String> {
    if BIND * cell.segments() >= least {
        return Ok(());
    }
    Err(format!(
        "the path holds {:.1} segments: a buffer that binds would hold fewer than {least}",
        cell.segments()
    ))
}

fn part_of_bdp(cell: Cell, part: f64) -> Bytes {
    Bytes((part * cell.bdp().0 as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::ROUND_TRIPS;

    fn plans() -> Vec<Plan> {
        Cell::all().into_iter().filter_map(|cell| Plan::of(cell).ok()).collect()
    }

    #[test]
    fn most_of_the_matrix_can_be_made() {
        assert!(plans().len() >= 350, "{}", plans().len());
        for cause in Cause::ALL {
            for congestion in Congestion::ALL {
                let some = |plan: &&Plan| plan.cell.cause == cause && plan.cell.congestion == congestion;
                assert!(plans().iter().filter(some).count() >= 6, "{cause:?} {congestion:?}");
            }
        }
    }

    #[test]
    fn every_path_is_possible() {
        for plan in plans() {
            plan.path.check().unwrap_or_else(|err| panic!("{}: {err}", plan.cell));
        }
    }

    #[test]
    fn loss_binds_below_the_link() {
        for round_trip in ROUND_TRIPS {
            let cell = Cell { cause: Cause::RandomLoss, congestion: Congestion::Reno, round_trip, mbit: 400 };
            let bound = loss_bound(SEGMENT, cell.rtt(), loss(cell)).unwrap();
            assert!(bound.0 <= 1.01 * BIND * cell.rate().0, "{cell}: {bound}");
        }
    }

    #[test]
    fn a_cell_that_cannot_bind_says_why() {
        let cell = Cell { cause: Cause::SendBuffer, congestion: Congestion::Bbr, round_trip: 1, mbit: 5 };
        assert!(Plan::of(cell).unwrap_err().contains("0.4 segments"));
    }
}
