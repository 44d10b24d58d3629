//! Variables, and services on loopback.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::mock::{Asked, Mock, said};

/// What is base64 and no key of anybody's.
const KEY: &str = "Z2VoZWltZ2VoZWltZ2VoZWlt";

fn environment(variables: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    let usual = [("no_proxy", "127.0.0.1"), ("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1")];
    let all = usual.iter().chain(variables).map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let all: HashMap<String, String> = all.collect();
    move |name| all.get(name).cloned()
}

fn found(account: &str, variables: &[(&str, &str)]) -> Result<Arc<Found<AzureSigner>>, String> {
    let environment = environment(variables);
    let provider = Azure::read(&environment).and_then(|azure| azure.provider(account, &Network::default()));
    provider.and_then(|provider| provider.current()).map_err(|error| {
        let text = format!("{error} {error:?}");
        assert!(!text.contains(KEY) && !text.contains("geheim"), "{text}");
        error.to_string()
    })
}

#[test]
fn a_key_and_a_signature_are_of_their_account() {
    let key = found("acc", &[("AZURE_STORAGE_ACCOUNT", "acc"), ("AZURE_STORAGE_KEY", KEY)]).unwrap();
    assert!(matches!(key.credential, AzureSigner::Key(_)));
    assert_eq!(key.identity, "the key of the account acc");
    assert!(!format!("{key:?} {:?}", key.credential).contains(KEY));
    let why = found("other", &[("AZURE_STORAGE_ACCOUNT", "acc"), ("AZURE_STORAGE_KEY", KEY)]).unwrap_err();
    for part in ["AZURE_STORAGE_KEY", "the identity of this host", "az, which is not installed", "--no-sign"]
    {
        assert!(why.contains(part), "{part} in {why}");
    }
    let sas = found("acc", &[("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=geheim")]).unwrap();
    assert!(sas.credential == AzureSigner::Sas("sv=1&sig=geheim".to_owned()));
    assert!(found("acc", &[("AZURE_STORAGE_SAS_TOKEN", "geheim")]).unwrap_err().contains("sv=...&sig=..."));
    assert!(found("acc", &[("AZURE_STORAGE_KEY", "!geheim")]).unwrap_err().contains("it is no key"));
}

#[test]
fn a_connection_string_says_all() {
    let text =
        format!("DefaultEndpointsProtocol=http;AccountName=acc;AccountKey={KEY};EndpointSuffix=example.net;");
    let variables = [("AZURE_STORAGE_CONNECTION_STRING", text.as_str())];
    let environment = environment(&variables);
    let azure = Azure::read(&environment).unwrap();
    assert_eq!(azure.account().as_deref(), Some("acc"));
    assert_eq!(azure.endpoint("acc").as_deref(), Some("http://acc.blob.example.net"));
    assert_eq!(azure.endpoint("other"), None);
    assert!(matches!(found("acc", &variables).unwrap().credential, AzureSigner::Key(_)));
    let emulator = [("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true")];
    assert!(found("devstoreaccount1", &emulator).is_ok());
    // Of a signature the portal names the endpoint, and no account.
    for (endpoint, account) in [
        ("https://acc.blob.core.windows.net/", "acc"),
        ("http://127.0.0.1:10000/acc", "acc"),
        ("http://localhost:10000/acc/", "acc"),
    ] {
        let text = format!("BlobEndpoint={endpoint};SharedAccessSignature=sv=1&sig=geheim");
        let variables = [("AZURE_STORAGE_CONNECTION_STRING", text.as_str())];
        let environment = self::environment(&variables);
        let azure = Azure::read(&environment).unwrap();
        assert_eq!(azure.account().as_deref(), Some(account));
        assert_eq!(azure.endpoint(account).as_deref(), Some(endpoint));
        assert!(matches!(found(account, &variables).unwrap().credential, AzureSigner::Sas(_)));
    }
    assert_eq!(account_of("http://127.0.0.1:10000"), None);
    let bad = [("AZURE_STORAGE_CONNECTION_STRING", "geheim")];
    assert!(found("acc", &bad).unwrap_err().contains("expected NAME=VALUE"));
}

