//! Which limit may each side name, once it is known what really limited?
//!
//! The truth is what the facts of the run show (see `fact`), not what was set up: a policer that BBR fills is
//! a full link. A side that cannot see the cause must say `sender-or-path`; naming it all the same (by
//! inference) is right too.

use std::fmt;

use weir_model::limit::Limit;
use weir_model::path::INITIAL_WINDOW;

use crate::cell::Cell;
use crate::traffic::SLICE;
use crate::{fetch, plan};

/// What really limited a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Truth {
    /// The link carried what it can.
    FullLink,
    /// Loss kept the congestion window below what the link can carry.
    LossBound,
    /// Loss cost a part of a link that was nearly full: either name is right.
    LossAndLink,
    /// The send buffer.
    SendBuffer,
    /// The receive buffer.
    ReceiveWindow,
    /// The receiving application slept.
    SleepingReader,
    /// The receiving application was held by its disk.
    DiskReader,
    /// The same, and loss kept the congestion window small for a part of the time: either name is right.
    DiskReaderAndLoss,
    /// The sending application produced slowly.
    SlowApplication,
    /// The server thought before each answer.
    SlowAnswer,
    /// Round trips between small requests.
    RoundTrips,
    /// Turns of request and answer: the pipe is empty in between.
    Turns,
    /// Turns that leave a link idle for a small part of the time: either name is right.
    TurnsAndLink,
    /// The receiving thread's core.
    ReceiverCore,
    /// The sending thread's core.
    SenderCore,
    /// The server's rate for each connection.
    ConnectionCap,
}

/// Whose evidence is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Side {
    /// The sending socket and thread.
    Sender,
    /// The receiving socket and thread.
    Receiver,
    /// Both of them.
    Both,
    /// `weir get` as the receiver, with its own clocks.
    Get,
}

impl Side {
    pub(crate) const ALL: [Side; 4] = [Side::Sender, Side::Receiver, Side::Both, Side::Get];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Side::Sender => "sender",
            Side::Receiver => "receiver",
            Side::Both => "both",
            Side::Get => "weir get",
        }
    }
}

/// What a side may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expectation {
    /// The names of what limited, as this side knows it.
    pub(crate) right: &'static [Limit],
    /// The side cannot be sure, so that `sender-or-path` is the right answer as well.
    pub(crate) may_abstain: bool,
}

/// What `side` may say of `truth` in this cell.
pub(crate) fn expected_in(cell: Cell, truth: Truth, side: Side) -> Expectation {
    let expectation = expected(truth, side);
    Expectation {
        may_abstain: expectation.may_abstain || cannot_know(cell, truth, side).is_some(),
        ..expectation
    }
}

/// Why a side that knows this truth elsewhere cannot know it in this cell.
pub(crate) fn cannot_know(cell: Cell, truth: Truth, side: Side) -> Option<&'static str> {
    match (truth, side) {
        (Truth::ConnectionCap, Side::Get) => {
            let in_flight = fetch::cap(cell) * cell.rate().0 * cell.rtt().as_secs_f64();
            (in_flight >= INITIAL_WINDOW as f64).then_some(
                "a capped connection has more in flight than the ten segments with which every sender starts: a small send buffer of the server looks the same from here",
            )
        }
        (Truth::SleepingReader, Side::Sender) => {
            let read = plan::BIND * cell.rate().0 * SLICE.as_secs_f64();
            (read >= FIRST_WINDOW && cell.rtt() < SLICE).then_some(
                "each read takes all that the first window lets come, so that every acknowledgement offers the whole window again: to the sender a fixed window that fills a queue",
            )
        }
        _ => None,
    }
}

/// The window that a receiver offers at first: of Linux's 128 KiB of receive buffer (`tcp_rmem`) what is
/// meant for payload.
const FIRST_WINDOW: f64 = 65_535.0;

