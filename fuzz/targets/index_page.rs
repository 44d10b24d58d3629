//! See `weir_checks::index_page`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::index_page::check(bytes);
});
