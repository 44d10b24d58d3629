//! See `weir_checks::serve_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::serve_request::check(bytes);
});
