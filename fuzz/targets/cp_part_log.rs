//! See `weir_checks::cp_part_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::cp_part_log::check(bytes);
});
