//! Where a connection stood still, and what ended that.
//!
//! A stall is a gap between two packets of a connection of more than two smoothed round trips, or of a
//! retransmission timeout where that is less, as TAPO has it (Zhou et al., "Demystifying and mitigating TCP
//! stalls at the server side", CoNEXT 2015); of 10 ms at least, since below that it is scheduling.

/// Stalls that are kept of a connection, the longest ones; all count.
const KEPT: usize = 24;

/// What ended a stall, which says what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A retransmission, of a timeout or because of duplicate acknowledgments.
    Retransmission,
    /// The peer's window opened.
    Window,
    /// The answer to what the other end had sent.
    Answer,
    /// What the other end had to ask for, with all of the answer delivered.
    Request,
    /// New data of the end that had spoken last, with room to send: it had none, or its buffers had not.
    Sender,
    /// An acknowledgment of what was in flight.
    Acknowledgment,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 6] = [
        Cause::Retransmission,
        Cause::Window,
        Cause::Answer,
        Cause::Request,
        Cause::Sender,
        Cause::Acknowledgment,
    ];

    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Retransmission => "retransmission",
            Cause::Window => "window",
            Cause::Answer => "answer",
            Cause::Request => "request",
            Cause::Sender => "sender",
            Cause::Acknowledgment => "acknowledgment",
        }
    }
}

/// One stall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    /// Seconds from the capture's start.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// What ended it.
    pub cause: Cause,
    /// Which end of the connection sent what ended it, by [`crate::link::Key`].
    pub(crate) by: usize,
    /// A retransmission timer ended it.
    pub(crate) timer: bool,
}

/// The stalls of a connection.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// How many, and seconds of them, by [`Cause::ALL`].
    pub(crate) sums: [(u32, f64); 6],
    kept: Vec<Stall>,
}

impl Stalls {
    pub(crate) fn add(&mut self, stall: Stall) {
        let sum = &mut self.sums[stall.cause as usize];
        *sum = (sum.0.saturating_add(1), sum.1 + (stall.to - stall.from));
        if self.kept.len() < KEPT {
            return self.kept.push(stall);
        }
        let length = |stall: &Stall| stall.to - stall.from;
        let shortest = self.kept.iter_mut().min_by(|a, b| length(a).total_cmp(&length(b)));
        if let Some(shortest) = shortest.filter(|shortest| length(shortest) < length(&stall)) {
            *shortest = stall;
        }
    }

    /// The longest ones.
    pub(crate) fn kept(&self) -> &[Stall] {
        &self.kept
    }

    /// The longest ones in order of time.
    pub(crate) fn longest(&self) -> Vec<Stall> {
        let mut stalls = self.kept.clone();
        stalls.sort_by(|a, b| a.from.total_cmp(&b.from));
        stalls
    }
}
