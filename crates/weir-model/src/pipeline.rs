//! The min law: what a pipeline of stages carries, and which of them says so.
//!
//! ```text
//! payload rate = min( source read, compress x cores, encrypt, send buffer / RTT, congestion window / RTT,
//!                     link x (1 - loss) / ratio, receive window / RTT, decrypt, decompress, verify, disk )
//! ```
//!
//! Stages behind the compressor see `ratio` times fewer bytes, so each of their ceilings is divided by it.
//! Connections each have windows and a congestion window of their own; the link, the disk and the processors
//! are shared by all. A ceiling that nobody knows binds nothing: it is `None`, never zero.
//!
//! ```
//! use weir_model::limit::Limit;
//! use weir_model::pipeline::{Figure, Path, predict};
//! use weir_units::Rate;
//!
//! let quicklz = Figure { name: "QUICKLZ".into(), ratio: 0.549, compress: Rate(183.4e6), decompress: None };
//! let prediction = predict(&quicklz, &Path::of(Rate(100e6)));
//! assert_eq!((prediction.rate.0 / 1e4).round() / 100.0, 182.15);
//! assert_eq!(prediction.limit, Limit::PathBandwidth);
//! ```

pub mod table;
mod time;
mod transport;
mod work;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate};

use crate::limit::Limit;
use crate::path::{SEGMENT, bdp, loss_bound, window_rate};

pub use time::Whole;
pub use transport::{LANES_MOST, SSH_CIPHER, SSH_WINDOW, Transport};
pub use work::{Cost, Work};

/// What a codec does to some data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The codec, with its level where it has one: `zstd-3`.
    pub name: String,
    /// Compressed size over original size: 0.4 where 100 bytes become 40. 1 for data sent as it is.
    pub ratio: f64,
    /// Original bytes that one core compresses in a second.
    pub compress: Rate,
    /// Original bytes that one core restores in a second; `None` when nobody measured it.
    pub decompress: Option<Rate>,
}

impl Figure {
    /// Sending the data as it is, at no cost.
    pub fn none() -> Figure {
        Figure { name: "none".to_owned(), ratio: 1.0, compress: Rate(f64::INFINITY), decompress: None }
    }
}

/// Everything between the source's bytes and the target's disk, but for the codec.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// What the bottleneck link carries, bytes of TCP payload.
    pub link: Rate,
    /// Round trip without queues; without one no window binds.
    pub rtt: Option<Duration>,
    /// Share of packets lost for reasons other than a full link, 0 to 1.
    pub loss: f64,
    /// Bytes that each connection's receiver lets be in flight.
    pub window: Option<Bytes>,
    /// Bytes that each connection's sender keeps for sending again.
    pub send_buffer: Option<Bytes>,
    /// Reading the source.
    pub source: Option<Rate>,
    /// Digesting on one core of either end; each end digests once.
    pub verify: Option<Rate>,
    /// Writing to the target's disk.
    pub disk: Option<Rate>,
    /// Bytes that the target's memory takes before writers are paced to the disk (the dirty threshold).
    pub memory: Bytes,
    /// Cores that compress at the near end, and that decompress at the far end.
    pub cores: f64,
    /// What all stages together ask of the processors, where that was measured.
    pub work: Option<Work>,
    /// How the bytes travel.
    pub transport: Transport,
}

impl Path {
    /// A link over which one plain TCP connection sends what one core compresses, all else without bound.
    pub fn of(link: Rate) -> Path {
        Path {
            link,
            rtt: None,
            loss: 0.0,
            window: None,
            send_buffer: None,
            source: None,
            verify: None,
            disk: None,
            memory: Bytes(0),
            cores: 1.0,
            work: None,
            transport: Transport::tcp(),
        }
    }

    /// Bytes in flight that keep the link busy; `None` without a round trip.
    pub fn bdp(&self) -> Option<Bytes> {
        self.rtt.map(|rtt| bdp(self.link, rtt))
    }

    /// What arrives of what the link carries: lost packets have taken their share of it.
    pub fn goodput(&self) -> Rate {
        Rate(self.link.0 * (1.0 - self.loss))
    }

    /// The rate to which loss holds one connection, whatever its buffers; `None` without loss, or without a
    /// round trip.
    fn loss_of_one(&self) -> Option<Rate> {
        self.rtt.and_then(|rtt| loss_bound(SEGMENT, rtt, self.loss))
    }

    /// The most that one connection can carry, however large its buffers: what link, loss and disks allow.
    pub fn most_of_one(&self) -> Rate {
        let known = [self.loss_of_one(), self.source, self.disk].into_iter().flatten();
        Rate(known.map(|rate| rate.0).fold(self.goodput().0, f64::min))
    }

    /// Whether loss keeps one connection below what the link carries, however large its buffers.
    pub fn loss_holds_one(&self) -> bool {
        self.loss_of_one().is_some_and(|rate| rate.0 < self.goodput().0)
    }

    /// The same path by other means.
    pub fn by(&self, transport: Transport) -> Path {
        Path { transport, ..self.clone() }
    }

    /// What one connection may have in flight, and what says so.
    fn window_of_one(&self) -> Option<(Limit, Bytes)> {
        let receive = [self.window, self.transport.channel_window].into_iter().flatten().min();
        let receive = receive.map(|bytes| (Limit::ReceiveWindow, bytes));
        let send = self.send_buffer.map(|bytes| (Limit::SendBuffer, bytes));
        [receive, send].into_iter().flatten().min_by_key(|(_, bytes)| *bytes)
    }

