//! See `weir_checks::hub_words`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::hub_words::check(bytes);
});
