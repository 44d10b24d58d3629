//! The matrix: which cause, under which congestion control, over which path.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, bail};
use weir_units::{Bytes, Rate};

/// Payload of a segment on these paths, whose packets are 1500 bytes with TCP timestamps.
pub(crate) const SEGMENT: u64 = weir_model::path::SEGMENT;

/// What is made to limit the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cause {
    /// Nothing but the link, whose queue holds a bandwidth-delay product.
    HealthyLink,
    /// Single packets lost at random.
    RandomLoss,
    /// Packets lost in runs (Gilbert-Elliott).
    BurstLoss,
    /// A token bucket that drops what exceeds the rate, on a faster link.
    Policer,
    /// A link whose queue holds a small part of the bandwidth-delay product.
    ShallowQueue,
    /// A sender that fixed SO_SNDBUF too small.
    SendBuffer,
    /// A receiver whose buffer is capped too small.
    ReceiveBuffer,
    /// A receiving application that sleeps between its reads.
    SleepingReader,
    /// A receiving application whose writes are paced to a slow disk.
    DiskReader,
    /// A sending application that produces slowly.
    ApplicationLimited,
    /// A server that thinks before each answer.
    SlowFirstByte,
    /// One small request after another.
    SmallRequests,
    /// One request after another on a kept connection, for answers of up to 20 MB.
    LargeAnswers,
    /// A receiving thread that fills its core.
    FullCoreReceiver,
    /// A sending thread that fills its core.
    FullCoreSender,
    /// A server that holds each of several connections to one rate.
    ConnectionCap,
}

impl Cause {
    pub(crate) const ALL: [Cause; 16] = [
        Cause::HealthyLink,
        Cause::RandomLoss,
        Cause::BurstLoss,
        Cause::Policer,
        Cause::ShallowQueue,
        Cause::SendBuffer,
        Cause::ReceiveBuffer,
        Cause::SleepingReader,
        Cause::DiskReader,
        Cause::ApplicationLimited,
        Cause::SlowFirstByte,
        Cause::SmallRequests,
        Cause::LargeAnswers,
        Cause::FullCoreReceiver,
        Cause::FullCoreSender,
        Cause::ConnectionCap,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Cause::HealthyLink => "healthy-link",
            Cause::RandomLoss => "random-loss",
            Cause::BurstLoss => "burst-loss",
            Cause::Policer => "policer",
            Cause::ShallowQueue => "shallow-queue",
            Cause::SendBuffer => "send-buffer",
            Cause::ReceiveBuffer => "receive-buffer",
            Cause::SleepingReader => "sleeping-reader",
            Cause::DiskReader => "disk-reader",
            Cause::ApplicationLimited => "application-limited",
            Cause::SlowFirstByte => "slow-first-byte",
            Cause::SmallRequests => "small-requests",
            Cause::LargeAnswers => "large-answers",
            Cause::FullCoreReceiver => "full-core-receiver",
            Cause::FullCoreSender => "full-core-sender",
            Cause::ConnectionCap => "connection-cap",
        }
    }
}

/// The sender's congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Congestion {
    Cubic,
    Bbr,
    Reno,
}

impl Congestion {
    pub(crate) const ALL: [Congestion; 3] = [Congestion::Cubic, Congestion::Bbr, Congestion::Reno];

    /// As the kernel calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Congestion::Cubic => "cubic",
            Congestion::Bbr => "bbr",
            Congestion::Reno => "reno",
        }
    }
}

/// Round trips of the matrix, milliseconds.
pub(crate) const ROUND_TRIPS: [u64; 3] = [1, 20, 100];

/// Rates of the matrix, Mbit/s.
pub(crate) const RATES: [u64; 3] = [5, 40, 400];

/// One place of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cell {
    pub(crate) cause: Cause,
    pub(crate) congestion: Congestion,
    /// Milliseconds there and back.
    pub(crate) round_trip: u64,
    /// Mbit/s on the wire.
    pub(crate) mbit: u64,
}

