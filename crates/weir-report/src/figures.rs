//! Figures of a record as pages and views show them: a record may hold any number.

/// Values that a picture can be drawn of: larger ones (a record may hold any number) are cut.
const MOST: f64 = 1e18;

/// A finite number from 0 to [`MOST`].
pub fn sane(value: f64) -> f64 {
    if value.is_finite() { value.clamp(0.0, MOST) } else { 0.0 }
}

/// `98 %`; tenths where they count.
pub fn percent(share: f64) -> String {
    let percent = sane(share).min(1e4) * 100.0;
    if percent > 0.0 && percent < 0.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}
