//! Files of a home of the test's own, and services on loopback.

use std::collections::HashMap;
use std::fs;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::mock::{Asked, Mock, said};

const FAR: &str = "2099-01-01T00:00:00Z";

struct Host {
    home: TempDir,
    variables: HashMap<String, String>,
}

impl Host {
    fn new(kept: Option<&Value>) -> Host {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".config/gcloud")).unwrap();
        if let Some(kept) = kept {
            let path = ".config/gcloud/application_default_credentials.json";
            fs::write(home.path().join(path), kept.to_string()).unwrap();
        }
        let home_text = home.path().to_str().unwrap().to_owned();
        let variables = [("HOME", home_text.as_str()), ("NO_GCE_CHECK", "true"), ("no_proxy", "127.0.0.1")];
        let variables = variables.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        Host { home, variables }
    }

    fn set(mut self, name: &str, text: impl Into<String>) -> Host {
        self.variables.insert(name.to_owned(), text.into());
        self
    }

    fn google(&self) -> Result<Google, StoreError> {
        Google::find(&Network::default(), &|name| self.variables.get(name).cloned())
    }

    fn found(&self) -> Result<Arc<Found<Bearer>>, String> {
        let found = self.google().and_then(|google| google.provider.current());
        found.map_err(|error| {
            let text = format!("{error} {error:?}");
            assert!(!text.contains("geheim"), "{text}");
            error.to_string()
        })
    }
}

