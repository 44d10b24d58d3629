//! What does the user's own clock show at a moment? For words such as "come back after 17:20".
#![allow(
    unsafe_code,
    deprecated,
    reason = "the time zone is known to the C library alone, and musl is about to change its time_t"
)]

use std::ffi::CStr;
use std::time::{Duration, SystemTime};

/// `2026-11-25 17:20 UTC`: the first full minute that is not before `time`, in this host's time zone.
pub fn minute(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = since.as_secs() + u64::from(since.subsec_nanos() > 0);
    show(seconds.div_ceil(60) * 60, c"%Y-%m-%d %H:%M %Z").unwrap_or_else(|| BEYOND.to_owned())
}

/// `time` as strftime(3) shows it by `format`, in this host's time zone; empty where that is more than 1 KiB.
pub fn formatted(time: SystemTime, format: &CStr) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    show(since.as_secs(), format).unwrap_or_else(|| BEYOND.to_owned())
}

/// Of a year that does not fit an int.
const BEYOND: &str = "a time beyond this clock";

fn show(seconds: u64, format: &CStr) -> Option<String> {
    let seconds = libc::time_t::try_from(seconds).unwrap_or(libc::time_t::MAX);
    // SAFETY: `tm` is made of integers and a pointer, for which zero means "not set".
    let mut broken: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to values that live during the call.
    if unsafe { libc::localtime_r(&raw const seconds, &raw mut broken) }.is_null() {
        return None;
    }
    let mut text = [0_u8; 1024];
    // SAFETY: a buffer of that length, a C string and a filled `tm`, which strftime only reads.
    let length =
        unsafe { libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &raw const broken) };
    Some(String::from_utf8_lossy(&text[..length]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_count_as_the_next_minute() {
        let at = |seconds: u64| minute(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(1_764_091_201), at(1_764_091_260));
        assert_ne!(at(1_764_091_260), at(1_764_091_261));
        assert!(at(1_764_091_200).starts_with("2025-11-25 "), "{}", at(1_764_091_200));
        assert_eq!(
            minute(SystemTime::UNIX_EPOCH + Duration::from_secs(i64::MAX as u64)),
            "a time beyond this clock"
        );
    }

    #[test]
    fn a_format_is_strftime_s() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_091_200);
        assert_eq!(formatted(at, c"%s|%% "), "1764091200|% ");
        assert_eq!(formatted(at, c"%Y").len(), 4);
        assert_eq!(formatted(at, c""), "");
    }
}
