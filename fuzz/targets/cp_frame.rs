//! See `weir_checks::cp_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::cp_frame::check(bytes);
});
