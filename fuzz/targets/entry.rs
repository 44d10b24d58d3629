//! See `weir_checks::entry`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::entry::check(bytes);
});
