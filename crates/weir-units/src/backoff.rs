//! How long to wait before the next try after failures in a row: twice as long each time, within a bound. Who
//! waits adds what is its own: whether the first failure costs a wait at all, and a spread where many clients
//! would come back together.

use std::time::Duration;

/// `first`, doubled so many `times`, and no more than `most`.
///
/// ```
/// use std::time::Duration;
/// use weir_units::backoff::doubled;
/// let pause = |times| doubled(Duration::from_millis(200), times, Duration::from_secs(30)).as_millis();
/// assert_eq!([0, 1, 7, 8, u32::MAX].map(pause), [200, 400, 25_600, 30_000, 30_000]);
/// ```
pub fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    2_u32.checked_pow(times).and_then(|factor| first.checked_mul(factor)).map_or(most, |span| span.min(most))
}