/// What `side` may say of `truth`, whatever the cell.
pub(crate) fn expected(truth: Truth, side: Side) -> Expectation {
    use Limit::{
        Application, CpuCore, DirtyThrottle, Disk, Latency, PathBandwidth, PathLoss, RateLimit, Reader,
        ReceiveWindow, RequestResponse, SendBuffer,
    };
    let sure = |right| Expectation { right, may_abstain: false };
    let unsure = |right| Expectation { right, may_abstain: true };
    // Of the path and of the far end a receiver sees only what arrives.
    let receives = matches!(side, Side::Receiver | Side::Get);
    let path = |right| if receives { unsure(right) } else { sure(right) };
    match truth {
        Truth::FullLink => path(&[PathBandwidth]),
        Truth::LossBound => path(&[PathLoss]),
        Truth::LossAndLink => path(&[PathLoss, PathBandwidth]),
        Truth::SendBuffer => path(&[SendBuffer]),
        Truth::ReceiveWindow => sure(&[ReceiveWindow]),
        Truth::SleepingReader => sure(&[Reader]),
        Truth::DiskReader => match side {
            // The sender sees a reader that does not read; why is the reader's to know.
            Side::Sender => sure(&[Reader]),
            Side::Receiver | Side::Both => sure(&[DirtyThrottle, Disk, Reader]),
            Side::Get => sure(&[DirtyThrottle, Disk]),
        },
        Truth::DiskReaderAndLoss => match side {
            Side::Sender => sure(&[Reader, PathLoss]),
            Side::Receiver | Side::Both | Side::Get => sure(&[DirtyThrottle, Disk, Reader, PathLoss]),
        },
        Truth::SlowApplication => match side {
            Side::Sender | Side::Both => sure(&[Application]),
            // A server that sends slowly by its own rate limit is both.
            Side::Receiver | Side::Get => unsure(&[Application, RateLimit]),
        },
        Truth::SlowAnswer => match side {
            Side::Sender | Side::Both | Side::Get => sure(&[Application]),
            Side::Receiver => unsure(&[Application]),
        },
        Truth::RoundTrips => match side {
            Side::Sender | Side::Both | Side::Get => sure(&[Latency, RequestResponse]),
            Side::Receiver => unsure(&[Latency, RequestResponse]),
        },
        Truth::Turns => path(&[RequestResponse, Latency]),
        Truth::TurnsAndLink => path(&[RequestResponse, Latency, PathBandwidth]),
        Truth::ReceiverCore => match side {
            Side::Sender => sure(&[Reader]),
            Side::Receiver | Side::Both | Side::Get => sure(&[CpuCore]),
        },
        Truth::SenderCore => match side {
            Side::Sender | Side::Both => sure(&[CpuCore]),
            Side::Receiver | Side::Get => unsure(&[Application]),
        },
        Truth::ConnectionCap => match side {
            // To the socket a server that paces its writes is an application with nothing to send.
            Side::Sender | Side::Both => sure(&[RateLimit, Application]),
            Side::Receiver => unsure(&[RateLimit, Application]),
            Side::Get => sure(&[RateLimit]),
        },
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Truth::FullLink => "full link",
            Truth::LossBound => "loss",
            Truth::LossAndLink => "loss and link",
            Truth::SendBuffer => "send buffer",
            Truth::ReceiveWindow => "receive buffer",
            Truth::SleepingReader => "sleeping reader",
            Truth::DiskReader => "reader on a slow disk",
            Truth::DiskReaderAndLoss => "slow disk and loss",
            Truth::SlowApplication => "slow application",
            Truth::SlowAnswer => "slow first byte",
            Truth::RoundTrips => "small requests",
            Truth::Turns => "large answers",
            Truth::TurnsAndLink => "large answers and link",
            Truth::ReceiverCore => "receiver's core",
            Truth::SenderCore => "sender's core",
            Truth::ConnectionCap => "connection cap",
        })
    }
}

impl Truth {
    pub(crate) const ALL: [Truth; 16] = [
        Truth::FullLink,
        Truth::LossBound,
        Truth::LossAndLink,
        Truth::SendBuffer,
        Truth::ReceiveWindow,
        Truth::SleepingReader,
        Truth::DiskReader,
        Truth::DiskReaderAndLoss,
        Truth::SlowApplication,
        Truth::SlowAnswer,
        Truth::RoundTrips,
        Truth::Turns,
        Truth::TurnsAndLink,
        Truth::ReceiverCore,
        Truth::SenderCore,
        Truth::ConnectionCap,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_always_has_a_name_for_it() {
        for truth in Truth::ALL {
            let expectation = expected(truth, Side::Sender);
            assert!(!expectation.right.is_empty() && !expectation.may_abstain, "{truth}");
        }
    }

    #[test]
    fn what_a_side_cannot_know_in_a_cell_it_knows_in_most() {
        let cells = |truth, side| {
            let known = |cell: &Cell| cannot_know(*cell, truth, side).is_none();
            let (known, not): (Vec<Cell>, Vec<Cell>) = Cell::all().into_iter().partition(known);
            assert!(not.iter().all(|cell| cell.mbit == 400), "{not:?}");
            known.len() as f64 / (known.len() + not.len()) as f64
        };
        // Of the nine paths one each.
        assert!((cells(Truth::ConnectionCap, Side::Get) - 8.0 / 9.0).abs() < 1e-9);
        assert!((cells(Truth::SleepingReader, Side::Sender) - 8.0 / 9.0).abs() < 1e-9);
        assert!((cells(Truth::SleepingReader, Side::Get) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn abstaining_is_never_among_the_names() {
        for truth in Truth::ALL {
            for side in Side::ALL {
                assert!(!expected(truth, side).right.contains(&Limit::SenderOrPath), "{truth} {side:?}");
            }
        }
    }
}
