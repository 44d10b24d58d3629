//! See `weir_checks::cp_subtrees`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::cp_subtrees::check(bytes);
});
