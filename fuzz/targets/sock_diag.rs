//! See `weir_checks::sock_diag`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::sock_diag::check(bytes);
});