impl Cell {
    pub(crate) fn rtt(self) -> Duration {
        Duration::from_millis(self.round_trip)
    }

    /// The link's rate: bytes of packets, not of payload.
    pub(crate) fn rate(self) -> Rate {
        Rate(self.mbit as f64 * 1e6 / 8.0)
    }

    /// The bandwidth-delay product.
    pub(crate) fn bdp(self) -> Bytes {
        weir_model::path::bdp(self.rate(), self.rtt())
    }

    /// The bandwidth-delay product in segments.
    pub(crate) fn segments(self) -> f64 {
        self.bdp().0 as f64 / SEGMENT as f64
    }

    /// The whole matrix.
    pub(crate) fn all() -> Vec<Cell> {
        let mut cells = Vec::new();
        for cause in Cause::ALL {
            for congestion in Congestion::ALL {
                for round_trip in ROUND_TRIPS {
                    for mbit in RATES {
                        cells.push(Cell { cause, congestion, round_trip, mbit });
                    }
                }
            }
        }
        cells
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { cause, congestion, round_trip, mbit } = self;
        write!(f, "{}.{}.{round_trip}ms.{mbit}mbit", cause.name(), congestion.name())
    }
}

/// Which cells to run: `cause=receive-buffer,cc=bbr,rtt=20,rate=400`, any part left out; a part may list
/// alternatives (`cc=bbr|reno`); the empty text is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    wanted: Vec<(Field, Vec<String>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Cause,
    Congestion,
    RoundTrip,
    Rate,
}

impl Filter {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Filter> {
        let mut wanted = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "all") {
            let (key, values) = part.split_once('=').with_context(|| form(part))?;
            let field = match key {
                "cause" => Field::Cause,
                "cc" => Field::Congestion,
                "rtt" => Field::RoundTrip,
                "rate" => Field::Rate,
                _ => bail!(form(part)),
            };
            let values: Vec<String> = values.split('|').map(str::to_owned).collect();
            if let Some(unknown) =
                values.iter().find(|value| !Cell::all().iter().any(|cell| field.of(*cell) == **value))
            {
                bail!("no cell has {key} '{unknown}'");
            }
            wanted.push((field, values));
        }
        Ok(Filter { wanted })
    }

    pub(crate) fn admits(&self, cell: Cell) -> bool {
        self.wanted.iter().all(|(field, values)| values.contains(&field.of(cell)))
    }
}

fn form(part: &str) -> String {
    format!("invalid filter '{part}': expected parts such as cause=policer, cc=bbr, rtt=20, rate=400")
}

impl Field {
    fn of(self, cell: Cell) -> String {
        match self {
            Field::Cause => cell.cause.name().to_owned(),
            Field::Congestion => cell.congestion.name().to_owned(),
            Field::RoundTrip => cell.round_trip.to_string(),
            Field::Rate => cell.mbit.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_complete_and_names_are_unique() {
        let mut names: Vec<String> = Cell::all().iter().map(Cell::to_string).collect();
        assert_eq!(names.len(), 16 * 27);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 16 * 27);
    }

    #[test]
    fn a_filter_admits_what_it_names() {
        let count = |text| {
            let filter = Filter::parse(text).unwrap();
            Cell::all().into_iter().filter(|cell| filter.admits(*cell)).count()
        };
        assert_eq!(count("all"), 432);
        assert_eq!(count("cause=policer"), 27);
        assert_eq!(count("cause=policer|send-buffer,cc=bbr,rtt=20,rate=400"), 2);
    }

    #[test]
    fn a_filter_that_names_nothing_is_refused() {
        assert!(Filter::parse("cause=gremlins").unwrap_err().to_string().contains("gremlins"));
        assert!(Filter::parse("bbr").is_err());
        assert!(Filter::parse("speed=1").is_err());
    }
}
