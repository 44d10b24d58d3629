//! See `weir_checks::chunked`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::chunked::check(bytes);
});
