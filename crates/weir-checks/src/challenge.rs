//! What servers say of logins: challenges are bounded, and an answer to one is a field of one line.

use weir_http::challenge::{challenges, parameters};
use weir_http::digest_login::Nonce;
use weir_http::netrc::Login;

use crate::Input;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (value, user, target) = (input.text(), input.text(), input.text());
    let (value, user, target) = (&*value, &*user, &*target);
    let mut answered = false;
    let login = Login { login: user.to_owned(), password: user.to_owned() };
    for challenge in challenges([value, user]) {
        if let Some(mut nonce) = Nonce::of(&challenge, "c") {
            let answer = nonce.authorization(&login, "GET", target);
            assert!(answer.starts_with("Digest ") && !answer.contains(['\r', '\n', '\0']), "{answer:?}");
            assert_eq!(nonce.uses(), 1);
            answered = true;
        }
    }
    parameters(value);
    answered
}
