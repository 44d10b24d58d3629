//! See `weir_checks::response_head`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::response_head::check(bytes);
});
