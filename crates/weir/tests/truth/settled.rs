//! The facts of a run once it has settled: raw readings of both ends and of the link, of which the judge sees
//! nothing; and of the link over the whole run, since that is what is judged.

use std::time::{Duration, Instant};

use weir_lab::bed::{Bed, Counters};
use weir_observe::sock_diag::TcpSocket;
use weir_units::Rate;

use crate::label::FULL;

/// The part of a run, at its start, that the facts leave out: slow start is judged, but it does not tell what
/// was set up.
pub(crate) const SETTLED: f64 = 0.35;

/// How often the link is looked at: a stretch holds a hundred packets of the slowest one.
const STRETCH: Duration = Duration::from_millis(250);

/// Of what a link carried since the bed was made, in which stretches was it full?
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkUse {
    last: Option<(Instant, u64)>,
    /// Seconds looked at, and those of them in which the link was full.
    all: f64,
    full: f64,
}

impl LinkUse {
    /// Looks at the link, whose rate is `rate`: once a stretch, or not at all.
    pub(crate) fn look(&mut self, bed: &Bed, rate: Rate) {
        let now = Instant::now();
        let Some((since, before)) = self.last else {
            self.last = Some((now, bed.counters().down.link.bytes_out));
            return;
        };
        let span = (now - since).as_secs_f64();
        if now - since < STRETCH {
            return;
        }
        let carried = bed.counters().down.link.bytes_out;
        self.all += span;
        if (carried - before) as f64 >= FULL * rate.0 * span {
            self.full += span;
        }
        self.last = Some((now, carried));
    }

    /// The share of the time in which it was full.
    pub(crate) fn share(&self) -> f64 {
        if self.all > 0.0 { self.full / self.all } else { 0.0 }
    }
}

/// Raw readings of the settled part.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settled {
    /// The link over the whole run.
    pub(crate) link: LinkUse,
    begun: Option<(Instant, Counters)>,
    /// Seconds.
    pub(crate) span: f64,
    /// What the link did from far to near: bytes of packets delivered, packets dropped by each impairment.
    pub(crate) carried: u64,
    pub(crate) lost: u64,
    pub(crate) policed: u64,
    pub(crate) overflowed: u64,
    /// Packets dropped since the bed was made.
    pub(crate) dropped_in_all: u64,
    /// By how much the emulator was late, of a round trip on average, seconds: what the path has added that
    /// nobody asked for.
    pub(crate) late: f64,
    /// Looks at a pair of sockets.
    pub(crate) looks: u32,
    /// Looks at which the send queue had left less than a third of the send buffer: a writer sleeps until
    /// then.
    pub(crate) send_buffer_full: u32,
    /// Looks at which the unacknowledged bytes filled the peer's window to nine tenths or to within two
    /// segments.
    pub(crate) window_full: u32,
    /// Looks at which the receive queue took a quarter of the receive buffer or more, as the kernel accounts
    /// for it.
    pub(crate) unread: u32,
    /// Looks at which nothing was unsent.
    pub(crate) nothing_unsent: u32,
    /// Sum of the smoothed round trips, seconds.
    rtt: f64,
    /// Sums of the bytes written and not acknowledged, and of those not sent yet.
    queued: u64,
    unsent: u64,
}

impl Settled {
    /// The settled part begins, if it has not yet.
    pub(crate) fn begin(&mut self, bed: &Bed) {
        self.begun.get_or_insert_with(|| (Instant::now(), bed.counters()));
    }

    /// And ends.
    pub(crate) fn end(&mut self, bed: &Bed) {
        let Some((since, begun)) = &self.begun else { return };
        let ended = bed.counters();
        self.late = ended.late_since(begun).as_secs_f64();
        let (before, after) = (begun.down.link, ended.down.link);
        self.span = since.elapsed().as_secs_f64();
        self.carried = after.bytes_out - before.bytes_out;
        self.lost = after.lost - before.lost;
        self.policed = after.policed - before.policed;
        self.overflowed = after.overflowed - before.overflowed;
        self.dropped_in_all = after.lost + after.policed + after.overflowed;
    }

    /// Takes in both ends of a connection.
    pub(crate) fn look(&mut self, far: &TcpSocket, near: &TcpSocket) {
        let info = &far.info;
        self.looks += 1;
        self.rtt += info.rtt.unwrap_or_default().as_secs_f64();
        self.nothing_unsent += u32::from(info.notsent_bytes == Some(0));
        self.queued += u64::from(far.send_queue);
        self.unsent += u64::from(info.notsent_bytes.unwrap_or(0));
        let segment = u64::from(info.snd_mss.unwrap_or(1448));
        let outstanding = u64::from(far.send_queue.saturating_sub(info.notsent_bytes.unwrap_or(0)));
        let window = u64::from(info.snd_wnd.unwrap_or(u32::MAX));
        let filled = 10 * outstanding >= 9 * window || outstanding + 2 * segment > window;
        self.window_full += u32::from(filled);
        if let Some(memory) = far.memory {
            self.send_buffer_full +=
                u32::from(3 * u64::from(memory.send_queued) >= 2 * u64::from(memory.send_buffer));
        }
        if let Some(memory) = near.memory {
            self.unread += u32::from(memory.receive_allocated >= memory.receive_buffer / 4);
        }
    }

    /// Bytes of packets per second that the link carried.
    pub(crate) fn rate(&self) -> f64 {
        if self.span > 0.0 { self.carried as f64 / self.span } else { 0.0 }
    }

    /// Mean smoothed round trip of the sender, seconds.
    pub(crate) fn rtt(&self) -> f64 {
        if self.looks > 0 { self.rtt / f64::from(self.looks) } else { 0.0 }
    }

    /// Of the bytes in the send buffer, the share that was not sent yet.
    pub(crate) fn unsent_share(&self) -> f64 {
        if self.queued > 0 { self.unsent as f64 / self.queued as f64 } else { 0.0 }
    }

    /// `looks` as a share of all.
    pub(crate) fn share(&self, looks: u32) -> f64 {
        if self.looks > 0 { f64::from(looks) / f64::from(self.looks) } else { 0.0 }
    }
}
