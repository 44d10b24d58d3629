//! See `weir_checks::put_journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::put_journal::check(bytes);
});
