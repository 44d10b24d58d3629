//! See `weir_checks::cp_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::cp_record::check(bytes);
});
