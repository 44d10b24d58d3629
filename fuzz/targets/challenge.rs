//! See `weir_checks::challenge`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::challenge::check(bytes);
});
