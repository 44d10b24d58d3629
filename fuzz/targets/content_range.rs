//! See `weir_checks::content_range`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::content_range::check(bytes);
});
