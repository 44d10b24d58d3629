//! How numbers read in evidence and advice. No number is judged here.

use std::time::Duration;

use weir_units::{Bytes, Rate, human_duration};

/// `97 %`; shares outside 0 to 1 are drawn in.
pub(crate) fn percent(share: f64) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let percent = share * 100.0;
    // Between 0 and 1 % a zero would be a lie: loss of 0.2 % is a lot.
    if percent > 0.0 && percent < 0.95 { format!("{percent:.2} %") } else { format!("{percent:.0} %") }
}

/// `2.15 GB/s` from bytes per second.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    Rate(if bytes_per_second.is_finite() { bytes_per_second.max(0.0) } else { 0.0 }).to_string()
}

/// `64.0 KB` from a computed number of bytes.
pub(crate) fn bytes(count: f64) -> String {
    Bytes(count.max(0.0) as u64).to_string()
}

/// `40.0 ms` from seconds.
pub(crate) fn seconds(span: f64) -> String {
    human_duration(Duration::try_from_secs_f64(span).unwrap_or_default())
}
