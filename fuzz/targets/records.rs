//! See `weir_checks::records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::records::check(bytes);
});
