//! What a server says of its error, in any form, is one short line; a query's parameters have a kind each.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_http::{Fields, problem, signed_link};

fuzz_target!(|input: (u8, &str, &[u8])| {
    let (kind, value, body) = input;
    let kinds = ["text/html", "application/xml", "application/json", "text/plain", value];
    let mut fields = Fields::new();
    let _ = fields.push("Content-Type", kinds[usize::from(kind) % kinds.len()]);
    if let Some(said) = problem::words(&fields, value, body) {
        assert!(said.chars().count() < 300 && !said.contains(char::is_control));
    }
    assert_eq!(signed_link::kinds(value.split('&')).len(), value.split('&').count());
});
