//! See `weir_checks::cookies`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::cookies::check(bytes);
});
