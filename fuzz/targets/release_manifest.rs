//! See `weir_checks::release_manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weir_checks::release_manifest::check(bytes);
});