    /// Connections that together keep the link busy although each may have only so much in flight, and
    /// although loss holds each one: 1 where nothing is known that would ask for more.
    pub fn connections_needed(&self) -> u32 {
        let Some(rtt) = self.rtt else { return 1 };
        let by_window = self.window_of_one().and_then(|(_, window)| window_rate(window, rtt));
        let each = [by_window, self.loss_of_one()].into_iter().flatten();
        let needed = each.map(|rate| self.goodput().0 / rate.0).fold(1.0, f64::max);
        // A hair above a whole number is rounding, not another connection.
        (needed - 1e-6).ceil().clamp(1.0, f64::from(u32::MAX)) as u32
    }
}

/// One stage's ceiling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// The stage.
    pub limit: Limit,
    /// Payload rate that it would allow, were it alone.
    pub rate: Rate,
}

/// What the law says of a codec on a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Payload: original bytes per second, once the transfer is under way.
    pub rate: Rate,
    /// What then goes over the wire.
    pub wire: Rate,
    /// The stage that binds.
    pub limit: Limit,
    /// Every stage whose ceiling is known, lowest first.
    pub ceilings: Vec<Ceiling>,
}

impl Prediction {
    /// What changing the limit alone would bring: the next lowest ceiling of another stage.
    pub fn next(&self) -> Option<Ceiling> {
        self.ceilings.iter().copied().find(|ceiling| ceiling.limit != self.limit)
    }
}

/// The law. Among equal ceilings the path's comes first: a link that is full is no fault of the stages before
/// it.
pub fn predict(figure: &Figure, path: &Path) -> Prediction {
    let mut ceilings = ceilings(figure, path);
    // Stable, so that equal ceilings stay in the order of `ceilings`.
    ceilings.sort_by(|a, b| a.rate.0.total_cmp(&b.rate.0));
    let lowest = ceilings[0];
    Prediction { rate: lowest.rate, wire: Rate(lowest.rate.0 * figure.ratio), limit: lowest.limit, ceilings }
}

fn ceilings(figure: &Figure, path: &Path) -> Vec<Ceiling> {
    let Transport { connections, ref cipher, threads, .. } = path.transport;
    let payload = |wire: Rate| Rate(wire.0 / figure.ratio);
    let together = |one: Rate| Rate(one.0 * f64::from(connections));
    let threads = f64::from(threads).min(path.cores.max(1.0));

    let window = path.rtt.and_then(|rtt| {
        let (limit, bytes) = path.window_of_one()?;
        Some((limit, window_rate(bytes, rtt)?))
    });
    let loss = path.loss_of_one();
    // A disk that memory hides for the whole transfer binds nothing: see `time`.
    let known = [
        Some((Limit::PathBandwidth, payload(path.goodput()))),
        loss.map(|one| (Limit::PathLoss, payload(together(one)))),
        window.map(|(limit, one)| (limit, payload(together(one)))),
        path.source.map(|rate| (Limit::SourceDisk, rate)),
        Some((Limit::Compress, Rate(figure.compress.0 * path.cores))),
        cipher.map(|one| (Limit::Encrypt, payload(Rate(one.0 * threads)))),
        figure.decompress.map(|one| (Limit::Decompress, Rate(one.0 * path.cores))),
        path.verify.map(|one| (Limit::Verify, one)),
        path.disk.map(|rate| (Limit::Disk, rate)),
    ];
    let stages = known.into_iter().flatten().map(|(limit, rate)| Ceiling { limit, rate });
    stages.chain(path.work.map(|work| work.ceiling(figure))).collect()
}

/// The figure that carries most over a path, and its prediction; of those within a thousandth of the best,
/// the one that costs least to compress, and of equals the first. `None` without figures.
pub fn best<'a>(figures: &'a [Figure], path: &Path) -> Option<(&'a Figure, Prediction)> {
    let predictions: Vec<_> = figures.iter().map(|figure| (figure, predict(figure, path))).collect();
    let most = predictions.iter().map(|(_, prediction)| prediction.rate.0).fold(0.0, f64::max);
    // Backwards, for `max_by` takes the last of equals.
    (predictions.into_iter().rev())
        .filter(|(_, prediction)| prediction.rate.0 >= 0.999 * most)
        .max_by(|(a, _), (b, _)| a.compress.0.total_cmp(&b.compress.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_more_arrives_than_loss_leaves_of_the_link(
            (link, loss, rtt) in (1e3..1e10, 0.0..0.999, 1u64..400),
            (ratio, connections) in (0.01..1.5, 1u32..LANES_MOST),
        ) {
            let figure = Figure { ratio, ..Figure::none() };
            let rtt = Some(Duration::from_millis(rtt));
            let path = Path { rtt, loss, ..Path::of(Rate(link)) }.by(Transport::lanes(connections, None));
            let left = link * (1.0 - loss);
            prop_assert!(predict(&figure, &path).rate.0 * ratio <= left * (1.0 + 1e-9));
            let enough = path.by(Transport::lanes(path.connections_needed(), None));
            if enough.transport.connections == path.connections_needed() {
                prop_assert!(predict(&figure, &enough).rate.0 * ratio >= left * 0.999);
            }
        }
    }
}
