//! See `weir_checks::server_words`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::server_words::check(bytes);
});
