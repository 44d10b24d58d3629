//! Cookies of servers and of files: whatever they are, a request's field is one line, and a saved file is read back.
#![no_main]

use std::time::SystemTime;

use libfuzzer_sys::fuzz_target;
use weir_http::fields::Fields;
use weir_transfer::http::jar::Jar;

fuzz_target!(|input: (&str, &str)| {
    let (set, file) = input;
    let url = url::Url::parse("https://s.a.example/x/y").expect("a url");
    let mut jar = Jar::default();
    jar.give(set);
    let mut fields = Fields::new();
    if fields.push("Set-Cookie", set).is_ok() {
        jar.take(&url, &fields);
    }
    jar.load(file, SystemTime::UNIX_EPOCH);
    if let Some(field) = jar.field(&url, true) {
        assert!(!field.contains(|letter: char| letter.is_control()), "{field:?}");
    }
    let saved = jar.netscape();
    assert!(Jar::default().load(&saved, SystemTime::UNIX_EPOCH).odd.is_empty(), "{saved:?}");
});
