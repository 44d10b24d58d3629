//! See `weir_checks::serve_conditions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::serve_conditions::check(bytes);
});
