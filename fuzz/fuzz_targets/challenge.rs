//! What servers say of logins: challenges are bounded, and an answer to one is a field of one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_http::challenge::{challenges, parameters};
use weir_http::digest_login::Nonce;
use weir_http::netrc::Login;

fuzz_target!(|input: (&str, &str, &str)| {
    let (value, user, target) = input;
    let login = Login { login: user.to_owned(), password: user.to_owned() };
    for challenge in challenges([value, user]) {
        if let Some(mut nonce) = Nonce::of(&challenge, "c") {
            let answer = nonce.authorization(&login, "GET", target);
            assert!(answer.starts_with("Digest ") && !answer.contains(['\r', '\n', '\0']), "{answer:?}");
            assert_eq!(nonce.uses(), 1);
        }
    }
    parameters(value);
});
