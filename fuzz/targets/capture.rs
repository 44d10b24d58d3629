//! See `weir_checks::capture`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::capture::check(bytes);
});
