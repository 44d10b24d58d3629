//! See `weir_checks::probe_words`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::probe_words::check(bytes);
});
