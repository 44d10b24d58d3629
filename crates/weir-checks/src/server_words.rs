//! What a server says of its error, in any form, is one short line; a query's parameters have a kind each.

use weir_http::{Fields, problem, signed_link};

use crate::Input;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (kind, value, body) = (input.byte(), input.text(), input.rest());
    let value = &*value;
    let kinds = ["text/html", "application/xml", "application/json", "text/plain", value];
    let mut fields = Fields::new();
    let _ = fields.push("Content-Type", kinds[usize::from(kind) % kinds.len()]);
    let said = problem::words(&fields, value, body);
    if let Some(said) = &said {
        assert!(said.chars().count() < 300 && !said.contains(char::is_control));
    }
    assert_eq!(signed_link::kinds(value.split('&')).len(), value.split('&').count());
    said.is_some()
}
