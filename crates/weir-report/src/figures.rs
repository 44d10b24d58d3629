//! Figures of a record as pages and views show them: a record may hold any number.

use std::time::Duration;

use weir_units::{decimals, human_duration};

/// Values that a picture can be drawn of: larger ones (a record may hold any number) are cut.
const MOST: f64 = 1e18;

/// A finite number from 0 to [`MOST`].
pub fn sane(value: f64) -> f64 {
    if value.is_finite() { value.clamp(0.0, MOST) } else { 0.0 }
}

/// `48 KiB`, `1.03 MiB`: caches and memory come in powers of two.
pub fn binary(bytes: u64) -> String {
    let (mut value, mut name) = (bytes as f64, 0);
    const NAMES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    while value >= 1023.5 && name + 1 < NAMES.len() {
        value /= 1024.0;
        name += 1;
    }
    let digits = if value.fract().abs() < 5e-3 { 0 } else { decimals(value) };
    format!("{value:.digits$} {}", NAMES[name])
}

/// `1.08 s`: two digits where a span is short enough for them to matter.
pub(crate) fn fine_duration(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    if (0.9995..9.995).contains(&seconds) { format!("{seconds:.2} s") } else { human_duration(span) }
}

/// Without the zeros at the end that say nothing: `0.5`, `100`.
pub(crate) fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// `98 %`; tenths where they count.
pub fn percent(share: f64) -> String {
    let percent = sane(share).min(1e4) * 100.0;
    if percent > 0.0 && percent < 0.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// How much of `all` is done, percent. Rounded down, and in integers: 100 % means that it is all there.
pub(crate) fn percent_done(done: u64, all: u64) -> u128 {
    (u128::from(done.min(all)) * 100).checked_div(u128::from(all)).unwrap_or(100)
}
