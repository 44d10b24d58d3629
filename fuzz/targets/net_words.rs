//! See `weir_checks::net_words`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::net_words::check(bytes);
});
