//! See `weir_checks::fleet_rows`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::fleet_rows::check(bytes);
});
