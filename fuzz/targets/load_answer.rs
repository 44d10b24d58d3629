//! See `weir_checks::load_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::load_answer::check(bytes);
});
