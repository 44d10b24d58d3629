//! What a connection did in a short stretch of time: sums that can be added up to longer stretches.
//!
//! Times are microseconds and exact, since nothing happens between two packets: a share of time here stands
//! for a share of samples where a live watch reads sockets every 20 ms.

/// A stretch of one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slice {
    /// Its place: the time since the capture's start over the span of a slice.
    pub(crate) index: u32,
    /// How long of it the connection was there, microseconds.
    pub(crate) lived: u32,
    /// Of that, before the handshake was over.
    pub(crate) connecting: u32,
    /// The data of each end.
    pub(crate) halves: [Half; 2],
}

/// What the data of one end did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Half {
    /// Payload bytes seen, repetitions included.
    pub(crate) sent: u64,
    /// Payload bytes seen for the first time.
    pub(crate) fresh: u64,
    /// Payload bytes sent again.
    pub(crate) again: u64,
    /// Bytes acknowledged.
    pub(crate) acked: u64,
    /// Segments as they are on the wire, what offload joined counted by the largest segment.
    pub(crate) segments: u32,
    /// Of these, sent again.
    pub(crate) again_segments: u32,
    /// Retransmission timers that fired.
    pub(crate) timeouts: u32,
    /// Segments that came beyond a hole.
    pub(crate) disordered: u32,
    /// Holes that were filled too soon for a retransmission.
    pub(crate) reordered: u32,
    /// Segments that the receiver reported as not needed.
    pub(crate) duplicates: u32,
    /// Segments with a congestion mark.
    pub(crate) marked: u32,
    /// Times that this end began to speak after the other had spoken.
    pub(crate) turns: u32,
    /// Nothing in flight, and no closed window that keeps it so.
    pub(crate) resting: u32,
    /// Resting, with the last data from the other end.
    pub(crate) owing: u32,
    /// The other end spoke last, whatever is in flight: its request waits for an answer.
    pub(crate) asked: u32,
    /// Resting, with the last data from this end.
    pub(crate) awaiting: u32,
    /// Nothing waits to be sent, as far as the segments tell.
    pub(crate) starved: u32,
    /// In flight fills the peer's window.
    pub(crate) filled: u32,
    /// Between a retransmission and the acknowledgment of all that was out then.
    pub(crate) recovering: u32,
    /// Ended by a retransmission timeout.
    pub(crate) timeout: u32,
    /// The peer's window is known.
    pub(crate) windowed: u32,
    /// Bytes in flight, times microseconds.
    pub(crate) in_flight: f64,
    /// The most bytes in flight.
    pub(crate) in_flight_most: u32,
    /// The peer's window, times microseconds.
    pub(crate) window: f64,
    /// What unread bytes have taken of the peer's window, times microseconds.
    pub(crate) unread: f64,
    /// The peer's window: smallest, largest, and last.
    pub(crate) windows: Option<(u32, u32, u32)>,
    /// Samples of the round trip, their sum in microseconds and the smallest.
    pub(crate) rtt: Samples,
    /// The same from the capture to the sender and back.
    pub(crate) up: Samples,
}

/// Samples of a time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Samples {
    count: u32,
    sum: f32,
}

impl Samples {
    pub(crate) fn add(&mut self, micros: u64) {
        self.count = self.count.saturating_add(1);
        self.sum += micros as f32;
    }

    /// Their mean in microseconds.
    pub(crate) fn mean(&self) -> Option<u64> {
        (self.count > 0).then(|| (self.sum / self.count as f32) as u64)
    }

    fn join(&mut self, next: &Samples) {
        self.count = self.count.saturating_add(next.count);
        self.sum += next.sum;
    }
}

impl Slice {
    /// Whether there is nothing in it that an absence would not tell as well.
    pub(crate) fn is_empty(&self) -> bool {
        self.lived == 0 && self.halves.iter().all(|half| half.sent == 0 && half.acked == 0)
    }

    /// Takes the slice that follows into this one.
    pub(crate) fn join(&mut self, next: &Slice) {
        self.lived = self.lived.saturating_add(next.lived);
        self.connecting = self.connecting.saturating_add(next.connecting);
        for (half, next) in self.halves.iter_mut().zip(&next.halves) {
            half.join(next);
        }
    }
}

impl Half {
    fn join(&mut self, next: &Half) {
        let bytes = [
            (&mut self.sent, next.sent),
            (&mut self.fresh, next.fresh),
            (&mut self.again, next.again),
            (&mut self.acked, next.acked),
        ];
        for (sum, more) in bytes {
            *sum = sum.saturating_add(more);
        }
        let counts = [
            (&mut self.segments, next.segments),
            (&mut self.again_segments, next.again_segments),
            (&mut self.timeouts, next.timeouts),
            (&mut self.disordered, next.disordered),
            (&mut self.reordered, next.reordered),
            (&mut self.duplicates, next.duplicates),
            (&mut self.marked, next.marked),
            (&mut self.turns, next.turns),
            (&mut self.resting, next.resting),
            (&mut self.owing, next.owing),
            (&mut self.asked, next.asked),
            (&mut self.awaiting, next.awaiting),
            (&mut self.starved, next.starved),
            (&mut self.filled, next.filled),
            (&mut self.recovering, next.recovering),
            (&mut self.timeout, next.timeout),
            (&mut self.windowed, next.windowed),
        ];
        for (sum, more) in counts {
            *sum = sum.saturating_add(more);
        }
        self.in_flight += next.in_flight;
        self.in_flight_most = self.in_flight_most.max(next.in_flight_most);
        self.window += next.window;
        self.unread += next.unread;
        self.windows = match (self.windows, next.windows) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1), b.2)),
            (a, b) => b.or(a),
        };
        self.rtt.join(&next.rtt);
        self.up.join(&next.up);
    }

    pub(crate) fn see_window(&mut self, window: u32) {
        self.windows = Some(match self.windows {
            Some((least, most, _)) => (least.min(window), most.max(window), window),
            None => (window, window, window),
        });
    }
}
