//! See `weir_checks::journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::journal::check(bytes);
});
