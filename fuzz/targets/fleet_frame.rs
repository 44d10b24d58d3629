//! See `weir_checks::fleet_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::fleet_frame::check(bytes);
});
