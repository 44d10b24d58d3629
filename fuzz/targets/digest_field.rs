//! See `weir_checks::digest_field`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::digest_field::check(bytes);
});