fn tokens() -> Mock {
    Mock::new(|asked: &Asked| match asked.target.as_str() {
        "/token"
            if asked.body.contains("refresh_token=geheim-r")
                || asked.body.contains("subject_token=geheim-s") =>
        {
            said(200, r#"{"access_token":"t1","expires_in":3599,"token_type":"Bearer"}"#)
        }
        "/own" if asked.field("x-own") == "yes" => said(200, r#"{"value":"geheim-s"}"#),
        "/v1/projects/-/serviceAccounts/a@b:generateAccessToken"
            if asked.field("authorization") == "Bearer t1" =>
        {
            said(200, format!(r#"{{"accessToken":"t2","expireTime":"{FAR}"}}"#))
        }
        _ => said(400, r#"{"error":"invalid_grant","error_description":"geheim-wrong is not for us"}"#),
    })
}

#[test]
fn where_nobody_is_named_all_places_are() {
    let why = Host::new(None).found().unwrap_err();
    for part in ["GOOGLE_APPLICATION_CREDENTIALS", "~/.config/gcloud/", "NO_GCE_CHECK", "--no-sign"] {
        assert!(why.contains(part), "{part} in {why}");
    }
    let host = Host::new(None).set("CLOUDSDK_AUTH_ACCESS_TOKEN", "geheim");
    let found = host.found().unwrap();
    assert_eq!(found.credential.authorization(), "Bearer geheim");
    assert!(!format!("{found:?} {:?}", found.credential).contains("geheim"));
}

#[test]
fn a_user_who_has_logged_in_speaks() {
    let tokens = tokens();
    let user = |refresh: &str| {
        json!({ "type": "authorized_user", "client_id": "c", "client_secret": "geheim-c", "refresh_token": refresh,
                "quota_project_id": "q", "token_uri": format!("{}/token", tokens.url) })
    };
    let host = Host::new(Some(&user("geheim-r")));
    let found = host.found().unwrap();
    assert_eq!((found.credential.text(), found.identity.as_str()), ("t1", "the user who has logged in"));
    assert_eq!(found.origin, "~/.config/gcloud/application_default_credentials.json");
    assert_eq!(host.google().unwrap().quota_project.as_deref(), Some("q"));
    let why = Host::new(Some(&user("geheim-wrong"))).found().unwrap_err();
    assert!(
        why.contains("REDACTED is not for us")
            && why.ends_with("log in with gcloud auth application-default login"),
        "{why}"
    );
}

#[test]
fn files_that_are_of_no_use_say_why() {
    let why = |kept: &Value| Host::new(Some(kept)).found().unwrap_err();
    assert!(why(&json!({ "type": "moon", "key": "geheim" })).contains("its type is 'moon': expected one of"));
    assert!(why(&json!({ "type": "authorized_user", "client_secret": "geheim" })).contains("lacks a member"));
    let account = json!({ "type": "service_account", "client_email": "a@b", "private_key": "geheim" });
    assert!(why(&account).contains("its private_key is no RSA key"));
    let host = Host::new(None).set("GOOGLE_APPLICATION_CREDENTIALS", "~/none.json");
    assert!(host.found().unwrap_err().contains("none.json: no such file"));
}

#[test]
fn a_service_account_signs_its_own_tokens() {
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        STANDARD.encode(der.as_ref())
    );
    let account = json!({ "type": "service_account", "client_email": "a@b", "private_key": pem,
                          "private_key_id": "k1", "project_id": "p" });
    let host = Host::new(None);
    fs::write(host.home.path().join("account.json"), account.to_string()).unwrap();
    let host = host.set("GOOGLE_APPLICATION_CREDENTIALS", "~/account.json");
    let found = host.found().unwrap();
    assert_eq!(found.identity, "a@b");
    assert_eq!(host.google().unwrap().project.as_deref(), Some("p"));
    let parts: Vec<&str> = found.credential.text().split('.').collect();
    let read =
        |part: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap() };
    assert_eq!(read(parts[0])["kid"], "k1");
    let claims = read(parts[1]);
    assert_eq!((claims["iss"].as_str(), claims["scope"].as_str()), (Some("a@b"), Some(SCOPE)));
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3600);
    let public = RsaKeyPair::from_pkcs8(der.as_ref()).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public.public_key().as_ref());
    let text = format!("{}.{}", parts[0], parts[1]);
    public.verify(text.as_bytes(), &URL_SAFE_NO_PAD.decode(parts[2]).unwrap()).unwrap();
}

#[test]
fn an_identity_of_somebody_elses_is_traded() {
    let tokens = tokens();
    let external = |source: Value, account: Option<String>| {
        json!({ "type": "external_account", "audience": "aud", "subject_token_type": "jwt",
                "token_url": format!("{}/token", tokens.url), "credential_source": source,
                "service_account_impersonation_url": account })
    };
    let account = format!("{}/v1/projects/-/serviceAccounts/a@b:generateAccessToken", tokens.url);
    let host = Host::new(None);
    fs::write(host.home.path().join("own"), "geheim-s\n").unwrap();
    let found = |host: Host, kept: Value| {
        fs::write(host.home.path().join("kept.json"), kept.to_string()).unwrap();
        let host = host.set("GOOGLE_APPLICATION_CREDENTIALS", "~/kept.json");
        (host.found(), host)
    };
    let (by_file, host) = found(host, external(json!({ "file": "~/own" }), None));
    assert_eq!(by_file.unwrap().credential.text(), "t1");
    let by_url = json!({ "url": format!("{}/own", tokens.url), "headers": { "X-Own": "yes" },
                         "format": { "type": "json", "subject_token_field_name": "value" } });
    let (by_url, host) = found(host, external(by_url, Some(account)));
    let by_url = by_url.unwrap();
    assert_eq!((by_url.credential.text(), by_url.identity.as_str()), ("t2", "a@b"));
    let (by_program, _) = found(host, external(json!({ "executable": { "command": "x" } }), None));
    assert!(by_program.unwrap_err().contains("which weir does not"));
}

#[test]
fn the_metadata_of_the_host_are_asked_last() {
    let mock = Mock::new(|asked: &Asked| match asked.field("metadata-flavor") {
        "Google" => said(200, r#"{"access_token":"t3","expires_in":100}"#),
        _ => said(403, ""),
    });
    let host = Host::new(None)
        .set("NO_GCE_CHECK", "")
        .set("GCE_METADATA_HOST", mock.url.trim_start_matches("http://"));
    assert_eq!(host.found().unwrap().credential.text(), "t3");
    assert!(mock.asked()[0].target.ends_with("/service-accounts/default/token"));
    let host = host.set("GCE_METADATA_HOST", "127.0.0.1:1");
    assert!(host.found().unwrap_err().contains("the metadata of this host (cannot connect"));
}
