//! A file of logins: what is odd in it costs its own entry, and a login that is found is a field of one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_http::netrc;

fuzz_target!(|input: (&str, &str, &str)| {
    let (text, host, user) = input;
    let Ok(logins) = netrc::parse(text) else { return };
    assert!(logins.odd().len() <= 16);
    for found in [logins.lookup(host), logins.lookup_user(host, user), logins.lookup_named(host)] {
        let Some(login) = found else { continue };
        let field = login.authorization();
        assert!(field.starts_with("Basic ") && !field.contains(char::is_control));
    }
});
