//! See `weir_checks::netrc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::netrc::check(bytes);
});
