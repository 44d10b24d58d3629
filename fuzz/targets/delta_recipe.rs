//! See `weir_checks::delta_recipe`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::delta_recipe::check(bytes);
});
