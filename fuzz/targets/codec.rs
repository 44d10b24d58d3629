//! See `weir_checks::codec`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::codec::check(bytes);
});