#[test]
fn clients_of_a_directory_get_tokens() {
    let mock = Mock::new(|asked: &Asked| {
        let has = |part: &str| asked.body.contains(part);
        assert_eq!(asked.target, "/tenant/oauth2/v2.0/token");
        assert!(
            has("scope=https%3A%2F%2Fstorage.azure.com%2F.default") && has("client_id=c1"),
            "{}",
            asked.body
        );
        match has("client_secret=geheim") || has("client_assertion=geheim-jwt") {
            true => said(200, r#"{"token_type":"Bearer","expires_in":3599,"access_token":"t1"}"#),
            false => {
                said(401, r#"{"error":"invalid_client","error_description":"geheim-wrong is no secret"}"#)
            }
        }
    });
    let client = |own: (&str, &str)| {
        let all = [
            ("AZURE_TENANT_ID", "tenant"),
            ("AZURE_CLIENT_ID", "c1"),
            ("AZURE_AUTHORITY_HOST", &mock.url),
            own,
        ];
        found("acc", &all)
    };
    let secret = client(("AZURE_CLIENT_SECRET", "geheim")).unwrap();
    assert_eq!(secret.identity, "the client c1");
    assert!(secret.credential == AzureSigner::Token(Bearer::new("t1").unwrap()));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    fs::write(&path, "geheim-jwt\n").unwrap();
    assert!(client(("AZURE_FEDERATED_TOKEN_FILE", path.to_str().unwrap())).is_ok());
    fs::write(&path, "geheim-wrong").unwrap();
    let why = client(("AZURE_FEDERATED_TOKEN_FILE", path.to_str().unwrap())).unwrap_err();
    assert!(why.contains("AZURE_FEDERATED_TOKEN_FILE") && why.contains("REDACTED is no secret"), "{why}");
}

/// Credentials found further on would be someone else's. The client's id by itself names one of the host's
/// identities, and a cluster's token without a client is ignored.
#[test]
fn a_secret_without_its_client_is_an_error() {
    let (id, tenant) = (("AZURE_CLIENT_ID", "c"), ("AZURE_TENANT_ID", "t"));
    let (secret, token) = (("AZURE_CLIENT_SECRET", "geheim"), ("AZURE_FEDERATED_TOKEN_FILE", "/none"));
    let certificate = ("AZURE_CLIENT_CERTIFICATE_PATH", "/none");
    for (variables, says) in [
        (&[secret, id][..], "AZURE_CLIENT_SECRET is set and AZURE_TENANT_ID is not"),
        (&[secret, tenant], "AZURE_CLIENT_SECRET is set and AZURE_CLIENT_ID is not"),
        (&[token, tenant], "the identity of this host"),
        (&[token, id], "the identity of this host"),
        (&[certificate, id, tenant], "weir does not sign by a certificate"),
        (&[id, tenant], "the identity of this host"),
        (&[id], "the identity of this host"),
    ] {
        let why = found("acc", variables).unwrap_err();
        assert!(why.contains(says), "{variables:?}: {why}");
    }
}

#[test]
fn a_host_an_app_service_and_az_give_tokens() {
    let mock = Mock::new(|asked: &Asked| match (asked.field("metadata"), asked.field("x-identity-header")) {
        ("true", _) => said(200, r#"{"access_token":"t-host","expires_in":"3599"}"#),
        (_, "geheim") => said(200, r#"{"access_token":"t-app","expires_on":"4070908800"}"#),
        _ => said(400, ""),
    });
    let token = |variables: &[(&str, &str)]| match &found("acc", variables)?.credential {
        AzureSigner::Token(token) => Ok(token.text().to_owned()),
        _ => Err("no token".to_owned()),
    };
    assert_eq!(token(&[("AZURE_POD_IDENTITY_AUTHORITY_HOST", &mock.url)]).unwrap(), "t-host");
    let app = format!("{}/msi", mock.url);
    assert_eq!(token(&[("IDENTITY_ENDPOINT", &app), ("IDENTITY_HEADER", "geheim")]).unwrap(), "t-app");
    let dir = tempfile::tempdir().unwrap();
    let az = dir.path().join("az");
    let write = |text: &str| {
        fs::write(&az, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&az, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let path = dir.path().to_str().unwrap();
    write(r#"echo '{"accessToken":"t-az","expires_on":4070908800}'"#);
    assert_eq!(token(&[("PATH", path)]).unwrap(), "t-az");
    write("echo 'Please run az login to setup account.' >&2; exit 1");
    let why = token(&[("PATH", path)]).unwrap_err();
    assert!(why.contains("az (az login)") && why.contains("Please run az login"), "{why}");
}
