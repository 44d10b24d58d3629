//! A file of logins: what is odd in it costs its own entry, and a login that is found is a field of one line.

use weir_http::netrc;

use crate::Input;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (text, host, user) = (input.text(), input.text(), input.text());
    let (host, user, mut understood) = (&*host, &*user, false);
    let Ok(logins) = netrc::parse(&text) else { return false };
    assert!(logins.odd().len() <= 16);
    for found in [logins.lookup(host), logins.lookup_user(host, user), logins.lookup_named(host)] {
        let Some(login) = found else { continue };
        let field = login.authorization();
        assert!(field.starts_with("Basic ") && !field.contains(char::is_control));
        understood = true;
    }
    understood
}
