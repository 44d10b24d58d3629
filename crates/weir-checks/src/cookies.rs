//! Cookies of servers and of files: whatever they are, a request's field is one line, and a saved file is
//! read back.

use std::time::SystemTime;

use weir_get::http::jar::Jar;
use weir_http::fields::Fields;

use crate::Input;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (set, file) = (input.text(), input.text());
    let (set, file) = (&*set, &*file);
    let url = url::Url::parse("https://s.a.example/x/y").expect("a url");
    let mut jar = Jar::default();
    jar.give(set);
    let mut fields = Fields::new();
    if fields.push("Set-Cookie", set).is_ok() {
        jar.take(&url, &fields);
    }
    jar.load(file, SystemTime::UNIX_EPOCH);
    let field = jar.field(&url, true);
    if let Some(field) = &field {
        assert!(!field.contains(|letter: char| letter.is_control()), "{field:?}");
    }
    let saved = jar.netscape();
    assert!(Jar::default().load(&saved, SystemTime::UNIX_EPOCH).odd.is_empty(), "{saved:?}");
    field.is_some()
}
