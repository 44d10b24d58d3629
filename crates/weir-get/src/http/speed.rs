//! How slow may a body come? One least rate for every protocol, counted in bytes of the body: neither TLS
//! records without payload, nor chunk extensions, nor interim answers, nor HTTP/2's control frames keep a
//! connection alive.

use std::time::Duration;

use crate::error::GetError;

/// The least that a connection must bring where the user says nothing. A modem of 1980 brings three times as
/// much.
pub(crate) const DRIP: u64 = 10;

/// A least rate, and for how long a body may stay below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpeedLimit {
    /// Bytes a second; 0 for none.
    pub bytes: u64,
    /// For how long.
    pub span: Duration,
    /// The user named it.
    pub chosen: bool,
}

impl SpeedLimit {
    /// [`DRIP`] over the whole of `timeout`.
    pub fn usual(timeout: Duration) -> SpeedLimit {
        SpeedLimit { bytes: DRIP, span: timeout, chosen: false }
    }

    /// What must come within each `span`, bytes.
    pub fn quota(&self) -> u64 {
        if self.bytes == 0 { 0 } else { (self.bytes as f64 * self.span.as_secs_f64()).ceil().max(1.0) as u64 }
    }
}

/// Notices a body that comes too slowly.
///
/// Only time spent waiting for the peer counts: a disk, a reader of stdout or `--limit-rate` that hold a lane
/// back are no fault of the server's. Each time the quota is reached the count begins again, so a stall is
/// noticed within one span of it.
#[derive(Debug, Clone)]
pub struct SpeedWatch {
    limit: SpeedLimit,
    got: u64,
    waited: Duration,
}

impl SpeedWatch {
    /// Starts watching.
    pub fn new(limit: SpeedLimit) -> SpeedWatch {
        SpeedWatch { limit, got: 0, waited: Duration::ZERO }
    }

    /// `bytes` of the body came, for which the peer was waited for as long as `waited`.
    pub fn book(&mut self, bytes: u64, waited: Duration) {
        self.got += bytes;
        self.waited += waited;
        if self.got >= self.limit.quota() {
            (self.got, self.waited) = (0, Duration::ZERO);
        }
    }

    /// How long the peer has been waited for since the quota was last reached; `more` is not yet booked.
    pub fn waited(&self, more: Duration) -> Duration {
        self.waited + more
    }

    /// Whether the peer is below the limit, with what has come and how long has been waited since the last
    /// booking.
    pub fn is_slow(&self, got: u64, waiting: Duration) -> bool {
        self.got + got < self.limit.quota() && self.waited(waiting) >= self.limit.span
    }

    /// The error of a peer that is.
    pub fn error(&self, host: &str, got: u64) -> GetError {
        let what = match self.got + got {
            0 => "no byte of the file".to_owned(),
            _ => format!("under {}", weir_units::Rate(self.limit.bytes as f64)),
        };
        let way_out = match self.limit.chosen {
            true => "lower --speed-limit or raise --speed-time if that is normal there",
            false => "raise --timeout if that is normal there",
        };
        GetError::Stalled { host: host.to_owned(), what, after: self.limit.span, way_out, is_slow: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watch(bytes: u64, seconds: u64) -> SpeedWatch {
        SpeedWatch::new(SpeedLimit { bytes, span: SECOND * seconds as u32, chosen: true })
    }

    #[test]
    fn below_the_limit_for_the_whole_span_is_slow() {
        let mut slow = watch(100, 3);
        for _ in 0..2 {
            slow.book(99, SECOND);
            assert!(!slow.is_slow(0, Duration::ZERO));
        }
        assert!(slow.is_slow(99, SECOND));
        assert!(!slow.is_slow(102, SECOND), "the quota is reached");
    }

    #[test]
    fn a_stall_after_a_burst_is_noticed_within_one_span() {
        let mut burst = watch(100, 3);
        burst.book(1_000_000, SECOND * 2);
        assert!(!burst.is_slow(0, SECOND * 2));
        assert!(burst.is_slow(0, SECOND * 3));
    }

    #[test]
    fn no_limit_is_never_broken() {
        assert!(!watch(0, 1).is_slow(0, SECOND * 1000));
    }

    #[test]
    fn a_span_below_a_second_has_a_quota_too() {
        let short = SpeedLimit { bytes: 10, span: Duration::from_millis(50), chosen: false };
        assert_eq!(short.quota(), 1);
    }
}
