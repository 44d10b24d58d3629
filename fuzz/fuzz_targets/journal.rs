//! A journal as a crash may have left it. Not in Cargo.toml until weir-transfer has `journal::parse`.
// #![no_main]
//
// use libfuzzer_sys::fuzz_target;
//
// fuzz_target!(|bytes: &[u8]| {
//     let _ = weir_transfer::journal::parse(bytes);
// });
