//! See `weir_checks::store_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::store_answer::check(bytes);
});
